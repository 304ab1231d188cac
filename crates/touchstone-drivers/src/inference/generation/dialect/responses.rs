//! OpenAI Responses: events that carry their type in the data, text and reasoning apart, usage with the last one.

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::json;

use super::decode::{Count, Decoded, Filled, ServerError, Text, any_error, number};
use super::{OUTPUT_TOKENS, opened};
use crate::inference::generation::GenerationOptions;

pub(super) fn body(options: &GenerationOptions) -> (String, &'static str) {
    let mut body = json!({
        "model": options.model,
        "max_output_tokens": OUTPUT_TOKENS,
        "temperature": 0,
        "stream": options.stream,
    });
    if options.ignore_eos {
        body["ignore_eos"] = json!(true);
    }
    (opened(&body) + r#","input":""#, r#""}"#)
}

pub(super) fn decode(data: &[u8]) -> Result<Decoded, serde_json::Error> {
    let event: Event = serde_json::from_slice(data)?;
    let kind = event.kind.unwrap_or(Kind::Other);
    if kind == Kind::Error {
        let message = event.message.map(|text| text.0).unwrap_or_default();
        return Ok(Decoded::of_error(event.error.unwrap_or(ServerError { message, status: None })));
    }
    let filled = event.delta.is_some_and(|delta| delta.0);
    // A whole answer, or the answer inside the event that ends a stream.
    let whole = event.response.unwrap_or_default();
    let usage = whole.usage.or(event.usage).unwrap_or_default();
    let document = event.output.is_some();
    let output = event.output.or(whole.output.filter(|_| document)).unwrap_or_default();
    Ok(Decoded {
        text: filled && kind == Kind::Text || output.text,
        reasoning: filled && kind == Kind::Reasoning || output.reasoning,
        tool: filled && kind == Kind::Tool || output.tool,
        finish: kind == Kind::End,
        recognised: event.kind.is_some() || document,
        end: kind == Kind::End,
        completion_tokens: number(usage.output_tokens),
        prompt_tokens: number(usage.input_tokens),
        error: event.error.or(whole.error),
        ..Decoded::default()
    })
}

/// The kinds of events that matter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
    Tool,
    End,
    Error,
    Other,
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Look;
        impl Visitor<'_> for Look {
            type Value = Kind;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a type of event")
            }
            fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<Kind, E> {
                Ok(match value {
                    b"response.output_text.delta" | b"response.refusal.delta" => Kind::Text,
                    b"response.reasoning_text.delta" | b"response.reasoning_summary_text.delta" => {
                        Kind::Reasoning
                    }
                    b"response.function_call_arguments.delta" | b"response.custom_tool_call_input.delta" => {
                        Kind::Tool
                    }
                    // Cut at the number of tokens that was asked for is a good end.
                    b"response.completed" | b"response.incomplete" => Kind::End,
                    b"error" => Kind::Error,
                    _ => Kind::Other,
                })
            }
        }
        deserializer.deserialize_bytes(Look)
    }
}

#[derive(Deserialize)]
struct Event {
    #[serde(default, rename = "type")]
    kind: Option<Kind>,
    #[serde(default)]
    delta: Option<Filled>,
    #[serde(default)]
    response: Option<Whole>,
    #[serde(default)]
    output: Option<Output>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default, deserialize_with = "any_error")]
    error: Option<ServerError>,
    #[serde(default)]
    message: Option<Text>,
}

#[derive(Deserialize, Default)]
struct Whole {
    #[serde(default)]
    output: Option<Output>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default, deserialize_with = "any_error")]
    error: Option<ServerError>,
}

#[derive(Deserialize, Default)]
struct Usage {
    #[serde(default)]
    output_tokens: Option<Count<u32>>,
    #[serde(default)]
    input_tokens: Option<Count<u32>>,
}

/// The fold of all items of an answer.
#[derive(Default)]
struct Output {
    text: bool,
    reasoning: bool,
    tool: bool,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default, rename = "type")]
    kind: Option<ItemKind>,
    #[serde(default)]
    content: Option<Filled>,
    #[serde(default)]
    summary: Option<Filled>,
    #[serde(default)]
    arguments: Option<Filled>,
}

#[derive(Deserialize, PartialEq, Eq, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum ItemKind {
    Message,
    Reasoning,
    FunctionCall,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for Output {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fold;
        impl<'de> Visitor<'de> for Fold {
            type Value = Output;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of items")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Output, A::Error> {
                let mut all = Output::default();
                let filled = |value: &Option<Filled>| value.as_ref().is_some_and(|value| value.0);
                while let Some(item) = items.next_element::<Item>()? {
                    match item.kind {
                        Some(ItemKind::Message) => all.text |= filled(&item.content),
                        Some(ItemKind::Reasoning) => {
                            all.reasoning |= filled(&item.content) || filled(&item.summary);
                        }
                        Some(ItemKind::FunctionCall) => all.tool |= filled(&item.arguments),
                        _ => {}
                    }
                }
                Ok(all)
            }
        }
        deserializer.deserialize_seq(Fold)
    }
}
