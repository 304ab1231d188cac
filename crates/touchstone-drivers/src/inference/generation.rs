//! Generations (and embeddings) over HTTP/1.1: one driver, and a dialect for each endpoint that it speaks to.
//!
//! Each operation is one POST whose prompt is a function of the seed and the operation's number, with a beginning
//! that no other operation has, so that prefix caches cannot help. Temperature is 0 and the output length is fixed
//! where the server knows `ignore_eos`. The reader follows what real engines send: role-only and null deltas, several
//! tokens in a chunk, usage in its own chunk, in the last or in every one, errors inside a 200 stream, a missing
//! `[DONE]`, cut bodies.
//!
//! Limits: 64 KiB of head, 1 MiB per event, 64 KiB of a refusal, 8 MiB of an answer that is one document.
//!
//! What it deliberately does not do: it neither keeps nor checks the generated text, and it follows no redirects.

mod dialect;
mod plain;
mod records;
mod session;
mod sink;
mod template;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use touchstone_load::{Connections, Driver, Session, Sink};
use touchstone_model::length::MAX_LENGTH;
use touchstone_model::{Family, Length, MetricId};
use touchstone_workload::requests::{Lengths, Requests, Wording};

use crate::{DriverError, Secret, decimal, in_range};

pub use self::dialect::Dialect;

/// What an [`Generation`] driver is made from.
#[derive(Clone)]
pub struct GenerationOptions {
    /// The endpoint.
    pub dialect: Dialect,
    /// Whether the answer is asked for as a stream; without one the whole of it comes at its end.
    pub stream: bool,
    /// The value of the `host` header: name and port.
    pub host: String,
    /// The path of the endpoint, from the first slash; `{model}` in it stands for the model's name.
    pub path: String,
    /// The model's name.
    pub model: String,
    /// Further request headers, as (name, value). They replace the driver's own of the same name, but for those that
    /// frame the message, which are refused. Values are treated as secrets.
    pub headers: Vec<(String, String)>,
    /// Sent as `authorization: Bearer`.
    pub api_key: Option<Secret>,
    /// How long prompts and answers are, and what the prompts say.
    pub requests: Requests,
    /// Sends the beginning of each group of the `requests` once before the load, so that prefix caches know it.
    pub preload: bool,
    /// Most connections at once, 1 to 1,000,000.
    pub connections: u32,
    /// Sends `ignore_eos: true`: full length on vLLM and llama.cpp. Strict servers may refuse the field.
    pub ignore_eos: bool,
    /// Sends `continuous_usage_stats: true` with the stream options: exact tokens per chunk on vLLM.
    pub continuous_usage: bool,
    /// Sends llama.cpp's `cache_prompt` with this value; not sent when none.
    pub cache_prompt: Option<bool>,
    /// Whether events without content are told too ([`touchstone_load::SessionEvent::Silent`]), for the event log.
    pub tell_silent: bool,
}

impl GenerationOptions {
    /// Options with the defaults: 128 input and 64 output tokens, seed 0, 256 connections, `ignore_eos` and continuous
    /// usage on, the usual path of the dialect, a stream where there is one.
    #[must_use]
    pub fn new(dialect: Dialect, host: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            dialect,
            stream: dialect.can_stream(),
            host: host.into(),
            path: dialect.path().to_owned(),
            model: model.into(),
            headers: Vec::new(),
            api_key: None,
            requests: Requests::fixed(0, 128, 64),
            preload: false,
            connections: 256,
            ignore_eos: true,
            continuous_usage: true,
            cache_prompt: None,
            tell_silent: false,
        }
    }
}

impl fmt::Debug for GenerationOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Header values may hold credentials.
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("GenerationOptions")
            .field("dialect", &self.dialect)
            .field("stream", &self.stream)
            .field("host", &self.host)
            .field("path", &self.path)
            .field("model", &self.model)
            .field("headers", &names)
            .field("api_key", &self.api_key)
            .field("seed", &self.requests.seed)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

/// What all sessions of a driver share.
struct Shared {
    options: GenerationOptions,
    /// Request line and headers, up to the value of `content-length`.
    head: Vec<u8>,
    /// The pieces of the body before the prompt; between each two stands the number of output tokens.
    before: Vec<Vec<u8>>,
    /// The body after the prompt.
    after: Vec<u8>,
    /// Whether an answer said that its server is a simulator.
    simulated: AtomicBool,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.options, f)
    }
}

impl Shared {
    /// Appends the request of operation `index`; `body` is memory to work in.
    fn write_request(&self, index: u64, body: &mut Vec<u8>, out: &mut Vec<u8>) {
        let requests = &self.options.requests;
        let output_tokens = requests.asked(index).output_tokens;
        self.write(output_tokens, |body| requests.write_prompt(index, body), body, out);
    }

