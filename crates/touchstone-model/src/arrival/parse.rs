//! Reading an arrival process: `NAME:ARGUMENT,KEY=VALUE,...`.

use std::str::FromStr;

use super::Arrival;
use crate::unit::{Millis, Quantity, QuantityError, Unit};

/// The greatest rate that can be scheduled, per second.
const MAX_RATE: f64 = 50e6;

/// Why a text is no arrival process.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ArrivalError {
    /// The name before the colon is unknown or missing.
    #[error(
        "unknown arrival process `{text}`; expected `poisson:50/s`, `constant:50/s`, `closed:64`, `gamma:50/s,cv=2`, `bursts:size=100,period=10s`, `wave:50/s,amplitude=0.8,period=10min`, `ramp:10/s..100/s,over=60s`, `stairs:10/s..100/s,steps=10,hold=10s,down`, `gradient:hold=30s` or `trace`"
    )]
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
    /// A rate or a duration cannot be read.
    #[error("the rate of the arrival process cannot be read")]
    Quantity(#[from] QuantityError),
    /// The rate is zero or beyond what can be scheduled.
    #[error("the rate `{text}` is out of range; expected more than 0 and at most 50M/s")]
    RateRange {
        /// The text as written.
        text: String,
    },
    /// A part that the process needs is missing.
    #[error("`{process}` needs `{part}`, as in `{example}`")]
    Missing {
        /// The name of the process.
        process: &'static str,
        /// What is missing.
        part: &'static str,
        /// A process that has it.
        example: &'static str,
    },
    /// A part that the process does not have, or has already.
    #[error("`{process}` has no part `{part}`, or has it twice; expected `{example}`")]
    Stray {
        /// The name of the process.
        process: &'static str,
        /// The part as written.
        part: String,
        /// How it is written.
        example: &'static str,
    },
    /// A part is outside its range.
    #[error("`{part}={text}` of `{process}` must be {range}")]
    Part {
        /// The name of the process.
        process: &'static str,
        /// The part.
        part: &'static str,
        /// The value as written.
        text: String,
        /// What it may be.
        range: &'static str,
    },
}

/// The parts of a process, each to be taken once.
struct Parts<'a> {
    process: &'static str,
    example: &'static str,
    parts: Vec<&'a str>,
}

impl<'a> Parts<'a> {
    fn new(process: &'static str, example: &'static str, text: &'a str) -> Self {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
        Self { process, example, parts }
    }

    /// The part without a key, which stands first.
    fn bare(&mut self) -> Option<&'a str> {
        let first = *self.parts.first()?;
        (!first.contains('=') && first != "down").then(|| self.parts.remove(0))
    }

    fn flag(&mut self, name: &str) -> bool {
        let at = self.parts.iter().position(|part| *part == name);
        at.map(|at| self.parts.remove(at)).is_some()
    }

    fn optional(&mut self, key: &'static str) -> Option<&'a str> {
        let at = self
            .parts
            .iter()
            .position(|part| part.split_once('=').is_some_and(|(name, _)| name.trim() == key))?;
        self.parts.remove(at).split_once('=').map(|(_, value)| value.trim())
    }

    fn missing(&self, part: &'static str) -> ArrivalError {
        ArrivalError::Missing { process: self.process, part, example: self.example }
    }

    fn bad(&self, part: &'static str, text: &str, range: &'static str) -> ArrivalError {
        ArrivalError::Part { process: self.process, part, text: text.to_owned(), range }
    }

    fn duration(&mut self, key: &'static str) -> Result<Millis, ArrivalError> {
        let text = self.optional(key).ok_or_else(|| self.missing(key))?;
        let value = Quantity::parse(text, Unit::Milliseconds)?.value;
        // A year in ms; anything longer is no measurement.
        if (1.0..=366.0 * 86_400_000.0).contains(&value) {
            Ok(Millis(value))
        } else {
            Err(self.bad(key, text, "from 1ms to a year"))
        }
    }

    fn whole(&mut self, key: &'static str, least: u32) -> Result<u32, ArrivalError> {
        let text = self.optional(key).ok_or_else(|| self.missing(key))?;
        match text.parse::<u32>() {
            Ok(value) if (least..=1_000_000).contains(&value) => Ok(value),
            _ => Err(self.bad(key, text, "a whole number, not too small and at most 1000000")),
        }
    }

    fn number(
        &self,
        key: &'static str,
        text: &str,
        range: &'static str,
        ok: fn(f64) -> bool,
    ) -> Result<f64, ArrivalError> {
        let text = text.trim();
        let value = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map(|value| value / 100.0),
            None => text.parse::<f64>(),
        };
        value.ok().filter(|value| ok(*value)).ok_or_else(|| self.bad(key, text, range))
    }

    /// Nothing may be left over.
    fn end(self) -> Result<(), ArrivalError> {
        match self.parts.first() {
            None => Ok(()),
            Some(part) => Err(ArrivalError::Stray {
                process: self.process,
                part: (*part).to_owned(),
                example: self.example,
            }),
        }
    }
}

