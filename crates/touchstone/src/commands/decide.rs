//! `touchstone decide`: the verdict over the stored runs of a scenario.

use touchstone_flow::decision::{DecideError, Decided, decide_and_record, recompute};
use touchstone_flow::explain::open;
use touchstone_report::terminal;

use super::scenario;
use crate::args::{DecideArgs, Folder, Sink};
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::ui::Ui;

/// Decides, records and shows; a record in place of a scenario is recomputed from its own evidence.
pub(crate) fn run(args: &DecideArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    if args.file.join("decision.json").is_file() {
        return recomputed(args, ui);
    }
    let mut file = scenario::read(&args.file)?;
    if let Some(seed) = args.seed {
        file.scenario.measurement.seed = seed;
    }
    let catalog = scenario::catalog(&args.out)?;
    let matched = scenario::matched(&file, &catalog, &args.file)?;
    let decided = decide_and_record(&file, &catalog, &matched, args.out.root(), &args.runs, ui.lang())
        .map_err(|error| explained(error, &args.out))?;
    show(&decided, args.json.as_ref(), ui)?;
    Ok(ExitCode::Done)
}

/// Decides once more over a record's evidence and compares with what was decided.
fn recomputed(args: &DecideArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    let broken = |error: &dyn std::error::Error| {
        Failure::new(
            ExitCode::BrokenEvidence,
            format!("cannot recompute the record in `{}`", args.file.display()),
        )
        .because(error.to_string())
        .hint("`touchstone explain RECORD` checks every digest")
    };
    let record = open(&args.file).map_err(|error| broken(&error))?;
    if let Some(problem) = record.problems.first() {
        return Err(Failure::new(
            ExitCode::BrokenEvidence,
            format!("evidence of the record does not hold: {} {}", problem.path, problem.digest),
        )
        .hint("`touchstone explain RECORD` names everything that was changed")
        .into());
    }
    let document = recompute(&record.document, &record.dir).map_err(|error| broken(&error))?;
    let data_taken = matches!(args.json, Some(Sink::Stdout));
    ui.summary(data_taken, |style| terminal::decision(&document, style))?;
    if let Some(sink) = &args.json {
        ui.json_to(sink, &document)?;
    }
    if document == record.document {
        ui.note("recomputed from the recorded evidence: the decision is the same");
        Ok(ExitCode::Done)
    } else {
        ui.warning(&format!(
            "recomputed from the recorded evidence, the decision differs: it was made by touchstone {}, this is {}",
            record.document.touchstone_version, document.touchstone_version
        ));
        Ok(ExitCode::BrokenEvidence)
    }
}

/// Gives errors of deciding their exit codes and hints.
pub(crate) fn explained(error: DecideError, out: &Folder) -> anyhow::Error {
    let (code, hint) = match &error {
        DecideError::Broken { .. } => (
            ExitCode::BrokenEvidence,
            "`touchstone runs verify ID` shows what was changed; measure again".to_owned(),
        ),
        DecideError::NoRuns => (
            ExitCode::BadInput,
            format!(
                "`touchstone run FILE` measures the candidates first; runs are looked for in {}",
                out.store().display()
            ),
        ),
        _ => (ExitCode::BadInput, "check the folder given with --out".to_owned()),
    };
    let message = error.to_string();
    let failure = Failure::new(code, message).hint(hint);
    match std::error::Error::source(&error).map(ToString::to_string) {
        Some(cause) => failure.because(cause).into(),
        None => failure.into(),
    }
}

/// Shows a decision and says where its record is.
pub(crate) fn show(decided: &Decided, json: Option<&Sink>, ui: &Ui) -> anyhow::Result<()> {
    let data_taken = matches!(json, Some(Sink::Stdout));
    ui.summary(data_taken, |style| terminal::decision(&decided.document, style))?;
    let dir = decided.dir.display();
    ui.note(&format!("record: {dir}/record.md"));
    ui.note(&format!("report: {dir}/report.html"));
    ui.note(&format!("unfold any statement with: touchstone explain {dir} s1"));
    if let Some(sink) = json {
        ui.json_to(sink, &decided.document)?;
    }
    Ok(())
}
