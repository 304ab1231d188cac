//! The sweep document: a set of runs over one parameter, what each showed, and where the limits lie.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::level::Level;
use crate::metric::MetricId;
use crate::run::{Outcome, TargetDescription};
use crate::unit::Unit;

/// The format of sweep documents that this version writes.
pub const FORMAT: &str = "touchstone.sweep/1";

/// What is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Offered load, per second, open loop.
    OfferedLoad,
    /// Operations in flight, closed loop.
    Concurrency,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Everything that was looked for was found to the resolution asked for, or cannot be.
    Complete,
    /// The time budget was used up.
    Budget,
    /// The greatest number of probes was made.
    Probes,
    /// A person ended it.
    Interrupted,
    /// It is still going on, or was killed.
    Running,
}

/// A search over one parameter, as a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepDocument {
    /// The format, `touchstone.sweep/1`.
    pub format: String,
    /// The id of the sweep.
    pub sweep: String,
    /// Start, UTC, RFC 3339.
    pub started_at: String,
    /// The version of touchstone.
    pub touchstone_version: String,
    /// What was loaded.
    pub target: TargetDescription,
    /// How far it can be trusted: that of its weakest run.
    pub level: Level,
    /// Whether the target was a simulator: then no figure is a measurement of a product.
    pub simulated: bool,
    /// What was varied.
    pub axis: Axis,
    /// How it was done.
    pub settings: SweepSettings,
    /// What was looked for, with what was found.
    pub estimates: BTreeMap<MetricId, Estimate>,
    /// The curve: every probe, in the order in which they were made.
    pub probes: Vec<Probe>,
    /// The greatest throughput and what happens beyond it; null when nothing was measured.
    pub shape: Option<Shape>,
    /// How the search ended.
    pub ended: Ending,
    /// Time used, s.
    pub spent_s: f64,
    /// What is wrong or noteworthy about the search as a whole; each run has its own.
    pub findings: Vec<Finding>,
}

/// How a search was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepSettings {
    /// The arrival process that was scaled: `poisson`, `constant` or `closed`.
    pub process: String,
    /// The first level.
    pub from: f64,
    /// The greatest level that may be tried.
    pub at_most: f64,
    /// The search ends when the least failing level is at most this ratio above the greatest passing one.
    pub resolution: f64,
    /// Times that a level which is not decided is looked at, each time twice as long.
    pub looks: u32,
    /// Confidence of each decision about a level, one-sided.
    pub confidence: f64,
    /// Measured window of a first look, s.
    pub probe_s: f64,
    /// Warm-up of each probe, s.
    pub warm_up_s: f64,
    /// Greatest drain of each probe, s.
    pub drain_s: f64,
    /// Time that may be used, s; null without a limit.
    pub budget_s: Option<f64>,
    /// Seed of the first probe; each further one has the next, so that no prompt comes twice.
    pub seed: u64,
    /// The limits of `slo_capacity`.
    pub slo: Vec<String>,
}

/// A limit that was found, with its interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The greatest (or, for `spike_threshold`, least) level that has the property by its definition; null when none.
    pub value: Option<f64>,
    /// The greatest level that was shown to be below the limit; null when none was.
    pub lower: Option<f64>,
    /// The least level that was shown to be above the limit; null when none was.
    pub upper: Option<f64>,
    /// The unit of all three.
    pub unit: Unit,
    /// Confidence of each end, one-sided.
    pub confidence: f64,
    /// How it ended, in one sentence.
    pub reason: String,
}

/// The shape of the curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shape {
    /// The greatest throughput of any valid probe, per second.
    pub peak_throughput: f64,
    /// The level at which it was seen.
    pub peak_level: f64,
    /// The greatest level at which the leading p95 is at most twice that of the lowest level; null when unknown.
    pub knee: Option<f64>,
    /// The level above the peak at which throughput falls furthest below it, where it falls below 0.9 of it.
    pub collapse_level: Option<f64>,
    /// The throughput there.
    pub collapse_throughput: Option<f64>,
}

/// One run of a search, with what it says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// The id of the run.
    pub run: String,
    /// What was asked for: operations per second, or operations in flight.
    pub level: f64,
    /// Which look at this level, from 1.
    pub look: u32,
    /// Length of the measured window as it was, s.
    pub seconds: f64,
    /// Realised offered load, per second; null in a closed loop.
    pub offered: Option<f64>,
    /// Completions per second.
    pub throughput: Option<f64>,
    /// Operations within every limit, per second; null without limits.
    pub goodput: Option<f64>,
    /// Failed share of the operations intended.
    pub failed: f64,
    /// The leading latency.
    pub leading: Option<MetricId>,
    /// Its median, ms.
    pub p50: Option<f64>,
    /// Its 95th percentile, ms.
    pub p95: Option<f64>,
    /// Its 99th percentile, ms.
    pub p99: Option<f64>,
    /// Median gap between tokens, ms (`itl`; `icl` where tokens per chunk are unknown).
    pub gap_p50: Option<f64>,
    /// Its 99th percentile, ms, with its bounds.
    pub gap_p99: Option<Bounded>,
    /// Growth of the backlog, operations per second, with its two-sided interval; null in a closed loop.
    pub backlog_slope: Option<Bounded>,
    /// Whether the load is sustained: the backlog does not grow and throughput is at least 0.98 of the realised load.
    pub sustained: Verdict,
    /// Each limit with what the probe says of it.
    pub slo: Vec<ProbeSlo>,
    /// Whether the probe was ended early because the load was clearly above saturation.
    pub stopped_early: bool,
    /// Whether its run is valid; invalid probes decide nothing.
    pub valid: bool,
    /// What was remarkable, in words; null when nothing was.
    pub note: Option<String>,
}

/// What a probe says of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// By the definition, on the figures as they are.
    pub holds: bool,
    /// Whether that is beyond chance: pass, fail, or undetermined.
    pub outcome: Outcome,
}

/// A figure with its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounded {
    /// The figure.
    pub value: f64,
    /// Lower bound; null when it cannot be said.
    pub lower: Option<f64>,
    /// Upper bound; null when it cannot be said.
    pub upper: Option<f64>,
}

/// What a probe says of a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeSlo {
    /// The limit, as written.
    pub slo: String,
    /// The outcome in this run alone.
    pub outcome: Outcome,
    /// The figure.
    pub value: Option<f64>,
    /// Share of operations that must keep the limit for it to hold; null for limits on rates.
    pub needs_share: Option<f64>,
    /// Share of operations that keep it.
    pub share: Option<f64>,
    /// Effective number of operations behind the share.
    pub n_effective: Option<f64>,
}
