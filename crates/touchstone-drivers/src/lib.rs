//! touchstone-drivers.
