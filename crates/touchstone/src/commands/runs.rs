//! `touchstone runs`: what was recorded, complete or not.

mod export;

use std::path::Path;

use touchstone_records::event_log::{self, Tail};
use touchstone_records::export::{OPERATIONS_FILE, TOKENS_FILE, Table, TableFormat, export_to_file};
use touchstone_records::recover::Recovery;
use touchstone_records::{CheckOutcome, RunEntry, RunState, RunStore, StoreError};
use touchstone_report::terminal;
use touchstone_report::text::{Align, Table as TextTable};

use crate::args::{RunsAction, RunsArgs};
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::ui::Ui;

/// Does what was asked for.
pub(crate) fn run(args: &RunsArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    let store = RunStore::new(&args.out.store());
    match &args.action {
        RunsAction::List => list(&store, args.json, ui),
        RunsAction::Show(id) => show(&store, id, args.json, ui),
        RunsAction::Verify(id) => verify(&store, id, args.json, ui),
        RunsAction::Export { id, table, format, to, stdout } => {
            export::run(&store, id, (*table, *format), (to.as_deref(), *stdout), ui)
        }
    }
    .map_err(|error| match error.downcast::<StoreError>() {
        Ok(error) => explained(error),
        Err(error) => error,
    })
}

fn explained(error: StoreError) -> anyhow::Error {
    let hint = match &error {
        StoreError::Unknown { candidates, .. } | StoreError::Ambiguous { candidates, .. }
            if !candidates.is_empty() =>
        {
            format!("there are {}", candidates.join(", "))
        }
        StoreError::Unknown { .. } => {
            "`touchstone runs list` shows what there is; --out names the folder".to_owned()
        }
        _ => "`touchstone runs list` shows the state of every run".to_owned(),
    };
    let code = match &error {
        StoreError::Unknown { .. } | StoreError::Ambiguous { .. } => ExitCode::BadInput,
        _ => ExitCode::BrokenEvidence,
    };
    let message = error.to_string();
    let failure = Failure::new(code, message).hint(hint);
    match std::error::Error::source(&error).map(ToString::to_string) {
        Some(cause) => failure.because(cause).into(),
        None => failure.into(),
    }
}

fn state(state: &RunState) -> (&'static str, String) {
    match state {
        RunState::Complete => ("complete", String::new()),
        RunState::Running { operations_read } => ("running", format!("{operations_read} operations so far")),
        RunState::Incomplete { operations_read } => {
            ("incomplete", format!("{operations_read} operations survived"))
        }
        RunState::Broken { why } => ("broken", why.clone()),
    }
}

fn entry_json(entry: &RunEntry) -> serde_json::Value {
    let (word, detail) = state(&entry.state);
    serde_json::json!({
        "run": entry.id,
        "state": word,
        "detail": detail,
        "started_at": entry.started_at,
        "target": entry.target,
        "arrival": entry.arrival,
        "level": entry.level,
        "simulated": entry.simulated,
        "valid": entry.valid,
        "findings": entry.findings,
    })
}

fn list(store: &RunStore, json: bool, ui: &Ui) -> anyhow::Result<ExitCode> {
    let mut entries = store.list()?;
    entries.reverse();
    if json {
        let runs: Vec<_> = entries.iter().map(entry_json).collect();
        ui.json(&serde_json::json!({ "format": "touchstone.runs/1", "runs": runs }))?;
        return Ok(ExitCode::Done);
    }
    if entries.is_empty() {
        ui.note("no run is recorded here; `touchstone bench` makes one");
        return Ok(ExitCode::Done);
    }
    let mut table = TextTable::new(&[
        ("run", Align::Left),
        ("started", Align::Left),
        ("state", Align::Left),
        ("level", Align::Left),
        ("target", Align::Left),
        ("arrival", Align::Left),
    ]);
    for entry in &entries {
        let (word, _) = state(&entry.state);
        let validity = if entry.valid == Some(false) { ", INVALID" } else { "" };
        let simulated = if entry.simulated == Some(true) { ", simulated" } else { "" };
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        table.row(vec![
            entry.id.clone(),
            text(&entry.started_at),
            format!("{word}{validity}{simulated}"),
            entry.level.map_or_else(|| "-".to_owned(), |level| level.to_string()),
            text(&entry.target),
            text(&entry.arrival),
        ]);
    }
    ui.data(&(table.lines("").join("\n") + "\n"))?;
    Ok(ExitCode::Done)
}

fn show(store: &RunStore, id: &str, json: bool, ui: &Ui) -> anyhow::Result<ExitCode> {
    let run = store.resolve(id)?;
    match store.load(&run) {
        Ok(document) if json => ui.json(&document)?,
        Ok(document) => ui.data(&terminal::run_summary(&document, &ui.style()))?,
        Err(StoreError::Incomplete { .. }) => return show_incomplete(store, &run, json, ui),
        Err(error) => return Err(error.into()),
    }
    if store.verify(&run)?.is_ok() {
        return Ok(ExitCode::Done);
    }
    ui.warning(&format!("the files of run {run} were changed after it was made"));
    ui.hint(&format!("`touchstone runs verify {run}` shows which"));
    Ok(ExitCode::BrokenEvidence)
}

