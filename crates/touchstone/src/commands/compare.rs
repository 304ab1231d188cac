//! `touchstone compare`: recorded runs against others.

use touchstone_flow::compare::{CompareError, compare};
use touchstone_model::ComparisonDocument;
use touchstone_report::{html, junit, terminal};

use crate::args::{CompareArgs, Sink};
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::ui::{self, Ui};

/// Compares, and says what can be said.
pub(crate) fn run(args: &CompareArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    let root = args.out.store();
    let document = compare(&root, &args.runs, &args.against, args.terms).map_err(explained)?;
    let data_taken = matches!(args.json, Some(Sink::Stdout));
    ui.summary(data_taken, |style| terminal::comparison_summary(&document, style))?;
    if let Some(sink) = &args.json {
        ui.json_to(sink, &document)?;
    }
    if let Some(page) = &args.html {
        ui::write_file(page, html::comparison_report(&document, ui.lang()).as_bytes())?;
        ui.note(&format!("report: {}", page.display()));
    }
    if let Some(path) = &args.junit {
        ui::write_file(path, junit::junit(&[], Some(&document)).as_bytes())?;
    }
    Ok(if args.gate { gate(&document, ui) } else { ExitCode::Done })
}

/// The exit code of a comparison that is a gate.
pub(super) fn gate(document: &ComparisonDocument, ui: &Ui) -> ExitCode {
    let worse: Vec<String> = document
        .regressions()
        .map(|one| {
            let name = one
                .statistic
                .map_or_else(|| one.metric.to_string(), |statistic| format!("{}.{statistic}", one.metric));
            let word = if one.suspected { "suspected worse" } else { one.standing.as_str() };
            format!("{name} {word}")
        })
        .collect();
    if worse.is_empty() {
        return ExitCode::Done;
    }
    ui.warning(&format!("worse than what it is compared with: {}", worse.join(", ")));
    ExitCode::NotMet
}

/// An error with its exit code and what to do.
pub(super) fn explained(error: CompareError) -> anyhow::Error {
    let hint = match &error {
        CompareError::BothSides { .. } => "name other runs after `--against`",
        CompareError::Store(_) | CompareError::NoLabel { .. } => {
            "`touchstone runs list` shows what is recorded"
        }
    };
    Failure::new(ExitCode::BadInput, "the runs cannot be compared").hint(hint).because(error).into()
}
