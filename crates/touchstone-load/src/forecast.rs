//! What a plan will do, said before anything is sent: how long it takes, how many operations and tokens, and whether that
//! is enough for the percentile bounds that were asked for.

use std::collections::VecDeque;

use serde::Serialize;
use touchstone_model::{Requirement, Statistic, Subject};
use touchstone_stats::quantile::needed_samples;
use touchstone_workload::requests::Requests;
use touchstone_workload::schedule::{Schedule, ShardSchedule};

use crate::plan::{LoadPlan, SECOND};

/// Starts that are walked through one by one; beyond them a rate that stays as it is goes on, and for one that changes
/// nothing is said.
const WALKED: u64 = 5_000_000;

/// What a plan will do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    /// The arrival process, as written.
    pub arrival: String,
    /// Whether answers decide when operations start.
    pub closed: bool,
    /// Length of warm-up, s.
    pub warm_up_s: f64,
    /// Greatest length of the measured window, s.
    pub measured_s: f64,
    /// Greatest length of the drain, s.
    pub drain_s: f64,
    /// Operations intended in warm-up; null where answers decide (closed loop), or where there are more than are counted.
    pub warm_up_operations: Option<u64>,
    /// Operations intended in the measured window; null where answers decide.
    pub operations: Option<u64>,
    /// Whether the two were counted one by one; else they follow from the first starts.
    pub exact: bool,
    /// Most operations intended within any one second, of those that were counted; null as above.
    pub peak_per_second: Option<u64>,
    /// Input tokens of all operations, as far as they are known; null where prompts have none.
    pub input_tokens: Option<u64>,
    /// Output tokens asked for by all operations.
    pub output_tokens: Option<u64>,
    /// Share of the input tokens that prompts have in common on purpose.
    pub cacheable_share: Option<f64>,
    /// The percentiles that were asked for, or p95 and p99 where none was.
    pub bounds: Vec<BoundForecast>,
    /// The stages of a load that changes on purpose.
    pub stages: Vec<StageForecast>,
}

/// Whether a percentile can be bounded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BoundForecast {
    /// The limit that asks for it; null for a usual percentile.
    pub slo: Option<String>,
    /// The percentile, as in `p99`.
    pub statistic: Statistic,
    /// One-sided confidence.
    pub confidence: f64,
    /// Effective samples that are needed with none, one and two of them over the limit.
    pub needs: [u64; 3],
    /// Whether the plan has that many operations, none being over; null where their number is unknown. Neighbours that depend
    /// on each other count as fewer, so that this is the best case.
    pub reached: Option<bool>,
    /// Measured seconds that have so many operations at this load; null where their number is unknown.
    pub needs_seconds: Option<f64>,
}

/// A stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageForecast {
    /// Start, s from the start of the measured window.
    pub from_s: f64,
    /// End, s.
    pub to_s: f64,
    /// Planned rate; null where it changes within the stage.
    pub per_second: Option<f64>,
    /// Whether it is on the way back.
    pub returning: bool,
    /// Operations intended in it.
    pub operations: u64,
}

/// What was counted along a schedule.
#[derive(Default)]
struct Walk {
    warm_up: u64,
    measured: u64,
    peak: u64,
    stages: Vec<u64>,
    whole: bool,
}

/// Says what a plan will do; `requests` where operations carry prompts.
#[must_use]
pub fn forecast(plan: &LoadPlan, requests: Option<&Requests>) -> Forecast {
    let walk = walk(plan);
    let measured = match (&walk, plan.requests) {
        (Some(walk), _) => Some(walk.measured),
        (None, limit) => limit,
    };
    let all = measured.map(|measured| measured + walk.as_ref().map_or(0, |walk| walk.warm_up));
    let tokens = all.zip(requests).map(|(all, requests)| tokens(all, requests));
    let seconds = |ns: u64| ns as f64 / 1e9;
    let per_second = walk.as_ref().map(|walk| walk.measured as f64 / seconds(plan.duration_ns).max(1e-9));
    Forecast {
        arrival: plan.arrival.to_string(),
        closed: !plan.arrival.is_open(),
        warm_up_s: seconds(plan.warm_up_ns),
        measured_s: seconds(plan.duration_ns),
        drain_s: seconds(plan.drain_ns),
        warm_up_operations: walk.as_ref().map(|walk| walk.warm_up),
        operations: measured,
        exact: walk.as_ref().is_none_or(|walk| walk.whole),
        peak_per_second: walk.as_ref().map(|walk| walk.peak),
        input_tokens: tokens.map(|tokens| tokens.0),
        output_tokens: tokens.map(|tokens| tokens.1),
        cacheable_share: all.zip(requests).map(|(all, requests)| requests.cacheable_share(all, false)),
        bounds: bounds(plan, measured, per_second),
        stages: walk.map_or_else(Vec::new, |walk| stages(plan, &walk.stages)),
    }
}

