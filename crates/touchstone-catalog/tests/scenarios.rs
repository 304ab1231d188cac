//! The example scenarios against the shipped catalog: who survives the match, and which rule or requirement decided.

#![expect(clippy::disallowed_methods, reason = "tests compare with the files in the repository")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails the test by panicking")]

use touchstone_catalog::Catalog;
use touchstone_catalog::matching::{CandidateMatch, MatchError, expand, match_candidate, match_scenario};
use touchstone_model::decision::{Gate, GateKind};
use touchstone_model::run::Outcome;
use touchstone_model::{Family, Scenario};

macro_rules! scenario {
    ($name:literal) => {
        read($name, include_bytes!(concat!("../../../scenarios/", $name, ".yaml")))
    };
}

fn read(name: &str, bytes: &[u8]) -> Scenario {
    Scenario::from_yaml(name, bytes).unwrap_or_else(|error| panic!("{error}"))
}

fn matches(scenario: &Scenario) -> Vec<CandidateMatch> {
    match_scenario(&Catalog::shipped().unwrap(), scenario).unwrap()
}

fn of<'a>(matches: &'a [CandidateMatch], name: &str) -> &'a CandidateMatch {
    matches.iter().find(|candidate| candidate.name == name).unwrap_or_else(|| panic!("no candidate {name}"))
}

fn gate<'a>(candidate: &'a CandidateMatch, requirement: &str) -> &'a Gate {
    let found = candidate.gates.iter().find(|gate| gate.requirement == requirement);
    found.unwrap_or_else(|| panic!("{}: no gate {requirement} in {:#?}", candidate.name, candidate.gates))
}

fn survivors(matches: &[CandidateMatch]) -> Vec<&str> {
    matches.iter().filter(|candidate| !candidate.vetoed).map(|candidate| candidate.name.as_str()).collect()
}

/// A scenario with some of its text replaced.
fn changed(bytes: &[u8], changes: &[(&str, &str)]) -> Scenario {
    let mut text = String::from_utf8(bytes.to_vec()).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    read("changed.yaml", text.as_bytes())
}

#[test]
fn every_example_scenario_is_valid_and_listed_here() {
    let known = [
        "cache-local",
        "cache-read",
        "chat-70b",
        "chat-demo",
        "content-generation",
        "enterprise-qa",
        "events",
        "light-chat",
        "pubsub-local",
    ];
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        // Campaigns over scenarios have a folder of their own.
        if entry.path().is_dir() {
            continue;
        }
        let scenario = read(&name, &std::fs::read(entry.path()).unwrap());
        assert_eq!(format!("{}.yaml", scenario.name), name);
        assert!(!scenario.criteria.is_empty() && !scenario.preference.is_empty(), "{name}");
        assert!(!matches(&scenario).is_empty(), "{name}");
        found.push(scenario.name);
    }
    found.sort();
    assert_eq!(found, known);
}

#[test]
fn every_gate_says_why_in_both_languages_and_names_its_file() {
    for scenario in [
        scenario!("cache-local"),
        scenario!("cache-read"),
        scenario!("chat-70b"),
        scenario!("chat-demo"),
        scenario!("events"),
        scenario!("pubsub-local"),
    ] {
        for candidate in matches(&scenario) {
            let first_semantic =
                candidate.gates.iter().position(|gate| gate.kind == GateKind::Semantic).unwrap_or(usize::MAX);
            for (index, gate) in candidate.gates.iter().enumerate() {
                let id = format!("{} {}: {}", scenario.name, candidate.name, gate.reason);
                assert!(gate.reason.len() > 20, "{id}");
                assert!(gate.reason_zh.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c)), "{id}");
                assert_eq!(gate.evidence.len(), 1, "{id}");
                assert!(
                    gate.evidence[0].starts_with("catalog:") && gate.evidence[0].ends_with(".yaml"),
                    "{id}"
                );
                assert!(gate.kind != GateKind::Statistical, "{id}: matching measures nothing");
                assert_eq!(gate.kind == GateKind::Rule, index < first_semantic, "{id}: rules come first");
            }
            let fails = candidate.gates.iter().any(|gate| gate.outcome == Outcome::Fail);
            assert_eq!(candidate.vetoed, fails);
        }
    }
}

