//! Asking a target who it is before it is loaded: product, version, models, and whether it is a simulator.
//!
//! A probe is one short exchange on its own connection. That it fails is no error of the flow: the run that follows meets
//! the same fault and reports it with origin and phase.

use std::time::Duration;

use touchstone_drivers::Secret;
use touchstone_load::Failure;
use touchstone_model::{Origin, Phase, Protocol, Target};
use touchstone_net::{Conn, ConnectProgress, Endpoint, Interest, Poller, RecvBuf, Token, mono_ns};
use touchstone_runner::connect_failure;

/// Greatest answer that is read.
const MAX_ANSWER: usize = 4 << 20;

/// What a target says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The product as it names itself.
    pub product: Option<String>,
    /// The version as it names itself.
    pub version: Option<String>,
    /// The models it lists.
    pub models: Vec<String>,
    /// Whether it says that it is a simulator.
    pub simulated: bool,
    /// It answered, but did not tell its models: a missing key, or another path.
    pub refusal: Option<Failure>,
}

/// Asks the target who it is.
///
/// # Errors
/// When it cannot be reached or does not answer; the failure has origin, phase and advice.
pub fn identify(
    target: &Target,
    endpoint: &Endpoint,
    headers: &[(String, String)],
    api_key: Option<&Secret>,
    timeout: Duration,
) -> Result<Identity, Failure> {
    match target.protocol {
        Protocol::OpenAiChat
        | Protocol::OpenAiCompletions
        | Protocol::OpenAiResponses
        | Protocol::OpenAiEmbeddings
        | Protocol::Engine => Asker { target, endpoint, headers, api_key, timeout }.openai(),
        Protocol::Tgi => Asker { target, endpoint, headers, api_key, timeout }.tgi(),
        Protocol::TritonGenerate | Protocol::TritonInfer => {
            Asker { target, endpoint, headers, api_key, timeout }.triton()
        }
        Protocol::LlamaCpp => Asker { target, endpoint, headers, api_key, timeout }.llama_cpp(),
        Protocol::FastChatWorker => Asker { target, endpoint, headers, api_key, timeout }.fastchat_worker(),
        Protocol::Resp => {
            let auth = api_key.map_or_else(String::new, |key| {
                format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{}\r\n", key.expose().len(), key.expose())
            });
            let ask = format!("{auth}*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n");
            let answer = exchange(endpoint, ask.as_bytes(), timeout, &|bytes| {
                resp_complete(bytes, api_key.is_some())
            })?;
            Ok(redis_identity(&String::from_utf8_lossy(&answer)))
        }
        Protocol::Nats => {
            let answer = exchange(endpoint, b"", timeout, &|bytes| bytes.contains(&b'\n'))?;
            Ok(nats_identity(&answer))
        }
    }
}

/// Questions over HTTP to one target.
struct Asker<'a> {
    target: &'a Target,
    endpoint: &'a Endpoint,
    headers: &'a [(String, String)],
    api_key: Option<&'a Secret>,
    timeout: Duration,
}

