//! Running the built binary as a user does: its own empty folder, no terminal, a cleaned environment, a deadline.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// How long a command may run until it is killed, unless [`TestContext::limit`] says otherwise.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(120);
/// How long output is still collected once the process has ended: a child of its own may hold the pipes.
const COLLECT_LIMIT: Duration = Duration::from_secs(2);

/// A folder and an environment in which the binary runs.
///
/// In a test of the binary's own crate:
/// `TestContext::new(env!("CARGO_BIN_EXE_touchstone"))?.run(["check", "scenario.yaml"])?`.
#[derive(Debug)]
pub struct TestContext {
    binary: PathBuf,
    dir: TempDir,
    limit: Duration,
    variables: Vec<(String, String)>,
}

impl TestContext {
    /// An empty temporary folder for the binary at `binary`.
    pub fn new(binary: impl Into<PathBuf>) -> Result<TestContext> {
        let dir = tempfile::Builder::new().prefix("touchstone-test-").tempdir()?;
        Ok(TestContext { binary: binary.into(), dir, limit: DEFAULT_LIMIT, variables: Vec::new() })
    }

    /// Changes the deadline after which a command is killed.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> TestContext {
        self.limit = limit;
        self
    }

    /// Sets a variable for every command.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> TestContext {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The folder in which commands run.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A path inside the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file into the folder, with the folders above it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.path(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, content).with_context(|| format!("write {name}"))?;
        Ok(path)
    }

    /// Reads a file of the folder as text.
    pub fn read(&self, name: &str) -> Result<String> {
        fs::read_to_string(self.path(name)).with_context(|| format!("read {name}"))
    }

    /// Runs the binary to its end, or kills it at the deadline ([`Finished::timed_out`]).
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<Finished> {
        self.spawn(arguments)?.finish()
    }

    /// Starts the binary and leaves it running; it is killed when the handle is dropped.
    pub fn spawn<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<Running> {
        let mut command = Command::new(&self.binary);
        command.args(arguments).current_dir(self.dir.path());
        // The user's own settings must not change what a test sees.
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.dir.path()).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("start {}", self.binary.display()))?;
        let stdout = Collector::start(child.stdout.take());
        let stderr = Collector::start(child.stderr.take());
        Ok(Running { child, stdout, stderr, deadline: Instant::now() + self.limit })
    }
}