#[test]
fn the_demo_rules_triton_out_and_leaves_four_to_measure() {
    let scenario = scenario!("chat-demo");
    let matches = matches(&scenario);
    assert_eq!(survivors(&matches), ["vllm", "tgi", "llama.cpp", "fastchat"]);
    let no = gate(of(&matches, "triton"), "openai_api = yes");
    assert_eq!((no.kind, no.outcome), (GateKind::Semantic, Outcome::Fail));
    assert!(no.reason.contains("404") && no.reason.contains("P1"), "{}", no.reason);
    let measured: Vec<_> =
        scenario.candidates.listed().iter().filter(|candidate| candidate.target.is_some()).collect();
    assert_eq!(measured.len(), 4);
    let m = &scenario.measurement;
    let seconds = measured.len() as f64 * f64::from(m.repeats) * (m.warm_up.0 + m.duration.0) / 1e3;
    assert!(seconds <= 110.0, "{seconds} s before drain");
    assert_eq!(scenario.peak_arrival().per_second(), Some(12.0));
    // Nothing disputed touches the demo: no rule of any kind applies.
    assert!(matches.iter().flat_map(|m| &m.gates).all(|gate| gate.kind == GateKind::Semantic));
}

#[test]
fn the_70b_chat_disputes_llama_cpp_and_fails_the_unmaintained() {
    let matches = matches(&scenario!("chat-70b"));
    let llama = of(&matches, "llama-cpp");
    let rule = gate(llama, "llama-cpp-with-gpu");
    assert_eq!((rule.kind, rule.outcome), (GateKind::Rule, Outcome::Undetermined));
    assert!(rule.reason.contains("`accelerators = 3`"), "{}", rule.reason);
    assert!(rule.reason.contains("vetoes nothing") && rule.reason.contains("CUDA"), "{}", rule.reason);
    assert!(rule.reason_zh.contains("争议") && rule.reason_zh.contains("GPU"), "{}", rule.reason_zh);
    assert!(!llama.vetoed);
    for (name, requirement) in [
        ("tgi", "maintained = yes"),
        ("fastchat-model-worker", "continuous_batching = yes"),
        ("fastchat-vllm-worker", "maintained = yes"),
        ("triton-kserve", "openai_api = yes"),
    ] {
        assert!(of(&matches, name).vetoed, "{name}");
        assert_eq!(gate(of(&matches, name), requirement).outcome, Outcome::Fail, "{name}");
    }
    assert_eq!(
        survivors(&matches),
        ["llama-cpp", "triton-openai-frontend", "vllm-standard", "vllm-fp8", "vllm-batch-invariant"]
    );
    let vllm = of(&matches, "vllm-standard");
    let reasons: Vec<&str> = vllm.recommendations.iter().map(|item| item.feature.zh.as_str()).collect();
    assert_eq!(reasons, ["单节点 + 高吞吐", "单节点 + 低延迟 SLA", "批量内容生成，模型规模 >13B"]);
    assert!(vllm.recommendations[1].dispute.is_some());
    assert_eq!(vllm.recommendations[1].met_by[2], "ttft.p99 <= 200ms");
    // The article recommends TGI for real-time chat all the same; the reader sees both.
    assert_eq!(of(&matches, "tgi").recommendations[0].feature.zh, "实时聊天应用");
}

