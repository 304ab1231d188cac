//! An incremental reader of HTTP/1.1 responses over byte slices (RFC 9112).
//!
//! Body bytes are handed out as slices of the input, not copied. Limits: 64 KiB of head, 128 header fields, 16 KiB of
//! chunk extension per chunk, 64 KiB of trailer.

use memchr::memchr;

/// Most bytes of a response's head, and of its trailer.
pub(crate) const HEAD_LIMIT: usize = 64 * 1024;
/// Most bytes of one chunk's extension.
const EXTENSION_LIMIT: usize = 16 * 1024;
/// Most header fields.
const FIELD_LIMIT: usize = 128;

/// A piece of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// The status line and headers of the final response; interim (1xx) ones are passed over.
    Head(Head),
    /// Some bytes of the body, never none.
    Body(&'a [u8]),
    /// The response is complete.
    End,
}

/// What a response's head says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// `content-type` in lower case, without parameters; empty when absent.
    pub(crate) content_type: String,
    /// A `content-encoding` that is not `identity`.
    pub(crate) encoding: Option<String>,
    /// `location`, for redirects.
    pub(crate) location: Option<String>,
    /// Whether the connection may be used again after this response.
    pub(crate) keep_alive: bool,
    /// Whether only the end of the connection ends the body.
    pub(crate) until_close: bool,
    /// Whether the server says that it is a simulator (`x-touchstone-simulated`).
    pub(crate) simulated: bool,
}

/// The bytes are not an HTTP/1.x response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("the answer does not begin with `HTTP/1.` but with `{}`", start.escape_ascii())]
    NotHttp { start: Vec<u8> },
    #[error("the head of the answer is larger than {HEAD_LIMIT} bytes or has more than {FIELD_LIMIT} fields")]
    HeadTooLarge,
    #[error("the head of the answer is malformed: {0}")]
    BadHead(String),
    #[error("the body's framing is malformed: {0}")]
    BadFraming(&'static str),
}

/// What the end of the connection means for the response being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtEof {
    /// No response had begun.
    Nothing,
    /// The head is incomplete.
    CutHead,
    /// The body is incomplete.
    CutBody,
    /// The end of the connection is the end of the body.
    Complete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    /// A body of a known length: bytes left.
    Sized(u64),
    UntilClose,
    /// A chunk's size: the value, and the number of digits so far.
    Size(u64, u8),
    /// The rest of the size line: the size, and the bytes of extension so far.
    Extension(u64, usize),
    /// A chunk's data: bytes left.
    Data(u64),
    /// The line end after a chunk's data.
    DataEnd,
    /// A trailer line: bytes of trailer so far, and whether the line is blank so far.
    Trailer(usize, bool),
}

