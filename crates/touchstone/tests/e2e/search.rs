//! Searching over load against engines whose limits are known.

use serde_json::Value;
use touchstone_model::sweep::Ending;
use touchstone_model::{Level, MetricId, SweepDocument};

use crate::harness::{Engine, check, context, measuring, run};

const TOKENS: &str = "--input-tokens 4 --output-tokens 1 --no-ceiling";

#[test]
fn the_saturation_point_of_a_server_of_fifty_is_fifty() {
    let _alone = measuring();
    let engine = Engine::start("capacity-50", "");
    let context = context().limit(std::time::Duration::from_secs(180));
    let line = format!(
        "search --target {} --arrival constant:20/s --duration 2s --warm-up 300ms --drain 5s --at-most 200 --seed 3 --looks 2 {TOKENS} --json -",
        engine.chat()
    );
    let done = context.run(line.split_whitespace()).unwrap();
    check(&done);
    assert_eq!(done.code(), Some(0), "{}", done.snapshot());
    let json: Value = serde_json::from_str(&done.stdout).unwrap();
    let document: SweepDocument = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(&document).unwrap(), json, "a field that no type knows");
    assert!(document.simulated && document.level == Level::E && document.ended == Ending::Complete);
    let found = &document.estimates[&MetricId::SaturationPoint];
    // Up to 50 / 0.98 is sustained by the definition; a window of 2 s holds 100 operations.
    assert!((47.0..=52.5).contains(&found.value.unwrap()), "{found:?}\n{}", done.stderr);
    assert!(
        found.lower.is_none_or(|low| low <= 52.0) && found.upper.is_none_or(|high| high >= 49.0),
        "{found:?}"
    );
    let shape = document.shape.as_ref().unwrap();
    assert!((48.5..=51.5).contains(&shape.peak_throughput), "{shape:?}");
    // Every probe is a run of its own, with prompts of its own.
    let mut seeds = std::collections::BTreeSet::new();
    for probe in &document.probes {
        let shown = run(&context, &format!("runs show {} --json", probe.run));
        let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
        assert_eq!(shown["workload"]["parameters"]["sweep"], document.sweep.as_str(), "{shown}");
        assert!(seeds.insert(shown["workload"]["seed"].as_u64().unwrap()));
    }
    let dir = context.path(".touchstone").join("sweeps").join(&document.sweep);
    let stored: Value = serde_json::from_slice(&std::fs::read(dir.join("sweep.json")).unwrap()).unwrap();
    assert_eq!(stored, json);
    let page = std::fs::read_to_string(dir.join("report.html")).unwrap();
    assert!(page.contains("saturation_point") && page.contains("SIMULATED"), "the page says what was found");
}

#[test]
fn ctrl_c_leaves_the_curve_so_far() {
    let engine = Engine::start("flat", "");
    let context = context();
    let line = format!(
        "search --target {} --arrival constant:20/s --duration 1500ms --warm-up 100ms --seed 3 {TOKENS} --json -",
        engine.chat()
    );
    let mut running = context.spawn(line.split_whitespace()).unwrap();
    running.wait_for(|text| text.contains("probe 3").then_some(())).unwrap();
    running.interrupt().unwrap();
    let done = running.finish().unwrap();
    check(&done);
    assert_eq!(done.code(), Some(130), "{}", done.snapshot());
    let document: SweepDocument = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(document.ended, Ending::Interrupted);
    assert!((2..=3).contains(&document.probes.len()), "{}", done.snapshot());
    let found = &document.estimates[&MetricId::SaturationPoint];
    assert!(found.value.unwrap() >= 39.0 && found.upper.is_none(), "{found:?}");
}

#[test]
fn a_budget_ends_a_search_and_is_said() {
    let engine = Engine::start("flat", "");
    let context = context();
    let line = format!(
        "search --target {} --arrival constant:20/s --duration 1500ms --warm-up 100ms --budget 4s --seed 3 {TOKENS} --json -",
        engine.chat()
    );
    let done = context.run(line.split_whitespace()).unwrap();
    check(&done);
    let document: SweepDocument = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!((done.code(), document.ended), (Some(0), Ending::Budget), "{}", done.snapshot());
    assert!(done.stdout.contains("search-incomplete"), "{}", done.stdout);
}
