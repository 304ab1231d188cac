//! Is there a trend in a series, and how steep is it.

use crate::autocorrelation::integrated_time;
use crate::special::{normal_cdf, student_t_quantile};

/// Longest series whose Mann-Kendall p-value is exact (when it has no ties).
pub const LONGEST_EXACT: usize = 20;

/// Result of the Mann-Kendall test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannKendall {
    /// Pairs that rise minus pairs that fall, over all pairs in time order.
    pub s: i64,
    /// Kendall's tau-b between time and value, in [-1, 1]; 0 when all values are equal.
    pub tau: f64,
    /// Two-sided p-value of "no monotone trend".
    pub p: f64,
}

/// The Mann-Kendall test for a monotone trend in independent values in time order.
///
/// Mann (1945), Kendall (1975). Exact for up to [`LONGEST_EXACT`] values without ties; otherwise the normal
/// approximation with correction for ties and continuity. Values may be infinite (only their order counts);
/// `None` with fewer than three values or a NaN. O(n log n).
///
/// Positive autocorrelation makes it see trends that are not there: use [`mann_kendall_adjusted`] for such
/// series.
pub fn mann_kendall(values: &[f64]) -> Option<MannKendall> {
    let counts = PairCounts::of(values)?;
    let p = if counts.tied_pairs == 0 && values.len() <= LONGEST_EXACT {
        exact_p(values.len(), counts.s)
    } else {
        normal_p(counts.s, counts.variance)
    };
    Some(MannKendall { s: counts.s, tau: counts.tau(), p })
}

/// [`mann_kendall`] for a series that is worth `n_effective` independent values: the variance of S is
/// multiplied by `n / n_effective` (the form of Hamed & Rao's correction, 1998), and p is by the normal
/// approximation always.
///
/// `n_effective` should come from the series without its trend, or the trend counts as dependence and is
/// excused: from the residuals of a line, as [`slope_interval`] does, or from a run known to be steady. Above
/// `n` it counts as `n`; `None` where it is not positive.
pub fn mann_kendall_adjusted(values: &[f64], n_effective: f64) -> Option<MannKendall> {
    if n_effective.is_nan() || n_effective <= 0.0 {
        return None;
    }
    let counts = PairCounts::of(values)?;
    let inflation = (values.len() as f64 / n_effective).max(1.0);
    Some(MannKendall { s: counts.s, tau: counts.tau(), p: normal_p(counts.s, counts.variance * inflation) })
}

struct PairCounts {
    s: i64,
    pairs: i64,
    tied_pairs: i64,
    /// Variance of S when there is no trend, corrected for ties.
    variance: f64,
}

impl PairCounts {
    fn of(values: &[f64]) -> Option<Self> {
        if values.len() < 3 || values.iter().any(|v| v.is_nan()) {
            return None;
        }
        let n = values.len() as i64;
        // Adding zero turns -0 into 0, which total_cmp would otherwise tell apart.
        let mut sorted: Vec<f64> = values.iter().map(|v| v + 0.0).collect();
        let falling = sort_counting_inversions(&mut sorted);
        let term = |t: f64| t * (t - 1.0) * (2.0 * t + 5.0);
        let (mut tied_pairs, mut variance) = (0, term(n as f64));
        for group in sorted.chunk_by(|a, b| a == b) {
            let t = group.len() as i64;
            tied_pairs += t * (t - 1) / 2;
            variance -= term(t as f64);
        }
        let pairs = n * (n - 1) / 2;
        Some(Self { s: pairs - tied_pairs - 2 * falling, pairs, tied_pairs, variance: variance / 18.0 })
    }

    fn tau(&self) -> f64 {
        if self.tied_pairs == self.pairs {
            return 0.0;
        }
        self.s as f64 / (self.pairs as f64 * (self.pairs - self.tied_pairs) as f64).sqrt()
    }
}

/// Sorts ascending and returns the number of pairs that stood in strictly descending order.
fn sort_counting_inversions(values: &mut [f64]) -> i64 {
    if values.len() < 2 {
        return 0;
    }
    let (left, right) = values.split_at_mut(values.len() / 2);
    let mut inversions = sort_counting_inversions(left) + sort_counting_inversions(right);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut i, mut j) = (0, 0);
    while i < left.len() && j < right.len() {
        if right[j] < left[i] {
            inversions += (left.len() - i) as i64;
            merged.push(right[j]);
            j += 1;
        } else {
            merged.push(left[i]);
            i += 1;
        }
    }
    merged.extend_from_slice(&left[i..]);
    merged.extend_from_slice(&right[j..]);
    values.copy_from_slice(&merged);
    inversions
}

