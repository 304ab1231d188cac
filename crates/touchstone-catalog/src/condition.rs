//! Conditions of rules and recommendations: what a scenario must ask for, or be, for them to apply.

use std::fmt;
use std::str::FromStr;

use touchstone_model::requirement::{Limit, RequirementError};
use touchstone_model::unit::{QuantityError, Unit};
use touchstone_model::{Comparison, Family, Quantity, Requirement, Scenario, Statistic, Subject};

use crate::nearest::nearest;

macro_rules! features {
    ($($variant:ident, $id:literal, $unit:ident, $doc:literal;)+) => {
        /// A number that a scenario states about itself. A scenario that does not state it meets no condition on it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Feature {
            $(#[doc = $doc] $variant,)+
        }

        impl Feature {
            /// Every feature.
            pub const ALL: &'static [Feature] = &[$(Feature::$variant),+];

            /// The name in conditions.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Feature::$variant => $id),+ }
            }

            /// The unit of its values.
            #[must_use]
            pub fn unit(self) -> Unit {
                match self { $(Feature::$variant => Unit::$unit),+ }
            }
        }
    };
}

features! {
    Accelerators, "accelerators", Count, "Accelerators that may be used.";
    Nodes, "nodes", Count, "Machines that may be used.";
    Budget, "budget", UsdPerHour, "What may be spent.";
    PeakFactor, "peak_factor", Count, "Peak load / base load.";
    Growth, "growth", RatioPerYear, "Growth of the base load.";
    Horizon, "horizon", Milliseconds, "How long the decision is meant to hold.";
    Arrival, "arrival", PerSecond, "Intended starts per second at the peak; not stated by a closed loop.";
    InputTokens, "input_tokens", Tokens, "Prompt tokens of a request.";
    OutputTokens, "output_tokens", Tokens, "Generated tokens of a request.";
    MessageBytes, "message_bytes", Bytes, "Size of a message body.";
    Keys, "keys", Count, "Number of keys.";
    ValueBytes, "value_bytes", Bytes, "Size of a value.";
    ReadRatio, "read_ratio", Ratio, "Share of reads among the operations.";
    Pipeline, "pipeline", Count, "Commands in flight on one connection.";
    Connections, "connections", Count, "Connections.";
}

impl Feature {
    /// Its value in the scenario, canonical unit; none when the scenario does not state it.
    #[must_use]
    pub fn of(self, scenario: &Scenario) -> Option<Quantity> {
        let (w, c, s) = (&scenario.workload, &scenario.constraints, &scenario.requirements.scalability);
        let value = match self {
            Feature::Accelerators => c.accelerators.map(f64::from),
            Feature::Nodes => c.nodes.map(f64::from),
            Feature::Budget => c.budget.map(|budget| budget.0),
            Feature::PeakFactor => Some(s.peak_factor),
            Feature::Growth => Some(s.growth.0),
            Feature::Horizon => Some(scenario.horizon.0),
            Feature::Arrival => scenario.peak_arrival().per_second(),
            Feature::InputTokens => w.input_tokens.map(f64::from),
            Feature::OutputTokens => w.output_tokens.map(f64::from),
            Feature::MessageBytes => w.message_bytes.map(|bytes| bytes.0),
            Feature::Keys => w.keys.map(|keys| keys as f64),
            Feature::ValueBytes => w.value_bytes.map(|bytes| bytes.0),
            Feature::ReadRatio => w.read_ratio.map(|share| share.0),
            Feature::Pipeline => w.pipeline.map(f64::from),
            Feature::Connections => w.connections.map(f64::from),
        };
        value.map(|value| Quantity::new(value, self.unit()))
    }
}

/// One condition on a scenario.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// `family = queue`: the scenario is about this family.
    Family(Family),
    /// `accelerators >= 1`: the scenario states such a number.
    Feature(Feature, Comparison, Quantity),
    /// `end_to_end_latency.p99 <= 5ms`: the scenario asks for this, or for more.
    Asks(Requirement),
}

