//! A scenario as one flow: match, bench each reachable candidate in interleaved repeats, decide, record.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use touchstone_catalog::Catalog;
use touchstone_catalog::matching::{self, CandidateMatch, MatchError};
use touchstone_drivers::Secret;
use touchstone_load::LoadPlan;
use touchstone_model::scenario::Candidate;
use touchstone_model::{Length, Protocol, Scenario, Target};
use touchstone_records::digest::sha256;
use touchstone_runner::Control;

use crate::bench::{BenchError, BenchRequest, Benched, Observer, Payload, bench, store_root};
use crate::inside::{InsideOptions, TargetPid};
use crate::launch::{self, LaunchError};

/// The parameter of a run that names the scenario it was made for, by digest.
pub const SCENARIO_LABEL: &str = "scenario";
/// The parameter of a run that names its candidate.
pub const CANDIDATE_LABEL: &str = "candidate";
/// The parameter of a run that numbers its repeat, from 1.
pub const REPEAT_LABEL: &str = "repeat";
/// The parameter of a run that names the deploy of its target, where it is known.
pub const DEPLOY_LABEL: &str = touchstone_decide::contrast::DEPLOY;

/// A scenario with the bytes it was read from, which are its evidence.
#[derive(Debug, Clone)]
pub struct ScenarioFile {
    /// The scenario.
    pub scenario: Scenario,
    /// The file's bytes.
    pub bytes: Vec<u8>,
    /// Their digest.
    pub digest: String,
}

impl ScenarioFile {
    /// Reads a scenario.
    ///
    /// # Errors
    /// When the document cannot be used; with file, line, column and hint.
    pub fn read(file: &str, bytes: Vec<u8>) -> Result<Self, touchstone_model::DocumentError> {
        let scenario = Scenario::from_yaml(file, &bytes)?;
        let digest = sha256(&bytes);
        Ok(Self { scenario, bytes, digest })
    }
}

/// A candidate with its match.
#[derive(Debug, Clone)]
pub struct Matched {
    /// The candidate.
    pub candidate: Candidate,
    /// What the catalog says of it in this scenario.
    pub matched: CandidateMatch,
}

/// Matches every candidate of a scenario against the catalog.
///
/// # Errors
/// When a candidate names a product or configuration that the catalog does not know.
pub fn match_all(catalog: &Catalog, scenario: &Scenario) -> Result<Vec<Matched>, MatchError> {
    matching::expand(catalog, scenario)?
        .into_iter()
        .map(|candidate| {
            let matched = matching::match_candidate(catalog, scenario, &candidate)?;
            Ok(Matched { candidate, matched })
        })
        .collect()
}

/// Why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// A candidate does not fit the catalog.
    #[error(transparent)]
    Match(#[from] MatchError),
    /// The embedded engine did not come up.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A run could not be made.
    #[error("candidate `{candidate}` cannot be measured")]
    Bench {
        /// The candidate.
        candidate: String,
        /// Why.
        #[source]
        source: BenchError,
    },
}

/// What happened to one run of a scenario.
#[derive(Debug)]
pub struct Made {
    /// The candidate.
    pub candidate: String,
    /// The repeat, from 1.
    pub repeat: u32,
    /// The run.
    pub benched: Benched,
}

/// Settings of a scenario run that do not come from the scenario.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// The output folder; runs are stored below it.
    pub out: PathBuf,
    /// The program that contains the embedded engine: touchstone itself.
    pub program: PathBuf,
    /// Repeats in place of the scenario's.
    pub repeats: Option<u32>,
}

/// The load plan of a scenario for one repeat: its peak load, with a seed of the repeat's own, equal for all candidates.
#[must_use]
pub fn plan(scenario: &Scenario, repeat: u32) -> LoadPlan {
    let measurement = &scenario.measurement;
    let mut plan =
        LoadPlan::new(scenario.peak_arrival(), measurement.seed.wrapping_add(u64::from(repeat) - 1));
    plan.warm_up_ns = measurement.warm_up.nanos();
    plan.duration_ns = measurement.duration.nanos();
    plan.drain_ns = measurement.drain.nanos();
    plan.confidence = measurement.confidence;
    plan.slos = scenario
        .all_requirements()
        .filter(|requirement| matches!(requirement.subject, touchstone_model::Subject::Metric(..)))
        .copied()
        .collect();
    plan.shards = 0;
    plan
}

/// The payload of a scenario.
#[must_use]
pub fn payload(scenario: &Scenario) -> Payload {
    let w = &scenario.workload;
    let default = Payload::default();
    Payload {
        stream: true,
        trace: None,
        prefix: None,
        wording: default.wording,
        fit_tokens: false,
        tokenizer: None,
        cache: default.cache,
        probed: None,
        input_tokens: w.input_tokens.map_or(default.input_tokens, Length::Fixed),
        output_tokens: w.output_tokens.map_or(default.output_tokens, Length::Fixed),
        message_bytes: w.message_bytes.map_or(default.message_bytes, |bytes| bytes.0 as u32),
        keys: w.keys.unwrap_or(default.keys),
        value_bytes: w.value_bytes.map_or(default.value_bytes, |bytes| bytes.0 as u32),
        read_ratio: w.read_ratio.map_or(default.read_ratio, |share| share.0),
        pipeline: w.pipeline.unwrap_or(default.pipeline),
        connections: w.connections,
    }
}

