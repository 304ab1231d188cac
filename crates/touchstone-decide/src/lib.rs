//! The decision: from requirements, gates and evidence to a verdict with reasons, under stated uncertainty.
//!
//! The method, in order: semantic gates and rules, decided by the caller, veto; statistical gates pass, fail or stay
//! undetermined ([`decide`] tests them as the `gate` module says); a candidate that passes every gate may dominate;
//! what is left is compared by SMAA over preferences x measurement draws on value functions with fixed anchors; then
//! flips in natural units, the most valuable next measurement, the verdict word, and a statement for each of these with
//! the digests it rests on.
//!
//! Invariant: a number about a candidate depends on this candidate and the scenario, a number about a pair on the pair;
//! adding a candidate changes neither. Draw k is keyed by (seed, workload, k), so candidates that shared a workload are
//! drawn in pairs, and preference draws by the seed alone.
//!
//! Conventions that a reader of the tables needs:
//! - `pairwise[i][j]` counts ties half, so that it and `pairwise[j][i]` add up to 1; the diagonal is 0.5.
//! - Candidates of queues and caches compare only inside an equal durability and delivery class (an unknown class is one
//!   of its own). Across classes `pairwise` and `robust` are 0 both ways, which means "not compared"; ranks and regret
//!   are those inside the class.
//! - A criterion without evidence earns nothing in the tables; the verdict checks whether full worth would change it.
//! - A distribution in which an operation never finished has an infinite maximum and mean; a quantile that falls among
//!   such operations is worth 0.
//! - A candidate without a target is outside the comparison; one with a target and no usable run is not, and makes the
//!   evidence insufficient.
//!
//! What this crate deliberately does not do: read the catalog (semantic gates come decided), run anything, read a clock,
//! write files. `evidence` of the document is left empty for the caller, who knows where things are stored.
//!
//! Main types: [`CandidateInput`], [`EvidenceRun`], [`Context`]; the one function is [`decide`].

mod bounds;
mod compare;
pub mod contrast;
mod figure;
mod gate;
mod judged;
mod outlook;
mod pool;
mod statement;
mod verdict;
mod worth;

use touchstone_model::decision::{Anchors, DecisionDocument, FORMAT, Gate, Seal, Status};
use touchstone_model::scenario::Candidate;
use touchstone_model::{Level, RunDocument, Scenario};

use crate::compare::{Entry, rank};
use crate::judged::{Judged, mark_dominated};
use crate::outlook::{flips, next_measurements};
use crate::statement::{Matter, statements};
use crate::verdict::{Case, verdict};
use crate::worth::Preferences;

/// Measurement draws of a decision; four preferences are drawn for each.
pub const DRAWS: u32 = 2000;

/// A run that bears on a candidate.
#[derive(Debug, Clone, Copy)]
pub struct EvidenceRun<'a> {
    /// Digest of the run document, `sha256:...`.
    pub digest: &'a str,
    /// Digest of what the target was loaded with; runs of two candidates with equal digests are compared in pairs.
    pub workload_digest: &'a str,
    /// The run. Invalid runs are not used, and the record says so.
    pub document: &'a RunDocument,
}

/// A candidate with all that is known about it.
#[derive(Debug, Clone)]
pub struct CandidateInput<'a> {
    /// The candidate, as the scenario or the match names it; names are unique.
    pub candidate: &'a Candidate,
    /// Semantic gates and rules with their outcome, in the order in which the record shows them.
    pub semantic_gates: Vec<Gate>,
    /// Durability class, for queues and caches; none when unknown.
    pub durability: Option<String>,
    /// Delivery class, for queues; none when unknown or meaningless.
    pub delivery: Option<String>,
    /// Its runs, in the order in which they were made.
    pub runs: Vec<EvidenceRun<'a>>,
}

/// What the document says about its own making.
#[derive(Debug, Clone)]
pub struct Context<'a> {
    /// The id of the record.
    pub id: &'a str,
    /// The version of touchstone.
    pub touchstone_version: &'a str,
    /// The date of the catalog.
    pub catalog_date: &'a str,
    /// Digest of the catalog: the evidence of semantic gates that name none.
    pub catalog_digest: &'a str,
    /// Digest of the scenario: the evidence of statements about what it says, such as a price.
    pub scenario_digest: &'a str,
    /// What was fixed before results were shown.
    pub seal: &'a Seal,
    /// When the decision counts as made, UTC, RFC 3339: the end of the latest run.
    pub decided_at: &'a str,
    /// When to look at it again, UTC date.
    pub review_by: &'a str,
    /// Measurement draws, [`DRAWS`] outside tests.
    pub draws: u32,
}

