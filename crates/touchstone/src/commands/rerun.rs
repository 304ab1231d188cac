//! `touchstone rerun`: a recorded bench once more, with its own words and seed.

use anyhow::Context as _;
use serde_json::Value;
use touchstone_flow::mix::MIX_SEED_LABEL;
use touchstone_model::RunDocument;
use touchstone_records::RunStore;

use super::bench;
use super::series::{COMMAND_LABEL, DROPPED_LABEL};
use crate::args::{Command, RerunArgs, Stop, parse};
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::ui::Ui;

/// Repeats a run; says what could not be restored.
pub(crate) fn run(args: &RerunArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    let store = RunStore::new(&args.out.store());
    let document = store.load(&args.id).context("the run cannot be repeated")?;
    let words = words(&document)?;
    let mut line = vec!["touchstone".to_owned()];
    line.extend(words);
    // The seeds of a mix's classes follow from the mix's.
    let mixed = document.workload.parameters.get(MIX_SEED_LABEL).and_then(Value::as_u64);
    line.extend(["--seed".to_owned(), mixed.unwrap_or(document.workload.seed).to_string()]);
    line.extend(["--out".to_owned(), args.out.root().display().to_string()]);
    if args.json {
        line.extend(["--json".to_owned(), "-".to_owned()]);
    }
    let request = match parse(line) {
        Ok(request) => request,
        Err(Stop::Failure(_, failure)) => return Err(failure.into()),
        Err(Stop::Clap(error)) => {
            return Err(Failure::usage("the recorded command line is not understood by this version")
                .because(error.to_string())
                .hint("it was recorded by another version of touchstone")
                .into());
        }
    };
    let Command::Bench(bench) = request.command else {
        return Err(Failure::usage("the run was not made by `bench`").into());
    };
    for dropped in strings(&document, DROPPED_LABEL) {
        ui.warning(&format!(
            "not restored: {dropped} (it may hold a secret and is never recorded); give it to `touchstone bench` by hand where the target needs it"
        ));
    }
    if document.touchstone_version != env!("CARGO_PKG_VERSION") {
        ui.warning(&format!(
            "the run was made by touchstone {}, this is {}",
            document.touchstone_version,
            env!("CARGO_PKG_VERSION")
        ));
    }
    ui.note(&format!("repeating {}: {}", document.run, strings(&document, COMMAND_LABEL).join(" ")));
    bench::run(&bench, ui)
}

fn words(document: &RunDocument) -> Result<Vec<String>, Failure> {
    let words = strings(document, COMMAND_LABEL);
    if !words.is_empty() {
        return Ok(words);
    }
    let failure = Failure::usage(format!("run `{}` does not say by which command it was made", document.run));
    Err(match document.workload.parameters.get("scenario") {
        Some(_) => failure.hint("it belongs to a scenario: `touchstone run FILE` repeats that with its seed"),
        None => {
            failure.hint("runs of `touchstone bench` can be repeated; those of a search belong to the search")
        }
    })
}

/// A list of texts among the parameters of a run.
fn strings(document: &RunDocument, name: &str) -> Vec<String> {
    let list = document.workload.parameters.get(name).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
