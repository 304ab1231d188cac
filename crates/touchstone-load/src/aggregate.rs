//! Aggregation: cohorts in blocks, flows in windows, series for effective sample sizes. Mergeable over shards.

use touchstone_model::{MetricId, Origin, Phase};
use touchstone_stats::histogram::Histogram;

use crate::record::{TRACKED, slot};
use crate::session::Failure;

/// Windows that are kept; when more are needed, neighbours are merged and windows become twice as long.
const MAX_WINDOWS: usize = 160;
/// Length of the first windows, ns.
const FIRST_WINDOW_NS: u64 = 100_000_000;
/// Values of one metric that are kept in order of time; when more come, every other one is dropped.
const MAX_SERIES: usize = 1 << 17;
/// Groups of failures that are told apart.
const MAX_ERROR_GROUPS: usize = 64;

/// One window of the course of a run.
#[derive(Debug, Clone, Default)]
pub struct WindowAcc {
    /// Operations intended in it.
    pub offered: u64,
    /// Sends in it.
    pub sent: u64,
    /// Good ends in it.
    pub completed: u64,
    /// Bad ends in it.
    pub failed: u64,
    /// Output tokens in it; corrections may make a single window negative.
    pub tokens: i64,
    /// The leading latency of what ended well in it.
    pub latency: Histogram,
    /// Gaps between content chunks in it.
    pub icl: Histogram,
}

impl WindowAcc {
    fn merge(&mut self, other: &Self) {
        self.offered += other.offered;
        self.sent += other.sent;
        self.completed += other.completed;
        self.failed += other.failed;
        self.tokens += other.tokens;
        self.latency.merge(&other.latency);
        self.icl.merge(&other.icl);
    }
}

/// The windows of a run, of equal length, from its start.
#[derive(Debug, Clone)]
pub struct Windows {
    start_ns: u64,
    /// Length of a window, ns.
    pub length_ns: u64,
    /// The windows.
    pub list: Vec<WindowAcc>,
}

impl Windows {
    pub(crate) fn new(start_ns: u64) -> Self {
        Self { start_ns, length_ns: FIRST_WINDOW_NS, list: Vec::new() }
    }

    /// The window that holds an instant.
    pub(crate) fn at(&mut self, instant_ns: u64) -> &mut WindowAcc {
        let since = instant_ns.saturating_sub(self.start_ns);
        while since / self.length_ns >= MAX_WINDOWS as u64 {
            self.coarsen();
        }
        let index = (since / self.length_ns) as usize;
        if index >= self.list.len() {
            self.list.resize_with(index + 1, WindowAcc::default);
        }
        &mut self.list[index]
    }

    fn coarsen(&mut self) {
        let mut coarse = Vec::with_capacity(self.list.len().div_ceil(2));
        for pair in self.list.chunks(2) {
            let mut window = pair[0].clone();
            if let Some(second) = pair.get(1) {
                window.merge(second);
            }
            coarse.push(window);
        }
        self.list = coarse;
        self.length_ns *= 2;
    }

    fn merge(&mut self, mut other: Self) {
        while self.length_ns < other.length_ns {
            self.coarsen();
        }
        while other.length_ns < self.length_ns {
            other.coarsen();
        }
        if self.list.len() < other.list.len() {
            self.list.resize_with(other.list.len(), WindowAcc::default);
        }
        for (mine, theirs) in self.list.iter_mut().zip(&other.list) {
            mine.merge(theirs);
        }
    }
}

/// Values of one metric in order of time, thinned evenly when there are many.
#[derive(Debug, Clone)]
pub struct Series {
    stride: u64,
    seen: u64,
    /// (instant, value) pairs in ns; `u64::MAX` as a value is +infinity.
    pub items: Vec<(u64, u64)>,
}

impl Default for Series {
    fn default() -> Self {
        Self { stride: 1, seen: 0, items: Vec::new() }
    }
}

