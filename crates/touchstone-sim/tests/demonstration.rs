//! The scale that the documentation of the built-in profiles states.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure here is a failed test")]

use touchstone_sim::{EngineModel, Profile};

/// Seconds from the first arrival to the last token of `n` requests of 256 + 64 tokens at a constant `rate` per second.
fn makespan(name: &str, n: u64, rate: u64) -> f64 {
    let mut model = EngineModel::new(Profile::builtin(name).unwrap(), 1).unwrap();
    let mut out = Vec::new();
    for id in 0..n {
        let now = id * 1_000_000_000 / rate;
        model.advance(now, &mut out);
        model.submit(now, id, 256, &[], 64);
    }
    while let Some(at) = model.next_event() {
        model.advance(at, &mut out);
    }
    out.last().unwrap().at as f64 / 1e9
}

#[test]
fn vllm_like_saturates_near_thirty_requests_a_second() {
    let capacity = 1000.0 / makespan("vllm-like", 1000, 1000);
    assert!((27.0..33.0).contains(&capacity), "{capacity}");
    // Below it, the engine keeps up: the last request ends soon after it came.
    assert!(makespan("vllm-like", 1000, 20) < 50.0 + 3.0);
}

#[test]
fn the_imitations_differ_in_the_order_of_their_models() {
    let capacity = |name| 200.0 / makespan(name, 200, 1000);
    let [vllm, tgi, fixed, llamacpp, fastchat] =
        ["vllm-like", "tgi-like", "static-batch", "llamacpp-like", "fastchat-like"].map(capacity);
    let all = format!("vllm {vllm}, tgi {tgi}, static {fixed}, llamacpp {llamacpp}, fastchat {fastchat}");
    assert!(vllm > fixed && tgi > fixed && fixed > llamacpp && llamacpp > fastchat, "{all}");
}

#[test]
fn an_idle_vllm_like_engine_answers_in_about_33_ms() {
    let profile = Profile { jitter_sigma: 0.0, ..Profile::builtin("vllm-like").unwrap() };
    let mut model = EngineModel::new(profile, 1).unwrap();
    model.submit(0, 1, 256, &[], 2);
    let mut out = Vec::new();
    while let Some(at) = model.next_event() {
        model.advance(at, &mut out);
    }
    // 224 and 32 tokens over 14 and 16 blocks.
    assert_eq!(out[0].at, 2 * 6_000_000 + 256 * 80_000 + (14 + 16) * 500);
}
