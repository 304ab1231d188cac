//! The runner: threads, timers and sockets that drive the load engine over a protocol on the real clock.
//!
//! One thread per shard, each with its own poller, connections and part of the schedule; nothing is shared but counters
//! of failures and the stop flag. Consumers of [`RunEvent`]s hang on a bounded channel and can never slow a shard:
//! what does not fit is dropped and counted.
//!
//! It knows no protocol (sessions come from a [`Driver`](touchstone_load::Driver)) and computes no statistics.
//!
//! Main entry points: [`run`], [`loopback_ceiling`].

mod ceiling;
mod control;
mod failure;
mod link;
mod priority;
mod run;
mod worker;

pub use ceiling::loopback_ceiling;
pub use control::{Control, RunEvent, ShardTick};
pub use failure::connect_failure;
pub use run::{RunOutcome, RunSpec, RunnerError, file_limit, run};
