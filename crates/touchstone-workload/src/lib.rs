//! The workload: when operations are meant to start and what they carry, as pure functions of a seed.
//!
//! [`schedule`] makes the one global process of intended starts and deals it to shards; [`payload`] makes prompts, keys
//! and values from (seed, operation number). The crate sends nothing and keeps no state between operations, so the same
//! seed gives the same bytes whatever the number of shards.

pub mod payload;
mod rate;
pub mod requests;
pub mod schedule;
pub mod trace;
pub mod vocabulary;
