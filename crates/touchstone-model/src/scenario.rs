//! Scenarios: the demand, quantified in five dimensions before anything is chosen.

mod contradictions;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_saphyr::Spanned;

use crate::arrival::Arrival;
use crate::document::{self, DocumentError, Problem};
use crate::metric::{Better, Dimension, Family, MetricId};
use crate::requirement::{Requirement, RequirementError, Subject};
use crate::target::Target;
use crate::unit::{Bytes, Growth, Millis, Quantity, Share, UsdPerHour};

/// The format of scenario files that this version reads and writes.
pub const FORMAT: &str = "touchstone.scenario/1";

/// The demand on a system, without any product name needed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The format, `touchstone.scenario/1`.
    pub format: FormatTag,
    /// A short name, used in file names: letters, digits, `-` and `_`.
    pub name: String,
    /// What the scenario is about, for readers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The family of systems that could serve it.
    pub family: Family,
    /// The load that will be offered.
    pub workload: Workload,
    /// What must hold, in the five dimensions.
    pub requirements: Requirements,
    /// What the system may use.
    #[serde(default)]
    pub constraints: Constraints,
    /// What to have more of, with fixed anchors.
    #[serde(default)]
    pub criteria: Vec<Criterion>,
    /// Criteria in order of preference, most important first; criteria in one inner list are of equal standing.
    #[serde(default)]
    pub preference: Vec<PreferenceGroup>,
    /// The candidates, or `any` for all that the catalog knows.
    #[serde(default)]
    pub candidates: Candidates,
    /// How long the decision is meant to hold, as in `12 months`.
    pub horizon: Millis,
    /// How candidates are measured.
    #[serde(default)]
    pub measurement: Measurement,
}

/// The tag `touchstone.scenario/1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum FormatTag {
    /// Version 1.
    #[serde(rename = "touchstone.scenario/1")]
    V1,
}

impl<'de> Deserialize<'de> for FormatTag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == FORMAT {
            Ok(FormatTag::V1)
        } else {
            Err(document::custom(
                format!("this version reads `{FORMAT}`, not `{text}`"),
                format!("write `format: {FORMAT}`, or use the version of touchstone that wrote the file"),
            ))
        }
    }
}

/// The load that will be offered. Fields of other families are refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// When operations start: `poisson:50/s`, `constant:20k/s`, `closed:64`. The base load, before the peak factor.
    pub arrival: Arrival,
    /// Inference: prompt tokens of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub input_tokens: Option<u32>,
    /// Inference: generated tokens of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub output_tokens: Option<u32>,
    /// Queue: size of a message body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_bytes: Option<Bytes>,
    /// Cache: number of keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub keys: Option<u64>,
    /// Cache: size of a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_bytes: Option<Bytes>,
    /// Cache: share of reads among the operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ratio: Option<Share>,
    /// Cache: commands in flight on one connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub pipeline: Option<u32>,
    /// Connections; the driver's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_000))]
    pub connections: Option<u32>,
}

/// The requirements in the five dimensions (A1); each must be stated, or waived with a reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requirements {
    /// How long one operation may take.
    pub latency: Demand<0>,
    /// How many operations per second.
    pub throughput: Demand<1>,
    /// What order, delivery and freshness are needed.
    pub consistency: Demand<2>,
    /// What may be lost, and how often the service may fail.
    pub reliability: Demand<3>,
    /// How demand grows.
    pub scalability: Scalability,
}

/// Requirements of the dimension `Dimension::ALL[D]`, or the reason why it does not matter.
#[derive(Debug, Clone, PartialEq)]
pub enum Demand<const D: usize> {
    /// What must hold.
    Require(Vec<Requirement>),
    /// The dimension does not matter, with the reason.
    None(String),
}

impl<const D: usize> Demand<D> {
    /// The requirements; none when the dimension was waived.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        match self {
            Demand::Require(requirements) => requirements,
            Demand::None(_) => &[],
        }
    }
}

impl<const D: usize> Serialize for Demand<D> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Demand::Require(requirements) => requirements.serialize(serializer),
            Demand::None(reason) => {
                use serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("none", reason)?;
                map.end()
            }
        }
    }
}

