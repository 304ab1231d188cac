//! Contract of the poller: never early, sees readiness while it waits, wakes from another thread.

use std::io::Write;
use std::net::{TcpListener, TcpStream};

use crate::support::{STALL_NS, loopback, next_events};
use touchstone_net::poller::{MAX_TOKEN, WAKE};
use touchstone_net::{Interest, Poller, Token, mono_ns, timer_precision};

fn socket_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(loopback()).unwrap();
    let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    sender.set_nodelay(true).unwrap();
    let (receiver, _) = listener.accept().unwrap();
    receiver.set_nonblocking(true).unwrap();
    (sender, receiver)
}

#[test]
fn a_deadline_never_comes_early() {
    let mut events = Vec::new();
    for spin_ns in [0, 1_000, 50_000, 10_000_000] {
        let mut poller = Poller::new().unwrap().with_spin_ns(spin_ns);
        for length in [0, 1, 500, 1_999, 10_000, 49_999, 50_001, 123_456, 999_999, 3_000_000] {
            let deadline = mono_ns() + length;
            poller.wait(&mut events, Some(deadline)).unwrap();
            assert!(mono_ns() >= deadline, "spin {spin_ns}, length {length}");
            assert!(events.is_empty());
        }
    }
}

#[test]
fn deadlines_may_move_in_both_directions() {
    let mut poller = Poller::new().unwrap();
    let (mut sender, receiver) = socket_pair();
    poller.register(&receiver, Token(3), Interest::READABLE).unwrap();
    let mut events = Vec::new();
    for _ in 0..50 {
        // An event cuts a far deadline short; the nearer one after it still holds, and the timer of the
        // first, still armed, disturbs neither.
        sender.write_all(b"x").unwrap();
        poller.wait(&mut events, Some(mono_ns() + STALL_NS)).unwrap();
        assert_eq!(events.len(), 1);
        let near = mono_ns() + 200_000;
        poller.wait(&mut events, Some(near)).unwrap();
        assert!(mono_ns() >= near && events.is_empty());
        // The same deadline again is past by now.
        poller.wait(&mut events, Some(near)).unwrap();
        assert!(events.is_empty());
    }
}

#[test]
fn a_past_deadline_still_sees_what_is_ready() {
    let mut poller = Poller::new().unwrap();
    let (mut sender, receiver) = socket_pair();
    poller.register(&receiver, Token(3), Interest::READABLE).unwrap();
    sender.write_all(b"x").unwrap();
    let mut byte = [0];
    while receiver.peek(&mut byte).is_err() {
        std::thread::yield_now();
    }
    let mut events = Vec::new();
    poller.wait(&mut events, Some(0)).unwrap();
    assert_eq!(events.len(), 1);
    assert!(events[0].token == Token(3) && events[0].readable && !events[0].closed);
    // Edge-triggered: not reported again though the byte is still unread.
    poller.wait(&mut events, Some(0)).unwrap();
    assert!(events.is_empty());
    // Registering anew reports it again.
    poller.reregister(&receiver, Token(4), Interest::READABLE).unwrap();
    next_events(&mut poller, &mut events);
    assert_eq!(events[0].token, Token(4));
    poller.deregister(&receiver).unwrap();
    sender.write_all(b"y").unwrap();
    poller.wait(&mut events, Some(mono_ns() + 2_000_000)).unwrap();
    assert!(events.is_empty());
}

#[test]
fn readiness_is_seen_while_spinning() {
    // The whole wait is spent spinning.
    let mut poller = Poller::new().unwrap().with_spin_ns(2 * STALL_NS);
    let (mut sender, receiver) = socket_pair();
    poller.register(&receiver, Token(3), Interest::READABLE).unwrap();
    let writer = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(5));
        sender.write_all(b"x").unwrap();
        sender
    });
    let mut events = Vec::new();
    next_events(&mut poller, &mut events);
    assert_eq!(events[0].token, Token(3));
    drop(writer.join().unwrap());
    next_events(&mut poller, &mut events);
    assert!(events[0].closed && events[0].readable);
}

#[test]
fn another_thread_wakes_a_wait_without_deadline() {
    let mut poller = Poller::new().unwrap();
    let waker = poller.waker();
    let thread = std::thread::spawn(move || waker.wake().unwrap());
    let mut events = Vec::new();
    poller.wait(&mut events, None).unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].token, WAKE);
    thread.join().unwrap();
    poller.wait(&mut events, Some(0)).unwrap();
    assert!(events.is_empty(), "one wake-up is reported once");
}

#[test]
fn reserved_tokens_are_refused() {
    let poller = Poller::new().unwrap();
    let (_sender, receiver) = socket_pair();
    let error = poller.register(&receiver, WAKE, Interest::READABLE).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    poller.register(&receiver, MAX_TOKEN, Interest::READABLE).unwrap();
}

#[test]
fn timer_precision_measures_as_many_waits_as_asked_for() {
    let lateness = timer_precision(50).unwrap();
    assert_eq!(lateness.len(), 50);
    println!("lateness in ns: {lateness:?}");
}