impl Series {
    /// The values in `[from_ns, to_ns)`.
    pub(crate) fn part(&self, from_ns: u64, to_ns: u64) -> Self {
        let inside = |item: &&(u64, u64)| (from_ns..to_ns).contains(&item.0);
        Self { items: self.items.iter().filter(inside).copied().collect(), ..*self }
    }

    fn push(&mut self, instant_ns: u64, value: u64) {
        if self.seen.is_multiple_of(self.stride) {
            if self.items.len() >= MAX_SERIES {
                let mut keep = false;
                self.items.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.stride *= 2;
            }
            if self.seen.is_multiple_of(self.stride) {
                self.items.push((instant_ns, value));
            }
        }
        self.seen += 1;
    }

    fn merge(&mut self, other: Self) {
        self.items.extend(other.items);
        self.items.sort_unstable_by_key(|item| item.0);
        self.seen += other.seen;
    }
}

/// A block of the measured window.
#[derive(Debug, Clone, Default)]
pub struct BlockAcc {
    /// Operations intended in it.
    pub intended: u64,
    /// Of these, failed or censored.
    pub failed: u64,
    /// Of these, within every operation limit.
    pub good: u64,
    /// Good ends whose instant lies in it.
    pub completed_flow: u64,
    /// Output tokens whose instant lies in it.
    pub tokens_flow: i64,
    /// Values of the operations intended in it, ns, by slot of [`TRACKED`].
    pub histograms: [Option<Box<Histogram>>; TRACKED.len()],
}

impl BlockAcc {
    fn merge(&mut self, other: Self) {
        self.intended += other.intended;
        self.failed += other.failed;
        self.good += other.good;
        self.completed_flow += other.completed_flow;
        self.tokens_flow += other.tokens_flow;
        for (mine, theirs) in self.histograms.iter_mut().zip(other.histograms) {
            match (mine.as_mut(), theirs) {
                (Some(mine), Some(theirs)) => mine.merge(&theirs),
                (None, theirs) => *mine = theirs,
                (Some(_), None) => {}
            }
        }
    }
}

/// Failures of one kind.
#[derive(Debug, Clone)]
pub struct ErrorAcc {
    /// The first failure of the kind.
    pub first: Failure,
    /// Operations of the whole run.
    pub count: u64,
    /// Of these, in the measured cohort.
    pub measured: u64,
}

/// Sums of one shard, or of all after merging.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Cohort: intended in the measured window.
    pub intended: u64,
    /// Cohort: sent.
    pub sent: u64,
    /// Cohort: ended well.
    pub completed: u64,
    /// Cohort: failed, with the censored ones.
    pub failed: u64,
    /// Cohort: unfinished at the end of drain.
    pub censored: u64,
    /// Cohort: within every operation limit.
    pub good: u64,
    /// Intended before the measured window.
    pub warm_up: u64,
    /// Cohort: output tokens, and operations that did not tell them.
    pub output_tokens: u64,
    /// Cohort: good operations without an output token count.
    pub output_unknown: u64,
    /// Cohort: input tokens.
    pub input_tokens: u64,
    /// Cohort: good operations without an input token count.
    pub input_unknown: u64,
    /// Cohort: content chunks.
    pub content_events: u64,
    /// Cohort: content chunks that shared a read with a later one.
    pub coalesced_events: u64,
    /// Cohort: good answers without any content.
    pub empty_answers: u64,
    /// Cohort: good answers with another number of output tokens than asked for.
    pub wrong_tokens: u64,
    /// Cohort: input tokens that prompts were made for, of the good answers whose server counted them.
    pub asked_input: u64,
    /// Cohort: number of such answers.
    pub input_asked: u64,
    /// Cohort: such answers whose count is another one.
    pub wrong_input: u64,
    /// Cohort: input tokens that the server found in a prefix cache.
    pub cached_input: u64,
    /// Cohort: good answers that told so.
    pub cache_told: u64,
    /// Cohort: lookups.
    pub lookups: u64,
    /// Cohort: lookups that found a value.
    pub hits: u64,
    /// Flow: sends in the measured window.
    pub sent_flow: u64,
    /// Flow: good ends in the measured window.
    pub completed_flow: u64,
    /// Flow: output tokens in the measured window.
    pub tokens_flow: i64,
    /// All: operations that failed, in warm-up too.
    pub failed_all: u64,
    /// All: operations that ended well.
    pub completed_all: u64,
    /// All: operations sent a second time on a fresh connection.
    pub retried: u64,
    /// All: operations that found `--max-in-flight` reached.
    pub limited: u64,
    /// Cohort: messages received for the first time.
    pub received: u64,
    /// All: messages received again.
    pub duplicated: u64,
    /// All: messages out of order.
    pub reordered: u64,
    /// Cohort: good answers whose token count is below what they brought.
    pub contradicted: u64,
    /// Cohort: good answers whose chunks do not tell their tokens.
    pub chunk_tokens_unknown: u64,
    /// All: operations sent.
    pub sent_all: u64,
    /// All: messages received, each once.
    pub received_unique: u64,
    /// Shards that gave up before they had walked their schedule to its end.
    pub abandoned: u64,
    /// Latest end of a good operation, ns.
    pub last_end_ns: u64,
}