impl Asker<'_> {
    /// The target's path without its endpoint.
    fn base(&self) -> &str {
        let path = self.target.path.as_str();
        let ends = [
            "/chat/completions",
            "/completions",
            "/responses",
            "/embeddings",
            "/generate_stream",
            "/completion",
            "/worker_generate_stream",
            "/worker_generate",
            "/generate",
            "/infer",
        ];
        ends.iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path)
    }

    fn ask(&self, method: &str, path: &str, body: Option<&str>) -> Result<Response, Failure> {
        ask(self, method, path, body)
    }

    /// A JSON document; none when the target refuses or says something else.
    fn json(&self, method: &str, path: &str, body: Option<&str>) -> Result<Option<Told>, Failure> {
        let response = self.ask(method, path, body)?;
        let value = response.succeeded().then(|| serde_json::from_slice(&response.body).ok()).flatten();
        Ok(value.map(|value| Told { value, simulated: response.simulated }))
    }

    fn openai(&self) -> Result<Identity, Failure> {
        let path = format!("{}/models", self.base());
        let models = self.ask("GET", &path, None)?;
        let mut identity = Identity { simulated: models.simulated, ..Identity::default() };
        if !models.succeeded() {
            identity.refusal = Some(refusal(&models, &path));
        } else if let Ok(body) = serde_json::from_slice::<serde_json::Value>(&models.body) {
            identity.models = listed(&body);
            let owner = body.pointer("/data/0/owned_by").and_then(|owner| owner.as_str());
            identity.product = match owner {
                Some("vllm") => Some("vllm".to_owned()),
                Some("llamacpp") => Some("llama.cpp".to_owned()),
                Some("fastchat") => Some("fastchat".to_owned()),
                _ => models.server.filter(|server| !server.is_empty()),
            };
        }
        if let Ok(Some(told)) = self.json("GET", "/version", None) {
            identity.version = told.text("version");
            identity.simulated |= told.simulated;
        }
        Ok(identity)
    }

    fn tgi(&self) -> Result<Identity, Failure> {
        let path = format!("{}/info", self.base());
        let response = self.ask("GET", &path, None)?;
        let mut identity = Identity { simulated: response.simulated, ..Identity::default() };
        if !response.succeeded() {
            identity.refusal = Some(refusal(&response, &path));
        } else if let Ok(value) = serde_json::from_slice(&response.body) {
            let told = Told { value, simulated: response.simulated };
            // Older routers do not name themselves; only they have this member.
            let named = told.text("router").map(|router| router.contains("text-generation"));
            if named.unwrap_or(true) && told.value.get("model_id").is_some() {
                identity.product = Some("tgi".to_owned());
            }
            identity.version = told.text("version");
            identity.models.extend(told.text("model_id"));
        }
        Ok(identity)
    }

    /// The server's name and version; its models are in the target's path, or named by the user.
    fn triton(&self) -> Result<Identity, Failure> {
        let root = self.target.path.split("/v2/").next().unwrap_or_default();
        let path = format!("{root}/v2");
        let response = self.ask("GET", &path, None)?;
        let mut identity = Identity { simulated: response.simulated, ..Identity::default() };
        if !response.succeeded() {
            identity.refusal = Some(refusal(&response, &path));
            return Ok(identity);
        }
        if let Ok(value) = serde_json::from_slice(&response.body) {
            let told = Told { value, simulated: response.simulated };
            identity.product = told.text("name");
            identity.version = told.text("version");
        }
        let named = self.target.path.split("/models/").nth(1).and_then(|rest| rest.split('/').next());
        match named {
            Some(model) if model != "{model}" => identity.models.push(model.to_owned()),
            _ => {
                let index = self.json("POST", &format!("{root}/v2/repository/index"), Some("{}"))?;
                let ready = |model: &serde_json::Value| {
                    let state = model.get("state").and_then(|state| state.as_str());
                    state
                        .is_none_or(|state| state == "READY")
                        .then(|| model.get("name")?.as_str().map(str::to_owned))?
                };
                let models = index.as_ref().and_then(|told| told.value.as_array());
                identity.models = models.into_iter().flatten().filter_map(ready).collect();
            }
        }
        Ok(identity)
    }

    fn llama_cpp(&self) -> Result<Identity, Failure> {
        let path = format!("{}/v1/models", self.base());
        let response = self.ask("GET", &path, None)?;
        let mut identity = Identity { simulated: response.simulated, ..Identity::default() };
        if !response.succeeded() {
            identity.refusal = Some(refusal(&response, &path));
        } else if let Ok(body) = serde_json::from_slice::<serde_json::Value>(&response.body) {
            identity.models = listed(&body);
            identity.product = response.server.filter(|server| !server.is_empty());
        }
        Ok(identity)
    }

    fn fastchat_worker(&self) -> Result<Identity, Failure> {
        let path = format!("{}/worker_get_status", self.base());
        let response = self.ask("POST", &path, Some("{}"))?;
        let mut identity = Identity { simulated: response.simulated, ..Identity::default() };
        if !response.succeeded() {
            identity.refusal = Some(refusal(&response, &path));
        } else if let Ok(body) = serde_json::from_slice::<serde_json::Value>(&response.body) {
            let names = body.get("model_names").and_then(|names| names.as_array());
            identity.product = names.is_some().then(|| "fastchat".to_owned());
            let names = names.into_iter().flatten().filter_map(|name| name.as_str());
            identity.models = names.map(str::to_owned).collect();
        }
        Ok(identity)
    }
}

/// A document that a target gave.
struct Told {
    value: serde_json::Value,
    simulated: bool,
}

