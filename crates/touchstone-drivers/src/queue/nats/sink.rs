//! The server side with the smallest right answers: every message goes to the subscribers of its subject.
//!
//! Publishers and subscribers are on different connections, so the sinks of a driver share a hub of mailboxes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use memchr::memmem;
use touchstone_load::Sink;

use crate::decimal;

/// Most bytes that are waited for: one message with its line.
const BUFFER_LIMIT: usize = 65 * 1024 * 1024;

type Mailbox = Mutex<Vec<u8>>;

#[derive(Debug)]
struct Subscription {
    subject: Vec<u8>,
    sid: Vec<u8>,
    mailbox: Weak<Mailbox>,
}

/// The subscriptions of all sinks of one driver.
#[derive(Debug, Default)]
pub(super) struct Hub {
    subscriptions: Mutex<Vec<Subscription>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    fn subscribe(&self, subject: &[u8], sid: &[u8], mailbox: &Arc<Mailbox>) {
        let mut subscriptions = lock(&self.subscriptions);
        // Connections of an earlier probe are gone.
        subscriptions.retain(|one| one.mailbox.strong_count() > 0);
        let (subject, sid) = (subject.to_vec(), sid.to_vec());
        subscriptions.push(Subscription { subject, sid, mailbox: Arc::downgrade(mailbox) });
    }

    fn publish(&self, subject: &[u8], payload: &[u8]) {
        for one in lock(&self.subscriptions).iter().filter(|one| one.subject == subject) {
            let Some(mailbox) = one.mailbox.upgrade() else { continue };
            let mut out = lock(&mailbox);
            for part in [b"MSG ", subject, b" ", &one.sid, b" "] {
                out.extend_from_slice(part);
            }
            decimal::push(&mut out, payload.len() as u64);
            for part in [b"\r\n", payload, b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct NatsSink {
    hub: Arc<Hub>,
    mailbox: Arc<Mailbox>,
    buffer: Vec<u8>,
}

impl NatsSink {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        Self { hub, mailbox: Arc::default(), buffer: Vec::new() }
    }

    /// Takes one command off the front of `bytes`; gives the bytes used, 0 when it is not complete.
    fn command(&self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let Some(end) = memmem::find(bytes, b"\r\n") else { return 0 };
        let words: Vec<&[u8]> =
            bytes[..end].split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect();
        match words.as_slice() {
            [b"PUB", subject, .., length] => {
                let Some(length) = decimal::parse(length).and_then(|length| usize::try_from(length).ok())
                else {
                    out.extend_from_slice(b"-ERR 'Parser Error'\r\n");
                    return bytes.len();
                };
                let from = end + 2;
                let Some(payload) = from.checked_add(length).and_then(|to| bytes.get(from..to)) else {
                    return 0;
                };
                if bytes.len() < from + length + 2 {
                    return 0;
                }
                self.hub.publish(subject, payload);
                return from + length + 2;
            }
            [b"SUB", subject, .., sid] => self.hub.subscribe(subject, sid, &self.mailbox),
            [b"PING"] => out.extend_from_slice(b"PONG\r\n"),
            _ => {}
        }
        end + 2
    }
}

impl Sink for NatsSink {
    fn open(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b"INFO {\"server_id\":\"SINK\",\"version\":\"0.0.0\",\"max_payload\":67108864}\r\n",
        );
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.extend_from_slice(bytes);
        let mut used = 0;
        loop {
            match self.command(&buffer[used..], out) {
                0 => break,
                length => used += length,
            }
        }
        buffer.drain(..used);
        if buffer.len() > BUFFER_LIMIT {
            buffer.clear();
        }
        self.buffer = buffer;
    }

    fn pending(&mut self, out: &mut Vec<u8>) {
        out.append(&mut lock(&self.mailbox));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_reach_the_subscriber_of_their_subject_in_any_pieces() {
        let hub = Arc::new(Hub::default());
        let (mut publisher, mut subscriber) = (NatsSink::new(Arc::clone(&hub)), NatsSink::new(hub));
        let mut out = Vec::new();
        subscriber.receive(b"CONNECT {}\r\nSUB a.b 7\r\nPING\r\n", &mut out);
        assert_eq!(out, b"PONG\r\n");
        let stream = b"PUB a.b 4\r\nx\r\ny\r\nPUB other 1\r\nz\r\nPUB a.b 0\r\n\r\n";
        for byte in stream {
            publisher.receive(&[*byte], &mut out);
        }
        let mut got = Vec::new();
        subscriber.pending(&mut got);
        assert_eq!(got, b"MSG a.b 7 4\r\nx\r\ny\r\nMSG a.b 7 0\r\n\r\n");
        drop(subscriber);
        publisher.receive(b"PUB a.b 1\r\nx\r\n", &mut out);
        publisher.receive(b"PUB a.b nonsense\r\n", &mut out);
        assert!(out.ends_with(b"-ERR 'Parser Error'\r\n"));
    }
}
