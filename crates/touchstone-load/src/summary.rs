//! From what was seen to the run document: quantiles with bounds, rates, counts, limits, windows and blocks.

use std::collections::BTreeMap;

use touchstone_model::requirement::Limit;
use touchstone_model::run::{
    Block, Bound, Certificate, Counts, ErrorGroup, Outcome, Phases, Rates, RunDocument, SchedulingError,
    SloOutcome, SparseHistogram, TargetDescription, Window, WorkloadDescription,
};
use touchstone_model::{Comparison, Family, Level, MetricId, MetricSummary, Requirement, Statistic, Subject};
use touchstone_stats::autocorrelation::n_effective_of_exceedance;
use touchstone_stats::histogram::{Histogram, Quantile};
use touchstone_stats::quantile::{bounds_with_effective, needed_samples};
use touchstone_stats::special::inverse_incomplete_beta;

use crate::aggregate::{Aggregate, Series};
use crate::plan::LoadPlan;
use crate::record::{TRACKED, slot};
use crate::referee;
use crate::shard::{ShardResult, Traits};

/// What the run was, as far as the load engine cannot know it.
#[derive(Debug, Clone, Default)]
pub struct RunContext {
    /// Id of the run.
    pub run: String,
    /// Start, UTC, RFC 3339.
    pub started_at: String,
    /// Version of touchstone.
    pub touchstone_version: String,
    /// What was loaded.
    pub target: TargetDescription,
    /// Parameters of the workload.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Whether the target said that it is a simulator.
    pub simulated: bool,
    /// Whether the run was ended before its time, and by what.
    pub interrupted: bool,
    /// Whether `--max-errors` ended it.
    pub too_many_errors: bool,
    /// Whether the wire carried answers on connections that the target then closed each time.
    pub reconnects: u64,
    /// Connections opened.
    pub connections: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// The generator's part, without the scheduling error.
    pub certificate: Certificate,
    /// Digest of the environment fingerprint.
    pub fingerprint: Option<String>,
}

/// Merges the shards' results into one. The list must not be empty.
#[must_use]
pub fn merge(results: Vec<ShardResult>) -> Option<ShardResult> {
    results.into_iter().reduce(|mut all, one| {
        all.aggregate.merge(one.aggregate);
        all.end_ns = all.end_ns.max(one.end_ns);
        all.to_ns = all.to_ns.min(one.to_ns);
        all
    })
}

