//! Real Redis, NATS and llama.cpp under load, and what their documents say.

use touchstone_model::{FindingCode, Level, MetricId, RunDocument};
use touchstone_testkit::servers::LlamaOptions;
use touchstone_testkit::{Kind, Server, server};

use crate::harness::{Benched, bench, context, valid_bench};

/// What every good run against a real server has.
fn check_real(benched: &Benched) -> &RunDocument {
    let document = &benched.document;
    let told = || benched.told();
    assert_eq!((document.level, document.simulated), (Level::P2, false), "{}", told());
    assert!(document.errors.is_empty() && !document.interrupted, "{}", told());
    assert_eq!(document.counts.completed, document.counts.intended, "{}", told());
    assert_eq!((document.counts.failed, document.counts.censored), (0, 0), "{}", told());
    assert!(document.counts.intended > 0 && document.counts.warm_up > 0, "{}", told());
    check_contract(benched);
    document
}

/// The fields that scripts rely on, by their names in the document.
fn check_contract(benched: &Benched) {
    let json = &benched.json;
    for field in [
        "format",
        "run",
        "level",
        "valid",
        "simulated",
        "interrupted",
        "started_at",
        "target",
        "workload",
        "phases",
        "metrics",
        "rates",
        "counts",
        "errors",
        "findings",
        "generator",
        "slo",
        "windows",
        "blocks",
    ] {
        assert!(!json[field].is_null(), "no {field}");
    }
    for rate in ["offered", "achieved", "throughput", "goodput", "output_tokens"] {
        assert!(json["rates"].as_object().unwrap().contains_key(rate), "no rates.{rate}");
    }
    assert!(json["fingerprint"].as_str().unwrap().starts_with("sha256:"));
    for (name, metric) in json["metrics"].as_object().unwrap() {
        assert!(name.parse::<MetricId>().is_ok(), "{name}");
        for field in ["mean", "p50", "p90", "p95", "p99", "p999", "max", "n", "n_effective", "unit"] {
            assert!(metric.as_object().unwrap().contains_key(field), "no metrics.{name}.{field}");
        }
        if metric["n"].as_u64() > Some(0) {
            for field in ["lower", "upper", "confidence", "needs"] {
                let bound = metric["bounds"]["p99"].as_object().unwrap();
                assert!(bound.contains_key(field), "no metrics.{name}.bounds.p99.{field}");
            }
            let at = |statistic: &str| metric[statistic].as_f64().unwrap_or(f64::INFINITY);
            assert!(at("p50") <= at("p90") && at("p90") <= at("p99") && at("p99") <= at("p999"), "{name}");
        }
    }
}

fn p50(document: &RunDocument, metric: MetricId) -> f64 {
    document.metrics[&metric].p50.unwrap()
}

#[test]
fn redis_answers_every_lookup_after_the_preload() {
    let redis = server!(Kind::Redis);
    let context = context();
    let target = format!("resp={}", redis.addr());
    let load = "--arrival constant:1000/s --duration 2s --warm-up 300ms --keys 2000 --value-bytes 100 \
                --connections 4 --read-ratio 0.8 --seed 3";
    for pipeline in [1, 16] {
        let benched = valid_bench(&context, &target, &format!("{load} --pipeline {pipeline}"));
        let document = check_real(&benched);
        let counts = &document.counts;
        assert_eq!(counts.intended, 2000, "{}", benched.told());
        assert_eq!(counts.hits, counts.lookups, "{}", benched.told());
        let share = counts.lookups.unwrap() as f64 / counts.intended as f64;
        assert!((0.75..0.85).contains(&share), "{share}");
        assert_eq!(document.rates.offered, Some(1000.0));
        assert!((950.0..1050.0).contains(&document.rates.throughput.unwrap()), "{:?}", document.rates);
        assert!(p50(document, MetricId::ServiceTime) <= p50(document, MetricId::E2e));
        assert!(!document.metrics.contains_key(&MetricId::Ttft), "a cache has no tokens");
        assert_eq!(document.target.product.as_deref(), Some("redis"));
        assert_eq!(document.target.version.as_deref(), Some(redis.installed().version.as_str()));
        assert_eq!(benched.json["workload"]["parameters"]["pipeline"], pipeline);
        assert_eq!(counts.connections, 5, "four, and the one that loaded the keys: {}", benched.told());
    }
}

#[test]
fn redis_in_a_closed_loop_is_offered_nothing_and_answers_all() {
    let redis = server!(Kind::Redis);
    let context = context();
    let flags = "--arrival closed:2 --duration 1s --warm-up 200ms --keys 500 --connections 2 --read-ratio 1";
    let benched = valid_bench(&context, &format!("resp={}", redis.addr()), flags);
    let document = check_real(&benched);
    assert_eq!(document.rates.offered, None);
    assert!(document.rates.throughput.unwrap() > 100.0, "{:?}", document.rates);
    assert_eq!(document.counts.hits, Some(document.counts.intended));
}

