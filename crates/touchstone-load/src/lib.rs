//! The load engine as a state machine without I/O: operations from their intended start to their end, cohorts and
//! flows, findings, and the run document.
//!
//! It opens no socket, reads no clock and starts no thread: instants come in as ns, bytes stay with the sessions. The
//! runner drives it on the real clock; tests drive it on a virtual one.
//!
//! Main types: [`LoadPlan`] (what is asked for), [`Shard`] (the life of operations), [`Session`] and [`Driver`] (the
//! contract with protocols), [`Aggregate`] (what was seen), [`summary::summarise`] (the run document).

pub mod aggregate;
pub mod forecast;
pub mod ledger;
pub mod plan;
pub mod record;
pub mod referee;
pub mod search;
pub mod session;
pub mod shard;
pub mod slo;
mod stages;
pub mod steady;
pub mod summary;

pub use aggregate::Aggregate;
pub use plan::{LoadPlan, Timeouts};
pub use record::{OpRecord, TokenEvent, TokenKind};
pub use session::{Answer, Connections, Driver, Failure, Op, OpToken, Session, SessionEvent, Sink};
pub use shard::{Shard, ShardResult, Tally, Traits};
