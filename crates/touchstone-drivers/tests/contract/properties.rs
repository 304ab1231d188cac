//! Any bytes at all: no panic, the same events in any pieces, and an end to every operation.

use proptest::collection::vec;
use proptest::prelude::*;
use touchstone_drivers::Dialect;
use touchstone_load::{Driver, Session, SessionEvent};

use crate::support::feed;
use crate::{nats, openai, resp};

type Make = fn() -> Box<dyn Session>;

/// Every kind of session, in a state in which bytes matter.
const SESSIONS: [(&str, Make); 11] = [
    ("openai", openai::asked),
    ("responses", || openai::asked_in(Dialect::Responses)),
    ("embeddings", || openai::asked_in(Dialect::Embeddings)),
    ("tgi", || openai::asked_in(Dialect::Tgi)),
    ("triton", || openai::asked_in(Dialect::TritonGenerate)),
    ("llama.cpp", || openai::asked_in(Dialect::LlamaCpp)),
    ("fastchat worker", || openai::asked_in(Dialect::FastChatWorker)),
    ("resp", resp::reads),
    ("resp greeting", || resp::driver(1.0, 8).session(0, 0)),
    ("nats consumer", nats::consumer),
    ("nats greeting", || nats::driver().session(0, 0)),
];

/// Fragments of the three protocols, whole and broken, so that random sequences of them get deep.
const FRAGMENTS: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 500 x\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"Content-Type: text/event-stream\r\n",
    b"Content-Type: application/json\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 12\r\n",
    b"Connection: close\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"c\r\n",
    b"0\r\n\r\n",
    b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
    b"data: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}\n\n",
    b"data: {\"error\":\"x\"}\n\n",
    b"data: [DONE]\n\n",
    b"data: ",
    b"{\"choices\":[",
    b"event: error\n",
    b"Content-Encoding: gzip\r\n",
    b"data:{\"token\":{\"text\":\"a\",\"special\":false},\"generated_text\":null}\n\n",
    b"data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n",
    b"data: {\"text_output\":\"a\"}\n\n",
    b"data: {\"content\":\"a\",\"stop\":false,\"tokens_predicted\":1}\n\n",
    b"{\"text\":\"ab\",\"error_code\":0,\"usage\":{\"completion_tokens\":0}}\0",
    b": ping\n\n",
    b"\xEF\xBB\xBF",
    b"+OK\r\n",
    b"-ERR x\r\n",
    b"-LOADING x\r\n",
    b"$5\r\nhello\r\n",
    b"$-1\r\n",
    b"*2\r\n",
    b"*-1\r\n",
    b":1\r\n",
    b"_\r\n",
    b">1\r\n",
    b"%1\r\n",
    b"$999999\r\n",
    b"INFO {\"max_payload\":1048576}\r\n",
    b"PING\r\n",
    b"PONG\r\n",
    b"MSG a 1 28\r\n",
    b"HMSG a 1 3 31\r\n",
    b"0123456789abcdefghijklmnopqr\r\n",
];

fn fragments() -> impl Strategy<Value = Vec<u8>> {
    vec(
        prop_oneof![
            8 => proptest::sample::select(FRAGMENTS).prop_map(<[u8]>::to_vec),
            1 => vec(any::<u8>(), 0..8),
        ],
        0..24,
    )
    .prop_map(|pieces| pieces.concat())
}

/// Bytes that start out as a proper answer of the protocol, so that the depths behind it are reached.
fn answers() -> impl Strategy<Value = Vec<u8>> {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n".as_slice();
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".as_slice();
    let refusal = b"HTTP/1.1 429 x\r\n\r\n".as_slice();
    let starts = vec![b"".as_slice(), head, chunked, refusal];
    (proptest::sample::select(starts), fragments()).prop_map(|(start, rest)| [start, &rest].concat())
}

/// What must hold for the events of an operating session.
fn check_events(events: &[SessionEvent]) -> Result<(), TestCaseError> {
    let mut ended = std::collections::BTreeSet::new();
    for (at, event) in events.iter().enumerate() {
        let op = match event {
            SessionEvent::Head { op } | SessionEvent::Content { op, .. } => op,
            SessionEvent::Done { op, .. } | SessionEvent::Failed { op, .. } => {
                prop_assert!(ended.insert(*op), "{op:?} ended twice");
                continue;
            }
            SessionEvent::Broken { failure } => {
                prop_assert_eq!(at, events.len() - 1, "something came after the end of the connection");
                prop_assert!(failure.message.len() <= 304);
                continue;
            }
            SessionEvent::Ready | SessionEvent::Message { .. } | SessionEvent::Silent { .. } => continue,
        };
        prop_assert!(!ended.contains(op), "{op:?} went on after its end");
    }
    Ok(())
}

fn check_bytes(bytes: &[u8], cuts: &[usize]) -> Result<(), TestCaseError> {
    for (name, make) in SESSIONS {
        for eof in [false, true] {
            let mut session = make();
            let whole = feed(&mut *session, [bytes], eof);
            check_events(&whole)?;
            if eof || matches!(whole.last(), Some(SessionEvent::Broken { .. })) {
                prop_assert_eq!(session.capacity(), 0);
            }
            prop_assert_eq!(&feed(&mut *make(), bytes.chunks(1), eof), &whole, "{}: byte by byte", name);
            let mut pieces = Vec::new();
            let mut rest = bytes;
            for cut in cuts {
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            pieces.push(rest);
            prop_assert_eq!(&feed(&mut *make(), pieces, eof), &whole, "{}: in pieces", name);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in vec(any::<u8>(), 0..400), cuts in vec(0_usize..40, 0..12)) {
        check_bytes(&bytes, &cuts)?;
    }

    #[test]
    fn random_sequences_of_fragments(bytes in answers(), cuts in vec(0_usize..40, 0..12)) {
        check_bytes(&bytes, &cuts)?;
    }

    #[test]
    fn a_started_operation_ends_at_the_end_of_the_connection(bytes in answers()) {
        let events = feed(&mut *openai::asked(), [bytes.as_slice()], true);
        let ends = events.iter().filter(|event| matches!(
            event,
            SessionEvent::Done { .. } | SessionEvent::Failed { .. } | SessionEvent::Broken { .. }
        ));
        prop_assert!(ends.count() >= 1, "{:?}", events);
    }
}
