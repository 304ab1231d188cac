//! Arrival processes: when operations are meant to start.

mod parse;

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::unit::{Millis, Quantity, Unit};

pub use parse::ArrivalError;

/// The levels of the gradient, operations per second.
const GRADIENT: [f64; 5] = [0.1, 1.0, 10.0, 100.0, 1000.0];

/// When operations are meant to start. Open loop unless it says closed.
///
/// Where the rate changes over time (wave, ramp, stairs, gradient), starts are a Poisson process of that rate, and time is
/// counted from the start of the measured window: during warm-up the rate is the first one.
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
    /// `gamma:R/s,cv=2`: independent gaps of a gamma distribution; more even than Poisson below a coefficient of variation
    /// of 1, more bursty above.
    Gamma {
        /// Intended starts per second.
        per_second: f64,
        /// Standard deviation of a gap over its mean.
        cv: f64,
    },
    /// `bursts:size=100,period=10s,background=5/s`: so many starts at one instant, again and again from the start of load,
    /// over a Poisson process.
    Bursts {
        /// Starts of a burst.
        size: u32,
        /// From one burst to the next.
        period: Millis,
        /// Rate of the Poisson process between them; may be 0.
        background: f64,
    },
    /// `wave:R/s,amplitude=0.8,period=10min`: the rate goes up and down like a sine, as over a compressed day.
    Wave {
        /// Mean rate.
        per_second: f64,
        /// Greatest deviation from the mean, as a share of it.
        amplitude: f64,
        /// From one crest to the next.
        period: Millis,
    },
    /// `ramp:10/s..100/s,over=60s`: the rate goes from one value to another in a straight line, and stays there.
    Ramp {
        /// First rate; may be 0.
        from: f64,
        /// Last rate; may be 0.
        to: f64,
        /// How long it takes.
        over: Millis,
    },
    /// `stairs:10/s..100/s,steps=10,hold=10s,down`: levels at equal distances, each held; with `down` back again, which
    /// shows hysteresis.
    Stairs {
        /// First level.
        from: f64,
        /// Last level.
        to: f64,
        /// Number of levels, at least 2.
        steps: u32,
        /// Length of a level.
        hold: Millis,
        /// Whether the levels are gone back to the first one.
        down: bool,
    },
    /// `gradient:hold=30s`: 0.1, 1, 10, 100 and 1000 operations per second, each held.
    Gradient {
        /// Length of a level.
        hold: Millis,
    },
    /// `trace:speed=2`: the instants of a recorded trace, which is given beside it.
    Trace {
        /// How many times faster than recorded.
        speed: f64,
    },
}

/// A level of a staircase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Intended starts per second.
    pub per_second: f64,
    /// Whether it is on the way back down.
    pub returning: bool,
}

impl Arrival {
    /// The mean rate of intended starts per second; none for a closed loop, and for a trace, which only the trace knows.
    #[must_use]
    pub fn per_second(self) -> Option<f64> {
        match self {
            Arrival::Closed { .. } | Arrival::Trace { .. } => None,
            Arrival::Constant { per_second }
            | Arrival::Poisson { per_second }
            | Arrival::Gamma { per_second, .. }
            | Arrival::Wave { per_second, .. } => Some(per_second),
            Arrival::Bursts { size, period, background } => {
                Some(f64::from(size) / (period.0 / 1e3) + background)
            }
            Arrival::Ramp { from, to, .. } => Some(f64::midpoint(from, to)),
            Arrival::Stairs { .. } | Arrival::Gradient { .. } => {
                let levels = self.levels();
                Some(levels.iter().map(|level| level.per_second).sum::<f64>() / levels.len().max(1) as f64)
            }
        }
    }

    /// The greatest rate that lasts, per second; none for a closed loop and for a trace.
    #[must_use]
    pub fn peak_per_second(self) -> Option<f64> {
        match self {
            Arrival::Wave { per_second, amplitude, .. } => Some(per_second * (1.0 + amplitude)),
            Arrival::Ramp { from, to, .. } => Some(from.max(to)),
            Arrival::Stairs { .. } | Arrival::Gradient { .. } => {
                self.levels().iter().map(|level| level.per_second).reduce(f64::max)
            }
            _ => self.per_second(),
        }
    }

    /// Whether operations start whatever became of the ones before.
    #[must_use]
    pub fn is_open(self) -> bool {
        !matches!(self, Arrival::Closed { .. })
    }

    /// Whether the rate is meant to stay as it is, so that a course of latencies is the target's doing.
    #[must_use]
    pub fn is_stationary(self) -> bool {
        matches!(
            self,
            Arrival::Closed { .. }
                | Arrival::Constant { .. }
                | Arrival::Poisson { .. }
                | Arrival::Gamma { .. }
                | Arrival::Bursts { .. }
        )
    }

