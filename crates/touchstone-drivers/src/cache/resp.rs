//! GET and SET over the Redis serialization protocol (RESP2), pipelined: Redis, Valkey, DragonflyDB and the like.
//!
//! Keys are `ts:` and 13 digits, 16 bytes in all; which key an operation uses, and whether it reads or writes, are
//! functions of the seed and the operation's number. At its opening a connection authenticates (where credentials
//! were given) and pings, so that a server that is loading, or wants a password, is known before the load begins.
//!
//! Limits of replies: 64 KiB per line, 512 MiB per bulk string (passed over, not kept), 2^24 elements per reply.
//!
//! What it deliberately does not do: cluster redirection, TLS by itself, RESP3 negotiation.

mod reply;
mod session;
mod sink;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use touchstone_load::{Connections, Driver, Session, Sink};
use touchstone_model::{Family, MetricId};
use touchstone_workload::payload::{self, Values};

use crate::{DriverError, Secret, decimal, in_range};

/// Fewest operations in flight on the connection that loads the keys.
const PRELOAD_PIPELINE: usize = 128;

/// What a [`Resp`] driver is made from.
#[derive(Debug, Clone)]
pub struct RespOptions {
    /// Connections, 1 to 1,000,000; all are opened before the load.
    pub connections: u32,
    /// Most operations in flight on one connection, 1 to 65,536.
    pub pipeline: u32,
    /// Share of operations that are GET, 0 to 1; the others are SET.
    pub read_ratio: f64,
    /// Number of keys, 1 to 10^12.
    pub keys: u64,
    /// Bytes in a value, 0 to 64 MiB.
    pub value_bytes: u32,
    /// Seed of keys, values and the choice between GET and SET.
    pub seed: u64,
    /// User name for AUTH; only with a password.
    pub user: Option<String>,
    /// Password for AUTH.
    pub password: Option<Secret>,
    /// Whether all keys are written before the load, so that lookups find them.
    pub preload: bool,
}

impl Default for RespOptions {
    /// 50 connections, no pipelining, 90 % reads over 100,000 keys of 64 bytes, written before the load.
    fn default() -> Self {
        Self {
            connections: 50,
            pipeline: 1,
            read_ratio: 0.9,
            keys: 100_000,
            value_bytes: 64,
            seed: 0,
            user: None,
            password: None,
            preload: true,
        }
    }
}

/// What all sessions of a driver share.
struct Shared {
    options: RespOptions,
    values: Values,
    /// What the client says first, and the number of replies to it.
    greeting: Vec<u8>,
    greeting_replies: u32,
    /// The bytes of a SET between key and value.
    set_middle: Vec<u8>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.options, f)
    }
}

impl Shared {
    /// Appends the command of operation `index`; returns whether it reads.
    fn write_operation(&self, index: u64, out: &mut Vec<u8>) -> bool {
        let key = payload::key(self.options.seed, index, self.options.keys);
        if payload::is_read(self.options.seed, index, self.options.read_ratio) {
            out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n$16\r\nts:");
            decimal::push_padded::<13>(out, key);
            out.extend_from_slice(b"\r\n");
            return true;
        }
        self.write_set(key, index, out);
        false
    }

    fn write_set(&self, key: u64, index: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$16\r\nts:");
        decimal::push_padded::<13>(out, key);
        out.extend_from_slice(&self.set_middle);
        out.extend_from_slice(self.values.get(index));
        out.extend_from_slice(b"\r\n");
    }

    fn blot(&self, text: String) -> String {
        match &self.options.password {
            Some(password) => password.blot(text),
            None => text,
        }
    }
}

/// The driver of caches that speak RESP.
#[derive(Debug, Clone)]
pub struct Resp {
    shared: Arc<Shared>,
}