/// Builds the run document from the merged result.
#[must_use]
pub fn summarise(plan: &LoadPlan, traits: Traits, result: &ShardResult, context: RunContext) -> RunDocument {
    let aggregate = &result.aggregate;
    let sums = &aggregate.sums;
    let mut phases = Phases {
        start_ns: result.start_ns,
        measured_from_ns: result.from_ns,
        measured_to_ns: result.to_ns,
        end_ns: result.end_ns,
    };
    if plan.requests.is_some() {
        phases.measured_to_ns =
            sums.last_end_ns.clamp(phases.measured_from_ns, result.to_ns.max(phases.measured_from_ns));
    }
    let seconds = phases.measured_seconds();
    let metrics = metrics(plan, traits, aggregate);
    let tokens_known = traits.family == Family::Inference && sums.output_unknown == 0 && sums.completed > 0;
    let has_limits = plan.slos.iter().any(is_operation_limit);
    // Without a window there is no rate; unmeasured is null, never 0.
    let per_second = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
    let rates = Rates {
        offered: plan.arrival.is_open().then(|| per_second(sums.intended)).flatten(),
        achieved: per_second(sums.sent_flow),
        throughput: per_second(sums.completed_flow),
        goodput: per_second(sums.good).filter(|_| has_limits),
        output_tokens: per_second(sums.tokens_flow.max(0) as u64).filter(|_| tokens_known),
    };
    let queue = traits.family == Family::Queue;
    let counts = Counts {
        intended: sums.intended,
        sent: sums.sent,
        completed: sums.completed,
        failed: sums.failed,
        censored: sums.censored,
        good: has_limits.then_some(sums.good),
        warm_up: sums.warm_up,
        output_tokens: tokens_known.then_some(sums.output_tokens),
        input_tokens: (traits.family == Family::Inference && sums.input_unknown == 0 && sums.completed > 0)
            .then_some(sums.input_tokens),
        cached_input_tokens: (sums.completed > 0 && sums.cache_told == sums.completed)
            .then_some(sums.cached_input),
        content_events: sums.content_events,
        received: queue.then_some(sums.received),
        lost: queue.then(|| sums.sent_all.saturating_sub(sums.received_unique)),
        duplicated: queue.then_some(sums.duplicated),
        reordered: queue.then_some(sums.reordered),
        lookups: (traits.family == Family::Cache).then_some(sums.lookups),
        hits: (traits.family == Family::Cache).then_some(sums.hits),
        connections: context.connections,
        bytes_sent: context.bytes_sent,
        bytes_received: context.bytes_received,
    };
    let errors: Vec<ErrorGroup> = aggregate
        .errors
        .iter()
        .map(|group| ErrorGroup {
            origin: group.first.origin,
            phase: group.first.phase,
            kind: group.first.kind.clone(),
            message: group.first.message.clone(),
            advice: group.first.advice.clone(),
            count: group.count,
            measured: group.measured,
        })
        .collect();
    let mut generator = context.certificate.clone();
    generator.scheduling_error_ms = metrics.get(&MetricId::SchedulingError).and_then(|summary| {
        Some(SchedulingError { p50: summary.p50?, p99: summary.p99?, max: summary.max? })
    });
    generator.coalesced_share =
        (sums.content_events > 0).then(|| sums.coalesced_events as f64 / sums.content_events as f64);
    let mut document = RunDocument {
        format: touchstone_model::run::FORMAT.to_owned(),
        run: context.run.clone(),
        level: if context.simulated { Level::E } else { Level::P2 },
        simulated: context.simulated,
        valid: true,
        interrupted: context.interrupted,
        started_at: context.started_at.clone(),
        touchstone_version: context.touchstone_version.clone(),
        target: context.target.clone(),
        workload: WorkloadDescription {
            arrival: plan.arrival.to_string(),
            seed: plan.seed,
            schedule_digest: plan.schedule_digest(),
            parameters: context.parameters.clone(),
        },
        phases,
        metrics,
        rates,
        counts,
        errors,
        findings: Vec::new(),
        generator,
        slo: Vec::new(),
        windows: windows(aggregate),
        blocks: blocks(plan, aggregate, seconds),
        stages: crate::stages::stages(plan, traits, result, has_limits),
        fingerprint: context.fingerprint.clone(),
        steady: None,
        server: None,
    };
    // A load that changes by design has no steady state to find.
    document.steady = if plan.arrival.is_stationary() { crate::steady::settling(&document) } else { None };
    document.slo = plan.slos.iter().map(|slo| judge(slo, plan, traits, &document, aggregate)).collect();
    document.findings = referee::findings(plan, traits, aggregate, &document, &context);
    document.valid = document.worst_finding() != Some(touchstone_model::Severity::Invalid);
    document
}

fn is_operation_limit(slo: &Requirement) -> bool {
    matches!((slo.subject, slo.comparison), (Subject::Metric(_, Some(_)), Comparison::AtMost))
}

/// The histogram of a metric over the whole measured window; none when nothing was observed.
#[must_use]
pub fn histogram_of(aggregate: &Aggregate, metric: MetricId) -> Option<Histogram> {
    let slot = slot(metric)?;
    let mut all: Option<Histogram> = None;
    for histogram in aggregate.blocks.iter().filter_map(|block| block.histograms[slot].as_deref()) {
        all.get_or_insert_with(Histogram::new).merge(histogram);
    }
    all
}

