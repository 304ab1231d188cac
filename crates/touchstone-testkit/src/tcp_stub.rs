//! A peer that misbehaves by script, for what a real server does too rarely to wait for: it hangs, closes at once,
//! refuses, sends bytes cut in odd places, resets.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, getsockname, setsockopt, socket, sockopt,
};

/// How often a waiting stub looks whether it is to stop.
const TICK: Duration = Duration::from_millis(5);

/// One thing done with an accepted connection. After the last step the connection is closed in good order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Reads until these bytes have come (`b"\r\n\r\n"` for a request's head).
    ReadUntil(Vec<u8>),
    /// Sends these bytes at once, without delay by the kernel.
    Send(Vec<u8>),
    /// Does nothing for a while.
    Pause(Duration),
    /// Does nothing until the stub is stopped or the peer closes; what the peer sends is read and kept.
    Hang,
    /// Goes on with the same steps from the first one, on the same connection.
    Repeat,
    /// Closes with a reset instead of an orderly end.
    Reset,
}

impl Step {
    /// [`Step::Send`] of a text.
    pub fn send(text: &str) -> Step {
        Step::Send(text.as_bytes().to_vec())
    }

    /// [`Step::ReadUntil`] the end of an HTTP request's head.
    pub fn read_head() -> Step {
        Step::ReadUntil(b"\r\n\r\n".to_vec())
    }

    /// `bytes` sent in pieces of `size`, with a pause between each two.
    pub fn send_in_pieces(bytes: &[u8], size: usize, pause: Duration) -> Vec<Step> {
        let mut steps = Vec::new();
        for piece in bytes.chunks(size.max(1)) {
            if !steps.is_empty() {
                steps.push(Step::Pause(pause));
            }
            steps.push(Step::Send(piece.to_vec()));
        }
        steps
    }
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    accepted: AtomicUsize,
    received: Mutex<Vec<Vec<u8>>>,
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn keep(&self, connection: usize, bytes: &[u8]) {
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        if received.len() <= connection {
            received.resize(connection + 1, Vec::new());
        }
        received[connection].extend(bytes);
    }
}

/// A scripted TCP server on a free loopback port; it stops when dropped.
#[derive(Debug)]
pub struct TcpStub {
    addr: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
    /// Bound but not listening, so that the port refuses and nobody else can take it.
    _refusing: Option<OwnedFd>,
}

impl TcpStub {
    /// Accepts connections and does `steps` with each, each in a thread of its own.
    pub fn start(steps: Vec<Step>) -> Result<TcpStub> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let acceptor = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &Arc::from(steps), &shared)
        });
        Ok(TcpStub { addr, shared, acceptor: Some(acceptor), _refusing: None })
    }

    /// Accepts, reads, and never answers.
    pub fn hanging() -> Result<TcpStub> {
        TcpStub::start(vec![Step::Hang])
    }

    /// Accepts and closes at once.
    pub fn closing() -> Result<TcpStub> {
        TcpStub::start(Vec::new())
    }

    /// Refuses every connection for as long as the stub lives.
    pub fn refusing() -> Result<TcpStub> {
        let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
        bind(fd, &SockaddrIn::new(127, 0, 0, 1, 0))?;
        let bound: SockaddrIn = getsockname(fd)?;
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, bound.port()));
        Ok(TcpStub { addr, shared: Arc::default(), acceptor: None, _refusing: Some(socket) })
    }

    /// The loopback address it listens on (or refuses at).
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// What each connection has sent so far, in the order of acceptance.
    pub fn received(&self) -> Vec<Vec<u8>> {
        self.shared.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for TcpStub {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(acceptor) = self.acceptor.take() {
            // A panic in the stub's thread has been printed already; a drop must not add one.
            drop(acceptor.join());
        }
    }
}

fn accept(listener: &TcpListener, steps: &Arc<[Step]>, shared: &Arc<Shared>) {
    let mut workers = Vec::new();
    while !shared.stopped() {
        match listener.accept() {
            Ok((stream, _)) => {
                let number = shared.accepted.fetch_add(1, Ordering::Relaxed);
                let (steps, shared) = (Arc::clone(steps), Arc::clone(shared));
                // The peer may leave in the middle of any step; that ends the script and is no fault.
                workers.push(thread::spawn(move || drop(perform(stream, number, &steps, &shared))));
            }
            Err(_) => thread::sleep(TICK),
        }
    }
    for worker in workers {
        drop(worker.join());
    }
}

