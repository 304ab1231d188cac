//! The monotonic and the wall clock in nanoseconds, and the map from one to the other.

use nix::time::{ClockId, clock_gettime};

/// A wall-clock movement larger than this between two samples counts as a step, in nanoseconds.
pub const STEP_NS: u64 = 1_000_000;
/// A stamp that maps to an instant older than this is refused, in nanoseconds.
pub const MAX_STAMP_AGE_NS: u64 = 60_000_000_000;
/// How long after a step every stamp is refused: data that were queued before the step carry the old
/// wall time, which after a backward step looks plausible. In nanoseconds.
pub const QUARANTINE_NS: u64 = 1_000_000_000;
/// A pair read within this long is good enough not to be read again, in nanoseconds.
const TIGHT_NS: u64 = 2_000;

fn read(clock: ClockId) -> u64 {
    // Both clocks exist on every supported system and both are past zero, so neither arm below is reached;
    // zero is chosen because it makes a wait return at once instead of hanging.
    clock_gettime(clock).map_or(0, |t| {
        let seconds = u64::try_from(t.tv_sec()).unwrap_or(0);
        let nanos = u64::try_from(t.tv_nsec()).unwrap_or(0);
        seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
    })
}

/// `CLOCK_MONOTONIC` now, in nanoseconds since an arbitrary start (boot on Linux). No system call where
/// the platform has a vDSO.
#[must_use]
pub fn mono_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME` now, in nanoseconds since the Unix epoch.
#[must_use]
pub fn wall_ns() -> u64 {
    read(ClockId::CLOCK_REALTIME)
}

/// One reading of the pair: the wall clock was read between the two monotonic readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    before: u64,
    wall: u64,
    after: u64,
}

impl Pair {
    fn read() -> Self {
        Self { before: mono_ns(), wall: wall_ns(), after: mono_ns() }
    }

    fn width(self) -> u64 {
        self.after.saturating_sub(self.before)
    }

    /// The interval that must hold `wall - mono`, as (low, high).
    fn offset(self) -> (i128, i128) {
        (i128::from(self.wall) - i128::from(self.after), i128::from(self.wall) - i128::from(self.before))
    }
}

/// Maps kernel receive stamps (`CLOCK_REALTIME`) to the monotonic clock.
///
/// Each sample confines the offset `wall - mono` to an interval as wide as the sample took. Samples that
/// agree narrow the interval, so a thread that was preempted in the middle of one does no harm. A sample
/// that lies more than [`STEP_NS`] outside is a step of the wall clock: stamps are then refused for
/// [`QUARANTINE_NS`], and whatever maps to before the step is refused for good.
#[derive(Debug, Clone)]
pub struct WallMap {
    low: i128,
    high: i128,
    sampled_at: u64,
    /// When the last step was noticed, on the monotonic clock.
    stepped_at: Option<u64>,
    steps: u64,
}

impl WallMap {
    /// Reads the pair of clocks three times and keeps the tightest.
    #[must_use]
    pub fn sample() -> Self {
        let mut best = Pair::read();
        for _ in 0..2 {
            let next = Pair::read();
            if next.width() < best.width() {
                best = next;
            }
        }
        Self::from_pair(best)
    }

    fn from_pair(pair: Pair) -> Self {
        let (low, high) = pair.offset();
        Self { low, high, sampled_at: pair.after, stepped_at: None, steps: 0 }
    }

    /// Reads the pair again (once; once more if the thread was held up in between) and returns the
    /// monotonic instant of the reading. Call it once per read, after the read.
    pub fn refresh(&mut self) -> u64 {
        let mut pair = Pair::read();
        if pair.width() > TIGHT_NS {
            let again = Pair::read();
            if again.width() < pair.width() {
                pair = again;
            }
        }
        self.absorb(pair);
        self.sampled_at
    }

    fn absorb(&mut self, pair: Pair) {
        let (low, high) = pair.offset();
        let agreed = (self.low.max(low), self.high.min(high));
        if agreed.0 <= agreed.1 {
            (self.low, self.high) = agreed;
        } else {
            // The two intervals are disjoint: the wall clock moved against the monotonic one.
            if agreed.0 - agreed.1 > i128::from(STEP_NS) {
                self.steps += 1;
                self.stepped_at = Some(pair.after);
            }
            (self.low, self.high) = (low, high);
        }
        self.sampled_at = pair.after;
    }

    /// Takes a fresh sample and maps a wall-clock stamp in nanoseconds since the Unix epoch. `None` when the
    /// stamp cannot be trusted: the clock stepped, or the result lies in the future or implausibly far back.
    pub fn to_mono(&mut self, wall_stamp_ns: u64) -> Option<u64> {
        self.refresh();
        self.map(wall_stamp_ns)
    }

    /// Maps with the sample taken last, for a caller that has just called [`WallMap::refresh`]. A result less
    /// than [`STEP_NS`] in the future is the map's own uncertainty and is cut to the instant of the sample.
    #[must_use]
    pub fn map(&self, wall_stamp_ns: u64) -> Option<u64> {
        let now = self.sampled_at;
        let mono = u64::try_from(i128::from(wall_stamp_ns) - (self.low + self.high) / 2).ok()?;
        if mono > now.saturating_add(STEP_NS) || now.saturating_sub(mono) > MAX_STAMP_AGE_NS {
            return None;
        }
        if let Some(step) = self.stepped_at
            && (now < step.saturating_add(QUARANTINE_NS) || mono < step)
        {
            return None;
        }
        Some(mono.min(now))
    }

    /// How many steps of the wall clock were seen.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Half the width of the interval the offset is known to lie in, in nanoseconds: the error of a mapped stamp.
    #[must_use]
    pub fn uncertainty_ns(&self) -> u64 {
        u64::try_from((self.high - self.low) / 2).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFSET: u64 = 1_700_000_000_000_000_000;

    fn pair(mono: u64, offset: u64, width: u64) -> Pair {
        Pair { before: mono, wall: mono + width / 2 + offset, after: mono + width }
    }

    #[test]
    fn agreeing_samples_narrow_and_a_held_up_sample_does_no_harm() {
        let mut map = WallMap::from_pair(pair(1_000_000, OFFSET, 400));
        assert_eq!(map.uncertainty_ns(), 200);
        // Held up for 5 ms between the wall and the second monotonic reading.
        map.absorb(Pair { before: 2_000_000, wall: 2_000_010 + OFFSET, after: 7_000_000 });
        assert_eq!(map.steps(), 0);
        assert!(map.uncertainty_ns() <= 200);
        let mapped = map.map(6_000_000 + OFFSET).unwrap();
        assert!(mapped.abs_diff(6_000_000) <= 200, "{mapped}");
    }

    #[test]
    fn a_step_is_counted_and_stamps_are_refused_until_it_is_safe() {
        for step in [-5_000_000i64, 5_000_000, 3_600_000_000_000] {
            let mut map = WallMap::from_pair(pair(10_000_000_000, OFFSET, 100));
            let moved = OFFSET.checked_add_signed(step).unwrap();
            let noticed = 20_000_000_000;
            map.absorb(pair(noticed, moved, 100));
            assert_eq!(map.steps(), 1, "{step}");
            assert_eq!(map.map(noticed - 1_000 + OFFSET), None, "queued before the step of {step}");
            assert_eq!(map.map(noticed + moved), None, "in quarantine after {step}");
            let later = noticed + QUARANTINE_NS + 1_000;
            map.absorb(pair(later, moved, 100));
            assert_eq!(map.map(noticed - 1_000 + moved), None, "older than the step of {step}");
            let good = map.map(later - 500 + moved).unwrap();
            assert!(good.abs_diff(later - 500) <= 100, "{step}: {good}");
            assert_eq!(map.steps(), 1);
        }
    }

    #[test]
    fn a_small_adjustment_is_followed_without_counting_as_a_step() {
        let mut map = WallMap::from_pair(pair(10_000_000, OFFSET, 100));
        map.absorb(pair(20_000_000, OFFSET + 400_000, 100));
        assert_eq!(map.steps(), 0);
        let mapped = map.map(20_000_000 + OFFSET + 400_000).unwrap();
        assert!(mapped.abs_diff(20_000_000) <= 100);
    }

    #[test]
    fn stamps_from_the_future_and_the_far_past_are_refused() {
        let now = 100_000_000_000;
        let map = WallMap::from_pair(pair(now, OFFSET, 100));
        assert_eq!(map.map(now + 2 * STEP_NS + OFFSET), None);
        assert_eq!(map.map(now - MAX_STAMP_AGE_NS - 1_000 + OFFSET), None);
        assert_eq!(map.map(0), None);
        // Slightly ahead is the map's own error: never later than the reading itself.
        assert_eq!(map.map(now + 5_000 + OFFSET), Some(now + 100));
    }

    #[test]
    fn the_real_clocks_map_to_each_other() {
        let mut map = WallMap::sample();
        let before = mono_ns();
        let wall = wall_ns();
        let after = mono_ns();
        let mapped = map.to_mono(wall).expect("no step during the test");
        let slack = map.uncertainty_ns() + 1;
        assert!(mapped + slack >= before && mapped <= after + slack, "{before} {mapped} {after} +-{slack}");
    }
}