fn metrics(plan: &LoadPlan, traits: Traits, aggregate: &Aggregate) -> BTreeMap<MetricId, MetricSummary> {
    let mut metrics = BTreeMap::new();
    for metric in TRACKED {
        if metric == MetricId::Connect {
            if aggregate.connects.count() > 0 {
                metrics.insert(metric, summary(&aggregate.connects, None, plan.confidence));
            }
            continue;
        }
        // Token metrics are null for the whole run when one good answer did not tell its tokens.
        let needs_tokens = matches!(metric, MetricId::Itl | MetricId::Tpot | MetricId::Ntpot);
        let needs_chunks = matches!(metric, MetricId::Itl | MetricId::Tpot);
        if needs_tokens && aggregate.sums.output_unknown > 0
            || needs_chunks && aggregate.sums.chunk_tokens_unknown > 0
        {
            continue;
        }
        let Some(histogram) = histogram_of(aggregate, metric) else { continue };
        let series = slot(metric).map(|slot| &aggregate.series[slot]);
        metrics.insert(metric, summary(&histogram, series, plan.confidence));
    }
    if traits.family != Family::Inference {
        metrics.remove(&MetricId::Ttft);
    }
    metrics
}

/// Levels at which the effective number of observations is estimated; the least one is reported.
const EFFECTIVE_LEVELS: [f64; 4] = [0.5, 0.9, 0.95, 0.99];
/// Exceedances below which a level says nothing about correlation.
const MIN_EXCEEDANCES: usize = 5;

/// Effective observations of a series: n over the integrated autocorrelation time of the exceedance indicator, the
/// least over several levels. Thinned series give the effective number of what was kept, which is a lower bound.
fn n_effective(histogram: &Histogram, series: Option<&Series>) -> f64 {
    let n = histogram.count_total() as f64;
    let Some(series) = series.filter(|series| series.items.len() >= 8) else { return n };
    // Values come in the order in which operations ended; correlation is between neighbours in time.
    let mut items = series.items.clone();
    items.sort_by_key(|item| item.0);
    let mut least = n;
    for level in EFFECTIVE_LEVELS {
        let threshold = match histogram.quantile_nearest_rank(level) {
            Quantile::Value(value) => value,
            Quantile::Censored => u64::MAX - 1,
            Quantile::Undefined => continue,
        };
        let exceeds: Vec<bool> = items.iter().map(|(_, value)| *value > threshold).collect();
        let count = exceeds.iter().filter(|exceeds| **exceeds).count();
        if count < MIN_EXCEEDANCES || exceeds.len() - count < MIN_EXCEEDANCES {
            continue;
        }
        if let Some(effective) = n_effective_of_exceedance(&exceeds) {
            least = least.min(effective);
        }
    }
    least.max(1.0)
}

pub(crate) fn summary(histogram: &Histogram, series: Option<&Series>, confidence: f64) -> MetricSummary {
    let ms = |value: u64| value as f64 / 1e6;
    let at = |q: f64| histogram.quantile_nearest_rank(q).value().map(ms);
    let n = histogram.count_total();
    let n_effective = n_effective(histogram, series);
    let bounds = Statistic::QUANTILES
        .into_iter()
        .filter_map(|statistic| {
            Some((statistic, bound(histogram, n_effective, statistic.level()?, confidence)))
        })
        .collect();
    MetricSummary {
        unit: touchstone_model::Unit::Milliseconds,
        n,
        n_effective,
        censored: histogram.count_censored(),
        mean: histogram.mean().map(|mean| mean / 1e6),
        p50: at(0.5),
        p90: at(0.9),
        p95: at(0.95),
        p99: at(0.99),
        p999: at(0.999),
        max: histogram.max().map(ms),
        bounds,
    }
}

fn bound(histogram: &Histogram, n_effective: f64, q: f64, confidence: f64) -> Bound {
    let n = histogram.count_total();
    let effective = bounds_with_effective(n, n_effective, q, confidence);
    let read = |rank: Option<u64>| match rank.map(|rank| histogram.value_at_rank(rank)) {
        Some(Quantile::Value(value)) => Some(value as f64 / 1e6),
        _ => None,
    };
    Bound {
        lower: read(effective.ranks.lower_rank),
        upper: read(effective.ranks.upper_rank),
        confidence,
        needs: needed_samples(q, confidence, 0),
    }
}

