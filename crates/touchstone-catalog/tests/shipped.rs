//! The shipped catalog as data: every file is embedded, every statement is whole, every product speaks about the core
//! of its family.

#![expect(clippy::disallowed_methods, reason = "tests compare with the files in the repository")]
#![expect(clippy::panic, reason = "a helper of a test fails the test by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use touchstone_catalog::{Catalog, Product, Provenance, Status, Text, core_capabilities};
use touchstone_model::capability::CapabilityType;
use touchstone_model::{CapabilityId, CapabilityValue, Family, Level};

fn shipped() -> Catalog {
    Catalog::shipped().unwrap_or_else(|error| panic!("{error}"))
}

fn is_chinese(text: &str) -> bool {
    text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))
}

#[test]
fn every_file_is_embedded_and_named_after_its_product() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog");
    let mut on_disk = BTreeSet::from(["catalog.yaml".to_owned()]);
    for folder in std::fs::read_dir(&root).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir())
    {
        for file in std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
            let name = file.file_name().into_string().unwrap();
            on_disk.insert(format!("{}/{name}", folder.file_name().into_string().unwrap()));
        }
    }
    let catalog = shipped();
    let embedded: BTreeSet<String> = catalog.files().iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(embedded, on_disk);
    for (name, bytes) in catalog.files() {
        assert_eq!(bytes, &std::fs::read(root.join(name)).unwrap(), "{name}");
    }
    for product in catalog.all_products() {
        assert_eq!(product.file, format!("{}/{}.yaml", product.family, product.id));
    }
    assert_eq!(catalog.date(), "2026-11-30");
}

#[test]
fn the_products_of_the_decision_matrix_are_there() {
    let catalog = shipped();
    let ids = |family| catalog.products(family).map(|product| product.id.as_str()).collect::<Vec<_>>();
    assert_eq!(ids(Family::Inference), ["fastchat", "llama-cpp", "tgi", "triton", "vllm"]);
    assert_eq!(
        ids(Family::Queue),
        [
            "jetstream",
            "kafka",
            "nats-core",
            "pulsar",
            "rabbitmq-classic",
            "rabbitmq-quorum",
            "rabbitmq-stream"
        ]
    );
    assert_eq!(ids(Family::Cache), ["dragonflydb", "memcached", "redis", "valkey"]);
}

#[test]
fn every_claim_has_a_value_of_its_type_a_source_and_a_date() {
    let mut count = 0;
    for product in shipped().all_products() {
        for (_, claim) in product.all_claims() {
            let id = format!("{} {} line {}", product.id, claim.capability, claim.provenance.line);
            count += 1;
            let fits = match (claim.capability.value_type(), claim.value) {
                (CapabilityType::Flag, CapabilityValue::Flag(_)) => true,
                (CapabilityType::Class(expected), CapabilityValue::Class { classes, rank }) => {
                    expected == classes && rank < classes.len()
                }
                (CapabilityType::Quantity(unit), CapabilityValue::Quantity(quantity)) => {
                    unit == quantity.unit
                }
                _ => false,
            };
            assert!(fits, "{id}: {:?}", claim.value);
            let read_back = CapabilityValue::parse(claim.capability, &claim.value.to_string()).unwrap();
            assert_eq!(read_back.magnitude(), claim.value.magnitude(), "{id}");
            check(&id, &claim.provenance);
            for text in [&claim.conditions, &claim.note].into_iter().flatten() {
                check_text(&id, text);
            }
        }
    }
    assert!(count > 250, "only {count} claims");
}

fn check(id: &str, provenance: &Provenance) {
    assert!(provenance.source.len() > 8, "{id}: source `{}`", provenance.source);
    assert_eq!(provenance.date.len(), 10, "{id}");
    assert!(provenance.date.as_str() <= "2026-11-30", "{id}: {}", provenance.date);
    assert!(matches!(provenance.level, Level::P0 | Level::P1), "{id}");
    assert!(provenance.line > 0, "{id}");
    if let Status::Disputed(dispute) = &provenance.status {
        check_text(id, dispute);
        assert!(dispute.en.len() > 40, "{id}: a dispute names its evidence");
    }
    if provenance.source.contains('《') {
        assert_eq!(provenance.level, Level::P0, "{id}: articles are claims");
    }
}

fn check_text(id: &str, text: &Text) {
    assert!(is_chinese(&text.zh), "{id}: `{}`", text.zh);
    assert!(!is_chinese(&text.en), "{id}: `{}`", text.en);
}

