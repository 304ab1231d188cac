//! From stored runs to a decision record. Deterministic: the same evidence gives the same bytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use touchstone_catalog::Catalog;
use touchstone_decide::{CandidateInput, Context, DRAWS, EvidenceRun, decide};
use touchstone_model::decision::{DecisionDocument, EvidenceEntry, Seal};
use touchstone_model::{Level, RunDocument, Scenario};
use touchstone_records::decision_store::{
    DecisionBundle, DecisionStore, DecisionStoreError, EvidenceContent, evidence_path,
};
use touchstone_records::digest::{file_digest, sha256};
use touchstone_records::{CheckOutcome, RunStore, StoreError};
use touchstone_report::Lang;

use crate::bench::store_root;
use crate::scenario::{
    CANDIDATE_LABEL, Matched, REPEAT_LABEL, SCENARIO_LABEL, ScenarioFile, decisions_root, match_all,
};
use crate::utc;

/// The catalog's own file, with its format and date.
const CATALOG_FILE: &str = "catalog.yaml";
/// What the label of a catalog file begins with; its name follows.
const CATALOG_LABEL: &str = "catalog file ";
/// A decision is looked at again after half of its horizon, at the latest after this many days.
const REVIEW_DAYS: f64 = 180.0;

/// Why there is no decision.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// The runs cannot be read.
    #[error("stored runs cannot be read")]
    Store(#[from] StoreError),
    /// A run that bears on the decision was changed after it was made.
    #[error("run `{run}` was changed after it was made: {what}")]
    Broken {
        /// The run.
        run: String,
        /// What does not hold.
        what: String,
    },
    /// There is no evidence at all.
    #[error("no complete run of this scenario is stored")]
    NoRuns,
    /// The record cannot be written.
    #[error("the record cannot be written")]
    Write(#[from] DecisionStoreError),
    /// A file of the store cannot be read or written.
    #[error("{} cannot be {action}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// `read` or `written`.
        action: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// A run that bears on a decision, with the digest of its document.
#[derive(Debug, Clone)]
pub struct StoredRun {
    /// The document.
    pub document: RunDocument,
    /// Digest of its file.
    pub digest: String,
    /// Its folder.
    pub dir: PathBuf,
}

/// A decision that was made and recorded.
#[derive(Debug)]
pub struct Decided {
    /// The decision.
    pub document: DecisionDocument,
    /// The folder of the record.
    pub dir: PathBuf,
    /// The runs by candidate, in the order of the scenario.
    pub runs: Vec<(String, Vec<RunDocument>)>,
}

/// What is fixed before results are shown.
#[derive(Debug, Serialize, Deserialize)]
struct SealFile {
    format: String,
    digest: String,
    sealed_at: String,
}

/// Seals what the answer must not be bent by: criteria, anchors, preference order, requirements and seed. The first call
/// for a scenario writes the seal; later calls read it.
///
/// # Errors
/// When the seal cannot be read or written.
pub fn seal(scenario: &Scenario, out: &Path) -> Result<Seal, DecideError> {
    let fixed = serde_json::json!({
        "criteria": scenario.criteria,
        "preference": scenario.preference,
        "requirements": scenario.requirements,
        "seed": scenario.measurement.seed,
        "confidence": scenario.measurement.confidence,
    });
    let digest = sha256(fixed.to_string().as_bytes());
    let name = digest.trim_start_matches("sha256:").get(..16).unwrap_or("seal").to_owned();
    let folder = store_root(out).join("seals");
    let path = folder.join(format!("{name}.json"));
    let failed = |action, source| DecideError::File { path: path.clone(), action, source };
    if let Ok(bytes) = std::fs::read(&path)
        && let Ok(seal) = serde_json::from_slice::<SealFile>(&bytes)
        && seal.digest == digest
    {
        return Ok(Seal { digest, sealed_at: seal.sealed_at, before_results: true });
    }
    let seal =
        SealFile { format: "touchstone.seal/1".to_owned(), digest: digest.clone(), sealed_at: utc::now() };
    std::fs::create_dir_all(&folder).map_err(|source| failed("written", source))?;
    let text = serde_json::to_string_pretty(&seal).unwrap_or_default();
    std::fs::write(&path, text).map_err(|source| failed("written", source))?;
    Ok(Seal { digest, sealed_at: seal.sealed_at, before_results: true })
}

/// The complete runs of a scenario, by candidate, in the order in which they were made. With `only`, just those.
///
/// # Errors
/// When the store cannot be read, or a run of the scenario was changed after it was made.
pub fn stored_runs(
    file: &ScenarioFile,
    out: &Path,
    only: &[String],
) -> Result<BTreeMap<String, Vec<StoredRun>>, DecideError> {
    let store = RunStore::new(&store_root(out));
    let ids = if only.is_empty() {
        store.ids()?
    } else {
        only.iter().map(|prefix| store.resolve(prefix)).collect::<Result<Vec<_>, _>>()?
    };
    let mut runs: BTreeMap<String, Vec<StoredRun>> = BTreeMap::new();
    for id in ids {
        let document = match store.load(&id) {
            Ok(document) => document,
            // Not complete, so no evidence; but who asks for it by name is told.
            Err(StoreError::Incomplete { .. }) if only.is_empty() => continue,
            // What cannot be read any more must not leave the evidence unnoticed; the log still says whose it was.
            Err(StoreError::File(error)) => match logged_scenario(&store, &id) {
                Some(scenario) if scenario != file.digest && only.is_empty() => continue,
                None if only.is_empty() => continue,
                _ => return Err(DecideError::Broken { run: id, what: error.to_string() }),
            },
            Err(error) => return Err(error.into()),
        };
        if label_of(&document, SCENARIO_LABEL).as_deref() != Some(file.digest.as_str()) {
            continue;
        }
        let Some(candidate) = label_of(&document, CANDIDATE_LABEL) else { continue };
        let report = store.verify(&id)?;
        if !report.is_ok() {
            let failed = report.checks.iter().filter_map(|check| match &check.outcome {
                CheckOutcome::Failed(why) => Some(format!("{}: {why}", check.name)),
                _ => None,
            });
            let what = failed.collect::<Vec<_>>().join("; ");
            return Err(DecideError::Broken { run: id, what });
        }
        let dir = store.dir(&id);
        let path = dir.join(touchstone_records::store::RUN);
        let digest = digest_of(&path)?;
        runs.entry(candidate).or_default().push(StoredRun { document, digest, dir });
    }
    sort(&mut runs);
    Ok(runs)
}

/// Into the order in which they were made.
fn sort(runs: &mut BTreeMap<String, Vec<StoredRun>>) {
    for list in runs.values_mut() {
        list.sort_by(|a, b| {
            (&a.document.started_at, &a.document.run).cmp(&(&b.document.started_at, &b.document.run))
        });
    }
}

fn label_of(document: &RunDocument, name: &str) -> Option<String> {
    document.workload.parameters.get(name).and_then(|value| value.as_str()).map(str::to_owned)
}

/// The scenario that a run was made for, by its event log.
fn logged_scenario(store: &RunStore, run: &str) -> Option<String> {
    let manifest = store.recover(run).ok()?.manifest?;
    manifest.workload.parameters.get(SCENARIO_LABEL)?.as_str().map(str::to_owned)
}

fn digest_of(path: &Path) -> Result<String, DecideError> {
    file_digest(path).map_err(|error| DecideError::File {
        path: path.to_owned(),
        action: "read",
        source: std::io::Error::other(error),
    })
}

/// What the target of a run was loaded with, as a digest: equal for candidates that shared a workload.
fn workload_digest(document: &RunDocument) -> String {
    let mut workload = document.workload.clone();
    for own in [CANDIDATE_LABEL, REPEAT_LABEL, SCENARIO_LABEL, "model"] {
        workload.parameters.remove(own);
    }
    sha256(serde_json::to_string(&workload).unwrap_or_default().as_bytes())
}

/// Decides a scenario over its stored runs and writes the record.
///
/// # Errors
/// See [`DecideError`].
pub fn decide_and_record(
    file: &ScenarioFile,
    catalog: &Catalog,
    matched: &[Matched],
    out: &Path,
    only: &[String],
    lang: Lang,
) -> Result<Decided, DecideError> {
    let runs = stored_runs(file, out, only)?;
    let measurable = matched.iter().any(|one| one.candidate.target.is_some() && !one.matched.vetoed);
    if runs.is_empty() && measurable {
        return Err(DecideError::NoRuns);
    }
    let mut seal = seal(&file.scenario, out)?;
    let first = runs.values().flatten().map(|run| run.document.started_at.as_str()).min();
    seal.before_results = first.is_none_or(|first| seal.sealed_at.as_str() <= first);
    let mut document = decide_over(file, catalog, matched, &runs, &seal);
    let content = evidence(&mut document, file, catalog, &runs)?;
    document.id = record_id(&document);
    let by_candidate: Vec<(String, Vec<RunDocument>)> = matched
        .iter()
        .filter_map(|one| {
            let list = runs.get(&one.candidate.name)?;
            Some((one.candidate.name.clone(), list.iter().map(|run| run.document.clone()).collect()))
        })
        .collect();
    let record = touchstone_report::markdown::record(&document, lang);
    let report = touchstone_report::html::decision_report(&document, &by_candidate, lang);
    let bundle = DecisionBundle { document: &document, record: &record, report: &report, evidence: &content };
    let dir = DecisionStore::new(&decisions_root(out)).write(&bundle)?;
    Ok(Decided { document, dir, runs: by_candidate })
}

/// Why a record could not be recomputed.
#[derive(Debug, thiserror::Error)]
pub enum RecomputeError {
    /// The record holds no scenario, or one that cannot be read any longer.
    #[error("the record's scenario cannot be read")]
    Scenario(#[from] touchstone_model::DocumentError),
    /// A file of the record cannot be read.
    #[error("the record's file {} cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A run document makes no sense.
    #[error("the record's run {} cannot be read", path.display())]
    Run {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A candidate does not fit the recorded catalog files.
    #[error(transparent)]
    Match(#[from] touchstone_catalog::matching::MatchError),
}

/// Decides once more over the evidence that lies in a record's folder, without any store. The result equals the stored
/// document exactly, unless the evidence was changed or the method is another.
///
/// # Errors
/// See [`RecomputeError`].
pub fn recompute(stored: &DecisionDocument, dir: &Path) -> Result<DecisionDocument, RecomputeError> {
    let read = |entry: &EvidenceEntry| {
        let path = dir.join(&entry.path);
        std::fs::read(&path)
            .map(|bytes| (path.clone(), bytes))
            .map_err(|source| RecomputeError::File { path, source })
    };
    let (mut scenario, mut files, mut documents) = (None, Vec::new(), Vec::new());
    for entry in &stored.evidence {
        match entry.kind.as_str() {
            "scenario" => scenario = Some(read(entry)?),
            "catalog" => {
                let name = entry.label.strip_prefix(CATALOG_LABEL).unwrap_or(&entry.label).to_owned();
                files.push((name, read(entry)?.1));
            }
            "run" => {
                let (path, bytes) = read(entry)?;
                let document: RunDocument =
                    serde_json::from_slice(&bytes).map_err(|source| RecomputeError::Run { path, source })?;
                documents.push(StoredRun { document, digest: entry.digest.clone(), dir: dir.to_owned() });
            }
            _ => {}
        }
    }
    let (path, bytes) = scenario.unwrap_or_default();
    let mut file = ScenarioFile::read(&path.display().to_string(), bytes)?;
    file.scenario.measurement.seed = stored.seed;
    let catalog = Catalog::parse(&files)?;
    let matched = match_all(&catalog, &file.scenario)?;
    let mut runs: BTreeMap<String, Vec<StoredRun>> = BTreeMap::new();
    for run in documents {
        if let Some(candidate) = label_of(&run.document, CANDIDATE_LABEL) {
            runs.entry(candidate).or_default().push(run);
        }
    }
    sort(&mut runs);
    let mut document = decide_over(&file, &catalog, &matched, &runs, &stored.seal);
    document.evidence.clone_from(&stored.evidence);
    document.id = record_id(&document);
    Ok(document)
}

/// The decision over runs, without the list of evidence and the id.
fn decide_over(
    file: &ScenarioFile,
    catalog: &Catalog,
    matched: &[Matched],
    runs: &BTreeMap<String, Vec<StoredRun>>,
    seal: &Seal,
) -> DecisionDocument {
    let catalog_digests: BTreeMap<&str, String> =
        catalog.files().iter().map(|(name, bytes)| (name.as_str(), sha256(bytes))).collect();
    let catalog_digest = catalog_digests.get(CATALOG_FILE).cloned().unwrap_or_default();
    let decided_at = decided_at(runs, seal);
    let review_by = review_by(&file.scenario, &decided_at);
    let workloads: BTreeMap<&str, Vec<String>> = runs
        .iter()
        .map(|(name, list)| (name.as_str(), list.iter().map(|run| workload_digest(&run.document)).collect()))
        .collect();
    let empty = Vec::new();
    let inputs: Vec<CandidateInput<'_>> = matched
        .iter()
        .map(|one| {
            let list = runs.get(&one.candidate.name).unwrap_or(&empty);
            let digests = workloads.get(one.candidate.name.as_str());
            let mut semantic_gates = one.matched.gates.clone();
            for evidence in semantic_gates.iter_mut().flat_map(|gate| &mut gate.evidence) {
                if let Some(digest) =
                    evidence.strip_prefix("catalog:").and_then(|name| catalog_digests.get(name))
                {
                    evidence.clone_from(digest);
                }
            }
            CandidateInput {
                candidate: &one.candidate,
                semantic_gates,
                durability: one.matched.durability.clone(),
                delivery: one.matched.delivery.clone(),
                runs: list
                    .iter()
                    .enumerate()
                    .map(|(index, run)| EvidenceRun {
                        digest: &run.digest,
                        workload_digest: digests.map_or("", |digests| digests[index].as_str()),
                        document: &run.document,
                    })
                    .collect(),
            }
        })
        .collect();
    let context = Context {
        id: "",
        touchstone_version: crate::VERSION,
        catalog_date: catalog.date(),
        catalog_digest: &catalog_digest,
        scenario_digest: &file.digest,
        seal,
        decided_at: &decided_at,
        review_by: &review_by,
        draws: DRAWS,
    };
    decide(&file.scenario, &inputs, &context)
}

/// When the decision counts as made: the end of the latest run, or the seal when nothing was measured.
fn decided_at(runs: &BTreeMap<String, Vec<StoredRun>>, seal: &Seal) -> String {
    let ends = runs.values().flatten().filter_map(|run| {
        let length_s =
            run.document.phases.end_ns.saturating_sub(run.document.phases.start_ns) / 1_000_000_000;
        Some(utc::parse(&run.document.started_at)? + length_s)
    });
    ends.max().map_or_else(|| seal.sealed_at.clone(), utc::format)
}

fn review_by(scenario: &Scenario, decided_at: &str) -> String {
    let days = (scenario.horizon.0 / 86_400e3 / 2.0).clamp(1.0, REVIEW_DAYS);
    let at = utc::parse(decided_at).unwrap_or(0) + days as u64 * 86_400;
    utc::format(at).chars().take(10).collect()
}

/// An id that depends on the evidence and the seed alone.
fn record_id(document: &DecisionDocument) -> String {
    let mut digests: Vec<&str> = document.evidence.iter().map(|entry| entry.digest.as_str()).collect();
    digests.sort_unstable();
    let digest = sha256(format!("{} {}", document.seed, digests.join(" ")).as_bytes());
    format!("d-{}", digest.trim_start_matches("sha256:").get(..12).unwrap_or_default())
}

/// Lists all evidence in the document and gathers its content: the scenario, the catalog files that gates rest on, the
/// runs, their fingerprints and event logs.
fn evidence(
    document: &mut DecisionDocument,
    file: &ScenarioFile,
    catalog: &Catalog,
    runs: &BTreeMap<String, Vec<StoredRun>>,
) -> Result<BTreeMap<String, EvidenceContent>, DecideError> {
    let mut content = BTreeMap::new();
    let mut entries: Vec<EvidenceEntry> = Vec::new();
    let mut add = |kind: &str, extension: &str, digest: String, level, simulated, label: String, what| {
        if content.insert(digest.clone(), what).is_none() {
            let path = evidence_path(&digest, kind, extension);
            entries.push(EvidenceEntry { digest, kind: kind.to_owned(), path, level, simulated, label });
        }
    };
    let scenario = EvidenceContent::Bytes(file.bytes.clone());
    add(
        "scenario",
        "yaml",
        file.digest.clone(),
        Level::P0,
        false,
        format!("scenario {}", document.scenario),
        scenario,
    );
    for (name, bytes) in catalog.files() {
        let digest = sha256(bytes);
        let used =
            document.candidates.iter().flat_map(|one| &one.gates).any(|gate| gate.evidence.contains(&digest))
                || document.statements.iter().any(|statement| statement.evidence.contains(&digest));
        // The file with the catalog's date belongs to every decision: it is what the others are read with.
        if used || name == CATALOG_FILE {
            let label = format!("{CATALOG_LABEL}{name}");
            add("catalog", "yaml", digest, Level::P0, false, label, EvidenceContent::Bytes(bytes.clone()));
        }
    }
    for (candidate, list) in runs {
        for run in list {
            let (level, simulated) = (run.document.level, run.document.simulated);
            let label = format!("run {} of {candidate}, {}", run.document.run, run.document.workload.arrival);
            let path = run.dir.join(touchstone_records::store::RUN);
            add("run", "json", run.digest.clone(), level, simulated, label, EvidenceContent::File(path));
            for (kind, name) in [
                ("fingerprint", touchstone_records::store::FINGERPRINT),
                ("event-log", touchstone_records::event_log::FILE),
            ] {
                let path = run.dir.join(name);
                if !path.exists() {
                    continue;
                }
                let extension = if kind == "fingerprint" { "json" } else { "tslog" };
                let label = format!("{kind} of run {}", run.document.run);
                add(kind, extension, digest_of(&path)?, level, simulated, label, EvidenceContent::File(path));
            }
        }
    }
    document.evidence = entries;
    Ok(content)
}
