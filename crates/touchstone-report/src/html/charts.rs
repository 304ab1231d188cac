//! The charts of runs.

use touchstone_model::run::Window;
use touchstone_model::{MetricId, RunDocument, Statistic};

use crate::distribution::Distribution;
use crate::svg::{Axis, Band, Bar, BarChart, Head, LineChart, Reference, Scale, Series, Shape};
use crate::words::Lang;
use crate::{number, reading, words};

/// Title, description and mark of a chart about these runs.
pub(super) fn head(
    lang: Lang,
    runs: &[&RunDocument],
    id: String,
    title: String,
    description: String,
) -> Head {
    let w = lang.words();
    let mark = runs.iter().any(|run| run.simulated).then(|| w.simulated.to_owned());
    let invalid = runs.iter().any(|run| !run.valid).then(|| w.invalid.to_owned());
    let mark = [mark, invalid].into_iter().flatten().collect::<Vec<_>>().join(" · ");
    Head { id, title: super::capital(&title), description, mark: (!mark.is_empty()).then_some(mark) }
}

pub(super) fn bands(lang: Lang, run: &RunDocument) -> Vec<Band> {
    let w = lang.words();
    let (from, to, end) = reading::phase_seconds(run);
    vec![
        Band { from: 0.0, to: from, label: w.warm_up.to_owned() },
        Band { from: to, to: end, label: w.drain.to_owned() },
    ]
}

/// Values that hold for whole windows, closed at the end of the last one.
fn steps(run: &RunDocument, value: impl Fn(&Window) -> Option<f64>) -> Vec<(f64, Option<f64>)> {
    let mut points: Vec<_> = run.windows.iter().map(|window| (window.from_s, value(window))).collect();
    points.extend(run.windows.last().map(|window| (window.to_s, value(window))));
    points
}

/// Values that stand for a window, at its middle.
fn middles(run: &RunDocument, value: impl Fn(&Window) -> Option<f64>) -> Vec<(f64, Option<f64>)> {
    run.windows.iter().map(|window| ((window.from_s + window.to_s) / 2.0, value(window))).collect()
}

pub(super) fn time_axis(lang: Lang) -> Axis {
    Axis { label: format!("{}, s", lang.words().time_axis), ..Axis::default() }
}

/// Median and p99 of the leading latency per window, with the limits that were asked for on it.
pub(super) fn latency(lang: Lang, run: &RunDocument, id: &str) -> String {
    let w = lang.words();
    let leading = reading::leading(run);
    let name = leading.map_or(w.latency, MetricId::as_str);
    let references = run
        .slo
        .iter()
        .filter(|slo| reading::parsed(&slo.slo).is_some_and(|(metric, _, _)| Some(metric) == leading))
        .filter_map(|slo| Some(Reference { value: reading::limit(&slo.slo)?, label: slo.slo.clone() }))
        .collect();
    let series = |name: &str, color, value: fn(&Window) -> Option<f64>| Series {
        name: name.to_owned(),
        shape: Shape::Line,
        color,
        points: middles(run, value),
    };
    LineChart {
        head: head(
            lang,
            &[run],
            format!("{id}-latency"),
            lang.pick(format!("{name} over time"), format!("{name} 随时间的变化")),
            lang.pick(
                format!(
                    "Median and 99th percentile of {name} of the operations that completed in each window."
                ),
                format!("每个窗口内完成的操作的 {name} 中位数与第 99 百分位数。"),
            ),
        ),
        x: time_axis(lang),
        y: Axis { label: format!("{name}, ms"), ..Axis::default() },
        series: vec![
            series("p50", 0, |window| window.latency_p50),
            series("p99", 1, |window| window.latency_p99),
        ],
        bands: bands(lang, run),
        references,
        legend: false,
        empty: w.no_data.to_owned(),
    }
    .render()
}

/// Intended starts, sends and completions per second.
pub(super) fn rates(lang: Lang, run: &RunDocument, id: &str) -> String {
    let w = lang.words();
    let series = |name: &str, color, count: fn(&Window) -> u64| Series {
        name: name.to_owned(),
        shape: Shape::Step,
        color,
        points: steps(run, |window| {
            let seconds = window.to_s - window.from_s;
            (seconds > 0.0).then(|| count(window) as f64 / seconds)
        }),
    };
    let mut all = vec![
        series(w.offered, 4, |window| window.offered),
        series(w.achieved, 2, |window| window.sent),
        series(w.throughput, 0, |window| window.completed),
    ];
    if run.rates.offered.is_none() {
        all.remove(0);
    }
    if run.windows.iter().any(|window| window.failed > 0) {
        all.push(series(w.failed, 1, |window| window.failed));
    }
    LineChart {
        head: head(
            lang,
            &[run],
            format!("{id}-rates"),
            lang.pick("offered, achieved and throughput over time", "计划、发出与完成速率随时间的变化")
                .to_owned(),
            lang.pick(
                "Intended starts, sends and completions per second in each window.",
                "每个窗口内每秒计划开始、发出与完成的操作数。",
            )
            .to_owned(),
        ),
        x: time_axis(lang),
        y: Axis { label: lang.pick("operations/s", "操作/秒").to_owned(), ..Axis::default() },
        series: all,
        bands: bands(lang, run),
        references: Vec::new(),
        legend: true,
        empty: w.no_data.to_owned(),
    }
    .render()
}

