//! The stages of a run whose load changes on purpose, for the terminal and for pages.

use touchstone_model::run::Stage;
use touchstone_model::{MetricId, RunDocument, Statistic};

use crate::svg::{Axis, Head, LineChart, Scale, Series, Shape};
use crate::words::Lang;
use crate::{number, reading};

/// Title of the section.
pub(crate) fn title(lang: Lang) -> &'static str {
    lang.pick("stages of the load", "负载阶段")
}

/// Heads of the table's columns.
pub(crate) fn heads(lang: Lang, run: &RunDocument) -> Vec<String> {
    let w = lang.words();
    let latency = reading::leading(run).map_or(w.latency, MetricId::as_str);
    let mut heads = vec![
        lang.pick("from", "起").to_owned(),
        lang.pick("planned", "目标").to_owned(),
        w.offered.to_owned(),
        w.throughput.to_owned(),
    ];
    if has_goodput(run) {
        heads.push(w.goodput.to_owned());
    }
    heads.extend([format!("{latency} p50"), "p95".to_owned(), "p99".to_owned()]);
    heads.extend([w.failed.to_owned(), "n".to_owned()]);
    heads
}

/// A row for each stage. A quantile without enough samples for a bound says what it needs, not a number that looks like
/// one.
pub(crate) fn rows(lang: Lang, run: &RunDocument) -> Vec<Vec<String>> {
    let rate = |value: f64| format!("{}/s", number::plain(value, 4));
    let none = || number::NONE.to_owned();
    let row = |stage: &Stage| {
        let arrow = if stage.returning { "↓ " } else { "" };
        let mut row = vec![
            format!("{}s", number::plain(stage.from_s, 4)),
            stage.planned.map_or_else(none, |planned| format!("{arrow}{}", rate(planned))),
            rate(stage.offered),
            rate(stage.throughput),
        ];
        if has_goodput(run) {
            row.push(stage.goodput.map_or_else(none, rate));
        }
        for statistic in [Statistic::P50, Statistic::P95, Statistic::P99] {
            row.push(quantile(lang, stage, statistic));
        }
        row.push(number::count(stage.failed));
        row.push(number::count(stage.latency.as_ref().map_or(0, |latency| latency.n)));
        row
    };
    run.stages.iter().map(row).collect()
}

fn quantile(lang: Lang, stage: &Stage, statistic: Statistic) -> String {
    let Some(latency) = &stage.latency else { return number::NONE.to_owned() };
    match latency.bounds.get(&statistic) {
        Some(bound) if latency.n_effective < bound.needs as f64 => {
            format!("{} {}", lang.pick("needs", "需要"), bound.needs)
        }
        _ => number::optional(latency.statistic(statistic), 4),
    }
}

fn has_goodput(run: &RunDocument) -> bool {
    run.stages.iter().any(|stage| stage.goodput.is_some())
}

/// Points of a chart over the offered load: (offered, value), on the way up and on the way back.
fn series(lang: Lang, run: &RunDocument, value: fn(&Stage) -> Option<f64>) -> Vec<Series> {
    let w = lang.words();
    let points = |returning: bool| {
        let stages = run.stages.iter().filter(|stage| stage.returning == returning);
        let mut points: Vec<_> = stages.map(|stage| (stage.offered, value(stage))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let turns = run.stages.iter().any(|stage| stage.returning);
    let up = if turns { lang.pick("up", "上行") } else { w.measured };
    let line = |name: &str, color, returning| Series {
        name: name.to_owned(),
        shape: Shape::Line,
        color,
        points: points(returning),
    };
    let mut all = vec![line(up, 0, false)];
    if turns {
        all.push(line(lang.pick("down", "下行"), 1, true));
    }
    all
}

/// Throughput and the median of the leading latency over the offered load; a target that keeps something of a high load
/// has two lines that differ.
pub(crate) fn charts(
    lang: Lang,
    run: &RunDocument,
    head: &dyn Fn(&str, String, String) -> Head,
) -> [String; 2] {
    let w = lang.words();
    let latency = reading::leading(run).map_or(w.latency, MetricId::as_str);
    let x = Axis { label: format!("{}, /s", w.offered), scale: scale(run), ..Axis::default() };
    let chart = |id: &str, title: String, description: String, label: String, series| {
        LineChart {
            head: head(id, title, description),
            x: x.clone(),
            y: Axis { label, ..Axis::default() },
            series,
            legend: true,
            empty: w.no_data.to_owned(),
            ..LineChart::default()
        }
        .render()
    };
    [
        chart(
            "stages-throughput",
            lang.pick("throughput over offered load", "吞吐量与计划负载").to_owned(),
            lang.pick("Completions per second in each stage.", "每个阶段内每秒完成的操作数。").to_owned(),
            format!("{}, /s", w.throughput),
            series(lang, run, |stage| Some(stage.throughput)),
        ),
        chart(
            "stages-latency",
            lang.pick(format!("{latency} over offered load"), format!("{latency} 与计划负载")),
            lang.pick(
                format!("Median {latency} of the operations intended in each stage."),
                format!("每个阶段内操作的 {latency} 中位数。"),
            ),
            format!("{latency} p50, ms"),
            series(lang, run, |stage| stage.latency.as_ref()?.p50),
        ),
    ]
}

/// Loads over more than two orders of magnitude are told apart on a logarithmic axis only.
fn scale(run: &RunDocument) -> Scale {
    let offered = || run.stages.iter().map(|stage| stage.offered).filter(|offered| *offered > 0.0);
    match (offered().reduce(f64::min), offered().reduce(f64::max)) {
        (Some(least), Some(most)) if most > 100.0 * least => Scale::Log,
        _ => Scale::Linear,
    }
}
