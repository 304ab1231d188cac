//! Better, equivalent, or not resolved: ratios of run-level values against a smallest difference that matters.
//!
//! Values are one number per unit of replication (a deploy, or a run where there is one deploy), positive, and are
//! compared on the logarithmic scale, on which a ratio is a difference and "twice" and "half" are equally far.

use crate::special::{normal_quantile, student_t_cdf, student_t_quantile};

/// The ratio of two sets of positive values, by Welch's t on their logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogRatio {
    /// Geometric mean of `a` over that of `b`.
    pub ratio: f64,
    /// Standard error of its logarithm.
    pub standard_error: f64,
    /// Degrees of freedom (Welch & Satterthwaite).
    pub freedom: f64,
}

impl LogRatio {
    /// The two-sided interval of the ratio.
    ///
    /// `None` when `confidence` is not strictly between 0 and 1.
    pub fn interval(&self, confidence: f64) -> Option<(f64, f64)> {
        if !(confidence > 0.0 && confidence < 1.0) {
            return None;
        }
        let half = student_t_quantile(0.5 + 0.5 * confidence, self.freedom) * self.standard_error;
        let centre = self.ratio.ln();
        Some(((centre - half).exp(), (centre + half).exp()))
    }

    /// Two-sided p-value of "the ratio is 1".
    pub fn p_difference(&self) -> f64 {
        2.0 * self.tail(self.ratio.ln().abs())
    }

    /// p-value of "the ratio is at most `1 - margin` or at least `1 + margin`": the two one-sided tests of Schuirmann
    /// (1987). Small means equivalent. 1 for a margin outside (0, 1).
    pub fn p_equivalence(&self, margin: f64) -> f64 {
        if !(margin > 0.0 && margin < 1.0) {
            return 1.0;
        }
        let log = self.ratio.ln();
        let below = self.tail((1.0 + margin).ln() - log);
        let above = self.tail(log - (1.0 - margin).ln());
        below.max(above)
    }

    /// P(T > distance / standard error).
    fn tail(&self, distance: f64) -> f64 {
        if self.standard_error <= 0.0 {
            return match distance.total_cmp(&0.0) {
                std::cmp::Ordering::Greater => 0.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 1.0,
            };
        }
        student_t_cdf(-distance / self.standard_error, self.freedom)
    }
}

/// Welch's comparison of the logarithms of two independent sets (Welch, 1947).
///
/// It assumes that values are about log-normal; with few values it keeps its level much better than a bootstrap does
/// (compare [`crate::compare::ratio_interval`]): 95 % intervals of five log-normal values a side hold in 95 % of cases.
/// Values that never vary have a standard error of 0. `None` with fewer than two values on a side, or a value that is
/// not positive and finite.
pub fn log_ratio(a: &[f64], b: &[f64]) -> Option<LogRatio> {
    let good = |values: &[f64]| values.len() >= 2 && values.iter().all(|v| v.is_finite() && *v > 0.0);
    if !good(a) || !good(b) {
        return None;
    }
    let (mean_a, part_a) = log_mean(a);
    let (mean_b, part_b) = log_mean(b);
    let squared = part_a + part_b;
    let freedom = if squared > 0.0 {
        squared * squared
            / (part_a * part_a / (a.len() as f64 - 1.0) + part_b * part_b / (b.len() as f64 - 1.0))
    } else {
        (a.len() + b.len()) as f64 - 2.0
    };
    Some(LogRatio { ratio: (mean_a - mean_b).exp(), standard_error: squared.sqrt(), freedom })
}

/// The same for values that belong together in pairs (the same block of time, seed or deploy): what they share cancels.
/// `None` also when the lengths differ.
pub fn paired_log_ratio(a: &[f64], b: &[f64]) -> Option<LogRatio> {
    let good = |values: &[f64]| values.len() >= 2 && values.iter().all(|v| v.is_finite() && *v > 0.0);
    if a.len() != b.len() || !good(a) || !good(b) {
        return None;
    }
    let ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| a / b).collect();
    let (mean, squared) = log_mean(&ratios);
    Some(LogRatio { ratio: mean.exp(), standard_error: squared.sqrt(), freedom: a.len() as f64 - 1.0 })
}

