//! One NATS connection: a publisher or a consumer.

use std::sync::Arc;

use serde::Deserialize;
use touchstone_load::{Failure, Op, OpToken, Session, SessionEvent};
use touchstone_model::{Origin, Phase};

use super::frame::{Frame, FrameError, Reader};
use super::{STAMP_BYTES, Shared, publish_line};
use crate::said::printable;

/// Operations that may start at once on a publisher. Nothing is in flight here, so this only bounds a burst.
const BURST: usize = 65_536;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    AwaitingInfo,
    /// CONNECT (and SUB) and PING were sent.
    AwaitingPong,
    Open,
    Closed,
}

#[derive(Debug)]
enum Role {
    Publisher {
        producer: u32,
        /// The next message's sequence number.
        sequence: u64,
        /// `PUB subject size`, complete with its line end.
        line: Vec<u8>,
    },
    Consumer {
        subject: String,
        /// Messages that are of no operation of this run.
        foreign: u64,
    },
}

#[derive(Debug)]
pub(super) struct NatsSession {
    shared: Arc<Shared>,
    role: Role,
    state: State,
    reader: Reader,
}

/// What matters of the server's description.
#[derive(Deserialize)]
struct Info {
    #[serde(default)]
    max_payload: Option<i64>,
    #[serde(default)]
    tls_required: Option<bool>,
}

impl NatsSession {
    pub(super) fn publisher(shared: Arc<Shared>, shard: u32, connection: u32) -> Self {
        let line = publish_line(&shared.subject(shard), shared.options.message_bytes);
        Self::new(shared, Role::Publisher { producer: connection, sequence: 0, line })
    }

    pub(super) fn consumer(shared: Arc<Shared>, shard: u32) -> Self {
        let subject = shared.subject(shard);
        Self::new(shared, Role::Consumer { subject, foreign: 0 })
    }

    fn new(shared: Arc<Shared>, role: Role) -> Self {
        Self { shared, role, state: State::AwaitingInfo, reader: Reader::default() }
    }

    fn break_with(&mut self, failure: Failure, events: &mut Vec<SessionEvent>) {
        self.state = State::Closed;
        events.push(SessionEvent::Broken { failure });
    }

    /// Checks the server's first description and answers it.
    fn greet(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let fail = |origin, kind: &str, message: String, advice: &str| {
            Err(Failure::new(origin, Phase::Connect, kind, message, advice))
        };
        let info: Info = match serde_json::from_slice(self.reader.text()) {
            Ok(info) => info,
            Err(error) => {
                let message = format!("the server's INFO is malformed: {error}");
                return fail(Origin::Target, "bad-info", message, WRONG_PORT);
            }
        };
        if info.tls_required == Some(true) {
            return fail(
                Origin::Scenario,
                "tls-required",
                "the server asks for TLS after its greeting, which is not supported".to_owned(),
                "use a listener without TLS, or one that does TLS first (`handshake_first`)",
            );
        }
        let size = i64::from(self.shared.options.message_bytes);
        if let Some(most) = info.max_payload.filter(|most| (1..size).contains(most)) {
            return fail(
                Origin::Scenario,
                "max-payload",
                format!("the server takes messages of at most {most} bytes, {size} were asked for"),
                "use smaller messages, or raise the server's `max_payload`",
            );
        }
        out.extend_from_slice(&self.shared.connect);
        if let Role::Consumer { subject, .. } = &self.role {
            out.extend_from_slice(format!("SUB {subject} 1\r\n").as_bytes());
        }
        out.extend_from_slice(b"PING\r\n");
        self.state = State::AwaitingPong;
        Ok(())
    }

    fn error(&self) -> Failure {
        let text = self.shared.blot(printable(&String::from_utf8_lossy(self.reader.text())));
        let lower = text.to_ascii_lowercase();
        let phase = if self.state == State::Open { Phase::Stream } else { Phase::Connect };
        let has = |words: &str| lower.contains(words);
        let (origin, kind, advice) = if has("authorization") || has("authentication") || has("expired") {
            (
                Origin::Scenario,
                "authorization",
                "give user and password, or the token, that the server expects",
            )
        } else if has("permissions") {
            (Origin::Scenario, "permission", "let the user publish and subscribe to `touchstone.>`")
        } else if has("maximum payload") {
            (Origin::Scenario, "max-payload", "use smaller messages, or raise the server's `max_payload`")
        } else if has("slow consumer") {
            (
                Origin::Target,
                "slow-consumer",
                "the server gave up on a consumer that fell behind: lower the rate",
            )
        } else if has("stale connection") {
            (Origin::Target, "stale-connection", "pings went unanswered: one side stood still for too long")
        } else if has("maximum") && has("connections") {
            (Origin::Target, "too-many-connections", "raise `max_connections`, or use fewer connections")
        } else if has("tls") {
            (Origin::Scenario, "tls-required", "use a listener without TLS")
        } else {
            (Origin::Target, "error-reply", "look at the server's log")
        };
        Failure::new(origin, phase, kind, text, advice)
    }

