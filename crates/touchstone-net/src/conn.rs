//! A non-blocking stream connection: connect, TLS handshake, stamped reads, buffered writes.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage};

use crate::clock::mono_ns;
use crate::endpoint::{Endpoint, PeerAddr};
use crate::error::ConnectError;
use crate::poller::Ready;
use crate::stamp::{RecvBuf, StampSource, enable_receive_stamps};
use crate::tls::{Fed, Session};

/// Receives that one [`Conn::read`] makes at most, so that one busy peer cannot hold up the others.
const MAX_RECEIVES: usize = 32;
/// Sent bytes in front of the out-buffer are dropped once they are this many and half of it.
const COMPACT_AT: usize = 64 * 1024;

/// Where a connection is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnState {
    /// Waiting for the transport to connect.
    Connecting,
    /// Connected, TLS handshake under way.
    Handshaking,
    /// Ready for data in both directions.
    Open,
    /// The peer has ended its stream; writing is still possible.
    HalfClosed,
    /// Failed or shut down in both directions: of no further use.
    Closed,
}

/// How far [`Conn::drive_connect`] has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectProgress {
    /// Wait for the next event and call again.
    Pending,
    /// Ready for data. Because readiness is edge-triggered, write what is pending and [`Conn::read`] once without
    /// waiting for an event: the peer's first bytes may have come with the handshake.
    Ready,
}

/// When the steps of connecting happened, on the monotonic clock in nanoseconds; `None` until they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectTiming {
    /// Just before the connect call, or the accept.
    pub started_ns: u64,
    /// The transport was found to be connected (the `now` given to [`Conn::drive_connect`]).
    pub connected_ns: Option<u64>,
    /// The last handshake message arrived (a receive stamp); `None` without TLS.
    pub tls_ns: Option<u64>,
}

/// What [`Conn::write_pending`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOutcome {
    /// Bytes of the out-buffer that the kernel has not accepted (plaintext, plus encrypted bytes held back). When
    /// not 0, wait for writability and call again.
    pub bytes_left: usize,
    /// The moment after the write that had the last byte accepted; `None` unless that happened in this call.
    pub sent_ns: Option<u64>,
}

/// What [`Conn::read`] did. Each receive's own stamp goes to the sink; this sums them up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOutcome {
    /// Bytes handed to the sink (plaintext).
    pub bytes: usize,
    /// Stamp of the last receive, in nanoseconds on the monotonic clock; of the end of the stream when only that
    /// came; 0 when nothing did.
    pub stamp_ns: u64,
    /// Who took that stamp.
    pub source: StampSource,
    /// The peer has ended its stream.
    pub eof: bool,
    /// The stream ended without the closing message of TLS: what came may be cut short.
    pub truncated: bool,
    /// The limit per call was reached with data left: call again without waiting for an event.
    pub more: bool,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Self::Tcp(s) => s.take_error(),
            Self::Unix(s) => s.take_error(),
        }
    }

    fn connected(&self) -> io::Result<bool> {
        let peer = match self {
            Self::Tcp(s) => s.peer_addr().map(drop),
            Self::Unix(s) => s.peer_addr().map(drop),
        };
        match peer {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(false),
            // The kernel of macOS says so for a socket that is still connecting.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(s) => s.shutdown(how),
            Self::Unix(s) => s.shutdown(how),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => (&mut &*s).write(bytes),
            Stream::Unix(s) => (&mut &*s).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(s) => s.as_fd(),
            Self::Unix(s) => s.as_fd(),
        }
    }
}

/// One connection, client or server side. Dropping it closes it.
#[derive(Debug)]
pub struct Conn {
    stream: Stream,
    peer: PeerAddr,
    state: ConnState,
    timing: ConnectTiming,
    tls: Option<Box<Session>>,
    out: Vec<u8>,
    /// How much of `out` has been written (or encrypted).
    out_at: usize,
    /// Plaintext that came with the last handshake message, with its stamp.
    early: Vec<u8>,
    early_stamp: Option<(u64, StampSource)>,
    /// The peer has ended its stream; for TLS, whether with the closing message.
    ended: bool,
    truncated: bool,
}