#[test]
fn the_loopback_ceiling_is_in_the_certificate_and_only_writes_need_no_preload() {
    let redis = server!(Kind::Redis);
    let context = context();
    let flags = "--arrival constant:200/s --duration 1s --warm-up 200ms --read-ratio 0 --keys 50 --json -";
    let line = format!("bench --target resp={} {flags}", redis.addr());
    let benched = Benched::of(&context, context.run(line.split_whitespace()).unwrap());
    assert!(benched.document.generator.loopback_ceiling.unwrap() > 200.0, "{}", benched.told());
    assert_eq!(benched.document.counts.lookups, Some(0), "{}", benched.told());
    assert_eq!(benched.document.counts.completed, 200, "{}", benched.told());
}

#[test]
fn nats_loses_doubles_and_reorders_nothing() {
    let nats = server!(Kind::Nats);
    let context = context();
    let flags = "--arrival constant:1000/s --duration 2s --warm-up 300ms --message-bytes 200 --seed 3";
    let benched = valid_bench(&context, &format!("nats={}", nats.addr()), flags);
    let document = check_real(&benched);
    let counts = &document.counts;
    assert_eq!(counts.intended, 2000);
    assert_eq!((counts.lost, counts.duplicated, counts.reordered), (Some(0), Some(0), Some(0)));
    assert_eq!(counts.received, Some(2000));
    assert!(p50(document, MetricId::EndToEndLatency) > 0.0);
    // Core NATS acknowledges nothing: unmeasured is null (or absent), never 0.
    assert!(benched.json["metrics"]["publish_latency"]["p50"].is_null());
    assert_eq!(document.target.product.as_deref(), Some("nats-server"));
    assert_eq!(document.target.version.as_deref(), Some(nats.installed().version.as_str()));
}

#[test]
fn nats_with_several_publishers_and_a_closed_loop_keeps_the_count() {
    let nats = server!(Kind::Nats);
    let context = context();
    let target = format!("nats={}", nats.addr());
    let flags = "--arrival closed:32 --duration 1s --warm-up 200ms --connections 3 --shards 2";
    let benched = bench(&context, &target, flags);
    let counts = &benched.document.counts;
    assert_eq!((counts.lost, counts.duplicated, counts.reordered), (Some(0), Some(0), Some(0)));
    assert!(counts.intended > 100 && counts.completed == counts.intended, "{}", benched.told());
}

#[test]
fn llama_cpp_gives_exactly_the_tokens_asked_for() {
    let llama = server!(Kind::LlamaCpp);
    let context = context();
    for protocol in ["openai-chat", "openai-completions"] {
        let target = format!("{protocol}={}", llama.base_url());
        let flags = "--arrival constant:8/s --duration 3s --warm-up 500ms --input-tokens 12 \
                     --output-tokens 10 --seed 5";
        let benched = valid_bench(&context, &target, flags);
        let document = check_real(&benched);
        let counts = &document.counts;
        assert_eq!(counts.intended, 24);
        assert_eq!(counts.output_tokens, Some(240), "{protocol}: {}", benched.told());
        assert!(!benched.finding(FindingCode::TokenCount), "{}", benched.told());
        assert!(counts.input_tokens.unwrap() >= 24 * 12, "{}", benched.told());
        for metric in [MetricId::Ttft, MetricId::TtftFromSend, MetricId::Tpot, MetricId::E2e, MetricId::Itl] {
            assert!(p50(document, metric) > 0.0, "{metric}");
        }
        assert_eq!(document.metrics[&MetricId::Ttft].n, 24);
        assert!(p50(document, MetricId::TtftFromSend) <= p50(document, MetricId::E2e));
        assert!(document.rates.output_tokens.unwrap() > 70.0, "{:?}", document.rates);
        // The model was not named: it is the only one that the server lists.
        assert_eq!(
            document.target.model.as_deref(),
            benched.json["workload"]["parameters"]["model"].as_str()
        );
        assert!(document.target.model.is_some() && document.target.product.as_deref() == Some("llama.cpp"));
        // The server closes each connection after a stream: seen, told, and no failure.
        assert!(benched.finding(FindingCode::Reconnects), "{}", benched.told());
        assert!(counts.connections >= 24, "{}", benched.told());
    }
}

#[test]
fn llama_cpp_queues_what_its_slots_cannot_take() {
    let options = LlamaOptions { parallel: 1, context: 512, ..LlamaOptions::default() };
    let llama = server!(Kind::LlamaCpp, Server::llama_cpp_with(&options));
    let context = context();
    let target = format!("openai-chat={}", llama.base_url());
    let flags = "--arrival closed:6 --requests 18 --input-tokens 8 --output-tokens 6 --seed 5";
    let benched = bench(&context, &target, flags);
    assert_eq!(benched.document.counts.completed, 18, "{}", benched.told());
    assert_eq!(benched.document.counts.output_tokens, Some(108), "{}", benched.told());
}
