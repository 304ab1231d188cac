//! What the fuzz targets do with their bytes: every parser that takes bytes from a peer or from a user.
//!
//! For sessions the bytes are an answer; they are fed whole and in pieces, and the events must be the same, with the
//! promises of `touchstone-drivers` kept. For everything else any bytes must be read or refused, and what was read
//! must be written as it was. Nothing may panic, overflow or grow without bound.

use std::io::Write;

use touchstone_drivers::{Dialect, Generation, GenerationOptions, Nats, NatsOptions, Resp, RespOptions};
use touchstone_load::{Driver, Op, OpToken, Session, SessionEvent};
use touchstone_workload::requests::Requests;

/// Bytes of an input that say how it is fed: the cuts' seed (two), flags, and the place of a flipped bit.
pub const CONTROL: usize = 4;

/// Flag: the peer closes after the bytes.
pub const CLOSES: u8 = 1;
/// Flag: the answer was asked for whole, not as a stream.
pub const WHOLE: u8 = 2;

const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
const GZIP: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n";
const DEFLATE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: deflate\r\n\r\n";

fn control(data: &[u8]) -> Option<(&[u8; CONTROL], &[u8])> {
    data.split_first_chunk()
}

/// A whole HTTP answer to one dialect's request.
pub fn dialect(dialect: Dialect, data: &[u8]) {
    let Some((control, bytes)) = control(data) else { return };
    check(&|| asked(dialect, control[2] & WHOLE == 0), control, bytes);
}

/// The body of an event stream that only the connection's end delimits.
pub fn sse(data: &[u8]) {
    let Some((control, bytes)) = control(data) else { return };
    check(&|| asked(Dialect::Completions, true), control, &[STREAM, bytes].concat());
}

/// A compressed body: the bytes as they are, or compressed here and then hurt in one bit.
pub fn gzip(data: &[u8]) {
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    let Some((control, bytes)) = control(data) else { return };
    let head = if control[2] & 4 == 0 { GZIP } else { DEFLATE };
    let mut body = match control[2] >> 3 & 3 {
        0 => bytes.to_vec(),
        _ if control[2] & 4 == 0 => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
        }
        _ => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
        }
    };
    if control[2] >> 3 & 3 == 2 && !body.is_empty() {
        let at = usize::from(control[3]) % body.len();
        body[at] ^= 1 << (control[2] >> 5);
    }
    check(&|| asked(Dialect::Completions, true), control, &[head, &body].concat());
}

/// Replies of a RESP server, its greeting and those to operations.
pub fn resp(data: &[u8]) {
    let Some((control, bytes)) = control(data) else { return };
    let greeted = control[2] & WHOLE == 0;
    let read_ratio = f64::from(control[3] & 1);
    let make = || {
        let options = RespOptions { read_ratio, pipeline: 8, keys: 10, ..RespOptions::default() };
        let session = Resp::new(options).expect("options are right").session(0, 0);
        opened(session, if greeted { &[b"+PONG\r\n"] } else { &[] }, 3)
    };
    check(&make, control, bytes);
}

/// What a NATS server sends to a publisher or to a subscriber.
pub fn nats(data: &[u8]) {
    const INFO: &[u8] = b"INFO {\"server_id\":\"x\",\"max_payload\":1048576,\"headers\":true} \r\n";
    let Some((control, bytes)) = control(data) else { return };
    let make = || {
        let driver = Nats::new(NatsOptions::new("r1")).expect("options are right");
        let session = match control[3] & 1 {
            0 => driver.session(0, 7),
            _ => driver.consumer(0, 7).expect("NATS has consumers"),
        };
        opened(session, if control[2] & WHOLE == 0 { &[INFO, b"PONG\r\n"] } else { &[] }, 3)
    };
    check(&make, control, bytes);
}

fn asked(dialect: Dialect, stream: bool) -> Box<dyn Session> {
    let mut options = GenerationOptions::new(dialect, "127.0.0.1:8000", "tiny");
    options.requests = Requests::fixed(0, 2, 8);
    options.stream = stream;
    opened(Generation::new(options).expect("options are right").session(0, 0), &[], 1)
}

/// A session after its greeting, with operations where it takes them.
fn opened(mut session: Box<dyn Session>, greeting: &[&[u8]], operations: u32) -> Box<dyn Session> {
    let (mut out, mut events) = (Vec::new(), Vec::new());
    session.open(&mut out, &mut events);
    for bytes in greeting {
        session.receive(bytes, &mut out, &mut events);
    }
    for number in 0..operations {
        if session.capacity() > 0 {
            let op = Op { token: OpToken(100 + number), index: u64::from(number), intended_ns: 0 };
            session.start(op, &mut out);
        }
    }
    session
}

fn feed<'a>(
    session: &mut dyn Session,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    eof: bool,
) -> Vec<SessionEvent> {
    let (mut events, mut out) = (Vec::new(), Vec::new());
    for piece in pieces {
        session.receive(piece, &mut out, &mut events);
    }
    if eof {
        session.end_of_stream(&mut events);
    }
    events
}

