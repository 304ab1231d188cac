//! What each draw of the measurements makes a candidate worth, and which preferences are admissible.

use std::collections::BTreeMap;

use touchstone_model::Scenario;
use touchstone_model::decision::CriterionResult;
use touchstone_model::scenario::{Candidate, Criterion};
use touchstone_stats::quantile::nearest_rank;
use touchstone_stats::rng::Rng;
use touchstone_stats::simplex::PreferenceOrder;

use crate::figure::Figure;
use crate::pool::Pool;

/// Preferences drawn for each measurement draw.
pub(crate) const PREFERENCES_PER_DRAW: u32 = 4;
/// Differences of worth below this are rounding.
pub(crate) const SLACK: f64 = 1e-12;

/// The admissible preferences: weights of the criteria that agree with the scenario's order.
#[derive(Debug)]
pub(crate) struct Preferences {
    /// Weights, [`PREFERENCES_PER_DRAW`] for each measurement draw.
    pub(crate) drawn: Vec<Vec<f64>>,
    /// The corners: what holds at each holds for every admissible preference.
    pub(crate) vertices: Vec<Vec<f64>>,
    /// The centre of gravity.
    pub(crate) centroid: Vec<f64>,
}

impl Preferences {
    /// Draws preferences; they are keyed by the seed alone and are the same whoever is compared.
    pub(crate) fn new(scenario: &Scenario, seed: u64, draws: u32) -> Self {
        let groups = scenario.preference_groups();
        let count = u64::from(draws) * u64::from(PREFERENCES_PER_DRAW);
        let Ok(order) = PreferenceOrder::new(groups.clone()) else {
            // Without criteria every candidate is worth the same.
            let none = vec![0.0; scenario.criteria.len()];
            return Self {
                drawn: vec![none.clone(); count as usize],
                vertices: vec![none.clone()],
                centroid: none,
            };
        };
        let drawn = (0..count).map(|k| order.sample(&mut Rng::keyed(seed, b"weights", k))).collect();
        Self { drawn, vertices: order.vertices(), centroid: centroid(&groups, order.items()) }
    }
}

/// The centre of gravity of the preferences: rank-order-centroid weights, shared evenly inside each group, since the
/// polytope is the union of the ordered simplices of all arrangements inside the groups.
fn centroid(groups: &[Vec<usize>], items: usize) -> Vec<f64> {
    let of_rank = |rank: usize| (rank..items).map(|i| 1.0 / (i + 1) as f64).sum::<f64>() / items as f64;
    let mut weights = vec![0.0; items];
    let mut rank = 0;
    for group in groups {
        let share = (rank..rank + group.len()).map(of_rank).sum::<f64>() / group.len() as f64;
        group.iter().for_each(|&item| weights[item] = share);
        rank += group.len();
    }
    weights
}

/// The worth of a row of criteria under a preference.
pub(crate) fn score(weights: &[f64], worths: &[f64]) -> f64 {
    weights.iter().zip(worths).map(|(weight, worth)| weight * worth).sum()
}

/// The draws of one candidate.
#[derive(Debug)]
pub(crate) struct Worths {
    /// `rows[k][c]`: worth of criterion c in measurement draw k. A criterion without evidence earns nothing.
    pub(crate) rows: Vec<Vec<f64>>,
    /// Per criterion: whether there is no evidence.
    pub(crate) missing: Vec<bool>,
    /// Per criterion: median over the draws, canonical unit; none when missing or beyond every limit.
    pub(crate) median: Vec<Option<f64>>,
    /// Per criterion: worth of the median; 0 when missing.
    pub(crate) typical: Vec<f64>,
    /// Per criterion: mean worth over the draws.
    pub(crate) mean: Vec<f64>,
    /// By metric as written, for the record.
    pub(crate) results: BTreeMap<String, CriterionResult>,
}

impl Worths {
    /// Computes every criterion in every resample.
    pub(crate) fn new(
        criteria: &[Criterion],
        candidate: &Candidate,
        pool: &Pool<'_>,
        resamples: &[Vec<u32>],
    ) -> Self {
        let mut made = Self {
            rows: vec![Vec::with_capacity(criteria.len()); resamples.len()],
            missing: Vec::new(),
            median: Vec::new(),
            typical: Vec::new(),
            mean: Vec::new(),
            results: BTreeMap::new(),
        };
        for criterion in criteria {
            // A resample without any observation says nothing good: NaN is worth 0.
            let values: Option<Vec<f64>> = Figure::new(criterion.metric, candidate, pool).map(|figure| {
                resamples.iter().map(|times| figure.value(times).unwrap_or(f64::NAN)).collect()
            });
            let mut worths = vec![0.0; resamples.len()];
            let mut result = CriterionResult { median: None, lower: None, upper: None, worth: None };
            if let Some(mut values) = values {
                worths = values.iter().map(|&value| criterion.value(value)).collect();
                values.retain(|value| !value.is_nan());
                values.sort_by(f64::total_cmp);
                let at =
                    |level| nearest_rank(level, values.len() as u64).map(|rank| values[rank as usize - 1]);
                let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
                result = CriterionResult {
                    median: finite(at(0.5)),
                    lower: finite(at(0.05)),
                    upper: finite(at(0.95)),
                    worth: at(0.5).map(|value| criterion.value(value)),
                };
            }
            for (row, worth) in made.rows.iter_mut().zip(&worths) {
                row.push(*worth);
            }
            made.missing.push(result.worth.is_none());
            made.median.push(result.median);
            made.typical.push(result.worth.unwrap_or(0.0));
            made.mean.push(worths.iter().sum::<f64>() / (worths.len().max(1)) as f64);
            made.results.insert(criterion.metric.to_string(), result);
        }
        made
    }

    /// The same with full worth for every criterion without evidence: the best that it could still be.
    pub(crate) fn at_best(&self) -> Vec<Vec<f64>> {
        let lift = |row: &Vec<f64>| {
            row.iter()
                .zip(&self.missing)
                .map(|(&worth, &missing)| if missing { 1.0 } else { worth })
                .collect()
        };
        self.rows.iter().map(lift).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_centroid_is_the_mean_of_the_drawn_preferences() {
        // Rank-order centroid of four (published: 0.5208, 0.2708, 0.1458, 0.0625).
        let ordered = centroid(&[vec![0], vec![1], vec![2], vec![3]], 4);
        for (weight, published) in ordered.iter().zip([0.5208, 0.2708, 0.1458, 0.0625]) {
            assert!((weight - published).abs() < 1e-4);
        }
        let groups = vec![vec![2], vec![0, 1]];
        let exact = centroid(&groups, 3);
        let order = PreferenceOrder::new(groups).unwrap();
        let n = 40_000;
        let mut mean = [0.0; 3];
        for k in 0..n {
            let drawn = order.sample(&mut Rng::keyed(1, b"weights", k));
            mean.iter_mut().zip(drawn).for_each(|(sum, weight)| *sum += weight / n as f64);
        }
        for (exact, mean) in exact.iter().zip(mean) {
            assert!((exact - mean).abs() < 0.005, "{exact} {mean}");
        }
    }
}
