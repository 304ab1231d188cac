//! Driving connections to a point in a test.

use std::net::{Ipv4Addr, SocketAddr};

use touchstone_net::{
    Conn, ConnState, ConnectError, ConnectProgress, Endpoint, Interest, Listener, Poller, Ready, RecvBuf,
    Token, mono_ns,
};

/// A test that waits this long for an event is stuck.
pub(crate) const STALL_NS: u64 = 20_000_000_000;

pub(crate) fn loopback() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

pub(crate) fn both() -> Interest {
    Interest::READABLE | Interest::WRITABLE
}

/// Waits for any event and fails the test when none comes.
pub(crate) fn next_events(poller: &mut Poller, events: &mut Vec<Ready>) {
    poller.wait(events, Some(mono_ns() + STALL_NS)).unwrap();
    assert!(!events.is_empty(), "no event came");
}

/// Connects to the endpoint and drives it until it is ready or fails.
pub(crate) fn establish(
    endpoint: &Endpoint,
    poller: &mut Poller,
    token: Token,
) -> Result<Conn, ConnectError> {
    let addr = endpoint.resolve()?.remove(0);
    let mut scratch = RecvBuf::new();
    let mut conn = Conn::connect(&addr, endpoint)?;
    poller.register(&conn, token, both()).unwrap();
    let mut events = Vec::new();
    loop {
        match conn.drive_connect(mono_ns(), &mut scratch) {
            Ok(ConnectProgress::Ready) => return Ok(conn),
            Ok(ConnectProgress::Pending) => next_events(poller, &mut events),
            Err(error) => {
                assert_eq!(conn.state(), ConnState::Closed);
                return Err(error);
            }
        }
    }
}

/// A connected plaintext pair, (client, server), registered under tokens 1 and 2.
pub(crate) fn pair(poller: &mut Poller) -> (Conn, Conn) {
    let listener = Listener::bind(loopback()).unwrap();
    poller.register(&listener, Token(0), Interest::READABLE).unwrap();
    let endpoint = Endpoint::tcp("127.0.0.1", listener.local_addr().port());
    let client = establish(&endpoint, poller, Token(1)).unwrap();
    let mut events = Vec::new();
    let server = loop {
        if let Some(conn) = listener.accept().unwrap() {
            break conn;
        }
        next_events(poller, &mut events);
    };
    poller.register(&server, Token(2), both()).unwrap();
    assert_eq!(client.state(), ConnState::Open);
    assert_eq!(server.state(), ConnState::Open);
    (client, server)
}

/// Reads until `enough` says so or the stream ends; returns the bytes and whether it ended.
pub(crate) fn read_until(
    conn: &mut Conn,
    poller: &mut Poller,
    scratch: &mut RecvBuf,
    enough: impl Fn(&[u8]) -> bool,
) -> (Vec<u8>, bool) {
    let mut got = Vec::new();
    let mut events = Vec::new();
    loop {
        let outcome = conn.read(scratch, &mut |bytes, _, _| got.extend_from_slice(bytes)).unwrap();
        if outcome.eof || enough(&got) {
            return (got, outcome.eof);
        }
        if !outcome.more {
            next_events(poller, &mut events);
        }
    }
}
