//! The vocabulary of capabilities: what a product can promise, with the type of each promise.
//!
//! The vocabulary is code, because scenarios and catalog must agree on it; which product has which capability is data
//! in the catalog. A capability that nobody claims is *unknown*, which is not the same as absent.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::metric::{Dimension, Family, closest};
use crate::unit::{Quantity, Unit};

/// What kind of value a capability has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapabilityType {
    /// It has it or not.
    Flag,
    /// One of an ordered list of classes, weakest first.
    Class(&'static [&'static str]),
    /// A quantity of this unit; `unlimited` is allowed.
    Quantity(Unit),
}

macro_rules! capabilities {
    ($($variant:ident, $id:literal, $type:expr, $dimension:ident, [$($family:ident),+], $definition:literal;)+) => {
        /// A capability id; [`CapabilityId::definition`] says exactly what is promised.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum CapabilityId {
            $(#[doc = $definition] #[serde(rename = $id)] $variant,)+
        }

        impl CapabilityId {
            /// Every capability id, in the order of the reference.
            pub const ALL: &'static [CapabilityId] = &[$(CapabilityId::$variant),+];

            /// The id as written in files.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(CapabilityId::$variant => $id),+ }
            }

            /// The type of its values.
            #[must_use]
            pub fn value_type(self) -> CapabilityType {
                match self { $(CapabilityId::$variant => $type),+ }
            }

            /// The dimension in which a scenario asks for it.
            #[must_use]
            pub fn dimension(self) -> Dimension {
                match self { $(CapabilityId::$variant => Dimension::$dimension),+ }
            }

            /// The families for which it means something.
            #[must_use]
            pub fn families(self) -> &'static [Family] {
                match self { $(CapabilityId::$variant => &[$(Family::$family),+]),+ }
            }

            /// The promise, in one sentence.
            #[must_use]
            pub fn definition(self) -> &'static str {
                match self { $(CapabilityId::$variant => $definition),+ }
            }
        }
    };
}

/// Durability classes, weakest first; what has happened to a write when it is acknowledged.
pub const DURABILITY: &[&str] = &["D0", "D1", "D2", "D3", "D4"];
/// Delivery classes, weakest first.
pub const DELIVERY: &[&str] = &["at-most-once", "at-least-once", "deduplicated"];
/// Ordering scopes, weakest first.
pub const ORDERING: &[&str] = &["none", "per-producer", "per-key", "total"];
/// Replay abilities, weakest first.
pub const REPLAY: &[&str] = &["none", "offset", "time"];
/// Licence classes, most restrictive first.
pub const LICENCE: &[&str] = &["proprietary", "source-available", "open-source"];
/// Output determinism, weakest first.
pub const DETERMINISM: &[&str] = &["none", "seeded", "batch-invariant"];