/// Share of all orders of `n` distinct values whose |S| is at least that given, from the numbers of
/// permutations by their inversions: inserting the k-th value adds 0 to k - 1 inversions, each equally often.
fn exact_p(n: usize, s: i64) -> f64 {
    let mut shares = vec![1.0];
    for k in 1..=n {
        let mut next = vec![0.0; shares.len() + k - 1];
        for (inversions, share) in shares.iter().enumerate() {
            for slot in &mut next[inversions..inversions + k] {
                *slot += share / k as f64;
            }
        }
        shares = next;
    }
    let pairs = shares.len() as i64 - 1;
    let p: f64 = (0..).zip(&shares).filter(|(i, _)| (pairs - 2 * i).abs() >= s.abs()).map(|(_, p)| p).sum();
    p.min(1.0)
}

fn normal_p(s: i64, variance: f64) -> f64 {
    if s == 0 || variance <= 0.0 {
        return 1.0;
    }
    let z = (s.abs() as f64 - 1.0) / variance.sqrt();
    2.0 * normal_cdf(-z)
}

/// A least-squares slope with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlopeInterval {
    /// Change of y per unit of x.
    pub slope: f64,
    /// Lower end of the two-sided interval of the slope.
    pub lower: f64,
    /// Upper end of the two-sided interval of the slope.
    pub upper: f64,
    /// Value of the line at x = 0.
    pub intercept: f64,
    /// What the points are worth in independent ones, by the autocorrelation of the residuals.
    pub n_effective: f64,
}

