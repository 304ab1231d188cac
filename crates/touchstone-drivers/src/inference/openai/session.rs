//! One connection to an OpenAI server: requests one after another, each answered by a stream.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use touchstone_load::{Answer, Failure, Op, OpToken, Session, SessionEvent};
use touchstone_model::{Origin, Phase};

use super::Shared;
use super::decode::{self, Decoded};
use crate::inference::http::{self, AtEof, Head, HttpError, Part};
use crate::inference::sse;

/// Most bytes kept of an answer that is no success.
const ERROR_LIMIT: usize = 64 * 1024;
/// Most bytes of an answer that is one JSON document.
const DOCUMENT_LIMIT: usize = 8 * 1024 * 1024;
/// Most bytes of a body after its operation has ended; more than this is not waited for.
const REMAINDER_LIMIT: u64 = 256 * 1024;

/// How the body of the current response is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// Not known before its first byte.
    Unknown,
    Events,
    /// One JSON document.
    Document,
    /// The words of a refusal with this status.
    Refusal(u16),
    /// The operation has ended: bytes so far of what is left.
    Remainder(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// A request was sent; no final head yet.
    Asked,
    Reading(Body),
    Closed,
}

/// What was seen of the stream of the current operation.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    content: bool,
    finish: bool,
    /// An event that is of no OpenAI stream.
    foreign: bool,
    output_tokens: Option<u32>,
    input_tokens: Option<u32>,
    /// The operation has ended.
    ended: bool,
}

#[derive(Debug)]
pub(super) struct OpenAiSession {
    shared: Arc<Shared>,
    state: State,
    http: http::Reader,
    sse: sse::Reader,
    op: OpToken,
    /// Whether any byte came since the operation started.
    answered: bool,
    progress: Progress,
    keep_alive: bool,
    until_close: bool,
    /// Redirect target, for the advice.
    location: Option<String>,
    /// A refusal or a document so far.
    body: Vec<u8>,
    /// The prompt, before its length is known.
    prompt: Vec<u8>,
}

