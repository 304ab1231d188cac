//! Quantiles as bounds: which order statistics enclose the true quantile, with which confidence.
//!
//! A tail quantile of a sample is an estimate with a large and asymmetric error; against a limit only a bound
//! counts. For independent observations the bounds need no distribution: the number of observations below the
//! true `q` quantile is binomial (n, q), so order statistics bound it with exactly known confidence (for
//! continuous values; ties make the bounds wider, never wrong). All bounds here are **one-sided**, each at
//! the stated confidence; both together hold with at least `2 * confidence - 1`.
//!
//! Requests of one run share a queue and are not independent. Bounds for them go through
//! [`bounds_with_effective`], with the effective sample size from [`crate::autocorrelation`].

use crate::special::{binomial_cdf, binomial_sf};

/// Slack for comparing a computed probability to the confidence: well above the rounding of either, well
/// below anything that matters.
const SLACK: f64 = 1e-12;

/// One-sided bounds of a quantile, as ranks in ascending order counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Greatest rank whose order statistic is at most the true quantile, with the stated confidence; `None`
    /// when even the minimum is not.
    pub lower_rank: Option<u64>,
    /// Least rank whose order statistic is at least the true quantile, with the stated confidence; `None`
    /// when the sample is too small for even its maximum to be: see [`needed_samples`].
    pub upper_rank: Option<u64>,
}

/// One-sided bounds of a quantile for dependent observations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EffectiveBounds {
    /// Ranks among all `n` observations, for [`crate::histogram::Histogram::value_at_rank`].
    pub ranks: Bounds,
    /// The lower rank as a quantile level, `lower_rank / n`.
    pub lower_level: Option<f64>,
    /// The upper rank as a quantile level, `upper_rank / n`.
    pub upper_level: Option<f64>,
    /// When there is no upper bound: the number of effective samples that would give one. What the report
    /// prints instead of a number.
    pub needs: Option<u64>,
}

/// The nearest rank of the `q` quantile among `n` observations: the least rank `r >= 1` with `r / n >= q`.
///
/// `None` when `n` is 0 or `q` is outside [0, 1]. A product `q * n` within rounding of a whole number counts
/// as that number, so that the 7 % quantile of 100 is the 7th value although 0.07 * 100 > 7 in binary.
pub fn nearest_rank(q: f64, n: u64) -> Option<u64> {
    if n == 0 || !(0.0..=1.0).contains(&q) {
        return None;
    }
    let product = q * n as f64;
    let whole = product.round();
    let near_whole = (product - whole).abs() <= 4.0 * f64::EPSILON * whole;
    let rank = if near_whole { whole } else { product.ceil() };
    Some((rank as u64).clamp(1, n))
}

/// The exact `q` quantile of `values` by nearest rank.
///
/// Values at +infinity (censored observations) are ranked last. `None` when there are no values, any is NaN,
/// or `q` is outside [0, 1]. O(n).
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let rank = nearest_rank(q, values.len() as u64)?;
    if values.iter().any(|v| v.is_nan()) {
        return None;
    }
    let mut copy = values.to_vec();
    let (_, value, _) = copy.select_nth_unstable_by(rank as usize - 1, f64::total_cmp);
    Some(*value)
}

/// The order statistics that bound the true `q` quantile of `n` independent observations, each at
/// `confidence`.
///
/// Exact binomial (Clopper & Pearson's argument, e.g. Conover, "Practical Nonparametric Statistics"),
/// evaluated by the incomplete beta function: stable for `n` up to 10^8 and beyond, in well under a
/// millisecond. Both ranks are `None` unless `q` and `confidence` are strictly between 0 and 1.
pub fn order_statistic_bounds(n: u64, q: f64, confidence: f64) -> Bounds {
    if n == 0 || !(is_open_share(q) && is_open_share(confidence)) {
        return Bounds { lower_rank: None, upper_rank: None };
    }
    let reached = |probability: f64| probability >= confidence - SLACK;
    // X(u) >= x_q when at most u - 1 observations lie below x_q; X(l) <= x_q when at least l do.
    let upper = least(1, n + 1, |u| u > n || reached(binomial_cdf(u - 1, n, q)));
    let first_failing_lower = least(1, n + 1, |l| l > n || !reached(binomial_sf(l, n, q)));
    Bounds {
        lower_rank: (first_failing_lower > 1).then_some(first_failing_lower - 1),
        upper_rank: (upper <= n).then_some(upper),
    }
}

/// The least number of independent samples with which the `q` quantile is shown to be within a limit when
/// `over` samples exceed it: P(at most `over` exceed | the quantile is just at the limit) <= 1 - confidence.
///
/// Equally the least `n` whose order statistic `n - over` is an upper bound of the quantile. At 95 %: p99
/// needs 299, 473, 628 with 0, 1, 2 over. MLPerf's early-stopping table is the same at confidence 0.99
/// (tolerance 0). `u64::MAX` stands for "no number is enough" (`q` or `confidence` at least 1, or not a
/// number).
pub fn needed_samples(q: f64, confidence: f64, over: u64) -> u64 {
    if !(q < 1.0 && confidence < 1.0) {
        return u64::MAX;
    }
    let fewest = over.saturating_add(1);
    if q <= 0.0 || confidence <= 0.0 {
        return fewest;
    }
    let enough = |n: u64| binomial_cdf(over, n, 1.0 - q) <= 1.0 - confidence + SLACK;
    let mut high = fewest;
    while !enough(high) {
        match high.checked_mul(2) {
            Some(doubled) if doubled < 1 << 52 => high = doubled,
            _ => return u64::MAX,
        }
    }
    least((high / 2).max(fewest), high, enough)
}

