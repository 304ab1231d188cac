//! A FastChat worker: records that repeat the whole text so far.
//!
//! Its model worker counts one output token too few, from the first record on, which says 0 while it has text. A stream
//! that begins so is corrected (see the session); FastChat's vLLM worker counts right.

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use serde_json::json;

use super::decode::{Count, Decoded, Filled, ServerError, Usage, number, status};
use super::{OUTPUT_TOKENS, opened};
use crate::inference::generation::GenerationOptions;

pub(super) fn body(options: &GenerationOptions) -> (String, &'static str) {
    let body = json!({
        "model": options.model,
        "temperature": 0,
        "max_new_tokens": OUTPUT_TOKENS,
        "echo": false,
        "stop": null,
        "stop_token_ids": null,
    });
    (opened(&body) + r#","prompt":""#, r#""}"#)
}

pub(super) fn decode(data: &[u8]) -> Result<Decoded, serde_json::Error> {
    let record: Record = serde_json::from_slice(data)?;
    let code = record.error_code.and_then(|code| code.0);
    if let Some(code) = code.filter(|code| *code != 0) {
        // The text of a failed record is the error's.
        let message = super::decode::error_text(data);
        return Ok(Decoded::of_error(ServerError { message, status: status(Some(code)) }));
    }
    let usage = record.usage.unwrap_or_default();
    Ok(Decoded {
        finish: record.finish_reason.is_some_and(|reason| reason.0),
        recognised: record.text.is_some(),
        text_length: record.text.map(|text| text.0),
        completion_tokens: number(usage.completion_tokens),
        prompt_tokens: number(usage.prompt_tokens),
        ..Decoded::default()
    })
}

#[derive(Deserialize)]
struct Record {
    #[serde(default)]
    text: Option<Length>,
    #[serde(default)]
    error_code: Option<Count<u64>>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    finish_reason: Option<Filled>,
}

/// The length of a text in bytes.
struct Length(usize);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Look;
        impl Visitor<'_> for Look {
            type Value = Length;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text")
            }
            fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<Length, E> {
                Ok(Length(value.len()))
            }
        }
        deserializer.deserialize_bytes(Look)
    }
}