/// +infinity when even the lower bound of a quantile falls among the censored observations.
fn lower_at_infinity(histogram: &Histogram, n_effective: f64, q: f64, confidence: f64) -> Option<f64> {
    let rank = bounds_with_effective(histogram.count_total(), n_effective, q, confidence).ranks.lower_rank?;
    (histogram.value_at_rank(rank) == Quantile::Censored).then_some(f64::INFINITY)
}

/// One-sided Clopper-Pearson bounds of a share of operations. Neighbours are not independent: both numbers are scaled by
/// `worth`, effective over nominal observations.
fn share_bounds(successes: f64, n: f64, worth: f64, confidence: f64) -> (f64, f64) {
    let (successes, n) = (successes * worth, n * worth);
    let alpha = 1.0 - confidence;
    let lower =
        if successes <= 0.0 { 0.0 } else { inverse_incomplete_beta(successes, n - successes + 1.0, alpha) };
    let upper = if successes >= n {
        1.0
    } else {
        inverse_incomplete_beta(successes + 1.0, n - successes, 1.0 - alpha)
    };
    (lower, upper)
}

/// Judges one limit by its bounds: pass, fail, or undetermined.
fn judge(
    slo: &Requirement,
    plan: &LoadPlan,
    traits: Traits,
    document: &RunDocument,
    aggregate: &Aggregate,
) -> SloOutcome {
    let confidence = slo.confidence.unwrap_or(plan.confidence);
    let undetermined = SloOutcome {
        slo: slo.to_string(),
        outcome: Outcome::Undetermined,
        value: None,
        lower: None,
        upper: None,
        needs: None,
        share: None,
    };
    let (Subject::Metric(metric, statistic), Limit::Quantity(limit)) = (slo.subject, slo.limit) else {
        return undetermined;
    };
    let counts = &document.counts;
    let n = counts.intended as f64;
    let leading = document.metrics.get(&traits.leading);
    let worth =
        leading.map_or(1.0, |summary| (summary.n_effective / summary.n.max(1) as f64).clamp(0.0, 1.0));
    let (value, lower, upper, needs) = match (metric, statistic) {
        (_, Some(statistic)) => {
            let Some(summary) = document.metrics.get(&metric) else { return undetermined };
            let value = summary.statistic(statistic);
            match statistic.level().and_then(|level| Some((level, histogram_of(aggregate, metric)?))) {
                Some((level, histogram)) => {
                    let bound = bound(&histogram, summary.n_effective, level, confidence);
                    let lower = lower_at_infinity(&histogram, summary.n_effective, level, confidence);
                    (value, lower.or(bound.lower), bound.upper, Some(bound.needs))
                }
                None => (value, None, None, None),
            }
        }
        (MetricId::ErrorRate, None) if n > 0.0 => {
            let (lower, upper) = share_bounds(counts.failed as f64, n, worth, confidence);
            (Some(counts.failed as f64 / n), Some(lower), Some(upper), None)
        }
        (MetricId::GoodputShare, None) if n > 0.0 && counts.good.is_some() => {
            let good = counts.good.unwrap_or(0) as f64;
            let (lower, upper) = share_bounds(good, n, worth, confidence);
            (Some(good / n), Some(lower), Some(upper), None)
        }
        (MetricId::HitRatio, None) => match (counts.hits, counts.lookups) {
            (Some(hits), Some(lookups)) if lookups > 0 => {
                let (lower, upper) = share_bounds(hits as f64, lookups as f64, worth, confidence);
                (Some(hits as f64 / lookups as f64), Some(lower), Some(upper), None)
            }
            _ => return undetermined,
        },
        (metric, None) => {
            let exact = match metric {
                MetricId::Throughput => document.rates.throughput,
                MetricId::AchievedLoad => document.rates.achieved,
                MetricId::OfferedLoad => document.rates.offered,
                MetricId::OutputTokenThroughput => document.rates.output_tokens,
                MetricId::Goodput => document.rates.goodput,
                MetricId::Lost => counts.lost.map(|count| count as f64),
                MetricId::Duplicated => counts.duplicated.map(|count| count as f64),
                MetricId::Reordered => counts.reordered.map(|count| count as f64),
                _ => None,
            };
            // A rate or a count of one run is what it is; its spread over runs is judged by the decision.
            (exact, exact, exact, None)
        }
    };
    let limit_value = limit.value;
    let outcome = match slo.comparison {
        Comparison::AtMost if upper.is_some_and(|upper| upper <= limit_value) => Outcome::Pass,
        Comparison::AtMost if lower.is_some_and(|lower| lower > limit_value) => Outcome::Fail,
        Comparison::AtLeast if lower.is_some_and(|lower| lower >= limit_value) => Outcome::Pass,
        Comparison::AtLeast if upper.is_some_and(|upper| upper < limit_value) => Outcome::Fail,
        _ => Outcome::Undetermined,
    };
    let share = statistic.and_then(|_| {
        let histogram = histogram_of(aggregate, metric)?;
        let above = histogram.count_above((limit_value * 1e6) as u64).at_most + histogram.count_censored();
        let total = histogram.count_total();
        (total > 0).then(|| 1.0 - above.min(total) as f64 / total as f64)
    });
    let finite = |bound: Option<f64>| bound.filter(|bound| bound.is_finite());
    SloOutcome {
        slo: slo.to_string(),
        outcome,
        value,
        lower: finite(lower),
        upper: finite(upper),
        needs,
        share,
    }
}

