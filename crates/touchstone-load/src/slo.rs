//! Limits: the ones that each operation meets or breaks (for goodput), and their outcome over the run.

use touchstone_model::requirement::Limit;
use touchstone_model::{Comparison, MetricId, Requirement, Subject};

/// Upper limits on operations, from requirements such as `ttft.p99 <= 200ms` (which gives 200 ms to each operation).
///
/// A metric with several values in one operation (`icl`, `itl`) is kept when its greatest value keeps the limit.
#[derive(Debug, Clone, Default)]
pub struct OpLimits {
    limits: Vec<(MetricId, u64)>,
}

impl OpLimits {
    /// Takes the requirements that limit operations; the others are judged over the run only.
    #[must_use]
    pub fn new(slos: &[Requirement]) -> Self {
        let limits = slos
            .iter()
            .filter_map(|slo| match (slo.subject, slo.comparison, slo.limit) {
                (Subject::Metric(metric, Some(_)), Comparison::AtMost, Limit::Quantity(limit)) => {
                    Some((metric, (limit.value * 1e6) as u64))
                }
                _ => None,
            })
            .collect();
        Self { limits }
    }

    /// Whether there is any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// Starts the check of one operation.
    #[must_use]
    pub fn check(&self) -> OpCheck {
        OpCheck { limits: self.limits.clone(), seen: 0, broken: false }
    }
}

/// The check of one operation.
#[derive(Debug, Clone)]
pub struct OpCheck {
    limits: Vec<(MetricId, u64)>,
    /// Bit i: limit i was observed.
    seen: u64,
    broken: bool,
}

impl OpCheck {
    /// Notes a value, ns.
    #[inline]
    pub fn observe(&mut self, metric: MetricId, value_ns: u64) {
        for (position, (limited, limit)) in self.limits.iter().enumerate() {
            if *limited == metric {
                self.seen |= 1 << position.min(63);
                self.broken |= value_ns > *limit;
            }
        }
    }

    /// Notes a value that never came.
    pub fn observe_infinite(&mut self, metric: MetricId) {
        self.broken |= self.limits.iter().any(|(limited, _)| *limited == metric);
    }

    /// Notes that a metric of gaps has no value in this operation because it has no gap: its limit is kept.
    pub fn observe_none(&mut self, metric: MetricId) {
        self.observe(metric, 0);
    }

    /// Whether every limit was observed and kept. What was not observed was not met.
    #[must_use]
    pub fn good(&self) -> bool {
        let all = (0..self.limits.len().min(64)).fold(0_u64, |bits, position| bits | 1 << position);
        !self.broken && self.seen == all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_was_not_observed_was_not_met() {
        let limits = OpLimits::new(&["ttft.p99 <= 2ms".parse().unwrap(), "itl.p95 <= 1ms".parse().unwrap()]);
        let mut check = limits.check();
        check.observe(MetricId::Ttft, 1_500_000);
        assert!(!check.good());
        let mut single_chunk = check.clone();
        single_chunk.observe_none(MetricId::Itl);
        assert!(single_chunk.good());
        check.observe(MetricId::Itl, 900_000);
        assert!(check.good());
        check.observe(MetricId::Itl, 1_100_000);
        assert!(!check.good());
    }
}
