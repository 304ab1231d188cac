//! What one event of a stream, or one whole answer, says that matters to a measurement, and the pieces that every
//! dialect's decoder is made of.
//!
//! The hot path is one pass over the JSON without building a tree: strings are looked at for being empty or not, and
//! everything else is skipped. Strings are read as bytes, because engines may cut a character in two.

use std::fmt;

use crate::said::printable;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Most bytes of a server's message that are kept.
const MESSAGE_LIMIT: usize = 1024;

/// What an event says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// It has generated text.
    pub(crate) text: bool,
    /// It has generated reasoning.
    pub(crate) reasoning: bool,
    /// It has a part of a tool call.
    pub(crate) tool: bool,
    /// It has a finish reason.
    pub(crate) finish: bool,
    /// It reports about the answer and is no part of it, as a usage report is.
    pub(crate) report: bool,
    /// It is of this dialect, whether it has content or not.
    pub(crate) recognised: bool,
    /// It is the last one of the answer.
    pub(crate) end: bool,
    /// Output tokens so far.
    pub(crate) completion_tokens: Option<u32>,
    /// Output tokens of this event alone, where the dialect says so.
    pub(crate) event_tokens: Option<u32>,
    /// Bytes of text so far, where events repeat the whole text.
    pub(crate) text_length: Option<usize>,
    /// Input tokens.
    pub(crate) prompt_tokens: Option<u32>,
    /// Of these, found in a prefix cache.
    pub(crate) cached_tokens: Option<u32>,
    /// An error instead of an answer.
    pub(crate) error: Option<ServerError>,
}

impl Decoded {
    /// An error and nothing else.
    pub(super) fn of_error(error: ServerError) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    /// Whether it brought anything that was generated.
    pub(crate) fn has_content(&self) -> bool {
        self.text || self.reasoning || self.tool
    }
}

/// An error as a server words it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerError {
    pub(crate) message: String,
    /// A code that looks like an HTTP status, else none.
    pub(crate) status: Option<u16>,
}

/// Decodes one event or answer of chat completions or completions.
pub(crate) fn decode(data: &[u8]) -> Result<Decoded, serde_json::Error> {
    let chunk: Chunk = serde_json::from_slice(data)?;
    let choices = chunk.choices.unwrap_or_default();
    let usage = chunk.usage.unwrap_or_default();
    let error = chunk.error.or_else(|| {
        // FastChat's forms: `{"object":"error","message","code"}` and, in a stream, `{"text","error_code"}`.
        let is_error = chunk.object.is_some_and(|object| object.error);
        let code = chunk.error_code.and_then(|code| code.0).filter(|code| *code != 0);
        if !is_error && code.is_none() {
            return None;
        }
        let message = chunk.message.or(chunk.text).map(|text| text.0).unwrap_or_default();
        Some(ServerError { message, status: status(code.or(chunk.code.and_then(|code| code.0))) })
    });
    Ok(Decoded {
        text: choices.text,
        reasoning: choices.reasoning,
        tool: choices.tool,
        finish: choices.finish,
        report: !choices.any,
        recognised: choices.present,
        completion_tokens: usage.completion_tokens.and_then(|count| count.0),
        event_tokens: choices.token_ids,
        prompt_tokens: usage.prompt_tokens.and_then(|count| count.0),
        cached_tokens: usage.prompt_tokens_details.and_then(|details| number(details.cached_tokens)),
        error,
        ..Decoded::default()
    })
}

/// The message in the body of an answer that is no success: JSON in any of the known forms, server-sent events that
/// hold it, HTML, or plain text.
pub(crate) fn error_message(body: &[u8]) -> String {
    let body = body.trim_ascii();
    let json = body.strip_prefix(b"data:").map_or(body, |rest| {
        let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        &rest[..end]
    });
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(json) {
        let found =
            [value.pointer("/error/message"), value.get("error"), value.get("message"), value.get("detail")];
        return match found.into_iter().flatten().find(|value| !value.is_null()) {
            Some(serde_json::Value::String(text)) => cut(text),
            Some(other) => cut(&other.to_string()),
            None => cut(&value.to_string()),
        };
    }
    let text = String::from_utf8_lossy(&body[..body.len().min(MESSAGE_LIMIT)]);
    let shown = match (text.find("<title>"), text.find("</title>")) {
        (Some(from), Some(to)) if from + 7 <= to => &text[from + 7..to],
        _ => &text,
    };
    printable(shown)
}

