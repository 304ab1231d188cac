//! touchstone-flow.