/// What is left of a run that was ended before its document was written.
fn show_incomplete(store: &RunStore, run: &str, json: bool, ui: &Ui) -> anyhow::Result<ExitCode> {
    let recovery = store.recover(run)?;
    if json {
        ui.json(&recovered_json(run, &recovery))?;
        return Ok(ExitCode::Done);
    }
    ui.data(&recovered_text(run, &recovery))?;
    ui.hint("these figures come from the event log alone; they are no evidence for a decision");
    Ok(ExitCode::Done)
}

fn recovered_text(run: &str, recovery: &Recovery) -> String {
    let mut lines = vec![format!("run {run} is INCOMPLETE: it was ended before its document was written")];
    if let Some(manifest) = &recovery.manifest {
        let simulated = if manifest.simulated { ", SIMULATED" } else { "" };
        let (target, arrival) = (&manifest.target.target, &manifest.workload.arrival);
        lines.push(format!("  {target} with {arrival}, started {}{simulated}", manifest.started_at));
    }
    lines.push(format!(
        "  {} operations survived; of {} measured ones {} completed and {} failed",
        recovery.operations, recovery.measured, recovery.completed, recovery.failed
    ));
    let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    for (metric, q) in &recovery.metrics {
        lines.push(format!(
            "  {metric} (ms): p50 {}, p90 {}, p99 {}, max {}; n {}",
            figure(q.p50),
            figure(q.p90),
            figure(q.p99),
            figure(q.max),
            q.n
        ));
    }
    for failure in recovery.failures.values() {
        let kind = failure.entry.as_ref().map_or("unknown", |entry| entry.kind.as_str());
        lines.push(format!("  failure {kind}: {}", failure.count));
    }
    if let Tail::Torn { bytes, .. } = &recovery.tail {
        lines.push(format!("  the last {bytes} bytes of the log are torn"));
    }
    lines.join("\n") + "\n"
}

fn recovered_json(run: &str, recovery: &Recovery) -> serde_json::Value {
    let metrics: serde_json::Map<String, serde_json::Value> = recovery
        .metrics
        .iter()
        .map(|(metric, q)| {
            let value =
                serde_json::json!({ "n": q.n, "p50": q.p50, "p90": q.p90, "p99": q.p99, "max": q.max });
            (metric.to_string(), value)
        })
        .collect();
    serde_json::json!({
        "format": "touchstone.recovery/1",
        "run": run,
        "state": "incomplete",
        "operations": recovery.operations,
        "measured": recovery.measured,
        "completed": recovery.completed,
        "failed": recovery.failed,
        "output_tokens": recovery.output_tokens,
        "seconds": recovery.seconds,
        "metrics": metrics,
    })
}

fn verify(store: &RunStore, id: &str, json: bool, ui: &Ui) -> anyhow::Result<ExitCode> {
    let run = store.resolve(id)?;
    let report = store.verify(&run)?;
    let rows: Vec<(&str, &str, &String)> = report
        .checks
        .iter()
        .map(|check| match &check.outcome {
            CheckOutcome::Ok(what) => (check.name, "ok", what),
            CheckOutcome::Failed(what) => (check.name, "FAILED", what),
            CheckOutcome::Absent(what) => (check.name, "absent", what),
        })
        .collect();
    if json {
        let checks: Vec<_> = rows
            .iter()
            .map(|(name, outcome, what)| serde_json::json!({ "check": name, "outcome": outcome.to_lowercase(), "detail": what }))
            .collect();
        ui.json(&serde_json::json!({ "format": "touchstone.verification/1", "run": run, "ok": report.is_ok(), "checks": checks }))?;
    } else {
        let lines: Vec<String> =
            rows.iter().map(|(name, outcome, what)| format!("{outcome:<7} {name}: {what}\n")).collect();
        ui.data(&lines.concat())?;
    }
    Ok(if report.is_ok() { ExitCode::Done } else { ExitCode::BrokenEvidence })
}

/// Writes the tables of a run beside it. A table is derived and can be made again, so a failure is told and no more.
pub(super) fn write_tables(dir: &Path, run: &str, tokens: bool, ui: &Ui) {
    let log = dir.join(event_log::FILE);
    let mut tables = vec![(Table::Operations, OPERATIONS_FILE)];
    if tokens {
        tables.push((Table::Tokens, TOKENS_FILE));
    }
    for (table, name) in tables {
        let to = dir.join(name);
        match export_to_file(&log, table, TableFormat::Parquet, &to) {
            Ok(exported) => {
                ui.note(&format!("{} rows: {}", exported.rows, to.display()));
                export::tell(run, table, &exported, ui);
            }
            Err(error) => {
                ui.warning(&format!("{} cannot be written: {error}", to.display()));
                ui.hint(&format!("`touchstone runs export {run} --format parquet` makes it again"));
            }
        }
    }
}
