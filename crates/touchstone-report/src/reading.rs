//! How run documents are read for showing: which latency leads, which percentiles were asked for, what a bound says.

use std::collections::BTreeSet;

use touchstone_model::requirement::{Limit, Requirement, Subject};
use touchstone_model::run::{Bound, SloOutcome};
use touchstone_model::{MetricId, MetricSummary, RunDocument, Statistic, Unit};

use crate::words::Lang;
use crate::{number, words};

/// The latency that leads, by what there is: the first token, the message, the whole answer.
const LEADING: [MetricId; 5] = [
    MetricId::Ttft,
    MetricId::EndToEndLatency,
    MetricId::PublishLatency,
    MetricId::E2e,
    MetricId::ServiceTime,
];

/// The leading latency of a run; null when none was measured.
pub(crate) fn leading(run: &RunDocument) -> Option<MetricId> {
    let measured = |metric: &MetricId| run.metrics.get(metric).is_some_and(|summary| summary.n > 0);
    LEADING.into_iter().find(measured)
}

/// Up to three latencies that a person looks at first: the leading one, the gaps, the whole.
pub(crate) fn chief(run: &RunDocument) -> Vec<MetricId> {
    let measured = |metric: &MetricId| run.metrics.get(metric).is_some_and(|summary| summary.p50.is_some());
    let mut out: Vec<MetricId> = leading(run).into_iter().filter(|metric| measured(metric)).collect();
    let gaps = [MetricId::Itl, MetricId::Icl].into_iter().find(measured);
    let wholes = [MetricId::E2e, MetricId::PublishLatency, MetricId::ServiceTime].into_iter();
    let whole = wholes.filter(|metric| !out.contains(metric)).find(measured);
    out.extend(gaps.into_iter().chain(whole));
    out
}

/// Metric, statistic and limit of a requirement or SLO as written, when it is one about a metric.
pub(crate) fn parsed(text: &str) -> Option<(MetricId, Option<Statistic>, Requirement)> {
    let requirement: Requirement = text.parse().ok()?;
    match requirement.subject {
        Subject::Metric(metric, statistic) => Some((metric, statistic, requirement)),
        Subject::Capability(_) => None,
    }
}

/// The limit in the metric's canonical unit, when there is one.
pub(crate) fn limit(text: &str) -> Option<f64> {
    let (_, _, requirement) = parsed(text)?;
    matches!(requirement.limit, Limit::Quantity(_)).then(|| requirement.limit.magnitude())
}

/// The unit of what a requirement is about.
pub(crate) fn unit(text: &str) -> Option<Unit> {
    parsed(text).map(|(metric, _, _)| metric.unit())
}

/// The unit of a criterion as written (`ttft.p95`).
pub(crate) fn criterion_unit(text: &str) -> Unit {
    match text.parse() {
        Ok(Subject::Metric(metric, _)) => metric.unit(),
        _ => Unit::Count,
    }
}

/// The quantiles of a metric whose bounds were asked for by an SLO; p99 when none was.
pub(crate) fn asked(run: &RunDocument, metric: MetricId) -> Vec<Statistic> {
    let asked: BTreeSet<Statistic> = run
        .slo
        .iter()
        .filter_map(|slo| parsed(&slo.slo))
        .filter(|(of, _, _)| *of == metric)
        .filter_map(|(_, statistic, _)| statistic)
        .filter(|statistic| statistic.level().is_some())
        .collect();
    if asked.is_empty() { vec![Statistic::P99] } else { asked.into_iter().collect() }
}

/// What the upper bound of a quantile says: `<= 213 ms`, or why there is none.
pub(crate) fn upper_bound(lang: Lang, summary: &MetricSummary, bound: &Bound) -> String {
    match bound.upper {
        Some(upper) => format!("<= {}", number::quantity(upper, summary.unit)),
        None if summary.n_effective < bound.needs as f64 => {
            words::needs(lang, bound.needs, summary.n_effective)
        }
        None if summary.censored > 0 => lang.words().among_failures.to_owned(),
        None => lang.words().no_upper_bound.to_owned(),
    }
}

