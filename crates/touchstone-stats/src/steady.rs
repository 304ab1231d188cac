//! Where the start-up transient of a series ends.

/// Where to cut a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Number of leading observations to drop; a multiple of [`BATCH`].
    pub drop: usize,
    /// True when the best cut lies at the end of the range searched (half the series): the series has not
    /// been seen to settle, and the cut must not be trusted.
    pub at_limit: bool,
}

/// Observations per batch: the 5 of MSER-5.
pub const BATCH: usize = 5;

/// The truncation point of a series by MSER-5.
///
/// White, Cobb & Spratt, "A comparison of five steady-state truncation heuristics for simulation" (2000):
/// average in batches of five and drop the number `d` of batches that minimises the squared standard error of
/// the mean of the rest, `sum (y - mean)^2 / (k - d)^2`, over the first half of the series. Ties go to the
/// shorter cut.
///
/// It assumes one transient at the beginning; it is no test of stationarity (see [`crate::trend`]).
/// Observations beyond the last full batch are ignored. `None` with fewer than four batches or values that
/// are not finite.
pub fn mser5(series: &[f64]) -> Option<Truncation> {
    let batches: Vec<f64> =
        series.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    if batches.len() < 4 || series.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let limit = batches.len() / 2;
    // Welford's update from the end backwards: the mean and squared deviations of each suffix, without
    // cancellation.
    let (mut kept, mut mean, mut deviations) = (0.0, 0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for (start, &y) in batches.iter().enumerate().rev() {
        kept += 1.0;
        let delta = y - mean;
        mean += delta / kept;
        deviations += delta * (y - mean);
        let statistic = deviations / (kept * kept);
        if start <= limit && statistic <= best.0 {
            best = (statistic, start);
        }
    }
    Some(Truncation { drop: best.1 * BATCH, at_limit: best.1 == limit })
}

/// What a series says about its own steadiness.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steadiness {
    /// Leading observations that belong to the transient.
    pub drop: usize,
    /// Whether the rest is steady: the cut lies well inside the series, and what follows has no slope that counts.
    pub steady: bool,
    /// Change of the rest over its own length, in units of the series (slope times length); `None` where it is too short
    /// for a slope.
    pub change: Option<f64>,
}

/// Where a series settles, by MSER-5, and whether what follows is stationary: the 99 % interval of its slope includes 0,
/// or its change over the rest is at most `tolerance` times the absolute mean of the rest.
///
/// The tolerance keeps a long series, in which any tiny slope is significant, from being called unsteady. `None` under the
/// conditions of [`mser5`].
pub fn steadiness(series: &[f64], tolerance: f64) -> Option<Steadiness> {
    let cut = mser5(series)?;
    let rest = &series[cut.drop..];
    let xs: Vec<f64> = (0..rest.len()).map(|index| index as f64).collect();
    let slope = crate::trend::slope_interval(&xs, rest, 0.99);
    let mean = rest.iter().sum::<f64>() / rest.len() as f64;
    let change = slope.map(|slope| slope.slope * rest.len() as f64);
    let drifts = slope.is_some_and(|slope| slope.lower > 0.0 || slope.upper < 0.0)
        && change.is_some_and(|change| change.abs() > tolerance * mean.abs());
    Some(Steadiness { drop: cut.drop, steady: !cut.at_limit && !drifts, change })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn a_series_is_steady_after_its_transient_and_not_while_it_climbs() {
        let settled = steadiness(&noise(400, |i| 50.0 + if i < 60 { 30.0 } else { 0.0 }), 0.05).unwrap();
        assert!(settled.steady && (55..=80).contains(&settled.drop), "{settled:?}");
        let climbing = steadiness(&noise(400, |i| 50.0 + i as f64 * 0.1), 0.05).unwrap();
        assert!(!climbing.steady, "{climbing:?}");
        // A slope that is real and does not matter.
        let tiny = steadiness(&noise(4000, |i| 1000.0 + i as f64 * 0.0002), 0.05).unwrap();
        assert!(tiny.steady && tiny.change.unwrap() < 10.0, "{tiny:?}");
        assert_eq!(steadiness(&[1.0; 10], 0.05), None);
    }

    fn noise(n: usize, level: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut rng = Rng::new(4);
        (0..n).map(|i| level(i) + rng.normal()).collect()
    }

    #[test]
    fn cuts_a_transient_and_leaves_a_settled_series_alone() {
        let step = mser5(&noise(1000, |i| if i < 200 { 10.0 } else { 0.0 })).unwrap();
        assert!((200..=215).contains(&step.drop) && !step.at_limit, "{step:?}");
        let decay = mser5(&noise(1000, |i| 20.0 * (-(i as f64) / 40.0).exp())).unwrap();
        assert!((80..=250).contains(&decay.drop) && !decay.at_limit, "{decay:?}");
        let settled = mser5(&noise(1000, |_| 0.0)).unwrap();
        assert!(settled.drop <= 100 && !settled.at_limit, "{settled:?}");
        assert_eq!(mser5(&[3.0; 100]), Some(Truncation { drop: 0, at_limit: false }));
    }

    #[test]
    fn a_series_that_never_settles_says_so() {
        assert!(mser5(&noise(1000, |i| i as f64)).unwrap().at_limit);
    }

    #[test]
    fn agrees_with_the_definition() {
        let series = noise(103, |i| if i < 30 { 4.0 } else { 0.0 });
        let y: Vec<f64> = series.chunks_exact(5).map(|b| b.iter().sum::<f64>() / 5.0).collect();
        let statistic = |d: usize| {
            let rest = &y[d..];
            let mean = rest.iter().sum::<f64>() / rest.len() as f64;
            rest.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (rest.len() as f64).powi(2)
        };
        let best = (0..=y.len() / 2).min_by(|&a, &b| statistic(a).total_cmp(&statistic(b))).unwrap();
        assert_eq!(mser5(&series).unwrap().drop, 5 * best);
    }

    #[test]
    fn undefined_when_short_or_not_finite() {
        assert_eq!(mser5(&[1.0; 19]), None);
        let mut series = [1.0; 40];
        series[3] = f64::NAN;
        assert_eq!(mser5(&series), None);
    }
}
