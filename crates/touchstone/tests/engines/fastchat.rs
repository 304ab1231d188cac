//! FastChat: a role chunk before the prompt is looked at, no usage in streams, an end that comes late.

use std::sync::PoisonError;

use touchstone_model::MetricId;
use touchstone_testkit::{Kind, server};

use crate::harness::{context, valid_bench};
use crate::{ONE_ENGINE, check_engine};

#[test]
fn fastchat_streams_are_timed_by_their_content_and_not_by_their_end() {
    let _alone = ONE_ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    let fastchat = server!(Kind::FastChat);
    let context = context();
    for protocol in ["openai-chat", "openai-completions"] {
        let target = format!("{protocol}={}", fastchat.base_url());
        let load = "--arrival closed:1 --requests 20 --input-tokens 24 --output-tokens 16 --seed 5";
        let benched = valid_bench(&context, &target, load);
        check_engine(&fastchat, protocol, &benched);
        let document = &benched.document;
        assert_eq!(document.counts.output_tokens, None, "its streams carry no usage: {}", benched.told());
        assert!(!document.metrics.contains_key(&MetricId::Itl), "tokens per chunk are unknown");
        assert_eq!(document.counts.content_events, 20 * 16, "{}", benched.told());
        let p50 = |metric: MetricId| document.metrics[&metric].p50.unwrap();
        assert!(p50(MetricId::Ttft) < p50(MetricId::E2e), "{}", benched.told());
        assert!(document.metrics.contains_key(&MetricId::StreamClose), "{}", benched.told());
    }
}

#[test]
fn a_fastchat_workers_records_repeat_the_text_and_count_one_token_too_few() {
    let _alone = ONE_ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    let fastchat = server!(Kind::FastChat);
    let context = context();
    let target = format!("fastchat-worker=http://{}", fastchat.second_addr());
    let load = "--arrival closed:1 --requests 20 --input-tokens 24 --output-tokens 16 --seed 5";
    let benched = valid_bench(&context, &target, load);
    check_engine(&fastchat, "fastchat-worker", &benched);
    let document = &benched.document;
    assert_eq!(document.counts.output_tokens, Some(20 * 16), "{}", benched.told());
    assert_eq!(document.target.product.as_deref(), Some("fastchat"), "{}", benched.told());
    assert!(document.metrics.contains_key(&MetricId::Itl), "{}", benched.told());
}
