//! Rates that change over time: how many starts are expected by an instant, and at which instant a number is reached.
//!
//! A Poisson process whose rate changes is a Poisson process of rate 1 seen through the cumulative rate: its k-th start lies
//! where the cumulative rate reaches the k-th start of the other. So a start costs one exponential draw and one inversion,
//! nothing is thrown away, and no error adds up but that of a sum of draws.

use std::f64::consts::TAU;

use touchstone_model::Arrival;

/// A rate over time, in starts per second and seconds from the start of load.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rate {
    /// Before this the rate is that of the shape's beginning, s.
    warm_up: f64,
    shape: Shape,
}

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Wave {
        mean: f64,
        amplitude: f64,
        period: f64,
    },
    /// Rates, and the length of each; the last one goes on.
    Steps {
        levels: Vec<f64>,
        hold: f64,
    },
    /// From one rate to another in a straight line; the last one goes on.
    Ramp {
        from: f64,
        to: f64,
        over: f64,
    },
}

impl Rate {
    /// The rate of a process whose rate changes; none for the others.
    pub(crate) fn new(arrival: Arrival, warm_up_ns: u64) -> Option<Self> {
        let shape = match arrival {
            Arrival::Wave { per_second, amplitude, period } => {
                Shape::Wave { mean: per_second, amplitude, period: period.0 / 1e3 }
            }
            Arrival::Ramp { from, to, over } => Shape::Ramp { from, to, over: over.0 / 1e3 },
            Arrival::Stairs { hold, .. } | Arrival::Gradient { hold } => Shape::Steps {
                levels: arrival.levels().iter().map(|level| level.per_second).collect(),
                hold: hold.0 / 1e3,
            },
            _ => return None,
        };
        Some(Self { warm_up: warm_up_ns as f64 / 1e9, shape })
    }

    /// Starts that are expected from the start of load until `t`.
    #[cfg(test)]
    fn cumulative(&self, t: f64) -> f64 {
        let first = self.shape.at_start();
        if t <= self.warm_up {
            return first * t;
        }
        first * self.warm_up + self.shape.cumulative(t - self.warm_up)
    }

    /// The instant at which `count` starts are expected; none when it is never reached.
    pub(crate) fn instant(&self, count: f64) -> Option<f64> {
        let before = self.shape.at_start() * self.warm_up;
        if count <= before {
            return Some(count / self.shape.at_start());
        }
        Some(self.warm_up + self.shape.instant(count - before)?)
    }
}

impl Shape {
    fn at_start(&self) -> f64 {
        match self {
            Shape::Wave { mean, .. } => *mean,
            Shape::Steps { levels, .. } => levels.first().copied().unwrap_or(0.0),
            Shape::Ramp { from, .. } => *from,
        }
    }

    fn cumulative(&self, t: f64) -> f64 {
        match self {
            Shape::Wave { mean, amplitude, period } => {
                let swing = amplitude * period / TAU * (1.0 - (TAU * t / period).cos());
                mean * (t + swing)
            }
            Shape::Steps { levels, hold } => {
                let whole = ((t / hold) as usize).min(levels.len().saturating_sub(1));
                let passed: f64 = levels.iter().take(whole).sum::<f64>() * hold;
                passed + levels.get(whole).copied().unwrap_or(0.0) * (t - whole as f64 * hold)
            }
            Shape::Ramp { from, to, over } => {
                let on = t.min(*over);
                from * on + (to - from) * on * on / (2.0 * over) + to * (t - on)
            }
        }
    }

    fn instant(&self, count: f64) -> Option<f64> {
        match self {
            Shape::Wave { mean, amplitude, period } => {
                // The cumulative rate is within half a swing of the straight line, so the root is bracketed; it rises (or
                // stands still), so halving finds it to the last bit that matters.
                let line = count / mean;
                let swing = amplitude * period / TAU;
                let (mut low, mut high) = ((line - 2.0 * swing).max(0.0), line);
                for _ in 0..128 {
                    let middle = f64::midpoint(low, high);
                    if middle <= low || middle >= high {
                        break;
                    }
                    if self.cumulative(middle) < count { low = middle } else { high = middle }
                }
                Some(high)
            }
            Shape::Steps { levels, hold } => {
                let mut passed = 0.0;
                for (number, level) in levels.iter().enumerate() {
                    let here = level * hold;
                    let last = number + 1 == levels.len();
                    if passed + here >= count || last {
                        let within = (count - passed) / level;
                        return within.is_finite().then_some(number as f64 * hold + within);
                    }
                    passed += here;
                }
                None
            }
            Shape::Ramp { from, to, over } => {
                let whole = f64::midpoint(*from, *to) * over;
                if count > whole {
                    let after = (count - whole) / to;
                    return after.is_finite().then_some(over + after);
                }
                // The root of (to - from) / (2 over) t^2 + from t = count, in the form that does not cancel.
                let curve = (to - from) / over;
                let root = (from * from + 2.0 * curve * count).max(0.0).sqrt();
                Some((2.0 * count / (from + root)).min(*over))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str, warm_up_s: u64) -> Rate {
        Rate::new(text.parse().unwrap(), warm_up_s * 1_000_000_000).unwrap()
    }

    #[test]
    fn instants_invert_the_cumulative_rate() {
        for text in [
            "wave:50/s,amplitude=0.8,period=10s",
            "wave:50/s,amplitude=1,period=3s",
            "ramp:10/s..100/s,over=20s",
            "ramp:0/s..100/s,over=20s",
            "ramp:100/s..10/s,over=20s",
            "stairs:10/s..100/s,steps=10,hold=2s,down",
            "gradient:hold=5s",
        ] {
            for warm_up in [0, 3] {
                let rate = rate(text, warm_up);
                for count in [1e-3, 0.5, 1.0, 7.0, 100.0, 333.3, 1000.0, 1e5] {
                    let at = rate.instant(count).unwrap();
                    let back = rate.cumulative(at);
                    assert!(
                        (back - count).abs() <= 1e-9 * count.max(1.0),
                        "{text} {warm_up}: {count} {at} {back}"
                    );
                }
            }
        }
    }

    #[test]
    fn counts_are_those_of_the_closed_forms() {
        let ramp = rate("ramp:0/s..100/s,over=10s", 0);
        assert_eq!(ramp.cumulative(5.0), 125.0);
        assert_eq!(ramp.cumulative(10.0), 500.0);
        assert_eq!(ramp.cumulative(12.0), 700.0);
        let stairs = rate("stairs:10/s..30/s,steps=3,hold=2s,down", 1);
        assert_eq!(stairs.cumulative(1.0), 10.0, "warm-up has the first level");
        assert_eq!(stairs.cumulative(11.0), 10.0 + 20.0 + 40.0 + 60.0 + 40.0 + 20.0);
        let wave = rate("wave:10/s,amplitude=1,period=4s", 0);
        assert!((wave.cumulative(4.0) - 40.0).abs() < 1e-9, "a whole period has the mean");
        assert!((wave.cumulative(2.0) - (20.0 + 40.0 / TAU * 2.0)).abs() < 1e-9);
    }

    #[test]
    fn a_rate_that_ends_at_zero_ends() {
        let down = rate("ramp:10/s..0/s,over=10s", 0);
        assert_eq!(down.instant(49.0).map(|at| at < 10.0), Some(true));
        assert_eq!(down.instant(51.0), None);
    }
}
