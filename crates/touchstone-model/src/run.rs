//! The run document: what `touchstone bench --json -` prints and what evidence is made of.
//!
//! Latency, failures and goodput are *cohorts* (operations intended in the measured window); rates are *flows* (events
//! whose own instant lies in it). What was not measured is null, never 0.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::failure::{Origin, Phase};
use crate::finding::{Finding, Severity};
use crate::level::Level;
use crate::metric::{MetricId, Statistic};
use crate::server::ServerSection;
use crate::unit::Unit;

/// The format of run documents that this version writes.
pub const FORMAT: &str = "touchstone.run/1";

/// One measured execution, as a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunDocument {
    /// The format, `touchstone.run/1`.
    pub format: String,
    /// The id of the run.
    pub run: String,
    /// How far it can be trusted.
    pub level: Level,
    /// Whether the target was a simulator: then no figure is a measurement of a product.
    pub simulated: bool,
    /// Whether the figures say something about the target; see `findings` when not.
    pub valid: bool,
    /// Whether the run was ended before its time.
    pub interrupted: bool,
    /// Start, UTC, RFC 3339.
    pub started_at: String,
    /// The version of touchstone.
    pub touchstone_version: String,
    /// What was loaded.
    pub target: TargetDescription,
    /// With what.
    pub workload: WorkloadDescription,
    /// The phases, in ns of CLOCK_MONOTONIC of the generator's host.
    pub phases: Phases,
    /// Distributions, by metric id.
    pub metrics: BTreeMap<MetricId, MetricSummary>,
    /// Rates, as flows.
    pub rates: Rates,
    /// Numbers of operations.
    pub counts: Counts,
    /// Failures, grouped.
    pub errors: Vec<ErrorGroup>,
    /// What is wrong or noteworthy.
    pub findings: Vec<Finding>,
    /// The generator's certificate.
    pub generator: Certificate,
    /// The SLO limits that were asked for, with their outcome.
    pub slo: Vec<SloOutcome>,
    /// The course of the run.
    pub windows: Vec<Window>,
    /// Histograms of the measured cohort per block of time, from which draws are made.
    pub blocks: Vec<Block>,
    /// The parts of the measured window in which the load was different on purpose: levels of a staircase, equal parts of a
    /// ramp or a wave. Empty where the load is the same throughout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// Digest (sha256:...) of the environment fingerprint stored beside the run; null when not stored.
    pub fingerprint: Option<String>,
    /// Where the run became steady; null when it has too few windows with a latency to say.
    #[serde(default)]
    pub steady: Option<Steady>,
    /// What was seen inside the target; absent when nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Box<ServerSection>>,
}

/// Where a run became steady, warm-up included. Times are relative to the start of warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steady {
    /// From here on it is steady, s; null when it never is.
    pub from_s: Option<f64>,
    /// End of the transient of the leading latency's median, by MSER-5, s.
    pub latency_cut_s: f64,
    /// Whether what follows that cut is stationary.
    pub latency_steady: bool,
    /// End of the transient of the operations in flight, by MSER-5, s.
    pub backlog_cut_s: f64,
    /// Whether what follows that cut is stationary.
    pub backlog_steady: bool,
}

/// What was loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetDescription {
    /// `protocol=address` without credentials.
    pub target: String,
    /// The product as it names itself; null when it does not.
    pub product: Option<String>,
    /// The version as it names itself; null when it does not.
    pub version: Option<String>,
    /// The model that was asked for.
    pub model: Option<String>,
}

/// With what it was loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadDescription {
    /// The arrival process, as written.
    pub arrival: String,
    /// The seed of schedule and payloads.
    pub seed: u64,
    /// sha256 of the schedule of intended starts; equal for equal seed and arrival, whatever the number of shards.
    pub schedule_digest: String,
    /// Further parameters by name, with units in the name (`input_tokens`, `message_bytes`, ...).
    pub parameters: BTreeMap<String, serde_json::Value>,
}

/// The phases of a run in ns of CLOCK_MONOTONIC; operations are `measured` when their intended start lies in
/// `[measured_from_ns, measured_to_ns)`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Phases {
    /// Start of warm-up.
    pub start_ns: u64,
    /// Start of the measured window.
    pub measured_from_ns: u64,
    /// End of the measured window.
    pub measured_to_ns: u64,
    /// End of drain: nothing is waited for any longer.
    pub end_ns: u64,
}

impl Phases {
    /// Length of the measured window in seconds.
    #[must_use]
    pub fn measured_seconds(&self) -> f64 {
        self.measured_to_ns.saturating_sub(self.measured_from_ns) as f64 / 1e9
    }
}