impl<'de, const D: usize> Deserialize<'de> for Demand<D> {
    fn deserialize<De: Deserializer<'de>>(deserializer: De) -> Result<Self, De::Error> {
        struct Visitor<const D: usize>;

        impl<const D: usize> Visitor<D> {
            fn vague<E: serde::de::Error>(found: impl fmt::Display) -> E {
                let dimension = Dimension::ALL[D];
                document::custom(
                    format!("`{dimension}: {found}` is not quantified; expected a list of requirements"),
                    dimension.question(),
                )
            }
        }

        impl<'de, const D: usize> serde::de::Visitor<'de> for Visitor<D> {
            type Value = Demand<D>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of {} requirements", Dimension::ALL[D])
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Demand<D>, E> {
                Err(Self::vague(text))
            }
            fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Demand<D>, E> {
                Err(Self::vague(value))
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Demand<D>, E> {
                Err(Self::vague(value))
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Demand<D>, E> {
                Err(Self::vague(value))
            }
            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Demand<D>, E> {
                Err(Self::vague(value))
            }
            fn visit_unit<E: serde::de::Error>(self) -> Result<Demand<D>, E> {
                Err(Self::vague(""))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Demand<D>, A::Error> {
                let dimension = Dimension::ALL[D];
                let mut requirements: Vec<Requirement> = Vec::new();
                while let Some(requirement) = seq.next_element::<Requirement>()? {
                    let belongs = requirement.subject.dimension();
                    if belongs != dimension {
                        return Err(document::custom(
                            format!("`{requirement}` belongs to `{belongs}`, not to `{dimension}`"),
                            format!("move it to `requirements.{belongs}`"),
                        ));
                    }
                    requirements.push(requirement);
                }
                if requirements.is_empty() {
                    return Err(Self::vague("[]"));
                }
                Ok(Demand::Require(requirements))
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Demand<D>, A::Error> {
                #[derive(Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Waived {
                    none: String,
                }
                let waived = Waived::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                if waived.none.trim().is_empty() {
                    return Err(document::custom(
                        format!("`{}` is waived without a reason", Dimension::ALL[D]),
                        "say in one sentence why it does not matter",
                    ));
                }
                Ok(Demand::None(waived.none))
            }
        }
        deserializer.deserialize_any(Visitor::<D>)
    }
}

impl<const D: usize> JsonSchema for Demand<D> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Demand_{}", Dimension::ALL[D]).into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let requirement = generator.subschema_for::<Requirement>();
        schemars::json_schema!({
            "description": format!("{} requirements, or `none` with the reason why the dimension does not matter", Dimension::ALL[D]),
            "oneOf": [
                { "type": "array", "minItems": 1, "items": requirement },
                { "type": "object", "additionalProperties": false, "required": ["none"], "properties": { "none": { "type": "string", "minLength": 1 } } }
            ]
        })
    }
}

/// How demand differs from the base load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scalability {
    /// Peak load / base load; candidates are measured at the peak. At least 1.
    #[serde(deserialize_with = "peak_factor")]
    pub peak_factor: f64,
    /// Growth of the base load per year, as in `50%/year`; `0%/year` when there is none.
    pub growth: Growth,
    /// Further requirements, such as `linearity >= 80%`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<Requirement>,
}

/// What the system may use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Constraints {
    /// Number of accelerators that may be used; 0 means CPU only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerators: Option<u32>,
    /// Number of machines that may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// The model to serve, as a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What may be spent, as in `12USD/h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<UsdPerHour>,
}

/// Something to have more of: a value function between two fixed anchors, in natural units, taken from the scenario
/// and never from the candidates at hand.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Criterion {
    /// The metric, with its statistic where it is a distribution, as in `ttft.p95`.
    #[schemars(with = "String")]
    #[serde(serialize_with = "as_text")]
    pub metric: Subject,
    /// The value that is worth 0, as in `400ms`.
    #[schemars(with = "String")]
    #[serde(serialize_with = "as_text")]
    pub worst: Quantity,
    /// The value that is worth 1, as in `50ms`.
    #[schemars(with = "String")]
    #[serde(serialize_with = "as_text")]
    pub best: Quantity,
}

fn as_text<T: fmt::Display, S: serde::Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