/// The least-squares slope of `ys` over `xs`, with a two-sided interval widened for autocorrelated residuals.
///
/// Points are in time order and about evenly spaced. The residual variance and Student's t use `n_effective -
/// 2` degrees of freedom, with `n_effective` from the residuals (the adjustment of Santer et al., 2000, with
/// Geyer's estimate in place of a first-order model). Residuals of a short series understate its dependence,
/// so below some 30 points the interval is somewhat too narrow. Residuals too few or too constant to judge
/// count as independent.
///
/// `None` when lengths differ, there are fewer than three points, a value is not finite, all `xs` are equal,
/// `n_effective` is 2 or less, or `confidence` is not strictly between 0 and 1.
pub fn slope_interval(xs: &[f64], ys: &[f64], confidence: f64) -> Option<SlopeInterval> {
    let n = xs.len() as f64;
    let valid = xs.len() == ys.len() && xs.len() >= 3 && xs.iter().chain(ys).all(|v| v.is_finite());
    if !(valid && confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let (x_mean, y_mean) = (xs.iter().sum::<f64>() / n, ys.iter().sum::<f64>() / n);
    let x_squares: f64 = xs.iter().map(|x| (x - x_mean).powi(2)).sum();
    if x_squares <= 0.0 {
        return None;
    }
    let products: f64 = xs.iter().zip(ys).map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let slope = products / x_squares;
    let residuals: Vec<f64> = xs.iter().zip(ys).map(|(x, y)| (y - y_mean) - slope * (x - x_mean)).collect();
    let n_effective = integrated_time(&residuals).map_or(n, |tau| n / tau);
    let freedom = n_effective - 2.0;
    if freedom <= 0.0 {
        return None;
    }
    let residual_squares: f64 = residuals.iter().map(|r| r * r).sum();
    let standard_error = (residual_squares / freedom / x_squares).sqrt();
    let half_width = student_t_quantile(0.5 + 0.5 * confidence, freedom) * standard_error;
    Some(SlopeInterval {
        slope,
        lower: slope - half_width,
        upper: slope + half_width,
        intercept: y_mean - slope * x_mean,
        n_effective,
    })
}

/// The drift of a level that is watched at even intervals, such as a backlog: how much it changes per step, with a two-sided
/// interval from the spread of the changes over `batches` stretches of equal length (batch means).
///
/// A backlog near saturation is a random walk: its values depend on each other over the whole series, and the interval of a
/// fitted line ([`slope_interval`]) is far too narrow there. The *changes* of a random walk are independent. Where the level
/// is pulled back to a mean its changes are negatively correlated, and the interval is wider than it need be, never
/// narrower. Values beyond the last full stretch are ignored.
///
/// `None` with fewer than 3 batches, fewer than `batches + 1` values, a value that is not finite, or `confidence` not strictly
/// between 0 and 1.
pub fn drift_interval(levels: &[f64], batches: usize, confidence: f64) -> Option<SlopeInterval> {
    let good = batches >= 3 && levels.len() > batches && levels.iter().all(|level| level.is_finite());
    if !(good && confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let length = (levels.len() - 1) / batches;
    let changes: Vec<f64> = (0..batches)
        .map(|batch| (levels[(batch + 1) * length] - levels[batch * length]) / length as f64)
        .collect();
    let n = batches as f64;
    let slope = changes.iter().sum::<f64>() / n;
    let squares: f64 = changes.iter().map(|change| (change - slope).powi(2)).sum();
    let half_width = student_t_quantile(0.5 + 0.5 * confidence, n - 1.0) * (squares / (n - 1.0) / n).sqrt();
    Some(SlopeInterval {
        slope,
        lower: slope - half_width,
        upper: slope + half_width,
        intercept: levels[0],
        n_effective: n,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autocorrelation::n_effective;
    use crate::rng::Rng;
    use proptest::prelude::*;

    #[test]
    fn mann_kendall_agrees_with_the_printed_table() {
        // Gilbert, "Statistical Methods for Environmental Pollution Monitoring" (1987), table A18, one-sided.
        for (n, s, one_sided) in
            [(4, 6, 0.042), (5, 10, 0.0083), (10, 11, 0.190), (10, 21, 0.036), (10, 25, 0.014)]
        {
            assert!((exact_p(n, s) / 2.0 - one_sided).abs() < 6e-4, "n {n} S {s}: {}", exact_p(n, s) / 2.0);
        }
        let rising = mann_kendall(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((rising.s, rising.tau), (6, 1.0));
        assert!((rising.p - 2.0 / 24.0).abs() < 1e-15);
        assert_eq!(mann_kendall(&[4.0, 3.0, 2.0, 1.0]).unwrap().s, -6);
    }

    #[test]
    fn ties_are_corrected_for() {
        // By hand: pairs 10, ties {2,2} and {3,3}: S = 8, var = (5*4*15 - 2*(2*1*9)) / 18 = 44/3, z = 7 /
        // 3.8297.
        let found = mann_kendall(&[1.0, 2.0, 2.0, 3.0, 3.0]).unwrap();
        assert_eq!(found.s, 8);
        assert!((found.tau - 8.0 / 80.0_f64.sqrt()).abs() < 1e-15);
        assert!((found.p - 2.0 * normal_cdf(-7.0 / (44.0_f64 / 3.0).sqrt())).abs() < 1e-15);
        let flat = mann_kendall(&[5.0; 30]).unwrap();
        assert_eq!((flat.s, flat.tau, flat.p), (0, 0.0, 1.0));
        assert_eq!(mann_kendall(&[0.0, -0.0, 0.0]).unwrap().s, 0);
        assert!(mann_kendall(&[1.0, 2.0]).is_none() && mann_kendall(&[1.0, f64::NAN, 2.0]).is_none());
    }

    #[test]
    fn exact_and_normal_agree_where_they_meet() {
        for s in [10, 40, 64, 90] {
            let variance = 20.0 * 19.0 * 45.0 / 18.0;
            assert!((exact_p(20, s) - normal_p(s, variance)).abs() < 3e-3, "S {s}");
        }
    }

    /// Share of 1,000 trend-free autoregressive series in which `detects` sees a trend.
    fn false_alarms(rho: f64, n: usize, mut detects: impl FnMut(&[f64]) -> bool) -> f64 {
        let mut rng = Rng::new(31);
        let hits = (0..1000).filter(|_| {
            let mut x = rng.normal();
            let series: Vec<f64> = (0..n)
                .map(|_| {
                    x = rho * x + (1.0 - rho * rho).sqrt() * rng.normal();
                    x
                })
                .collect();
            detects(&series)
        });
        hits.count() as f64 / 1000.0
    }

    #[test]
    fn false_alarms_stay_near_their_level_with_the_effective_size_only() {
        let plain = |v: &[f64]| mann_kendall(v).unwrap().p < 0.05;
        let independent = false_alarms(0.0, 200, plain);
        assert!((0.03..0.07).contains(&independent), "{independent}");
        assert!(false_alarms(0.7, 200, plain) > 0.25);
        let adjusted =
            false_alarms(0.7, 200, |v| mann_kendall_adjusted(v, n_effective(v).unwrap()).unwrap().p < 0.05);
        assert!(adjusted < 0.10, "{adjusted}");

        let xs: Vec<f64> = (0..200).map(f64::from).collect();
        let excludes_zero =
            |v: &[f64]| slope_interval(&xs, v, 0.95).is_some_and(|s| s.lower > 0.0 || s.upper < 0.0);
        let independent = false_alarms(0.0, 200, excludes_zero);
        assert!((0.02..0.08).contains(&independent), "{independent}");
        let dependent = false_alarms(0.7, 200, excludes_zero);
        assert!(dependent < 0.12, "{dependent}");
    }

    #[test]
    fn slope_agrees_with_a_worked_example() {
        // By hand: Sxx = 10, Sxy = 6, residuals -0.8, 0.6, 1.0, -0.6, -0.2, squares 2.4; se = sqrt(0.8/10),
        // t(3) = 3.182.
        let s = slope_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], &[2.0, 4.0, 5.0, 4.0, 5.0], 0.95).unwrap();
        assert!((s.slope - 0.6).abs() < 1e-14 && (s.intercept - 2.2).abs() < 1e-14);
        assert!((s.upper - 0.6 - 3.182_446 * 0.08_f64.sqrt()).abs() < 1e-6, "{s:?}");
        assert!((s.upper + s.lower - 1.2).abs() < 1e-14);
        assert_eq!(s.n_effective, 5.0);
    }

    #[test]
    fn the_drift_of_a_random_walk_is_covered_where_a_line_is_not() {
        let mut rng = Rng::new(71);
        let (mut drift, mut line) = (0, 0);
        let cases = 600;
        let xs: Vec<f64> = (0..=100).map(f64::from).collect();
        for _ in 0..cases {
            let mut level = 0.0;
            let walk: Vec<f64> = (0..=100)
                .map(|_| {
                    level += rng.normal();
                    level
                })
                .collect();
            let holds = |found: Option<SlopeInterval>| {
                u32::from(found.is_some_and(|found| found.lower <= 0.0 && 0.0 <= found.upper))
            };
            drift += holds(drift_interval(&walk, 10, 0.95));
            line += holds(slope_interval(&xs, &walk, 0.95));
        }
        let share = |held: u32| f64::from(held) / f64::from(cases);
        assert!((0.93..0.97).contains(&share(drift)), "{}", share(drift));
        assert!(share(line) < 0.85, "{}", share(line));
    }

    #[test]
    fn drift_agrees_with_a_worked_example() {
        // Changes per step over three stretches of two: 1, 2, 3; mean 2, standard deviation 1, t(2) = 4.302653.
        let found = drift_interval(&[0.0, 0.5, 2.0, 5.0, 6.0, 9.0, 12.0, 99.0], 3, 0.95).unwrap();
        assert!((found.slope - 2.0).abs() < 1e-12);
        assert!((found.upper - 2.0 - 4.302_653 / 3.0_f64.sqrt()).abs() < 1e-6, "{found:?}");
        assert_eq!(drift_interval(&[0.0, 1.0, 2.0], 3, 0.95), None);
        assert_eq!(drift_interval(&[0.0, 1.0, 2.0, f64::NAN], 3, 0.95), None);
        assert_eq!(drift_interval(&[0.0; 30], 2, 0.95), None);
    }

    #[test]
    fn a_slope_needs_points() {
        assert_eq!(slope_interval(&[1.0, 2.0], &[1.0, 2.0], 0.95), None);
        assert_eq!(slope_interval(&[1.0; 5], &[1.0, 2.0, 3.0, 4.0, 5.0], 0.95), None);
        assert_eq!(slope_interval(&[1.0, 2.0, 3.0], &[1.0, 2.0], 0.95), None);
        assert_eq!(slope_interval(&[1.0, 2.0, 3.0], &[1.0, 2.0, f64::NAN], 0.95), None);
        let exact = slope_interval(&[0.0, 1.0, 2.0, 3.0], &[1.0, 3.0, 5.0, 7.0], 0.95).unwrap();
        assert!((exact.lower - 2.0).abs() < 1e-12 && (exact.upper - 2.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn s_agrees_with_its_definition(values in prop::collection::vec(-5_i32..5, 3..40)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let mut s = 0;
            for (i, a) in values.iter().enumerate() {
                for b in &values[i + 1..] {
                    s += i64::from(b > a) - i64::from(b < a);
                }
            }
            let found = mann_kendall(&values).unwrap();
            prop_assert_eq!(found.s, s);
            prop_assert!((0.0..=1.0).contains(&found.p) && (-1.0..=1.0).contains(&found.tau));
        }
    }
}