/// Benches every candidate that the match leaves and that has a target: repeat by repeat, in an order that turns around
/// each time (A B, B A), so that drift of the machine falls on all alike. Ctrl-C ends after the run it falls in.
///
/// # Errors
/// When a candidate cannot be measured at all; runs that were made stay stored.
pub fn bench_all(
    file: &ScenarioFile,
    matched: &[Matched],
    settings: &RunSettings,
    observer: &mut dyn Observer,
    control: &Control,
) -> Result<Vec<Made>, ScenarioError> {
    let scenario = &file.scenario;
    let repeats = settings.repeats.unwrap_or(scenario.measurement.repeats);
    let reachable: Vec<(&Matched, &Target)> = matched
        .iter()
        .filter(|one| !one.matched.vetoed)
        .filter_map(|one| Some((one, one.candidate.target.as_ref()?)))
        .collect();
    let total = reachable.len() as u32 * repeats;
    let mut made = Vec::new();
    let mut number = 0;
    for repeat in 1..=repeats {
        let mut order: Vec<usize> = (0..reachable.len()).collect();
        if repeat % 2 == 0 {
            order.reverse();
        }
        for index in order {
            if control.stopped() {
                return Ok(made);
            }
            let (one, target) = reachable[index];
            let name = &one.candidate.name;
            number += 1;
            observer.note(&format!("run {number} of {total}: {name}, repeat {repeat} of {repeats}"));
            match bench_one(file, one, target, repeat, settings, observer, control) {
                Ok(benched) => made.push(Made { candidate: name.clone(), repeat, benched }),
                // One candidate that cannot be measured leaves the others to be measured; the decision says that it has
                // no run.
                Err(ScenarioError::Bench { candidate, source }) => {
                    let cause = std::error::Error::source(&source)
                        .map_or_else(String::new, |cause| format!(": {cause}"));
                    observer.note(&format!("candidate `{candidate}` cannot be measured: {source}{cause}"));
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(made)
}

fn bench_one(
    file: &ScenarioFile,
    one: &Matched,
    target: &Target,
    repeat: u32,
    settings: &RunSettings,
    observer: &mut dyn Observer,
    control: &Control,
) -> Result<Benched, ScenarioError> {
    // A fresh engine for every run: no warm cache and no backlog of an earlier one.
    let engine = match target.protocol {
        Protocol::Engine => Some(launch::engine(
            &settings.program,
            &target.host,
            file.scenario.measurement.seed + u64::from(repeat),
        )?),
        _ => None,
    };
    let mut labels = BTreeMap::from([
        (SCENARIO_LABEL.to_owned(), file.digest.clone().into()),
        (CANDIDATE_LABEL.to_owned(), one.candidate.name.clone().into()),
        (REPEAT_LABEL.to_owned(), repeat.into()),
    ]);
    if engine.is_some() {
        labels.insert(DEPLOY_LABEL.to_owned(), touchstone_records::id::new_id("d").into());
    }
    let unusable = |source| ScenarioError::Bench { candidate: one.candidate.name.clone(), source };
    let (api_key, ca_pem) = credentials(&one.candidate).map_err(unusable)?;
    let request = BenchRequest {
        target: engine.as_ref().map_or_else(|| target.clone(), |engine| engine.target.clone()),
        model: one.candidate.model.clone(),
        plan: plan(&file.scenario, repeat),
        payload: payload(&file.scenario),
        ca_pem,
        headers: Vec::new(),
        api_key,
        probe_ceiling: repeat == 1,
        inside: InsideOptions {
            pid: engine.as_ref().map(|engine| TargetPid::Launched(engine.pid())),
            ..InsideOptions::default()
        },
        store: Some(store_root(&settings.out)),
        labels,
    };
    // Failures that end one run say nothing about the next.
    bench(&request, observer, &control.child())
        .map_err(|source| ScenarioError::Bench { candidate: one.candidate.name.clone(), source })
}

/// A candidate's key and certificates, from where the scenario says they are.
fn credentials(candidate: &Candidate) -> Result<(Option<Secret>, Option<Vec<u8>>), BenchError> {
    let api_key = match &candidate.api_key_env {
        Some(variable) => {
            let value = std::env::var(variable).ok().filter(|value| !value.trim().is_empty());
            let value = value.ok_or_else(|| BenchError::NoKey { variable: variable.clone() })?;
            Some(Secret::new(value.trim()))
        }
        None => None,
    };
    let ca_pem = match &candidate.ca_file {
        Some(path) => Some(
            std::fs::read(path).map_err(|source| BenchError::Certificates { path: path.clone(), source })?,
        ),
        None => None,
    };
    Ok((api_key, ca_pem))
}

/// Total time of a scenario's runs at most, s: (warm-up + duration + drain) of each.
#[must_use]
pub fn longest_seconds(scenario: &Scenario, runs: usize) -> f64 {
    let m = &scenario.measurement;
    (m.warm_up.0 + m.duration.0 + m.drain.0) / 1e3 * runs as f64
}

/// The folder of decision records under an output folder.
#[must_use]
pub fn decisions_root(out: &Path) -> PathBuf {
    out.join("decisions")
}
