//! An engine on a thread, and the plainest client there is.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use touchstone_engine::{EngineConfig, EngineError, EngineStats, FaultPlan, Profile, serve};

/// A running engine; ends when dropped.
pub(crate) struct Engine {
    pub(crate) addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<EngineStats, EngineError>>>,
}

impl Engine {
    pub(crate) fn start(profile: &str, faults: FaultPlan) -> Self {
        Self::with(EngineConfig { faults, ..EngineConfig::new(Profile::builtin(profile).unwrap()) })
    }

    pub(crate) fn with(config: EngineConfig) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = std::sync::mpsc::channel();
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || serve(config, |addr| sender.send(addr).unwrap(), &flag));
        let addr = receiver.recv_timeout(Duration::from_secs(20)).unwrap();
        Self { addr, stop, thread: Some(thread) }
    }

    pub(crate) fn stop(mut self) -> EngineStats {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.addr)
    }

    /// The value of a metric, summed over its label sets that contain `label`.
    pub(crate) fn metric(&self, name: &str, label: &str) -> f64 {
        let page = self.client().get("/metrics").text();
        let lines =
            page.lines().filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(label));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    /// Asks until the metric has the value; fails after a time that no machine needs.
    pub(crate) fn await_metric(&self, name: &str, value: f64) {
        let begun = Instant::now();
        while self.metric(name, "") != value {
            assert!(begun.elapsed() < Duration::from_secs(30), "{name} never became {value}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn truth(&self, query: &str) -> serde_json::Value {
        self.client().get(&format!("/truth{query}")).json()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A reply, read to its end.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// The body ended as its framing says it should.
    pub(crate) complete: bool,
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The data of the events of a stream.
    pub(crate) fn events(&self) -> Vec<String> {
        self.text().split_terminator("\n\n").map(|e| e.strip_prefix("data: ").unwrap().to_owned()).collect()
    }

    /// The events that are JSON.
    pub(crate) fn chunks(&self) -> Vec<serde_json::Value> {
        self.events().iter().filter(|e| *e != "[DONE]").map(|e| serde_json::from_str(e).unwrap()).collect()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: &str) {
        self.stream.get_mut().write_all(bytes.as_bytes()).unwrap();
    }

    pub(crate) fn get(&mut self, target: &str) -> Reply {
        self.send(&format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n"));
        self.reply()
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> Reply {
        self.send(&post(path, body));
        self.reply()
    }

    /// Reads the head of a reply: status and text.
    pub(crate) fn head(&mut self) -> (u16, String) {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(
                self.stream.read_line(&mut head).unwrap(),
                0,
                "connection ended in the head: {head:?}"
            );
        }
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head)
    }

    /// Reads one chunk of a chunked body; `None` when the connection ends instead.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
        let mut data = vec![0; size + 2];
        self.stream.read_exact(&mut data).unwrap();
        assert_eq!(&data[size..], b"\r\n");
        data.truncate(size);
        Some(data)
    }

    pub(crate) fn reply(&mut self) -> Reply {
        let (status, head) = self.head();
        let mut reply = Reply { status, head, body: Vec::new(), complete: true };
        if let Some(length) = reply.header("content-length") {
            reply.body = vec![0; length.parse().unwrap()];
            self.stream.read_exact(&mut reply.body).unwrap();
        } else if reply.header("transfer-encoding") == Some("chunked") {
            loop {
                match self.chunk() {
                    None => reply.complete = false,
                    Some(data) if !data.is_empty() => {
                        reply.body.extend(data);
                        continue;
                    }
                    Some(_) => {}
                }
                break;
            }
        } else {
            self.stream.read_to_end(&mut reply.body).unwrap();
        }
        reply
    }

    /// Ends the sending side only.
    pub(crate) fn end_sending(&mut self) {
        self.stream.get_mut().shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Whether the server has closed the connection (waits for it).
    pub(crate) fn closed(&mut self) -> bool {
        self.stream.read(&mut [0]).unwrap() == 0
    }
}

pub(crate) fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// The body of a chat request for `tokens` tokens, with further fields.
pub(crate) fn chat(tokens: u32, extra: &str) -> String {
    format!(r#"{{"messages":[{{"role":"user","content":"one two three"}}],"max_tokens":{tokens}{extra}}}"#)
}

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const COMPLETIONS: &str = "/v1/completions";
