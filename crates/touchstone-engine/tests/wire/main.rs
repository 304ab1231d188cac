//! The engine as a client sees it, through plain sockets.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure here is a failed test")]

mod behaviour;
mod protocol;
mod support;
