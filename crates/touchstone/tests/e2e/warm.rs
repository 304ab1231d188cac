//! Warm-up that ends by itself, and what a run says of its steadiness.

use touchstone_model::FindingCode;

use crate::harness::{Engine, bench, context, measuring};

#[test]
fn warm_up_auto_ends_when_the_target_is_steady_and_is_told() {
    let _alone = measuring();
    let engine = Engine::start("flat", "");
    let flags = "--arrival constant:40/s --duration 3s --warm-up auto:25s --input-tokens 8 --output-tokens 4 --seed 2";
    let benched = bench(&context(), &engine.chat(), flags);
    let parameters = &benched.document.workload.parameters;
    let spent = parameters["warm_up_auto_s"].as_f64().unwrap();
    assert!((9.0..=26.0).contains(&spent), "{parameters:?}");
    assert!(parameters["warm_up_auto_steady"].is_boolean(), "{parameters:?}");
    assert!(benched.stderr.contains("warmed up for"), "{}", benched.stderr);
    // The warm-up is no run: only the run that was asked for is recorded.
    assert!(benched.document.steady.is_some(), "{}", benched.told());
    assert_eq!(benched.document.counts.warm_up, 80, "{}", benched.told());
}

#[test]
fn a_saturated_run_is_never_steady_and_says_so_once() {
    let engine = Engine::start("capacity-50", "");
    let flags = "--arrival constant:90/s --duration 4s --warm-up 500ms --drain 10s --input-tokens 4 --output-tokens 1";
    let benched = bench(&context(), &engine.chat(), flags);
    let steady = benched.document.steady.unwrap();
    assert!(steady.from_s.is_none() && !steady.backlog_steady, "{steady:?}");
    assert!(benched.finding(FindingCode::BacklogGrowing) && !benched.finding(FindingCode::NotSteady));
}
