//! Looking at a share more than once without being fooled: group-sequential tests with alpha spending.
//!
//! A search that measures until it likes what it sees is wrong more often than it says. Here the number of
//! looks is fixed beforehand and the error is spent over them (Lan & DeMets, "Discrete sequential boundaries for
//! clinical trials", 1983). The part spent at a look is used as it is, without the correlation of the looks:
//! by the union bound the whole error is then at most what was to be spent, whatever depends on what.

use crate::special::{inverse_incomplete_beta, normal_cdf, normal_quantile};

/// How the error is spread over the looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spending {
    /// `alpha ln(1 + (e - 1) t)`: nearly even, so that clear cases end early (Pocock's shape).
    Even,
    /// `2 - 2 Phi(z / sqrt t)`: almost everything is kept for the last look (O'Brien & Fleming's shape).
    Late,
}

impl Spending {
    /// The error that may have been spent when the share `t` of the looks is done; 0 for `t <= 0`, `alpha` for
    /// `t >= 1`.
    pub fn spent(self, alpha: f64, t: f64) -> f64 {
        if t <= 0.0 {
            return 0.0;
        }
        if t >= 1.0 {
            return alpha;
        }
        match self {
            Spending::Even => alpha * (1.0 + (std::f64::consts::E - 1.0) * t).ln(),
            Spending::Late => 2.0 * normal_cdf(normal_quantile(0.5 * alpha) / t.sqrt()),
        }
    }

    /// The error to use at look `look` (from 1) of `looks`; they sum up to `alpha`. 0 beyond the last look.
    pub fn at_look(self, alpha: f64, look: u32, looks: u32) -> f64 {
        if look == 0 || look > looks {
            return 0.0;
        }
        let share = |look: u32| f64::from(look) / f64::from(looks);
        self.spent(alpha, share(look)) - self.spent(alpha, share(look - 1))
    }
}

/// What a sequential test says so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The share is at least the limit.
    AtLeast,
    /// The share is below the limit.
    Below,
    /// Neither can be said yet, and there are looks left.
    Continue,
    /// Neither can be said, and no look is left.
    Unresolved,
}

/// A group-sequential test of whether a share is at least a limit.
///
/// The observations of all looks are pooled. Counts are effective ones and need not be whole: operations next
/// to each other are not independent (see [`crate::autocorrelation`]). At each look both one-sided bounds of
/// Clopper & Pearson are taken at the error of that look; so each of the two wrong decisions is made with a
/// probability of at most `alpha`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareTest {
    limit: f64,
    alpha: f64,
    looks: u32,
    spending: Spending,
    done: u32,
    successes: f64,
    n: f64,
    lower: f64,
    upper: f64,
    decision: Decision,
}

impl ShareTest {
    /// A test of `share >= limit` with at most `looks` looks (at least 1) and an error of `alpha` on each side.
    pub fn new(limit: f64, alpha: f64, looks: u32, spending: Spending) -> Self {
        Self {
            limit,
            alpha,
            looks: looks.max(1),
            spending,
            done: 0,
            successes: 0.0,
            n: 0.0,
            lower: 0.0,
            upper: 1.0,
            decision: Decision::Continue,
        }
    }

    /// Adds what a look saw and decides. A decision, once made, stays: what is observed afterwards is ignored.
    pub fn observe(&mut self, successes: f64, n: f64) -> Decision {
        if self.decision != Decision::Continue {
            return self.decision;
        }
        self.done += 1;
        if n.is_finite() && n > 0.0 && successes.is_finite() {
            self.n += n;
            self.successes += successes.clamp(0.0, n);
        }
        let alpha = self.spending.at_look(self.alpha, self.done, self.looks);
        (self.lower, self.upper) = share_bounds(self.successes, self.n, alpha);
        self.decision = if self.lower >= self.limit && self.n > 0.0 {
            Decision::AtLeast
        } else if self.upper < self.limit {
            Decision::Below
        } else if self.done < self.looks {
            Decision::Continue
        } else {
            Decision::Unresolved
        };
        self.decision
    }

    /// What was decided.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// The pooled share; `None` when nothing was observed.
    pub fn share(&self) -> Option<f64> {
        (self.n > 0.0).then(|| self.successes / self.n)
    }

