//! One set of runs against another: better, slightly better, equivalent, or not resolved.
//!
//! The unit of replication is the deploy, then the run; with one run a side nothing is claimed, whatever the number of
//! operations (`docs/adr/0015-search-and-compare.md`).

use std::collections::{BTreeMap, BTreeSet};

use touchstone_model::comparison::{Compared, ComparisonDocument, FORMAT, Replication, Side, Standing};
use touchstone_model::{Better, Finding, FindingCode, Level, MetricId, RunDocument, Statistic, Subject};
use touchstone_stats::bootstrap::percentile_interval;
use touchstone_stats::equivalence::{
    FEWEST_RUNS, LogRatio, Standing as Ratio, components, log_ratio, paired_log_ratio, runs_needed, standings,
};
use touchstone_stats::multiple::holm_exclusive;

use crate::EvidenceRun;
use crate::figure::Figure;
use crate::pool::Pool;

/// The parameter of a run that names the deploy of the target that it met.
pub const DEPLOY: &str = "deploy";
/// Deploys below which a claim is about these deploys only.
const FEWEST_DEPLOYS: u32 = 3;
/// Draws of the interval within single runs.
const DRAWS: u32 = 1000;
/// Power that runs needed are stated for.
const POWER: f64 = 0.8;
/// What is compared where both sides have it.
const FAMILY: [(MetricId, Option<Statistic>); 14] = [
    (MetricId::Ttft, Some(Statistic::P50)),
    (MetricId::Ttft, Some(Statistic::P95)),
    (MetricId::Ttft, Some(Statistic::P99)),
    (MetricId::Itl, Some(Statistic::P50)),
    (MetricId::Itl, Some(Statistic::P99)),
    (MetricId::E2e, Some(Statistic::P50)),
    (MetricId::E2e, Some(Statistic::P99)),
    (MetricId::PublishLatency, Some(Statistic::P99)),
    (MetricId::EndToEndLatency, Some(Statistic::P50)),
    (MetricId::EndToEndLatency, Some(Statistic::P99)),
    (MetricId::Throughput, None),
    (MetricId::OutputTokenThroughput, None),
    (MetricId::Goodput, None),
    (MetricId::ErrorRate, None),
];
/// Parameters that have to be equal for a comparison to be about the targets.
const WORKLOAD: [&str; 8] = [
    "input_tokens",
    "output_tokens",
    "message_bytes",
    "keys",
    "value_bytes",
    "read_ratio",
    "pipeline",
    "connections",
];

/// How to compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// Smallest relative difference that matters, in (0, 1).
    pub margin: f64,
    /// Confidence of every claim in the family together, in (0.5, 1).
    pub confidence: f64,
}

impl Default for Terms {
    fn default() -> Self {
        Self { margin: 0.05, confidence: 0.95 }
    }
}

