//! Comparisons of candidates: probabilistic dominance, and SMAA over preferences x measurement draws.
//!
//! Every number about a pair is computed from the draws of these two alone, so no third candidate can change it.
//! Stochastic multicriteria acceptability analysis: Lahdelma, Hokkanen & Salminen, European Journal of Operational
//! Research 106 (1998); pairwise winning indices: Leskinen, Viitanen, Kangas & Kangas, Forest Science 52 (2006).

use touchstone_model::decision::Ranking;
use touchstone_stats::quantile::quantile;

use crate::worth::{PREFERENCES_PER_DRAW, Preferences, SLACK, Worths, score};

/// Probability at which dominance counts.
pub(crate) const DOMINANCE: f64 = 0.95;

/// A class inside which candidates compare: durability and delivery.
pub(crate) type Class = (Option<String>, Option<String>);

/// Whether `a` dominates `b`: at least as good on every criterion and better on one, with probability >= 0.95.
///
/// "Better on one" keeps equals from dominating each other; with it, dominance has no cycle of fewer than 20. What lacks
/// evidence on a criterion neither dominates nor is dominated.
pub(crate) fn dominates(a: &Worths, b: &Worths) -> bool {
    if a.missing.iter().chain(&b.missing).any(|&missing| missing) || a.rows.is_empty() {
        return false;
    }
    let holds = |(a, b): (&Vec<f64>, &Vec<f64>)| {
        a.iter().zip(b).all(|(x, y)| *x >= y - SLACK) && a.iter().zip(b).any(|(x, y)| *x > y + SLACK)
    };
    let count = a.rows.iter().zip(&b.rows).filter(|pair| holds(*pair)).count();
    count as f64 >= DOMINANCE * a.rows.len() as f64
}

/// Share of preference x measurement draws in which the first is better than the second; ties count half.
pub(crate) fn pairwise(preferences: &Preferences, a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    let mut wins = 0.0;
    let weights = preferences.drawn.chunks(PREFERENCES_PER_DRAW as usize);
    for ((weights, x), y) in weights.zip(a).zip(b) {
        for weight in weights {
            let difference = score(weight, x) - score(weight, y);
            wins += if difference > SLACK {
                1.0
            } else if difference < -SLACK {
                0.0
            } else {
                0.5
            };
        }
    }
    if preferences.drawn.is_empty() { 0.5 } else { wins / preferences.drawn.len() as f64 }
}

/// Share of measurement draws in which the first is at least as good as the second at every vertex.
pub(crate) fn robust(preferences: &Preferences, a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    let holds = |x: &[f64], y: &[f64]| {
        preferences.vertices.iter().all(|weight| score(weight, x) >= score(weight, y) - SLACK)
    };
    let count = a.iter().zip(b).filter(|(x, y)| holds(x, y)).count();
    if a.is_empty() { 0.0 } else { count as f64 / a.len() as f64 }
}

/// A contender with figures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a str,
    pub(crate) class: &'a Class,
    pub(crate) worths: &'a Worths,
}

/// The ranking of the contenders. Candidates of different classes are not compared: their pairwise and robust entries
/// are 0 in both directions, and ranks, regret and central weights are those inside the class.
pub(crate) fn rank(preferences: &Preferences, criteria: Vec<String>, entries: &[Entry<'_>]) -> Ranking {
    let n = entries.len();
    let mut ranking = Ranking {
        contenders: entries.iter().map(|entry| entry.name.to_owned()).collect(),
        acceptability: vec![vec![0.0; n]; n],
        pairwise: vec![vec![0.0; n]; n],
        robust: vec![vec![0.0; n]; n],
        regret_p95: vec![0.0; n],
        central_weights: vec![Vec::new(); n],
        criteria,
        draws: preferences.drawn.len() as u32,
    };
    for i in 0..n {
        ranking.pairwise[i][i] = 0.5;
        ranking.robust[i][i] = 1.0;
        for j in 0..n {
            if i == j || entries[i].class != entries[j].class {
                continue;
            }
            let (a, b) = (&entries[i].worths.rows, &entries[j].worths.rows);
            ranking.robust[i][j] = robust(preferences, a, b);
            ranking.pairwise[i][j] = pairwise(preferences, a, b);
        }
    }
    let mut classes: Vec<&Class> = entries.iter().map(|entry| entry.class).collect();
    classes.sort();
    classes.dedup();
    for class in classes {
        let members: Vec<usize> = (0..n).filter(|&i| entries[i].class == class).collect();
        rank_class(preferences, entries, &members, &mut ranking);
    }
    ranking
}

/// Ranks, regret and central weights inside one class.
fn rank_class(preferences: &Preferences, entries: &[Entry<'_>], members: &[usize], ranking: &mut Ranking) {
    let total = preferences.drawn.len() as f64;
    let mut regret = vec![Vec::with_capacity(preferences.drawn.len()); members.len()];
    let mut best = vec![0.0; members.len()];
    let mut central = vec![vec![0.0; preferences.centroid.len()]; members.len()];
    for (k, weight) in preferences.drawn.iter().enumerate() {
        let row = k / PREFERENCES_PER_DRAW as usize;
        let scores: Vec<f64> = members.iter().map(|&i| score(weight, &entries[i].worths.rows[row])).collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let leaders = scores.iter().filter(|&&own| own >= top - SLACK).count() as f64;
        for (m, &own) in scores.iter().enumerate() {
            let better = scores.iter().filter(|&&other| other > own + SLACK).count();
            let tied = scores.iter().filter(|&&other| (other - own).abs() <= SLACK).count();
            // Those who tie share their ranks evenly.
            for rank in better..better + tied {
                ranking.acceptability[members[m]][rank] += 1.0 / tied as f64;
            }
            regret[m].push(top - own);
            if own >= top - SLACK {
                best[m] += 1.0 / leaders;
                central[m].iter_mut().zip(weight).for_each(|(sum, w)| *sum += w / leaders);
            }
        }
    }
    for (m, &i) in members.iter().enumerate() {
        ranking.acceptability[i].iter_mut().for_each(|count| *count /= total.max(1.0));
        ranking.regret_p95[i] = quantile(&regret[m], 0.95).unwrap_or(0.0);
        if best[m] > 0.0 {
            ranking.central_weights[i] = central[m].iter().map(|sum| sum / best[m]).collect();
        }
    }
}

/// The leader among `members`: the one whose worst pairwise index is best (so that whoever is clear or leaning leads),
/// then the one worth more at the centre of the preferences, then the earlier.
pub(crate) fn leader(
    preferences: &Preferences,
    ranking: &Ranking,
    entries: &[Entry<'_>],
    members: &[usize],
) -> Option<usize> {
    let worst =
        |i: usize| members.iter().filter(|&&j| j != i).map(|&j| ranking.pairwise[i][j]).fold(1.0, f64::min);
    let centre = |i: usize| score(&preferences.centroid, &entries[i].worths.mean);
    members.iter().copied().reduce(|best, i| {
        let order = worst(i).total_cmp(&worst(best)).then(centre(i).total_cmp(&centre(best)));
        if order.is_gt() { i } else { best }
    })
}
