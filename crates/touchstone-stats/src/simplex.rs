//! Weights that agree with a preference order: samples of all of them, and the corners of their polytope.
//!
//! A user can often say "latency matters at least as much as cost, and cost at least as much as lock-in", and
//! seldom "0.52, 0.27, 0.15". A [`PreferenceOrder`] is the set of all weights, non-negative and with the sum
//! 1, that agree with such a statement. Sampling it uniformly answers "for which share of the preferences
//! left open is A best" (stochastic multicriteria acceptability analysis: Lahdelma, Hokkanen & Salminen,
//! 1998). Its vertices answer "for *every* such preference": a linear comparison that holds at each vertex
//! holds throughout.

use crate::rng::Rng;
use std::fmt;

/// Most criteria that an order may have: one group below the first with `m` members has 2^m - 1 vertices.
pub const MOST_ITEMS: usize = 16;

/// Weights uniform on the simplex of `n` non-negative numbers with the sum 1: the Dirichlet distribution with
/// all parameters 1, by normalising exponential draws.
pub fn uniform_weights(rng: &mut Rng, n: usize) -> Vec<f64> {
    let mut weights: Vec<f64> = (0..n).map(|_| rng.exponential(1.0)).collect();
    let sum: f64 = weights.iter().sum();
    if sum > 0.0 {
        weights.iter_mut().for_each(|w| *w /= sum);
    } else {
        // All draws zero: once in 2^(53 n).
        weights.fill(1.0 / n as f64);
    }
    weights
}

/// Weights uniform on the ordered simplex `w[0] >= w[1] >= ... >= w[n-1]`: [`uniform_weights`], sorted. The
/// simplex consists of n! congruent ordered parts, and sorting maps each onto the first.
pub fn uniform_ordered_weights(rng: &mut Rng, n: usize) -> Vec<f64> {
    let mut weights = uniform_weights(rng, n);
    weights.sort_by(|a, b| b.total_cmp(a));
    weights
}

/// The `n` vertices of the ordered simplex: (1, 0, ...), (1/2, 1/2, 0, ...), ..., (1/n, ..., 1/n).
pub fn ordered_simplex_vertices(n: usize) -> Vec<Vec<f64>> {
    (1..=n).map(|k| even_weights(n, 0..k)).collect()
}

/// Equal weights on the given items, which are `items.len()` in number, and zero elsewhere.
fn even_weights(n: usize, items: impl ExactSizeIterator<Item = usize>) -> Vec<f64> {
    let share = 1.0 / items.len() as f64;
    let mut weights = vec![0.0; n];
    items.for_each(|i| weights[i] = share);
    weights
}

/// Why groups do not make a preference order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderError {
    /// There are no items, or a group has none.
    EmptyGroup,
    /// An item stands in two places.
    Repeated {
        /// The item.
        item: usize,
    },
    /// Items must be numbered from 0 without gaps; this one is beyond their number.
    Unexpected {
        /// The item.
        item: usize,
        /// How many items there are.
        items: usize,
    },
    /// More than [`MOST_ITEMS`] items.
    TooMany {
        /// How many items there are.
        items: usize,
    },
}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyGroup => write!(f, "a group of the preference order is empty"),
            Self::Repeated { item } => write!(f, "item {item} stands in the preference order twice"),
            Self::Unexpected { item, items } => {
                write!(f, "item {item} in a preference order of {items} items numbered from 0")
            }
            Self::TooMany { items } => write!(f, "{items} items in a preference order, at most {MOST_ITEMS}"),
        }
    }
}

impl std::error::Error for OrderError {}

/// A weak order of items by importance: every member of an earlier group weighs at least as much as every
/// member of a later one; nothing is said about the members of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreferenceOrder {
    groups: Vec<Vec<usize>>,
    items: usize,
}

impl PreferenceOrder {
    /// The order given by `groups`, most important first, which together hold each of the items 0, 1, ...,
    /// n-1 once.
    ///
    /// # Errors
    /// Says which item or group does not fit.
    pub fn new(groups: Vec<Vec<usize>>) -> Result<Self, OrderError> {
        let items = groups.iter().map(Vec::len).sum();
        if items == 0 || groups.iter().any(Vec::is_empty) {
            return Err(OrderError::EmptyGroup);
        }
        if items > MOST_ITEMS {
            return Err(OrderError::TooMany { items });
        }
        let mut seen = [false; MOST_ITEMS];
        for &item in groups.iter().flatten() {
            if item >= items {
                return Err(OrderError::Unexpected { item, items });
            }
            if seen[item] {
                return Err(OrderError::Repeated { item });
            }
            seen[item] = true;
        }
        Ok(Self { groups, items })
    }

    /// The groups, most important first.
    pub fn groups(&self) -> &[Vec<usize>] {
        &self.groups
    }

    /// Number of items.
    pub const fn items(&self) -> usize {
        self.items
    }