impl Told {
    fn text(&self, member: &str) -> Option<String> {
        self.value.get(member).and_then(|value| value.as_str()).map(str::to_owned)
    }
}

/// The ids of an OpenAI list of models.
fn listed(body: &serde_json::Value) -> Vec<String> {
    let list = body.get("data").and_then(|data| data.as_array()).into_iter().flatten();
    list.filter_map(|model| model.get("id")?.as_str().map(str::to_owned)).collect()
}

fn refusal(response: &Response, path: &str) -> Failure {
    Failure::new(
        if response.status < 500 { Origin::Scenario } else { Origin::Target },
        Phase::Headers,
        format!("http-{}", response.status),
        format!("http {} at {path}", response.status),
        "name the model with --model, and give a key with --api-key-env where one is needed",
    )
}

/// An answer over HTTP.
struct Response {
    status: u16,
    body: Vec<u8>,
    server: Option<String>,
    simulated: bool,
}

impl Response {
    fn succeeded(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

fn ask(asker: &Asker<'_>, method: &str, path: &str, body: Option<&str>) -> Result<Response, Failure> {
    let Asker { target, endpoint, headers, api_key, timeout } = *asker;
    let mut ask = format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\naccept: */*\r\n",
        target.authority()
    );
    if let Some(body) = body {
        ask.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
    }
    if let Some(key) = api_key {
        ask.push_str(&format!("authorization: Bearer {}\r\n", key.expose()));
    }
    for (name, value) in headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("host")) {
        ask.push_str(&format!("{name}: {value}\r\n"));
    }
    ask.push_str("\r\n");
    ask.push_str(body.unwrap_or_default());
    let answer = exchange(endpoint, ask.as_bytes(), timeout, &http_complete)?;
    let not_http = || {
        Failure::new(
            Origin::Scenario,
            Phase::Decode,
            "not-http",
            "the target does not answer in HTTP",
            "is this the right port and protocol?",
        )
    };
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut fields);
    let Ok(httparse::Status::Complete(length)) = head.parse(&answer) else { return Err(not_http()) };
    let field = |name: &str| {
        let found = head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        found.map(|field| String::from_utf8_lossy(field.value).into_owned())
    };
    let chunked = field("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
    let raw = &answer[length..];
    let body = if chunked { unchunk(raw) } else { raw.to_vec() };
    let status = head.code.unwrap_or_default();
    Ok(Response {
        status,
        body,
        server: field("server"),
        simulated: field("x-touchstone-simulated").is_some(),
    })
}

/// Whether an answer that announces its length has come whole; others end with the connection.
fn http_complete(bytes: &[u8]) -> bool {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut fields);
    let Ok(httparse::Status::Complete(length)) = head.parse(bytes) else { return false };
    let announced = head
        .headers
        .iter()
        .find(|field| field.name.eq_ignore_ascii_case("content-length"))
        .and_then(|field| std::str::from_utf8(field.value).ok()?.trim().parse::<usize>().ok());
    announced.map_or_else(|| bytes.ends_with(b"\r\n0\r\n\r\n"), |announced| bytes.len() >= length + announced)
}

fn unchunk(mut raw: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(httparse::Status::Complete((start, size))) = httparse::parse_chunk_size(raw) {
        let Some(end) = usize::try_from(size).ok().and_then(|size| start.checked_add(size)) else { break };
        if size == 0 || end > raw.len() {
            break;
        }
        body.extend_from_slice(&raw[start..end]);
        raw = raw.get(end + 2..).unwrap_or_default();
    }
    body
}

/// Whether the bulk string of INFO (after the line for AUTH) has come whole, or an error came in its place.
fn resp_complete(bytes: &[u8], authenticated: bool) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut rest = text.as_ref();
    if authenticated {
        match rest.split_once("\r\n") {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    let Some((head, body)) = rest.split_once("\r\n") else { return false };
    match head.strip_prefix('$').and_then(|length| length.parse::<usize>().ok()) {
        Some(length) => body.len() >= length,
        None => true,
    }
}

fn redis_identity(info: &str) -> Identity {
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.trim().to_owned())
    };
    let product = if field("dragonfly_version").is_some() {
        Some("dragonflydb".to_owned())
    } else if field("valkey_version").is_some() || field("server_name").as_deref() == Some("valkey") {
        Some("valkey".to_owned())
    } else {
        field("redis_version").map(|_| "redis".to_owned())
    };
    let version =
        field("dragonfly_version").or_else(|| field("valkey_version")).or_else(|| field("redis_version"));
    Identity { product, version, ..Identity::default() }
}

fn nats_identity(answer: &[u8]) -> Identity {
    let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let info =
        line.strip_prefix(b"INFO ").and_then(|json| serde_json::from_slice::<serde_json::Value>(json).ok());
    Identity {
        product: info.as_ref().map(|_| "nats-server".to_owned()),
        version: info.and_then(|info| info.get("version")?.as_str().map(str::to_owned)),
        ..Identity::default()
    }
}

/// Sends bytes on a new connection and reads until `complete` says so, the peer closes, or the time is over.
pub(crate) fn exchange(
    endpoint: &Endpoint,
    ask: &[u8],
    timeout: Duration,
    complete: &dyn Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, Failure> {
    let io = |error: std::io::Error| {
        Failure::new(Origin::Network, Phase::Stream, "io", error.to_string(), "check the path to the target")
    };
    let late = || {
        Failure::new(
            Origin::Network,
            Phase::Connect,
            "timeout-connect",
            format!("no answer within {} s", timeout.as_secs_f64()),
            "the target does not answer on this port: a firewall, a full backlog, or another protocol",
        )
    };
    let addresses = endpoint.resolve().map_err(|error| connect_failure(&error))?;
    let address = addresses.first().ok_or_else(late)?;
    let mut conn = Conn::connect(address, endpoint).map_err(|error| connect_failure(&error))?;
    let mut poller = Poller::new().map_err(io)?;
    poller.register(&conn, Token(0), Interest::READABLE | Interest::WRITABLE).map_err(io)?;
    let (mut recv, mut ready, mut answer) = (RecvBuf::new(), Vec::new(), Vec::new());
    let deadline = mono_ns() + timeout.as_nanos() as u64;
    conn.out().extend_from_slice(ask);
    let mut open = false;
    loop {
        if !open {
            let progress =
                conn.drive_connect(mono_ns(), &mut recv).map_err(|error| connect_failure(&error))?;
            open = progress == ConnectProgress::Ready;
        }
        if open {
            conn.write_pending().map_err(io)?;
            let outcome =
                conn.read(&mut recv, &mut |bytes, _, _| answer.extend_from_slice(bytes)).map_err(io)?;
            if outcome.eof || answer.len() > MAX_ANSWER || complete(&answer) {
                return Ok(answer);
            }
        }
        if mono_ns() >= deadline {
            return Err(late());
        }
        poller.wait(&mut ready, Some(deadline)).map_err(io)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_and_its_relatives_are_told_apart() {
        let redis = redis_identity("$9\r\n# Server\r\nredis_version:7.0.15\r\n");
        assert_eq!((redis.product.as_deref(), redis.version.as_deref()), (Some("redis"), Some("7.0.15")));
        let valkey = redis_identity("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n");
        assert_eq!((valkey.product.as_deref(), valkey.version.as_deref()), (Some("valkey"), Some("9.1.2")));
        assert_eq!(redis_identity("-NOAUTH Authentication required.\r\n"), Identity::default());
    }

    #[test]
    fn nats_says_its_version_at_once() {
        let identity = nats_identity(b"INFO {\"server_id\":\"x\",\"version\":\"2.9.10\"} \r\n");
        assert_eq!(identity.version.as_deref(), Some("2.9.10"));
        assert_eq!(nats_identity(b"garbage"), Identity::default());
    }

    #[test]
    fn bodies_are_taken_out_of_chunks() {
        assert_eq!(unchunk(b"4\r\nabcd\r\n2\r\nef\r\n0\r\n\r\n"), b"abcdef");
        assert_eq!(unchunk(b"ffffffffffffffff\r\nab"), b"");
        assert_eq!(unchunk(b"4\r\nab"), b"");
        assert!(http_complete(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab"));
        assert!(!http_complete(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab"));
        assert!(resp_complete(b"+OK\r\n$2\r\nab\r\n", true) && !resp_complete(b"+OK\r\n$2\r\na", true));
        assert!(resp_complete(b"-NOAUTH x\r\n", false));
    }
}
