//! The receiving half of HTTP/1.1: from bytes with arrival stamps to requests.

use std::collections::VecDeque;

/// Greatest request head, bytes.
pub(crate) const MAX_HEAD: usize = 64 * 1024;
/// Greatest request body, bytes.
pub(crate) const MAX_BODY: usize = 10 * 1024 * 1024;
/// Greatest number of header fields.
const MAX_HEADERS: usize = 100;
/// What may lie unread in an [`Inbox`]: one request of greatest size, with room for the overhead of chunks.
pub(crate) const MAX_UNREAD: usize = 2 * (MAX_HEAD + MAX_BODY);

/// When bytes arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// `CLOCK_MONOTONIC`, ns.
    pub(crate) at: u64,
    /// Stamped by the kernel, not by this process after the read.
    pub(crate) by_kernel: bool,
}

/// A request, completely received.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Target up to the first `?`.
    pub(crate) path: String,
    /// Target after the first `?`, or empty.
    pub(crate) query: String,
    pub(crate) body: Vec<u8>,
    pub(crate) keep_alive: bool,
    /// HTTP/1.1: the answer may be chunked.
    pub(crate) chunked_answer: bool,
    /// Of the read that brought the last byte.
    pub(crate) arrival: Arrival,
}

/// Why the bytes are no acceptable request. The connection cannot be used any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Malformed(&'static str),
    HeadTooLarge,
    BodyTooLarge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyKind {
    Length(usize),
    Chunked,
}

#[derive(Debug)]
struct Head {
    method: String,
    target: String,
    keep_alive: bool,
    http11: bool,
    body: BodyKind,
    expects_continue: bool,
}

/// Bytes of one connection that no answer has been begun for.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    buf: Vec<u8>,
    /// Offset in the connection's whole input of `buf[0]`.
    base: u64,
    /// Reads whose last byte is still in `buf`: (offset in the whole input after it, when).
    reads: VecDeque<(u64, Arrival)>,
    /// Head of the request whose body is incomplete, and where that body begins in `buf`.
    head: Option<(Head, usize)>,
    /// Chunked body so far.
    body: Vec<u8>,
    /// Next undecoded byte of a chunked body in `buf`.
    at: usize,
}

impl Inbox {
    /// Adds the bytes of one read.
    pub(crate) fn push(&mut self, bytes: &[u8], arrival: Arrival) {
        self.buf.extend_from_slice(bytes);
        self.reads.push_back((self.base + self.buf.len() as u64, arrival));
    }

    pub(crate) fn len(&self) -> usize {
        self.buf.len()
    }

    /// Whether the client waits for `100 Continue` before it sends the body. True once per request.
    pub(crate) fn take_expects_continue(&mut self) -> bool {
        self.head.as_mut().is_some_and(|(head, _)| std::mem::take(&mut head.expects_continue))
    }

