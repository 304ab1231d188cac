//! The contract between the load engine and protocols: sessions are state machines over bytes.
//!
//! A [`Session`] is one connection's protocol state. It turns operations into bytes and received bytes into
//! [`SessionEvent`]s; it never touches a socket or a clock. The runner owns sockets and stamps: it calls
//! [`Session::receive`] once per read, and every event of that call carries the stamp of that read. That makes every
//! protocol testable with byte slices, usable on virtual time, and fuzzable.

use std::collections::BTreeMap;
use std::fmt;

use touchstone_model::{Family, MetricId, Origin, Phase};

/// An operation's place in the table of operations in flight of one shard; reused after the operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpToken(pub u32);

/// What a session needs to know to start an operation. Payloads are functions of (seed, `index`), never of the shard
/// or the connection, so that the same seed sends the same bytes whatever the number of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// The operation's token.
    pub token: OpToken,
    /// The operation's number in the global schedule, from 0.
    pub index: u64,
    /// Intended start, ns of CLOCK_MONOTONIC (or of virtual time).
    pub intended_ns: u64,
}

/// Something that happened on a connection. All events of one [`Session::receive`] share the stamp of that read.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionEvent {
    /// The greeting is over: operations may start.
    Ready,
    /// The head of the answer arrived.
    Head {
        /// Which operation.
        op: OpToken,
    },
    /// A chunk with generated content (text, reasoning or a tool call); never for role-only, null, empty or progress
    /// events.
    Content {
        /// Which operation.
        op: OpToken,
        /// Tokens in the chunk where the server says so, else none.
        tokens: Option<u32>,
        /// Whether the chunk is reasoning only.
        reasoning: bool,
    },
    /// An event of the answer without content: a role, an empty or finishing delta, a usage report. Told only where every
    /// event of the answer is logged; no metric uses it.
    Silent {
        /// Which operation.
        op: OpToken,
        /// Whether it is a part of the answer (has a choice) rather than a report about it.
        part: bool,
    },
    /// The operation ended well.
    Done {
        /// Which operation.
        op: OpToken,
        /// What is known about the answer.
        answer: Answer,
    },
    /// The operation failed; the connection may still be usable (see [`Session::capacity`]).
    Failed {
        /// Which operation.
        op: OpToken,
        /// Why.
        failure: Failure,
    },
    /// A published message was handed to the consumer.
    Message {
        /// The producer's number.
        producer: u32,
        /// The message's sequence number of that producer, from 0.
        sequence: u64,
        /// The publishing operation.
        op: OpToken,
        /// The publishing operation's number in the schedule; guards against a reused token.
        index: u64,
    },
    /// The connection cannot be used any longer; operations on it that have not ended have failed for this reason.
    Broken {
        /// Why.
        failure: Failure,
    },
}

/// What is known about a good answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answer {
    /// Output tokens as the server counted them.
    pub output_tokens: Option<u32>,
    /// Input tokens as the server counted them.
    pub input_tokens: Option<u32>,
    /// Of these, found in a prefix cache, where the server says so.
    pub cached_tokens: Option<u32>,
    /// Output tokens that were asked for, where the number is asked for.
    pub asked_output: Option<u32>,
    /// Input tokens that the prompt was made for.
    pub asked_input: Option<u32>,
    /// For lookups: whether a value was found.
    pub hit: Option<bool>,
}

/// Why an operation or a connection failed. `message` must not hold secrets or prompt text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Who caused it.
    pub origin: Origin,
    /// At which point.
    pub phase: Phase,
    /// A short, stable name of the kind: `http-500`, `error-in-stream`, `eof-in-stream`, ...
    pub kind: String,
    /// What the server or the system said, at most a few hundred bytes.
    pub message: String,
    /// What to do about it.
    pub advice: String,
}

impl Failure {
    /// Builds a failure; `message` is cut to 300 bytes at a character boundary.
    pub fn new(
        origin: Origin,
        phase: Phase,
        kind: impl Into<String>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let mut message: String = message.into();
        if message.len() > 300 {
            let cut = (0..=300).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
            message.truncate(cut);
            message.push('…');
        }
        Self { origin, phase, kind: kind.into(), message, advice: advice.into() }
    }
}

