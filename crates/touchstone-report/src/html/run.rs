//! The page of one or more runs.

use touchstone_model::{MetricId, RunDocument, Severity, Statistic};

use super::{Page, capital, charts, code, prose, tag, with_small};
use crate::svg::escape;
use crate::terminal::{certificate_pairs, outcome_class};
use crate::words::Lang;
use crate::{number, reading, stages, words};

/// A page with every run: marks, chief figures, charts, all figures in tables, errors, findings, the generator's
/// certificate and the definitions of what was measured. Several runs begin with a table that compares them.
#[must_use]
pub fn run_report(runs: &[RunDocument], lang: Lang) -> String {
    let w = lang.words();
    let mut page = Page::new(lang);
    let title = match runs {
        [run] => format!("{}{}{}", w.run_report, w.colon, run.target.target),
        _ => format!("{}{}{} {}", w.run_report, w.colon, runs.len(), w.runs),
    };
    page.push(&format!("<header>\n<h1>{}</h1>\n", escape(&title)));
    if let Some(run) = runs.first() {
        page.push(&format!(
            "<p>touchstone {} · {}</p>\n",
            escape(&run.touchstone_version),
            escape(&run.started_at)
        ));
    }
    page.push("</header>\n");
    if runs.is_empty() {
        page.note(w.no_data);
    }
    if runs.len() > 1 {
        page.simulated = runs.iter().any(|run| run.simulated);
        comparison(&mut page, runs);
    }
    for (index, run) in runs.iter().enumerate() {
        one(&mut page, run, &format!("run{}", index + 1));
    }
    page.simulated = false;
    definitions(&mut page, runs);
    let mark =
        if runs.iter().any(|run| run.simulated) { format!("[{}] ", w.simulated) } else { String::new() };
    page.finish(&format!("{mark}{title}"))
}

fn comparison(page: &mut Page, runs: &[RunDocument]) {
    let lang = page.lang;
    let w = lang.words();
    page.section("runs", w.runs);
    let rows: Vec<Vec<String>> = runs
        .iter()
        .enumerate()
        .map(|(index, run)| {
            let leading = reading::leading(run).and_then(|metric| Some((metric, run.metrics.get(&metric)?)));
            let figure = |statistic: Statistic| {
                leading.map_or_else(
                    || number::NONE.to_owned(),
                    |(_, summary)| optional_quantity(summary.statistic(statistic), summary.unit),
                )
            };
            let marks =
                reading::marks(lang, run).iter().map(|mark| tag(mark, "sim")).collect::<Vec<_>>().join(" ");
            vec![
                format!("<a href=\"#run{}\">{}</a> {marks}", index + 1, escape(&run.run)),
                escape(&run.target.target),
                escape(&run.workload.arrival),
                escape(leading.map_or(number::NONE, |(metric, _)| metric.as_str())),
                escape(&figure(Statistic::P50)),
                escape(&figure(Statistic::P99)),
                escape(&rate_text(run.rates.throughput)),
                escape(&number::count(run.counts.failed)),
                escape(run.level.as_str()),
            ]
        })
        .collect();
    let heads = [w.run, w.target, w.arrival, w.metric, "p50", "p99", w.throughput, w.failed, w.level];
    page.table(&heads, &rows, 4);
    page.end();
}

fn optional_quantity(value: Option<f64>, unit: touchstone_model::Unit) -> String {
    value.map_or_else(|| number::NONE.to_owned(), |value| number::quantity(value, unit))
}

fn stages_of(page: &mut Page, run: &RunDocument, id: &str) {
    let lang = page.lang;
    page.section(&format!("{id}-stages"), stages::title(lang));
    let head = |name: &str, title: String, description: String| {
        charts::head(lang, &[run], format!("{id}-{name}"), title, description)
    };
    for chart in stages::charts(lang, run, &head) {
        page.chart(&chart);
    }
    let heads = stages::heads(lang, run);
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows: Vec<Vec<String>> = stages::rows(lang, run)
        .into_iter()
        .map(|row| row.iter().map(|cell| escape(cell)).collect())
        .collect();
    page.table(&heads, &rows, 0);
    page.end();
}

