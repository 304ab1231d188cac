//! An incremental reader of what a NATS server sends, which keeps only the first bytes of messages.

use memchr::memchr;

use super::STAMP_BYTES;

/// Most bytes of a protocol line. INFO grows with the number of servers in a cluster.
const LINE_LIMIT: usize = 1024 * 1024;
/// Most bytes of a message: the server's own greatest setting.
const MESSAGE_LIMIT: u64 = 64 * 1024 * 1024;
/// Bytes kept of an error's text.
const ERROR_TEXT_LIMIT: usize = 512;

/// Something complete that the server sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// The server's description; its JSON is [`Reader::text`].
    Info,
    /// `+OK`.
    Ok,
    Ping,
    Pong,
    /// An error; its words are [`Reader::text`].
    Error,
    /// A message with its first bytes.
    Message([u8; STAMP_BYTES]),
    /// A message that is too short to be ours.
    ShortMessage,
}

/// The bytes are not of a NATS server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("a line begins with `{}`", start.escape_ascii())]
    Operation { start: Vec<u8> },
    #[error("a line does not end with CR LF")]
    LineEnd,
    #[error("a line is longer than {LINE_LIMIT} bytes")]
    LongLine,
    #[error("the head of a message is malformed")]
    MessageHead,
    #[error("a message is longer or shorter than its length")]
    MessageBody,
}

/// The message being read.
#[derive(Debug, Clone, Copy)]
struct Body {
    /// Bytes of headers still to pass over.
    headers: u64,
    /// Bytes of payload in all.
    payload: u64,
    /// Bytes of payload taken.
    taken: u64,
    /// Bytes of the line end taken.
    line_end: u8,
    stamp: [u8; STAMP_BYTES],
}

/// The reader; one per connection.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The part of a line that came in earlier reads.
    line: Vec<u8>,
    body: Option<Body>,
    text: Vec<u8>,
}

impl Reader {
    /// The text of the last INFO or error.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Takes the next frame off `input`; none when more bytes are needed. After an error the reader is of no use.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(body) = &mut self.body {
                let frame = take_body(body, input)?;
                if frame.is_some() {
                    self.body = None;
                }
                return Ok(frame);
            }
            if input.is_empty() {
                return Ok(None);
            }
            if self.line.len() < 4 {
                check_start(&self.line, input)?;
            }
            let Some(end) = memchr(b'\n', input) else {
                if self.line.len() + input.len() > LINE_LIMIT {
                    return Err(FrameError::LongLine);
                }
                self.line.extend_from_slice(input);
                *input = &[];
                return Ok(None);
            };
            if self.line.len() + end > LINE_LIMIT {
                return Err(FrameError::LongLine);
            }
            let (piece, rest) = (&input[..end], &input[end + 1..]);
            *input = rest;
            let frame = if self.line.is_empty() {
                self.take_line(piece)?
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(piece);
                let frame = self.take_line(&line);
                line.clear();
                self.line = line;
                frame?
            };
            if frame.is_some() {
                return Ok(frame);
            }
        }
    }

    /// Takes a line without its LF; none when a message's body follows.
    fn take_line(&mut self, line: &[u8]) -> Result<Option<Frame>, FrameError> {
        let line = line.strip_suffix(b"\r").ok_or(FrameError::LineEnd)?;
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let name_end = line.iter().position(blank).unwrap_or(line.len());
        let (name, rest) = line.split_at(name_end);
        if name.eq_ignore_ascii_case(b"MSG") {
            self.body = Some(message_head(rest, false).ok_or(FrameError::MessageHead)?);
            return Ok(None);
        }
        let frame = if name.eq_ignore_ascii_case(b"PING") {
            Frame::Ping
        } else if name.eq_ignore_ascii_case(b"PONG") {
            Frame::Pong
        } else if name.eq_ignore_ascii_case(b"+OK") {
            Frame::Ok
        } else if name.eq_ignore_ascii_case(b"HMSG") {
            self.body = Some(message_head(rest, true).ok_or(FrameError::MessageHead)?);
            return Ok(None);
        } else if name.eq_ignore_ascii_case(b"INFO") {
            self.keep(rest, LINE_LIMIT);
            Frame::Info
        } else if name.eq_ignore_ascii_case(b"-ERR") {
            self.keep(rest, ERROR_TEXT_LIMIT);
            Frame::Error
        } else {
            return Err(FrameError::Operation { start: name[..name.len().min(5)].to_vec() });
        };
        Ok(Some(frame))
    }

    fn keep(&mut self, text: &[u8], limit: usize) {
        self.text.clear();
        let text = text.trim_ascii();
        self.text.extend_from_slice(&text[..text.len().min(limit)]);
    }
}

