//! The decision document: the machine sidecar of a decision record.
//!
//! Every statement of a record carries the digests of the evidence it rests on, so that it can be unfolded and checked.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::level::Level;
use crate::metric::Family;
use crate::run::Outcome;

/// The format of decision documents that this version writes.
pub const FORMAT: &str = "touchstone.decision/1";

/// What kind of test a gate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateKind {
    /// A required capability, checked against the claims of the catalog.
    Semantic,
    /// A forbidden scenario: a rule of the catalog that vetoes a candidate.
    Rule,
    /// A threshold on a measured metric.
    Statistical,
}

/// The outcome of one requirement or rule for one candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gate {
    /// The requirement as written, or the id of the rule.
    pub requirement: String,
    /// What kind of test it is.
    pub kind: GateKind,
    /// The outcome.
    pub outcome: Outcome,
    /// Why, in one English sentence with the figures.
    pub reason: String,
    /// The same in Chinese.
    pub reason_zh: String,
    /// The confidence asked for; null for semantic gates and rules.
    pub confidence: Option<f64>,
    /// Point value in canonical units; null when there is none.
    pub value: Option<f64>,
    /// Lower bound at `confidence`.
    pub lower: Option<f64>,
    /// Upper bound at `confidence`.
    pub upper: Option<f64>,
    /// Effective samples that a decision needs at least; null where it does not apply.
    pub needs: Option<u64>,
    /// Digests of the evidence it rests on.
    pub evidence: Vec<String>,
}

/// What became of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// A semantic gate or a rule ruled it out.
    Vetoed,
    /// A statistical gate failed.
    Failed,
    /// Another candidate that passes every gate is at least as good on every criterion with probability >= 0.95.
    Dominated,
    /// It may still be chosen.
    Contender,
    /// It passed the match, but no instance of it was measured.
    Unmeasured,
}

impl Status {
    /// The name in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Vetoed => "vetoed",
            Status::Failed => "failed",
            Status::Dominated => "dominated",
            Status::Contender => "contender",
            Status::Unmeasured => "unmeasured",
        }
    }
}

/// The value of a criterion for a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CriterionResult {
    /// Median over the draws, canonical unit; null when not measured.
    pub median: Option<f64>,
    /// 5th percentile over the draws.
    pub lower: Option<f64>,
    /// 95th percentile over the draws.
    pub upper: Option<f64>,
    /// The value function at the median, 0 to 1.
    pub worth: Option<f64>,
}

/// One candidate of a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CandidateResult {
    /// The name in the scenario.
    pub name: String,
    /// The product's id in the catalog.
    pub product: String,
    /// The configuration's id in the catalog.
    pub configuration: Option<String>,
    /// The version, as measured or stated.
    pub version: Option<String>,
    /// What became of it.
    pub status: Status,
    /// Every gate, in the order of the scenario, rules first.
    pub gates: Vec<Gate>,
    /// Criteria by metric as written (`ttft.p95`).
    pub criteria: BTreeMap<String, CriterionResult>,
    /// Who dominates it, for [`Status::Dominated`].
    pub dominated_by: Option<String>,
    /// Durability class, for queues and caches; candidates compare only inside an equal class.
    pub durability: Option<String>,
    /// Delivery class, for queues.
    pub delivery: Option<String>,
    /// Weakest level of the evidence that carries its figures; null when nothing was measured.
    pub level: Option<Level>,
    /// Whether its figures come from a simulator.
    pub simulated: bool,
    /// Price per hour, USD.
    pub price: Option<f64>,
    /// Whether going back on it is easy.
    pub reversible: Option<bool>,
    /// Digests of its run documents.
    pub runs: Vec<String>,
}

/// The verdict words, by the rule of DESIGN section 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// robust >= 0.95 against every rival.
    Clear,
    /// SMAA pairwise index >= 0.75 against every rival.
    Leaning,
    /// Neither; prefer the reversible one.
    TossUp,
    /// An undetermined gate could change the answer.
    InsufficientEvidence,
    /// No candidate passes every gate.
    NoCandidate,
}

impl Word {
    /// The word in English.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Word::Clear => "clear",
            Word::Leaning => "leaning",
            Word::TossUp => "toss-up",
            Word::InsufficientEvidence => "insufficient evidence",
            Word::NoCandidate => "no candidate",
        }
    }

    /// The word in Chinese.
    #[must_use]
    pub fn zh(self) -> &'static str {
        match self {
            Word::Clear => "明确",
            Word::Leaning => "倾向",
            Word::TossUp => "难分伯仲",
            Word::InsufficientEvidence => "证据不足",
            Word::NoCandidate => "无合格候选",
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The word.
    pub word: Word,
    /// The candidate it speaks for: the choice, the leader, or the one to prefer; null when there is none.
    pub candidate: Option<String>,
    /// Why, in one English sentence.
    pub reason: String,
    /// The same in Chinese.
    pub reason_zh: String,
}

