//! touchstone-stats.
