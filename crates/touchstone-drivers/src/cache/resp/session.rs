//! One pipelined RESP connection. Replies come in the order of the commands.

use std::collections::VecDeque;
use std::sync::Arc;

use touchstone_load::{Answer, Failure, Op, OpToken, Session, SessionEvent};
use touchstone_model::{Origin, Phase};

use super::Shared;
use super::reply::{Reader, Reply, ReplyError};
use crate::said::printable;

/// What the operations are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// GET and SET as the options say.
    Load,
    /// Operation `i` writes key `i`.
    Preload,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Replies still to come before operations may start.
    Greeting(u32),
    Open,
    Closed,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    op: OpToken,
    read: bool,
    abandoned: bool,
}

#[derive(Debug)]
pub(super) struct RespSession {
    shared: Arc<Shared>,
    work: Work,
    depth: usize,
    state: State,
    reader: Reader,
    in_flight: VecDeque<Pending>,
}

impl RespSession {
    pub(super) fn new(shared: Arc<Shared>, work: Work, depth: usize) -> Self {
        let state = State::Greeting(shared.greeting_replies);
        Self {
            shared,
            work,
            depth,
            state,
            reader: Reader::default(),
            in_flight: VecDeque::with_capacity(depth),
        }
    }

    fn break_with(&mut self, failure: Failure, events: &mut Vec<SessionEvent>) {
        self.state = State::Closed;
        events.push(SessionEvent::Broken { failure });
    }

    fn error_reply(&self, phase: Phase) -> Failure {
        let text = self.shared.blot(printable(&String::from_utf8_lossy(self.reader.error_text())));
        let mut words = text.split(' ');
        let code = words.next().unwrap_or_default();
        let (origin, kind, advice) = match code {
            "LOADING" => (Origin::Target, "loading", "wait until the server has loaded its data"),
            "NOAUTH" => (
                Origin::Scenario,
                "authentication",
                "give the password with `--api-key-env NAME`, NAME being the environment variable that holds it",
            ),
            "WRONGPASS" => (Origin::Scenario, "authentication", "check the user name and the password"),
            "NOPERM" => {
                (Origin::Scenario, "permission", "let the user GET and SET keys that begin with `ts:`")
            }
            "MOVED" | "ASK" | "CROSSSLOT" => (
                Origin::Scenario,
                "cluster",
                "this is one node of a cluster, which is not followed: use a single server or a proxy",
            ),
            "READONLY" => (Origin::Scenario, "read-only", "this is a replica: use the primary"),
            "WRONGTYPE" => (
                Origin::Scenario,
                "wrong-type",
                "keys that begin with `ts:` hold other data: use an empty database",
            ),
            "OOM" => (
                Origin::Target,
                "out-of-memory",
                "the memory limit is reached: raise `maxmemory`, set an eviction policy, or load fewer keys",
            ),
            "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" => {
                (Origin::Target, "unavailable", "look at the server's log")
            }
            "BUSY" => (Origin::Target, "busy", "a script holds the server up"),
            "MISCONF" => {
                (Origin::Target, "persistence", "the server cannot write to its disk and refuses writes")
            }
            _ if text.contains("max number of clients") => {
                (Origin::Target, "too-many-connections", "raise `maxclients`, or use fewer connections")
            }
            _ if text.contains("AUTH") && phase == Phase::Connect => {
                (Origin::Scenario, "authentication", "the server asks for no password: leave it out")
            }
            "DENIED" => {
                (Origin::Scenario, "protected-mode", "let the server accept connections from this machine")
            }
            _ => (Origin::Target, "error-reply", "look at the server's log"),
        };
        Failure::new(origin, phase, kind, text, advice)
    }

