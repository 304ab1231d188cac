//! Statistical gates: pass, fail or undetermined, with the confidence asked for.
//!
//! | requirement on | test |
//! | --- | --- |
//! | a quantile | order statistics of the merged distribution at the effective sample size; with several runs Student's t over their quantiles too, the wider counts |
//! | a mean, a rate | hierarchical block bootstrap; with two to four runs Student's t over runs too, the wider counts |
//! | a maximum | one excess refutes it; nothing proves it |
//! | a share (`error_rate`, `goodput_share`, `hit_ratio`) | exact binomial at the sample size that clusters leave |
//! | `lost`, `duplicated`, `reordered` | the sum over the runs, as observed |
//! | `cost` | the stated price |
//!
//! **At least so many per second.** In an open loop nothing completes faster than it is offered, and a Poisson schedule
//! of 50/s realises 49 or 51. So `throughput`, `output_token_throughput` and `goodput` *pass* when their lower bound
//! reaches the limit; or when the limit was asked for (nominal load >= limit, realised >= 0.9 of it) and the lower bound
//! of the share delivered of the realised load is at least 0.98, the tolerance of `saturation_point`. They *fail* when
//! the upper bound stays below the limit and the upper bound of that share below 0.98: the target did not keep up. A
//! target that keeps up with a load below the limit was not asked: undetermined. A target of 50/s that is offered 60/s
//! has a throughput of 50/s; that its backlog grows is a finding of the run and a matter for the latency gates.

use touchstone_model::decision::{Gate, GateKind};
use touchstone_model::requirement::Comparison;
use touchstone_model::run::Outcome;
use touchstone_model::scenario::Candidate;
use touchstone_model::{Arrival, MetricId, Quantity, Requirement, Scenario, Statistic, Subject};

use crate::bounds::{self, Bounded, Sampled};
use crate::figure::{self, Figure};
use crate::pool::Pool;

/// Share of the realised load that a target must deliver to have kept up (the tolerance of `saturation_point`).
const KEPT_UP: f64 = 0.98;
/// Share of the limit that must have been offered in fact, when it was offered by name.
const OFFERED: f64 = 0.9;

/// What a gate found, before it is written down.
struct Found {
    outcome: Outcome,
    bounded: Option<Bounded>,
    needs: Option<u64>,
    effective: Option<f64>,
    reason: String,
    reason_zh: String,
}

impl Found {
    fn undetermined(reason: impl Into<String>, reason_zh: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Undetermined,
            bounded: None,
            needs: None,
            effective: None,
            reason: reason.into(),
            reason_zh: reason_zh.into(),
        }
    }
}

/// The outcome by the bounds: each side decides one way.
fn judge(comparison: Comparison, limit: f64, bounded: Bounded) -> Outcome {
    let below = bounded.upper.is_some_and(|upper| upper <= limit);
    let above = bounded.lower.is_some_and(|lower| lower >= limit);
    let strictly_below = bounded.upper.is_some_and(|upper| upper < limit);
    let strictly_above = bounded.lower.is_some_and(|lower| lower > limit);
    match comparison {
        Comparison::AtMost if below => Outcome::Pass,
        Comparison::AtMost if strictly_above => Outcome::Fail,
        Comparison::AtLeast if above => Outcome::Pass,
        Comparison::AtLeast if strictly_below => Outcome::Fail,
        _ => Outcome::Undetermined,
    }
}

/// The gate of one requirement on a metric for one candidate, and what its samples are worth where it rests on a number
/// of samples; none for requirements on capabilities.
pub(crate) fn statistical(
    scenario: &Scenario,
    requirement: &Requirement,
    candidate: &Candidate,
    pool: &Pool<'_>,
    resamples: &[Vec<u32>],
    scenario_digest: &str,
) -> Option<(Gate, Option<f64>)> {
    let Subject::Metric(metric, statistic) = requirement.subject else { return None };
    let confidence = scenario.confidence(requirement);
    let test = Test { scenario, requirement, metric, confidence, pool, resamples };
    let found = match metric {
        MetricId::Cost => test.cost(candidate),
        _ if pool.is_empty() => not_measured(pool),
        MetricId::Lost | MetricId::Duplicated | MetricId::Reordered => test.counted(),
        MetricId::ErrorRate | MetricId::GoodputShare | MetricId::HitRatio => test.share(),
        MetricId::Throughput | MetricId::OutputTokenThroughput | MetricId::Goodput => test.delivered(),
        _ => test.measured(statistic, candidate),
    };
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
    let effective = found.effective;
    let gate = Gate {
        requirement: requirement.to_string(),
        kind: GateKind::Statistical,
        outcome: found.outcome,
        reason: found.reason,
        reason_zh: found.reason_zh,
        confidence: Some(confidence),
        value: finite(found.bounded.map(|bounded| bounded.value)),
        lower: finite(found.bounded.and_then(|bounded| bounded.lower)),
        upper: finite(found.bounded.and_then(|bounded| bounded.upper)),
        needs: found.needs,
        evidence: if metric == MetricId::Cost || pool.is_empty() {
            vec![scenario_digest.to_owned()]
        } else {
            pool.digests()
        },
    };
    Some((gate, effective))
}