#[test]
fn events_leave_the_replayable_logs() {
    let matches = matches(&scenario!("events"));
    assert_eq!(
        survivors(&matches),
        [
            "jetstream-file-r3",
            "jetstream-file-r3-sync",
            "jetstream-file-r3-dedup",
            "kafka-acks-all",
            "kafka-flush-every-message",
            "kafka-transactions",
            "pulsar-persistent",
            "pulsar-persistent-no-sync",
            "pulsar-persistent-dedup",
            "rabbitmq-stream-standard",
            "rabbitmq-stream-dedup",
        ]
    );
    let core = of(&matches, "nats-core");
    let rule = gate(core, "nats-core-no-loss");
    assert_eq!((rule.kind, rule.outcome), (GateKind::Rule, Outcome::Fail));
    assert!(rule.reason.contains("`delivery >= at-least-once`"), "{}", rule.reason);
    assert_eq!(gate(core, "nats-core-offline-consumers").outcome, Outcome::Fail);
    for requirement in
        ["delivery >= at-least-once", "replay >= offset", "retention >= 7d", "durability >= D2"]
    {
        assert_eq!(gate(core, requirement).outcome, Outcome::Fail, "{requirement}");
    }
    let quorum = of(&matches, "rabbitmq-quorum");
    assert_eq!(gate(quorum, "rabbitmq-quorum-replay").outcome, Outcome::Fail);
    assert_eq!(gate(quorum, "durability >= D2").outcome, Outcome::Pass);
    assert_eq!(quorum.durability.as_deref(), Some("D4"));
    assert_eq!(gate(of(&matches, "kafka-acks-1"), "durability >= D2").outcome, Outcome::Fail);
    assert_eq!(gate(of(&matches, "jetstream-file-r1"), "failover = yes").outcome, Outcome::Fail);
    let kafka = of(&matches, "kafka-acks-all");
    assert_eq!((kafka.durability.as_deref(), kafka.delivery.as_deref()), (Some("D2"), Some("at-least-once")));
    assert!(gate(kafka, "durability >= D2").reason.contains("min.insync.replicas"));
    assert_eq!(kafka.recommendations[0].feature.zh, "高吞吐 + 允许延迟");
    // The size of a message implies a capability that nobody has to write down.
    let size = gate(kafka, "max_message >= 512B");
    assert_eq!(size.outcome, Outcome::Pass);
    assert!(size.reason.contains("workload.message_bytes"), "{}", size.reason);
}

#[test]
fn five_milliseconds_dispute_kafka_and_never_veto_it() {
    let matches = matches(&scenario!("pubsub-local"));
    let kafka = of(&matches, "kafka");
    let rule = gate(kafka, "kafka-below-5ms");
    assert_eq!((rule.kind, rule.outcome), (GateKind::Rule, Outcome::Undetermined));
    assert!(rule.reason.contains("LinkedIn") && rule.reason.contains("linger.ms"), "{}", rule.reason);
    assert!(!kafka.vetoed);
    let nats = of(&matches, "nats");
    assert!(!nats.vetoed && nats.gates.iter().all(|gate| gate.outcome == Outcome::Pass), "{:#?}", nats.gates);
    assert_eq!(nats.recommendations.len(), 1);
    // A looser bound does not touch the rule.
    let loose = changed(
        include_bytes!("../../../scenarios/pubsub-local.yaml"),
        &[("end_to_end_latency.p99 <= 5ms", "end_to_end_latency.p99 <= 6ms")],
    );
    let kafka = match_scenario(&Catalog::shipped().unwrap(), &loose).unwrap().remove(1);
    assert!(kafka.gates.iter().all(|gate| gate.kind == GateKind::Semantic));
}

#[test]
fn caches_are_told_apart_by_licence_structures_and_durability() {
    let reading = matches(&scenario!("cache-read"));
    let dragonfly = of(&reading, "dragonflydb");
    assert!(dragonfly.vetoed);
    assert_eq!(gate(dragonfly, "licence >= open-source").outcome, Outcome::Fail);
    let memcached = of(&reading, "memcached");
    assert!(!memcached.vetoed);
    assert!(memcached.recommendations[0].dispute.is_some());
    let local = matches(&scenario!("cache-local"));
    assert_eq!(survivors(&local), ["redis"]);
    assert_eq!(gate(of(&local, "memcached"), "memcached-data-structures").outcome, Outcome::Fail);
    let durable = changed(
        include_bytes!("../../../scenarios/cache-read.yaml"),
        &[("eviction = yes", "durability >= D3")],
    );
    assert_eq!(survivors(&matches(&durable)), ["redis-aof-always", "valkey-aof-always"]);
    let with_failover = changed(
        include_bytes!("../../../scenarios/cache-read.yaml"),
        &[("- eviction = yes", "- durability >= D3\n    - failover = yes")],
    );
    let all = matches(&with_failover);
    assert!(survivors(&all).is_empty());
    assert_eq!(gate(of(&all, "redis-aof-always"), "redis-failover-loses-writes").outcome, Outcome::Fail);
}

