//! touchstone-runner.