    /// Whether weights agree with the order, to within `tolerance`.
    pub fn admits(&self, weights: &[f64], tolerance: f64) -> bool {
        weights.len() == self.items
            && weights.iter().all(|&w| w >= -tolerance)
            && (weights.iter().sum::<f64>() - 1.0).abs() <= tolerance
            && self.groups.windows(2).all(|pair| {
                let least = pair[0].iter().map(|&i| weights[i]).fold(f64::INFINITY, f64::min);
                pair[1].iter().all(|&i| weights[i] <= least + tolerance)
            })
    }

    /// Weights (by item) uniform over all that agree with the order.
    ///
    /// Without rejection: uniform weights are sorted in descending order, dealt to the groups in blocks, and
    /// shuffled within each group. The polytope is a union of congruent ordered simplices, one for each
    /// arrangement inside the groups, and the shuffle picks among them evenly.
    pub fn sample(&self, rng: &mut Rng) -> Vec<f64> {
        let mut sorted = uniform_ordered_weights(rng, self.items);
        let mut weights = vec![0.0; self.items];
        let mut rest = sorted.as_mut_slice();
        for group in &self.groups {
            let (block, later) = rest.split_at_mut(group.len());
            rng.shuffle(block);
            for (&item, weight) in group.iter().zip(block.iter()) {
                weights[item] = *weight;
            }
            rest = later;
        }
        weights
    }

