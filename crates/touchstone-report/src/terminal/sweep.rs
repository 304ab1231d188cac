//! The summary of a search: where the limits lie, and the curve as a table.

use touchstone_model::run::Outcome;
use touchstone_model::sweep::{Axis, Estimate, Probe, SweepDocument};
use touchstone_model::{MetricId, Unit};

use crate::terminal::Style;
use crate::text::{Align, Table, clean};
use crate::{number, words};

/// A limit with its interval in words: `49.4/s (95 %: 47.2/s..51.5/s)`.
pub(crate) fn estimate_text(estimate: &Estimate) -> String {
    let figure = |value: Option<f64>| {
        value.map_or_else(|| "?".to_owned(), |value| number::quantity(value, estimate.unit))
    };
    let value = estimate
        .value
        .map_or_else(|| number::NONE.to_owned(), |value| number::quantity(value, estimate.unit));
    format!(
        "{value} ({}: {}..{})",
        number::percent(estimate.confidence),
        figure(estimate.lower),
        figure(estimate.upper)
    )
}

/// The word for what a probe says of the load, with a question mark where it is not beyond chance.
pub(crate) fn verdict_text(probe: &Probe, style_lang: crate::Lang) -> String {
    if !probe.valid {
        return style_lang.words().invalid.to_owned();
    }
    let word = if probe.sustained.holds {
        style_lang.pick("sustained", "可持续")
    } else {
        style_lang.pick("not sustained", "不可持续")
    };
    let open = if probe.sustained.outcome == Outcome::Undetermined { "?" } else { "" };
    format!("{word}{open}")
}

/// The heads of the curve's columns, and a row for each probe by ascending level.
pub(crate) fn curve(sweep: &SweepDocument, lang: crate::Lang) -> (Vec<String>, Vec<Vec<String>>) {
    let w = lang.words();
    let leading = sweep.probes.iter().find_map(|probe| probe.leading).map_or(w.latency, MetricId::as_str);
    let level = match sweep.axis {
        Axis::OfferedLoad => lang.pick("asked", "设定"),
        Axis::Concurrency => lang.pick("in flight", "并发"),
    };
    let mut heads = vec![
        level.to_owned(),
        w.offered.to_owned(),
        w.throughput.to_owned(),
        w.goodput.to_owned(),
        format!("{leading} p50"),
        "p95".to_owned(),
        "p99".to_owned(),
        lang.pick("gap p99", "间隔 p99").to_owned(),
        lang.pick("backlog/s", "积压/s").to_owned(),
        lang.pick("verdict", "结论").to_owned(),
    ];
    if !sweep.settings.slo.is_empty() {
        heads.push(w.slo.to_owned());
    }
    let mut probes: Vec<&Probe> = sweep.probes.iter().collect();
    probes.sort_by(|a, b| a.level.total_cmp(&b.level).then(a.look.cmp(&b.look)));
    let optional = |value: Option<f64>| number::optional(value, 4);
    let rows = probes
        .into_iter()
        .map(|probe| {
            let mut row = vec![
                number::plain(probe.level, 4),
                optional(probe.offered),
                optional(probe.throughput),
                optional(probe.goodput),
                optional(probe.p50),
                optional(probe.p95),
                optional(probe.p99),
                optional(probe.gap_p99.map(|gap| gap.value)),
                optional(probe.backlog_slope.map(|slope| slope.value)),
                verdict_text(probe, lang),
            ];
            if !sweep.settings.slo.is_empty() {
                let outcomes = probe.slo.iter().map(|slo| words::outcome(lang, slo.outcome));
                row.push(outcomes.collect::<Vec<_>>().join(", "));
            }
            row
        })
        .collect();
    (heads, rows)
}

/// What the shape of the curve says, in sentences.
pub(crate) fn shape_text(sweep: &SweepDocument, lang: crate::Lang) -> Vec<String> {
    let Some(shape) = &sweep.shape else { return Vec::new() };
    let unit = match sweep.axis {
        Axis::OfferedLoad => Unit::PerSecond,
        Axis::Concurrency => Unit::Count,
    };
    let at = |level: f64| number::quantity(level, unit);
    let rate = |value: f64| number::quantity(value, Unit::PerSecond);
    let mut lines = vec![lang.pick(
        format!("greatest throughput {} at {}", rate(shape.peak_throughput), at(shape.peak_level)),
        format!("最大吞吐量 {}，出现在 {}", rate(shape.peak_throughput), at(shape.peak_level)),
    )];
    if let Some(knee) = shape.knee {
        lines.push(lang.pick(
            format!("knee: p95 stays within twice its value at the lowest load up to {}", at(knee)),
            format!("拐点：p95 在 {} 以内不超过最低负载时的两倍", at(knee)),
        ));
    }
    if let (Some(level), Some(throughput)) = (shape.collapse_level, shape.collapse_throughput) {
        lines.push(lang.pick(
            format!("collapse: throughput falls to {} at {}", rate(throughput), at(level)),
            format!("崩溃：在 {} 时吞吐量降至 {}", at(level), rate(throughput)),
        ));
    }
    lines
}

/// The summary of a search: marks, target, every limit with its interval, the shape and the curve, findings with advice.
#[must_use]
pub fn sweep_summary(sweep: &SweepDocument, style: &Style) -> String {
    let w = style.lang.words();
    let mut out = String::new();
    let mark = if sweep.simulated { format!("{}  ", w.simulated) } else { String::new() };
    let head = format!(
        "{mark}{} {}  {}  {}",
        style.lang.pick("sweep", "扫描"),
        sweep.sweep,
        clean(&sweep.target.target),
        words::level(style.lang, sweep.level)
    );
    out += &format!("{}\n\n", style.head(&head));
    for (metric, estimate) in &sweep.estimates {
        out += &format!("{}  {}\n", style.head(metric.as_str()), estimate_text(estimate));
        style.paragraph(&mut out, "    ", &estimate.reason);
    }
    for line in shape_text(sweep, style.lang) {
        style.paragraph(&mut out, "", &line);
    }
    let (heads, rows) = curve(sweep, style.lang);
    if !rows.is_empty() {
        let columns: Vec<(&str, Align)> = heads
            .iter()
            .enumerate()
            .map(|(index, head)| (head.as_str(), if index < 9 { Align::Right } else { Align::Left }))
            .collect();
        let mut table = Table::new(&columns);
        rows.into_iter().for_each(|row| table.row(row));
        out.push('\n');
        for (index, line) in table.lines("").iter().enumerate() {
            out += &if index == 0 { style.head(line) } else { line.clone() };
            out.push('\n');
        }
    }
    if !sweep.findings.is_empty() {
        out += &format!("\n{}\n", style.head(w.findings));
        for finding in &sweep.findings {
            style.paragraph(&mut out, "  ", &format!("{}: {}", finding.code, finding.message));
            style.hint(&mut out, "    ", &finding.advice);
        }
    }
    out
}
