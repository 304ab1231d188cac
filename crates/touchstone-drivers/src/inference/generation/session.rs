//! One connection to a server: requests one after another, each answered by a stream or by one document.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use touchstone_load::{Answer, Failure, Op, OpToken, Session, SessionEvent};
use touchstone_model::{Origin, Phase};

use super::Shared;
use super::dialect::Framing;
use super::dialect::decode::{self, Decoded};
use super::plain::plain;
use super::records;
use super::template::Template;
use crate::inference::http::{self, AtEof, Head, HttpError, Part};
use crate::inference::inflate::{self, Inflate};
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
    /// Records that end with a NUL byte.
    Records,
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
    /// An event that is of no stream of this dialect.
    foreign: bool,
    /// Output tokens as the server counted them so far.
    output_tokens: Option<u32>,
    /// Output tokens by the events that say how many they bring.
    event_tokens: Option<u32>,
    /// Tokens that content events have brought so far.
    counted: u32,
    /// The server counts one token too few, as its first event with text showed.
    one_too_few: bool,
    /// Bytes of text so far, where events repeat the whole text.
    text_length: usize,
    input_tokens: Option<u32>,
    /// Input tokens that a prefix cache had.
    cached_tokens: Option<u32>,
    asked_output: Option<u32>,
    asked_input: Option<u32>,
    /// The operation has ended.
    ended: bool,
}

#[derive(Debug)]
pub(super) struct GenerationSession {
    shared: Arc<Shared>,
    /// Whether operations send the shared beginnings instead of prompts.
    preload: bool,
    state: State,
    http: http::Reader,
    sse: sse::Reader,
    records: records::Reader,
    template: Template,
    /// Where the body is compressed.
    inflate: Option<Inflate>,
    op: OpToken,
    /// Whether any byte came since the operation started.
    answered: bool,
    progress: Progress,
    keep_alive: bool,
    until_close: bool,
    /// Redirect target, for the advice.
    location: Option<String>,
    /// An event without its escapes.
    scratch: Vec<u8>,
    /// A refusal or a document so far.
    body: Vec<u8>,
    /// The prompt, before its length is known.
    prompt: Vec<u8>,
}

