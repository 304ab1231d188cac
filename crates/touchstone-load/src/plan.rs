//! The plan of a run: what load, for how long, with which limits.

use touchstone_model::{Arrival, Requirement};
use touchstone_workload::schedule::{self, End, Instants, Process};

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// Parts of a load that changes smoothly.
const PARTS: usize = 10;

/// How long things may take, each in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Opening a connection, with TLS and the protocol's greeting.
    pub connect_ns: u64,
    /// Send to the first content (or to the whole answer where nothing streams).
    pub first_ns: u64,
    /// Between two reads of one answer after its first content.
    pub idle_ns: u64,
    /// Dispatch to the end of the operation.
    pub total_ns: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect_ns: 5 * SECOND, first_ns: 60 * SECOND, idle_ns: 30 * SECOND, total_ns: 600 * SECOND }
    }
}

/// The plan of a run. Total time is warm-up + duration + at most drain.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPlan {
    /// When operations start.
    pub arrival: Arrival,
    /// The instants of the trace, where one is replayed.
    pub trace: Instants,
    /// The seed of schedule and payloads.
    pub seed: u64,
    /// Load before the measured window, ns.
    pub warm_up_ns: u64,
    /// Length of the measured window, ns; with `requests` its greatest length.
    pub duration_ns: u64,
    /// How long unfinished operations may take after it, ns.
    pub drain_ns: u64,
    /// End the schedule after this many operations; there is no warm-up then unless one was asked for.
    pub requests: Option<u64>,
    /// Operations on connections at once, over all shards; further ones wait.
    pub max_in_flight: Option<u32>,
    /// Failed operations that end the run.
    pub max_errors: Option<u64>,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// Limits to judge.
    pub slos: Vec<Requirement>,
    /// Confidence of bounds, one-sided.
    pub confidence: f64,
    /// Threads that send and receive.
    pub shards: u32,
    /// Whether every event of every answer is handed over, for the event log.
    pub log_tokens: bool,
}

impl LoadPlan {
    /// A plan with the defaults: 30 s after 5 s of warm-up, 30 s of drain, one shard.
    #[must_use]
    pub fn new(arrival: Arrival, seed: u64) -> Self {
        Self {
            arrival,
            trace: Instants::default(),
            seed,
            warm_up_ns: 5 * SECOND,
            duration_ns: 30 * SECOND,
            drain_ns: 30 * SECOND,
            requests: None,
            max_in_flight: None,
            max_errors: None,
            timeouts: Timeouts::default(),
            slos: Vec::new(),
            confidence: 0.95,
            shards: 1,
            log_tokens: false,
        }
    }

    /// Where the schedule ends, as offsets from the start of load.
    #[must_use]
    pub fn end(&self) -> End {
        End {
            at_ns: self.warm_up_ns.saturating_add(self.duration_ns),
            starts: self.requests.unwrap_or(u64::MAX),
        }
    }

    /// The digest of the schedule.
    #[must_use]
    pub fn schedule_digest(&self) -> String {
        schedule::digest(self.process(), self.end())
    }

    /// What the schedule follows from.
    #[must_use]
    pub fn process(&self) -> Process {
        Process {
            arrival: self.arrival,
            seed: self.seed,
            warm_up_ns: self.warm_up_ns,
            trace: self.trace.clone(),
        }
    }

    /// Number of stages of the measured window: the levels of a staircase whose whole length is measured, ten equal parts of
    /// any other load that changes on purpose, none of one that does not.
    #[must_use]
    pub fn stages(&self) -> usize {
        if self.arrival.is_stationary() || self.requests.is_some() {
            return 0;
        }
        let levels = self.arrival.levels().len();
        let whole = self.arrival.length().is_some_and(|length| length.nanos() == self.duration_ns);
        if levels > 0 && whole { levels } else { PARTS.min((self.duration_ns / (SECOND / 10)) as usize) }
    }

    /// Number of blocks of the measured window: 20, or fewer when they would be shorter than 100 ms; with stages a multiple
    /// of their number.
    #[must_use]
    pub fn blocks(&self) -> usize {
        let usual = (self.duration_ns / (SECOND / 10)).clamp(1, 20) as usize;
        match self.stages() {
            0 => usual,
            stages => stages * (usual / stages).max(1),
        }
    }

    /// The slots of a shard in a closed loop: `slots` dealt as evenly as can be.
    #[must_use]
    pub fn closed_slots(&self, shard: u32) -> u32 {
        match self.arrival {
            Arrival::Closed { slots } => slots / self.shards + u32::from(shard < slots % self.shards),
            _ => 0,
        }
    }

    /// A shard's part of `max_in_flight`; at least 1.
    #[must_use]
    pub fn shard_in_flight(&self, shard: u32) -> Option<u32> {
        self.max_in_flight.map(|all| (all / self.shards + u32::from(shard < all % self.shards)).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_bounded() {
        let mut plan = LoadPlan::new("poisson:50/s".parse().unwrap(), 1);
        for (duration_ns, blocks) in
            [(SECOND / 20, 1), (SECOND, 10), (10 * SECOND, 20), (86_400 * SECOND, 20)]
        {
            plan.duration_ns = duration_ns;
            assert_eq!(plan.blocks(), blocks, "{duration_ns}");
        }
    }

    #[test]
    fn stages_are_levels_or_parts_and_blocks_fit_into_them() {
        for (arrival, seconds, stages, blocks) in [
            ("poisson:50/s", 10, 0, 20),
            ("stairs:1/s..5/s,steps=5,hold=2s", 10, 5, 20),
            ("stairs:1/s..5/s,steps=5,hold=2s,down", 18, 9, 18),
            ("stairs:1/s..5/s,steps=5,hold=2s,down", 20, 10, 20),
            ("stairs:1/s..50/s,steps=50,hold=1s", 50, 50, 50),
            ("gradient:hold=10s", 50, 5, 20),
            ("ramp:1/s..5/s,over=10s", 10, 10, 20),
            ("wave:5/s,amplitude=1,period=3s", 7, 10, 20),
        ] {
            let mut plan = LoadPlan::new(arrival.parse().unwrap(), 1);
            plan.duration_ns = seconds * SECOND;
            assert_eq!((plan.stages(), plan.blocks()), (stages, blocks), "{arrival}");
        }
    }

    #[test]
    fn slots_are_dealt_without_loss() {
        let mut plan = LoadPlan::new("closed:10".parse().unwrap(), 1);
        plan.shards = 3;
        assert_eq!((0..3).map(|shard| plan.closed_slots(shard)).sum::<u32>(), 10);
    }
}
