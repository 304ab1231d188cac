//! NATS core publish and subscribe.
//!
//! Every shard has one consumer connection, subscribed to `touchstone.<run>.<shard>`, and publishers publish to the
//! subject of their own shard, so that sending and receiving of a message are stamped by the same thread. A consumer
//! is ready when the server has answered a ping that was sent after the subscription: from then on nothing is missed.
//!
//! Core NATS acknowledges nothing, so publishing emits no `Done`: an operation ends when its message arrives, or is
//! lost. An operation on a publisher is never to be sent again (`answered` is always true): that would be a duplicate
//! made by the generator.
//!
//! A message is at least 32 bytes; its first 28 say, little-endian: run tag (u32), operation token (u32), producer
//! (u32), sequence number of that producer (u64), operation number (u64). The rest is incompressible filling.
//! Messages of other runs are passed over. Limits: 1 MiB per protocol line; message bodies are not kept.
//!
//! What it deliberately does not do: JetStream, the TLS upgrade after INFO, clusters' other servers.

mod frame;
mod session;
mod sink;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use touchstone_load::{Connections, Driver, Session, Sink};
use touchstone_model::{Family, MetricId};
use touchstone_stats::rng::Rng;
use touchstone_workload::payload::Values;

use crate::{DriverError, Secret, decimal, in_range};

/// Bytes at the beginning of a message that say which it is.
const STAMP_BYTES: usize = 28;
/// The least size of a message, in bytes.
pub const LEAST_MESSAGE_BYTES: u32 = 32;

/// How a connection authenticates.
#[derive(Debug, Clone)]
pub enum NatsAuth {
    /// By a token.
    Token(Secret),
    /// By name and password.
    UserPassword {
        /// The name.
        user: String,
        /// The password.
        password: Secret,
    },
}

/// What a [`Nats`] driver is made from.
#[derive(Debug, Clone)]
pub struct NatsOptions {
    /// Publisher connections, 1 to 1,000,000; there is one consumer per shard besides.
    pub connections: u32,
    /// Bytes in a message, 32 to 64 MiB.
    pub message_bytes: u32,
    /// The run's name, part of the subject: 1 to 64 letters, digits, `-` or `_`; different for every run.
    pub run: String,
    /// Seed of the filling.
    pub seed: u64,
    /// Credentials.
    pub auth: Option<NatsAuth>,
}

impl NatsOptions {
    /// One publisher, 128-byte messages, no credentials.
    #[must_use]
    pub fn new(run: impl Into<String>) -> Self {
        Self { connections: 1, message_bytes: 128, run: run.into(), seed: 0, auth: None }
    }
}

/// What all sessions of a driver share.
struct Shared {
    options: NatsOptions,
    /// Tells messages of this run from those of others.
    tag: u32,
    /// The filling behind the stamp.
    filling: Values,
    /// The CONNECT line.
    connect: Vec<u8>,
    /// What the sinks share.
    hub: Arc<sink::Hub>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.options, f)
    }
}

impl Shared {
    fn subject(&self, shard: u32) -> String {
        format!("touchstone.{}.{shard}", self.options.run)
    }

    fn blot(&self, text: String) -> String {
        match &self.options.auth {
            Some(NatsAuth::Token(secret) | NatsAuth::UserPassword { password: secret, .. }) => {
                secret.blot(text)
            }
            None => text,
        }
    }
}

/// The driver of NATS core.
#[derive(Debug, Clone)]
pub struct Nats {
    shared: Arc<Shared>,
}

