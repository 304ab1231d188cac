//! What was seen inside the target, in a few tables and lines.

use touchstone_model::server::{DeviceSection, Reconciled, ServerSection};
use touchstone_model::{RunDocument, Statistic, Unit};

use crate::Lang;
use crate::number;
use crate::terminal::{Ink, Style};
use crate::text::{Align, Table, clean};

/// Writes the section; nothing where nobody looked.
pub(super) fn server(out: &mut String, run: &RunDocument, style: &Style) {
    let Some(section) = run.server.as_deref() else { return };
    let lang = style.lang;
    let mark = if run.simulated { format!("  [{}]", lang.words().simulated) } else { String::new() };
    let head = style.head(lang.pick("Inside the target", "目标内部"));
    *out += &format!("\n{head}  {}{mark}\n", about(section, lang));
    let heads = server_heads(lang);
    push(out, &heads, &server_rows(section, lang), style);
    if !section.reconciliation.is_empty() {
        out.push('\n');
        push(out, &reconciled_heads(lang), &reconciled_rows(section, lang), style);
    }
    if let Some(line) = ttft_line(section, lang) {
        out.push('\n');
        style.paragraph(out, lang.pick("  mean ttft  ", "  ttft 均值  "), &line);
    }
    if let Some(line) = process_line(section, lang) {
        style.paragraph(out, lang.pick("  process  ", "  进程  "), &line);
    }
    for line in device_lines(section, lang) {
        style.paragraph(out, lang.pick("  device  ", "  设备  "), &line);
    }
}

fn push(out: &mut String, heads: &[String], rows: &[Vec<String>], style: &Style) {
    if rows.is_empty() {
        return;
    }
    let columns: Vec<(&str, Align)> = heads
        .iter()
        .enumerate()
        .map(|(index, head)| (head.as_str(), if index == 0 { Align::Left } else { Align::Right }))
        .collect();
    let mut table = Table::new(&columns);
    rows.iter().for_each(|row| table.row(row.iter().map(|cell| clean(cell)).collect()));
    for (index, line) in table.lines("  ").iter().enumerate() {
        *out += &if index == 0 { style.ink(Ink::Dim, line) } else { line.clone() };
        out.push('\n');
    }
}

/// Whose page it is and what reading it cost, or why there is none.
pub(crate) fn about(section: &ServerSection, lang: Lang) -> String {
    match (&section.engine, &section.unavailable) {
        (Some(engine), _) => {
            let cost = section.reading_ms.map_or_else(|| number::NONE.to_owned(), ms);
            let source = clean(section.source.as_deref().unwrap_or_default());
            let failed = match section.failed_readings {
                0 => String::new(),
                n => lang.pick(format!(", {n} failed"), format!("，{n} 次失败")),
            };
            lang.pick(
                format!("{engine}: {} readings of {source}, {cost} each{failed}", section.readings),
                format!("{engine}：读取 {source} {} 次，每次 {cost}{failed}", section.readings),
            )
        }
        (None, why) => {
            let why = clean(why.as_deref().unwrap_or_default());
            lang.pick(format!("no server metrics: {why}"), format!("没有服务端指标：{why}"))
        }
    }
}

fn ms(value: f64) -> String {
    number::quantity(value, Unit::Milliseconds)
}

pub(crate) fn server_heads(lang: Lang) -> Vec<String> {
    let heads = lang.pick(
        ["server metric", "growth", "mean", "max", "p99 between"],
        ["服务端指标", "增量", "均值", "最大", "p99 区间"],
    );
    heads.map(str::to_owned).to_vec()
}

/// A row for each metric that there is.
pub(crate) fn server_rows(section: &ServerSection, lang: Lang) -> Vec<Vec<String>> {
    let none = || number::NONE.to_owned();
    let mut rows = Vec::new();
    for (metric, gauge) in &section.gauges {
        let value = |value: Option<f64>| {
            value.map_or_else(none, |value| match metric.unit() {
                Unit::Count => number::plain(value, 4),
                unit => number::quantity(value, unit),
            })
        };
        rows.push(vec![metric.to_string(), none(), value(gauge.mean), value(gauge.max), none()]);
    }
    for (metric, counter) in &section.counters {
        let growth = match metric.unit() {
            Unit::Milliseconds => ms(counter.delta),
            _ => number::plain(counter.delta, 9),
        };
        rows.push(vec![metric.to_string(), growth, none(), none(), none()]);
        let reasons = counter.by_reason.iter().filter(|(_, value)| **value != 0.0);
        rows.extend(reasons.map(|(reason, value)| {
            vec![format!("  {reason}"), number::plain(*value, 9), none(), none(), none()]
        }));
    }
    for (metric, seen) in &section.distributions {
        let bounds = seen.quantiles.get(&Statistic::P99).map(|bounds| match bounds.upper {
            Some(upper) => format!("{} - {}", ms(bounds.lower), ms(upper)),
            None => lang.pick(format!("above {}", ms(bounds.lower)), format!("高于 {}", ms(bounds.lower))),
        });
        rows.push(vec![
            metric.to_string(),
            number::plain(seen.count, 9),
            seen.mean.map_or_else(none, ms),
            none(),
            bounds.unwrap_or_else(none),
        ]);
    }
    rows
}

pub(crate) fn reconciled_heads(lang: Lang) -> Vec<String> {
    let heads = lang.pick(
        ["client against server", "client", "server", "agree", "note"],
        ["客户端与服务端对照", "客户端", "服务端", "一致", "说明"],
    );
    heads.map(str::to_owned).to_vec()
}

