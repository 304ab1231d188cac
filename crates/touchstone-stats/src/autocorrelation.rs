//! How many independent samples a dependent series is worth.
//!
//! The mean of `n` observations with integrated autocorrelation time `tau = 1 + 2 * sum of autocorrelations`
//! has the variance of a mean of `n / tau` independent ones. That number, `n_effective`, goes into every
//! interval and bound of this crate that is applied to a series.
//!
//! Assumptions: the series is in time order and stationary (the transient is cut off first, see
//! [`crate::steady`]), and long against `tau`. From a series shorter than some 50 `tau` the estimate is too
//! low, and the effective size too high. Several runs are independent of one another: estimate each and add
//! their effective sizes.

use crate::fourier::autocovariances;
use crate::quantile::quantile;

/// The shortest series for which an autocorrelation time is estimated.
pub const SHORTEST_SERIES: usize = 8;

/// Integrated autocorrelation time of a series, in samples; at least 1.
///
/// Geyer's initial positive sequence ("Practical Markov chain Monte Carlo", 1992): autocovariances are summed
/// in adjacent pairs until a pair is no longer positive, after which they are noise. O(n log n) time, O(n)
/// memory.
///
/// A series that alternates (negative autocorrelation) is not credited with more samples than it has, hence
/// the floor of 1. `None` when the series is shorter than [`SHORTEST_SERIES`], does not vary, or contains a
/// value that is not finite.
pub fn integrated_time(series: &[f64]) -> Option<f64> {
    let first = *series.first()?;
    let varies = series.iter().any(|&x| x != first);
    if series.len() < SHORTEST_SERIES || !varies || series.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let covariance = autocovariances(series);
    let variance = covariance[0];
    if variance.is_nan() || variance <= 0.0 {
        return None;
    }
    let positive: f64 =
        covariance.chunks_exact(2).map(|pair| pair[0] + pair[1]).take_while(|&pair| pair > 0.0).sum();
    Some((2.0 * positive / variance - 1.0).clamp(1.0, series.len() as f64))
}

/// The number of independent samples that the **mean** of this series is worth: `n / tau`, from 1 to `n`.
///
/// `None` under the same conditions as [`integrated_time`]. A series that never varies shows no dependence
/// and no independence either; the caller must decide what it is.
pub fn n_effective(series: &[f64]) -> Option<f64> {
    integrated_time(series).map(|tau| series.len() as f64 / tau)
}

/// The number of independent samples that a **share** is worth, from the series of its yes and no.
///
/// For a quantile: whether each observation exceeds it. A queue's tail comes in bursts, so the exceedances of
/// a high quantile are often dependent in another degree than the values. `None` when all are alike or there
/// are too few.
pub fn n_effective_of_exceedance(exceeds: &[bool]) -> Option<f64> {
    let indicator: Vec<f64> = exceeds.iter().map(|&e| f64::from(u8::from(e))).collect();
    n_effective(&indicator)
}

/// The number of independent samples that the `q` quantile of this series is worth: that of its exceedances.
///
/// Values may be +infinity (censored). `None` when the quantile is undefined, when nothing exceeds it (`q`
/// above `1 - 1/n`), or when there are too few values.
pub fn n_effective_for_quantile(series: &[f64], q: f64) -> Option<f64> {
    let threshold = quantile(series, q)?;
    let exceeds: Vec<bool> = series.iter().map(|&x| x > threshold).collect();
    n_effective_of_exceedance(&exceeds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantile::bounds_with_effective;
    use crate::rng::Rng;

    /// First-order autoregression: autocorrelation rho^lag, so tau = (1 + rho) / (1 - rho).
    fn ar1(rng: &mut Rng, rho: f64, n: usize) -> Vec<f64> {
        let mut x = rng.normal();
        (0..n)
            .map(|_| {
                x = rho * x + (1.0 - rho * rho).sqrt() * rng.normal();
                x
            })
            .collect()
    }

    #[test]
    fn recovers_the_known_time_of_an_autoregression() {
        for (rho, tolerance) in [(0.0, 0.05), (0.3, 0.08), (0.5, 0.08), (0.8, 0.12), (0.95, 0.2)] {
            let tau = integrated_time(&ar1(&mut Rng::new(17), rho, 100_000)).unwrap();
            let expected = (1.0 + rho) / (1.0 - rho);
            assert!((tau / expected - 1.0).abs() < tolerance, "rho {rho}: {tau}, expected {expected}");
        }
    }

    #[test]
    fn independent_samples_are_worth_nearly_their_number_and_alternating_ones_no_more() {
        let mut rng = Rng::new(2);
        let series: Vec<f64> = (0..10_000).map(|_| rng.uniform()).collect();
        assert!(n_effective(&series).unwrap() > 9_000.0);
        assert_eq!(n_effective(&ar1(&mut rng, -0.7, 10_000)), Some(10_000.0));
    }

    #[test]
    fn repeating_each_sample_divides_the_worth() {
        let mut rng = Rng::new(9);
        let series: Vec<f64> = (0..5_000).flat_map(|_| [rng.normal(); 10]).collect();
        let n = n_effective(&series).unwrap();
        assert!((4_300.0..5_700.0).contains(&n), "{n}");
    }

    #[test]
    fn undefined_where_nothing_can_be_said() {
        assert_eq!(integrated_time(&[]), None);
        assert_eq!(integrated_time(&[1.0, 2.0, 3.0]), None);
        assert_eq!(integrated_time(&[0.1; 100]), None);
        assert_eq!(integrated_time(&[1.0, 2.0, 3.0, f64::INFINITY, 1.0, 2.0, 3.0, 4.0]), None);
        assert_eq!(n_effective_of_exceedance(&[false; 50]), None);
        assert_eq!(n_effective_for_quantile(&[1.0; 50], 0.5), None);
    }

    #[test]
    fn a_trend_is_worth_few_samples() {
        let ramp: Vec<f64> = (0..1000).map(f64::from).collect();
        assert!(n_effective(&ramp).unwrap() < 5.0);
    }

    #[test]
    fn the_bound_on_p99_holds_under_dependence_only_with_the_effective_size() {
        // Strongly dependent series, true p99 known (2.3263 sigma): the nominal bound fails far too often.
        let mut rng = Rng::new(23);
        let truth = 2.326_347_9;
        let (mut nominal, mut corrected, mut stated) = (0, 0, 0);
        let trials = 300;
        for _ in 0..trials {
            let series = ar1(&mut rng, 0.9, 8_000);
            let n = series.len() as u64;
            let at = |level: f64| quantile(&series, level).unwrap();
            nominal +=
                usize::from(at(bounds_with_effective(n, n as f64, 0.99, 0.95).upper_level.unwrap()) >= truth);
            let worth = n_effective_for_quantile(&series, 0.99).unwrap();
            if let Some(level) = bounds_with_effective(n, worth, 0.99, 0.95).upper_level {
                stated += 1;
                corrected += usize::from(at(level) >= truth);
            }
        }
        let share = |hits: usize, of: usize| hits as f64 / of as f64;
        assert!(share(nominal, trials) < 0.85, "nominal coverage {}", share(nominal, trials));
        assert!(stated > trials * 9 / 10, "stated {stated}");
        assert!(share(corrected, stated) > 0.90, "corrected coverage {}", share(corrected, stated));
    }
}
