//! What the catalog knows about a product.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use touchstone_model::requirement::Subject;
use touchstone_model::{CapabilityId, CapabilityValue, Family, Level, Protocol, Quantity};

use crate::condition::Condition;
use crate::version::VersionRange;

/// A text in both languages of reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// English.
    pub en: String,
    /// Chinese.
    pub zh: String,
}

/// Whether a statement of the catalog may carry weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Nothing known speaks against it.
    Active,
    /// Evidence speaks against it, as the text says; it never decides anything by itself.
    Disputed(Text),
}

impl Status {
    /// The evidence against it, when it is disputed.
    #[must_use]
    pub fn dispute(&self) -> Option<&Text> {
        match self {
            Status::Active => None,
            Status::Disputed(dispute) => Some(dispute),
        }
    }
}

/// Where a statement comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// Repository and file, page and section, or title of an article.
    pub source: String,
    /// The day of the state that was read, YYYY-MM-DD; of the reading itself where the source has no date.
    pub date: String,
    /// [`Level::P0`] for what a page says, [`Level::P1`] for what a machine showed: a transcript, a published test with
    /// its data, a default in the product's own source.
    pub level: Level,
    /// Whether it may carry weight.
    pub status: Status,
    /// Line in the catalog file, from 1.
    pub line: u64,
}

/// A capability that somebody says a product has, or lacks.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The capability.
    pub capability: CapabilityId,
    /// Its value, of the capability's type.
    pub value: CapabilityValue,
    /// What must be the case for it to hold.
    pub conditions: Option<Text>,
    /// The versions for which it holds; all when absent.
    pub versions: Option<VersionRange>,
    /// Where it comes from.
    pub provenance: Provenance,
    /// What else should be known.
    pub note: Option<Text>,
}

/// A way to set a product up that changes what it promises.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// The id, unique in the product.
    pub id: String,
    /// Whether it is the one meant when a candidate names none.
    pub default: bool,
    /// The settings that make it, by the product's own names.
    pub settings: BTreeMap<String, String>,
    /// What it is, in one sentence.
    pub summary: Text,
    /// Its claims; they override the product's.
    pub claims: Vec<Claim>,
}

/// A forbidden scenario: when all its conditions are met, the product is out of place.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The id, unique in the product.
    pub id: String,
    /// What a scenario must ask for; all of it.
    pub when: Vec<Condition>,
    /// The configurations it is about; empty for all.
    pub configurations: Vec<String>,
    /// Why it is out of place.
    pub reason: Text,
    /// Where it comes from. A disputed rule vetoes nothing.
    pub provenance: Provenance,
}

/// A scenario for which the product is recommended (the decision matrix, A2).
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// The feature of the scenario, in words.
    pub feature: Text,
    /// The feature as conditions; all must be met. Empty: always.
    pub when: Vec<Condition>,
    /// Why it is recommended.
    pub reason: Text,
    /// Where it comes from.
    pub provenance: Provenance,
}

/// A metric with a value that somebody stated.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The metric, with its statistic where it is a distribution.
    pub subject: Subject,
    /// The value.
    pub value: Quantity,
}

/// Something stated about a product that is no capability: a figure from a page, a known weakness. Never a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Remark {
    /// What is stated.
    pub text: Text,
    /// The same as metric and value, where it is one.
    pub figure: Option<Figure>,
    /// Where it comes from.
    pub provenance: Provenance,
}

/// A capability about which nothing is known, with what has been looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// The capability.
    pub capability: CapabilityId,
    /// Why nothing can be said.
    pub note: Text,
}

/// How a running server names itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Detect {
    /// What to ask, as in `INFO server` or `GET /version`.
    pub probe: String,
    /// The field of the answer that names the product or carries its version.
    pub field: String,
    /// Text that the field's value contains when it is this product; absent when the field itself is proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// Whether the field's value is the version.
    #[serde(default)]
    pub version: bool,
}

/// A product.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    /// The id, unique in the catalog.
    pub id: String,
    /// The name in reports.
    pub name: String,
    /// The family.
    pub family: Family,
    /// Other families in which it is used and may be listed as a candidate; `any` never expands to it there.
    pub serves: Vec<Family>,
    /// Who makes it.
    pub vendor: String,
    /// The licence's name; its class is the claim `licence`.
    pub licence: String,
    /// What it is, in one sentence.
    pub summary: Text,
    /// The protocols over which Touchstone can load it; may be empty.
    pub protocols: Vec<Protocol>,
    /// How a running server names itself.
    pub detect: Vec<Detect>,
    /// Ways to set it up; at least one, exactly one of them the default.
    pub configurations: Vec<Configuration>,
    /// What holds for every configuration that does not say otherwise.
    pub claims: Vec<Claim>,
    /// What is known to be unknown.
    pub unknown: Vec<Unknown>,
    /// Forbidden scenarios.
    pub forbidden: Vec<Rule>,
    /// Scenarios for which it is recommended.
    pub recommended: Vec<Recommendation>,
    /// Other statements about it.
    pub remarks: Vec<Remark>,
    /// The catalog file it comes from, as in `queue/kafka.yaml`.
    pub file: String,
}

impl Product {
    /// The configuration of that id; the default one for `None`.
    #[must_use]
    pub fn configuration(&self, id: Option<&str>) -> Option<&Configuration> {
        match id {
            Some(id) => self.configurations.iter().find(|configuration| configuration.id == id),
            None => self.configurations.iter().find(|configuration| configuration.default),
        }
    }

    /// Every claim with the configuration it belongs to; none for those of the whole product.
    pub fn all_claims(&self) -> impl Iterator<Item = (Option<&str>, &Claim)> {
        let of_configurations = self.configurations.iter().flat_map(|configuration| {
            configuration.claims.iter().map(|claim| (Some(configuration.id.as_str()), claim))
        });
        self.claims.iter().map(|claim| (None, claim)).chain(of_configurations)
    }
}

/// The capabilities that every product of a family must speak about, by a claim or by saying that it is unknown.
#[must_use]
pub fn core_capabilities(family: Family) -> &'static [CapabilityId] {
    use CapabilityId as C;
    match family {
        Family::Inference => &[
            C::Streaming,
            C::OpenAiApi,
            C::ContinuousBatching,
            C::PrefixCache,
            C::TensorParallel,
            C::PipelineParallel,
            C::DataParallel,
            C::MultiNode,
            C::MultiModel,
            C::CpuInference,
            C::GpuInference,
            C::Fp8Weights,
            C::OutputDeterminism,
            C::Autoscaling,
            C::Licence,
            C::Maintained,
            C::Availability,
        ],
        Family::Queue => &[
            C::Delivery,
            C::Ordering,
            C::Durability,
            C::Replication,
            C::Failover,
            C::Replay,
            C::Retention,
            C::DeadLetter,
            C::OfflineConsumers,
            C::Routing,
            C::WorkQueue,
            C::PubSub,
            C::Priorities,
            C::MessageTtl,
            C::MaxMessage,
            C::MultiTenant,
            C::GeoReplication,
            C::Cluster,
            C::Licence,
            C::Maintained,
            C::Availability,
        ],
        Family::Cache => &[
            C::Durability,
            C::Replication,
            C::Failover,
            C::Staleness,
            C::DataStructures,
            C::Scripting,
            C::Eviction,
            C::MaxValue,
            C::MultiThreaded,
            C::PubSub,
            C::Cluster,
            C::MultiTenant,
            C::GeoReplication,
            C::Licence,
            C::Maintained,
            C::Availability,
        ],
    }
}