impl Criterion {
    /// The value of a measurement, in [0, 1]: linear between the anchors, flat outside.
    #[must_use]
    pub fn value(&self, measured: f64) -> f64 {
        let (worst, best) = (self.worst.value, self.best.value);
        if measured.is_nan() {
            return 0.0;
        }
        if measured.is_infinite() {
            return if (measured > 0.0) == (best > worst) { 1.0 } else { 0.0 };
        }
        ((measured - worst) / (best - worst)).clamp(0.0, 1.0)
    }
}

impl<'de> Deserialize<'de> for Criterion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Mirror {
            metric: String,
            worst: crate::unit::ScalarText,
            best: crate::unit::ScalarText,
        }
        let mirror = Mirror::deserialize(deserializer)?;
        let custom = serde::de::Error::custom::<RequirementError>;
        let metric: Subject = mirror.metric.parse().map_err(custom)?;
        let Subject::Metric(id, _) = metric else {
            return Err(document::custom(
                format!("`{metric}` is a capability and cannot be a criterion"),
                "capabilities are requirements: they hold or they do not",
            ));
        };
        let quantity = |text: &crate::unit::ScalarText| {
            Quantity::parse(&text.0, id.unit()).map_err(|error| {
                document::custom(error, "anchors are numbers in the metric's unit: when is it worthless, when is it as good as can be?")
            })
        };
        let (worst, best) = (quantity(&mirror.worst)?, quantity(&mirror.best)?);
        let right_way = match id.better() {
            Better::Lower => best.value < worst.value,
            Better::Higher => best.value > worst.value,
        };
        if !right_way {
            let direction = if id.better() == Better::Lower { "lower" } else { "higher" };
            return Err(document::custom(
                format!("the anchors of `{metric}` are reversed or equal: {direction} is better"),
                "swap `best` and `worst`",
            ));
        }
        Ok(Self { metric, worst, best })
    }
}

/// One place in the order of preference: one criterion, or several of equal standing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PreferenceGroup(pub Vec<String>);

impl JsonSchema for PreferenceGroup {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PreferenceGroup".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "one criterion, such as `ttft.p95`, or a list of criteria of equal standing",
            "oneOf": [ { "type": "string" }, { "type": "array", "items": { "type": "string" } } ]
        })
    }
}

impl<'de> Deserialize<'de> for PreferenceGroup {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = PreferenceGroup;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a criterion such as `ttft.p95`, or a list of criteria of equal standing")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<PreferenceGroup, E> {
                Ok(PreferenceGroup(vec![text.to_owned()]))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<PreferenceGroup, A::Error> {
                let mut group = Vec::new();
                while let Some(item) = seq.next_element()? {
                    group.push(item);
                }
                Ok(PreferenceGroup(group))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// The candidates of a scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Candidates {
    /// Every product of the family that the catalog knows.
    #[default]
    #[serde(serialize_with = "any")]
    Any,
    /// These.
    List(Vec<Candidate>),
}

fn any<S: serde::Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str("any")
}

impl Candidates {
    /// The listed candidates; none for `any`.
    #[must_use]
    pub fn listed(&self) -> &[Candidate] {
        match self {
            Candidates::Any => &[],
            Candidates::List(list) => list,
        }
    }
}

impl<'de> Deserialize<'de> for Candidates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Candidates;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`any` or a list of candidates")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Candidates, E> {
                if text == "any" {
                    Ok(Candidates::Any)
                } else {
                    Err(E::custom(format!("`{text}` is neither `any` nor a list of candidates")))
                }
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Candidates, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = seq.next_element()? {
                    list.push(item);
                }
                Ok(Candidates::List(list))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Candidates {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Candidates".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let candidate = generator.subschema_for::<Candidate>();
        schemars::json_schema!({ "oneOf": [ { "const": "any" }, { "type": "array", "minItems": 1, "items": candidate } ] })
    }
}

/// The unit that is compared: product, configuration and price, and where an instance of it is reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// The name in reports; unique in the scenario.
    pub name: String,
    /// The product's id in the catalog, such as `vllm` or `redis`.
    pub product: String,
    /// The configuration's id in the catalog, where the product has several; its default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// The version, as the product writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where an instance is reached; a candidate without a target is matched but not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The model name to ask for, for inference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it costs, as in `2.50USD/h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<UsdPerHour>,
    /// The environment variable that holds the target's key, password or token; never recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// The file with certificates (PEM) to trust for the target's TLS, instead of the built-in ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
    /// Whether going back on this choice is easy; preferred in a toss-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reversible: Option<bool>,
}