    /// The one-sided bounds of the last look.
    pub fn bounds(&self) -> (f64, f64) {
        (self.lower, self.upper)
    }
}

/// The one-sided bounds of a share by Clopper & Pearson, each with error `alpha`; counts need not be whole.
/// (0, 1) when nothing was observed.
pub fn share_bounds(successes: f64, n: f64, alpha: f64) -> (f64, f64) {
    if n.is_nan() || n <= 0.0 || !(alpha > 0.0 && alpha < 1.0) {
        return (0.0, 1.0);
    }
    let lower =
        if successes <= 0.0 { 0.0 } else { inverse_incomplete_beta(successes, n - successes + 1.0, alpha) };
    let upper = if successes >= n {
        1.0
    } else {
        inverse_incomplete_beta(successes + 1.0, n - successes, 1.0 - alpha)
    };
    (lower, upper)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn spending_agrees_with_the_published_table() {
        // DeMets & Lan, "Interim analysis: the alpha spending function approach" (1994), table I: alpha 0.05, five looks.
        let late = [0.00001, 0.00194, 0.01140, 0.02843, 0.05];
        let even = [0.01477, 0.02616, 0.03543, 0.04324, 0.05];
        for (look, (late, even)) in late.into_iter().zip(even).enumerate() {
            let t = (look + 1) as f64 / 5.0;
            assert!((Spending::Late.spent(0.05, t) - late).abs() < 6e-6, "{t}");
            assert!((Spending::Even.spent(0.05, t) - even).abs() < 6e-6, "{t}");
        }
        for spending in [Spending::Even, Spending::Late] {
            let sum: f64 = (1..=7).map(|look| spending.at_look(0.05, look, 7)).sum();
            assert!((sum - 0.05).abs() < 1e-12);
            assert_eq!((spending.at_look(0.05, 0, 7), spending.at_look(0.05, 8, 7)), (0.0, 0.0));
        }
    }

    #[test]
    fn a_clear_share_is_decided_by_the_bound_in_closed_form() {
        // All of n within the limit: the lower bound is alpha^(1/n); 59 are enough for 95 % at 0.05, 58 are not.
        let decide = |n: f64| ShareTest::new(0.95, 0.05, 1, Spending::Even).observe(n, n);
        assert_eq!((decide(59.0), decide(58.0)), (Decision::AtLeast, Decision::Unresolved));
        let mut test = ShareTest::new(0.95, 0.05, 3, Spending::Even);
        assert_eq!(test.observe(20.0, 20.0), Decision::Continue);
        assert_eq!(test.observe(0.0, 20.0), Decision::Below);
        assert_eq!(test.observe(1e6, 1e6), Decision::Below, "a decision stays");
        assert_eq!(test.share(), Some(0.5));
        assert_eq!(ShareTest::new(0.5, 0.05, 1, Spending::Even).observe(0.0, 0.0), Decision::Unresolved);
    }

    /// Share of wrong decisions, and of decisions at all, with the true share `p`.
    fn errors(p: f64, limit: f64) -> (f64, f64) {
        let mut rng = Rng::new(77);
        let (mut wrong, mut decided) = (0, 0);
        let cases = 2000;
        for _ in 0..cases {
            let mut test = ShareTest::new(limit, 0.05, 4, Spending::Even);
            while test.decision() == Decision::Continue {
                let hits = (0..150).filter(|_| rng.uniform() < p).count();
                test.observe(hits as f64, 150.0);
            }
            decided += u32::from(test.decision() != Decision::Unresolved);
            wrong +=
                u32::from(test.decision() == if p >= limit { Decision::Below } else { Decision::AtLeast });
        }
        (f64::from(wrong) / f64::from(cases), f64::from(decided) / f64::from(cases))
    }

    #[test]
    fn four_looks_are_wrong_no_more_often_than_was_to_be_spent() {
        for (p, limit) in [(0.95, 0.95), (0.949, 0.95), (0.5, 0.5), (0.9, 0.9)] {
            let (wrong, _) = errors(p, limit);
            assert!(wrong <= 0.05 + 0.015, "{p} {limit}: {wrong}");
        }
        // A naive 5 % bound at each of four looks is wrong clearly more often: the test above can fail.
        let (wrong, decided) = errors(0.90, 0.95);
        assert!(wrong < 0.01 && decided > 0.95, "{wrong} {decided}");
    }
}
