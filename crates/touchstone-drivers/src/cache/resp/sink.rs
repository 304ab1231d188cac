//! The server side with the smallest right answers: every key holds the same value.

use memchr::memchr;
use touchstone_load::Sink;

use crate::decimal;

/// Most bytes of a command that is waited for.
const COMMAND_LIMIT: usize = 128 * 1024 * 1024;
/// Most words of a command.
const WORD_LIMIT: u64 = 1024;

#[derive(Debug)]
pub(super) struct RespSink {
    /// The reply to GET.
    found: Vec<u8>,
    buffer: Vec<u8>,
}

impl RespSink {
    pub(super) fn new(value: &[u8]) -> Self {
        let mut found = b"$".to_vec();
        decimal::push(&mut found, value.len() as u64);
        found.extend_from_slice(b"\r\n");
        found.extend_from_slice(value);
        found.extend_from_slice(b"\r\n");
        Self { found, buffer: Vec::new() }
    }

    /// Answers the complete commands at the front of `bytes`; returns the number of bytes used.
    fn answer(&self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let mut used = 0;
        while used < bytes.len() {
            match command(&bytes[used..]) {
                Command::Complete { length, name } => {
                    let reply: &[u8] = match name {
                        name if name.eq_ignore_ascii_case(b"GET") => &self.found,
                        name if name.eq_ignore_ascii_case(b"PING") => b"+PONG\r\n",
                        _ => b"+OK\r\n",
                    };
                    out.extend_from_slice(reply);
                    used += length;
                }
                Command::Incomplete => break,
                Command::Malformed => {
                    out.extend_from_slice(b"-ERR Protocol error\r\n");
                    return bytes.len();
                }
            }
        }
        used
    }
}

enum Command<'a> {
    Complete { length: usize, name: &'a [u8] },
    Incomplete,
    Malformed,
}

/// Reads the command at the front of `bytes`.
fn command(bytes: &[u8]) -> Command<'_> {
    let mut at = 0;
    let words = match header(bytes, &mut at, b'*') {
        Some(Ok(words)) if words <= WORD_LIMIT => words,
        Some(_) => return Command::Malformed,
        None => return Command::Incomplete,
    };
    let mut name: &[u8] = &[];
    for word in 0..words {
        let length = match header(bytes, &mut at, b'$') {
            Some(Ok(length)) if length <= COMMAND_LIMIT as u64 => length as usize,
            Some(_) => return Command::Malformed,
            None => return Command::Incomplete,
        };
        if bytes.len() < at + length + 2 {
            return Command::Incomplete;
        }
        if word == 0 {
            name = &bytes[at..at + length];
        }
        at += length + 2;
    }
    Command::Complete { length: at, name }
}

/// Reads a line of `sign` and a number, moving `at` behind it; none when it is incomplete.
fn header(bytes: &[u8], at: &mut usize, sign: u8) -> Option<Result<u64, ()>> {
    let rest = &bytes[*at..];
    if rest.first().is_some_and(|first| *first != sign) {
        return Some(Err(()));
    }
    let end = memchr(b'\n', rest)?;
    *at += end + 1;
    let number = rest[1..end].strip_suffix(b"\r").and_then(decimal::parse);
    Some(number.ok_or(()))
}

impl Sink for RespSink {
    fn open(&mut self, _out: &mut Vec<u8>) {}

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.buffer.is_empty() {
            let used = self.answer(bytes, out);
            self.buffer.extend_from_slice(&bytes[used..]);
        } else {
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.extend_from_slice(bytes);
            let used = self.answer(&buffer, out);
            buffer.drain(..used);
            self.buffer = buffer;
        }
        if self.buffer.len() > COMMAND_LIMIT {
            self.buffer = Vec::new();
        }
    }
}
