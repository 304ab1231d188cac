//! Streams as engines send them, and as they should not.

use touchstone_drivers::{Dialect, Generation, GenerationOptions, Secret};
use touchstone_load::{Driver, OpToken, Session, SessionEvent};
use touchstone_workload::requests::Requests;

use crate::support::{check_every_cut, feed, op, short};

const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";
const END: &str = "0\r\n\r\n";
const DONE: &str = "data: [DONE]\n\n";

pub(crate) fn driver() -> Generation {
    let mut options = GenerationOptions::new(Dialect::Chat, "127.0.0.1:8000", "tiny");
    options.requests = Requests::fixed(0, 4, 64);
    options.api_key = Some(Secret::new("sk-verysecret"));
    Generation::new(options).unwrap()
}

/// A session to which operation 0 was given.
pub(crate) fn asked() -> Box<dyn Session> {
    started(driver().session(0, 0))
}

/// The same in another dialect.
pub(crate) fn asked_in(dialect: Dialect) -> Box<dyn Session> {
    let driver = Generation::new(GenerationOptions::new(dialect, "127.0.0.1:8000", "tiny")).unwrap();
    started(driver.session(0, 0))
}

fn started(mut session: Box<dyn Session>) -> Box<dyn Session> {
    let (mut out, mut events) = (Vec::new(), Vec::new());
    session.open(&mut out, &mut events);
    assert_eq!(events, [SessionEvent::Ready]);
    assert_eq!(session.capacity(), 1);
    session.start(op(0), &mut out);
    assert_eq!(session.capacity(), 0);
    session
}

/// A chat chunk with this delta.
fn delta(delta: &str) -> String {
    format!(
        "data: {{\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n"
    )
}

fn content(text: &str) -> String {
    delta(&format!("{{\"content\":\"{text}\"}}"))
}

/// A completions chunk.
fn text(text: &str, finish: &str, usage: &str) -> String {
    format!(
        "data: {{\"choices\":[{{\"text\":\"{text}\",\"index\":0,\"finish_reason\":{finish}}}]{usage}}}\n\n"
    )
}

fn finish() -> String {
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n".to_owned()
}

fn usage(input: u32, output: u32) -> String {
    format!(
        ",\"usage\":{{\"prompt_tokens\":{input},\"completion_tokens\":{output},\"total_tokens\":{}}}",
        input + output
    )
}

fn usage_chunk(input: u32, output: u32) -> String {
    format!("data: {{\"choices\":[]{}}}\n\n", usage(input, output))
}

/// Each piece as one chunk of the body.
fn chunked<S: AsRef<str>>(pieces: &[S]) -> String {
    pieces.iter().map(|piece| format!("{:x}\r\n{}\r\n", piece.as_ref().len(), piece.as_ref())).collect()
}

/// A complete stream of the pieces.
fn stream<S: AsRef<str>>(pieces: &[S]) -> String {
    format!("{STREAM}{}{END}", chunked(pieces))
}

