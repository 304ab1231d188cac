//! Reading a trace to be replayed: a file of a public format, or a recorded run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;
use touchstone_model::Arrival;
use touchstone_records::event_log::{self, LogError, OpRow, Record};
use touchstone_records::{FileError, digest};
use touchstone_workload::trace::{Trace, TraceError};

/// The greatest file that is read, bytes.
const FILE_LIMIT: u64 = 2 << 30;

/// A trace and where it is from.
#[derive(Debug, Clone)]
pub struct Read {
    /// The trace.
    pub trace: Trace,
    /// Digest of the bytes it was read from.
    pub digest: String,
}

impl Read {
    /// What a run document says about the trace: its format, its digest and its size, not its place.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, serde_json::Value> {
        [
            ("trace_format", json!(self.trace.format().to_string())),
            ("trace_sha256", json!(self.digest)),
            ("trace_requests", json!(self.trace.rows().len())),
            ("trace_seconds", json!(self.trace.length_ns() as f64 / 1e9)),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("`{}` cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is too large.
    #[error("the file has {bytes} bytes; at most 2 GiB are read")]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// The bytes are no trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The recorded run cannot be read.
    #[error("the recorded run cannot be read")]
    Run(#[from] LogError),
    /// The recorded run's log cannot be read.
    #[error(transparent)]
    Log(#[from] FileError),
}

/// Reads a trace from a file, or from the folder of a recorded run.
///
/// # Errors
/// See [`ReadError`].
pub fn read(path: &Path) -> Result<Read, ReadError> {
    let file_error = |source| ReadError::File { path: path.to_owned(), source };
    let about = std::fs::metadata(path).map_err(file_error)?;
    if about.is_dir() {
        return run(&path.join(event_log::FILE));
    }
    if about.len() > FILE_LIMIT {
        return Err(ReadError::TooLarge { bytes: about.len() });
    }
    let bytes = std::fs::read(path).map_err(file_error)?;
    Ok(Read { trace: Trace::read(&bytes)?, digest: digest::sha256(&bytes) })
}

fn run(log: &Path) -> Result<Read, ReadError> {
    let digest = digest::file_digest(log)?;
    let mut reader = event_log::Reader::open(log)?;
    let mut rows = Vec::new();
    while let Some(record) = reader.next_record()? {
        if let Record::Operations(batch) = record {
            // Counts that the server did not tell are 0: one token is asked for then.
            let row = |row: &OpRow| (row.intended_ns, row.input_tokens.max(1), row.output_tokens.max(1));
            rows.extend(batch.iter().map(row));
        }
    }
    Ok(Read { trace: Trace::of_run(rows)?, digest })
}

/// How long the measured window of a replay is when nothing else is said: all of the trace at its speed, ns.
#[must_use]
pub fn duration_ns(trace: &Trace, arrival: Arrival) -> u64 {
    let speed = match arrival {
        Arrival::Trace { speed } => speed,
        _ => 1.0,
    };
    // The last request starts inside of the window.
    (trace.length_ns() as f64 / speed) as u64 + 1_000_000
}
