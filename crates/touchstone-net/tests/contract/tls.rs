//! Contract of TLS connections: own authority, the ways in which certificates are wrong, peers without TLS.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::support::{establish, loopback, next_events, read_until};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use touchstone_net::{
    Conn, ConnState, ConnectError, Endpoint, Poller, RecvBuf, TlsConfig, TlsConfigError, Token, mono_ns,
};

type Session = StreamOwned<ServerConnection, TcpStream>;

/// A certificate authority made for one test. All have the same distinguished name unless `named`.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        Self::named("authority of a test")
    }

    fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    fn pem(&self) -> String {
        self.issuer.pem()
    }

    fn server(&self, name: &str, adjust: impl FnOnce(&mut CertificateParams)) -> ServerConfig {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        adjust(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )
            .unwrap()
    }
}

/// A TLS server that takes one connection and hands it to `serve` on a thread of its own.
struct TlsServer {
    port: u16,
    thread: JoinHandle<()>,
}

impl TlsServer {
    fn start(config: ServerConfig, serve: impl FnOnce(Session) + Send + 'static) -> Self {
        Self::start_plain(move |socket| {
            let session = ServerConnection::new(Arc::new(config)).unwrap();
            serve(StreamOwned::new(session, socket));
        })
    }

    fn start_plain(serve: impl FnOnce(TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind(loopback()).unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || serve(listener.accept().unwrap().0));
        Self { port, thread }
    }

    fn connect(&self, tls: TlsConfig, poller: &mut Poller) -> Result<Conn, ConnectError> {
        establish(&Endpoint::tcp("127.0.0.1", self.port).with_tls(tls), poller, Token(1))
    }
}

/// A server whose handshake is expected to fail.
fn fails(mut session: Session) {
    let mut buf = [0; 16];
    assert!(session.read(&mut buf).is_err());
}

fn error_of(config: ServerConfig, ca_pem: &str, name: &str) -> ConnectError {
    let server = TlsServer::start(config, fails);
    let tls = TlsConfig::client(Some(ca_pem.as_bytes()), name).unwrap();
    let error = server.connect(tls, &mut Poller::new().unwrap()).unwrap_err();
    server.thread.join().unwrap();
    error
}

#[test]
fn an_own_authority_is_trusted_and_data_flow() {
    let authority = Authority::new();
    let mut config = authority.server("localhost", |_| ());
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let server = TlsServer::start(config, |mut session| {
        let mut buf = [0; 4];
        session.read_exact(&mut buf).unwrap();
        session.write_all(&buf).unwrap();
        session.conn.send_close_notify();
        session.flush().unwrap();
    });
    let tls = TlsConfig::client(Some(authority.pem().as_bytes()), "localhost").unwrap().with_alpn(&[b"h2"]);
    let mut poller = Poller::new().unwrap();
    let before = mono_ns();
    let mut conn = server.connect(tls, &mut poller).unwrap();
    let mut scratch = RecvBuf::new();
    assert_eq!(conn.state(), ConnState::Open);
    assert_eq!(conn.alpn(), Some(&b"h2"[..]));
    let timing = conn.timing();
    assert!(timing.connected_ns.unwrap() >= before);
    assert!(timing.tls_ns.unwrap() + scratch.clock_uncertainty_ns() + 10_000 >= timing.connected_ns.unwrap());

    conn.out().extend_from_slice(b"ping");
    let written = conn.write_pending().unwrap();
    assert_eq!(written.bytes_left, 0);
    assert!(written.sent_ns.unwrap() >= timing.connected_ns.unwrap());
    let (got, ended) = read_until(&mut conn, &mut poller, &mut scratch, |_| false);
    assert_eq!((got.as_slice(), ended), (&b"ping"[..], true));
    let again = conn.read(&mut scratch, &mut |_, _, _| ()).unwrap();
    assert!(again.eof && !again.truncated);
    server.thread.join().unwrap();
}

