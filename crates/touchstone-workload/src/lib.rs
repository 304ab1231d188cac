//! touchstone-workload.
