//! Tests of the run store: states, lookup, recovery and verification on real folders.

use touchstone_model::run::{
    Certificate, Counts, Phases, Rates, TargetDescription, Window, WorkloadDescription,
};
use touchstone_model::{FindingCode, MetricId, Origin, Phase};

use super::*;
use crate::event_log::{FailureEntry, OpFlags, OpRow, Tail, Writer};
use crate::recorder::Recorder;
use crate::verify::CheckOutcome;

fn target() -> TargetDescription {
    TargetDescription { target: "resp=127.0.0.1:6379".to_owned(), ..TargetDescription::default() }
}

fn workload() -> WorkloadDescription {
    WorkloadDescription {
        arrival: "constant:1000/s".to_owned(),
        seed: 7,
        schedule_digest: digest::sha256(b"schedule"),
        parameters: BTreeMap::from([("keys".to_owned(), 10.into())]),
    }
}

const PHASES: Phases = Phases {
    start_ns: 1_000_000_000,
    measured_from_ns: 2_000_000_000,
    measured_to_ns: 3_000_000_000,
    end_ns: 4_000_000_000,
};

/// A manifest for tests.
pub(crate) fn manifest(run: &str) -> Manifest {
    Manifest {
        run: run.to_owned(),
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        touchstone_version: "0.1.0".to_owned(),
        level: Level::P2,
        simulated: false,
        target: target(),
        workload: workload(),
        phases: PHASES,
        leading_metric: MetricId::E2e,
        fingerprint: None,
    }
}

/// A document for tests, without operations.
pub(crate) fn document(run: &str) -> RunDocument {
    RunDocument {
        format: run::FORMAT.to_owned(),
        run: run.to_owned(),
        level: Level::P2,
        simulated: false,
        valid: true,
        interrupted: false,
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        touchstone_version: "0.1.0".to_owned(),
        target: target(),
        workload: workload(),
        phases: PHASES,
        metrics: BTreeMap::new(),
        rates: Rates::default(),
        counts: Counts::default(),
        errors: Vec::new(),
        findings: Vec::new(),
        generator: Certificate::default(),
        slo: Vec::new(),
        windows: Vec::new(),
        blocks: Vec::new(),
        stages: Vec::new(),
        fingerprint: None,
        steady: None,
        server: None,
    }
}

/// One row per ms from 1 s on; every tenth fails; latency is 1 ms times its number.
fn rows(n: u64) -> Vec<OpRow> {
    (0..n)
        .map(|index| {
            let intended_ns = 1_000_000_000 + index * 1_000_000;
            let measured = (2_000_000_000..3_000_000_000).contains(&intended_ns);
            let failed = index % 10 == 9;
            OpRow {
                index,
                intended_ns,
                dispatch_ns: intended_ns + 2_000,
                sent_ns: intended_ns + 5_000,
                last_content_ns: if failed {
                    0
                } else {
                    intended_ns + (index - index.min(1000) + 1) * 1_000_000
                },
                end_ns: intended_ns + 2_000_000_000,
                flags: OpFlags::default().with(OpFlags::MEASURED, measured).with(OpFlags::FAILED, failed),
                failure: u16::from(failed),
                ..OpRow::default()
            }
        })
        .collect()
}

fn counts() -> Counts {
    Counts { intended: 1000, sent: 1000, completed: 900, failed: 100, ..Counts::default() }
}

fn recorded(store: &RunStore, run: &str) -> RunDocument {
    let dir = store.create(run).unwrap();
    let handle = Recorder::start(&dir, manifest(run), Some("{\"format\":\"touchstone.fingerprint/1\"}\n"));
    let sender = handle.sender();
    let refused = FailureEntry {
        index: 1,
        origin: Origin::Network,
        phase: Phase::Connect,
        kind: "refused".to_owned(),
        message: "connection refused".to_owned(),
        advice: "start the server".to_owned(),
    };
    assert!(sender.failure(refused) && sender.window(Window { completed: 3, ..Window::default() }));
    // One batch, longer than a frame may be.
    assert!(sender.try_send(rows(5000)));
    let outcome = handle.finish(RunDocument { counts: counts(), ..document(run) });
    assert_eq!((outcome.error, outcome.dropped), (None, 0));
    outcome.document
}