#[test]
fn every_other_statement_is_whole_and_in_both_languages() {
    for product in shipped().all_products() {
        let id = product.id.as_str();
        check_text(id, &product.summary);
        assert!(!product.detect.is_empty(), "{id}: how does a server name itself?");
        for configuration in &product.configurations {
            check_text(id, &configuration.summary);
        }
        for unknown in &product.unknown {
            check_text(id, &unknown.note);
        }
        for rule in &product.forbidden {
            check(&rule.id, &rule.provenance);
            check_text(&rule.id, &rule.reason);
            assert!(!rule.when.is_empty(), "{}", rule.id);
        }
        for recommendation in &product.recommended {
            check(id, &recommendation.provenance);
            check_text(id, &recommendation.feature);
            check_text(id, &recommendation.reason);
        }
        for remark in &product.remarks {
            check(id, &remark.provenance);
            check_text(id, &remark.text);
        }
    }
}

/// What a product says about a capability in one configuration: a claim for the newest version or any, or `unknown`.
fn speaks_about(product: &Product, configuration: &str, capability: CapabilityId) -> bool {
    product.claim(Some(configuration), capability, None).is_some()
        || product.unknown.iter().any(|unknown| unknown.capability == capability)
}

#[test]
fn every_product_speaks_about_the_core_of_its_family() {
    let mut missing = Vec::new();
    for product in shipped().all_products() {
        for configuration in &product.configurations {
            for capability in core_capabilities(product.family) {
                assert!(capability.families().contains(&product.family), "{capability}");
                if !speaks_about(product, &configuration.id, *capability) {
                    missing.push(format!("{} {}: {capability}", product.id, configuration.id));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn durability_and_delivery_classes_are_per_configuration() {
    let catalog = shipped();
    for (product, configuration, version, durability, delivery) in [
        ("kafka", "acks-all", None, "D2", Some("at-least-once")),
        ("kafka", "acks-1", None, "D1", Some("at-least-once")),
        ("kafka", "acks-0", None, "D0", Some("at-most-once")),
        ("kafka", "flush-every-message", None, "D4", Some("at-least-once")),
        ("kafka", "transactions", None, "D2", Some("deduplicated")),
        ("nats-core", "standard", None, "D0", Some("at-most-once")),
        ("jetstream", "file-r1", None, "D1", Some("at-least-once")),
        ("jetstream", "file-r3", None, "D2", Some("at-least-once")),
        ("jetstream", "file-r1-sync", Some("2.15.1"), "D3", Some("at-least-once")),
        ("jetstream", "file-r3-sync", None, "D4", Some("at-least-once")),
        ("jetstream", "file-r3-dedup", None, "D2", Some("deduplicated")),
        ("jetstream", "memory", None, "D0", Some("at-least-once")),
        ("rabbitmq-classic", "durable", None, "D3", Some("at-least-once")),
        ("rabbitmq-classic", "transient", None, "D0", Some("at-most-once")),
        ("rabbitmq-quorum", "standard", None, "D4", Some("at-least-once")),
        ("rabbitmq-stream", "standard", None, "D2", Some("at-least-once")),
        ("pulsar", "persistent", None, "D4", Some("at-least-once")),
        ("pulsar", "non-persistent", None, "D0", Some("at-most-once")),
        ("redis", "no-persistence", None, "D0", Some("at-least-once")),
        ("redis", "aof-everysec", None, "D1", Some("at-least-once")),
        ("valkey", "aof-always", None, "D3", Some("at-least-once")),
        ("memcached", "standard", None, "D0", None),
        ("dragonflydb", "snapshots", None, "D0", None),
    ] {
        let class = |capability| {
            catalog
                .claim(product, Some(configuration), capability, version)
                .map(|claim| claim.value.to_string())
        };
        assert_eq!(class(CapabilityId::Durability).as_deref(), Some(durability), "{product} {configuration}");
        assert_eq!(class(CapabilityId::Delivery).as_deref(), delivery, "{product} {configuration}");
    }
}

#[test]
fn claims_follow_the_version() {
    let catalog = shipped();
    let claim = |product, configuration, capability, version| {
        catalog.claim(product, configuration, capability, version).map(|claim| claim.value.to_string())
    };
    use CapabilityId as C;
    let licence = |version| claim("redis", None, C::Licence, version);
    assert_eq!(licence(Some("7.0.15")).as_deref(), Some("open-source"));
    assert_eq!(licence(Some("7.4.1")).as_deref(), Some("source-available"));
    assert_eq!(licence(Some("8.2.1")).as_deref(), Some("open-source"));
    assert_eq!(licence(None).as_deref(), Some("open-source"), "the newest is meant when no version is named");
    assert_eq!(claim("kafka", None, C::WorkQueue, Some("4.1")).as_deref(), Some("no"));
    assert_eq!(claim("kafka", None, C::WorkQueue, Some("4.2")).as_deref(), Some("yes"));
    assert_eq!(claim("kafka", None, C::DeadLetter, Some("4.3.1")).as_deref(), Some("no"));
    assert_eq!(claim("kafka", None, C::DeadLetter, Some("4.4")), None);
    assert_eq!(
        claim("kafka", None, C::DeadLetter, None),
        None,
        "a claim that ends before the newest is not taken"
    );
    assert_eq!(claim("rabbitmq-classic", None, C::Failover, Some("3.10.8")).as_deref(), Some("yes"));
    assert_eq!(claim("rabbitmq-classic", None, C::Failover, None).as_deref(), Some("no"));
    // Before 2.10 there was no fsync per write; all that is left then is the article's disputed sentence.
    let old = catalog.claim("jetstream", Some("file-r1-sync"), C::Durability, Some("2.9.10")).unwrap();
    assert!(old.provenance.status.dispute().is_some());
    assert_eq!(claim("kafka", Some("no-such"), C::Durability, None), None);
}

#[test]
fn refuted_sentences_of_the_articles_are_kept_as_disputed() {
    let catalog = shipped();
    let rule = |product: &str, id: &str| {
        let product = catalog.product(product).unwrap();
        product.forbidden.iter().find(|rule| rule.id == id).unwrap().provenance.clone()
    };
    for (product, id) in [
        ("kafka", "kafka-below-5ms"),
        ("redis", "redis-as-durable-queue"),
        ("llama-cpp", "llama-cpp-with-gpu"),
    ] {
        let provenance = rule(product, id);
        assert!(provenance.status.dispute().is_some(), "{id}");
        assert_eq!(provenance.level, Level::P0, "{id}");
        assert!(provenance.source.contains("禁用场景"), "{id}");
    }
    let disputed_claim = |product: &str, capability, value: &str| {
        catalog.product(product).unwrap().all_claims().any(|(_, claim)| {
            claim.capability == capability
                && claim.value.to_string() == value
                && claim.provenance.status.dispute().is_some()
        })
    };
    assert!(disputed_claim("vllm", CapabilityId::MultiNode, "no"));
    assert!(disputed_claim("llama-cpp", CapabilityId::GpuInference, "no"));
    assert!(disputed_claim("jetstream", CapabilityId::Delivery, "at-most-once"));
    let dragonfly = catalog.product("dragonflydb").unwrap();
    assert!(
        dragonfly
            .recommended
            .iter()
            .any(|item| { item.reason.zh.contains("25x") && item.provenance.status.dispute().is_some() })
    );
    // An active claim always comes before a disputed one.
    let multi_node = catalog.claim("vllm", None, CapabilityId::MultiNode, None).unwrap();
    assert_eq!(multi_node.value.to_string(), "yes");
}

#[test]
fn the_decision_matrix_is_complete() {
    let catalog = shipped();
    let features: Vec<(String, String)> = catalog
        .all_products()
        .iter()
        .flat_map(|product| {
            product.recommended.iter().map(|item| (product.id.clone(), item.feature.zh.clone()))
        })
        .collect();
    for (product, feature) in [
        ("vllm", "单节点 + 高吞吐"),
        ("triton", "多节点 + 集群调度"),
        ("vllm", "单节点 + 低延迟 SLA"),
        ("llama-cpp", "CPU 推理 + 低资源"),
        ("triton", "多模型共存"),
        ("kafka", "高吞吐 + 允许延迟"),
        ("nats-core", "低延迟 Pub/Sub"),
        ("rabbitmq-quorum", "消息可靠性 + 路由"),
        ("rabbitmq-classic", "消息可靠性 + 路由"),
        ("pulsar", "高吞吐 + 多租户"),
        ("redis", "读写缓存 + 数据结构"),
        ("memcached", "纯读缓存 + 高并发"),
        ("dragonflydb", "Redis 替代 + 更高吞吐"),
        ("tgi", "实时聊天应用"),
        ("vllm", "批量内容生成，模型规模 >13B"),
        ("fastchat", "快速原型验证"),
        ("vllm", "显存受限环境"),
        ("tgi", "网络带宽瓶颈"),
        ("fastchat", "突发流量处理"),
    ] {
        assert!(
            features.iter().any(|(known, text)| known == product && text == feature),
            "{product}: {feature}"
        );
    }
}