impl Sums {
    fn merge(&mut self, o: &Self) {
        self.intended += o.intended;
        self.sent += o.sent;
        self.completed += o.completed;
        self.failed += o.failed;
        self.censored += o.censored;
        self.good += o.good;
        self.warm_up += o.warm_up;
        self.output_tokens += o.output_tokens;
        self.output_unknown += o.output_unknown;
        self.input_tokens += o.input_tokens;
        self.input_unknown += o.input_unknown;
        self.content_events += o.content_events;
        self.coalesced_events += o.coalesced_events;
        self.empty_answers += o.empty_answers;
        self.wrong_tokens += o.wrong_tokens;
        self.asked_input += o.asked_input;
        self.input_asked += o.input_asked;
        self.wrong_input += o.wrong_input;
        self.cached_input += o.cached_input;
        self.cache_told += o.cache_told;
        self.lookups += o.lookups;
        self.hits += o.hits;
        self.sent_flow += o.sent_flow;
        self.completed_flow += o.completed_flow;
        self.tokens_flow += o.tokens_flow;
        self.failed_all += o.failed_all;
        self.completed_all += o.completed_all;
        self.retried += o.retried;
        self.limited += o.limited;
        self.received += o.received;
        self.duplicated += o.duplicated;
        self.reordered += o.reordered;
        self.contradicted += o.contradicted;
        self.chunk_tokens_unknown += o.chunk_tokens_unknown;
        self.sent_all += o.sent_all;
        self.received_unique += o.received_unique;
        self.abandoned += o.abandoned;
        self.last_end_ns = self.last_end_ns.max(o.last_end_ns);
    }
}

/// Everything that is known of a run's operations.
#[derive(Debug, Clone)]
pub struct Aggregate {
    /// Sums.
    pub sums: Sums,
    /// The course of the run.
    pub windows: Windows,
    /// The measured window in blocks.
    pub blocks: Vec<BlockAcc>,
    /// Values in order of time, by slot of [`TRACKED`].
    pub series: [Series; TRACKED.len()],
    /// Failures by kind.
    pub errors: Vec<ErrorAcc>,
    /// Connect times over the whole run, ns: connections have no cohort.
    pub connects: Histogram,
}

impl Aggregate {
    pub(crate) fn new(start_ns: u64, blocks: usize) -> Self {
        Self {
            sums: Sums::default(),
            windows: Windows::new(start_ns),
            blocks: std::iter::repeat_with(BlockAcc::default).take(blocks).collect(),
            series: std::array::from_fn(|_| Series::default()),
            errors: Vec::new(),
            connects: Histogram::new(),
        }
    }

