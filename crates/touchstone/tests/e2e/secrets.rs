//! Keys and header values reach the target and nothing else: not the store, not the pages, not the streams.

use touchstone_testkit::{Finished, Step, TcpStub, TestContext};

use crate::harness::{bench, check, context, files};

const KEY: &str = "sk-verysecret-0123456789";
const TENANT: &str = "tenant-token-abcdef";
const LOAD: &str = "--arrival constant:40/s --duration 500ms --warm-up 100ms";

/// Nothing that was printed or kept holds a secret.
fn check_silence(context: &TestContext, done: &Finished, secrets: &[&str]) {
    check(done);
    for secret in secrets {
        assert!(!done.stdout.contains(secret), "on standard output: {}", done.stdout);
        assert!(!done.stderr.contains(secret), "on standard error: {}", done.stderr);
        for file in files(context.dir()) {
            let bytes = std::fs::read(&file).unwrap();
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "in {}", file.display());
        }
    }
}

/// A server that repeats what it was sent in every place where a server can.
fn echoing(status: &str) -> TcpStub {
    let body = format!(
        r#"{{"error":{{"message":"bad key Bearer {KEY} for {TENANT}","type":"auth"}},"data":[{{"id":"m","owned_by":"{TENANT}"}}]}}"#
    );
    let answer = format!(
        "HTTP/1.1 {status}\r\nserver: echo {KEY}\r\nwww-authenticate: Bearer {KEY}\r\nlocation: /login?key={KEY}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    TcpStub::start(vec![Step::read_head(), Step::send(&answer), Step::Repeat]).unwrap()
}

#[test]
fn a_key_that_the_server_repeats_is_blotted_out() {
    for status in ["401 Unauthorized", "200 OK", "302 Found", "500 Oops"] {
        let stub = echoing(status);
        let context = context().variable("MY_KEY", KEY);
        let line = format!(
            "bench --target openai-chat=http://{} {LOAD} --api-key-env MY_KEY --header x-tenant:{TENANT} --json -",
            stub.addr()
        );
        let done = context.run(line.split_whitespace()).unwrap();
        assert_eq!(done.code(), Some(1), "{status}: {}", done.snapshot());
        let sent = stub.received().concat();
        let sent = String::from_utf8_lossy(&sent);
        assert!(sent.contains(&format!("Bearer {KEY}")), "the target gets the key: {sent}");
        assert!(sent.contains(TENANT), "and the header: {sent}");
        assert!(!files(context.dir()).is_empty(), "there is a record to look into");
        check_silence(&context, &done, &[KEY, TENANT]);
    }
}

#[test]
fn a_word_of_a_header_that_the_server_repeats_alone_is_blotted_out() {
    const TOKEN: &str = "hdr-secret-98765";
    let body = format!(r#"{{"error":{{"message":"Incorrect API key provided: {TOKEN}"}}}}"#);
    let answer = format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let stub = TcpStub::start(vec![Step::read_head(), Step::send(&answer), Step::Repeat]).unwrap();
    let context = context();
    let target = format!("openai-chat=http://{}", stub.addr());
    let header = format!("Authorization: Bearer {TOKEN}");
    let mut words = vec!["bench", "--target", &target, "--header", &header, "--model", "m", "--json", "-"];
    words.extend(LOAD.split_whitespace());
    let done = context.run(words).unwrap();
    assert_eq!(done.code(), Some(1), "{}", done.snapshot());
    check_silence(&context, &done, &[TOKEN]);
}

#[test]
fn passwords_and_tokens_of_caches_and_queues_are_blotted_out() {
    for (protocol, greeting, answer) in [
        ("resp", "", format!("-WRONGPASS invalid password {KEY}\r\n")),
        ("nats", "INFO {\"auth_required\":true}\r\n", format!("-ERR 'Authorization Violation {KEY}'\r\n")),
    ] {
        let stub = TcpStub::start(vec![
            Step::send(greeting),
            Step::ReadUntil(b"\r\n".to_vec()),
            Step::send(&answer),
            Step::Hang,
        ])
        .unwrap();
        let context = context().variable("MY_KEY", KEY);
        let line = format!(
            "bench --target {protocol}={} {LOAD} --timeout connect=400ms --api-key-env MY_KEY --json -",
            stub.addr()
        );
        let done = context.run(line.split_whitespace()).unwrap();
        assert_eq!(done.code(), Some(1), "{protocol}: {}", done.snapshot());
        let sent = String::from_utf8_lossy(&stub.received().concat()).into_owned();
        assert!(sent.contains(KEY), "{protocol}: the target gets it: {sent}");
        check_silence(&context, &done, &[KEY]);
    }
}

#[test]
fn a_killed_run_keeps_no_secret_either() {
    let stub = echoing("401 Unauthorized");
    let context = context().variable("MY_KEY", KEY);
    let line = format!(
        "bench --target openai-chat=http://{} --arrival constant:2/s --duration 60s --api-key-env MY_KEY --model m",
        stub.addr()
    );
    let mut running = context.spawn(line.split_whitespace()).unwrap();
    running.wait_for(|text| text.contains("warm-up").then_some(())).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    running.kill().unwrap();
    let done = running.finish().unwrap();
    check_silence(&context, &done, &[KEY]);
}

#[test]
fn a_wrong_header_or_variable_is_refused_without_repeating_it() {
    let context = context().variable("MY_KEY", "two\nlines-of-secret");
    let target = "openai-chat=http://127.0.0.1:1";
    for (flags, says) in [
        ("--api-key-env NOT_SET", "`NOT_SET` is not set"),
        ("--api-key-env MY_KEY", "control character"),
        ("--header no-colon-but-secret", "header"),
        ("--header content-length:secret", "frames the message"),
    ] {
        let line = format!("bench --target {target} {LOAD} --model m {flags} --json -");
        let done = context.run(line.split_whitespace()).unwrap();
        assert_eq!((done.code(), done.stdout.as_str()), (Some(2), ""), "{}", done.snapshot());
        assert!(done.stderr.contains(says), "{flags}: {}", done.stderr);
        assert!(!done.stderr.contains("secret"), "{flags}: {}", done.stderr);
    }
}

#[test]
fn what_is_no_secret_is_not_blotted_out() {
    let stub = echoing("401 Unauthorized");
    let context = context().variable("MY_KEY", "another-key-entirely");
    let flags = format!("{LOAD} --api-key-env MY_KEY");
    let benched = bench(&context, &format!("openai-chat=http://{}", stub.addr()), &flags);
    assert!(benched.error("http-401").message.contains("bad key"), "{}", benched.told());
}