impl OpenAiSession {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            state: State::Idle,
            http: http::Reader::new(),
            sse: sse::Reader::default(),
            op: OpToken(u32::MAX),
            answered: false,
            progress: Progress::default(),
            keep_alive: true,
            until_close: false,
            location: None,
            body: Vec::new(),
            prompt: Vec::new(),
        }
    }

    fn break_with(&mut self, failure: Failure, events: &mut Vec<SessionEvent>) {
        self.state = State::Closed;
        self.body = Vec::new();
        events.push(SessionEvent::Broken { failure });
    }

    /// Ends the operation with a failure; the rest of its body is passed over.
    fn fail(&mut self, failure: Failure, events: &mut Vec<SessionEvent>) {
        self.progress.ended = true;
        self.state = State::Reading(Body::Remainder(0));
        self.body.clear();
        events.push(SessionEvent::Failed { op: self.op, failure });
    }

    fn take_head(&mut self, head: Head, events: &mut Vec<SessionEvent>) {
        if head.simulated {
            self.shared.simulated.store(true, Ordering::Relaxed);
        }
        self.keep_alive = head.keep_alive;
        self.until_close = head.until_close;
        self.location = head.location;
        self.body.clear();
        self.sse.reset();
        events.push(SessionEvent::Head { op: self.op });
        self.state = State::Reading(match head.status {
            200 if head.content_type == "text/event-stream" => Body::Events,
            200..=299 => Body::Unknown,
            status => Body::Refusal(status),
        });
        if let (200..=299, Some(encoding)) = (head.status, head.encoding) {
            let failure = target(
                Phase::Decode,
                "content-encoding",
                format!("the answer is encoded as `{encoding}`, which was not asked for"),
                "turn off compression in the server or in the proxy before it",
            );
            self.fail(failure, events);
        }
    }

    fn take_body(&mut self, bytes: &[u8], events: &mut Vec<SessionEvent>) {
        let State::Reading(body) = self.state else { return };
        match body {
            Body::Unknown => {
                // A byte order mark or blank before the first telling byte belongs to either.
                let Some(first) = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) else { return };
                let kind = if matches!(first, b'{' | b'[' | b'<') { Body::Document } else { Body::Events };
                self.state = State::Reading(kind);
                self.take_body(bytes, events);
            }
            Body::Events => {
                let Self { sse, progress, op, shared, .. } = self;
                let pushed = sse.push(bytes, |event| take_event(progress, *op, shared, event, events));
                self.after_events(pushed, events);
            }
            Body::Document => {
                if self.body.len() + bytes.len() > DOCUMENT_LIMIT {
                    let message = format!("the answer is larger than {DOCUMENT_LIMIT} bytes");
                    self.fail(target(Phase::Stream, "too-large", message, WRONG_PATH), events);
                } else {
                    self.body.extend_from_slice(bytes);
                }
            }
            Body::Refusal(status) => {
                let room = ERROR_LIMIT - self.body.len();
                self.body.extend_from_slice(&bytes[..room.min(bytes.len())]);
                if self.body.len() == ERROR_LIMIT {
                    let failure = self.refusal(status);
                    self.fail(failure, events);
                }
            }
            Body::Remainder(so_far) => {
                let so_far = so_far + bytes.len() as u64;
                self.state = State::Reading(Body::Remainder(so_far));
                if so_far > REMAINDER_LIMIT {
                    let message = "the server goes on sending after the end of the stream";
                    self.break_with(target(Phase::Stream, "body-after-end", message, ""), events);
                }
            }
        }
    }

    /// Looks at whether the events just taken ended the operation.
    fn after_events(&mut self, pushed: Result<(), sse::TooLong>, events: &mut Vec<SessionEvent>) {
        if self.progress.ended {
            self.state = State::Reading(Body::Remainder(0));
        } else if let Err(error) = pushed {
            let failure = target(Phase::Decode, "event-too-long", error.to_string(), WRONG_PATH);
            self.break_with(failure, events);
        }
    }

    /// The body is complete.
    fn take_end(&mut self, events: &mut Vec<SessionEvent>) {
        if let State::Reading(Body::Events) = self.state {
            let Self { sse, progress, op, shared, .. } = self;
            let finished = sse.finish(|event| take_event(progress, *op, shared, event, events));
            self.after_events(finished, events);
        }
        match self.state {
            State::Reading(Body::Events | Body::Unknown) => {
                let Progress { content, finish, foreign, .. } = self.progress;
                // Where only the connection's end delimits the body, a cut looks like an end: then the finish
                // reason is what tells them apart.
                if finish || content && !self.until_close {
                    events.push(done(&mut self.progress, self.op));
                } else if content {
                    self.fail(eof_in_stream(), events);
                } else if foreign {
                    let message = "the events of the stream are no completion chunks";
                    self.fail(target(Phase::Decode, "not-openai", message, WRONG_PATH), events);
                } else {
                    let failure = target(
                        Phase::Stream,
                        "empty-stream",
                        "the stream ended without content, finish reason or `[DONE]`",
                        "look at the server's log: the worker behind the API may have failed",
                    );
                    self.fail(failure, events);
                }
            }
            State::Reading(Body::Document) => self.take_document(events),
            State::Reading(Body::Refusal(status)) => {
                let failure = self.refusal(status);
                self.fail(failure, events);
            }
            _ => {}
        }
        if self.state == State::Closed {
            return;
        }
        self.state = State::Idle;
        if !self.keep_alive {
            let failure = Failure::new(
                Origin::Target,
                Phase::Slot,
                "connection-close",
                "the server closes the connection after this answer",
                "",
            );
            self.break_with(failure, events);
        }
    }

    /// A 2xx answer that is one document instead of a stream.
    fn take_document(&mut self, events: &mut Vec<SessionEvent>) {
        let body = std::mem::take(&mut self.body);
        let failure = match decode::decode(&body) {
            Ok(Decoded { error: Some(error), .. }) => stream_failure("error-in-body", error, &self.shared),
            Ok(seen) if seen.choices => {
                self.progress.output_tokens = seen.completion_tokens;
                self.progress.input_tokens = seen.prompt_tokens;
                if seen.text || seen.reasoning || seen.tool {
                    self.progress.content = true;
                    events.push(SessionEvent::Content {
                        op: self.op,
                        tokens: seen.completion_tokens.filter(|tokens| *tokens > 0),
                        reasoning: seen.reasoning && !seen.text && !seen.tool,
                    });
                }
                events.push(done(&mut self.progress, self.op));
                return;
            }
            _ => {
                let message = format!("the answer is no completion but {}", decode::describe(&body));
                target(Phase::Decode, "not-openai", self.shared.blot(message), WRONG_PATH)
            }
        };
        self.fail(failure, events);
    }

    /// The failure for an answer with a status other than success.
    fn refusal(&self, status: u16) -> Failure {
        let said = self.shared.blot(decode::error_message(&self.body));
        let (origin, kind, advice) = match status {
            300..=399 => (Origin::Scenario, None, "use the URL that the server redirects to"),
            401 | 403 => (
                Origin::Scenario,
                None,
                "give the key with `--api-key-env NAME`, NAME being the environment variable that holds it",
            ),
            404 => (
                Origin::Scenario,
                None,
                "check the model's name against `/v1/models`, and the path of the target",
            ),
            405 => (Origin::Scenario, None, "check the path of the target: it does not take POST"),
            429 | 503 => (
                Origin::Target,
                Some("overloaded"),
                "the server turned the request away: lower the rate, or raise its limit on queued requests",
            ),
            400 if said.contains("HTTPS") || said.contains("https") => {
                (Origin::Scenario, None, "the port speaks TLS: use https:// in the target")
            }
            400 | 413 | 422 => (
                Origin::Scenario,
                None,
                "the server refused the request: check model, token counts against its context, and options",
            ),
            400..=499 => (Origin::Scenario, None, "the server refused the request"),
            _ => (Origin::Target, None, "look at the server's log"),
        };
        let mut message = format!("http {status}");
        for part in [&said, self.location.as_deref().unwrap_or_default()] {
            if !part.is_empty() {
                message.push_str(": ");
                message.push_str(part);
            }
        }
        Failure::new(
            origin,
            Phase::Headers,
            kind.map_or_else(|| format!("http-{status}"), str::to_owned),
            // Once more: a redirect may carry the key in its address.
            self.shared.blot(message),
            advice,
        )
    }
}