/// Checks the first bytes of a line, so that a wrong protocol is told at its first wrong byte.
fn check_start(earlier: &[u8], input: &[u8]) -> Result<(), FrameError> {
    const STARTS: [&[u8; 4]; 7] = [b"MSG ", b"HMSG", b"PING", b"PONG", b"+OK\r", b"-ERR", b"INFO"];
    let mut start = [0; 4];
    let mut length = 0;
    for (place, byte) in start.iter_mut().zip(earlier.iter().chain(input)) {
        *place = byte.to_ascii_uppercase();
        if *place == b'\t' {
            *place = b' ';
        }
        length += 1;
    }
    if STARTS.iter().any(|known| known[..length] == start[..length]) {
        return Ok(());
    }
    // Up to the first wrong byte, so that the error does not depend on how the bytes were cut.
    let fits = |length: usize| STARTS.iter().any(|known| known[..length] == start[..length]);
    let wrong = (1..=length).find(|length| !fits(*length)).unwrap_or(length);
    Err(FrameError::Operation { start: earlier.iter().chain(input).take(wrong).copied().collect() })
}

/// Parses what follows `MSG` (subject, sid, optional reply subject, size) or `HMSG` (with the headers' size before it).
fn message_head(rest: &[u8], with_headers: bool) -> Option<Body> {
    let mut fields: [&[u8]; 5] = [&[]; 5];
    let mut count = 0;
    for field in rest.split(|byte| matches!(byte, b' ' | b'\t')).filter(|field| !field.is_empty()) {
        *fields.get_mut(count)? = field;
        count += 1;
    }
    let numbers = 1 + usize::from(with_headers);
    if !(2 + numbers..=3 + numbers).contains(&count) {
        return None;
    }
    let total = crate::decimal::parse(fields[count - 1])?;
    let headers = if with_headers { crate::decimal::parse(fields[count - 2])? } else { 0 };
    if headers > total || total > MESSAGE_LIMIT {
        return None;
    }
    Some(Body { headers, payload: total - headers, taken: 0, line_end: 0, stamp: [0; STAMP_BYTES] })
}

