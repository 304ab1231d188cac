//! Provenance levels of evidence.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a piece of evidence can be trusted, weakest first. A decision is never stronger than its weakest
/// load-bearing evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Level {
    /// Estimated or simulated: made from a model, never a measurement.
    E,
    /// Claimed: a number typed in or taken from a page.
    P0,
    /// Reported: a machine-made report of another tool.
    P1,
    /// Recorded: made by this engine, with raw log, fingerprint and seeds. Whether the referee let it pass is the run's
    /// `valid`; an invalid run bears on no decision, whatever its level.
    P2,
    /// Replicated: P2 on at least three deploys, with variance components.
    P3,
    /// Attested: P3 with a signed statement.
    P4,
    /// Independently reproduced.
    P5,
}

impl Level {
    /// The name in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Level::E => "E",
            Level::P0 => "P0",
            Level::P1 => "P1",
            Level::P2 => "P2",
            Level::P3 => "P3",
            Level::P4 => "P4",
            Level::P5 => "P5",
        }
    }

    /// What the level means, in one word.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Level::E => "simulated",
            Level::P0 => "claimed",
            Level::P1 => "reported",
            Level::P2 => "recorded",
            Level::P3 => "replicated",
            Level::P4 => "attested",
            Level::P5 => "reproduced",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
