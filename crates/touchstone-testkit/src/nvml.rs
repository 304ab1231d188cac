//! A stub of NVIDIA's management library, built by the system's C compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

const SOURCE: &str = include_str!("nvml/stub.c");

/// Builds `libnvidia-ml.so.1` in a folder and returns its path.
///
/// # Errors
/// When there is no C compiler, or the folder cannot be written.
pub fn stub_library(folder: &Path) -> Result<PathBuf> {
    let (source, library) = (folder.join("stub.c"), folder.join("libnvidia-ml.so.1"));
    std::fs::write(&source, SOURCE)?;
    let done = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).output()?;
    ensure!(done.status.success(), "cc: {}", String::from_utf8_lossy(&done.stderr));
    Ok(library)
}