/// [`order_statistic_bounds`] for `n` observations that are worth only `n_effective` independent ones.
///
/// The bounds are computed for a sample of `n_effective` (rounded down, at most `n`) and carried over to the
/// `n` observations as quantile levels, rounded outwards: the upper rank `u` of `n_effective` becomes rank
/// `ceil(u n / n_effective)`, the lower rank `l` becomes `floor((l - 1) n / n_effective) + 1`. With
/// `n_effective = n` the ranks are unchanged. The scaling is exact for observations repeated in equal blocks
/// and an approximation for other dependence. An `n_effective` that is not a number counts as 0: no bounds.
pub fn bounds_with_effective(n: u64, n_effective: f64, q: f64, confidence: f64) -> EffectiveBounds {
    // `as` takes NaN and negative numbers to 0.
    let effective = (n_effective as u64).min(n);
    let within = order_statistic_bounds(effective, q, confidence);
    let (n_wide, effective_wide) = (u128::from(n), u128::from(effective));
    let ranks = Bounds {
        lower_rank: within.lower_rank.map(|l| (u128::from(l - 1) * n_wide / effective_wide) as u64 + 1),
        upper_rank: within.upper_rank.map(|u| (u128::from(u) * n_wide).div_ceil(effective_wide) as u64),
    };
    let level = |rank: u64| rank as f64 / n as f64;
    EffectiveBounds {
        ranks,
        lower_level: ranks.lower_rank.map(level),
        upper_level: ranks.upper_rank.map(level),
        needs: ranks.upper_rank.is_none().then(|| needed_samples(q, confidence, 0)),
    }
}

fn is_open_share(p: f64) -> bool {
    p > 0.0 && p < 1.0
}

