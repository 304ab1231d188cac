//! What the server itself saw of each generation request: the reference against which a load generator's figures are
//! checked.
//!
//! A request belongs to the window `[from, to)` when the receive stamp of the read that completed it does. The stamp
//! is the kernel's wherever it gives one. A chunk's write instant is taken right after the system call that had the
//! kernel accept the chunk's last byte. All in `CLOCK_MONOTONIC` nanoseconds.

use std::collections::VecDeque;

use serde::Serialize;

use crate::http::Arrival;

/// Most requests remembered.
const MAX_REQUESTS: usize = 200_000;
/// Most gaps remembered, over all requests.
const MAX_GAPS: usize = 4_000_000;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Not ended yet.
    Open,
    /// The kernel accepted the whole answer.
    Completed,
    /// Refused as invalid (4xx) before any work.
    Invalid,
    /// Turned away under load.
    Rejected,
    /// An error was reported, by status or inside the stream.
    Failed,
    /// The engine closed the connection part-way: by a fault or because the client read too slowly.
    Cut,
    /// The client went away.
    Cancelled,
}

/// What a write meant for its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// First content, this long after the receipt, ns.
    First(u64),
    /// Later content, this long after the one before, ns.
    Gap(u64),
}

#[derive(Debug)]
struct Record {
    received: Arrival,
    streamed: bool,
    outcome: Outcome,
    first: Option<u64>,
    last: Option<u64>,
    gaps: Vec<u64>,
    tokens: u32,
}

/// The last [`MAX_REQUESTS`] requests, or fewer if they have over [`MAX_GAPS`] gaps together.
#[derive(Debug, Default)]
pub(crate) struct TruthLog {
    records: VecDeque<Record>,
    /// Number of the first record still there.
    base: u64,
    gaps: usize,
    /// Latest receipt of a forgotten request.
    forgotten_until: Option<u64>,
}

/// Nearest-rank percentiles of exact values in nanoseconds; null where there are no values.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Summary {
    unit: &'static str,
    n: usize,
    p50: Option<u64>,
    p90: Option<u64>,
    p95: Option<u64>,
    p99: Option<u64>,
    max: Option<u64>,
}

impl Summary {
    fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let n = values.len();
        let rank = |percent: usize| values.get((n * percent).div_ceil(100).saturating_sub(1)).copied();
        Self {
            unit: "ns",
            n,
            p50: rank(50),
            p90: rank(90),
            p95: rank(95),
            p99: rank(99),
            max: values.last().copied(),
        }
    }
}

#[derive(Debug, Default, Serialize, PartialEq, Eq)]
struct Counts {
    received: u64,
    streamed: u64,
    completed: u64,
    invalid: u64,
    rejected: u64,
    failed: u64,
    cut: u64,
    cancelled: u64,
    unfinished: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    simulated: bool,
    clock: &'static str,
    definition: &'static str,
    from_ns: u64,
    to_ns: u64,
    now_ns: u64,
    /// Whether requests of the window have been forgotten.
    truncated: bool,
    bound_requests: usize,
    bound_gaps: usize,
    requests: Counts,
    /// Requests whose receive stamp is this process's, not the kernel's.
    user_stamped: u64,
    output_tokens: u64,
    ttft_from_receive: Summary,
    itl: Summary,
    e2e_from_receive: Summary,
}

const DEFINITION: &str = "requests: generation requests whose completing read has its receive stamp in \
[from_ns, to_ns); ttft_from_receive: first content write accepted by the kernel minus that stamp, streamed requests; \
itl: gaps between consecutive content chunk writes of those requests, pooled, per chunk; e2e_from_receive: last \
content write minus that stamp, completed requests; percentiles by nearest rank";

impl TruthLog {
    /// Begins the record of a request and returns its number.
    pub(crate) fn receive(&mut self, received: Arrival, streamed: bool) -> u64 {
        let (first, last, gaps) = (None, None, Vec::new());
        self.records.push_back(Record {
            received,
            streamed,
            outcome: Outcome::Open,
            first,
            last,
            gaps,
            tokens: 0,
        });
        self.forget(MAX_REQUESTS, MAX_GAPS);
        self.base + self.records.len() as u64 - 1
    }

    fn forget(&mut self, requests: usize, gaps: usize) {
        while self.records.len() > requests || self.gaps > gaps {
            let Some(oldest) = self.records.pop_front() else { return };
            self.base += 1;
            self.gaps -= oldest.gaps.len();
            self.forgotten_until = self.forgotten_until.max(Some(oldest.received.at));
        }
    }

    fn get(&mut self, number: u64) -> Option<&mut Record> {
        let index = number.checked_sub(self.base)?;
        self.records.get_mut(usize::try_from(index).ok()?)
    }

    /// The kernel accepted a content chunk of `tokens` tokens at `at`. `None` for a forgotten request.
    pub(crate) fn content_written(&mut self, number: u64, at: u64, tokens: u32) -> Option<Written> {
        let record = self.get(number)?;
        record.tokens += tokens;
        let before = record.last.replace(at);
        let Some(before) = before else {
            record.first = Some(at);
            return Some(Written::First(at.saturating_sub(record.received.at)));
        };
        let gap = at.saturating_sub(before);
        record.gaps.push(gap);
        self.gaps += 1;
        self.forget(MAX_REQUESTS, MAX_GAPS);
        Some(Written::Gap(gap))
    }

