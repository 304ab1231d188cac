//! Each driver against its own sink, over an ideal wire.

use touchstone_drivers::{Dialect, Generation, GenerationOptions, Resp, RespOptions};
use touchstone_load::{Driver, Session, SessionEvent, Sink};
use touchstone_workload::requests::Requests;

use crate::support::{op, short};

/// A session and a sink joined by a wire that cuts everything into pieces of at most `step` bytes.
struct Wire {
    session: Box<dyn Session>,
    sink: Box<dyn Sink>,
    step: usize,
    events: Vec<SessionEvent>,
}

impl Wire {
    fn new(session: Box<dyn Session>, driver: &dyn Driver, step: usize) -> Self {
        let mut wire = Self { session, sink: driver.sink().unwrap(), step, events: Vec::new() };
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        wire.session.open(&mut to_server, &mut wire.events);
        wire.sink.open(&mut to_client);
        assert!(to_client.is_empty());
        wire.carry(to_server);
        assert_eq!(wire.events, [SessionEvent::Ready]);
        wire.events.clear();
        wire
    }

    fn carry(&mut self, to_server: Vec<u8>) {
        let mut to_client = Vec::new();
        for piece in to_server.chunks(self.step) {
            self.sink.receive(piece, &mut to_client);
        }
        for piece in to_client.chunks(self.step) {
            self.session.receive(piece, &mut Vec::new(), &mut self.events);
        }
    }

    /// Starts the operations at once and returns the events.
    fn run(&mut self, numbers: std::ops::Range<u32>) -> Vec<String> {
        let mut to_server = Vec::new();
        for number in numbers {
            assert!(self.session.capacity() > 0);
            self.session.start(op(number), &mut to_server);
        }
        self.carry(to_server);
        self.events.drain(..).map(|event| short(&event)).collect()
    }
}

#[test]
fn generation() {
    for dialect in Dialect::ALL {
        let mut options = GenerationOptions::new(dialect, "h", "m");
        options.requests = Requests::fixed(0, 128, 3);
        let driver = Generation::new(options).unwrap();
        let (chunks, tokens) = match dialect {
            Dialect::Embeddings => (1, " 0"),
            Dialect::TritonInfer => (1, ""),
            Dialect::TritonGenerate | Dialect::Responses => (3, ""),
            _ => (3, " 1"),
        };
        let done = match dialect {
            Dialect::Embeddings => "done out=0 in=1",
            Dialect::TritonInfer | Dialect::TritonGenerate => "done",
            _ => "done out=3 in=1",
        };
        for step in [1, 7, 100_000] {
            let mut wire = Wire::new(driver.session(0, 0), &driver, step);
            for number in 0..3 {
                let mut expected = vec![format!("{number} head")];
                expected.extend((0..chunks).map(|_| format!("{number} content{tokens}")));
                expected.push(format!("{number} {done}"));
                assert_eq!(wire.run(number..number + 1), expected, "{dialect:?} in pieces of {step}");
            }
        }
    }
}

#[test]
fn whole_answers() {
    for dialect in Dialect::ALL.into_iter().filter(|dialect| dialect.can_answer_whole()) {
        let mut options = GenerationOptions::new(dialect, "h", "m");
        (options.requests, options.stream) = (Requests::fixed(0, 128, 3), false);
        let driver = Generation::new(options).unwrap();
        assert_eq!(driver.leading_metric().as_str(), "e2e");
        let mut wire = Wire::new(driver.session(0, 0), &driver, 7);
        let events = wire.run(0..1);
        assert_eq!(events.len(), 3, "{dialect:?}: {events:?}");
        assert!(events[2].starts_with("0 done"), "{dialect:?}: {events:?}");
    }
}

#[test]
fn resp() {
    let options = RespOptions { pipeline: 16, read_ratio: 0.5, keys: 10, ..RespOptions::default() };
    let driver = Resp::new(options).unwrap();
    for step in [1, 7, 100_000] {
        let mut wire = Wire::new(driver.session(0, 0), &driver, step);
        let events = wire.run(0..16);
        assert_eq!(events.len(), 16);
        for (number, event) in (0_u64..).zip(&events) {
            let read = touchstone_workload::payload::is_read(0, number, 0.5);
            assert_eq!(event, &format!("{number} done{}", if read { " hit" } else { "" }));
        }
        let mut wire = Wire::new(driver.preload().unwrap(), &driver, step);
        assert_eq!(wire.run(0..10).len() as u64, driver.preload_operations());
    }
}

#[test]
fn sinks_bear_any_bytes() {
    let resp = Resp::new(RespOptions::default()).unwrap();
    for bytes in [b"PING\r\n".as_slice(), b"*x\r\n", b"*1\r\n+a\r\n", b"*99999\r\n", b"\0\xff"] {
        let mut out = Vec::new();
        resp.sink().unwrap().receive(bytes, &mut out);
        assert_eq!(out, b"-ERR Protocol error\r\n", "{bytes:?}");
    }
    let openai = Generation::new(GenerationOptions::new(Dialect::Chat, "h", "m")).unwrap();
    let mut out = Vec::new();
    openai.sink().unwrap().receive(b"garbage", &mut out);
    assert!(out.is_empty());
}