fn rate(text: &str) -> Result<f64, ArrivalError> {
    let value = Quantity::parse(text, Unit::PerSecond)?.value;
    if value > 0.0 && value <= MAX_RATE {
        Ok(value)
    } else {
        Err(ArrivalError::RateRange { text: text.to_owned() })
    }
}

/// A rate that may be 0.
fn rate_or_none(text: &str) -> Result<f64, ArrivalError> {
    let value = Quantity::parse(text, Unit::PerSecond)?.value;
    if value <= MAX_RATE { Ok(value) } else { Err(ArrivalError::RateRange { text: text.to_owned() }) }
}

impl FromStr for Arrival {
    type Err = ArrivalError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, argument) = text.split_once(':').unwrap_or((text, ""));
        let argument = argument.trim();
        match name.trim() {
            "closed" => match argument.parse::<u32>() {
                Ok(slots @ 1..=1_000_000) => Ok(Arrival::Closed { slots }),
                _ => Err(ArrivalError::Slots { text: argument.to_owned() }),
            },
            "constant" => Ok(Arrival::Constant { per_second: rate(argument)? }),
            "poisson" => Ok(Arrival::Poisson { per_second: rate(argument)? }),
            "gamma" => gamma(Parts::new("gamma", "gamma:50/s,cv=2", argument)),
            "bursts" => bursts(Parts::new("bursts", "bursts:size=100,period=10s,background=5/s", argument)),
            "wave" => wave(Parts::new("wave", "wave:50/s,amplitude=0.8,period=10min", argument)),
            "ramp" => ramp(Parts::new("ramp", "ramp:10/s..100/s,over=60s", argument)),
            "stairs" => stairs(Parts::new("stairs", "stairs:10/s..100/s,steps=10,hold=10s,down", argument)),
            "gradient" => {
                let mut parts = Parts::new("gradient", "gradient:hold=30s", argument);
                let hold = parts.duration("hold")?;
                parts.end()?;
                Ok(Arrival::Gradient { hold })
            }
            "trace" => {
                let mut parts = Parts::new("trace", "trace:speed=2", argument);
                let speed = match parts.optional("speed") {
                    None => 1.0,
                    Some(text) => parts
                        .number("speed", text, "from 0.001 to 1000", |value| (1e-3..=1e3).contains(&value))?,
                };
                parts.end()?;
                Ok(Arrival::Trace { speed })
            }
            _ => Err(ArrivalError::UnknownProcess { text: text.to_owned() }),
        }
    }
}

fn gamma(mut parts: Parts<'_>) -> Result<Arrival, ArrivalError> {
    let per_second = rate(parts.bare().ok_or_else(|| parts.missing("a rate"))?)?;
    let text = parts.optional("cv").ok_or_else(|| parts.missing("cv"))?;
    let cv = parts.number("cv", text, "from 0.01 to 100", |cv| (0.01..=100.0).contains(&cv))?;
    parts.end()?;
    Ok(Arrival::Gamma { per_second, cv })
}

fn bursts(mut parts: Parts<'_>) -> Result<Arrival, ArrivalError> {
    let size = parts.whole("size", 1)?;
    let period = parts.duration("period")?;
    let background = parts.optional("background").map_or(Ok(0.0), rate_or_none)?;
    parts.end()?;
    Ok(Arrival::Bursts { size, period, background })
}

