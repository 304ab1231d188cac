//! `kill -9` of a recording process: what was acknowledged is in the log.
//!
//! The test runs its own executable again as the process that is killed; [`writer_process`] is that process' body.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: a failure here is a failed test")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use touchstone_model::run::{Phases, TargetDescription, WorkloadDescription};
use touchstone_model::{Level, MetricId};
use touchstone_records::event_log::{FILE, Tail};
use touchstone_records::{Manifest, OpFlags, OpRow, Recorder, Recovery, RunState, RunStore};

/// Set for the process that is killed: the store's folder, and what to do (`stream` or `once`).
const STORE: &str = "TOUCHSTONE_TEST_STORE";
const MODE: &str = "TOUCHSTONE_TEST_MODE";
const RUN: &str = "run-0killed";
const BATCH: u64 = 1000;
/// A broken recorder must not hang the tests.
const PATIENCE: Duration = Duration::from_secs(60);

fn manifest() -> Manifest {
    Manifest {
        run: RUN.to_owned(),
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        touchstone_version: "0.1.0".to_owned(),
        level: Level::P2,
        simulated: false,
        target: TargetDescription {
            target: "resp=127.0.0.1:6379".to_owned(),
            ..TargetDescription::default()
        },
        workload: WorkloadDescription {
            arrival: "constant:1000/s".to_owned(),
            seed: 1,
            schedule_digest: String::new(),
            parameters: Default::default(),
        },
        phases: Phases::default(),
        leading_metric: MetricId::E2e,
        fingerprint: None,
    }
}

fn batch(from: u64) -> Vec<OpRow> {
    (from..from + BATCH)
        .map(|index| OpRow {
            index,
            intended_ns: 1_000_000 * (index + 1),
            end_ns: 1_000_000 * (index + 1) + 5_000,
            flags: OpFlags::MEASURED,
            ..OpRow::default()
        })
        .collect()
}

/// Records until it is killed and says after each step how many rows are in the file. Does nothing when run as a
/// test of its own.
#[test]
fn writer_process() {
    let Some(store) = std::env::var_os(STORE) else { return };
    let once = std::env::var(MODE).unwrap() == "once";
    let dir = RunStore::new(Path::new(&store)).create(RUN).unwrap();
    let handle = Recorder::start(&dir, manifest(), Some("{}"));
    let sender = handle.sender();
    let mut next = 0;
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if (next == 0 || !once) && sender.try_send(batch(next)) {
            next += BATCH;
        }
        eprintln!("written {}", sender.written_rows());
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn spawn(store: &Path, mode: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer_process", "--nocapture", "--test-threads=1"])
        .env(STORE, store)
        .env(MODE, mode)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads acknowledgements until `enough`, kills the process with SIGKILL, and gives the greatest acknowledged number.
fn kill_after(mut child: Child, enough: u64) -> u64 {
    let mut acknowledged = 0;
    let deadline = Instant::now() + PATIENCE;
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        if let Some(written) = line.unwrap().strip_prefix("written ") {
            acknowledged = written.parse().unwrap();
        }
        if acknowledged >= enough || Instant::now() > deadline {
            break;
        }
    }
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(9),
        "it ended by itself: {status}"
    );
    acknowledged
}

fn check(store: &Path, acknowledged: u64) {
    let runs = RunStore::new(store);
    let entry = runs.entry(RUN);
    let RunState::Incomplete { operations_read } = entry.state else { panic!("{entry:?}") };
    assert!(operations_read >= acknowledged, "{operations_read} of {acknowledged} acknowledged rows");
    assert_eq!(entry.target.as_deref(), Some("resp=127.0.0.1:6379"));
    let recovery = runs.recover(RUN).unwrap();
    assert_eq!(recovery.operations, operations_read);
    assert_eq!(recovery.measured, operations_read);
    assert_eq!(recovery.end, None);
    assert_eq!(
        recovery.operations % BATCH,
        0,
        "only whole batches are in a log that is written frame by frame"
    );
}

#[test]
fn all_acknowledged_rows_survive_a_kill_under_load() {
    for enough in [1, 20 * BATCH, 100 * BATCH] {
        let folder = tempfile::tempdir().unwrap();
        let acknowledged = kill_after(spawn(folder.path(), "stream"), enough);
        assert!(acknowledged >= enough, "the recorder wrote {acknowledged} rows only");
        check(folder.path(), acknowledged);
    }
}

/// One batch, far smaller than the buffer, and then silence: it must reach the file without any further event.
#[test]
fn a_lone_batch_is_written_by_the_clock() {
    let folder = tempfile::tempdir().unwrap();
    let acknowledged = kill_after(spawn(folder.path(), "once"), BATCH);
    assert_eq!(acknowledged, BATCH);
    check(folder.path(), acknowledged);
    let recovery = Recovery::read(&RunStore::new(folder.path()).dir(RUN).join(FILE)).unwrap();
    assert_eq!(recovery.tail, Tail::Clean);
    assert_eq!(
        recovery.manifest,
        Some(Manifest { fingerprint: recovery.manifest.clone().unwrap().fingerprint, ..manifest() })
    );
}
