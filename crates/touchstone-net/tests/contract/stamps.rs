//! Contract of kernel receive stamps for TCP.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::support::{establish, loopback, next_events};
use touchstone_net::{
    Endpoint, Interest, Poller, RecvBuf, StampSource, Token, enable_receive_stamps, mono_ns, stamp_support,
};

#[test]
fn the_platform_says_kernel() {
    assert_eq!(stamp_support(), StampSource::Kernel);
}

/// Stamping is switched on in the background after the first socket asks: waits until it works.
fn stamped_pair(scratch: &mut RecvBuf) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(loopback()).unwrap();
    assert!(enable_receive_stamps(&listener));
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    sender.set_nodelay(true).unwrap();
    let (receiver, _) = listener.accept().unwrap();
    let mut buf = [0; 16];
    for _ in 0..1_000 {
        sender.write_all(b"x").unwrap();
        if scratch.recv(&receiver, &mut buf).unwrap().source == StampSource::Kernel {
            return (sender, receiver);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no kernel stamp ever came");
}

#[test]
fn the_stamp_is_the_arrival_and_not_the_reading() {
    let mut scratch = RecvBuf::new();
    let (mut sender, receiver) = stamped_pair(&mut scratch);
    let mut poller = Poller::new().unwrap();
    poller.register(&receiver, Token(7), Interest::READABLE).unwrap();
    let mut events = Vec::new();
    for _ in 0..5 {
        let before = mono_ns();
        sender.write_all(b"hello").unwrap();
        next_events(&mut poller, &mut events);
        let arrived_by = mono_ns();
        std::thread::sleep(Duration::from_millis(30));
        let read_from = mono_ns();
        let mut buf = [0; 16];
        let got = scratch.recv(&receiver, &mut buf).unwrap();
        assert_eq!((got.len, got.source), (5, StampSource::Kernel));
        let slack = scratch.clock_uncertainty_ns() + 1;
        assert!(got.stamp_ns + slack >= before, "stamped {} before the send", before - got.stamp_ns);
        assert!(
            got.stamp_ns <= arrived_by + slack,
            "stamped {} after it was there",
            got.stamp_ns - arrived_by
        );
        assert!(got.stamp_ns < read_from);
    }
}

#[test]
fn one_read_of_two_segments_has_the_stamp_of_the_last() {
    let mut scratch = RecvBuf::new();
    let (mut sender, receiver) = stamped_pair(&mut scratch);
    sender.write_all(b"first").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let before_second = mono_ns();
    sender.write_all(b"second").unwrap();
    // Loopback delivers in order, but maybe not yet: peek until both are there.
    let mut peeked = [0; 32];
    while receiver.peek(&mut peeked).unwrap() < 11 {
        std::thread::yield_now();
    }
    let mut buf = [0; 32];
    let got = scratch.recv(&receiver, &mut buf).unwrap();
    assert_eq!(&buf[..got.len], b"firstsecond");
    assert_eq!(got.source, StampSource::Kernel);
    assert!(got.stamp_ns + scratch.clock_uncertainty_ns() + 1 >= before_second);
}

#[test]
fn connections_hand_kernel_stamps_to_the_sink() {
    let mut scratch = RecvBuf::new();
    let _keeps_stamping_on = stamped_pair(&mut scratch);
    let listener = TcpListener::bind(loopback()).unwrap();
    let endpoint = Endpoint::tcp("127.0.0.1", listener.local_addr().unwrap().port());
    let mut poller = Poller::new().unwrap();
    let mut conn = establish(&endpoint, &mut poller, Token(1)).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut events = Vec::new();
    let before = mono_ns();
    server.write_all(b"token").unwrap();
    let mut seen = Vec::new();
    while seen.is_empty() {
        next_events(&mut poller, &mut events);
        let arrived_by = mono_ns();
        let outcome = conn
            .read(&mut scratch, &mut |bytes, at, source| seen.push((bytes.to_vec(), at, source)))
            .unwrap();
        if let [(bytes, at, source)] = seen.as_slice() {
            assert_eq!((bytes.as_slice(), *source), (&b"token"[..], StampSource::Kernel));
            assert_eq!((outcome.bytes, outcome.stamp_ns, outcome.source), (5, *at, *source));
            let slack = scratch.clock_uncertainty_ns() + 1;
            assert!(at + slack >= before && *at <= arrived_by + slack, "{before} {at} {arrived_by}");
        }
    }
    assert_eq!(scratch.clock_steps(), 0);
}
