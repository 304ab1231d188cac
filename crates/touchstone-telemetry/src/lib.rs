//! touchstone-telemetry.
