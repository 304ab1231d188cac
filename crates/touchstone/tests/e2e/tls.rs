//! TLS where it belongs, where it does not, and with certificates that nobody vouches for.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use touchstone_model::{Origin, Phase};
use touchstone_testkit::{Kind, TcpStub, server};

use crate::harness::{Engine, bench, context};

const LOAD: &str = "--arrival constant:30/s --duration 600ms --warm-up 100ms --drain 3s --input-tokens 4 \
                    --output-tokens 1 --timeout connect=800ms,first=2s";
const STREAM: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n\
                      data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";

/// An OpenAI server behind TLS whose every answer is one token.
struct TlsServer {
    addr: SocketAddr,
    certificate: String,
    stop: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl TlsServer {
    fn start(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let addr = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (config, stopped) = (Arc::new(config), Arc::clone(&stop));
        let acceptor = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let (config, stopped) = (Arc::clone(&config), Arc::clone(&stopped));
                        std::thread::spawn(move || drop(serve(stream, config, &stopped)));
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        Self { addr, certificate: certificate.pem(), stop, acceptor: Some(acceptor) }
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.acceptor.take().unwrap().join().unwrap();
    }
}

/// Answers requests on one connection until the peer leaves; a failed handshake ends it as it does in real servers.
fn serve(
    stream: std::net::TcpStream,
    config: Arc<ServerConfig>,
    stopped: &AtomicBool,
) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    let mut unread: Vec<u8> = Vec::new();
    while !stopped.load(Ordering::Relaxed) {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        unread.extend(&buffer[..count]);
        let text = String::from_utf8_lossy(&unread).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok()
        });
        if body.len() < length.unwrap_or(0) {
            continue;
        }
        let (kind, answer) = if head.starts_with("GET") {
            ("application/json", r#"{"data":[{"id":"m"}]}"#)
        } else {
            ("text/event-stream", STREAM)
        };
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{answer}",
            answer.len()
        );
        stream.write_all(answer.as_bytes())?;
        stream.flush()?;
        unread.clear();
    }
    Ok(())
}

#[test]
fn https_works_with_the_authority_named() {
    let server = TlsServer::start("localhost");
    let context = context();
    context.write("ca.pem", &server.certificate).unwrap();
    let target = format!("openai-chat=https://localhost:{}", server.addr.port());
    let benched = bench(&context, &target, &format!("{LOAD} --ca-file ca.pem"));
    let document = &benched.document;
    assert!(document.errors.is_empty(), "{}", benched.told());
    assert_eq!((document.counts.intended, document.counts.completed), (18, 18), "{}", benched.told());
    assert_eq!(document.counts.output_tokens, Some(18), "{}", benched.told());
    assert_eq!(document.target.model.as_deref(), Some("m"), "found through TLS");
    assert!(benched.json["metrics"]["connect"]["p50"].as_f64().unwrap() > 0.0);
}

#[test]
fn certificates_that_do_not_hold_are_named() {
    let server = TlsServer::start("localhost");
    let context = context();
    context.write("ca.pem", &server.certificate).unwrap();
    let port = server.addr.port();
    for (host, flags, kind, advice) in [
        ("localhost", "", "tls-unknown-issuer", "--ca-file"),
        ("127.0.0.1", "--ca-file ca.pem", "tls-name", "name"),
    ] {
        let target = format!("openai-chat=https://{host}:{port}");
        let benched = bench(&context, &target, &format!("{LOAD} {flags}"));
        assert_eq!(benched.kinds(), [format!("{kind} scenario connect")], "{}", benched.told());
        assert!(benched.error(kind).advice.contains(advice), "{}", benched.told());
        assert_eq!(benched.code, Some(1), "{}", benched.told());
    }
    context.write("wrong.pem", "no certificate").unwrap();
    let line =
        format!("bench --target openai-chat=https://localhost:{port} {LOAD} --ca-file wrong.pem --json -");
    let done = context.run(line.split_whitespace()).unwrap();
    assert_eq!((done.code(), done.stdout.as_str()), (Some(2), ""), "{}", done.snapshot());
}

#[test]
fn tls_to_ports_that_do_not_speak_it() {
    let engine = Engine::start("flat", "");
    let context = context();
    let closing = TcpStub::closing().unwrap();
    for (target, flags) in [
        (format!("openai-chat=https://{}", engine.address), "--input-tokens 4 --output-tokens 1"),
        (format!("openai-chat=https://{}", closing.addr()), "--input-tokens 4 --output-tokens 1"),
    ] {
        let load = LOAD.replace("--input-tokens 4", "").replace("--output-tokens 1", "");
        let benched = bench(&context, &target, &format!("{load} {flags}"));
        assert_eq!(benched.kinds(), ["not-tls scenario connect"], "{target}: {}", benched.told());
        assert!(benched.error("not-tls").advice.contains("without TLS"), "{}", benched.told());
        assert_eq!(benched.code, Some(1), "{}", benched.told());
        assert_eq!(benched.document.counts.completed, 0, "{}", benched.told());
    }
    // Redis waits for the end of a line that never comes.
    let redis = server!(Kind::Redis);
    let load = LOAD.replace("--input-tokens 4", "").replace("--output-tokens 1", "");
    let benched = bench(&context, &format!("resp=tls://{}", redis.addr()), &format!("{load} --keys 10"));
    assert_eq!(benched.kinds(), ["timeout-tls target connect"], "{}", benched.told());
    assert!(benched.error("timeout-tls").advice.contains("without TLS"), "{}", benched.told());
    let nats = server!(Kind::Nats);
    let load = LOAD.replace("--input-tokens 4", "").replace("--output-tokens 1", "");
    let benched = bench(&context, &format!("nats=tls://{}", nats.addr()), &load);
    assert_eq!(benched.kinds(), ["not-tls scenario connect"], "{}", benched.told());
}

#[test]
fn no_tls_to_ports_that_want_it() {
    let server = TlsServer::start("localhost");
    let context = context();
    let benched = bench(&context, &format!("openai-chat=http://{}", server.addr), LOAD);
    assert_eq!(benched.code, Some(1), "{}", benched.told());
    assert_eq!(benched.document.counts.completed, 0, "{}", benched.told());
    for error in &benched.document.errors {
        assert!(error.advice.contains("https://") || error.advice.contains("TLS"), "{}", benched.told());
        assert!(matches!(error.phase, Phase::Headers | Phase::Decode), "{}", benched.told());
        assert!(matches!(error.origin, Origin::Target | Origin::Scenario), "{}", benched.told());
    }
    let load = LOAD.replace("--input-tokens 4", "").replace("--output-tokens 1", "");
    let benched = bench(&context, &format!("resp={}", server.addr), &format!("{load} --keys 10"));
    assert_eq!(benched.code, Some(1), "{}", benched.told());
    assert!(!benched.document.errors.is_empty(), "{}", benched.told());
}
