//! The schedule of intended starts: one seeded global process, dealt to shards.
//!
//! The process is a function of (arrival, seed) alone. A shard walks the whole process and keeps its own part, so the
//! number of shards never changes when, or with what payload, operation `i` starts.

use sha2::{Digest, Sha256};
use touchstone_model::Arrival;
use touchstone_stats::rng::Rng;

/// Intended starts in order, as (operation number, offset in ns from the start of load). Endless for open loops, empty
/// for closed ones, whose starts depend on the answers.
#[derive(Debug, Clone)]
pub struct Schedule {
    arrival: Arrival,
    rng: Rng,
    index: u64,
    /// Time of the last start, ns. Sums of up to 2^53 ns (104 days) keep their nanoseconds in an f64.
    clock_ns: f64,
}

impl Schedule {
    /// The schedule of an arrival process.
    #[must_use]
    pub fn new(arrival: Arrival, seed: u64) -> Self {
        Self { arrival, rng: Rng::keyed(seed, b"arrivals", 0), index: 0, clock_ns: 0.0 }
    }
}

impl Iterator for Schedule {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let index = self.index;
        let offset_ns = match self.arrival {
            Arrival::Closed { .. } => return None,
            // From the number, not by adding gaps: the thousandth start is exact too.
            Arrival::Constant { per_second } => index as f64 * 1e9 / per_second,
            Arrival::Poisson { per_second } => {
                self.clock_ns += self.rng.exponential(1e9 / per_second);
                self.clock_ns
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
pub fn digest(arrival: Arrival, seed: u64, end: End) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{arrival} {seed} {} {}", end.at_ns, end.starts).as_bytes());
    for (_, offset_ns) in ShardSchedule::new(Schedule::new(arrival, seed), end, 0, 1).take(DIGEST_STARTS) {
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
        ShardSchedule::new(Schedule::new(text.parse().unwrap(), seed), ALL, shard, shards).collect()
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

    #[test]
    fn the_number_of_shards_changes_nothing() {
        let whole = starts("poisson:300/s", 9, 0, 1);
        for shards in [2, 3, 8] {
            let mut dealt: Vec<_> =
                (0..shards).flat_map(|shard| starts("poisson:300/s", 9, shard, shards)).collect();
            dealt.sort_unstable();
            assert_eq!(dealt, whole);
        }
    }

    #[test]
    fn one_seed_one_schedule() {
        let arrival = "poisson:50/s".parse().unwrap();
        assert_eq!(digest(arrival, 7, ALL), digest(arrival, 7, ALL));
        assert_ne!(digest(arrival, 7, ALL), digest(arrival, 8, ALL));
        let fewer = End { starts: 10, ..ALL };
        assert_eq!(ShardSchedule::new(Schedule::new(arrival, 7), fewer, 0, 1).count(), 10);
    }
}