impl Conn {
    /// Starts connecting to `addr` (one of [`Endpoint::resolve`]'s). Register the connection for reading and writing
    /// and call [`Conn::drive_connect`] at each event, and once right away.
    ///
    /// # Errors
    /// [`ConnectError`] when the failure is known at once.
    pub fn connect(addr: &PeerAddr, endpoint: &Endpoint) -> Result<Self, ConnectError> {
        let started_ns = mono_ns();
        let failed = |source| ConnectError::from_io(addr, source);
        let stream = match addr {
            PeerAddr::Tcp(to) => Stream::Tcp(connect_tcp(*to, endpoint)?),
            PeerAddr::Unix(path) => {
                let connecting = mio::net::UnixStream::connect(path).map_err(failed)?;
                Stream::Unix(UnixStream::from(OwnedFd::from(connecting)))
            }
        };
        let tls = match &endpoint.tls {
            None => None,
            Some(config) => Some(Box::new(
                config
                    .session()
                    .map_err(|source| ConnectError::from_tls(addr, config.server_name(), source))?,
            )),
        };
        let timing = ConnectTiming { started_ns, connected_ns: None, tls_ns: None };
        Ok(Self::new(stream, addr.clone(), ConnState::Connecting, timing, tls))
    }

    /// The server side of a connection that a listener accepted.
    pub(crate) fn accepted(stream: mio::net::TcpStream, peer: SocketAddr) -> io::Result<Self> {
        let now = mono_ns();
        let stream = TcpStream::from(OwnedFd::from(stream));
        stream.set_nodelay(true)?;
        enable_receive_stamps(&stream);
        let timing = ConnectTiming { started_ns: now, connected_ns: Some(now), tls_ns: None };
        Ok(Self::new(Stream::Tcp(stream), PeerAddr::Tcp(peer), ConnState::Open, timing, None))
    }

    fn new(
        stream: Stream,
        peer: PeerAddr,
        state: ConnState,
        timing: ConnectTiming,
        tls: Option<Box<Session>>,
    ) -> Self {
        Self {
            stream,
            peer,
            state,
            timing,
            tls,
            out: Vec::new(),
            out_at: 0,
            early: Vec::new(),
            early_stamp: None,
            ended: false,
            truncated: false,
        }
    }

