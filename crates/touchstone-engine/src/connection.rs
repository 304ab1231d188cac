//! One client connection: what came in, what waits to go out, and which bytes of it matter to the truth.

use std::collections::VecDeque;
use std::io;

use touchstone_net::{Conn, RecvBuf, StampSource, mono_ns};

use crate::http::{Arrival, Inbox};

/// What the kernel's accepting of certain bytes means.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    /// Number of the request in the truth log.
    pub(crate) record: u64,
    /// Tokens of the content chunk that ends there.
    pub(crate) tokens: u32,
    /// Set when it is the last content: the finish reason.
    pub(crate) last: Option<&'static str>,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) conn: Conn,
    pub(crate) inbox: Inbox,
    /// Sequence whose answer is being sent.
    pub(crate) job: Option<u64>,
    /// Close as soon as everything is sent.
    pub(crate) closing: bool,
    /// After a refusal: input is thrown away until the client closes or this instant comes, because closing with
    /// unread input would reset the connection and could destroy the refusal on its way.
    pub(crate) drain_until: Option<u64>,
    /// Bytes ever put into the out-buffer.
    enqueued: u64,
    /// (Value of `enqueued` after the marked bytes, mark).
    marks: VecDeque<(u64, Mark)>,
}

impl Connection {
    pub(crate) fn new(conn: Conn) -> Self {
        Self {
            conn,
            inbox: Inbox::default(),
            job: None,
            closing: false,
            drain_until: None,
            enqueued: 0,
            marks: VecDeque::new(),
        }
    }

    /// Reads what is there. Returns (end of stream, call again).
    pub(crate) fn read(&mut self, scratch: &mut RecvBuf) -> io::Result<(bool, bool)> {
        let (inbox, drain) = (&mut self.inbox, self.drain_until.is_some());
        let outcome = self.conn.read(scratch, &mut |bytes, at, source| {
            if !drain {
                inbox.push(bytes, Arrival { at, by_kernel: source == StampSource::Kernel });
            }
        })?;
        Ok((outcome.eof, outcome.more))
    }

    /// Puts bytes into the out-buffer; nothing is written yet.
    pub(crate) fn enqueue(&mut self, bytes: &[u8], mark: Option<Mark>) {
        self.conn.out().extend_from_slice(bytes);
        self.enqueued += bytes.len() as u64;
        self.marks.extend(mark.map(|mark| (self.enqueued, mark)));
    }

    /// Writes what the kernel takes, and appends the marks that it has taken, with the instant. Returns the bytes
    /// left.
    pub(crate) fn flush(&mut self, accepted: &mut Vec<(Mark, u64)>) -> io::Result<usize> {
        let outcome = self.conn.write_pending()?;
        let at = outcome.sent_ns.unwrap_or_else(mono_ns);
        let taken = self.enqueued - outcome.bytes_left as u64;
        while let Some(&(end, mark)) = self.marks.front() {
            if end > taken {
                break;
            }
            self.marks.pop_front();
            accepted.push((mark, at));
        }
        Ok(outcome.bytes_left)
    }

    /// Requests whose last content the kernel never took.
    pub(crate) fn unsent_ends(&self) -> Vec<u64> {
        self.marks.iter().filter(|(_, mark)| mark.last.is_some()).map(|(_, mark)| mark.record).collect()
    }
}
