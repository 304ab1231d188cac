//! Fuzzing with libFuzzer on the stable toolchain: `fuzz/` is built with the compiler's own coverage instrumentation
//! (flags that stable has; no sanitizer, no cargo-fuzz), each target begins with its seeds and runs for a while.
//!
//! It needs a C++ compiler for libFuzzer itself, which is why `fuzz/` is no member of the workspace.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail};

/// The program that writes the seeds; no target.
const SEEDS: &str = "seeds";
/// Coverage by 8-bit counters and by comparisons, as libFuzzer wants it.
const INSTRUMENTATION: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// What was asked for on the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Time for each target.
    seconds: u32,
    /// Targets at once.
    jobs: usize,
    /// Only these; all when empty.
    targets: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { seconds: 20, jobs: 2, targets: Vec::new() }
    }
}

impl Options {
    pub(crate) fn parse(arguments: &[&str]) -> Result<Options> {
        let mut options = Options::default();
        let mut arguments = arguments.iter();
        while let Some(&argument) = arguments.next() {
            let mut number = |what: &str| -> Result<u32> {
                let text = arguments.next().with_context(|| format!("{what} takes a number"))?;
                text.parse().ok().filter(|number| *number > 0).with_context(|| format!("no number: {text}"))
            };
            match argument {
                "--seconds" => options.seconds = number("--seconds")?,
                "--jobs" => options.jobs = number("--jobs")? as usize,
                _ if argument.starts_with('-') => bail!("unknown option {argument}"),
                _ => options.targets.push(argument.to_owned()),
            }
        }
        Ok(options)
    }
}

/// Whether libFuzzer can be compiled here; the reason when not.
pub(crate) fn missing() -> Option<String> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let found = Command::new(&compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match found {
        Ok(status) if status.success() => None,
        _ => Some(format!("no C++ compiler (`{compiler}`), which libFuzzer is built with")),
    }
}

/// One target after its run.
struct Outcome {
    target: String,
    ok: bool,
    /// Inputs tried and places of the code reached, as libFuzzer counts them.
    runs: String,
    coverage: String,
    /// Its last words when it found something.
    said: String,
}

/// Builds and runs the targets; prints a line for each. False when one found something.
pub(crate) fn run(root: &Path, options: &Options) -> Result<bool> {
    if let Some(reason) = missing() {
        bail!("{reason}");
    }
    let targets = targets(root, &options.targets)?;
    let programs = build(root)?;
    let folder = target_folder(root)?;
    let corpus = folder.join("corpus");
    fs::create_dir_all(&corpus)?;
    let seeded =
        Command::new(programs.join(SEEDS)).arg("-runs=0").env("TOUCHSTONE_FUZZ_SEEDS", &corpus).output()?;
    if !seeded.status.success() {
        bail!("the seeds could not be written: {}", String::from_utf8_lossy(&seeded.stderr));
    }
    let left = Mutex::new(VecDeque::from(targets));
    let outcomes = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while let Some(target) = next(&left) {
                    let outcome =
                        one(&programs, &folder, &target, options.seconds).unwrap_or_else(|error| Outcome {
                            target,
                            ok: false,
                            runs: String::new(),
                            coverage: String::new(),
                            said: format!("{error:#}"),
                        });
                    let Outcome { target, ok, runs, coverage, .. } = &outcome;
                    let word = if *ok { "ok" } else { "FOUND" };
                    println!(
                        "{}",
                        format!("{target:<18} {word:<6} {runs:>10} runs  coverage {coverage:>6}").trim_end()
                    );
                    if let Ok(mut outcomes) = outcomes.lock() {
                        outcomes.push(outcome);
                    }
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap_or_default();
    for outcome in outcomes.iter().filter(|outcome| !outcome.ok) {
        eprintln!("{}:\n{}", outcome.target, outcome.said);
    }
    Ok(!outcomes.is_empty() && outcomes.iter().all(|outcome| outcome.ok))
}

fn next(left: &Mutex<VecDeque<String>>) -> Option<String> {
    left.lock().ok()?.pop_front()
}

/// The names of the targets, in order; those asked for when there are any.
fn targets(root: &Path, asked: &[String]) -> Result<Vec<String>> {
    let folder = root.join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "rs") && name != SEEDS {
            names.push(name);
        }
    }
    names.sort();
    if let Some(unknown) = asked.iter().find(|name| !names.contains(name)) {
        bail!("no target is called {unknown}; there are {}", names.join(", "));
    }
    names.retain(|name| asked.is_empty() || asked.contains(name));
    Ok(names)
}

fn target_folder(root: &Path) -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(std::path::absolute(target.join("fuzz"))?)
}

/// Builds all of it; gives the folder of the programs.
fn build(root: &Path) -> Result<PathBuf> {
    let folder = target_folder(root)?;
    let version = Command::new("rustc").arg("-vV").output().context("run rustc")?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    // The same versions as the product's; cargo adds what only the targets need and drops the rest.
    fs::copy(root.join("Cargo.lock"), root.join("fuzz/Cargo.lock")).context("copy the lock file")?;
    // With a target named, the flags are not for build scripts and macros.
    let status = Command::new("cargo")
        .args(["build", "--release", "--bins", "--target", host, "--target-dir"])
        .arg(&folder)
        .arg("--manifest-path")
        .arg(root.join("fuzz/Cargo.toml"))
        .env("RUSTFLAGS", INSTRUMENTATION)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .context("run cargo")?;
    if !status.success() {
        bail!("the fuzz targets do not build");
    }
    Ok(folder.join(host).join("release"))
}

fn one(programs: &Path, folder: &Path, target: &str, seconds: u32) -> Result<Outcome> {
    let corpus = folder.join("corpus").join(target);
    let found = folder.join("artifacts").join(target);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&found)?;
    let output = Command::new(programs.join(target))
        .args([
            &format!("-max_total_time={seconds}"),
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-max_len=16384",
            "-print_final_stats=1",
        ])
        .arg(format!("-artifact_prefix={}/", found.display()))
        .arg(&corpus)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("run {target}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let after = |what: &str| {
        let place = text.rfind(what)?;
        text[place + what.len()..].split_whitespace().next().map(str::to_owned)
    };
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("stat::")).collect();
    let said = lines[lines.len().saturating_sub(30)..].join("\n");
    Ok(Outcome {
        target: target.to_owned(),
        ok: output.status.success(),
        runs: after("stat::number_of_executed_units:").unwrap_or_default(),
        coverage: after(" cov: ").unwrap_or_default(),
        said,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_nonsense_is_refused() {
        assert_eq!(Options::parse(&[]).unwrap(), Options::default());
        let parsed = Options::parse(&["--seconds", "600", "chat", "--jobs", "1", "sse"]).unwrap();
        assert_eq!(parsed, Options { seconds: 600, jobs: 1, targets: vec!["chat".into(), "sse".into()] });
        for bad in [&["--seconds"][..], &["--seconds", "0"], &["--seconds", "x"], &["--fast"]] {
            assert!(Options::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_target_has_a_program_and_every_dialect_a_target() {
        let root = crate::root();
        let names = targets(&root, &[]).unwrap();
        let manifest = fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        for name in &names {
            assert!(
                manifest.contains(&format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"")),
                "{name}"
            );
        }
        for needed in
            ["chat", "tgi", "fastchat_worker", "sse", "gzip", "resp", "nats", "scenario", "event_log"]
        {
            assert!(names.iter().any(|name| name == needed), "{needed}");
        }
        assert!(targets(&root, &["nothing".to_owned()]).is_err());
    }
}
