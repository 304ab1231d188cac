//! `touchstone bench` with more than one run: repeats, a second target, fresh deploys; and what is done with the outcome.

use anyhow::Context as _;
use touchstone_flow::bench::{BenchRequest, Benched, Observer, bench};
use touchstone_flow::compare::{against, select};
use touchstone_flow::deploy::{Deploy, Deployed, deploy, steady_ms};
use touchstone_flow::launch;
use touchstone_flow::scenario::{CANDIDATE_LABEL, DEPLOY_LABEL, REPEAT_LABEL};
use touchstone_flow::warm::warm_up;
use touchstone_model::comparison::{ColdStart, RUNS_FORMAT, RunSet};
use touchstone_model::{ComparisonDocument, Protocol, RunDocument, Target};
use touchstone_records::RunStore;
use touchstone_report::{html, junit, terminal};
use touchstone_runner::Control;

use super::bench::{code, is_recorded};
use super::compare::{explained, gate};
use super::watch::{Watcher, control_by_ctrl_c};
use crate::args::{BenchArgs, Sink};
use crate::exit::ExitCode;
use crate::ui::{self, Ui};

/// The parameter of a run that holds the words by which it can be repeated.
pub(crate) const COMMAND_LABEL: &str = "command";
/// The parameter that names flags which are not among them.
pub(crate) const DROPPED_LABEL: &str = "command_without";

/// The comparison with a baseline, when one was asked for.
pub(super) fn baseline(args: &BenchArgs, runs: &[RunDocument]) -> anyhow::Result<Option<ComparisonDocument>> {
    if args.series.baseline.is_empty() {
        return Ok(None);
    }
    let store = RunStore::new(&args.out.store());
    let other = select(&store, &args.series.baseline).map_err(explained)?;
    let name = args.series.baseline.join(",");
    Ok(Some(against(&args.target.to_string(), runs, &name, &other, args.series.terms)))
}

/// Shows a comparison that came with a bench, and gives its exit code.
pub(super) fn compared(
    args: &BenchArgs,
    document: Option<&ComparisonDocument>,
    data_taken: bool,
    ui: &Ui,
) -> anyhow::Result<ExitCode> {
    let Some(document) = document else { return Ok(ExitCode::Done) };
    ui.summary(data_taken, |style| format!("\n{}", terminal::comparison_summary(document, style)))?;
    // A second target is asked about; a baseline is demanded.
    Ok(if args.series.baseline.is_empty() { ExitCode::Done } else { gate(document, ui) })
}

/// Warms the target up until it is steady where that was asked for, and says in the run how that went. Each run of a series
/// is warmed up anew: what stood idle in between may have gone cold.
pub(super) fn warm(
    args: &BenchArgs,
    request: &mut BenchRequest,
    watcher: &mut Watcher,
    control: &Control,
) -> anyhow::Result<()> {
    let Some(at_most) = args.warm_up_auto else { return Ok(()) };
    let warmed = warm_up(request, at_most.0 / 1e3, watcher, control)?;
    watcher.note(&format!(
        "warmed up for {:.0} s: {}",
        warmed.seconds,
        if warmed.steady { "steady" } else { "not steady within the limit" }
    ));
    request.labels.insert("warm_up_auto_s".to_owned(), warmed.seconds.into());
    request.labels.insert("warm_up_auto_steady".to_owned(), warmed.steady.into());
    Ok(())
}

/// Makes the series.
pub(super) fn run(args: &BenchArgs, request: &BenchRequest, ui: &Ui) -> anyhow::Result<ExitCode> {
    let series = &args.series;
    // Before anything is loaded: a baseline that is not there must not cost a series.
    baseline(args, &[])?;
    let control = control_by_ctrl_c()?;
    let mut made: Vec<(usize, Benched)> = Vec::new();
    let mut cold_starts = Vec::new();
    let targets: Vec<&Target> = std::iter::once(&args.target).chain(&series.versus).collect();
    let total = targets.len() as u32 * series.repeats * series.deploys;
    let mut watcher = Watcher::new(ui);
    'series: for number in 1..=series.deploys {
        let mut deployed = match &series.launch {
            Some(command) => {
                watcher.note(&format!("deploy {number} of {}: {command}", series.deploys));
                Some(launch_target(command, args, request, number, &control)?)
            }
            None => None,
        };
        let deploy_id = touchstone_records::id::new_id("d");
        for repeat in 1..=series.repeats {
            let mut order: Vec<usize> = (0..targets.len()).collect();
            if repeat % 2 == 0 {
                order.reverse();
            }
            for index in order {
                if control.stopped() {
                    break 'series;
                }
                watcher.note(&format!("run {} of {total}: {}", made.len() + 1, targets[index]));
                let id = deployed.as_ref().filter(|_| index == 0).map(|_| deploy_id.as_str());
                let place = Place { deploy: number, repeat, deployed: id };
                let benched = one(args, request, targets[index], place, &mut watcher, &control)?;
                if let Some(deployed) = deployed.as_mut().filter(|_| index == 0 && repeat == 1) {
                    deployed.cold.steady_ms = steady_ms(deployed.launched_ns, &benched.document);
                }
                made.push((index, benched));
            }
        }
        cold_starts.extend(deployed.map(|deployed| deployed.cold));
    }
    drop(watcher);
    report(args, made, cold_starts, ui)
}

