//! An answer in the making: turns the scheduler's emissions into bytes, and commits the faults drawn for it.

use std::collections::VecDeque;
use std::time::Duration;

use touchstone_sim::Emission;

use crate::faults::Drawn;
use crate::openai::{Answer, Api, ApiError, DONE, Generation};
use crate::reply::{self, Delimiter};
use crate::text;

/// What to do next for an answer.
#[derive(Debug)]
pub(crate) enum Output {
    /// Nothing until the next emission.
    Wait,
    /// Nothing until this instant, ns.
    HoldUntil(u64),
    /// Nothing ever again.
    HoldForever,
    /// Send; the bytes end a content chunk of so many tokens.
    Content(Vec<u8>, u32),
    /// Send; as before, and the answer is complete.
    Last(Vec<u8>, u32),
    /// Send: the answer ends with an error.
    Fail(Vec<u8>),
    /// Close the connection.
    Cut,
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) conn: usize,
    /// Number in the truth log.
    pub(crate) record: u64,
    pub(crate) generation: Generation,
    pub(crate) answer: Answer,
    pub(crate) drawn: Drawn,
    pub(crate) delimiter: Delimiter,
    pub(crate) keep_alive: bool,
    /// The text follows from this and the prompt.
    pub(crate) text_seed: u64,
    pub(crate) drop_done: bool,
    pub(crate) head_sent: bool,
    /// Nothing is sent before this instant.
    pub(crate) held_until: Option<u64>,
    pub(crate) held_forever: bool,
    pub(crate) sent: u32,
    /// Text of an answer that is not streamed.
    pub(crate) text: String,
    pub(crate) queue: VecDeque<Emission>,
}

impl Job {
    /// The head of a stream, with what vLLM sends at once.
    pub(crate) fn opening(&mut self, unix_seconds: u64) -> Vec<u8> {
        self.head_sent = true;
        if !self.generation.stream {
            return Vec::new();
        }
        let mut out = reply::head(
            200,
            "text/event-stream; charset=utf-8",
            self.delimiter,
            self.keep_alive,
            unix_seconds,
            None,
        );
        if self.generation.api == Api::Chat {
            reply::part(&mut out, self.delimiter, &self.answer.role_event());
        }
        out
    }

    /// The next thing to do, given the instant and the date.
    pub(crate) fn next(&mut self, now: u64, unix_seconds: u64) -> Output {
        if self.held_forever {
            self.queue.clear();
            return Output::Wait;
        }
        if self.held_until.is_some_and(|until| until > now) {
            // The timer for it has been set already.
            return Output::Wait;
        }
        let Some(&emission) = self.queue.front() else { return Output::Wait };
        let after = self.sent + emission.tokens;
        if self.drawn.cut_after.is_some_and(|at| after > at) {
            return Output::Cut;
        }
        if self.drawn.error_after.is_some_and(|at| after > at) {
            return Output::Fail(self.error(unix_seconds));
        }
        if let Some(stall) = self.drawn.stall.take_if(|stall| self.sent >= stall.after_tokens) {
            let Some(hold) = stall.hold else {
                self.held_forever = true;
                return Output::HoldForever;
            };
            let until = now.saturating_add(nanos(hold));
            self.held_until = Some(until);
            return Output::HoldUntil(until);
        }
        self.queue.pop_front();
        self.send(emission, unix_seconds)
    }

    fn send(&mut self, emission: Emission, unix_seconds: u64) -> Output {
        let mut words = String::new();
        let prompt_hash = self.generation.prompt.hash();
        text::answer(&mut words, self.text_seed, prompt_hash, self.sent, emission.tokens);
        self.sent += emission.tokens;
        let last = emission.finished.is_some();
        if !self.generation.stream {
            self.text.push_str(&words);
            if !last {
                return Output::Wait;
            }
            let body = self.answer.whole(&self.text, self.generation.finish_reason, self.sent);
            return Output::Last(self.whole(200, &body, unix_seconds), self.sent);
        }
        let finish = last.then_some(self.generation.finish_reason);
        let usage = self.generation.continuous_usage.then_some(self.sent);
        let mut out = Vec::new();
        reply::part(&mut out, self.delimiter, &self.answer.content_event(&words, finish, usage));
        if !last {
            return Output::Content(out, emission.tokens);
        }
        if self.generation.include_usage {
            reply::part(&mut out, self.delimiter, &self.answer.usage_event(self.sent));
        }
        self.finish_stream(&mut out);
        Output::Last(out, emission.tokens)
    }

    fn error(&self, unix_seconds: u64) -> Vec<u8> {
        let error = ApiError::internal();
        if !self.generation.stream {
            return self.whole(error.status, &error.json(), unix_seconds);
        }
        let mut out = Vec::new();
        reply::part(&mut out, self.delimiter, &format!("data: {}\n\n", error.json()));
        self.finish_stream(&mut out);
        out
    }

    fn finish_stream(&self, out: &mut Vec<u8>) {
        if !self.drop_done {
            reply::part(out, self.delimiter, DONE);
        }
        reply::end(out, self.delimiter);
    }

    fn whole(&self, status: u16, body: &str, unix_seconds: u64) -> Vec<u8> {
        let length = Delimiter::Length(body.len());
        let mut out = reply::head(status, "application/json", length, self.keep_alive, unix_seconds, None);
        out.extend_from_slice(body.as_bytes());
        out
    }
}

/// A duration in nanoseconds, cut to what 64 bits hold.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