    /// Appends the request that makes the beginning of a group known, for one output token.
    fn write_beginning(&self, group: u64, body: &mut Vec<u8>, out: &mut Vec<u8>) {
        let requests = &self.options.requests;
        self.write(1, |body| requests.write_beginning(group as u32, body), body, out);
    }

    fn write(
        &self,
        output_tokens: u32,
        prompt: impl FnOnce(&mut Vec<u8>),
        body: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        body.clear();
        for (number, piece) in self.before.iter().enumerate() {
            if number > 0 {
                decimal::push(body, u64::from(output_tokens));
            }
            body.extend_from_slice(piece);
        }
        prompt(body);
        body.extend_from_slice(&self.after);
        out.reserve(self.head.len() + 24 + body.len());
        out.extend_from_slice(&self.head);
        decimal::push(out, body.len() as u64);
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body);
    }

    /// A server's words without the key and without header values, which it may have repeated.
    fn blot(&self, text: String) -> String {
        let text = match &self.options.api_key {
            Some(key) => key.blot(text),
            None => text,
        };
        let headers = self.options.headers.iter().flat_map(|(_, value)| Secret::new(value).parts());
        headers.filter(|secret| secret.expose().len() >= 8).fold(text, |text, secret| secret.blot(text))
    }
}

/// The driver of endpoints that generate.
#[derive(Debug, Clone)]
pub struct Generation {
    shared: Arc<Shared>,
}

impl Generation {
    /// Makes the driver.
    ///
    /// # Errors
    /// [`DriverError`] when a number is outside its range, or a header, the host or the path holds bytes that cannot
    /// be sent.
    pub fn new(mut options: GenerationOptions) -> Result<Self, DriverError> {
        if let Lengths::Drawn { input, output } = options.requests.lengths {
            for (name, length) in [("input_tokens", input), ("output_tokens", output)] {
                in_range(name, u64::from(length.fixed().unwrap_or(1)), 1, u64::from(MAX_LENGTH))?;
            }
        }
        in_range("connections", u64::from(options.connections), 1, 1_000_000)?;
        options.stream &= options.dialect.can_stream();
        options.stream |= !options.dialect.can_answer_whole();
        if !options.stream
            && matches!(options.dialect, Dialect::Tgi | Dialect::TritonGenerate)
            && let Some(base) = options.path.strip_suffix("/generate_stream")
        {
            // Where others take a flag, these have another endpoint.
            options.path = format!("{base}/generate");
        }
        if options.model.contains(&dialect::OUTPUT_TOKENS.to_string()) {
            let problem = "a number that stands for another one while the request is made";
            return Err(DriverError::Text { option: "model", problem });
        }
        let head = request_head(&options)?;
        let (before, after) = options.dialect.body(&options);
        let shared = Shared { options, head, before, after, simulated: AtomicBool::new(false) };
        Ok(Self { shared: Arc::new(shared) })
    }
}

fn request_head(options: &GenerationOptions) -> Result<Vec<u8>, DriverError> {
    let refuse = |option, problem| Err(DriverError::Text { option, problem });
    let visible = |text: &str| !text.is_empty() && text.bytes().all(|byte| matches!(byte, 0x21..=0x7E));
    if !visible(&options.host) {
        return refuse("host", "a blank or a byte that a header cannot carry");
    }
    let path = options.path.replace("{model}", &options.model);
    if !visible(&path) || !path.starts_with('/') {
        return refuse("path", "no leading slash, or a byte that a request line cannot carry");
    }
    let given = |name: &str| options.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let mut lines = vec![format!("POST {path} HTTP/1.1")];
    for (name, value) in [
        ("host", options.host.as_str()),
        ("user-agent", concat!("touchstone/", env!("CARGO_PKG_VERSION"))),
        ("accept", "text/event-stream, application/json"),
        ("content-type", "application/json"),
    ] {
        if !given(name) {
            lines.push(format!("{name}: {value}"));
        }
    }
    let line_safe = |value: &str| value.bytes().all(|byte| byte == b'\t' || byte >= b' ' && byte != 0x7F);
    for (name, value) in &options.headers {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            return refuse("header", "a name with a byte that is not allowed in it");
        }
        if name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding") {
            return refuse("header", "a field that frames the message, which is the driver's to set");
        }
        if !line_safe(value) {
            return refuse("header", "a value with a line end or another control character");
        }
        lines.push(format!("{name}: {value}"));
    }
    if let Some(key) = &options.api_key {
        if given("authorization") {
            return refuse("header", "an `authorization` beside the API key");
        }
        if !line_safe(key.expose()) {
            return refuse("api_key", "a line end or another control character");
        }
        lines.push(format!("authorization: Bearer {}", key.expose()));
    }
    lines.push("content-length: ".to_owned());
    Ok(lines.join("\r\n").into_bytes())
}

