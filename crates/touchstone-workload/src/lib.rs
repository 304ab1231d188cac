//! touchstone-workload.

pub mod payload;
pub mod schedule;
