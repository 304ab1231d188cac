//! What the tables hold, and how a row of the log becomes a row of a table.

use std::collections::HashMap;

use touchstone_model::MetricId;

use crate::event_log::{FailureEntry, Manifest, OpFlags, OpRow, TokenRow};

/// The type of a column; every value may be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// A 64-bit integer.
    Integer,
    /// A 64-bit float.
    Float,
    /// True or false.
    Boolean,
    /// Text.
    Text,
}

impl ColumnType {
    /// The name in documents.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ColumnType::Integer => "integer",
            ColumnType::Float => "float",
            ColumnType::Boolean => "boolean",
            ColumnType::Text => "text",
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// The name; where there is a unit, it ends with it.
    pub name: &'static str,
    /// The type.
    pub kind: ColumnType,
    /// What it says, and when it is null.
    pub meaning: &'static str,
}

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Integer(Option<i64>),
    Float(Option<f64>),
    Boolean(Option<bool>),
    Text(Option<&'a str>),
}

macro_rules! columns {
    ($(#[$doc:meta])* $table:ident: $n:literal; $($name:literal, $kind:ident, $meaning:literal;)+) => {
        $(#[$doc])*
        pub const $table: [Column; $n] =
            [$(Column { name: $name, kind: ColumnType::$kind, meaning: $meaning }),+];
    };
}

columns! {
    /// The columns of the table of operations.
    OPERATIONS: 29;
    "index", Integer, "number in the global schedule, from 0";
    "measured", Boolean, "whether it was intended in the measured window";
    "outcome", Text, "`ok`, `failed`, or `censored` (unfinished at the end of drain)";
    "intended_ns", Integer, "intended start, CLOCK_MONOTONIC";
    "dispatch_ns", Integer, "when the timer handed it over; null when it never did";
    "slot_ns", Integer, "when it got a connection or pipeline slot; null when it never did";
    "sent_ns", Integer, "when its last byte went to the kernel; null when it never did";
    "head_ns", Integer, "when the head of the answer arrived; null when none did";
    "first_content_ns", Integer, "when the first content arrived; null when none did";
    "last_content_ns", Integer, "when the last content arrived, for a message its arrival at the consumer; null when none did";
    "end_ns", Integer, "when it ended, well or not";
    "ttft_ms", Float, "`ttft`: intended start to first content; null without content or without a stream";
    "ttft_from_send_ms", Float, "`ttft_from_send`: send to first content; null likewise";
    "e2e_ms", Float, "`e2e`: intended start to last content (to the end where nothing streams); null when it failed";
    "service_time_ms", Float, "`service_time`: send to the same; null when it failed";
    "stream_close_ms", Float, "`stream_close`: last content to the end of the stream; null when it failed or without a stream";
    "tpot_ms", Float, "`tpot`: (last - first content) / (output tokens - 1); null when it failed, below two chunks, or where a chunk may hold several tokens";
    "ntpot_ms", Float, "`ntpot`: e2e / output tokens; null when it failed or the number of tokens is unknown";
    "end_to_end_latency_ms", Float, "`end_to_end_latency`: intended publish to the consumer; null for anything but messages, and when it failed";
    "scheduling_error_ms", Float, "`scheduling_error`: intended start to dispatch, the generator's own fault";
    "slot_wait_ms", Float, "`slot_wait`: dispatch to slot; null when it got none";
    "write_ms", Float, "`write`: slot to send; null when it was not sent";
    "input_tokens", Integer, "input tokens as the server counted them; null where it did not";
    "output_tokens", Integer, "output tokens as the server counted them; null where it did not";
    "chunks", Integer, "content chunks";
    "hit", Boolean, "whether a lookup found a value; null for anything else";
    "retried", Boolean, "whether it was sent a second time on a fresh connection";
    "failure_origin", Text, "who caused the failure: target, network, generator or scenario; null when it did not fail";
    "failure_kind", Text, "the kind of failure, such as `http-500`; null when it did not fail";
}

columns! {
    /// The columns of the table of events of answers.
    TOKENS: 4;
    "index", Integer, "number of the operation in the global schedule";
    "at_ns", Integer, "when it arrived, CLOCK_MONOTONIC; events of one read have the read's instant";
    "tokens", Integer, "tokens in it; null where the server does not say";
    "kind", Text, "`content`, `reasoning`, `empty` (a role, an empty delta, a finish reason), `report` (usage)";
}

/// What a row needs to be understood.
#[derive(Debug, Default)]
pub(super) struct Context {
    pub(super) manifest: Option<Manifest>,
    leading: Option<MetricId>,
    failures: HashMap<u16, FailureEntry>,
}

impl Context {
    pub(super) fn start(&mut self, manifest: Manifest) {
        self.leading = Some(manifest.leading_metric);
        self.manifest = Some(manifest);
    }

    pub(super) fn failure(&mut self, entry: FailureEntry) {
        self.failures.insert(entry.index, entry);
    }

    /// A row of [`OPERATIONS`].
    pub(super) fn operation(&self, row: &OpRow) -> [Value<'_>; OPERATIONS.len()] {
        let failed = row.flags.contains(OpFlags::FAILED);
        let ok = !failed;
        let streams = self.leading == Some(MetricId::Ttft);
        let message = self.leading == Some(MetricId::EndToEndLatency);
        let instant = |at: u64| Value::Integer(i64::try_from(at).ok().filter(|at| *at != 0));
        let span = |condition: bool, from: u64, to: u64| {
            Value::Float((condition && from != 0 && to != 0).then(|| to.saturating_sub(from) as f64 / 1e6))
        };
        let last = if row.last_content_ns == 0 { row.end_ns } else { row.last_content_ns };
        let tokens = row.flags.contains(OpFlags::OUTPUT_TOKENS).then_some(row.output_tokens);
        let per = |total: u64, tokens: u32| total as f64 / 1e6 / f64::from(tokens);
        // Every content chunk holds at least one token, so equal numbers mean one token in each.
        let single = tokens.filter(|tokens| ok && streams && *tokens >= 2 && *tokens == row.chunks);
        let tpot =
            single.map(|tokens| per(row.last_content_ns.saturating_sub(row.first_content_ns), tokens - 1));
        let ntpot = tokens.filter(|tokens| ok && *tokens > 0);
        let ntpot = ntpot.map(|tokens| per(last.saturating_sub(row.intended_ns), tokens));
        let why = self.failures.get(&row.failure).filter(|_| failed);
        let intended = row.intended_ns;
        [
            Value::Integer(i64::try_from(row.index).ok()),
            Value::Boolean(Some(row.flags.contains(OpFlags::MEASURED))),
            Value::Text(Some(match (failed, row.flags.contains(OpFlags::CENSORED)) {
                (_, true) => "censored",
                (true, _) => "failed",
                _ => "ok",
            })),
            instant(intended),
            instant(row.dispatch_ns),
            instant(row.slot_ns),
            instant(row.sent_ns),
            instant(row.head_ns),
            instant(row.first_content_ns),
            instant(row.last_content_ns),
            instant(row.end_ns),
            span(streams, intended, row.first_content_ns),
            span(streams, row.sent_ns, row.first_content_ns),
            span(ok && !message, intended, last),
            span(ok && !message, row.sent_ns, last),
            span(ok && streams, row.last_content_ns, row.end_ns),
            Value::Float(tpot),
            Value::Float(ntpot),
            span(ok && message, intended, row.last_content_ns),
            span(true, intended, row.dispatch_ns),
            span(true, row.dispatch_ns, row.slot_ns),
            span(true, row.slot_ns, row.sent_ns),
            Value::Integer(row.flags.contains(OpFlags::INPUT_TOKENS).then_some(row.input_tokens.into())),
            Value::Integer(tokens.map(i64::from)),
            Value::Integer(Some(row.chunks.into())),
            Value::Boolean(row.flags.contains(OpFlags::LOOKUP).then(|| row.flags.contains(OpFlags::HIT))),
            Value::Boolean(Some(row.flags.contains(OpFlags::RETRIED))),
            Value::Text(why.map(|entry| entry.origin.as_str())),
            Value::Text(why.map(|entry| entry.kind.as_str())),
        ]
    }

    /// A row of [`TOKENS`].
    pub(super) fn token(row: &TokenRow) -> [Value<'static>; TOKENS.len()] {
        [
            Value::Integer(i64::try_from(row.index).ok()),
            Value::Integer(i64::try_from(row.at_ns).ok()),
            Value::Integer(row.tokens.map(i64::from)),
            Value::Text(Some(row.kind.as_str())),
        ]
    }
}
