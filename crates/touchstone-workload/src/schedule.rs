//! The schedule of intended starts: one seeded global process, dealt to shards.
//!
//! The process is a function of (arrival, seed) alone. A shard walks the whole process and keeps its own part, so the
//! number of shards never changes when, or with what payload, operation `i` starts.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use touchstone_model::Arrival;
use touchstone_stats::rng::Rng;

use crate::rate::Rate;

/// The instants of a recorded trace, ns from its first one, in order. Shared, since every shard walks all of it.
pub type Instants = Arc<[u64]>;

/// What a schedule follows from.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// The arrival process.
    pub arrival: Arrival,
    /// The seed.
    pub seed: u64,
    /// Load before the measured window, ns: where the rate changes, its shape begins after it.
    pub warm_up_ns: u64,
    /// The instants of the trace, for [`Arrival::Trace`]; empty otherwise.
    pub trace: Instants,
}

impl Process {
    /// A process without warm-up or trace.
    #[must_use]
    pub fn new(arrival: Arrival, seed: u64) -> Self {
        Self { arrival, seed, warm_up_ns: 0, trace: Instants::default() }
    }
}

/// Intended starts in order, as (operation number, offset in ns from the start of load). Endless for open loops (but for
/// traces and rates that end), empty for closed ones, whose starts depend on the answers.
#[derive(Debug, Clone)]
pub struct Schedule {
    process: Process,
    rng: Rng,
    index: u64,
    /// Time of the last start, ns; for rates that change, the number of starts expected by then. Sums of up to 2^53 ns
    /// (104 days) keep their nanoseconds in an f64.
    clock: f64,
    rate: Option<Rate>,
    /// Of bursts: the next start of the background, ns, and the starts of the current burst that are left.
    background_ns: f64,
    in_burst: u32,
    bursts: u64,
}

impl Schedule {
    /// The schedule of a process.
    #[must_use]
    pub fn new(process: Process) -> Self {
        let mut rng = Rng::keyed(process.seed, b"arrivals", 0);
        let (mut background_ns, mut in_burst) = (f64::INFINITY, 0);
        if let Arrival::Bursts { size, background, .. } = process.arrival {
            in_burst = size;
            if background > 0.0 {
                background_ns = rng.exponential(1e9 / background);
            }
        }
        let rate = Rate::new(process.arrival, process.warm_up_ns);
        Self { process, rng, index: 0, clock: 0.0, rate, background_ns, in_burst, bursts: 0 }
    }

    /// The next start of bursts over a background.
    fn burst(&mut self, size: u32, period_ns: f64, background: f64) -> f64 {
        let burst_ns = self.bursts as f64 * period_ns;
        if self.background_ns < burst_ns {
            let at = self.background_ns;
            self.background_ns += self.rng.exponential(1e9 / background);
            return at;
        }
        self.in_burst -= 1;
        if self.in_burst == 0 {
            self.in_burst = size;
            self.bursts += 1;
        }
        burst_ns
    }
}

impl Iterator for Schedule {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let index = self.index;
        let offset_ns = match self.process.arrival {
            Arrival::Closed { .. } => return None,
            // From the number, not by adding gaps: the thousandth start is exact too.
            Arrival::Constant { per_second } => index as f64 * 1e9 / per_second,
            Arrival::Poisson { per_second } => {
                self.clock += self.rng.exponential(1e9 / per_second);
                self.clock
            }
            Arrival::Gamma { per_second, cv } => {
                // Shape and scale of a gamma distribution with this mean and coefficient of variation.
                let shape = 1.0 / (cv * cv);
                self.clock += self.rng.gamma(shape, 1e9 / (per_second * shape));
                self.clock
            }
            Arrival::Bursts { size, period, background } => self.burst(size, period.0 * 1e6, background),
            Arrival::Wave { .. }
            | Arrival::Ramp { .. }
            | Arrival::Stairs { .. }
            | Arrival::Gradient { .. } => {
                self.clock += self.rng.exponential(1.0);
                self.rate.as_ref()?.instant(self.clock)? * 1e9
            }
            Arrival::Trace { speed } => {
                let at = *self.process.trace.get(usize::try_from(index).ok()?)?;
                at as f64 / speed
            }
        };
        self.index += 1;
        Some((index, offset_ns as u64))
    }
}