/// Where a run stands in the series.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    deploy: u32,
    repeat: u32,
    /// The id of the deploy, where this series launched the target.
    deployed: Option<&'a str>,
}

fn launch_target(
    command: &str,
    args: &BenchArgs,
    request: &BenchRequest,
    number: u32,
    control: &Control,
) -> anyhow::Result<Deployed> {
    let log = args.out.root().join(".touchstone").join(format!("launch-{}-{number}.log", std::process::id()));
    let what = Deploy {
        command,
        number,
        patience: std::time::Duration::from_nanos(args.series.launch_timeout.nanos()),
        log: &log,
    };
    Ok(deploy(&what, request, control)?)
}

fn one(
    args: &BenchArgs,
    request: &BenchRequest,
    target: &Target,
    place: Place<'_>,
    watcher: &mut Watcher,
    control: &Control,
) -> anyhow::Result<Benched> {
    let mut request = request.clone();
    // Both targets meet the same schedule in a repeat, and no prompt comes twice.
    let offset = (place.deploy - 1) * args.series.repeats + place.repeat - 1;
    request.plan.seed = request.plan.seed.wrapping_add(u64::from(offset));
    request.probe_ceiling &= offset == 0;
    request.target = target.clone();
    request.labels.insert(REPEAT_LABEL.to_owned(), place.repeat.into());
    if args.series.versus.is_some() {
        request.labels.insert(CANDIDATE_LABEL.to_owned(), target.to_string().into());
    }
    let engine = if target.protocol == Protocol::Engine {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let engine = launch::engine(&program, &target.host, request.plan.seed)?;
        request.target = engine.target.clone();
        Some(engine)
    } else {
        None
    };
    if engine.is_some() {
        request.labels.insert(DEPLOY_LABEL.to_owned(), touchstone_records::id::new_id("d").into());
    } else if let Some(deploy) = place.deployed {
        request.labels.insert(DEPLOY_LABEL.to_owned(), deploy.into());
    }
    warm(args, &mut request, watcher, control)?;
    let benched = bench(&request, watcher, &control.child())?;
    drop(engine);
    Ok(benched)
}

fn report(
    args: &BenchArgs,
    made: Vec<(usize, Benched)>,
    cold_starts: Vec<ColdStart>,
    ui: &Ui,
) -> anyhow::Result<ExitCode> {
    let series = &args.series;
    let data_taken = matches!(args.json, Some(Sink::Stdout));
    let of = |wanted: usize| -> Vec<RunDocument> {
        made.iter()
            .filter(|(index, _)| *index == wanted)
            .map(|(_, benched)| benched.document.clone())
            .collect()
    };
    let comparison = match &series.versus {
        Some(versus) => {
            Some(against(&args.target.to_string(), &of(0), &versus.to_string(), &of(1), series.terms))
        }
        None => baseline(args, &of(0))?,
    };
    for (_, benched) in &made {
        ui.summary(data_taken, |style| terminal::run_summary(&benched.document, style) + "\n")?;
    }
    for cold in &cold_starts {
        ui.summary(data_taken, |_| cold_line(cold))?;
    }
    let mut worse = compared(args, comparison.as_ref(), data_taken, ui)?;
    let runs: Vec<RunDocument> = made.iter().map(|(_, benched)| benched.document.clone()).collect();
    if let Some(path) = &series.junit {
        ui::write_file(path, junit::junit(&runs, comparison.as_ref()).as_bytes())?;
    }
    if let Some(page) = &args.html {
        ui::write_file(page, html::run_report(&runs, ui.lang()).as_bytes())?;
    }
    for (_, benched) in &made {
        worse = worse.combine(code(args, &benched.document));
        if let Some(dir) = &benched.dir {
            let page = html::run_report(std::slice::from_ref(&benched.document), ui.lang());
            ui::write_file(&dir.join("report.html"), page.as_bytes())?;
        }
        if !is_recorded(benched) {
            ui.warning(&format!("run {} could not be recorded: see its findings", benched.document.run));
            worse = worse.combine(ExitCode::BrokenEvidence);
        }
    }
    if let Some(sink) = &args.json {
        let set = RunSet { format: RUNS_FORMAT.to_owned(), runs, comparison, cold_starts };
        ui.json_to(sink, &set)?;
    }
    Ok(worse)
}

/// What a deploy took, in one line.
fn cold_line(cold: &ColdStart) -> String {
    let stage = |value: Option<f64>| {
        value.map_or_else(|| "-".to_owned(), |ms| format!("{}ms", touchstone_model::unit::significant(ms, 3)))
    };
    format!(
        "deploy {}  port {}  healthy {}  cold_start (first token) {}  deploy_time (good answer) {}  steady {}\n",
        cold.deploy,
        stage(cold.port_ms),
        stage(cold.healthy_ms),
        stage(cold.first_token_ms),
        stage(cold.good_answer_ms),
        stage(cold.steady_ms)
    )
}
