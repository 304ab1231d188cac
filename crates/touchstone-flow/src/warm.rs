//! Warming a target up until it is steady: the load of the run, with prompts of its own, until its windows say so.

use std::time::Instant;

use touchstone_load::plan::SECOND;
use touchstone_runner::Control;

use crate::bench::{BenchError, BenchRequest, Observer, bench};

/// Length of one piece of the warm-up, s: 100 windows of 100 ms.
const PIECE_S: u64 = 10;
/// Keeps the prompts of the warm-up apart from those of the run.
const SALT: u64 = 0x3a7f_11d5_0000_0000;

/// What a warm-up came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Warmed {
    /// Load that was spent on it, s.
    pub seconds: f64,
    /// Whether the last piece was steady.
    pub steady: bool,
}

/// Loads the target in pieces of 10 s, recorded nowhere, until the leading latency and the backlog of a piece are stationary and
/// its transient, if any, lies in its first half; at most for `at_most_s`.
///
/// # Errors
/// When the load cannot be tried.
pub fn warm_up(
    request: &BenchRequest,
    at_most_s: f64,
    observer: &mut dyn Observer,
    control: &Control,
) -> Result<Warmed, BenchError> {
    let begun = Instant::now();
    let mut warmed = Warmed { seconds: 0.0, steady: false };
    for piece in 0_u64.. {
        if control.stopped() || (piece > 0 && begun.elapsed().as_secs_f64() + PIECE_S as f64 > at_most_s) {
            break;
        }
        observer.note(&format!("warm-up, piece {}", piece + 1));
        let mut made = request.clone();
        made.plan.seed = request.plan.seed ^ SALT.wrapping_add(piece);
        made.plan.warm_up_ns = 0;
        made.plan.duration_ns = (PIECE_S * SECOND).min((at_most_s * 1e9) as u64);
        made.plan.requests = None;
        made.plan.slos.clear();
        made.probe_ceiling = false;
        made.store = None;
        let run = bench(&made, observer, &control.child())?.document;
        let length = run.phases.measured_seconds();
        warmed.seconds += length;
        // A target that answers nothing does not become steady by waiting.
        if run.counts.completed == 0 {
            break;
        }
        let from = run.steady.and_then(|steady| steady.from_s);
        if from.is_some_and(|from| from <= 0.5 * length) {
            warmed.steady = true;
            break;
        }
    }
    Ok(warmed)
}
