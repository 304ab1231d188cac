//! touchstone-decide.