impl Resp {
    /// Makes the driver.
    ///
    /// # Errors
    /// [`DriverError`] when a number is outside its range, or a user name is given without a password.
    pub fn new(options: RespOptions) -> Result<Self, DriverError> {
        in_range("connections", u64::from(options.connections), 1, 1_000_000)?;
        in_range("pipeline", u64::from(options.pipeline), 1, 65_536)?;
        in_range("keys", options.keys, 1, 1_000_000_000_000)?;
        in_range("value_bytes", u64::from(options.value_bytes), 0, 64 * 1024 * 1024)?;
        if !(0.0..=1.0).contains(&options.read_ratio) {
            return Err(DriverError::Ratio { option: "read_ratio", given: options.read_ratio.to_string() });
        }
        let mut greeting = Vec::new();
        match (&options.user, &options.password) {
            (Some(_), None) => {
                return Err(DriverError::Text { option: "user", problem: "a name without a password" });
            }
            (Some(user), Some(password)) => write_command(&["AUTH", user, password.expose()], &mut greeting),
            (None, Some(password)) => write_command(&["AUTH", password.expose()], &mut greeting),
            (None, None) => {}
        }
        write_command(&["PING"], &mut greeting);
        let mut set_middle = b"\r\n$".to_vec();
        decimal::push(&mut set_middle, u64::from(options.value_bytes));
        set_middle.extend_from_slice(b"\r\n");
        let shared = Shared {
            values: Values::new(options.seed, options.value_bytes as usize),
            greeting,
            greeting_replies: 1 + u32::from(options.password.is_some()),
            set_middle,
            options,
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

/// Appends a command as an array of bulk strings.
fn write_command(words: &[&str], out: &mut Vec<u8>) {
    out.push(b'*');
    decimal::push(out, words.len() as u64);
    out.extend_from_slice(b"\r\n");
    for word in words {
        out.push(b'$');
        decimal::push(out, word.len() as u64);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(word.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

impl Driver for Resp {
    fn family(&self) -> Family {
        Family::Cache
    }

    fn connections(&self) -> Connections {
        Connections::Fixed(self.shared.options.connections)
    }

    fn session(&self, _shard: u32, _connection: u32) -> Box<dyn Session> {
        let depth = self.shared.options.pipeline as usize;
        Box::new(session::RespSession::new(Arc::clone(&self.shared), session::Work::Load, depth))
    }

    fn preload(&self) -> Option<Box<dyn Session>> {
        self.shared.options.preload.then(|| {
            let depth = (self.shared.options.pipeline as usize).max(PRELOAD_PIPELINE);
            Box::new(session::RespSession::new(Arc::clone(&self.shared), session::Work::Preload, depth)) as _
        })
    }

    fn preload_operations(&self) -> u64 {
        if self.shared.options.preload { self.shared.options.keys } else { 0 }
    }

    fn leading_metric(&self) -> MetricId {
        MetricId::E2e
    }

    fn parameters(&self) -> BTreeMap<String, Value> {
        let options = &self.shared.options;
        [
            ("protocol", json!("resp")),
            ("connections", json!(options.connections)),
            ("pipeline", json!(options.pipeline)),
            ("read_ratio", json!(options.read_ratio)),
            ("keys", json!(options.keys)),
            ("key_bytes", json!(16)),
            ("value_bytes", json!(options.value_bytes)),
            ("key_distribution", json!("uniform")),
            ("preload", json!(options.preload)),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    fn sink(&self) -> Option<Box<dyn Sink>> {
        Some(Box::new(sink::RespSink::new(self.shared.values.get(0))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(change: impl Fn(&mut RespOptions)) -> Result<Resp, DriverError> {
        let mut options = RespOptions::default();
        change(&mut options);
        Resp::new(options)
    }

    #[test]
    fn commands_are_encoded() {
        let reads = driver(|options| options.read_ratio = 1.0).unwrap();
        let mut out = Vec::new();
        assert!(reads.shared.write_operation(7, &mut out));
        let key = payload::key(0, 7, 100_000);
        assert_eq!(out, format!("*2\r\n$3\r\nGET\r\n$16\r\nts:{key:013}\r\n").into_bytes());

        let writes = driver(|options| options.read_ratio = 0.0).unwrap();
        let mut out = Vec::new();
        assert!(!writes.shared.write_operation(7, &mut out));
        let mut expected = format!("*3\r\n$3\r\nSET\r\n$16\r\nts:{key:013}\r\n$64\r\n").into_bytes();
        expected.extend_from_slice(writes.shared.values.get(7));
        expected.extend_from_slice(b"\r\n");
        assert_eq!(out, expected);
    }

    #[test]
    fn the_greeting_authenticates_and_pings() {
        assert_eq!(driver(|_| ()).unwrap().shared.greeting, b"*1\r\n$4\r\nPING\r\n");
        let with = driver(|options| {
            options.user = Some("u".to_owned());
            options.password = Some(Secret::new("topsecret"));
        })
        .unwrap();
        assert_eq!(
            with.shared.greeting,
            b"*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$9\r\ntopsecret\r\n*1\r\n$4\r\nPING\r\n"
        );
        let shown = format!("{with:?} {:?} {:?}", with.session(0, 0), with.parameters());
        assert!(!shown.contains("topsecret"), "{shown}");
    }

    #[test]
    fn numbers_outside_their_range_are_refused() {
        for (change, option) in [
            ((|options| options.connections = 0) as fn(&mut RespOptions), "connections"),
            (|options| options.pipeline = 0, "pipeline"),
            (|options| options.keys = 0, "keys"),
            (|options| options.keys = u64::MAX, "keys"),
            (|options| options.value_bytes = u32::MAX, "value_bytes"),
            (|options| options.read_ratio = 1.5, "read_ratio"),
            (|options| options.read_ratio = f64::NAN, "read_ratio"),
            (|options| options.user = Some("u".to_owned()), "user"),
        ] {
            let error = driver(change).unwrap_err().to_string();
            assert!(error.contains(option), "{error}");
        }
    }

    #[test]
    fn the_preload_covers_the_keys_where_it_is_wanted() {
        let with = driver(|options| options.keys = 10).unwrap();
        assert!(with.preload().is_some());
        assert_eq!(with.preload_operations(), 10);
        let without = driver(|options| options.preload = false).unwrap();
        assert!(without.preload().is_none());
        assert_eq!(without.preload_operations(), 0);
    }
}