capabilities! {
    Delivery, "delivery", CapabilityType::Class(DELIVERY), Consistency, [Queue], "how often a message is handed over: at-most-once, at-least-once, deduplicated";
    Ordering, "ordering", CapabilityType::Class(ORDERING), Consistency, [Queue], "the scope in which order is kept: none, per-producer, per-key, total";
    Staleness, "staleness", CapabilityType::Quantity(Unit::Milliseconds), Consistency, [Cache], "greatest age of a value that a read may return after it was replaced";
    OutputDeterminism, "output_determinism", CapabilityType::Class(DETERMINISM), Consistency, [Inference], "whether one prompt gives one answer: none, seeded, batch-invariant";
    Durability, "durability", CapabilityType::Class(DURABILITY), Reliability, [Queue, Cache], "state of a write at acknowledgement: D0 memory, D1 page cache of one, D2 page cache of a quorum, D3 fsync on one, D4 fsync on a quorum";
    Replication, "replication", CapabilityType::Flag, Reliability, [Queue, Cache], "data is kept on more than one node by the product itself";
    Failover, "failover", CapabilityType::Flag, Reliability, [Inference, Queue, Cache], "service continues by itself after the loss of one node";
    Availability, "availability", CapabilityType::Quantity(Unit::Ratio), Reliability, [Inference, Queue, Cache], "share of time in service that the operator or vendor commits to";
    Replay, "replay", CapabilityType::Class(REPLAY), Reliability, [Queue], "old messages can be read again: none, offset, time";
    Retention, "retention", CapabilityType::Quantity(Unit::Milliseconds), Reliability, [Queue], "how long messages can be kept after they were consumed";
    DeadLetter, "dead_letter", CapabilityType::Flag, Reliability, [Queue], "messages that cannot be processed are set aside by the product";
    OfflineConsumers, "offline_consumers", CapabilityType::Flag, Reliability, [Queue], "messages wait for consumers that are away";
    Maintained, "maintained", CapabilityType::Flag, Reliability, [Inference, Queue, Cache], "new versions with fixes are still released";
    Routing, "routing", CapabilityType::Flag, Consistency, [Queue], "messages are routed by rules over headers or subjects, not only by topic and key";
    WorkQueue, "work_queue", CapabilityType::Flag, Throughput, [Queue], "many consumers share one queue with an acknowledgement per message";
    PubSub, "pub_sub", CapabilityType::Flag, Throughput, [Queue, Cache], "one message reaches every subscriber";
    Priorities, "priorities", CapabilityType::Flag, Latency, [Queue], "messages of higher priority overtake";
    MessageTtl, "message_ttl", CapabilityType::Flag, Reliability, [Queue], "messages expire one by one";
    MaxMessage, "max_message", CapabilityType::Quantity(Unit::Bytes), Throughput, [Queue], "greatest message accepted";
    MultiTenant, "multi_tenant", CapabilityType::Flag, Scalability, [Inference, Queue, Cache], "tenants are isolated by the product, with limits of their own";
    GeoReplication, "geo_replication", CapabilityType::Flag, Scalability, [Queue, Cache], "data is copied between regions by the product";
    DataStructures, "data_structures", CapabilityType::Flag, Consistency, [Cache], "lists, hashes, sets and sorted sets with atomic operations";
    Scripting, "scripting", CapabilityType::Flag, Consistency, [Cache], "several operations run atomically as one script";
    Eviction, "eviction", CapabilityType::Flag, Reliability, [Cache], "old entries make room when memory is full";
    MaxValue, "max_value", CapabilityType::Quantity(Unit::Bytes), Throughput, [Cache], "greatest value accepted";
    MultiThreaded, "multi_threaded", CapabilityType::Flag, Throughput, [Cache], "commands run on more than one core in one process";
    Cluster, "cluster", CapabilityType::Flag, Scalability, [Inference, Queue, Cache], "one logical service spreads over several nodes";
    Autoscaling, "autoscaling", CapabilityType::Flag, Scalability, [Inference], "replicas can be added under load with documented, standard means";
    Licence, "licence", CapabilityType::Class(LICENCE), Reliability, [Inference, Queue, Cache], "what the licence allows: proprietary, source-available, open-source";
    Streaming, "streaming", CapabilityType::Flag, Latency, [Inference], "tokens are sent as they are generated";
    OpenAiApi, "openai_api", CapabilityType::Flag, Consistency, [Inference], "answers the OpenAI chat completions protocol";
    ContinuousBatching, "continuous_batching", CapabilityType::Flag, Throughput, [Inference], "requests join and leave the batch at every step";
    PrefixCache, "prefix_cache", CapabilityType::Flag, Latency, [Inference], "shared prompt prefixes are computed once";
    TensorParallel, "tensor_parallel", CapabilityType::Flag, Scalability, [Inference], "one model is split over accelerators by tensors";
    PipelineParallel, "pipeline_parallel", CapabilityType::Flag, Scalability, [Inference], "one model is split over accelerators by layers";
    DataParallel, "data_parallel", CapabilityType::Flag, Scalability, [Inference], "replicas of one model share the load";
    ExpertParallel, "expert_parallel", CapabilityType::Flag, Scalability, [Inference], "experts of one model are spread over accelerators";
    MultiNode, "multi_node", CapabilityType::Flag, Scalability, [Inference], "one model can span several machines";
    MultiModel, "multi_model", CapabilityType::Flag, Scalability, [Inference], "one server holds several models";
    CpuInference, "cpu_inference", CapabilityType::Flag, Throughput, [Inference], "runs without an accelerator";
    GpuInference, "gpu_inference", CapabilityType::Flag, Throughput, [Inference], "runs on accelerators";
    Fp8Weights, "fp8_weights", CapabilityType::Flag, Throughput, [Inference], "weights in FP8";
    Fp8Kv, "fp8_kv", CapabilityType::Flag, Throughput, [Inference], "KV cache in FP8";
    ContextLength, "context_length", CapabilityType::Quantity(Unit::Tokens), Throughput, [Inference], "greatest prompt plus answer that is served";
}

impl fmt::Display for CapabilityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The id is not in the vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown capability `{id}`{}", .nearest.map_or_else(String::new, |id| format!(" (did you mean `{id}`?)")))]
pub struct UnknownCapability {
    /// The text as written.
    pub id: String,
    /// The known id that is most like it.
    pub nearest: Option<&'static str>,
}

