//! Appending to an event log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use touchstone_model::Finding;
use touchstone_model::run::Window;

use super::{
    End, FRAME, FailureEntry, Kind, MAGIC, MAJOR, MAX_BATCH, MAX_PAYLOAD, MINOR, Manifest, OpFlags, OpRow,
    TokenRow, checksum, row, token,
};

/// A frame waits at most this long for its write, ns, when [`Writer::tick`] is called often enough.
pub const FLUSH_NS: u64 = 200_000_000;
/// So many waiting bytes are written at once.
const FLUSH_BYTES: usize = 256 << 10;

/// A log that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The system refused.
    #[error("cannot write {}", path.display())]
    Io {
        /// Which log.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// An earlier write failed, so the end of the file may be torn and nothing more is appended.
    #[error("{} is closed after a failed write", path.display())]
    Closed {
        /// Which log.
        path: PathBuf,
    },
    /// A payload is no JSON or greater than [`MAX_PAYLOAD`].
    #[error("a {kind} frame cannot be encoded: {why}")]
    Payload {
        /// The kind of the frame.
        kind: &'static str,
        /// Why.
        why: String,
    },
}

/// Appends frames to a log. Frames are buffered; [`Writer::tick`] writes them when the oldest has waited for
/// [`FLUSH_NS`]. What a write has taken survives the process; [`Writer::finish`] makes it survive the machine. The log
/// is locked while the writer lives, which tells a running run from a killed one.
#[derive(Debug)]
pub struct Writer {
    file: File,
    path: PathBuf,
    buffer: Vec<u8>,
    /// Since when the oldest frame of the buffer waits.
    waiting_since: Option<u64>,
    failed: bool,
    end: End,
    written_rows: u64,
}

