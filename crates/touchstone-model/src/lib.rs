//! touchstone-model.
