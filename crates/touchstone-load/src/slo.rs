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
    seen: u64,
    broken: bool,
}

impl OpCheck {
    /// Notes a value, ns.
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

    /// Whether every limit was kept. A limit on gaps of an answer with one chunk is kept: it has no gap to break it.
    #[must_use]
    pub fn good(&self) -> bool {
        !self.broken
    }
}