/// The text is no condition.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConditionError {
    /// There is no comparison sign.
    #[error("`{text}` is no condition; expected NAME, one of <= >= =, and a limit")]
    NoComparison {
        /// The text as written.
        text: String,
    },
    /// The family is unknown.
    #[error("`{text}` is no family; expected inference, queue or cache")]
    Family {
        /// The text as written.
        text: String,
    },
    /// The limit of a feature cannot be read.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// It is neither a feature nor a requirement.
    #[error("{error}{}", .nearest.map_or_else(String::new, |name| format!(" (or is the scenario feature `{name}` meant?)")))]
    Requirement {
        /// Why it is no requirement.
        #[source]
        error: RequirementError,
        /// The feature that is most like the name.
        nearest: Option<&'static str>,
    },
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let no_comparison = || ConditionError::NoComparison { text: text.to_owned() };
        let at = text.find(['<', '>', '=']).ok_or_else(no_comparison)?;
        let name = text[..at].trim();
        let signs = [("<=", Comparison::AtMost), (">=", Comparison::AtLeast), ("=", Comparison::Equal)];
        let split = || {
            let (sign, comparison) = signs.into_iter().find(|(sign, _)| text[at..].starts_with(sign))?;
            Some((comparison, text[at + sign.len()..].trim()))
        };
        if name == "family" {
            return match split().ok_or_else(no_comparison)? {
                (Comparison::Equal, limit) => Family::ALL
                    .into_iter()
                    .find(|family| family.as_str() == limit)
                    .map(Condition::Family)
                    .ok_or_else(|| ConditionError::Family { text: limit.to_owned() }),
                _ => Err(no_comparison()),
            };
        }
        if let Some(feature) = Feature::ALL.iter().copied().find(|feature| feature.as_str() == name) {
            let (comparison, limit) = split().ok_or_else(no_comparison)?;
            return Ok(Condition::Feature(feature, comparison, Quantity::parse(limit, feature.unit())?));
        }
        text.parse().map(Condition::Asks).map_err(|error| {
            let known = Feature::ALL.iter().map(|feature| feature.as_str());
            ConditionError::Requirement { error, nearest: nearest(name, known) }
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Family(family) => write!(f, "family = {family}"),
            Condition::Feature(feature, comparison, limit) => {
                write!(f, "{} {} {limit}", feature.as_str(), comparison.as_str())
            }
            Condition::Asks(requirement) => requirement.fmt(f),
        }
    }
}

impl Condition {
    /// What in the scenario meets the condition, as text (`end_to_end_latency.p99 <= 2ms`); none when nothing does.
    #[must_use]
    pub fn met_by(&self, scenario: &Scenario) -> Option<String> {
        match self {
            Condition::Family(family) => (*family == scenario.family).then(|| self.to_string()),
            Condition::Feature(feature, comparison, limit) => {
                let value = feature.of(scenario)?;
                comparison.holds(value.value, limit.value).then(|| format!("{} = {value}", feature.as_str()))
            }
            Condition::Asks(condition) => {
                scenario.all_requirements().find(|asked| implies(asked, condition)).map(ToString::to_string)
            }
        }
    }
}

/// Whether a system that satisfies `asked` always satisfies `condition`: the scenario asks at least as strictly.
fn implies(asked: &Requirement, condition: &Requirement) -> bool {
    if !same_or_stricter_subject(asked, condition) {
        return false;
    }
    // A flag asked for with `= yes` has rank 1; flags are never ordered, so only equality can be implied for them.
    let (a, c) = (asked.limit.magnitude(), condition.limit.magnitude());
    match (asked.comparison, condition.comparison) {
        (Comparison::AtMost, Comparison::AtMost) => a <= c,
        (Comparison::AtLeast, Comparison::AtLeast) => a >= c,
        (Comparison::Equal, comparison) => comparison.holds(a, c),
        // The strongest class `>=` is that class: `durability >= D4` asks for `durability = D4`.
        (Comparison::AtLeast, Comparison::Equal) => a == c && is_top_class(&asked.limit),
        _ => false,
    }
}