/// How candidates are measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Measurement {
    /// Length of the measured window of a run.
    pub duration: Millis,
    /// Load before the measured window.
    pub warm_up: Millis,
    /// How long unfinished operations may take after it.
    pub drain: Millis,
    /// Runs per candidate, interleaved.
    #[schemars(range(min = 1, max = 1000))]
    pub repeats: u32,
    /// The seed of schedules, prompts and draws.
    pub seed: u64,
    /// The confidence asked of gates that name none; in (0.5, 1).
    #[serde(deserialize_with = "confidence")]
    pub confidence: f64,
}

fn peak_factor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    plain_number(deserializer, "how high is the peak over the stated load? for example `peak_factor: 2`")
}

fn confidence<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    plain_number(deserializer, "how sure must a gate be? for example `confidence: 0.95`")
}

/// A number without a unit; a word gets the question back.
fn plain_number<'de, D: Deserializer<'de>>(deserializer: D, question: &str) -> Result<f64, D::Error> {
    let text = crate::unit::ScalarText::deserialize(deserializer)?;
    text.0
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
        .ok_or_else(|| document::custom(format!("`{}` is not a number", text.0), question))
}

impl Default for Measurement {
    fn default() -> Self {
        Self {
            duration: Millis(30_000.0),
            warm_up: Millis(5_000.0),
            drain: Millis(30_000.0),
            repeats: 3,
            seed: 1,
            confidence: 0.95,
        }
    }
}

impl Scenario {
    /// Reads a scenario from YAML and checks it as a whole.
    ///
    /// # Errors
    /// When the document cannot be read or contradicts itself; all contradictions are listed.
    pub fn from_yaml(file: &str, bytes: &[u8]) -> Result<Self, DocumentError> {
        let spanned: Spanned<Scenario> = document::from_yaml(file, bytes)?;
        let scenario = spanned.value;
        let problems: Vec<Problem> = scenario
            .contradictions()
            .into_iter()
            .map(|(key, message, hint)| {
                let (line, column) = contradictions::place_of(bytes, &key);
                Problem { file: file.to_owned(), line, column, message, hint: Some(hint) }
            })
            .collect();
        if problems.is_empty() { Ok(scenario) } else { Err(DocumentError { problems }) }
    }

    /// Every requirement, in the order of the dimensions.
    pub fn all_requirements(&self) -> impl Iterator<Item = &Requirement> {
        let r = &self.requirements;
        r.latency
            .requirements()
            .iter()
            .chain(r.throughput.requirements())
            .chain(r.consistency.requirements())
            .chain(r.reliability.requirements())
            .chain(&r.scalability.require)
    }

    /// The confidence asked of a requirement.
    #[must_use]
    pub fn confidence(&self, requirement: &Requirement) -> f64 {
        requirement.confidence.unwrap_or(self.measurement.confidence)
    }

    /// The load at which candidates are measured: the base load at its peak.
    #[must_use]
    pub fn peak_arrival(&self) -> Arrival {
        self.workload.arrival.scaled(self.requirements.scalability.peak_factor)
    }

    /// The order of preference as indexes into `criteria`; criteria that the order does not name come last, together.
    #[must_use]
    pub fn preference_groups(&self) -> Vec<Vec<usize>> {
        let index =
            |name: &String| self.criteria.iter().position(|criterion| criterion.metric.to_string() == *name);
        let mut groups: Vec<Vec<usize>> =
            self.preference.iter().map(|group| group.0.iter().filter_map(index).collect()).collect();
        let named: Vec<usize> = groups.iter().flatten().copied().collect();
        groups.push((0..self.criteria.len()).filter(|i| !named.contains(i)).collect());
        groups.retain(|group| !group.is_empty());
        groups
    }
}

