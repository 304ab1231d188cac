//! The summary after a run.

use touchstone_model::{RunDocument, Severity, Statistic};

use crate::distribution::Distribution;
use crate::terminal::{Ink, Style, plot};
use crate::text::{Align, Table, clean, pad, pad_left};
use crate::{number, reading, stages, words};

/// The summary of a run. The first line carries the marks SIMULATED, INVALID and INTERRUPTED, the target, the arrival
/// process and the level; then rates, operations, latencies with bounds, SLO outcomes, errors and findings with
/// advice, the generator's certificate, and small plots of the course.
#[must_use]
pub fn run_summary(run: &RunDocument, style: &Style) -> String {
    let mut out = String::new();
    headline(&mut out, run, style);
    rates(&mut out, run, style);
    latencies(&mut out, run, style);
    slo(&mut out, run, style);
    errors(&mut out, run, style);
    findings(&mut out, run, style);
    stages(&mut out, run, style);
    course(&mut out, run, style);
    super::server::server(&mut out, run, style);
    certificate(&mut out, run, style);
    out
}

fn headline(out: &mut String, run: &RunDocument, style: &Style) {
    let w = style.lang.words();
    let marks = reading::marks(style.lang, run).join(" ");
    if !marks.is_empty() {
        *out += &style.ink(if run.valid { Ink::Warn } else { Ink::Bad }, &marks);
        *out += "  ";
    }
    let seconds = number::quantity(run.phases.measured_seconds() * 1e3, touchstone_model::Unit::Milliseconds);
    *out += &style.head(&format!("{} {}", w.run, clean(&run.run)));
    *out += &format!(
        "  {}  {}  {seconds}  {} {}\n",
        reading::target(style.lang, run),
        clean(&run.workload.arrival),
        w.level,
        words::level(style.lang, run.level)
    );
    let said = [
        (run.simulated, w.no_product_measured),
        (!run.valid, w.invalid_explained),
        (run.interrupted, w.interrupted_explained),
    ];
    for (_, sentence) in said.iter().filter(|(holds, _)| *holds) {
        style.paragraph(out, "  ", sentence);
    }
}

fn rates(out: &mut String, run: &RunDocument, style: &Style) {
    let w = style.lang.words();
    let rate = |value: f64| format!("{}/s", number::plain(value, 4));
    let mut rates = vec![
        (w.offered, run.rates.offered.map_or_else(|| w.closed_loop.to_owned(), rate)),
        (w.achieved, run.rates.achieved.map_or_else(|| number::NONE.to_owned(), rate)),
        (w.throughput, run.rates.throughput.map_or_else(|| number::NONE.to_owned(), rate)),
    ];
    rates.extend(run.rates.goodput.map(|value| (w.goodput, rate(value))));
    rates.extend(run.rates.output_tokens.map(|value| (w.output_tokens, rate(value))));
    let counts = &run.counts;
    let mut numbers = vec![
        (w.intended, number::count(counts.intended)),
        (w.sent, number::count(counts.sent)),
        (w.completed, number::count(counts.completed)),
        (w.failed, number::count(counts.failed)),
    ];
    let optional = [
        (w.unfinished, (counts.censored > 0).then_some(counts.censored)),
        (w.within_slo, counts.good),
        (w.received, counts.received),
        (w.lost, counts.lost),
        (w.duplicated, counts.duplicated),
        (w.reordered, counts.reordered),
        (w.lookups, counts.lookups),
        (w.hits, counts.hits),
    ];
    numbers.extend(optional.into_iter().filter_map(|(name, value)| Some((name, number::count(value?)))));
    let label = [w.rates, w.counts].iter().map(|label| crate::text::width(label)).max().unwrap_or(0);
    out.push('\n');
    for (name, pairs) in [(w.rates, rates), (w.counts, numbers)] {
        let line: Vec<String> = pairs.iter().map(|(name, value)| format!("{name} {value}")).collect();
        style.paragraph(out, &format!("{}  ", pad(name, label)), &line.join("   "));
    }
}

fn latencies(out: &mut String, run: &RunDocument, style: &Style) {
    let w = style.lang.words();
    let measured: Vec<_> = run.metrics.iter().filter(|(_, summary)| summary.n > 0).collect();
    out.push('\n');
    if measured.is_empty() {
        *out += &format!("{}\n", w.no_distribution);
        return;
    }
    let mut columns = vec![(w.metric, Align::Left), (w.unit, Align::Left)];
    columns.extend(["p50", "p90", "p95", "p99", "p99.9"].map(|name| (name, Align::Right)));
    columns.extend([(w.max, Align::Right), ("n", Align::Right)]);
    let bound_head = format!("{} ({})", w.upper_bound, confidence(run));
    let with_bounds = [columns.clone(), vec![(bound_head.as_str(), Align::Left)]].concat();
    let mut table = Table::new(&with_bounds);
    let mut narrow = Table::new(&columns);
    let mut bounds = Table::new(&[(w.metric, Align::Left), (&bound_head, Align::Left)]);
    for (metric, summary) in measured {
        let mut row = vec![metric.to_string(), summary.unit.to_string()];
        let figures = Statistic::QUANTILES.into_iter().chain([Statistic::Max]);
        row.extend(figures.map(|statistic| number::optional(summary.statistic(statistic), 4)));
        row.push(number::count(summary.n));
        narrow.row(row.clone());
        let line = reading::bounds_line(style.lang, run, *metric, summary);
        if !line.is_empty() {
            bounds.row(vec![metric.to_string(), line.clone()]);
        }
        row.push(line);
        table.row(row);
    }
    if table.width() <= style.width {
        push_table(out, &table, style);
    } else {
        push_table(out, &narrow, style);
        if !bounds.is_empty() {
            out.push('\n');
            push_table(out, &bounds, style);
        }
    }
}

