//! Tables made from event logs: the same values in every format, null where nothing was measured, and logs that are cut.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: a failure here is a failed test")]

use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;
use touchstone_model::run::{Phases, TargetDescription, WorkloadDescription};
use touchstone_model::{Level, MetricId, Origin, Phase};
use touchstone_records::event_log::{self, Writer};
use touchstone_records::export::{
    ColumnType, Exported, OPERATIONS, TOKENS, Table, TableFormat, export, export_to_file,
};
use touchstone_records::{FailureEntry, Manifest, OpFlags, OpRow, TokenKind, TokenRow};

const MS: u64 = 1_000_000;
const START: u64 = 5_000_000 * MS;

fn manifest(leading_metric: MetricId) -> Manifest {
    Manifest {
        run: "run-0".to_owned(),
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        touchstone_version: "0.1.0".to_owned(),
        level: Level::P2,
        simulated: false,
        target: TargetDescription { target: "t=127.0.0.1:1".to_owned(), ..TargetDescription::default() },
        workload: WorkloadDescription {
            arrival: "closed:1".to_owned(),
            seed: 1,
            schedule_digest: String::new(),
            parameters: Default::default(),
        },
        phases: Phases::default(),
        leading_metric,
        fingerprint: None,
    }
}

/// A generation: dispatched after 1 ms, slot after 2, sent after 3, head after 10, content from 20 to 65 ms, end at 70.
fn generation() -> OpRow {
    OpRow {
        index: 7,
        intended_ns: START,
        dispatch_ns: START + MS,
        slot_ns: START + 2 * MS,
        sent_ns: START + 3 * MS,
        head_ns: START + 10 * MS,
        first_content_ns: START + 20 * MS,
        last_content_ns: START + 65 * MS,
        end_ns: START + 70 * MS,
        output_tokens: 10,
        input_tokens: 128,
        chunks: 10,
        flags: OpFlags::MEASURED | OpFlags::OUTPUT_TOKENS | OpFlags::INPUT_TOKENS,
        failure: 0,
    }
}

/// The same, but for its tokens, of which several came in a chunk.
fn merged() -> OpRow {
    OpRow { index: 8, chunks: 5, ..generation() }
}

/// It failed after its first content.
fn failed() -> OpRow {
    OpRow {
        index: 9,
        flags: OpFlags::MEASURED | OpFlags::FAILED,
        output_tokens: 0,
        input_tokens: 0,
        chunks: 3,
        failure: 1,
        ..generation()
    }
}

/// It never got a connection.
fn waiting() -> OpRow {
    OpRow {
        index: 10,
        intended_ns: START,
        dispatch_ns: START + MS,
        end_ns: START + 90 * MS,
        flags: OpFlags::FAILED | OpFlags::CENSORED,
        failure: 2,
        ..OpRow::default()
    }
}

fn write_log(folder: &Path, leading: MetricId, rows: &[OpRow], tokens: &[TokenRow]) -> PathBuf {
    let path = folder.join(event_log::FILE);
    let mut writer = Writer::create(&path, &manifest(leading)).unwrap();
    for (index, kind) in [(1, "cut, \"mid\" stream"), (2, "unfinished")] {
        let entry = FailureEntry {
            index,
            origin: Origin::Target,
            phase: Phase::Stream,
            kind: kind.to_owned(),
            message: "m".to_owned(),
            advice: "a".to_owned(),
        };
        writer.failure(&entry, 0).unwrap();
    }
    writer.operations(rows, 0).unwrap();
    if !tokens.is_empty() {
        writer.tokens(tokens, 0).unwrap();
    }
    writer.finish(3, 1).unwrap();
    path
}

fn text(log: &Path, table: Table, format: TableFormat) -> (String, Exported) {
    let mut out = Vec::new();
    let exported = export(log, table, format, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), exported)
}

