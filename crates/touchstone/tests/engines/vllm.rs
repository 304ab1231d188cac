//! vLLM: several tokens in a chunk, a role chunk first, usage in every chunk, errors inside a 200.

use std::sync::PoisonError;

use touchstone_model::{FindingCode, MetricId};
use touchstone_testkit::{Kind, server};

use crate::harness::{context, valid_bench};
use crate::{ONE_ENGINE, check_engine};

#[test]
fn vllm_counts_every_token_over_chat_and_completions() {
    let _alone = ONE_ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    let vllm = server!(Kind::Vllm);
    let context = context();
    for protocol in ["openai-chat", "openai-completions", "openai-responses"] {
        let target = format!("{protocol}={}", vllm.base_url());
        let load = "--arrival closed:2 --requests 60 --input-tokens 24 --output-tokens 16 --seed 5";
        let benched = valid_bench(&context, &target, load);
        check_engine(&vllm, protocol, &benched);
        let document = &benched.document;
        assert_eq!(document.counts.output_tokens, Some(60 * 16), "{}", benched.told());
        assert_eq!(document.target.product.as_deref(), Some("vllm"), "{}", benched.told());
        assert_eq!(document.target.version.as_deref(), Some(vllm.installed().version.as_str()));
        let p50 = |metric: MetricId| document.metrics[&metric].p50.unwrap();
        assert!(p50(MetricId::Ttft) < p50(MetricId::E2e), "{}", benched.told());
        // Usage in every chunk gives tokens per chunk, also of merged ones. Responses tell it at the end only: there itl is
        // known where no chunk had several tokens, and is null where one had.
        let known = protocol != "openai-responses" || document.counts.content_events == 60 * 16;
        let told = || format!("{protocol}: {}", benched.told());
        assert_eq!(document.metrics.contains_key(&MetricId::Itl), known, "{}", told());
        assert_eq!(benched.finding(FindingCode::TokensUnknown), !known, "{}", told());
    }
}

#[test]
fn a_prompt_beyond_vllms_context_is_the_scenarios_fault() {
    let _alone = ONE_ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    let vllm = server!(Kind::Vllm);
    let context = context();
    let target = format!("openai-chat={}", vllm.base_url());
    let load = "--arrival closed:1 --requests 3 --input-tokens 4000 --output-tokens 8 --seed 5";
    let benched = crate::harness::bench(&context, &target, load);
    let error = benched.error("http-400");
    assert_eq!(error.origin.to_string(), "scenario", "{}", benched.told());
    assert_eq!(error.count, 3, "{}", benched.told());
}
