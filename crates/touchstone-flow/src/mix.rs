//! Several classes of load on one target at once: each with arrivals, lengths, limits and a run document of its own.
//!
//! The classes start together, in one process, on threads and connections of their own; what the target sees is the sum of
//! their arrival processes. Where they meet is the target, and that is what a mix is about.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use touchstone_runner::Control;
use touchstone_stats::rng::Rng;

use crate::bench::{BenchError, BenchRequest, Benched, Live, Observer, bench_when};

/// The parameter of a run that names its class.
pub const CLASS_LABEL: &str = "class";
/// The parameter that all runs of a mix share.
pub const MIX_LABEL: &str = "mix";
/// The parameter with the name and the arrival process of every class of the mix.
pub const MIX_CLASSES_LABEL: &str = "mix_classes";
/// The parameter with the seed that the classes' seeds follow from.
pub const MIX_SEED_LABEL: &str = "mix_seed";

/// The seed of a class, from that of the mix and its name; small enough to be typed again.
#[must_use]
pub fn seed(mix: u64, class: &str) -> u64 {
    Rng::keyed(mix, class.as_bytes(), 0).next_u64() % 1_000_000_000_000
}

/// One class.
#[derive(Debug, Clone)]
pub struct Class {
    /// Its name, unique in the mix.
    pub name: String,
    /// Its load.
    pub request: BenchRequest,
}

/// Runs all classes at once; the runs come in the order of the classes.
///
/// # Errors
/// When one of them cannot be tried; then none is.
pub fn bench_mix(
    classes: &[Class],
    observer: &mut dyn Observer,
    control: &Control,
) -> Result<Vec<Benched>, BenchError> {
    let gate = Gate::new(classes.len());
    let joint = Mutex::new(Joint { observer, lives: vec![None; classes.len()] });
    let mut made = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = classes
            .iter()
            .enumerate()
            .map(|(number, class)| {
                let (gate, joint) = (&gate, &joint);
                scope.spawn(move || {
                    let mut seat = Seat { joint, number, name: &class.name };
                    let ticket = Ticket { gate };
                    let ready = || if ticket.gate.pass() { Ok(()) } else { Err(BenchError::Mix) };
                    bench_when(&class.request, &mut seat, control, Some(&ready))
                })
            })
            .collect();
        for thread in threads {
            made.push(thread.join().unwrap_or(Err(BenchError::Mix)));
        }
    });
    // What kept one class from being tried says more than that the others were not.
    if let Some(at) =
        made.iter().position(|one| matches!(one, Err(error) if !matches!(error, BenchError::Mix)))
    {
        return made.swap_remove(at).map(|one| vec![one]);
    }
    made.into_iter().collect()
}

/// Where the classes wait for each other before the load.
#[derive(Debug)]
struct Gate {
    state: Mutex<GateState>,
    moved: Condvar,
}

#[derive(Debug, Clone, Copy)]
struct GateState {
    missing: usize,
    broken: bool,
}

impl Gate {
    fn new(classes: usize) -> Self {
        Self { state: Mutex::new(GateState { missing: classes, broken: false }), moved: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all classes are here; false when one of them will never come.
    fn pass(&self) -> bool {
        let mut state = self.state();
        state.missing = state.missing.saturating_sub(1);
        self.moved.notify_all();
        while state.missing > 0 && !state.broken {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.missing == 0
    }
}

/// A class's right to be waited for, given back when it ends, however it does.
struct Ticket<'a> {
    gate: &'a Gate,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        if state.missing > 0 {
            state.broken = true;
            self.gate.moved.notify_all();
        }
    }
}

/// The one observer of all classes.
struct Joint<'a> {
    observer: &'a mut dyn Observer,
    lives: Vec<Option<Live>>,
}

/// A class's place at it.
struct Seat<'a, 'b> {
    joint: &'a Mutex<Joint<'b>>,
    number: usize,
    name: &'a str,
}

impl Observer for Seat<'_, '_> {
    fn live(&mut self, live: &Live) {
        let mut joint = self.joint.lock().unwrap_or_else(PoisonError::into_inner);
        joint.lives[self.number] = Some(live.clone());
        // The first class sets the pace, so that lines come as often as of one run.
        if self.number == 0 {
            let sum = sum(live, &joint.lives);
            joint.observer.live(&sum);
        }
    }

    fn note(&mut self, text: &str) {
        let mut joint = self.joint.lock().unwrap_or_else(PoisonError::into_inner);
        joint.observer.note(&format!("{}: {text}", self.name));
    }
}

/// Where the mix is: rates and counts add up, latencies of different classes do not.
fn sum(first: &Live, lives: &[Option<Live>]) -> Live {
    let mut all = Live {
        elapsed_s: first.elapsed_s,
        warm_up_s: first.warm_up_s,
        load_s: first.load_s,
        total_s: first.total_s,
        offered_per_s: Some(0.0),
        ..Live::default()
    };
    for live in lives.iter().flatten() {
        all.offered_per_s = all.offered_per_s.zip(live.offered_per_s).map(|(all, one)| all + one);
        all.achieved_per_s += live.achieved_per_s;
        all.completed += live.completed;
        all.in_flight += live.in_flight;
        for (origin, count) in &live.errors {
            *all.errors.entry(origin.clone()).or_default() += count;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_opens_for_all_or_for_none() {
        let gate = Gate::new(3);
        let passed: Vec<bool> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| gate.pass())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(passed, [true; 3]);
        drop(Ticket { gate: &gate });
        assert!(gate.pass(), "who ends after the start keeps nobody");

        let gate = Gate::new(3);
        let passed: Vec<bool> = std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..2).map(|_| scope.spawn(|| gate.pass())).collect();
            scope.spawn(|| drop(Ticket { gate: &gate }));
            waiting.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(passed, [false; 2]);
    }

    #[test]
    fn rates_add_up_and_latencies_do_not() {
        let live = |offered, completed| Live {
            offered_per_s: offered,
            completed,
            achieved_per_s: 2.0,
            leading_ms: (Some(1.0), Some(2.0)),
            errors: [("target".to_owned(), 1)].into(),
            ..Live::default()
        };
        let (a, b) = (live(Some(3.0), 5), live(Some(4.0), 6));
        let all = sum(&a, &[Some(a.clone()), None, Some(b.clone())]);
        assert_eq!((all.offered_per_s, all.completed, all.errors["target"]), (Some(7.0), 11, 2));
        assert_eq!((all.leading, all.leading_ms), (None, (None, None)));
        assert_eq!(
            sum(&a, &[Some(a.clone()), Some(live(None, 1))]).offered_per_s,
            None,
            "a closed loop has none"
        );
    }
}
