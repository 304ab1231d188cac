//! Metric ids: the one list of what is measured, with each id's definition, unit, direction and dimension.
//!
//! Every file, screen and chart uses these ids. A number without an id from this list is not a metric.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::Unit;

/// The three families of systems that Touchstone compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// LLM inference engines.
    Inference,
    /// Message queues and event streams.
    Queue,
    /// Key-value caches.
    Cache,
}

impl Family {
    /// All families, in file order.
    pub const ALL: [Family; 3] = [Family::Inference, Family::Queue, Family::Cache];

    /// The name in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Family::Inference => "inference",
            Family::Queue => "queue",
            Family::Cache => "cache",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The five dimensions in which every scenario is quantified (A1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// How long one operation takes.
    Latency,
    /// How many operations per second.
    Throughput,
    /// What order, delivery and freshness are promised.
    Consistency,
    /// What is lost, and how often the service fails.
    Reliability,
    /// How it behaves when demand or size grows.
    Scalability,
}

impl Dimension {
    /// All five, in the order in which they are asked for.
    pub const ALL: [Dimension; 5] = [
        Dimension::Latency,
        Dimension::Throughput,
        Dimension::Consistency,
        Dimension::Reliability,
        Dimension::Scalability,
    ];

    /// The name in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Dimension::Latency => "latency",
            Dimension::Throughput => "throughput",
            Dimension::Consistency => "consistency",
            Dimension::Reliability => "reliability",
            Dimension::Scalability => "scalability",
        }
    }

    /// The question that is put back when the scenario leaves this dimension vague.
    #[must_use]
    pub fn question(self) -> &'static str {
        match self {
            Dimension::Latency => {
                "which metric, which percentile, which bound? for example `ttft.p99 <= 200ms` or `end_to_end_latency.p99 <= 5ms`"
            }
            Dimension::Throughput => {
                "how many operations or tokens per second must be sustained? for example `throughput >= 50/s` or `output_token_throughput >= 2450tokens/s`"
            }
            Dimension::Consistency => {
                "which delivery class, ordering scope or staleness is needed? for example `delivery >= at-least-once`, `ordering >= per-key`, `staleness <= 100ms`, or `none: \"why it does not matter\"`"
            }
            Dimension::Reliability => {
                "how much may fail or be lost? for example `error_rate <= 0.1%`, `durability >= D3`, `lost <= 0`, `recovery_time <= 30s`"
            }
            Dimension::Scalability => {
                "how high is the peak over the stated load, and how fast does demand grow? for example `peak_factor: 2` and `growth: 50%/year`"
            }
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which direction of a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Less is better, as with latency.
    Lower,
    /// More is better, as with throughput.
    Higher,
}

macro_rules! metrics {
    ($($variant:ident, $id:literal, $unit:ident, $better:ident, $dimension:ident, $kind:ident, $definition:literal;)+) => {
        /// A metric id; [`MetricId::definition`] says exactly what it is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum MetricId {
            $(#[doc = $definition] #[serde(rename = $id)] $variant,)+
        }

        impl MetricId {
            /// Every metric id, in the order of the reference.
            pub const ALL: &'static [MetricId] = &[$(MetricId::$variant),+];

            /// The id as written in files.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(MetricId::$variant => $id),+ }
            }

            /// The canonical unit of its values.
            #[must_use]
            pub fn unit(self) -> Unit {
                match self { $(MetricId::$variant => Unit::$unit),+ }
            }

            /// The better direction.
            #[must_use]
            pub fn better(self) -> Better {
                match self { $(MetricId::$variant => Better::$better),+ }
            }

            /// The dimension it belongs to.
            #[must_use]
            pub fn dimension(self) -> Dimension {
                match self { $(MetricId::$variant => Dimension::$dimension),+ }
            }

            /// Whether values are a distribution over operations (and need a statistic) or one number for a run.
            #[must_use]
            pub fn kind(self) -> MetricKind {
                match self { $(MetricId::$variant => MetricKind::$kind),+ }
            }

            /// The definition, in one sentence.
            #[must_use]
            pub fn definition(self) -> &'static str {
                match self { $(MetricId::$variant => $definition),+ }
            }
        }
    };
}

/// Whether a metric has a value per operation or one per run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// One value per operation (or gap): a statistic such as `p99` must be named.
    Distribution,
    /// One value per run.
    Scalar,
}

