//! The event loop: due emissions first, then timers, then sockets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use touchstone_net::{Interest, Listener, Poller, Ready, RecvBuf, Token, mono_ns, wall_ns};
use touchstone_sim::{Admission, Emission, EngineModel, SeededRng};

use crate::connection::{Connection, Mark};
use crate::faults::Drawn;
use crate::http::{Arrival, MAX_UNREAD, Refusal, Request};
use crate::job::{Job, Output, nanos};
use crate::metrics::Metrics;
use crate::openai::{self, Answer, Api, ApiError, Generation};
use crate::reply::{self, Delimiter};
use crate::truth::{Outcome, TruthLog, Written};
use crate::{EngineConfig, EngineError, EngineStats};

const LISTENER: Token = Token(0);
/// Most connections at a time.
const MAX_CONNECTIONS: usize = 4096;
/// Output left unread by a client beyond which it is cut, bytes.
const MAX_UNSENT: usize = 4 * 1024 * 1024;
/// Input sent ahead while an answer is being made beyond which the client is cut off, bytes.
const MAX_AHEAD: usize = 1024 * 1024;
/// How often the stop flag is looked at, ns.
const TICK: u64 = 50_000_000;
/// How long a refused client may go on sending, ns.
const DRAIN: u64 = 2_000_000_000;

const JSON: &str = "application/json";

pub(crate) struct Server {
    config: EngineConfig,
    fingerprint: String,
    poller: Poller,
    listener: Listener,
    scratch: RecvBuf,
    model: EngineModel,
    connections: BTreeMap<usize, Connection>,
    next_token: usize,
    /// Answers in the making, by sequence id, which is also the number of the request.
    jobs: BTreeMap<u64, Job>,
    next_job: u64,
    /// (When, which job) to look at again.
    timers: BTreeSet<(u64, u64)>,
    truth: TruthLog,
    metrics: Metrics,
    stats: EngineStats,
    /// An accept failed: the edge is gone, so try again at the next tick.
    accept_again: bool,
    started: u64,
    emissions: Vec<Emission>,
    accepted: Vec<(Mark, u64)>,
}

fn unix_seconds() -> u64 {
    wall_ns() / 1_000_000_000
}