/// Walks the schedule; none for a closed loop, which has none, and for a load that changes and is too long to be counted.
fn walk(plan: &LoadPlan) -> Option<Walk> {
    if !plan.arrival.is_open() {
        return None;
    }
    let number = plan.stages();
    let mut walk = Walk { stages: vec![0; number], whole: true, ..Walk::default() };
    let mut last = 0;
    let mut second = VecDeque::new();
    let mut starts = ShardSchedule::new(Schedule::new(plan.process()), plan.end(), 0, 1);
    for (_, offset_ns) in starts.by_ref().take(WALKED as usize) {
        last = offset_ns;
        second.push_back(offset_ns);
        while second.front().is_some_and(|first| offset_ns - first >= SECOND) {
            second.pop_front();
        }
        walk.peak = walk.peak.max(second.len() as u64);
        let Some(since) = offset_ns.checked_sub(plan.warm_up_ns) else {
            walk.warm_up += 1;
            continue;
        };
        walk.measured += 1;
        let stage = (u128::from(since) * number as u128 / u128::from(plan.duration_ns.max(1))) as usize;
        if let Some(count) = walk.stages.get_mut(stage) {
            *count += 1;
        }
    }
    if starts.next().is_some() {
        if !plan.arrival.is_stationary() {
            return None;
        }
        // The rest is as the part before: said as what it is, not exact.
        walk.whole = false;
        let whole = plan.end().at_ns as f64 / last.max(1) as f64;
        walk.measured = ((walk.measured + walk.warm_up) as f64 * whole) as u64 - walk.warm_up;
    }
    Some(walk)
}

/// Input and output tokens of so many operations.
fn tokens(operations: u64, requests: &Requests) -> (u64, u64) {
    let walked = operations.min(WALKED / 5);
    let (mut input, mut output) = (0_u64, 0_u64);
    for index in 0..walked {
        let asked = requests.asked(index);
        input += u64::from(asked.input_tokens);
        output += u64::from(asked.output_tokens);
    }
    let whole = |sum: u64| (u128::from(sum) * u128::from(operations) / u128::from(walked.max(1))) as u64;
    (whole(input), whole(output))
}

fn bounds(plan: &LoadPlan, operations: Option<u64>, per_second: Option<f64>) -> Vec<BoundForecast> {
    let one = |slo: Option<String>, statistic: Statistic, confidence: f64| {
        let q = statistic.level()?;
        let needs = [0, 1, 2].map(|over| needed_samples(q, confidence, over));
        Some(BoundForecast {
            slo,
            statistic,
            confidence,
            needs,
            reached: operations.map(|operations| operations >= needs[0]),
            needs_seconds: per_second.filter(|rate| *rate > 0.0).map(|rate| needs[0] as f64 / rate),
        })
    };
    let asked = |slo: &Requirement| match slo.subject {
        Subject::Metric(_, Some(statistic)) => {
            one(Some(slo.to_string()), statistic, slo.confidence.unwrap_or(plan.confidence))
        }
        _ => None,
    };
    let bounds: Vec<BoundForecast> = plan.slos.iter().filter_map(asked).collect();
    if bounds.is_empty() {
        return [Statistic::P95, Statistic::P99]
            .into_iter()
            .filter_map(|statistic| one(None, statistic, plan.confidence))
            .collect();
    }
    bounds
}

