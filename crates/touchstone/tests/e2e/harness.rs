//! Running `bench`, `run` and `engine`, and what must hold of every one of them whatever happens.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use touchstone_model::run::ErrorGroup;
use touchstone_model::{FindingCode, RunDocument, Severity};
use touchstone_testkit::{Finished, Running, TestContext};

/// After so long a command is said to hang.
const LIMIT: Duration = Duration::from_secs(90);
/// How often a run is repeated whose generator was late because the machine was busy with the other tests.
pub(crate) const TRIES: usize = 12;

/// A fresh folder with the binary.
pub(crate) fn context() -> TestContext {
    TestContext::new(env!("CARGO_BIN_EXE_touchstone")).unwrap().limit(LIMIT)
}

/// Runs a command line given as one text; no argument may hold a blank.
pub(crate) fn run(context: &TestContext, line: &str) -> Finished {
    let done = context.run(line.split_whitespace()).unwrap();
    check(&done);
    done
}

/// What holds of every command: it ends by itself, and never by a panic.
pub(crate) fn check(done: &Finished) {
    assert!(!done.timed_out, "it hangs:\n{}", done.snapshot());
    assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
}

/// A bench that has ended, with its document.
#[derive(Debug)]
pub(crate) struct Benched {
    pub(crate) code: Option<i32>,
    pub(crate) json: Value,
    pub(crate) document: RunDocument,
    pub(crate) stderr: String,
}

impl Benched {
    /// Reads the one document on standard output, and checks that the store holds the same.
    pub(crate) fn of(context: &TestContext, done: Finished) -> Self {
        check(&done);
        let json: Value = serde_json::from_str(&done.stdout)
            .unwrap_or_else(|error| panic!("no JSON document: {error}\n{}", done.snapshot()));
        let document: RunDocument = serde_json::from_value(json.clone()).unwrap();
        let stored = std::fs::read(run_dir(context, &document.run).join("run.json")).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&stored).unwrap(), json, "the store holds something else");
        let verified = run(context, &format!("runs verify {}", document.run));
        assert_eq!(verified.code(), Some(0), "{}", verified.snapshot());
        assert_eq!(serde_json::to_value(&document).unwrap(), json, "a field that no type knows");
        let page = std::fs::read_to_string(run_dir(context, &document.run).join("report.html")).unwrap();
        assert!(page.contains(&document.run), "the page is about another run");
        for error in &document.errors {
            assert!(!error.advice.is_empty() && !error.message.is_empty(), "{error:?}");
        }
        Self { code: done.code(), json, document, stderr: done.stderr }
    }

    /// The figures that a failed assertion needs.
    pub(crate) fn told(&self) -> String {
        let d = &self.document;
        format!("code {:?}\n{:?}\n{:#?}\n{:#?}\n{}", self.code, d.counts, d.errors, d.findings, self.stderr)
    }

    pub(crate) fn finding(&self, code: FindingCode) -> bool {
        self.document.findings.iter().any(|finding| finding.code == code)
    }

    /// The failures of a kind, which must be there.
    pub(crate) fn error(&self, kind: &str) -> &ErrorGroup {
        self.document
            .errors
            .iter()
            .find(|error| error.kind == kind)
            .unwrap_or_else(|| panic!("no error `{kind}`: {}", self.told()))
    }

    /// `kind origin phase` of every group of failures.
    pub(crate) fn kinds(&self) -> Vec<String> {
        self.document
            .errors
            .iter()
            .map(|error| format!("{} {} {}", error.kind, error.origin, error.phase))
            .collect()
    }
}

/// The folder of a run.
pub(crate) fn run_dir(context: &TestContext, run: &str) -> PathBuf {
    context.path(".touchstone").join("runs").join(run)
}

/// The words of a bench; the loopback ceiling has a test of its own.
pub(crate) fn bench_line(target: &str, flags: &str) -> Vec<String> {
    let line = format!("bench --target {target} {flags} --no-ceiling --json -");
    line.split_whitespace().map(str::to_owned).collect()
}

/// Benches in the context's folder.
pub(crate) fn bench(context: &TestContext, target: &str, flags: &str) -> Benched {
    Benched::of(context, context.run(bench_line(target, flags)).unwrap())
}

/// Tests that need a generator on time do not measure at the same time as each other.
pub(crate) fn measuring() -> MutexGuard<'static, ()> {
    static MEASURING: Mutex<()> = Mutex::new(());
    MEASURING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Benches until the generator kept its schedule. Only lateness of the generator is forgiven, and only a few times:
/// the tests share two cores.
pub(crate) fn valid_bench(context: &TestContext, target: &str, flags: &str) -> Benched {
    let _alone = measuring();
    let mut benched = bench(context, target, flags);
    for number in 1..TRIES {
        let invalid = |finding: &&touchstone_model::Finding| finding.severity == Severity::Invalid;
        let mut grave = benched.document.findings.iter().filter(invalid).peekable();
        if grave.peek().is_none() || grave.any(|finding| finding.code != FindingCode::GeneratorLate) {
            break;
        }
        // What crowds the machine is another test, which ends.
        std::thread::sleep(Duration::from_millis(300 * number as u64));
        benched = bench(context, target, flags);
    }
    assert!(benched.document.valid, "{}", benched.told());
    assert_eq!(benched.code, Some(0), "{}", benched.told());
    benched
}

/// An embedded engine in a process of its own; killed when dropped.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) address: String,
    running: Running,
    _context: TestContext,
}

impl Engine {
    /// Starts a profile on a free port; `flags` are those of `touchstone engine`.
    pub(crate) fn start(profile: &str, flags: &str) -> Self {
        let context = context().limit(Duration::from_secs(600));
        let line = format!("engine --profile {profile} --port 0 --json {flags}");
        let mut running = context.spawn(line.split_whitespace()).unwrap();
        let ready: Value = running
            .wait_for(|text| {
                let (line, _) = text.split_once('\n')?;
                serde_json::from_str(line).ok()
            })
            .unwrap();
        assert_eq!(ready["simulated"], true);
        Self { address: ready["address"].as_str().unwrap().to_owned(), running, _context: context }
    }

    pub(crate) fn chat(&self) -> String {
        format!("openai-chat=http://{}", self.address)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }

    pub(crate) fn kill(&self) {
        self.running.kill().unwrap();
    }

    /// What the engine itself saw of `[from, to)`, ns.
    pub(crate) fn truth(&self, from_ns: u64, to_ns: u64) -> Value {
        get_json(&self.address, &format!("/truth?from_ns={from_ns}&to_ns={to_ns}"))
    }

    /// Generation requests that it has received so far.
    pub(crate) fn received(&self) -> u64 {
        self.truth(0, u64::MAX)["requests"]["received"].as_u64().unwrap()
    }

    /// Waits until it has received so many requests, at most as long as the command under test may run.
    pub(crate) fn wait_received(&self, wanted: u64) {
        for _ in 0..LIMIT.as_millis() / 20 {
            if self.received() >= wanted {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the engine received {} requests only", self.received());
    }
}

/// The JSON body of a GET.
pub(crate) fn get_json(address: &str, path: &str) -> Value {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let ask = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// Every file under a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// The one folder under `decisions/`.
pub(crate) fn record_dir(context: &TestContext) -> PathBuf {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(context.path("decisions")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders.remove(0)
}
