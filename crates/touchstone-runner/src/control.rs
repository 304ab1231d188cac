//! What goes in and out of a running load: the stop flag, and events for consumers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use touchstone_load::shard::{Recent, Tally};
use touchstone_load::{Failure, OpRecord, TokenEvent};

/// Something a consumer may want to know while the load runs.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// The load starts at this instant, ns of CLOCK_MONOTONIC.
    Started {
        /// Start of warm-up.
        start_ns: u64,
    },
    /// A shard's state, about five times a second.
    Tick(ShardTick),
    /// Operations that ended.
    Operations {
        /// The shard.
        shard: u32,
        /// Their records, in the order in which they ended.
        records: Vec<OpRecord>,
    },
    /// Events of answers, when the plan asks for them.
    Tokens {
        /// The shard.
        shard: u32,
        /// In the order in which they arrived.
        events: Vec<TokenEvent>,
    },
    /// A kind of failure was seen for the first time in a shard; `number` is what records carry, plus one.
    FirstFailure {
        /// The shard.
        shard: u32,
        /// Its position in the shard's list of failures.
        number: u16,
        /// The failure.
        failure: Failure,
    },
}

/// A shard's state for live progress.
#[derive(Debug, Clone, Copy)]
pub struct ShardTick {
    /// The shard.
    pub shard: u32,
    /// When, ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Counts so far.
    pub tally: Tally,
    /// Quantiles of the last whole window.
    pub recent: Recent,
}

/// Stops a running load from outside; shared between threads.
#[derive(Debug, Clone, Default)]
pub struct Control {
    inner: Arc<Inner>,
    parent: Option<Arc<Control>>,
}

#[derive(Debug, Default)]
struct Inner {
    stop: AtomicBool,
    abort: AtomicBool,
    failed: AtomicU64,
    completed: AtomicU64,
}

impl Control {
    /// Ends the schedule; what is in flight is drained, then the run is reported. A second call ends the drain too.
    pub fn stop(&self) {
        if self.inner.stop.swap(true, Ordering::Relaxed) {
            self.inner.abort.store(true, Ordering::Relaxed);
        }
    }

    /// A control for one run among several: stopping this one stops it too, while an end that is its own (too many
    /// failures) stops no other. Counts of failures are its own.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { inner: Arc::default(), parent: Some(Arc::new(self.clone())) }
    }

    /// Whether the schedule was ended.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.inner.stop.load(Ordering::Relaxed) || self.parent.as_ref().is_some_and(|parent| parent.stopped())
    }

    /// Whether drain was ended too.
    #[must_use]
    pub fn aborted(&self) -> bool {
        self.inner.abort.load(Ordering::Relaxed)
            || self.parent.as_ref().is_some_and(|parent| parent.aborted())
    }

    pub(crate) fn end_schedule(&self) {
        self.inner.stop.store(true, Ordering::Relaxed);
    }

    /// Adds to the counts of all shards; gives (failed, completed) of all.
    pub(crate) fn count(&self, failed: u64, completed: u64) -> (u64, u64) {
        (
            self.inner.failed.fetch_add(failed, Ordering::Relaxed) + failed,
            self.inner.completed.fetch_add(completed, Ordering::Relaxed) + completed,
        )
    }
}

/// The sending end of a consumer's channel, with the count of what it could not take.
#[derive(Debug)]
pub(crate) struct Outlet {
    sender: Option<SyncSender<RunEvent>>,
    pub(crate) dropped: u64,
}

impl Outlet {
    pub(crate) fn new(sender: Option<SyncSender<RunEvent>>) -> Self {
        Self { sender, dropped: 0 }
    }

    /// Hands over an event without ever waiting.
    pub(crate) fn send(&mut self, event: RunEvent) {
        let Some(sender) = &self.sender else { return };
        match sender.try_send(event) {
            Ok(()) => {}
            Err(TrySendError::Full(event)) => {
                self.dropped += match event {
                    RunEvent::Operations { records, .. } => records.len() as u64,
                    RunEvent::Tokens { events, .. } => events.len() as u64,
                    _ => 1,
                };
            }
            Err(TrySendError::Disconnected(_)) => self.sender = None,
        }
    }
}