impl Driver for Generation {
    fn family(&self) -> Family {
        Family::Inference
    }

    fn connections(&self) -> Connections {
        Connections::OnDemand { at_most: self.shared.options.connections }
    }

    fn session(&self, _shard: u32, _connection: u32) -> Box<dyn Session> {
        Box::new(session::GenerationSession::new(Arc::clone(&self.shared), false))
    }

    fn preload(&self) -> Option<Box<dyn Session>> {
        let session = || session::GenerationSession::new(Arc::clone(&self.shared), true);
        (self.preload_operations() > 0).then(|| Box::new(session()) as Box<dyn Session>)
    }

    fn preload_operations(&self) -> u64 {
        let groups = self.shared.options.requests.prefix.map_or(0, |prefix| u64::from(prefix.groups));
        if self.shared.options.preload { groups } else { 0 }
    }

    fn simulated(&self) -> bool {
        self.shared.simulated.load(Ordering::Relaxed)
    }

    fn leading_metric(&self) -> MetricId {
        if self.shared.options.stream { MetricId::Ttft } else { MetricId::E2e }
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        let options = &self.shared.options;
        let requests = &options.requests;
        let length = |length: Length| length.fixed().map_or_else(|| json!(length.to_string()), |n| json!(n));
        let (input, output) = match &requests.lengths {
            Lengths::Drawn { input, output } => (length(*input), length(*output)),
            Lengths::Trace(trace) => {
                let source = json!(format!("trace ({})", trace.format()));
                (source.clone(), source)
            }
        };
        let prefix = requests
            .prefix
            .map(|prefix| json!({"groups": prefix.groups, "tokens": prefix.tokens, "share": prefix.share}));
        let wording = (requests.wording != Wording::default()).then(|| {
            json!({
                "fixed_tokens": requests.wording.fixed_tokens,
                "tokens_per_word": requests.wording.tokens_per_word,
            })
        });
        [
            ("input_tokens", input),
            ("output_tokens", if options.dialect.generates() { output } else { Value::Null }),
            ("prefix", json!(prefix)),
            ("wording", json!(wording)),
            ("protocol", json!(options.dialect.name())),
            ("stream", json!(options.stream)),
            ("path", json!(options.path.replace("{model}", &options.model))),
            ("model", json!(options.model)),
            ("temperature", json!(0)),
            ("ignore_eos", json!(options.ignore_eos)),
            ("continuous_usage", json!(options.continuous_usage)),
            ("cache_prompt", json!(options.cache_prompt)),
            ("connections_at_most", json!(options.connections)),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    fn asked_output_tokens(&self, index: u64) -> Option<u32> {
        let options = &self.shared.options;
        options.dialect.generates().then(|| options.requests.asked(index).output_tokens)
    }

    fn cacheable_share(&self, operations: u64) -> Option<f64> {
        let options = &self.shared.options;
        Some(options.requests.cacheable_share(operations, options.preload))
    }

    fn sink(&self) -> Option<Box<dyn Sink>> {
        Some(Box::new(sink::GenerationSink::new(&self.shared.options)))
    }
}

#[cfg(test)]
mod tests {
    use touchstone_load::{Op, OpToken};
    use touchstone_workload::requests::PrefixGroups;

    use super::*;

    fn options() -> GenerationOptions {
        GenerationOptions::new(Dialect::Chat, "127.0.0.1:8000", "m\"1")
    }

    #[test]
    fn the_request_is_framed_and_says_what_was_asked_for() {
        let mut asked = options();
        asked.api_key = Some(Secret::new("sk-1"));
        asked.headers = vec![("X-Tenant".to_owned(), "blue".to_owned()), ("Host".to_owned(), "h".to_owned())];
        asked.cache_prompt = Some(false);
        asked.requests = Requests::fixed(0, 5, 64);
        let driver = Generation::new(asked).unwrap();
        let mut out = Vec::new();
        driver.shared.write_request(9, &mut Vec::new(), &mut out);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("\r\nX-Tenant: blue\r\n") && head.contains("\r\nHost: h\r\n"), "{head}");
        assert!(!head.contains("127.0.0.1") && head.contains("\r\nauthorization: Bearer sk-1\r\n"), "{head}");
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["model"], "m\"1");
        assert_eq!(body["max_tokens"], 64);
        assert_eq!(body["stream"], true);
        assert_eq!(body["stream_options"], json!({"include_usage": true, "continuous_usage_stats": true}));
        assert_eq!(body["ignore_eos"], true);
        assert_eq!(body["cache_prompt"], false);
        assert_eq!(body["temperature"], 0);
        assert_eq!(body["messages"][0]["content"].as_str().unwrap().split(' ').count(), 5);
    }

