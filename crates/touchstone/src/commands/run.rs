//! `touchstone run`: match, bench, decide, record, as one flow.

use anyhow::Context as _;
use touchstone_flow::decision::{DecideError, decide_and_record, seal};
use touchstone_flow::scenario::{Made, Matched, RunSettings, ScenarioFile, bench_all};
use touchstone_report::terminal::match_table;
use touchstone_runner::Control;

use super::watch::{Watcher, control_by_ctrl_c};
use super::{decide, matching, scenario};
use crate::args::{Folder, RunArgs, Sink};
use crate::exit::ExitCode;
use crate::ui::Ui;

/// Runs a scenario file.
pub(crate) fn run(args: &RunArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    let mut file = scenario::read(&args.file)?;
    if let Some(seed) = args.seed {
        file.scenario.measurement.seed = seed;
    }
    let catalog = scenario::catalog(&args.out)?;
    let matched = scenario::matched(&file, &catalog, &args.file)?;
    let flow =
        Flow { file: &file, catalog: &catalog, matched: &matched, out: &args.out, repeats: args.repeats };
    flow.run(args.json.as_ref(), ui, &control_by_ctrl_c()?)
}

/// A scenario that is ready to be run.
pub(crate) struct Flow<'a> {
    pub(crate) file: &'a ScenarioFile,
    pub(crate) catalog: &'a touchstone_catalog::Catalog,
    pub(crate) matched: &'a [Matched],
    pub(crate) out: &'a Folder,
    pub(crate) repeats: Option<u32>,
}

impl Flow<'_> {
    /// Shows the match, seals, benches, decides and records.
    pub(crate) fn run(&self, json: Option<&Sink>, ui: &Ui, control: &Control) -> anyhow::Result<ExitCode> {
        let data_taken = matches!(json, Some(Sink::Stdout));
        ui.summary(data_taken, |style| match_table(&matching::rows(self.matched, ui.lang()), style))?;
        // Criteria, anchors and preferences are fixed before any result is shown.
        let seal =
            seal(&self.file.scenario, self.out.root()).map_err(|error| decide::explained(error, self.out))?;
        ui.note(&format!(
            "sealed criteria and preferences: {}",
            seal.digest.get(..19).unwrap_or(&seal.digest)
        ));
        let settings = RunSettings {
            out: self.out.root().to_owned(),
            program: std::env::current_exe().context("cannot find this program's own file")?,
            repeats: self.repeats,
        };
        let made = {
            let mut watcher = Watcher::new(ui);
            bench_all(self.file, self.matched, &settings, &mut watcher, control)?
        };
        for one in &made {
            if let Some(line) = complaint(one) {
                ui.warning(&line);
            }
        }
        let decided =
            match decide_and_record(self.file, self.catalog, self.matched, self.out.root(), &[], ui.lang()) {
                Err(DecideError::NoRuns) if control.stopped() => {
                    ui.note("interrupted before the first run: there is nothing to decide");
                    return Ok(ExitCode::Interrupted);
                }
                decided => decided.map_err(|error| decide::explained(error, self.out))?,
            };
        decide::show(&decided, json, ui)?;
        Ok(if control.stopped() { ExitCode::Interrupted } else { ExitCode::Done })
    }
}

/// What is wrong with a run, in one line.
fn complaint(made: &Made) -> Option<String> {
    let document = &made.benched.document;
    let worst = document.findings.first().filter(|_| !document.valid)?;
    Some(format!(
        "run {} of {} (repeat {}) is invalid: {}; {}",
        document.run, made.candidate, made.repeat, worst.message, worst.advice
    ))
}