/// The `text` of a record that is an error.
pub(super) fn error_text(data: &[u8]) -> String {
    let value = serde_json::from_slice::<serde_json::Value>(data).unwrap_or_default();
    value.get("text").and_then(serde_json::Value::as_str).map(cut).unwrap_or_default()
}

/// What a document is, without what it says: it may be generated text.
pub(crate) fn describe(body: &[u8]) -> String {
    match serde_json::from_slice::<serde_json::Value>(body) {
        Ok(serde_json::Value::Object(members)) => {
            let names: Vec<String> = members.keys().take(8).map(|name| format!("`{}`", cut(name))).collect();
            format!("JSON with the members {}", names.join(", "))
        }
        Ok(_) => "JSON that is no object".to_owned(),
        Err(_) if body.trim_ascii_start().first() == Some(&b'<') => {
            format!("a page: {}", error_message(body))
        }
        Err(_) => "malformed JSON".to_owned(),
    }
}

fn cut(text: &str) -> String {
    printable(&text.chars().take(MESSAGE_LIMIT).collect::<String>())
}

pub(super) fn status(code: Option<u64>) -> Option<u16> {
    code.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code))
}

/// The members of a chunk, or of a whole answer, that are looked at.
#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Option<Choices>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default, deserialize_with = "any_error")]
    error: Option<ServerError>,
    #[serde(default)]
    object: Option<ObjectName>,
    #[serde(default)]
    message: Option<Text>,
    #[serde(default)]
    text: Option<Text>,
    #[serde(default)]
    code: Option<Count<u64>>,
    #[serde(default)]
    error_code: Option<Count<u64>>,
}

/// Token counts of the OpenAI form.
#[derive(Deserialize, Default)]
pub(super) struct Usage {
    #[serde(default)]
    pub(super) completion_tokens: Option<Count<u32>>,
    #[serde(default)]
    pub(super) prompt_tokens: Option<Count<u32>>,
    #[serde(default)]
    pub(super) prompt_tokens_details: Option<Details>,
}

/// What is known of the input tokens beside their number.
#[derive(Deserialize)]
pub(super) struct Details {
    #[serde(default)]
    pub(super) cached_tokens: Option<Count<u32>>,
}

/// The number in an optional count.
pub(super) fn number(count: Option<Count<u32>>) -> Option<u32> {
    count.and_then(|count| count.0)
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    message: Option<Delta>,
    #[serde(default)]
    text: Option<Filled>,
    #[serde(default)]
    finish_reason: Option<Filled>,
    #[serde(default)]
    token_ids: Option<Items>,
}

#[derive(Deserialize, Default)]
struct Delta {
    #[serde(default)]
    content: Option<Filled>,
    #[serde(default)]
    refusal: Option<Filled>,
    #[serde(default)]
    reasoning_content: Option<Filled>,
    #[serde(default)]
    reasoning: Option<Filled>,
    #[serde(default)]
    tool_calls: Option<Many>,
    #[serde(default)]
    function_call: Option<Many>,
}

/// The fold of all choices.
#[derive(Default)]
struct Choices {
    present: bool,
    any: bool,
    text: bool,
    reasoning: bool,
    tool: bool,
    finish: bool,
    /// Token ids in all choices, where they are listed.
    token_ids: Option<u32>,
}

impl<'de> Deserialize<'de> for Choices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fold;
        impl<'de> Visitor<'de> for Fold {
            type Value = Choices;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of choices")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Choices, A::Error> {
                let mut all = Choices { present: true, ..Choices::default() };
                let filled = |value: &Option<Filled>| value.as_ref().is_some_and(|value| value.0);
                let many = |value: &Option<Many>| value.as_ref().is_some_and(|value| value.0);
                while let Some(choice) = items.next_element::<Choice>()? {
                    all.any = true;
                    all.finish |= filled(&choice.finish_reason);
                    if let Some(Items(ids)) = choice.token_ids {
                        all.token_ids = Some(all.token_ids.unwrap_or(0).saturating_add(ids));
                    }
                    all.text |= filled(&choice.text);
                    for delta in [choice.delta, choice.message].into_iter().flatten() {
                        all.text |= filled(&delta.content) || filled(&delta.refusal);
                        all.reasoning |= filled(&delta.reasoning_content) || filled(&delta.reasoning);
                        all.tool |= many(&delta.tool_calls) || many(&delta.function_call);
                    }
                }
                Ok(all)
            }
        }
        deserializer.deserialize_seq(Fold)
    }
}

