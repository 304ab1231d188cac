//! The embedded engine as a target whose truth is known: planted overload, and figures against what the server saw.

use serde_json::Value;
use touchstone_model::{FindingCode, MetricId};

use crate::harness::{Benched, Engine, bench, context};

#[test]
fn sixty_a_second_on_a_server_of_fifty() {
    let engine = Engine::start("capacity-50", "");
    let flags =
        "--arrival constant:60/s --duration 6s --warm-up 500ms --input-tokens 4 --output-tokens 1 --seed 1";
    let benched = bench(&context(), &engine.chat(), flags);
    let document = &benched.document;
    assert_eq!(document.rates.offered, Some(60.0), "{}", benched.told());
    assert!((49.0..=51.0).contains(&document.rates.throughput.unwrap()), "{}", benched.told());
    assert!(benched.finding(FindingCode::BacklogGrowing), "{}", benched.told());
    assert!(document.errors.is_empty(), "{}", benched.told());
    // 10 more a second for 6.5 s: the last window's backlog shows it.
    let most = document.windows.iter().map(|window| window.in_flight).max().unwrap();
    assert!((55..=75).contains(&most), "{most}");
}

#[test]
fn forty_a_second_on_a_server_of_fifty_is_no_overload() {
    let engine = Engine::start("capacity-50", "");
    let flags =
        "--arrival constant:40/s --duration 4s --warm-up 500ms --input-tokens 4 --output-tokens 1 --seed 1";
    let benched = bench(&context(), &engine.chat(), flags);
    assert!(!benched.finding(FindingCode::BacklogGrowing), "{}", benched.told());
    assert!((39.2..=40.8).contains(&benched.document.rates.throughput.unwrap()), "{}", benched.told());
}

/// The truth's median of a distribution, ms.
fn truth_p50(truth: &Value, name: &str) -> f64 {
    truth[name]["p50"].as_f64().unwrap() / 1e6
}

fn p50(benched: &Benched, metric: MetricId) -> f64 {
    benched.document.metrics[&metric].p50.unwrap()
}

#[test]
fn what_is_reported_is_what_the_server_wrote() {
    let engine = Engine::start("flat", "");
    for arrival in ["poisson:40/s", "constant:25/s", "closed:3"] {
        let flags = format!(
            "--arrival {arrival} --duration 3s --warm-up 300ms --input-tokens 16 --output-tokens 16 --seed 9"
        );
        let benched = bench(&context(), &engine.chat(), &flags);
        let phases = benched.document.phases;
        let truth = engine.truth(phases.measured_from_ns, phases.measured_to_ns);
        // An operation belongs to the cohort by its intended start and to the truth by its arrival there: a few at
        // each edge may differ, none in the middle.
        let received = truth["requests"]["received"].as_u64().unwrap();
        let intended = benched.document.counts.intended;
        assert!(received.abs_diff(intended) <= 6, "{arrival}: {received} {}", benched.told());
        assert!(intended >= 50, "{arrival}: {intended}");
        let completed = benched.document.counts.completed;
        assert_eq!(benched.document.counts.output_tokens, Some(completed * 16), "{arrival}");
        // Coarse on purpose; exactness is measured where nothing else runs.
        let ttft = (p50(&benched, MetricId::TtftFromSend), truth_p50(&truth, "ttft_from_receive"));
        assert!((ttft.0 - ttft.1).abs() < 2.0, "{arrival}: {ttft:?}");
        let itl = (p50(&benched, MetricId::Itl), truth_p50(&truth, "itl"));
        assert!((itl.0 - itl.1).abs() < 2.0 && itl.0 > 1.5, "{arrival}: {itl:?}");
        assert_eq!(benched.document.metrics[&MetricId::Itl].n, completed * 15, "{arrival}");
    }
}