/// A distribution over the measured cohort, in the metric's canonical unit. Failed operations count as +infinity:
/// a quantile that falls among them is null and `censored` says how many there are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricSummary {
    /// The unit of all values.
    pub unit: Unit,
    /// Observations, with the censored ones.
    pub n: u64,
    /// Effective number of independent observations.
    pub n_effective: f64,
    /// Operations of the cohort that never reached the event; +infinity in quantiles.
    pub censored: u64,
    /// Mean of the observed ones.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Greatest observed value.
    pub max: Option<f64>,
    /// One-sided bounds of the quantiles, by statistic.
    pub bounds: BTreeMap<Statistic, Bound>,
}

impl MetricSummary {
    /// The value of a statistic.
    #[must_use]
    pub fn statistic(&self, statistic: Statistic) -> Option<f64> {
        match statistic {
            Statistic::Mean => self.mean,
            Statistic::P50 => self.p50,
            Statistic::P90 => self.p90,
            Statistic::P95 => self.p95,
            Statistic::P99 => self.p99,
            Statistic::P999 => self.p999,
            Statistic::Max => self.max,
        }
    }
}

/// One-sided confidence bounds of a quantile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bound {
    /// The quantile is at least this; null when it cannot be said.
    pub lower: Option<f64>,
    /// The quantile is at most this; null when it cannot be said (too few samples, or censored).
    pub upper: Option<f64>,
    /// The confidence of each side.
    pub confidence: f64,
    /// Effective samples that an upper bound needs at least.
    pub needs: u64,
}

/// Rates as flows over the measured window, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Intended starts; null in a closed loop.
    pub offered: Option<f64>,
    /// Sends; null when nothing was measured.
    pub achieved: Option<f64>,
    /// Completions without failure; null when nothing was measured.
    pub throughput: Option<f64>,
    /// Operations of the cohort that meet every SLO limit; null when no limit was given.
    pub goodput: Option<f64>,
    /// Output tokens; null where unknown.
    pub output_tokens: Option<f64>,
}

/// Numbers of operations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Intended in the measured window (the cohort).
    pub intended: u64,
    /// Of the cohort: sent.
    pub sent: u64,
    /// Of the cohort: completed well.
    pub completed: u64,
    /// Of the cohort: failed, with the censored ones.
    pub failed: u64,
    /// Of the cohort: unfinished at the end of drain.
    pub censored: u64,
    /// Of the cohort: met every SLO limit; null when none was given.
    pub good: Option<u64>,
    /// Intended in warm-up.
    pub warm_up: u64,
    /// Output tokens of the cohort; null where unknown.
    pub output_tokens: Option<u64>,
    /// Input tokens of the cohort as the server counted them; null where unknown.
    pub input_tokens: Option<u64>,
    /// Of these, found in a prefix cache, where every answer told; null where unknown.
    #[serde(default)]
    pub cached_input_tokens: Option<u64>,
    /// Content events received for the cohort.
    pub content_events: u64,
    /// Queue: messages of the cohort received.
    pub received: Option<u64>,
    /// Queue: sent in the whole run and never received, from sequence numbers.
    pub lost: Option<u64>,
    /// Queue: received again, in the whole run.
    pub duplicated: Option<u64>,
    /// Queue: received after a later one of the same producer, in the whole run.
    pub reordered: Option<u64>,
    /// Cache: lookups.
    pub lookups: Option<u64>,
    /// Cache: lookups that found a value.
    pub hits: Option<u64>,
    /// Connections opened.
    pub connections: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
}

/// Failures of the same kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorGroup {
    /// Who caused it.
    pub origin: Origin,
    /// At which point.
    pub phase: Phase,
    /// A short, stable name of the kind: `refused`, `http-500`, `timeout-first`, ...
    pub kind: String,
    /// The first message seen, shortened, without secrets.
    pub message: String,
    /// What to do about it.
    pub advice: String,
    /// How many operations of the whole run failed in this way.
    pub count: u64,
    /// How many of them belong to the measured cohort.
    pub measured: u64,
}

/// What the generator knows about its own part in the figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Certificate {
    /// Threads that send and receive.
    pub shards: u32,
    /// Whether receive times come from the kernel.
    pub kernel_stamps: bool,
    /// Share of content events whose read held an earlier one too.
    pub coalesced_share: Option<f64>,
    /// Quantiles of dispatch - intended start over the cohort, ms. In a closed loop it is what the generator took from
    /// an answer to the next start.
    pub scheduling_error_ms: Option<SchedulingError>,
    /// Share of the time that the generator's threads did not wait, per thread, busiest first.
    pub cpu_busy: Vec<f64>,
    /// Time in which the threads did not wait, per operation, us.
    pub cpu_us_per_operation: Option<f64>,
    /// Mean time from a slot that became free to the next operation on it while one waited, us; null when none waited.
    /// It is the generator's doing, though it shows as `slot_wait`.
    pub turnaround_us: Option<f64>,
    /// Operations per second that the generator reaches against a loopback sink of the same payload; null when not
    /// probed.
    pub loopback_ceiling: Option<f64>,
    /// Whether the machine was so crowded that a thread asked for real-time scheduling, and got it; a target on the same
    /// machine may have waited for it.
    pub realtime: bool,
    /// Steps of the wall clock that were seen.
    pub clock_steps: u64,
    /// Events that a slow consumer lost.
    pub events_dropped: u64,
}