impl Writer {
    /// Creates a log and writes its header and first frame at once.
    ///
    /// # Errors
    /// The file exists already or cannot be written.
    pub fn create(path: &Path, manifest: &Manifest) -> Result<Self, WriteError> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|source| WriteError::Io { path: path.to_owned(), source })?;
        // A file system without locks only loses the word `running` in lists.
        drop(file.try_lock());
        let mut writer = Self {
            file,
            path: path.to_owned(),
            buffer: Vec::with_capacity(FLUSH_BYTES + MAX_BATCH * 32),
            waiting_since: None,
            failed: false,
            end: End::default(),
            written_rows: 0,
        };
        writer.buffer.extend_from_slice(MAGIC);
        writer.buffer.extend_from_slice(&u16::from_be_bytes([MAJOR, MINOR]).to_le_bytes());
        writer.json(Kind::Start, manifest, 0)?;
        writer.flush()?;
        Ok(writer)
    }

    /// Appends rows, in as many frames as needed. `now_ns` is any monotonic clock, the same for all calls.
    ///
    /// # Errors
    /// A write failed; the rows are lost.
    pub fn operations(&mut self, rows: &[OpRow], now_ns: u64) -> Result<(), WriteError> {
        for batch in rows.chunks(MAX_BATCH) {
            self.open()?;
            let start = self.begin();
            row::encode(batch, &mut self.buffer);
            self.complete(start, Kind::Operations, now_ns)?;
            self.end.operations += batch.len() as u64;
            for row in batch.iter().filter(|row| row.flags.contains(OpFlags::MEASURED)) {
                self.end.measured += 1;
                self.end.measured_failed += u64::from(row.flags.contains(OpFlags::FAILED));
            }
            self.flush_when_full()?;
        }
        Ok(())
    }

    /// Appends events of answers, in as many frames as needed.
    ///
    /// # Errors
    /// A write failed; the events are lost.
    pub fn tokens(&mut self, rows: &[TokenRow], now_ns: u64) -> Result<(), WriteError> {
        for batch in rows.chunks(MAX_BATCH) {
            self.open()?;
            let start = self.begin();
            token::encode(batch, &mut self.buffer);
            self.complete(start, Kind::Tokens, now_ns)?;
            *self.end.token_events.get_or_insert(0) += batch.len() as u64;
            self.flush_when_full()?;
        }
        Ok(())
    }

    /// Appends an entry of the failure table.
    ///
    /// # Errors
    /// A write failed, or the entry is too large.
    pub fn failure(&mut self, entry: &FailureEntry, now_ns: u64) -> Result<(), WriteError> {
        self.json(Kind::Failure, entry, now_ns)
    }

    /// Appends a window.
    ///
    /// # Errors
    /// A write failed.
    pub fn window(&mut self, window: &Window, now_ns: u64) -> Result<(), WriteError> {
        self.json(Kind::Window, window, now_ns)
    }

    /// Appends a finding.
    ///
    /// # Errors
    /// A write failed, or the finding is too large.
    pub fn finding(&mut self, finding: &Finding, now_ns: u64) -> Result<(), WriteError> {
        self.json(Kind::Finding, finding, now_ns)
    }

    /// Writes what has waited for [`FLUSH_NS`].
    ///
    /// # Errors
    /// The write failed.
    pub fn tick(&mut self, now_ns: u64) -> Result<(), WriteError> {
        match self.waiting_since {
            Some(since) if now_ns.saturating_sub(since) >= FLUSH_NS => self.flush(),
            _ => Ok(()),
        }
    }

    /// Writes all that waits.
    ///
    /// # Errors
    /// The write failed; the writer is closed then.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.open()?;
        if let Err(source) = self.file.write_all(&self.buffer) {
            self.failed = true;
            return Err(WriteError::Io { path: self.path.clone(), source });
        }
        self.buffer.clear();
        self.waiting_since = None;
        self.written_rows = self.end.operations;
        Ok(())
    }

    /// Rows that a completed write has taken: they survive `kill -9`.
    #[must_use]
    pub fn written_rows(&self) -> u64 {
        self.written_rows
    }

    /// Writes the last frame with the number of `dropped` rows and events of answers, and syncs the data to the device.
    ///
    /// # Errors
    /// A write or the sync failed.
    pub fn finish(mut self, dropped: u64, token_events_dropped: u64) -> Result<End, WriteError> {
        self.end.dropped = dropped;
        self.end.token_events_dropped =
            (self.end.token_events.is_some() || token_events_dropped > 0).then_some(token_events_dropped);
        let end = self.end.clone();
        self.json(Kind::End, &end, 0)?;
        self.flush()?;
        self.file.sync_data().map_err(|source| WriteError::Io { path: self.path.clone(), source })?;
        Ok(end)
    }

    fn open(&self) -> Result<(), WriteError> {
        if self.failed { Err(WriteError::Closed { path: self.path.clone() }) } else { Ok(()) }
    }

    fn json<T: Serialize>(&mut self, kind: Kind, value: &T, now_ns: u64) -> Result<(), WriteError> {
        self.open()?;
        let start = self.begin();
        if let Err(error) = serde_json::to_writer(&mut self.buffer, value) {
            self.buffer.truncate(start);
            return Err(WriteError::Payload { kind: kind.name(), why: error.to_string() });
        }
        self.complete(start, kind, now_ns)?;
        self.flush_when_full()
    }

    /// Leaves room for the frame's head and says where the frame starts.
    fn begin(&mut self) -> usize {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; FRAME]);
        start
    }

    /// Fills in the head of the frame that starts at `start`.
    fn complete(&mut self, start: usize, kind: Kind, now_ns: u64) -> Result<(), WriteError> {
        let length = self.buffer.len() - start - FRAME;
        if length > MAX_PAYLOAD {
            self.buffer.truncate(start);
            let why = format!("{length} bytes, at most {MAX_PAYLOAD} are allowed");
            return Err(WriteError::Payload { kind: kind.name(), why });
        }
        let crc = checksum(kind as u8, &self.buffer[start + FRAME..]);
        self.buffer[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
        self.buffer[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
        self.buffer[start + 8] = kind as u8;
        self.waiting_since.get_or_insert(now_ns);
        Ok(())
    }

    fn flush_when_full(&mut self) -> Result<(), WriteError> {
        if self.buffer.len() >= FLUSH_BYTES { self.flush() } else { Ok(()) }
    }
}

#[cfg(test)]
impl Writer {
    /// Sends what follows to another file, for tests of failing devices.
    pub(crate) fn redirect(&mut self, file: File) {
        self.file = file;
    }
}