fn failed_checks(report: &VerifyReport) -> Vec<&'static str> {
    report
        .checks
        .iter()
        .filter(|check| matches!(check.outcome, CheckOutcome::Failed(_)))
        .map(|check| check.name)
        .collect()
}

#[test]
fn a_recorded_run_loads_lists_and_verifies() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::new(folder.path());
    assert_eq!(store.list().unwrap(), []);
    let stored = recorded(&store, "run-0a");
    assert_eq!(store.load("run-0").unwrap(), stored);
    assert_eq!(
        stored.fingerprint.as_deref(),
        Some(digest::sha256(b"{\"format\":\"touchstone.fingerprint/1\"}\n").as_str())
    );
    let list = store.list().unwrap();
    assert_eq!(list[0].state, RunState::Complete);
    assert_eq!(list[0].target.as_deref(), Some("resp=127.0.0.1:6379"));
    assert_eq!((list[0].valid, list[0].level), (Some(true), Some(Level::P2)));
    let report = store.verify("0a").unwrap();
    assert!(report.is_ok(), "{report:?}");
    assert_eq!(report.checks.len(), 8);
    assert!(matches!(store.create("run-0a"), Err(StoreError::Exists { .. })));
}

#[test]
fn a_changed_byte_in_any_file_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::new(folder.path());
    recorded(&store, "run-0a");
    for (name, checks) in [
        (RUN, vec![RUN]),
        (FINGERPRINT, vec![FINGERPRINT, "fingerprint"]),
        (event_log::FILE, vec![event_log::FILE, "frames"]),
    ] {
        let path = store.dir("run-0a").join(name);
        let good = std::fs::read(&path).unwrap();
        let mut bad = good.clone();
        // A digit of the start's year in run.json; any byte elsewhere.
        let at = good.windows(4).position(|w| w == b"2026").filter(|_| name == RUN).unwrap_or(good.len() / 2);
        bad[at] ^= 1;
        std::fs::write(&path, &bad).unwrap();
        assert_eq!(failed_checks(&store.verify("run-0a").unwrap()), checks, "{name}");
        std::fs::write(&path, &good).unwrap();
    }
    assert!(store.verify("run-0a").unwrap().is_ok());
    std::fs::remove_file(store.dir("run-0a").join(FINGERPRINT)).unwrap();
    assert!(!store.verify("run-0a").unwrap().is_ok());
}

#[test]
fn a_document_that_counts_other_operations_than_its_log_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::new(folder.path());
    let mut document = recorded(&store, "run-0a");
    document.counts.intended = 1001;
    complete(&store.dir("run-0a"), &document).unwrap();
    assert_eq!(failed_checks(&store.verify("run-0a").unwrap()), ["counts"]);
}

#[test]
fn a_run_without_a_document_is_running_then_incomplete_and_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::new(folder.path());
    let dir = store.create("run-0b").unwrap();
    let mut writer = Writer::create(&dir.join(event_log::FILE), &manifest("run-0b")).unwrap();
    writer.operations(&rows(2500), 0).unwrap();
    writer
        .finding(&touchstone_model::Finding::new(FindingCode::UserStamps, "no kernel stamps", "none"), 0)
        .unwrap();
    writer.flush().unwrap();
    let running = store.list().unwrap().remove(0);
    assert_eq!(running.state, RunState::Running { operations_read: 2500 });
    drop(writer);
    let entry = store.entry("run-0b");
    assert_eq!(entry.state, RunState::Incomplete { operations_read: 2500 });
    assert_eq!(entry.started_at.as_deref(), Some("2026-01-02T03:04:05Z"));
    assert_eq!(entry.valid, None);
    assert!(matches!(store.load("run-0b"), Err(StoreError::Incomplete { .. })));

    let recovery = store.recover("latest").unwrap();
    assert_eq!((recovery.operations, recovery.measured), (2500, 1000));
    assert_eq!((recovery.completed, recovery.failed), (900, 100));
    assert_eq!(recovery.failures[&1].measured, 100);
    assert_eq!(recovery.failures[&1].entry, None, "its entry never came");
    assert_eq!(recovery.findings.len(), 1);
    assert_eq!((recovery.tail, recovery.end), (Tail::Clean, None));
    let e2e = recovery.metrics[&MetricId::E2e];
    assert_eq!((e2e.n, e2e.censored), (1000, 100));
    // 1, 2, ... ms without every tenth: the median of a thousand with a hundred at infinity is the 500th value, 555 ms.
    let p50 = e2e.p50.unwrap();
    assert!((p50 - 555.0).abs() <= 555.0 * touchstone_stats::histogram::RELATIVE_ERROR, "{p50}");
    assert_eq!(e2e.p99, None, "the tail is among the failed ones");
    assert!(!store.verify("run-0b").unwrap().is_ok());
}

