//! The evidence of one candidate, pooled: which runs count, their blocks, and how draw `k` resamples them.

use std::collections::{BTreeMap, BTreeSet};

use touchstone_model::run::{Block, SparseHistogram as StoredHistogram};
use touchstone_model::{Level, MetricId, RunDocument};
use touchstone_stats::histogram::{Histogram, SparseHistogram};
use touchstone_stats::rng::Rng;

use crate::EvidenceRun;

/// The usable runs of a candidate and their blocks, in an order that depends on the runs alone.
#[derive(Debug)]
pub(crate) struct Pool<'a> {
    /// Valid runs with blocks, ordered by workload so that equal workloads of two candidates meet.
    pub(crate) runs: Vec<&'a EvidenceRun<'a>>,
    /// Every block, run by run.
    pub(crate) blocks: Vec<&'a Block>,
    /// The first block of each run, and the number of blocks at the end.
    pub(crate) starts: Vec<usize>,
    /// Why the other runs are not used: (digest, reason in English, reason in Chinese).
    pub(crate) rejected: Vec<(&'a str, &'static str, &'static str)>,
    /// Merged distributions by metric, for the metrics that were asked for.
    tables: BTreeMap<MetricId, Table>,
    /// What the draws are keyed by: the workloads, so that candidates under equal ones are drawn in pairs.
    key: String,
}

impl<'a> Pool<'a> {
    /// Pools the runs; distributions are merged for the metrics in `wanted`.
    pub(crate) fn new(runs: &'a [EvidenceRun<'a>], wanted: &BTreeSet<MetricId>) -> Self {
        let mut rejected = Vec::new();
        let mut used: Vec<&EvidenceRun<'_>> = Vec::new();
        for run in runs {
            if !run.document.valid {
                rejected.push((run.digest, "it is invalid", "该次运行无效"));
            } else if !run.document.blocks.iter().any(|block| block.seconds > 0.0) {
                rejected.push((run.digest, "it has no measured blocks", "该次运行没有测量数据块"));
            } else if run.document.blocks.iter().any(|block| is_damaged(block, wanted)) {
                rejected.push((run.digest, "a histogram in it is damaged", "其直方图已损坏"));
            } else {
                used.push(run);
            }
        }
        // Stable: repeats of one workload stay in the order in which they were made.
        used.sort_by_key(|run| run.workload_digest);
        let mut blocks = Vec::new();
        let mut starts = vec![0];
        for run in &used {
            blocks.extend(run.document.blocks.iter().filter(|block| block.seconds > 0.0));
            starts.push(blocks.len());
        }
        let mut workloads: Vec<&str> = used.iter().map(|run| run.workload_digest).collect();
        workloads.dedup();
        let key = workloads.join("+");
        let tables = wanted
            .iter()
            .filter_map(|&metric| Table::merge(metric, &blocks).map(|table| (metric, table)))
            .collect();
        Self { runs: used, blocks, starts, rejected, tables, key }
    }

    /// Whether nothing can be said from runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The merged distribution of a metric; none when no operation was observed.
    pub(crate) fn table(&self, metric: MetricId) -> Option<&Table> {
        self.tables.get(&metric)
    }

    /// The run documents in use.
    pub(crate) fn documents(&self) -> impl Iterator<Item = &'a RunDocument> + '_ {
        self.runs.iter().map(|run| run.document)
    }

    /// The block indexes of run `run`.
    pub(crate) fn blocks_of(&self, run: usize) -> std::ops::Range<usize> {
        self.starts[run]..self.starts[run + 1]
    }

    /// Digests of the runs in use.
    pub(crate) fn digests(&self) -> Vec<String> {
        self.runs.iter().map(|run| run.digest.to_owned()).collect()
    }

    /// The weakest level; a simulated run is never above [`Level::E`].
    pub(crate) fn level(&self) -> Option<Level> {
        self.documents().map(|run| if run.simulated { Level::E } else { run.level }).min()
    }

    /// Whether any run in use came from a simulator.
    pub(crate) fn simulated(&self) -> bool {
        self.documents().any(|run| run.simulated)
    }

    /// How often each block occurs in draw `k`: runs are drawn with replacement, then blocks within each.
    ///
    /// The numbers belong to (seed, workload, k, place) and are mapped onto this candidate's own layout, so that two
    /// candidates under one workload are resampled alike (a paired bootstrap) and nobody else matters. The n-th block
    /// of the n-th run drawn takes the same number whatever the sizes.
    fn draw(&self, seed: u64, k: u64) -> Vec<u32> {
        let mut times = vec![0; self.blocks.len()];
        let pick = |rng: &mut Rng, n: usize| ((rng.uniform() * n as f64) as usize).min(n.saturating_sub(1));
        for place in 0..self.runs.len() {
            let mut rng = Rng::keyed(seed, format!("draw {place} {}", self.key).as_bytes(), k);
            let run = pick(&mut rng, self.runs.len());
            let range = self.blocks_of(run);
            for _ in 0..range.len() {
                times[range.start + pick(&mut rng, range.len())] += 1;
            }
        }
        times
    }

    /// The resamples of draws `0..draws`.
    pub(crate) fn resamples(&self, seed: u64, draws: u32) -> Vec<Vec<u32>> {
        (0..u64::from(draws)).map(|k| self.draw(seed, k)).collect()
    }
}

/// The histogram as statistics know it; none when it contradicts itself.
fn restore(stored: &StoredHistogram) -> Option<Histogram> {
    Histogram::from_sparse(&SparseHistogram {
        buckets: stored.buckets.clone(),
        min: stored.min,
        max: stored.max,
        sum: stored.sum.parse().ok()?,
        censored: stored.censored,
    })
    .ok()
}