/// Why there is nothing to test: no run at all, or none that may be used.
fn not_measured(pool: &Pool<'_>) -> Found {
    match pool.rejected.first() {
        None => Found::undetermined("not measured", "未测量"),
        Some((_, reason, reason_zh)) => Found::undetermined(
            format!("none of its {} runs can be used; of the first: {reason}", pool.rejected.len()),
            format!("{} 次运行均不可用；第一次的原因：{reason_zh}", pool.rejected.len()),
        ),
    }
}

/// One requirement on one candidate's evidence.
struct Test<'a> {
    scenario: &'a Scenario,
    requirement: &'a Requirement,
    metric: MetricId,
    confidence: f64,
    pool: &'a Pool<'a>,
    resamples: &'a [Vec<u32>],
}

impl Test<'_> {
    fn limit(&self) -> f64 {
        self.requirement.limit.magnitude()
    }

    /// A value of the metric for readers; what is beyond every limit has a word.
    fn show(&self, value: f64) -> String {
        if value.is_infinite() {
            return "no end".to_owned();
        }
        Quantity::new(value, self.metric.unit()).rounded(4)
    }

    fn percent(&self) -> String {
        format!("{}%", touchstone_model::unit::significant(self.confidence * 100.0, 4))
    }

    /// The bounds in words, in English and Chinese.
    fn bounds_text(&self, bounded: Bounded) -> (String, String) {
        let show_zh = |value: f64| if value.is_infinite() { "无穷".to_owned() } else { self.show(value) };
        let (value, value_zh) = (self.show(bounded.value), show_zh(bounded.value));
        let percent = self.percent();
        match (bounded.lower, bounded.upper) {
            (Some(lower), Some(upper)) => (
                format!("{value}, between {} and {} at {percent} a side", self.show(lower), self.show(upper)),
                format!("{value_zh}，单侧 {percent} 置信界为 {} 至 {}", show_zh(lower), show_zh(upper)),
            ),
            (Some(lower), None) => (
                format!("{value}, at least {} at {percent}, without an upper bound", self.show(lower)),
                format!("{value_zh}，{percent} 置信下界 {}，无置信上界", show_zh(lower)),
            ),
            (None, Some(upper)) => (
                format!("{value}, at most {} at {percent}", self.show(upper)),
                format!("{value_zh}，{percent} 置信上界 {}", show_zh(upper)),
            ),
            (None, None) => {
                (format!("{value}, without bounds at {percent}"), format!("{value_zh}，无 {percent} 置信界"))
            }
        }
    }

    fn by_bounds(&self, bounded: Bounded) -> Found {
        let outcome = judge(self.requirement.comparison, self.limit(), bounded);
        let (text, text_zh) = self.bounds_text(bounded);
        let one = self.pool.runs.len() == 1;
        Found {
            outcome,
            bounded: Some(bounded),
            needs: None,
            effective: None,
            reason: format!(
                "{text}{}",
                if one { "; one run cannot show the spread between runs" } else { "" }
            ),
            reason_zh: format!("{text_zh}{}", if one { "；仅一次运行，无法反映运行间差异" } else { "" }),
        }
    }

    fn by_samples(&self, sampled: Sampled) -> Found {
        let outcome = judge(self.requirement.comparison, self.limit(), sampled.bounded);
        let (text, text_zh) = self.bounds_text(sampled.bounded);
        let effective = sampled.effective.floor();
        let mut reason = format!("{text} ({} samples, worth {effective})", sampled.n);
        let mut reason_zh = format!("{text_zh}（{} 个样本，有效 {effective} 个）", sampled.n);
        let needs = sampled.needs.filter(|_| self.requirement.comparison == Comparison::AtMost);
        if outcome == Outcome::Undetermined {
            match needs {
                // The sample may suffice at the share of exceedances and still not do, by the luck of a rank.
                Some(needs) if needs as f64 > effective => {
                    reason.push_str(&format!("; needs {needs} effective samples"));
                    reason_zh.push_str(&format!("；需要 {needs} 个有效样本"));
                }
                _ => {
                    reason.push_str("; too close to the limit to tell");
                    reason_zh.push_str("；过于接近限值，无法判定");
                }
            }
        }
        Found {
            outcome,
            bounded: Some(sampled.bounded),
            needs,
            effective: Some(sampled.effective),
            reason,
            reason_zh,
        }
    }

    fn cost(&self, candidate: &Candidate) -> Found {
        let Some(price) = candidate.price else {
            return Found::undetermined("no price is stated", "未给出价格");
        };
        let bounded = Bounded { value: price.0, lower: Some(price.0), upper: Some(price.0) };
        let shown = self.show(price.0);
        Found {
            outcome: judge(self.requirement.comparison, self.limit(), bounded),
            bounded: Some(bounded),
            needs: None,
            effective: None,
            reason: format!("the stated price is {shown}"),
            reason_zh: format!("所给价格为 {shown}"),
        }
    }

    fn counted(&self) -> Found {
        let read = |run: &touchstone_model::RunDocument| match self.metric {
            MetricId::Lost => run.counts.lost,
            MetricId::Duplicated => run.counts.duplicated,
            _ => run.counts.reordered,
        };
        let Some(count) = self.pool.documents().map(read).sum::<Option<u64>>() else {
            return Found::undetermined("it was not counted in every run", "并非每次运行都做了计数");
        };
        let of: u64 = self.pool.documents().map(|run| run.counts.sent).sum();
        let value = count as f64;
        let holds = self.requirement.comparison.holds(value, self.limit());
        let bounded = Bounded { value, lower: None, upper: None };
        let (name, name_zh) = match self.metric {
            MetricId::Lost => ("lost", "丢失"),
            MetricId::Duplicated => ("duplicated", "重复"),
            _ => ("reordered", "乱序"),
        };
        Found {
            outcome: if holds { Outcome::Pass } else { Outcome::Fail },
            bounded: Some(bounded),
            needs: None,
            effective: None,
            reason: format!("{count} {name} of {of}, as observed"),
            reason_zh: format!("观测到 {of} 条中{name_zh} {count} 条"),
        }
    }

    fn share(&self) -> Found {
        let limit = self.limit();
        let sampled = figure::ratio(self.metric, self.pool)
            .and_then(|(above, below)| bounds::share(self.pool, &above, &below, limit, self.confidence));
        match sampled {
            Some(sampled) => self.by_samples(sampled),
            None => Found::undetermined("not measured", "未测量"),
        }
    }

    /// Everything that is a distribution, and the plain rates.
    fn measured(&self, statistic: Option<Statistic>, candidate: &Candidate) -> Found {
        let missing = || Found::undetermined("not measured", "未测量");
        if let Some(level) = statistic.and_then(Statistic::level) {
            let sampled = bounds::quantile(self.pool, self.metric, level, self.limit(), self.confidence);
            return sampled.map_or_else(missing, |sampled| self.by_samples(sampled));
        }
        let Some(figure) = Figure::new(self.requirement.subject, candidate, self.pool) else {
            return missing();
        };
        match &figure {
            Figure::Max(_) => self.maximum(&figure),
            Figure::Mean(table) => {
                let censored: u64 = (0..self.pool.blocks.len()).map(|block| table.censored(block)).sum();
                if censored > 0 {
                    return Found::undetermined(
                        format!(
                            "{censored} operations never got there, so the mean has no value; ask for a quantile"
                        ),
                        format!("{censored} 个操作从未到达该事件，均值无定义；请改用分位数"),
                    );
                }
                self.rate(&figure).unwrap_or_else(missing)
            }
            _ => self.rate(&figure).unwrap_or_else(missing),
        }
    }

    fn rate(&self, figure: &Figure<'_>) -> Option<Found> {
        let bounded = bounds::resampled(self.pool, figure, self.resamples, self.confidence)?;
        Some(self.by_bounds(bounded))
    }

    fn maximum(&self, figure: &Figure<'_>) -> Found {
        let Some(value) = figure.value(&vec![1; self.pool.blocks.len()]) else {
            return Found::undetermined("not measured", "未测量");
        };
        let bounded = Bounded { value, lower: Some(value), upper: None };
        let outcome = judge(self.requirement.comparison, self.limit(), bounded);
        let shown = self.show(value);
        let (reason, reason_zh) = match outcome {
            Outcome::Undetermined => (
                format!("the greatest seen is {shown}; no sample proves a maximum, ask for p999"),
                format!("所见最大值为 {shown}；样本无法证明最大值，请改用 p999"),
            ),
            _ => (format!("the greatest seen is {shown}"), format!("所见最大值为 {shown}")),
        };
        Found { outcome, bounded: Some(bounded), needs: None, effective: None, reason, reason_zh }
    }

    /// The rule for rates that cannot exceed what is offered; the module describes it.
    fn delivered(&self) -> Found {
        let missing = || Found::undetermined("not measured", "未测量");
        let Some((above, below)) = figure::ratio(self.metric, self.pool) else { return missing() };
        let figure = Figure::Ratio(above.clone(), below.clone());
        let Some(mut found) = self.rate(&figure) else { return missing() };
        let Some(bounded) = found.bounded else { return missing() };
        let open = self.pool.documents().all(|run| run.rates.offered.is_some());
        let scale = match self.metric {
            MetricId::OutputTokenThroughput => self.scenario.workload.output_tokens.map(f64::from),
            _ => Some(1.0),
        };
        let (Comparison::AtLeast, true, Some(scale)) = (self.requirement.comparison, open, scale) else {
            return found;
        };
        if found.outcome == Outcome::Pass {
            return found;
        }
        let limit = self.limit();
        let seconds: f64 = self.pool.blocks.iter().map(|block| block.seconds).sum();
        let intended: f64 = self.pool.blocks.iter().map(|block| block.intended as f64).sum();
        let realised = intended / seconds * scale;
        let nominal = self
            .pool
            .documents()
            .map(|run| run.workload.arrival.parse::<Arrival>().ok().and_then(Arrival::per_second))
            .map(|rate| rate.map_or(realised, |rate| rate * scale))
            .fold(f64::INFINITY, f64::min);
        let delivered = if self.metric == MetricId::Goodput {
            let intended: Vec<f64> = self.pool.blocks.iter().map(|block| block.intended as f64).collect();
            bounds::share(self.pool, &above, &intended, 1.0, self.confidence).map(|sampled| sampled.bounded)
        } else {
            bounds::kept_up(self.pool, &above, scale, self.confidence)
        };
        let Some(delivered) = delivered else { return found };
        let asked = nominal >= limit * (1.0 - 1e-9) && realised >= OFFERED * limit;
        let (kept_up, fell_behind) = (
            delivered.lower.is_some_and(|lower| lower >= KEPT_UP),
            delivered.upper.is_some_and(|upper| upper < KEPT_UP),
        );
        let too_slow = bounded.upper.is_some_and(|upper| upper < limit);
        let share = format!("{}%", touchstone_model::unit::significant(delivered.value * 100.0, 4));
        let load = self.show(realised);
        found.outcome = match (asked, kept_up, too_slow && fell_behind) {
            (true, true, _) => Outcome::Pass,
            (_, _, true) => Outcome::Fail,
            _ => Outcome::Undetermined,
        };
        let (why, why_zh) = match found.outcome {
            Outcome::Pass => ("it kept up with the load", "跟上了所施加的负载"),
            Outcome::Fail => ("it did not keep up with the load", "没有跟上所施加的负载"),
            Outcome::Undetermined if !asked && kept_up => (
                "the load was too low to show the limit; offer at least the limit",
                "负载过低，无法证明限值；请施加不低于限值的负载",
            ),
            Outcome::Undetermined => ("too close to the limit to tell", "过于接近限值，无法判定"),
        };
        found.reason = format!("{}; {share} of the {load} offered was delivered: {why}", found.reason);
        found.reason_zh = format!("{}；实际施加负载 {load}，完成其中 {share}：{why_zh}", found.reason_zh);
        found
    }
}