fn plain(status: &str, content_type: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn check(name: &str, bytes: impl AsRef<[u8]>, expected: &[&str]) {
    check_every_cut(name, &asked, bytes.as_ref(), false, expected);
}

fn check_eof(name: &str, bytes: impl AsRef<[u8]>, expected: &[&str]) {
    check_every_cut(name, &asked, bytes.as_ref(), true, expected);
}

#[test]
fn streams_of_vllm() {
    let role = delta(r#"{"role":"assistant","content":""}"#);
    let last =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"c\"},\"finish_reason\":\"length\"}]}\n\n";
    check(
        "role first, finish on the last text, usage in its own chunk",
        stream(&[role.as_str(), &content("a"), &content("b"), last, &usage_chunk(7, 3), DONE]),
        &["0 head", "0 content", "0 content", "0 content", "0 done out=3 in=7"],
    );
    check(
        "no usage asked for",
        stream(&[role.as_str(), &content("a"), last, DONE]),
        &["0 head", "0 content", "0 content", "0 done"],
    );
    check(
        "usage in every chunk, several tokens in one",
        stream(&[
            text("ivo", "null", &usage(5, 1)).as_str(),
            &text("anali obavipe pereli", "null", &usage(5, 4)),
            &text(" x", "\"length\"", &usage(5, 6)),
            &usage_chunk(5, 6),
            DONE,
        ]),
        &["0 head", "0 content 1", "0 content 3", "0 content 2", "0 done out=6 in=5"],
    );
    check(
        "usage in every chunk from the role chunk on",
        stream(&[
            format!(
                "data: {{\"choices\":[{{\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}}}}]{}}}\n\n",
                usage(7, 0)
            ),
            format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}]{}}}\n\n", usage(7, 2)),
            DONE.to_owned(),
        ]),
        &["0 head", "0 content 2", "0 done out=2 in=7"],
    );
    check(
        "turned away inside a 200 stream",
        stream(&[
            "data: {\"error\":{\"message\":\"busy\",\"type\":\"x\",\"param\":null,\"code\":503}}\n\n",
            DONE,
        ]),
        &["0 head", "0 failed target stream error-in-stream"],
    );
}