    /// The descriptor, for diagnostics; to register, pass the connection itself to the poller.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.stream.as_fd().as_raw_fd()
    }

    /// Where the connection is in its life.
    #[must_use]
    pub fn state(&self) -> ConnState {
        self.state
    }

    /// The address of the other side.
    #[must_use]
    pub fn peer(&self) -> &PeerAddr {
        &self.peer
    }

    /// This side's address; `None` for a Unix socket or when the system does not say.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match &self.stream {
            Stream::Tcp(s) => s.local_addr().ok(),
            Stream::Unix(_) => None,
        }
    }

    /// When the steps of connecting happened.
    #[must_use]
    pub fn timing(&self) -> ConnectTiming {
        self.timing
    }

    /// The application protocol agreed on by ALPN, if any.
    #[must_use]
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls.as_ref().and_then(|tls| tls.alpn())
    }

    /// Goes on with connecting and the TLS handshake. `now` is the instant of the event ([`mono_ns`]).
    /// On an open connection it does nothing and says [`ConnectProgress::Ready`].
    ///
    /// # Errors
    /// [`ConnectError`]; the connection is then [`ConnState::Closed`].
    pub fn drive_connect(
        &mut self,
        now: u64,
        scratch: &mut RecvBuf,
    ) -> Result<ConnectProgress, ConnectError> {
        let result = self.drive(now, scratch);
        if result.is_err() {
            self.state = ConnState::Closed;
        }
        result
    }

    fn drive(&mut self, now: u64, scratch: &mut RecvBuf) -> Result<ConnectProgress, ConnectError> {
        if self.state == ConnState::Connecting {
            let up = match self.stream.take_error() {
                Ok(None) => self.stream.connected(),
                Ok(Some(error)) | Err(error) => Err(error),
            };
            if !up.map_err(|source| ConnectError::from_io(&self.peer, source))? {
                return Ok(ConnectProgress::Pending);
            }
            self.timing.connected_ns = Some(now);
            self.state = if self.tls.is_some() { ConnState::Handshaking } else { ConnState::Open };
        }
        if self.state == ConnState::Handshaking {
            return self.handshake(scratch);
        }
        Ok(ConnectProgress::Ready)
    }

    fn handshake(&mut self, scratch: &mut RecvBuf) -> Result<ConnectProgress, ConnectError> {
        let Self { stream, peer, tls, early, early_stamp, ended, .. } = self;
        let Some(tls) = tls else { return Ok(ConnectProgress::Ready) };
        let mut buffer = std::mem::take(&mut scratch.scratch);
        let result = loop {
            // Flights go out without the application's bytes: those follow with `write_pending`.
            if let Err(source) = tls.write(&[], &mut 0, &mut &*stream) {
                break Err(lost(peer, tls, source));
            }
            if !tls.handshaking() {
                break Ok(true);
            }
            let received = match scratch.recv(stream, &mut buffer) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break Ok(false),
                Err(source) => break Err(lost(peer, tls, source)),
                Ok(received) => received,
            };
            if received.len == 0 {
                break Err(ConnectError::ClosedInHandshake { peer: peer.clone(), silent: tls.silent() });
            }
            *early_stamp = Some((received.stamp_ns, received.source));
            match tls.feed(&buffer[..received.len], &mut |plain| early.extend_from_slice(plain)) {
                Ok(Fed::Open) => {}
                Ok(Fed::CloseNotify) if tls.handshaking() => {
                    break Err(ConnectError::ClosedInHandshake { peer: peer.clone(), silent: false });
                }
                Ok(Fed::CloseNotify) => *ended = true,
                Err(source) => {
                    // The alert tells the peer why; it is lost if the socket does not take it now.
                    drop(tls.write(&[], &mut 0, &mut &*stream));
                    break Err(match tls.not_tls() {
                        Some(http) => ConnectError::NotTls { peer: peer.clone(), http },
                        None => ConnectError::from_tls(peer, tls.server_name.clone(), source),
                    });
                }
            }
        };
        scratch.scratch = buffer;
        if result? {
            self.timing.tls_ns = self.early_stamp.map(|(at, _)| at);
            self.state = ConnState::Open;
            return Ok(ConnectProgress::Ready);
        }
        Ok(ConnectProgress::Pending)
    }

    /// The out-buffer: append what is to be sent, then call [`Conn::write_pending`]. Only append: its front may
    /// still hold bytes that were sent already.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Whether something waits to be sent.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        self.bytes_left() > 0 || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    fn bytes_left(&self) -> usize {
        self.out.len().saturating_sub(self.out_at) + self.tls.as_ref().map_or(0, |tls| tls.cipher_left())
    }

    /// Writes until the out-buffer is empty or the kernel takes no more. Before the connection is open it writes
    /// nothing and reports everything as left.
    ///
    /// # Errors
    /// Those of `write(2)`, e.g. `BrokenPipe`, `ConnectionReset`. What the peer sent before may still be read,
    /// an early answer for instance.
    pub fn write_pending(&mut self) -> io::Result<WriteOutcome> {
        let before = self.bytes_left();
        match self.state {
            ConnState::Connecting | ConnState::Handshaking => {
                return Ok(WriteOutcome { bytes_left: before, sent_ns: None });
            }
            ConnState::Closed => return Err(io::ErrorKind::NotConnected.into()),
            ConnState::Open | ConnState::HalfClosed => {}
        }
        if !self.has_pending() {
            return Ok(WriteOutcome { bytes_left: 0, sent_ns: None });
        }
        if self.write_some()? {
            // Messages of TLS itself are not what the caller sent.
            let sent_ns = (before > 0).then(mono_ns);
            self.out.clear();
            self.out_at = 0;
            return Ok(WriteOutcome { bytes_left: 0, sent_ns });
        }
        if self.out_at >= COMPACT_AT && self.out_at * 2 >= self.out.len() {
            self.out.drain(..self.out_at);
            self.out_at = 0;
        }
        Ok(WriteOutcome { bytes_left: self.bytes_left(), sent_ns: None })
    }

    fn write_some(&mut self) -> io::Result<bool> {
        let mut socket = &self.stream;
        // A caller that cleared the buffer instead of appending must not make the offset point past it.
        self.out_at = self.out_at.min(self.out.len());
        if let Some(tls) = &mut self.tls {
            return tls.write(&self.out, &mut self.out_at, &mut socket);
        }
        while self.out_at < self.out.len() {
            match socket.write(&self.out[self.out_at..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.out_at += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Receives until nothing is left (at most 32 times, see [`ReadOutcome::more`]). `sink` gets the bytes of each
    /// receive with its stamp (nanoseconds, monotonic): exact for the last byte, an upper bound for earlier ones.
    ///
    /// # Errors
    /// Those of `recvmsg(2)`, e.g. `ConnectionReset`; `InvalidData` around a [`rustls::Error`]. The connection
    /// is then [`ConnState::Closed`]; bytes that came before have been handed over.
    pub fn read(
        &mut self,
        scratch: &mut RecvBuf,
        sink: &mut dyn FnMut(&[u8], u64, StampSource),
    ) -> io::Result<ReadOutcome> {
        self.read_until(scratch, sink, true)
    }

    /// Like [`Conn::read`] after an event, but stops at a receive that did not fill the buffer, which saves a system
    /// call. Safe because whatever comes later is a new event, and an end of the stream that came
    /// before shows in `ready.closed`.
    ///
    /// # Errors
    /// As [`Conn::read`].
    pub fn read_ready(
        &mut self,
        ready: &Ready,
        scratch: &mut RecvBuf,
        sink: &mut dyn FnMut(&[u8], u64, StampSource),
    ) -> io::Result<ReadOutcome> {
        self.read_until(scratch, sink, ready.closed || cfg!(not(target_os = "linux")))
    }

    fn read_until(
        &mut self,
        scratch: &mut RecvBuf,
        sink: &mut dyn FnMut(&[u8], u64, StampSource),
        to_the_end: bool,
    ) -> io::Result<ReadOutcome> {
        match self.state {
            ConnState::Connecting | ConnState::Handshaking => return Ok(self.outcome(0, None, false)),
            ConnState::Closed => return Err(io::ErrorKind::NotConnected.into()),
            ConnState::Open | ConnState::HalfClosed => {}
        }
        let mut buffer = std::mem::take(&mut scratch.scratch);
        let result = self.receive_all(&mut buffer, scratch, sink, to_the_end);
        scratch.scratch = buffer;
        match &result {
            Err(_) => self.state = ConnState::Closed,
            Ok(outcome) if outcome.eof => self.state = ConnState::HalfClosed,
            Ok(_) => {}
        }
        result
    }

    fn receive_all(
        &mut self,
        buffer: &mut [u8],
        scratch: &mut RecvBuf,
        sink: &mut dyn FnMut(&[u8], u64, StampSource),
        to_the_end: bool,
    ) -> io::Result<ReadOutcome> {
        let mut bytes = 0;
        let mut stamp = None;
        if !self.early.is_empty() {
            stamp = self.early_stamp;
            let (at, source) = stamp.unwrap_or((mono_ns(), StampSource::User));
            sink(&self.early, at, source);
            bytes += self.early.len();
            self.early = Vec::new();
        }
        let mut receives = 0;
        while !self.ended {
            if receives == MAX_RECEIVES {
                return Ok(self.outcome(bytes, stamp, true));
            }
            receives += 1;
            let received = match scratch.recv(&self.stream, buffer) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                other => other?,
            };
            stamp = Some((received.stamp_ns, received.source));
            if received.len == 0 {
                self.ended = true;
                self.truncated = self.tls.is_some();
                break;
            }
            let data = &buffer[..received.len];
            match &mut self.tls {
                None => {
                    sink(data, received.stamp_ns, received.source);
                    bytes += received.len;
                }
                Some(tls) => {
                    let mut plain_sink = |plain: &[u8]| {
                        bytes += plain.len();
                        sink(plain, received.stamp_ns, received.source);
                    };
                    match tls.feed(data, &mut plain_sink) {
                        Ok(Fed::Open) => {}
                        Ok(Fed::CloseNotify) => self.ended = true,
                        Err(source) => return Err(io::Error::new(io::ErrorKind::InvalidData, source)),
                    }
                }
            }
            if !to_the_end && received.len < buffer.len() {
                break;
            }
        }
        Ok(self.outcome(bytes, stamp, false))
    }

    fn outcome(&self, bytes: usize, stamp: Option<(u64, StampSource)>, more: bool) -> ReadOutcome {
        let (stamp_ns, source) = stamp.unwrap_or((0, StampSource::User));
        ReadOutcome { bytes, stamp_ns, source, eof: self.ended, truncated: self.truncated, more }
    }

    /// Ends this side's stream (`Write`), or the whole connection (`Both`). For TLS the closing message is sent
    /// first. Write what is pending before: this does not wait for it.
    ///
    /// # Errors
    /// Those of `shutdown(2)`; a connection that is already gone is no error.
    pub fn shutdown(&mut self, how: Shutdown) -> io::Result<()> {
        if how != Shutdown::Read
            && matches!(self.state, ConnState::Open | ConnState::HalfClosed)
            && let Some(tls) = &mut self.tls
        {
            tls.close_notify();
            // Best effort: the peer may be gone, which is no failure of a shutdown.
            drop(tls.write(&[], &mut 0, &mut &self.stream));
        }
        if how == Shutdown::Both {
            self.state = ConnState::Closed;
        }
        match self.stream.shutdown(how) {
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(()),
            other => other,
        }
    }
}

impl AsFd for Conn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// A transport that fails during the handshake: a reset is the peer hanging up.
fn lost(peer: &PeerAddr, tls: &Session, source: io::Error) -> ConnectError {
    match source.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            ConnectError::ClosedInHandshake { peer: peer.clone(), silent: tls.silent() }
        }
        _ => ConnectError::from_io(peer, source),
    }
}