fn json_rows(log: &Path, table: Table) -> Vec<Value> {
    let lines = text(log, table, TableFormat::JsonLines).0;
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_generation_has_its_latencies_and_what_it_lacks_is_null() {
    let folder = tempfile::tempdir().unwrap();
    let log = write_log(folder.path(), MetricId::Ttft, &[generation(), merged(), failed(), waiting()], &[]);
    let rows = json_rows(&log, Table::Operations);
    let expected = [
        ("ttft_ms", [Some(20.0), Some(20.0), Some(20.0), None]),
        ("ttft_from_send_ms", [Some(17.0), Some(17.0), Some(17.0), None]),
        ("e2e_ms", [Some(65.0), Some(65.0), None, None]),
        ("service_time_ms", [Some(62.0), Some(62.0), None, None]),
        ("stream_close_ms", [Some(5.0), Some(5.0), None, None]),
        // 45 ms over 9 tokens; where chunks hold several tokens the first one's are unknown.
        ("tpot_ms", [Some(5.0), None, None, None]),
        ("ntpot_ms", [Some(6.5), Some(6.5), None, None]),
        ("end_to_end_latency_ms", [None; 4]),
        ("scheduling_error_ms", [Some(1.0); 4]),
        ("slot_wait_ms", [Some(1.0), Some(1.0), Some(1.0), None]),
        ("write_ms", [Some(1.0), Some(1.0), Some(1.0), None]),
        ("output_tokens", [Some(10.0), Some(10.0), None, None]),
        (
            "sent_ns",
            [
                Some((START + 3 * MS) as f64),
                Some((START + 3 * MS) as f64),
                Some((START + 3 * MS) as f64),
                None,
            ],
        ),
    ];
    for (name, values) in expected {
        let found: Vec<Option<f64>> = rows.iter().map(|row| row[name].as_f64()).collect();
        assert_eq!(found, values, "{name}");
    }
    let words = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(words("outcome"), ["ok", "ok", "failed", "censored"]);
    assert_eq!(
        words("failure_kind")[..],
        [Value::Null, Value::Null, "cut, \"mid\" stream".into(), "unfinished".into()]
    );
    assert_eq!(words("measured"), [true, true, true, false]);
    assert_eq!(words("hit"), [Value::Null, Value::Null, Value::Null, Value::Null]);
}

#[test]
fn what_does_not_stream_has_no_first_token() {
    let folder = tempfile::tempdir().unwrap();
    let lookup = OpRow {
        first_content_ns: 0,
        last_content_ns: 0,
        flags: OpFlags::MEASURED | OpFlags::LOOKUP | OpFlags::HIT,
        ..generation()
    };
    let log = write_log(folder.path(), MetricId::E2e, &[lookup, generation()], &[]);
    let rows = json_rows(&log, Table::Operations);
    assert_eq!((&rows[0]["e2e_ms"], &rows[0]["hit"]), (&70.0.into(), &true.into()));
    assert_eq!(rows[1]["e2e_ms"], 65.0);
    assert!(rows.iter().all(|row| row["ttft_ms"].is_null() && row["stream_close_ms"].is_null()));

    let folder = tempfile::tempdir().unwrap();
    let log = write_log(folder.path(), MetricId::EndToEndLatency, &[generation()], &[]);
    let row = &json_rows(&log, Table::Operations)[0];
    assert_eq!(row["end_to_end_latency_ms"], 65.0);
    assert!(row["e2e_ms"].is_null() && row["ttft_ms"].is_null());
}

#[test]
fn csv_has_the_columns_of_the_reference_and_quotes_what_needs_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = write_log(folder.path(), MetricId::Ttft, &[failed()], &[]);
    let (csv, exported) = text(&log, Table::Operations, TableFormat::Csv);
    let lines: Vec<&str> = csv.lines().collect();
    let names: Vec<&str> = OPERATIONS.iter().map(|column| column.name).collect();
    assert_eq!((lines[0], lines.len()), (names.join(",").as_str(), 2));
    assert!(lines[1].starts_with("9,true,failed,5000000000000,"), "{}", lines[1]);
    assert!(lines[1].ends_with(",3,,false,target,\"cut, \"\"mid\"\" stream\""), "{}", lines[1]);
    assert_eq!((exported.rows, exported.lost), (1, Some(3)));
}

#[test]
fn json_is_one_document_with_its_columns() {
    let folder = tempfile::tempdir().unwrap();
    let log = write_log(folder.path(), MetricId::Ttft, &[generation(), failed()], &[]);
    let document: Value = serde_json::from_str(&text(&log, Table::Operations, TableFormat::Json).0).unwrap();
    assert_eq!(document["format"], "touchstone.operations/1");
    assert_eq!((&document["run"], &document["simulated"]), (&"run-0".into(), &false.into()));
    assert_eq!(document["columns"].as_array().unwrap().len(), OPERATIONS.len());
    assert_eq!(document["rows"].as_array().unwrap().as_slice(), json_rows(&log, Table::Operations));
    let folder = tempfile::tempdir().unwrap();
    let log = write_log(folder.path(), MetricId::Ttft, &[], &[]);
    let document: Value = serde_json::from_str(&text(&log, Table::Operations, TableFormat::Json).0).unwrap();
    assert_eq!(document["rows"], serde_json::json!([]));
}