    /// Adds a value of the cohort to a block and to the metric's series.
    #[inline]
    pub(crate) fn observe(
        &mut self,
        metric: MetricId,
        block: usize,
        instant_ns: u64,
        value_ns: u64,
        weight: u64,
    ) {
        let Some(slot) = slot(metric) else { return };
        if let Some(block) = self.blocks.get_mut(block) {
            block.histograms[slot].get_or_insert_with(Box::default).record_n(value_ns, weight);
        }
        self.series[slot].push(instant_ns, value_ns);
    }

    /// Adds `weight` events of an operation of the cohort that it never reached: +infinity.
    pub(crate) fn observe_censored(&mut self, metric: MetricId, block: usize, instant_ns: u64, weight: u64) {
        let Some(slot) = slot(metric) else { return };
        if let Some(block) = self.blocks.get_mut(block) {
            block.histograms[slot].get_or_insert_with(Box::default).record_censored_n(weight);
        }
        self.series[slot].push(instant_ns, u64::MAX);
    }

    /// Counts a failure; gives its position in the list of failures.
    pub(crate) fn count_error(&mut self, failure: Failure, measured: bool) -> usize {
        let same = |group: &ErrorAcc| {
            group.first.origin == failure.origin
                && group.first.phase == failure.phase
                && group.first.kind == failure.kind
        };
        let position = match self.errors.iter().position(same) {
            Some(position) => position,
            None if self.errors.len() < MAX_ERROR_GROUPS => {
                self.errors.push(ErrorAcc { first: failure, count: 0, measured: 0 });
                self.errors.len() - 1
            }
            None => {
                // The last group takes what cannot be told apart any more.
                let other = Failure::new(
                    Origin::Target,
                    Phase::Decode,
                    "other",
                    "further kinds of failures",
                    "look at the first kinds of failures",
                );
                if self.errors[MAX_ERROR_GROUPS - 1].first.kind != other.kind {
                    self.errors[MAX_ERROR_GROUPS - 1].first = other;
                }
                MAX_ERROR_GROUPS - 1
            }
        };
        self.errors[position].count += 1;
        self.errors[position].measured += u64::from(measured);
        position
    }

    /// Adds what another shard saw.
    pub fn merge(&mut self, other: Self) {
        self.sums.merge(&other.sums);
        self.windows.merge(other.windows);
        for (mine, theirs) in self.blocks.iter_mut().zip(other.blocks) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.series.iter_mut().zip(other.series) {
            mine.merge(theirs);
        }
        for group in other.errors {
            let position = self.count_error(group.first, false);
            let mine = &mut self.errors[position];
            mine.count += group.count - 1;
            mine.measured += group.measured;
        }
        self.connects.merge(&other.connects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_coarsen_and_keep_their_sums() {
        let mut windows = Windows::new(1_000);
        for second in 0..1_000_u64 {
            windows.at(1_000 + second * 1_000_000_000).offered += 1;
        }
        assert!(windows.list.len() <= MAX_WINDOWS);
        assert_eq!(windows.list.iter().map(|window| window.offered).sum::<u64>(), 1_000);
    }

    #[test]
    fn a_series_is_thinned_evenly() {
        let mut series = Series::default();
        for value in 0..(MAX_SERIES as u64 * 5) {
            series.push(value, value);
        }
        assert!(series.items.len() <= MAX_SERIES);
        let steps: Vec<u64> = series.items.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        assert!(steps.iter().all(|step| *step == steps[0]), "{:?}", &steps[..8]);
    }

    #[test]
    fn error_groups_are_bounded() {
        let mut aggregate = Aggregate::new(0, 1);
        for kind in 0..1_000 {
            let failure = Failure::new(Origin::Target, Phase::Stream, format!("kind-{kind}"), "", "");
            aggregate.count_error(failure, true);
        }
        assert_eq!(aggregate.errors.len(), MAX_ERROR_GROUPS);
        assert_eq!(aggregate.errors.iter().map(|group| group.count).sum::<u64>(), 1_000);
    }
}
