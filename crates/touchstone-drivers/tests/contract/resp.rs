//! RESP conversations.

use touchstone_drivers::{Resp, RespOptions, Secret};
use touchstone_load::{Driver, Session, SessionEvent};

use crate::support::{check_every_cut, feed, op, short};

pub(crate) fn driver(read_ratio: f64, pipeline: u32) -> Resp {
    Resp::new(RespOptions { read_ratio, pipeline, keys: 10, ..RespOptions::default() }).unwrap()
}

/// A ready session with `operations` started.
fn asked(read_ratio: f64, operations: u32) -> Box<dyn Session> {
    let mut session = driver(read_ratio, 8).session(0, 0);
    let (mut out, mut events) = (Vec::new(), Vec::new());
    session.open(&mut out, &mut events);
    assert_eq!(session.capacity(), 0);
    session.receive(b"+PONG\r\n", &mut out, &mut events);
    assert_eq!(events, [SessionEvent::Ready]);
    for number in 0..operations {
        assert_eq!(session.capacity(), 8 - number as usize);
        session.start(op(number), &mut out);
    }
    session
}

pub(crate) fn reads() -> Box<dyn Session> {
    asked(1.0, 3)
}

fn writes() -> Box<dyn Session> {
    asked(0.0, 3)
}

fn fresh() -> Box<dyn Session> {
    driver(1.0, 8).session(0, 0)
}

#[test]
fn replies() {
    for (name, bytes, expected) in [
        ("hit and miss", "$3\r\nabc\r\n$-1\r\n$0\r\n\r\n", vec!["0 done hit", "1 done miss", "2 done hit"]),
        ("null of RESP3", "_\r\n*-1\r\n", vec!["0 done miss", "1 done miss"]),
        ("a value with line ends", "$4\r\n\r\n\r\n\r\n", vec!["0 done hit"]),
        ("a push message between", ">2\r\n+invalidate\r\n*1\r\n$1\r\na\r\n$1\r\nx\r\n", vec!["0 done hit"]),
        (
            "loading",
            "-LOADING Redis is loading the dataset in memory\r\n",
            vec!["0 failed target headers loading"],
        ),
        (
            "no password",
            "-NOAUTH Authentication required.\r\n",
            vec!["0 failed scenario headers authentication"],
        ),
        ("a cluster", "-MOVED 3999 127.0.0.1:6381\r\n", vec!["0 failed scenario headers cluster"]),
        (
            "not allowed",
            "-NOPERM this user has no permissions\r\n",
            vec!["0 failed scenario headers permission"],
        ),
        (
            "other data",
            "-WRONGTYPE Operation against a key\r\n",
            vec!["0 failed scenario headers wrong-type"],
        ),
        ("a busy server", "-BUSY Redis is busy running a script\r\n", vec!["0 failed target headers busy"]),
        (
            "an error of no known kind",
            "-ERR oops\r\n$1\r\na\r\n",
            vec!["0 failed target headers error-reply", "1 done hit"],
        ),
        (
            "a reply of another type",
            "+OK\r\n:1\r\n*1\r\n:1\r\n",
            vec![
                "0 failed target decode wrong-reply",
                "1 failed target decode wrong-reply",
                "2 failed target decode wrong-reply",
            ],
        ),
        (
            "more replies than commands",
            "$-1\r\n$-1\r\n$-1\r\n$-1\r\n",
            vec!["0 done miss", "1 done miss", "2 done miss", "broken target slot unsolicited"],
        ),
        ("a bad length", "$1\r\na\r\n$x\r\n", vec!["0 done hit", "broken target decode not-resp"]),
        ("a value that is too long", "$1\r\nab\r\n", vec!["broken target decode not-resp"]),
        ("an array without end", "*16777217\r\n", vec!["broken target decode not-resp"]),
    ] {
        check_every_cut(name, &reads, bytes.as_bytes(), false, &expected);
    }
    for (name, bytes, expected) in [
        ("stored", "+OK\r\n+OK\r\n", vec!["0 done", "1 done"]),
        (
            "out of memory",
            "-OOM command not allowed\r\n+OK\r\n",
            vec!["0 failed target headers out-of-memory", "1 done"],
        ),
        ("a replica", "-READONLY You can't write\r\n", vec!["0 failed scenario headers read-only"]),
        ("no disk", "-MISCONF Errors writing\r\n", vec!["0 failed target headers persistence"]),
        ("a value for a write", "$1\r\na\r\n", vec!["0 failed target decode wrong-reply"]),
    ] {
        check_every_cut(name, &writes, bytes.as_bytes(), false, &expected);
    }
}

