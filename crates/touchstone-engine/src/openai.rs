//! The OpenAI-compatible shapes, as vLLM speaks them: reading requests, writing answers and errors.

use serde::Deserialize;

use crate::text::PromptReader;

/// Tokens of an answer whose length the client left open, where that is not for the API to say.
const NATURAL_LENGTH: u32 = 128;
/// What `/v1/completions` gives without `max_tokens`.
const COMPLETION_DEFAULT: u32 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Completions,
}

/// What a client asked to have generated.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) api: Api,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) continuous_usage: bool,
    pub(crate) max_tokens: u32,
    pub(crate) finish_reason: &'static str,
    pub(crate) prompt: PromptReader,
}

/// An error as its client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) param: Option<&'static str>,
}

impl ApiError {
    fn bad(param: &'static str, message: String) -> Self {
        Self { status: 400, kind: "BadRequestError", message, param: Some(param) }
    }

    pub(crate) fn internal() -> Self {
        let message = "simulated internal error".to_owned();
        Self { status: 500, kind: "InternalServerError", message, param: None }
    }

    pub(crate) fn overloaded(status: u16) -> Self {
        let kind = if status == 429 { "Too Many Requests" } else { "Service Unavailable" };
        let message = "simulated overload: too many requests are waiting, try again later".to_owned();
        Self { status, kind, message, param: None }
    }

    pub(crate) fn json(&self) -> String {
        serde_json::json!({"error": {
            "message": self.message, "type": self.kind, "param": self.param, "code": self.status,
        }})
        .to_string()
    }
}

#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    messages: Option<Vec<Message>>,
    prompt: Option<Prompt>,
    max_tokens: Option<i64>,
    max_completion_tokens: Option<i64>,
    min_tokens: Option<i64>,
    n: Option<i64>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    temperature: Option<f64>,
    ignore_eos: Option<bool>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Option<Content>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    r#type: String,
    text: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    Ids(Vec<u32>),
    Texts(Vec<String>),
    IdLists(Vec<Vec<u32>>),
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
    continuous_usage_stats: Option<bool>,
}

/// Reads a request. `longest` is the most tokens of prompt and answer together. Unknown fields are ignored.
pub(crate) fn read(
    api: Api,
    body: &[u8],
    model: &str,
    block_size: u32,
    longest: u64,
) -> Result<Generation, ApiError> {
    let body: Body = serde_json::from_slice(body).map_err(|error| ApiError {
        status: 400,
        kind: "Bad Request",
        message: format!("1 validation error: {error}"),
        param: Some("body"),
    })?;
    if let Some(name) = body.model.as_ref().filter(|name| name.as_str() != model) {
        return Err(ApiError {
            status: 404,
            kind: "NotFoundError",
            message: format!("The model `{name}` does not exist. Valid aliases: {model}."),
            param: Some("model"),
        });
    }
    let mut prompt = PromptReader::new(block_size);
    match api {
        Api::Chat => read_messages(&body, &mut prompt)?,
        Api::Completions => read_prompt(&body, &mut prompt)?,
    }
    if prompt.tokens() == 0 {
        return Err(ApiError::bad("prompt", "the prompt has no tokens (a token is a word)".to_owned()));
    }
    if body.n.is_some_and(|n| n != 1) {
        return Err(ApiError::bad("n", "this simulated engine gives one choice: n must be 1".to_owned()));
    }
    if let Some(t) = body.temperature.filter(|t| *t < 0.0) {
        let message =
            format!("temperature must be non-negative, got {t:?}. (parameter=temperature, value={t:?})");
        return Err(ApiError::bad("temperature", message));
    }
    let (max_tokens, finish_reason) = length(api, &body, prompt.tokens(), longest)?;
    let options = body.stream_options.as_ref();
    let include_usage = options.and_then(|o| o.include_usage).unwrap_or(false);
    Ok(Generation {
        api,
        stream: body.stream.unwrap_or(false),
        include_usage,
        continuous_usage: include_usage && options.and_then(|o| o.continuous_usage_stats).unwrap_or(false),
        max_tokens,
        finish_reason,
        prompt,
    })
}

