//! One candidate with all that can be said about it alone: gates, draws, class; and then its status among the others.

use std::collections::BTreeMap;

use touchstone_model::decision::{CandidateResult, Gate, Status};
use touchstone_model::run::Outcome;
use touchstone_model::{Family, Scenario};

use crate::compare::{Class, Entry, dominates};
use crate::gate;
use crate::pool::Pool;
use crate::worth::Worths;
use crate::{CandidateInput, Context};

/// A candidate, judged.
#[derive(Debug)]
pub(crate) struct Judged<'a> {
    pub(crate) input: &'a CandidateInput<'a>,
    pub(crate) pool: Pool<'a>,
    /// Semantic gates and rules first, then the statistical ones in the order of the scenario.
    pub(crate) gates: Vec<Gate>,
    /// By requirement as written: what the samples behind the gate are worth.
    effective: BTreeMap<String, f64>,
    pub(crate) worths: Worths,
    pub(crate) class: Class,
    pub(crate) status: Status,
    pub(crate) dominated_by: Option<String>,
}

impl<'a> Judged<'a> {
    /// Judges a candidate by itself; nothing here depends on the others.
    pub(crate) fn new(scenario: &Scenario, input: &'a CandidateInput<'a>, context: &Context<'_>) -> Self {
        let wanted = scenario
            .all_requirements()
            .map(|requirement| requirement.subject)
            .chain(scenario.criteria.iter().map(|criterion| criterion.metric))
            .filter_map(touchstone_model::scenario::metric_of)
            .collect();
        let pool = Pool::new(&input.runs, &wanted);
        let resamples = pool.resamples(scenario.measurement.seed, context.draws);
        let mut gates = input.semantic_gates.clone();
        let vetoed = gates.iter().any(|gate| gate.outcome == Outcome::Fail);
        let mut effective = BTreeMap::new();
        // What is ruled out and was never run is not also reproached with not having been measured.
        if !vetoed || !pool.is_empty() {
            for requirement in scenario.all_requirements() {
                let digest = context.scenario_digest;
                let made =
                    gate::statistical(scenario, requirement, input.candidate, &pool, &resamples, digest);
                if let Some((gate, worth)) = made {
                    effective.extend(worth.map(|worth| (gate.requirement.clone(), worth)));
                    gates.push(gate);
                }
            }
        }
        let failed = gates.iter().any(|gate| gate.outcome == Outcome::Fail);
        let status = if vetoed {
            Status::Vetoed
        } else if failed {
            Status::Failed
        } else if input.candidate.target.is_none() && input.runs.is_empty() {
            Status::Unmeasured
        } else {
            Status::Contender
        };
        let worths = Worths::new(&scenario.criteria, input.candidate, &pool, &resamples);
        let class = match scenario.family {
            Family::Inference => (None, None),
            Family::Queue | Family::Cache => (input.durability.clone(), input.delivery.clone()),
        };
        Self { input, pool, gates, effective, worths, class, status, dominated_by: None }
    }

    /// The name in the scenario.
    pub(crate) fn name(&self) -> &'a str {
        &self.input.candidate.name
    }

    /// Whether every gate passes.
    pub(crate) fn passes(&self) -> bool {
        self.gates.iter().all(|gate| gate.outcome == Outcome::Pass)
    }

    /// Whether it may still be chosen and has figures to be ranked by.
    pub(crate) fn is_ranked(&self) -> bool {
        self.status == Status::Contender && !self.pool.is_empty()
    }

    /// The row of the ranking.
    pub(crate) fn entry(&self) -> Entry<'_> {
        Entry { name: self.name(), class: &self.class, worths: &self.worths }
    }

    /// How many effective samples a gate lacks, and for how many seconds more to run for them at the rate so far.
    pub(crate) fn lacking(&self, gate: &Gate) -> Option<(u64, u64)> {
        let effective = *self.effective.get(&gate.requirement)?;
        let more = gate.needs? as f64 - effective.floor();
        let seconds: f64 = self.pool.blocks.iter().map(|block| block.seconds).sum();
        (more > 0.0 && effective >= 1.0)
            .then(|| (more.ceil() as u64, (more * seconds / effective).ceil() as u64))
    }

    /// The candidate as the record shows it.
    pub(crate) fn result(&self) -> CandidateResult {
        let candidate = self.input.candidate;
        let measured_version = self.pool.documents().find_map(|run| run.target.version.clone());
        let unmeasured = self.pool.is_empty() && self.status == Status::Vetoed;
        CandidateResult {
            name: candidate.name.clone(),
            product: candidate.product.clone(),
            configuration: candidate.configuration.clone(),
            version: measured_version.or_else(|| candidate.version.clone()),
            status: self.status,
            gates: self.gates.clone(),
            criteria: if unmeasured { BTreeMap::new() } else { self.worths.results.clone() },
            dominated_by: self.dominated_by.clone(),
            durability: self.input.durability.clone(),
            delivery: self.input.delivery.clone(),
            level: self.pool.level(),
            simulated: self.pool.simulated(),
            price: candidate.price.map(|price| price.0),
            reversible: candidate.reversible,
            runs: self.input.runs.iter().map(|run| run.digest.to_owned()).collect(),
        }
    }
}

/// Marks the contenders that a candidate which passes every gate dominates, inside their class.
pub(crate) fn mark_dominated(candidates: &mut [Judged<'_>]) {
    let by: Vec<Option<String>> = candidates
        .iter()
        .map(|b| {
            let may = |a: &&Judged<'_>| a.is_ranked() && a.passes() && a.class == b.class;
            let mut others = candidates.iter().filter(may).filter(|a| a.name() != b.name());
            let dominator = others.find(|a| b.is_ranked() && dominates(&a.worths, &b.worths));
            dominator.map(|a| a.name().to_owned())
        })
        .collect();
    // Cannot be for fewer than 20 candidates; were it so, nobody would be left to choose.
    if candidates.iter().zip(&by).filter(|(c, _)| c.is_ranked()).all(|(_, by)| by.is_some()) {
        return;
    }
    for (candidate, by) in candidates.iter_mut().zip(by) {
        if by.is_some() {
            candidate.status = Status::Dominated;
            candidate.dominated_by = by;
        }
    }
}
