//! Triton over HTTP: the generate extension with the inputs of its text backends, and KServe v2 `infer`.

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, SeqAccess, Visitor};
use serde_json::json;

use super::decode::{Decoded, ServerError, any_error};
use super::{OUTPUT_TOKENS, opened};
use crate::inference::generation::GenerationOptions;

/// The vLLM backend reads `sampling_parameters`, a text of JSON; TensorRT-LLM's ensemble reads `max_tokens`. What a
/// model has no input for, Triton takes as a parameter of the request.
pub(super) fn generate_body(options: &GenerationOptions) -> (String, &'static str) {
    let mut sampling = json!({"max_tokens": OUTPUT_TOKENS, "temperature": 0});
    if options.ignore_eos {
        sampling["ignore_eos"] = json!(true);
    }
    let body = json!({
        "stream": options.stream,
        "max_tokens": OUTPUT_TOKENS,
        "sampling_parameters": sampling.to_string(),
        "exclude_input_in_output": true,
    });
    (opened(&body) + r#","text_input":""#, r#""}"#)
}

pub(super) fn infer_body() -> (String, &'static str) {
    (r#"{"inputs":[{"name":"text_input","shape":[1],"datatype":"BYTES","data":[""#.to_owned(), r#""]}]}"#)
}

pub(super) fn decode(data: &[u8]) -> Result<Decoded, serde_json::Error> {
    let event: Event = serde_json::from_slice(data)?;
    let outputs = event.outputs.unwrap_or_default();
    Ok(Decoded {
        text: event.text_output.as_ref().is_some_and(|text| text.0)
            || outputs.iter().any(|output| output.data.0),
        recognised: event.model_name.is_some() || event.text_output.is_some() || !outputs.is_empty(),
        error: event.error,
        ..Decoded::default()
    })
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    model_name: Option<IgnoredAny>,
    #[serde(default)]
    text_output: Option<AnyText>,
    #[serde(default)]
    outputs: Option<Vec<Output>>,
    #[serde(default, deserialize_with = "any_error")]
    error: Option<ServerError>,
}

#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    data: AnyText,
}

/// Whether a value is a text that is not empty, or a list (of lists) that holds anything but empty texts.
#[derive(Default)]
struct AnyText(bool);

impl<'de> Deserialize<'de> for AnyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Look;
        impl<'de> Visitor<'de> for Look {
            type Value = AnyText;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, a number or a list of them")
            }
            fn visit_str<E: Error>(self, value: &str) -> Result<AnyText, E> {
                Ok(AnyText(!value.is_empty()))
            }
            fn visit_bool<E>(self, _: bool) -> Result<AnyText, E> {
                Ok(AnyText(true))
            }
            fn visit_u64<E>(self, _: u64) -> Result<AnyText, E> {
                Ok(AnyText(true))
            }
            fn visit_i64<E>(self, _: i64) -> Result<AnyText, E> {
                Ok(AnyText(true))
            }
            fn visit_f64<E>(self, _: f64) -> Result<AnyText, E> {
                Ok(AnyText(true))
            }
            fn visit_unit<E>(self) -> Result<AnyText, E> {
                Ok(AnyText(false))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<AnyText, A::Error> {
                let mut any = false;
                while let Some(item) = items.next_element::<AnyText>()? {
                    any |= item.0;
                }
                Ok(AnyText(any))
            }
        }
        deserializer.deserialize_any(Look)
    }
}
