//! `touchstone bench --class ..`: several classes of load on one target at once.

use touchstone_flow::bench::{BenchRequest, Benched};
use touchstone_flow::mix::{CLASS_LABEL, Class, MIX_CLASSES_LABEL, MIX_LABEL, MIX_SEED_LABEL, bench_mix};
use touchstone_model::RunDocument;
use touchstone_model::comparison::{RUNS_FORMAT, RunSet};
use touchstone_report::{html, terminal};

use super::bench::{code, is_recorded, launched};
use super::watch::{Watcher, control_by_ctrl_c};
use crate::args::{BenchArgs, ClassArgs, Sink};
use crate::exit::ExitCode;
use crate::ui::{self, Ui};

/// Runs the classes together, and shows each by itself.
pub(crate) fn run(args: &BenchArgs, mut request: BenchRequest, ui: &Ui) -> anyhow::Result<ExitCode> {
    let engine = launched(args, &mut request)?;
    let control = control_by_ctrl_c()?;
    let mix = touchstone_records::id::new_id("m");
    let classes: Vec<Class> =
        args.classes.iter().map(|class| class_of(args, class, &request, &mix)).collect();
    let made = {
        let mut watcher = Watcher::new(ui);
        bench_mix(&classes, &mut watcher, &control)?
    };
    drop(engine);
    report(args, &made, ui)
}

fn class_of(args: &BenchArgs, class: &ClassArgs, request: &BenchRequest, mix: &str) -> Class {
    let mut request = request.clone();
    let seed = request.plan.seed;
    request.plan.arrival = class.arrival;
    request.plan.slos.clone_from(&class.slos);
    // By name, so that a further class changes nobody's schedule and prompts.
    request.plan.seed = touchstone_flow::mix::seed(seed, &class.name);
    request.payload.input_tokens = class.input_tokens;
    request.payload.output_tokens = class.output_tokens;
    request.payload.stream = class.stream;
    request.payload.prefix = class.prefix;
    // Ceilings that are measured at the same time would take the cores from each other.
    request.probe_ceiling = false;
    let all: Vec<String> =
        args.classes.iter().map(|class| format!("{} {}", class.name, class.arrival)).collect();
    request.labels.extend([
        (CLASS_LABEL.to_owned(), class.name.clone().into()),
        (MIX_LABEL.to_owned(), mix.into()),
        (MIX_CLASSES_LABEL.to_owned(), all.into()),
        (MIX_SEED_LABEL.to_owned(), seed.into()),
    ]);
    Class { name: class.name.clone(), request }
}

fn report(args: &BenchArgs, made: &[Benched], ui: &Ui) -> anyhow::Result<ExitCode> {
    let data_taken = matches!(args.json, Some(Sink::Stdout));
    let runs: Vec<RunDocument> = made.iter().map(|benched| benched.document.clone()).collect();
    for (class, run) in args.classes.iter().zip(&runs) {
        let name = &class.name;
        ui.summary(data_taken, |style| format!("{name}: {}\n", terminal::run_summary(run, style)))?;
    }
    let named: Vec<(&str, &RunDocument)> =
        args.classes.iter().map(|class| class.name.as_str()).zip(&runs).collect();
    ui.summary(data_taken, |style| terminal::mix_summary(&named, style))?;
    if let Some(sink) = &args.json {
        let set = RunSet {
            format: RUNS_FORMAT.to_owned(),
            runs: runs.clone(),
            comparison: None,
            cold_starts: Vec::new(),
        };
        ui.json_to(sink, &set)?;
    }
    if let Some(page) = &args.html {
        ui::write_file(page, html::run_report(&runs, ui.lang()).as_bytes())?;
    }
    let mut worst = ExitCode::Done;
    for benched in made {
        worst = worst.combine(code(args, &benched.document));
        if let Some(dir) = &benched.dir {
            // Every class's page shows the whole mix: none of them was alone.
            ui::write_file(&dir.join("report.html"), html::run_report(&runs, ui.lang()).as_bytes())?;
            ui.note(&format!("recorded: {}", dir.display()));
        }
        if !is_recorded(benched) {
            ui.warning(&format!("run {} could not be recorded: see its findings", benched.document.run));
            worst = worst.combine(ExitCode::BrokenEvidence);
        }
    }
    Ok(worst)
}
