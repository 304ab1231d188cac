//! Prompts of exact length, and what prefix caches know of them, against a real llama.cpp server.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use touchstone_flow::bench::{BenchError, BenchRequest, Blind, Payload, bench};
use touchstone_flow::prompts::{CachePolicy, Tokenizer};
use touchstone_load::LoadPlan;
use touchstone_load::plan::SECOND;
use touchstone_model::{FindingCode, Length, RunDocument};
use touchstone_runner::Control;
use touchstone_testkit::tiny_model::TinyModel;
use touchstone_testkit::{Kind, server};
use touchstone_workload::requests::PrefixGroups;

fn tokenizer(json: &str) -> Result<Tokenizer, touchstone_flow::prompts::TokenizerError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenizer.json");
    std::fs::write(&path, json).unwrap();
    Tokenizer::read(&path)
}

fn tiny() -> Tokenizer {
    tokenizer(&TinyModel::new(touchstone_testkit::tiny_model::SEED).tokenizer_json()).unwrap()
}

fn request(protocol: &str, url: &str, requests: u64) -> BenchRequest {
    let mut plan = LoadPlan::new("closed:2".parse().unwrap(), 7);
    plan.warm_up_ns = 0;
    plan.duration_ns = 20 * SECOND;
    plan.drain_ns = 5 * SECOND;
    plan.requests = Some(requests);
    plan.shards = 1;
    BenchRequest {
        target: format!("{protocol}={url}").parse().unwrap(),
        model: None,
        plan,
        payload: Payload { output_tokens: Length::Fixed(2), ..Payload::default() },
        ca_pem: None,
        headers: Vec::new(),
        api_key: None,
        probe_ceiling: false,
        store: None,
        labels: BTreeMap::new(),
        inside: Default::default(),
    }
}

fn run(request: &BenchRequest) -> RunDocument {
    bench(request, &mut Blind, &Control::default()).unwrap().document
}

fn found(document: &RunDocument, code: FindingCode) -> bool {
    document.findings.iter().any(|finding| finding.code == code)
}

/// Sum of the input tokens that the operations of a run asked for.
fn asked(length: Length, seed: u64, requests: u64) -> u64 {
    let lengths = touchstone_workload::requests::Lengths::Drawn { input: length, output: Length::Fixed(1) };
    let all = touchstone_workload::requests::Requests {
        lengths,
        ..touchstone_workload::requests::Requests::fixed(seed, 1, 1)
    };
    (0..requests).map(|index| u64::from(all.asked(index).input_tokens)).sum()
}

#[test]
fn a_file_that_is_no_tokenizer_is_refused_with_its_reason() {
    for text in ["", "{}", "[1,2]", "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}"] {
        let error = tokenizer(text).unwrap_err().to_string();
        assert!(error.contains("gives no prompts of exact length"), "{error}");
    }
}

#[test]
fn the_tiny_models_words_are_one_token_each() {
    let tokenizer = tiny();
    assert!(tokenizer.vocabulary.len() >= 64, "{}", tokenizer.vocabulary.len());
    assert!(tokenizer.sha256.starts_with("sha256:"));
    let requests = touchstone_workload::requests::Requests {
        vocabulary: tokenizer.vocabulary,
        ..touchstone_workload::requests::Requests::fixed(9, 200, 1)
    };
    // The testkit has an encoder of its own: the two agree.
    let model = TinyModel::new(touchstone_testkit::tiny_model::SEED);
    for index in 0..200 {
        let mut text = Vec::new();
        requests.write_prompt(index, &mut text);
        assert_eq!(model.tokenizer().encode(&String::from_utf8(text).unwrap()).len(), 200);
    }
}

