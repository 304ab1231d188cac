//! A connection with its session and the operations on it.

use std::collections::VecDeque;

use touchstone_load::{OpToken, Session};
use touchstone_net::Conn;

/// Whether operations may start on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// The transport is not connected yet.
    Connecting,
    /// The transport is connected; the protocol's greeting is not over.
    Greeting,
    /// Operations may start.
    Open,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) conn: Conn,
    pub(crate) session: Box<dyn Session>,
    pub(crate) state: LinkState,
    pub(crate) generation: u32,
    pub(crate) opened_ns: u64,
    /// Number of operations on it.
    pub(crate) active: u32,
    /// Whether an operation has ended on it: then its peer may close it between two operations.
    pub(crate) reused: bool,
    /// Whether it stands in the list of links with free capacity.
    pub(crate) listed: bool,
    /// Whether bytes were added since the last flush.
    pub(crate) dirty: bool,
    /// Whether it is counted among those whose last answer is about to end.
    pub(crate) finishing: bool,
    /// When its last operation ended, if none was started on it since.
    pub(crate) freed_ns: Option<u64>,
    /// Bytes appended since the link was opened.
    queued: u64,
    /// Of these, taken by the kernel.
    written: u64,
    /// Operations whose last byte is not known to be with the kernel, with the offset after that byte.
    unsent: VecDeque<(u64, OpToken)>,
}

impl Link {
    pub(crate) fn new(conn: Conn, session: Box<dyn Session>, generation: u32, opened_ns: u64) -> Self {
        Self {
            conn,
            session,
            state: LinkState::Connecting,
            generation,
            opened_ns,
            active: 0,
            reused: false,
            listed: false,
            dirty: false,
            finishing: false,
            freed_ns: None,
            queued: 0,
            written: 0,
            unsent: VecDeque::new(),
        }
    }

    /// Appends what a session wrote; gives the number of bytes.
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut dyn Session, &mut Vec<u8>)) -> u64 {
        let out = self.conn.out();
        let before = out.len();
        write(self.session.as_mut(), out);
        let added = (out.len() - before) as u64;
        self.queued += added;
        added
    }

    /// Notes that the bytes appended last are the end of an operation's request.
    pub(crate) fn await_sent(&mut self, token: OpToken) {
        self.unsent.push_back((self.queued, token));
    }

    /// The operations whose last byte is with the kernel when `bytes_left` are not.
    pub(crate) fn now_sent(&mut self, bytes_left: usize) -> impl Iterator<Item = OpToken> + '_ {
        let written = self.queued.saturating_sub(bytes_left as u64);
        self.written = written;
        std::iter::from_fn(move || {
            let (end, token) = self.unsent.front().copied()?;
            (end <= written).then(|| {
                self.unsent.pop_front();
                token
            })
        })
    }

    /// Bytes that the kernel has not taken: a peer that does not read lets them grow.
    pub(crate) fn backlog(&self) -> u64 {
        self.queued.saturating_sub(self.written)
    }

    /// Forgets an operation that was given up: its token may soon stand for another.
    pub(crate) fn forget(&mut self, token: OpToken) {
        self.unsent.retain(|(_, unsent)| *unsent != token);
    }

    /// Whether an operation's request is not with the kernel yet.
    pub(crate) fn is_unsent(&self, token: OpToken) -> bool {
        self.unsent.iter().any(|(_, unsent)| *unsent == token)
    }
}