    fn take_reply(&mut self, reply: Reply, events: &mut Vec<SessionEvent>) {
        if reply == Reply::OutOfBand {
            return;
        }
        if let State::Greeting(left) = self.state {
            if reply == Reply::Error {
                let failure = self.error_reply(Phase::Connect);
                self.break_with(failure, events);
            } else if left > 1 {
                self.state = State::Greeting(left - 1);
            } else {
                self.state = State::Open;
                events.push(SessionEvent::Ready);
            }
            return;
        }
        let Some(pending) = self.in_flight.pop_front() else {
            let failure = if reply == Reply::Error {
                self.error_reply(Phase::Slot)
            } else {
                Failure::new(
                    Origin::Target,
                    Phase::Slot,
                    "unsolicited",
                    "the server answered where nothing was asked",
                    "",
                )
            };
            self.break_with(failure, events);
            return;
        };
        if pending.abandoned {
            return;
        }
        let op = pending.op;
        let fits = match reply {
            Reply::Error => {
                events.push(SessionEvent::Failed { op, failure: self.error_reply(Phase::Headers) });
                return;
            }
            Reply::Bulk | Reply::Null => pending.read,
            Reply::Simple => !pending.read,
            Reply::Array | Reply::OutOfBand => false,
        };
        if fits {
            let hit = pending.read.then_some(reply == Reply::Bulk);
            events.push(SessionEvent::Done { op, answer: Answer { hit, ..Answer::default() } });
        } else {
            let asked = if pending.read { "GET" } else { "SET" };
            let message = format!("{asked} was answered by a reply of another type");
            let failure = Failure::new(Origin::Target, Phase::Decode, "wrong-reply", message, WRONG_PORT);
            events.push(SessionEvent::Failed { op, failure });
        }
    }
}

const WRONG_PORT: &str = "is this the right port? a server that speaks RESP is expected";

fn not_resp(error: &ReplyError) -> Failure {
    let advice = match error {
        ReplyError::Type(0x14..=0x17) => "the port speaks TLS: use a target with TLS",
        ReplyError::Type(b'H') => "is this the right port? this looks like an HTTP server",
        ReplyError::Type(b'I') => "is this the right port? this looks like a NATS server",
        ReplyError::Type(b'E' | b'S' | b'C') => {
            "is this the right port? this looks like Memcached, whose protocol is another"
        }
        _ => WRONG_PORT,
    };
    Failure::new(Origin::Target, Phase::Decode, "not-resp", error.to_string(), advice)
}

impl Session for RespSession {
    fn open(&mut self, out: &mut Vec<u8>, _events: &mut Vec<SessionEvent>) {
        out.extend_from_slice(&self.shared.greeting);
    }

    fn capacity(&self) -> usize {
        match self.state {
            State::Open => self.depth - self.in_flight.len().min(self.depth),
            State::Greeting(_) | State::Closed => 0,
        }
    }

    fn start(&mut self, op: Op, out: &mut Vec<u8>) {
        let read = match self.work {
            Work::Load => self.shared.write_operation(op.index, out),
            Work::Preload => {
                self.shared.write_set(op.index, op.index, out);
                false
            }
        };
        self.in_flight.push_back(Pending { op: op.token, read, abandoned: false });
    }

    fn receive(&mut self, bytes: &[u8], _out: &mut Vec<u8>, events: &mut Vec<SessionEvent>) {
        let mut input = bytes;
        while self.state != State::Closed {
            match self.reader.next(&mut input) {
                Ok(Some(reply)) => self.take_reply(reply, events),
                Ok(None) => return,
                Err(error) => self.break_with(not_resp(&error), events),
            }
        }
    }

    fn end_of_stream(&mut self, events: &mut Vec<SessionEvent>) {
        let (phase, kind, message) = match self.state {
            State::Closed => return,
            State::Greeting(_) => {
                (Phase::Connect, "closed-in-greeting", "the server closed the connection at its opening")
            }
            State::Open if self.reader.mid_reply() => {
                (Phase::Stream, "eof-in-reply", "the connection ended in the middle of a reply")
            }
            State::Open if self.in_flight.is_empty() => {
                (Phase::Slot, "closed-idle", "the server closed the connection")
            }
            State::Open => {
                (Phase::Headers, "closed-before-answer", "the server closed the connection without a reply")
            }
        };
        let advice = "look at the server's log, and at its limits on connections and output buffers";
        self.break_with(Failure::new(Origin::Target, phase, kind, message, advice), events);
    }

    fn abandon(&mut self, op: OpToken) -> bool {
        // The reply still comes: its place is kept so that the later ones find theirs.
        if let Some(pending) =
            self.in_flight.iter_mut().find(|pending| pending.op == op && !pending.abandoned)
        {
            pending.abandoned = true;
        }
        let of_use =
            self.in_flight.len() < self.depth || self.in_flight.iter().any(|pending| !pending.abandoned);
        if !of_use {
            self.state = State::Closed;
        }
        self.state != State::Closed
    }

    fn answered(&self, op: OpToken) -> bool {
        self.reader.mid_reply()
            && self.in_flight.front().is_some_and(|pending| pending.op == op && !pending.abandoned)
    }
}
