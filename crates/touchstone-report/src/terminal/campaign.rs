//! A campaign as a table: every cell, what is known of it, and why not where nothing is.

use touchstone_model::campaign::{CampaignDocument, Cell, CellFigures, CellState};

use crate::terminal::Style;
use crate::text::{Align, Table, clean};
use crate::{Lang, number, words};

/// The word for what is known of a cell; what is simulated carries its level.
pub(crate) fn state_text(cell: &Cell, lang: Lang) -> &'static str {
    match cell.state {
        CellState::Measured => lang.pick("measured", "已测量"),
        CellState::Simulated => lang.pick("simulated (E)", "模拟 (E)"),
        CellState::Missing => lang.pick("missing", "缺失"),
    }
}

/// The chief figures in the order of [`heads`].
pub(crate) fn figure_texts(cell: &Cell, lang: Lang) -> Vec<String> {
    let none = CellFigures::default();
    let figures = cell.figures.as_ref().unwrap_or(&none);
    let optional = |value: Option<f64>| number::optional(value, 3);
    vec![
        optional(figures.ttft_ms_p50),
        optional(figures.ttft_ms_p95),
        optional(figures.itl_ms_p95),
        optional(figures.throughput),
        optional(figures.output_token_throughput),
        figures.error_rate.map_or_else(|| number::NONE.to_owned(), number::percent),
        figures
            .limits
            .map_or_else(|| number::NONE.to_owned(), |outcome| words::outcome(lang, outcome).to_owned()),
    ]
}

/// The heads of the figures, with units.
pub(crate) const FIGURES: [&str; 7] =
    ["ttft p50 ms", "ttft p95 ms", "itl p95 ms", "throughput /s", "tokens/s", "error_rate", "limits"];

/// Cells by what is known of them.
pub(crate) fn tally(document: &CampaignDocument, lang: Lang) -> String {
    let count = |state: CellState| document.cells.iter().filter(|cell| cell.state == state).count();
    let (measured, simulated, missing) =
        (count(CellState::Measured), count(CellState::Simulated), count(CellState::Missing));
    let all = document.cells.len();
    lang.pick(
        format!("{all} cells: {measured} measured, {simulated} simulated (E), {missing} missing"),
        format!("{all} 个单元：{measured} 个已测量，{simulated} 个模拟 (E)，{missing} 个缺失"),
    )
}

/// A campaign: how many cells are there, the table, and why the others are missing.
#[must_use]
pub fn campaign_summary(document: &CampaignDocument, style: &Style) -> String {
    let w = style.lang.words();
    let mut out = String::new();
    let head = format!(
        "{} {}: {}",
        style.lang.pick("campaign", "测试活动"),
        clean(&document.name),
        tally(document, style.lang)
    );
    out += &format!("{}\n\n", style.head(&head));
    let mut columns = vec![
        (style.lang.pick("scenario", "场景"), Align::Left),
        (w.model, Align::Left),
        (style.lang.pick("hardware", "硬件"), Align::Left),
        (style.lang.pick("engine", "引擎"), Align::Left),
        (style.lang.pick("state", "状态"), Align::Left),
    ];
    columns.extend(FIGURES.map(|name| (name, Align::Right)));
    let mut table = Table::new(&columns);
    for cell in &document.cells {
        let mut row = vec![
            cell.scenario.clone(),
            cell.model.clone(),
            cell.hardware.clone(),
            cell.engine.clone(),
            state_text(cell, style.lang).to_owned(),
        ];
        row.extend(figure_texts(cell, style.lang));
        table.row(row);
    }
    for (index, line) in table.lines("").iter().enumerate() {
        out += &if index == 0 { style.head(line) } else { line.clone() };
        out.push('\n');
    }
    let missing: Vec<&Cell> = document.cells.iter().filter(|cell| cell.why.is_some()).collect();
    if !missing.is_empty() {
        out.push('\n');
    }
    for cell in missing {
        let why = cell.why.as_deref().unwrap_or_default();
        let line = format!("{} / {} / {} / {}: {why}", cell.scenario, cell.model, cell.hardware, cell.engine);
        style.paragraph(&mut out, "  ", &line);
    }
    out
}