/// The reader; one per connection.
#[derive(Debug)]
pub(crate) struct Reader {
    state: State,
    /// The part of a head that came in earlier reads.
    head: Vec<u8>,
    /// Whether the head's current line has no byte but CR so far.
    blank: bool,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self { state: State::Head, head: Vec::new(), blank: true }
    }

    /// Takes the next part off `input`; none when more bytes are needed. After an error the reader is of no use.
    pub(crate) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Part<'a>>, HttpError> {
        loop {
            // A body of no bytes ends without a further byte.
            if self.state == State::Sized(0) {
                self.state = State::Head;
                return Ok(Some(Part::End));
            }
            let Some(&first) = input.first() else { return Ok(None) };
            match self.state {
                State::Head => {
                    if let Some(head) = self.read_head(input)? {
                        return Ok(Some(Part::Head(head)));
                    }
                }
                State::Sized(left) => {
                    let body = take(input, left);
                    self.state = State::Sized(left - body.len() as u64);
                    return Ok(Some(Part::Body(body)));
                }
                State::UntilClose => return Ok(Some(Part::Body(take(input, u64::MAX)))),
                State::Data(left) => {
                    let body = take(input, left);
                    let left = left - body.len() as u64;
                    self.state = if left == 0 { State::DataEnd } else { State::Data(left) };
                    return Ok(Some(Part::Body(body)));
                }
                State::Size(value, digits) => {
                    *input = &input[1..];
                    self.state = match (first as char).to_digit(16) {
                        Some(_) if digits == 16 => {
                            return Err(HttpError::BadFraming("chunk size does not fit"));
                        }
                        Some(digit) => State::Size(value << 4 | u64::from(digit), digits + 1),
                        None if digits == 0 => return Err(HttpError::BadFraming("chunk without a size")),
                        None if first == b'\n' => after_size_line(value),
                        None if matches!(first, b'\r' | b';' | b' ' | b'\t') => State::Extension(value, 0),
                        None => return Err(HttpError::BadFraming("chunk size is not hexadecimal")),
                    };
                }
                State::Extension(value, length) => {
                    let line_end = memchr(b'\n', input);
                    let length = length + line_end.unwrap_or(input.len());
                    if length > EXTENSION_LIMIT {
                        return Err(HttpError::BadFraming("chunk extension is too long"));
                    }
                    self.state = match line_end {
                        Some(_) => after_size_line(value),
                        None => State::Extension(value, length),
                    };
                    *input = line_end.map_or(&[], |at| &input[at + 1..]);
                }
                State::DataEnd => {
                    *input = &input[1..];
                    match first {
                        b'\r' => {}
                        b'\n' => self.state = State::Size(0, 0),
                        _ => return Err(HttpError::BadFraming("chunk is longer than its size")),
                    }
                }
                State::Trailer(length, blank) => {
                    *input = &input[1..];
                    if length > HEAD_LIMIT {
                        return Err(HttpError::BadFraming("trailer is too long"));
                    }
                    match first {
                        b'\n' if blank => {
                            self.state = State::Head;
                            return Ok(Some(Part::End));
                        }
                        b'\n' => self.state = State::Trailer(length + 1, true),
                        b'\r' => self.state = State::Trailer(length + 1, blank),
                        _ => self.state = State::Trailer(length + 1, false),
                    }
                }
            }
        }
    }

    /// What it means that the peer closed now.
    pub(crate) fn at_eof(&self) -> AtEof {
        match self.state {
            State::Head if self.head.is_empty() => AtEof::Nothing,
            State::Head => AtEof::CutHead,
            State::UntilClose => AtEof::Complete,
            _ => AtEof::CutBody,
        }
    }

    /// Takes bytes of the head off `input`, all of it when the head goes on; the parsed head when it is a final one.
    fn read_head(&mut self, input: &mut &[u8]) -> Result<Option<Head>, HttpError> {
        if self.head.is_empty() {
            // Some servers end a body with a line end too many.
            let skip = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            *input = &input[skip..];
            self.blank = true;
        }
        let mut end = None;
        let mut at = 0;
        while let Some(length) = memchr(b'\n', &input[at..]) {
            let blank = self.blank && input[at..at + length].iter().all(|byte| *byte == b'\r');
            at += length + 1;
            self.blank = true;
            if blank {
                end = Some(at);
                break;
            }
        }
        let taken = end.unwrap_or(input.len());
        if self.head.len() + taken > HEAD_LIMIT {
            check_start(&self.head, input)?;
            return Err(HttpError::HeadTooLarge);
        }
        check_start(&self.head, input)?;
        let (piece, rest) = input.split_at(taken);
        *input = rest;
        if end.is_none() {
            self.blank = self.blank && piece[at..].iter().all(|byte| *byte == b'\r');
            self.head.extend_from_slice(piece);
            return Ok(None);
        }
        let head = if self.head.is_empty() {
            parse_head(piece)?
        } else {
            self.head.extend_from_slice(piece);
            let head = parse_head(&self.head)?;
            self.head.clear();
            head
        };
        Ok(head.map(|(head, state)| {
            self.state = state;
            head
        }))
    }
}

/// Takes at most `limit` bytes off the front of `input`.
fn take<'a>(input: &mut &'a [u8], limit: u64) -> &'a [u8] {
    let length = usize::try_from(limit).unwrap_or(usize::MAX).min(input.len());
    let (piece, rest) = input.split_at(length);
    *input = rest;
    piece
}

fn after_size_line(size: u64) -> State {
    if size == 0 { State::Trailer(0, true) } else { State::Data(size) }
}

