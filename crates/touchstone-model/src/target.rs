//! Targets: a reachable instance of a candidate, as `protocol=address`.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::metric::Family;

/// The protocol spoken to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// OpenAI chat completions.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// OpenAI text completions.
    #[serde(rename = "openai-completions")]
    OpenAiCompletions,
    /// OpenAI Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// OpenAI embeddings, which generate nothing.
    #[serde(rename = "openai-embeddings")]
    OpenAiEmbeddings,
    /// TGI's own `/generate_stream` and `/generate`.
    #[serde(rename = "tgi")]
    Tgi,
    /// Triton's generate extension, with the inputs of its text backends.
    #[serde(rename = "triton-generate")]
    TritonGenerate,
    /// KServe v2 `infer` over HTTP: one document.
    #[serde(rename = "triton-infer")]
    TritonInfer,
    /// llama.cpp's own `/completion`.
    #[serde(rename = "llamacpp")]
    LlamaCpp,
    /// The stream of a FastChat worker.
    #[serde(rename = "fastchat-worker")]
    FastChatWorker,
    /// Redis serialization protocol.
    #[serde(rename = "resp")]
    Resp,
    /// NATS core.
    #[serde(rename = "nats")]
    Nats,
    /// The embedded engine, launched by Touchstone and spoken to by OpenAI chat completions.
    #[serde(rename = "engine")]
    Engine,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Protocol; 12] = [
        Protocol::OpenAiChat,
        Protocol::OpenAiCompletions,
        Protocol::OpenAiResponses,
        Protocol::OpenAiEmbeddings,
        Protocol::Tgi,
        Protocol::TritonGenerate,
        Protocol::TritonInfer,
        Protocol::LlamaCpp,
        Protocol::FastChatWorker,
        Protocol::Resp,
        Protocol::Nats,
        Protocol::Engine,
    ];

    /// The name before the `=` of a target.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::OpenAiChat => "openai-chat",
            Protocol::OpenAiCompletions => "openai-completions",
            Protocol::OpenAiResponses => "openai-responses",
            Protocol::OpenAiEmbeddings => "openai-embeddings",
            Protocol::Tgi => "tgi",
            Protocol::TritonGenerate => "triton-generate",
            Protocol::TritonInfer => "triton-infer",
            Protocol::LlamaCpp => "llamacpp",
            Protocol::FastChatWorker => "fastchat-worker",
            Protocol::Resp => "resp",
            Protocol::Nats => "nats",
            Protocol::Engine => "engine",
        }
    }

    /// For protocols over HTTP: the usual path before the endpoint, and the endpoint. `{model}` stands for the model's name.
    fn endpoint(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Protocol::OpenAiChat => ("/v1", "/chat/completions"),
            Protocol::OpenAiCompletions => ("/v1", "/completions"),
            Protocol::OpenAiResponses => ("/v1", "/responses"),
            Protocol::OpenAiEmbeddings => ("/v1", "/embeddings"),
            Protocol::Tgi => ("", "/generate_stream"),
            Protocol::TritonGenerate => ("/v2/models/{model}", "/generate_stream"),
            Protocol::TritonInfer => ("/v2/models/{model}", "/infer"),
            Protocol::LlamaCpp => ("", "/completion"),
            Protocol::FastChatWorker => ("", "/worker_generate_stream"),
            Protocol::Resp | Protocol::Nats | Protocol::Engine => return None,
        })
    }

    /// Whether its answers can come as a stream of tokens.
    #[must_use]
    pub fn can_stream(self) -> bool {
        self.family() == Family::Inference
            && !matches!(self, Protocol::OpenAiEmbeddings | Protocol::TritonInfer)
    }

    /// Whether it is spoken over HTTP to an address of the user's.
    #[must_use]
    pub fn is_http(self) -> bool {
        self.endpoint().is_some()
    }

    /// The family of systems that speak it.
    #[must_use]
    pub fn family(self) -> Family {
        match self {
            Protocol::Resp => Family::Cache,
            Protocol::Nats => Family::Queue,
            _ => Family::Inference,
        }
    }

    /// The port when an address names none.
    #[must_use]
    fn default_port(self, tls: bool) -> u16 {
        match self {
            Protocol::Resp => 6379,
            Protocol::Nats => 4222,
            _ if tls => 443,
            _ => 80,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a target is reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The protocol.
    pub protocol: Protocol,
    /// Host name or address, without brackets; the profile for [`Protocol::Engine`].
    pub host: String,
    /// The port; 0 for [`Protocol::Engine`], which gets a free one.
    pub port: u16,
    /// Whether TLS is spoken.
    pub tls: bool,
    /// The path for HTTP protocols, starting with `/`; empty elsewhere.
    pub path: String,
}

impl Target {
    /// Whether the host is a loopback address or `localhost` (or the embedded engine).
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.protocol == Protocol::Engine
            || self.host == "localhost"
            || self.host.parse::<core::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// `host:port`, with brackets around IPv6 addresses.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Why a text is no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// There is no `protocol=` in front, or an unknown one.
    #[error(
        "`{text}` names no protocol; expected PROTOCOL=ADDRESS with {}, as in `openai-chat=http://127.0.0.1:8000`",
        names(" or ")
    )]
    Protocol {
        /// The text as written.
        text: String,
    },
    /// The scheme does not fit the protocol.
    #[error("`{scheme}://` does not fit `{protocol}`")]
    Scheme {
        /// The scheme as written.
        scheme: String,
        /// The protocol.
        protocol: Protocol,
    },
    /// The host or the port cannot be read.
    #[error("`{text}` is no address; expected HOST:PORT with a port from 1 to 65535")]
    Address {
        /// The text as written.
        text: String,
    },
    /// A query string may hold a key, and would end up in records.
    #[error(
        "a query string in the address is refused, because addresses are recorded; use --header or --api-key-env"
    )]
    Query,
    /// Credentials in a URL would end up in records.
    #[error(
        "credentials in the address are refused, because addresses are recorded; use --api-key-env or --header"
    )]
    Credentials,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if text.contains('@') {
            return Err(TargetError::Credentials);
        }
        let no_protocol = || TargetError::Protocol { text: text.to_owned() };
        let (protocol, address) = text.split_once('=').ok_or_else(no_protocol)?;
        let protocol =
            Protocol::ALL.into_iter().find(|known| known.as_str() == protocol).ok_or_else(no_protocol)?;
        if protocol == Protocol::Engine {
            if address.is_empty() || !address.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            {
                return Err(TargetError::Address { text: address.to_owned() });
            }
            return Ok(Target {
                protocol,
                host: address.to_owned(),
                port: 0,
                tls: false,
                path: String::new(),
            });
        }
        let http = protocol.is_http();
        let (scheme, rest) = match address.split_once("://") {
            Some((scheme, rest)) => (scheme, rest),
            None => (if http { "http" } else { protocol.as_str() }, address),
        };
        let tls = match (protocol, scheme) {
            (_, "http") if http => false,
            (_, "https") if http => true,
            (Protocol::Resp, "resp" | "redis" | "tcp") | (Protocol::Nats, "nats" | "tcp") => false,
            (Protocol::Resp, "rediss" | "tls") | (Protocol::Nats, "tls") => true,
            _ => return Err(TargetError::Scheme { scheme: scheme.to_owned(), protocol }),
        };
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        if path.contains(['?', '#']) {
            return Err(TargetError::Query);
        }
        let (host, port) = split_authority(authority, protocol.default_port(tls))
            .ok_or_else(|| TargetError::Address { text: authority.to_owned() })?;
        let path = if http { api_path(protocol, path) } else { String::new() };
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(TargetError::Address { text: address.to_owned() });
        }
        Ok(Target { protocol, host, port, tls, path })
    }
}

