//! Exporting a run's event log as tables: CSV, JSON, JSON lines or Parquet.
//!
//! Everything comes from the log, so an incomplete run can be exported too, and nothing here is the truth: a table can be
//! deleted and made again. A column never changes its name or meaning; new columns come at the end. What was not measured
//! is null (an empty field in CSV), never 0. Memory is bounded by one batch of rows.

mod columns;
mod parquet;
mod text;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::event_log::{LogError, Manifest, Reader, Record, Tail};
use crate::files::FileError;

pub use columns::{Column, ColumnType, OPERATIONS, TOKENS};
use columns::{Context, Value};

/// The name of the table of operations in a run's folder, where one is kept.
pub const OPERATIONS_FILE: &str = "operations.parquet";
/// The name of the table of events of answers in a run's folder, where one is kept.
pub const TOKENS_FILE: &str = "tokens.parquet";

/// Which table of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// One row per operation.
    Operations,
    /// One row per event of an answer; empty unless the run logged them.
    Tokens,
}

impl Table {
    /// The columns.
    #[must_use]
    pub fn columns(self) -> &'static [Column] {
        match self {
            Table::Operations => &OPERATIONS,
            Table::Tokens => &TOKENS,
        }
    }

    /// The format with its version, as told in JSON and in the metadata of Parquet.
    #[must_use]
    pub fn format(self) -> &'static str {
        match self {
            Table::Operations => "touchstone.operations/1",
            Table::Tokens => "touchstone.tokens/1",
        }
    }
}

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableFormat {
    /// A line of names, then a line per row.
    Csv,
    /// An object per line.
    JsonLines,
    /// One document with the run, the columns and the rows.
    Json,
    /// Apache Parquet.
    Parquet,
}

/// A table that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The table cannot be written.
    #[error("cannot write the table")]
    Write(#[from] io::Error),
    /// A file of the store.
    #[error(transparent)]
    File(#[from] FileError),
    /// The table cannot be encoded as Parquet.
    #[error("cannot write the table as Parquet: {why}")]
    Parquet {
        /// What the encoder says.
        why: String,
    },
}

/// What was exported, and what the log does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exported {
    /// Rows written.
    pub rows: u64,
    /// Rows that the recorder lost during the run; none where the log has no last frame, which knows it.
    pub lost: Option<u64>,
    /// How the log ends.
    pub tail: Tail,
    /// Frames that cannot be read.
    pub unreadable_frames: u64,
}

/// Takes rows in batches.
trait Sink {
    /// Begins the table; called once, before any row.
    fn begin(&mut self, manifest: Option<&Manifest>) -> Result<(), ExportError>;
    /// Takes one row.
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), ExportError>;
    /// Ends the table.
    fn end(&mut self) -> Result<(), ExportError>;
}

/// Writes a table of the event log at `log` to `out`.
///
/// # Errors
/// The log cannot be read, or `out` cannot be written.
pub fn export<W: Write + Send>(
    log: &Path,
    table: Table,
    format: TableFormat,
    out: W,
) -> Result<Exported, ExportError> {
    match format {
        TableFormat::Csv => drive(log, table, &mut text::Csv::new(table, out)),
        TableFormat::JsonLines => drive(log, table, &mut text::JsonLines::new(table, out)),
        TableFormat::Json => drive(log, table, &mut text::Json::new(table, out)),
        TableFormat::Parquet => drive(log, table, &mut parquet::Table::new(table, out)),
    }
}

/// Writes a table to the file `to`, which is whole or absent afterwards.
///
/// # Errors
/// The log cannot be read, or the file cannot be written.
pub fn export_to_file(
    log: &Path,
    table: Table,
    format: TableFormat,
    to: &Path,
) -> Result<Exported, ExportError> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| FileError::new(action, &path, source)
    };
    let part = part_of(to);
    let file = std::fs::File::create(&part).map_err(failed("create", &part))?;
    let exported = export(log, table, format, io::BufWriter::with_capacity(1 << 16, file));
    if exported.is_err() {
        // The error that is told is the one that came first.
        drop(std::fs::remove_file(&part));
        return exported;
    }
    std::fs::rename(&part, to).map_err(failed("rename", to))?;
    exported
}

/// Where a file is written until it is whole.
fn part_of(to: &Path) -> PathBuf {
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    to.with_file_name(name)
}

fn drive(log: &Path, table: Table, sink: &mut dyn Sink) -> Result<Exported, ExportError> {
    let mut reader = Reader::open(log)?;
    let mut context = Context::default();
    let mut exported = Exported { rows: 0, lost: None, tail: Tail::Clean, unreadable_frames: 0 };
    let mut begun = false;
    loop {
        let record = match reader.next_record() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(LogError::Payload { .. }) => {
                exported.unreadable_frames += 1;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if let Record::Start(manifest) = record {
            context.start(*manifest);
            continue;
        }
        if !begun {
            sink.begin(context.manifest.as_ref())?;
            begun = true;
        }
        match record {
            Record::Operations(rows) if table == Table::Operations => {
                for row in &rows {
                    sink.row(&context.operation(row))?;
                }
                exported.rows += rows.len() as u64;
            }
            Record::Tokens(rows) if table == Table::Tokens => {
                for row in &rows {
                    sink.row(&Context::token(row))?;
                }
                exported.rows += rows.len() as u64;
            }
            Record::Failure(entry) => context.failure(entry),
            Record::End(end) => {
                exported.lost = Some(match table {
                    Table::Operations => end.dropped,
                    Table::Tokens => end.token_events_dropped.unwrap_or(0),
                });
            }
            _ => {}
        }
    }
    if !begun {
        sink.begin(context.manifest.as_ref())?;
    }
    sink.end()?;
    exported.unreadable_frames += reader.skipped();
    exported.tail = reader.tail().unwrap_or(Tail::Clean);
    Ok(exported)
}