const WRONG_PATH: &str =
    "check that the path of the target is an OpenAI chat completions or completions endpoint";

fn target(phase: Phase, kind: &str, message: impl Into<String>, advice: &str) -> Failure {
    Failure::new(Origin::Target, phase, kind, message, advice)
}

fn eof_in_stream() -> Failure {
    target(
        Phase::Stream,
        "eof-in-stream",
        "the connection ended in the middle of the answer",
        "look at the server's log, and at timeouts of proxies before it",
    )
}

fn done(progress: &mut Progress, op: OpToken) -> SessionEvent {
    progress.ended = true;
    let output_tokens = match progress.output_tokens {
        // An empty answer has no tokens, whether the server says so or not.
        None if !progress.content => Some(0),
        tokens => tokens,
    };
    SessionEvent::Done {
        op,
        answer: Answer { output_tokens, input_tokens: progress.input_tokens, hit: None },
    }
}

/// A failure told inside an answer whose status said success.
fn stream_failure(kind: &str, error: decode::ServerError, shared: &Shared) -> Failure {
    let (origin, advice) = match error.status {
        Some(429 | 503) => (Origin::Target, "the server is overloaded: lower the rate, or raise its limit"),
        Some(400..=499) => {
            (Origin::Scenario, "the server refused the request: check model, sizes and options")
        }
        _ => (Origin::Target, "look at the server's log"),
    };
    let message = match error.status {
        Some(status) => format!("code {status}: {}", error.message),
        None => error.message,
    };
    Failure::new(origin, Phase::Stream, kind, shared.blot(message), advice)
}

/// Takes one event of the stream.
fn take_event(
    progress: &mut Progress,
    op: OpToken,
    shared: &Shared,
    event: sse::Event<'_>,
    events: &mut Vec<SessionEvent>,
) {
    if progress.ended {
        return;
    }
    let data = event.data.trim_ascii();
    if data == b"[DONE]" {
        events.push(done(progress, op));
        return;
    }
    if data.is_empty() {
        return;
    }
    let failure = match decode::decode(data) {
        Ok(Decoded { error: Some(error), .. }) => stream_failure("error-in-stream", error, shared),
        _ if event.error => {
            let message = decode::error_message(data);
            stream_failure("error-in-stream", decode::ServerError { message, status: None }, shared)
        }
        Ok(seen) => {
            let before = progress.output_tokens;
            progress.output_tokens = seen.completion_tokens.or(before);
            progress.input_tokens = seen.prompt_tokens.or(progress.input_tokens);
            progress.finish |= seen.finish;
            progress.foreign |= !seen.choices;
            if seen.text || seen.reasoning || seen.tool {
                progress.content = true;
                // Usage in every chunk counts up, so the difference is what this chunk brought.
                let tokens = seen
                    .completion_tokens
                    .and_then(|now| now.checked_sub(before.unwrap_or(0)))
                    .filter(|tokens| *tokens > 0);
                let reasoning = seen.reasoning && !seen.text && !seen.tool;
                events.push(SessionEvent::Content { op, tokens, reasoning });
            }
            return;
        }
        Err(error) => target(
            Phase::Decode,
            "bad-event",
            // The category and place only: the event's text is the model's.
            format!("an event of the stream is no completion chunk (column {})", error.column()),
            WRONG_PATH,
        ),
    };
    progress.ended = true;
    events.push(SessionEvent::Failed { op, failure });
}

