//! touchstone-testkit.
