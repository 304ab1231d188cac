//! Requirements: thresholds in natural units that must hold, as people write them: `ttft.p99 <= 200ms`.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::capability::{CapabilityId, CapabilityType, CapabilityValue, CapabilityValueError};
use crate::document;
use crate::metric::{Better, Dimension, MetricId, MetricKind, Statistic, UnknownStatistic, closest};
use crate::unit::{Quantity, QuantityError};

/// What a requirement is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A measured metric, with the statistic where it is a distribution.
    Metric(MetricId, Option<Statistic>),
    /// A capability, promised by the product and checked against the catalog.
    Capability(CapabilityId),
}

impl Subject {
    /// The dimension it belongs to.
    #[must_use]
    pub fn dimension(self) -> Dimension {
        match self {
            Subject::Metric(metric, _) => metric.dimension(),
            Subject::Capability(capability) => capability.dimension(),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Metric(metric, Some(statistic)) => write!(f, "{metric}.{statistic}"),
            Subject::Metric(metric, None) => metric.fmt(f),
            Subject::Capability(capability) => capability.fmt(f),
        }
    }
}

impl FromStr for Subject {
    type Err = RequirementError;

    fn from_str(text: &str) -> Result<Self, RequirementError> {
        let (name, statistic) = match text.split_once('.') {
            Some((name, statistic)) => (name, Some(statistic)),
            None => (text, None),
        };
        if let Ok(metric) = name.parse::<MetricId>() {
            let statistic = statistic.map(str::parse::<Statistic>).transpose()?;
            return match (metric.kind(), statistic) {
                (MetricKind::Distribution, None) => Err(RequirementError::NoStatistic { metric }),
                (MetricKind::Scalar, Some(_)) => Err(RequirementError::NeedlessStatistic { metric }),
                (_, statistic) => Ok(Subject::Metric(metric, statistic)),
            };
        }
        if statistic.is_none()
            && let Ok(capability) = name.parse::<CapabilityId>()
        {
            return Ok(Subject::Capability(capability));
        }
        if dimension(name).is_some() {
            return Err(RequirementError::UnknownSubject { text: name.to_owned(), nearest: None });
        }
        let known = MetricId::ALL.iter().map(|metric| metric.as_str());
        let known = known.chain(CapabilityId::ALL.iter().map(|capability| capability.as_str()));
        Err(RequirementError::UnknownSubject { text: name.to_owned(), nearest: closest(name, known) })
    }
}

/// The direction of a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Comparison {
    /// The value must not exceed the limit.
    AtMost,
    /// The value must reach the limit.
    AtLeast,
    /// The value must be the limit (flags and classes only).
    Equal,
}

impl Comparison {
    /// The sign as written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Comparison::AtMost => "<=",
            Comparison::AtLeast => ">=",
            Comparison::Equal => "=",
        }
    }

    /// Whether `value` satisfies the comparison with `limit`.
    #[must_use]
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Comparison::AtMost => value <= limit,
            Comparison::AtLeast => value >= limit,
            Comparison::Equal => value == limit,
        }
    }
}

/// The limit of a requirement, of the type of its subject.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// For metrics.
    Quantity(Quantity),
    /// For capabilities.
    Capability(CapabilityValue),
}

impl Limit {
    /// The limit as one number in its canonical scale; classes give their rank.
    #[must_use]
    pub fn magnitude(self) -> f64 {
        match self {
            Limit::Quantity(quantity) => quantity.value,
            Limit::Capability(value) => value.magnitude(),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Quantity(quantity) => quantity.fmt(f),
            Limit::Capability(value) => value.fmt(f),
        }
    }
}

/// A threshold that must hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Requirement {
    /// What it is about.
    pub subject: Subject,
    /// The direction.
    pub comparison: Comparison,
    /// The limit.
    pub limit: Limit,
    /// The confidence asked for, when it is not the scenario's; in (0.5, 1).
    pub confidence: Option<f64>,
}

