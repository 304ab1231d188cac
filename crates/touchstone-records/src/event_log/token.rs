//! One event of an answer, and its compact coding: five to eight bytes for a usual one.

use super::MAX_BATCH;
use super::row::{put, put_difference, take, take_difference};

/// What an event of an answer brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// Text or a part of a tool call.
    Content,
    /// Reasoning only.
    Reasoning,
    /// A part of the answer without content: a role, an empty delta, a finish reason.
    Empty,
    /// A report about the answer, such as usage.
    Report,
}

impl TokenKind {
    const ALL: [Self; 4] = [Self::Content, Self::Reasoning, Self::Empty, Self::Report];

    /// The name in exported files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Reasoning => "reasoning",
            Self::Empty => "empty",
            Self::Report => "report",
        }
    }

    /// Whether something generated came with it.
    #[must_use]
    pub fn is_content(self) -> bool {
        matches!(self, Self::Content | Self::Reasoning)
    }
}

/// One event of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRow {
    /// Number of the operation in the global schedule, from 0.
    pub index: u64,
    /// When it arrived, ns of CLOCK_MONOTONIC. Events of one read have one instant: the read's.
    pub at_ns: u64,
    /// Tokens in it, where the server says so.
    pub tokens: Option<u32>,
    /// What it brought.
    pub kind: TokenKind,
}

/// Appends the payload of a tokens frame; `rows` must not be longer than [`MAX_BATCH`].
pub(super) fn encode(rows: &[TokenRow], out: &mut Vec<u8>) {
    put(out, rows.len() as u64);
    let (mut index, mut at_ns) = (0, 0);
    for row in rows {
        put_difference(out, row.index, index);
        put_difference(out, row.at_ns, at_ns);
        (index, at_ns) = (row.index, row.at_ns);
        // 0 stands for an unknown number of tokens.
        let tokens = row.tokens.map_or(0, |tokens| u64::from(tokens) + 1);
        put(out, tokens << 2 | row.kind as u64);
    }
}

/// The events of a payload; none when it is malformed.
pub(super) fn decode(mut input: &[u8]) -> Option<Vec<TokenRow>> {
    let count = usize::try_from(take(&mut input)?).ok().filter(|count| *count <= MAX_BATCH)?;
    let mut rows = Vec::with_capacity(count);
    let (mut index, mut at_ns) = (0, 0);
    for _ in 0..count {
        index = take_difference(&mut input, index)?;
        at_ns = take_difference(&mut input, at_ns)?;
        let coded = take(&mut input)?;
        let tokens = match coded >> 2 {
            0 => None,
            tokens => Some(u32::try_from(tokens - 1).ok()?),
        };
        rows.push(TokenRow { index, at_ns, tokens, kind: TokenKind::ALL[(coded & 3) as usize] });
    }
    input.is_empty().then_some(rows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_event_comes_back(
            rows in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<Option<u32>>(), 0..4usize), 0..40)
        ) {
            let rows: Vec<TokenRow> = rows
                .into_iter()
                .map(|(index, at_ns, tokens, kind)| TokenRow { index, at_ns, tokens, kind: TokenKind::ALL[kind] })
                .collect();
            let mut bytes = Vec::new();
            encode(&rows, &mut bytes);
            prop_assert_eq!(decode(&bytes), Some(rows.clone()));
            for cut in 0..bytes.len() {
                prop_assert!(decode(&bytes[..cut]).is_none(), "cut at {}", cut);
            }
        }

        #[test]
        fn any_bytes_are_events_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(rows) = decode(&bytes) {
                prop_assert!(rows.len() <= MAX_BATCH);
            }
        }
    }
}
