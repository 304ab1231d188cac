//! touchstone-engine.