/// The least `x` in `low..=high` for which `holds`, which must be false and then true, and true at `high`.
fn least(mut low: u64, mut high: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    #[test]
    fn nearest_ranks() {
        assert_eq!(nearest_rank(0.99, 100), Some(99));
        assert_eq!(nearest_rank(0.991, 100), Some(100));
        assert_eq!(nearest_rank(0.07, 100), Some(7));
        assert_eq!((nearest_rank(0.0, 5), nearest_rank(1.0, 5)), (Some(1), Some(5)));
        assert_eq!(
            (nearest_rank(0.5, 0), nearest_rank(1.1, 5), nearest_rank(f64::NAN, 5)),
            (None, None, None)
        );
        for n in 1_u64..=1000 {
            for percent in 1..=100 {
                let exact = (percent * n).div_ceil(100);
                assert_eq!(nearest_rank(percent as f64 / 100.0, n), Some(exact), "{percent} % of {n}");
            }
        }
    }

    #[test]
    fn quantile_of_a_slice() {
        let values = [5.0, 1.0, f64::INFINITY, 3.0];
        assert_eq!(quantile(&values, 0.5), Some(3.0));
        assert_eq!(quantile(&values, 0.76), Some(f64::INFINITY));
        assert_eq!((quantile(&[], 0.5), quantile(&[1.0, f64::NAN], 0.5)), (None, None));
    }

    #[test]
    fn needed_samples_agree_with_published_numbers() {
        for (q, over, n) in
            [(0.99, 0, 299), (0.99, 1, 473), (0.99, 2, 628), (0.9, 0, 29), (0.95, 0, 59), (0.999, 0, 2995)]
        {
            assert_eq!(needed_samples(q, 0.95, over), n, "q {q} over {over}");
        }
        // MLPerf early stopping, confidence 0.99, tolerance 0.
        for (over, p99, p90) in [(0, 459, 44), (1, 662, 64), (2, 838, 81), (5, 1307, 127), (10, 2010, 197)] {
            assert_eq!(needed_samples(0.99, 0.99, over), p99);
            assert_eq!(needed_samples(0.9, 0.99, over), p90);
        }
        assert_eq!(needed_samples(1.0, 0.95, 0), u64::MAX);
        assert_eq!(needed_samples(0.5, f64::NAN, 0), u64::MAX);
        assert_eq!(needed_samples(0.0, 0.95, 3), 4);
    }

    #[test]
    fn bounds_appear_exactly_when_the_sample_suffices() {
        assert_eq!(order_statistic_bounds(298, 0.99, 0.95).upper_rank, None);
        assert_eq!(order_statistic_bounds(299, 0.99, 0.95).upper_rank, Some(299));
        assert_eq!(order_statistic_bounds(472, 0.99, 0.95).upper_rank, Some(472));
        assert_eq!(order_statistic_bounds(473, 0.99, 0.95).upper_rank, Some(472));
        assert_eq!(order_statistic_bounds(628, 0.99, 0.95).upper_rank, Some(626));
        // Median: 1 - 2^-5 = 0.97 but 1 - 2^-4 = 0.94; the printed table gives ranks 2 and 9 of 10 at 98.9 %
        // each.
        assert_eq!(order_statistic_bounds(4, 0.5, 0.95), Bounds { lower_rank: None, upper_rank: None });
        assert_eq!(order_statistic_bounds(5, 0.5, 0.95), Bounds { lower_rank: Some(1), upper_rank: Some(5) });
        assert_eq!(
            order_statistic_bounds(10, 0.5, 0.98),
            Bounds { lower_rank: Some(2), upper_rank: Some(9) }
        );
        for bad in [0.0, 1.0, f64::NAN] {
            assert_eq!(order_statistic_bounds(50, bad, 0.95), Bounds { lower_rank: None, upper_rank: None });
        }
    }

    #[test]
    fn bounds_of_a_huge_sample_agree_with_the_normal_approximation() {
        // n q + z sqrt(n q (1-q)) with z = 1.6449 and continuity: the exact ranks are within a few of it.
        let b = order_statistic_bounds(100_000_000, 0.99, 0.95);
        let half_width = 1.644_853_6 * (1e8_f64 * 0.99 * 0.01).sqrt();
        let (lower, upper) = (b.lower_rank.unwrap() as f64, b.upper_rank.unwrap() as f64);
        assert!((upper - (99_000_000.0 + half_width)).abs() < 3.0, "{upper}");
        assert!((lower - (99_000_000.0 - half_width)).abs() < 3.0, "{lower}");
    }

    #[test]
    fn effective_samples_scale_the_levels_outwards() {
        let plain = order_statistic_bounds(1000, 0.99, 0.95);
        let same = bounds_with_effective(1000, 1000.0, 0.99, 0.95);
        assert_eq!((same.ranks, same.needs), (plain, None));
        let tenth = bounds_with_effective(4730, 473.9, 0.99, 0.95);
        assert_eq!(tenth.ranks.upper_rank, Some(4720));
        assert_eq!(tenth.upper_level, Some(4720.0 / 4730.0));
        let short = bounds_with_effective(10_000, 298.9, 0.99, 0.95);
        assert_eq!((short.upper_level, short.needs), (None, Some(299)));
        assert!(short.lower_level.unwrap() < 0.99);
        // More effective than real samples is not believed.
        assert_eq!(bounds_with_effective(100, 1e9, 0.99, 0.95).needs, Some(299));
        assert_eq!(bounds_with_effective(100, f64::NAN, 0.5, 0.95).ranks.upper_rank, None);
    }

    #[test]
    fn bounds_cover_the_true_quantile_as_often_as_they_say() {
        let b = order_statistic_bounds(473, 0.99, 0.95);
        let rank = b.upper_rank.unwrap() as usize;
        let mut rng = Rng::new(3);
        let covered = (0..4000)
            .filter(|_| {
                let mut xs: Vec<f64> = (0..473).map(|_| rng.uniform()).collect();
                xs.sort_by(f64::total_cmp);
                xs[rank - 1] >= 0.99
            })
            .count();
        // Standard error 0.35 %; the true coverage is just above 95 %.
        assert!((0.938..0.966).contains(&(covered as f64 / 4000.0)), "{covered}");
    }

    proptest! {
        #[test]
        fn ranks_are_the_tightest_that_reach_the_confidence(n in 1_u64..3000, q in 0.01..0.99, c in 0.5..0.999) {
            let b = order_statistic_bounds(n, q, c);
            match b.upper_rank {
                Some(u) => {
                    prop_assert!(binomial_cdf(u - 1, n, q) >= c - 2e-12);
                    prop_assert!(u == 1 || binomial_cdf(u - 2, n, q) < c);
                }
                None => prop_assert!(needed_samples(q, c, 0) > n),
            }
            match b.lower_rank {
                Some(l) => {
                    prop_assert!(binomial_sf(l, n, q) >= c - 2e-12);
                    prop_assert!(l == n || binomial_sf(l + 1, n, q) < c);
                }
                None => prop_assert!(binomial_sf(1, n, q) < c),
            }
        }

        #[test]
        fn fewer_effective_samples_never_tighten(n in 100_u64..5000, share in 0.1..1.0, q in 0.05..0.95) {
            let full = bounds_with_effective(n, n as f64, q, 0.95);
            let part = bounds_with_effective(n, n as f64 * share, q, 0.95);
            // One effective rank of slack: the discreteness of the smaller sample may round inwards by that
            // much.
            let slack = 1.0 / f64::max(n as f64 * share - 1.0, 1.0);
            if let (Some(a), Some(b)) = (full.upper_level, part.upper_level) {
                prop_assert!(b + slack >= a);
            }
            if let (Some(a), Some(b)) = (full.lower_level, part.lower_level) {
                prop_assert!(b <= a + slack);
            }
        }
    }
}