/// Banners for what a reader must not miss.
pub(super) fn banners(page: &mut Page, run: &RunDocument) {
    let w = page.lang.words();
    let all = [
        (run.simulated, "sim", w.simulated, w.no_product_measured),
        (!run.valid, "bad", w.invalid, w.invalid_explained),
        (run.interrupted, "sim", w.interrupted, w.interrupted_explained),
    ];
    for (_, class, mark, sentence) in all.iter().filter(|(holds, ..)| *holds) {
        page.push(&format!(
            "<p class=\"banner {class}\"><strong>{}</strong> {}</p>\n",
            escape(mark),
            escape(sentence)
        ));
    }
}

fn one(page: &mut Page, run: &RunDocument, id: &str) {
    let lang = page.lang;
    let w = lang.words();
    page.simulated = run.simulated;
    page.section(id, &format!("{} {}", w.run, run.run));
    banners(page, run);
    let mut about = vec![
        (w.target, reading::target(lang, run)),
        (w.arrival, run.workload.arrival.clone()),
        (w.level, words::level(lang, run.level)),
        (w.started, run.started_at.clone()),
        (
            w.measured,
            number::quantity(run.phases.measured_seconds() * 1e3, touchstone_model::Unit::Milliseconds),
        ),
        (w.seed, run.workload.seed.to_string()),
        (w.schedule, number::short_digest(&run.workload.schedule_digest)),
        (w.fingerprint, run.fingerprint.as_deref().map_or(number::NONE.to_owned(), number::short_digest)),
    ];
    let parameter = |(name, value): (&String, &serde_json::Value)| match value {
        serde_json::Value::String(text) => format!("{name} {text}"),
        other => format!("{name} {other}"),
    };
    let parameters: Vec<String> = run.workload.parameters.iter().map(parameter).collect();
    if !parameters.is_empty() {
        about.push((w.parameters, parameters.join(", ")));
    }
    page.pairs(&about);
    page.tiles(&chief_tiles(lang, run));
    page.end();

    if !run.stages.is_empty() {
        stages_of(page, run, id);
    }

    page.section(&format!("{id}-course"), w.course);
    page.chart(&charts::latency(lang, run, id));
    page.chart(&charts::rates(lang, run, id));
    page.chart(&charts::in_flight(lang, run, id));
    page.end();

    page.section(&format!("{id}-distributions"), w.distribution);
    page.chart(&charts::distributions(lang, run, id));
    for metric in reading::chief(run) {
        page.chart(&charts::quantiles(lang, run, metric, id));
    }
    page.end();

    super::server::server(page, run, id);
    if !run.slo.is_empty() {
        slo(page, run, id);
    }
    errors(page, run, id);
    findings(page, run, id);
    figures(page, run, id);
    page.section(&format!("{id}-generator"), w.certificate);
    page.note(lang.pick(
        "What the load generator knows about its own part in these figures.",
        "负载发生器对自身在这些数据中所占影响的说明。",
    ));
    page.pairs(&certificate_pairs(run, lang));
    page.end();
}

fn chief_tiles(lang: Lang, run: &RunDocument) -> Vec<(String, String, String)> {
    let w = lang.words();
    let mut tiles = Vec::new();
    if let Some((metric, summary)) =
        reading::leading(run).and_then(|metric| Some((metric, run.metrics.get(&metric)?)))
    {
        tiles.push((format!("{metric} p50"), optional_quantity(summary.p50, summary.unit), String::new()));
        let bound =
            summary.bounds.get(&Statistic::P99).map(|bound| reading::upper_bound(lang, summary, bound));
        tiles.push((
            format!("{metric} p99"),
            optional_quantity(summary.p99, summary.unit),
            bound.unwrap_or_default(),
        ));
    }
    let offered = run.rates.offered.map_or_else(
        || w.closed_loop.to_owned(),
        |rate| format!("{} {}/s", w.offered, number::plain(rate, 4)),
    );
    tiles.push((w.throughput.to_owned(), rate_text(run.rates.throughput), offered));
    if let Some(rate) = run.rates.output_tokens {
        tiles.push((w.output_tokens.to_owned(), format!("{}/s", number::plain(rate, 4)), String::new()));
    }
    if let (Some(rate), Some(good)) = (run.rates.goodput, run.counts.good) {
        let share = good as f64 / (run.counts.intended.max(1)) as f64;
        tiles.push((w.goodput.to_owned(), format!("{}/s", number::plain(rate, 4)), number::percent(share)));
    }
    let share = run.counts.failed as f64 / (run.counts.intended.max(1)) as f64;
    let of = lang.pick(
        format!("of {} ({})", number::count(run.counts.intended), number::percent(share)),
        format!("共 {}({})", number::count(run.counts.intended), number::percent(share)),
    );
    tiles.push((w.failed.to_owned(), number::count(run.counts.failed), of));
    tiles.iter().map(|(name, value, below)| (capital(name), value.clone(), below.clone())).collect()
}