/// Takes bytes of a message's body; the message when it is complete.
fn take_body(body: &mut Body, input: &mut &[u8]) -> Result<Option<Frame>, FrameError> {
    let skipped = body.headers.min(input.len() as u64);
    body.headers -= skipped;
    *input = &input[skipped as usize..];

    let now = (body.payload - body.taken).min(input.len() as u64) as usize;
    if let Some(room) = STAMP_BYTES.checked_sub(body.taken as usize) {
        let kept = room.min(now);
        let at = body.taken as usize;
        body.stamp[at..at + kept].copy_from_slice(&input[..kept]);
    }
    body.taken += now as u64;
    *input = &input[now..];

    while body.headers == 0 && body.taken == body.payload && body.line_end < 2 {
        let Some((byte, rest)) = input.split_first() else { return Ok(None) };
        if *byte != [b'\r', b'\n'][usize::from(body.line_end)] {
            return Err(FrameError::MessageBody);
        }
        body.line_end += 1;
        *input = rest;
    }
    if body.line_end < 2 {
        return Ok(None);
    }
    let long = body.payload >= STAMP_BYTES as u64;
    Ok(Some(if long { Frame::Message(body.stamp) } else { Frame::ShortMessage }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], step: usize) -> Result<Vec<Frame>, FrameError> {
        let mut reader = Reader::default();
        let mut frames = Vec::new();
        for mut input in bytes.chunks(step) {
            while let Some(frame) = reader.next(&mut input)? {
                frames.push(frame);
            }
            assert!(input.is_empty());
        }
        Ok(frames)
    }

    const STAMP: &str = "0123456789abcdefghijklmnopqr";

    #[test]
    fn frames_in_any_pieces() {
        use Frame::*;
        let message = Message(*b"0123456789abcdefghijklmnopqr");
        for (bytes, expected) in [
            ("INFO {\"a\":1} \r\n".to_owned(), vec![Info]),
            ("PING\r\nPONG\r\n+OK\r\nping\r\n".to_owned(), vec![Ping, Pong, Ok, Ping]),
            ("-ERR 'Stale Connection'\r\n".to_owned(), vec![Error]),
            (format!("MSG a.b 1 28\r\n{STAMP}\r\n"), vec![message]),
            (format!("MSG a.b 1 _INBOX.x 30\r\n{STAMP}\r\n\r\nPING\r\n"), vec![message, Ping]),
            (format!("MSG\ta.b  1\t28\r\n{STAMP}\r\n"), vec![message]),
            ("MSG a.b 1 0\r\n\r\nPING\r\n".to_owned(), vec![ShortMessage, Ping]),
            ("MSG a.b 1 5\r\nMSG x\r\n".to_owned(), vec![ShortMessage]),
            (format!("HMSG a.b 1 12 40\r\nNATS/1.0\r\n\r\n{STAMP}\r\n"), vec![message]),
            (format!("HMSG a.b 1 r 12 41\r\nNATS/1.0\r\n\r\n{STAMP}x\r\nPONG\r\n"), vec![message, Pong]),
        ] {
            for step in 1..=bytes.len() {
                assert_eq!(read(bytes.as_bytes(), step), Result::Ok(expected.clone()), "{bytes:?} in {step}");
            }
        }
    }

    #[test]
    fn malformed_frames_are_refused_alike_in_any_pieces() {
        let operation = |start: &str| FrameError::Operation { start: start.as_bytes().to_vec() };
        for (bytes, expected) in [
            ("HTTP/1.1 400 Bad Request\r\n", operation("HT")),
            ("\x15\x03\x01", operation("\x15")),
            ("PINK\r\n", operation("PINK")),
            ("-NOAUTH x\r\n", operation("-N")),
            ("PINGS\r\n", operation("PINGS")),
            ("PING\n", FrameError::LineEnd),
            ("MSG a 28\r\n", FrameError::MessageHead),
            ("MSG a 1 r x 28\r\n", FrameError::MessageHead),
            ("MSG a 1 -1\r\n", FrameError::MessageHead),
            ("MSG a 1 99999999999\r\n", FrameError::MessageHead),
            ("HMSG a 1 9 8\r\n", FrameError::MessageHead),
            ("MSG a 1 2\r\nabc\r\n", FrameError::MessageBody),
            ("MSG a 1 2\r\nab\r\r", FrameError::MessageBody),
        ] {
            for step in 1..=bytes.len() {
                assert_eq!(
                    read(bytes.as_bytes(), step),
                    Err(expected.clone()),
                    "{bytes:?} in pieces of {step}"
                );
            }
        }
        let long = format!("INFO {}", "a".repeat(LINE_LIMIT));
        assert_eq!(read(long.as_bytes(), long.len()), Err(FrameError::LongLine));
        assert_eq!(read(long.as_bytes(), 65_536), Err(FrameError::LongLine));
    }

    #[test]
    fn the_text_of_errors_and_info_is_kept() {
        let mut reader = Reader::default();
        let mut input = b"-ERR 'Authorization Violation'\r\nINFO {\"x\":2}\r\n".as_slice();
        reader.next(&mut input).unwrap();
        assert_eq!(reader.text(), b"'Authorization Violation'");
        reader.next(&mut input).unwrap();
        assert_eq!(reader.text(), b"{\"x\":2}");
    }
}
