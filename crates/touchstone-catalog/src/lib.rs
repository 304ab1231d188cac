//! touchstone-catalog.
