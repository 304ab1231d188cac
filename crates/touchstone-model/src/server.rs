//! What was seen inside the target during a run: its own metrics, its process, its devices, and how they agree with what
//! the client saw.
//!
//! Everything here is about one window: from the reading before the first operation to the reading after drain, warm-up
//! included on both sides. What could not be read carries the reason.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metric::Statistic;
use crate::unit::Unit;

macro_rules! server_metrics {
    ($($variant:ident, $id:literal, $unit:ident, $meaning:literal;)+) => {
        /// What servers report about themselves, under one name for all engines.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum ServerMetric {
            $(#[doc = $meaning] #[serde(rename = $id)] $variant,)+
        }

        impl ServerMetric {
            /// Every one, in the order of tables.
            pub const ALL: &'static [ServerMetric] = &[$(ServerMetric::$variant),+];

            /// The name in files.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(ServerMetric::$variant => $id),+ }
            }

            /// The unit of its values.
            #[must_use]
            pub fn unit(self) -> Unit {
                match self { $(ServerMetric::$variant => Unit::$unit),+ }
            }

            /// What it is.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(ServerMetric::$variant => $meaning),+ }
            }
        }
    };
}

server_metrics! {
    Running, "running", Count, "requests in execution";
    Waiting, "waiting", Count, "requests that wait for execution";
    KvCacheUsage, "kv_cache_usage", Ratio, "share of the KV cache in use; the greatest of several engines";
    PromptTokens, "prompt_tokens", Tokens, "prompt tokens, with those found in a cache";
    GenerationTokens, "generation_tokens", Tokens, "tokens generated";
    PrefixQueries, "prefix_queries", Tokens, "prompt tokens looked up in the prefix cache";
    PrefixHits, "prefix_hits", Tokens, "of these, found";
    Preemptions, "preemptions", Count, "requests put back for want of memory";
    SpecDrafted, "spec_drafted", Tokens, "tokens drafted by speculative decoding";
    SpecAccepted, "spec_accepted", Tokens, "of these, accepted";
    RequestsFinished, "requests_finished", Count, "requests that ended, by reason";
    RequestsRejected, "requests_rejected", Count, "requests that were refused or failed, by reason";
    QueueTime, "queue_time", Milliseconds, "time of a request before its execution";
    PrefillTime, "prefill_time", Milliseconds, "time of a request from execution to its first token";
    PrefillTotal, "prefill_total", Milliseconds, "time spent on prompts, all requests together";
    ServerTtft, "server_ttft", Milliseconds, "receipt to the first token, as the server sees it";
    ServerItl, "server_itl", Milliseconds, "gaps between tokens, as the server sees them";
    ServerE2e, "server_e2e", Milliseconds, "receipt to the last token, as the server sees it";
    ProcessMemory, "process_memory", Bytes, "memory of the process that serves the page, as it says";
}

impl fmt::Display for ServerMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What was seen inside the target during a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSection {
    /// Whose metrics page it is, as in `vllm`; null when there was none.
    pub engine: Option<String>,
    /// The page, without credentials; null when there was none.
    pub source: Option<String>,
    /// Why there are no metrics of the server; null when there are.
    pub unavailable: Option<String>,
    /// Pages that were read.
    pub readings: u64,
    /// Pages that were asked for and could not be read.
    pub failed_readings: u64,
    /// Mean time that a page took, ms; the server works for it.
    pub reading_ms: Option<f64>,
    /// Times that the server's counters began anew: it was started again.
    pub restarts: u64,
    /// How much counters grew over the window.
    pub counters: BTreeMap<ServerMetric, CounterDelta>,
    /// Gauges in the measured window.
    pub gauges: BTreeMap<ServerMetric, GaugeSummary>,
    /// What was added to distributions over the window.
    pub distributions: BTreeMap<ServerMetric, DistributionDelta>,
    /// What is not there, with the reason.
    pub missing: BTreeMap<ServerMetric, String>,
    /// The course: pairs of seconds since the start of warm-up and value.
    pub series: BTreeMap<ServerMetric, Vec<(f64, f64)>>,
    /// Client against server, over the same window.
    pub reconciliation: Vec<Reconciled>,
    /// The mean ttft of the operations that were answered, in its parts, in time order.
    pub ttft_parts: Vec<TtftPart>,
    /// The target's processes; null where they are not on this machine or were not looked at.
    pub process: Option<ProcessSection>,
    /// Why the target's processes are unknown; null when they are known.
    pub process_unavailable: Option<String>,
    /// The accelerators of this machine; empty where the target is elsewhere or there are none.
    #[serde(default)]
    pub devices: Vec<DeviceSection>,
    /// Why there are no accelerators; null when there are.
    #[serde(default)]
    pub devices_unavailable: Option<String>,
}

