//! Triton: decoupled and plain models, errors inside a 200, answers that end with their body.

use std::sync::PoisonError;

use touchstone_model::MetricId;
use touchstone_testkit::{Kind, server};

use crate::harness::{bench, context, valid_bench};
use crate::{ONE_ENGINE, check_engine};

#[test]
fn tritons_generate_stream_is_timed_by_its_words() {
    let _alone = ONE_ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    let triton = server!(Kind::Triton);
    let context = context();
    let target = format!("triton-generate={}", triton.base_url());
    let load = "--model words --arrival closed:4 --requests 80 --input-tokens 8 --output-tokens 16 --seed 5";
    let benched = valid_bench(&context, &target, load);
    check_engine(&triton, "triton-generate", &benched);
    let document = &benched.document;
    assert_eq!(document.counts.content_events, 80 * 16, "one word a response: {}", benched.told());
    assert_eq!(document.counts.output_tokens, None, "Triton counts no tokens");
    assert_eq!(document.target.product.as_deref(), Some("triton"), "{}", benched.told());
    // The model waits 5 ms before each word.
    let icl = document.metrics[&MetricId::Icl].p50.unwrap();
    assert!(icl >= 4.0, "{icl}: {}", benched.told());
}

#[test]
fn tritons_whole_answers_have_no_first_token() {
    let _alone = ONE_ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    let triton = server!(Kind::Triton);
    let context = context();
    for (protocol, model, flags) in [
        ("triton-generate", "words", "--no-stream --output-tokens 4"),
        ("triton-infer", "echo", ""),
        ("triton-generate", "echo", "--no-stream"),
    ] {
        let target = format!("{protocol}={}", triton.base_url());
        let load =
            format!("--model {model} --arrival closed:2 --requests 60 --input-tokens 8 --seed 5 {flags}");
        let benched = valid_bench(&context, &target, &load);
        check_engine(&triton, &format!("{protocol} ({model}, whole)"), &benched);
        let metrics = &benched.document.metrics;
        assert!(metrics[&MetricId::E2e].p50.unwrap() >= 2.0, "{}", benched.told());
        assert!(!metrics.contains_key(&MetricId::Ttft), "{}", benched.told());
    }
}

#[test]
fn what_triton_says_inside_a_200_is_a_failure() {
    let _alone = ONE_ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    let triton = server!(Kind::Triton);
    let context = context();
    let run = |protocol: &str, flags: &str| {
        let target = format!("{protocol}={}", triton.base_url());
        let load = "--arrival closed:1 --requests 3 --input-tokens 8 --output-tokens 4 --seed 5";
        bench(&context, &target, &format!("{load} {flags}"))
    };
    // A decoupled model that gives several responses cannot be asked by `generate` for a stream of them.
    let unknown = run("triton-generate", "--model nobody");
    assert_eq!(unknown.error("http-404").count, 3, "{}", unknown.told());
    let decoupled = run("triton-infer", "--model words");
    assert!(decoupled.document.counts.completed == 0, "{}", decoupled.told());
}