/// Mean of the logarithms, and the squared standard error of that mean.
fn log_mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().map(|v| v.ln()).sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v.ln() - mean).powi(2)).sum();
    (mean, squares / (n - 1.0) / n)
}

/// What can be said of a ratio against the smallest difference that matters. More is meant by `Greater`; whether that is
/// better is the metric's affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The whole interval lies above `1 + margin`.
    Greater,
    /// The ratio is above 1, by how much is not resolved against the margin.
    SlightlyGreater,
    /// The ratio is within `1 +- margin`.
    Equivalent,
    /// The ratio is below 1, by how much is not resolved against the margin.
    SlightlyLess,
    /// The whole interval lies below `1 - margin`.
    Less,
    /// None of these can be said.
    NotResolved,
}

/// The standing of each ratio in a family, with an error of at most `alpha` for any false claim of a difference, and for
/// any false claim of equivalence.
///
/// p-values of difference and equivalence are adjusted over the family ([`crate::multiple::holm_exclusive`]);
/// `Greater` and `Less` need the simultaneous interval (confidence `1 - alpha / family`) beyond the margin. A difference
/// that is resolved goes before equivalence: a ratio of 1.01 with a narrow interval is slightly greater *and* within 5 %,
/// and is called slightly greater. Unmeasured members are `NotResolved` and do not count in the family.
pub fn standings(family: &[Option<LogRatio>], margin: f64, alpha: f64) -> Vec<Standing> {
    let known: Vec<LogRatio> = family.iter().flatten().copied().collect();
    let pairs: Vec<(f64, f64)> =
        known.iter().map(|ratio| (ratio.p_difference(), ratio.p_equivalence(margin))).collect();
    let adjusted = crate::multiple::holm_exclusive(&pairs);
    let simultaneous = 1.0 - alpha / known.len().max(1) as f64;
    let mut standings = known.iter().zip(adjusted).map(|(ratio, (difference, equivalence))| {
        let (lower, upper) = ratio.interval(simultaneous).unwrap_or((0.0, f64::INFINITY));
        if difference <= alpha {
            match (ratio.ratio > 1.0, lower > 1.0 + margin, upper < 1.0 - margin) {
                (true, true, _) => Standing::Greater,
                (true, false, _) => Standing::SlightlyGreater,
                (false, _, true) => Standing::Less,
                (false, _, false) => Standing::SlightlyLess,
            }
        } else if equivalence <= alpha {
            Standing::Equivalent
        } else {
            Standing::NotResolved
        }
    });
    family
        .iter()
        .map(|member| if member.is_some() { standings.next() } else { None })
        .map(|standing| standing.unwrap_or(Standing::NotResolved))
        .collect()
}

/// Least number of runs of each side for any claim.
pub const FEWEST_RUNS: u64 = 5;

/// Runs needed on each side to see a true ratio of `1 + difference` with the power asked for, at a two-sided error of
/// `alpha`, when runs vary by the coefficient of variation `cv`.
///
/// The normal approximation for the rank test, with its asymptotic efficiency of 3/pi and Guenther's correction
/// `z^2 / 4`: `2 (z_alpha + z_power)^2 (cv / difference)^2 pi / 3 + z_alpha^2 / 4`. Below [`FEWEST_RUNS`] the approximation
/// is no guide; the caller raises to it. `None` for arguments that are not positive, or levels outside (0, 1).
pub fn runs_needed(cv: f64, difference: f64, alpha: f64, power: f64) -> Option<u64> {
    let share = |x: f64| x > 0.0 && x < 1.0;
    if !(cv > 0.0 && cv.is_finite() && difference > 0.0 && share(alpha) && share(power)) {
        return None;
    }
    let z = normal_quantile(1.0 - 0.5 * alpha);
    let sum = z + normal_quantile(power);
    let n = 2.0 * (sum * cv / difference).powi(2) * std::f64::consts::PI / 3.0 + z * z / 4.0;
    Some(n.ceil().clamp(2.0, 1e15) as u64)
}

/// Variance of run-level values, split into what lies between groups (deploys) and within them (runs).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Components {
    /// Variance between groups; 0 where the estimate is negative.
    pub between: f64,
    /// Variance within groups.
    pub within: f64,
}

