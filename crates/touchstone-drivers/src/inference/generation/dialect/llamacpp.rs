//! llama.cpp's own `/completion`: token counts in every event, the end marked by `"stop": true`, progress events that are
//! no tokens.

use serde::Deserialize;
use serde_json::json;

use super::decode::{Count, Decoded, Filled, ServerError, any_error, number};
use super::{OUTPUT_TOKENS, opened};
use crate::inference::generation::GenerationOptions;

pub(super) fn body(options: &GenerationOptions) -> (String, &'static str) {
    let mut body = json!({
        "n_predict": OUTPUT_TOKENS,
        "temperature": 0,
        "stream": options.stream,
    });
    if options.ignore_eos {
        body["ignore_eos"] = json!(true);
    }
    if let Some(cache) = options.cache_prompt {
        body["cache_prompt"] = json!(cache);
    }
    (opened(&body) + r#","prompt":""#, r#""}"#)
}

pub(super) fn decode(data: &[u8]) -> Result<Decoded, serde_json::Error> {
    let event: Event = serde_json::from_slice(data)?;
    Ok(Decoded {
        text: event.content.as_ref().is_some_and(|content| content.0),
        finish: event.stop == Some(true),
        recognised: event.content.is_some() || event.stop.is_some(),
        end: event.stop == Some(true),
        completion_tokens: number(event.tokens_predicted),
        prompt_tokens: number(event.tokens_evaluated),
        error: event.error,
        ..Decoded::default()
    })
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    content: Option<Filled>,
    #[serde(default)]
    stop: Option<bool>,
    #[serde(default)]
    tokens_predicted: Option<Count<u32>>,
    #[serde(default)]
    tokens_evaluated: Option<Count<u32>>,
    #[serde(default, deserialize_with = "any_error")]
    error: Option<ServerError>,
}