metrics! {
    Ttft, "ttft", Milliseconds, Lower, Latency, Distribution, "intended start to the first chunk with generated content (text, reasoning or tool call)";
    TtftFromSend, "ttft_from_send", Milliseconds, Lower, Latency, Distribution, "last byte of the request handed to the kernel to the first chunk with generated content";
    TtftAnswer, "ttft_answer", Milliseconds, Lower, Latency, Distribution, "intended start to the first chunk with non-reasoning content";
    Icl, "icl", Milliseconds, Lower, Latency, Distribution, "gaps between consecutive content chunks of a request, pooled over requests";
    Itl, "itl", Milliseconds, Lower, Latency, Distribution, "gap divided by the tokens of the later chunk, weighted by tokens; null where tokens per chunk are unknown";
    Tpot, "tpot", Milliseconds, Lower, Latency, Distribution, "per request: (last content - first content) / (tokens - tokens of the first chunk); undefined below two chunks";
    Ntpot, "ntpot", Milliseconds, Lower, Latency, Distribution, "per request: e2e / output tokens";
    E2e, "e2e", Milliseconds, Lower, Latency, Distribution, "intended start to the last content chunk, or to the whole answer where nothing streams";
    ServiceTime, "service_time", Milliseconds, Lower, Latency, Distribution, "send to the last content chunk, or to the whole answer where nothing streams";
    StreamClose, "stream_close", Milliseconds, Lower, Latency, Distribution, "last content chunk to the end of the stream";
    SchedulingError, "scheduling_error", Milliseconds, Lower, Latency, Distribution, "dispatch - intended start: how late the generator itself was";
    SlotWait, "slot_wait", Milliseconds, Lower, Latency, Distribution, "waiting for a connection or pipeline slot";
    Connect, "connect", Milliseconds, Lower, Latency, Distribution, "opening a connection, with TLS";
    Write, "write", Milliseconds, Lower, Latency, Distribution, "first to last byte of the request handed to the kernel";
    PublishLatency, "publish_latency", Milliseconds, Lower, Latency, Distribution, "intended publish to its acknowledgement; null where nothing acknowledges";
    EndToEndLatency, "end_to_end_latency", Milliseconds, Lower, Latency, Distribution, "intended publish to the message handed to the consumer, on one monotonic clock";
    OfferedLoad, "offered_load", PerSecond, Higher, Throughput, Scalar, "intended starts in the measured window per second; null in a closed loop";
    AchievedLoad, "achieved_load", PerSecond, Higher, Throughput, Scalar, "sends in the measured window per second";
    Throughput, "throughput", PerSecond, Higher, Throughput, Scalar, "completions in the measured window per second";
    OutputTokenThroughput, "output_token_throughput", TokensPerSecond, Higher, Throughput, Scalar, "output tokens that arrived in the measured window per second";
    Goodput, "goodput", PerSecond, Higher, Throughput, Scalar, "operations intended in the measured window that meet every SLO limit, per second";
    GoodputShare, "goodput_share", Ratio, Higher, Reliability, Scalar, "operations that meet every SLO limit / operations intended in the measured window";
    SaturationPoint, "saturation_point", PerSecond, Higher, Throughput, Scalar, "greatest offered load without a growing backlog and with throughput >= 0.98 of it";
    SloCapacity, "slo_capacity", PerSecond, Higher, Throughput, Scalar, "greatest offered load at which the SLO gates pass";
    SpikeThreshold, "spike_threshold", Count, Higher, Scalability, Scalar, "smallest concurrency at which the p99 of itl is more than twice its value at 1";
    ErrorRate, "error_rate", Ratio, Lower, Reliability, Scalar, "failed or unfinished operations / operations intended in the measured window";
    Lost, "lost", Count, Lower, Reliability, Scalar, "messages published and never received by the end of drain";
    Duplicated, "duplicated", Count, Lower, Consistency, Scalar, "messages received more than once";
    Reordered, "reordered", Count, Lower, Consistency, Scalar, "messages received after a later one of the same producer";
    HitRatio, "hit_ratio", Ratio, Higher, Throughput, Scalar, "hits / lookups";
    RecoveryTime, "recovery_time", Milliseconds, Lower, Reliability, Scalar, "fault to throughput and latency back inside the pre-fault band for a whole window";
    ColdStart, "cold_start", Milliseconds, Lower, Scalability, Scalar, "launch to the first generated token";
    Linearity, "linearity", Ratio, Higher, Scalability, Scalar, "throughput at n replicas / (n x throughput at one)";
    AcceleratorMemoryPeak, "accelerator_memory_peak", Bytes, Lower, Scalability, Scalar, "greatest accelerator memory in use, as the device reports it";
    Cost, "cost", UsdPerHour, Lower, Scalability, Scalar, "price of the candidate per hour, from the scenario or a price list";
}

