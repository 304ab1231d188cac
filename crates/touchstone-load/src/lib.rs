//! touchstone-load.