    #[test]
    fn completions_carry_a_bare_prompt_and_only_the_fields_that_are_on() {
        let mut asked = GenerationOptions::new(Dialect::Completions, "h", "m");
        asked.ignore_eos = false;
        asked.continuous_usage = false;
        asked.requests = Requests::fixed(0, 3, 64);
        let driver = Generation::new(asked).unwrap();
        let mut out = Vec::new();
        driver.shared.write_request(0, &mut Vec::new(), &mut out);
        let text = String::from_utf8(out).unwrap();
        let body: Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(body["prompt"].as_str().unwrap().split(' ').count(), 3);
        assert_eq!(body["stream_options"], json!({"include_usage": true}));
        assert!(body.get("ignore_eos").is_none() && body.get("cache_prompt").is_none());
        assert!(text.starts_with("POST /v1/completions HTTP/1.1\r\n"));
    }

    #[test]
    fn the_preload_sends_each_beginning_once_for_one_token() {
        let mut asked = GenerationOptions::new(Dialect::Completions, "h", "m");
        asked.requests.prefix = Some(PrefixGroups { groups: 3, tokens: 20, share: 1.0 });
        assert_eq!(Generation::new(asked.clone()).unwrap().preload_operations(), 0);
        asked.preload = true;
        let driver = Generation::new(asked).unwrap();
        assert_eq!(driver.preload_operations(), 3);
        let mut session = driver.preload().unwrap();
        let body = |session: &mut dyn Session, index| {
            let mut out = Vec::new();
            session.start(Op { token: OpToken(0), index, intended_ns: 0 }, &mut out);
            let text = String::from_utf8(out).unwrap();
            serde_json::from_str::<Value>(text.split_once("\r\n\r\n").unwrap().1).unwrap()
        };
        let mut beginnings = std::collections::BTreeSet::new();
        for group in 0..3 {
            let body = body(session.as_mut(), group);
            assert_eq!(body["max_tokens"], 1);
            beginnings.insert(body["prompt"].as_str().unwrap().to_owned());
        }
        assert_eq!(beginnings.len(), 3);
        for index in 0..20 {
            let prompt = body(driver.session(0, 0).as_mut(), index)["prompt"].as_str().unwrap().to_owned();
            assert!(beginnings.iter().any(|beginning| prompt.starts_with(&format!("{beginning} "))));
        }
    }

    #[test]
    fn secrets_do_not_show() {
        let mut asked = options();
        asked.api_key = Some(Secret::new("sk-verysecret"));
        asked.headers = vec![("X-Auth".to_owned(), "topsecret".to_owned())];
        let driver = Generation::new(asked).unwrap();
        let shown = format!("{driver:?} {:?} {:?}", driver.session(0, 0), driver.parameters());
        assert!(!shown.contains("verysecret") && !shown.contains("topsecret"), "{shown}");
        assert_eq!(driver.shared.blot("no sk-verysecret, topsecret".to_owned()), "no [secret], [secret]");
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let refused = |change: &dyn Fn(&mut GenerationOptions)| {
            let mut asked = options();
            change(&mut asked);
            Generation::new(asked).unwrap_err().to_string()
        };
        let header = |name: &str, value: &str| {
            let field = (name.to_owned(), value.to_owned());
            refused(&move |asked| asked.headers = vec![field.clone()])
        };
        assert!(header("X", "a\r\nY: b").contains("line end"));
        assert!(header("X Y", "a").contains("name"));
        assert!(header("Content-Length", "1").contains("frames"));
        assert!(
            refused(&|asked| {
                asked.headers = vec![("Authorization".to_owned(), "x".to_owned())];
                asked.api_key = Some(Secret::new("k"));
            })
            .contains("beside")
        );
        assert!(refused(&|asked| asked.path = "v1".to_owned()).contains("path"));
        assert!(refused(&|asked| asked.host = "a b".to_owned()).contains("host"));
        assert!(refused(&|asked| asked.api_key = Some(Secret::new("a\nb"))).contains("api_key"));
        assert!(refused(&|asked| asked.requests = Requests::fixed(0, 1, 0)).contains("output_tokens"));
        assert!(refused(&|asked| asked.model = format!("m-{}", dialect::OUTPUT_TOKENS)).contains("model"));
        assert!(refused(&|asked| asked.connections = 0).contains("connections"));
        assert!(refused(&|asked| asked.requests = Requests::fixed(0, 0, 1)).contains("input_tokens"));
    }
}