#[test]
fn streams_of_llama_cpp() {
    let role = delta(r#"{"role":"assistant","content":null}"#);
    check(
        "role and first token in one chunk of the body, empty last delta, finish and usage in one",
        stream(&[
            format!("{role}{}", content("a")),
            content("b"),
            format!("{}{}", finish(), usage_chunk(8, 2)),
            DONE.to_owned(),
        ]),
        &["0 head", "0 content", "0 content", "0 done out=2 in=8"],
    );
    check(
        "completions with usage in the last chunk, whose choices are not empty",
        stream(&[
            text("a", "null", "").as_str(),
            &text("b", "null", ""),
            &text(
                "",
                "\"length\"",
                &format!("{},\"timings\":{{\"cache_n\":4,\"predicted_ms\":0.4}}", usage(5, 2)),
            ),
            DONE,
        ]),
        &["0 head", "0 content", "0 content", "0 done out=2 in=5"],
    );
    check(
        "progress events before the first token",
        stream(&[
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"}}],\"prompt_progress\":{\"total\":9,\"processed\":4}}\n\n",
            &content("a"),
            &finish(),
            DONE,
        ]),
        &["0 head", "0 content", "0 done"],
    );
    check_eof(
        "the connection is closed after the stream in spite of keep-alive",
        stream(&[content("a").as_str(), DONE]),
        &["0 head", "0 content", "0 done"],
    );
}

#[test]
fn streams_of_fastchat() {
    check(
        "no object, no usage, blanks in the JSON",
        stream(&[
            "data: {\"id\": \"x\", \"choices\": [{\"index\": 0, \"delta\": {\"role\": \"assistant\"}, \"finish_reason\": null}]}\n\n",
            "data: {\"id\": \"x\", \"choices\": [{\"index\": 0, \"delta\": {\"content\": \" li vazo\"}, \"finish_reason\": null}]}\n\n",
            "data: {\"id\": \"x\", \"choices\": [{\"index\": 0, \"delta\": {}, \"finish_reason\": \"length\"}]}\n\n",
            DONE,
        ]),
        &["0 head", "0 content", "0 done"],
    );
    check_eof("headers, then nothing at all", STREAM, &["0 head", "0 failed target stream eof-in-stream"]);
    check(
        "a worker's error as an event",
        stream(&["data: {\"text\": \"CUDA out of memory\", \"error_code\": 50002}\n\n", DONE]),
        &["0 head", "0 failed target stream error-in-stream"],
    );
}

#[test]
fn streams_of_others() {
    check(
        "no space after the colon",
        stream(&[content("a").replace("data: ", "data:"), DONE.to_owned()]),
        &["0 head", "0 content", "0 done"],
    );
    check(
        "an error of the request told inside the stream",
        stream(&["data:{\"error\":{\"message\":\"too long\",\"http_status_code\":422}}\n\n", DONE]),
        &["0 head", "0 failed scenario stream error-in-stream"],
    );
    check(
        "an error in the middle of the stream",
        stream(&[content("a").as_str(), "data: {\"error\":\"boom\"}\n\n"]),
        &["0 head", "0 content", "0 failed target stream error-in-stream"],
    );
    check(
        "an event of type error",
        stream(&["event: error\ndata: {\"message\":\"boom\"}\n\n", DONE]),
        &["0 head", "0 failed target stream error-in-stream"],
    );
    check(
        "reasoning under both names, then text",
        stream(&[
            delta(r#"{"reasoning_content":"hm"}"#).as_str(),
            &delta(r#"{"reasoning":"hm"}"#),
            &delta(r#"{"reasoning":"so","content":"a"}"#),
            &content("b"),
            DONE,
        ]),
        &["0 head", "0 reasoning", "0 reasoning", "0 content", "0 content", "0 done"],
    );
    check(
        "a tool call",
        stream(&[
            delta(r#"{"role":"assistant","content":null,"tool_calls":[]}"#).as_str(),
            &delta(r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}"#),
            DONE,
        ]),
        &["0 head", "0 content", "0 done"],
    );
    check(
        "events that are no completion's",
        stream(&[
            ": hello\n\n",
            "data: {\"prompt_filter_results\":[]}\n\n",
            &content("a"),
            "event: ping\n\n",
            DONE,
        ]),
        &["0 head", "0 content", "0 done"],
    );
    check("an empty answer", stream(&[DONE]), &["0 head", "0 done out=0"]);
    check(
        "an empty answer with a finish reason and no [DONE]",
        stream(&[finish()]),
        &["0 head", "0 done out=0"],
    );
}

#[test]
fn lines_and_cuts() {
    let body = format!("{}{}", content("a"), DONE);
    for (name, body) in [
        ("CR LF", body.replace('\n', "\r\n")),
        ("CR", body.replace('\n', "\r")),
        ("comments between", format!(": ping\n\n:\n{}:\n\n{DONE}", content("a"))),
        ("other fields", format!("id: 1\nretry: 10\nevent: message\n{}id\n{DONE}", content("a"))),
        ("a byte order mark", format!("\u{feff}{body}")),
        ("no blank line at the end", body.trim_end().to_owned()),
        (
            "several data lines",
            "data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n".to_owned(),
        ),
    ] {
        check(name, stream(&[body]), &["0 head", "0 content", "0 done"]);
    }
    check(
        "characters of several bytes, and escapes",
        stream(&[content("\u{4f60}\u{1f600}").as_str(), &content("\\u4f60\\ud83d"), &content("\\n"), DONE]),
        &["0 head", "0 content", "0 content", "0 content", "0 done"],
    );
    let mut broken = format!("{STREAM}{}", chunked(&[content("\u{4f60}")])).into_bytes();
    // The first byte of a three-byte character without the others.
    let at = broken.windows(3).position(|bytes| bytes == "\u{4f60}".as_bytes()).unwrap();
    broken[at + 1] = b'x';
    broken.extend_from_slice(format!("{}{END}", chunked(&[DONE])).as_bytes());
    check("bytes that are no UTF-8", broken, &["0 head", "0 content", "0 done"]);
    let bytes: Vec<String> = body.chars().map(String::from).collect();
    check("chunks of one byte", stream(&bytes), &["0 head", "0 content", "0 done"]);
    check(
        "chunk extensions and a trailer",
        format!("{STREAM}{:X};a=\"b\"\r\n{body}\r\n000;x\r\nExpires: 0\r\n\r\n", body.len()),
        &["0 head", "0 content", "0 done"],
    );
    check(
        "a length instead of chunks",
        plain("200 OK", "text/event-stream", &body),
        &["0 head", "0 content", "0 done"],
    );
    check(
        "interim responses before the answer",
        format!(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n{}",
            stream(&[body])
        ),
        &["0 head", "0 content", "0 done"],
    );
    check(
        "no content type, and an empty header",
        format!(
            "HTTP/1.1 200\r\nAllow-Origin: \r\nTransfer-Encoding: chunked\r\n\r\n{}{END}",
            chunked(&[&content("a"), DONE])
        ),
        &["0 head", "0 content", "0 done"],
    );
}

#[test]
fn ends() {
    let close = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    check("no [DONE] but a proper end", stream(&[content("a")]), &["0 head", "0 content", "0 done"]);
    check("an empty body", stream::<&str>(&[]), &["0 head", "0 failed target stream empty-stream"]);
    check_eof(
        "cut before the last chunk",
        format!("{STREAM}{}", chunked(&[content("a")])),
        &["0 head", "0 content", "0 failed target stream eof-in-stream"],
    );
    check_eof(
        "cut inside an event",
        format!("{STREAM}{}", &chunked(&[content("a")])[..40]),
        &["0 head", "0 failed target stream eof-in-stream"],
    );
    check_eof(
        "cut after [DONE]",
        format!("{STREAM}{}", chunked(&[&content("a"), DONE])),
        &["0 head", "0 content", "0 done"],
    );
    check_eof(
        "ended by the connection, with [DONE]",
        format!("{close}{}{DONE}", content("a")),
        &["0 head", "0 content", "0 done"],
    );
    check_eof(
        "ended by the connection, with a finish reason",
        format!("{close}{}{}", content("a"), finish()),
        &["0 head", "0 content", "0 done"],
    );
    check_eof(
        "ended by the connection, with neither",
        format!("{close}{}", content("a")),
        &["0 head", "0 content", "0 failed target stream eof-in-stream"],
    );
    check_eof("cut in the head", "HTTP/1.1 200 OK\r\nContent-", &["broken target headers eof-in-headers"]);
    check_eof("closed without a byte", "", &["broken target headers closed-before-answer"]);
    check(
        "the server asks for the connection to be closed",
        stream(&[content("a").as_str(), DONE]).replacen("\r\n", "\r\nConnection: close\r\n", 1),
        &["0 head", "0 content", "0 done", "broken target slot connection-close"],
    );
}

#[test]
fn answers_that_are_no_stream() {
    let whole = r#"{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a b"},"finish_reason":"length"}],"usage":{"prompt_tokens":8,"completion_tokens":2}}"#;
    check(
        "one JSON document",
        plain("200 OK", "application/json", whole),
        &["0 head", "0 content 2", "0 done out=2 in=8"],
    );
    check(
        "one JSON document that says error",
        plain("200 OK", "application/json", r#"{"error":"generate expects one response"}"#),
        &["0 head", "0 failed target stream error-in-body"],
    );
    check(
        "JSON of something else",
        plain("200 OK", "application/json", r#"{"status":"ok"}"#),
        &["0 head", "0 failed target decode wrong-protocol"],
    );
    check(
        "events of another API",
        stream(&[
            "data: {\"content\":\"ivo\",\"stop\":false}\n\n",
            "data: {\"content\":\"\",\"stop\":true}\n\n",
        ]),
        &["0 head", "0 failed target decode wrong-protocol"],
    );
    check(
        "a web page",
        plain("200 OK", "text/html", "<html><title>Hi</title></html>"),
        &["0 head", "0 failed target decode wrong-protocol"],
    );
    check(
        "events that are no JSON",
        stream(&["data: hello\n\n", DONE]),
        &["0 head", "0 failed target decode bad-event"],
    );
    check(
        "compressed without being asked",
        plain("200 OK", "text/event-stream\r\nContent-Encoding: gzip", "\u{1}\u{2}"),
        &["0 head", "0 failed target decode content-encoding"],
    );
    let long = format!("data: {}", "x".repeat(2 * 1024 * 1024));
    let events =
        feed(&mut *asked(), plain("200 OK", "text/event-stream", &long).as_bytes().chunks(10_000), false);
    assert_eq!(
        events.iter().map(short).collect::<Vec<_>>(),
        ["0 head", "broken target decode event-too-long"]
    );
}

#[test]
fn refusals() {
    for (status, expected) in [
        ("301 Moved Permanently", "scenario headers http-301"),
        ("400 Bad Request", "scenario headers http-400"),
        ("401 Unauthorized", "scenario headers http-401"),
        ("403 Forbidden", "scenario headers http-403"),
        ("404 Not Found", "scenario headers http-404"),
        ("422 Unprocessable Entity", "scenario headers http-422"),
        ("429 Too Many Requests", "target headers overloaded"),
        ("500 Internal Server Error", "target headers http-500"),
        ("502 Bad Gateway", "target headers http-502"),
        ("503 Service Unavailable", "target headers overloaded"),
    ] {
        let expected = format!("0 failed {expected}");
        let body = r#"{"error":{"message":"no"}}"#;
        check(status, plain(status, "application/json", body), &["0 head", &expected]);
    }
    check(
        "an event stream with status 400",
        stream(&["data: {\"error\":\"prompt is too long\"}\n\n"]).replace("200 OK", "400 Bad Request"),
        &["0 head", "0 failed scenario headers http-400"],
    );
    check_eof(
        "a refusal that is cut",
        "HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nInternal",
        &["0 head", "0 failed target headers http-500"],
    );
}

/// The failure that the bytes lead to.
fn failure_of(bytes: &[u8]) -> touchstone_load::Failure {
    let mut events = feed(&mut *asked(), [bytes], true);
    events.retain(|event| matches!(event, SessionEvent::Failed { .. } | SessionEvent::Broken { .. }));
    match events.remove(0) {
        SessionEvent::Failed { failure, .. } | SessionEvent::Broken { failure } => failure,
        _ => unreachable!(),
    }
}

#[test]
fn refusals_say_what_the_server_said_and_what_to_do() {
    for (bytes, message, advice) in [
        (plain("401 Unauthorized", "text/plain", "no key"), "http 401: no key", "--api-key-env"),
        (
            plain("404 Not Found", "application/json", r#"{"detail":"Not Found"}"#),
            "http 404: Not Found",
            "/v1/models",
        ),
        (
            plain(
                "400 Bad Request",
                "application/json",
                r#"{"object":"error","message":"Only tiny","code":40301}"#,
            ),
            "http 400: Only tiny",
            "model",
        ),
        (plain("500 Oops", "text/plain", ""), "http 500", "log"),
        (plain("307 Moved", "text/plain\r\nLocation: /v2/", ""), "http 307: /v2/", "redirects"),
        (
            plain("400 Bad Request", "text/plain", "Client sent an HTTP request to an HTTPS server."),
            "HTTPS",
            "https://",
        ),
    ] {
        let failure = failure_of(bytes.as_bytes());
        assert!(failure.message.contains(message), "{failure:?}");
        assert!(failure.advice.contains(advice), "{failure:?}");
    }
    let echo =
        plain("401 Unauthorized", "application/json", r#"{"error":{"message":"bad key sk-verysecret"}}"#);
    assert_eq!(failure_of(echo.as_bytes()).message, "http 401: bad key [secret]");
    let huge = plain("500 Oops", "text/plain", &"x".repeat(100_000));
    assert!(failure_of(huge.as_bytes()).message.len() < 400);
}

#[test]
fn other_protocols_on_the_port() {
    for (name, bytes, advice) in [
        ("a TLS alert", b"\x15\x03\x01\x00\x02\x02\x46".as_slice(), "https://"),
        ("Redis", b"-ERR unknown command 'POST'\r\n", "Redis"),
        ("NATS", b"INFO {\"server_id\":\"x\"}\r\n", "NATS"),
        ("SSH", b"SSH-2.0-x\r\n", "right port"),
        ("HTTP/2 settings", b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", "right port"),
    ] {
        check(name, bytes, &["broken target decode not-http"]);
        let failure = failure_of(bytes);
        assert!(failure.advice.contains(advice), "{name}: {failure:?}");
    }
    for (name, bytes, expected) in [
        ("a bad status", "HTTP/1.1 abc OK\r\n\r\n", vec!["broken target decode bad-head"]),
        (
            "a bad length",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            vec!["broken target decode bad-framing"],
        ),
        (
            "a bad chunk",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            vec!["0 head", "broken target decode bad-framing"],
        ),
    ] {
        check(name, bytes, &expected);
    }
}

#[test]
fn a_connection_serves_one_operation_after_the_other() {
    let mut session = asked();
    let mut out = Vec::new();
    for number in 0..3 {
        let answer = stream(&[content("a").as_str(), DONE]);
        let (before, end) = answer.as_bytes().split_at(answer.len() - END.len());
        let events = feed(&mut *session, [before], false);
        let expected = [format!("{number} head"), format!("{number} content"), format!("{number} done")];
        assert_eq!(events.iter().map(short).collect::<Vec<_>>(), expected);
        assert_eq!(session.capacity(), 0, "the last chunk has not come");
        assert!(feed(&mut *session, [end], false).is_empty());
        assert_eq!(session.capacity(), 1);
        session.start(op(number + 1), &mut out);
    }
    assert!(feed(&mut *session, [plain("500 Oops", "text/plain", "x").as_bytes()], false).len() == 2);
    assert_eq!(session.capacity(), 1, "a refusal does not cost the connection");
    assert!(feed(&mut *session, [], true).is_empty(), "closing an idle connection is ordinary");
    assert_eq!(session.capacity(), 0);
}

#[test]
fn unasked_answers_break_the_connection() {
    let mut session = driver().session(0, 0);
    session.open(&mut Vec::new(), &mut Vec::new());
    let events =
        feed(&mut *session, [b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n".as_slice()], true);
    assert_eq!(events.iter().map(short).collect::<Vec<_>>(), ["broken target slot unsolicited"]);
    assert_eq!(session.capacity(), 0);
}

#[test]
fn answered_and_abandoned_operations() {
    let mut session = asked();
    assert!(!session.answered(op(0).token));
    feed(&mut *session, [b"HTTP".as_slice()], false);
    assert!(session.answered(op(0).token));
    assert!(!session.answered(OpToken(7)));

    let mut session = asked();
    feed(&mut *session, [], true);
    assert!(!session.answered(op(0).token), "it may be sent again");

    let mut session = asked();
    assert!(!session.abandon(op(0).token), "the rest of the answer would come");
    assert_eq!(session.capacity(), 0);
    assert!(feed(&mut *session, [stream(&[DONE]).as_bytes()], true).is_empty());

    let mut session = asked();
    feed(&mut *session, [stream(&[DONE]).as_bytes()], false);
    assert!(session.abandon(op(0).token), "it had ended");
    assert_eq!(session.capacity(), 1);
}

#[test]
fn endless_bodies_after_the_end_are_not_waited_for() {
    let mut session = asked();
    feed(&mut *session, [format!("{STREAM}{}", chunked(&[DONE])).as_bytes()], false);
    let more = chunked(&["x".repeat(100_000)]);
    let events = feed(&mut *session, [more.as_bytes(), more.as_bytes(), more.as_bytes()], false);
    assert_eq!(events.iter().map(short).collect::<Vec<_>>(), ["broken target stream body-after-end"]);
}

#[test]
fn events_without_content_are_told_only_to_who_wants_all_of_them() {
    let telling = || {
        let mut options = GenerationOptions::new(Dialect::Chat, "127.0.0.1:8000", "tiny");
        options.tell_silent = true;
        started(Generation::new(options).unwrap().session(0, 0))
    };
    let role = delta(r#"{"role":"assistant","content":""}"#);
    let whole = stream(&[role.as_str(), &content("a"), &content("b"), &finish(), &usage_chunk(7, 2), DONE]);
    let all = ["0 head", "0 empty", "0 content", "0 content", "0 empty", "0 report", "0 done out=2 in=7"];
    check_every_cut("all of them", &telling, whole.as_bytes(), false, &all);
    check("content alone", &whole, &["0 head", "0 content", "0 content", "0 done out=2 in=7"]);
}
