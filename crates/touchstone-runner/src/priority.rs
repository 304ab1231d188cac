//! Real-time scheduling of a shard's thread, when the machine is crowded and the system allows it.
//!
//! On a machine that others use as well, an ordinary thread waits its turn: operations start late, and answers that came
//! meanwhile are read together, so that only the last has an exact stamp. A thread of the lowest real-time priority runs
//! at once. That has a price, which a target on the same machine pays: it is the one who waits then. So the thread asks
//! for it only once it has waited for a processor for more than [`CROWDED`] of a look, and never when no processor
//! would be left to others. It gives it up for good when it needs nearly a whole processor, because the system would
//! then hold it up for long stretches to let others live.

use nix::time::{ClockId, clock_gettime};
use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Share of the time spent waiting for a processor from which on the machine counts as crowded. A thread that sleeps
/// and wakes a thousand times a second on an otherwise quiet machine waits 1 to 4 % of the time.
const CROWDED: f64 = 0.1;
/// Share of a processor from which on real-time scheduling is given up.
const GREEDY: f64 = 0.8;
/// Between two looks, ns.
const LOOK_NS: u64 = 100_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// As every other thread; may ask for more.
    Ordinary,
    /// Runs as soon as it can.
    Realtime,
    /// As every other thread, to the end.
    Settled,
}

/// What the system has counted for a thread, ns.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    at: u64,
    /// CPU time.
    ran: u64,
    /// Time during which the thread could have run and was not let.
    waited: u64,
}

impl Usage {
    fn read(now_ns: u64) -> Self {
        let ran = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(0, |time| {
            u64::try_from(time.tv_sec()).unwrap_or(0).saturating_mul(1_000_000_000)
                + u64::try_from(time.tv_nsec()).unwrap_or(0)
        });
        // The second number is the waiting time; kernels without scheduler statistics have no such file.
        let waited = std::fs::read_to_string("/proc/thread-self/schedstat")
            .ok()
            .and_then(|text| text.split(' ').nth(1)?.parse().ok())
            .unwrap_or(0);
        Self { at: now_ns, ran, waited }
    }
}

/// How the current thread is scheduled.
#[derive(Debug)]
pub(crate) struct Priority {
    state: State,
    /// Whether real-time scheduling was ever granted.
    raised: bool,
    looked: Usage,
}

impl Priority {
    /// An ordinary thread, one of `shards` on this machine.
    pub(crate) fn ordinary(shards: u32, now_ns: u64) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let state = if (shards as usize) < cores { State::Ordinary } else { State::Settled };
        Self { state, raised: false, looked: Usage::read(now_ns) }
    }

    /// Whether the thread ever had real-time scheduling.
    pub(crate) fn was_raised(&self) -> bool {
        self.raised
    }

    /// Looks at what the thread used and waited for since the last look, and changes its scheduling where that helps.
    /// Call it as often as you like.
    pub(crate) fn review(&mut self, now_ns: u64) {
        if self.state != State::Settled && now_ns >= self.looked.at + LOOK_NS {
            self.look(Usage::read(now_ns));
        }
    }

    fn look(&mut self, usage: Usage) {
        let past = std::mem::replace(&mut self.looked, usage);
        let length = usage.at.saturating_sub(past.at).max(1) as f64;
        let ran = usage.ran.saturating_sub(past.ran) as f64 / length;
        let waited = usage.waited.saturating_sub(past.waited) as f64 / length;
        match self.state {
            // A thread that works all the time waits as well, but would not be let keep what it asks for.
            State::Ordinary if waited > CROWDED && ran <= GREEDY => self.raise(),
            State::Realtime if ran > GREEDY => self.lower(),
            _ => {}
        }
    }

    fn raise(&mut self) {
        let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
        let granted = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy).is_ok();
        // What was refused once is not asked for again.
        self.state = if granted { State::Realtime } else { State::Settled };
        self.raised |= granted;
    }

    /// Gives real-time scheduling up, for good.
    pub(crate) fn lower(&mut self) {
        if self.state == State::Realtime {
            let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
            if set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy).is_err() {
                // Less is never refused; were it, the thread would go on as it is.
            }
        }
        self.state = State::Settled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at a thread that ran and waited for so many of 100 ns.
    fn look(priority: &mut Priority, ran: u64, waited: u64) {
        let past = priority.looked;
        priority.look(Usage { at: past.at + 100, ran: past.ran + ran, waited: past.waited + waited });
    }

    fn on_a_thread_of_its_own(test: fn()) {
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn no_processor_left_for_others_means_no_priority() {
        on_a_thread_of_its_own(|| {
            let mut priority = Priority::ordinary(u32::MAX, 0);
            look(&mut priority, 10, 50);
            assert!(!priority.was_raised());
        });
    }

    #[test]
    fn a_quiet_or_greedy_thread_stays_ordinary() {
        on_a_thread_of_its_own(|| {
            let mut priority = Priority::ordinary(0, 0);
            for (ran, waited) in [(30, 5), (100, 0), (85, 15)] {
                look(&mut priority, ran, waited);
                assert_eq!(
                    (priority.state, priority.was_raised()),
                    (State::Ordinary, false),
                    "{ran} {waited}"
                );
            }
        });
    }

    #[test]
    fn a_thread_that_waits_asks_once_and_a_greedy_one_gives_up() {
        on_a_thread_of_its_own(|| {
            let mut priority = Priority::ordinary(0, 0);
            look(&mut priority, 30, 20);
            // The system may refuse; then nothing more is tried.
            let after = if priority.was_raised() { State::Realtime } else { State::Settled };
            assert_eq!(priority.state, after);
            look(&mut priority, 30, 0);
            assert_eq!(priority.state, after);
            look(&mut priority, 95, 0);
            look(&mut priority, 30, 20);
            assert_eq!(priority.state, State::Settled);
        });
    }

    #[test]
    fn what_the_system_counts_grows() {
        let before = Usage::read(0);
        let mut sum = 0_u64;
        while Usage::read(0).ran == before.ran {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(Usage::read(0).ran > before.ran);
    }
}
