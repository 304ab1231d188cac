//! Figures: what a metric comes to in a resample of the blocks, in the metric's canonical unit.

use touchstone_model::scenario::Candidate;
use touchstone_model::{MetricId, Statistic, Subject};
use touchstone_stats::quantile::nearest_rank;

use crate::pool::{Pool, Table};

/// How a subject is computed from blocks.
#[derive(Debug)]
pub(crate) enum Figure<'a> {
    /// A quantile of the merged distribution; +infinity among censored observations.
    Quantile(&'a Table, f64),
    /// The mean; +infinity as soon as one operation never reached the event.
    Mean(&'a Table),
    /// The greatest value; +infinity likewise.
    Max(&'a Table),
    /// Sum of numerators / sum of denominators, per block.
    Ratio(Vec<f64>, Vec<f64>),
    /// Known and without spread: a price.
    Fixed(f64),
}

impl<'a> Figure<'a> {
    /// The figure of a subject; none when it was not measured.
    pub(crate) fn new(subject: Subject, candidate: &Candidate, pool: &'a Pool<'_>) -> Option<Self> {
        let Subject::Metric(metric, statistic) = subject else { return None };
        if metric == MetricId::Cost {
            return candidate.price.map(|price| Figure::Fixed(price.0));
        }
        Self::measured(Subject::Metric(metric, statistic), pool)
    }

    /// The figure of a measured subject; none when it was not measured.
    pub(crate) fn measured(subject: Subject, pool: &'a Pool<'_>) -> Option<Self> {
        let Subject::Metric(metric, statistic) = subject else { return None };
        if pool.is_empty() {
            return None;
        }
        if let Some(statistic) = statistic {
            let table = pool.table(metric)?;
            return Some(match (statistic, statistic.level()) {
                (_, Some(level)) => Figure::Quantile(table, level),
                (Statistic::Max, None) => Figure::Max(table),
                (_, None) => Figure::Mean(table),
            });
        }
        let (numerator, denominator) = ratio(metric, pool)?;
        Some(Figure::Ratio(numerator, denominator))
    }

    /// The value in a resample; none when the resample holds no observation.
    pub(crate) fn value(&self, times: &[u32]) -> Option<f64> {
        let sum = |values: &[f64]| -> f64 { times.iter().zip(values).map(|(&n, v)| f64::from(n) * v).sum() };
        match self {
            Figure::Fixed(value) => Some(*value),
            Figure::Ratio(numerator, denominator) => {
                let below = sum(denominator);
                (below > 0.0).then(|| sum(numerator) / below)
            }
            Figure::Quantile(table, level) => {
                let rank = nearest_rank(*level, table.total_of(times))?;
                table.at_rank(times, rank).map(|(_, upper)| upper)
            }
            Figure::Mean(table) | Figure::Max(table) => {
                let total = table.total_of(times);
                if total == 0 {
                    return None;
                }
                let picked = || times.iter().enumerate().filter(|(_, n)| **n > 0);
                if picked().any(|(block, _)| table.censored(block) > 0) {
                    return Some(f64::INFINITY);
                }
                if matches!(self, Figure::Max(_)) {
                    return Some(picked().map(|(block, _)| table.max[block]).fold(0.0, f64::max));
                }
                Some(sum(&table.sum) / total as f64)
            }
        }
    }
}

/// Numerator and denominator of a rate, share or count for each block; none when a run of the pool lacks it.
///
/// What a run states only as a whole is spread evenly over its blocks, which makes the resample of blocks one of runs.
/// Counts of lost, duplicated and reordered messages come out as the mean per run.
pub(crate) fn ratio(metric: MetricId, pool: &Pool<'_>) -> Option<(Vec<f64>, Vec<f64>)> {
    let mut numerator = Vec::with_capacity(pool.blocks.len());
    let mut denominator = Vec::with_capacity(pool.blocks.len());
    for (index, run) in pool.documents().enumerate() {
        let range = pool.blocks_of(index);
        let share = 1.0 / range.len() as f64;
        let seconds: f64 = pool.blocks[range.clone()].iter().map(|block| block.seconds).sum();
        let counts = &run.counts;
        let whole = |value: Option<u64>, of: f64| Some((value? as f64 * share, of * share));
        for block in &pool.blocks[range] {
            let per_second = |n: u64| (n as f64, block.seconds);
            let of_intended = |n: u64| (n as f64, block.intended as f64);
            let (above, below) = match metric {
                MetricId::Throughput => per_second(block.completed_flow),
                MetricId::OutputTokenThroughput => {
                    run.rates.output_tokens.map(|_| per_second(block.output_tokens_flow))?
                }
                MetricId::OfferedLoad => run.rates.offered.map(|_| per_second(block.intended))?,
                MetricId::AchievedLoad => (run.rates.achieved? * seconds * share, seconds * share),
                MetricId::Goodput => counts.good.map(|_| per_second(block.good))?,
                MetricId::GoodputShare => counts.good.map(|_| of_intended(block.good))?,
                MetricId::ErrorRate => of_intended(block.failed),
                MetricId::HitRatio => whole(counts.hits, counts.lookups? as f64)?,
                MetricId::Lost => whole(counts.lost, 1.0)?,
                MetricId::Duplicated => whole(counts.duplicated, 1.0)?,
                MetricId::Reordered => whole(counts.reordered, 1.0)?,
                _ => return None,
            };
            numerator.push(above);
            denominator.push(below);
        }
    }
    Some((numerator, denominator))
}