/// Whether a histogram that would be used cannot be. Leaving out single blocks could leave out the bad ones.
fn is_damaged(block: &Block, wanted: &BTreeSet<MetricId>) -> bool {
    let used = block.histograms.iter().filter(|(metric, _)| wanted.contains(*metric));
    used.map(|(_, stored)| restore(stored)).any(|restored| restored.is_none())
}

/// The distribution of one metric, block by block, ready for quantiles of any resample.
#[derive(Debug)]
pub(crate) struct Table {
    /// Least value of each bucket that holds something in any block, ms, ascending.
    lower: Vec<f64>,
    /// Greatest value of each bucket (at most the greatest value seen), ms.
    upper: Vec<f64>,
    /// Per block: (bucket, number of values up to and with it), ascending.
    cumulative: Vec<Vec<(u32, u64)>>,
    /// Per block: observations at +infinity.
    censored: Vec<u64>,
    /// Per block: sum of the finite values, ms.
    pub(crate) sum: Vec<f64>,
    /// Per block: greatest finite value, ms.
    pub(crate) max: Vec<f64>,
}

impl Table {
    fn merge(metric: MetricId, blocks: &[&Block]) -> Option<Self> {
        let nanos_to_ms = |value: u64| value as f64 / 1e6;
        let restored: Vec<Option<Histogram>> =
            blocks.iter().map(|block| block.histograms.get(&metric).and_then(restore)).collect();
        if restored.iter().flatten().all(|histogram| histogram.count_total() == 0) {
            return None;
        }
        let max = restored.iter().flatten().filter_map(Histogram::max).max().unwrap_or(0);
        let min = restored.iter().flatten().filter_map(Histogram::min).min().unwrap_or(0);
        let mut bounds: BTreeMap<u64, u64> = BTreeMap::new();
        for histogram in restored.iter().flatten() {
            bounds.extend(histogram.iter_buckets().map(|bucket| (bucket.lower, bucket.upper)));
        }
        let place: BTreeMap<u64, u32> =
            bounds.keys().enumerate().map(|(index, &lower)| (lower, index as u32)).collect();
        let cumulative = restored
            .iter()
            .map(|histogram| {
                let mut seen = 0;
                let buckets = histogram.iter().flat_map(Histogram::iter_buckets);
                buckets
                    .map(|bucket| {
                        seen += bucket.count;
                        (place[&bucket.lower], seen)
                    })
                    .collect()
            })
            .collect();
        let each = |read: fn(&Histogram) -> f64| restored.iter().map(move |h| h.as_ref().map_or(0.0, read));
        Some(Self {
            lower: bounds.keys().map(|&lower| nanos_to_ms(lower.max(min))).collect(),
            upper: bounds.values().map(|&upper| nanos_to_ms(upper.min(max))).collect(),
            cumulative,
            censored: restored.iter().map(|h| h.as_ref().map_or(0, Histogram::count_censored)).collect(),
            sum: each(|h| h.sum() as f64 / 1e6).collect(),
            max: each(|h| h.max().unwrap_or(0) as f64 / 1e6).collect(),
        })
    }

    /// Finite observations of a block.
    pub(crate) fn count(&self, block: usize) -> u64 {
        self.cumulative[block].last().map_or(0, |&(_, count)| count)
    }

    /// All observations of a block, censored ones too.
    pub(crate) fn total(&self, block: usize) -> u64 {
        self.count(block) + self.censored[block]
    }

    /// Observations of a block at +infinity.
    pub(crate) fn censored(&self, block: usize) -> u64 {
        self.censored[block]
    }

    /// Observations of a block that exceed `limit` ms or may: those in the limit's own bucket count as over it.
    pub(crate) fn over(&self, block: usize, limit: f64) -> u64 {
        let within = self.upper.partition_point(|&upper| upper <= limit);
        self.total(block) - self.up_to(block, within)
    }

    /// Values of a block in the first `buckets` buckets.
    fn up_to(&self, block: usize, buckets: usize) -> u64 {
        let cumulative = &self.cumulative[block];
        let held = cumulative.partition_point(|&(index, _)| (index as usize) < buckets);
        if held == 0 { 0 } else { cumulative[held - 1].1 }
    }

    /// The (least, greatest) value that the observation of this rank may have in a resample, ms; (+inf, +inf) when it
    /// is censored. `rank` counts from 1; none when it is 0 or beyond the total.
    pub(crate) fn at_rank(&self, times: &[u32], rank: u64) -> Option<(f64, f64)> {
        let weighted = |read: &dyn Fn(usize) -> u64| -> u64 {
            times.iter().enumerate().filter(|(_, n)| **n > 0).map(|(b, &n)| u64::from(n) * read(b)).sum()
        };
        let total = weighted(&|block| self.total(block));
        if rank == 0 || rank > total {
            return None;
        }
        if rank > weighted(&|block| self.count(block)) {
            return Some((f64::INFINITY, f64::INFINITY));
        }
        let (mut low, mut high) = (1, self.upper.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if weighted(&|block| self.up_to(block, middle)) >= rank {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some((self.lower[low - 1], self.upper[low - 1]))
    }

    /// Number of observations of a resample, censored ones too.
    pub(crate) fn total_of(&self, times: &[u32]) -> u64 {
        times.iter().enumerate().map(|(block, &n)| u64::from(n) * self.total(block)).sum()
    }
}
