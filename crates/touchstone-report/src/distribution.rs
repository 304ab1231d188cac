//! The distribution of a metric over the measured window, put together from the sparse histograms of a run's blocks.

use touchstone_model::{MetricId, RunDocument};
use touchstone_stats::histogram::{Histogram, SparseHistogram};

const NS_PER_MS: f64 = 1e6;

/// A distribution in ms; failed operations count as +infinity.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Distribution {
    histogram: Histogram,
}

/// Observations between two values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bin {
    /// Least value, ms.
    pub(crate) lower: f64,
    /// Greatest value, ms.
    pub(crate) upper: f64,
    /// Observations.
    pub(crate) count: u64,
}

impl Distribution {
    /// Merges the blocks of all runs; null when no block holds the metric. A block whose histogram no sequence of
    /// observations could have made is left out: the record's own checks report it.
    pub(crate) fn of(runs: &[&RunDocument], metric: MetricId) -> Option<Self> {
        let mut histogram = Histogram::new();
        for block in runs.iter().flat_map(|run| &run.blocks) {
            let Some(sparse) = block.histograms.get(&metric) else { continue };
            let Ok(sum) = sparse.sum.parse() else { continue };
            let sparse = SparseHistogram {
                buckets: sparse.buckets.clone(),
                min: sparse.min,
                max: sparse.max,
                sum,
                censored: sparse.censored,
            };
            if let Ok(one) = Histogram::from_sparse(&sparse) {
                histogram.merge(&one);
            }
        }
        (histogram.count() > 0).then_some(Self { histogram })
    }

    /// Observations at +infinity.
    pub(crate) fn censored(&self) -> u64 {
        self.histogram.count_censored()
    }

    /// Least and greatest finite value, ms; the least is at least 1 us so that it has a logarithm.
    pub(crate) fn range(&self) -> (f64, f64) {
        let least = self.histogram.min().unwrap_or(0) as f64 / NS_PER_MS;
        let greatest = self.histogram.max().unwrap_or(0) as f64 / NS_PER_MS;
        let least = least.max(1e-3);
        (least, greatest.max(least))
    }

    /// Points (value in ms, share of all operations at or below it) of the cumulative distribution, thinned to what a
    /// chart can show: a point per half percent of the operations or of the logarithmic range.
    pub(crate) fn cumulative(&self) -> Vec<(f64, f64)> {
        let total = self.histogram.count_total() as f64;
        let (least, greatest) = self.range();
        let span = (greatest / least).ln().max(f64::MIN_POSITIVE);
        let mut points = vec![(least, 0.0)];
        let mut seen = 0_u64;
        let mut last = (least, 0.0);
        for bucket in self.histogram.iter_buckets() {
            seen = seen.saturating_add(bucket.count);
            let value = (bucket.upper as f64 / NS_PER_MS).clamp(least, greatest);
            let share = seen as f64 / total;
            let end = seen == self.histogram.count();
            if end || share - last.1 >= 0.005 || (value / last.0).ln() / span >= 0.005 {
                points.push((value, share));
                last = (value, share);
            }
        }
        points
    }

    /// `bins` bins of equal logarithmic width over the range of finite values.
    pub(crate) fn bins(&self, bins: usize) -> Vec<Bin> {
        let (least, greatest) = self.range();
        let (from, span) = (least.ln(), (greatest / least).ln());
        let bins = if span > 1e-9 { bins.max(1) } else { 1 };
        let edge = |index: usize| (from + span * index as f64 / bins as f64).exp();
        let mut out: Vec<Bin> =
            (0..bins).map(|index| Bin { lower: edge(index), upper: edge(index + 1), count: 0 }).collect();
        for bucket in self.histogram.iter_buckets() {
            let middle =
                ((bucket.lower as f64 + bucket.upper as f64) / 2.0 / NS_PER_MS).clamp(least, greatest);
            let place = if span > 1e-9 { (middle.ln() - from) / span * bins as f64 } else { 0.0 };
            let index = (place as usize).min(bins - 1);
            out[index].count = out[index].count.saturating_add(bucket.count);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn blocks_merge_to_the_cohort() {
        let run = fixtures::run();
        let distribution = Distribution::of(&[&run], MetricId::Ttft).unwrap();
        let points = distribution.cumulative();
        assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1));
        let shown: u64 = distribution.bins(20).iter().map(|bin| bin.count).sum();
        let total = shown + distribution.censored();
        assert!((points.last().unwrap().1 - shown as f64 / total as f64).abs() < 1e-12);
        assert_eq!(total, run.blocks.iter().map(|block| block.intended).sum::<u64>());
    }

    #[test]
    fn one_value_and_broken_blocks_do_no_harm() {
        let mut run = fixtures::run();
        run.blocks.truncate(1);
        let histogram = run.blocks[0].histograms.get_mut(&MetricId::Ttft).unwrap();
        *histogram = fixtures::sparse(&[5_000_000; 3], 0);
        let one = Distribution::of(&[&run], MetricId::Ttft).unwrap();
        assert_eq!(one.bins(10).len(), 1);
        run.blocks[0].histograms.get_mut(&MetricId::Ttft).unwrap().min = 7;
        assert_eq!(Distribution::of(&[&run], MetricId::Ttft), None);
        assert_eq!(Distribution::of(&[], MetricId::Ttft), None);
    }
}