/// The metric of a criterion or gate, when the subject is one.
#[must_use]
pub fn metric_of(subject: Subject) -> Option<MetricId> {
    match subject {
        Subject::Metric(metric, _) => Some(metric),
        Subject::Capability(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
format: touchstone.scenario/1
name: chat
family: inference
horizon: 12 months
workload:
  arrival: poisson:50/s
  input_tokens: 128
  output_tokens: 64
requirements:
  latency: [ttft.p99 <= 200ms]
  throughput: [throughput >= 50/s]
  consistency: {none: any answer will do}
  reliability:
    - error_rate <= 0.1%
    - {require: maintained = yes, confidence: 0.9}
  scalability: {peak_factor: 2, growth: 50%/year}
criteria:
  - {metric: ttft.p95, worst: 400ms, best: 50ms}
  - {metric: output_token_throughput, worst: 0tokens/s, best: 5000tokens/s}
preference: [ttft.p95]
candidates:
  - {name: a, product: vllm, target: 'engine=vllm-like'}
";

    fn error(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "{from}");
        Scenario::from_yaml("s.yaml", GOOD.replace(from, to).as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn reads_a_scenario_and_writes_it_back() {
        let scenario = Scenario::from_yaml("s.yaml", GOOD.as_bytes()).unwrap();
        assert_eq!(scenario.all_requirements().count(), 4);
        assert_eq!(scenario.peak_arrival().per_second(), Some(100.0));
        assert_eq!(scenario.preference_groups(), [vec![0], vec![1]]);
        assert_eq!(scenario.criteria[0].value(225.0), 0.5);
        assert_eq!(scenario.criteria[0].value(f64::INFINITY), 0.0);
        let json = serde_json::to_string(&scenario).unwrap();
        assert_eq!(Scenario::from_yaml("s.json", json.as_bytes()).unwrap(), scenario);
    }

    #[test]
    fn vague_demands_get_a_question_back() {
        let vague = error("latency: [ttft.p99 <= 200ms]", "latency: low");
        assert!(vague.starts_with("s.yaml:11:"), "{vague}");
        assert!(
            vague.contains("`latency: low` is not quantified") && vague.contains("which percentile"),
            "{vague}"
        );
        assert!(error("throughput: [throughput >= 50/s]", "throughput: [high]").contains("which bound?"));
        assert!(error("  throughput: [throughput >= 50/s]\n", "").contains("how many operations or tokens"));
        assert!(error("{none: any answer will do}", "{none: ''}").contains("without a reason"));
        assert!(error("[ttft.p99 <= 200ms]", "[latency: low]").contains("which percentile"));
        assert!(error("[ttft.p99 <= 200ms]", "[latency <= 200ms]").contains("which percentile"));
        assert!(error("peak_factor: 2", "peak_factor: high").contains("how high is the peak"));
        assert!(error("horizon: 12 months\n", "").contains("for how long"));
        assert!(error("  arrival: poisson:50/s\n", "").contains("how many operations per second"));
        assert!(error("  input_tokens: 128\n", "").contains("how many prompt tokens"));
    }

    #[test]
    fn the_schema_takes_both_forms_of_a_preference() {
        let schema = serde_json::to_value(schemars::schema_for!(Scenario)).unwrap();
        let forms = schema.pointer("/$defs/PreferenceGroup/oneOf").unwrap().as_array().unwrap();
        let types: Vec<_> = forms.iter().map(|form| form["type"].as_str().unwrap()).collect();
        assert_eq!(types, ["string", "array"]);
    }

    #[test]
    fn contradictions_are_found() {
        assert!(error("family: inference", "family: queue").contains("belongs to inference workloads"));
        assert!(error("worst: 400ms, best: 50ms", "worst: 50ms, best: 400ms").contains("reversed"));
        assert!(error("preference: [ttft.p95]", "preference: [cost]").contains("no criterion"));
        assert!(error("[ttft.p99 <= 200ms]", "[error_rate <= 1%]").contains("belongs to `reliability`"));
        assert!(error("peak_factor: 2", "peak_factor: 0.5").contains("at least 1"));
        assert!(error("maintained = yes", "durability >= D3").contains("means nothing for inference"));
        assert!(error("error_rate <= 0.1%", "error_rate <= 130%").contains("at most 100%"));
        assert!(error("name: chat", "name: a/b").contains("is no name"));
        assert!(error("scenario/1", "scenario/9").contains("this version reads"));
        assert!(error("engine=vllm-like", "resp=127.0.0.1").contains("no inference protocol"));
    }
}