/// Compares two named sets of runs.
#[must_use]
pub fn contrast(
    version: &str,
    (name_a, a): (&str, &[RunDocument]),
    (name_b, b): (&str, &[RunDocument]),
    terms: Terms,
) -> ComparisonDocument {
    let (kept_a, side_a) = side(name_a, a);
    let (kept_b, side_b) = side(name_b, b);
    let all: Vec<&RunDocument> = kept_a.iter().chain(&kept_b).copied().collect();
    let single = kept_a.len() < 2 || kept_b.len() < 2;
    let by_deploy = [&side_a, &side_b].iter().all(|side| side.deploys.is_some_and(|deploys| deploys >= 2));
    let unit = match (single, by_deploy) {
        (true, _) => Replication::Block,
        (false, true) => Replication::Deploy,
        (false, false) => Replication::Run,
    };
    let pairs = if unit == Replication::Run { pairs(&kept_a, &kept_b) } else { None };
    let members: Vec<Member> = FAMILY
        .into_iter()
        .filter_map(|(metric, statistic)| {
            Member::new(metric, statistic, &kept_a, &kept_b, unit, pairs.as_deref(), terms)
        })
        .collect();
    let ratios: Vec<Option<LogRatio>> = members.iter().map(|member| member.claim).collect();
    let standings = standings(&ratios, terms.margin, 1.0 - terms.confidence);
    let raw: Vec<(f64, f64)> = ratios
        .iter()
        .flatten()
        .map(|ratio| (ratio.p_difference(), ratio.p_equivalence(terms.margin)))
        .collect();
    let mut adjusted = holm_exclusive(&raw).into_iter();
    let few = (side_a.runs.len().min(side_b.runs.len()) as u64) < FEWEST_RUNS;
    let metrics = members
        .into_iter()
        .zip(standings)
        .map(|(member, standing)| {
            let p = if member.claim.is_some() { adjusted.next() } else { None };
            member.compared(standing, p, unit, few, terms)
        })
        .collect();
    ComparisonDocument {
        format: FORMAT.to_owned(),
        touchstone_version: version.to_owned(),
        margin: terms.margin,
        confidence: terms.confidence,
        unit,
        paired: pairs.is_some(),
        level: all.iter().map(|run| run.level).min().unwrap_or(Level::P0),
        simulated: all.iter().any(|run| run.simulated),
        metrics,
        findings: findings(&side_a, &side_b, &kept_a, &kept_b, unit, few),
        a: side_a,
        b: side_b,
    }
}

fn side<'a>(name: &str, runs: &'a [RunDocument]) -> (Vec<&'a RunDocument>, Side) {
    let (kept, left): (Vec<&RunDocument>, Vec<&RunDocument>) = runs.iter().partition(|run| run.valid);
    let ids = |runs: &[&RunDocument]| runs.iter().map(|run| run.run.clone()).collect();
    let deploys: BTreeSet<String> = kept.iter().filter_map(|run| deploy(run)).collect();
    let known = !kept.is_empty() && kept.iter().all(|run| deploy(run).is_some());
    let side = Side {
        name: name.to_owned(),
        runs: ids(&kept),
        left_out: ids(&left),
        deploys: known.then_some(deploys.len() as u32),
    };
    (kept, side)
}

fn deploy(run: &RunDocument) -> Option<String> {
    run.workload.parameters.get(DEPLOY).map(ToString::to_string)
}

/// Which run of `b` belongs to each of `a`: the one under the same schedule, where that is one to one.
fn pairs(a: &[&RunDocument], b: &[&RunDocument]) -> Option<Vec<usize>> {
    let key = |run: &RunDocument| run.workload.schedule_digest.clone();
    let places: BTreeMap<String, usize> =
        b.iter().enumerate().map(|(index, run)| (key(run), index)).collect();
    let found: Option<Vec<usize>> = a.iter().map(|run| places.get(&key(run)).copied()).collect();
    let found = found?;
    let distinct: BTreeSet<usize> = found.iter().copied().collect();
    (a.len() == b.len() && distinct.len() == b.len()).then_some(found)
}

/// A metric with the values of both sides.
struct Member {
    metric: MetricId,
    statistic: Option<Statistic>,
    a: Option<f64>,
    b: Option<f64>,
    /// The ratio that a claim may rest on.
    claim: Option<LogRatio>,
    /// The interval to show.
    shown: Option<(f64, f64, f64)>,
    /// Coefficient of variation of a side's units, pooled.
    cv: Option<f64>,
    between: Option<f64>,
    why: Option<&'static str>,
}

