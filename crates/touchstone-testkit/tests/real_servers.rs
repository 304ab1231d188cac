//! Starts each real server and speaks its protocol by hand, so that what the other tests build on is known to work.
//! Each test that lacks its server prints one `SKIPPED:` line.
#![expect(
    clippy::unwrap_used,
    reason = "clippy's exemption of tests does not reach the functions they share"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::{Value, json};
use touchstone_testkit::servers::LlamaOptions;
use touchstone_testkit::tiny_model::SEED;
use touchstone_testkit::{Kind, Server, TinyModel, server};

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.addr()).unwrap();
    // A guard against a hang, generous because the machine may be busy.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

#[test]
fn redis_keeps_a_value_and_is_gone_after_the_drop() {
    let redis = server!(Kind::Redis);
    let mut stream = connect(&redis);
    stream.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nhi\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n").unwrap();
    let mut answer = [0; 13];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+OK\r\n$2\r\nhi\r\n");
    let (pid, dir) = (redis.pid(), redis.dir().to_owned());
    drop(redis);
    assert_eq!(kill(Pid::from_raw(pid.try_into().unwrap()), None), Err(Errno::ESRCH));
    assert!(!dir.exists());
    assert_eq!(stream.read(&mut answer).unwrap_or(0), 0, "nothing answers any more");
}

#[test]
fn two_servers_run_beside_each_other_and_one_can_be_killed() {
    let mut first = server!(Kind::Redis);
    let second = server!(Kind::Redis);
    assert_ne!(first.port(), second.port());
    first.kill().unwrap();
    assert!(TcpStream::connect(first.addr()).is_err());
    let mut stream = connect(&second);
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

#[test]
fn nats_delivers_a_message_also_after_a_pause() {
    let nats = server!(Kind::Nats);
    let mut stream = connect(&nats);
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().starts_with("INFO "));
    nats.pause().unwrap();
    stream
        .write_all(b"CONNECT {\"verbose\":false}\r\nSUB greetings 1\r\nPUB greetings 5\r\nhello\r\n")
        .unwrap();
    nats.resume().unwrap();
    assert_eq!(lines.next().unwrap(), "MSG greetings 1 5");
    assert_eq!(lines.next().unwrap(), "hello");
}

/// Posts JSON and returns the body, with the chunked framing taken off.
fn post(server: &Server, path: &str, body: &Value) -> String {
    let body = body.to_string();
    let mut stream = connect(server);
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        dechunk(body)
    } else {
        body.to_owned()
    }
}

fn dechunk(mut body: &str) -> String {
    let mut text = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n").unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return text;
        }
        text.push_str(&rest[..size]);
        body = rest[size..].strip_prefix("\r\n").unwrap();
    }
}

/// The JSON documents of a stream of server-sent events that ends with `[DONE]`.
fn events(body: &str) -> Vec<Value> {
    let mut data: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(data.pop(), Some("[DONE]"), "{body}");
    data.into_iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

fn contents(events: &[Value], pointer: &str) -> Vec<String> {
    events
        .iter()
        .filter_map(|event| event.pointer(pointer)?.as_str())
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn llama_cpp_streams_the_tiny_model() {
    let llama = server!(Kind::LlamaCpp);
    let request = json!({
        "prompt": "Hello world", "max_tokens": 24, "temperature": 0, "stream": true, "cache_prompt": false
    });
    let body = post(&llama, "/v1/completions", &request);
    let text = contents(&events(&body), "/choices/0/text");
    assert_eq!(text.len(), 24, "one chunk a token, and no early end: {body}");
    assert!(text.concat().bytes().all(|b| (b' '..=b'~').contains(&b)), "{text:?}");
    let again = post(&llama, "/v1/completions", &request);
    assert_eq!(contents(&events(&again), "/choices/0/text"), text);

    let request = json!({
        "messages": [{"role": "user", "content": "Hello world"}], "max_tokens": 24, "stream": true, "seed": 1
    });
    let body = post(&llama, "/v1/chat/completions", &request);
    let text = contents(&events(&body), "/choices/0/delta/content");
    assert_eq!(text.len(), 24, "{body}");
}

#[test]
fn llama_cpp_cuts_text_as_our_tokenizer_does() {
    let llama = server!(Kind::LlamaCpp);
    let model = TinyModel::new(SEED);
    for text in ["Hello world", "vaneko  BIRU, 2048 tokens? é中", "line one\n\n line two\tend "] {
        let body = post(&llama, "/tokenize", &json!({"content": text, "add_special": false}));
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["tokens"], json!(model.tokenizer().encode(text)), "{text:?}");
    }
    assert!(model.tokenizer().encode("Hello world").len() <= 4, "merges are used");
}

#[test]
fn llama_cpp_takes_the_slots_and_context_asked_for() {
    let options = LlamaOptions { parallel: 2, context: 1024, ..LlamaOptions::default() };
    let llama = server!(Kind::LlamaCpp, Server::llama_cpp_with(&options));
    let mut stream = connect(&llama);
    stream.write_all(b"GET /slots HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let slots: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let contexts: Vec<_> = slots.as_array().unwrap().iter().map(|slot| slot["n_ctx"].as_u64()).collect();
    assert_eq!(contexts, [Some(512), Some(512)]);
}
