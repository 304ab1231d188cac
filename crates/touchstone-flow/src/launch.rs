//! Launching the embedded engine as a process of its own, so that generator and engine share nothing but the machine.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use touchstone_model::{Protocol, Target};

/// Why an engine was not launched.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The process could not be started.
    #[error("the embedded engine cannot be started from {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It ended, or said something else, before it was ready.
    #[error("the embedded engine with profile `{profile}` did not become ready: {said}")]
    NotReady {
        /// The profile.
        profile: String,
        /// Its first line.
        said: String,
    },
}

/// A running engine; it is ended when this is dropped, and ends by itself when this process does.
#[derive(Debug)]
pub struct Engine {
    child: Child,
    /// Where it listens.
    pub target: Target,
}

/// Launches `program engine --profile PROFILE` on a free loopback port and waits until it is ready.
///
/// # Errors
/// When it cannot be started or does not become ready.
pub fn engine(program: &Path, profile: &str, seed: u64) -> Result<Engine, LaunchError> {
    let mut child = Command::new(program)
        .args(["engine", "--profile", profile, "--port", "0", "--json", "--until-stdin-closes", "--quiet"])
        .args(["--seed", &seed.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // Ctrl-C at the terminal is for the load: the engine has to answer until drain is over.
        .process_group(0)
        .spawn()
        .map_err(|source| LaunchError::Start { program: program.to_owned(), source })?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take()
        && let Err(error) = BufReader::new(stdout).read_line(&mut line)
    {
        line = error.to_string();
    }
    let address = serde_json::from_str::<serde_json::Value>(&line)
        .ok()
        .and_then(|ready| ready.get("address")?.as_str().map(str::to_owned));
    let target = address
        .and_then(|address| format!("{}=http://{address}", Protocol::OpenAiChat).parse::<Target>().ok());
    match target {
        Some(target) => Ok(Engine { child, target }),
        None => {
            let engine = Engine { child, target: nowhere() };
            drop(engine);
            let said =
                if line.trim().is_empty() { "it ended at once".to_owned() } else { line.trim().to_owned() };
            Err(LaunchError::NotReady { profile: profile.to_owned(), said })
        }
    }
}

fn nowhere() -> Target {
    Target { protocol: Protocol::OpenAiChat, host: String::new(), port: 0, tls: false, path: String::new() }
}

impl Engine {
    /// The id of its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
