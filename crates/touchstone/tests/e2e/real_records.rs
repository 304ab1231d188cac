//! Records made from real servers: the scenarios that the project ships, pointed at throwaway instances.

use std::fs;

use serde_json::Value;
use touchstone_model::Level;
use touchstone_model::decision::{DecisionDocument, Status};
use touchstone_testkit::{Kind, TestContext, server};

use crate::harness::{TRIES, context, measuring, record_dir, run};

const CACHE: &str = include_str!("../../../../scenarios/cache-local.yaml");
const PUBSUB: &str = include_str!("../../../../scenarios/pubsub-local.yaml");
const CHAT: &str = "\
format: touchstone.scenario/1
name: chat-llama
family: inference
horizon: 6 months
workload: {arrival: 'constant:6/s', input_tokens: 8, output_tokens: 6}
requirements:
  latency: [ttft.p50 <= 5s]
  throughput: [throughput >= 1/s]
  consistency: [openai_api = yes]
  reliability: [error_rate <= 50%]
  scalability: {peak_factor: 1, growth: 0%/year}
criteria:
  - {metric: ttft.p50, worst: 5s, best: 1ms}
preference: [ttft.p50]
candidates:
  - {name: llama, product: llama-cpp, target: 'openai-chat=ADDRESS', reversible: true}
measurement: {warm_up: 200ms, duration: 2s, drain: 3s, repeats: 2, seed: 7}
";

/// Runs a scenario until a run can be used: a crowded machine may make the generator late, and such runs are refused.
fn made(text: &str, measured: &str) -> TestContext {
    let _alone = measuring();
    for tried in 1.. {
        let context = context();
        context.write("s.yaml", text).unwrap();
        let done = run(&context, "run s.yaml --repeats 2");
        assert_eq!(done.code(), Some(0), "{}", done.snapshot());
        let bytes = fs::read(record_dir(&context).join("decision.json")).unwrap();
        let document: DecisionDocument = serde_json::from_slice(&bytes).unwrap();
        let usable = document.candidates.iter().any(|one| one.name == measured && one.level.is_some());
        if usable || tried == TRIES {
            return context;
        }
    }
    unreachable!("the loop returns")
}

/// Runs a scenario and checks its record: real, decided twice to the same bytes, unfolding to its evidence.
fn check_record(text: &str, measured: &str) {
    let context = made(text, measured);
    let dir = record_dir(&context);
    let before = fs::read(dir.join("decision.json")).unwrap();
    let document: DecisionDocument = serde_json::from_slice(&before).unwrap();
    assert!(!document.simulated && document.level != Level::E, "{:?}", document.level);
    let candidate = document.candidates.iter().find(|one| one.name == measured).unwrap();
    assert_eq!(candidate.runs.len(), 2, "{candidate:?}");
    // This build of llama.cpp does not tell its version.
    assert!(candidate.version.is_some() || measured == "llama", "{candidate:?}");
    assert_ne!(candidate.status, Status::Vetoed, "{candidate:?}");
    let record = fs::read_to_string(dir.join("record.md")).unwrap();
    assert!(record.contains("simulated: false") && !record.contains("SIMULATED"), "{record}");
    for _ in 0..2 {
        let again = run(&context, "decide s.yaml");
        assert_eq!(again.code(), Some(0), "{}", again.snapshot());
        assert_eq!(fs::read(dir.join("decision.json")).unwrap(), before);
    }
    let explained = run(&context, "explain latest --json");
    assert_eq!(explained.code(), Some(0), "{}", explained.snapshot());
    let json: Value = serde_json::from_str(&explained.stdout).unwrap();
    assert!(json["statements"].as_array().unwrap().len() >= 2, "{json}");
    // One byte of a run that carries the decision.
    let entry = document.evidence.iter().find(|entry| entry.kind == "run").unwrap();
    let mut bytes = fs::read(dir.join(&entry.path)).unwrap();
    let at = bytes.len() / 3;
    bytes[at] ^= 1;
    fs::write(dir.join(&entry.path), bytes).unwrap();
    let broken = run(&context, "explain latest");
    assert_eq!(broken.code(), Some(4), "{}", broken.snapshot());
    assert!(broken.stderr.contains(&entry.path), "{}", broken.stderr);
}

/// The shipped scenario with another address and shorter runs.
fn pointed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from) && text.contains("duration: 3s"), "the shipped scenario is another");
    text.replace(from, to).replace("duration: 3s", "duration: 1500ms")
}

#[test]
fn a_record_from_a_real_redis() {
    let redis = server!(Kind::Redis);
    let text = pointed(CACHE, "127.0.0.1:6379", &redis.addr().to_string());
    check_record(&text.replace("poisson:5k/s", "poisson:1k/s").replace("4900/s", "900/s"), "redis");
}

#[test]
fn a_record_from_a_real_nats() {
    let nats = server!(Kind::Nats);
    let text = pointed(PUBSUB, "127.0.0.1:4222", &nats.addr().to_string());
    check_record(&text.replace("constant:5k/s", "constant:1k/s").replace("4900/s", "900/s"), "nats");
}

#[test]
fn a_record_from_a_real_llama_cpp() {
    let llama = server!(Kind::LlamaCpp);
    check_record(&CHAT.replace("ADDRESS", &llama.base_url()), "llama");
}
