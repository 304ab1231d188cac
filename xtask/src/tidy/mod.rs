//! Rules of the house that neither the compiler nor clippy knows. All violations are collected before any is printed,
//! so that one run shows all the work.

mod code;
mod layers;
mod manifests;
mod source;
mod text;

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand};

/// Something that breaks a rule, or nearly does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    /// Relative to the workspace.
    path: String,
    /// From 1.
    line: usize,
    rule: &'static str,
    advice: String,
    /// A warning is printed and fails nothing.
    warning: bool,
}

impl Violation {
    fn new(path: impl Into<String>, line: usize, rule: &'static str, advice: impl Into<String>) -> Violation {
        Violation { path: path.into(), line, rule, advice: advice.into(), warning: false }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let warning = if self.warning { "warning: " } else { "" };
        write!(f, "{}:{}: {}: {warning}{}", self.path, self.line, self.rule, self.advice)
    }
}

/// Checks everything and prints what is wrong; true when nothing is.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let metadata = MetadataCommand::new().manifest_path(root.join("Cargo.toml")).exec()?;
    let mut violations = Vec::new();
    check_crates(root, &metadata, &mut violations)?;
    check_files(root, &mut violations)?;
    check_format(root, &mut violations)?;
    violations.sort();
    violations.dedup();
    for violation in &violations {
        println!("{violation}");
    }
    let warnings = violations.iter().filter(|violation| violation.warning).count();
    let errors = violations.len() - warnings;
    eprintln!("tidy: {errors} violations, {warnings} warnings");
    Ok(errors == 0)
}

fn check_crates(root: &Path, metadata: &Metadata, violations: &mut Vec<Violation>) -> Result<()> {
    let members = layers::members(metadata, root)?;
    violations.extend(layers::check(&members));
    let workspace = read(root, "Cargo.toml")?;
    let decisions = fs::read_to_string(root.join(manifests::DECISIONS)).unwrap_or_default();
    violations.extend(manifests::check_workspace(&workspace, &members, &decisions));
    for member in &members {
        violations.extend(manifests::check_member(&member.manifest, &read(root, &member.manifest)?));
        for path in &member.roots {
            violations.extend(code::check_crate_docs(path, &read(root, path)?));
        }
    }
    Ok(())
}

/// The rules for single files, on all that git tracks or would track.
fn check_files(root: &Path, violations: &mut Vec<Violation>) -> Result<()> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("run git ls-files")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    for path in String::from_utf8(output.stdout)?.split_terminator('\0') {
        // Listed but deleted in the working tree, or not text: neither has lines to check.
        let Ok(content) = fs::read_to_string(root.join(path)) else { continue };
        violations.extend(text::check(path, &content));
        if path.ends_with(".rs") {
            violations.extend(code::check(path, &content));
        }
    }
    Ok(())
}

fn check_format(root: &Path, violations: &mut Vec<Violation>) -> Result<()> {
    let output = Command::new("cargo")
        .args(["fmt", "--all", "--", "--check", "-l"])
        .current_dir(root)
        .output()
        .context("run cargo fmt")?;
    if output.status.success() {
        return Ok(());
    }
    let listed = String::from_utf8_lossy(&output.stdout);
    for path in listed.lines().filter(|line| !line.is_empty()) {
        let path = Path::new(path);
        let path = path.strip_prefix(root).unwrap_or(path).display().to_string();
        violations.push(Violation::new(path, 1, "format", "run `cargo fmt --all`"));
    }
    if listed.trim().is_empty() {
        let why = String::from_utf8_lossy(&output.stderr);
        let last = why.lines().next().unwrap_or("no message").to_owned();
        violations.push(Violation::new("Cargo.toml", 1, "format", format!("cargo fmt failed: {last}")));
    }
    Ok(())
}

fn read(root: &Path, path: &str) -> Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("read {path}"))
}

/// The rules' names and lines of some violations, for comparisons in tests.
#[cfg(test)]
fn brief(violations: &[Violation]) -> Vec<(&'static str, usize)> {
    violations.iter().map(|violation| (violation.rule, violation.line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_is_one_line_that_editors_can_jump_to() {
        let mut violation = Violation::new("a/b.rs", 3, "purity", "take the clock as an argument");
        assert_eq!(violation.to_string(), "a/b.rs:3: purity: take the clock as an argument");
        violation.warning = true;
        assert_eq!(violation.to_string(), "a/b.rs:3: purity: warning: take the clock as an argument");
    }
}
