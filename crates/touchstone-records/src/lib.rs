//! touchstone-records.