impl Member {
    fn new(
        metric: MetricId,
        statistic: Option<Statistic>,
        a: &[&RunDocument],
        b: &[&RunDocument],
        unit: Replication,
        pairs: Option<&[usize]>,
        terms: Terms,
    ) -> Option<Self> {
        let values = |runs: &[&RunDocument]| -> Vec<Option<f64>> {
            runs.iter().map(|run| value(run, metric, statistic)).collect()
        };
        let (of_a, of_b) = (values(a), values(b));
        if of_a.iter().chain(&of_b).all(Option::is_none) || a.is_empty() || b.is_empty() {
            return None;
        }
        let mut member = Self {
            metric,
            statistic,
            a: None,
            b: None,
            claim: None,
            shown: None,
            cv: None,
            between: None,
            why: None,
        };
        let complete = |values: &[Option<f64>]| values.iter().copied().collect::<Option<Vec<f64>>>();
        let (Some(of_a), Some(of_b)) = (complete(&of_a), complete(&of_b)) else {
            member.why = Some("some runs have no such figure: it was not measured, or falls among failures");
            return Some(member);
        };
        if of_a.iter().chain(&of_b).any(|value| !value.is_finite() || *value <= 0.0) {
            member.why = Some("a value of 0 has no ratio");
            (member.a, member.b) = (mean(&of_a), mean(&of_b));
            return Some(member);
        }
        (member.a, member.b) = (geometric(&of_a), geometric(&of_b));
        match unit {
            Replication::Block => member.within(a, b, terms),
            Replication::Run => {
                member.claim = match pairs {
                    Some(pairs) => {
                        let matched: Vec<f64> = pairs.iter().map(|&index| of_b[index]).collect();
                        paired_log_ratio(&of_a, &matched)
                    }
                    None => log_ratio(&of_a, &of_b),
                };
                member.cv = spread(&of_a, &of_b);
            }
            Replication::Deploy => {
                let (groups_a, groups_b) = (grouped(a, &of_a), grouped(b, &of_b));
                let units = |groups: &[Vec<f64>]| -> Vec<f64> {
                    groups.iter().filter_map(|group| geometric(group)).collect()
                };
                let (units_a, units_b) = (units(&groups_a), units(&groups_b));
                member.claim = log_ratio(&units_a, &units_b);
                member.cv = spread(&units_a, &units_b);
                (member.a, member.b) = (geometric(&units_a), geometric(&units_b));
                let logs = |groups: Vec<Vec<f64>>| -> Vec<Vec<f64>> {
                    groups.into_iter().map(|group| group.into_iter().map(f64::ln).collect()).collect()
                };
                let shares = [components(&logs(groups_a)), components(&logs(groups_b))];
                let shares: Vec<f64> =
                    shares.into_iter().flatten().filter_map(|split| split.share_between()).collect();
                member.between = mean(&shares);
            }
        }
        if let Some(claim) = member.claim {
            member.shown = claim.interval(terms.confidence).map(|(lower, upper)| (claim.ratio, lower, upper));
        }
        Some(member)
    }

    /// One run a side: the interval of the ratio by resampling blocks within each.
    fn within(&mut self, a: &[&RunDocument], b: &[&RunDocument], terms: Terms) {
        let draws = |runs: &[&RunDocument]| -> Option<Vec<f64>> {
            let evidence: Vec<EvidenceRun<'_>> = runs
                .iter()
                .map(|run| EvidenceRun {
                    digest: &run.run,
                    workload_digest: &run.workload.schedule_digest,
                    document: run,
                })
                .collect();
            let pool = Pool::new(&evidence, &BTreeSet::from([self.metric]));
            let figure = Figure::measured(Subject::Metric(self.metric, self.statistic), &pool)?;
            let values: Option<Vec<f64>> =
                pool.resamples(1, DRAWS).iter().map(|times| figure.value(times)).collect();
            values.filter(|values| values.iter().all(|value| value.is_finite() && *value > 0.0))
        };
        let (Some(of_a), Some(of_b)) = (draws(a), draws(b)) else { return };
        let mut ratios: Vec<f64> = of_a.iter().zip(&of_b).map(|(a, b)| a / b).collect();
        let ratio = self.a.zip(self.b).map(|(a, b)| a / b);
        if let (Some(ratio), Some(interval)) = (ratio, percentile_interval(&mut ratios, terms.confidence)) {
            self.shown = Some((ratio, interval.lower, interval.upper));
        }
    }