/// An accelerator over the run, whoever uses it. Means and shares are of the measured window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceSection {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: Option<String>,
    /// Readings in the measured window.
    pub readings: u64,
    /// Mean share of the time in which it computed.
    pub utilisation: Option<f64>,
    /// Memory in use before the first operation, bytes.
    pub memory_before_bytes: Option<u64>,
    /// Greatest memory in use during the run (`accelerator_memory_peak`), bytes.
    pub memory_peak_bytes: Option<u64>,
    /// All of its memory, bytes.
    pub memory_total_bytes: Option<u64>,
    /// Least clock of its multiprocessors, MHz.
    pub sm_mhz_min: Option<u32>,
    /// Greatest clock of its multiprocessors, MHz.
    pub sm_mhz_max: Option<u32>,
    /// Mean power, W.
    pub watts: Option<f64>,
    /// Energy from the first to the last reading, J.
    pub joules: Option<f64>,
    /// The same per output token of the client, J.
    pub joules_per_token: Option<f64>,
    /// Share of readings with clocks held down, by reason.
    pub throttled: BTreeMap<String, f64>,
}

/// How much a counter grew.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CounterDelta {
    /// The growth.
    pub delta: f64,
    /// The same by reason, for those that have reasons.
    pub by_reason: BTreeMap<String, f64>,
}

/// A gauge in the measured window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GaugeSummary {
    /// Mean of the readings.
    pub mean: Option<f64>,
    /// Greatest reading.
    pub max: Option<f64>,
    /// Readings in the measured window.
    pub n: u64,
}

/// What was added to a distribution.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DistributionDelta {
    /// Observations.
    pub count: f64,
    /// Their mean.
    pub mean: Option<f64>,
    /// In which bucket a quantile lies; empty where the server has no buckets.
    pub quantiles: BTreeMap<Statistic, BucketBounds>,
}

/// The bucket that holds a quantile: all that a histogram of a server says of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BucketBounds {
    /// The quantile is above this.
    pub lower: f64,
    /// The quantile is at most this; null in the last bucket.
    pub upper: Option<f64>,
}

/// A figure that both sides have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reconciled {
    /// What is compared.
    pub what: String,
    /// The unit of both.
    pub unit: Unit,
    /// As the client has it; null where it does not know.
    pub client: Option<f64>,
    /// As the server has it; null where it does not say.
    pub server: Option<f64>,
    /// Whether they agree within `tolerance`; null when this cannot be said.
    pub agrees: Option<bool>,
    /// Greatest difference that counts as agreement, in the unit.
    pub tolerance: Option<f64>,
    /// What to know about it.
    pub note: Option<String>,
}

/// A part of the mean ttft.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TtftPart {
    /// Which.
    pub part: TtftPartId,
    /// Its mean, ms; null where it is not known.
    pub mean_ms: Option<f64>,
    /// Who says so.
    pub from: PartSource,
    /// Why it is not known, or what it holds.
    pub note: Option<String>,
}

/// The parts of ttft, in time order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TtftPartId {
    /// Intended start to dispatch: the generator's own delay.
    Generator,
    /// Dispatch to a connection or slot.
    SlotWait,
    /// Connecting, with TLS.
    Connect,
    /// Slot to the last byte in the kernel.
    Write,
    /// In the server's queue.
    ServerQueue,
    /// From the queue to the first token.
    Prefill,
    /// What is left: network, the server's front end, writing the answer.
    Rest,
}

impl TtftPartId {
    /// The name in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            TtftPartId::Generator => "generator",
            TtftPartId::SlotWait => "slot_wait",
            TtftPartId::Connect => "connect",
            TtftPartId::Write => "write",
            TtftPartId::ServerQueue => "server_queue",
            TtftPartId::Prefill => "prefill",
            TtftPartId::Rest => "rest",
        }
    }
}

/// Who says how long a part took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartSource {
    /// The client measured it.
    Client,
    /// The server reports it.
    Server,
    /// It is the difference of what the two say.
    Difference,
}

/// The target's processes on this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessSection {
    /// The first process; its descendants are counted with it.
    pub pid: u32,
    /// How it was found: `given`, `launched` or `listening`.
    pub found: String,
    /// Most processes at once.
    pub processes: u32,
    /// Readings.
    pub readings: u64,
    /// Resident memory before the first operation, bytes. Pages that processes share count once for each.
    pub memory_before_bytes: u64,
    /// Greatest resident memory during the run, bytes.
    pub memory_peak_bytes: u64,
    /// CPU time during the run, s.
    pub cpu_seconds: f64,
    /// CPU time per output token of the client, us; null where tokens are unknown.
    pub cpu_us_per_token: Option<f64>,
    /// Memory per request in flight above idle, bytes; null where it cannot be told.
    pub memory_per_request: Option<MemoryPerRequest>,
    /// Why `memory_per_request` is null.
    pub memory_per_request_unknown: Option<String>,
    /// The course: seconds since the start of warm-up, resident bytes, operations in flight.
    pub series: Vec<(f64, u64, u64)>,
}

/// Memory per request in flight: the slope of memory over requests in flight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryPerRequest {
    /// The slope, bytes per request.
    pub bytes: f64,
    /// Lower bound at 95 %, two-sided.
    pub lower: f64,
    /// Upper bound at 95 %, two-sided.
    pub upper: f64,
}