fn perform(mut stream: TcpStream, number: usize, steps: &[Step], shared: &Shared) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TICK))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let mut unread = Vec::new();
    let mut next = 0;
    while let Some(step) = steps.get(next) {
        if shared.stopped() {
            return Ok(());
        }
        next += 1;
        match step {
            Step::ReadUntil(mark) => {
                if !read_until(&mut stream, mark, &mut unread, number, shared)? {
                    return Ok(());
                }
            }
            Step::Send(bytes) => stream.write_all(bytes)?,
            Step::Pause(time) => thread::sleep(*time),
            Step::Hang => while read_some(&mut stream, &mut unread, number, shared)?.is_some() {},
            Step::Repeat => next = 0,
            Step::Reset => {
                setsockopt(&stream, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?;
                return Ok(());
            }
        }
    }
    // Reading what is left turns the close into an orderly end: unread bytes would make the kernel send a reset.
    stream.shutdown(Shutdown::Write)?;
    while read_some(&mut stream, &mut unread, number, shared)?.is_some() {}
    Ok(())
}

/// True once `mark` has come; what follows it stays for the next step. False at the end of the stream.
fn read_until(
    stream: &mut TcpStream,
    mark: &[u8],
    unread: &mut Vec<u8>,
    number: usize,
    shared: &Shared,
) -> std::io::Result<bool> {
    loop {
        if let Some(at) = unread.windows(mark.len().max(1)).position(|window| window == mark) {
            unread.drain(..at + mark.len());
            return Ok(true);
        }
        if read_some(stream, unread, number, shared)?.is_none() {
            return Ok(false);
        }
    }
}

/// Reads once; `None` when the peer has closed or the stub is to stop, `Some` also when nothing came within a tick.
fn read_some(
    stream: &mut TcpStream,
    unread: &mut Vec<u8>,
    number: usize,
    shared: &Shared,
) -> std::io::Result<Option<()>> {
    if shared.stopped() {
        return Ok(None);
    }
    let mut buffer = [0; 4096];
    match stream.read(&mut buffer) {
        Ok(0) => Ok(None),
        Ok(count) => {
            shared.keep(number, &buffer[..count]);
            unread.extend(&buffer[..count]);
            Ok(Some(()))
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(Some(())),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(stub: &TcpStub) -> TcpStream {
        let stream = TcpStream::connect(stub.addr()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    fn read_all(mut stream: TcpStream) -> std::io::Result<String> {
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn a_script_answers_after_the_request_has_come() {
        let mut steps = vec![Step::read_head()];
        steps.extend(Step::send_in_pieces("HTTP/1.1 200 OK\r\n\r\né".as_bytes(), 1, Duration::ZERO));
        let stub = TcpStub::start(steps).unwrap();
        let mut stream = connect(&stub);
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(stream).unwrap(), "HTTP/1.1 200 OK\r\n\r\né");
        assert_eq!(stub.received(), [b"GET / HTTP/1.1\r\n\r\n".to_vec()]);
        assert_eq!(stub.connections(), 1);
    }

    #[test]
    fn one_connection_is_answered_again_and_again() {
        let stub =
            TcpStub::start(vec![Step::ReadUntil(b"\n".to_vec()), Step::send("ok\n"), Step::Repeat]).unwrap();
        let mut stream = connect(&stub);
        stream.write_all(b"a\nb\nc\n").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(stream).unwrap(), "ok\nok\nok\n");
    }

    #[test]
    fn closing_ends_in_good_order_and_reset_does_not() {
        assert_eq!(read_all(connect(&TcpStub::closing().unwrap())).unwrap(), "");
        let stub = TcpStub::start(vec![Step::ReadUntil(b"x".to_vec()), Step::Reset]).unwrap();
        let mut stream = connect(&stub);
        stream.write_all(b"x").unwrap();
        assert_eq!(read_all(stream).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }

    #[test]
    fn hanging_says_nothing_and_still_stops() {
        let stub = TcpStub::hanging().unwrap();
        let mut stream = connect(&stub);
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let error = stream.read(&mut [0]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
        drop(stub);
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn refusing_refuses_for_as_long_as_it_lives() {
        let stub = TcpStub::refusing().unwrap();
        for _ in 0..3 {
            let error = TcpStream::connect(stub.addr()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        }
    }
}
