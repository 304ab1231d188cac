//! The event log of a run: append-only frames, readable after `kill -9`.
//!
//! The file begins with the magic `TSLOG` and a version (u16 LE, major x 256 + minor). Frames follow: payload length
//! (u32 LE), CRC-32 (u32 LE, over length, kind and payload), kind (u8), payload. All payloads but operations and tokens are JSON. A
//! crash can only cut the last frames; the reader reports how many bytes are torn and gives everything before them.
//! Kinds that a reader does not know are skipped, so a new kind is a new minor version; a newer major version is
//! refused.
//!
//! The log holds no payloads, prompts, headers or credentials.

mod reader;
mod row;
mod token;
mod writer;

use serde::{Deserialize, Serialize};
use touchstone_model::run::{Phases, TargetDescription, Window, WorkloadDescription};
use touchstone_model::{Finding, Level, MetricId, Origin, Phase};

pub use reader::{LogError, Reader, Tail};
pub use row::{MAX_BATCH, OpFlags, OpRow};
pub use token::{TokenKind, TokenRow};
pub use writer::{FLUSH_NS, WriteError, Writer};

/// The first bytes of every log.
pub const MAGIC: &[u8; 5] = b"TSLOG";
/// Versions with a greater major part are refused.
pub const MAJOR: u8 = 1;
/// Versions with a greater minor part may hold frames that this reader skips.
pub const MINOR: u8 = 1;
/// The name of the log in a run's folder.
pub const FILE: &str = "events.tslog";
/// Greatest payload of a frame, bytes; bounds the memory of the reader.
pub const MAX_PAYLOAD: usize = 4 << 20;

/// Length of magic and version.
const HEADER: usize = 7;
/// Length of a frame before its payload.
const FRAME: usize = 9;

/// The kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Start = 1,
    Operations = 2,
    Failure = 3,
    Window = 4,
    Finding = 5,
    End = 6,
    /// Since version 1.1.
    Tokens = 7,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        use Kind::{End, Failure, Finding, Operations, Start, Tokens, Window};
        [Start, Operations, Failure, Window, Finding, End, Tokens]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Start => "start",
            Kind::Operations => "operations",
            Kind::Failure => "failure",
            Kind::Window => "window",
            Kind::Finding => "finding",
            Kind::End => "end",
            Kind::Tokens => "tokens",
        }
    }
}

/// The checksum of a frame.
fn checksum(kind: u8, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&(payload.len() as u32).to_le_bytes());
    hasher.update(&[kind]);
    hasher.update(payload);
    hasher.finalize()
}

/// The first frame: which run this is, so that what is left of a killed one can be named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The id of the run.
    pub run: String,
    /// Start, UTC, RFC 3339.
    pub started_at: String,
    /// The version of touchstone.
    pub touchstone_version: String,
    /// The level that the run has when it completes and is valid.
    pub level: Level,
    /// Whether the target is a simulator.
    pub simulated: bool,
    /// What is loaded, without credentials.
    pub target: TargetDescription,
    /// With what.
    pub workload: WorkloadDescription,
    /// The planned phases, ns of CLOCK_MONOTONIC.
    pub phases: Phases,
    /// The latency that people look at first.
    pub leading_metric: MetricId,
    /// Digest of `fingerprint.json`; null when there is none. Filled in by the recorder.
    pub fingerprint: Option<String>,
}

/// A kind of failure; rows refer to it by `index`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureEntry {
    /// From 1; 0 in a row means no failure.
    pub index: u16,
    /// Who caused it.
    pub origin: Origin,
    /// At which point.
    pub phase: Phase,
    /// A short, stable name of the kind: `refused`, `http-500`, ...
    pub kind: String,
    /// The first message seen, shortened, without secrets.
    pub message: String,
    /// What to do about it.
    pub advice: String,
}

/// The last frame: what a whole log holds. A log without it is incomplete.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Rows in the log.
    pub operations: u64,
    /// Of these, intended in the measured window.
    pub measured: u64,
    /// Of the measured, failed.
    pub measured_failed: u64,
    /// Rows that the recorder was too slow for; they are not in the log.
    pub dropped: u64,
    /// Events of answers in the log; none where they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_events: Option<u64>,
    /// Events of answers that the recorder was too slow for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_events_dropped: Option<u64>,
}

/// A frame as the reader gives it.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// The first frame.
    Start(Box<Manifest>),
    /// A batch of operations, at most [`MAX_BATCH`], in the order in which they ended.
    Operations(Vec<OpRow>),
    /// Events of answers, at most [`MAX_BATCH`], in the order in which a shard saw them; only where they were asked for.
    Tokens(Vec<TokenRow>),
    /// A kind of failure, before the first row that refers to it (unless it was dropped).
    Failure(FailureEntry),
    /// A window in the course of the run.
    Window(Window),
    /// A finding.
    Finding(Finding),
    /// The last frame.
    End(End),
}