#[test]
fn the_first_bytes_may_come_with_the_handshake() {
    let authority = Authority::new();
    let server = TlsServer::start(authority.server("localhost", |_| ()), |mut session| {
        session.write_all(b"INFO {}").unwrap();
        session.flush().unwrap();
        let mut buf = [0; 16];
        assert_eq!(session.read(&mut buf).unwrap(), 0);
    });
    let tls = TlsConfig::client(Some(authority.pem().as_bytes()), "localhost").unwrap();
    let mut poller = Poller::new().unwrap();
    let mut conn = server.connect(tls, &mut poller).unwrap();
    let mut scratch = RecvBuf::new();
    let (got, ended) = read_until(&mut conn, &mut poller, &mut scratch, |b| b.len() >= 7);
    assert_eq!((got.as_slice(), ended), (&b"INFO {}"[..], false));
    // The closing message reaches the server as a proper end.
    conn.shutdown(Shutdown::Write).unwrap();
    server.thread.join().unwrap();
}

#[test]
fn a_large_exchange_arrives_whole() {
    const TOTAL: usize = 8 << 20;
    let authority = Authority::new();
    let (start_reading, may_read) = std::sync::mpsc::channel();
    let server = TlsServer::start(authority.server("localhost", |_| ()), move |mut session| {
        session.conn.complete_io(&mut session.sock).unwrap();
        may_read.recv().unwrap();
        let mut all = vec![0; TOTAL];
        session.read_exact(&mut all).unwrap();
        session.write_all(&all).unwrap();
        session.flush().unwrap();
    });
    let tls = TlsConfig::client(Some(authority.pem().as_bytes()), "localhost").unwrap();
    let mut poller = Poller::new().unwrap();
    let mut conn = server.connect(tls, &mut poller).unwrap();
    let payload: Vec<u8> = (0..TOTAL).map(|i| (i % 253) as u8).collect();
    conn.out().extend_from_slice(&payload);
    let mut scratch = RecvBuf::new();
    let mut events = Vec::new();
    // Nobody reads: the kernel's buffers fill up.
    let first = conn.write_pending().unwrap();
    assert!(first.bytes_left > 0 && first.sent_ns.is_none(), "{first:?}");
    start_reading.send(()).unwrap();
    loop {
        let written = conn.write_pending().unwrap();
        assert_eq!(written.sent_ns.is_some(), written.bytes_left == 0);
        if written.sent_ns.is_some() {
            break;
        }
        conn.read(&mut scratch, &mut |_, _, _| panic!("nothing is sent yet")).unwrap();
        next_events(&mut poller, &mut events);
    }
    let (got, _) = read_until(&mut conn, &mut poller, &mut scratch, |b| b.len() >= TOTAL);
    assert!(got == payload);
    server.thread.join().unwrap();
}

#[test]
fn a_stream_cut_without_the_closing_message_is_marked() {
    let authority = Authority::new();
    let server = TlsServer::start(authority.server("localhost", |_| ()), |mut session| {
        session.write_all(b"half an ans").unwrap();
        session.flush().unwrap();
        session.sock.shutdown(Shutdown::Write).unwrap();
    });
    let tls = TlsConfig::client(Some(authority.pem().as_bytes()), "localhost").unwrap();
    let mut poller = Poller::new().unwrap();
    let mut conn = server.connect(tls, &mut poller).unwrap();
    let mut scratch = RecvBuf::new();
    let (got, ended) = read_until(&mut conn, &mut poller, &mut scratch, |_| false);
    assert_eq!((got.as_slice(), ended), (&b"half an ans"[..], true));
    assert!(conn.read(&mut scratch, &mut |_, _, _| ()).unwrap().truncated);
    server.thread.join().unwrap();
}

#[test]
fn a_certificate_for_another_name_is_told() {
    let authority = Authority::new();
    let error = error_of(authority.server("other.example", |_| ()), &authority.pem(), "localhost");
    let ConnectError::NameMismatch { server_name, presented } = &error else { panic!("{error:?}") };
    assert_eq!(server_name, "localhost");
    assert!(presented.iter().any(|name| name.contains("other.example")), "{presented:?}");
}

#[test]
fn an_authority_in_place_of_a_server_is_told() {
    let authority = Authority::new();
    let as_server = |params: &mut CertificateParams| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let error = error_of(authority.server("localhost", as_server), &authority.pem(), "localhost");
    assert!(
        matches!(&error, ConnectError::AuthorityAsServer { server_name } if server_name == "localhost"),
        "{error:?}"
    );
}