/// Checks the first bytes, so that a wrong protocol is told at its first wrong byte and not by a timeout.
fn check_start(earlier: &[u8], input: &[u8]) -> Result<(), HttpError> {
    const START: &[u8] = b"HTTP/1.";
    if earlier.len() >= START.len() {
        return Ok(());
    }
    let mut start = Vec::with_capacity(START.len());
    for (byte, expected) in earlier.iter().chain(input).zip(START) {
        start.push(*byte);
        if byte != expected {
            return Err(HttpError::NotHttp { start });
        }
    }
    Ok(())
}

/// Parses a complete head; none for an interim response.
fn parse_head(bytes: &[u8]) -> Result<Option<(Head, State)>, HttpError> {
    let mut fields = [httparse::EMPTY_HEADER; FIELD_LIMIT];
    let mut response = httparse::Response::new(&mut fields);
    let complete = httparse::ParserConfig::default()
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .allow_multiple_spaces_in_response_status_delimiters(true)
        .ignore_invalid_headers_in_responses(true)
        .parse_response(&mut response, bytes)
        .map_err(|error| match error {
            httparse::Error::TooManyHeaders => HttpError::HeadTooLarge,
            other => HttpError::BadHead(other.to_string()),
        })?
        .is_complete();
    let (true, Some(status), Some(minor)) = (complete, response.code, response.version) else {
        return Err(HttpError::BadHead("it ends too early".to_owned()));
    };
    if status == 101 {
        return Err(HttpError::BadHead("the server switched protocols unasked".to_owned()));
    }
    if (100..200).contains(&status) {
        return Ok(None);
    }
    let mut head = Head {
        status,
        content_type: String::new(),
        encoding: None,
        location: None,
        keep_alive: minor >= 1,
        until_close: false,
        simulated: false,
    };
    let mut length = None;
    let mut chunked = None;
    for field in response.headers.iter() {
        let value = field.value.trim_ascii();
        let text = || String::from_utf8_lossy(value).trim().to_ascii_lowercase();
        if field.name.eq_ignore_ascii_case("content-length") {
            for item in value.split(|byte| *byte == b',') {
                let item = crate::decimal::parse(item.trim_ascii());
                if item.is_none() || length.is_some() && item != length {
                    return Err(HttpError::BadFraming("content-length is not one number"));
                }
                length = item;
            }
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            // Only a final `chunked` delimits the body; after any other coding the connection's end does.
            chunked = Some(text().rsplit(',').next().is_some_and(|last| last.trim() == "chunked"));
        } else if field.name.eq_ignore_ascii_case("connection") {
            for token in text().split(',') {
                match token.trim() {
                    "close" => head.keep_alive = false,
                    "keep-alive" if minor == 0 => head.keep_alive = true,
                    _ => {}
                }
            }
        } else if field.name.eq_ignore_ascii_case("content-type") {
            head.content_type = text().split(';').next().unwrap_or_default().trim().to_owned();
        } else if field.name.eq_ignore_ascii_case("content-encoding") {
            let encoding = text();
            head.encoding = (!encoding.is_empty() && encoding != "identity").then_some(encoding);
        } else if field.name.eq_ignore_ascii_case("x-touchstone-simulated") {
            head.simulated = true;
        } else if field.name.eq_ignore_ascii_case("location") {
            head.location = Some(String::from_utf8_lossy(value).into_owned());
        }
    }
    let state = match (status, chunked, length) {
        (204 | 304, _, _) => State::Sized(0),
        (_, Some(true), length) => {
            // Both framings at once is how requests are smuggled: the response is read, the connection not reused.
            head.keep_alive &= length.is_none();
            State::Size(0, 0)
        }
        (_, None, Some(length)) => State::Sized(length),
        (_, Some(false), _) | (_, None, None) => {
            head.keep_alive = false;
            head.until_close = true;
            State::UntilClose
        }
    };
    Ok(Some((head, state)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status codes, bodies and ends, or the error, of bytes fed in pieces of `step`.
    fn read(bytes: &[u8], step: usize) -> (Vec<String>, AtEof) {
        let mut reader = Reader::new();
        let mut seen: Vec<String> = Vec::new();
        for piece in bytes.chunks(step) {
            let mut input = piece;
            loop {
                match reader.next(&mut input) {
                    Ok(None) => break,
                    Ok(Some(Part::Head(head))) => {
                        seen.push(format!("{} keep={}", head.status, head.keep_alive));
                        seen.push(String::new());
                    }
                    Ok(Some(Part::Body(body))) => {
                        seen.last_mut().unwrap().push_str(&String::from_utf8_lossy(body));
                    }
                    Ok(Some(Part::End)) => seen.push("end".to_owned()),
                    Err(error) => {
                        seen.push(error.to_string());
                        return (seen, AtEof::Nothing);
                    }
                }
            }
        }
        (seen, reader.at_eof())
    }

    fn check(bytes: &str, expected: &[&str], eof: AtEof) {
        for step in [bytes.len(), 1, 2, 3, 7] {
            let (seen, at) = read(bytes.as_bytes(), step);
            assert_eq!(seen, expected, "in pieces of {step}");
            assert_eq!(at, eof, "in pieces of {step}");
        }
    }

    #[test]
    fn framings() {
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            &["200 keep=true", "abc", "end"],
            AtEof::Nothing,
        );
        check("HTTP/1.1 204 No Content\r\n\r\n", &["204 keep=true", "", "end"], AtEof::Nothing);
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=\"y\"\r\nabc\r\n0A \r\n0123456789\r\n0\r\nX: y\r\n\r\n",
            &["200 keep=true", "abc0123456789", "end"],
            AtEof::Nothing,
        );
        check("HTTP/1.0 200 OK\n\nabc", &["200 keep=false", "abc"], AtEof::Complete);
        check(
            "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n",
            &["200 keep=true", "", "end"],
            AtEof::Nothing,
        );
        check(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 1, 1\r\n\r\na",
            &["200 keep=false", "a", "end"],
            AtEof::Nothing,
        );
    }

    #[test]
    fn several_responses_follow_each_other() {
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na\r\nHTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
            &["200 keep=true", "a", "end", "500 keep=true", "", "end"],
            AtEof::Nothing,
        );
    }

    #[test]
    fn length_beside_chunked_ends_the_reuse() {
        check(
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
            &["200 keep=false", "a", "end"],
            AtEof::Nothing,
        );
    }

    #[test]
    fn cuts_are_told_apart() {
        check("HTTP/1.1 200 O", &[], AtEof::CutHead);
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", &["200 keep=true", "ab"], AtEof::CutBody);
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            &["200 keep=true", ""],
            AtEof::CutBody,
        );
    }

    #[test]
    fn malformed_bytes_are_refused_alike_in_any_pieces() {
        for (bytes, message) in [
            ("INFO {\"server_id\"", "begin with `HTTP/1.` but with `I`"),
            ("HTTP/2 200", "but with `HTTP/2`"),
            ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "content-length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "content-length"),
            ("HTTP/1.1 101 Switching\r\n\r\n", "switched protocols"),
            ("HTTP/1.1 2x0 OK\r\n\r\n", "malformed"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "without a size"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n12345678123456781\r\n", "does not fit"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "longer than its size"),
        ] {
            for step in [bytes.len(), 1, 3] {
                let (seen, _) = read(bytes.as_bytes(), step);
                let last = seen.last().unwrap();
                assert!(last.contains(message), "{last:?} does not say {message:?}");
            }
        }
    }

    #[test]
    fn endless_heads_extensions_and_trailers_are_refused() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for bytes in [
            format!("HTTP/1.1 200 OK\r\nX: {}", "a".repeat(HEAD_LIMIT)),
            format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(FIELD_LIMIT + 1)),
            format!("{chunked}1;{}", "a".repeat(EXTENSION_LIMIT + 1)),
            format!("{chunked}0\r\n{}", "X: y\r\n".repeat(HEAD_LIMIT)),
        ] {
            for step in [bytes.len(), 1000] {
                let (seen, _) = read(bytes.as_bytes(), step);
                let last = seen.last().unwrap();
                assert!(last.contains("too long") || last.contains("larger than"), "{last:?}");
            }
        }
    }
}
