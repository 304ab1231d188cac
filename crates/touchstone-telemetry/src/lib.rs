//! What can be read about the machine, its processes and the servers under test without being root.
//!
//! Everything that cannot be read is marked with the reason; nothing is guessed and nothing is zero for want of a value.
//! No secret and no host name is read. This crate judges nothing but the machine's fitness ([`doctor`]), keeps no
//! history, prints nothing, and starts no thread: callers sample when they want to.
//!
//! Main types: [`Fingerprint`], [`HostSample`], [`prometheus::Page`], [`doctor::Diagnosis`].

pub mod doctor;
pub mod fingerprint;
pub mod gpu;
pub mod host;
pub mod listener;
pub mod process;
pub mod prometheus;
pub mod reading;
pub mod scrape;
pub mod serving;
mod system_files;
pub mod tally;

pub use fingerprint::{Fingerprint, fingerprint};
pub use host::{HostSample, HostUsage};
pub use reading::Reading;
pub use tally::Tally;