/// Where a schedule ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Starts at or after this offset (ns from the start of load) are not part of it.
    pub at_ns: u64,
    /// At most this many starts.
    pub starts: u64,
}

/// A shard's part of a schedule: operation `i` belongs to shard `i mod shards`.
#[derive(Debug, Clone)]
pub struct ShardSchedule {
    schedule: Schedule,
    end: End,
    shard: u64,
    shards: u64,
}

impl ShardSchedule {
    /// The part of shard `shard` of `shards`.
    #[must_use]
    pub fn new(schedule: Schedule, end: End, shard: u32, shards: u32) -> Self {
        Self { schedule, end, shard: u64::from(shard), shards: u64::from(shards.max(1)) }
    }
}

impl Iterator for ShardSchedule {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        loop {
            let (index, offset_ns) = self.schedule.next()?;
            if offset_ns >= self.end.at_ns || index >= self.end.starts {
                return None;
            }
            if index % self.shards == self.shard {
                return Some((index, offset_ns));
            }
        }
    }
}

/// Starts that the digest of a schedule walks through; 0.1 s of work.
pub const DIGEST_STARTS: usize = 2_000_000;

/// sha256 over a schedule, as `sha256:` and hexadecimal digits: over arrival process, seed and end in their text form,
/// and over the intended starts (u64 little-endian offsets in ns), the first [`DIGEST_STARTS`] of them. What comes later
/// follows from the same process and seed.
#[must_use]
pub fn digest(process: Process, end: End) -> String {
    let mut hash = Sha256::new();
    let text = format!("{} {} {} {}", process.arrival, process.seed, end.at_ns, end.starts);
    hash.update(text.as_bytes());
    for (_, offset_ns) in ShardSchedule::new(Schedule::new(process), end, 0, 1).take(DIGEST_STARTS) {
        hash.update(offset_ns.to_le_bytes());
    }
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: End = End { at_ns: 10_000_000_000, starts: u64::MAX };

    fn starts(text: &str, seed: u64, shard: u32, shards: u32) -> Vec<(u64, u64)> {
        ShardSchedule::new(Schedule::new(Process::new(text.parse().unwrap(), seed)), ALL, shard, shards)
            .collect()
    }

    #[test]
    fn constant_starts_are_exact() {
        let starts = starts("constant:3/s", 1, 0, 1);
        assert_eq!(starts.len(), 30);
        assert_eq!(starts[29], (29, 9_666_666_666));
    }

    #[test]
    fn poisson_has_its_rate_and_independent_gaps() {
        let starts = starts("poisson:5000/s", 7, 0, 1);
        // 50,000 expected; four standard deviations are 894.
        assert!((starts.len() as f64 - 50_000.0).abs() < 894.0, "{}", starts.len());
        let gaps: Vec<f64> = starts.windows(2).map(|pair| (pair[1].1 - pair[0].1) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        let cv = variance.sqrt() / mean;
        assert!((cv - 1.0).abs() < 0.03, "{cv}");
    }

    fn mean_and_cv(starts: &[(u64, u64)]) -> (f64, f64) {
        let gaps: Vec<f64> = starts.windows(2).map(|pair| (pair[1].1 - pair[0].1) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn gamma_has_its_rate_and_its_variation() {
        for cv in [0.2, 1.0, 2.0, 4.0] {
            let (mean, found) = mean_and_cv(&starts(&format!("gamma:5000/s,cv={cv}"), 7, 0, 1));
            // The mean of n gaps has a standard error of cv / sqrt(n) of itself: four of them.
            let error = 4.0 * cv / 50_000_f64.sqrt();
            assert!((mean / 200_000.0 - 1.0).abs() < error, "{cv}: {mean}");
            assert!((found / cv - 1.0).abs() < 0.08, "{cv}: {found}");
        }
    }

    #[test]
    fn bursts_start_together_over_their_background() {
        let alone = starts("bursts:size=5,period=2s", 1, 0, 1);
        let instants: Vec<u64> = alone.iter().map(|start| start.1).collect();
        let expected: Vec<u64> = (0..5).flat_map(|burst| [burst * 2_000_000_000; 5]).collect();
        assert_eq!(instants, expected);
        let with = starts("bursts:size=5,period=2s,background=100/s", 1, 0, 1);
        assert!(with.windows(2).all(|pair| pair[0].1 <= pair[1].1), "in order");
        let together = with.iter().filter(|start| start.1 % 2_000_000_000 == 0).count();
        assert_eq!(together, 25);
        // 1000 expected in the background, standard deviation 32.
        assert!((with.len() as f64 - 1025.0).abs() < 4.0 * 32.0, "{}", with.len());
    }

    /// Starts in a part of a schedule, seconds.
    fn between(starts: &[(u64, u64)], from: f64, to: f64) -> f64 {
        let inside = |at: u64| (from..to).contains(&(at as f64 / 1e9));
        starts.iter().filter(|start| inside(start.1)).count() as f64
    }

    #[test]
    fn rates_that_change_have_their_counts() {
        // Each expected count with four of its standard deviations.
        let near = |count: f64, expected: f64| (count - expected).abs() < 4.0 * expected.sqrt();
        let ramp = starts("ramp:0/s..2000/s,over=10s", 3, 0, 1);
        assert!(near(between(&ramp, 0.0, 5.0), 2500.0) && near(between(&ramp, 5.0, 10.0), 7500.0));
        let stairs = starts("stairs:1000/s..3000/s,steps=3,hold=2s,down", 3, 0, 1);
        for (number, level) in [1000.0, 2000.0, 3000.0, 2000.0, 1000.0].into_iter().enumerate() {
            let from = number as f64 * 2.0;
            assert!(near(between(&stairs, from, from + 2.0), level * 2.0), "{number}");
        }
        let wave = starts("wave:1000/s,amplitude=0.5,period=10s", 3, 0, 1);
        // The half with the crest has half a mean period and the swing of the sine.
        let crest = 5000.0 + 1000.0 * 0.5 * 10.0 / std::f64::consts::PI;
        assert!(near(between(&wave, 0.0, 5.0), crest) && near(between(&wave, 5.0, 10.0), 10_000.0 - crest));
        let gradient = starts("gradient:hold=2s", 3, 0, 1);
        assert!(near(between(&gradient, 6.0, 8.0), 200.0) && near(between(&gradient, 8.0, 10.0), 2000.0));
    }

    #[test]
    fn a_shape_begins_with_the_measured_window() {
        let mut process = Process::new("stairs:100/s..1000/s,steps=2,hold=2s".parse().unwrap(), 5);
        process.warm_up_ns = 3_000_000_000;
        let starts: Vec<_> = ShardSchedule::new(Schedule::new(process), ALL, 0, 1).collect();
        let near = |count: f64, expected: f64| (count - expected).abs() < 4.0 * expected.sqrt();
        assert!(near(between(&starts, 0.0, 5.0), 500.0), "warm-up and the first level");
        assert!(near(between(&starts, 5.0, 7.0), 2000.0));
    }

    #[test]
    fn a_trace_is_replayed_at_its_speed_and_ends() {
        let mut process = Process::new("trace:speed=2".parse().unwrap(), 5);
        process.trace = vec![0, 1_000, 1_000, 5_001].into();
        let starts: Vec<_> = Schedule::new(process).collect();
        assert_eq!(starts, [(0, 0), (1, 500), (2, 500), (3, 2500)]);
    }

    #[test]
    fn the_number_of_shards_changes_nothing() {
        for text in [
            "poisson:300/s",
            "gamma:300/s,cv=3",
            "bursts:size=7,period=1s,background=50/s",
            "wave:300/s,amplitude=0.9,period=3s",
            "ramp:0/s..300/s,over=5s",
            "stairs:10/s..300/s,steps=4,hold=1s,down",
        ] {
            let whole = starts(text, 9, 0, 1);
            for shards in [2, 3, 8] {
                let mut dealt: Vec<_> =
                    (0..shards).flat_map(|shard| starts(text, 9, shard, shards)).collect();
                dealt.sort_unstable();
                assert_eq!(dealt, whole, "{text}");
            }
        }
    }

    #[test]
    fn one_seed_one_schedule() {
        let process = |seed| Process::new("poisson:50/s".parse().unwrap(), seed);
        assert_eq!(digest(process(7), ALL), digest(process(7), ALL));
        assert_ne!(digest(process(7), ALL), digest(process(8), ALL));
        let fewer = End { starts: 10, ..ALL };
        assert_eq!(ShardSchedule::new(Schedule::new(process(7)), fewer, 0, 1).count(), 10);
    }
}
