//! `touchstone campaign`: a matrix of cells, each measured once, resumable.

use std::collections::BTreeMap;

use anyhow::Context as _;
use touchstone_flow::campaign::{Campaign, document_path, open, run as measure};
use touchstone_flow::scenario::ScenarioFile;
use touchstone_model::CampaignFile;
use touchstone_model::campaign::CellState;
use touchstone_report::{html, terminal};

use super::watch::{Watcher, control_by_ctrl_c};
use crate::args::{CampaignArgs, Sink};
use crate::exit::ExitCode;
use crate::input;
use crate::ui::{self, Ui};

/// Measures what is missing, and shows everything.
pub(crate) fn run(args: &CampaignArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    let name = args.file.display().to_string();
    let file = CampaignFile::from_yaml(&name, &input::scenario_bytes(&args.file)?)?;
    let folder = args.file.parent().unwrap_or_else(|| std::path::Path::new("."));
    let mut scenarios = BTreeMap::new();
    for scenario in &file.scenarios {
        let path = folder.join(&scenario.file);
        let read = ScenarioFile::read(&path.display().to_string(), input::scenario_bytes(&path)?)?;
        scenarios.insert(scenario.name.clone(), (read.scenario, read.digest));
    }
    let campaign = Campaign {
        file,
        scenarios,
        out: args.out.root().to_owned(),
        program: std::env::current_exe().context("cannot find this program's own file")?,
    };
    let path = document_path(&campaign.out, &campaign.file.name);
    let (document, interrupted) = if args.show {
        (open(&campaign)?, false)
    } else {
        let control = control_by_ctrl_c()?;
        let mut watcher = Watcher::new(ui);
        let document = measure(&campaign, &mut watcher, &control)?;
        (document, control.stopped())
    };
    let data_taken = matches!(args.json, Some(Sink::Stdout));
    ui.summary(data_taken, |style| terminal::campaign_summary(&document, style))?;
    if let Some(sink) = &args.json {
        ui.json_to(sink, &document)?;
    }
    let page = args.html.clone().or_else(|| (!args.show).then(|| path.with_file_name("report.html")));
    if let Some(page) = page {
        ui::write_file(&page, html::campaign_report(&document, ui.lang()).as_bytes())?;
        ui.note(&format!("report: {}", page.display()));
    }
    if !args.show {
        ui.note(&format!("recorded: {} (the same command goes on where this ended)", path.display()));
    }
    let nothing = document.cells.iter().all(|cell| cell.state == CellState::Missing);
    Ok(ExitCode::all([
        if interrupted { ExitCode::Interrupted } else { ExitCode::Done },
        if nothing && !args.show { ExitCode::RunFailed } else { ExitCode::Done },
    ]))
}