    /// The levels of a staircase or a gradient, in order; none of other processes.
    #[must_use]
    pub fn levels(self) -> Vec<Step> {
        match self {
            Arrival::Stairs { from, to, steps, down, .. } => {
                let last = steps.saturating_sub(1).max(1);
                let level = |step: u32, returning| Step {
                    per_second: from + (to - from) * f64::from(step) / f64::from(last),
                    returning,
                };
                let up = (0..steps).map(|step| level(step, false));
                let back = (0..steps.saturating_sub(1)).rev().filter(|_| down).map(|step| level(step, true));
                up.chain(back).collect()
            }
            Arrival::Gradient { .. } => {
                GRADIENT.into_iter().map(|per_second| Step { per_second, returning: false }).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Length of each level; none where there are none.
    #[must_use]
    pub fn hold(self) -> Option<Millis> {
        match self {
            Arrival::Stairs { hold, .. } | Arrival::Gradient { hold } => Some(hold),
            _ => None,
        }
    }

    /// How long the whole shape takes; none for processes that have no end.
    #[must_use]
    pub fn length(self) -> Option<Millis> {
        match self {
            Arrival::Ramp { over, .. } => Some(over),
            Arrival::Wave { period, .. } => Some(period),
            Arrival::Stairs { hold, .. } | Arrival::Gradient { hold } => {
                Some(Millis(hold.0 * self.levels().len() as f64))
            }
            _ => None,
        }
    }

    /// The same process with its rate multiplied; a closed loop is unchanged, and a gradient, which is a fixed one.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        match self {
            Arrival::Closed { .. } | Arrival::Gradient { .. } => self,
            Arrival::Constant { per_second } => Arrival::Constant { per_second: per_second * factor },
            Arrival::Poisson { per_second } => Arrival::Poisson { per_second: per_second * factor },
            Arrival::Gamma { per_second, cv } => Arrival::Gamma { per_second: per_second * factor, cv },
            Arrival::Bursts { size, period, background } => Arrival::Bursts {
                size: (f64::from(size) * factor).round().clamp(1.0, 1e6) as u32,
                period,
                background: background * factor,
            },
            Arrival::Wave { per_second, amplitude, period } => {
                Arrival::Wave { per_second: per_second * factor, amplitude, period }
            }
            Arrival::Ramp { from, to, over } => Arrival::Ramp { from: from * factor, to: to * factor, over },
            Arrival::Stairs { from, to, steps, hold, down } => {
                Arrival::Stairs { from: from * factor, to: to * factor, steps, hold, down }
            }
            Arrival::Trace { speed } => Arrival::Trace { speed: speed * factor },
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
            Arrival::Gamma { per_second, cv } => write!(f, "gamma:{},cv={cv}", rate(per_second)),
            Arrival::Bursts { size, period, background } => {
                write!(f, "bursts:size={size},period={period}")?;
                if background > 0.0 {
                    write!(f, ",background={}", rate(background))?;
                }
                Ok(())
            }
            Arrival::Wave { per_second, amplitude, period } => {
                write!(f, "wave:{},amplitude={amplitude},period={period}", rate(per_second))
            }
            Arrival::Ramp { from, to, over } => {
                write!(f, "ramp:{}..{},over={over}", rate(from), rate(to))
            }
            Arrival::Stairs { from, to, steps, hold, down } => {
                let back = if down { ",down" } else { "" };
                write!(f, "stairs:{}..{},steps={steps},hold={hold}{back}", rate(from), rate(to))
            }
            Arrival::Gradient { hold } => write!(f, "gradient:hold={hold}"),
            Arrival::Trace { speed } => write!(f, "trace:speed={speed}"),
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
            ArrivalError::Quantity(inner) => serde::de::Error::custom(inner),
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
            "description": "an arrival process: poisson:50/s, constant:50/s, gamma:50/s,cv=2, bursts:size=100,period=10s, wave:50/s,amplitude=0.8,period=10min, ramp:10/s..100/s,over=60s, stairs:10/s..100/s,steps=10,hold=10s,down, gradient:hold=30s, trace:speed=1 (open loop) or closed:64",
            "pattern": "^(poisson|constant|gamma|bursts|wave|ramp|stairs|gradient|trace):.+$|^trace$|^closed:[0-9]+$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Arrival {
        text.parse().unwrap()
    }

    #[test]
    fn means_peaks_and_lengths() {
        for (text, mean, peak, length) in [
            ("poisson:50/s", Some(50.0), Some(50.0), None),
            ("gamma:50/s,cv=3", Some(50.0), Some(50.0), None),
            ("closed:4", None, None, None),
            ("bursts:size=100,period=10s,background=5/s", Some(15.0), Some(15.0), None),
            ("wave:10/s,amplitude=0.5,period=1min", Some(10.0), Some(15.0), Some(60_000.0)),
            ("ramp:0/s..100/s,over=10s", Some(50.0), Some(100.0), Some(10_000.0)),
            ("stairs:10/s..30/s,steps=3,hold=2s", Some(20.0), Some(30.0), Some(6_000.0)),
            ("stairs:10/s..30/s,steps=3,hold=2s,down", Some(18.0), Some(30.0), Some(10_000.0)),
            ("gradient:hold=1s", Some(222.22), Some(1000.0), Some(5_000.0)),
            ("trace:speed=2", None, None, None),
        ] {
            let arrival = parsed(text);
            assert_eq!(arrival.per_second().map(|rate| (rate * 1e6).round() / 1e6), mean, "{text}");
            assert_eq!(arrival.peak_per_second(), peak, "{text}");
            assert_eq!(arrival.length().map(|length| length.0), length, "{text}");
        }
    }

    #[test]
    fn stairs_go_up_and_down_again() {
        let levels = parsed("stairs:10/s..30/s,steps=3,hold=2s,down").levels();
        let rates: Vec<(f64, bool)> =
            levels.iter().map(|level| (level.per_second, level.returning)).collect();
        assert_eq!(rates, [(10.0, false), (20.0, false), (30.0, false), (20.0, true), (10.0, true)]);
    }

    #[test]
    fn scaling_multiplies_rates_and_leaves_times() {
        let scaled = |text: &str| parsed(text).scaled(2.0).to_string();
        assert_eq!(scaled("ramp:10/s..20/s,over=5s"), "ramp:20/s..40/s,over=5000ms");
        assert_eq!(
            scaled("bursts:size=3,period=1s,background=1/s"),
            "bursts:size=6,period=1000ms,background=2/s"
        );
        assert_eq!(scaled("closed:4"), "closed:4");
        assert_eq!(scaled("trace"), "trace:speed=2");
    }
}
