//! The binary as its users meet it: arguments in, two streams and an exit code out.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]

mod check;
mod generated;
mod help;
mod init;

use touchstone_testkit::{Finished, TestContext};

/// A fresh folder with the binary.
fn context() -> TestContext {
    TestContext::new(env!("CARGO_BIN_EXE_touchstone")).unwrap()
}

/// Runs the binary in a fresh folder.
fn run(arguments: &[&str]) -> Finished {
    context().run(arguments).unwrap()
}
