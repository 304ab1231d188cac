//! Tables of recorded runs: from the binary, against the run's own document, and read by somebody else's reader.

use std::collections::BTreeMap;
#[cfg(feature = "engine-tests")]
use std::io::Write as _;
#[cfg(feature = "engine-tests")]
use std::process::Command;

use serde_json::Value;

use crate::harness::{bench, context, run, run_dir};

const LOAD: &str =
    "--arrival constant:40/s --duration 600ms --warm-up 100ms --input-tokens 4 --output-tokens 3 --seed 3";

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_runs_tables_add_up_to_its_document() {
    let context = context();
    let benched = bench(&context, "engine=flat", &format!("{LOAD} --log-tokens --parquet"));
    let (document, id) = (&benched.document, &benched.document.run);
    let done = run(&context, &format!("runs export {id} --format jsonl"));
    assert_eq!(done.code(), Some(0), "{}", done.snapshot());
    let rows = lines(&done.stdout);
    let measured: Vec<&Value> = rows.iter().filter(|row| row["measured"] == true).collect();
    assert_eq!(measured.len() as u64, document.counts.intended);
    let ok: Vec<&&Value> = measured.iter().filter(|row| row["outcome"] == "ok").collect();
    assert_eq!(ok.len() as u64, document.counts.completed);
    let total = |name: &str| ok.iter().map(|row| row[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(Some(total("output_tokens")), document.counts.output_tokens);
    let greatest = ok.iter().map(|row| row["ttft_ms"].as_f64().unwrap()).fold(0.0, f64::max);
    let ttft = &document.metrics[&touchstone_model::MetricId::Ttft];
    assert!((greatest - ttft.max.unwrap()).abs() < 1e-6, "{greatest} {ttft:?}");

    // Each answer of the engine: a role, its tokens one by one, a finish reason, and usage.
    let done = run(&context, &format!("runs export {id} --table tokens --format jsonl"));
    let mut kinds: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for event in lines(&done.stdout) {
        let kind = event["kind"].as_str().unwrap().to_owned();
        kinds.entry(event["index"].as_u64().unwrap()).or_default().push(kind);
    }
    assert_eq!(kinds.len(), rows.len());
    for (index, kinds) in kinds {
        assert_eq!(kinds.iter().filter(|kind| *kind == "content").count(), 3, "{index}: {kinds:?}");
        assert_eq!(
            kinds.first().map(String::as_str),
            Some("empty"),
            "{index}: the role comes first: {kinds:?}"
        );
    }

    let csv = run(&context, &format!("runs export {id}"));
    assert_eq!(csv.stdout.lines().count(), rows.len() + 1);
    let page: Value =
        serde_json::from_str(&run(&context, &format!("runs export {id} --format json")).stdout).unwrap();
    assert_eq!(page["rows"].as_array().unwrap().len(), rows.len());

    let dir = run_dir(&context, id);
    assert!(dir.join("operations.parquet").is_file() && dir.join("tokens.parquet").is_file());
    // Tables are derived: verifying a run does not ask for them.
    assert_eq!(run(&context, &format!("runs verify {id}")).code(), Some(0));
    let done = run(&context, &format!("runs export {id} --format parquet --to t.parquet"));
    assert_eq!(done.code(), Some(0), "{}", done.snapshot());
    assert_eq!(
        std::fs::read(context.path("t.parquet")).unwrap(),
        std::fs::read(dir.join("operations.parquet")).unwrap()
    );
}

#[test]
fn a_run_without_logged_events_says_how_to_get_them() {
    let context = context();
    let benched = bench(&context, "engine=flat", LOAD);
    let done = run(&context, &format!("runs export {} --table tokens", benched.document.run));
    assert_eq!((done.code(), done.stdout.as_str()), (Some(0), "index,at_ns,tokens,kind\n"));
    assert!(done.stderr.contains("--log-tokens"), "{}", done.stderr);
    let done = run(&context, "runs export nonsense");
    assert_eq!(done.code(), Some(2), "{}", done.snapshot());
}

/// The Python with the reader that the tests use when it is there: `TOUCHSTONE_TEST_PYARROW` names an interpreter.
/// In the opt-in tier, since no machine has it unasked.
#[cfg(feature = "engine-tests")]
#[test]
fn pyarrow_reads_the_same_rows() {
    let python = std::env::var("TOUCHSTONE_TEST_PYARROW").unwrap_or_else(|_| "python3".to_owned());
    let there = Command::new(&python).args(["-c", "import pyarrow.parquet"]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        // To the process's own standard error: a passing test must not hide that it did nothing.
        let line = "SKIPPED: exports::pyarrow_reads_the_same_rows: pyarrow: no Python has it; TOUCHSTONE_TEST_PYARROW names one\n";
        drop(std::io::stderr().write_all(line.as_bytes()));
        return;
    }
    let context = context();
    let benched = bench(&context, "engine=flat", &format!("{LOAD} --parquet --log-tokens"));
    for table in ["operations", "tokens"] {
        let line = format!("runs export {} --table {table} --format jsonl", benched.document.run);
        let rows = lines(&run(&context, &line).stdout);
        let path = run_dir(&context, &benched.document.run).join(format!("{table}.parquet"));
        let script = "import sys, json, pyarrow.parquet as p; t = p.read_table(sys.argv[1]); \
            json.dump([{k: r[k] for k in t.column_names} for r in t.to_pylist()], sys.stdout)";
        let read = Command::new(&python).args(["-c", script]).arg(&path).output().unwrap();
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
        let found: Vec<Value> = serde_json::from_slice(&read.stdout).unwrap();
        assert_eq!(found, rows, "{table}");
    }
}
