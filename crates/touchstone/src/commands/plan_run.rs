//! `touchstone plan-run`: what a bench with the same flags would do. Nothing is sent.

use serde::Serialize;
use touchstone_flow::bench::BenchRequest;
use touchstone_load::forecast::{BoundForecast, Forecast, forecast};
use touchstone_model::unit::{Millis, significant};
use touchstone_model::{Arrival, Family};
use touchstone_report::text::{Align, Table};

use super::bench::request;
use crate::args::{BenchArgs, Sink};
use crate::exit::ExitCode;
use crate::ui::Ui;

/// The format of `plan-run --json`.
const FORMAT: &str = "touchstone.plan-run/1";
/// Descriptors that are in use beside the connections.
const OWN_FILES: u64 = 64;

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    target: String,
    seed: u64,
    #[serde(flatten)]
    forecast: &'a Forecast,
    /// Connections at once that the load can need; null where answers decide and no bound was given.
    connections_at_most: Option<u64>,
    /// Files that this process may open, after it has raised its limit.
    open_files: Option<u64>,
    advice: Vec<String>,
}

/// Prints the forecast. A plan that cannot show what it was asked to show is the answer, not a failure: the code is 0.
pub(crate) fn run(args: &BenchArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    let request = request(args)?;
    let requests = (request.target.protocol.family() == Family::Inference).then(|| request.requests());
    let forecast = forecast(&request.plan, requests.as_ref());
    let open_files = touchstone_runner::file_limit();
    let connections = connections(&request);
    let document = Document {
        format: FORMAT,
        target: request.target.to_string(),
        seed: request.plan.seed,
        advice: advice(&forecast, connections, open_files),
        forecast: &forecast,
        connections_at_most: connections,
        open_files,
    };
    match &args.json {
        Some(Sink::Stdout) => ui.json(&document)?,
        sink => {
            ui.data(&text(&document))?;
            for advice in &document.advice {
                ui.hint(advice);
            }
            if let Some(sink) = sink {
                ui.json_to(sink, &document)?;
            }
        }
    }
    Ok(ExitCode::Done)
}

/// Connections that the load can need at once.
fn connections(request: &BenchRequest) -> Option<u64> {
    let bound = request.payload.connections.map(u64::from);
    match request.plan.arrival {
        Arrival::Closed { slots } => {
            Some(bound.map_or(u64::from(slots), |bound| bound.min(u64::from(slots))))
        }
        _ => bound.or(request.plan.max_in_flight.map(u64::from)),
    }
}

fn advice(forecast: &Forecast, connections: Option<u64>, open_files: Option<u64>) -> Vec<String> {
    let mut advice = Vec::new();
    for bound in forecast.bounds.iter().filter(|bound| bound.slo.is_some() && bound.reached == Some(false)) {
        if let Some(seconds) = bound.needs_seconds {
            advice.push(format!(
                "`{}` cannot be shown by this run: measure at least {}s, or repeat the run",
                bound.slo.as_deref().unwrap_or_default(),
                significant(seconds.ceil(), 6)
            ));
        }
    }
    if let (Some(connections), Some(files)) = (connections, open_files)
        && connections + OWN_FILES > files
    {
        advice.push(format!(
            "{connections} connections need more than the {files} files that may be open: raise the limit (`ulimit -Hn`, or LimitNOFILE of the service) to at least {}",
            connections + OWN_FILES
        ));
    }
    advice
}

fn text(document: &Document<'_>) -> String {
    let forecast = document.forecast;
    let count = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let time = |seconds: f64| Millis(seconds * 1e3).to_string();
    let about = if forecast.exact { "" } else { "about " };
    let mut lines = vec![
        format!("{} with {}, seed {}", document.target, forecast.arrival, document.seed),
        format!(
            "time        warm-up {}, measured {}, drain at most {}",
            time(forecast.warm_up_s),
            time(forecast.measured_s),
            time(forecast.drain_s)
        ),
        match forecast.operations {
            Some(_) => format!(
                "operations  {about}{} measured, {} in warm-up, at most {} in one second",
                count(forecast.operations),
                count(forecast.warm_up_operations),
                count(forecast.peak_per_second)
            ),
            None if forecast.closed => {
                "operations  as many as the answers allow: this loop is closed".to_owned()
            }
            None => "operations  more than 5,000,000 at a rate that changes: not counted".to_owned(),
        },
    ];
    if let (Some(input), Some(output)) = (forecast.input_tokens, forecast.output_tokens) {
        lines.push(format!("tokens      {input} in, {output} out at most"));
    }
    if let Some(share) = forecast.cacheable_share.filter(|share| *share > 0.0) {
        lines.push(format!("prompts     share {} of their tokens on purpose", percent(share)));
    }
    let mut out = lines.join("\n") + "\n";
    out.push_str(&format!("\n{}\n", "effective samples that a bound needs"));
    out.push_str(&bounds(forecast));
    if !forecast.stages.is_empty() {
        out.push_str(&format!("\n{}\n", "stages of the load"));
        out.push_str(&stages(forecast));
    }
    out
}

fn percent(share: f64) -> String {
    format!("{}%", significant(share * 100.0, 3))
}

fn bounds(forecast: &Forecast) -> String {
    let mut table = Table::new(&[
        ("limit", Align::Left),
        ("confidence", Align::Right),
        ("none over", Align::Right),
        ("1 over", Align::Right),
        ("2 over", Align::Right),
        ("time for it", Align::Right),
        ("this plan", Align::Left),
    ]);
    for bound in &forecast.bounds {
        let name = bound.slo.clone().unwrap_or_else(|| bound.statistic.to_string());
        let seconds = |bound: &BoundForecast| {
            bound.needs_seconds.map_or_else(|| "-".to_owned(), |s| format!("{}s", significant(s, 3)))
        };
        table.row(vec![
            name,
            percent(bound.confidence),
            bound.needs[0].to_string(),
            bound.needs[1].to_string(),
            bound.needs[2].to_string(),
            seconds(bound),
            match bound.reached {
                Some(true) => "enough, if neighbours are independent".to_owned(),
                Some(false) => "too few".to_owned(),
                None => "-".to_owned(),
            },
        ]);
    }
    lines(&table)
}

fn stages(forecast: &Forecast) -> String {
    let mut table =
        Table::new(&[("from", Align::Right), ("planned", Align::Right), ("operations", Align::Right)]);
    for stage in &forecast.stages {
        let planned =
            stage.per_second.map_or_else(|| "-".to_owned(), |rate| format!("{}/s", significant(rate, 4)));
        let arrow = if stage.returning { "↓ " } else { "" };
        table.row(vec![
            format!("{}s", significant(stage.from_s, 4)),
            format!("{arrow}{planned}"),
            stage.operations.to_string(),
        ]);
    }
    lines(&table)
}

fn lines(table: &Table) -> String {
    table.lines("").into_iter().map(|line| line + "\n").collect()
}
