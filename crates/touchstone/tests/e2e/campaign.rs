//! A campaign is measured cell by cell, and goes on after `kill -9`.

use serde_json::Value;
use touchstone_model::CampaignDocument;
use touchstone_model::campaign::CellState;

use crate::harness::{check, context, measuring, run};

const SCENARIO: &str = include_str!("../../../../scenarios/light-chat.yaml");

const FILE: &str = "format: touchstone.campaign-file/1
name: small
models: [m1]
hardware: [here]
engines: [flat, tgi-like, absent]
scenarios:
  - {name: light chat, file: light-chat.yaml}
  - {name: again, file: light-chat.yaml}
repeats: 1
duration: 1500ms
warm_up: 200ms
drain: 5s
targets:
  - {engine: flat, target: engine=flat}
  - {engine: tgi-like, target: engine=tgi-like}
";

fn document(text: &str) -> CampaignDocument {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"));
    let document: CampaignDocument = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&document).unwrap(), value, "a field that no type knows");
    document
}

#[test]
fn a_campaign_goes_on_after_kill_9_and_measures_nothing_twice() {
    let _alone = measuring();
    let context = context().limit(std::time::Duration::from_secs(120));
    context.write("c.yaml", FILE).unwrap();
    context.write("light-chat.yaml", SCENARIO).unwrap();
    let mut running = context.spawn(["campaign", "c.yaml", "--json", "-"]).unwrap();
    running.wait_for(|text| text.contains("cell 2 of 6").then_some(())).unwrap();
    running.kill().unwrap();
    running.finish().unwrap();

    let shown = run(&context, "campaign c.yaml --show --json -");
    assert_eq!(shown.code(), Some(0), "{}", shown.snapshot());
    let before = document(&shown.stdout);
    let first = before.cells[0].clone();
    assert_eq!(first.state, CellState::Simulated, "{first:?}");
    assert!(before.cells[1..].iter().all(|cell| cell.state == CellState::Missing), "{before:?}");

    let done = run(&context, "campaign c.yaml --json -");
    assert_eq!(done.code(), Some(0), "{}", done.snapshot());
    assert!(done.stderr.contains("1 of 6 cells are there already"), "{}", done.stderr);
    let after = document(&done.stdout);
    assert_eq!(after.cells[0], first, "it was not measured again");
    let states: Vec<CellState> = after.cells.iter().map(|cell| cell.state).collect();
    use CellState::{Missing, Simulated};
    assert_eq!(states, [Simulated, Simulated, Missing, Simulated, Simulated, Missing], "{}", done.stderr);
    assert_eq!(after.cells[2].why.as_deref(), Some("no target in the file fits it"));
    let figures = after.cells[1].figures.as_ref().unwrap();
    assert!(figures.ttft_ms_p50.unwrap() > 0.0 && figures.output_token_throughput.unwrap() > 0.0);
    let page = context.path(".touchstone").join("campaigns").join("small").join("report.html");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("simulated (E)") && page.contains("missing"), "the page marks its cells");

    // A run that is gone takes its cell with it; so does a scenario that was changed.
    let gone = &after.cells[1].runs[0];
    std::fs::remove_dir_all(context.path(".touchstone").join("runs").join(gone)).unwrap();
    let shown = document(&run(&context, "campaign c.yaml --show --json -").stdout);
    assert_eq!(shown.cells[1].state, Missing);
    assert_eq!(shown.cells[0].state, Simulated);
    context.write("light-chat.yaml", SCENARIO.replace("input_tokens: 256", "input_tokens: 200")).unwrap();
    let shown = document(&run(&context, "campaign c.yaml --show --json -").stdout);
    assert!(shown.cells.iter().all(|cell| cell.state == Missing));
}

#[test]
fn a_campaign_with_nothing_to_reach_says_so() {
    let context = context();
    context.write("light-chat.yaml", SCENARIO).unwrap();
    context.write("c.yaml", &FILE[..FILE.find("targets:").unwrap()]).unwrap();
    let done = context.run(["campaign", "c.yaml"]).unwrap();
    check(&done);
    assert_eq!(done.code(), Some(1), "{}", done.snapshot());
    assert!(done.stdout.contains("6 missing"), "{}", done.stdout);
    context.write("c.yaml", FILE.replace("light-chat.yaml", "nowhere.yaml")).unwrap();
    let done = context.run(["campaign", "c.yaml"]).unwrap();
    assert_eq!(done.code(), Some(2), "{}", done.snapshot());
}