impl Nats {
    /// Makes the driver.
    ///
    /// # Errors
    /// [`DriverError`] when a number is outside its range or the run's name cannot be part of a subject.
    pub fn new(options: NatsOptions) -> Result<Self, DriverError> {
        in_range("connections", u64::from(options.connections), 1, 1_000_000)?;
        let least = u64::from(LEAST_MESSAGE_BYTES);
        in_range("message_bytes", u64::from(options.message_bytes), least, 64 * 1024 * 1024)?;
        in_range("run (length)", options.run.len() as u64, 1, 64)?;
        if !options.run.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
            return Err(DriverError::Text {
                option: "run",
                problem: "something other than letters, digits, `-` and `_`",
            });
        }
        let mut connect = json!({
            "verbose": false,
            "pedantic": false,
            "tls_required": false,
            "name": "touchstone",
            "lang": "rust",
            "version": env!("CARGO_PKG_VERSION"),
            "protocol": 1,
            "echo": true,
            "headers": false,
            "no_responders": false,
        });
        match &options.auth {
            Some(NatsAuth::Token(token)) => connect["auth_token"] = json!(token.expose()),
            Some(NatsAuth::UserPassword { user, password }) => {
                connect["user"] = json!(user);
                connect["pass"] = json!(password.expose());
            }
            None => {}
        }
        let shared = Shared {
            tag: Rng::keyed(0, options.run.as_bytes(), 0).next_u64() as u32,
            filling: Values::new(options.seed, options.message_bytes as usize - STAMP_BYTES),
            connect: format!("CONNECT {connect}\r\n").into_bytes(),
            hub: Arc::default(),
            options,
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

/// The beginning of a PUB line for messages of one size: up to the payload.
fn publish_line(subject: &str, message_bytes: u32) -> Vec<u8> {
    let mut line = format!("PUB {subject} ").into_bytes();
    decimal::push(&mut line, u64::from(message_bytes));
    line.extend_from_slice(b"\r\n");
    line
}

impl Driver for Nats {
    fn family(&self) -> Family {
        Family::Queue
    }

    fn sink(&self) -> Option<Box<dyn Sink>> {
        Some(Box::new(sink::NatsSink::new(Arc::clone(&self.shared.hub))))
    }

    fn connections(&self) -> Connections {
        Connections::Fixed(self.shared.options.connections)
    }

    fn session(&self, shard: u32, connection: u32) -> Box<dyn Session> {
        Box::new(session::NatsSession::publisher(Arc::clone(&self.shared), shard, connection))
    }

    fn consumer(&self, shard: u32, _connection: u32) -> Option<Box<dyn Session>> {
        Some(Box::new(session::NatsSession::consumer(Arc::clone(&self.shared), shard)))
    }

    fn leading_metric(&self) -> MetricId {
        MetricId::EndToEndLatency
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        let options = &self.shared.options;
        [
            ("protocol", json!("nats")),
            ("publishers", json!(options.connections)),
            ("message_bytes", json!(options.message_bytes)),
            ("subject", json!(format!("touchstone.{}.<shard>", options.run))),
            ("delivery", json!("at most once, in memory")),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_refused() {
        let refused = |change: &dyn Fn(&mut NatsOptions)| {
            let mut options = NatsOptions::new("r1");
            change(&mut options);
            Nats::new(options).unwrap_err().to_string()
        };
        assert!(refused(&|options| options.message_bytes = 31).contains("from 32"));
        assert!(refused(&|options| options.connections = 0).contains("connections"));
        assert!(refused(&|options| options.run = "a.b".to_owned()).contains("run"));
        assert!(refused(&|options| options.run = String::new()).contains("run"));
        assert!(refused(&|options| options.run = "x".repeat(65)).contains("run"));
    }

    #[test]
    fn credentials_are_sent_and_not_shown() {
        let mut options = NatsOptions::new("r1");
        options.auth =
            Some(NatsAuth::UserPassword { user: "u\"".to_owned(), password: Secret::new("topsecret") });
        let driver = Nats::new(options).unwrap();
        let line = String::from_utf8(driver.shared.connect.clone()).unwrap();
        let json: Value = serde_json::from_str(line.strip_prefix("CONNECT ").unwrap()).unwrap();
        assert_eq!((&json["user"], &json["pass"]), (&json!("u\""), &json!("topsecret")));
        assert_eq!(json["verbose"], false);
        let shown = format!("{driver:?} {:?} {:?}", driver.session(0, 0), driver.parameters());
        assert!(!shown.contains("topsecret"), "{shown}");

        let mut options = NatsOptions::new("r1");
        options.auth = Some(NatsAuth::Token(Secret::new("tok")));
        let line = String::from_utf8(Nats::new(options).unwrap().shared.connect.clone()).unwrap();
        assert!(line.contains(r#""auth_token":"tok""#));
    }

    #[test]
    fn runs_have_their_own_tags_and_subjects() {
        let one = Nats::new(NatsOptions::new("r1")).unwrap();
        let two = Nats::new(NatsOptions::new("r2")).unwrap();
        assert_ne!(one.shared.tag, two.shared.tag);
        assert_eq!(one.shared.subject(3), "touchstone.r1.3");
    }
}
