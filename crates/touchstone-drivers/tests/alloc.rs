//! Reading a token allocates nothing once a stream has begun: not where an event is one read, not where it is cut into
//! several, not where many come in one read, and not where its text has escapes.

#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use touchstone_drivers::{Dialect, Generation, GenerationOptions};
use touchstone_load::{Driver, Op, OpToken, Session, SessionEvent};

const WARM_UP: usize = 64;
const EVENTS: usize = 1_000;

fn head(more: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{more}Transfer-Encoding: chunked\r\n\r\n").into_bytes()
}

fn chunk(body: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n"].concat()
}

/// Event `number` of a stream, whose text is `text` as JSON has it.
fn body(dialect: Dialect, number: usize, text: &str) -> String {
    let so_far = number + 1;
    let data = match dialect {
        Dialect::Chat => format!(
            r#"{{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,"delta":{{"content":"{text}"}},"logprobs":null,"finish_reason":null,"token_ids":null}}],"usage":{{"prompt_tokens":4,"total_tokens":9,"completion_tokens":{so_far}}}}}"#
        ),
        Dialect::Completions => format!(
            r#"{{"id":"c","object":"text_completion","model":"m","choices":[{{"index":0,"text":"{text}","logprobs":null,"finish_reason":null,"stop_reason":null}}]}}"#
        ),
        Dialect::Responses => format!(
            r#"{{"type":"response.output_text.delta","item_id":"i","output_index":0,"delta":"{text}","logprobs":[],"sequence_number":{so_far}}}"#
        ),
        Dialect::Tgi => format!(
            r#"{{"index":{so_far},"token":{{"id":5,"text":"{text}","logprob":-0.5,"special":false}},"generated_text":null,"details":null}}"#
        ),
        Dialect::TritonGenerate => {
            format!(r#"{{"model_name":"m","model_version":"1","text_output":"{text}"}}"#)
        }
        Dialect::LlamaCpp => format!(
            r#"{{"index":0,"content":"{text}","tokens":[{so_far}],"stop":false,"id_slot":-1,"tokens_predicted":{so_far},"tokens_evaluated":5}}"#
        ),
        Dialect::FastChatWorker => {
            // The whole text again, so at a number of characters that does not grow without end here.
            let all = text.repeat(1 + number);
            return format!(
                "{{\"text\": \"{all}\", \"error_code\": 0, \"usage\": {{\"prompt_tokens\": 5, \"completion_tokens\": {so_far}}}, \"finish_reason\": null, \"logprobs\": null}}\0"
            );
        }
        Dialect::Embeddings | Dialect::TritonInfer => unreachable!("no streams"),
    };
    format!("data: {data}\n\n")
}

fn begun(dialect: Dialect, head: &[u8], events: &mut Vec<SessionEvent>) -> Box<dyn Session> {
    let driver = Generation::new(GenerationOptions::new(dialect, "127.0.0.1:8000", "m")).unwrap();
    let mut session = driver.session(0, 0);
    let mut out = Vec::new();
    session.open(&mut out, events);
    session.start(Op { token: OpToken(0), index: 0, intended_ns: 0 }, &mut out);
    session.receive(head, &mut out, events);
    events.clear();
    session
}

/// Allocations while the second part of the reads is taken, and the content events that they brought.
fn allocations(
    session: &mut dyn Session,
    events: &mut Vec<SessionEvent>,
    warm: &[Vec<u8>],
    reads: &[Vec<u8>],
) -> (u64, usize) {
    let mut out = Vec::new();
    let mut take = |reads: &[Vec<u8>], events: &mut Vec<SessionEvent>| {
        let mut content = 0;
        for read in reads {
            session.receive(read, &mut out, events);
            content += events.iter().filter(|event| matches!(event, SessionEvent::Content { .. })).count();
            assert_eq!(content_only(events), events.len(), "{events:?}");
            events.clear();
        }
        content
    };
    take(warm, events);
    let mut content = 0;
    let seen = allocation_counter::measure(|| content = take(reads, events));
    (seen.count_total, content)
}

fn content_only(events: &[SessionEvent]) -> usize {
    events.iter().filter(|event| matches!(event, SessionEvent::Content { .. })).count()
}

/// The chunks as reads: one each, cut in two, sixteen together.
fn cut(chunks: &[Vec<u8>], way: usize) -> Vec<Vec<u8>> {
    match way {
        0 => chunks.to_vec(),
        1 => chunks
            .iter()
            .enumerate()
            .flat_map(|(number, chunk)| {
                let (a, b) = chunk.split_at(1 + number * 7 % (chunk.len() - 1));
                [a.to_vec(), b.to_vec()]
            })
            .collect(),
        _ => chunks.chunks(16).map(<[Vec<u8>]>::concat).collect(),
    }
}

#[test]
fn a_token_allocates_nothing() {
    let mut table = Vec::new();
    for dialect in Dialect::ALL.into_iter().filter(|dialect| dialect.can_stream()) {
        for (kind, text) in [("plain", " word"), ("escaped", r#"\n \"\u4f60\u597d\" "#)] {
            // A worker's records repeat all of the text: their buffer grows with it, and fewer of them say as much.
            let events_of = if dialect == Dialect::FastChatWorker { 100 } else { EVENTS };
            let chunks: Vec<Vec<u8>> = (0..WARM_UP + events_of)
                .map(|number| chunk(body(dialect, number, text).as_bytes()))
                .collect();
            for way in 0..3 {
                let mut events = Vec::with_capacity(64);
                let more = if dialect == Dialect::FastChatWorker {
                    ""
                } else {
                    "Content-Type: text/event-stream\r\n"
                };
                let mut session = begun(dialect, &head(more), &mut events);
                let (warm, rest) = chunks.split_at(WARM_UP);
                let mut warm = cut(warm, way);
                if dialect == Dialect::FastChatWorker {
                    // The longest record is in the warm-up too: buffers are as large as they get.
                    warm.push(chunk(b"{\"text\": \"\", \"padding\": \""));
                    warm.push(chunk(&vec![b' '; 64 * 1024]));
                    warm.push(chunk(b"\"}\0"));
                    if kind == "escaped" {
                        warm.push(chunk(
                            format!("{{\"text\":\"\", \"padding\": \"\\n{}\"}}\0", " ".repeat(64 * 1024))
                                .as_bytes(),
                        ));
                    }
                }
                let (count, content) = allocations(&mut *session, &mut events, &warm, &cut(rest, way));
                assert_eq!(content, events_of, "{dialect:?} {kind} {way}");
                table.push((format!("{dialect:?} {kind} {}", ["whole", "cut", "together"][way]), count));
            }
        }
    }
    let allocating: Vec<_> = table.iter().filter(|(_, count)| *count > 0).collect();
    assert!(allocating.is_empty(), "allocations per {EVENTS} events: {allocating:?}");
}

#[test]
fn a_token_of_a_compressed_stream_allocates_nothing() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let mut chunks = Vec::new();
    for number in 0..WARM_UP + EVENTS {
        gzip.write_all(body(Dialect::Chat, number, " word").as_bytes()).unwrap();
        gzip.flush().unwrap();
        chunks.push(chunk(&std::mem::take(gzip.get_mut())));
    }
    let mut events = Vec::with_capacity(64);
    let mut session = begun(
        Dialect::Chat,
        &head("Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\n"),
        &mut events,
    );
    let (warm, rest) = chunks.split_at(WARM_UP);
    assert_eq!(allocations(&mut *session, &mut events, warm, rest), (0, EVENTS));
}
