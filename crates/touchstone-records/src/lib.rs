//! What is kept of runs and decisions: the append-only event log, the run store and the decision store.
//!
//! Files are the source of truth. A run's event log can be read after `kill -9` at any moment: what was handed to the
//! recorder more than [`event_log::FLUSH_NS`] ago has been written. A failure to record never fails a run; it comes
//! back as text and as a finding. Every format carries a version, and a newer one is refused with the reason.
//!
//! This crate computes no statistics beyond the plain quantiles of an incomplete run, renders nothing and judges
//! nothing. Tables for other tools are derived from the log ([`export`]). It signs nothing: digests detect
//! a changed file, not a forger who changes the digests too.
//!
//! Main types: [`Recorder`], [`event_log::Reader`], [`RunStore`], [`DecisionStore`].

pub mod decision_store;
pub mod digest;
pub mod documents;
pub mod event_log;
pub mod export;
mod files;
pub mod id;
pub mod recorder;
pub mod recover;
pub mod store;
pub mod verify;

pub use decision_store::{DecisionStore, EvidenceProblem, verify_evidence, verify_record};
pub use event_log::{FailureEntry, Manifest, OpFlags, OpRow, Record, TokenKind, TokenRow};
pub use files::FileError;
pub use recorder::{RecordOutcome, RecordSender, Recorder, RecorderHandle};
pub use recover::Recovery;
pub use store::{RunEntry, RunState, RunStore, StoreError};
pub use verify::{Check, CheckOutcome, VerifyReport};