/// A started command.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Collector,
    stderr: Collector,
    deadline: Instant,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed on standard output so far.
    pub fn stdout_so_far(&self) -> String {
        self.stdout.text()
    }

    /// What it has printed on standard error so far.
    pub fn stderr_so_far(&self) -> String {
        self.stderr.text()
    }

    /// Waits until `wanted` finds something in standard output followed by standard error, and returns it.
    ///
    /// # Errors
    /// When the command ends, or its deadline passes, before that.
    pub fn wait_for<T>(&mut self, mut wanted: impl FnMut(&str) -> Option<T>) -> Result<T> {
        loop {
            let ended = self.child.try_wait()?;
            let text = self.stdout.text() + &self.stderr.text();
            if let Some(found) = wanted(&text) {
                return Ok(found);
            }
            if let Some(status) = ended {
                bail!("the command ended with {status} before that; it printed: {text}");
            }
            if Instant::now() > self.deadline {
                bail!("the deadline passed before that; it printed: {text}");
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends `SIGINT`, as Ctrl-C does.
    pub fn interrupt(&self) -> Result<()> {
        self.signal(Signal::SIGINT)
    }

    /// Sends `SIGKILL`, which leaves it no chance to tidy up.
    pub fn kill(&self) -> Result<()> {
        self.signal(Signal::SIGKILL)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.pid())?), signal)?;
        Ok(())
    }

    /// Waits for the end, killing at the deadline, and returns all that it printed.
    pub fn finish(mut self) -> Result<Finished> {
        let mut timed_out = false;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > self.deadline {
                timed_out = true;
                self.child.kill()?;
                break self.child.wait()?;
            }
            thread::sleep(Duration::from_millis(2));
        };
        let until = Instant::now() + COLLECT_LIMIT;
        Ok(Finished { status, timed_out, stdout: self.stdout.all(until), stderr: self.stderr.all(until) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After `finish` there is nothing left to kill, and a drop has nobody to report to.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A command that has ended.
#[derive(Debug, Clone)]
pub struct Finished {
    status: ExitStatus,
    /// It had to be killed at its deadline.
    pub timed_out: bool,
    /// Its whole standard output; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Its whole standard error; bytes that are not UTF-8 are replaced.
    pub stderr: String,
}

impl Finished {
    /// The exit code; `None` when a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Exit code, standard output and standard error in one text for a snapshot. Pass it through a
    /// [`Redactor`](crate::Redactor) first.
    pub fn snapshot(&self) -> String {
        let code = match self.code() {
            _ if self.timed_out => "killed at the deadline".to_owned(),
            Some(code) => code.to_string(),
            None => self.status.to_string(),
        };
        format!("exit code: {code}\n----- stdout -----\n{}\n----- stderr -----\n{}", self.stdout, self.stderr)
    }
}

/// Reads a pipe to its end in a thread, so that a full pipe never stops the command.
#[derive(Debug)]
struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Collector {
    fn start(pipe: Option<impl Read + Send + 'static>) -> Collector {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&bytes);
        let reader = pipe.map(|mut pipe| {
            thread::spawn(move || {
                let mut buffer = [0; 8192];
                while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                    shared.lock().unwrap_or_else(PoisonError::into_inner).extend(&buffer[..count]);
                }
            })
        });
        Collector { bytes, reader }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    fn all(&self, until: Instant) -> String {
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        self.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell() -> TestContext {
        TestContext::new("/bin/sh").unwrap()
    }

    #[test]
    fn code_and_both_streams_are_kept_apart() {
        let done = shell().run(["-c", "echo data; echo note >&2; exit 3"]).unwrap();
        assert_eq!((done.code(), done.stdout.as_str(), done.stderr.as_str()), (Some(3), "data\n", "note\n"));
        assert_eq!(done.snapshot(), "exit code: 3\n----- stdout -----\ndata\n\n----- stderr -----\nnote\n");
    }

    #[test]
    fn more_output_than_a_pipe_holds_does_not_stop_the_command() {
        let done =
            shell().run(["-c", "i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done"]).unwrap();
        assert_eq!(done.stdout.len(), 220_000);
    }

    #[test]
    fn a_command_that_hangs_is_killed_even_when_its_child_keeps_the_pipes() {
        let context = shell().limit(Duration::from_secs(2));
        let done = context.run(["-c", "echo before; sleep 8; echo after"]).unwrap();
        assert!(done.timed_out);
        assert_eq!((done.code(), done.stdout.as_str()), (None, "before\n"));
    }

    #[test]
    fn an_interrupt_reaches_the_command() {
        let mut running =
            shell().spawn(["-c", "trap 'exit 130' INT; echo ready; while :; do sleep 0.01; done"]).unwrap();
        running.wait_for(|text| text.contains("ready").then_some(())).unwrap();
        running.interrupt().unwrap();
        assert_eq!(running.finish().unwrap().code(), Some(130));
    }

    #[test]
    fn waiting_for_a_line_that_never_comes_ends_with_the_command() {
        let mut running = shell().spawn(["-c", "echo something else"]).unwrap();
        let error = running.wait_for(|text| text.contains("ready").then_some(())).unwrap_err();
        assert!(error.to_string().contains("something else"), "{error}");
    }

    #[test]
    fn the_folder_is_its_own_and_the_environment_is_clean() {
        let context = shell().variable("TOUCHSTONE_X", "1");
        context.write("a/b.txt", "text").unwrap();
        let done = context.run(["-c", "cat a/b.txt; echo $TOUCHSTONE_X$CARGO_MANIFEST_DIR > out"]).unwrap();
        assert_eq!(done.stdout, "text");
        assert_eq!(context.read("out").unwrap(), "1\n");
    }
}
