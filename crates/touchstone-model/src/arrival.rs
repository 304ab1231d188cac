//! Arrival processes: when operations are meant to start.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::unit::{Quantity, QuantityError, Unit};

/// When operations are meant to start. Open loop unless it says closed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrival {
    /// `closed:N`: N slots, each starts its next operation when the last one ended.
    Closed {
        /// Operations in flight, at least 1.
        slots: u32,
    },
    /// `constant:R/s`: equal gaps.
    Constant {
        /// Intended starts per second.
        per_second: f64,
    },
    /// `poisson:R/s`: exponential gaps, independent.
    Poisson {
        /// Intended starts per second.
        per_second: f64,
    },
}

impl Arrival {
    /// The rate of intended starts per second; none for a closed loop.
    #[must_use]
    pub fn per_second(self) -> Option<f64> {
        match self {
            Arrival::Closed { .. } => None,
            Arrival::Constant { per_second } | Arrival::Poisson { per_second } => Some(per_second),
        }
    }

    /// The same process with its rate multiplied; a closed loop is unchanged.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        match self {
            Arrival::Closed { .. } => self,
            Arrival::Constant { per_second } => Arrival::Constant { per_second: per_second * factor },
            Arrival::Poisson { per_second } => Arrival::Poisson { per_second: per_second * factor },
        }
    }
}

/// Why a text is no arrival process.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ArrivalError {
    /// The name before the colon is unknown or missing.
    #[error("unknown arrival process `{text}`; expected `poisson:50/s`, `constant:50/s` or `closed:64`")]
    UnknownProcess {
        /// The text as written.
        text: String,
    },
    /// The number of slots is not a whole number from 1 on.
    #[error("`{text}` is no number of slots; expected a whole number from 1 to 1000000, as in `closed:64`")]
    Slots {
        /// The text as written.
        text: String,
    },
    /// The rate cannot be read.
    #[error("the rate of the arrival process cannot be read")]
    Rate(#[from] QuantityError),
    /// The rate is zero or beyond what can be scheduled.
    #[error("the rate `{text}` is out of range; expected more than 0 and at most 50M/s")]
    RateRange {
        /// The text as written.
        text: String,
    },
}

impl FromStr for Arrival {
    type Err = ArrivalError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, argument) = text.split_once(':').unwrap_or((text, ""));
        let rate = || -> Result<f64, ArrivalError> {
            let rate = Quantity::parse(argument, Unit::PerSecond)?.value;
            if rate > 0.0 && rate <= 50e6 {
                Ok(rate)
            } else {
                Err(ArrivalError::RateRange { text: argument.to_owned() })
            }
        };
        match name.trim() {
            "closed" => match argument.trim().parse::<u32>() {
                Ok(slots @ 1..=1_000_000) => Ok(Arrival::Closed { slots }),
                _ => Err(ArrivalError::Slots { text: argument.to_owned() }),
            },
            "constant" => Ok(Arrival::Constant { per_second: rate()? }),
            "poisson" => Ok(Arrival::Poisson { per_second: rate()? }),
            _ => Err(ArrivalError::UnknownProcess { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |per_second: f64| Quantity::new(per_second, Unit::PerSecond);
        match *self {
            Arrival::Closed { slots } => write!(f, "closed:{slots}"),
            Arrival::Constant { per_second } => write!(f, "constant:{}", rate(per_second)),
            Arrival::Poisson { per_second } => write!(f, "poisson:{}", rate(per_second)),
        }
    }
}

impl Serialize for Arrival {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Arrival {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error: ArrivalError| match error {
            ArrivalError::Rate(inner) => serde::de::Error::custom(inner),
            other => serde::de::Error::custom(other),
        })
    }
}

impl JsonSchema for Arrival {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Arrival".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "an arrival process: poisson:50/s, constant:50/s (open loop) or closed:64",
            "pattern": "^(poisson|constant):.+$|^closed:[0-9]+$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        for text in ["poisson:50/s", "constant:100000/s", "closed:64"] {
            assert_eq!(text.parse::<Arrival>().unwrap().to_string(), text);
        }
        assert_eq!("poisson:20k/s".parse::<Arrival>().unwrap().per_second(), Some(20_000.0));
    }

    #[test]
    fn refuses() {
        for text in [
            "",
            "poisson",
            "poisson:",
            "poisson:-5/s",
            "poisson:0/s",
            "poisson:50",
            "closed:0",
            "closed:x",
            "burst:3",
            "constant:1e9/s",
        ] {
            assert!(text.parse::<Arrival>().is_err(), "{text}");
        }
    }
}
