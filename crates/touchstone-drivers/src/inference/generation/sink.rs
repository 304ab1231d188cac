//! The server side with the smallest right answers: as many chunks as tokens were asked for, at once.

use touchstone_load::Sink;

use super::{Dialect, GenerationOptions};
use crate::decimal;

/// Most bytes of a request that is waited for; a longer one is dropped.
const REQUEST_LIMIT: usize = 64 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct GenerationSink {
    dialect: Dialect,
    stream: bool,
    output_tokens: u32,
    buffer: Vec<u8>,
}

impl GenerationSink {
    pub(super) fn new(options: &GenerationOptions) -> Self {
        Self {
            dialect: options.dialect,
            stream: options.stream,
            output_tokens: options.requests.asked(0).output_tokens,
            buffer: Vec::new(),
        }
    }

    fn answer(&self, out: &mut Vec<u8>) {
        if !self.stream {
            let body = self.document();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
            out.extend_from_slice(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes());
            return;
        }
        let content_type = match self.dialect {
            Dialect::FastChatWorker => "application/octet-stream",
            _ => "text/event-stream",
        };
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n");
        out.extend_from_slice(head.as_bytes());
        match self.dialect {
            Dialect::Chat | Dialect::Completions => self.chunks(out),
            _ => self.events(out),
        }
        out.extend_from_slice(b"0\r\n\r\n");
    }

    /// The whole answer as one document.
    fn document(&self) -> String {
        let n = self.output_tokens;
        let usage = format!(r#""usage":{{"prompt_tokens":1,"completion_tokens":{n}}}"#);
        match self.dialect {
            Dialect::Chat => {
                format!(r#"{{"choices":[{{"message":{{"content":"a"}},"finish_reason":"length"}}],{usage}}}"#)
            }
            Dialect::Completions => {
                format!(r#"{{"choices":[{{"text":"a","finish_reason":"length"}}],{usage}}}"#)
            }
            Dialect::Responses => {
                let output = r#"[{"type":"message","content":[{"type":"output_text","text":"a"}]}]"#;
                format!(r#"{{"output":{output},"usage":{{"input_tokens":1,"output_tokens":{n}}}}}"#)
            }
            Dialect::Embeddings => r#"{"data":[{"embedding":[0.5]}],"usage":{"prompt_tokens":1}}"#.to_owned(),
            Dialect::Tgi => {
                format!(r#"{{"generated_text":"a","details":{{"generated_tokens":{n}}}}}"#)
            }
            Dialect::TritonGenerate => r#"{"model_name":"m","text_output":"a"}"#.to_owned(),
            Dialect::TritonInfer => {
                r#"{"model_name":"m","outputs":[{"name":"text_output","data":["a"]}]}"#.to_owned()
            }
            Dialect::LlamaCpp | Dialect::FastChatWorker => {
                format!(r#"{{"content":"a","stop":true,"tokens_predicted":{n},"tokens_evaluated":1}}"#)
            }
        }
    }

    /// One event a token, in the dialects whose events say all of it.
    fn events(&self, out: &mut Vec<u8>) {
        let mut text = String::new();
        for token in 1..=self.output_tokens {
            let last = token == self.output_tokens;
            let data = match self.dialect {
                Dialect::Tgi => {
                    let (whole, details) = if last {
                        (r#""a""#, format!(r#"{{"generated_tokens":{token},"input_length":1}}"#))
                    } else {
                        ("null", "null".to_owned())
                    };
                    let token = r#"{"id":1,"text":" a","special":false}"#;
                    format!(r#"{{"token":{token},"generated_text":{whole},"details":{details}}}"#)
                }
                Dialect::LlamaCpp => format!(
                    r#"{{"content":" a","stop":false,"tokens_predicted":{token},"tokens_evaluated":1}}"#
                ),
                Dialect::FastChatWorker => {
                    text.push_str(" a");
                    let usage = format!(r#"{{"prompt_tokens":1,"completion_tokens":{token}}}"#);
                    format!(r#"{{"text":"{text}","error_code":0,"usage":{usage}}}"#)
                }
                Dialect::Responses => r#"{"type":"response.output_text.delta","delta":" a"}"#.to_owned(),
                _ => r#"{"model_name":"m","text_output":" a"}"#.to_owned(),
            };
            self.frame(out, data.as_bytes());
        }
        match self.dialect {
            Dialect::LlamaCpp => {
                let n = self.output_tokens;
                let data =
                    format!(r#"{{"content":"","stop":true,"tokens_predicted":{n},"tokens_evaluated":1}}"#);
                event(out, data.as_bytes());
            }
            Dialect::Responses => {
                let usage = format!(r#"{{"input_tokens":1,"output_tokens":{}}}"#, self.output_tokens);
                let data = format!(r#"{{"type":"response.completed","response":{{"usage":{usage}}}}}"#);
                event(out, data.as_bytes());
            }
            _ => {}
        }
    }

    fn frame(&self, out: &mut Vec<u8>, data: &[u8]) {
        if self.dialect == Dialect::FastChatWorker {
            out.extend_from_slice(format!("{:x}\r\n", data.len() + 1).as_bytes());
            out.extend_from_slice(data);
            out.extend_from_slice(b"\0\r\n");
        } else {
            event(out, data);
        }
    }

    /// The chunks of chat completions and completions.
    fn chunks(&self, out: &mut Vec<u8>) {
        let chat = self.dialect == Dialect::Chat;
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

impl Sink for GenerationSink {
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
