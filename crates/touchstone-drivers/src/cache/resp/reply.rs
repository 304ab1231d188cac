//! An incremental reader of RESP replies, which passes over values instead of keeping them.
//!
//! A nested reply needs no stack: it is complete when as many elements came as its headers announced, so memory does
//! not grow with depth.

use memchr::memchr;

/// Most bytes of a line: of a simple string, an error, a number or a length.
const LINE_LIMIT: usize = 64 * 1024;
/// Most bytes of a bulk string: the protocol's own limit.
const BULK_LIMIT: u64 = 512 * 1024 * 1024;
/// Most elements that a reply may announce.
const ELEMENT_LIMIT: u64 = 1 << 24;
/// Bytes kept of an error's text.
const ERROR_TEXT_LIMIT: usize = 512;

/// A complete reply, by its outermost type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// A simple string, a number or a truth value.
    Simple,
    /// An error; its text is [`Reader::error_text`].
    Error,
    /// A bulk string.
    Bulk,
    /// Nothing, in any of the three forms of it.
    Null,
    /// An array, set or map.
    Array,
    /// A push message or an attribute: the answer to no command.
    OutOfBand,
}

/// The bytes are no RESP reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReplyError {
    #[error("a reply begins with `{}`", std::ascii::escape_default(*.0))]
    Type(u8),
    #[error("a reply line does not end with CR LF")]
    LineEnd,
    #[error("a length is not a number or is beyond its limit")]
    Length,
    #[error("a line is longer than {LINE_LIMIT} bytes")]
    LongLine,
    #[error("a value is longer or shorter than its length")]
    Value,
}

/// The reader; one per connection.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The part of a line that came in earlier reads.
    line: Vec<u8>,
    /// Bytes left of a bulk string with its CR LF.
    bulk: u64,
    /// The type of the reply being read.
    outer: Option<Reply>,
    /// Elements still to come for it.
    elements: u64,
    /// Text of the last error.
    error: Vec<u8>,
}

impl Reader {
    /// Whether a reply has begun and is not complete.
    pub(super) fn mid_reply(&self) -> bool {
        self.outer.is_some() || !self.line.is_empty()
    }

    /// The text of the last [`Reply::Error`], without its sign.
    pub(super) fn error_text(&self) -> &[u8] {
        &self.error
    }

    /// Takes the next reply off `input`; none when more bytes are needed. After an error the reader is of no use.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Reply>, ReplyError> {
        loop {
            if self.bulk > 0 {
                if !self.take_bulk(input)? {
                    return Ok(None);
                }
            } else {
                let Some(&first) = input.first() else { return Ok(None) };
                if self.line.is_empty() && !b"+-:$*_#,(!=~>%|".contains(&first) {
                    return Err(ReplyError::Type(first));
                }
                let Some(end) = memchr(b'\n', input) else {
                    if self.line.len() + input.len() > LINE_LIMIT {
                        return Err(ReplyError::LongLine);
                    }
                    self.line.extend_from_slice(input);
                    *input = &[];
                    return Ok(None);
                };
                if self.line.len() + end > LINE_LIMIT {
                    return Err(ReplyError::LongLine);
                }
                let (piece, rest) = (&input[..end], &input[end + 1..]);
                *input = rest;
                if self.line.is_empty() {
                    self.take_line(piece)?;
                } else {
                    let mut line = std::mem::take(&mut self.line);
                    line.extend_from_slice(piece);
                    let taken = self.take_line(&line);
                    line.clear();
                    self.line = line;
                    taken?;
                }
            }
            if self.elements == 0
                && self.bulk == 0
                && let Some(reply) = self.outer.take()
            {
                return Ok(Some(reply));
            }
        }
    }

    /// Takes a line without its LF.
    fn take_line(&mut self, line: &[u8]) -> Result<(), ReplyError> {
        let [kind, value @ .., b'\r'] = line else { return Err(ReplyError::LineEnd) };
        if self.outer.is_none() {
            self.elements = 1;
        }
        let (reply, more) = match kind {
            b'+' | b':' | b'#' | b',' | b'(' => (Reply::Simple, 0),
            b'_' => (Reply::Null, 0),
            b'-' => {
                if self.outer.is_none() {
                    self.error.clear();
                    self.error.extend_from_slice(&value[..value.len().min(ERROR_TEXT_LIMIT)]);
                }
                (Reply::Error, 0)
            }
            b'$' | b'=' | b'!' => {
                if value == b"-1" {
                    (Reply::Null, 0)
                } else {
                    self.bulk = length(value, BULK_LIMIT)? + 2;
                    if *kind == b'!' && self.outer.is_none() {
                        self.error.clear();
                        self.error.extend_from_slice(b"ERR (a blob error)");
                    }
                    (if *kind == b'!' { Reply::Error } else { Reply::Bulk }, 0)
                }
            }
            b'*' if value == b"-1" => (Reply::Null, 0),
            b'*' | b'~' => (Reply::Array, length(value, ELEMENT_LIMIT)?),
            b'%' => (Reply::Array, 2 * length(value, ELEMENT_LIMIT)?),
            b'>' => (Reply::OutOfBand, length(value, ELEMENT_LIMIT)?),
            b'|' => (Reply::OutOfBand, 2 * length(value, ELEMENT_LIMIT)?),
            other => return Err(ReplyError::Type(*other)),
        };
        self.outer.get_or_insert(reply);
        // This element came; those that it announced are still to come. `elements` is at least 1 here.
        self.elements = self.elements - 1 + more;
        if self.elements > ELEMENT_LIMIT { Err(ReplyError::Length) } else { Ok(()) }
    }

    /// Passes over bytes of a bulk string; whether it is complete.
    fn take_bulk(&mut self, input: &mut &[u8]) -> Result<bool, ReplyError> {
        let taken = usize::try_from(self.bulk).unwrap_or(usize::MAX).min(input.len());
        let left = self.bulk - taken as u64;
        if left < 2 {
            let from = taken.saturating_sub(2 - left as usize);
            for (at, byte) in input[..taken].iter().enumerate().skip(from) {
                let expected = match self.bulk - at as u64 {
                    2 => b'\r',
                    1 => b'\n',
                    _ => continue,
                };
                if *byte != expected {
                    return Err(ReplyError::Value);
                }
            }
        }
        *input = &input[taken..];
        self.bulk = left;
        Ok(left == 0)
    }
}