fn wave(mut parts: Parts<'_>) -> Result<Arrival, ArrivalError> {
    let per_second = rate(parts.bare().ok_or_else(|| parts.missing("a rate"))?)?;
    let text = parts.optional("amplitude").ok_or_else(|| parts.missing("amplitude"))?;
    let amplitude = parts.number("amplitude", text, "from 0 to 1, a share of the rate", |share| {
        (0.0..=1.0).contains(&share)
    })?;
    let period = parts.duration("period")?;
    parts.end()?;
    Ok(Arrival::Wave { per_second, amplitude, period })
}

fn span(parts: &mut Parts<'_>) -> Result<(f64, f64), ArrivalError> {
    let missing = || parts.missing("two rates, FROM..TO");
    let missing = (missing(), missing());
    let (from, to) = parts.bare().ok_or(missing.0)?.split_once("..").ok_or(missing.1)?;
    let both = (rate_or_none(from.trim())?, rate_or_none(to.trim())?);
    if both.0 <= 0.0 && both.1 <= 0.0 {
        return Err(ArrivalError::RateRange { text: format!("{from}..{to}") });
    }
    Ok(both)
}

fn ramp(mut parts: Parts<'_>) -> Result<Arrival, ArrivalError> {
    let (from, to) = span(&mut parts)?;
    let over = parts.duration("over")?;
    parts.end()?;
    Ok(Arrival::Ramp { from, to, over })
}

fn stairs(mut parts: Parts<'_>) -> Result<Arrival, ArrivalError> {
    let (from, to) = span(&mut parts)?;
    let steps = parts.whole("steps", 2)?;
    if steps > 100 {
        return Err(parts.bad("steps", &steps.to_string(), "from 2 to 100"));
    }
    let hold = parts.duration("hold")?;
    let down = parts.flag("down");
    parts.end()?;
    Ok(Arrival::Stairs { from, to, steps, hold, down })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        for text in [
            "poisson:50/s",
            "constant:100000/s",
            "closed:64",
            "gamma:50/s,cv=2",
            "bursts:size=100,period=10s,background=5/s",
            "bursts:size=100,period=500ms",
            "wave:50/s,amplitude=0.8,period=10min",
            "ramp:0/s..100/s,over=1min",
            "ramp:100/s..10/s,over=30s",
            "stairs:10/s..100/s,steps=10,hold=10s",
            "stairs:10/s..100/s,steps=10,hold=10s,down",
            "gradient:hold=30s",
            "trace:speed=2.5",
        ] {
            let arrival = text.parse::<Arrival>().unwrap();
            assert_eq!(arrival.to_string().parse::<Arrival>().unwrap(), arrival, "{text}: {arrival}");
        }
        assert_eq!("poisson:20k/s".parse::<Arrival>().unwrap().per_second(), Some(20_000.0));
        assert_eq!("trace".parse::<Arrival>().unwrap(), Arrival::Trace { speed: 1.0 });
        assert_eq!(
            "stairs: 10/s .. 20/s , down, hold = 1s, steps=2".parse::<Arrival>().unwrap().to_string(),
            "stairs:10/s..20/s,steps=2,hold=1000ms,down"
        );
        assert_eq!(
            "wave:1/s,amplitude=50%,period=1h".parse::<Arrival>().unwrap().peak_per_second(),
            Some(1.5)
        );
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
            "gamma:50/s",
            "gamma:cv=2",
            "gamma:50/s,cv=0",
            "gamma:50/s,cv=nan",
            "gamma:50/s,cv=2,cv=3",
            "gamma:50/s,cv=2,x=3",
            "bursts:size=0,period=1s",
            "bursts:size=5",
            "bursts:size=5,period=0s",
            "wave:50/s,amplitude=2,period=1s",
            "wave:50/s,amplitude=-1,period=1s",
            "ramp:10/s,over=1s",
            "ramp:0/s..0/s,over=1s",
            "ramp:1/s..2/s",
            "stairs:1/s..2/s,steps=1,hold=1s",
            "stairs:1/s..2/s,steps=101,hold=1s",
            "stairs:1/s..2/s,steps=5",
            "gradient",
            "gradient:hold=1",
            "trace:speed=0",
            "trace:speed=1,speed=2",
            "trace:file=x",
        ] {
            assert!(text.parse::<Arrival>().is_err(), "{text}");
        }
    }
}
