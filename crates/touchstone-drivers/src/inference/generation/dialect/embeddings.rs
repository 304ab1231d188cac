//! OpenAI embeddings: one document, whose vectors count as its content.

use serde::Deserialize;
use serde_json::json;

use super::decode::{Decoded, Many, ServerError, Usage, any_error, number};
use super::opened;
use crate::inference::generation::GenerationOptions;

pub(super) fn body(options: &GenerationOptions) -> (String, &'static str) {
    let body = json!({"model": options.model, "encoding_format": "float"});
    (opened(&body) + r#","input":""#, r#""}"#)
}

pub(super) fn decode(data: &[u8]) -> Result<Decoded, serde_json::Error> {
    let answer: Answer = serde_json::from_slice(data)?;
    Ok(Decoded {
        text: answer.data.as_ref().is_some_and(|data| data.0),
        recognised: answer.data.is_some(),
        // No tokens are generated.
        completion_tokens: Some(0),
        event_tokens: Some(0),
        prompt_tokens: number(answer.usage.unwrap_or_default().prompt_tokens),
        error: answer.error,
        ..Decoded::default()
    })
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    data: Option<Many>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default, deserialize_with = "any_error")]
    error: Option<ServerError>,
}