    /// The next complete request, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<Request>, Refusal> {
        if self.head.is_none() {
            let Some((head, len)) = parse_head(&self.buf)? else { return Ok(None) };
            self.at = len;
            self.body.clear();
            self.head = Some((head, len));
        }
        let Some(&(ref head, start)) = self.head.as_ref() else { return Ok(None) };
        let end = match head.body {
            BodyKind::Length(len) if self.buf.len() - start >= len => Some(start + len),
            BodyKind::Length(_) => None,
            BodyKind::Chunked => self.decode_chunks()?,
        };
        let (Some(end), Some((head, start))) = (end, self.head.take_if(|_| end.is_some())) else {
            return Ok(None);
        };
        let body = match head.body {
            BodyKind::Length(_) => self.buf[start..end].to_vec(),
            BodyKind::Chunked => std::mem::take(&mut self.body),
        };
        let arrival = self.consume(end);
        let (path, query) = head.target.split_once('?').unwrap_or((&head.target, ""));
        Ok(Some(Request {
            path: path.to_owned(),
            query: query.to_owned(),
            method: head.method,
            body,
            keep_alive: head.keep_alive,
            chunked_answer: head.http11,
            arrival,
        }))
    }

    /// Drops `len` bytes and says when the last of them arrived.
    fn consume(&mut self, len: usize) -> Arrival {
        self.buf.drain(..len);
        self.base += len as u64;
        let mut arrival = Arrival { at: 0, by_kernel: false };
        while let Some(&(end, when)) = self.reads.front() {
            arrival = when;
            if end > self.base {
                break;
            }
            self.reads.pop_front();
            if end == self.base {
                break;
            }
        }
        arrival
    }

    /// Decodes what is there of a chunked body. Returns where in `buf` the request ends, once it does.
    fn decode_chunks(&mut self) -> Result<Option<usize>, Refusal> {
        loop {
            let rest = &self.buf[self.at..];
            match httparse::parse_chunk_size(rest) {
                Err(_) => return Err(Refusal::Malformed("invalid chunk size")),
                Ok(httparse::Status::Partial) if rest.len() > MAX_HEAD => {
                    return Err(Refusal::Malformed("chunk size line too long"));
                }
                Ok(httparse::Status::Partial) => return Ok(None),
                Ok(httparse::Status::Complete((line, 0))) => {
                    return end_of_trailers(&self.buf, self.at + line);
                }
                Ok(httparse::Status::Complete((line, size))) => {
                    let size = usize::try_from(size).unwrap_or(usize::MAX);
                    if size > MAX_BODY - self.body.len() {
                        return Err(Refusal::BodyTooLarge);
                    }
                    let data = line..line + size;
                    if rest.len() < data.end + 2 {
                        return Ok(None);
                    }
                    if &rest[data.end..data.end + 2] != b"\r\n" {
                        return Err(Refusal::Malformed("chunk longer than its size"));
                    }
                    self.body.extend_from_slice(&rest[data.clone()]);
                    self.at += data.end + 2;
                }
            }
        }
    }
}

/// Skips trailer fields, which nothing here uses.
fn end_of_trailers(buf: &[u8], mut at: usize) -> Result<Option<usize>, Refusal> {
    let start = at;
    loop {
        if at - start > MAX_HEAD {
            return Err(Refusal::HeadTooLarge);
        }
        let Some(line) = buf[at..].windows(2).position(|pair| pair == b"\r\n") else {
            return if buf.len() - start > MAX_HEAD { Err(Refusal::HeadTooLarge) } else { Ok(None) };
        };
        at += line + 2;
        if line == 0 {
            return Ok(Some(at));
        }
    }
}

