//! `touchstone search`: the limits of one target by adaptive search over its load.

use touchstone_flow::search::{SearchRequest, search};
use touchstone_model::sweep::Ending;
use touchstone_report::{html, terminal};

use super::bench::{launched, request};
use super::watch::{Watcher, control_by_ctrl_c};
use crate::args::{SearchArgs, Sink};
use crate::exit::ExitCode;
use crate::ui::{self, Ui};

/// Searches, shows the limits and the curve, and says by the exit code how it went.
pub(crate) fn run(args: &SearchArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    let mut bench = request(&args.bench)?;
    if args.bench.seed.is_none() {
        ui.note(&format!("seed {} (give it with --seed to repeat the search's schedules)", bench.plan.seed));
    }
    let engine = launched(&args.bench, &mut bench)?;
    let control = control_by_ctrl_c()?;
    let request =
        SearchRequest { bench, plan: args.plan.clone(), process: args.process, budget: args.budget };
    let searched = {
        let mut watcher = Watcher::new(ui);
        search(&request, &mut watcher, &control)?
    };
    drop(engine);
    let document = &searched.document;
    let data_taken = matches!(args.bench.json, Some(Sink::Stdout));
    ui.summary(data_taken, |style| terminal::sweep_summary(document, style))?;
    if let Some(sink) = &args.bench.json {
        ui.json_to(sink, document)?;
    }
    let page = args.bench.html.clone().or_else(|| searched.dir.as_ref().map(|dir| dir.join("report.html")));
    if let Some(page) = page {
        ui::write_file(&page, html::sweep_report(document, ui.lang()).as_bytes())?;
        ui.note(&format!("report: {}", page.display()));
    }
    if let Some(dir) = &searched.dir {
        ui.note(&format!("recorded: {}", dir.display()));
    }
    let worst = document.findings.iter().map(|finding| finding.severity).max();
    let reached = args.bench.fail_on.is_some_and(|limit| worst.is_some_and(|worst| worst >= limit));
    let nothing = document.probes.iter().all(|probe| !probe.valid);
    Ok(ExitCode::all([
        if document.ended == Ending::Interrupted { ExitCode::Interrupted } else { ExitCode::Done },
        if nothing { ExitCode::RunFailed } else { ExitCode::Done },
        if reached { ExitCode::NotMet } else { ExitCode::Done },
    ]))
}