/// A Parquet file as JSON rows.
fn parquet_rows(path: &Path) -> Vec<Value> {
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let value = |field: &Field| match field {
        Field::Null => Value::Null,
        Field::Bool(value) => (*value).into(),
        Field::Long(value) => (*value).into(),
        Field::Double(value) => (*value).into(),
        Field::Str(value) => value.as_str().into(),
        other => panic!("{other:?}"),
    };
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| {
        Value::Object(
            row.unwrap().get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect(),
        )
    })
    .collect()
}

#[test]
fn parquet_holds_the_same_rows_over_several_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    let rows: Vec<OpRow> = (0..70_000)
        .map(|index| {
            let base = match index % 4 {
                0 => generation(),
                1 => merged(),
                2 => failed(),
                _ => waiting(),
            };
            OpRow { index, ..base }
        })
        .collect();
    let log = write_log(folder.path(), MetricId::Ttft, &rows, &[]);
    let path = folder.path().join("operations.parquet");
    let exported = export_to_file(&log, Table::Operations, TableFormat::Parquet, &path).unwrap();
    assert_eq!(exported.rows, 70_000);
    assert!(!folder.path().join("operations.parquet.part").exists());
    let found = parquet_rows(&path);
    assert_eq!(found.len(), 70_000);
    for (found, expected) in found.iter().zip(json_rows(&log, Table::Operations)) {
        assert_eq!(*found, expected);
    }
    let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    assert!(reader.num_row_groups() > 1);
    let facts = reader.metadata().file_metadata().key_value_metadata().unwrap().clone();
    assert!(facts.iter().any(|fact| fact.key == "touchstone.run" && fact.value.as_deref() == Some("run-0")));
}

#[test]
fn events_of_answers_are_a_table_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = [
        TokenRow { index: 7, at_ns: START + 12 * MS, tokens: None, kind: TokenKind::Empty },
        TokenRow { index: 7, at_ns: START + 20 * MS, tokens: Some(3), kind: TokenKind::Reasoning },
        TokenRow { index: 7, at_ns: START + 65 * MS, tokens: Some(7), kind: TokenKind::Content },
    ];
    let log = write_log(folder.path(), MetricId::Ttft, &[generation()], &tokens);
    let (csv, exported) = text(&log, Table::Tokens, TableFormat::Csv);
    assert_eq!(
        csv,
        "index,at_ns,tokens,kind\n7,5000012000000,,empty\n7,5000020000000,3,reasoning\n7,5000065000000,7,content\n"
    );
    assert_eq!((exported.rows, exported.lost), (3, Some(1)));
    let path = folder.path().join("tokens.parquet");
    export_to_file(&log, Table::Tokens, TableFormat::Parquet, &path).unwrap();
    assert_eq!(parquet_rows(&path), json_rows(&log, Table::Tokens));
}

#[test]
fn a_log_that_is_cut_anywhere_gives_what_is_left_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = write_log(folder.path(), MetricId::Ttft, &[generation(), failed()], &[]);
    let bytes = std::fs::read(&log).unwrap();
    let cut_log = folder.path().join("cut");
    for cut in 7..bytes.len() {
        std::fs::write(&cut_log, &bytes[..cut]).unwrap();
        let (csv, exported) = text(&cut_log, Table::Operations, TableFormat::Csv);
        assert_eq!(csv.lines().count() as u64, exported.rows + 1);
        assert_eq!(
            exported.lost, None,
            "cut at {cut}: without its last frame a log does not know what it lacks"
        );
        let path = folder.path().join("cut.parquet");
        export_to_file(&cut_log, Table::Operations, TableFormat::Parquet, &path).unwrap();
        assert_eq!(parquet_rows(&path).len() as u64, exported.rows);
    }
}

#[test]
fn every_latency_has_its_unit_in_its_name() {
    for column in OPERATIONS.iter().chain(&TOKENS) {
        assert!(!column.meaning.is_empty());
        if column.kind == ColumnType::Float {
            assert!(column.name.ends_with("_ms"), "{}", column.name);
        }
    }
}