/// The confidence of the bounds, as far as they all have the same.
fn confidence(run: &RunDocument) -> String {
    let mut all =
        run.metrics.values().flat_map(|summary| summary.bounds.values()).map(|bound| bound.confidence);
    all.next().map_or_else(|| number::NONE.to_owned(), number::percent)
}

fn push_table(out: &mut String, table: &Table, style: &Style) {
    for (index, line) in table.lines("").iter().enumerate() {
        *out += &if index == 0 { style.head(line) } else { line.clone() };
        out.push('\n');
    }
}

fn slo(out: &mut String, run: &RunDocument, style: &Style) {
    if run.slo.is_empty() {
        return;
    }
    let w = style.lang.words();
    *out += &format!("\n{}\n", style.head(w.slo));
    let names: Vec<String> = run.slo.iter().map(|slo| clean(&slo.slo)).collect();
    let wide = names.iter().map(|name| crate::text::width(name)).max().unwrap_or(0);
    let outcome_wide =
        run.slo.iter().map(|slo| crate::text::width(words::outcome(style.lang, slo.outcome))).max();
    for (slo, name) in run.slo.iter().zip(&names) {
        let word = words::outcome(style.lang, slo.outcome);
        let fill = " ".repeat(outcome_wide.unwrap_or(0) - crate::text::width(word));
        let figures = reading::slo_figures(style.lang, run, slo);
        *out += &format!("  {}{fill}  {}  {figures}\n", style.outcome(slo.outcome), pad(name, wide));
    }
}

fn errors(out: &mut String, run: &RunDocument, style: &Style) {
    let w = style.lang.words();
    if run.errors.is_empty() {
        *out += &format!("\n{}\n", w.no_errors);
        return;
    }
    *out += &format!("\n{}\n", style.head(w.errors));
    for group in &run.errors {
        let head = format!(
            "  {} x {} / {} / {}",
            number::count(group.count),
            words::origin(style.lang, group.origin),
            words::phase(style.lang, group.phase),
            clean(&group.kind)
        );
        *out += &style.ink(Ink::Bad, &head);
        *out += &format!("  ({} {})\n", w.measured, number::count(group.measured));
        style.paragraph(out, "      ", &group.message);
        style.hint(out, "      ", &group.advice);
    }
}

fn findings(out: &mut String, run: &RunDocument, style: &Style) {
    let w = style.lang.words();
    if run.findings.is_empty() {
        *out += &format!("\n{}\n", w.no_findings);
        return;
    }
    *out += &format!("\n{}\n", style.head(w.findings));
    let mut sorted: Vec<_> = run.findings.iter().collect();
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    for finding in sorted {
        let ink = match finding.severity {
            Severity::Note => Ink::Dim,
            Severity::Warning => Ink::Warn,
            Severity::Invalid => Ink::Bad,
        };
        let head = format!("{} [{}]", words::severity(style.lang, finding.severity), finding.code);
        *out += &format!("  {}\n", style.ink(ink, &head));
        style.paragraph(out, "      ", &finding.message);
        style.hint(out, "      ", &finding.advice);
    }
}

fn stages(out: &mut String, run: &RunDocument, style: &Style) {
    if run.stages.is_empty() {
        return;
    }
    let heads = stages::heads(style.lang, run);
    let columns: Vec<(&str, Align)> = heads.iter().map(|head| (head.as_str(), Align::Right)).collect();
    let mut table = Table::new(&columns);
    for row in stages::rows(style.lang, run) {
        table.row(row);
    }
    let marks = if run.simulated { format!("  [{}]", style.lang.words().simulated) } else { String::new() };
    *out += &format!("\n{}{marks}\n", style.head(stages::title(style.lang)));
    push_table(out, &table, style);
}

