//! `touchstone bench`: one run against one target.

use std::collections::BTreeMap;

use anyhow::Context as _;
use touchstone_drivers::Secret;
use touchstone_flow::bench::{BenchRequest, Benched, Payload, bench};
use touchstone_flow::inside::TargetPid;
use touchstone_flow::launch;
use touchstone_flow::prompts::Tokenizer;
use touchstone_model::run::Outcome;
use touchstone_model::{FindingCode, Protocol, RunDocument, Severity};
use touchstone_report::{html, junit, terminal};

use super::mix;
use super::series;
use super::watch::{Watcher, control_by_ctrl_c};
use crate::args::{BenchArgs, BenchWorkload, Sink};
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::ui::{self, Ui};

/// Makes the run, shows it, and says by the exit code how it went.
pub(crate) fn run(args: &BenchArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    let mut request = request(args)?;
    if args.seed.is_none() {
        ui.note(&format!("seed {} (give it with --seed to repeat the schedule)", request.plan.seed));
    }
    if !args.classes.is_empty() {
        return mix::run(args, request, ui);
    }
    if args.series.is_series() {
        return series::run(args, &request, ui);
    }
    // Before anything is loaded: a baseline that is not there must not cost the run.
    series::baseline(args, &[])?;
    let engine = launched(args, &mut request)?;
    let control = control_by_ctrl_c()?;
    let benched = {
        let mut watcher = Watcher::new(ui);
        series::warm(args, &mut request, &mut watcher, &control)?;
        bench(&request, &mut watcher, &control)?
    };
    drop(engine);
    show(args, &benched, ui)?;
    let runs = std::slice::from_ref(&benched.document);
    let comparison = series::baseline(args, runs)?;
    if let Some(path) = &args.series.junit {
        ui::write_file(path, junit::junit(runs, comparison.as_ref()).as_bytes())?;
    }
    let data_taken = matches!(args.json, Some(Sink::Stdout));
    let worse = series::compared(args, comparison.as_ref(), data_taken, ui)?;
    Ok(code(args, &benched.document).combine(worse).combine(if is_recorded(&benched) {
        ExitCode::Done
    } else {
        ExitCode::BrokenEvidence
    }))
}

/// Launches the embedded engine where it is the target, and points the request at it.
pub(super) fn launched(
    args: &BenchArgs,
    request: &mut BenchRequest,
) -> anyhow::Result<Option<launch::Engine>> {
    if args.target.protocol != Protocol::Engine {
        return Ok(None);
    }
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let engine = launch::engine(&program, &args.target.host, request.plan.seed)?;
    request.target = engine.target.clone();
    request.inside.pid.get_or_insert(TargetPid::Launched(engine.pid()));
    Ok(Some(engine))
}

fn show(args: &BenchArgs, benched: &Benched, ui: &Ui) -> anyhow::Result<()> {
    let document = &benched.document;
    let data_taken = matches!(args.json, Some(Sink::Stdout));
    ui.summary(data_taken, |style| terminal::run_summary(document, style))?;
    // First what scripts wait for: a page that cannot be written must not cost them the run.
    if let Some(sink) = &args.json {
        ui.json_to(sink, document)?;
    }
    let page = args.html.clone().or_else(|| benched.dir.as_ref().map(|dir| dir.join("report.html")));
    if let Some(page) = page {
        ui::write_file(&page, html::run_report(std::slice::from_ref(document), ui.lang()).as_bytes())?;
        ui.note(&format!("report: {}", page.display()));
    }
    if let Some(dir) = &benched.dir {
        if args.parquet {
            super::runs::write_tables(dir, &document.run, args.log_tokens, ui);
        }
        if is_recorded(benched) {
            ui.note(&format!("recorded: {}", dir.display()));
        } else {
            ui.warning(&format!("the run could not be recorded in {}: see its findings", dir.display()));
        }
    }
    Ok(())
}

/// Whether the run's document is where it should be.
pub(super) fn is_recorded(benched: &Benched) -> bool {
    benched.dir.as_ref().is_none_or(|dir| dir.join(touchstone_records::store::RUN).is_file())
}

