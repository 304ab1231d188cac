//! What a comparison says, as a table with the reasons below.

use touchstone_model::comparison::{Compared, ComparisonDocument, Replication, Side, Standing};

use crate::terminal::{Ink, Style};
use crate::text::{Align, Table, clean};
use crate::{Lang, number, words};

/// The word of a standing.
pub(crate) fn standing_text(standing: Standing, lang: Lang) -> &'static str {
    match standing {
        Standing::Better => lang.pick("better", "更好"),
        Standing::SlightlyBetter => lang.pick("slightly better", "略好"),
        Standing::Equivalent => lang.pick("equivalent", "等价"),
        Standing::SlightlyWorse => lang.pick("slightly worse", "略差"),
        Standing::Worse => lang.pick("worse", "更差"),
        Standing::NotResolved => lang.pick("not resolved", "未分辨"),
    }
}

/// The metric with its statistic.
pub(crate) fn metric_text(one: &Compared) -> String {
    one.statistic.map_or_else(|| one.metric.to_string(), |statistic| format!("{}.{statistic}", one.metric))
}

fn ratio_text(value: Option<f64>) -> String {
    value.map_or_else(|| number::NONE.to_owned(), |value| format!("{}x", number::plain(value, 4)))
}

/// `1.12x [1.07x, 1.17x]`.
pub(crate) fn interval_text(one: &Compared) -> String {
    match (one.lower, one.upper) {
        (Some(lower), Some(upper)) => {
            format!("{} [{}, {}]", ratio_text(one.ratio), ratio_text(Some(lower)), ratio_text(Some(upper)))
        }
        _ => ratio_text(one.ratio),
    }
}

/// A side in words: its name, runs and deploys.
pub(crate) fn side_text(side: &Side, lang: Lang) -> String {
    let runs = side.runs.len();
    let deploys = side.deploys.map_or_else(String::new, |deploys| {
        lang.pick(format!(", {deploys} deploys"), format!("，{deploys} 次部署"))
    });
    lang.pick(
        format!("{} ({runs} runs{deploys})", side.name),
        format!("{}（{runs} 次运行{deploys}）", side.name),
    )
}

/// What the values stand for.
pub(crate) fn unit_text(unit: Replication, paired: bool, lang: Lang) -> &'static str {
    match (unit, paired) {
        (Replication::Deploy, _) => lang.pick("unit of replication: the deploy", "重复单位：部署"),
        (Replication::Run, true) => lang.pick(
            "unit of replication: the run, in pairs of equal schedules",
            "重复单位：运行（按相同计划配对）",
        ),
        (Replication::Run, false) => lang.pick("unit of replication: the run", "重复单位：运行"),
        (Replication::Block, _) => lang
            .pick("one run a side: intervals are within runs only", "每侧一次运行：区间只反映运行内的变化"),
    }
}

/// The comparison: both sides, a row for each metric, the reasons, what limits it.
#[must_use]
pub fn comparison_summary(document: &ComparisonDocument, style: &Style) -> String {
    let w = style.lang.words();
    let mut out = String::new();
    let mark = if document.simulated { format!("{}  ", w.simulated) } else { String::new() };
    let head = format!(
        "{mark}{} {} {}",
        clean(&side_text(&document.a, style.lang)),
        style.lang.pick("against", "对比"),
        clean(&side_text(&document.b, style.lang))
    );
    style.paragraph(&mut out, "", &head);
    style.paragraph(
        &mut out,
        "",
        &format!(
            "{}; {} {}; {}",
            unit_text(document.unit, document.paired, style.lang),
            style.lang.pick("smallest difference that matters", "有意义的最小差异"),
            number::percent(document.margin),
            words::level(style.lang, document.level)
        ),
    );
    out.push('\n');
    let ratio = format!("a / b ({})", number::percent(document.confidence));
    let mut table = Table::new(&[
        (w.metric, Align::Left),
        ("a", Align::Right),
        ("b", Align::Right),
        (&ratio, Align::Left),
        (style.lang.pick("a is", "a"), Align::Left),
    ]);
    let figure = |value: Option<f64>, one: &Compared| {
        value.map_or_else(|| number::NONE.to_owned(), |value| number::quantity(value, one.unit))
    };
    for one in &document.metrics {
        let suspected =
            if one.suspected { style.lang.pick(" (suspected worse)", "（疑似更差）") } else { "" };
        table.row(vec![
            metric_text(one),
            figure(one.a, one),
            figure(one.b, one),
            interval_text(one),
            format!("{}{suspected}", standing_text(one.standing, style.lang)),
        ]);
    }
    for (index, line) in table.lines("").iter().enumerate() {
        let ink = match index.checked_sub(1).and_then(|row| document.metrics.get(row)).map(|one| one.standing)
        {
            Some(Standing::Better | Standing::SlightlyBetter) => Ink::Good,
            Some(Standing::Worse | Standing::SlightlyWorse) => Ink::Bad,
            Some(_) => Ink::Dim,
            None => Ink::Bold,
        };
        out += &style.ink(ink, line);
        out.push('\n');
    }
    out.push('\n');
    for one in &document.metrics {
        style.paragraph(&mut out, "  ", &format!("{}: {}", metric_text(one), one.reason));
    }
    if !document.findings.is_empty() {
        out += &format!("\n{}\n", style.head(w.findings));
        for finding in &document.findings {
            style.paragraph(&mut out, "  ", &format!("{}: {}", finding.code, finding.message));
            style.hint(&mut out, "    ", &finding.advice);
        }
    }
    out
}
