//! A listening TCP socket whose connections are stamped from their first byte.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use crate::conn::Conn;
use crate::stamp::enable_receive_stamps;

/// A non-blocking TCP listener. Register it for reading and `accept` until `None`.
#[derive(Debug)]
pub struct Listener {
    socket: mio::net::TcpListener,
    local: SocketAddr,
}

impl Listener {
    /// Listens on `addr`; port 0 takes a free one (see [`Listener::local_addr`]). The address can be bound again
    /// right after a close (`SO_REUSEADDR`).
    ///
    /// # Errors
    /// Those of `bind(2)` and `listen(2)`: address in use, permission, and so on.
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        let socket = mio::net::TcpListener::bind(addr)?;
        // Accepted sockets inherit it. Without kernel stamps receives are stamped in user space.
        enable_receive_stamps(&socket);
        let local = socket.local_addr()?;
        Ok(Self { socket, local })
    }

    /// The address listened on, with the real port.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Takes the next connection: plaintext, open, stamped, with `TCP_NODELAY`. `None` when none is waiting.
    /// Connections that died while waiting are skipped.
    ///
    /// # Errors
    /// Those of `accept(2)`, e.g. no free descriptor; the listener stays usable.
    pub fn accept(&self) -> io::Result<Option<Conn>> {
        loop {
            match self.socket.accept() {
                Ok((stream, peer)) => return Conn::accepted(stream, peer).map(Some),
                Err(e) => match e.kind() {
                    io::ErrorKind::WouldBlock => return Ok(None),
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => return Err(e),
                },
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
