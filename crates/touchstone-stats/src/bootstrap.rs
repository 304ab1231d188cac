//! Bootstrap resampling of runs and the windows inside them.
//!
//! The unit of replication is the run; requests inside it share a queue. So runs are drawn with replacement
//! first, and windows (blocks of time long against the autocorrelation time) within each drawn run second: a
//! two-stage bootstrap (Davison & Hinkley, "Bootstrap Methods and their Application", 1997, section 3.8). Its
//! intervals cover the spread between runs that were made; with fewer than five runs they are too narrow, and
//! no resampling can mend that.
//!
//! Resampling yields *indices*, so that a statistic may draw on whatever it likes about a window, and
//! candidates that shared a workload can be resampled in pairs by using one stream of indices for both.

use crate::quantile::nearest_rank;
use crate::rng::Rng;

/// An interval for a statistic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end, in the unit of the statistic.
    pub lower: f64,
    /// Upper end, in the unit of the statistic.
    pub upper: f64,
}

/// One resample of the windows of several runs, as (run, window) pairs.
///
/// As many runs as there are non-empty ones are drawn with replacement, and from each drawn run as many
/// windows as it has. Empty when all runs are.
pub fn resample_hierarchical(rng: &mut Rng, run_lengths: &[usize]) -> Vec<(usize, usize)> {
    let usable: Vec<usize> = (0..run_lengths.len()).filter(|&run| run_lengths[run] > 0).collect();
    let mut indices = Vec::with_capacity(run_lengths.iter().sum());
    for _ in 0..usable.len() {
        let run = usable[rng.index(usable.len())];
        let length = run_lengths[run];
        indices.extend((0..length).map(|_| (run, rng.index(length))));
    }
    indices
}

/// One resample of a single series of `n` values in blocks of consecutive ones that wrap around its end: the
/// circular block bootstrap (Politis & Romano, 1992). The last block is cut short; `block` is taken to be at
/// least 1.
pub fn resample_blocks(rng: &mut Rng, n: usize, block: usize) -> Vec<usize> {
    let mut indices = Vec::with_capacity(n);
    while indices.len() < n {
        let start = rng.index(n);
        let length = block.max(1).min(n - indices.len());
        indices.extend((start..start + length).map(|i| i % n));
    }
    indices
}

/// The central interval that holds `confidence` of the draws, by nearest rank.
///
/// Sorts the draws. `None` when there are none, one is NaN, or `confidence` is not strictly between 0 and 1.
pub fn percentile_interval(draws: &mut [f64], confidence: f64) -> Option<Interval> {
    if !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let tail = 0.5 * (1.0 - confidence);
    interval_between(draws, tail, 1.0 - tail)
}

/// The interval between two quantile levels of the draws, by nearest rank; sorts them.
pub(crate) fn interval_between(draws: &mut [f64], lower: f64, upper: f64) -> Option<Interval> {
    if draws.iter().any(|d| d.is_nan()) {
        return None;
    }
    draws.sort_by(f64::total_cmp);
    let at = |level: f64| nearest_rank(level, draws.len() as u64).map(|rank| draws[rank as usize - 1]);
    Some(Interval { lower: at(lower)?, upper: at(upper)? })
}

/// The bootstrap percentile interval of any statistic of runs and windows, from `draws` hierarchical
/// resamples.
///
/// `statistic` is given each resample's (run, window) pairs. A resample on which it is undefined (`None`)
/// makes the interval undefined: leaving such resamples out would narrow it. `None` also when there are no
/// windows, no draws, or `confidence` is not strictly between 0 and 1.
pub fn hierarchical_interval(
    rng: &mut Rng,
    run_lengths: &[usize],
    draws: usize,
    confidence: f64,
    mut statistic: impl FnMut(&[(usize, usize)]) -> Option<f64>,
) -> Option<Interval> {
    if run_lengths.iter().all(|&length| length == 0) {
        return None;
    }
    let mut values = Vec::with_capacity(draws);
    for _ in 0..draws {
        values.push(statistic(&resample_hierarchical(rng, run_lengths))?);
    }
    percentile_interval(&mut values, confidence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    #[test]
    fn percentile_interval_takes_the_central_draws() {
        let mut draws: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        assert_eq!(percentile_interval(&mut draws, 0.9), Some(Interval { lower: 50.0, upper: 950.0 }));
        assert_eq!(percentile_interval(&mut [], 0.9), None);
        assert_eq!(percentile_interval(&mut [1.0, f64::NAN], 0.9), None);
        assert_eq!(percentile_interval(&mut [1.0], 1.0), None);
    }

    #[test]
    fn the_spread_between_runs_dominates_when_windows_agree() {
        // Windows within a run are identical, so only the choice of runs matters: the variance of the mean of
        // r draws from r runs is the runs' (biased) variance over r.
        let runs = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let mut rng = Rng::new(1);
        let means: Vec<f64> = (0..20_000)
            .map(|_| {
                let picks = resample_hierarchical(&mut rng, &[10; 6]);
                picks.iter().map(|&(run, _)| runs[run]).sum::<f64>() / picks.len() as f64
            })
            .collect();
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / means.len() as f64;
        let expected = 35.0 / 12.0 / 6.0;
        assert!((variance / expected - 1.0).abs() < 0.05, "{variance}, expected {expected}");
    }

    #[test]
    fn interval_of_a_mean_agrees_with_theory() {
        let mut rng = Rng::new(8);
        let data: Vec<f64> = (0..400).map(|_| rng.normal()).collect();
        // Each value a run of one window: the plain bootstrap of the mean.
        let interval = hierarchical_interval(&mut rng, &vec![1; 400], 4000, 0.95, |picks| {
            Some(picks.iter().map(|&(run, _)| data[run]).sum::<f64>() / picks.len() as f64)
        })
        .unwrap();
        let mean = data.iter().sum::<f64>() / 400.0;
        let sd = (data.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 400.0).sqrt();
        let half = 1.96 * sd / 20.0;
        assert!((interval.lower - (mean - half)).abs() < 0.1 * half, "{interval:?}");
        assert!((interval.upper - (mean + half)).abs() < 0.1 * half, "{interval:?}");
    }

    #[test]
    fn undefined_statistics_make_the_interval_undefined() {
        let mut rng = Rng::new(8);
        assert_eq!(hierarchical_interval(&mut rng, &[], 10, 0.9, |_| Some(1.0)), None);
        assert_eq!(hierarchical_interval(&mut rng, &[0, 0], 10, 0.9, |_| Some(1.0)), None);
        let mut calls = 0;
        let sometimes = |_: &[(usize, usize)]| {
            calls += 1;
            (calls != 5).then_some(1.0)
        };
        assert_eq!(hierarchical_interval(&mut rng, &[3], 10, 0.9, sometimes), None);
    }

    proptest! {
        #[test]
        fn indices_exist(seed: u64, lengths in prop::collection::vec(0_usize..20, 0..8)) {
            let picks = resample_hierarchical(&mut Rng::new(seed), &lengths);
            prop_assert!(picks.iter().all(|&(run, window)| window < lengths[run]));
            prop_assert_eq!(picks.is_empty(), lengths.iter().all(|&l| l == 0));
        }

        #[test]
        fn blocks_are_consecutive(seed: u64, n in 0_usize..60, block in 0_usize..70) {
            let picks = resample_blocks(&mut Rng::new(seed), n, block);
            prop_assert_eq!(picks.len(), n);
            for chunk in picks.chunks(block.max(1)) {
                prop_assert!(chunk.windows(2).all(|w| w[1] == (w[0] + 1) % n));
            }
        }
    }
}
