//! The event log as bytes: its layout, its flush rule, and reading what was cut, changed or never a log.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure here is a failed test")]

use std::io::Cursor;
use std::path::Path;

use proptest::prelude::*;
use touchstone_model::run::{Phases, TargetDescription, Window, WorkloadDescription};
use touchstone_model::{Finding, FindingCode, Level, MetricId, Origin, Phase};
use touchstone_records::event_log::{
    End, FLUSH_NS, LogError, MAX_BATCH, MAX_PAYLOAD, Reader, Record, Tail, WriteError, Writer,
};
use touchstone_records::{FailureEntry, Manifest, OpFlags, OpRow, TokenKind, TokenRow};

fn manifest() -> Manifest {
    Manifest {
        run: "run-0".to_owned(),
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        touchstone_version: "0.1.0".to_owned(),
        level: Level::E,
        simulated: true,
        target: TargetDescription { target: "resp=127.0.0.1:1".to_owned(), ..TargetDescription::default() },
        workload: WorkloadDescription {
            arrival: "closed:1".to_owned(),
            seed: 1,
            schedule_digest: String::new(),
            parameters: Default::default(),
        },
        phases: Phases::default(),
        leading_metric: MetricId::E2e,
        fingerprint: None,
    }
}

fn rows(from: u64, n: u64) -> Vec<OpRow> {
    (from..from + n)
        .map(|index| OpRow {
            index,
            intended_ns: 1_000 * index,
            end_ns: 1_000 * index + 500,
            flags: OpFlags::MEASURED.with(OpFlags::FAILED, index % 3 == 0),
            failure: u16::from(index % 3 == 0),
            ..OpRow::default()
        })
        .collect()
}

fn failure() -> FailureEntry {
    FailureEntry {
        index: 1,
        origin: Origin::Target,
        phase: Phase::Headers,
        kind: "http-500".to_owned(),
        message: "busy".to_owned(),
        advice: "look at its log".to_owned(),
    }
}

fn tokens() -> Vec<TokenRow> {
    vec![
        TokenRow { index: 1, at_ns: 1_100, tokens: Some(2), kind: TokenKind::Content },
        TokenRow { index: 1, at_ns: 1_200, tokens: None, kind: TokenKind::Report },
    ]
}

/// A log with every kind of frame: its bytes, and how many rows are in which frame.
fn whole_log() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut writer = Writer::create(&path, &manifest()).unwrap();
    writer.failure(&failure(), 0).unwrap();
    for i in 0..5 {
        writer.operations(&rows(10 * i, 10), 0).unwrap();
        writer.window(&Window { sent: i, ..Window::default() }, 0).unwrap();
    }
    writer.tokens(&tokens(), 0).unwrap();
    writer.finding(&Finding::new(FindingCode::Simulated, "simulated", "none"), 0).unwrap();
    writer.finish(2, 0).unwrap();
    std::fs::read(&path).unwrap()
}

/// Everything in a log: records, frames that made no sense, and the tail.
fn read(bytes: &[u8]) -> Result<(Vec<Record>, usize, Tail), LogError> {
    let mut reader = Reader::new(Cursor::new(bytes), Path::new("log"))?;
    let (mut records, mut senseless) = (Vec::new(), 0);
    loop {
        match reader.next_record() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => return Ok((records, senseless, reader.tail().unwrap())),
            Err(LogError::Payload { .. }) => senseless += 1,
            Err(error) => return Err(error),
        }
    }
}

#[test]
fn every_kind_of_frame_comes_back_in_order() {
    let (records, senseless, tail) = read(&whole_log()).unwrap();
    assert_eq!((records.len(), senseless, tail), (15, 0, Tail::Clean));
    assert_eq!(records[0], Record::Start(Box::new(manifest())));
    assert_eq!(records[1], Record::Failure(failure()));
    assert_eq!(records[2], Record::Operations(rows(0, 10)));
    assert!(matches!(&records[3], Record::Window(window) if window.sent == 0));
    assert_eq!(records[10], Record::Operations(rows(40, 10)));
    assert_eq!(records[12], Record::Tokens(tokens()));
    assert!(matches!(&records[13], Record::Finding(finding) if finding.code == FindingCode::Simulated));
    assert_eq!(
        records[14],
        Record::End(End {
            operations: 50,
            measured: 50,
            measured_failed: 17,
            dropped: 2,
            token_events: Some(2),
            token_events_dropped: Some(0)
        })
    );
}

#[test]
fn a_cut_at_any_byte_gives_all_whole_frames_before_it() {
    let log = whole_log();
    let (all, ..) = read(&log).unwrap();
    let mut most = 0;
    for cut in 0..log.len() {
        match read(&log[..cut]) {
            Ok((records, senseless, tail)) => {
                assert_eq!(records[..], all[..records.len()]);
                assert_eq!(senseless, 0);
                match tail {
                    Tail::Clean => most = records.len(),
                    Tail::Torn { bytes, offset } => {
                        assert_eq!(records.len(), most);
                        assert_eq!(bytes + offset, cut as u64);
                    }
                }
            }
            Err(LogError::Empty { bytes, .. }) => assert!(bytes == cut && cut < 7),
            Err(error) => panic!("cut at {cut}: {error}"),
        }
    }
    assert_eq!(most, all.len() - 1);
}