    /// All vertices of the polytope of weights, exactly, each once.
    ///
    /// A vertex spreads its weight evenly over a set that is closed upwards (with a group it touches, it
    /// holds all earlier groups) and connected by the order's comparisons: either one member of the first
    /// group, or all groups before some later group together with a non-empty part of that group. (These are
    /// the extreme rays of the cone of non-negative order-preserving functions; Stanley, "Two poset
    /// polytopes", 1986.) With g1, g2, ... members there are g1 + (2^g2 - 1) + (2^g3 - 1) + ... vertices.
    pub fn vertices(&self) -> Vec<Vec<f64>> {
        let mut vertices = Vec::new();
        let mut earlier: Vec<usize> = Vec::new();
        for (position, group) in self.groups.iter().enumerate() {
            for part in 1_u32..1 << group.len() {
                if position == 0 && part.count_ones() > 1 {
                    continue;
                }
                let mut support = earlier.clone();
                support.extend((0..group.len()).filter(|m| part >> m & 1 == 1).map(|m| group[m]));
                vertices.push(even_weights(self.items, support.into_iter()));
            }
            earlier.extend(group);
        }
        vertices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    fn order(groups: &[&[usize]]) -> PreferenceOrder {
        PreferenceOrder::new(groups.iter().map(|g| g.to_vec()).collect()).unwrap()
    }

    fn means(n: usize, draws: u32, mut draw: impl FnMut() -> Vec<f64>) -> Vec<f64> {
        let mut sums = vec![0.0; n];
        for _ in 0..draws {
            sums.iter_mut().zip(draw()).for_each(|(s, w)| *s += w / f64::from(draws));
        }
        sums
    }

    #[test]
    fn the_mean_of_ordered_weights_is_the_rank_order_centroid() {
        let mut rng = Rng::new(2);
        let found = means(4, 40_000, || uniform_ordered_weights(&mut rng, 4));
        for (w, expected) in found.iter().zip([25.0 / 48.0, 13.0 / 48.0, 7.0 / 48.0, 3.0 / 48.0]) {
            assert!((w - expected).abs() < 0.003, "{found:?}");
        }
        let even = means(4, 40_000, || uniform_weights(&mut rng, 4));
        assert!(even.iter().all(|w| (w - 0.25).abs() < 0.003), "{even:?}");
    }

    #[test]
    fn samples_are_uniform_also_in_the_second_moment_and_by_group() {
        // Unordered: P(w0 > t) = (1 - t)^(n-1).
        let mut rng = Rng::new(3);
        let above = (0..40_000).filter(|_| uniform_weights(&mut rng, 3)[0] > 0.5).count() as f64 / 40_000.0;
        assert!((above - 0.25).abs() < 0.01, "{above}");
        // Grouped, against rejection from the whole simplex.
        let o = order(&[&[2, 0], &[1, 3]]);
        let direct = (0..20_000).map(|_| o.sample(&mut rng)).filter(|w| w[0] > 0.4).count() as f64 / 20_000.0;
        let mut rejection = Rng::new(4);
        let admitted: Vec<Vec<f64>> = std::iter::repeat_with(|| uniform_weights(&mut rejection, 4))
            .filter(|w| o.admits(w, 0.0))
            .take(20_000)
            .collect();
        let expected = admitted.iter().filter(|w| w[0] > 0.4).count() as f64 / 20_000.0;
        assert!((direct - expected).abs() < 0.02, "{direct} {expected}");
    }

    #[test]
    fn vertices_of_strict_and_absent_orders() {
        let strict = order(&[&[0], &[1], &[2]]).vertices();
        assert_eq!(strict, [vec![1.0, 0.0, 0.0], vec![0.5, 0.5, 0.0], vec![1.0 / 3.0; 3]]);
        assert_eq!(strict, ordered_simplex_vertices(3));
        assert_eq!(
            order(&[&[0, 1, 2]]).vertices(),
            [vec![1.0, 0.0, 0.0], vec![0.0, 1.0, 0.0], vec![0.0, 0.0, 1.0]]
        );
        assert_eq!(order(&[&[0]]).vertices(), [vec![1.0]]);
        for n in 1..=8 {
            assert_eq!(PreferenceOrder::new((0..n).map(|i| vec![i]).collect()).unwrap().vertices().len(), n);
            assert_eq!(PreferenceOrder::new(vec![(0..n).collect()]).unwrap().vertices().len(), n);
        }
    }

    /// Solves a square system by elimination with pivoting; `None` when singular.
    fn solve(mut m: Vec<Vec<f64>>) -> Option<Vec<f64>> {
        let n = m.len();
        for column in 0..n {
            let pivot = (column..n).max_by(|&a, &b| m[a][column].abs().total_cmp(&m[b][column].abs()))?;
            if m[pivot][column].abs() < 1e-9 {
                return None;
            }
            m.swap(column, pivot);
            for row in (0..n).filter(|&r| r != column) {
                let factor = m[row][column] / m[column][column];
                let pivot_row = m[column].clone();
                m[row].iter_mut().zip(&pivot_row).for_each(|(x, y)| *x -= factor * y);
            }
        }
        Some((0..n).map(|i| m[i][n] / m[i][i]).collect())
    }

    /// Vertices from the definition: feasible points at which n - 1 independent constraints are tight.
    fn vertices_by_definition(o: &PreferenceOrder) -> Vec<Vec<f64>> {
        let n = o.items();
        let unit = |i: usize| (0..=n).map(|k| f64::from(u8::from(k == i))).collect::<Vec<_>>();
        let mut constraints: Vec<Vec<f64>> = (0..n).map(unit).collect();
        for pair in o.groups().windows(2) {
            for &a in &pair[0] {
                for &b in &pair[1] {
                    constraints.push(unit(a).iter().zip(unit(b)).map(|(x, y)| x - y).collect());
                }
            }
        }
        let mut found: Vec<Vec<f64>> = Vec::new();
        for mask in (0_u32..1 << constraints.len()).filter(|m| m.count_ones() as usize == n - 1) {
            let mut system = vec![vec![1.0; n + 1]];
            system.extend(
                (0..constraints.len()).filter(|c| mask >> c & 1 == 1).map(|c| constraints[c].clone()),
            );
            if let Some(w) = solve(system)
                && o.admits(&w, 1e-9)
                && !found.iter().any(|v| distance(v, &w) < 1e-9)
            {
                found.push(w);
            }
        }
        found
    }

    fn distance(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn vertices_agree_with_the_definition() {
        let orders: [&[&[usize]]; 9] = [
            &[&[1], &[0], &[2]],
            &[&[0, 1], &[2]],
            &[&[0], &[1, 2]],
            &[&[0, 3], &[1, 2]],
            &[&[0], &[1, 2, 3]],
            &[&[2, 1, 0], &[3]],
            &[&[0], &[1, 2], &[3]],
            &[&[0, 1], &[2], &[3, 4]],
            &[&[4], &[0, 1], &[2, 3]],
        ];
        for groups in orders {
            let o = order(groups);
            let (found, expected) = (o.vertices(), vertices_by_definition(&o));
            assert_eq!(found.len(), expected.len(), "{groups:?}");
            assert!(expected.iter().all(|e| found.iter().any(|f| distance(f, e) < 1e-9)), "{groups:?}");
        }
    }

    #[test]
    fn groups_that_are_no_order_are_refused() {
        let refused = |groups: &[&[usize]]| {
            PreferenceOrder::new(groups.iter().map(|g| g.to_vec()).collect()).unwrap_err()
        };
        assert_eq!(refused(&[]), OrderError::EmptyGroup);
        assert_eq!(refused(&[&[0], &[]]), OrderError::EmptyGroup);
        assert_eq!(refused(&[&[0], &[0]]), OrderError::Repeated { item: 0 });
        assert_eq!(refused(&[&[0], &[2]]), OrderError::Unexpected { item: 2, items: 2 });
        let many: Vec<usize> = (0..17).collect();
        assert_eq!(refused(&[&many]), OrderError::TooMany { items: 17 });
        assert_eq!(refused(&[&[0], &[0]]).to_string(), "item 0 stands in the preference order twice");
    }

    proptest! {
        #[test]
        fn samples_and_vertices_agree_with_the_order(
            seed: u64,
            sizes in prop::collection::vec(1_usize..4, 1..5),
        ) {
            let mut rng = Rng::new(seed);
            let mut items: Vec<usize> = (0..sizes.iter().sum()).collect();
            rng.shuffle(&mut items);
            let groups = sizes.iter().map(|&size| items.drain(..size).collect()).collect();
            let o = PreferenceOrder::new(groups).unwrap();
            prop_assert!(o.admits(&o.sample(&mut rng), 1e-12));
            let vertices = o.vertices();
            prop_assert!(vertices.iter().all(|v| o.admits(v, 1e-12)));
            let expected = sizes[0] + sizes[1..].iter().map(|s| (1 << s) - 1).sum::<usize>();
            prop_assert_eq!(vertices.len(), expected);
        }
    }
}