/// Whether a string (or a list of content parts) has anything in it.
pub(super) struct Filled(pub(super) bool);

impl<'de> Deserialize<'de> for Filled {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Look;
        impl<'de> Visitor<'de> for Look {
            type Value = Filled;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a list or null")
            }
            fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<Filled, E> {
                Ok(Filled(!value.is_empty()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Filled, A::Error> {
                has_items(items).map(Filled)
            }
        }
        // As bytes: no check of UTF-8, and lone surrogates pass.
        deserializer.deserialize_bytes(Look)
    }
}

/// Whether a list or a map has any item.
pub(super) struct Many(pub(super) bool);

impl<'de> Deserialize<'de> for Many {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Look;
        impl<'de> Visitor<'de> for Look {
            type Value = Many;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list or an object")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Many, A::Error> {
                has_items(items).map(Many)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Many, A::Error> {
                let mut any = false;
                while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    any = true;
                }
                Ok(Many(any))
            }
        }
        deserializer.deserialize_any(Look)
    }
}

pub(super) fn has_items<'de, A: SeqAccess<'de>>(mut items: A) -> Result<bool, A::Error> {
    let mut any = false;
    while items.next_element::<IgnoredAny>()?.is_some() {
        any = true;
    }
    Ok(any)
}

/// The number of items in a list.
struct Items(u32);

impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Look;
        impl<'de> Visitor<'de> for Look {
            type Value = Items;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Items, A::Error> {
                let mut number = 0_u32;
                while items.next_element::<IgnoredAny>()?.is_some() {
                    number = number.saturating_add(1);
                }
                Ok(Items(number))
            }
        }
        deserializer.deserialize_seq(Look)
    }
}

/// Whether the name of an object is `error`.
struct ObjectName {
    error: bool,
}

impl<'de> Deserialize<'de> for ObjectName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Look;
        impl Visitor<'_> for Look {
            type Value = ObjectName;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<ObjectName, E> {
                Ok(ObjectName { error: value == b"error" })
            }
        }
        deserializer.deserialize_bytes(Look)
    }
}

/// A text that is only wanted when it is an error's; anything that is no string counts as empty.
pub(super) struct Text(pub(super) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        Ok(Text(value.as_str().map(cut).unwrap_or_default()))
    }
}

/// A number of tokens or an error's code; none when it is something else (a text, a negative number).
pub(super) struct Count<N>(pub(super) Option<N>);

impl<'de, N: TryFrom<u64>> Deserialize<'de> for Count<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Look<N>(std::marker::PhantomData<N>);
        impl<'de, N: TryFrom<u64>> Visitor<'de> for Look<N> {
            type Value = Count<N>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_u64<E>(self, value: u64) -> Result<Count<N>, E> {
                Ok(Count(N::try_from(value).ok()))
            }
            fn visit_i64<E>(self, _: i64) -> Result<Count<N>, E> {
                Ok(Count(None))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Count<N>, E> {
                let whole = value >= 0.0 && value.fract() == 0.0 && value < 9e15;
                Ok(Count(if whole { N::try_from(value as u64).ok() } else { None }))
            }
            fn visit_str<E>(self, value: &str) -> Result<Count<N>, E> {
                Ok(Count(crate::decimal::parse(value.as_bytes()).and_then(|value| N::try_from(value).ok())))
            }
            fn visit_bool<E>(self, _: bool) -> Result<Count<N>, E> {
                Ok(Count(None))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Count<N>, A::Error> {
                has_items(items).map(|_| Count(None))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Count<N>, A::Error> {
                while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Count(None))
            }
        }
        deserializer.deserialize_any(Look(std::marker::PhantomData))
    }
}