/// Starts a non-blocking connect with the options that must be set before it.
fn connect_tcp(to: SocketAddr, endpoint: &Endpoint) -> Result<TcpStream, ConnectError> {
    let peer = PeerAddr::Tcp(to);
    let failed = |source: io::Error| ConnectError::from_io(&peer, source);
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    #[cfg(target_os = "linux")]
    let flags = SockFlag::SOCK_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = SockFlag::empty();
    let fd = nix::sys::socket::socket(family, SockType::Stream, flags, None).map_err(|e| failed(e.into()))?;
    let stream = TcpStream::from(fd);
    stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).map_err(failed)?;
    // Before connecting, so that the very first byte is stamped. Without kernel stamps, user stamps serve.
    enable_receive_stamps(&stream);
    let raw = stream.as_raw_fd();
    if let Some(local) = endpoint.local_addr {
        let refused = |e: nix::errno::Errno| ConnectError::LocalAddress { local, source: e.into() };
        // The port is then chosen at connect time and may be shared between targets. Older kernels lack it.
        #[cfg(target_os = "linux")]
        let _unsupported =
            nix::sys::socket::setsockopt(&stream, nix::sys::socket::sockopt::IpBindAddressNoPort, &true)
                .err();
        let from = SockaddrStorage::from(SocketAddr::new(local, 0));
        nix::sys::socket::bind(raw, &from).map_err(refused)?;
    }
    match nix::sys::socket::connect(raw, &SockaddrStorage::from(to)) {
        Ok(()) | Err(nix::errno::Errno::EINPROGRESS | nix::errno::Errno::EINTR) => Ok(stream),
        Err(e) => Err(failed(e.into())),
    }
}