impl GenerationSession {
    pub(super) fn new(shared: Arc<Shared>, preload: bool) -> Self {
        Self {
            shared,
            preload,
            state: State::Idle,
            http: http::Reader::new(),
            sse: sse::Reader::default(),
            records: records::Reader::default(),
            template: Template::default(),
            inflate: None,
            op: OpToken(u32::MAX),
            answered: false,
            progress: Progress::default(),
            keep_alive: true,
            until_close: false,
            location: None,
            scratch: Vec::new(),
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
        self.records.reset();
        self.template.reset();
        events.push(SessionEvent::Head { op: self.op });
        let framing = self.shared.options.dialect.framing(self.shared.options.stream);
        self.state = State::Reading(match head.status {
            200 if head.content_type == "text/event-stream" => Body::Events,
            200..=299 if framing == Framing::Records => Body::Records,
            200..=299 => Body::Unknown,
            status => Body::Refusal(status),
        });
        self.inflate = None;
        if let Some(encoding) = head.encoding {
            self.inflate = Inflate::new(&encoding);
            if self.inflate.is_none() && (200..=299).contains(&head.status) {
                let failure = target(
                    Phase::Decode,
                    "content-encoding",
                    format!("the answer is encoded as `{encoding}`, which was not asked for"),
                    "turn off compression in the server or in the proxy before it",
                );
                self.fail(failure, events);
            }
        }
    }

    /// Takes bytes of the body as they came; compressed ones are decoded first.
    fn take_raw_body(&mut self, bytes: &[u8], events: &mut Vec<SessionEvent>) {
        let Some(mut inflate) = self.inflate.take() else { return self.take_body(bytes, events) };
        let result = inflate.push(bytes, &mut |ready| self.take_body(ready, events));
        self.inflate = Some(inflate);
        if let Err(error) = result {
            self.fail_coding(&error, events);
        }
    }

    /// The body is not what its coding says; an operation that has ended already is not touched.
    fn fail_coding(&mut self, error: &inflate::Malformed, events: &mut Vec<SessionEvent>) {
        if !self.progress.ended && self.state != State::Closed {
            let advice = "turn off compression in the server or in the proxy before it";
            self.fail(target(Phase::Decode, "content-encoding", error.to_string(), advice), events);
        }
    }

    fn take_body(&mut self, bytes: &[u8], events: &mut Vec<SessionEvent>) {
        let State::Reading(body) = self.state else { return };
        match body {
            Body::Unknown => {
                // Blank before the first telling byte says nothing, in whatever read it comes.
                let bytes = bytes.trim_ascii_start();
                let Some(first) = bytes.first() else { return };
                let kind = if matches!(first, b'{' | b'[' | b'<') { Body::Document } else { Body::Events };
                self.state = State::Reading(kind);
                self.take_body(bytes, events);
            }
            Body::Events => {
                let Self { sse, template, progress, op, shared, scratch, .. } = self;
                let pushed = sse.push(bytes, |event| {
                    take_event(progress, *op, shared, template, event, scratch, events);
                });
                self.after_events(pushed, events);
            }
            Body::Records => {
                let Self { records, template, progress, op, shared, scratch, .. } = self;
                let mut take = |data: &[u8]| {
                    let event = sse::Event { data, error: false };
                    take_event(progress, *op, shared, template, event, scratch, events);
                };
                let pushed = records.push(bytes, &mut take).map_err(|records::TooLong| sse::TooLong);
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
        if let Some(Err(error)) = self.inflate.take().map(|mut inflate| inflate.finish()) {
            self.fail_coding(&error, events);
        }
        if let State::Reading(Body::Events) = self.state {
            let Self { sse, template, progress, op, shared, scratch, .. } = self;
            let finished = sse.finish(|event| {
                take_event(progress, *op, shared, template, event, scratch, events);
            });
            self.after_events(finished, events);
        }
        match self.state {
            State::Reading(Body::Events | Body::Records | Body::Unknown) => {
                let Progress { content, finish, foreign, .. } = self.progress;
                // Where only the connection's end delimits the body, a cut looks like an end: then the finish
                // reason is what tells them apart.
                if finish || content && !self.until_close {
                    events.push(done(&mut self.progress, self.op));
                } else if content {
                    self.fail(eof_in_stream(), events);
                } else if foreign {
                    let message = format!(
                        "the events of the stream are none of `{}`",
                        self.shared.options.dialect.name()
                    );
                    self.fail(target(Phase::Decode, FOREIGN, message, WRONG_PATH), events);
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
        let failure = match self.shared.options.dialect.decode(&body) {
            Ok(Decoded { error: Some(error), .. }) => stream_failure("error-in-body", error, &self.shared),
            Ok(seen) if seen.recognised => {
                take_decoded(&mut self.progress, self.op, &seen, events);
                events.push(done(&mut self.progress, self.op));
                return;
            }
            _ => {
                let name = self.shared.options.dialect.name();
                let message = format!("the answer is none of `{name}` but {}", decode::describe(&body));
                target(Phase::Decode, FOREIGN, self.shared.blot(message), WRONG_PATH)
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

/// The kind of failure of an answer that is of another protocol.
const FOREIGN: &str = "wrong-protocol";
const WRONG_PATH: &str =
    "check that the path of the target is an endpoint of the protocol named before the `=`";

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
    let output_tokens = match progress.output_tokens.or(progress.event_tokens) {
        // An empty answer has no tokens, whether the server says so or not.
        None if !progress.content => Some(0),
        tokens => tokens,
    };
    SessionEvent::Done {
        op,
        answer: Answer {
            output_tokens,
            input_tokens: progress.input_tokens,
            cached_tokens: progress.cached_tokens,
            asked_output: progress.asked_output,
            asked_input: progress.asked_input,
            hit: None,
        },
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
    template: &mut Template,
    event: sse::Event<'_>,
    scratch: &mut Vec<u8>,
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
    if !event.error
        && let Some(seen) = template.decode(data)
    {
        take_decoded(progress, op, seen, events);
        template.matched();
        return;
    }
    let dialect = shared.options.dialect;
    let seen = match dialect.decode(plain(data, scratch)) {
        // A message is wanted as it was written.
        Ok(Decoded { error: Some(_), .. }) => dialect.decode(data),
        seen => seen,
    };
    let failure = match seen {
        Ok(Decoded { error: Some(error), .. }) => stream_failure("error-in-stream", error, shared),
        _ if event.error => {
            let message = decode::error_message(data);
            stream_failure("error-in-stream", decode::ServerError { message, status: None }, shared)
        }
        Ok(seen) => {
            let told = events.len();
            take_decoded(progress, op, &seen, events);
            if shared.options.tell_silent && events.len() == told {
                events.push(SessionEvent::Silent { op, part: !seen.report });
            }
            template.learn(data, &seen);
            if seen.end {
                events.push(done(progress, op));
            }
            return;
        }
        Err(error) => target(
            Phase::Decode,
            "bad-event",
            // The category and place only: the event's text is the model's.
            format!("an event of the stream cannot be read (column {})", error.column()),
            WRONG_PATH,
        ),
    };
    progress.ended = true;
    events.push(SessionEvent::Failed { op, failure });
}

/// Takes what an event or a document says, with one content event when it brought any.
fn take_decoded(progress: &mut Progress, op: OpToken, seen: &Decoded, events: &mut Vec<SessionEvent>) {
    progress.input_tokens = seen.prompt_tokens.or(progress.input_tokens);
    progress.cached_tokens = seen.cached_tokens.or(progress.cached_tokens);
    progress.finish |= seen.finish;
    progress.foreign |= !seen.recognised;
    if let Some(tokens) = seen.event_tokens {
        progress.event_tokens = Some(progress.event_tokens.unwrap_or(0).saturating_add(tokens));
    }
    let grown = seen.text_length.is_some_and(|length| length > progress.text_length);
    progress.text_length = seen.text_length.unwrap_or(progress.text_length).max(progress.text_length);
    if let Some(tokens) = seen.completion_tokens {
        // Text that came of no token: then it is the count that begins with 0 instead of 1.
        progress.one_too_few |= grown && !progress.content && tokens == 0;
        progress.output_tokens = Some(tokens.saturating_add(u32::from(progress.one_too_few)));
    }
    if !(seen.has_content() || grown) {
        return;
    }
    progress.content = true;
    // Counts in the events go up, so the difference is what came since the last content. A count that comes with the last
    // event only tells nothing about the chunks.
    let so_far = match (progress.event_tokens, seen.completion_tokens) {
        (Some(tokens), _) => Some(tokens),
        (None, Some(_)) => progress.output_tokens,
        (None, None) => None,
    };
    let tokens = so_far.and_then(|now| now.checked_sub(progress.counted));
    progress.counted = so_far.unwrap_or(progress.counted).max(progress.counted);
    // None from an embedding is a number; from an event with text it is a count that lags behind.
    let tokens = tokens.filter(|tokens| *tokens > 0 || seen.event_tokens == Some(0));
    let reasoning = seen.reasoning && !seen.text && !seen.tool;
    events.push(SessionEvent::Content { op, tokens, reasoning });
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

impl Session for GenerationSession {
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
        let options = &self.shared.options;
        let asked = options.requests.asked(op.index);
        self.progress = Progress {
            asked_output: options.dialect.generates().then_some(asked.output_tokens),
            asked_input: Some(asked.input_tokens),
            ..Progress::default()
        };
        if self.preload {
            self.shared.write_beginning(op.index, &mut self.prompt, out);
        } else {
            self.shared.write_request(op.index, &mut self.prompt, out);
        }
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
                Ok(Some(Part::Body(body))) => self.take_raw_body(body, events),
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