fn parse_head(buf: &[u8]) -> Result<Option<(Head, usize)>, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut fields);
    let len = match parsed.parse(&buf[..buf.len().min(MAX_HEAD)]) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if buf.len() >= MAX_HEAD => return Err(Refusal::HeadTooLarge),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal::HeadTooLarge),
        Err(_) => return Err(Refusal::Malformed("invalid request head")),
    };
    let http11 = parsed.version == Some(1);
    let mut head = Head {
        method: parsed.method.unwrap_or_default().to_owned(),
        target: parsed.path.unwrap_or_default().to_owned(),
        keep_alive: http11,
        http11,
        body: BodyKind::Length(0),
        expects_continue: false,
    };
    let (mut length, mut chunked) = (None, false);
    for field in parsed.headers.iter() {
        let value = String::from_utf8_lossy(field.value);
        let value = value.trim();
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            if !digits || length.replace(value.to_owned()).is_some_and(|earlier| earlier != value) {
                return Err(Refusal::Malformed("invalid content-length"));
            }
        } else if is("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") || chunked {
                return Err(Refusal::Malformed("unsupported transfer-encoding"));
            }
            chunked = true;
        } else if is("connection") {
            for option in value.split(',').map(str::trim) {
                if option.eq_ignore_ascii_case("close") {
                    head.keep_alive = false;
                } else if option.eq_ignore_ascii_case("keep-alive") && !http11 {
                    head.keep_alive = true;
                }
            }
        } else if is("expect") {
            head.expects_continue = value.eq_ignore_ascii_case("100-continue");
        }
    }
    head.body = match (length, chunked) {
        (Some(_), true) => return Err(Refusal::Malformed("both content-length and transfer-encoding")),
        (None, true) => BodyKind::Chunked,
        // Digits that do not fit a machine word are too many bytes all the same.
        (Some(digits), false) => BodyKind::Length(digits.parse().unwrap_or(usize::MAX)),
        (None, false) => BodyKind::Length(0),
    };
    if matches!(head.body, BodyKind::Length(bytes) if bytes > MAX_BODY) {
        return Err(Refusal::BodyTooLarge);
    }
    Ok(Some((head, len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Arrival {
        Arrival { at: ns, by_kernel: true }
    }

    fn feed(inbox: &mut Inbox, text: &str, ns: u64) {
        inbox.push(text.as_bytes(), at(ns));
    }

    #[test]
    fn a_request_carries_the_stamp_of_the_read_that_completed_it() {
        let mut inbox = Inbox::default();
        feed(&mut inbox, "POST /a?x=1&y HTTP/1.1\r\nContent-Le", 1);
        assert!(inbox.next().unwrap().is_none());
        feed(&mut inbox, "ngth: 5\r\n\r\nab", 2);
        assert!(inbox.next().unwrap().is_none());
        feed(&mut inbox, "cdeGET /b HTTP/1.1\r\n\r\nGET /c", 3);
        let first = inbox.next().unwrap().unwrap();
        assert_eq!(
            (first.method.as_str(), first.path.as_str(), first.query.as_str()),
            ("POST", "/a", "x=1&y")
        );
        assert_eq!((first.body.as_slice(), first.arrival), (&b"abcde"[..], at(3)));
        let second = inbox.next().unwrap().unwrap();
        assert_eq!((second.path.as_str(), second.arrival), ("/b", at(3)));
        assert!(inbox.next().unwrap().is_none());
        feed(&mut inbox, " HTTP/1.0\r\n\r\n", 4);
        let third = inbox.next().unwrap().unwrap();
        assert_eq!((third.arrival, third.keep_alive, third.chunked_answer), (at(4), false, false));
        assert_eq!((inbox.len(), inbox.reads.len()), (0, 0));
    }

    #[test]
    fn chunked_bodies_split_anywhere() {
        let whole = "POST / HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\nGET";
        for cut in 1..whole.len() - 3 {
            let mut inbox = Inbox::default();
            feed(&mut inbox, &whole[..cut], 1);
            let early = inbox.next().unwrap();
            assert!(early.is_none(), "{cut}");
            feed(&mut inbox, &whole[cut..], 2);
            let request = inbox.next().unwrap().unwrap();
            assert_eq!((request.body.as_slice(), request.arrival), (&b"abc0123456789"[..], at(2)), "{cut}");
            assert_eq!(inbox.len(), 3);
        }
    }

    #[test]
    fn limits_and_malformed_input_are_refused() {
        let refusal = |text: &str| {
            let mut inbox = Inbox::default();
            feed(&mut inbox, text, 1);
            inbox.next().map(|_| ())
        };
        let long = format!("GET / HTTP/1.1\r\nx: {}", "a".repeat(MAX_HEAD));
        assert_eq!(refusal(&long), Err(Refusal::HeadTooLarge));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1));
        assert_eq!(refusal(&many), Err(Refusal::HeadTooLarge));
        let big = format!("POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n", MAX_BODY + 1);
        assert_eq!(refusal(&big), Err(Refusal::BodyTooLarge));
        assert_eq!(
            refusal("POST / HTTP/1.1\r\ncontent-length: 99999999999999999999999\r\n\r\n"),
            Err(Refusal::BodyTooLarge)
        );
        assert_eq!(
            refusal("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nffffffff\r\n"),
            Err(Refusal::BodyTooLarge)
        );
        for bad in [
            "nonsense\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n",
        ] {
            assert!(matches!(refusal(bad), Err(Refusal::Malformed(_))), "{bad:?}");
        }
    }

    #[test]
    fn connection_options_and_expectations() {
        let mut inbox = Inbox::default();
        feed(
            &mut inbox,
            "POST / HTTP/1.1\r\nConnection: x, Close\r\nExpect: 100-continue\r\ncontent-length: 1\r\n\r\n",
            1,
        );
        assert!(inbox.next().unwrap().is_none());
        assert!(inbox.take_expects_continue());
        assert!(!inbox.take_expects_continue());
        feed(&mut inbox, "z", 2);
        assert!(!inbox.next().unwrap().unwrap().keep_alive);
    }
}