/// What the exit code says of a run.
pub(super) fn code(args: &BenchArgs, document: &RunDocument) -> ExitCode {
    let found = |code| document.findings.iter().any(|finding| finding.code == code);
    let interrupted = document.interrupted && !found(FindingCode::TooManyErrors);
    // Its figures are evidence against the target, but the run did not do what it was asked to.
    let failed = !document.valid || found(FindingCode::TargetFailed);
    // A limit that cannot be shown to hold was not met: the run was asked to show it.
    let met = document.slo.iter().all(|slo| slo.outcome == Outcome::Pass);
    let reached = |severity: Severity| document.worst_finding().is_some_and(|worst| worst >= severity);
    ExitCode::all([
        if interrupted { ExitCode::Interrupted } else { ExitCode::Done },
        if failed { ExitCode::RunFailed } else { ExitCode::Done },
        if met { ExitCode::Done } else { ExitCode::NotMet },
        if args.fail_on.is_some_and(reached) { ExitCode::NotMet } else { ExitCode::Done },
    ])
}

/// The request of a command line, with secrets and files read.
pub(super) fn request(args: &BenchArgs) -> anyhow::Result<BenchRequest> {
    let mut payload = Payload { connections: args.connections, ..Payload::default() };
    let (mut model, mut headers) = (None, Vec::new());
    match &args.workload {
        BenchWorkload::Inference {
            model: named,
            input_tokens,
            output_tokens,
            prefix,
            fit_tokens,
            tokenizer,
            cache,
            stream,
            headers: given,
        } => {
            payload.stream = *stream;
            payload.prefix = *prefix;
            payload.fit_tokens = *fit_tokens;
            payload.cache = *cache;
            if let Some(path) = tokenizer {
                let read = Tokenizer::read(path)
                    .map_err(|error| Failure::usage("the tokenizer cannot be used").because(error))?;
                payload.tokenizer = Some(read);
            }
            payload.input_tokens = *input_tokens;
            payload.output_tokens = *output_tokens;
            model.clone_from(named);
            headers.clone_from(given);
        }
        BenchWorkload::Cache { read_ratio, keys, value_bytes, pipeline } => {
            payload.read_ratio = *read_ratio;
            payload.keys = *keys;
            payload.value_bytes = *value_bytes;
            payload.pipeline = *pipeline;
        }
        BenchWorkload::Queue { message_bytes } => payload.message_bytes = *message_bytes,
    }
    let api_key = match &args.api_key_env {
        Some(variable) => {
            let value = std::env::var(variable).map_err(|_| {
                Failure::usage(format!("the environment variable `{variable}` is not set"))
                    .hint(format!("set it, as in `export {variable}=...`, or leave --api-key-env out"))
            })?;
            if value.trim().is_empty() {
                return Err(Failure::usage(format!("the environment variable `{variable}` is empty")).into());
            }
            Some(Secret::new(value.trim()))
        }
        None => None,
    };
    let ca_pem = match &args.ca_file {
        Some(path) => Some(std::fs::read(path).map_err(|error| {
            Failure::usage(format!("cannot read the certificates in `{}`", path.display())).because(error)
        })?),
        None => None,
    };
    let seed = args.seed.unwrap_or_else(fresh_seed);
    // 0 leaves the number of shards to the flow.
    let mut plan = args.plan(seed, args.shards.unwrap_or(0));
    let mut labels = labels(args);
    if let Some(path) = &args.trace {
        let read = touchstone_flow::trace::read(path).map_err(|error| {
            Failure::usage(format!("`{}` cannot be replayed", path.display())).because(error)
        })?;
        labels.extend(read.labels());
        let trace = std::sync::Arc::new(read.trace);
        plan.trace = trace.rows().iter().map(|row| row.at_ns).collect();
        if args.duration.is_none() {
            plan.duration_ns = touchstone_flow::trace::duration_ns(&trace, args.arrival);
        }
        payload.trace = Some(trace);
    }
    Ok(BenchRequest {
        target: args.target.clone(),
        model,
        plan,
        payload,
        ca_pem,
        headers,
        api_key,
        probe_ceiling: args.ceiling,
        inside: args.inside.clone(),
        store: args.record.then(|| args.out.store()),
        labels,
    })
}

/// By which words the run can be repeated, and without which flags.
fn labels(args: &BenchArgs) -> BTreeMap<String, serde_json::Value> {
    let mut labels = BTreeMap::new();
    let replayable = &args.replayable;
    if !replayable.words.is_empty() {
        labels.insert(series::COMMAND_LABEL.to_owned(), replayable.words.clone().into());
    }
    if !replayable.dropped.is_empty() {
        labels.insert(series::DROPPED_LABEL.to_owned(), replayable.dropped.clone().into());
    }
    labels
}

/// A seed that no earlier run had, small enough to be typed again.
fn fresh_seed() -> u64 {
    touchstone_net::wall_ns() / 1_000 % 1_000_000_000_000
}