    /// Records the end. Only the first end counts. Returns the time from receipt to last content, ns.
    pub(crate) fn end(&mut self, number: u64, outcome: Outcome) -> Option<u64> {
        let record = self.get(number).filter(|record| record.outcome == Outcome::Open)?;
        record.outcome = outcome;
        record.last.map(|last| last.saturating_sub(record.received.at))
    }

    /// The truth about the window `[from, to)` as JSON.
    pub(crate) fn report(&self, from: u64, to: u64, now: u64) -> String {
        let mut counts = Counts::default();
        let (mut ttft, mut itl, mut e2e) = (Vec::new(), Vec::new(), Vec::new());
        let (mut user_stamped, mut tokens) = (0, 0);
        for record in self.records.iter().filter(|record| (from..to).contains(&record.received.at)) {
            counts.received += 1;
            counts.streamed += u64::from(record.streamed);
            *match record.outcome {
                Outcome::Open => &mut counts.unfinished,
                Outcome::Completed => &mut counts.completed,
                Outcome::Invalid => &mut counts.invalid,
                Outcome::Rejected => &mut counts.rejected,
                Outcome::Failed => &mut counts.failed,
                Outcome::Cut => &mut counts.cut,
                Outcome::Cancelled => &mut counts.cancelled,
            } += 1;
            user_stamped += u64::from(!record.received.by_kernel);
            tokens += u64::from(record.tokens);
            let since = |at: u64| at.saturating_sub(record.received.at);
            if record.streamed {
                ttft.extend(record.first.map(since));
                itl.extend_from_slice(&record.gaps);
            }
            if record.outcome == Outcome::Completed {
                e2e.extend(record.last.map(since));
            }
        }
        let report = Report {
            simulated: true,
            clock: "CLOCK_MONOTONIC",
            definition: DEFINITION,
            from_ns: from,
            to_ns: to,
            now_ns: now,
            truncated: self.forgotten_until.is_some_and(|until| from <= until),
            bound_requests: MAX_REQUESTS,
            bound_gaps: MAX_GAPS,
            requests: counts,
            user_stamped,
            output_tokens: tokens,
            ttft_from_receive: Summary::of(ttft),
            itl: Summary::of(itl),
            e2e_from_receive: Summary::of(e2e),
        };
        // Plain numbers and strings: this cannot fail.
        serde_json::to_string(&report).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Arrival {
        Arrival { at: ns, by_kernel: true }
    }

    fn json(text: &str) -> serde_json::Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let summary = Summary::of((1..=10).rev().collect());
        assert_eq!(
            (summary.p50, summary.p90, summary.p95, summary.p99),
            (Some(5), Some(9), Some(10), Some(10))
        );
        assert_eq!((summary.n, summary.max), (10, Some(10)));
        let empty = Summary::of(Vec::new());
        assert_eq!((empty.n, empty.p50, empty.max), (0, None, None));
    }

    #[test]
    fn a_window_is_half_open_and_pools_gaps() {
        let mut log = TruthLog::default();
        let a = log.receive(at(100), true);
        let b = log.receive(at(200), true);
        let c = log.receive(Arrival { at: 199, by_kernel: false }, false);
        assert_eq!(log.content_written(a, 150, 1), Some(Written::First(50)));
        assert_eq!(log.content_written(a, 170, 2), Some(Written::Gap(20)));
        assert_eq!(log.content_written(a, 200, 1), Some(Written::Gap(30)));
        assert_eq!(log.end(a, Outcome::Completed), Some(100));
        assert_eq!(log.end(a, Outcome::Cut), None);
        log.content_written(b, 260, 1);
        log.content_written(c, 300, 9);
        log.end(c, Outcome::Completed);
        let report = json(&log.report(100, 200, 999));
        assert_eq!(report["requests"]["received"], 2);
        assert_eq!(report["requests"]["completed"], 2);
        assert_eq!(
            (&report["ttft_from_receive"]["n"], &report["ttft_from_receive"]["p50"]),
            (&1.into(), &50.into())
        );
        assert_eq!(
            (&report["itl"]["n"], &report["itl"]["p50"], &report["itl"]["max"]),
            (&2.into(), &20.into(), &30.into())
        );
        assert_eq!(report["e2e_from_receive"]["max"], 101);
        assert_eq!((&report["output_tokens"], &report["user_stamped"]), (&13.into(), &1.into()));
        assert_eq!(report["truncated"], false);
        let later = json(&log.report(200, 201, 999));
        assert_eq!(
            (&later["requests"]["unfinished"], &later["itl"]["p50"]),
            (&1.into(), &serde_json::Value::Null)
        );
    }

    #[test]
    fn what_is_forgotten_is_said() {
        let mut log = TruthLog::default();
        let first = log.receive(at(1), true);
        let second = log.receive(at(2), true);
        for k in 0..4 {
            log.content_written(first, 10 + k, 1);
        }
        log.forget(10, 2);
        assert_eq!(log.content_written(first, 20, 1), None);
        assert_eq!(log.end(first, Outcome::Completed), None);
        assert_eq!(log.content_written(second, 20, 1), Some(Written::First(18)));
        assert_eq!(json(&log.report(0, 9, 9))["truncated"], true);
        assert_eq!(json(&log.report(2, 9, 9))["truncated"], false);
        assert_eq!(json(&log.report(0, 9, 9))["requests"]["received"], 1);
    }
}