/// The promises of a session: the same events in any pieces, every operation ends once and says nothing after it, the
/// end of the connection comes last and ends what is left.
fn check(make: &dyn Fn() -> Box<dyn Session>, control: &[u8; CONTROL], bytes: &[u8]) {
    let eof = control[2] & CLOSES != 0;
    let mut session = make();
    let whole = feed(&mut *session, [bytes], eof);
    let mut ended = Vec::new();
    for (at, event) in whole.iter().enumerate() {
        let op = match event {
            SessionEvent::Head { op }
            | SessionEvent::Content { op, .. }
            | SessionEvent::Silent { op, .. } => op,
            SessionEvent::Done { op, .. } | SessionEvent::Failed { op, .. } => {
                assert!(!ended.contains(op), "{op:?} ended twice");
                ended.push(*op);
                continue;
            }
            SessionEvent::Broken { failure } => {
                assert_eq!(at, whole.len() - 1, "something came after the end of the connection");
                assert!(failure.message.len() <= 304, "a long message");
                continue;
            }
            SessionEvent::Ready | SessionEvent::Message { .. } => continue,
        };
        assert!(!ended.contains(op), "{op:?} went on after its end");
    }
    let broken = matches!(whole.last(), Some(SessionEvent::Broken { .. }));
    if eof || broken {
        assert_eq!(session.capacity(), 0, "a connection that has ended takes operations");
    }
    let mut rng = touchstone_stats::rng::Rng::new(u64::from(u16::from_le_bytes([control[0], control[1]])));
    let longest = 1 + rng.index(64);
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(1 + rng.index(longest)));
        pieces.push(piece);
        rest = after;
    }
    assert_eq!(feed(&mut *make(), pieces, eof), whole, "cut into pieces");
}

/// A page of Prometheus metrics.
pub fn prometheus(data: &[u8]) {
    let page = touchstone_telemetry::prometheus::Page::parse(&String::from_utf8_lossy(data));
    for name in ["vllm:num_requests_running", "a", "tgi_queue_size"] {
        let _ = (page.sum(name), page.max(name), page.values(name).count());
        let _ = page.histogram(name);
    }
}

/// A scenario file.
pub fn scenario(data: &[u8]) {
    match touchstone_model::Scenario::from_yaml("scenario.yaml", data) {
        Ok(scenario) => {
            let _ = (scenario.all_requirements().count(), scenario.preference_groups());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A product file of a catalog.
pub fn product(data: &[u8]) {
    if let Err(error) = touchstone_catalog::Catalog::parse(&[("inference/x.yaml", data)]) {
        assert!(!error.to_string().is_empty());
    }
}

/// An event log.
pub fn event_log(data: &[u8]) {
    let path = std::path::Path::new("events.tsl");
    let Ok(mut reader) = touchstone_records::event_log::Reader::new(data, path) else { return };
    let mut frames = 0;
    loop {
        match reader.next_record() {
            Ok(None) => break,
            Ok(Some(_)) | Err(_) => frames += 1,
        }
        assert!(frames <= data.len(), "more frames than bytes");
    }
    assert!(reader.tail().is_some());
}

/// What is typed on a command line or in a file as one word: each that is read is written as it is read.
pub fn grammars(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    fn same<T: std::str::FromStr + std::fmt::Display>(text: &str) {
        let Ok(value) = text.parse::<T>() else { return };
        let written = value.to_string();
        match written.parse::<T>() {
            Ok(again) => assert_eq!(again.to_string(), written, "`{text}`"),
            Err(_) => panic!("`{text}` is written as `{written}`, which is refused"),
        }
    }
    same::<touchstone_model::Arrival>(text);
    same::<touchstone_model::Length>(text);
    same::<touchstone_model::Target>(text);
    same::<touchstone_model::Requirement>(text);
    let _ = text.parse::<touchstone_catalog::Version>();
    let _ = text.parse::<touchstone_catalog::VersionRange>();
    let _ = text.parse::<touchstone_catalog::Condition>();
}

/// A document of a run, as another machine may have written it.
pub fn run_document(data: &[u8]) {
    if let Ok(document) = serde_json::from_slice::<touchstone_model::RunDocument>(data) {
        let written = serde_json::to_vec(&document).expect("a document is written");
        let again: touchstone_model::RunDocument =
            serde_json::from_slice(&written).expect("what was written is read");
        assert_eq!(serde_json::to_vec(&again).expect("a document is written"), written);
    }
}

/// A trace of requests: Azure's and BurstGPT's CSV, Mooncake's JSON lines.
pub fn trace(data: &[u8]) {
    match touchstone_workload::trace::Trace::read(data) {
        Ok(trace) => {
            assert!(!trace.rows().is_empty(), "a trace of nothing");
            let share = trace.reusable_share();
            assert!((0.0..=1.0).contains(&share), "{share}");
            let mut before = 0;
            for row in trace.rows() {
                assert!(row.at_ns >= before, "not in order of time");
                before = row.at_ns;
                let _ = trace.blocks(row).len();
            }
            assert!(trace.length_ns() >= before);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
