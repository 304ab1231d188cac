//! Tests of the decision as a whole, on built evidence.

mod fixture;
mod gates;
mod properties;
mod ranking;
mod verdicts;
