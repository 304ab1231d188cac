//! Many comparisons at once: adjusted p-values that keep the chance of *any* false claim in a family.

/// p-values adjusted by Holm's step-down method ("A simple sequentially rejective multiple test procedure",
/// 1979), in the order given. Valid whatever the dependence. NaN counts as 1.
pub fn holm(p: &[f64]) -> Vec<f64> {
    step_down(p, |step| p.len() - step)
}

/// Adjusted p-values of a family of pairs of which at most one hypothesis can be true: "no difference" and "a
/// difference of at least the margin" of the same metric.
///
/// Shaffer's improvement of Holm's method ("Modified sequentially rejective multiple test procedures", 1986): among
/// `2 k` hypotheses at most `k` are true, so the multiplier at a step is the lesser of `k` and what is left.
pub fn holm_exclusive(pairs: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let flat: Vec<f64> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
    let adjusted = step_down(&flat, |step| pairs.len().min(flat.len() - step));
    adjusted.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

fn step_down(p: &[f64], multiplier: impl Fn(usize) -> usize) -> Vec<f64> {
    let clean = |value: f64| if value.is_nan() { 1.0 } else { value.clamp(0.0, 1.0) };
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| clean(p[a]).total_cmp(&clean(p[b])));
    let mut adjusted = vec![1.0; p.len()];
    let mut greatest = 0.0_f64;
    for (step, &index) in order.iter().enumerate() {
        greatest = greatest.max((multiplier(step) as f64 * clean(p[index])).min(1.0));
        adjusted[index] = greatest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    #[test]
    fn holm_agrees_with_a_worked_example() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") gives 0.03 0.06 0.06 0.02.
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-15, "{adjusted:?}");
        }
        assert_eq!(holm(&[]), Vec::<f64>::new());
        assert_eq!(holm(&[f64::NAN]), [1.0]);
    }

    #[test]
    fn one_pair_needs_no_adjustment() {
        assert_eq!(holm_exclusive(&[(0.03, 0.5)]), [(0.03, 0.5)]);
        // Two pairs: the multipliers are 2, 2, 2, 1.
        let adjusted = holm_exclusive(&[(0.01, 0.6), (0.02, 0.3)]);
        assert_eq!(adjusted, [(0.02, 0.6), (0.04, 0.6)]);
    }

    #[test]
    fn a_family_without_differences_rarely_has_a_false_claim() {
        // Ten independent true hypotheses beside ten false ones that are always rejected.
        let mut rng = Rng::new(5);
        let cases = 4000;
        let wrong = (0..cases).filter(|_| {
            let pairs: Vec<(f64, f64)> = (0..10).map(|_| (rng.uniform(), 1e-9)).collect();
            holm_exclusive(&pairs).iter().any(|(a, _)| *a <= 0.05)
        });
        let share = wrong.count() as f64 / f64::from(cases);
        assert!((0.03..0.06).contains(&share), "{share}");
    }

    proptest! {
        #[test]
        fn adjusted_values_keep_the_order_and_never_fall(p in prop::collection::vec(0.0_f64..1.0, 1..12)) {
            let adjusted = holm(&p);
            for (i, a) in p.iter().enumerate() {
                prop_assert!(adjusted[i] >= *a && adjusted[i] <= 1.0);
                for (j, b) in p.iter().enumerate() {
                    prop_assert!(a > b || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}