    fn take_frame(&mut self, frame: Frame, out: &mut Vec<u8>, events: &mut Vec<SessionEvent>) {
        match frame {
            Frame::Message(stamp) => self.take_message(&stamp, events),
            Frame::ShortMessage => {
                if let Role::Consumer { foreign, .. } = &mut self.role {
                    *foreign += 1;
                }
            }
            Frame::Ping => out.extend_from_slice(b"PONG\r\n"),
            Frame::Pong if self.state == State::AwaitingPong => {
                self.state = State::Open;
                events.push(SessionEvent::Ready);
            }
            Frame::Info if self.state == State::AwaitingInfo => {
                if let Err(failure) = self.greet(out) {
                    self.break_with(failure, events);
                }
            }
            // Servers describe themselves anew when their cluster changes.
            Frame::Pong | Frame::Info | Frame::Ok => {}
            Frame::Error if self.state == State::AwaitingInfo => {
                // A NATS server introduces itself before anything else; Redis writes its errors alike.
                let error = FrameError::Operation { start: b"-ERR".to_vec() };
                self.break_with(not_nats(&error), events);
            }
            Frame::Error => {
                let failure = self.error();
                self.break_with(failure, events);
            }
        }
    }

    fn take_message(&mut self, stamp: &[u8; STAMP_BYTES], events: &mut Vec<SessionEvent>) {
        let u32_at = |at: usize| u32::from_le_bytes([stamp[at], stamp[at + 1], stamp[at + 2], stamp[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let Role::Consumer { foreign, .. } = &mut self.role else { return };
        if u32_at(0) != self.shared.tag {
            *foreign += 1;
            return;
        }
        events.push(SessionEvent::Message {
            op: OpToken(u32_at(4)),
            producer: u32_at(8),
            sequence: u64_at(12),
            index: u64_at(20),
        });
    }
}

const WRONG_PORT: &str = "is this the right port? a NATS server is expected";

fn not_nats(error: &FrameError) -> Failure {
    let first = match error {
        FrameError::Operation { start } => start.first().copied(),
        _ => None,
    };
    let advice = match first {
        Some(0x14..=0x17) => "the port speaks TLS: use a target with TLS",
        Some(b'H') => "is this the right port? this looks like an HTTP server",
        Some(b'-') => "is this the right port? this looks like a Redis server",
        _ => WRONG_PORT,
    };
    Failure::new(Origin::Target, Phase::Decode, "not-nats", error.to_string(), advice)
}

impl Session for NatsSession {
    fn open(&mut self, _out: &mut Vec<u8>, _events: &mut Vec<SessionEvent>) {
        // The server speaks first.
    }

    fn capacity(&self) -> usize {
        if self.state == State::Open && matches!(self.role, Role::Publisher { .. }) { BURST } else { 0 }
    }

    fn start(&mut self, op: Op, out: &mut Vec<u8>) {
        let Role::Publisher { producer, sequence, line } = &mut self.role else { return };
        out.extend_from_slice(line);
        out.extend_from_slice(&self.shared.tag.to_le_bytes());
        out.extend_from_slice(&op.token.0.to_le_bytes());
        out.extend_from_slice(&producer.to_le_bytes());
        out.extend_from_slice(&sequence.to_le_bytes());
        out.extend_from_slice(&op.index.to_le_bytes());
        out.extend_from_slice(self.shared.filling.get(op.index));
        out.extend_from_slice(b"\r\n");
        *sequence += 1;
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>, events: &mut Vec<SessionEvent>) {
        let mut input = bytes;
        while self.state != State::Closed {
            match self.reader.next(&mut input) {
                Ok(Some(frame)) => self.take_frame(frame, out, events),
                Ok(None) => return,
                Err(error) => self.break_with(not_nats(&error), events),
            }
        }
    }

    fn end_of_stream(&mut self, events: &mut Vec<SessionEvent>) {
        if self.state == State::Closed {
            return;
        }
        let (phase, kind, message) = if self.state == State::Open {
            (Phase::Stream, "closed", "the server closed the connection")
        } else {
            (Phase::Connect, "closed-in-greeting", "the server closed the connection at its opening")
        };
        let failure = Failure::new(Origin::Target, phase, kind, message, "look at the server's log");
        self.break_with(failure, events);
    }

    fn abandon(&mut self, _op: OpToken) -> bool {
        self.state != State::Closed
    }

    fn answered(&self, _op: OpToken) -> bool {
        // Sending a message again would be a duplicate of the generator's own making.
        true
    }

    fn receive_only(&self) -> bool {
        matches!(self.role, Role::Consumer { .. })
    }
}