fn windows(aggregate: &Aggregate) -> Vec<Window> {
    let length = aggregate.windows.length_ns as f64 / 1e9;
    let mut in_flight: i64 = 0;
    aggregate
        .windows
        .list
        .iter()
        .enumerate()
        .map(|(index, window)| {
            in_flight += window.offered as i64 - window.completed as i64 - window.failed as i64;
            let at = |histogram: &Histogram, q: f64| {
                histogram.quantile_nearest_rank(q).value().map(|value| value as f64 / 1e6)
            };
            Window {
                from_s: index as f64 * length,
                to_s: (index + 1) as f64 * length,
                offered: window.offered,
                sent: window.sent,
                completed: window.completed,
                failed: window.failed,
                output_tokens: window.tokens.max(0) as u64,
                in_flight: in_flight.max(0) as u64,
                latency_p50: at(&window.latency, 0.5),
                latency_p99: at(&window.latency, 0.99),
                icl_p50: at(&window.icl, 0.5),
                icl_p99: at(&window.icl, 0.99),
            }
        })
        .collect()
}

/// The blocks that the measured window reached, without the empty tail of a run that was cut short.
fn blocks(plan: &LoadPlan, aggregate: &Aggregate, seconds: f64) -> Vec<Block> {
    let planned = plan.duration_ns as f64 / 1e9 / aggregate.blocks.len().max(1) as f64;
    let reached = if plan.requests.is_some() {
        aggregate.blocks.len()
    } else {
        ((seconds / planned).ceil() as usize).min(aggregate.blocks.len())
    };
    let some = |block: &&crate::aggregate::BlockAcc| plan.requests.is_none() || block.intended > 0;
    let reached =
        if plan.requests.is_some() { aggregate.blocks.iter().filter(some).count() } else { reached };
    aggregate
        .blocks
        .iter()
        .filter(some)
        .take(reached)
        .enumerate()
        .map(|(index, block)| {
            let length = if plan.requests.is_some() {
                seconds / reached.max(1) as f64
            } else {
                planned.min(seconds - index as f64 * planned)
            };
            let histograms = TRACKED
                .iter()
                .zip(&block.histograms)
                .filter_map(|(metric, histogram)| Some((*metric, sparse(histogram.as_deref()?))))
                .collect();
            Block {
                seconds: length,
                intended: block.intended,
                failed: block.failed,
                completed_flow: block.completed_flow,
                output_tokens_flow: block.tokens_flow.max(0) as u64,
                good: block.good,
                histograms,
            }
        })
        .collect()
}

fn sparse(histogram: &Histogram) -> SparseHistogram {
    let sparse = histogram.to_sparse();
    SparseHistogram {
        buckets: sparse.buckets,
        censored: sparse.censored,
        min: sparse.min,
        max: sparse.max,
        sum: sparse.sum.to_string(),
    }
}
