//! Campaigns: every cell of a matrix measured once, whatever happens in between.
//!
//! The document on disk is the state. It is written after every cell, whole or not at all; starting again reads it, keeps the
//! cells whose digest is the same and whose runs are complete, and measures the rest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use touchstone_drivers::Secret;
use touchstone_model::campaign::{
    CampaignDocument, CampaignFile, CampaignTarget, Cell, CellFigures, CellState, FORMAT,
};
use touchstone_model::run::Outcome;
use touchstone_model::{MetricId, Protocol, RunDocument, Scenario, Severity, Statistic};
use touchstone_records::digest::sha256;
use touchstone_records::{FileError, RunState, RunStore, documents};
use touchstone_runner::Control;
use touchstone_stats::quantile::quantile;

use crate::bench::{BenchRequest, Observer, bench, store_root};
use crate::deploy::{Deploy, deploy};
use crate::launch;
use crate::scenario::{DEPLOY_LABEL, REPEAT_LABEL, payload, plan};
use crate::utc;

/// The parameter of a run that names its campaign.
pub const CAMPAIGN_LABEL: &str = "campaign";
/// The parameter of a run that names its cell.
pub const CELL_LABEL: &str = "cell";
/// How long a target of a cell may take to come up.
const LAUNCH: Duration = Duration::from_secs(1800);

/// A campaign that is ready to be run.
#[derive(Debug)]
pub struct Campaign {
    /// What is wanted.
    pub file: CampaignFile,
    /// The scenarios by name, with the digests of their files.
    pub scenarios: BTreeMap<String, (Scenario, String)>,
    /// The output folder.
    pub out: PathBuf,
    /// The program that contains the embedded engine.
    pub program: PathBuf,
}

/// The document of a campaign under an output folder.
#[must_use]
pub fn document_path(out: &Path, name: &str) -> PathBuf {
    store_root(out).join("campaigns").join(name).join("campaign.json")
}

/// What there is to do, or was done already: the cells of the file, with what the stored document knows of each.
///
/// # Errors
/// When the stored document cannot be read.
pub fn open(campaign: &Campaign) -> Result<CampaignDocument, FileError> {
    let path = document_path(&campaign.out, &campaign.file.name);
    let stored: Option<CampaignDocument> = documents::read(&path, FORMAT)?;
    let store = RunStore::new(&store_root(&campaign.out));
    let now = utc::now();
    let started_at = stored.as_ref().map_or_else(|| now.clone(), |stored| stored.started_at.clone());
    let known = stored.map(|stored| stored.cells).unwrap_or_default();
    let file = &campaign.file;
    let mut cells = Vec::new();
    for scenario in &file.scenarios {
        for model in &file.models {
            for hardware in &file.hardware {
                for engine in &file.engines {
                    let mut cell = Cell {
                        model: model.clone(),
                        scenario: scenario.name.clone(),
                        hardware: hardware.clone(),
                        engine: engine.clone(),
                        state: CellState::Missing,
                        why: Some("it has not been measured yet".to_owned()),
                        digest: String::new(),
                        runs: Vec::new(),
                        level: None,
                        figures: None,
                    };
                    cell.digest = digest(campaign, &cell);
                    let kept = known.iter().find(|kept| same(kept, &cell) && is_done(kept, &store));
                    cells.push(kept.cloned().unwrap_or(cell));
                }
            }
        }
    }
    Ok(CampaignDocument {
        format: FORMAT.to_owned(),
        name: file.name.clone(),
        touchstone_version: crate::VERSION.to_owned(),
        started_at,
        updated_at: now,
        cells,
    })
}

fn same(kept: &Cell, cell: &Cell) -> bool {
    kept.digest == cell.digest && key(kept) == key(cell)
}

fn key(cell: &Cell) -> String {
    [&cell.model, &cell.scenario, &cell.hardware, &cell.engine].map(String::as_str).join(" / ")
}

/// Whether a cell has its figures, and the runs they rest on are still there.
fn is_done(cell: &Cell, store: &RunStore) -> bool {
    cell.state != CellState::Missing
        && !cell.runs.is_empty()
        && cell.runs.iter().all(|run| matches!(store.entry(run).state, RunState::Complete))
}