fn stages(plan: &LoadPlan, counts: &[u64]) -> Vec<StageForecast> {
    let levels = plan.arrival.levels();
    let length = plan.duration_ns as f64 / 1e9 / counts.len().max(1) as f64;
    let stage = |(at, operations): (usize, &u64)| {
        let level = levels.get(at).filter(|_| levels.len() == counts.len());
        StageForecast {
            from_s: at as f64 * length,
            to_s: (at + 1) as f64 * length,
            per_second: level.map(|level| level.per_second),
            returning: level.is_some_and(|level| level.returning),
            operations: *operations,
        }
    };
    counts.iter().enumerate().map(stage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arrival: &str, seconds: u64, slos: &[&str]) -> LoadPlan {
        let mut plan = LoadPlan::new(arrival.parse().unwrap(), 1);
        (plan.warm_up_ns, plan.duration_ns) = (2 * SECOND, seconds * SECOND);
        plan.slos = slos.iter().map(|slo| slo.parse().unwrap()).collect();
        plan
    }

    #[test]
    fn a_constant_load_is_counted_exactly() {
        let requests = Requests::fixed(1, 100, 20);
        let forecast = forecast(&plan("constant:50/s", 10, &[]), Some(&requests));
        assert_eq!((forecast.warm_up_operations, forecast.operations), (Some(100), Some(500)));
        assert_eq!((forecast.input_tokens, forecast.output_tokens), (Some(60_000), Some(12_000)));
        assert_eq!((forecast.peak_per_second, forecast.exact), (Some(50), true));
        assert_eq!(forecast.bounds.len(), 2, "p95 and p99 where nothing was asked");
    }

    #[test]
    fn a_percentile_says_what_it_needs() {
        let short = forecast(&plan("constant:10/s", 10, &["ttft.p99<=200ms"]), None);
        assert_eq!(short.bounds[0].needs, [299, 473, 628]);
        assert_eq!(short.bounds[0].reached, Some(false));
        assert_eq!(short.bounds[0].needs_seconds, Some(29.9));
        let long = forecast(&plan("constant:10/s", 30, &["ttft.p99<=200ms"]), None);
        assert_eq!(long.bounds[0].reached, Some(true));
    }

    #[test]
    fn a_closed_loop_knows_no_numbers_but_those_asked_for() {
        let mut closed = plan("closed:4", 10, &[]);
        let open_end = forecast(&closed, None);
        assert_eq!((open_end.operations, open_end.bounds[0].reached), (None, None));
        closed.requests = Some(40);
        assert_eq!(forecast(&closed, None).operations, Some(40));
    }

    #[test]
    fn stages_are_those_of_the_run() {
        let forecast = forecast(&plan("stairs:100/s..300/s,steps=3,hold=2s,down", 10, &[]), None);
        let rates: Vec<Option<f64>> = forecast.stages.iter().map(|stage| stage.per_second).collect();
        assert_eq!(rates, [100.0, 200.0, 300.0, 200.0, 100.0].map(Some));
        let all: u64 = forecast.stages.iter().map(|stage| stage.operations).sum();
        assert_eq!(Some(all), forecast.operations);
    }

    #[test]
    fn a_very_long_plan_is_extrapolated_and_says_so() {
        let forecast = forecast(&plan("constant:1M/s", 3600, &[]), None);
        assert!(!forecast.exact);
        let operations = forecast.operations.unwrap() as f64;
        assert!((operations / 3.6e9 - 1.0).abs() < 1e-3, "{operations}");
        let changing = super::forecast(&plan("ramp:1/s..10M/s,over=1h", 3600, &[]), None);
        assert_eq!((changing.operations, changing.peak_per_second), (None, None));
    }

    #[test]
    fn the_peak_is_of_any_second_and_not_of_those_that_a_clock_begins() {
        let mut replay = plan("trace:speed=1", 10, &[]);
        replay.trace = [900, 950, 1000, 1100, 2500].map(|ms| ms * 1_000_000).to_vec().into();
        assert_eq!(forecast(&replay, None).peak_per_second, Some(4));
    }
}
