//! The page of a campaign: a heat table for each chief figure, then every cell.

use touchstone_model::campaign::{CampaignDocument, Cell, CellFigures, CellState};

use super::{Page, tag};
use crate::number;
use crate::svg::escape;
use crate::terminal::{FIGURES, figure_texts, state_text, tally};
use crate::words::Lang;

/// A figure that is drawn as heat: its name, how to read it, and whether more is better.
type Heat = (&'static str, fn(&CellFigures) -> Option<f64>, bool);

const HEATS: [Heat; 3] = [
    ("output_token_throughput, tokens/s", |figures| figures.output_token_throughput, true),
    ("ttft p95, ms", |figures| figures.ttft_ms_p95, false),
    ("itl p95, ms", |figures| figures.itl_ms_p95, false),
];

/// A page with heat tables and every cell. Heat compares within a scenario only: scenarios are different work. A cell from a
/// simulator says so in the cell itself.
#[must_use]
pub fn campaign_report(document: &CampaignDocument, lang: Lang) -> String {
    let w = lang.words();
    let mut page = Page::new(lang);
    let title = format!("{}{}{}", lang.pick("campaign", "测试活动"), w.colon, document.name);
    page.push(&format!(
        "<header>\n<h1>{}</h1>\n<p>touchstone {} · {}</p>\n</header>\n",
        escape(&title),
        escape(&document.touchstone_version),
        escape(&document.updated_at)
    ));
    let simulated = document.cells.iter().any(|cell| cell.state == CellState::Simulated);
    page.section("heat", lang.pick("heat tables", "热度表"));
    page.note(&tally(document, lang));
    if simulated {
        page.push(&format!(
            "<p class=\"banner sim\"><strong>{}</strong> {}</p>\n",
            escape(w.simulated),
            escape(w.no_product_measured)
        ));
    }
    for heat in HEATS {
        heat_table(&mut page, document, heat);
    }
    page.end();
    page.section("cells", lang.pick("cells", "单元"));
    let mut heads = vec![
        lang.pick("scenario", "场景"),
        w.model,
        lang.pick("hardware", "硬件"),
        lang.pick("engine", "引擎"),
        lang.pick("state", "状态"),
    ];
    heads.extend(FIGURES);
    heads.push(w.reason);
    let rows: Vec<Vec<String>> = document
        .cells
        .iter()
        .map(|cell| {
            let mut row = vec![
                escape(&cell.scenario),
                escape(&cell.model),
                escape(&cell.hardware),
                escape(&cell.engine),
                state_tag(cell, lang),
            ];
            row.extend(figure_texts(cell, lang).iter().map(|text| escape(text)));
            row.push(escape(cell.why.as_deref().unwrap_or_default()));
            row
        })
        .collect();
    page.table(&heads, &rows, 99);
    page.end();
    let mark = if simulated { format!("[{}] ", w.simulated) } else { String::new() };
    page.finish(&format!("{mark}{title}"))
}

fn state_tag(cell: &Cell, lang: Lang) -> String {
    let class = match cell.state {
        CellState::Measured => "good",
        CellState::Simulated => "sim",
        CellState::Missing => "warn",
    };
    tag(state_text(cell, lang), class)
}

fn heat_table(page: &mut Page, document: &CampaignDocument, (name, read, more): Heat) {
    let lang = page.lang;
    let mut scenarios: Vec<&str> = Vec::new();
    let mut rows: Vec<(&str, &str, &str)> = Vec::new();
    for cell in &document.cells {
        if !scenarios.contains(&cell.scenario.as_str()) {
            scenarios.push(&cell.scenario);
        }
        let row = (cell.model.as_str(), cell.hardware.as_str(), cell.engine.as_str());
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let value = |cell: &Cell| cell.figures.as_ref().and_then(read).filter(|value| *value > 0.0);
    page.sub_plain(name);
    let mut heads = vec![""];
    heads.extend(&scenarios);
    let body: Vec<Vec<String>> = rows
        .iter()
        .map(|(model, hardware, engine)| {
            let mut cells = vec![escape(&format!("{model} · {hardware} · {engine}"))];
            for scenario in &scenarios {
                let column = document.cells.iter().filter(|cell| cell.scenario == *scenario);
                let all: Vec<f64> = column.clone().filter_map(value).collect();
                let cell = column.clone().find(|cell| {
                    (cell.model.as_str(), cell.hardware.as_str(), cell.engine.as_str())
                        == (*model, *hardware, *engine)
                });
                cells.push(match cell {
                    Some(cell) => match value(cell) {
                        Some(found) => heated(found, &all, more, cell, lang),
                        None => state_tag(cell, lang),
                    },
                    None => String::new(),
                });
            }
            cells
        })
        .collect();
    page.table(&heads, &body, 99);
}

/// A figure on a ground that is the stronger the nearer it is to the best of its column.
fn heated(value: f64, all: &[f64], more: bool, cell: &Cell, lang: Lang) -> String {
    let best = all.iter().copied().reduce(if more { f64::max } else { f64::min }).unwrap_or(value);
    let closeness = if more { value / best } else { best / value };
    let strength = (closeness.clamp(0.0, 1.0) * 0.55 * 100.0).round() / 100.0;
    let mark = if cell.state == CellState::Simulated {
        format!(" {}", state_tag(cell, lang))
    } else {
        String::new()
    };
    format!(
        "<span style=\"display:block;padding:2px 6px;background:rgba(0,158,115,{strength})\">{}{mark}</span>",
        escape(&number::plain(value, 4))
    )
}