fn target<'a>(campaign: &'a Campaign, cell: &Cell) -> Option<&'a CampaignTarget> {
    let fits = |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    campaign.file.targets.iter().find(|target| {
        fits(&target.model, &cell.model)
            && fits(&target.hardware, &cell.hardware)
            && fits(&target.engine, &cell.engine)
    })
}

/// The digest of what a cell is measured with.
fn digest(campaign: &Campaign, cell: &Cell) -> String {
    let scenario = campaign.scenarios.get(&cell.scenario).map(|(_, digest)| digest.as_str());
    let file = &campaign.file;
    let parts = serde_json::json!([
        key(cell),
        scenario,
        target(campaign, cell),
        file.repeats,
        file.duration,
        file.warm_up,
        file.drain
    ]);
    sha256(parts.to_string().as_bytes())
}

/// Measures every cell that is missing. Ctrl-C ends it after the run it falls in; starting again goes on.
///
/// # Errors
/// When the document cannot be read or written. A cell that cannot be measured is missing and says why.
pub fn run(
    campaign: &Campaign,
    observer: &mut dyn Observer,
    control: &Control,
) -> Result<CampaignDocument, FileError> {
    let path = document_path(&campaign.out, &campaign.file.name);
    let mut document = open(campaign)?;
    documents::write(&path, &document)?;
    let total = document.cells.len();
    let done = document.cells.iter().filter(|cell| cell.state != CellState::Missing).count();
    if done > 0 {
        observer.note(&format!("{done} of {total} cells are there already"));
    }
    for index in 0..total {
        if control.stopped() {
            break;
        }
        if document.cells[index].state != CellState::Missing {
            continue;
        }
        observer.note(&format!("cell {} of {total}: {}", index + 1, key(&document.cells[index])));
        let mut cell = document.cells[index].clone();
        measure(campaign, &mut cell, observer, control);
        if let Some(why) = &cell.why {
            observer.note(&format!("  missing: {why}"));
        }
        document.cells[index] = cell;
        document.updated_at = utc::now();
        documents::write(&path, &document)?;
    }
    Ok(document)
}