fn length(value: &[u8], limit: u64) -> Result<u64, ReplyError> {
    crate::decimal::parse(value).filter(|length| *length <= limit).ok_or(ReplyError::Length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], step: usize) -> Result<Vec<Reply>, ReplyError> {
        let mut reader = Reader::default();
        let mut replies = Vec::new();
        for mut input in bytes.chunks(step) {
            while let Some(reply) = reader.next(&mut input)? {
                replies.push(reply);
            }
            assert!(input.is_empty());
        }
        assert!(reader.line.len() <= LINE_LIMIT);
        Ok(replies)
    }

    #[test]
    fn replies_of_every_type_in_any_pieces() {
        use Reply::*;
        for (bytes, expected) in [
            ("+OK\r\n", vec![Simple]),
            ("+\r\n", vec![Simple]),
            (":-7\r\n:12\r\n", vec![Simple, Simple]),
            ("-ERR no\r\n", vec![Error]),
            ("$3\r\nabc\r\n", vec![Bulk]),
            ("$0\r\n\r\n", vec![Bulk]),
            ("$4\r\n\r\n\r\n\r\n+OK\r\n", vec![Bulk, Simple]),
            ("$-1\r\n*-1\r\n_\r\n", vec![Null, Null, Null]),
            ("*0\r\n*2\r\n$1\r\na\r\n:1\r\n", vec![Array, Array]),
            ("*2\r\n*1\r\n*1\r\n$1\r\na\r\n*0\r\n+OK\r\n", vec![Array, Simple]),
            ("%1\r\n+a\r\n+b\r\n~1\r\n:1\r\n", vec![Array, Array]),
            ("#t\r\n,1.5\r\n(123\r\n=5\r\ntxt:a\r\n", vec![Simple, Simple, Simple, Bulk]),
            (">2\r\n+message\r\n+x\r\n+OK\r\n", vec![OutOfBand, Simple]),
            ("!5\r\nERR x\r\n", vec![Error]),
            ("*1\r\n-inner\r\n", vec![Array]),
        ] {
            for step in 1..=bytes.len() {
                assert_eq!(
                    read(bytes.as_bytes(), step),
                    Ok(expected.clone()),
                    "{bytes:?} in pieces of {step}"
                );
            }
        }
    }

    #[test]
    fn malformed_replies_are_refused_alike_in_any_pieces() {
        for (bytes, expected) in [
            ("HTTP/1.1 400 Bad Request\r\n\r\n", ReplyError::Type(b'H')),
            ("\r\n", ReplyError::Type(b'\r')),
            ("+OK\n", ReplyError::LineEnd),
            ("$x\r\n", ReplyError::Length),
            ("$-2\r\n", ReplyError::Length),
            ("$99999999999\r\n", ReplyError::Length),
            ("*99999999999\r\n", ReplyError::Length),
            ("*16777216\r\n*16777216\r\n", ReplyError::Length),
            ("$3\r\nabcd\r\n", ReplyError::Value),
            ("$3\r\nabc\r\r", ReplyError::Value),
        ] {
            for step in 1..=bytes.len() {
                assert_eq!(
                    read(bytes.as_bytes(), step),
                    Err(expected.clone()),
                    "{bytes:?} in pieces of {step}"
                );
            }
        }
        let long = format!("+{}", "a".repeat(LINE_LIMIT));
        assert_eq!(read(long.as_bytes(), long.len()), Err(ReplyError::LongLine));
        assert_eq!(read(long.as_bytes(), 1000), Err(ReplyError::LongLine));
    }

    #[test]
    fn depth_costs_no_memory() {
        let deep = "*1\r\n".repeat(100_000) + ":1\r\n";
        assert_eq!(read(deep.as_bytes(), deep.len()), Ok(vec![Reply::Array]));
    }

    #[test]
    fn large_values_are_passed_over() {
        let mut reader = Reader::default();
        assert_eq!(reader.next(&mut b"$536870912\r\n".as_slice()), Ok(None));
        let piece = [b'x'; 4096];
        for _ in 0..1000 {
            assert_eq!(reader.next(&mut piece.as_slice()), Ok(None));
        }
        assert!(reader.line.capacity() <= LINE_LIMIT);
        assert!(reader.mid_reply());
    }
}