#[test]
fn a_torn_tail_keeps_all_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::new(folder.path());
    recorded(&store, "run-0c");
    let dir = store.dir("run-0c");
    std::fs::remove_file(dir.join(RUN)).unwrap();
    let log = dir.join(event_log::FILE);
    let bytes = std::fs::read(&log).unwrap();
    std::fs::write(&log, &bytes[..bytes.len() - 3]).unwrap();
    let recovery = store.recover("run-0c").unwrap();
    assert_eq!(recovery.operations, 5000);
    assert_eq!(recovery.failures[&1].entry.as_ref().unwrap().kind, "refused");
    assert_eq!(recovery.windows.len(), 1);
    assert!(matches!(recovery.tail, Tail::Torn { .. }) && recovery.end.is_none());
}

#[test]
fn what_cannot_be_read_is_listed_as_broken() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::new(folder.path());
    let broken = |run: &str| match store.entry(run).state {
        RunState::Broken { why } => why,
        state => panic!("{state:?}"),
    };
    store.create("run-0d").unwrap();
    assert!(broken("run-0d").contains("events.tslog"));
    std::fs::write(store.dir("run-0d").join(event_log::FILE), b"").unwrap();
    assert!(broken("run-0d").contains("less than a header"));
    std::fs::write(store.dir("run-0d").join(RUN), b"{\"format\":\"touchstone.run/9\"}").unwrap();
    assert!(broken("run-0d").contains("touchstone.run/9"));
    std::fs::write(store.dir("run-0d").join(RUN), b"{").unwrap();
    assert!(broken("run-0d").contains("damaged"));
}

#[test]
fn an_id_that_means_none_or_several_names_candidates() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::new(folder.path());
    for run in ["run-0a1", "run-0a2", "run-0a", "run-1"] {
        store.create(run).unwrap();
    }
    assert_eq!(store.resolve("run-0a").unwrap(), "run-0a", "a whole id is meant exactly");
    assert_eq!(store.resolve("1").unwrap(), "run-1");
    assert_eq!(store.resolve("latest").unwrap(), "run-1");
    match store.resolve("run-0") {
        Err(StoreError::Ambiguous { candidates, .. }) => {
            assert_eq!(candidates, ["run-0a2", "run-0a1", "run-0a"]);
        }
        other => panic!("{other:?}"),
    }
    match store.resolve("../run-1") {
        Err(StoreError::Unknown { candidates, .. }) => assert_eq!(candidates.len(), 4),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_number_of_a_document_comes_back_to_the_last_bit() {
    let folder = tempfile::tempdir().unwrap();
    let store = RunStore::new(folder.path());
    let dir = store.create("run-0e").unwrap();
    let mut document = document("run-0e");
    // Numbers whose shortest decimal form needs an exact parser.
    document.generator.cpu_busy = (1..2000u32).map(|i| f64::from(i).sqrt().exp() / 7.0e9).collect();
    complete(&dir, &document).unwrap();
    assert_eq!(store.load("run-0e").unwrap(), document);
}
