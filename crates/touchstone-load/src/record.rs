//! What is kept of one operation: its instants, its counts, its end.

use touchstone_model::MetricId;

use crate::session::Op;

/// Metrics that have a value per operation or gap, in the order of their slots in tables.
pub const TRACKED: [MetricId; 16] = [
    MetricId::Ttft,
    MetricId::TtftFromSend,
    MetricId::TtftAnswer,
    MetricId::Icl,
    MetricId::Itl,
    MetricId::Tpot,
    MetricId::Ntpot,
    MetricId::E2e,
    MetricId::ServiceTime,
    MetricId::StreamClose,
    MetricId::SchedulingError,
    MetricId::SlotWait,
    MetricId::Connect,
    MetricId::Write,
    MetricId::PublishLatency,
    MetricId::EndToEndLatency,
];

/// The slot of a tracked metric.
pub(crate) fn slot(metric: MetricId) -> Option<usize> {
    // A match, not a search in TRACKED: with a known metric it costs nothing. A test holds the two together.
    Some(match metric {
        MetricId::Ttft => 0,
        MetricId::TtftFromSend => 1,
        MetricId::TtftAnswer => 2,
        MetricId::Icl => 3,
        MetricId::Itl => 4,
        MetricId::Tpot => 5,
        MetricId::Ntpot => 6,
        MetricId::E2e => 7,
        MetricId::ServiceTime => 8,
        MetricId::StreamClose => 9,
        MetricId::SchedulingError => 10,
        MetricId::SlotWait => 11,
        MetricId::Connect => 12,
        MetricId::Write => 13,
        MetricId::PublishLatency => 14,
        MetricId::EndToEndLatency => 15,
        _ => return None,
    })
}

/// One operation as it goes to the recorder. Instants are ns of CLOCK_MONOTONIC, 0 where it never came to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpRecord {
    /// Number in the global schedule.
    pub index: u64,
    /// Intended start.
    pub intended_ns: u64,
    /// The timer handed it over.
    pub dispatch_ns: u64,
    /// It got a connection or pipeline slot.
    pub slot_ns: u64,
    /// Its last byte went to the kernel.
    pub sent_ns: u64,
    /// The head of the answer arrived.
    pub head_ns: u64,
    /// The first content arrived.
    pub first_content_ns: u64,
    /// The last content arrived.
    pub last_content_ns: u64,
    /// It ended.
    pub end_ns: u64,
    /// Output tokens as the server counted them; 0 where unknown.
    pub output_tokens: u32,
    /// Input tokens as the server counted them; 0 where unknown.
    pub input_tokens: u32,
    /// Content chunks.
    pub chunks: u32,
    /// Belongs to the measured cohort.
    pub measured: bool,
    /// Was sent a second time on a fresh connection.
    pub retried: bool,
    /// For lookups: whether a value was found.
    pub hit: Option<bool>,
    /// 0 when it ended well, else 1 + the position in the list of failures.
    pub failure: u16,
    /// Unfinished at the end of drain.
    pub censored: bool,
}

/// What an event of an answer brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// One event of an answer as it goes to the recorder when all of them are asked for ([`crate::LoadPlan::log_tokens`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenEvent {
    /// Number of the operation in the global schedule.
    pub index: u64,
    /// When it arrived, ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Tokens in it, where the server says so.
    pub tokens: Option<u32>,
    /// What it brought.
    pub kind: TokenKind,
}

/// An operation in flight.
#[derive(Debug, Clone, Default)]
pub(crate) struct InFlight {
    pub(crate) op: Option<Op>,
    pub(crate) dispatch_ns: u64,
    pub(crate) slot_ns: u64,
    pub(crate) sent_ns: u64,
    pub(crate) head_ns: u64,
    pub(crate) first_ns: u64,
    pub(crate) first_answer_ns: u64,
    pub(crate) last_ns: u64,
    /// Instant of the last sign of life, for the idle limit.
    pub(crate) alive_ns: u64,
    pub(crate) chunks: u32,
    /// Tokens of the first chunk, and of all, where every chunk told them.
    pub(crate) first_tokens: u32,
    pub(crate) tokens: u32,
    pub(crate) tokens_known: bool,
    /// Tokens already attributed to windows and blocks as flow.
    pub(crate) flow_tokens: u32,
    /// Gaps between content chunks with the tokens of the later chunk (0 where unknown), ns.
    pub(crate) gaps: Vec<(u64, u32)>,
    pub(crate) measured: bool,
    pub(crate) retried: bool,
}

impl InFlight {
    /// Makes the slot ready for another operation, keeping its allocation.
    pub(crate) fn reset(&mut self) {
        let mut gaps = std::mem::take(&mut self.gaps);
        gaps.clear();
        *self = Self { gaps, ..Self::default() };
    }

    /// Whether a total says less than came: a content chunk holds at least one token, and chunks may have told theirs. More
    /// is no contradiction: tokens without text (the end of the sequence) come with no chunk.
    pub(crate) fn contradicts(&self, total: u32) -> bool {
        total < self.chunks || self.tokens_known && total < self.tokens
    }

    /// Tokens per chunk, resolved: known ones, or one each when the total equals the number of chunks (every content
    /// chunk holds at least one token, so equal totals leave no other possibility).
    pub(crate) fn tokens_per_chunk_known(&self, total: Option<u32>) -> bool {
        self.tokens_known || total == Some(self.chunks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_positions_in_the_table() {
        for (position, metric) in TRACKED.into_iter().enumerate() {
            assert_eq!(slot(metric), Some(position), "{metric}");
        }
        assert_eq!(slot(MetricId::Throughput), None);
    }
}
