//! TGI's own endpoints: one token an event, the whole text again with the last one.

use serde::Deserialize;
use serde_json::json;

use super::decode::{Count, Decoded, Filled, ServerError, any_error, number};
use super::{OUTPUT_TOKENS, opened};

pub(super) fn body() -> (String, &'static str) {
    let body = json!({"parameters": {
        "max_new_tokens": OUTPUT_TOKENS, "do_sample": false, "details": true,
    }});
    (opened(&body) + r#","inputs":""#, r#""}"#)
}

pub(super) fn decode(data: &[u8]) -> Result<Decoded, serde_json::Error> {
    let event: Event = serde_json::from_slice(data)?;
    let details = event.details.unwrap_or_default();
    let ended = event.generated_text.is_some();
    let (text, event_tokens) = match &event.token {
        // A special token ends the text and is no part of it.
        Some(token) => (!token.special && token.text.as_ref().is_some_and(|text| text.0), Some(1)),
        None => (event.generated_text.as_ref().is_some_and(|text| text.0), None),
    };
    Ok(Decoded {
        text,
        finish: ended,
        recognised: event.token.is_some() || ended,
        end: ended,
        completion_tokens: number(details.generated_tokens),
        event_tokens,
        prompt_tokens: number(details.input_length),
        error: event.error,
        ..Decoded::default()
    })
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    token: Option<Token>,
    #[serde(default)]
    generated_text: Option<Filled>,
    #[serde(default)]
    details: Option<Details>,
    #[serde(default, deserialize_with = "any_error")]
    error: Option<ServerError>,
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    text: Option<Filled>,
    #[serde(default)]
    special: bool,
}

#[derive(Deserialize, Default)]
struct Details {
    #[serde(default)]
    generated_tokens: Option<Count<u32>>,
    #[serde(default)]
    input_length: Option<Count<u32>>,
}
