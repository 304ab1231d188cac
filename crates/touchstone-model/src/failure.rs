//! Who caused a failure, and at which point of an operation.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who caused a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The system under test answered wrongly or not at all.
    Target,
    /// The path to it failed before it could answer.
    Network,
    /// The load generator itself failed or fell behind.
    Generator,
    /// The request was wrong: model name, credentials, sizes.
    Scenario,
}

/// The point of an operation at which it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waiting for a connection or a slot on one.
    Slot,
    /// Opening the connection, with TLS and the protocol's greeting.
    Connect,
    /// Writing the request.
    Send,
    /// Waiting for the head of the answer.
    Headers,
    /// Reading the body or the stream.
    Stream,
    /// Making sense of the bytes.
    Decode,
}

impl Origin {
    /// Whether it lies at or on the way to the target, so that the failure is evidence about it.
    #[must_use]
    pub fn is_beyond_the_generator(self) -> bool {
        matches!(self, Origin::Target | Origin::Network)
    }

    /// The name in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Target => "target",
            Origin::Network => "network",
            Origin::Generator => "generator",
            Origin::Scenario => "scenario",
        }
    }
}

impl Phase {
    /// The name in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Slot => "slot",
            Phase::Connect => "connect",
            Phase::Send => "send",
            Phase::Headers => "headers",
            Phase::Stream => "stream",
            Phase::Decode => "decode",
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
