//! The referee: what is wrong or noteworthy about a run, before anybody uses its figures.

use touchstone_model::run::{Outcome, RunDocument};
use touchstone_model::{Family, Finding, FindingCode, MetricId, Statistic};
use touchstone_stats::trend::slope_interval;

use crate::aggregate::Aggregate;
use crate::plan::LoadPlan;
use crate::shard::Traits;
use crate::summary::RunContext;

/// Share of the leading p99 that the scheduling error's p99 may explain.
const LATE_SHARE: f64 = 0.25;
/// Scheduling errors below this (ms) are never held against a run.
const LATE_FLOOR_MS: f64 = 0.1;
/// Share of a latency that the scheduling error may explain in a closed loop.
const CLOSED_SHARE: f64 = 1.0;
/// Observations above a quantile from which on it speaks for the generator.
const FEWEST_ABOVE: f64 = 5.0;
/// Idle time of free slots, as a share of the service time, that makes a load that was not reached the generator's doing.
const TURNAROUND_SHARE: f64 = 0.5;
/// Scheduling errors above this (ms) are held against a run whose latency quantile is at infinity.
const LATE_ABSOLUTE_MS: f64 = 50.0;
/// Busy share of a generator thread from which on a load that was not reached is its own doing.
const EXHAUSTED: f64 = 0.95;
/// Share of failed operations from which on the target failed the run.
const FAILED_SHARE: f64 = 0.5;
/// Failed operations of the last tenth of the measured window, without a good one, that show a target that is gone.
const GONE: u64 = 10;
/// The parameter that says that prompts were made by the server's own tokenizer, so that every count has to agree.
const EXACT_INPUT: &str = "input_tokens_exact";
/// Relative difference of input token counts that is worth a finding.
const INPUT_TOKENS: f64 = 0.1;
/// Busy share of a generator thread from which on it may shape the figures.
const BUSY: f64 = 0.85;
/// Share of content events that may share a read with a later one.
const COALESCED: f64 = 0.05;
/// Change of the leading latency over the measured window, relative to its median, that counts as a trend.
const TREND: f64 = 0.25;