/// What is wrong with bytes that are no HTTP response.
fn not_http(error: &HttpError) -> Failure {
    let (kind, advice) = match error {
        HttpError::NotHttp { start } => (
            "not-http",
            match start.first() {
                Some(0x14..=0x17) => "the port speaks TLS: use https:// in the target",
                Some(b'-' | b'+' | b'$') => "is this the right port? this looks like a Redis server",
                Some(b'I') => "is this the right port? this looks like a NATS server",
                _ => "is this the right port?",
            },
        ),
        HttpError::HeadTooLarge => ("head-too-large", "is this the right port?"),
        HttpError::BadHead(_) => ("bad-head", "is this the right port?"),
        HttpError::BadFraming(_) => ("bad-framing", "look at proxies before the server"),
    };
    Failure::new(Origin::Target, Phase::Decode, kind, error.to_string(), advice)
}

impl Session for OpenAiSession {
    fn open(&mut self, _out: &mut Vec<u8>, events: &mut Vec<SessionEvent>) {
        events.push(SessionEvent::Ready);
    }

    fn capacity(&self) -> usize {
        usize::from(self.state == State::Idle)
    }

    fn start(&mut self, op: Op, out: &mut Vec<u8>) {
        self.state = State::Asked;
        self.op = op.token;
        self.answered = false;
        self.progress = Progress::default();
        self.shared.write_request(op.index, &mut self.prompt, out);
    }

    fn receive(&mut self, bytes: &[u8], _out: &mut Vec<u8>, events: &mut Vec<SessionEvent>) {
        let mut input = bytes;
        self.answered |= !bytes.is_empty();
        loop {
            if self.state == State::Closed {
                return;
            }
            match self.http.next(&mut input) {
                Ok(None) => return,
                Ok(Some(Part::Head(_))) if self.state != State::Asked => {
                    let failure = target(
                        Phase::Slot,
                        "unsolicited",
                        "the server answered where nothing was asked",
                        "a server may say so before it closes an idle connection",
                    );
                    self.break_with(failure, events);
                }
                Ok(Some(Part::Head(head))) => self.take_head(head, events),
                Ok(Some(Part::Body(body))) => self.take_body(body, events),
                Ok(Some(Part::End)) => self.take_end(events),
                Err(error) => self.break_with(not_http(&error), events),
            }
        }
    }

    fn end_of_stream(&mut self, events: &mut Vec<SessionEvent>) {
        match (self.state, self.http.at_eof()) {
            (State::Closed, _) | (State::Idle, AtEof::Nothing) => {}
            (State::Asked, AtEof::Nothing) => {
                let failure = Failure::new(
                    Origin::Target,
                    Phase::Headers,
                    "closed-before-answer",
                    "the server closed the connection without an answer",
                    "if it always does so: is this the right port, and does it expect https://?",
                );
                self.break_with(failure, events);
            }
            (State::Reading(_), AtEof::Complete) => {
                self.keep_alive = true;
                self.take_end(events);
            }
            (State::Reading(Body::Remainder(_)), _) => {}
            (State::Reading(Body::Refusal(status)), _) => {
                let failure = self.refusal(status);
                self.fail(failure, events);
            }
            (State::Reading(_), _) => self.fail(eof_in_stream(), events),
            (State::Idle | State::Asked, _) => {
                let failure = target(
                    Phase::Headers,
                    "eof-in-headers",
                    "the connection ended in the head of the answer",
                    "look at the server's log",
                );
                self.break_with(failure, events);
            }
        }
        self.state = State::Closed;
    }

    fn abandon(&mut self, op: OpToken) -> bool {
        if self.op == op && !self.progress.ended && matches!(self.state, State::Asked | State::Reading(_)) {
            // The rest of the answer would have to be waited for: a fresh connection is quicker.
            self.state = State::Closed;
        }
        self.state != State::Closed
    }

    fn finishing(&self) -> bool {
        matches!(self.state, State::Reading(Body::Remainder(_))) && self.keep_alive && !self.until_close
    }

    fn answered(&self, op: OpToken) -> bool {
        self.op == op && self.answered
    }
}
