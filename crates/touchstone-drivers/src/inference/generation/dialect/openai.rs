//! OpenAI chat completions and completions: what is asked. What is answered is read by [`super::decode::decode`].

use serde_json::{Value, json};

use super::{OUTPUT_TOKENS, opened};
use crate::inference::generation::GenerationOptions;

pub(super) fn chat_body(options: &GenerationOptions) -> (String, &'static str) {
    let before = opened(&members(options)) + r#","messages":[{"role":"user","content":""#;
    (before, r#""}]}"#)
}

pub(super) fn completions_body(options: &GenerationOptions) -> (String, &'static str) {
    (opened(&members(options)) + r#","prompt":""#, r#""}"#)
}

fn members(options: &GenerationOptions) -> Value {
    let mut body = json!({
        "model": options.model,
        "max_tokens": OUTPUT_TOKENS,
        "temperature": 0,
        "stream": options.stream,
    });
    if options.stream {
        body["stream_options"] = json!({"include_usage": true});
        if options.continuous_usage {
            body["stream_options"]["continuous_usage_stats"] = json!(true);
        }
    }
    if options.ignore_eos {
        body["ignore_eos"] = json!(true);
    }
    if let Some(cache) = options.cache_prompt {
        body["cache_prompt"] = json!(cache);
    }
    body
}