/// Quantiles of the scheduling error in ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SchedulingError {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Greatest.
    pub max: f64,
}

/// A limit that was asked for, with its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SloOutcome {
    /// The limit as written, normalised.
    pub slo: String,
    /// Whether it holds, by the bound at `confidence`.
    pub outcome: Outcome,
    /// The value; null when there is none.
    pub value: Option<f64>,
    /// Lower bound.
    pub lower: Option<f64>,
    /// Upper bound.
    pub upper: Option<f64>,
    /// Effective samples that a decision needs at least; null where bounds are not from samples.
    pub needs: Option<u64>,
    /// Share of the cohort that meets the limit as an operation limit; null for limits on rates.
    pub share: Option<f64>,
}

/// The outcome of a statistical gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The bound on the unfavourable side keeps the limit.
    Pass,
    /// The bound on the favourable side breaks the limit.
    Fail,
    /// Neither can be said with the confidence asked for.
    Undetermined,
}

impl Outcome {
    /// The name in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Pass => "pass",
            Outcome::Fail => "fail",
            Outcome::Undetermined => "undetermined",
        }
    }
}

/// A second (or longer, when the run is long) in the course of the run; times are relative to the start of warm-up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Start, s.
    pub from_s: f64,
    /// End, s.
    pub to_s: f64,
    /// Operations intended in it.
    pub offered: u64,
    /// Sends in it.
    pub sent: u64,
    /// Completions in it.
    pub completed: u64,
    /// Failures in it.
    pub failed: u64,
    /// Output tokens in it.
    pub output_tokens: u64,
    /// Operations in flight at its end (intended and not ended: the backlog).
    pub in_flight: u64,
    /// Quantiles of the leading latency (ttft, e2e or end_to_end_latency) of what completed in it, ms.
    pub latency_p50: Option<f64>,
    /// 99th percentile.
    pub latency_p99: Option<f64>,
    /// Median of icl in it, ms.
    pub icl_p50: Option<f64>,
    /// 99th percentile of icl in it, ms.
    pub icl_p99: Option<f64>,
}

/// A part of the measured window with a load of its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// Start, s from the start of the measured window.
    pub from_s: f64,
    /// End, s from the start of the measured window.
    pub to_s: f64,
    /// Intended starts per second as planned; null where the plan's rate changes within the stage.
    pub planned: Option<f64>,
    /// Whether it lies on the way back down: a level may differ from the one before by what the target kept of the load.
    pub returning: bool,
    /// Operations intended in it.
    pub intended: u64,
    /// Of these, failed or censored.
    pub failed: u64,
    /// Intended starts per second.
    pub offered: f64,
    /// Completions per second whose instant lies in it.
    pub throughput: f64,
    /// Operations intended in it that met every SLO limit, per second; null when none was given.
    pub goodput: Option<f64>,
    /// The leading latency of the operations intended in it.
    pub latency: Option<MetricSummary>,
}

/// A block of the measured window: sparse histograms of the operations that were intended in it, by metric. Blocks are
/// the unit that is resampled, because operations next to each other are not independent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Block {
    /// Length, s.
    pub seconds: f64,
    /// Operations intended in it.
    pub intended: u64,
    /// Of these, failed or censored.
    pub failed: u64,
    /// Completions whose instant lies in it (flow).
    pub completed_flow: u64,
    /// Output tokens whose instant lies in it (flow).
    pub output_tokens_flow: u64,
    /// Of the intended: met every SLO limit.
    pub good: u64,
    /// Histograms of values in ns: (bucket, count) pairs of touchstone-stats' log-linear layout.
    pub histograms: BTreeMap<MetricId, SparseHistogram>,
}

/// A log-linear histogram of ns values as (bucket, count) pairs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SparseHistogram {
    /// Pairs of bucket index and count, ascending.
    pub buckets: Vec<(u32, u64)>,
    /// Observations at +infinity.
    pub censored: u64,
    /// Smallest value, ns.
    pub min: u64,
    /// Greatest value, ns.
    pub max: u64,
    /// Sum of the values, ns, as decimal text (it may exceed 2^64).
    pub sum: String,
}

impl RunDocument {
    /// The greatest severity among the findings.
    #[must_use]
    pub fn worst_finding(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}