/// The names of all protocols in words, with `last` before the last one.
fn names(last: &str) -> String {
    let names: Vec<&str> = Protocol::ALL.into_iter().map(Protocol::as_str).collect();
    match names.split_last() {
        Some((end, rest)) => format!("{}{last}{end}", rest.join(", ")),
        None => String::new(),
    }
}

/// Completes the path: none gets the protocol's usual one, one that is not an endpoint yet gets the endpoint appended.
fn api_path(protocol: Protocol, path: &str) -> String {
    let Some((base, endpoint)) = protocol.endpoint() else { return String::new() };
    match path.trim_end_matches('/') {
        "" => format!("{base}{endpoint}"),
        full if full.ends_with(endpoint) => full.to_owned(),
        // Triton behind a prefix: the model is part of the usual path.
        prefix if base.contains("{model}") && !prefix.contains("/models/") => {
            format!("{prefix}{base}{endpoint}")
        }
        prefix => format!("{prefix}{endpoint}"),
    }
}

fn split_authority(authority: &str, default_port: u16) -> Option<(String, u16)> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        host.parse::<core::net::Ipv6Addr>().ok()?;
        (host, after)
    } else {
        match authority.find(':') {
            Some(colon) => authority.split_at(colon),
            None => (authority, ""),
        }
    };
    let port = match port.strip_prefix(':') {
        Some(digits) => digits.parse::<u16>().ok().filter(|port| *port != 0)?,
        None if port.is_empty() => default_port,
        None => return None,
    };
    let plausible = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
    (!host.is_empty() && host.bytes().all(plausible)).then(|| (host.to_owned(), port))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            Protocol::Engine => write!(f, "engine={}", self.host),
            protocol if protocol.is_http() => {
                let scheme = if self.tls { "https" } else { "http" };
                write!(f, "{}={scheme}://{}{}", self.protocol, self.authority(), self.path)
            }
            _ => {
                let scheme = if self.tls { "tls://" } else { "" };
                write!(f, "{}={scheme}{}", self.protocol, self.authority())
            }
        }
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Target {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Target".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "PROTOCOL=ADDRESS, as in openai-chat=http://127.0.0.1:8000, resp=127.0.0.1:6379, nats=127.0.0.1:4222 or engine=vllm-like",
            "pattern": format!("^({})=.+$", Protocol::ALL.map(Protocol::as_str).join("|"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completes_paths_and_ports() {
        for (text, expected) in [
            ("openai-chat=http://127.0.0.1:8000", "openai-chat=http://127.0.0.1:8000/v1/chat/completions"),
            ("openai-chat=http://h:8000/", "openai-chat=http://h:8000/v1/chat/completions"),
            ("openai-chat=https://h/api/v3", "openai-chat=https://h:443/api/v3/chat/completions"),
            ("openai-chat=http://h/v1/chat/completions", "openai-chat=http://h:80/v1/chat/completions"),
            ("openai-completions=http://h:1", "openai-completions=http://h:1/v1/completions"),
            ("openai-responses=http://h:1", "openai-responses=http://h:1/v1/responses"),
            ("openai-embeddings=http://h:1/v1", "openai-embeddings=http://h:1/v1/embeddings"),
            ("tgi=h:3000", "tgi=http://h:3000/generate_stream"),
            ("triton-generate=h:1", "triton-generate=http://h:1/v2/models/{model}/generate_stream"),
            ("triton-generate=h:1/x", "triton-generate=http://h:1/x/v2/models/{model}/generate_stream"),
            ("triton-infer=h:1/v2/models/a", "triton-infer=http://h:1/v2/models/a/infer"),
            ("llamacpp=h:8080", "llamacpp=http://h:8080/completion"),
            ("fastchat-worker=h:21002", "fastchat-worker=http://h:21002/worker_generate_stream"),
            ("resp=127.0.0.1", "resp=127.0.0.1:6379"),
            ("resp=rediss://h:7", "resp=tls://h:7"),
            ("nats=nats://[::1]:4222", "nats=[::1]:4222"),
            ("engine=vllm-like", "engine=vllm-like"),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), expected);
            assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
        }
    }

    #[test]
    fn refuses() {
        for text in [
            "http://127.0.0.1:8000",
            "openai=http://h",
            "openai-chat=ftp://h",
            "openai-chat=http://h:0",
            "openai-chat=http://h:99999",
            "openai-chat=http://user:secret@h",
            "openai-chat=http://h/a b",
            "openai-chat=http://h/v1?key=secret",
            "openai-chat=",
            "resp=[::1",
            "resp=a b:1",
            "engine=",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[test]
    fn loopback_is_recognised() {
        let loopback = |text: &str| text.parse::<Target>().unwrap().is_loopback();
        assert!(loopback("resp=127.0.0.1") && loopback("resp=[::1]:1") && loopback("resp=localhost"));
        assert!(!loopback("resp=10.0.0.1") && !loopback("resp=localhost.example"));
    }
}
