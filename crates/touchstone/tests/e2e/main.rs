//! The binary end to end: real servers, the embedded engine, and peers that misbehave, under the loads that a user
//! would put on them. What is asserted is what the documents say, never how long something took.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy's exemption of tests does not reach the functions they share"
)]

mod campaign;
mod endings;
mod exports;
mod faults;
mod harness;
mod inside;
mod mix;
mod overload;
mod real;
mod real_records;
mod records;
mod schedule;
mod search;
mod secrets;
mod series;
mod simulated;
mod tls;
mod warm;