fn slo(page: &mut Page, run: &RunDocument, id: &str) {
    let lang = page.lang;
    let w = lang.words();
    page.section(&format!("{id}-slo"), w.slo);
    let rows: Vec<Vec<String>> = run
        .slo
        .iter()
        .map(|slo| {
            vec![
                code(&slo.slo),
                tag(words::outcome(lang, slo.outcome), outcome_class(slo.outcome)),
                escape(&reading::slo_figures(lang, run, slo)),
            ]
        })
        .collect();
    page.table(&[w.requirement, w.outcome, w.value], &rows, 9);
    page.end();
}

fn errors(page: &mut Page, run: &RunDocument, id: &str) {
    let lang = page.lang;
    let w = lang.words();
    page.section(&format!("{id}-errors-table"), w.errors);
    if run.errors.is_empty() {
        page.note(w.no_errors);
    } else {
        page.chart(&charts::errors(lang, run, id));
        let rows: Vec<Vec<String>> = run
            .errors
            .iter()
            .map(|group| {
                vec![
                    escape(words::origin(lang, group.origin)),
                    escape(words::phase(lang, group.phase)),
                    code(&group.kind),
                    with_small(&prose(&group.message), &group.advice),
                    number::count(group.count),
                    number::count(group.measured),
                ]
            })
            .collect();
        page.table(&[w.origin, w.phase, w.kind, w.message, w.count, w.measured], &rows, 4);
    }
    page.end();
}

fn findings(page: &mut Page, run: &RunDocument, id: &str) {
    let lang = page.lang;
    let w = lang.words();
    page.section(&format!("{id}-findings"), w.findings);
    if run.findings.is_empty() {
        page.note(w.no_findings);
    } else {
        page.push("<ul class=\"plain\">\n");
        let mut sorted: Vec<_> = run.findings.iter().collect();
        sorted.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        for finding in sorted {
            let class = match finding.severity {
                Severity::Note => "",
                Severity::Warning => "warn",
                Severity::Invalid => "bad",
            };
            page.push(&format!(
                "<li>{} {} {}<p class=\"advice\">{}</p></li>\n",
                tag(words::severity(lang, finding.severity), class),
                code(finding.code.as_str()),
                prose(&finding.message),
                prose(&finding.advice)
            ));
        }
        page.push("</ul>\n");
    }
    page.end();
}