fn measure(campaign: &Campaign, cell: &mut Cell, observer: &mut dyn Observer, control: &Control) {
    let runs = runs(campaign, cell, observer, control);
    let (runs, why) = match runs {
        Ok(runs) => (runs, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    cell.runs = runs.iter().map(|run| run.run.clone()).collect();
    let valid: Vec<&RunDocument> = runs.iter().filter(|run| run.valid && !run.interrupted).collect();
    let invalid = runs.iter().find(|run| !run.valid).map(|run| {
        let grave = run.findings.iter().find(|finding| finding.severity == Severity::Invalid);
        grave.map_or_else(
            || "a run is invalid".to_owned(),
            |finding| format!("run {} is invalid: {}: {}", run.run, finding.code, finding.message),
        )
    });
    let why = why.or(invalid).or_else(|| {
        let short = valid.len() < runs.len() || runs.is_empty();
        short.then(|| "it was interrupted".to_owned())
    });
    if why.is_some() {
        cell.why = why;
        return;
    }
    let simulated = valid.iter().any(|run| run.simulated);
    cell.state = if simulated { CellState::Simulated } else { CellState::Measured };
    cell.why = None;
    cell.level = valid.iter().map(|run| run.level).min();
    cell.figures = Some(figures(&valid));
}

/// The runs of a cell.
fn runs(
    campaign: &Campaign,
    cell: &Cell,
    observer: &mut dyn Observer,
    control: &Control,
) -> Result<Vec<RunDocument>, String> {
    let chosen = target(campaign, cell).ok_or("no target in the file fits it")?;
    let (scenario, _) = campaign.scenarios.get(&cell.scenario).ok_or("its scenario was not read")?;
    if chosen.target.protocol.family() != scenario.family {
        return Err("the target is of another family than the scenario".to_owned());
    }
    let api_key = match &chosen.api_key_env {
        Some(variable) => {
            let value = std::env::var(variable).ok().filter(|value| !value.trim().is_empty());
            let value =
                value.ok_or_else(|| format!("the environment variable `{variable}` is not set or empty"))?;
            Some(Secret::new(value.trim()))
        }
        None => None,
    };
    let request = |repeat: u32| -> BenchRequest {
        let mut plan = plan(scenario, repeat);
        let file = &campaign.file;
        for (nanos, given) in [
            (&mut plan.duration_ns, file.duration),
            (&mut plan.warm_up_ns, file.warm_up),
            (&mut plan.drain_ns, file.drain),
        ] {
            if let Some(given) = given {
                *nanos = given.nanos();
            }
        }
        BenchRequest {
            model: chosen.ask_for.clone(),
            api_key: api_key.clone(),
            probe_ceiling: false,
            store: Some(store_root(&campaign.out)),
            labels: BTreeMap::from([
                (CAMPAIGN_LABEL.to_owned(), campaign.file.name.clone().into()),
                (CELL_LABEL.to_owned(), key(cell).into()),
                (REPEAT_LABEL.to_owned(), repeat.into()),
            ]),
            ..BenchRequest::new(chosen.target.clone(), plan, payload(scenario))
        }
    };
    let told = |error: &dyn std::error::Error| {
        let mut text = error.to_string();
        let mut next = error.source();
        while let Some(cause) = next {
            text += &format!(": {cause}");
            next = cause.source();
        }
        text
    };
    let log = document_path(&campaign.out, &campaign.file.name)
        .with_file_name(format!("{}.log", &cell.digest[7..19]));
    let deployed = match &chosen.launch {
        Some(command) => {
            let what = Deploy { command, number: 1, patience: LAUNCH, log: &log };
            Some(deploy(&what, &request(1), control).map_err(|error| told(&error))?)
        }
        None => None,
    };
    let id = touchstone_records::id::new_id("d");
    let mut made = Vec::new();
    for repeat in 1..=campaign.file.repeats.unwrap_or(scenario.measurement.repeats) {
        if control.stopped() {
            break;
        }
        let mut request = request(repeat);
        let engine = match chosen.target.protocol {
            Protocol::Engine => {
                let engine = launch::engine(&campaign.program, &chosen.target.host, request.plan.seed)
                    .map_err(|error| told(&error))?;
                request.target = engine.target.clone();
                request.labels.insert(DEPLOY_LABEL.to_owned(), touchstone_records::id::new_id("d").into());
                Some(engine)
            }
            _ => None,
        };
        if deployed.is_some() {
            request.labels.insert(DEPLOY_LABEL.to_owned(), id.clone().into());
        }
        made.push(bench(&request, observer, &control.child()).map_err(|error| told(&error))?.document);
        drop(engine);
    }
    Ok(made)
}

/// The chief figures: medians over runs.
fn figures(runs: &[&RunDocument]) -> CellFigures {
    let median = |of: &dyn Fn(&RunDocument) -> Option<f64>| -> Option<f64> {
        let values: Option<Vec<f64>> = runs.iter().map(|run| of(run)).collect();
        quantile(&values?, 0.5)
    };
    let at = |metric: MetricId, statistic: Statistic| {
        median(&move |run: &RunDocument| run.metrics.get(&metric)?.statistic(statistic))
    };
    let outcomes = runs.iter().flat_map(|run| run.slo.iter().map(|slo| slo.outcome));
    let worst = outcomes.reduce(|worst, one| match (worst, one) {
        (Outcome::Fail, _) | (_, Outcome::Fail) => Outcome::Fail,
        (Outcome::Pass, Outcome::Pass) => Outcome::Pass,
        _ => Outcome::Undetermined,
    });
    CellFigures {
        ttft_ms_p50: at(MetricId::Ttft, Statistic::P50),
        ttft_ms_p95: at(MetricId::Ttft, Statistic::P95),
        itl_ms_p95: at(MetricId::Itl, Statistic::P95),
        e2e_ms_p95: at(MetricId::E2e, Statistic::P95),
        throughput: median(&|run| run.rates.throughput),
        output_token_throughput: median(&|run| run.rates.output_tokens),
        error_rate: median(&|run| {
            (run.counts.intended > 0).then(|| run.counts.failed as f64 / run.counts.intended as f64)
        }),
        limits: worst,
    }
}