/// What the preferences and the measurement draws say about the contenders; candidates in the order of the scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ranking {
    /// Names of the contenders, in the order of the scenario; rows and columns of the tables below.
    pub contenders: Vec<String>,
    /// `acceptability[i][r]`: share of preference x measurement draws in which contender i has rank r (0 the best).
    pub acceptability: Vec<Vec<f64>>,
    /// `pairwise[i][j]`: share of draws in which i is better than j, ties counting half; 0 both ways between candidates
    /// of different durability or delivery classes, which are not compared.
    pub pairwise: Vec<Vec<f64>>,
    /// `robust[i][j]`: share of measurement draws in which i is at least as good as j at every vertex of the preferences.
    pub robust: Vec<Vec<f64>>,
    /// 95th percentile of the regret of contender i, in units of worth.
    pub regret_p95: Vec<f64>,
    /// `central_weights[i]`: mean weights of the draws in which contender i is best, by criterion; empty when never.
    pub central_weights: Vec<Vec<f64>>,
    /// Criteria, in the order of the weights.
    pub criteria: Vec<String>,
    /// Measurement x preference draws that were made.
    pub draws: u32,
}

/// The smallest change of one figure that would change the leader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flip {
    /// The criterion.
    pub criterion: String,
    /// The contender that would lead instead.
    pub to: String,
    /// The contender whose value changes.
    pub of: String,
    /// Its value now, canonical unit.
    pub from_value: f64,
    /// The value at which the lead changes, canonical unit.
    pub to_value: f64,
}

/// A measurement that is worth making next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NextMeasurement {
    /// The candidate to measure.
    pub candidate: String,
    /// The criterion or requirement it would settle.
    pub subject: String,
    /// Probability that settling it changes the leader; null when it settles a gate.
    pub probability: Option<f64>,
    /// What to do, in English.
    pub advice: String,
    /// The same in Chinese.
    pub advice_zh: String,
}

/// A piece of evidence, by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EvidenceEntry {
    /// `sha256:` and 64 hexadecimal digits, of the file's bytes.
    pub digest: String,
    /// What it is: `scenario`, `catalog`, `run`, `fingerprint`, `event-log`.
    pub kind: String,
    /// Where it was stored, relative to the record's folder.
    pub path: String,
    /// Its level.
    pub level: Level,
    /// Whether it comes from a simulator.
    pub simulated: bool,
    /// What it says, in a few words.
    pub label: String,
}

/// A sentence of the record, with the evidence it rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Statement {
    /// A short id, such as `s3`, by which `touchstone explain RECORD s3` finds it.
    pub id: String,
    /// The sentence in English.
    pub text: String,
    /// The sentence in Chinese.
    pub text_zh: String,
    /// Digests of the evidence it rests on; never empty.
    pub evidence: Vec<String>,
}

/// What was fixed before any result was shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Seal {
    /// sha256 over criteria, anchors, preference order, requirements and seed, in their canonical JSON form.
    pub digest: String,
    /// When, UTC, RFC 3339.
    pub sealed_at: String,
    /// Whether that was before the first run of the decision started; only then could no result bend it.
    pub before_results: bool,
}

/// A criterion with its fixed anchors, as the scenario states them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Anchors {
    /// The metric with its statistic, as in `ttft.p95`.
    pub metric: String,
    /// The value that is worth 0.
    pub worst: String,
    /// The value that is worth 1.
    pub best: String,
}

/// A decision, as a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionDocument {
    /// The format, `touchstone.decision/1`.
    pub format: String,
    /// The id of the record.
    pub id: String,
    /// The scenario's name.
    pub scenario: String,
    /// What the scenario is about.
    pub description: String,
    /// The family.
    pub family: Family,
    /// What was fixed before any result was shown.
    pub seal: Seal,
    /// When the decision was computed, UTC, RFC 3339: the end of its latest run, so that it repeats.
    pub decided_at: String,
    /// Weakest level of the load-bearing evidence.
    pub level: Level,
    /// Whether any figure comes from a simulator.
    pub simulated: bool,
    /// The version of touchstone.
    pub touchstone_version: String,
    /// The date of the catalog.
    pub catalog_date: String,
    /// The seed of the draws.
    pub seed: u64,
    /// The criteria with their anchors, in the order of the scenario.
    pub criteria: Vec<Anchors>,
    /// The order of preference, most important first; criteria in one inner list are of equal standing.
    pub preference: Vec<Vec<String>>,
    /// The candidates, in the order of the scenario.
    pub candidates: Vec<CandidateResult>,
    /// What preferences and draws say about the contenders.
    pub ranking: Ranking,
    /// Smallest changes that would change the leader.
    pub flips: Vec<Flip>,
    /// Measurements worth making next, the most valuable first.
    pub next_measurements: Vec<NextMeasurement>,
    /// The verdict.
    pub verdict: Verdict,
    /// Every sentence of the record that says something about the world.
    pub statements: Vec<Statement>,
    /// All evidence, by digest.
    pub evidence: Vec<EvidenceEntry>,
    /// When to look at it again, UTC date.
    pub review_by: String,
}
