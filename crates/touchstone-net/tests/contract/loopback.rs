//! Contract of connections and listener in plaintext.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;

use crate::support::{establish, loopback, next_events, pair, read_until};
use touchstone_net::{ConnState, ConnectError, Endpoint, Poller, RecvBuf, StampSource, Token, mono_ns};

#[test]
fn without_the_option_the_stamp_is_taken_after_the_read() {
    let listener = TcpListener::bind(loopback()).unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (receiver, _) = listener.accept().unwrap();
    sender.write_all(b"hello").unwrap();
    let mut scratch = RecvBuf::new();
    let mut buf = [0; 16];
    let before = mono_ns();
    let got = scratch.recv(&receiver, &mut buf).unwrap();
    assert_eq!((got.len, got.source), (5, StampSource::User));
    assert!(got.stamp_ns >= before && got.stamp_ns <= mono_ns());
}

#[test]
fn a_request_and_its_answer() {
    let mut poller = Poller::new().unwrap();
    let mut scratch = RecvBuf::new();
    let start = mono_ns();
    let (mut client, mut server) = pair(&mut poller);
    let timing = client.timing();
    assert!(timing.started_ns >= start && timing.connected_ns.unwrap() >= timing.started_ns);
    assert_eq!(timing.tls_ns, None);

    assert_eq!(client.write_pending().unwrap().sent_ns, None, "nothing to send is not a send");
    client.out().extend_from_slice(b"ping");
    assert!(client.has_pending());
    let before = mono_ns();
    let written = client.write_pending().unwrap();
    assert_eq!(written.bytes_left, 0);
    assert!(written.sent_ns.unwrap() >= before);
    assert!(!client.has_pending());

    let (got, ended) = read_until(&mut server, &mut poller, &mut scratch, |b| b.len() >= 4);
    assert_eq!((got.as_slice(), ended), (&b"ping"[..], false));
    server.out().extend_from_slice(b"pong");
    server.write_pending().unwrap();
    let mut stamps = Vec::new();
    let mut events = Vec::new();
    let mut got = Vec::new();
    while got.len() < 4 {
        next_events(&mut poller, &mut events);
        for ready in events.iter().filter(|r| r.token == Token(1) && r.readable) {
            let outcome = client
                .read_ready(ready, &mut scratch, &mut |bytes, stamp, _| {
                    got.extend_from_slice(bytes);
                    stamps.push(stamp);
                })
                .unwrap();
            assert!(!outcome.eof);
        }
    }
    assert_eq!(got, b"pong");
    let slack = scratch.clock_uncertainty_ns() + 1;
    assert!(*stamps.last().unwrap() + slack >= before);
}

