//! Protocol drivers: how operations become bytes and how bytes become events, for each protocol that is loaded.
//!
//! Each driver implements [`touchstone_load::Driver`]; its sessions are state machines over byte slices and
//! implement [`touchstone_load::Session`]. This crate opens no socket and reads no clock: the runner does, and
//! stamps every read. What it guarantees for bytes from a hostile or broken peer: no panic, memory bounded by the
//! limits named in each module, and the same events wherever the bytes were cut into reads.
//!
//! How a session reports the end of its connection, in all drivers alike:
//! - an operation ends by `Done` or `Failed`; the connection stays usable;
//! - when the connection can serve no further operation, one `Broken` is pushed, last, and capacity stays 0. It
//!   fails the operations that have not ended. `Broken` of kind `connection-close` means only that the server asked
//!   for the connection to be closed after an answer that was complete: nobody failed;
//! - an operation that was not answered at all when the peer closed ends by `Broken` of kind
//!   `closed-before-answer`, so that the runner can send it again;
//! - an idle HTTP connection that the peer closes pushes nothing: that is ordinary.
//!
//! Each family of protocols is a feature: `inference`, `cache`, `queue`, all of them on by default.
//!
//! Main types: [`Generation`], [`Resp`], [`Nats`], each with its options; [`Secret`].

mod decimal;
mod said;
mod secret;

#[cfg(feature = "cache")]
pub mod cache;
#[cfg(feature = "inference")]
pub mod inference;
#[cfg(feature = "queue")]
pub mod queue;

#[cfg(feature = "cache")]
pub use cache::resp::{Resp, RespOptions};
#[cfg(feature = "inference")]
pub use inference::generation::{Dialect, Generation, GenerationOptions};
#[cfg(feature = "queue")]
pub use queue::nats::{Nats, NatsAuth, NatsOptions};
pub use secret::Secret;

/// A driver cannot be made from the options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// A number is outside its range.
    #[error("`{option}` is {given}; it must be from {least} to {greatest}")]
    OutOfRange {
        /// The option's name.
        option: &'static str,
        /// What was given.
        given: u64,
        /// The least allowed value.
        least: u64,
        /// The greatest allowed value.
        greatest: u64,
    },
    /// A ratio is not from 0 to 1.
    #[error("`{option}` is {given}; it must be from 0 to 1")]
    Ratio {
        /// The option's name.
        option: &'static str,
        /// What was given, as text.
        given: String,
    },
    /// A text holds bytes that the protocol cannot carry. The text itself is not repeated: it may be a secret.
    #[error("`{option}` holds {problem}")]
    Text {
        /// The option's name.
        option: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Checks a number against its range.
fn in_range(option: &'static str, given: u64, least: u64, greatest: u64) -> Result<(), DriverError> {
    if (least..=greatest).contains(&given) {
        Ok(())
    } else {
        Err(DriverError::OutOfRange { option, given, least, greatest })
    }
}