#[test]
fn redis_may_stand_in_for_a_queue_and_its_rule_is_disputed() {
    let scenario = changed(
        include_bytes!("../../../scenarios/events.yaml"),
        &[
            ("candidates: any", "candidates: [{name: streams, product: redis, configuration: aof-always}]"),
            ("- failover = yes", "- dead_letter = no"),
        ],
    );
    let matches = matches(&scenario);
    let redis = of(&matches, "streams");
    let rule = gate(redis, "redis-as-durable-queue");
    assert_eq!(rule.outcome, Outcome::Undetermined);
    assert!(rule.reason.contains("633,000") && rule.reason_zh.contains("63.3 万"), "{}", rule.reason);
    assert!(!redis.vetoed, "{:#?}", redis.gates);
}

#[test]
fn unknown_is_undetermined_and_says_so() {
    let scenario = changed(
        include_bytes!("../../../scenarios/events.yaml"),
        &[("- failover = yes", "- dead_letter = yes\n    - availability >= 99.9%")],
    );
    let all = matches(&scenario);
    let kafka = of(&all, "kafka-acks-all");
    let availability = gate(kafka, "availability >= 99.9%");
    assert_eq!(availability.outcome, Outcome::Undetermined);
    assert!(availability.reason.starts_with("nobody claims `availability`"), "{}", availability.reason);
    assert!(availability.reason_zh.starts_with("无人就"), "{}", availability.reason_zh);
    let dead_letter = gate(kafka, "dead_letter = yes");
    assert_eq!(dead_letter.outcome, Outcome::Undetermined);
    assert!(dead_letter.reason.contains("`<4.4`; state the version"), "{}", dead_letter.reason);
    assert!(!kafka.vetoed);
    // With the version stated, the claim applies.
    let catalog = Catalog::shipped().unwrap();
    let mut candidate = expand(&catalog, &scenario).unwrap();
    candidate.retain(|candidate| candidate.name == "kafka-acks-all");
    candidate[0].version = Some("4.3.1".to_owned());
    let stated = match_candidate(&catalog, &scenario, &candidate[0]).unwrap();
    assert_eq!(gate(&stated, "dead_letter = yes").outcome, Outcome::Fail);
    assert!(gate(&stated, "dead_letter = yes").reason.contains("(acks-all) 4.3.1"));
}

#[test]
fn expanding_any_names_every_configuration_once() {
    let catalog = Catalog::shipped().unwrap();
    for family in Family::ALL {
        let bytes: &[u8] = match family {
            Family::Inference => include_bytes!("../../../scenarios/chat-70b.yaml"),
            Family::Queue => include_bytes!("../../../scenarios/events.yaml"),
            Family::Cache => include_bytes!("../../../scenarios/cache-read.yaml"),
        };
        let candidates = expand(&catalog, &read("any", bytes)).unwrap();
        let configurations: usize =
            catalog.products(family).map(|product| product.configurations.len()).sum();
        assert_eq!(candidates.len(), configurations);
        let mut names: Vec<_> = candidates.iter().map(|candidate| candidate.name.clone()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), configurations);
    }
}

#[test]
fn mistyped_candidates_get_a_suggestion() {
    let catalog = Catalog::shipped().unwrap();
    let events: &[u8] = include_bytes!("../../../scenarios/events.yaml");
    let error = |candidate: &str| {
        let list = format!("candidates: [{candidate}]");
        expand(&catalog, &changed(events, &[("candidates: any", &list)])).unwrap_err()
    };
    let product = error("{name: a, product: kafak}");
    assert!(product.to_string().contains("did you mean `kafka`?"), "{product}");
    assert!(product.hint().contains("rabbitmq-quorum"), "{}", product.hint());
    let configuration = error("{name: a, product: jetstream, configuration: file-r2}");
    assert!(configuration.to_string().contains("did you mean `file-r"), "{configuration}");
    let family = error("{name: a, product: vllm}");
    assert!(matches!(family, MatchError::Family { asked: Family::Queue, .. }), "{family}");
    let target = error("{name: a, product: jetstream, target: \"nats=127.0.0.1:4222\"}");
    assert!(matches!(target, MatchError::Protocol { .. }), "{target}");
    assert!(target.hint().contains("leave `target` out"), "{}", target.hint());
    let document = family.into_document_error("events.yaml");
    assert!(document.to_string().starts_with("events.yaml: candidate `a`"), "{document}");
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let scenario = scenario!("events");
    assert_eq!(format!("{:?}", matches(&scenario)), format!("{:?}", matches(&scenario)));
}