/// The bounds of the asked-for quantiles of a metric, in one line; empty when none was computed.
pub(crate) fn bounds_line(
    lang: Lang,
    run: &RunDocument,
    metric: MetricId,
    summary: &MetricSummary,
) -> String {
    let one = |statistic: Statistic| {
        let bound = summary.bounds.get(&statistic)?;
        Some(format!("{statistic} {}", upper_bound(lang, summary, bound)))
    };
    asked(run, metric).into_iter().filter_map(one).collect::<Vec<_>>().join("; ")
}

/// The figures of an SLO outcome: its value, range or the samples it needs.
pub(crate) fn slo_figures(lang: Lang, run: &RunDocument, slo: &SloOutcome) -> String {
    let unit = unit(&slo.slo).unwrap_or(Unit::Count);
    let mut parts = Vec::new();
    if let Some(value) = slo.value {
        parts.push(number::quantity(value, unit));
    }
    if slo.lower.is_some() || slo.upper.is_some() {
        let side =
            |value: Option<f64>| value.map_or_else(|| "?".to_owned(), |value| number::quantity(value, unit));
        parts.push(format!("[{}, {}]", side(slo.lower), side(slo.upper)));
    }
    let has = parsed(&slo.slo)
        .and_then(|(metric, _, _)| run.metrics.get(&metric))
        .map(|summary| summary.n_effective);
    if let (Some(needs), Some(has)) = (slo.needs, has)
        && has < needs as f64
    {
        parts.push(words::needs(lang, needs, has));
    }
    if let Some(share) = slo.share {
        parts.push(format!("{} {}", lang.words().share_within, number::percent(share)));
    }
    if parts.is_empty() { number::NONE.to_owned() } else { parts.join("  ") }
}

/// `openai-chat=http://... (product version, model M)`.
pub(crate) fn target(lang: Lang, run: &RunDocument) -> String {
    let mut known = Vec::new();
    if let Some(product) = &run.target.product {
        known.push(match &run.target.version {
            Some(version) => format!("{product} {version}"),
            None => product.clone(),
        });
    }
    if let Some(model) = &run.target.model {
        known.push(format!("{} {model}", lang.words().model));
    }
    let target = crate::text::clean(&run.target.target);
    if known.is_empty() { target } else { format!("{target} ({})", crate::text::clean(&known.join(", "))) }
}

/// The marks that stand before everything else: simulated, invalid, interrupted.
pub(crate) fn marks(lang: Lang, run: &RunDocument) -> Vec<&'static str> {
    let w = lang.words();
    [(run.simulated, w.simulated), (!run.valid, w.invalid), (run.interrupted, w.interrupted)]
        .into_iter()
        .filter_map(|(holds, mark)| holds.then_some(mark))
        .collect()
}

/// Start and end of the measured window in seconds since the start of warm-up, and the end of drain.
pub(crate) fn phase_seconds(run: &RunDocument) -> (f64, f64, f64) {
    let since = |ns: u64| ns.saturating_sub(run.phases.start_ns) as f64 / 1e9;
    (since(run.phases.measured_from_ns), since(run.phases.measured_to_ns), since(run.phases.end_ns))
}

/// The names of all criteria: those that are weighted first, in their order, then the rest.
pub(crate) fn criteria_names(document: &touchstone_model::decision::DecisionDocument) -> Vec<&str> {
    let mut names: Vec<&str> = document.ranking.criteria.iter().map(String::as_str).collect();
    let rest: BTreeSet<&str> = document
        .candidates
        .iter()
        .flat_map(|candidate| candidate.criteria.keys())
        .map(String::as_str)
        .collect();
    names
        .extend(rest.into_iter().filter(|name| !document.ranking.criteria.iter().any(|known| known == name)));
    names
}