/// All findings of a run, the gravest first.
#[must_use]
pub fn findings(
    plan: &LoadPlan,
    traits: Traits,
    aggregate: &Aggregate,
    document: &RunDocument,
    context: &RunContext,
) -> Vec<Finding> {
    let mut found = Vec::new();
    generator(traits, aggregate, document, &mut found);
    operations(plan, traits, aggregate, document, context, &mut found);
    course(plan, document, &mut found);
    settled(document, &mut found);
    answers(traits, aggregate, document, &mut found);
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

fn generator(traits: Traits, aggregate: &Aggregate, document: &RunDocument, found: &mut Vec<Finding>) {
    if document.simulated {
        found.push(Finding::new(
            FindingCode::Simulated,
            "the target says that it is a simulator",
            "use these figures to try the method, never to choose a product",
        ));
    }
    if let Some(message) = late(traits, document, aggregate.sums.abandoned) {
        found.push(Finding::new(
            FindingCode::GeneratorLate,
            message,
            "the generator fell behind: lower the rate, give it more cores (--shards), or run it on another machine",
        ));
    }
    if let Some(busiest) = document.generator.cpu_busy.first().filter(|busy| **busy > BUSY) {
        found.push(Finding::new(
            FindingCode::GeneratorBusy,
            format!("the busiest generator thread worked {:.0} % of the time", busiest * 100.0),
            "use more shards or another machine for the generator",
        ));
    }
    if let (Some(ceiling), Some(offered)) = (document.generator.loopback_ceiling, document.rates.offered)
        && offered > 0.8 * ceiling
    {
        found.push(Finding::new(
            FindingCode::GeneratorLoopback,
            format!("offered {offered:.0}/s of a loopback ceiling of {ceiling:.0}/s on this machine"),
            "the generator has little headroom: treat saturation here as possibly its own",
        ));
    }
    if document.generator.clock_steps > 0 {
        found.push(Finding::new(
            FindingCode::ClockStep,
            format!("the wall clock stepped {} times", document.generator.clock_steps),
            "hold time synchronisation still during measurements",
        ));
    }
    if !document.generator.kernel_stamps {
        found.push(Finding::new(
            FindingCode::UserStamps,
            "receive times were taken in user space",
            "expect up to a scheduling delay of error; kernel stamps need Linux and TCP",
        ));
    }
    if document.generator.realtime {
        found.push(Finding::new(
            FindingCode::GeneratorRealtime,
            "the machine was crowded: the generator's thread asked for real-time scheduling to keep its schedule",
            "a target on the same machine may have waited for it: measure on a quiet machine, or from another one",
        ));
    }
    if document.generator.events_dropped > 0 {
        found.push(Finding::new(
            FindingCode::EventsDropped,
            format!("{} events did not reach a consumer", document.generator.events_dropped),
            "figures are complete (they are made in the generator); the log of operations is not",
        ));
    }
}

/// How the generator's own lateness explains the figures, if it does.
fn late(traits: Traits, document: &RunDocument, abandoned: u64) -> Option<String> {
    if abandoned > 0 {
        return Some("the schedule had not been walked to its end when drain was over".to_owned());
    }
    let scheduling = document.metrics.get(&MetricId::SchedulingError)?;
    let leading = document.metrics.get(&traits.leading);
    // In a closed loop the generator's own time between answer and next start is part of the loop by design; it is held
    // against the run only when it outweighs the target's.
    let share = if document.rates.offered.is_none() { CLOSED_SHARE } else { LATE_SHARE };
    for statistic in [Statistic::P50, Statistic::P90, Statistic::P99] {
        // A quantile of a few observations is one unlucky moment, not the generator.
        let above = statistic.level().map_or(0.0, |level| (1.0 - level) * scheduling.n as f64);
        if above < FEWEST_ABOVE {
            continue;
        }
        let Some(error) = scheduling.statistic(statistic).filter(|error| *error > LATE_FLOOR_MS) else {
            continue;
        };
        let latency = leading.and_then(|summary| summary.statistic(statistic));
        match latency {
            Some(latency) if error > share * latency => {
                return Some(format!(
                    "scheduling error {statistic} is {error:.3} ms, {:.0} % of the {statistic} of {} ({latency:.3} ms)",
                    100.0 * error / latency.max(1e-9),
                    traits.leading
                ));
            }
            // The latency stands at infinity here: only lateness on a human scale can have caused that.
            None if error > LATE_ABSOLUTE_MS => {
                return Some(format!(
                    "scheduling error {statistic} is {error:.0} ms, and the {statistic} of {} never came",
                    traits.leading
                ));
            }
            _ => {}
        }
    }
    if let (Some(turnaround_us), Some(service)) = (
        document.generator.turnaround_us,
        document.metrics.get(&MetricId::ServiceTime).and_then(|summary| summary.mean),
    ) && document
        .rates
        .offered
        .zip(document.rates.achieved)
        .is_some_and(|(offered, achieved)| achieved < 0.98 * offered)
        && turnaround_us / 1e3 > TURNAROUND_SHARE * service
    {
        return Some(format!(
            "slots that became free stood idle for {turnaround_us:.0} us on average while operations waited, against a service time of {:.0} us: the load was not reached because of the generator",
            service * 1e3
        ));
    }
    let busiest = document.generator.cpu_busy.first().copied().unwrap_or(0.0);
    let (offered, achieved) = (document.rates.offered?, document.rates.achieved?);
    (busiest > EXHAUSTED && achieved < 0.98 * offered).then(|| {
        format!(
            "the busiest generator thread worked {:.0} % of the time and sent {achieved:.0}/s of {offered:.0}/s offered",
            busiest * 100.0
        )
    })
}

fn operations(
    plan: &LoadPlan,
    traits: Traits,
    aggregate: &Aggregate,
    document: &RunDocument,
    context: &RunContext,
    found: &mut Vec<Finding>,
) {
    let counts = &document.counts;
    // A target that never answered may leave no measured window at all: its errors say more than the empty window.
    if counts.intended == 0 && (aggregate.sums.completed_all > 0 || document.errors.is_empty()) {
        found.push(Finding::new(
            FindingCode::NoMeasuredOperations,
            "no operation was intended in the measured window",
            "lengthen --duration or raise the rate",
        ));
    } else if counts.completed == 0 {
        let first = document.errors.first();
        found.push(Finding::new(
            FindingCode::AllFailed,
            match first {
                Some(error) => format!(
                    "all {} operations failed; first: {} ({}, {}): {}",
                    counts.intended.max(aggregate.sums.failed_all),
                    error.kind,
                    error.origin,
                    error.phase,
                    error.message
                ),
                None => format!("none of {} operations ended", counts.intended),
            },
            first.map_or("raise --drain, or lower the load", |error| error.advice.as_str()),
        ));
    } else if let Some(message) = failed_run(document) {
        let own = document
            .errors
            .iter()
            .find(|error| error.measured > 0 && !error.origin.is_beyond_the_generator());
        found.push(match own {
            Some(own) => Finding::new(
                FindingCode::OwnFailures,
                format!("{message}; {} through the {}: {}", own.measured, own.origin, own.message),
                own.advice.as_str(),
            ),
            None => Finding::new(
                FindingCode::TargetFailed,
                message,
                document
                    .errors
                    .first()
                    .map_or("raise --drain, or lower the load", |error| error.advice.as_str()),
            ),
        });
    } else if counts.failed > counts.censored {
        found.push(Finding::new(
            FindingCode::Errors,
            format!("{} of {} operations failed", counts.failed - counts.censored, counts.intended),
            document.errors.first().map_or("see errors", |error| error.advice.as_str()),
        ));
    }
    if counts.censored > 0 {
        found.push(Finding::new(
            FindingCode::Censored,
            format!("{} operations were unfinished at the end of drain", counts.censored),
            "raise --drain, or lower the load: they count as failed",
        ));
    }
    if context.too_many_errors {
        found.push(Finding::new(
            FindingCode::TooManyErrors,
            format!("stopped after {} failures", aggregate.sums.failed_all),
            match plan.max_errors {
                Some(_) => "mend the cause of the first errors, or raise --max-errors",
                None => "a run without a single success is given up after 200 failures: mend the cause of the first errors",
            },
        ));
    }
    if context.interrupted && !context.too_many_errors {
        found.push(Finding::new(
            FindingCode::Interrupted,
            format!("the measured window ended after {:.1} s", document.phases.measured_seconds()),
            "figures cover what was measured; run again for the full length",
        ));
    }
    if let (Some(offered), Some(achieved)) = (document.rates.offered, document.rates.achieved)
        && achieved < 0.98 * offered
        && counts.failed == counts.censored
        && counts.intended >= 50
    {
        found.push(Finding::new(
            FindingCode::LoadNotReached,
            format!("sent {achieved:.1}/s of {offered:.1}/s offered"),
            "operations waited for a slot: raise --connections, or the target cannot take more",
        ));
    }
    if aggregate.sums.limited > 0 && plan.max_in_flight.is_some() {
        found.push(Finding::new(
            FindingCode::InFlightLimit,
            "operations waited because --max-in-flight was reached",
            "their waiting is part of every latency from the intended start; raise the limit to offer the load fully",
        ));
    }
    if aggregate.sums.retried > 0 || context.reconnects > 0 {
        found.push(Finding::new(
            FindingCode::Reconnects,
            format!(
                "{} connections were opened again, {} operations were sent again on a fresh one",
                context.reconnects, aggregate.sums.retried
            ),
            "the target closes connections; the cost of opening them is in `connect` and in latencies from the intended start",
        ));
    }
    for slo in document.slo.iter().filter(|slo| slo.outcome == Outcome::Undetermined) {
        if let Some(needs) = slo.needs {
            let has = slo_effective(slo.slo.as_str(), document);
            if has.is_some_and(|has| has < needs as f64) {
                found.push(Finding::new(
                    FindingCode::SampleTooSmall,
                    format!(
                        "`{}` needs {needs} effective samples, this run has {:.0}",
                        slo.slo,
                        has.unwrap_or(0.0)
                    ),
                    "run longer, or repeat and decide over the runs",
                ));
            }
        }
    }
    if traits.family == Family::Queue {
        queue(document, found);
    }
    if let (Some(hits), Some(lookups)) = (counts.hits, counts.lookups)
        && hits < lookups
    {
        found.push(Finding::new(
            FindingCode::MissesUnexpected,
            format!("{} of {lookups} lookups missed", lookups - hits),
            "eviction, expiry or a preload that did not finish: misses are cheaper than hits",
        ));
    }
}

/// How the run failed, if it did: most operations failed, or none ended well in the last tenth of the window.
fn failed_run(document: &RunDocument) -> Option<String> {
    let counts = &document.counts;
    let share = counts.failed as f64 / counts.intended.max(1) as f64;
    if share >= FAILED_SHARE {
        return Some(format!(
            "{} of {} operations failed ({:.0} %)",
            counts.failed,
            counts.intended,
            share * 100.0
        ));
    }
    let last = document.blocks.len().saturating_sub((document.blocks.len() / 10).max(1));
    let tail = &document.blocks[last..];
    let sum = |of: fn(&touchstone_model::run::Block) -> u64| tail.iter().map(of).sum::<u64>();
    let (intended, failed) = (sum(|block| block.intended), sum(|block| block.failed));
    (failed >= GONE && failed == intended)
        .then(|| format!("none of the last {intended} operations of the measured window ended well"))
}

fn slo_effective(slo: &str, document: &RunDocument) -> Option<f64> {
    let (metric, _) = slo.split_once('.')?;
    document.metrics.get(&metric.parse::<MetricId>().ok()?).map(|summary| summary.n_effective)
}

fn queue(document: &RunDocument, found: &mut Vec<Finding>) {
    let counts = &document.counts;
    let cases = [
        (FindingCode::MessagesLost, counts.lost, "were published and never received"),
        (FindingCode::MessagesDuplicated, counts.duplicated, "were received again"),
        (FindingCode::MessagesReordered, counts.reordered, "came after a later one of their producer"),
    ];
    for (code, count, what) in cases {
        if let Some(count) = count.filter(|count| *count > 0) {
            found.push(Finding::new(
                code,
                format!("{count} messages {what}"),
                "check the delivery class that is needed against the one that is configured",
            ));
        }
    }
}

/// A transient that reaches into the measured window. Where the backlog grows there is no steady state to reach.
fn settled(document: &RunDocument, found: &mut Vec<Finding>) {
    let told = |code| found.iter().any(|finding: &Finding| finding.code == code);
    if told(FindingCode::BacklogGrowing) || told(FindingCode::Trend) {
        return;
    }
    if let Some(transient) = crate::steady::transient(document) {
        found.push(Finding::new(
            FindingCode::NotSteady,
            format!(
                "the first {:.1} s of the measured window are a transient: median latency {:.2} ms there, {:.2} ms after it",
                transient.until_s, transient.within_ms, transient.after_ms
            ),
            "lengthen --warm-up, or let it end by itself with --warm-up auto",
        ));
    }
}

/// Backlog and trend over the measured windows.
fn course(plan: &LoadPlan, document: &RunDocument, found: &mut Vec<Finding>) {
    let start = document.phases.start_ns;
    let seconds = |ns: u64| ns.saturating_sub(start) as f64 / 1e9;
    let (from, to) = (seconds(document.phases.measured_from_ns), seconds(document.phases.measured_to_ns));
    let measured: Vec<_> = document
        .windows
        .iter()
        .filter(|window| window.from_s >= from - 1e-9 && window.to_s <= to + 1e-9)
        .collect();
    if measured.len() < 8 {
        return;
    }
    let middle = |window: &&touchstone_model::run::Window| f64::midpoint(window.from_s, window.to_s);
    let xs: Vec<f64> = measured.iter().map(middle).collect();
    if let (Some(offered), Some(throughput)) = (document.rates.offered, document.rates.throughput) {
        let backlog: Vec<f64> = measured.iter().map(|window| window.in_flight as f64).collect();
        if let Some(slope) = slope_interval(&xs, &backlog, plan.confidence)
            && slope.lower > 0.0
            && throughput < 0.98 * offered
        {
            found.push(Finding::new(
                FindingCode::BacklogGrowing,
                format!(
                    "the backlog grows by {:.2} operations per second (95 % interval {:.2} to {:.2}); {:.1}/s offered, {:.1}/s completed",
                    slope.slope, slope.lower, slope.upper, offered, throughput
                ),
                "the load is above saturation: latency depends on how long the run lasts; lower the load to compare latencies",
            ));
        }
    }
    if !plan.arrival.is_stationary() {
        // A load that changes on purpose has a course on purpose: the stages tell it.
        return;
    }
    let points: Vec<(f64, f64)> =
        measured.iter().filter_map(|window| Some((middle(window), window.latency_p50?))).collect();
    if points.len() >= 8 {
        let (xs, ys): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
        let median = touchstone_stats::quantile::quantile(&ys, 0.5).unwrap_or(0.0);
        if let Some(slope) = slope_interval(&xs, &ys, 0.99) {
            let change = slope.slope * (to - from);
            if (slope.lower > 0.0 || slope.upper < 0.0) && change.abs() > TREND * median {
                found.push(Finding::new(
                    FindingCode::Trend,
                    format!("the median latency changes by {change:+.2} ms over the measured window (median {median:.2} ms)"),
                    "this is no steady state: lengthen --warm-up, or look for what changes",
                ));
            }
        }
    }
}

fn answers(traits: Traits, aggregate: &Aggregate, document: &RunDocument, found: &mut Vec<Finding>) {
    if traits.family != Family::Inference {
        return;
    }
    let sums = &aggregate.sums;
    if sums.empty_answers > 0 {
        found.push(Finding::new(
            FindingCode::EmptyAnswers,
            format!("{} of {} answers held no content", sums.empty_answers, sums.completed),
            "an answer without content is no answer: check model, prompt and max_tokens",
        ));
    }
    if sums.wrong_tokens > 0 {
        found.push(Finding::new(
            FindingCode::TokenCount,
            format!(
                "{} of {} answers have another number of output tokens than was asked for",
                sums.wrong_tokens, sums.completed
            ),
            "the server ends early or ignores ignore_eos: compare candidates at equal token counts only",
        ));
    }
    if let Some(counted) = document.counts.input_tokens
        && sums.input_asked > 0
    {
        let mean = counted as f64 / sums.completed as f64;
        let asked = sums.asked_input as f64 / sums.input_asked as f64;
        let exact = document.workload.parameters.get(EXACT_INPUT).and_then(serde_json::Value::as_bool);
        if exact == Some(true) && sums.wrong_input > 0 {
            found.push(Finding::new(
                FindingCode::InputTokenCount,
                format!(
                    "{} of {} prompts have another number of tokens by the server's count than asked for; on average {mean:.1} instead of {asked:.1}",
                    sums.wrong_input, sums.input_asked
                ),
                "the server does not cut every prompt as the tokenizer does: check --tokenizer against the model that is served, and its limit on prompts",
            ));
        } else if (mean / asked - 1.0).abs() > INPUT_TOKENS {
            found.push(Finding::new(
                FindingCode::InputTokenCount,
                format!("{asked:.0} input tokens were asked for on average, the server counts {mean:.0}"),
                "its tokenizer or chat template makes other tokens of the words: `--fit-tokens` corrects the prompts; compare candidates at equal counts only",
            ));
        }
    }
    if sums.output_unknown == 0 && sums.chunk_tokens_unknown > 0 {
        found.push(Finding::new(
            FindingCode::TokensUnknown,
            format!(
                "{} of {} answers do not tell the tokens of each chunk",
                sums.chunk_tokens_unknown, sums.completed
            ),
            "itl and tpot are null for this run; icl has the gaps between chunks",
        ));
    }
    if sums.contradicted > 0 {
        found.push(Finding::new(
            FindingCode::UsageContradiction,
            format!(
                "{} of {} answers are said to have fewer output tokens than content came",
                sums.contradicted, sums.completed
            ),
            "the server's counts cannot be right: itl, tpot, ntpot and token throughput are null; icl and the latencies stand",
        ));
    }
    let untold = sums.output_unknown - sums.contradicted;
    if sums.completed > 0 && untold > 0 {
        found.push(Finding::new(
            FindingCode::TokensUnknown,
            format!("{untold} of {} answers told no token counts", sums.completed),
            "token metrics (itl, tpot, output_token_throughput) are null for this run",
        ));
    }
    if let Some(share) = document.generator.coalesced_share.filter(|share| *share > COALESCED) {
        found.push(Finding::new(
            FindingCode::ItlCoalesced,
            format!("{:.1} % of content events arrived in one read with a later one", share * 100.0),
            "their instants are upper bounds: the server, a proxy or the network bundles chunks",
        ));
    }
}
