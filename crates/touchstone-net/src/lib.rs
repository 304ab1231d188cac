//! touchstone-net.