fn course(out: &mut String, run: &RunDocument, style: &Style) {
    let w = style.lang.words();
    if run.windows.is_empty() {
        return;
    }
    let (from, to, end) = reading::phase_seconds(run);
    let marks = if run.simulated { format!("  [{}]", w.simulated) } else { String::new() };
    *out += &format!(
        "\n{}  {} 0s-{}   {} {}-{}   {} {}-{}{marks}\n",
        style.head(w.course),
        w.warm_up,
        number::clock(from),
        w.measured,
        number::clock(from),
        number::clock(to),
        w.drain,
        number::clock(to),
        number::clock(end)
    );
    let leading = reading::leading(run).map_or(w.latency.to_owned(), |metric| metric.to_string());
    let seconds =
        |window: &touchstone_model::run::Window| (window.to_s - window.from_s).max(f64::MIN_POSITIVE);
    let rows: [(String, Vec<Option<f64>>, &str); 4] = [
        (format!("{leading} p50"), run.windows.iter().map(|window| window.latency_p50).collect(), " ms"),
        (format!("{leading} p99"), run.windows.iter().map(|window| window.latency_p99).collect(), " ms"),
        (
            w.throughput.to_owned(),
            run.windows.iter().map(|window| Some(window.completed as f64 / seconds(window))).collect(),
            "/s",
        ),
        (
            w.in_flight.to_owned(),
            run.windows.iter().map(|window| Some(window.in_flight as f64)).collect(),
            "",
        ),
    ];
    let wide = rows.iter().map(|(name, _, _)| crate::text::width(name)).max().unwrap_or(0);
    let room = style.width.saturating_sub(wide + 24).clamp(10, 60);
    for (name, values, unit) in &rows {
        let finite = values.iter().flatten().copied().filter(|value| value.is_finite());
        let Some(top) = finite.reduce(f64::max) else { continue };
        let line = plot::sparkline(values, top, room, style);
        *out += &format!("  {}  {line}  {} {}{unit}\n", pad(name, wide), w.max, number::plain(top, 4));
    }
    histogram(out, run, style);
}

fn histogram(out: &mut String, run: &RunDocument, style: &Style) {
    let w = style.lang.words();
    let Some(metric) = reading::leading(run) else { return };
    let Some(distribution) = Distribution::of(&[run], metric) else { return };
    let marks = if run.simulated { format!("  [{}]", w.simulated) } else { String::new() };
    *out += &format!("\n{}  {metric}, ms{marks}\n", style.head(w.distribution));
    let bins = distribution.bins(10);
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(1).max(1);
    let edges: Vec<(String, String)> =
        bins.iter().map(|bin| (number::plain(bin.lower, 3), number::plain(bin.upper, 3))).collect();
    let wide = edges.iter().flat_map(|(a, b)| [a.len(), b.len()]).max().unwrap_or(0);
    let room = style.width.saturating_sub(2 * wide + 18).clamp(10, 50);
    for (bin, (lower, upper)) in bins.iter().zip(&edges) {
        let bar = plot::bar(bin.count as f64 / most as f64, room, style);
        *out += &format!(
            "  {} - {}  {bar} {}\n",
            pad_left(lower, wide),
            pad_left(upper, wide),
            number::count(bin.count)
        );
    }
    if distribution.censored() > 0 {
        let label = pad_left(w.censored_label, 2 * wide + 3);
        let bar = plot::bar(distribution.censored() as f64 / most as f64, room, style);
        *out += &format!("  {label}  {bar} {}\n", number::count(distribution.censored()));
    }
}

fn certificate(out: &mut String, run: &RunDocument, style: &Style) {
    let w = style.lang.words();
    out.push('\n');
    style.paragraph(out, &format!("{}  ", w.generator), &certificate_line(run, style.lang));
}

/// What the generator knows about its own part, in one line.
pub(crate) fn certificate_line(run: &RunDocument, lang: crate::Lang) -> String {
    certificate_pairs(run, lang)
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect::<Vec<_>>()
        .join("   ")
}

/// The same as pairs of name and value.
pub(crate) fn certificate_pairs(run: &RunDocument, lang: crate::Lang) -> Vec<(&'static str, String)> {
    let w = lang.words();
    let it = &run.generator;
    let ms = |value: f64| number::quantity(value, touchstone_model::Unit::Milliseconds);
    let mut pairs = Vec::new();
    let error = it.scheduling_error_ms.map_or_else(
        || w.closed_loop.to_owned(),
        |error| format!("p50 {} p99 {} {} {}", ms(error.p50), ms(error.p99), w.max, ms(error.max)),
    );
    pairs.push((w.scheduling_error, error));
    pairs.push((w.shards, it.shards.to_string()));
    pairs.extend(
        it.cpu_busy.iter().copied().reduce(f64::max).map(|busy| (w.busiest_core, number::percent(busy))),
    );
    pairs.extend(it.cpu_us_per_operation.map(|us| (w.cpu_per_operation, ms(us / 1e3))));
    pairs.push((w.receive_stamps, (if it.kernel_stamps { w.kernel } else { w.user_space }).to_owned()));
    pairs.extend(it.coalesced_share.map(|share| (w.coalesced, number::percent(share))));
    let ceiling = it
        .loopback_ceiling
        .map_or_else(|| w.not_probed.to_owned(), |rate| format!("{}/s", number::plain(rate, 3)));
    pairs.push((w.loopback_ceiling, ceiling));
    let counted = [(w.clock_steps, it.clock_steps), (w.events_dropped, it.events_dropped)];
    pairs.extend(counted.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name, number::count(n))));
    pairs
}