fn read_messages(body: &Body, prompt: &mut PromptReader) -> Result<(), ApiError> {
    let messages = body.messages.as_deref().unwrap_or_default();
    if messages.is_empty() {
        return Err(ApiError::bad("messages", "messages must be given and not empty".to_owned()));
    }
    for message in messages {
        prompt.mark(&message.role);
        match &message.content {
            None => {}
            Some(Content::Text(text)) => prompt.text(text),
            Some(Content::Parts(parts)) => {
                for part in parts {
                    let Some(text) = part.text.as_ref().filter(|_| part.r#type == "text") else {
                        let message = format!("content of type `{}` is not supported", part.r#type);
                        return Err(ApiError::bad("messages", message));
                    };
                    prompt.text(text);
                }
            }
        }
    }
    Ok(())
}

fn read_prompt(body: &Body, prompt: &mut PromptReader) -> Result<(), ApiError> {
    let mut ids = |ids: &[u32]| ids.iter().for_each(|id| prompt.token(&id.to_le_bytes()));
    match &body.prompt {
        None => {
            let message = "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)";
            return Err(ApiError::bad("prompt", message.to_owned()));
        }
        Some(Prompt::Ids(list)) => ids(list),
        Some(Prompt::IdLists(lists)) if lists.len() == 1 => ids(&lists[0]),
        Some(Prompt::Text(text)) => prompt.text(text),
        Some(Prompt::Texts(texts)) if texts.len() == 1 => prompt.text(&texts[0]),
        Some(Prompt::Texts(_) | Prompt::IdLists(_)) => {
            return Err(ApiError::bad(
                "prompt",
                "this simulated engine takes one prompt a request".to_owned(),
            ));
        }
    }
    Ok(())
}

/// How many tokens to generate, and what to call the end.
fn length(api: Api, body: &Body, prompt: u32, longest: u64) -> Result<(u32, &'static str), ApiError> {
    let asked = match api {
        Api::Chat => body.max_completion_tokens.or(body.max_tokens),
        Api::Completions => body.max_tokens,
    };
    let room = longest.saturating_sub(u64::from(prompt));
    if room == 0 {
        let message = format!(
            "This model's maximum context length is {longest} tokens. However, your prompt contains {prompt} \
             tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value={prompt})"
        );
        return Err(ApiError::bad("input_tokens", message));
    }
    let (tokens, reason) = match asked {
        Some(tokens) if tokens < 1 => {
            let message = format!(
                "max_tokens must be at least 1, got {tokens}. (parameter=max_tokens, value={tokens})"
            );
            return Err(ApiError::bad("max_tokens", message));
        }
        Some(tokens) => (tokens.unsigned_abs(), "length"),
        None if api == Api::Completions => (u64::from(COMPLETION_DEFAULT).min(room), "length"),
        None if body.ignore_eos == Some(true) || room < u64::from(NATURAL_LENGTH) => (room, "length"),
        // The simulated model ends by itself.
        None => (u64::from(NATURAL_LENGTH), "stop"),
    };
    if tokens > room {
        let total = u64::from(prompt).saturating_add(tokens);
        let message = format!(
            "This model's maximum context length is {longest} tokens. However, you requested {tokens} output \
             tokens and your prompt contains {prompt} input tokens, for a total of {total} tokens. Please reduce \
             the length of the input prompt or the number of requested output tokens. (parameter=max_tokens, \
             value={tokens})"
        );
        return Err(ApiError::bad("max_tokens", message));
    }
    if body.min_tokens.is_some_and(|least| i128::from(least) > i128::from(tokens)) {
        return Err(ApiError::bad("min_tokens", "min_tokens must not exceed max_tokens".to_owned()));
    }
    let tokens =
        u32::try_from(tokens).map_err(|_| ApiError::bad("max_tokens", "too many tokens".to_owned()))?;
    Ok((tokens, reason))
}

/// What all parts of one answer have in common.
#[derive(Debug)]
pub(crate) struct Answer {
    api: Api,
    /// `"id":..,"object":..,"created":..,"model":..,` of a chunk.
    chunk_head: String,
    whole_head: String,
    /// `"system_fingerprint":".."}`
    tail: String,
    prompt_tokens: u32,
}

impl Answer {
    /// `created` is Unix time in seconds; `model` and `fingerprint` are escaped here.
    pub(crate) fn new(
        api: Api,
        id: u64,
        created: u64,
        model: &str,
        fingerprint: &str,
        prompt_tokens: u32,
    ) -> Self {
        let (prefix, whole, chunk) = match api {
            Api::Chat => ("chatcmpl", "chat.completion", "chat.completion.chunk"),
            Api::Completions => ("cmpl", "text_completion", "text_completion"),
        };
        let model = serde_json::Value::from(model);
        let head = |object: &str| {
            format!(r#"{{"id":"{prefix}-{id:016x}","object":"{object}","created":{created},"model":{model},"#)
        };
        let fingerprint = serde_json::Value::from(fingerprint);
        Self {
            api,
            chunk_head: head(chunk),
            whole_head: head(whole),
            tail: format!(r#""system_fingerprint":{fingerprint}}}"#),
            prompt_tokens,
        }
    }

    fn usage(&self, completion_tokens: u32) -> String {
        let (prompt, total) =
            (self.prompt_tokens, u64::from(self.prompt_tokens) + u64::from(completion_tokens));
        format!(
            r#""usage":{{"prompt_tokens":{prompt},"total_tokens":{total},"completion_tokens":{completion_tokens}}},"#
        )
    }

    /// The event that opens a chat stream: a role and no content.
    pub(crate) fn role_event(&self) -> String {
        let (head, tail) = (&self.chunk_head, &self.tail);
        format!(
            "data: {head}\"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\
             \"logprobs\":null,\"finish_reason\":null}}],{tail}\n\n"
        )
    }

    /// An event with content. `text` consists of words of the simulated vocabulary, which need no escaping.
    /// `usage` is the tokens so far, where the client wants them in every event.
    pub(crate) fn content_event(&self, text: &str, finish: Option<&str>, usage: Option<u32>) -> String {
        let mut event = String::with_capacity(self.chunk_head.len() + text.len() + 200);
        event.push_str("data: ");
        event.push_str(&self.chunk_head);
        let content = match self.api {
            Api::Chat => format!(r#""delta":{{"content":"{text}"}}"#),
            Api::Completions => format!(r#""text":"{text}""#),
        };
        let finish = finish.map_or("null".to_owned(), |reason| format!("\"{reason}\""));
        event.push_str(&format!(
            r#""choices":[{{"index":0,{content},"logprobs":null,"finish_reason":{finish}}}],"#
        ));
        if let Some(tokens) = usage {
            event.push_str(&self.usage(tokens));
        }
        event.push_str(&self.tail);
        event.push_str("\n\n");
        event
    }

    /// The event that only reports usage.
    pub(crate) fn usage_event(&self, tokens: u32) -> String {
        format!("data: {}\"choices\":[],{}{}\n\n", self.chunk_head, self.usage(tokens), self.tail)
    }

    /// A whole answer, not streamed.
    pub(crate) fn whole(&self, text: &str, finish: &str, tokens: u32) -> String {
        let content = match self.api {
            Api::Chat => format!(r#""message":{{"role":"assistant","content":"{text}"}}"#),
            Api::Completions => format!(r#""text":"{text}""#),
        };
        format!(
            r#"{}"choices":[{{"index":0,{content},"logprobs":null,"finish_reason":"{finish}"}}],{}{}"#,
            self.whole_head,
            self.usage(tokens),
            self.tail
        )
    }
}

/// The event that ends a stream.
pub(crate) const DONE: &str = "data: [DONE]\n\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(api: Api, body: &str) -> Result<Generation, ApiError> {
        read(api, body.as_bytes(), "m", 4, 200)
    }

    #[test]
    fn requests_are_understood() {
        let chat = ask(
            Api::Chat,
            r#"{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"assistant","content":null},
            {"role":"user","content":[{"type":"text","text":"one two"},{"type":"text","text":"three"}]}],
            "max_tokens":9,"max_completion_tokens":7,"stream":true,"ignore_eos":true,
            "stream_options":{"include_usage":true,"continuous_usage_stats":true},"unknown":[1]}"#,
        )
        .unwrap();
        assert_eq!((chat.prompt.tokens(), chat.max_tokens, chat.finish_reason), (5, 7, "length"));
        assert!(chat.stream && chat.include_usage && chat.continuous_usage);
        for (prompt, tokens) in [(r#""a b c""#, 3), (r#"["a b"]"#, 2), ("[7,8,9]", 3), ("[[7,8]]", 2)] {
            let it = ask(Api::Completions, &format!(r#"{{"prompt":{prompt}}}"#)).unwrap();
            assert_eq!((it.prompt.tokens(), it.max_tokens, it.stream), (tokens, COMPLETION_DEFAULT, false));
        }
    }

    #[test]
    fn open_lengths_end_by_themselves_unless_told_not_to() {
        let open = |extra: &str| {
            let body = format!(r#"{{"messages":[{{"role":"user","content":"a b"}}]{extra}}}"#);
            let it = ask(Api::Chat, &body).unwrap();
            (it.max_tokens, it.finish_reason)
        };
        assert_eq!(open(""), (NATURAL_LENGTH, "stop"));
        assert_eq!(open(r#","ignore_eos":true"#), (198, "length"));
    }

    #[test]
    fn refusals_carry_status_and_parameter() {
        let cases = [
            ("{bad", 400, "body"),
            (r#"{"prompt":"a","model":"x"}"#, 404, "model"),
            ("{}", 400, "prompt"),
            (r#"{"prompt":"  "}"#, 400, "prompt"),
            (r#"{"prompt":["a","b"]}"#, 400, "prompt"),
            (r#"{"prompt":"a","n":2}"#, 400, "n"),
            (r#"{"prompt":"a","max_tokens":0}"#, 400, "max_tokens"),
            (r#"{"prompt":"a","max_tokens":-1}"#, 400, "max_tokens"),
            (r#"{"prompt":"a","max_tokens":200}"#, 400, "max_tokens"),
            (r#"{"prompt":"a","max_tokens":9223372036854775807}"#, 400, "max_tokens"),
            (r#"{"prompt":"a","min_tokens":9,"max_tokens":8}"#, 400, "min_tokens"),
            (r#"{"prompt":"a","temperature":-1}"#, 400, "temperature"),
        ];
        for (body, status, param) in cases {
            let error = ask(Api::Completions, body).unwrap_err();
            assert_eq!((error.status, error.param), (status, Some(param)), "{body}");
        }
        let long = format!(r#"{{"prompt":"{}"}}"#, "w ".repeat(200));
        assert_eq!(ask(Api::Completions, &long).unwrap_err().param, Some("input_tokens"));
        let image = r#"{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}"#;
        assert_eq!(ask(Api::Chat, image).unwrap_err().param, Some("messages"));
        assert_eq!(ask(Api::Chat, r#"{"messages":[]}"#).unwrap_err().param, Some("messages"));
    }

    #[test]
    fn everything_written_is_json() {
        for api in [Api::Chat, Api::Completions] {
            let answer = Answer::new(api, 7, 1, "na\"me", "fp", 5);
            let events = [
                answer.role_event(),
                answer.content_event(" tok1", None, None),
                answer.content_event(" tok2", Some("length"), Some(2)),
                answer.usage_event(2),
            ];
            for event in events {
                let json = event.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
                let json: serde_json::Value = serde_json::from_str(json).unwrap();
                assert_eq!(
                    (json["model"].as_str(), json["system_fingerprint"].as_str()),
                    (Some("na\"me"), Some("fp"))
                );
            }
            let whole: serde_json::Value = serde_json::from_str(&answer.whole(" tok1", "length", 1)).unwrap();
            assert_eq!(whole["usage"]["total_tokens"], 6);
        }
    }
}