impl FromStr for CapabilityId {
    type Err = UnknownCapability;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        CapabilityId::ALL.iter().copied().find(|capability| capability.as_str() == text).ok_or_else(|| {
            UnknownCapability {
                id: text.to_owned(),
                nearest: closest(text, CapabilityId::ALL.iter().map(|capability| capability.as_str())),
            }
        })
    }
}

/// A value of a capability, of the type that its id prescribes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CapabilityValue {
    /// For flags.
    Flag(bool),
    /// For classes: the position in the list, 0 the weakest.
    Class {
        /// The list the class comes from.
        classes: &'static [&'static str],
        /// The position in the list.
        rank: usize,
    },
    /// For quantities; infinite means unlimited.
    Quantity(Quantity),
}

/// The text is not a value of the capability's type.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("`{text}` is no value of `{capability}`; expected {expected}")]
pub struct CapabilityValueError {
    /// The capability.
    pub capability: CapabilityId,
    /// The text as written.
    pub text: String,
    /// What would have been right, in words.
    pub expected: String,
}

impl CapabilityValue {
    /// Reads a value of the type that `capability` prescribes.
    ///
    /// # Errors
    /// When the text is no such value.
    pub fn parse(capability: CapabilityId, text: &str) -> Result<Self, CapabilityValueError> {
        let error = |expected: String| CapabilityValueError { capability, text: text.to_owned(), expected };
        match capability.value_type() {
            CapabilityType::Flag => match text {
                "yes" | "true" => Ok(CapabilityValue::Flag(true)),
                "no" | "false" => Ok(CapabilityValue::Flag(false)),
                _ => Err(error("`yes` or `no`".to_owned())),
            },
            CapabilityType::Class(classes) => classes
                .iter()
                .position(|class| *class == text)
                .map(|rank| CapabilityValue::Class { classes, rank })
                .ok_or_else(|| error(format!("one of {}", classes.join(", ")))),
            CapabilityType::Quantity(unit) if text == "unlimited" => {
                Ok(CapabilityValue::Quantity(Quantity::new(f64::INFINITY, unit)))
            }
            CapabilityType::Quantity(unit) => Quantity::parse(text, unit)
                .map(CapabilityValue::Quantity)
                .map_err(|_| error(unit.example().to_owned())),
        }
    }

    /// The value as one number for comparison: flags 0 or 1, classes their rank, quantities their canonical value.
    #[must_use]
    pub fn magnitude(self) -> f64 {
        match self {
            CapabilityValue::Flag(flag) => f64::from(u8::from(flag)),
            CapabilityValue::Class { rank, .. } => rank as f64,
            CapabilityValue::Quantity(quantity) => quantity.value,
        }
    }
}

impl fmt::Display for CapabilityValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CapabilityValue::Flag(flag) => f.write_str(if *flag { "yes" } else { "no" }),
            CapabilityValue::Class { classes, rank } => f.write_str(classes[*rank]),
            CapabilityValue::Quantity(quantity) if quantity.value.is_infinite() => f.write_str("unlimited"),
            CapabilityValue::Quantity(quantity) => quantity.fmt(f),
        }
    }
}

impl Serialize for CapabilityValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The text of a capability value before its capability is known, as it stands in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityText(pub String);

impl<'de> Deserialize<'de> for CapabilityText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = CapabilityText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("yes, no, a class name or a number with its unit")
            }
            fn visit_bool<E: serde::de::Error>(self, v: bool) -> Result<CapabilityText, E> {
                Ok(CapabilityText(if v { "yes" } else { "no" }.to_owned()))
            }
            fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<CapabilityText, E> {
                Ok(CapabilityText(v.to_owned()))
            }
            fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<CapabilityText, E> {
                Ok(CapabilityText(v.to_string()))
            }
            fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<CapabilityText, E> {
                Ok(CapabilityText(v.to_string()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for CapabilityText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CapabilityText".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["string", "boolean", "number"], "description": "yes, no, a class name or a number with its unit" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_back_and_order() {
        for (id, text) in [
            (CapabilityId::Durability, "D3"),
            (CapabilityId::Delivery, "at-least-once"),
            (CapabilityId::DeadLetter, "yes"),
            (CapabilityId::Retention, "7d"),
            (CapabilityId::Retention, "unlimited"),
        ] {
            assert_eq!(CapabilityValue::parse(id, text).unwrap().to_string(), text);
        }
        let durability = |text| CapabilityValue::parse(CapabilityId::Durability, text).unwrap().magnitude();
        assert!(durability("D4") > durability("D1"));
    }

    #[test]
    fn a_wrong_value_says_what_is_right() {
        let error = CapabilityValue::parse(CapabilityId::Durability, "high").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`high` is no value of `durability`; expected one of D0, D1, D2, D3, D4"
        );
    }
}