/// Why a text is no requirement.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RequirementError {
    /// There is no comparison sign.
    #[error("`{text}` is no requirement; expected SUBJECT <= LIMIT or SUBJECT >= LIMIT")]
    NoComparison {
        /// The text as written.
        text: String,
    },
    /// The name before the sign is neither a metric nor a capability.
    #[error("unknown metric or capability `{text}`{}", .nearest.map_or_else(String::new, |id| format!(" (did you mean `{id}`?)")))]
    UnknownSubject {
        /// The name as written.
        text: String,
        /// The known name that is most like it.
        nearest: Option<&'static str>,
    },
    /// A distribution without a statistic.
    #[error(
        "`{metric}` is a distribution: which statistic is meant? expected `{metric}.p99` or another of mean, p50, p90, p95, p99, p999, max"
    )]
    NoStatistic {
        /// The metric.
        metric: MetricId,
    },
    /// A statistic where there is one value per run.
    #[error("`{metric}` has one value for a run and takes no statistic; write `{metric}` alone")]
    NeedlessStatistic {
        /// The metric.
        metric: MetricId,
    },
    /// The statistic is unknown.
    #[error(transparent)]
    Statistic(#[from] UnknownStatistic),
    /// The limit is not a number with the right unit.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// The limit is not a value of the capability.
    #[error(transparent)]
    Capability(#[from] CapabilityValueError),
    /// The sign makes no sense for this subject.
    #[error("`{sign}` does not fit `{subject}`; expected {expected}")]
    Sign {
        /// The sign as written.
        sign: &'static str,
        /// The subject.
        subject: Subject,
        /// The sign that would be right.
        expected: &'static str,
    },
    /// The confidence is out of range.
    #[error("the confidence {confidence} is out of range; expected more than 0.5 and less than 1")]
    Confidence {
        /// The number as written.
        confidence: f64,
    },
}

impl FromStr for Requirement {
    type Err = RequirementError;

    fn from_str(text: &str) -> Result<Self, RequirementError> {
        let no_comparison = || RequirementError::NoComparison { text: text.trim().to_owned() };
        let at = text.find(['<', '>', '=', '≤', '≥']).ok_or_else(no_comparison)?;
        let (name, rest) = text.split_at(at);
        let name = name.trim();
        if name.is_empty() {
            return Err(no_comparison());
        }
        let signs = [
            ("<=", Comparison::AtMost),
            ("≤", Comparison::AtMost),
            ("<", Comparison::AtMost),
            (">=", Comparison::AtLeast),
            ("≥", Comparison::AtLeast),
            (">", Comparison::AtLeast),
            ("==", Comparison::Equal),
            ("=", Comparison::Equal),
        ];
        let (sign, comparison) =
            signs.into_iter().find(|(sign, _)| rest.starts_with(sign)).ok_or_else(no_comparison)?;
        let limit = rest[sign.len()..].trim();
        let subject: Subject = name.parse()?;
        let limit = match subject {
            Subject::Metric(metric, _) => {
                let wrong_way = match metric.better() {
                    Better::Lower => comparison == Comparison::AtLeast,
                    Better::Higher => comparison == Comparison::AtMost,
                };
                if wrong_way {
                    let expected = if metric.better() == Better::Lower { "`<=`" } else { "`>=`" };
                    return Err(RequirementError::Sign { sign: comparison.as_str(), subject, expected });
                }
                if comparison == Comparison::Equal {
                    return Err(RequirementError::Sign { sign: "=", subject, expected: "`<=` or `>=`" });
                }
                Limit::Quantity(Quantity::parse(limit, metric.unit())?)
            }
            Subject::Capability(capability) => {
                if capability.value_type() == CapabilityType::Flag && comparison != Comparison::Equal {
                    return Err(RequirementError::Sign {
                        sign: comparison.as_str(),
                        subject,
                        expected: "`= yes`",
                    });
                }
                Limit::Capability(CapabilityValue::parse(capability, limit)?)
            }
        };
        Ok(Self { subject, comparison, limit, confidence: None })
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.subject, self.comparison.as_str(), self.limit)
    }
}

