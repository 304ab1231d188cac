//! The use cases: bench, match, run a scenario, decide, explain. Called by the binary (and later by the server) alike.
//!
//! Nothing here prints; who watches gets figures and notes through [`bench::Observer`]. Nothing here computes statistics.
//!
//! Main entry points: [`bench::bench`], [`scenario::match_all`], [`scenario::bench_all`],
//! [`decision::decide_and_record`], [`explain::open`].

pub mod bench;
pub mod campaign;
pub mod compare;
pub mod decision;
pub mod deploy;
mod driver;
pub mod explain;
mod fit;
pub mod inside;
pub mod launch;
pub mod mix;
pub mod probe;
pub mod prompts;
pub mod scenario;
pub mod search;
#[cfg(feature = "tokenizer")]
mod tokenizer;
pub mod trace;
pub mod utc;
pub mod warm;

/// The version of touchstone.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