#[test]
fn an_unknown_issuer_is_told() {
    let authority = Authority::new();
    // Another authority, and one made anew under the same name, as happens with throw-away authorities.
    for trusted in [Authority::named("somebody else"), Authority::new()] {
        let error = error_of(authority.server("localhost", |_| ()), &trusted.pem(), "localhost");
        assert!(
            matches!(&error, ConnectError::UnknownIssuer { server_name } if server_name == "localhost"),
            "{error:?}"
        );
    }
    // The public roots do not know it either.
    let server = TlsServer::start(authority.server("localhost", |_| ()), fails);
    let public = TlsConfig::client(None, "localhost").unwrap();
    let error = server.connect(public, &mut Poller::new().unwrap()).unwrap_err();
    assert!(matches!(error, ConnectError::UnknownIssuer { .. }), "{error:?}");
    server.thread.join().unwrap();
}

#[test]
fn certificates_out_of_their_time_are_told() {
    let authority = Authority::new();
    let past = authority.server("localhost", |params| {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
    });
    let error = error_of(past, &authority.pem(), "localhost");
    assert!(matches!(error, ConnectError::CertificateExpired { .. }), "{error:?}");
    let future = authority.server("localhost", |params| params.not_before = date_time_ymd(4000, 1, 1));
    let error = error_of(future, &authority.pem(), "localhost");
    assert!(matches!(error, ConnectError::CertificateNotYetValid { .. }), "{error:?}");
}

#[test]
fn a_plain_http_port_is_told() {
    let server = TlsServer::start_plain(|mut socket| {
        let mut buf = [0; 64];
        assert!(socket.read(&mut buf).unwrap() > 0);
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        // Until the client has seen it: closing with unread bytes would reset the connection.
        while socket.read(&mut buf).unwrap_or(0) > 0 {}
    });
    let tls = TlsConfig::client(None, "localhost").unwrap();
    let error = server.connect(tls, &mut Poller::new().unwrap()).unwrap_err();
    assert!(matches!(error, ConnectError::NotTls { http: true, .. }), "{error:?}");
    assert!(error.to_string().ends_with("does not speak TLS: it answered in plain HTTP"), "{error}");
    server.thread.join().unwrap();
}

#[test]
fn a_plaintext_greeting_is_told() {
    let server = TlsServer::start_plain(|mut socket| {
        socket.write_all(b"INFO {\"server_id\":\"x\"}\r\n").unwrap();
        let mut buf = [0; 64];
        while socket.read(&mut buf).unwrap_or(0) > 0 {}
    });
    let tls = TlsConfig::client(None, "localhost").unwrap();
    let error = server.connect(tls, &mut Poller::new().unwrap()).unwrap_err();
    assert!(matches!(error, ConnectError::NotTls { http: false, .. }), "{error:?}");
    server.thread.join().unwrap();
}

#[test]
fn a_silent_hang_up_is_told() {
    let server = TlsServer::start_plain(|mut socket| {
        let mut buf = [0; 4096];
        assert!(socket.read(&mut buf).unwrap() > 0);
    });
    let tls = TlsConfig::client(None, "localhost").unwrap();
    let error = server.connect(tls, &mut Poller::new().unwrap()).unwrap_err();
    assert!(matches!(error, ConnectError::ClosedInHandshake { silent: true, .. }), "{error:?}");
    server.thread.join().unwrap();
}

#[test]
fn unusable_configurations_are_refused_with_the_reason() {
    let none = TlsConfig::client(Some(b"no certificate here"), "localhost").unwrap_err();
    assert!(matches!(none, TlsConfigError::NoCertificate), "{none:?}");
    let torn = b"-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n";
    let torn = TlsConfig::client(Some(torn), "localhost").unwrap_err();
    assert!(matches!(torn, TlsConfigError::Pem { .. }), "{torn:?}");
    let empty = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let empty = TlsConfig::client(Some(empty), "localhost").unwrap_err();
    assert!(matches!(empty, TlsConfigError::BadCertificate { index: 0, .. }), "{empty:?}");
    let name = TlsConfig::client(None, "not a name").unwrap_err();
    assert!(matches!(name, TlsConfigError::ServerName { .. }), "{name:?}");
    assert_eq!(TlsConfig::client(None, "::1").unwrap().server_name(), "::1");
}
