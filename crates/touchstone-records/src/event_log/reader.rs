//! Reading an event log, also a torn one.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::{FRAME, HEADER, Kind, MAGIC, MAJOR, MAX_PAYLOAD, Record, checksum, row, token};

/// A log that cannot be read, or a frame of it.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The system refused.
    #[error("cannot read {}", path.display())]
    Io {
        /// Which log.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It ends within its header: the run was killed before its first write.
    #[error("{} holds {bytes} bytes, less than a header", path.display())]
    Empty {
        /// Which log.
        path: PathBuf,
        /// Its length.
        bytes: usize,
    },
    /// It is no event log.
    #[error("{} is no event log: it does not begin with `TSLOG`", path.display())]
    NoLog {
        /// Which file.
        path: PathBuf,
    },
    /// It was written by a newer version.
    #[error("{} is an event log of version {major}.{minor}; this version reads up to {MAJOR}.x", path.display())]
    Newer {
        /// Which log.
        path: PathBuf,
        /// Its major version.
        major: u8,
        /// Its minor version.
        minor: u8,
    },
    /// A whole frame with a right checksum has a payload that makes no sense; the frames after it can be read.
    #[error("{}: the {kind} frame at byte {offset} makes no sense: {why}", path.display())]
    Payload {
        /// Which log.
        path: PathBuf,
        /// Where the frame starts.
        offset: u64,
        /// Its kind.
        kind: &'static str,
        /// What is wrong.
        why: String,
    },
}

/// How a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// With a whole frame.
    Clean,
    /// With bytes that are no whole frame or have a wrong checksum: a write was cut, or the file was changed.
    Torn {
        /// How many bytes were not used.
        bytes: u64,
        /// Where they start.
        offset: u64,
    },
}

/// Iterates over the frames of a log. Holds one frame in memory, at most [`MAX_PAYLOAD`] bytes.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    path: PathBuf,
    offset: u64,
    payload: Vec<u8>,
    skipped: u64,
    tail: Option<Tail>,
}

impl Reader<BufReader<File>> {
    /// Opens a log and reads its header.
    ///
    /// # Errors
    /// It cannot be opened, is no log, or is of a newer major version.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let file = File::open(path).map_err(|source| LogError::Io { path: path.to_owned(), source })?;
        Self::new(BufReader::with_capacity(1 << 16, file), path)
    }
}

impl<R: Read> Reader<R> {
    /// Reads the header from `input`; `path` is for messages.
    ///
    /// # Errors
    /// It is no log, or of a newer major version.
    pub fn new(input: R, path: &Path) -> Result<Self, LogError> {
        let mut reader = Self {
            input,
            path: path.to_owned(),
            offset: HEADER as u64,
            payload: Vec::new(),
            skipped: 0,
            tail: None,
        };
        let path = || path.to_owned();
        let mut header = [0; HEADER];
        let bytes = reader.fill(&mut header)?;
        if header[..bytes.min(MAGIC.len())] != MAGIC[..bytes.min(MAGIC.len())] {
            return Err(LogError::NoLog { path: path() });
        }
        if bytes < HEADER {
            return Err(LogError::Empty { path: path(), bytes });
        }
        let [major, minor] = u16::from_le_bytes([header[5], header[6]]).to_be_bytes();
        if major == 0 || major > MAJOR {
            return Err(LogError::Newer { path: path(), major, minor });
        }
        Ok(reader)
    }

    /// The next frame; none at the end, after which [`Reader::tail`] says how the log ends.
    ///
    /// # Errors
    /// [`LogError::Payload`] for a frame that makes no sense: reading may go on after it. [`LogError::Io`] ends the
    /// reading.
    pub fn next_record(&mut self) -> Result<Option<Record>, LogError> {
        while self.tail.is_none() {
            let start = self.offset;
            let Some(kind) = self.next_frame()? else { break };
            match Kind::from_byte(kind) {
                Some(kind) => return self.record(kind, start).map(Some),
                None => self.skipped += 1,
            }
        }
        Ok(None)
    }

    /// How the log ends; none while it was not read to its end.
    #[must_use]
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// Frames of kinds that this version does not know.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Reads a frame into `payload` and gives its kind; none at the end, with `tail` set.
    fn next_frame(&mut self) -> Result<Option<u8>, LogError> {
        let mut head = [0; FRAME];
        let got = self.fill(&mut head)?;
        if got == 0 {
            self.tail = Some(Tail::Clean);
            return Ok(None);
        }
        if got < FRAME {
            return self.torn(got as u64);
        }
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let crc = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let kind = head[8];
        if length > MAX_PAYLOAD {
            return self.torn(FRAME as u64);
        }
        self.payload.clear();
        let got = Read::by_ref(&mut self.input)
            .take(length as u64)
            .read_to_end(&mut self.payload)
            .map_err(|source| LogError::Io { path: self.path.clone(), source })?;
        if got < length || checksum(kind, &self.payload) != crc {
            return self.torn((FRAME + got) as u64);
        }
        self.offset += (FRAME + length) as u64;
        Ok(Some(kind))
    }

    /// Counts what is left and ends the reading.
    fn torn(&mut self, mut bytes: u64) -> Result<Option<u8>, LogError> {
        bytes += io::copy(&mut self.input, &mut io::sink())
            .map_err(|source| LogError::Io { path: self.path.clone(), source })?;
        self.tail = Some(Tail::Torn { bytes, offset: self.offset });
        Ok(None)
    }

    /// Reads until `buffer` is full or the input ends.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, LogError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(LogError::Io { path: self.path.clone(), source }),
            }
        }
        Ok(filled)
    }

    fn record(&self, kind: Kind, offset: u64) -> Result<Record, LogError> {
        match kind {
            Kind::Start => self.json(kind, offset).map(|manifest| Record::Start(Box::new(manifest))),
            Kind::Operations => row::decode(&self.payload)
                .map(Record::Operations)
                .ok_or_else(|| self.senseless(kind, offset, "malformed rows".to_owned())),
            Kind::Tokens => token::decode(&self.payload)
                .map(Record::Tokens)
                .ok_or_else(|| self.senseless(kind, offset, "malformed events".to_owned())),
            Kind::Failure => self.json(kind, offset).map(Record::Failure),
            Kind::Window => self.json(kind, offset).map(Record::Window),
            Kind::Finding => self.json(kind, offset).map(Record::Finding),
            Kind::End => self.json(kind, offset).map(Record::End),
        }
    }

    fn json<T: DeserializeOwned>(&self, kind: Kind, offset: u64) -> Result<T, LogError> {
        serde_json::from_slice(&self.payload).map_err(|error| self.senseless(kind, offset, error.to_string()))
    }

    fn senseless(&self, kind: Kind, offset: u64, why: String) -> LogError {
        LogError::Payload { path: self.path.clone(), offset, kind: kind.name(), why }
    }
}
