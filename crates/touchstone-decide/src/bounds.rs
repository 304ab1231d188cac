//! One-sided bounds of what a gate tests: quantiles, shares and rates of pooled runs.

use touchstone_model::MetricId;
use touchstone_stats::quantile::{bounds_with_effective, nearest_rank, needed_samples};
use touchstone_stats::special::{inverse_incomplete_beta, normal_quantile, student_t_quantile};

use crate::figure::Figure;
use crate::pool::{Pool, Table};

/// Fewest runs at which resampling runs alone shows their spread; below, Student's t over the runs is asked as well.
const ENOUGH_RUNS: usize = 5;

/// A value with one-sided bounds, canonical unit; infinite where censored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bounded {
    /// The point value.
    pub(crate) value: f64,
    /// The true value is at least this.
    pub(crate) lower: Option<f64>,
    /// The true value is at most this.
    pub(crate) upper: Option<f64>,
}

/// Bounds that rest on a number of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampled {
    /// Value and bounds.
    pub(crate) bounded: Bounded,
    /// Observations.
    pub(crate) n: u64,
    /// What they are worth, as independent ones.
    pub(crate) effective: f64,
    /// Effective samples with which the limit could be shown to hold at the share of exceedances seen so far; none
    /// when no number would do.
    pub(crate) needs: Option<u64>,
}

/// What `effective` samples are worth when their clusters (runs, blocks) may disagree: (hits, size) per cluster.
///
/// The share's variance is estimated between clusters (ratio estimator, clusters as the ultimate units) and compared to
/// that of `effective` independent samples; the ratio is Kish's design effect. Above 1 it divides the sample size. When
/// it is above what chance gives at 5 % (Wilson & Hilferty's approximation of chi-squared), the clusters are taken to
/// be the true units, and the few degrees of freedom are paid for as in Korn & Graubard, "Confidence intervals for
/// proportions with small expected number of positive counts estimated from survey data", Survey Methodology 24
/// (1998), 193-201. It never adds samples.
pub(crate) fn effective_of_clusters(clusters: &[(f64, f64)], effective: f64, confidence: f64) -> f64 {
    let used: Vec<(f64, f64)> = clusters.iter().copied().filter(|(_, size)| *size > 0.0).collect();
    let size: f64 = used.iter().map(|(_, size)| size).sum();
    let share = used.iter().map(|(hits, _)| hits).sum::<f64>() / size;
    let freedom = used.len() as f64 - 1.0;
    if used.len() < 2 || !(share > 0.0 && share < 1.0) {
        return effective;
    }
    let spread: f64 = used.iter().map(|(hits, n)| (n / size * (hits / n - share)).powi(2)).sum();
    let between = spread * used.len() as f64 / freedom;
    let design_effect = between / (share * (1.0 - share) / effective);
    if design_effect.is_nan() || design_effect <= 1.0 {
        return effective;
    }
    let curve = 2.0 / (9.0 * freedom);
    let by_chance = (1.0 - curve + normal_quantile(0.95) * curve.sqrt()).powi(3);
    let few = if design_effect > by_chance {
        (normal_quantile(confidence) / student_t_quantile(confidence, freedom)).powi(2)
    } else {
        1.0
    };
    effective / design_effect * few
}

/// Effective samples that show a share of at most `allowed` when `over` of `n` exceed it, by growing the sample with
/// the share unchanged.
fn needs(over: f64, n: f64, allowed: f64, confidence: f64) -> Option<u64> {
    let share = if n > 0.0 { over / n } else { 0.0 };
    if share >= allowed {
        return None;
    }
    let mut samples = needed_samples(1.0 - allowed, confidence, 0);
    for _ in 0..200 {
        let enough = needed_samples(1.0 - allowed, confidence, (share * samples as f64 - 1e-9).ceil() as u64);
        if enough <= samples {
            return Some(samples);
        }
        samples = enough;
    }
    None
}