fn is_top_class(limit: &Limit) -> bool {
    use touchstone_model::CapabilityValue;
    matches!(limit, Limit::Capability(CapabilityValue::Class { classes, rank }) if rank + 1 == classes.len())
}

/// The same subject; or for an upper limit, a higher quantile or the maximum of the same metric, which bounds the lower.
fn same_or_stricter_subject(asked: &Requirement, condition: &Requirement) -> bool {
    match (asked.subject, condition.subject) {
        (Subject::Metric(a, Some(asked_statistic)), Subject::Metric(c, Some(statistic))) => {
            let bounds = asked_statistic == statistic
                || (condition.comparison == Comparison::AtMost
                    && statistic.level().is_some_and(|level| reach(asked_statistic) >= level));
            a == c && bounds
        }
        (a, c) => a == c,
    }
}

/// The quantile up to which a bound on this statistic bounds the distribution.
fn reach(statistic: Statistic) -> f64 {
    match statistic {
        Statistic::Max => 1.0,
        Statistic::Mean => 0.0,
        quantile => quantile.level().unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(text: &str) -> Requirement {
        text.parse().unwrap()
    }

    #[test]
    fn stricter_demands_imply_weaker_conditions() {
        for (asked, condition, expected) in [
            ("end_to_end_latency.p99 <= 2ms", "end_to_end_latency.p99 <= 5ms", true),
            ("end_to_end_latency.p99 <= 5ms", "end_to_end_latency.p99 <= 5ms", true),
            ("end_to_end_latency.p99 <= 9ms", "end_to_end_latency.p99 <= 5ms", false),
            ("end_to_end_latency.p999 <= 5ms", "end_to_end_latency.p99 <= 5ms", true),
            ("end_to_end_latency.max <= 5ms", "end_to_end_latency.p99 <= 5ms", true),
            ("end_to_end_latency.p50 <= 1ms", "end_to_end_latency.p99 <= 5ms", false),
            ("end_to_end_latency.mean <= 1ms", "end_to_end_latency.p50 <= 5ms", false),
            ("publish_latency.p99 <= 1ms", "end_to_end_latency.p99 <= 5ms", false),
            ("throughput >= 20k/s", "throughput >= 10k/s", true),
            ("throughput >= 5k/s", "throughput >= 10k/s", false),
            ("durability >= D3", "durability >= D1", true),
            ("durability >= D1", "durability >= D3", false),
            ("durability = D0", "durability >= D1", false),
            ("durability = D0", "durability <= D1", true),
            ("durability >= D4", "durability = D4", true),
            ("durability >= D3", "durability = D3", false),
            ("dead_letter = yes", "dead_letter = yes", true),
            ("dead_letter = no", "dead_letter = yes", false),
            ("durability >= D3", "delivery >= at-most-once", false),
        ] {
            assert_eq!(
                implies(&requirement(asked), &requirement(condition)),
                expected,
                "{asked} -> {condition}"
            );
        }
    }

    #[test]
    fn conditions_read_and_write() {
        for text in [
            "family = queue",
            "accelerators >= 1",
            "accelerators = 0",
            "peak_factor >= 3",
            "arrival >= 100000/s",
            "read_ratio >= 95%",
            "end_to_end_latency.p99 <= 5ms",
            "multi_tenant = yes",
        ] {
            assert_eq!(text.parse::<Condition>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn nonsense_conditions_are_refused() {
        let error = |text: &str| text.parse::<Condition>().unwrap_err().to_string();
        assert!(error("gpu").contains("is no condition"));
        assert!(error("family = queues").contains("expected inference"));
        assert!(error("family >= queue").contains("is no condition"));
        assert!(error("accelerator >= 1").contains("`accelerators` meant?"));
        assert!(error("read_ratio >= many").contains("is not a number"));
        assert!(error("nodes < 2").contains("is no condition"));
    }
}
