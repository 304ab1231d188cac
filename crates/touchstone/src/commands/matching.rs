//! `touchstone match`: which candidates could serve a scenario, and which rule says no to the others.

use touchstone_flow::scenario::Matched;
use touchstone_model::decision::Gate;
use touchstone_report::Lang;
use touchstone_report::terminal::{MatchRow, match_table};

use super::scenario;
use crate::args::MatchArgs;
use crate::exit::ExitCode;
use crate::ui::Ui;

/// One candidate in the JSON document.
#[derive(serde::Serialize)]
struct Row<'a> {
    name: &'a str,
    product: &'a str,
    configuration: &'a str,
    version: Option<&'a str>,
    durability: Option<&'a str>,
    delivery: Option<&'a str>,
    vetoed: bool,
    gates: &'a [Gate],
}

/// Matches and shows.
pub(crate) fn run(args: &MatchArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    let file = scenario::read(&args.file)?;
    let catalog = scenario::catalog(&args.out)?;
    let matched = scenario::matched(&file, &catalog, &args.file)?;
    if args.json {
        let rows: Vec<Row<'_>> = matched.iter().map(row).collect();
        ui.json(&serde_json::json!({
            "format": "touchstone.match/1",
            "scenario": file.scenario.name,
            "catalog_date": catalog.date(),
            "candidates": rows,
        }))?;
    } else {
        ui.data(&match_table(&rows(&matched, ui.lang()), &ui.style()))?;
    }
    Ok(ExitCode::Done)
}

fn row(one: &Matched) -> Row<'_> {
    let m = &one.matched;
    Row {
        name: &m.name,
        product: &m.product,
        configuration: &m.configuration,
        version: m.version.as_deref(),
        durability: m.durability.as_deref(),
        delivery: m.delivery.as_deref(),
        vetoed: m.vetoed,
        gates: &m.gates,
    }
}

/// The rows of the table.
pub(crate) fn rows(matched: &[Matched], lang: Lang) -> Vec<MatchRow> {
    let pick = |text: &touchstone_catalog::Text| match lang {
        Lang::En => text.en.clone(),
        Lang::Zh => text.zh.clone(),
    };
    matched
        .iter()
        .map(|one| {
            let m = &one.matched;
            MatchRow {
                name: m.name.clone(),
                product: m.product.clone(),
                configuration: Some(m.configuration.clone()),
                durability: m.durability.clone(),
                delivery: m.delivery.clone(),
                vetoed: m.vetoed,
                gates: m.gates.clone(),
                recommendations: m
                    .recommendations
                    .iter()
                    .map(|one| {
                        (pick(&one.feature), format!("{} ({}, {})", pick(&one.reason), one.source, one.level))
                    })
                    .collect(),
            }
        })
        .collect()
}