/// Decides between candidates by the method that the crate's documentation describes.
///
/// Deterministic: equal input gives an equal document. The order of `inputs` is kept. The seed is the scenario's.
#[must_use]
pub fn decide(scenario: &Scenario, inputs: &[CandidateInput<'_>], context: &Context<'_>) -> DecisionDocument {
    let seed = scenario.measurement.seed;
    let preferences = Preferences::new(scenario, seed, context.draws);
    let mut candidates: Vec<Judged<'_>> =
        inputs.iter().map(|input| Judged::new(scenario, input, context)).collect();
    mark_dominated(&mut candidates);
    let ranked: Vec<&Judged<'_>> = candidates.iter().filter(|candidate| candidate.is_ranked()).collect();
    let entries: Vec<Entry<'_>> = ranked.iter().map(|candidate| candidate.entry()).collect();
    let criteria: Vec<String> =
        scenario.criteria.iter().map(|criterion| criterion.metric.to_string()).collect();
    let ranking = rank(&preferences, criteria, &entries);
    let classes = by_class(&entries);
    let flips: Vec<_> = match classes.as_slice() {
        // A flip between classes would be a comparison between them.
        [class] => flips(&preferences, &scenario.criteria, class),
        _ => Vec::new(),
    };
    let contenders: Vec<&Judged<'_>> =
        candidates.iter().filter(|candidate| candidate.status == Status::Contender).collect();
    let next = next_measurements(&preferences, &scenario.criteria, &contenders, &classes);
    let case = Case {
        preferences: &preferences,
        ranking: &ranking,
        candidates: &candidates,
        ranked: &ranked,
        has_criteria: !scenario.criteria.is_empty(),
    };
    let verdict = verdict(case);
    let matter = Matter {
        scenario,
        candidates: &candidates,
        ranking: &ranking,
        flips: &flips,
        next: &next,
        verdict: &verdict,
    };
    let statements = statements(matter, context);
    let bearing = || candidates.iter().filter(|candidate| candidate.status != Status::Vetoed);
    let level = bearing().filter_map(|candidate| candidate.pool.level()).min();
    let simulated = bearing().any(|candidate| candidate.pool.simulated());
    DecisionDocument {
        format: FORMAT.to_owned(),
        id: context.id.to_owned(),
        scenario: scenario.name.clone(),
        description: scenario.description.clone(),
        family: scenario.family,
        seal: context.seal.clone(),
        decided_at: context.decided_at.to_owned(),
        // Without a run only the claims of the catalog bear on it.
        level: level.unwrap_or(Level::P0),
        simulated,
        touchstone_version: context.touchstone_version.to_owned(),
        catalog_date: context.catalog_date.to_owned(),
        seed,
        criteria: scenario
            .criteria
            .iter()
            .map(|one| Anchors {
                metric: one.metric.to_string(),
                worst: one.worst.to_string(),
                best: one.best.to_string(),
            })
            .collect(),
        preference: scenario
            .preference_groups()
            .iter()
            .map(|group| group.iter().map(|index| scenario.criteria[*index].metric.to_string()).collect())
            .collect(),
        candidates: candidates.iter().map(Judged::result).collect(),
        ranking,
        flips,
        next_measurements: next,
        verdict,
        statements,
        evidence: Vec::new(),
        review_by: context.review_by.to_owned(),
    }
}

/// The contenders with figures, class by class in the order of their first member.
fn by_class<'a>(entries: &[Entry<'a>]) -> Vec<Vec<Entry<'a>>> {
    let mut classes: Vec<Vec<Entry<'a>>> = Vec::new();
    for entry in entries {
        match classes.iter_mut().find(|class| class[0].class == entry.class) {
            Some(class) => class.push(*entry),
            None => classes.push(vec![*entry]),
        }
    }
    classes
}