impl MetricId {
    /// The families in which the metric can be measured at all.
    #[must_use]
    pub fn families(self) -> &'static [Family] {
        use Family::{Cache, Inference, Queue};
        match self {
            MetricId::Ttft
            | MetricId::TtftFromSend
            | MetricId::TtftAnswer
            | MetricId::Icl
            | MetricId::Itl
            | MetricId::Tpot
            | MetricId::Ntpot
            | MetricId::StreamClose
            | MetricId::OutputTokenThroughput
            | MetricId::ColdStart
            | MetricId::AcceleratorMemoryPeak => &[Inference],
            MetricId::E2e | MetricId::ServiceTime => &[Inference, Cache],
            MetricId::PublishLatency
            | MetricId::EndToEndLatency
            | MetricId::Lost
            | MetricId::Duplicated
            | MetricId::Reordered => &[Queue],
            MetricId::HitRatio => &[Cache],
            _ => &Family::ALL,
        }
    }
}

impl fmt::Display for MetricId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The id is not in the list of metrics.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown metric `{id}`{}", suggestion(.nearest))]
pub struct UnknownMetric {
    /// The text as written.
    pub id: String,
    /// The known id that is most like it.
    pub nearest: Option<&'static str>,
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |id| format!(" (did you mean `{id}`?)"))
}

impl FromStr for MetricId {
    type Err = UnknownMetric;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        MetricId::ALL.iter().copied().find(|metric| metric.as_str() == text).ok_or_else(|| UnknownMetric {
            id: text.to_owned(),
            nearest: closest(text, MetricId::ALL.iter().map(|metric| metric.as_str())),
        })
    }
}

/// The candidate that is most like `text`, when any is like it at all (at most half of its letters differ).
#[must_use]
pub fn closest(text: &str, candidates: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    candidates
        .map(|candidate| (edit_distance(text, candidate), candidate))
        .filter(|(distance, candidate)| *distance * 2 <= candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance over bytes; both texts are short identifiers.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate().take(64) {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// A statistic of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// Arithmetic mean.
    Mean,
    /// Median.
    P50,
    /// 90th percentile.
    P90,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// Greatest value.
    Max,
}

impl Statistic {
    /// All statistics, in file order.
    pub const ALL: [Statistic; 7] = [
        Statistic::Mean,
        Statistic::P50,
        Statistic::P90,
        Statistic::P95,
        Statistic::P99,
        Statistic::P999,
        Statistic::Max,
    ];

    /// The quantiles among the statistics.
    pub const QUANTILES: [Statistic; 5] =
        [Statistic::P50, Statistic::P90, Statistic::P95, Statistic::P99, Statistic::P999];

    /// The name in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Statistic::Mean => "mean",
            Statistic::P50 => "p50",
            Statistic::P90 => "p90",
            Statistic::P95 => "p95",
            Statistic::P99 => "p99",
            Statistic::P999 => "p999",
            Statistic::Max => "max",
        }
    }

    /// The quantile level, for those that are quantiles.
    #[must_use]
    pub fn level(self) -> Option<f64> {
        match self {
            Statistic::P50 => Some(0.50),
            Statistic::P90 => Some(0.90),
            Statistic::P95 => Some(0.95),
            Statistic::P99 => Some(0.99),
            Statistic::P999 => Some(0.999),
            Statistic::Mean | Statistic::Max => None,
        }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Statistic {
    type Err = UnknownStatistic;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Statistic::ALL
            .into_iter()
            .find(|statistic| statistic.as_str() == text)
            .ok_or_else(|| UnknownStatistic { text: text.to_owned() })
    }
}

/// The text names no statistic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown statistic `{text}`; expected one of mean, p50, p90, p95, p99, p999, max")]
pub struct UnknownStatistic {
    /// The text as written.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_read_back() {
        let mut ids: Vec<_> = MetricId::ALL.iter().map(|metric| metric.as_str()).collect();
        for id in &ids {
            assert_eq!(id.parse::<MetricId>().unwrap().as_str(), *id);
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), MetricId::ALL.len());
    }

    #[test]
    fn an_unknown_metric_names_its_neighbour() {
        assert_eq!(
            "tttf".parse::<MetricId>().unwrap_err().to_string(),
            "unknown metric `tttf` (did you mean `ttft`?)"
        );
        assert_eq!("speed".parse::<MetricId>().unwrap_err().to_string(), "unknown metric `speed`");
    }
}
