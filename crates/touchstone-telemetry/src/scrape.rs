//! Fetching a metrics page: one HTTP GET, `http` only, with a time limit and a size limit.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use crate::prometheus::Page;

/// Greatest answer that is read, head and body, bytes.
pub const MAX_BYTES: usize = 8 << 20;

/// A page that could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    /// The address cannot be used.
    #[error("`{url}` {why}")]
    Url {
        /// Scheme, host and port, as far as they can be told.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The connection failed or ended too early.
    #[error("cannot {action} {address}")]
    Io {
        /// `resolve`, `connect to`, `write to`, `read from`.
        action: &'static str,
        /// Host and port.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It took longer than allowed.
    #[error("{address} did not answer within {limit:?}")]
    Timeout {
        /// Host and port.
        address: String,
        /// The limit.
        limit: Duration,
    },
    /// The answer is longer than [`MAX_BYTES`].
    #[error("{address} sent more than {MAX_BYTES} bytes")]
    TooLarge {
        /// Host and port.
        address: String,
    },
    /// The answer has another status than 200.
    #[error("{address} answered with status {status}")]
    Status {
        /// Host and port.
        address: String,
        /// The status.
        status: u16,
    },
    /// The answer is no HTTP.
    #[error("{address} sent no HTTP: {why}")]
    Malformed {
        /// Host and port.
        address: String,
        /// What is wrong.
        why: &'static str,
    },
}

/// Fetches and reads a page; `url` is `http://host[:port][/path]`, with `/metrics` where there is no path. The limit is
/// for the whole fetch, except for the system's name lookup.
///
/// # Errors
/// The address is wrong, the server does not answer in time, or the answer is no page.
pub fn scrape(url: &str, limit: Duration) -> Result<Page, ScrapeError> {
    scrape_as(url, limit, None)
}

/// The same with a key, which is sent as a bearer token and stands in no error.
///
/// # Errors
/// As [`scrape`].
pub fn scrape_as(url: &str, limit: Duration, key: Option<&str>) -> Result<Page, ScrapeError> {
    let mut fetch = Fetch::new(url, limit)?;
    // A key that would end the header is sent by nobody.
    fetch.key = key.filter(|key| key.bytes().all(|byte| byte > b' ' && byte < 0x7f)).map(str::to_owned);
    let answer = fetch.run()?;
    let body = fetch.body(&answer)?;
    Ok(Page::parse(&String::from_utf8_lossy(&body)))
}

struct Fetch {
    address: String,
    host: String,
    port: u16,
    path: String,
    key: Option<String>,
    limit: Duration,
    deadline: Instant,
}

impl Fetch {
    fn new(url: &str, limit: Duration) -> Result<Self, ScrapeError> {
        // Messages name scheme, host and port only: credentials and tokens stand elsewhere.
        let rest = url.strip_prefix("http://").ok_or_else(|| {
            let scheme = url.split_once("://").map_or("the address", |(scheme, _)| scheme);
            ScrapeError::Url { url: scheme.to_owned(), why: "is not read; metrics come by http:// only" }
        })?;
        if rest.contains('@') {
            return Err(ScrapeError::Url { url: "http://".to_owned(), why: "must not hold credentials" });
        }
        let (authority, path) = match rest.find(['/', '?', '#']) {
            Some(at) if rest[at..].starts_with('/') => rest.split_at(at),
            Some(at) => (&rest[..at], "/metrics"),
            None => (rest, "/metrics"),
        };
        let wrong = |why| ScrapeError::Url { url: format!("http://{authority}"), why };
        if path.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return Err(wrong("has a space or control character in its path"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host, port.parse().map_err(|_| wrong("has a port that is no number up to 65535"))?)
            }
            _ => (authority, 80),
        };
        let name = host.trim_start_matches('[').trim_end_matches(']');
        if name.is_empty() || name.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return Err(wrong("has no host"));
        }
        let path = match path {
            "/" => "/metrics",
            path => path.split('#').next().unwrap_or(path),
        };
        Ok(Self {
            address: format!("{host}:{port}"),
            host: name.to_owned(),
            port,
            path: path.to_owned(),
            key: None,
            limit,
            deadline: Instant::now() + limit,
        })
    }

    fn left(&self) -> Result<Duration, ScrapeError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(self.timed_out()) } else { Ok(left) }
    }

    fn timed_out(&self) -> ScrapeError {
        ScrapeError::Timeout { address: self.address.clone(), limit: self.limit }
    }

    fn failed(&self, action: &'static str, source: io::Error) -> ScrapeError {
        match source.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => self.timed_out(),
            _ => ScrapeError::Io { action, address: self.address.clone(), source },
        }
    }

    fn malformed(&self, why: &'static str) -> ScrapeError {
        ScrapeError::Malformed { address: self.address.clone(), why }
    }

    fn connect(&self) -> Result<TcpStream, ScrapeError> {
        let addresses = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|source| self.failed("resolve", source))?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, self.left()?) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(self.failed("connect to", last))
    }

    /// Sends the request and reads until the server closes or the body is complete.
    fn run(&self) -> Result<Vec<u8>, ScrapeError> {
        let mut stream = self.connect()?;
        let key =
            self.key.as_ref().map_or_else(String::new, |key| format!("Authorization: Bearer {key}\r\n"));
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: text/plain\r\n{key}Connection: close\r\n\r\n",
            self.path, self.address
        );
        stream.set_write_timeout(Some(self.left()?)).map_err(|source| self.failed("write to", source))?;
        stream.write_all(request.as_bytes()).map_err(|source| self.failed("write to", source))?;
        let mut answer = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            stream.set_read_timeout(Some(self.left()?)).map_err(|source| self.failed("read from", source))?;
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(answer),
                Ok(n) => answer.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed("read from", error)),
            }
            if answer.len() > MAX_BYTES {
                return Err(ScrapeError::TooLarge { address: self.address.clone() });
            }
            // Not every server closes when asked to.
            if let Some(head) = Head::parse(&answer)
                && head.is_complete(&answer)
            {
                return Ok(answer);
            }
        }
    }

    fn body(&self, answer: &[u8]) -> Result<Vec<u8>, ScrapeError> {
        let head = Head::parse(answer).ok_or_else(|| self.malformed("the head is not complete"))?;
        let status = head.status.ok_or_else(|| self.malformed("the first line has no status"))?;
        if status != 200 {
            return Err(ScrapeError::Status { address: self.address.clone(), status });
        }
        let body = &answer[head.end..];
        if head.chunked {
            return dechunk(body).ok_or_else(|| self.malformed("the chunks are not complete"));
        }
        match head.length {
            Some(length) if body.len() < length => Err(self.malformed("the body is not complete")),
            Some(length) => Ok(body[..length].to_vec()),
            None => Ok(body.to_vec()),
        }
    }
}

struct Head {
    /// Where the body starts.
    end: usize,
    status: Option<u16>,
    length: Option<usize>,
    chunked: bool,
}

impl Head {
    /// None when the head is not complete.
    fn parse(answer: &[u8]) -> Option<Self> {
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let text = String::from_utf8_lossy(&answer[..end]);
        let mut lines = text.split("\r\n");
        let status = lines.next().filter(|line| line.starts_with("HTTP/1."));
        let status = status.and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let mut head = Self { end, status, length: None, chunked: false };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                head.length = value.parse().ok();
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                head.chunked = value.to_ascii_lowercase().contains("chunked");
            }
        }
        if head.chunked {
            head.length = None;
        }
        Some(head)
    }

    /// Whether the whole body is in `answer`; false while only the end of the connection can tell.
    fn is_complete(&self, answer: &[u8]) -> bool {
        let body = &answer[self.end..];
        match self.length {
            Some(length) => body.len() >= length,
            None => self.chunked && body.ends_with(b"0\r\n\r\n") && dechunk(body).is_some(),
        }
    }
}

/// The body without its chunk lines; none when it ends early.
fn dechunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let line = std::str::from_utf8(&rest[..end]).ok()?;
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest[size..].strip_prefix(b"\r\n")?;
    }
}