impl Serialize for Requirement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.confidence {
            None => serializer.collect_str(self),
            Some(confidence) => {
                use serde::ser::SerializeStruct;
                let mut object = serializer.serialize_struct("Requirement", 2)?;
                object.serialize_field("require", &self.to_string())?;
                object.serialize_field("confidence", &confidence)?;
                object.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Requirement {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Requirement;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a requirement such as `ttft.p99 <= 200ms`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Requirement, E> {
                text.parse().map_err(|error: RequirementError| match hint(text, &error) {
                    Some(hint) => document::custom(error, hint),
                    None => E::custom(error),
                })
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Requirement, A::Error> {
                let mirror = read_mirror(map)?;
                let mut requirement: Requirement = self.visit_str(&mirror.require)?;
                if !(mirror.confidence > 0.5 && mirror.confidence < 1.0) {
                    let error = RequirementError::Confidence { confidence: mirror.confidence };
                    return Err(serde::de::Error::custom(error));
                }
                requirement.confidence = Some(mirror.confidence);
                Ok(requirement)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A requirement as an object, to ask for a confidence of its own.
struct Mirror {
    require: String,
    confidence: f64,
}

/// Reads the object key by key: a vague entry such as `- latency: low` gets its question back, not a list of keys.
fn read_mirror<'de, A: serde::de::MapAccess<'de>>(mut map: A) -> Result<Mirror, A::Error> {
    let (mut require, mut confidence) = (None, None);
    while let Some(key) = map.next_key::<String>()? {
        match key.as_str() {
            "require" => require = Some(map.next_value::<String>()?),
            "confidence" => confidence = Some(map.next_value::<f64>()?),
            other => {
                let question = dimension(other).map_or(
                    "which metric, which percentile, which bound? for example `ttft.p99 <= 200ms`",
                    Dimension::question,
                );
                return Err(document::custom(
                    format!(
                        "`{other}: ...` is no requirement; expected SUBJECT <= LIMIT, or an object with `require` and `confidence`"
                    ),
                    question,
                ));
            }
        }
    }
    match (require, confidence) {
        (Some(require), Some(confidence)) => Ok(Mirror { require, confidence }),
        (None, _) => Err(serde::de::Error::missing_field("require")),
        (_, None) => Err(serde::de::Error::missing_field("confidence")),
    }
}

/// The dimension of this name.
fn dimension(name: &str) -> Option<Dimension> {
    Dimension::ALL.into_iter().find(|dimension| dimension.as_str() == name)
}

/// The question to put back for a requirement that cannot be read.
fn hint(text: &str, error: &RequirementError) -> Option<String> {
    match error {
        // A dimension is no metric: ask for one.
        RequirementError::UnknownSubject { text: word, .. } if dimension(word).is_some() => {
            dimension(word).map(|dimension| dimension.question().to_owned())
        }
        RequirementError::NoComparison { .. } | RequirementError::UnknownSubject { nearest: None, .. } => {
            Some(format!(
                "`{text}` is not measurable as written: which metric, which percentile, which bound?"
            ))
        }
        RequirementError::Quantity(QuantityError::NotANumber { .. }) => {
            Some("a word is no bound: which number, in which unit?".to_owned())
        }
        RequirementError::Quantity(QuantityError::WrongUnit { .. }) => {
            Some("write the number with its unit".to_owned())
        }
        _ => None,
    }
}

impl JsonSchema for Requirement {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Requirement".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "a threshold that must hold, such as `ttft.p99 <= 200ms`, `durability >= D3` or `dead_letter = yes`; as an object to ask for another confidence",
            "oneOf": [
                { "type": "string", "pattern": "^[a-z0-9_]+(\\.(mean|p50|p90|p95|p99|p999|max))?\\s*(<=|>=|<|>|=|==|≤|≥)\\s*\\S.*$" },
                { "type": "object", "additionalProperties": false, "required": ["require", "confidence"],
                  "properties": { "require": { "type": "string" }, "confidence": { "type": "number", "exclusiveMinimum": 0.5, "exclusiveMaximum": 1 } } }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        for (text, expected) in [
            ("ttft.p99<=200ms", "ttft.p99 <= 200ms"),
            ("ttft.p99 ≤ 0.2s", "ttft.p99 <= 200ms"),
            ("throughput > 50/s", "throughput >= 50/s"),
            ("error_rate <= 0.1%", "error_rate <= 0.1%"),
            ("durability >= D3", "durability >= D3"),
            ("dead_letter = yes", "dead_letter = yes"),
            ("retention >= 7d", "retention >= 7d"),
            ("lost <= 0", "lost <= 0"),
        ] {
            assert_eq!(text.parse::<Requirement>().unwrap().to_string(), expected);
        }
    }

    #[test]
    fn refuses_what_cannot_be_measured() {
        let error = |text: &str| text.parse::<Requirement>().unwrap_err().to_string();
        assert!(error("low latency").contains("expected SUBJECT <= LIMIT"));
        assert!(error("ttft <= 200ms").contains("which statistic"));
        assert!(error("ttft.p98 <= 200ms").contains("unknown statistic `p98`"));
        assert!(error("ttft.p99 <= fast").contains("is not a number"));
        assert!(error("ttft.p99 <= 200").contains("no unit"));
        assert!(error("ttft.p99 = 200ms").contains("does not fit"));
        assert!(error("ttft.p99 >= 200ms").contains("expected `<=`"));
        assert!(error("throughput <= 5/s").contains("expected `>=`"));
        assert!(error("throughput.p99 >= 5/s").contains("takes no statistic"));
        assert!(error("durabilty >= D3").contains("did you mean `durability`"));
        assert!(error("durability >= high").contains("expected one of D0"));
        assert!(error("throughput >= -5/s").contains("must not be negative"));
        assert!(error("<= 5ms").contains("expected SUBJECT"));
    }
}
