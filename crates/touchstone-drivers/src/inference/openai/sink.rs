//! The server side with the smallest right answers: as many chunks as tokens were asked for, at once.

use touchstone_load::Sink;

use super::OpenAiKind;
use crate::decimal;

/// Most bytes of a request that is waited for; a longer one is dropped.
const REQUEST_LIMIT: usize = 64 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct OpenAiSink {
    kind: OpenAiKind,
    output_tokens: u32,
    buffer: Vec<u8>,
}

impl OpenAiSink {
    pub(super) fn new(kind: OpenAiKind, output_tokens: u32) -> Self {
        Self { kind, output_tokens, buffer: Vec::new() }
    }

    fn answer(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        );
        let chat = self.kind == OpenAiKind::Chat;
        if chat {
            event(out, br#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#);
        }
        let mut chunk = Vec::with_capacity(160);
        for token in 1..=self.output_tokens {
            chunk.clear();
            chunk.extend_from_slice(if chat {
                br#"{"choices":[{"index":0,"delta":{"content":" a"},"finish_reason":"#
            } else {
                br#"{"choices":[{"index":0,"text":" a","finish_reason":"#
            });
            let last = token == self.output_tokens;
            chunk.extend_from_slice(if last { br#""length"}]"# } else { b"null}]" });
            push_usage(&mut chunk, token);
            event(out, &chunk);
        }
        chunk.clear();
        chunk.extend_from_slice(br#"{"choices":[]"#);
        push_usage(&mut chunk, self.output_tokens);
        event(out, &chunk);
        event(out, b"[DONE]");
        out.extend_from_slice(b"0\r\n\r\n");
    }
}

/// Appends the usage member and the closing brace.
fn push_usage(chunk: &mut Vec<u8>, tokens: u32) {
    chunk.extend_from_slice(br#","usage":{"prompt_tokens":1,"completion_tokens":"#);
    decimal::push(chunk, u64::from(tokens));
    chunk.extend_from_slice(b"}}");
}

/// Appends one event as one chunk of the body.
fn event(out: &mut Vec<u8>, data: &[u8]) {
    out.extend_from_slice(format!("{:x}\r\ndata: ", data.len() + 8).as_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n\r\n");
}

/// The length of the complete request at the front of `bytes`; none when it is not complete.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let head = memchr::memmem::find(bytes, b"\r\n\r\n")? + 4;
    let length = bytes[..head]
        .split(|byte| *byte == b'\n')
        .find_map(|line| {
            let colon = memchr::memchr(b':', line)?;
            line[..colon]
                .eq_ignore_ascii_case(b"content-length")
                .then(|| decimal::parse(line[colon + 1..].trim_ascii()))?
        })
        .unwrap_or(0);
    let whole = head.checked_add(usize::try_from(length).ok()?)?;
    (bytes.len() >= whole).then_some(whole)
}

impl Sink for OpenAiSink {
    fn open(&mut self, _out: &mut Vec<u8>) {}

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.buffer.extend_from_slice(bytes);
        while let Some(length) = request_length(&self.buffer) {
            self.answer(out);
            self.buffer.drain(..length);
        }
        if self.buffer.len() > REQUEST_LIMIT {
            self.buffer = Vec::new();
        }
    }
}