/// An `error` member in any form: text, object, list; null is none.
pub(super) fn any_error<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ServerError>, D::Error> {
    // Errors are rare, so a tree is fine here; `Option` keeps the usual `null` from building one.
    let Some(value) = Option::<serde_json::Value>::deserialize(deserializer)? else { return Ok(None) };
    if value == "" || value == false {
        return Ok(None);
    }
    let code = ["code", "http_status_code", "status"].iter().find_map(|name| value.get(name)?.as_u64());
    let message = match (value.as_str(), value.get("message").and_then(serde_json::Value::as_str)) {
        (Some(text), _) | (None, Some(text)) => cut(text),
        (None, None) => cut(&value.to_string()),
    };
    Ok(Some(ServerError { message, status: status(code) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Decoded {
        decode(text.as_bytes()).unwrap()
    }

    #[test]
    fn content_is_told_from_what_is_none() {
        for (delta, text, reasoning, tool) in [
            (r#"{"role":"assistant","content":""}"#, false, false, false),
            (r#"{"role":"assistant","content":null}"#, false, false, false),
            (r#"{}"#, false, false, false),
            (r#"null"#, false, false, false),
            (r#"{"content":" a"}"#, true, false, false),
            (r#"{"content":"\n"}"#, true, false, false),
            (r#"{"content":"\ud83d"}"#, true, false, false),
            (r#"{"content":[{"type":"text","text":"a"}]}"#, true, false, false),
            (r#"{"refusal":"no"}"#, true, false, false),
            (r#"{"reasoning_content":"hm"}"#, false, true, false),
            (r#"{"reasoning":"hm","content":""}"#, false, true, false),
            (r#"{"reasoning":"hm","content":"a"}"#, true, true, false),
            (r#"{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}"#, false, false, true),
            (r#"{"tool_calls":[]}"#, false, false, false),
            (r#"{"function_call":{"name":"f"}}"#, false, false, true),
        ] {
            let seen =
                decoded(&format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#));
            assert_eq!(
                (seen.text, seen.reasoning, seen.tool, seen.finish),
                (text, reasoning, tool, false),
                "{delta}"
            );
        }
        assert!(decode(b"{\"choices\":[{\"delta\":{\"content\":\"\xff\xfe\"}}]}").unwrap().text);
    }

    #[test]
    fn usage_is_read_in_any_form() {
        let usage = |text: &str| {
            let seen = decoded(&format!(r#"{{"choices":[],"usage":{text}}}"#));
            (seen.prompt_tokens, seen.completion_tokens)
        };
        assert_eq!(usage("null"), (None, None));
        assert_eq!(
            usage(r#"{"prompt_tokens":7,"completion_tokens":6,"total_tokens":13}"#),
            (Some(7), Some(6))
        );
        assert_eq!(usage(r#"{"prompt_tokens":7.0,"completion_tokens":null}"#), (Some(7), None));
        assert_eq!(usage(r#"{"prompt_tokens":-1,"completion_tokens":"x"}"#), (None, None));
    }

    #[test]
    fn errors_are_found_in_any_form() {
        for (text, message, status) in [
            (r#"{"error":{"message":"busy","type":"x","code":503}}"#, "busy", Some(503)),
            (r#"{"error":{"message":"long","http_status_code":422}}"#, "long", Some(422)),
            (r#"{"error":"boom","error_type":"generation"}"#, "boom", None),
            (r#"{"error":{"code":"rate"}}"#, r#"{"code":"rate"}"#, None),
            (r#"{"object":"error","message":"worker","code":50002}"#, "worker", None),
            (r#"{"text":"sorry","error_code":50001}"#, "sorry", None),
        ] {
            let error = decoded(text).error.unwrap();
            assert_eq!((error.message.as_str(), error.status), (message, status), "{text}");
        }
        for text in [
            r#"{"error":null,"choices":[]}"#,
            r#"{"error":"","choices":[]}"#,
            r#"{"object":"chat.completion.chunk"}"#,
            r#"{"text":"a","error_code":0}"#,
        ] {
            assert_eq!(decoded(text).error, None, "{text}");
        }
    }

    #[test]
    fn messages_of_refusals() {
        for (body, message) in [
            (r#"{"error":{"message":"The model `x` does not exist."}}"#, "The model `x` does not exist."),
            (r#"{"error":"unknown model"}"#, "unknown model"),
            (r#"{"object":"error","message":"Only tiny","code":40301}"#, "Only tiny"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            (r#"{"detail":[{"loc":"body"}]}"#, r#"[{"loc":"body"}]"#),
            ("data: {\"error\":\"too long\"}\n\n", "too long"),
            ("<html><head><title>502 Bad\nGateway</title></head></html>", "502 Bad Gateway"),
            ("Internal  Server Error\n", "Internal Server Error"),
            ("{\"error\":{\"message\":\"two\\nlines \\u001b[31mred\"}}", "two lines [31mred"),
            ("", ""),
        ] {
            assert_eq!(error_message(body.as_bytes()), message, "{body}");
        }
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        for text in ["", "{", "[1]", "ping", "{\"choices\":3}", "{\"choices\":[3]}", "{}{}"] {
            assert!(decode(text.as_bytes()).is_err(), "{text}");
        }
    }
}
