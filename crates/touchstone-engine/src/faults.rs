//! Faults that the engine commits on purpose.

use std::time::Duration;

use touchstone_sim::SeededRng;

/// A pause in the middle of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stall {
    /// Share of requests that stall, 0 to 1.
    pub rate: f64,
    /// Tokens handed out before the pause; 0 stalls before the first.
    pub after_tokens: u32,
    /// Length of the pause; `None` for ever. What the scheduler produces meanwhile is sent at its end, at once.
    pub hold: Option<Duration>,
}

/// Turning requests away while many wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overload {
    /// Reject while more than this many sequences wait.
    pub waiting_above: usize,
    /// HTTP status of the rejection: 429 or 503.
    pub status: u16,
}

/// Which faults to commit, and how often. The default commits none. Which request gets which fault follows from the
/// engine's seed and the request's number (in order of arrival) alone, separately for each kind of fault.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FaultPlan {
    /// Share of generation requests answered with HTTP 500, 0 to 1.
    pub error_rate: f64,
    /// Share of answers that break off: the connection is closed part-way, without the end of the body, 0 to 1.
    pub cut_rate: f64,
    /// Share of streams that report an error inside a response of status 200, part-way, 0 to 1. An answer that is
    /// not streamed becomes an HTTP 500 instead.
    pub error_in_stream_rate: f64,
    /// Pauses.
    pub stall: Option<Stall>,
    /// Time for which the headers of every successful generation are withheld. The scheduler does not wait.
    pub slow_headers: Duration,
    /// Rejection under load.
    pub reject_when_waiting: Option<Overload>,
    /// Streams end without `data: [DONE]`.
    pub drop_done: bool,
}

impl FaultPlan {
    /// Says what is wrong with the plan, if anything.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let rates = [
            (self.error_rate, "error_rate must be between 0 and 1"),
            (self.cut_rate, "cut_rate must be between 0 and 1"),
            (self.error_in_stream_rate, "error_in_stream_rate must be between 0 and 1"),
            (self.stall.map_or(0.0, |stall| stall.rate), "the rate of stall must be between 0 and 1"),
        ];
        if let Some((_, problem)) = rates.into_iter().find(|(rate, _)| !(0.0..=1.0).contains(rate)) {
            return Some(problem);
        }
        let status = self.reject_when_waiting.map(|overload| overload.status);
        status.is_some_and(|status| status != 429 && status != 503).then_some("rejections are 429 or 503")
    }

    /// The faults of request number `index`, whose answer would have `max_tokens` tokens.
    pub(crate) fn draw(&self, seed: u64, index: u64, max_tokens: u32) -> Drawn {
        let mut rng = SeededRng::keyed(seed ^ 0xfa17, index);
        // Always the same number of draws, so that no fault's rate changes which requests the others hit.
        let [error, cut, in_stream, stall] = [(); 4].map(|()| rng.unit());
        let mut part_way =
            || if max_tokens > 1 { 1 + (rng.next_u64() % u64::from(max_tokens - 1)) as u32 } else { 0 };
        let (cut_at, error_at) = (part_way(), part_way());
        Drawn {
            error: error < self.error_rate,
            cut_after: (cut < self.cut_rate).then_some(cut_at),
            error_after: (in_stream < self.error_in_stream_rate).then_some(error_at),
            stall: self.stall.filter(|plan| stall < plan.rate),
        }
    }
}

/// The faults of one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Drawn {
    pub(crate) error: bool,
    /// Tokens handed out before the connection is closed.
    pub(crate) cut_after: Option<u32>,
    /// Tokens handed out before the error.
    pub(crate) error_after: Option<u32>,
    pub(crate) stall: Option<Stall>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_met_and_kinds_are_independent() {
        let plan = FaultPlan { error_rate: 0.2, cut_rate: 0.1, ..FaultPlan::default() };
        let drawn: Vec<_> = (0..20_000).map(|n| plan.draw(1, n, 10)).collect();
        let errors = drawn.iter().filter(|d| d.error).count();
        let cuts = drawn.iter().filter(|d| d.cut_after.is_some()).count();
        assert!((3_800..4_200).contains(&errors), "{errors}");
        assert!((1_850..2_150).contains(&cuts), "{cuts}");
        assert!(drawn.iter().filter_map(|d| d.cut_after).all(|at| (1..10).contains(&at)));
        let more = FaultPlan { error_rate: 0.9, ..plan.clone() };
        assert!((0..1000).all(|n| plan.draw(1, n, 10).cut_after == more.draw(1, n, 10).cut_after));
        assert_eq!(FaultPlan::default().draw(1, 1, 1).cut_after, None);
    }

    #[test]
    fn impossible_plans_are_named() {
        assert_eq!(FaultPlan::default().problem(), None);
        assert!(FaultPlan { cut_rate: 1.1, ..FaultPlan::default() }.problem().is_some());
        assert!(FaultPlan { error_rate: f64::NAN, ..FaultPlan::default() }.problem().is_some());
        let overload = Some(Overload { waiting_above: 1, status: 404 });
        assert!(FaultPlan { reject_when_waiting: overload, ..FaultPlan::default() }.problem().is_some());
    }
}
