//! The conformance corpus: streams as engines send them, in reads with their instants, each with the timeline that a
//! right reader makes of it. The bytes are our own; the shapes are those of real engines, servers and proxies.
//!
//! Each case is checked as it stands, instant by instant, and then cut at every place: the same events must come.

mod chat;
mod engines;
mod transport;
mod typed;

use touchstone_drivers::{Dialect, Generation, GenerationOptions};
use touchstone_load::{Driver, Session, SessionEvent};
use touchstone_workload::requests::Requests;

use crate::support::{check_every_cut, op, short};

/// One stream.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) dialect: Dialect,
    pub(crate) stream: bool,
    /// Instant of the read in ms, and its bytes.
    pub(crate) reads: Vec<(u32, Vec<u8>)>,
    /// Whether the peer closes after the last read.
    pub(crate) eof: bool,
    /// Instant and event in short, in order; `free` or `closed` says at the end whether the connection can be used
    /// again.
    expected: Vec<&'static str>,
}

impl Case {
    fn new(
        name: &'static str,
        dialect: Dialect,
        reads: Vec<(u32, Vec<u8>)>,
        expected: &[&'static str],
    ) -> Self {
        Self { name, dialect, stream: dialect.can_stream(), reads, eof: false, expected: expected.to_vec() }
    }

    fn then_closed(mut self) -> Self {
        self.eof = true;
        self
    }

    fn whole(mut self) -> Self {
        self.stream = false;
        self
    }

    fn session(&self) -> Box<dyn Session> {
        let mut options = GenerationOptions::new(self.dialect, "127.0.0.1:8000", "tiny");
        options.requests = Requests::fixed(0, 4, 64);
        options.stream = self.stream;
        let mut session = Generation::new(options).unwrap().session(0, 0);
        let (mut out, mut events) = (Vec::new(), Vec::new());
        session.open(&mut out, &mut events);
        session.start(op(0), &mut out);
        session
    }

    /// The events with the instants of their reads.
    fn timeline(&self) -> Vec<String> {
        let mut session = self.session();
        let (mut seen, mut events, mut out) = (Vec::new(), Vec::new(), Vec::new());
        let mut note = |at: u32, events: &mut Vec<SessionEvent>| {
            seen.extend(events.drain(..).map(|event| format!("{at} {}", without_number(&short(&event)))));
        };
        let mut last = 0;
        for (at, bytes) in &self.reads {
            session.receive(bytes, &mut out, &mut events);
            note(*at, &mut events);
            last = *at;
        }
        if self.eof {
            session.end_of_stream(&mut events);
            note(last, &mut events);
        }
        seen.push(if session.capacity() > 0 { "free" } else { "closed" }.to_owned());
        seen
    }

    fn check(&self) {
        assert_eq!(self.timeline(), self.expected, "{}", self.name);
        let (_, events) = self.expected.split_last().unwrap();
        let events: Vec<String> = events
            .iter()
            .map(|event| event.split_once(' ').unwrap().1)
            .map(|event| if event.starts_with("broken") { event.to_owned() } else { format!("0 {event}") })
            .collect();
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let bytes: Vec<u8> = self.reads.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        check_every_cut(self.name, &|| self.session(), &bytes, self.eof, &events);
    }
}

/// Every case has one operation, so its number says nothing.
fn without_number(event: &str) -> &str {
    event.strip_prefix("0 ").unwrap_or(event)
}

/// Every case; the fuzz targets begin with them too.
pub(crate) fn cases() -> Vec<Case> {
    [chat::cases(), typed::cases(), engines::cases(), transport::cases()].into_iter().flatten().collect()
}

#[test]
fn every_stream_of_the_corpus_has_its_timeline() {
    for case in cases() {
        case.check();
    }
}

#[test]
fn the_corpus_is_as_large_as_it_says_and_its_names_differ() {
    let cases = cases();
    assert!(cases.len() >= 80, "{}", cases.len());
    let names: std::collections::BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len());
    for dialect in Dialect::ALL {
        let of_it = cases.iter().filter(|case| case.dialect == dialect).count();
        assert!(of_it >= 2, "{dialect:?} has {of_it} cases");
    }
}

// What cases are made of.

const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const END: &str = "0\r\n\r\n";

fn bytes(text: impl AsRef<[u8]>) -> Vec<u8> {
    text.as_ref().to_vec()
}

/// One chunk of a chunked body.
fn chunk(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    [format!("{:x}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
}

/// One event with this data, in a chunk of its own.
fn event(data: impl AsRef<str>) -> Vec<u8> {
    chunk(format!("data: {}\n\n", data.as_ref()))
}

fn all(pieces: &[Vec<u8>]) -> Vec<u8> {
    pieces.concat()
}

fn done() -> Vec<u8> {
    event("[DONE]")
}

/// The last event and the end of the body.
fn done_and_end() -> Vec<u8> {
    all(&[done(), bytes(END)])
}

/// A document with its length.
fn document(status: &str, content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    bytes(format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

/// A chat chunk with this delta and, where it is not empty, usage.
fn delta(delta: &str, usage: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]{usage}}}"#)
}

fn content(text: &str) -> Vec<u8> {
    event(delta(&format!(r#"{{"content":"{text}"}}"#), ""))
}

fn finish() -> Vec<u8> {
    event(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#)
}

fn usage(input: u32, output: u32) -> String {
    format!(
        r#","usage":{{"prompt_tokens":{input},"completion_tokens":{output},"total_tokens":{}}}"#,
        input + output
    )
}

fn usage_chunk(input: u32, output: u32) -> Vec<u8> {
    event(format!(r#"{{"choices":[]{}}}"#, usage(input, output)))
}

fn role(content: &str) -> Vec<u8> {
    event(delta(&format!(r#"{{"role":"assistant","content":{content}}}"#), ""))
}
