//! Feeding a session in pieces, and writing its events down in short.

use touchstone_load::{Op, OpToken, Session, SessionEvent};

/// Operation `number`, with a token that differs from it.
pub(crate) fn op(number: u32) -> Op {
    Op { token: OpToken(100 + number), index: u64::from(number), intended_ns: 0 }
}

/// An event in short; operations by their number.
pub(crate) fn short(event: &SessionEvent) -> String {
    let number = |op: &OpToken| op.0 - 100;
    match event {
        SessionEvent::Ready => "ready".to_owned(),
        SessionEvent::Head { op } => format!("{} head", number(op)),
        SessionEvent::Content { op, tokens, reasoning } => {
            let tokens = tokens.map_or_else(String::new, |tokens| format!(" {tokens}"));
            format!("{} {}{tokens}", number(op), if *reasoning { "reasoning" } else { "content" })
        }
        SessionEvent::Silent { op, part } => {
            format!("{} {}", number(op), if *part { "empty" } else { "report" })
        }
        SessionEvent::Done { op, answer } => {
            let mut text = format!("{} done", number(op));
            let tokens = [("out", answer.output_tokens), ("in", answer.input_tokens)];
            for (name, count) in tokens.iter().filter_map(|(name, count)| Some((name, (*count)?))) {
                text.push_str(&format!(" {name}={count}"));
            }
            if let Some(hit) = answer.hit {
                text.push_str(if hit { " hit" } else { " miss" });
            }
            text
        }
        SessionEvent::Failed { op, failure } => {
            format!("{} failed {} {} {}", number(op), failure.origin, failure.phase, failure.kind)
        }
        SessionEvent::Message { producer, sequence, op, index } => {
            format!("message producer={producer} sequence={sequence} op={} index={index}", op.0)
        }
        SessionEvent::Broken { failure } => {
            format!("broken {} {} {}", failure.origin, failure.phase, failure.kind)
        }
    }
}

/// The events of a session for bytes that come in the given pieces.
pub(crate) fn feed<'a>(
    session: &mut dyn Session,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    eof: bool,
) -> Vec<SessionEvent> {
    let mut events = Vec::new();
    let mut out = Vec::new();
    for piece in pieces {
        session.receive(piece, &mut out, &mut events);
    }
    if eof {
        session.end_of_stream(&mut events);
    }
    events
}

/// Checks the events of `bytes` fed whole, byte by byte, cut at every place, and in pieces of pseudo-random lengths.
pub(crate) fn check_every_cut(
    name: &str,
    session: &dyn Fn() -> Box<dyn Session>,
    bytes: &[u8],
    eof: bool,
    expected: &[&str],
) {
    let whole = feed(&mut *session(), [bytes], eof);
    assert_eq!(whole.iter().map(short).collect::<Vec<_>>(), expected, "{name}: whole");
    assert_eq!(feed(&mut *session(), bytes.chunks(1), eof), whole, "{name}: byte by byte");
    for at in 1..bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(feed(&mut *session(), [first, second], eof), whole, "{name}: cut at {at}");
    }
    for seed in 1..=32_u64 {
        let pieces = random_pieces(bytes, seed);
        assert_eq!(feed(&mut *session(), pieces, eof), whole, "{name}: random pieces, seed {seed}");
    }
}

fn random_pieces(mut bytes: &[u8], seed: u64) -> Vec<&[u8]> {
    let mut rng = touchstone_stats::rng::Rng::new(seed);
    let longest = 1 + rng.index(200);
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(bytes.len().min(1 + rng.index(longest)));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}
