//! The heavy inference engines under load, on CPU, each over the protocols that it speaks.
//! Built with the feature `engine-tests` only; `cargo xtask test --engines` obtains the engines and runs this.
//!
//! What is asserted is what the documents say, never how long something took. Each run adds a row to
//! `engine-results.md` in cargo's temporary folder, from which `regression/engines/README.md` is made.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy's exemption of tests does not reach the functions they share"
)]

#[path = "../e2e/harness.rs"]
#[expect(dead_code, reason = "the harness is that of the other end-to-end tests, and serves them more")]
mod harness;

mod fastchat;
mod triton;
mod vllm;

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use touchstone_model::{Level, MetricId};
use touchstone_testkit::Server;

use crate::harness::Benched;

/// Two engines at once would starve each other on two cores.
static ONE_ENGINE: Mutex<()> = Mutex::new(());

/// What holds of every good run against an engine: a measurement, of this product, without failures. The row of the run
/// goes to the results.
fn check_engine(server: &Server, protocol: &str, benched: &Benched) {
    let document = &benched.document;
    let told = || format!("{}\n{}", benched.told(), server.log());
    assert_eq!((document.level, document.simulated), (Level::P2, false), "{}", told());
    assert!(document.errors.is_empty(), "{}", told());
    assert_eq!(document.counts.completed, document.counts.intended, "{}", told());
    assert!(document.counts.intended > 0, "{}", told());
    write_row(server, protocol, benched);
}

fn write_row(server: &Server, protocol: &str, benched: &Benched) {
    static FILE: Mutex<()> = Mutex::new(());
    let _alone = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let document = &benched.document;
    let p50 = |metric: MetricId| {
        let value = document.metrics.get(&metric).and_then(|metric| metric.p50);
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
    };
    let installed = server.installed();
    let tokens = document.counts.output_tokens.map_or_else(|| "-".to_owned(), |tokens| tokens.to_string());
    let findings: Vec<String> = document.findings.iter().map(|finding| finding.code.to_string()).collect();
    let row = format!(
        "| {} {} | `{protocol}` | {} | {} | {} | {} | {} | {} | {} |\n",
        installed.kind,
        installed.version,
        document.counts.completed,
        tokens,
        p50(MetricId::Ttft),
        p50(MetricId::Itl),
        p50(MetricId::E2e),
        if document.valid { "valid" } else { "invalid" },
        findings.join(", "),
    );
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("engine-results.md");
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(row.as_bytes()).unwrap();
}