/// Bounds of the `level` quantile of a metric over the pooled runs.
///
/// Order statistics at the sum of the runs' effective sample sizes, lowered when the runs disagree about the share over
/// `limit`; with several runs also Student's t over the runs' own quantiles, and the wider counts. None when nothing was
/// observed.
///
/// How often a nominal 95 % gate passes although the limit is exactly the true quantile (log-normal operations with
/// sigma 0.3, 600 independent ones in each of 3 runs, runs that vary by 0, 3, 10 and 20 %; 500 trials each): p95 2.0,
/// 4.0, 7.4, 10.0 %; p99 1.8, 2.2, 9.0, 18.2 %. Where runs vary much, the tail belongs to runs that were not made.
pub(crate) fn quantile(
    pool: &Pool<'_>,
    metric: MetricId,
    level: f64,
    limit: f64,
    confidence: f64,
) -> Option<Sampled> {
    let table: &Table = pool.table(metric)?;
    let once = vec![1; pool.blocks.len()];
    let n = table.total_of(&once);
    let mut effective = 0.0;
    let mut clusters = Vec::new();
    for (index, run) in pool.documents().enumerate() {
        let total: u64 = pool.blocks_of(index).map(|block| table.total(block)).sum();
        let over: u64 = pool.blocks_of(index).map(|block| table.over(block, limit)).sum();
        // A run that does not say what its samples are worth adds none.
        let worth = run.metrics.get(&metric).map_or(0.0, |summary| summary.n_effective);
        effective += if worth.is_nan() { 0.0 } else { worth.clamp(0.0, total as f64) };
        clusters.push((over as f64, total as f64));
    }
    let over: f64 = clusters.iter().map(|(over, _)| over).sum();
    // A hair is added against sums such as 99.9999999 of 100 equal parts.
    let effective = effective_of_clusters(&clusters, effective, confidence) + 1e-9;
    let bounds = bounds_with_effective(n, effective, level, confidence);
    let at = |rank: Option<u64>| rank.and_then(|rank| table.at_rank(&once, rank));
    let value = at(nearest_rank(level, n))?.1;
    let mut lower = at(bounds.ranks.lower_rank).map(|(lower, _)| lower);
    let mut upper = at(bounds.ranks.upper_rank).map(|(_, upper)| upper);
    if let Some((low, high)) = between_runs(pool, table, level, confidence) {
        lower = lower.map(|bound| bound.min(low));
        upper = upper.map(|bound| bound.max(high));
    }
    Some(Sampled {
        bounded: Bounded { value, lower, upper },
        n,
        effective,
        needs: needs(over, n as f64, 1.0 - level, confidence),
    })
}

/// Bounds of a quantile by Student's t over the logarithms of the runs' own quantiles: what the spread between runs
/// leaves open, however many operations each has. None with a single run, or when a run's quantile is infinite or 0:
/// then the share over the limit must tell.
fn between_runs(pool: &Pool<'_>, table: &Table, level: f64, confidence: f64) -> Option<(f64, f64)> {
    let mut logarithms = Vec::new();
    for run in 0..pool.runs.len() {
        let mut only = vec![0; pool.blocks.len()];
        only[pool.blocks_of(run)].fill(1);
        if let Some(rank) = nearest_rank(level, table.total_of(&only)) {
            logarithms.push(table.at_rank(&only, rank)?.1.ln());
        }
    }
    let runs = logarithms.len() as f64;
    if logarithms.len() < 2 || logarithms.iter().any(|log| !log.is_finite()) {
        return None;
    }
    let mean = logarithms.iter().sum::<f64>() / runs;
    let variance = logarithms.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (runs - 1.0);
    let half = student_t_quantile(confidence, runs - 1.0) * (variance / runs).sqrt();
    Some(((mean - half).exp(), (mean + half).exp()))
}

