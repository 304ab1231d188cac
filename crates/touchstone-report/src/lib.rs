//! touchstone-report.