impl Components {
    /// Share of the variance that lies between groups; `None` when nothing varies.
    pub fn share_between(&self) -> Option<f64> {
        let all = self.between + self.within;
        (all > 0.0).then(|| self.between / all)
    }
}

/// The variance components of a one-way layout with random groups of unequal sizes, by the method of moments (Searle,
/// Casella & McCulloch, "Variance Components", 1992, section 3.6).
///
/// `None` with fewer than two groups, no group of two values, or a value that is not finite.
pub fn components(groups: &[Vec<f64>]) -> Option<Components> {
    let groups: Vec<&Vec<f64>> = groups.iter().filter(|group| !group.is_empty()).collect();
    let n: f64 = groups.iter().map(|group| group.len() as f64).sum();
    let k = groups.len() as f64;
    if groups.len() < 2 || n <= k || groups.iter().any(|group| group.iter().any(|v| !v.is_finite())) {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let grand = groups.iter().flat_map(|group| group.iter()).sum::<f64>() / n;
    let within: f64 =
        groups.iter().map(|group| group.iter().map(|v| (v - mean(group)).powi(2)).sum::<f64>()).sum::<f64>()
            / (n - k);
    let between: f64 =
        groups.iter().map(|group| group.len() as f64 * (mean(group) - grand).powi(2)).sum::<f64>()
            / (k - 1.0);
    let squares: f64 = groups.iter().map(|group| (group.len() as f64).powi(2)).sum();
    let size = (n - squares / n) / (k - 1.0);
    Some(Components { between: ((between - within) / size).max(0.0), within })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn runs_needed_agree_with_the_table() {
        // The table of the house rules: rows cv 1, 2, 3, 5, 10 %, columns a difference of 2, 3, 5, 10 %, before the floor.
        let table = [
            (0.01, [6, 3, 2, 2]),
            (0.02, [18, 9, 4, 2]),
            (0.03, [38, 18, 7, 3]),
            (0.05, [104, 47, 18, 6]),
            (0.10, [412, 184, 67, 18]),
        ];
        for (cv, row) in table {
            for (difference, needed) in [0.02, 0.03, 0.05, 0.10].into_iter().zip(row) {
                assert_eq!(runs_needed(cv, difference, 0.05, 0.8), Some(needed), "{cv} {difference}");
            }
        }
        assert_eq!(runs_needed(0.0, 0.1, 0.05, 0.8), None);
        assert_eq!(runs_needed(0.1, 0.0, 0.05, 0.8), None);
        assert_eq!(runs_needed(0.1, 0.1, 1.0, 0.8), None);
    }

    #[test]
    fn welch_agrees_with_a_worked_example() {
        // Logarithms 1, 2, 3 against 1, 2, 3, 4: means 2 and 2.5, squared errors 1/3 and 5/12, se sqrt(3/4),
        // df = (3/4)^2 / (1/18 + (25/144)/3) = 0.5625 / 0.113426 = 4.9592.
        let e = |x: f64| x.exp();
        let found = log_ratio(&[e(1.0), e(2.0), e(3.0)], &[e(1.0), e(2.0), e(3.0), e(4.0)]).unwrap();
        assert!((found.ratio.ln() + 0.5).abs() < 1e-12);
        assert!((found.standard_error - 0.75_f64.sqrt()).abs() < 1e-12);
        assert!((found.freedom - 4.959_18).abs() < 1e-4, "{found:?}");
        // t = 0.57735; R: 2*pt(-0.57735, 4.95918) = 0.5889.
        assert!((found.p_difference() - 0.5889).abs() < 2e-3, "{}", found.p_difference());
        let paired = paired_log_ratio(&[e(1.0), e(2.0), e(4.0)], &[e(1.0), e(1.0), e(2.0)]).unwrap();
        assert!((paired.ratio.ln() - 1.0).abs() < 1e-12 && paired.freedom == 2.0);
        assert!((paired.standard_error - (1.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn the_interval_holds_as_often_as_it_says_with_five_runs() {
        let mut rng = Rng::new(9);
        let cases = 2000;
        let held = (0..cases).filter(|_| {
            let mut side = |n: usize| (0..n).map(|_| rng.log_normal(0.0, 0.1)).collect::<Vec<_>>();
            let (lower, upper) = log_ratio(&side(5), &side(5)).unwrap().interval(0.95).unwrap();
            lower <= 1.0 && 1.0 <= upper
        });
        let share = held.count() as f64 / f64::from(cases);
        assert!((0.935..0.975).contains(&share), "{share}");
    }

    #[test]
    fn tost_is_the_interval_inside_the_margin() {
        // p_equivalence <= 0.05 exactly when the 90 % interval lies inside 1 +- m.
        let mut rng = Rng::new(3);
        let (mut inside_some, mut outside_some) = (false, false);
        for _ in 0..500 {
            let mut side = |n: usize| (0..n).map(|_| rng.log_normal(0.0, 0.03)).collect::<Vec<_>>();
            let ratio = log_ratio(&side(6), &side(6)).unwrap();
            let (lower, upper) = ratio.interval(0.9).unwrap();
            let inside = lower >= 0.95 && upper <= 1.05;
            assert_eq!(inside, ratio.p_equivalence(0.05) <= 0.05, "{ratio:?}");
            inside_some |= inside;
            outside_some |= !inside;
        }
        assert!(inside_some && outside_some);
        assert_eq!(log_ratio(&[2.0, 2.0], &[1.0, 1.0]).unwrap().p_difference(), 0.0);
        assert_eq!(log_ratio(&[2.0, 2.0], &[2.0, 2.0]).unwrap().p_equivalence(0.05), 0.0);
    }

    #[test]
    fn each_standing_has_its_case() {
        let around = |centre: f64, spread: f64| -> Vec<f64> {
            [-1.0, -0.5, 0.0, 0.5, 1.0].iter().map(|d| centre * (1.0 + spread * d)).collect()
        };
        let base = around(100.0, 0.005);
        let stand =
            |centre: f64, spread: f64| standings(&[log_ratio(&around(centre, spread), &base)], 0.05, 0.05)[0];
        assert_eq!(stand(120.0, 0.005), Standing::Greater);
        assert_eq!(stand(103.0, 0.005), Standing::SlightlyGreater);
        assert_eq!(stand(100.2, 0.005), Standing::Equivalent);
        assert_eq!(stand(97.0, 0.005), Standing::SlightlyLess);
        assert_eq!(stand(80.0, 0.005), Standing::Less);
        assert_eq!(stand(105.0, 0.3), Standing::NotResolved);
        assert_eq!(standings(&[None], 0.05, 0.05), [Standing::NotResolved]);
        // What is resolved alone need not be in a family of twenty.
        let weak = log_ratio(&around(101.0, 0.006), &base);
        assert_eq!(standings(&[weak], 0.005, 0.05)[0], Standing::SlightlyGreater);
        let noise = log_ratio(&around(100.0, 0.3), &base);
        let mut family = vec![noise; 19];
        family.push(weak);
        assert_eq!(standings(&family, 0.005, 0.05)[19], Standing::NotResolved);
    }

    #[test]
    fn components_agree_with_a_worked_example_and_with_truth() {
        // Groups {1, 3} and {5, 7}: within 2, between mean square 16, so (16 - 2) / 2 = 7.
        let found = components(&[vec![1.0, 3.0], vec![5.0, 7.0]]).unwrap();
        assert_eq!(found, Components { between: 7.0, within: 2.0 });
        assert_eq!(components(&[vec![1.0, 2.0]]), None);
        assert_eq!(components(&[vec![1.0], vec![2.0]]), None);
        let mut rng = Rng::new(2);
        let groups: Vec<Vec<f64>> = (0..400)
            .map(|index| {
                let deploy = 3.0 * rng.normal();
                (0..2 + index % 4).map(|_| deploy + rng.normal()).collect()
            })
            .collect();
        let found = components(&groups).unwrap();
        assert!((found.between - 9.0).abs() < 1.2 && (found.within - 1.0).abs() < 0.15, "{found:?}");
        assert!((found.share_between().unwrap() - 0.9).abs() < 0.03);
    }
}