    fn compared(
        self,
        standing: Ratio,
        p: Option<(f64, f64)>,
        unit: Replication,
        few: bool,
        terms: Terms,
    ) -> Compared {
        let better = self.metric.better();
        let standing =
            if few || self.claim.is_none() { Standing::NotResolved } else { oriented(standing, better) };
        let beyond = self.shown.is_some_and(|(_, lower, upper)| match better {
            Better::Lower => lower > 1.0 + terms.margin,
            Better::Higher => upper < 1.0 - terms.margin,
        });
        let needed = self
            .cv
            .and_then(|cv| runs_needed(cv, terms.margin, 1.0 - terms.confidence, POWER))
            .map(|runs| runs.max(FEWEST_RUNS));
        let suspected = unit == Replication::Block && beyond;
        let reason = self.reason(standing, unit, few, suspected, needed, terms);
        Compared {
            metric: self.metric,
            statistic: self.statistic,
            unit: self.metric.unit(),
            a: self.a,
            b: self.b,
            ratio: self
                .shown
                .map(|(ratio, ..)| ratio)
                .or_else(|| self.a.zip(self.b).filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b)),
            lower: self.shown.map(|(_, lower, _)| lower),
            upper: self.shown.map(|(_, _, upper)| upper),
            p_difference: p.map(|(difference, _)| difference),
            p_equivalence: p.map(|(_, equivalence)| equivalence),
            standing,
            suspected,
            runs_needed: needed,
            between_deploys: self.between,
            reason,
        }
    }

    fn reason(
        &self,
        standing: Standing,
        unit: Replication,
        few: bool,
        suspected: bool,
        needed: Option<u64>,
        terms: Terms,
    ) -> String {
        let margin = touchstone_model::unit::share(terms.margin);
        if let Some(why) = self.why {
            return why.to_owned();
        }
        if unit == Replication::Block {
            let more = if suspected {
                format!("; within the runs it is worse by more than {margin}: repeat to know")
            } else {
                String::new()
            };
            return format!("one run a side tells nothing about how runs vary{more}");
        }
        if few {
            return format!("at least {FEWEST_RUNS} runs a side are needed for a claim");
        }
        match standing {
            Standing::Better | Standing::Worse => format!("the whole interval lies beyond {margin}"),
            Standing::SlightlyBetter | Standing::SlightlyWorse => {
                format!("the interval excludes no difference, and does not lie beyond {margin}")
            }
            Standing::Equivalent => format!("the difference is within {margin} by two one-sided tests"),
            Standing::NotResolved => match needed {
                Some(needed) => format!(
                    "neither a difference nor equivalence within {margin} is shown; about {needed} runs a side would show a difference of {margin}"
                ),
                None => format!("neither a difference nor equivalence within {margin} is shown"),
            },
        }
    }
}

fn oriented(standing: Ratio, better: Better) -> Standing {
    match (standing, better) {
        (Ratio::Greater, Better::Higher) | (Ratio::Less, Better::Lower) => Standing::Better,
        (Ratio::SlightlyGreater, Better::Higher) | (Ratio::SlightlyLess, Better::Lower) => {
            Standing::SlightlyBetter
        }
        (Ratio::Less, Better::Higher) | (Ratio::Greater, Better::Lower) => Standing::Worse,
        (Ratio::SlightlyLess, Better::Higher) | (Ratio::SlightlyGreater, Better::Lower) => {
            Standing::SlightlyWorse
        }
        (Ratio::Equivalent, _) => Standing::Equivalent,
        (Ratio::NotResolved, _) => Standing::NotResolved,
    }
}

