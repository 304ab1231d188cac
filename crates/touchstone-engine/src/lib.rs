//! The embedded engine: the serving-engine model of `touchstone-sim` on the real clock, behind the HTTP interface that
//! vLLM has, with faults on request. It exists so that everything above it can be tried, tested and demonstrated
//! without an accelerator, and so that a load generator's figures can be checked against the server's own
//! (`GET /truth`).
//!
//! [`serve`] runs one event loop on the calling thread until it is told to stop. Nothing is printed.
//!
//! Everything it sends is marked: the header `x-touchstone-simulated: 1`, `system_fingerprint`
//! `touchstone-simulated-<profile>`, the metric `touchstone_simulated 1`. Text is made of numbered words; a token is a
//! whitespace-separated word, so a prompt of N words is reported as N tokens.
//!
//! Paths: `POST /v1/chat/completions`, `POST /v1/completions`, `GET /v1/models`, `/health`, `/ping`, `/version`,
//! `/metrics`, `/clock`, and `/truth?from_ns=&to_ns=` (see its `definition` field; a query over millions of gaps holds
//! up the loop, so ask after a run, not during it).
//!
//! What it deliberately does not do: TLS, authentication, several choices or prompts in a request, log probabilities
//! (asked for, they are ignored, as is every unknown field), and stopping early: an answer runs to `max_tokens`; left
//! open, a chat answer ends by itself after 128 tokens. A client that ends its sending side counts as gone.
//!
//! Bounds: request head 64 KiB (431), body 10 MiB (413), 4096 connections, 4 MiB of output that a client does not read
//! (then cut and counted), 1 MiB of requests sent ahead while one is being answered (then closed).

mod connection;
mod faults;
mod http;
mod job;
mod metrics;
mod openai;
mod reply;
mod server;
mod text;
mod truth;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;

pub use faults::{FaultPlan, Overload, Stall};
pub use touchstone_sim::{Batching, Counters, Profile, ProfileError, StepTime};

/// How to run an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineConfig {
    /// The scheduler's behaviour; [`Profile::builtin`] has ready-made ones.
    pub profile: Profile,
    /// Address to listen on.
    pub host: IpAddr,
    /// Port to listen on; 0 takes a free one, reported to `on_ready`.
    pub port: u16,
    /// Decides jitter, faults and the text of answers.
    pub seed: u64,
    /// The only model name accepted and reported.
    pub model: String,
    /// Faults to commit.
    pub faults: FaultPlan,
}

impl EngineConfig {
    /// Loopback, a free port, seed 1, model `simulated`, no faults.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            seed: 1,
            model: "simulated".to_owned(),
            faults: FaultPlan::default(),
        }
    }
}

/// Why an engine could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The profile cannot be simulated.
    #[error("invalid profile")]
    Profile(#[from] ProfileError),
    /// The fault plan contradicts itself.
    #[error("invalid fault plan: {0}")]
    Faults(&'static str),
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}")]
    Listen {
        /// The address asked for.
        addr: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Waiting for events failed.
    #[error("the event loop failed")]
    Poll(#[source] io::Error),
}

/// What an engine did between start and stop. Counts of generation requests add up to `requests`, save those still
/// open at the stop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Connections accepted.
    pub connections: u64,
    /// Connections closed at once because there were too many, or accepts that failed.
    pub connections_refused: u64,
    /// Generation requests completely received.
    pub requests: u64,
    /// Of those, answered to the end.
    pub completed: u64,
    /// Refused as invalid (4xx).
    pub invalid: u64,
    /// Turned away under load (429, 503).
    pub rejected: u64,
    /// Ended by an error on purpose.
    pub failed: u64,
    /// Broken off by the engine: on purpose, or because the client read too slowly.
    pub cut: u64,
    /// Given up by the client.
    pub cancelled: u64,
    /// Connections cut because over 4 MiB of output was left unread.
    pub slow_readers_cut: u64,
    /// Faults committed, of all kinds.
    pub faults: u64,
    /// The scheduler's counters at the stop.
    pub scheduler: Counters,
}

/// Runs an engine on this thread until `stop` is true, which is noticed within 50 ms. `on_ready` is called once, with
/// the address listened on. Open answers are broken off at the stop.
///
/// # Errors
/// [`EngineError`]: an invalid configuration, an address that cannot be listened on, or a failing poll.
pub fn serve(
    config: EngineConfig,
    on_ready: impl FnOnce(SocketAddr),
    stop: &AtomicBool,
) -> Result<EngineStats, EngineError> {
    if let Some(problem) = config.faults.problem() {
        return Err(EngineError::Faults(problem));
    }
    let server = server::Server::bind(config)?;
    on_ready(server.local_addr());
    server.run(stop)
}