/// Operations in flight at the end of each window: the backlog.
pub(super) fn in_flight(lang: Lang, run: &RunDocument, id: &str) -> String {
    let w = lang.words();
    LineChart {
        head: head(
            lang,
            &[run],
            format!("{id}-in-flight"),
            lang.pick("in flight (backlog) over time", "在途操作（积压）随时间的变化").to_owned(),
            lang.pick(
                "Operations intended and not yet ended at the end of each window.",
                "每个窗口结束时已计划而未结束的操作数。",
            )
            .to_owned(),
        ),
        x: time_axis(lang),
        y: Axis { label: lang.pick("operations", "操作数").to_owned(), ..Axis::default() },
        series: vec![Series {
            name: w.in_flight.to_owned(),
            shape: Shape::Area,
            color: 0,
            points: steps(run, |window| Some(window.in_flight as f64)),
        }],
        bands: bands(lang, run),
        references: Vec::new(),
        legend: false,
        empty: w.no_data.to_owned(),
    }
    .render()
}

/// Cumulative distributions, one series per name, over a logarithmic axis.
pub(super) fn cumulative(lang: Lang, head: Head, distributions: &[(String, Distribution)]) -> String {
    let w = lang.words();
    LineChart {
        head,
        x: Axis {
            label: lang.pick("ms, logarithmic", "毫秒，对数刻度").to_owned(),
            scale: Scale::Log,
            ..Axis::default()
        },
        y: Axis { label: w.share_at_most.to_owned(), top: Some(1.0), percent: true, ..Axis::default() },
        series: distributions
            .iter()
            .enumerate()
            .map(|(index, (name, distribution))| Series {
                name: name.clone(),
                shape: Shape::Line,
                color: index,
                points: distribution
                    .cumulative()
                    .into_iter()
                    .map(|(value, share)| (value, Some(share)))
                    .collect(),
            })
            .collect(),
        bands: Vec::new(),
        references: Vec::new(),
        legend: true,
        empty: w.no_data.to_owned(),
    }
    .render()
}

/// The cumulative distributions of a run's chief latencies.
pub(super) fn distributions(lang: Lang, run: &RunDocument, id: &str) -> String {
    let named = reading::chief(run)
        .into_iter()
        .filter_map(|metric| Some((metric.to_string(), Distribution::of(&[run], metric)?)))
        .collect::<Vec<_>>();
    let head = head(
        lang,
        &[run],
        format!("{id}-distribution"),
        lang.words().distribution.to_owned(),
        lang.pick(
            "Share of all operations of the measured cohort at or below each value; failed ones never reach the line.",
            "测量窗口内全部操作中不超过各取值的占比；失败的操作永远不会计入。",
        )
        .to_owned(),
    );
    cumulative(lang, head, &named)
}

/// The quantiles of a metric with their bounds.
pub(super) fn quantiles(lang: Lang, run: &RunDocument, metric: MetricId, id: &str) -> String {
    let w = lang.words();
    let bars = run.metrics.get(&metric).map_or_else(Vec::new, |summary| {
        let shown = Statistic::QUANTILES.into_iter().chain([Statistic::Max]);
        shown
            .map(|statistic| {
                let value = summary.statistic(statistic);
                let bound = summary.bounds.get(&statistic);
                let figure = value
                    .map_or_else(|| number::NONE.to_owned(), |value| number::quantity(value, summary.unit));
                let note = bound.map_or_else(
                    || figure.clone(),
                    |bound| format!("{figure}  ({})", reading::upper_bound(lang, summary, bound)),
                );
                let label = match statistic {
                    Statistic::P999 => "p99.9".to_owned(),
                    Statistic::Max => w.max.to_owned(),
                    other => other.to_string(),
                };
                let interval = bound.map_or((None, None), |bound| (bound.lower, bound.upper));
                Bar { label, value, interval, note, color: 0 }
            })
            .collect()
    });
    BarChart {
        head: head(
            lang,
            &[run],
            format!("{id}-quantiles-{metric}"),
            lang.pick(format!("quantiles of {metric} with bounds"), format!("{metric} 的分位数与置信界")),
            lang.pick(
                "Point values as bars; whiskers are one-sided confidence bounds, or the note says how many samples they need.",
                "柱为点估计，须线为单侧置信界；样本不足时注明所需样本数。",
            )
            .to_owned(),
        ),
        axis: format!("{metric}, {}", metric.unit()),
        bars,
        empty: w.no_data.to_owned(),
    }
    .render()
}

/// Failures by origin, phase and kind.
pub(super) fn errors(lang: Lang, run: &RunDocument, id: &str) -> String {
    let w = lang.words();
    let bars = run
        .errors
        .iter()
        .map(|group| Bar {
            label: format!(
                "{} / {} / {}",
                words::origin(lang, group.origin),
                words::phase(lang, group.phase),
                group.kind
            ),
            value: Some(group.count as f64),
            note: number::count(group.count),
            color: 1,
            ..Bar::default()
        })
        .collect();
    BarChart {
        head: head(
            lang,
            &[run],
            format!("{id}-errors"),
            lang.pick("errors by origin, phase and kind", "按来源、阶段与类型统计的错误").to_owned(),
            lang.pick("Failed operations of the whole run.", "整个运行期间失败的操作。").to_owned(),
        ),
        axis: lang.pick("operations", "操作数").to_owned(),
        bars,
        empty: w.no_errors.to_owned(),
    }
    .render()
}
