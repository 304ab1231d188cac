//! What `search` was asked to do, checked as a whole.

use std::time::Duration;

use clap::Args;
use touchstone_flow::search::Process;
use touchstone_load::search::{Goal, SearchPlan};
use touchstone_model::Arrival;
use touchstone_model::unit::Millis;

use super::raw::BenchFlags;
use super::{BenchArgs, Folder, values};
use crate::failure::Failure;

const SEARCH: &str = "Search";
/// The first offered load when no `--arrival` says it, per second.
const FROM: f64 = 1.0;
/// The greatest level on this machine when `--at-most` does not say it.
const AT_MOST: f64 = 100_000.0;
/// The greatest concurrency when neither `--arrival` nor `--at-most` says it.
const AT_MOST_IN_FLIGHT: f64 = 256.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum GoalName {
    /// Greatest offered load that is sustained
    SaturationPoint,
    /// Greatest offered load at which every --slo holds
    SloCapacity,
    /// Least concurrency at which the p99 of gaps between tokens doubles
    SpikeThreshold,
}

#[derive(Debug, Args)]
pub(super) struct SearchFlags {
    /// What to look for; repeatable [default: saturation-point, with --slo also slo-capacity; spike-threshold with
    /// --arrival closed:N]
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',', help_heading = SEARCH)]
    pub(super) find: Vec<GoalName>,
    /// Greatest level that may be tried: per second, or in flight [default: 100000; with closed:N that N]
    #[arg(long, value_name = "N", value_parser = values::positive, help_heading = SEARCH)]
    pub(super) at_most: Option<f64>,
    /// Distance between levels that is worth telling apart
    #[arg(long, value_name = "SHARE", value_parser = values::share, default_value = "5%", help_heading = SEARCH)]
    pub(super) resolution: f64,
    /// Looks at a level that chance leaves open, each twice as long
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8), default_value = "3", help_heading = SEARCH)]
    pub(super) looks: u32,
    /// Probes at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), default_value = "60", help_heading = SEARCH)]
    pub(super) probes: u32,
    /// Time that the search may take; it ends before a probe that would go beyond it
    #[arg(long, value_name = "DURATION", value_parser = values::length, help_heading = SEARCH)]
    pub(super) budget: Option<Millis>,
    #[command(flatten)]
    pub(super) bench: BenchFlags,
}

/// What `search` was asked to do.
#[derive(Debug)]
pub(crate) struct SearchArgs {
    /// A probe.
    pub(crate) bench: BenchArgs,
    /// How to search.
    pub(crate) plan: SearchPlan,
    /// What is scaled.
    pub(crate) process: Process,
    /// Time that may be used.
    pub(crate) budget: Option<Duration>,
}

impl SearchArgs {
    pub(super) fn from_flags(flags: SearchFlags, out: Folder) -> Result<Self, Failure> {
        let given = flags.bench.arrival.is_some();
        let remote = flags.bench.target.0.as_ref().is_ok_and(|target| !target.is_loopback());
        if flags.bench.requests.is_some() {
            return Err(Failure::usage("`--requests` does not go with a search")
                .hint("the length of a probe is `--duration`"));
        }
        if !flags.bench.class.is_empty() {
            return Err(Failure::usage("`--class` does not go with a search")
                .hint("a search scales one arrival process"));
        }
        if let Some(given) = flags.bench.series.given() {
            return Err(Failure::usage(format!("`{given}` does not go with a search"))
                .hint("a search makes its own series of runs"));
        }
        let find_spike = flags.find.contains(&GoalName::SpikeThreshold);
        let mut bench = BenchArgs::from_flags(flags.bench, out)?;
        if !given {
            bench.arrival = if find_spike {
                Arrival::Closed { slots: AT_MOST_IN_FLIGHT as u32 }
            } else {
                Arrival::Poisson { per_second: FROM }
            };
        }
        if bench.warm_up_auto.is_some() {
            return Err(Failure::usage("`--warm-up auto` does not go with a search")
                .hint("each probe has a warm-up of its own; give its length"));
        }
        let Some(process) = Process::of(&bench.arrival) else {
            return Err(Failure::usage(format!("`{}` cannot be scaled by one number", bench.arrival))
                .hint("search with poisson:FROM/s, constant:FROM/s or closed:GREATEST"));
        };
        let closed = process == Process::Closed;
        if remote && !closed && flags.at_most.is_none() {
            return Err(Failure::usage(
                "the target is not on this machine, so the greatest load must be stated; missing: `--at-most`",
            )
            .hint("say how many operations per second it may get, as in `--at-most 200`"));
        }
        let goals = goals(&flags.find, closed, !bench.slos.is_empty())?;
        let (from, greatest) = match bench.arrival {
            Arrival::Closed { slots } => (1.0, f64::from(slots)),
            _ => (bench.arrival.per_second().unwrap_or(FROM), AT_MOST),
        };
        let at_most = flags.at_most.unwrap_or(greatest);
        if at_most < from {
            return Err(Failure::usage(format!("`--at-most {at_most}` is below the first level, {from}")));
        }
        let plan = SearchPlan {
            goals,
            from,
            at_most: if closed { at_most.floor() } else { at_most },
            resolution: flags.resolution.max(0.001),
            looks: flags.looks,
            confidence: bench.confidence,
            probes: flags.probes as usize,
            whole: closed,
        };
        let budget = flags.budget.map(values::std_duration);
        Ok(Self { bench, plan, process, budget })
    }
}

fn goals(find: &[GoalName], closed: bool, limits: bool) -> Result<Vec<Goal>, Failure> {
    let default = match (closed, limits) {
        (true, _) => vec![GoalName::SpikeThreshold],
        (false, true) => vec![GoalName::SaturationPoint, GoalName::SloCapacity],
        (false, false) => vec![GoalName::SaturationPoint],
    };
    let wanted = if find.is_empty() { &default } else { find };
    let mut goals = Vec::new();
    for name in wanted {
        let (goal, fits) = match name {
            GoalName::SaturationPoint => (Goal::Saturation, !closed),
            GoalName::SloCapacity => (Goal::SloCapacity, !closed),
            GoalName::SpikeThreshold => (Goal::Spike, closed),
        };
        if !fits {
            return Err(Failure::usage(format!(
                "`{}` needs {}",
                goal.metric(),
                if closed { "an open loop" } else { "a closed loop" }
            ))
            .hint("open loops are poisson:FROM/s and constant:FROM/s, a closed one is closed:GREATEST"));
        }
        if goal == Goal::SloCapacity && !limits {
            return Err(Failure::usage("`slo_capacity` needs at least one `--slo`")
                .hint("as in `--slo 'ttft.p95<=200ms'`"));
        }
        if !goals.contains(&goal) {
            goals.push(goal);
        }
    }
    Ok(goals)
}