/// One connection's protocol state.
pub trait Session: fmt::Debug + Send {
    /// Called once when the transport is connected: writes what the client says first, if anything.
    /// A protocol without a greeting pushes [`SessionEvent::Ready`] at once.
    fn open(&mut self, out: &mut Vec<u8>, events: &mut Vec<SessionEvent>);

    /// How many further operations may start now: 0 before the greeting is over, while full, or when closing.
    fn capacity(&self) -> usize;

    /// Starts an operation by appending its bytes to `out`. Only called when [`Session::capacity`] > 0.
    fn start(&mut self, op: Op, out: &mut Vec<u8>);

    /// Takes the bytes of one read; may append an immediate reply (such as PONG) to `out`.
    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>, events: &mut Vec<SessionEvent>);

    /// The peer closed its side: ends or fails the operations in flight (an HTTP/1.0 body may end so).
    fn end_of_stream(&mut self, events: &mut Vec<SessionEvent>);

    /// Gives up an operation (timed out). Returns whether the connection can still be used for others.
    fn abandon(&mut self, op: OpToken) -> bool;

    /// Whether any byte of the answer to `op` arrived; an operation that died unanswered on a reused connection is
    /// sent again once on a fresh one.
    fn answered(&self, op: OpToken) -> bool;

    /// Whether the last operation has ended, but bytes of its answer are still to come before another may start: the
    /// end of a chunked body after the last event, for example. Such a connection is waited for a moment before a
    /// further one is opened.
    fn finishing(&self) -> bool {
        false
    }

    /// Whether this connection only receives (a subscriber): no operation is ever started on it.
    fn receive_only(&self) -> bool {
        false
    }
}

/// How many connections a driver wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// All are opened before the first operation and opened again when lost; operations wait for a slot on them.
    Fixed(u32),
    /// Opened when an operation finds none idle, up to the bound; idle ones are used again.
    OnDemand {
        /// Upper bound.
        at_most: u32,
    },
}

/// A protocol with its workload: makes the sessions.
pub trait Driver: fmt::Debug + Send + Sync {
    /// The family that speaks the protocol.
    fn family(&self) -> Family;

    /// The connections it wants in all.
    fn connections(&self) -> Connections;

    /// A session for an operating connection; `connection` is unique over all shards and reconnects.
    fn session(&self, shard: u32, connection: u32) -> Box<dyn Session>;

    /// A receive-only session for a shard (a subscriber), opened before the others; none where there is none.
    fn consumer(&self, shard: u32, connection: u32) -> Option<Box<dyn Session>> {
        let _ = (shard, connection);
        None
    }

    /// Bytes sequences to send and complete once before the load, on one connection: loading keys, for example.
    /// Each item is (request bytes, number of replies to wait for); the default has none.
    fn preload(&self) -> Option<Box<dyn Session>> {
        None
    }

    /// Number of operations of the preload.
    fn preload_operations(&self) -> u64 {
        0
    }

    /// The latency that people look at first: `ttft`, `e2e` or `end_to_end_latency`.
    fn leading_metric(&self) -> MetricId;

    /// The parameters of the workload for the run document, with units in their names.
    fn parameters(&self) -> BTreeMap<String, serde_json::Value>;

    /// Output tokens that operation `index` asks for; none where no number is asked for. An operation that failed owes them.
    fn asked_output_tokens(&self, index: u64) -> Option<u32> {
        let _ = index;
        None
    }

    /// Share of the input tokens of the first `operations` that a prefix cache can find because prompts begin alike on
    /// purpose; none where prompts say nothing.
    fn cacheable_share(&self, operations: u64) -> Option<f64> {
        let _ = operations;
        None
    }

    /// Whether an answer said that the target is a simulator (so far).
    fn simulated(&self) -> bool {
        false
    }

    /// The server side of the protocol with the smallest right answers, for the loopback ceiling and for tests.
    fn sink(&self) -> Option<Box<dyn Sink>> {
        None
    }
}

/// The server side of a protocol on one connection, answering at once with the smallest right answer.
pub trait Sink: fmt::Debug + Send {
    /// What the server says first.
    fn open(&mut self, out: &mut Vec<u8>);
    /// Takes received bytes and appends the answers.
    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>);
    /// Appends what other connections have for this one, such as messages for a subscriber.
    fn pending(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }
}