fn value(run: &RunDocument, metric: MetricId, statistic: Option<Statistic>) -> Option<f64> {
    if let Some(statistic) = statistic {
        return run.metrics.get(&metric)?.statistic(statistic);
    }
    match metric {
        MetricId::Throughput => run.rates.throughput,
        MetricId::OutputTokenThroughput => run.rates.output_tokens,
        MetricId::Goodput => run.rates.goodput,
        MetricId::ErrorRate => {
            (run.counts.intended > 0).then(|| run.counts.failed as f64 / run.counts.intended as f64)
        }
        _ => None,
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn geometric(values: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    mean(&logs).map(f64::exp)
}

fn grouped(runs: &[&RunDocument], values: &[f64]) -> Vec<Vec<f64>> {
    let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (run, value) in runs.iter().zip(values) {
        groups.entry(deploy(run).unwrap_or_default()).or_default().push(*value);
    }
    groups.into_values().collect()
}

/// Pooled standard deviation of the logarithms: about the coefficient of variation.
fn spread(a: &[f64], b: &[f64]) -> Option<f64> {
    let squares = |values: &[f64]| -> f64 {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let centre = mean(&logs).unwrap_or(0.0);
        logs.iter().map(|log| (log - centre).powi(2)).sum()
    };
    let freedom = (a.len() + b.len()).checked_sub(2).filter(|freedom| *freedom > 0)?;
    let spread = ((squares(a) + squares(b)) / freedom as f64).sqrt();
    (spread > 0.0).then_some(spread)
}

fn findings(
    a: &Side,
    b: &Side,
    runs_a: &[&RunDocument],
    runs_b: &[&RunDocument],
    unit: Replication,
    few: bool,
) -> Vec<Finding> {
    let mut found = Vec::new();
    if runs_a.iter().chain(runs_b).any(|run| run.simulated) {
        found.push(Finding::new(
            FindingCode::Simulated,
            "some of these runs met a simulator",
            "use these figures to try the method, never to choose a product",
        ));
    }
    if few || unit == Replication::Block {
        found.push(Finding::new(
            FindingCode::FewRuns,
            format!("{} against {} runs; a claim needs {FEWEST_RUNS} a side", a.runs.len(), b.runs.len()),
            "repeat, interleaved: `touchstone bench --repeats 5 --versus TARGET`, or `touchstone run`",
        ));
    } else if [a, b].iter().any(|side| side.deploys.is_none_or(|deploys| deploys < FEWEST_DEPLOYS)) {
        let deploys = |side: &Side| side.deploys.map_or("unknown".to_owned(), |deploys| deploys.to_string());
        found.push(Finding::new(
            FindingCode::FewDeploys,
            format!("deploys behind the runs: {} against {}", deploys(a), deploys(b)),
            "what is claimed holds for these deploys; deploys vary too: `--launch` with `--deploys 3` makes fresh ones",
        ));
    }
    let left = a.left_out.len() + b.left_out.len();
    if left > 0 {
        found.push(Finding::new(
            FindingCode::RunsLeftOut,
            format!("{left} invalid runs were left out"),
            "an invalid run says nothing about its target; its findings say why",
        ));
    }
    if let Some(difference) = difference(runs_a, runs_b) {
        found.push(Finding::new(
            FindingCode::UnequalWorkload,
            difference,
            "compare at equal load and equal work: else it is the work that is compared",
        ));
    }
    found
}

/// How the work of the two sides differs, if it does.
fn difference(a: &[&RunDocument], b: &[&RunDocument]) -> Option<String> {
    let set = |runs: &[&RunDocument], of: &dyn Fn(&RunDocument) -> String| -> BTreeSet<String> {
        runs.iter().map(|run| of(run)).collect()
    };
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let names = std::iter::once("arrival").chain(WORKLOAD);
    for name in names {
        let of = |run: &RunDocument| match name {
            "arrival" => run.workload.arrival.clone(),
            _ => run.workload.parameters.get(name).map_or_else(|| "-".to_owned(), ToString::to_string),
        };
        let (left, right) = (set(a, &of), set(b, &of));
        if left != right {
            let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(", ");
            return Some(format!("{name} differs: {} against {}", list(&left), list(&right)));
        }
    }
    None
}

#[cfg(test)]
#[path = "contrast_tests.rs"]
mod tests;
