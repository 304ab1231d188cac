//! The comparison document: what can be said of one set of runs against another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::level::Level;
use crate::metric::{MetricId, Statistic};
use crate::run::RunDocument;
use crate::unit::Unit;

/// The format of comparison documents that this version writes.
pub const FORMAT: &str = "touchstone.comparison/1";
/// The format of several runs with their comparison, as `bench` prints them when it makes more than one.
pub const RUNS_FORMAT: &str = "touchstone.runs/1";

/// What the values that are compared stand for; only what was repeated can tell how it varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Replication {
    /// Fresh deploys of the target, each with one or more runs.
    Deploy,
    /// Runs against a target that was not deployed afresh, or of which that is not known.
    Run,
    /// One run a side: only the variation within a run is known.
    Block,
}

/// How `a` stands against `b` on a metric; which direction is better is the metric's affair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Better by more than the margin.
    Better,
    /// Better; by how much is not resolved against the margin.
    SlightlyBetter,
    /// Within the margin.
    Equivalent,
    /// Worse; by how much is not resolved against the margin.
    SlightlyWorse,
    /// Worse by more than the margin.
    Worse,
    /// None of these can be said.
    NotResolved,
}

impl Standing {
    /// The words for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Better => "better",
            Standing::SlightlyBetter => "slightly better",
            Standing::Equivalent => "equivalent",
            Standing::SlightlyWorse => "slightly worse",
            Standing::Worse => "worse",
            Standing::NotResolved => "not resolved",
        }
    }

    /// Whether it speaks against `a`.
    #[must_use]
    pub fn is_worse(self) -> bool {
        matches!(self, Standing::Worse | Standing::SlightlyWorse)
    }
}

/// Two sets of runs against each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonDocument {
    /// The format, `touchstone.comparison/1`.
    pub format: String,
    /// The version of touchstone.
    pub touchstone_version: String,
    /// What is judged.
    pub a: Side,
    /// What it is judged against.
    pub b: Side,
    /// Smallest relative difference that matters.
    pub margin: f64,
    /// Confidence of every claim in the family together.
    pub confidence: f64,
    /// What the values stand for.
    pub unit: Replication,
    /// Whether runs of both sides were made under one schedule and are compared in pairs.
    pub paired: bool,
    /// That of the weakest run.
    pub level: Level,
    /// Whether any run came from a simulator.
    pub simulated: bool,
    /// The family of metrics, in a fixed order.
    pub metrics: Vec<Compared>,
    /// What limits the comparison.
    pub findings: Vec<Finding>,
}

impl ComparisonDocument {
    /// Metrics on which `a` is worse, or is suspected to be.
    pub fn regressions(&self) -> impl Iterator<Item = &Compared> {
        self.metrics.iter().filter(|one| one.standing.is_worse() || one.suspected)
    }
}

/// A set of runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// What the set was called by.
    pub name: String,
    /// Ids of the runs that count.
    pub runs: Vec<String>,
    /// Ids of runs that do not, because they are invalid.
    pub left_out: Vec<String>,
    /// Number of deploys behind the runs; null where they do not say.
    pub deploys: Option<u32>,
}

/// One metric of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// The metric.
    pub metric: MetricId,
    /// The statistic; null for scalars.
    pub statistic: Option<Statistic>,
    /// The unit of `a` and `b`.
    pub unit: Unit,
    /// Geometric mean over the units of replication of `a`; null where it is not positive throughout.
    pub a: Option<f64>,
    /// The same of `b`.
    pub b: Option<f64>,
    /// `a` over `b`.
    pub ratio: Option<f64>,
    /// Lower end of the two-sided interval of the ratio, not adjusted for the family.
    pub lower: Option<f64>,
    /// Upper end.
    pub upper: Option<f64>,
    /// p-value of "no difference", adjusted over the family.
    pub p_difference: Option<f64>,
    /// p-value of "a difference of at least the margin", adjusted over the family.
    pub p_equivalence: Option<f64>,
    /// How `a` stands.
    pub standing: Standing,
    /// With one run a side: whether `a` is worse by more than the margin by the variation within the runs alone. That is
    /// no claim, since runs vary too; it is a reason to repeat.
    pub suspected: bool,
    /// Runs a side that would resolve a difference of the margin with a power of 80 %, by the variation that was seen.
    pub runs_needed: Option<u64>,
    /// Share of the variance of the logarithm that lies between deploys; null where it is not known.
    pub between_deploys: Option<f64>,
    /// Why it stands as it does, in one sentence.
    pub reason: String,
}

/// Several runs that were made together, with their comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunSet {
    /// The format, `touchstone.runs/1`.
    pub format: String,
    /// The runs in the order in which they were made.
    pub runs: Vec<RunDocument>,
    /// The comparison that was asked for; null when none was.
    pub comparison: Option<ComparisonDocument>,
    /// What starting the target took, per deploy, where Touchstone launched it.
    pub cold_starts: Vec<ColdStart>,
}

/// What starting a target took, each stage counted from the launch, ms. A stage that was not reached, or cannot be seen, is
/// null.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ColdStart {
    /// Which deploy, from 1.
    pub deploy: u32,
    /// Launch to the port taking connections.
    pub port_ms: Option<f64>,
    /// Launch to the target saying who it is without an error.
    pub healthy_ms: Option<f64>,
    /// Launch to the first generated content: `cold_start`.
    pub first_token_ms: Option<f64>,
    /// Launch to the end of the first good answer: `deploy_time`.
    pub good_answer_ms: Option<f64>,
    /// Launch to the instant from which the first run is steady; null when it is not.
    pub steady_ms: Option<f64>,
}