#[test]
fn ends() {
    for (name, bytes, expected) in [
        ("in the middle of a value", "$9\r\nabc", "broken target stream eof-in-reply"),
        ("in the middle of a line", "$-", "broken target stream eof-in-reply"),
        ("unanswered", "", "broken target headers closed-before-answer"),
    ] {
        check_every_cut(name, &reads, bytes.as_bytes(), true, &[expected]);
    }
    let idle = || asked(1.0, 0);
    check_every_cut("idle", &idle, b"", true, &["broken target slot closed-idle"]);
    check_every_cut(
        "thrown out while idle",
        &idle,
        b"-ERR max number of clients reached\r\n",
        true,
        &["broken target slot too-many-connections"],
    );
}

#[test]
fn greetings() {
    for (name, bytes, eof, expected) in [
        ("good", "+PONG\r\n", false, "ready"),
        ("loading", "-LOADING Redis is loading\r\n", false, "broken target connect loading"),
        (
            "no password",
            "-NOAUTH Authentication required.\r\n",
            false,
            "broken scenario connect authentication",
        ),
        (
            "protected",
            "-DENIED Redis is running in protected mode\r\n",
            true,
            "broken scenario connect protected-mode",
        ),
        (
            "full",
            "-ERR max number of clients reached\r\n",
            true,
            "broken target connect too-many-connections",
        ),
        ("HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", true, "broken target decode not-resp"),
        ("NATS", "INFO {}\r\n", false, "broken target decode not-resp"),
        ("Memcached", "ERROR\r\n", false, "broken target decode not-resp"),
        ("TLS", "\x15\x03\x03\0\x02\x02\n", true, "broken target decode not-resp"),
        ("closed", "", true, "broken target connect closed-in-greeting"),
    ] {
        check_every_cut(name, &fresh, bytes.as_bytes(), eof, &[expected]);
    }
}

#[test]
fn wrong_passwords_are_told_without_the_password() {
    let options = RespOptions { password: Some(Secret::new("topsecret")), ..RespOptions::default() };
    let driver = Resp::new(options).unwrap();
    let mut session = driver.session(0, 0);
    let mut out = Vec::new();
    session.open(&mut out, &mut Vec::new());
    assert!(out.starts_with(b"*2\r\n$4\r\nAUTH\r\n"));
    assert!(feed(&mut *session, [b"+OK\r\n".as_slice()], false).is_empty(), "the ping is unanswered");
    assert_eq!(feed(&mut *session, [b"+PONG\r\n".as_slice()], false), [SessionEvent::Ready]);

    let mut session = driver.session(0, 1);
    let events = feed(&mut *session, [b"-WRONGPASS invalid topsecret\r\n+PONG\r\n".as_slice()], false);
    assert_eq!(events.iter().map(short).collect::<Vec<_>>(), ["broken scenario connect authentication"]);
    assert!(!format!("{events:?}").contains("topsecret"));
}

#[test]
fn abandoned_operations_keep_their_place() {
    let mut session = reads();
    assert!(session.abandon(op(1).token));
    let events = feed(&mut *session, [b"$1\r\na\r\n$1\r\nb\r\n$-1\r\n".as_slice()], false);
    assert_eq!(events.iter().map(short).collect::<Vec<_>>(), ["0 done hit", "2 done miss"]);
    assert_eq!(session.capacity(), 8);

    // A connection on which every place waits for a reply that nobody wants is of no use.
    let mut session = driver(1.0, 1).session(0, 0);
    feed(&mut *session, [b"+PONG\r\n".as_slice()], false);
    session.start(op(0), &mut Vec::new());
    assert!(!session.abandon(op(0).token));
    assert_eq!(session.capacity(), 0);
}

#[test]
fn only_the_operation_whose_reply_has_begun_is_answered() {
    let mut session = reads();
    assert!(!session.answered(op(0).token));
    feed(&mut *session, [b"$5\r\nab".as_slice()], false);
    assert!(session.answered(op(0).token) && !session.answered(op(1).token));
}

#[test]
fn the_preload_writes_every_key_once() {
    let driver = driver(1.0, 8);
    let mut session = driver.preload().unwrap();
    feed(&mut *session, [b"+PONG\r\n".as_slice()], false);
    let mut out = Vec::new();
    for number in 0..10 {
        assert!(session.capacity() > 0);
        session.start(op(number), &mut out);
    }
    assert_eq!(driver.preload_operations(), 10);
    let text = String::from_utf8_lossy(&out).into_owned();
    for key in 0..10 {
        assert_eq!(text.matches(&format!("SET\r\n$16\r\nts:{key:013}\r\n")).count(), 1, "key {key}");
    }
}
