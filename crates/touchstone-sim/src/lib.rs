//! touchstone-sim.
