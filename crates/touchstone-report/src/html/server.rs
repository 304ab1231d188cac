//! What was seen inside the target, on the page of a run.

use touchstone_model::server::ServerSection;
use touchstone_model::{RunDocument, ServerMetric, Unit};

use super::{Page, charts, code};
use crate::number;
use crate::svg::{Axis, LineChart, Series, Shape, Stack, StackedChart, escape};
use crate::terminal::server as text;
use crate::words::Lang;

/// The section; nothing where nobody looked.
pub(super) fn server(page: &mut Page, run: &RunDocument, id: &str) {
    let Some(section) = run.server.as_deref() else { return };
    let lang = page.lang;
    page.section(&format!("{id}-inside"), lang.pick("inside the target", "目标内部"));
    page.note(&text::about(section, lang));
    page.note(lang.pick(
        "Counters and distributions are what was added between the reading before the first operation and the one after drain; means and maxima of gauges are of the measured window.",
        "计数与分布为首个操作之前与排空之后两次读取之间的增量；瞬时值的均值与最大值取自测量窗口。",
    ));
    let table = |page: &mut Page, heads: Vec<String>, rows: Vec<Vec<String>>, numeric| {
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let cell = |(index, cell): (usize, &String)| if index == 0 { code(cell) } else { escape(cell) };
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().enumerate().map(cell).collect()).collect();
        page.table(&heads, &rows, numeric);
    };
    let rows = text::server_rows(section, lang);
    if !rows.is_empty() {
        table(page, text::server_heads(lang), rows, 1);
    }
    for metrics in [
        &[ServerMetric::Running, ServerMetric::Waiting][..],
        &[ServerMetric::KvCacheUsage],
        &[ServerMetric::ProcessMemory],
    ] {
        if let Some(chart) = course(lang, run, section, metrics, id) {
            page.chart(&chart);
        }
    }
    if let Some(chart) = memory(lang, run, section, id) {
        page.chart(&chart);
    }
    if !section.reconciliation.is_empty() {
        page.sub(lang.pick("client against server", "客户端与服务端对照"));
        table(page, text::reconciled_heads(lang), text::reconciled_rows(section, lang), 9);
    }
    if !section.ttft_parts.is_empty() {
        page.sub(lang.pick("where the mean ttft goes", "ttft 均值的构成"));
        page.chart(&parts(lang, run, section, id));
        let heads = lang.pick(["part", "mean", "from", "note"], ["部分", "均值", "来源", "说明"]);
        let rows: Vec<Vec<String>> = section
            .ttft_parts
            .iter()
            .map(|part| {
                let mean = part.mean_ms.map_or_else(
                    || number::NONE.to_owned(),
                    |value| number::quantity(value, Unit::Milliseconds),
                );
                let from = serde_json::to_value(part.from).ok();
                let from = from.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
                vec![
                    code(part.part.as_str()),
                    escape(&mean),
                    escape(&from),
                    escape(part.note.as_deref().unwrap_or_default()),
                ]
            })
            .collect();
        page.table(&heads, &rows, 9);
    }
    if let Some(line) = text::process_line(section, lang) {
        page.sub(lang.pick("processes", "进程"));
        page.note(&line);
    }
    for line in text::device_lines(section, lang) {
        page.note(&line);
    }
    if !section.missing.is_empty() {
        page.sub(lang.pick("not reported", "未报告"));
        let missing: Vec<(&str, String)> =
            section.missing.iter().map(|(metric, why)| (metric.as_str(), why.clone())).collect();
        page.pairs(&missing);
    }
    page.end();
}

fn course(
    lang: Lang,
    run: &RunDocument,
    section: &ServerSection,
    metrics: &[ServerMetric],
    id: &str,
) -> Option<String> {
    let series: Vec<Series> = metrics
        .iter()
        .enumerate()
        .filter_map(|(index, metric)| {
            let points = section.series.get(metric)?.iter().map(|(at, value)| (*at, Some(*value))).collect();
            Some(Series { name: metric.to_string(), shape: Shape::Line, color: index, points })
        })
        .collect();
    if series.is_empty() {
        return None;
    }
    let names: Vec<&str> = metrics.iter().map(|metric| metric.as_str()).collect();
    let names = names.join(", ");
    let unit = metrics.first()?.unit();
    Some(line(
        lang,
        run,
        format!("{id}-server-{}", metrics.first()?),
        lang.pick(format!("server: {names} over time"), format!("服务端：{names} 随时间的变化")),
        Axis { label: unit.to_string(), percent: unit == Unit::Ratio, ..Axis::default() },
        series,
    ))
}

fn memory(lang: Lang, run: &RunDocument, section: &ServerSection, id: &str) -> Option<String> {
    let process = section.process.as_ref()?;
    let points =
        process.series.iter().map(|(at, bytes, _)| (*at, Some(*bytes as f64 / 1_048_576.0))).collect();
    let series = vec![Series { name: "RSS".to_owned(), shape: Shape::Line, color: 0, points }];
    Some(line(
        lang,
        run,
        format!("{id}-process-memory"),
        lang.pick("memory of the target's processes over time", "目标进程内存随时间的变化").to_owned(),
        Axis { label: "MiB".to_owned(), ..Axis::default() },
        series,
    ))
}

fn line(lang: Lang, run: &RunDocument, id: String, title: String, y: Axis, series: Vec<Series>) -> String {
    let description = lang.pick(
        "As read from the server during the run; seconds since the start of warm-up.",
        "运行期间自服务端读取；横轴为预热开始后的秒数。",
    );
    LineChart {
        head: charts::head(lang, &[run], id, title, description.to_owned()),
        x: charts::time_axis(lang),
        y,
        legend: series.len() > 1,
        series,
        bands: charts::bands(lang, run),
        references: Vec::new(),
        empty: lang.words().no_data.to_owned(),
    }
    .render()
}

/// The known parts as one stacked bar of shares.
fn parts(lang: Lang, run: &RunDocument, section: &ServerSection, id: &str) -> String {
    let known: Vec<(&str, f64)> =
        section.ttft_parts.iter().filter_map(|part| Some((part.part.as_str(), part.mean_ms?))).collect();
    let sum: f64 = known.iter().map(|(_, value)| value).sum();
    let share = |value: f64| if sum > 0.0 { value / sum } else { 0.0 };
    StackedChart {
        head: charts::head(
            lang,
            &[run],
            format!("{id}-ttft-parts"),
            lang.pick("parts of the mean ttft", "ttft 均值的构成").to_owned(),
            lang.pick(
                "Shares of the known parts, in time order, over all answered operations of the run.",
                "按时间顺序排列的已知部分占比，取自本次运行所有得到应答的操作。",
            )
            .to_owned(),
        ),
        parts: known.iter().map(|(name, _)| (*name).to_owned()).collect(),
        rows: vec![Stack {
            label: number::quantity(sum, Unit::Milliseconds),
            parts: known.iter().map(|(_, value)| share(*value)).collect(),
        }],
        empty: lang.words().no_data.to_owned(),
    }
    .render()
}