#[test]
fn a_refused_connect_says_so() {
    let listener = TcpListener::bind(loopback()).unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let mut poller = Poller::new().unwrap();
    let error = establish(&Endpoint::tcp("127.0.0.1", port), &mut poller, Token(1)).unwrap_err();
    assert!(matches!(error, ConnectError::Refused { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("connection to 127.0.0.1:{port} refused: nothing listens there"));
}

#[test]
fn a_name_that_cannot_exist_is_a_dns_error() {
    let error = Endpoint::tcp("no such host", 80).resolve().unwrap_err();
    assert!(matches!(error, ConnectError::Dns { .. }), "{error:?}");
}

#[test]
fn a_local_address_is_used_and_a_foreign_one_refused() {
    let listener = TcpListener::bind(loopback()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut poller = Poller::new().unwrap();
    // Another address of the loopback network on Linux; the usual one elsewhere.
    let local = if cfg!(target_os = "linux") { "127.0.0.2" } else { "127.0.0.1" }.parse().unwrap();
    let endpoint = Endpoint::tcp("127.0.0.1", port).with_local_addr(local);
    let conn = establish(&endpoint, &mut poller, Token(1)).unwrap();
    let (_, seen) = listener.accept().unwrap();
    assert_eq!(seen.ip(), local);
    assert_eq!(conn.local_addr(), Some(seen));

    let foreign = endpoint.with_local_addr("192.0.2.1".parse().unwrap());
    let error = establish(&foreign, &mut poller, Token(2)).unwrap_err();
    assert!(matches!(error, ConnectError::LocalAddress { .. }), "{error:?}");
}

#[test]
fn half_close_keeps_the_other_direction() {
    let mut poller = Poller::new().unwrap();
    let mut scratch = RecvBuf::new();
    let (mut client, mut server) = pair(&mut poller);
    client.out().extend_from_slice(b"last words");
    client.write_pending().unwrap();
    client.shutdown(Shutdown::Write).unwrap();

    let (got, ended) = read_until(&mut server, &mut poller, &mut scratch, |_| false);
    assert_eq!((got.as_slice(), ended), (&b"last words"[..], true));
    assert_eq!(server.state(), ConnState::HalfClosed);
    // Reading on reports the end again instead of waiting for an event that never comes.
    assert!(server.read(&mut scratch, &mut |_, _, _| ()).unwrap().eof);

    server.out().extend_from_slice(b"answer");
    assert!(server.write_pending().unwrap().sent_ns.is_some());
    server.shutdown(Shutdown::Both).unwrap();
    assert_eq!(server.state(), ConnState::Closed);
    assert!(server.read(&mut scratch, &mut |_, _, _| ()).is_err());
    let (got, ended) = read_until(&mut client, &mut poller, &mut scratch, |_| false);
    assert_eq!((got.as_slice(), ended), (&b"answer"[..], true));
}

#[test]
fn data_and_the_end_in_one_event_are_both_seen() {
    let mut poller = Poller::new().unwrap();
    let mut scratch = RecvBuf::new();
    let (mut client, mut server) = pair(&mut poller);
    server.out().extend_from_slice(b"bye");
    server.write_pending().unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    // Read as an event-driven caller would: only after events, and with the short-read shortcut.
    let (mut got, mut ended) = (Vec::new(), false);
    let mut events = Vec::new();
    while !ended {
        next_events(&mut poller, &mut events);
        for ready in events.iter().filter(|r| r.token == Token(1) && r.readable) {
            let outcome =
                client.read_ready(ready, &mut scratch, &mut |b, _, _| got.extend_from_slice(b)).unwrap();
            ended |= outcome.eof;
            assert!(!outcome.truncated, "plaintext has no closing message");
        }
    }
    assert_eq!(got, b"bye");
}

#[test]
fn a_large_write_goes_out_in_parts_and_arrives_whole() {
    let mut poller = Poller::new().unwrap();
    let mut scratch = RecvBuf::new();
    let (mut client, mut server) = pair(&mut poller);
    let payload: Vec<u8> = (0..16u32 << 20).map(|i| (i % 251) as u8).collect();
    client.out().extend_from_slice(&payload);
    // Nobody reads: the kernel's buffers fill up.
    let first = client.write_pending().unwrap();
    assert!(first.bytes_left > 0 && first.bytes_left < payload.len(), "{first:?}");
    assert_eq!(first.sent_ns, None);
    assert!(client.has_pending());

    // What is appended meanwhile follows in order.
    client.out().extend_from_slice(b"tail");
    let mut got = Vec::with_capacity(payload.len() + 4);
    let mut sent = None;
    let mut events = Vec::new();
    let mut parts = 0;
    while got.len() < payload.len() + 4 {
        let outcome = server.read(&mut scratch, &mut |b, _, _| got.extend_from_slice(b)).unwrap();
        if sent.is_none() {
            let written = client.write_pending().unwrap();
            parts += 1;
            assert_eq!(written.sent_ns.is_some(), written.bytes_left == 0);
            sent = written.sent_ns;
        } else if !outcome.more && got.len() < payload.len() + 4 {
            next_events(&mut poller, &mut events);
        }
    }
    assert!(parts > 1);
    assert!(sent.is_some());
    assert!(got[..payload.len()] == payload[..] && got.ends_with(b"tail"));
}

#[test]
fn a_busy_peer_cannot_hold_a_reader_forever() {
    let mut poller = Poller::new().unwrap();
    let mut scratch = RecvBuf::new();
    let (mut client, mut server) = pair(&mut poller);
    let total = 6 << 20;
    client.out().resize(total, b'x');
    let mut received = 0;
    let mut limited = false;
    let mut events = Vec::new();
    while received < total {
        let left = client.write_pending().unwrap().bytes_left;
        let outcome = server.read(&mut scratch, &mut |_, _, _| ()).unwrap();
        assert!(outcome.bytes <= 32 * RecvBuf::SCRATCH);
        limited |= outcome.more;
        received += outcome.bytes;
        if left == 0 && !outcome.more && received < total {
            next_events(&mut poller, &mut events);
        }
    }
    assert_eq!(received, total);
    // Whether the limit was reached depends on the kernel's buffers; when it was, nothing got lost.
    println!("limit reached: {limited}");
}

#[test]
fn a_reset_is_an_error_and_closes() {
    let listener = TcpListener::bind(loopback()).unwrap();
    let endpoint = Endpoint::tcp("127.0.0.1", listener.local_addr().unwrap().port());
    let mut poller = Poller::new().unwrap();
    let mut scratch = RecvBuf::new();
    let mut client = establish(&endpoint, &mut poller, Token(1)).unwrap();
    let (server, _) = listener.accept().unwrap();
    client.out().extend_from_slice(b"unread");
    client.write_pending().unwrap();
    let mut byte = [0];
    assert_eq!(server.peek(&mut byte).unwrap(), 1);
    // Closing with unread data resets the connection.
    drop(server);
    let mut events = Vec::new();
    let error = loop {
        match client.read(&mut scratch, &mut |_, _, _| ()) {
            Err(error) => break error,
            Ok(outcome) => assert!(!outcome.eof),
        }
        next_events(&mut poller, &mut events);
    };
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(client.state(), ConnState::Closed);
    assert!(client.write_pending().is_err());
}

#[test]
fn unix_sockets_work_with_user_stamps() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut poller = Poller::new().unwrap();
    let missing = establish(&Endpoint::unix(&path), &mut poller, Token(1)).unwrap_err();
    assert!(matches!(missing, ConnectError::NoSocket { .. }), "{missing:?}");

    let listener = UnixListener::bind(&path).unwrap();
    let mut client = establish(&Endpoint::unix(&path), &mut poller, Token(1)).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.out().extend_from_slice(b"ping");
    assert!(client.write_pending().unwrap().sent_ns.is_some());
    let mut buf = [0; 4];
    server.read_exact(&mut buf).unwrap();
    server.write_all(&buf).unwrap();
    let mut scratch = RecvBuf::new();
    let mut sources = Vec::new();
    let mut events = Vec::new();
    while sources.is_empty() {
        next_events(&mut poller, &mut events);
        client
            .read(&mut scratch, &mut |bytes, _, source| {
                assert_eq!(bytes, b"ping");
                sources.push(source);
            })
            .unwrap();
    }
    assert_eq!(sources, [StampSource::User]);
}