/// A row for each figure that both sides may have.
pub(crate) fn reconciled_rows(section: &ServerSection, lang: Lang) -> Vec<Vec<String>> {
    let row = |row: &Reconciled| {
        let value = |value: Option<f64>| {
            value.map_or_else(
                || number::NONE.to_owned(),
                |value| match row.unit {
                    Unit::Count | Unit::Tokens => number::plain(value, 9),
                    unit => number::quantity(value, unit),
                },
            )
        };
        let agree = match row.agrees {
            Some(true) => lang.pick("yes", "是"),
            Some(false) => lang.pick("NO", "否"),
            None => number::NONE,
        };
        let note = row.note.clone().unwrap_or_default();
        vec![row.what.clone(), value(row.client), value(row.server), agree.to_owned(), note]
    };
    section.reconciliation.iter().map(row).collect()
}

/// `12 ms = generator 0.02 ms + ...`, with what is not known at the end.
fn ttft_line(section: &ServerSection, lang: Lang) -> Option<String> {
    let known: Vec<_> = section.ttft_parts.iter().filter_map(|part| Some((part, part.mean_ms?))).collect();
    if known.is_empty() {
        return None;
    }
    let complete = section
        .ttft_parts
        .iter()
        .any(|part| part.part == touchstone_model::server::TtftPartId::Rest && part.mean_ms.is_some());
    let sum: f64 = known.iter().map(|(_, value)| value).sum();
    let parts: Vec<String> =
        known.iter().map(|(part, value)| format!("{} {}", part.part.as_str(), ms(*value))).collect();
    let unknown: Vec<String> = section
        .ttft_parts
        .iter()
        .filter(|part| part.mean_ms.is_none())
        .filter_map(|part| Some(format!("{}: {}", part.part.as_str(), part.note.as_ref()?)))
        .collect();
    let whole = if complete { format!("{} = ", ms(sum)) } else { String::new() };
    let mut line = format!("{whole}{}", parts.join(" + "));
    if !unknown.is_empty() {
        line += &lang.pick(
            format!("; not known apart: {}", unknown.join("; ")),
            format!("；未能分开：{}", unknown.join("；")),
        );
    }
    Some(line)
}

/// Memory and CPU time of the target's processes, or why they are not known.
pub(crate) fn process_line(section: &ServerSection, lang: Lang) -> Option<String> {
    let Some(it) = &section.process else {
        let why = section.process_unavailable.as_ref()?;
        return Some(lang.pick(format!("not known: {why}"), format!("未知：{why}")));
    };
    let bytes = |value: f64| number::quantity(value, Unit::Bytes);
    let mut line = lang.pick(
        format!(
            "pid {} ({}, {} processes)   memory {} before, peak {}   CPU {}",
            it.pid,
            it.found,
            it.processes,
            bytes(it.memory_before_bytes as f64),
            bytes(it.memory_peak_bytes as f64),
            ms(it.cpu_seconds * 1e3)
        ),
        format!(
            "pid {}（{}，{} 个进程）   内存 运行前 {}，峰值 {}   CPU {}",
            it.pid,
            it.found,
            it.processes,
            bytes(it.memory_before_bytes as f64),
            bytes(it.memory_peak_bytes as f64),
            ms(it.cpu_seconds * 1e3)
        ),
    );
    if let Some(us) = it.cpu_us_per_token {
        line += &lang.pick(format!(", {} per token", ms(us / 1e3)), format!("，每 token {}", ms(us / 1e3)));
    }
    line += &match (&it.memory_per_request, &it.memory_per_request_unknown) {
        (Some(slope), _) => format!(
            "   memory_per_request {} (95 %: {} .. {})",
            bytes(slope.bytes),
            bytes(slope.lower),
            bytes(slope.upper)
        ),
        (None, Some(why)) => format!("   memory_per_request {} ({why})", number::NONE),
        (None, None) => String::new(),
    };
    Some(line)
}

/// A line for each accelerator.
pub(crate) fn device_lines(section: &ServerSection, lang: Lang) -> Vec<String> {
    let device = |it: &DeviceSection| {
        let figure = |value: Option<f64>, unit: &str| {
            value
                .map_or_else(|| number::NONE.to_owned(), |value| format!("{}{unit}", number::plain(value, 3)))
        };
        let bytes = |value: Option<u64>| {
            value.map_or_else(|| number::NONE.to_owned(), |value| number::quantity(value as f64, Unit::Bytes))
        };
        let used = it.utilisation.map_or_else(|| number::NONE.to_owned(), number::percent);
        let clocks = match (it.sm_mhz_min, it.sm_mhz_max) {
            (Some(min), Some(max)) => format!("{min}-{max} MHz"),
            _ => number::NONE.to_owned(),
        };
        let throttled: Vec<String> = it
            .throttled
            .iter()
            .map(|(reason, share)| format!("{} {}", clean(reason), number::percent(*share)))
            .collect();
        let throttled = if throttled.is_empty() { number::NONE.to_owned() } else { throttled.join(", ") };
        let name = clean(it.name.as_deref().unwrap_or(number::NONE));
        let (peak, total) = (bytes(it.memory_peak_bytes), bytes(it.memory_total_bytes));
        let (watts, energy) = (figure(it.watts, " W"), figure(it.joules_per_token, " J"));
        lang.pick(
            format!(
                "{} {name}   busy {used}   memory peak {peak} of {total}   {clocks}   {watts}, {energy} per token   throttled {throttled}",
                it.index
            ),
            format!(
                "{} {name}   利用率 {used}   内存峰值 {peak}，共 {total}   {clocks}   {watts}，每 token {energy}   降频 {throttled}",
                it.index
            ),
        )
    };
    section.devices.iter().map(device).collect()
}