impl Server {
    pub(crate) fn bind(config: EngineConfig) -> Result<Self, EngineError> {
        let model = EngineModel::new(config.profile.clone(), config.seed)?;
        let addr = SocketAddr::new(config.host, config.port);
        let listener = Listener::bind(addr).map_err(|source| EngineError::Listen { addr, source })?;
        let poller = Poller::new().map_err(EngineError::Poll)?;
        poller.register(&listener, LISTENER, Interest::READABLE).map_err(EngineError::Poll)?;
        Ok(Self {
            fingerprint: format!("touchstone-simulated-{}", config.profile.name),
            config,
            poller,
            listener,
            scratch: RecvBuf::new(),
            model,
            connections: BTreeMap::new(),
            next_token: LISTENER.0 + 1,
            jobs: BTreeMap::new(),
            next_job: 0,
            timers: BTreeSet::new(),
            truth: TruthLog::default(),
            metrics: Metrics::new(),
            stats: EngineStats::default(),
            accept_again: false,
            started: unix_seconds(),
            emissions: Vec::new(),
            accepted: Vec::new(),
        })
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    pub(crate) fn run(mut self, stop: &AtomicBool) -> Result<EngineStats, EngineError> {
        let mut events: Vec<Ready> = Vec::new();
        let mut next_tick = mono_ns() + TICK;
        while !stop.load(Ordering::Relaxed) {
            let timer = self.timers.first().map_or(u64::MAX, |&(at, _)| at);
            let deadline = next_tick.min(timer).min(self.model.next_event().unwrap_or(u64::MAX));
            self.poller.wait(&mut events, Some(deadline)).map_err(EngineError::Poll)?;
            self.work_due();
            for ready in &events {
                self.event(ready);
                // Many or large requests at once must not make a due chunk late.
                if self.model.next_event().is_some_and(|at| at <= mono_ns()) {
                    self.work_due();
                }
            }
            // What just came in can join a step now.
            self.work_due();
            let now = mono_ns();
            if now >= next_tick {
                next_tick = now + TICK;
                self.tick(now);
            }
        }
        self.stats.faults = self.metrics.faults();
        self.stats.slow_readers_cut = self.metrics.slow_readers_cut;
        self.stats.scheduler = self.model.counters();
        Ok(self.stats)
    }

    /// Sends every chunk that is due, and wakes answers whose hold is over.
    fn work_due(&mut self) {
        let now = mono_ns();
        let mut emissions = std::mem::take(&mut self.emissions);
        self.model.advance(now, &mut emissions);
        for emission in emissions.drain(..) {
            if let Some(job) = self.jobs.get_mut(&emission.id) {
                if let Some(first) = emission.first {
                    self.metrics.started(first.queue_ns, first.prefill_ns);
                }
                job.queue.push_back(emission);
                self.pump(emission.id);
            }
        }
        self.emissions = emissions;
        while let Some(&(at, id)) = self.timers.first().filter(|&&(at, _)| at <= now) {
            self.timers.remove(&(at, id));
            if self.open_answer(id) {
                self.pump(id);
            }
        }
    }

    fn tick(&mut self, now: u64) {
        if std::mem::take(&mut self.accept_again) {
            self.accept();
        }
        let drained = |c: &Connection| c.drain_until.is_some_and(|until| until <= now);
        let over: Vec<usize> = self.connections.iter().filter(|(_, c)| drained(c)).map(|(&t, _)| t).collect();
        for token in over {
            self.drop_connection(token, Outcome::Cancelled);
        }
    }

    fn event(&mut self, ready: &Ready) {
        if ready.token == LISTENER {
            return self.accept();
        }
        if ready.writable && !self.flush(ready.token.0) {
            return;
        }
        if ready.readable {
            self.readable(ready.token.0);
        }
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok(None) => return,
                Ok(Some(_)) if self.connections.len() >= MAX_CONNECTIONS => {
                    self.stats.connections_refused += 1
                }
                Ok(Some(conn)) => {
                    let token = self.next_token;
                    let both = Interest::READABLE | Interest::WRITABLE;
                    if self.poller.register(&conn, Token(token), both).is_err() {
                        self.stats.connections_refused += 1;
                        continue;
                    }
                    self.next_token += 1;
                    self.stats.connections += 1;
                    self.connections.insert(token, Connection::new(conn));
                }
                Err(_) => {
                    self.stats.connections_refused += 1;
                    self.accept_again = true;
                    return;
                }
            }
        }
    }

    fn readable(&mut self, token: usize) {
        loop {
            let Some(connection) = self.connections.get_mut(&token) else { return };
            let Ok((eof, more)) = connection.read(&mut self.scratch) else {
                return self.drop_connection(token, Outcome::Cancelled);
            };
            self.take_requests(token);
            let Some(connection) = self.connections.get_mut(&token) else { return };
            let limit = if connection.job.is_some() { MAX_AHEAD } else { MAX_UNREAD };
            if connection.inbox.len() > limit || eof && connection.job.is_some() {
                return self.drop_connection(token, Outcome::Cancelled);
            }
            if eof {
                connection.closing = true;
                self.flush(token);
                return;
            }
            if !more {
                return;
            }
        }
    }

    /// Handles complete requests until one takes time.
    fn take_requests(&mut self, token: usize) {
        loop {
            let Some(connection) = self.connections.get_mut(&token) else { return };
            if connection.job.is_some() || connection.closing || connection.drain_until.is_some() {
                return;
            }
            match connection.inbox.next() {
                Ok(Some(request)) => self.handle(token, &request),
                Ok(None) => {
                    if connection.inbox.take_expects_continue() {
                        self.send(token, b"HTTP/1.1 100 Continue\r\n\r\n", None);
                    }
                    return;
                }
                Err(refusal) => return self.refuse(token, refusal),
            }
        }
    }

    fn refuse(&mut self, token: usize, refusal: Refusal) {
        let (status, message) = match refusal {
            Refusal::Malformed(what) => (400, what),
            Refusal::HeadTooLarge => (431, "request head over 64 KiB"),
            Refusal::BodyTooLarge => (413, "request body over 10 MiB"),
        };
        let error = ApiError { status, kind: "Bad Request", message: message.to_owned(), param: None };
        let body = error.json();
        let mut out = reply::head(status, JSON, Delimiter::Length(body.len()), false, unix_seconds(), None);
        out.extend_from_slice(body.as_bytes());
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.drain_until = Some(mono_ns() + DRAIN);
        }
        self.send(token, &out, None);
        if let Some(connection) = self.connections.get_mut(&token) {
            // Tells the client that no more comes; if it fails, the connection is gone and the next read says so.
            drop(connection.conn.shutdown(std::net::Shutdown::Write));
        }
    }

    fn handle(&mut self, token: usize, request: &Request) {
        let known = match request.path.as_str() {
            "/v1/chat/completions" => ("POST", Some(Api::Chat)),
            "/v1/completions" => ("POST", Some(Api::Completions)),
            "/v1/models" | "/health" | "/ping" | "/version" | "/metrics" | "/truth" | "/clock" => {
                ("GET", None)
            }
            _ => return self.reply(token, 404, JSON, r#"{"detail":"Not Found"}"#, request.keep_alive),
        };
        let (method, api) = known;
        if request.method != method {
            let body = r#"{"detail":"Method Not Allowed"}"#;
            return self.reply_allowing(token, 405, JSON, body, request.keep_alive, Some(method));
        }
        match api {
            Some(api) => self.generate(token, request, api),
            None => self.inform(token, request),
        }
    }

    fn inform(&mut self, token: usize, request: &Request) {
        let now = mono_ns();
        let (mut status, mut content_type) = (200, JSON);
        let body = match request.path.as_str() {
            "/v1/models" => self.models(),
            "/version" => {
                let version = format!("{} simulated", env!("CARGO_PKG_VERSION"));
                serde_json::json!({"version": version, "profile": self.config.profile.name}).to_string()
            }
            "/metrics" => {
                content_type = "text/plain; version=0.0.4; charset=utf-8";
                self.metrics.render(&self.config.model, &self.model.counters())
            }
            "/clock" => format!(r#"{{"mono_ns":{now}}}"#),
            "/truth" => match window(&request.query) {
                Ok((from, to)) => self.truth.report(from, to, now),
                Err(message) => {
                    status = 400;
                    ApiError { status, kind: "BadRequestError", message, param: None }.json()
                }
            },
            // Health: an empty body says enough.
            _ => {
                content_type = "";
                String::new()
            }
        };
        self.reply(token, status, content_type, &body, request.keep_alive);
    }

    fn models(&self) -> String {
        serde_json::json!({"object": "list", "data": [{
            "id": self.config.model, "object": "model", "created": self.started,
            "owned_by": "touchstone-simulated", "root": self.config.model, "parent": null,
            "max_model_len": self.model.longest(),
        }]})
        .to_string()
    }

    fn generate(&mut self, token: usize, request: &Request, api: Api) {
        self.stats.requests += 1;
        let profile = &self.config.profile;
        let read =
            openai::read(api, &request.body, &self.config.model, profile.block_size, self.model.longest());
        let generation = match read {
            Ok(generation) => generation,
            Err(error) => {
                let refused = (request.arrival, false);
                return self.refuse_generation(token, refused, Outcome::Invalid, &error, request.keep_alive);
            }
        };
        let received = (request.arrival, generation.stream);
        let overload = self.config.faults.reject_when_waiting;
        if let Some(overload) = overload.filter(|o| self.model.waiting() > o.waiting_above) {
            let error = ApiError::overloaded(overload.status);
            return self.refuse_generation(token, received, Outcome::Rejected, &error, request.keep_alive);
        }
        let drawn = self.config.faults.draw(self.config.seed, self.next_job, generation.max_tokens);
        if drawn.error {
            self.metrics.fault("error");
            self.next_job += 1;
            let error = ApiError::internal();
            return self.refuse_generation(token, received, Outcome::Failed, &error, request.keep_alive);
        }
        self.begin(token, request, generation, drawn);
    }

    /// Hands a valid request to the scheduler and opens the answer.
    fn begin(&mut self, token: usize, request: &Request, generation: Generation, drawn: Drawn) {
        let id = self.next_job;
        self.next_job += 1;
        let (prompt, max_tokens) = (&generation.prompt, generation.max_tokens);
        let now = mono_ns();
        let admission = self.model.submit(now, id, prompt.tokens(), prompt.block_hashes(), max_tokens);
        if admission != Admission::Accepted {
            // Lengths were checked and ids are unique, so this is a fault of this program, not of the client.
            let received = (request.arrival, generation.stream);
            let error = ApiError::internal();
            return self.refuse_generation(token, received, Outcome::Failed, &error, request.keep_alive);
        }
        let record = self.truth.receive(request.arrival, generation.stream);
        let delimiter = if request.chunked_answer { Delimiter::Chunked } else { Delimiter::Close };
        let keep_alive = request.keep_alive && (request.chunked_answer || !generation.stream);
        let public_id = SeededRng::keyed(self.config.seed, id).next_u64();
        let (model, fingerprint) = (&self.config.model, &self.fingerprint);
        let answer =
            Answer::new(generation.api, public_id, unix_seconds(), model, fingerprint, prompt.tokens());
        let delay = nanos(self.config.faults.slow_headers);
        let job = Job {
            conn: token,
            record,
            generation,
            answer,
            drawn,
            delimiter,
            keep_alive,
            text_seed: self.config.seed,
            drop_done: self.config.faults.drop_done,
            head_sent: false,
            held_until: (delay > 0).then(|| now.saturating_add(delay)),
            held_forever: false,
            sent: 0,
            text: String::new(),
            queue: VecDeque::new(),
        };
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.job = Some(id);
        }
        match job.held_until {
            Some(until) => {
                self.metrics.fault("slow_headers");
                self.timers.insert((until, id));
                self.jobs.insert(id, job);
            }
            None => {
                self.jobs.insert(id, job);
                self.open_answer(id);
            }
        }
    }

    /// Ends an answer's hold and sends its head if that is still to do. Returns whether the answer is still wanted.
    fn open_answer(&mut self, id: u64) -> bool {
        let Some(job) = self.jobs.get_mut(&id) else { return false };
        job.held_until = None;
        if job.head_sent {
            return true;
        }
        let (token, opening) = (job.conn, job.opening(unix_seconds()));
        self.send(token, &opening, None)
    }

    /// Sends what can be sent of an answer.
    fn pump(&mut self, id: u64) {
        loop {
            let Some(job) = self.jobs.get_mut(&id) else { return };
            let (token, record, reason) = (job.conn, job.record, job.generation.finish_reason);
            match job.next(mono_ns(), unix_seconds()) {
                // An answer that is not streamed may have swallowed an emission and have further ones.
                Output::Wait if !job.queue.is_empty() && job.held_until.is_none() => {}
                Output::Wait => return,
                Output::HoldUntil(at) => {
                    self.metrics.fault("stall");
                    self.timers.insert((at, id));
                    return;
                }
                Output::HoldForever => {
                    self.metrics.fault("stall");
                    return;
                }
                Output::Content(bytes, tokens) => {
                    if !self.send(token, &bytes, Some(Mark { record, tokens, last: None })) {
                        return;
                    }
                }
                Output::Last(bytes, tokens) => {
                    self.end_job(id, token);
                    if self.send(token, &bytes, Some(Mark { record, tokens, last: Some(reason) })) {
                        self.take_requests(token);
                    }
                    return;
                }
                Output::Fail(bytes) => {
                    self.metrics.fault("error_in_stream");
                    self.end_job(id, token);
                    self.settle(record, Outcome::Failed, "error");
                    if self.send(token, &bytes, None) {
                        self.take_requests(token);
                    }
                    return;
                }
                Output::Cut => {
                    self.metrics.fault("cut");
                    self.end_job(id, token);
                    self.settle(record, Outcome::Cut, "error");
                    if let Some(connection) = self.connections.get_mut(&token) {
                        connection.closing = true;
                    }
                    self.flush(token);
                    return;
                }
            }
        }
    }

    /// The connection has no answer in the making any more; it closes after what is sent if it was to.
    fn end_job(&mut self, id: u64, token: usize) {
        self.model.cancel(id);
        let Some(job) = self.jobs.remove(&id) else { return };
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.job = None;
            connection.closing |= !job.keep_alive;
        }
    }

    fn refuse_generation(
        &mut self,
        token: usize,
        (arrival, stream): (Arrival, bool),
        outcome: Outcome,
        error: &ApiError,
        keep_alive: bool,
    ) {
        let record = self.truth.receive(arrival, stream);
        self.settle(record, outcome, "error");
        self.reply(token, error.status, JSON, &error.json(), keep_alive);
    }

    fn reply(&mut self, token: usize, status: u16, content_type: &str, body: &str, keep_alive: bool) {
        self.reply_allowing(token, status, content_type, body, keep_alive, None);
    }

    fn reply_allowing(
        &mut self,
        token: usize,
        status: u16,
        content_type: &str,
        body: &str,
        keep_alive: bool,
        allow: Option<&str>,
    ) {
        let length = Delimiter::Length(body.len());
        let mut out = reply::head(status, content_type, length, keep_alive, unix_seconds(), allow);
        out.extend_from_slice(body.as_bytes());
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.closing |= !keep_alive;
        }
        self.send(token, &out, None);
    }

    /// Sends bytes as far as the kernel takes them. Returns whether the connection is still there.
    fn send(&mut self, token: usize, bytes: &[u8], mark: Option<Mark>) -> bool {
        let Some(connection) = self.connections.get_mut(&token) else { return false };
        connection.enqueue(bytes, mark);
        self.flush(token)
    }

    fn flush(&mut self, token: usize) -> bool {
        let Some(connection) = self.connections.get_mut(&token) else { return false };
        let mut accepted = std::mem::take(&mut self.accepted);
        let result = connection.flush(&mut accepted);
        let closing = connection.closing;
        for (mark, at) in accepted.drain(..) {
            self.written(mark, at);
        }
        self.accepted = accepted;
        match result {
            Err(_) => self.drop_connection(token, Outcome::Cancelled),
            Ok(left) if left > MAX_UNSENT => {
                self.metrics.slow_readers_cut += 1;
                self.drop_connection(token, Outcome::Cut);
            }
            Ok(0) if closing => self.drop_connection(token, Outcome::Cancelled),
            Ok(_) => return true,
        }
        false
    }

    /// The kernel accepted the end of a content chunk.
    fn written(&mut self, mark: Mark, at: u64) {
        match self.truth.content_written(mark.record, at, mark.tokens) {
            Some(Written::First(ns)) => self.metrics.first_token(ns),
            Some(Written::Gap(ns)) => self.metrics.gap(ns),
            None => {}
        }
        if let Some(reason) = mark.last {
            self.settle(mark.record, Outcome::Completed, reason);
        }
    }

    fn settle(&mut self, record: u64, outcome: Outcome, reason: &'static str) {
        let end_to_end = self.truth.end(record, outcome);
        *match outcome {
            Outcome::Open => return,
            Outcome::Completed => &mut self.stats.completed,
            Outcome::Invalid => &mut self.stats.invalid,
            Outcome::Rejected => &mut self.stats.rejected,
            Outcome::Failed => &mut self.stats.failed,
            Outcome::Cut => &mut self.stats.cut,
            Outcome::Cancelled => &mut self.stats.cancelled,
        } += 1;
        if !matches!(outcome, Outcome::Invalid | Outcome::Rejected) {
            self.metrics.finished(reason);
        }
        if outcome == Outcome::Completed {
            end_to_end.into_iter().for_each(|ns| self.metrics.end_to_end(ns));
        }
    }

    /// Closes a connection; an answer in the making, or one not completely sent, ends as `outcome`.
    fn drop_connection(&mut self, token: usize, outcome: Outcome) {
        let Some(connection) = self.connections.remove(&token) else { return };
        let mut records = connection.unsent_ends();
        if let Some(id) = connection.job {
            self.model.cancel(id);
            records.extend(self.jobs.remove(&id).map(|job| job.record));
        }
        for record in records {
            self.settle(record, outcome, "abort");
        }
    }
}

/// The window of a query such as `from_ns=1&to_ns=2`; either bound may be left out.
fn window(query: &str) -> Result<(u64, u64), String> {
    let (mut from, mut to) = (0, u64::MAX);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let bound = match name {
            "from_ns" => &mut from,
            "to_ns" => &mut to,
            _ => return Err(format!("unknown parameter `{name}`")),
        };
        *bound = value.parse().map_err(|_| format!("{name} must be whole nanoseconds, got `{value}`"))?;
    }
    Ok((from, to))
}