#[test]
fn a_newer_version_is_refused_and_a_newer_kind_is_skipped() {
    let mut log = whole_log();
    log[6] = 2;
    let error = read(&log).unwrap_err().to_string();
    assert_eq!(error, "log is an event log of version 2.1; this version reads up to 1.x");
    log[6] = 1;
    log[5] = 9;
    assert!(read(&log).is_ok(), "a newer minor version is read");
    log.extend(frame(200, b"from the future"));
    log.extend(frame(6, b"{\"operations\":1,\"measured\":0,\"measured_failed\":0,\"dropped\":0,\"new\":1}"));
    let mut reader = Reader::new(Cursor::new(&log), Path::new("log")).unwrap();
    let mut last = None;
    while let Some(record) = reader.next_record().unwrap() {
        last = Some(record);
    }
    assert_eq!(reader.skipped(), 1);
    assert!(matches!(last, Some(Record::End(End { operations: 1, .. }))));
    assert!(matches!(read(b"SQLite format 3"), Err(LogError::NoLog { .. })));
    assert!(matches!(read(b"x"), Err(LogError::NoLog { .. })));
}

/// A frame as the format says, written here a second time so that the layout cannot change unseen.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    let crc = crc32fast::hash(&[&length[..], &[kind], payload].concat());
    [&length[..], &crc.to_le_bytes(), &[kind], payload].concat()
}

#[test]
fn a_whole_frame_without_sense_does_not_hide_the_next() {
    let mut log = whole_log();
    log.extend(frame(2, &[0xff; 20]));
    log.extend(frame(4, b"{"));
    log.extend(frame(2, &[0]));
    let (records, senseless, tail) = read(&log).unwrap();
    assert_eq!((senseless, tail), (2, Tail::Clean));
    assert_eq!(records.last(), Some(&Record::Operations(Vec::new())));
}

#[test]
fn a_length_that_would_fill_the_memory_is_torn() {
    let mut log = whole_log();
    let clean = log.len() as u64;
    log.extend(u32::MAX.to_le_bytes());
    log.extend([0; 100]);
    let (_, _, tail) = read(&log).unwrap();
    assert_eq!(tail, Tail::Torn { bytes: 104, offset: clean });
}

#[test]
fn frames_wait_for_the_clock_or_for_a_full_buffer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let size = || std::fs::metadata(&path).unwrap().len();
    let mut writer = Writer::create(&path, &manifest()).unwrap();
    let header = size();
    assert!(header > 7, "the first frame is written at once");
    writer.operations(&rows(0, 10), 1_000).unwrap();
    writer.tick(999 + FLUSH_NS).unwrap();
    assert_eq!((size(), writer.written_rows()), (header, 0));
    writer.operations(&rows(10, 10), 999 + FLUSH_NS).unwrap();
    writer.tick(1_000 + FLUSH_NS).unwrap();
    assert!(size() > header, "the oldest frame counts");
    assert_eq!(writer.written_rows(), 20);
    writer.operations(&rows(0, 100_000), 0).unwrap();
    assert!(writer.written_rows() > 0 && writer.written_rows() <= 100_020);
    assert!(writer.written_rows() + (256 << 10) > 100_020, "what waits is bounded");
    assert_eq!(writer.finish(0, 0).unwrap().operations, 100_020);
    let (records, ..) = read(&std::fs::read(&path).unwrap()).unwrap();
    let lengths: Vec<usize> = records
        .iter()
        .filter_map(|record| match record {
            Record::Operations(rows) => Some(rows.len()),
            _ => None,
        })
        .collect();
    assert_eq!(lengths.iter().sum::<usize>(), 100_020);
    assert!(lengths.iter().all(|n| *n <= MAX_BATCH));
}

#[test]
fn a_payload_that_is_too_large_is_refused_and_the_log_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut writer = Writer::create(&path, &manifest()).unwrap();
    let huge = FailureEntry { message: "x".repeat(MAX_PAYLOAD), ..failure() };
    assert!(matches!(writer.failure(&huge, 0), Err(WriteError::Payload { kind: "failure", .. })));
    writer.failure(&failure(), 0).unwrap();
    writer.finish(0, 0).unwrap();
    let (records, _, tail) = read(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!((records.len(), tail), (3, Tail::Clean));
    assert!(
        matches!(Writer::create(&path, &manifest()), Err(WriteError::Io { .. })),
        "never over another log"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Changed bytes never panic, never invent rows before the change, and all frames before it are kept.
    #[test]
    fn changed_logs_give_the_frames_before_the_change(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 1..=255u8), 1..4),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let log = whole_log();
        let (all, ..) = read(&log).unwrap();
        let mut changed = log.clone();
        for (index, bits) in &changes {
            changed[index.index(log.len())] ^= bits;
        }
        if let Some(cut) = cut {
            changed.truncate(cut.index(log.len()));
        }
        let same = log.iter().zip(&changed).take_while(|(a, b)| a == b).count();
        let before = read(&log[..same]).map_or(0, |(records, ..)| records.len());
        if let Ok((records, ..)) = read(&changed) {
            prop_assert!(records.len() >= before);
            prop_assert_eq!(&records[..before], &all[..before]);
        } else {
            prop_assert!(same < 7);
        }
    }

    #[test]
    fn any_bytes_are_read_to_their_end(mut bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let mut log = b"TSLOG\0\x01".to_vec();
        log.append(&mut bytes);
        let (_, _, tail) = read(&log).unwrap();
        if let Tail::Torn { bytes, offset } = tail {
            prop_assert_eq!(bytes + offset, log.len() as u64);
        }
    }
}