/// Exact bounds of a share (Clopper & Pearson 1934) at the sample size that blocks and runs, taken as clusters, leave.
///
/// `numerator` and `denominator` are per block; `allowed` is the share that a limit of the form "at most" allows. None
/// when there were no trials.
pub(crate) fn share(
    pool: &Pool<'_>,
    numerator: &[f64],
    denominator: &[f64],
    allowed: f64,
    confidence: f64,
) -> Option<Sampled> {
    let n: f64 = denominator.iter().sum();
    let hits: f64 = numerator.iter().sum();
    if n <= 0.0 {
        return None;
    }
    let blocks: Vec<(f64, f64)> = numerator.iter().copied().zip(denominator.iter().copied()).collect();
    let runs: Vec<(f64, f64)> = (0..pool.runs.len())
        .map(|run| pool.blocks_of(run).fold((0.0, 0.0), |sum, b| (sum.0 + blocks[b].0, sum.1 + blocks[b].1)))
        .collect();
    let by = |clusters: &[(f64, f64)]| effective_of_clusters(clusters, n, confidence);
    let effective = by(&blocks).min(by(&runs));
    let part = hits / n;
    let (yes, no) = (part * effective, (1.0 - part) * effective);
    let lower = if yes <= 0.0 { 0.0 } else { inverse_incomplete_beta(yes, no + 1.0, 1.0 - confidence) };
    let upper = if no <= 0.0 { 1.0 } else { inverse_incomplete_beta(yes + 1.0, no, confidence) };
    Some(Sampled {
        bounded: Bounded { value: part, lower: Some(lower), upper: Some(upper) },
        n: n.round() as u64,
        effective,
        needs: needs(hits, n, allowed, confidence),
    })
}

/// Bounds of any figure by the hierarchical block bootstrap, and with two to four runs also by Student's t over the
/// runs: whichever is wider. One run says nothing about the spread between runs.
pub(crate) fn resampled(
    pool: &Pool<'_>,
    figure: &Figure<'_>,
    resamples: &[Vec<u32>],
    confidence: f64,
) -> Option<Bounded> {
    let value = figure.value(&vec![1; pool.blocks.len()])?;
    let mut draws: Vec<f64> =
        resamples.iter().map(|times| figure.value(times)).collect::<Option<Vec<f64>>>()?;
    draws.sort_by(f64::total_cmp);
    let at = |level: f64| nearest_rank(level, draws.len() as u64).map(|rank| draws[rank as usize - 1]);
    let (mut lower, mut upper) = (at(1.0 - confidence)?, at(confidence)?);
    let runs = pool.runs.len();
    if (2..ENOUGH_RUNS).contains(&runs) {
        let each: Option<Vec<f64>> = (0..runs)
            .map(|run| {
                let mut only = vec![0; pool.blocks.len()];
                only[pool.blocks_of(run)].fill(1);
                figure.value(&only)
            })
            .collect();
        if let Some(each) = each.filter(|each| each.iter().all(|value| value.is_finite())) {
            let mean = each.iter().sum::<f64>() / runs as f64;
            let variance = each.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (runs as f64 - 1.0);
            let half = student_t_quantile(confidence, runs as f64 - 1.0) * (variance / runs as f64).sqrt();
            lower = lower.min(mean - half);
            upper = upper.max(mean + half);
        }
    }
    Some(Bounded { value, lower: Some(lower), upper: Some(upper) })
}

