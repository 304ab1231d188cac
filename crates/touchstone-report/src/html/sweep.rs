//! The page of a search: the limits with their intervals, and the curve.

use touchstone_model::sweep::{Axis as Swept, Probe, SweepDocument};
use touchstone_model::{MetricId, Unit};

use super::{Page, code, prose};
use crate::svg::{Axis, Band, Head, LineChart, Reference, Series, Shape, escape};
use crate::terminal::{curve, estimate_text, shape_text};
use crate::words::Lang;
use crate::{number, words};

/// A page with the limits that were looked for, charts of throughput and latency over the level, every probe in a table, and
/// the findings.
#[must_use]
pub fn sweep_report(sweep: &SweepDocument, lang: Lang) -> String {
    let w = lang.words();
    let mut page = Page::new(lang);
    page.simulated = sweep.simulated;
    let title = format!("{}{}{}", lang.pick("search", "搜索"), w.colon, sweep.target.target);
    page.push(&format!(
        "<header>\n<h1>{}</h1>\n<p>touchstone {} · {} · {}</p>\n</header>\n",
        escape(&title),
        escape(&sweep.touchstone_version),
        escape(&sweep.started_at),
        escape(&sweep.sweep)
    ));
    page.section("limits", lang.pick("limits", "极限"));
    if sweep.simulated {
        page.push(&format!(
            "<p class=\"banner sim\"><strong>{}</strong> {}</p>\n",
            escape(w.simulated),
            escape(w.no_product_measured)
        ));
    }
    let rows: Vec<Vec<String>> = sweep
        .estimates
        .iter()
        .map(|(metric, estimate)| {
            vec![code(metric.as_str()), escape(&estimate_text(estimate)), prose(&estimate.reason)]
        })
        .collect();
    page.table(&[w.metric, lang.pick("value (interval)", "数值（区间）"), w.reason], &rows, 9);
    for line in shape_text(sweep, lang) {
        page.note(&line);
    }
    page.pairs(&[
        (w.target, sweep.target.target.clone()),
        (w.level, words::level(lang, sweep.level)),
        (lang.pick("load", "负载"), sweep.settings.process.clone()),
        (lang.pick("time", "用时"), number::clock(sweep.spent_s)),
        (w.slo, sweep.settings.slo.join(", ")),
        (w.seed, sweep.settings.seed.to_string()),
    ]);
    page.end();

    page.section("curve", lang.pick("curve", "曲线"));
    page.chart(&throughput(sweep, lang));
    page.chart(&latency(sweep, lang));
    let (heads, rows) = curve(sweep, lang);
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|row| row.iter().map(|cell| escape(cell)).collect()).collect();
    page.table(&heads, &rows, 0);
    page.end();

    if !sweep.findings.is_empty() {
        page.section("findings", w.findings);
        for finding in &sweep.findings {
            page.note(&format!("{}: {}; {}", finding.code, finding.message, finding.advice));
        }
        page.end();
    }
    let mark = if sweep.simulated { format!("[{}] ", w.simulated) } else { String::new() };
    page.finish(&format!("{mark}{title}"))
}

/// Valid probes by ascending level, the latest look of each.
fn points(sweep: &SweepDocument, value: impl Fn(&Probe) -> Option<f64>) -> Vec<(f64, Option<f64>)> {
    let mut probes: Vec<&Probe> = sweep.probes.iter().filter(|probe| probe.valid).collect();
    probes.sort_by(|a, b| a.level.total_cmp(&b.level).then(b.look.cmp(&a.look)));
    probes.dedup_by(|later, first| later.level == first.level);
    probes.into_iter().map(|probe| (probe.offered.unwrap_or(probe.level), value(probe))).collect()
}

fn sorted(mut points: Vec<(f64, Option<f64>)>) -> Vec<(f64, Option<f64>)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn x_axis(sweep: &SweepDocument, lang: Lang) -> Axis {
    let w = lang.words();
    let label = match sweep.axis {
        Swept::OfferedLoad => format!("{}, {}", w.offered, Unit::PerSecond),
        Swept::Concurrency => lang.pick("operations in flight", "并发操作数").to_owned(),
    };
    Axis { label, ..Axis::default() }
}

fn head(sweep: &SweepDocument, lang: Lang, id: &str, title: &str, description: String) -> Head {
    Head {
        id: id.to_owned(),
        title: super::capital(title),
        description,
        mark: sweep.simulated.then(|| lang.words().simulated.to_owned()),
    }
}

fn bands(sweep: &SweepDocument) -> Vec<Band> {
    sweep
        .estimates
        .iter()
        .filter_map(|(metric, estimate)| {
            Some(Band { from: estimate.lower?, to: estimate.upper?, label: metric.to_string() })
        })
        .collect()
}

fn throughput(sweep: &SweepDocument, lang: Lang) -> String {
    let w = lang.words();
    let line = |name: &str, color, value: fn(&Probe) -> Option<f64>| Series {
        name: name.to_owned(),
        shape: Shape::Line,
        color,
        points: sorted(points(sweep, value)),
    };
    let mut series = vec![line(w.throughput, 0, |probe| probe.throughput)];
    if sweep.probes.iter().any(|probe| probe.goodput.is_some()) {
        series.push(line(w.goodput, 2, |probe| probe.goodput));
    }
    if sweep.axis == Swept::OfferedLoad {
        series.push(line(w.offered, 6, |probe| probe.offered));
    }
    LineChart {
        head: head(
            sweep,
            lang,
            "sweep-throughput",
            lang.pick("throughput over load", "吞吐量随负载的变化"),
            shape_text(sweep, lang).join("; "),
        ),
        x: x_axis(sweep, lang),
        y: Axis { label: Unit::PerSecond.to_string(), ..Axis::default() },
        series,
        bands: bands(sweep),
        legend: true,
        empty: w.no_data.to_owned(),
        ..LineChart::default()
    }
    .render()
}

fn latency(sweep: &SweepDocument, lang: Lang) -> String {
    let w = lang.words();
    let name = sweep.probes.iter().find_map(|probe| probe.leading).map_or(w.latency, MetricId::as_str);
    let line = |name: &str, color, value: fn(&Probe) -> Option<f64>| Series {
        name: name.to_owned(),
        shape: Shape::Line,
        color,
        points: sorted(points(sweep, value)),
    };
    let mut series = vec![
        line("p50", 0, |probe| probe.p50),
        line("p95", 1, |probe| probe.p95),
        line("p99", 3, |probe| probe.p99),
    ];
    if sweep.axis == Swept::Concurrency {
        series.push(line(lang.pick("gap p99", "间隔 p99"), 2, |probe| probe.gap_p99.map(|gap| gap.value)));
    }
    let references = sweep
        .settings
        .slo
        .iter()
        .filter(|slo| crate::reading::parsed(slo).is_some_and(|(metric, _, _)| metric.as_str() == name))
        .filter_map(|slo| Some(Reference { value: crate::reading::limit(slo)?, label: slo.clone() }))
        .collect();
    LineChart {
        head: head(
            sweep,
            lang,
            "sweep-latency",
            &lang.pick(format!("{name} over load"), format!("{name} 随负载的变化")),
            lang.pick(format!("quantiles of {name} of every probe"), format!("每个探测点的 {name} 分位数")),
        ),
        x: x_axis(sweep, lang),
        y: Axis { label: Unit::Milliseconds.to_string(), ..Axis::default() },
        series,
        bands: bands(sweep),
        references,
        legend: true,
        empty: w.no_data.to_owned(),
    }
    .render()
}
