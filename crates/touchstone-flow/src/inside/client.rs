//! What the client saw over the whole run, warm-up and drain included, as the server's counters see it.

use touchstone_load::OpRecord;
use touchstone_stats::histogram::{Histogram, Quantile};

/// Sums over all operations of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientTotals {
    /// Answered well.
    pub(crate) answered: u64,
    /// Sent, and not answered well.
    pub(crate) failed: u64,
    /// Never sent.
    pub(crate) unsent: u64,
    /// Sent a second time.
    pub(crate) retried: u64,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    /// Good answers whose counts the server did not tell.
    pub(crate) input_unknown: u64,
    pub(crate) output_unknown: u64,
    /// Good answers with content.
    pub(crate) first: u64,
    pub(crate) generator_ns: u128,
    pub(crate) slot_ns: u128,
    pub(crate) write_ns: u128,
    pub(crate) from_send_ns: u128,
    pub(crate) from_send: Histogram,
}

impl ClientTotals {
    pub(crate) fn add(&mut self, record: &OpRecord) {
        self.retried += u64::from(record.retried);
        if record.failure > 0 || record.censored {
            *(if record.sent_ns == 0 { &mut self.unsent } else { &mut self.failed }) += 1;
            return;
        }
        self.answered += 1;
        self.input_tokens += u64::from(record.input_tokens);
        self.output_tokens += u64::from(record.output_tokens);
        self.input_unknown += u64::from(record.input_tokens == 0);
        self.output_unknown += u64::from(record.output_tokens == 0);
        if record.first_content_ns > 0 {
            let between = |from: u64, to: u64| u128::from(to.saturating_sub(from));
            self.first += 1;
            self.generator_ns += between(record.intended_ns, record.dispatch_ns);
            self.slot_ns += between(record.dispatch_ns, record.slot_ns);
            self.write_ns += between(record.slot_ns, record.sent_ns);
            self.from_send_ns += between(record.sent_ns, record.first_content_ns);
            self.from_send.record(record.first_content_ns.saturating_sub(record.sent_ns));
        }
    }

    fn mean_ms(&self, sum: u128) -> Option<f64> {
        (self.first > 0).then(|| sum as f64 / 1e6 / self.first as f64)
    }

    pub(crate) fn generator_ms(&self) -> Option<f64> {
        self.mean_ms(self.generator_ns)
    }

    pub(crate) fn slot_ms(&self) -> Option<f64> {
        self.mean_ms(self.slot_ns)
    }

    pub(crate) fn write_ms(&self) -> Option<f64> {
        self.mean_ms(self.write_ns)
    }

    /// Mean time from the last byte sent to the first content.
    pub(crate) fn sent_to_first_ms(&self) -> Option<f64> {
        self.mean_ms(self.from_send_ns)
    }

    pub(crate) fn sent_to_first_p99_ms(&self) -> Option<f64> {
        match self.from_send.quantile_nearest_rank(0.99) {
            Quantile::Value(ns) => Some(ns as f64 / 1e6),
            _ => None,
        }
    }
}
