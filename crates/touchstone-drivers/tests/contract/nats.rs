//! NATS conversations.

use touchstone_drivers::{Nats, NatsAuth, NatsOptions, Secret};
use touchstone_load::{Driver, Session, SessionEvent};

use crate::support::{check_every_cut, feed, op, short};

const INFO: &str =
    "INFO {\"server_id\":\"x\",\"version\":\"2.9.10\",\"max_payload\":1048576,\"headers\":true} \r\n";

pub(crate) fn driver() -> Nats {
    Nats::new(NatsOptions::new("r1")).unwrap()
}

fn fresh() -> Box<dyn Session> {
    driver().session(0, 7)
}

fn ready(mut session: Box<dyn Session>) -> Box<dyn Session> {
    let events = feed(&mut *session, [INFO.as_bytes(), b"PONG\r\n"], false);
    assert_eq!(events, [SessionEvent::Ready]);
    session
}

fn publisher() -> Box<dyn Session> {
    ready(fresh())
}

pub(crate) fn consumer() -> Box<dyn Session> {
    ready(driver().consumer(0, 9).unwrap())
}

/// What a publisher of connection 7 sends for these operations, as (PUB line, payload).
fn published(numbers: &[u32]) -> Vec<(String, Vec<u8>)> {
    let mut session = publisher();
    let mut parts = Vec::new();
    for number in numbers {
        let mut out = Vec::new();
        session.start(op(*number), &mut out);
        let end = out.windows(2).position(|pair| pair == b"\r\n").unwrap();
        let payload = out[end + 2..].strip_suffix(b"\r\n").unwrap().to_vec();
        parts.push((String::from_utf8(out[..end].to_vec()).unwrap(), payload));
    }
    parts
}

/// The payload as the server delivers it.
fn message(payload: &[u8]) -> Vec<u8> {
    let head = format!("MSG touchstone.r1.0 1 {}\r\n", payload.len());
    [head.as_bytes(), payload, b"\r\n"].concat()
}

#[test]
fn publishers_number_their_messages() {
    let parts = published(&[5, 6]);
    for (line, payload) in &parts {
        assert_eq!(line, "PUB touchstone.r1.0 128");
        assert_eq!(payload.len(), 128);
    }
    assert_ne!(parts[0].1, parts[1].1);
}

#[test]
fn the_greeting_subscribes_before_it_pings() {
    let mut session = driver().consumer(3, 0).unwrap();
    let (mut out, mut events) = (Vec::new(), Vec::new());
    session.open(&mut out, &mut events);
    assert!(out.is_empty(), "the server speaks first");
    session.receive(INFO.as_bytes(), &mut out, &mut events);
    let text = String::from_utf8(out.clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("CONNECT {"), "{text}");
    assert_eq!(lines[1..], ["SUB touchstone.r1.3 1", "PING"]);
    assert!(events.is_empty());
    session.receive(b"PONG\r\n", &mut out, &mut events);
    assert_eq!(events, [SessionEvent::Ready]);
    assert!(session.receive_only());
    assert_eq!(session.capacity(), 0);

    let session = publisher();
    assert!(!session.receive_only());
    assert!(session.capacity() > 1000);
    assert!(session.answered(op(0).token), "a publication is never sent again");
}

#[test]
fn messages() {
    let parts = published(&[5, 6]);
    let first = "message producer=7 sequence=0 op=105 index=5";
    let second = "message producer=7 sequence=1 op=106 index=6";
    let (a, b) = (&parts[0].1, &parts[1].1);
    let mut other_run = a.clone();
    other_run[0] ^= 1;
    let with_headers =
        [b"HMSG touchstone.r1.0 1 17 145\r\nNATS/1.0\r\nA:b\r\n\r\n".as_slice(), a, b"\r\n"].concat();
    let with_reply = [b"MSG touchstone.r1.0 1 _INBOX.1 128\r\n".as_slice(), b, b"\r\n"].concat();
    for (name, bytes, expected) in [
        ("one", message(a), vec![first]),
        ("two", [message(a), message(b)].concat(), vec![first, second]),
        (
            "pings and info between",
            [message(a), b"PING\r\n".to_vec(), INFO.into(), message(b)].concat(),
            vec![first, second],
        ),
        ("with headers", with_headers, vec![first]),
        ("with a reply subject", with_reply, vec![second]),
        ("of another run", [message(&other_run), message(b)].concat(), vec![second]),
        ("too short to be ours", [message(b"hi"), message(b""), message(b)].concat(), vec![second]),
        ("+OK", [b"+OK\r\n".to_vec(), message(a)].concat(), vec![first]),
        (
            "cut by an error",
            [message(a), b"-ERR 'Slow Consumer'\r\n".to_vec()].concat(),
            vec![first, "broken target stream slow-consumer"],
        ),
        (
            "longer than said",
            [message(&a[..28]), message(a)[..20].to_vec(), b"\r\nXYZ".to_vec()].concat(),
            vec![first, "broken target decode not-nats"],
        ),
        (
            "garbage after",
            [message(a), b"\x15\x03\x01".to_vec()].concat(),
            vec![first, "broken target decode not-nats"],
        ),
        (
            "a head without a size",
            b"MSG touchstone.r1.0 1 x\r\n".to_vec(),
            vec!["broken target decode not-nats"],
        ),
    ] {
        check_every_cut(name, &consumer, &bytes, false, &expected);
    }
}