/// Bounds of (completions / intended starts) as flows: whether the target kept up with what was offered.
///
/// Over a window, completions are the intended starts less the growth of the backlog. Where the backlog does not grow,
/// its value at either end varies like a Poisson number with the mean number in flight (exact for M/G/infinity), so the
/// ratio's standard error is sqrt(2 x in flight) / intended. Blocks are not resampled here: what a block's end cuts off
/// the next block gets, and resampling would count that as noise. Where runs differ by more than that, their spread
/// counts instead.
pub(crate) fn kept_up(
    pool: &Pool<'_>,
    numerator: &[f64],
    per_operation: f64,
    confidence: f64,
) -> Option<Bounded> {
    let mut runs = Vec::new();
    let mut boundary = 0.0;
    for (index, run) in pool.documents().enumerate() {
        let range = pool.blocks_of(index);
        let done = numerator[range.clone()].iter().sum::<f64>() / per_operation;
        let intended: f64 = pool.blocks[range].iter().map(|block| block.intended as f64).sum();
        let second = |ns: u64| ns.saturating_sub(run.phases.start_ns) as f64 / 1e9;
        let (from, to) = (second(run.phases.measured_from_ns), second(run.phases.measured_to_ns));
        let inside = run.windows.iter().filter(|w| w.from_s >= from - 1e-9 && w.to_s <= to + 1e-9);
        let in_flight: Vec<f64> = inside.map(|window| window.in_flight as f64).collect();
        if !in_flight.is_empty() {
            boundary += 2.0 * in_flight.iter().sum::<f64>() / in_flight.len() as f64;
        }
        runs.push((done, intended));
    }
    let intended: f64 = runs.iter().map(|(_, intended)| intended).sum();
    if intended <= 0.0 {
        return None;
    }
    let value = runs.iter().map(|(done, _)| done).sum::<f64>() / intended;
    let mut variance = boundary / intended.powi(2);
    let count = runs.len() as f64;
    if runs.len() >= 2 {
        let spread = |(done, n): &(f64, f64)| if *n > 0.0 { (done / n - value).powi(2) } else { 0.0 };
        variance = variance.max(runs.iter().map(spread).sum::<f64>() / (count - 1.0) / count);
    }
    let half = normal_quantile(confidence) * variance.sqrt();
    Some(Bounded { value, lower: Some(value - half), upper: Some(value + half) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreeing_clusters_keep_their_samples() {
        let even = [(1.0, 100.0), (1.0, 100.0), (1.0, 100.0)];
        assert_eq!(effective_of_clusters(&even, 300.0, 0.95), 300.0);
        // One excess among three runs is what chance gives: the design effect is just 1.
        let one = [(1.0, 1000.0), (0.0, 1000.0), (0.0, 1000.0)];
        assert!((effective_of_clusters(&one, 3000.0, 0.95) / 3000.0 - 1.0).abs() < 1e-3);
        assert_eq!(effective_of_clusters(&[(5.0, 100.0)], 100.0, 0.95), 100.0);
        assert_eq!(effective_of_clusters(&[(0.0, 100.0), (0.0, 100.0)], 200.0, 0.95), 200.0);
    }

    #[test]
    fn disagreeing_clusters_are_the_true_units() {
        // Shares 0 and 0.2 over 100 each: var = 2 x 2 x (0.5 x 0.1)^2 / 1 = 0.01 against 0.09/200; so the design
        // effect is 22.2, above chance at one degree of freedom, and (1.645 / 6.314)^2 is paid for it.
        let n = effective_of_clusters(&[(0.0, 100.0), (20.0, 100.0)], 200.0, 0.95);
        assert!((n - 9.0 * (1.644_854_f64 / 6.313_752).powi(2)).abs() < 1e-4, "{n}");
        // A mild disagreement (design effect 2.08 with 1 degree of freedom) is divided out and no more.
        let n = effective_of_clusters(&[(3.0, 100.0), (9.0, 100.0)], 200.0, 0.95);
        let expected = 0.06 * 0.94 / (2.0 * 2.0 * (0.5_f64 * 0.03).powi(2));
        assert!((n - expected).abs() < 1e-9, "{n}");
    }

    #[test]
    fn needs_grow_with_the_exceedances() {
        assert_eq!(needs(0.0, 0.0, 0.01, 0.95), Some(299));
        assert_eq!(needs(0.0, 500.0, 0.01, 0.95), Some(299));
        // One in 473 is just enough at 473; one in 300 never shows less than one in 100 before some thousand.
        assert_eq!(needs(1.0, 473.0, 0.01, 0.95), Some(473));
        assert!(needs(1.0, 300.0, 0.01, 0.95).unwrap() > 473);
        assert_eq!(needs(3.0, 300.0, 0.01, 0.95), None);
    }
}