#[test]
fn llama_cpp_counts_exactly_the_tokens_asked_for_of_every_length() {
    let llama = server!(Kind::LlamaCpp);
    for protocol in ["openai-chat", "openai-completions", "llamacpp"] {
        let mut request = request(protocol, &llama.base_url(), 24);
        request.payload.tokenizer = Some(tiny());
        request.payload.input_tokens = "lognormal:mean=200,cv=1,max=900".parse().unwrap();
        let lengths = request.payload.input_tokens;
        let document = run(&request);
        assert_eq!(document.counts.completed, 24, "{:?}", document.errors);
        assert!(!found(&document, FindingCode::InputTokenCount), "{protocol}: {:?}", document.findings);
        let parameters = &document.workload.parameters;
        assert_eq!(parameters["input_tokens_exact"], true);
        let probe = &parameters["input_tokens_probe"];
        let overhead = probe["counted"][0].as_u64().unwrap() - probe["words"][0].as_u64().unwrap();
        // Prompts that are asked to be shorter than the template and a word cannot be; none is drawn with this seed.
        assert!(overhead < 12, "{probe}");
        assert_eq!(document.counts.input_tokens, Some(asked(lengths, 7, 24)), "{protocol}");
    }
}

#[test]
fn another_tokenizer_or_too_short_a_prompt_is_refused_before_the_run() {
    let llama = server!(Kind::LlamaCpp);
    let refusal = |request: &BenchRequest| match bench(request, &mut Blind, &Control::default())
        .expect_err("it is refused")
    {
        BenchError::Fit { why } => why,
        other => panic!("{other}"),
    };
    let mut wrong = request("openai-chat", &llama.base_url(), 2);
    // English words are not one token each in the tiny model's vocabulary.
    let english = touchstone_workload::vocabulary::Vocabulary::default();
    wrong.payload.tokenizer = Some(Tokenizer { vocabulary: english.into(), ..tiny() });
    assert!(refusal(&wrong).contains("not the tokenizer"), "{}", refusal(&wrong));
    let mut short = request("openai-chat", &llama.base_url(), 2);
    short.payload.tokenizer = Some(tiny());
    short.payload.input_tokens = Length::Fixed(1);
    assert!(refusal(&short).contains("fewest"), "{}", refusal(&short));
}

#[test]
fn what_the_cache_of_llama_cpp_knows_is_what_was_declared() {
    let llama = server!(Kind::LlamaCpp);
    let make = |cache| {
        let mut request = request("openai-chat", &llama.base_url(), 30);
        request.plan.arrival = "closed:1".parse().unwrap();
        request.payload.tokenizer = Some(tiny());
        request.payload.input_tokens = Length::Fixed(200);
        request.payload.cache = cache;
        request
    };
    let cold = make(CachePolicy::Cold);
    // Twice with one seed: the second run has other text, so nothing of the first helps it.
    for _ in 0..2 {
        let document = run(&cold);
        let cached = document.counts.cached_input_tokens.unwrap();
        // The template's beginning is in every prompt.
        assert!(cached <= 30 * 8, "{cached}");
        assert!(!found(&document, FindingCode::CacheNotCold), "{:?}", document.findings);
        assert_eq!(document.workload.parameters["cacheable_share"], 0.0);
    }
    // The same prompts again, as an earlier run left them.
    let as_is =
        BenchRequest { plan: LoadPlan { requests: Some(1), ..cold.plan.clone() }, ..make(CachePolicy::AsIs) };
    run(&as_is);
    let again = run(&as_is);
    assert!(again.counts.cached_input_tokens.unwrap() > 150, "{:?}", again.counts);
    assert!(found(&again, FindingCode::CacheAsIs), "{:?}", again.findings);
    // Two beginnings, one of which each prompt has, sent before the run.
    let mut warm = make(CachePolicy::Warm);
    warm.payload.prefix = Some(PrefixGroups { groups: 2, tokens: 150, share: 1.0 });
    let document = run(&warm);
    assert_eq!(
        document.counts.completed, 30,
        "{:?} {:?} {:?}",
        document.counts, document.errors, document.findings
    );
    assert_eq!(document.workload.parameters["cacheable_share"], 0.75);
    let share =
        document.counts.cached_input_tokens.unwrap() as f64 / document.counts.input_tokens.unwrap() as f64;
    assert!((share - 0.75).abs() < 0.05, "{share}");
    assert!(!found(&document, FindingCode::PrefixCache), "{:?}", document.findings);
}
