//! What servers and proxies do to a stream on its way: framing, line ends, cuts, compression.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use touchstone_drivers::Dialect::Chat;

use super::{CHUNKED, Case, END, all, bytes, chunk, content, delta, document, done_and_end, event, finish};

const UNTIL_CLOSE: &str = "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

fn line(data: &str) -> String {
    format!("data: {data}\n\n")
}

fn a() -> String {
    delta(r#"{"content":"a"}"#, "")
}

/// Compresses two events, flushed after each.
fn gzipped() -> (Vec<u8>, Vec<u8>) {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(line(&a()).as_bytes()).unwrap();
    encoder.flush().unwrap();
    let first = encoder.get_ref().clone();
    encoder.write_all(line("[DONE]").as_bytes()).unwrap();
    let whole = encoder.finish().unwrap();
    let rest = whole[first.len()..].to_vec();
    (first, rest)
}

pub(super) fn cases() -> Vec<Case> {
    let head = || bytes(CHUNKED);
    let (first, rest) = gzipped();
    let gzip_head = || {
        bytes(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
        )
    };
    let wide = delta("{\"content\":\"\u{4f60}\u{1f600}\"}", "");
    // Between the bytes of a character.
    let at = wide.find('\u{1f600}').unwrap() + 2;
    let (before, after) = (wide.as_bytes()[..at].to_vec(), wide.as_bytes()[at..].to_vec());
    vec![
        Case::new(
            "lines that end with CR LF",
            Chat,
            vec![
                (5, head()),
                (10, chunk(format!("data: {}\r\n\r\n", a()))),
                (20, all(&[chunk("data: [DONE]\r\n\r\n"), bytes(END)])),
            ],
            &["5 head", "10 content", "20 done", "free"],
        ),
        Case::new(
            "lines that end with CR",
            Chat,
            vec![
                (5, head()),
                (10, chunk(format!("data: {}\r\r", a()))),
                (20, all(&[chunk("data: [DONE]\r\r"), bytes(END)])),
            ],
            &["5 head", "10 content", "20 done", "free"],
        ),
        Case::new(
            "no space after the colon",
            Chat,
            vec![
                (5, head()),
                (10, chunk(format!("data:{}\n\n", a()))),
                (20, all(&[chunk("data:[DONE]\n\n"), bytes(END)])),
            ],
            &["5 head", "10 content", "20 done", "free"],
        ),
        Case::new(
            "comments and pings between events",
            Chat,
            vec![
                (5, all(&[head(), chunk(": ping - 2026-12-01\n\n")])),
                (10, all(&[content("a"), chunk(":\n\n"), chunk(": x\n")])),
                (20, done_and_end()),
            ],
            &["5 head", "10 content", "20 done", "free"],
        ),
        Case::new(
            "ids, retry times and unknown fields",
            Chat,
            vec![
                (5, head()),
                (10, chunk(format!("id: 7\nretry: 3000\nevent: message\nfoo: bar\ndata: {}\n\n", a()))),
                (20, done_and_end()),
            ],
            &["5 head", "10 content", "20 done", "free"],
        ),
        Case::new(
            "the data of one event over several lines",
            Chat,
            vec![
                (5, head()),
                (10, chunk("data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"a\"}}]\ndata: }\n\n")),
                (20, done_and_end()),
            ],
            &["5 head", "10 content", "20 done", "free"],
        ),
        Case::new(
            "a character split over reads counts at its last byte",
            Chat,
            vec![
                (5, head()),
                (10, chunk([b"data: ".to_vec(), before].concat())),
                (13, chunk([after, b"\n\n".to_vec()].concat())),
                (20, done_and_end()),
            ],
            &["5 head", "13 content", "20 done", "free"],
        ),
        Case::new(
            "an event split over reads counts at its blank line",
            Chat,
            vec![
                (5, head()),
                (10, chunk(format!("data: {}", a()))),
                (13, chunk("\n")),
                (15, chunk("\n")),
                (20, done_and_end()),
            ],
            &["5 head", "15 content", "20 done", "free"],
        ),
        Case::new(
            "several events in one chunk of the body",
            Chat,
            vec![
                (5, head()),
                (10, chunk(format!("{}{}{}", line(&a()), line(&a()), line(&a())))),
                (20, done_and_end()),
            ],
            &["5 head", "10 content", "10 content", "10 content", "20 done", "free"],
        ),
        Case::new(
            "no content type, and blank before the first event",
            Chat,
            vec![
                (5, bytes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")),
                (7, chunk("\n ")),
                (10, content("a")),
                (20, done_and_end()),
            ],
            &["5 head", "10 content", "20 done", "free"],
        ),
        Case::new(
            "a text that is nothing but escapes",
            Chat,
            vec![(5, head()), (10, content(r#"\n\u4f60\ud83d"#)), (20, done_and_end())],
            &["5 head", "10 content", "20 done", "free"],
        ),
        Case::new(
            "a byte order mark",
            Chat,
            vec![(5, head()), (10, chunk(format!("\u{feff}{}", line(&a())))), (20, done_and_end())],
            &["5 head", "10 content", "20 done", "free"],
        ),
        Case::new(
            "the blank line after the last event is missing",
            Chat,
            vec![(5, head()), (10, content("a")), (20, all(&[chunk("data: [DONE]\n"), bytes(END)]))],
            &["5 head", "10 content", "20 done", "free"],
        ),
        Case::new(
            "HTTP/1.0, the end of the connection ends the body",
            Chat,
            vec![(5, bytes(UNTIL_CLOSE)), (10, bytes(line(&a()))), (20, bytes(line("[DONE]")))],
            &["5 head", "10 content", "20 done", "closed"],
        )
        .then_closed(),
        Case::new(
            "HTTP/1.0, closed before the end was told",
            Chat,
            vec![(5, bytes(UNTIL_CLOSE)), (10, bytes(line(&a())))],
            &["5 head", "10 content", "10 failed target stream eof-in-stream", "closed"],
        )
        .then_closed(),
        Case::new(
            "HTTP/1.0, closed after a finish reason",
            Chat,
            vec![
                (5, bytes(UNTIL_CLOSE)),
                (10, bytes(line(&a()))),
                (20, bytes(line(r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#))),
            ],
            &["5 head", "10 content", "20 done", "closed"],
        )
        .then_closed(),
        Case::new(
            "a body with its length told",
            Chat,
            vec![(10, document("200 OK", "text/event-stream", &format!("{}{}", line(&a()), line("[DONE]"))))],
            &["10 head", "10 content", "10 done", "free"],
        ),
        Case::new(
            "an interim response before the final one",
            Chat,
            vec![
                (1, bytes("HTTP/1.1 100 Continue\r\n\r\n")),
                (5, head()),
                (10, content("a")),
                (20, done_and_end()),
            ],
            &["5 head", "10 content", "20 done", "free"],
        ),
        Case::new(
            "chunk extensions and a trailer",
            Chat,
            vec![
                (5, head()),
                (10, bytes(format!("{:x};a=b\r\n{}\r\n", line(&a()).len(), line(&a())))),
                (20, all(&[event("[DONE]"), bytes("0\r\nX-Time: 5\r\n\r\n")])),
            ],
            &["5 head", "10 content", "20 done", "free"],
        ),
        Case::new(
            "the server closes after this answer and says so",
            Chat,
            vec![
                (
                    5,
                    bytes(
                        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
                    ),
                ),
                (10, content("a")),
                (20, done_and_end()),
            ],
            &["5 head", "10 content", "20 done", "20 broken target slot connection-close", "closed"],
        ),
        Case::new(
            "cut in the stream",
            Chat,
            vec![(5, head()), (10, content("a"))],
            &["5 head", "10 content", "10 failed target stream eof-in-stream", "closed"],
        )
        .then_closed(),
        Case::new(
            "headers and then a cut without any event",
            Chat,
            vec![(5, head())],
            &["5 head", "5 failed target stream eof-in-stream", "closed"],
        )
        .then_closed(),
        Case::new(
            "cut in the head",
            Chat,
            vec![(5, bytes("HTTP/1.1 200 OK\r\nContent-"))],
            &["5 broken target headers eof-in-headers", "closed"],
        )
        .then_closed(),
        Case::new(
            "closed without a byte",
            Chat,
            vec![(5, Vec::new())],
            &["5 broken target headers closed-before-answer", "closed"],
        )
        .then_closed(),
        Case::new(
            "gzip, flushed after each event",
            Chat,
            vec![(5, gzip_head()), (10, chunk(first.clone())), (20, all(&[chunk(rest), bytes(END)]))],
            &["5 head", "10 content", "20 done", "free"],
        ),
        Case::new(
            "gzip that is cut off",
            Chat,
            vec![(5, gzip_head()), (10, chunk(first)), (20, bytes(END))],
            &["5 head", "10 content", "20 failed target decode content-encoding", "free"],
        ),
        Case::new(
            "brotli, which was not asked for",
            Chat,
            vec![(
                5,
                bytes(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nxx",
                ),
            )],
            &["5 head", "5 failed target decode content-encoding", "free"],
        ),
        Case::new(
            "a redirect",
            Chat,
            vec![(
                5,
                bytes(
                    "HTTP/1.1 307 Temporary Redirect\r\nLocation: https://h/v1\r\nContent-Length: 0\r\n\r\n",
                ),
            )],
            &["5 head", "5 failed scenario headers http-307", "free"],
        ),
        Case::new(
            "a proxy's page instead of an answer",
            Chat,
            vec![(5, document("502 Bad Gateway", "text/html", "<html><title>502</title></html>"))],
            &["5 head", "5 failed target headers http-502", "free"],
        ),
        Case::new(
            "turned away with a status",
            Chat,
            vec![(
                5,
                document("429 Too Many Requests", "application/json", r#"{"error":{"message":"slow down"}}"#),
            )],
            &["5 head", "5 failed target headers overloaded", "free"],
        ),
        Case::new(
            "events go on after the end of the stream and are passed over",
            Chat,
            vec![(5, head()), (10, content("a")), (20, all(&[event("[DONE]"), content("b"), bytes(END)]))],
            &["5 head", "10 content", "20 done", "free"],
        ),
        Case::new(
            "a finish reason, and only then the cut",
            Chat,
            vec![(5, head()), (10, content("a")), (20, finish())],
            &["5 head", "10 content", "20 failed target stream eof-in-stream", "closed"],
        )
        .then_closed(),
    ]
}