fn figures(page: &mut Page, run: &RunDocument, id: &str) {
    let lang = page.lang;
    let w = lang.words();
    page.section(&format!("{id}-figures"), w.all_figures);
    if run.metrics.is_empty() {
        page.note(w.no_distribution);
    } else {
        let rows: Vec<Vec<String>> = run
            .metrics
            .iter()
            .map(|(metric, summary)| {
                let mut row = vec![code(metric.as_str()), escape(summary.unit.as_str())];
                row.extend(Statistic::ALL.map(|statistic| number::optional(summary.statistic(statistic), 4)));
                row.push(number::count(summary.n));
                row.push(number::plain(summary.n_effective.floor(), 6));
                row.push(number::count(summary.censored));
                row
            })
            .collect();
        let heads =
            [w.metric, w.unit, w.mean, "p50", "p90", "p95", "p99", "p99.9", w.max, "n", "n_eff", w.failed];
        page.table(&heads, &rows, 2);
        bounds(page, run);
    }
    page.sub(w.rates);
    let rate = |value: Option<f64>| {
        value.map_or_else(|| number::NONE.to_owned(), |value| format!("{}/s", number::plain(value, 5)))
    };
    page.pairs(&[
        (w.offered, run.rates.offered.map_or_else(|| w.closed_loop.to_owned(), |value| rate(Some(value)))),
        (w.achieved, rate(run.rates.achieved)),
        (w.throughput, rate(run.rates.throughput)),
        (w.goodput, rate(run.rates.goodput)),
        (w.output_tokens, rate(run.rates.output_tokens)),
    ]);
    page.sub(w.counts);
    let counts = &run.counts;
    let all = [
        (w.intended, Some(counts.intended)),
        (w.sent, Some(counts.sent)),
        (w.completed, Some(counts.completed)),
        (w.failed, Some(counts.failed)),
        (w.unfinished, Some(counts.censored)),
        (w.within_slo, counts.good),
        (w.warm_up, Some(counts.warm_up)),
        (w.output_tokens, counts.output_tokens),
        (w.received, counts.received),
        (w.lost, counts.lost),
        (w.duplicated, counts.duplicated),
        (w.reordered, counts.reordered),
        (w.lookups, counts.lookups),
        (w.hits, counts.hits),
        (w.connections, Some(counts.connections)),
        (w.bytes_sent, Some(counts.bytes_sent)),
        (w.bytes_received, Some(counts.bytes_received)),
    ];
    let pairs: Vec<_> =
        all.into_iter().filter_map(|(name, value)| Some((name, number::count(value?)))).collect();
    page.pairs(&pairs);
    page.end();
}

fn bounds(page: &mut Page, run: &RunDocument) {
    let lang = page.lang;
    let w = lang.words();
    let rows: Vec<Vec<String>> = run
        .metrics
        .iter()
        .flat_map(|(metric, summary)| {
            summary.bounds.iter().map(move |(statistic, bound)| (metric, summary, statistic, bound))
        })
        .map(|(metric, summary, statistic, bound)| {
            vec![
                code(&format!("{metric}.{statistic}")),
                escape(&optional_quantity(bound.lower, summary.unit)),
                escape(&reading::upper_bound(lang, summary, bound)),
                number::percent(bound.confidence),
                number::count(bound.needs),
            ]
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    page.sub(w.bounds);
    let (lower, samples) = lang.pick(("lower bound", "samples needed"), ("下界", "所需样本"));
    page.table(&[w.metric, lower, w.upper_bound, lang.pick("confidence", "置信度"), samples], &rows, 1);
}

fn definitions(page: &mut Page, runs: &[RunDocument]) {
    let lang = page.lang;
    let w = lang.words();
    let mut metrics: Vec<MetricId> = runs.iter().flat_map(|run| run.metrics.keys().copied()).collect();
    metrics.sort_unstable();
    metrics.dedup();
    if metrics.is_empty() {
        return;
    }
    page.section("definitions", w.how_measured);
    page.note(lang.pick(
        "Latencies and failures are cohorts: the operations whose intended start lies in the measured window, whenever they ended; what failed counts as infinitely late. Rates are flows: events whose own instant lies in the window. Bounds are one-sided and use the effective number of independent observations, because neighbouring operations share queues.",
        "延迟与失败按批次统计：计划开始时刻落在测量窗口内的操作，无论何时结束；失败视为无限迟。速率按流量统计：自身时刻落在窗口内的事件。置信界为单侧，采用有效独立样本数，因为相邻操作共享队列、并不独立。",
    ));
    let rows: Vec<Vec<String>> = metrics
        .into_iter()
        .map(|metric| {
            vec![
                code(metric.as_str()),
                escape(metric.unit().as_str()),
                escape(words::definition(lang, metric)),
            ]
        })
        .collect();
    page.table(&[w.metric, w.unit, w.definition], &rows, 9);
    page.end();
}

/// A rate per second, or the sign for nothing.
fn rate_text(rate: Option<f64>) -> String {
    rate.map_or_else(|| number::NONE.to_owned(), |rate| format!("{}/s", number::plain(rate, 4)))
}