#[test]
fn greetings() {
    for (name, bytes, eof, expected) in [
        ("good", format!("{INFO}PONG\r\n"), false, "ready"),
        ("with +OK and a ping", format!("{INFO}+OK\r\nPING\r\nPONG\r\n"), false, "ready"),
        (
            "no rights",
            format!("{INFO}-ERR 'Authorization Violation'\r\n"),
            true,
            "broken scenario connect authorization",
        ),
        (
            "too late",
            format!("{INFO}-ERR 'Authentication Timeout'\r\n"),
            true,
            "broken scenario connect authorization",
        ),
        (
            "full",
            format!("{INFO}-ERR 'maximum connections exceeded'\r\n"),
            true,
            "broken target connect too-many-connections",
        ),
        (
            "TLS wanted",
            "INFO {\"tls_required\":true}\r\n".to_owned(),
            false,
            "broken scenario connect tls-required",
        ),
        (
            "small messages only",
            "INFO {\"max_payload\":64}\r\n".to_owned(),
            false,
            "broken scenario connect max-payload",
        ),
        ("bad info", "INFO {\"max_payload\":\r\n".to_owned(), false, "broken target connect bad-info"),
        ("HTTP", "HTTP/1.1 400 Bad Request\r\n".to_owned(), true, "broken target decode not-nats"),
        ("Redis", "-ERR unknown command\r\n".to_owned(), false, "broken target decode not-nats"),
        ("TLS", "\x15\x03\x03\0\x02\x02\n".to_owned(), true, "broken target decode not-nats"),
        ("closed", String::new(), true, "broken target connect closed-in-greeting"),
        ("closed after INFO", INFO.to_owned(), true, "broken target connect closed-in-greeting"),
    ] {
        check_every_cut(name, &fresh, bytes.as_bytes(), eof, &[expected]);
    }
}

#[test]
fn errors_while_publishing() {
    for (bytes, expected) in [
        (
            "-ERR 'Permissions Violation for Publish to \"touchstone.r1.0\"'\r\n",
            "broken scenario stream permission",
        ),
        ("-ERR 'Maximum Payload Violation'\r\n", "broken scenario stream max-payload"),
        ("-ERR 'Stale Connection'\r\n", "broken target stream stale-connection"),
        ("-ERR 'User Authentication Expired'\r\n", "broken scenario stream authorization"),
        ("-ERR 'Unknown Protocol Operation'\r\n", "broken target stream error-reply"),
    ] {
        check_every_cut(bytes, &publisher, bytes.as_bytes(), true, &[expected]);
    }
    check_every_cut("closed", &publisher, b"PING\r\n", true, &["broken target stream closed"]);
}

#[test]
fn pings_are_answered_at_once() {
    for mut session in [publisher(), consumer()] {
        let mut out = Vec::new();
        session.receive(b"PING\r\nPI", &mut out, &mut Vec::new());
        assert_eq!(out, b"PONG\r\n");
        session.receive(b"NG\r\n", &mut out, &mut Vec::new());
        assert_eq!(out, b"PONG\r\nPONG\r\n");
    }
}

#[test]
fn servers_that_repeat_a_token_do_not_spread_it() {
    let mut options = NatsOptions::new("r1");
    options.auth = Some(NatsAuth::Token(Secret::new("topsecret")));
    let mut session = Nats::new(options).unwrap().session(0, 0);
    let bytes = format!("{INFO}-ERR 'Authorization Violation for topsecret'\r\n");
    let events = feed(&mut *session, [bytes.as_bytes()], false);
    assert_eq!(events.iter().map(short).collect::<Vec<_>>(), ["broken scenario connect authorization"]);
    assert!(!format!("{events:?}").contains("topsecret"));
}
