//! The whole check, as a person and as CI run it: one step after the other, a failed step does not stop the next, and
//! the last line on standard output has the counts.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use touchstone_testkit::servers::{NO_SERVERS_ENV, SERVERS_ENV, servers_dir};

use crate::{codegen, engines, fuzz, servers, tidy};

/// The feature that has the tests with the heavy engines built.
const ENGINE_TESTS: &str = "touchstone/engine-tests";

/// What was asked for on the command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    require_core: bool,
    no_servers: bool,
    no_fuzz: bool,
    engines: bool,
    filter: Option<String>,
}

impl Options {
    pub(crate) fn parse(arguments: &[&str]) -> Result<Options> {
        let mut options = Options::default();
        let mut arguments = arguments.iter();
        while let Some(&argument) = arguments.next() {
            match argument {
                "--require" => match arguments.next() {
                    Some(&"core") => options.require_core = true,
                    other => bail!("--require takes `core`, not {other:?}"),
                },
                "--require=core" => options.require_core = true,
                "--no-servers" => options.no_servers = true,
                "--no-fuzz" => options.no_fuzz = true,
                "--engines" => options.engines = true,
                _ if argument.starts_with('-') => bail!("unknown option {argument}"),
                _ if options.filter.is_some() => bail!("one FILTER is enough: {argument}"),
                _ => options.filter = Some(argument.to_owned()),
            }
        }
        if options.require_core && options.no_servers {
            bail!("--require core and --no-servers contradict each other");
        }
        if options.engines && options.no_servers {
            bail!("--engines and --no-servers contradict each other");
        }
        Ok(options)
    }
}

struct Step {
    name: &'static str,
    ok: bool,
    took: Duration,
    note: String,
}

/// Runs the steps and prints the table and the counts; true when all went well.
pub(crate) fn run(root: &Path, options: &Options) -> Result<bool> {
    let mut steps = Vec::new();
    let mut step = |name: &'static str, work: &mut dyn FnMut() -> Result<(bool, String)>| {
        eprintln!("==> {name}");
        let start = Instant::now();
        // An error is a failed step: the next ones still have something to say.
        let (ok, note) = work().unwrap_or_else(|error| (false, format!("{error:#}")));
        steps.push(Step { name, ok, took: start.elapsed(), note });
    };

    if options.filter.is_none() {
        step("tidy", &mut || tidy::run(root).map(|ok| (ok, String::new())));
        step("clippy", &mut || {
            let arguments = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
            let status = Command::new("cargo").args(arguments).current_dir(root).status()?;
            Ok((status.success(), String::new()))
        });
        step("codegen", &mut || codegen::check(root).map(|ok| (ok, String::new())));
        if !options.no_fuzz {
            step("fuzz", &mut || match fuzz::missing() {
                Some(reason) => Ok((!options.require_core, format!("skipped: {reason}"))),
                None => fuzz::run(root, &fuzz::Options::default()).map(|ok| (ok, String::new())),
            });
        }
    }
    if !options.no_servers {
        step("servers", &mut || {
            let found = servers::obtain_all();
            eprint!("{}", servers::table(&found));
            let missing: Vec<String> = found
                .iter()
                .filter_map(|(_, outcome)| outcome.as_ref().err())
                .map(ToString::to_string)
                .collect();
            Ok((missing.is_empty() || !options.require_core, missing.join("; ")))
        });
    }
    if options.engines {
        step("engines", &mut || {
            let found = engines::obtain_all();
            eprint!("{}", servers::table(&found));
            let missing: Vec<String> =
                found.iter().filter_map(|(_, got)| got.as_ref().err()).map(ToString::to_string).collect();
            Ok((missing.is_empty(), missing.join("; ")))
        });
    }
    let mut counts = Counts::default();
    step("tests", &mut || {
        let (ended_well, found) = run_tests(root, options)?;
        counts = found;
        let mut problems: Vec<String> = counts.failures.iter().cloned().collect();
        if !ended_well && problems.is_empty() {
            problems.push("cargo test failed; see above".to_owned());
        }
        if counts.passed() == 0 {
            problems.push("no test passed".to_owned());
        }
        if options.require_core && !counts.skipped.is_empty() {
            problems.push("a required server was missing".to_owned());
        }
        Ok((ended_well && problems.is_empty(), problems.join(", ")))
    });

    println!();
    for Step { name, ok, took, note } in &steps {
        let word = if *ok { "ok" } else { "FAILED" };
        println!("{}", format!("{name:<8} {word:<7} {:>7.1} s  {note}", took.as_secs_f64()).trim_end());
    }
    for (test, reason) in &counts.skipped {
        println!("skipped {test}: {reason}");
    }
    println!("{}", counts.closing_line());
    Ok(steps.iter().all(|step| step.ok))
}

fn run_tests(root: &Path, options: &Options) -> Result<(bool, Counts)> {
    let mut command = Command::new("cargo");
    command.args(["test", "--workspace", "--no-fail-fast"]);
    if options.engines {
        command.args(["--features", ENGINE_TESTS]);
    }
    command.args(options.filter.as_deref()).current_dir(root);
    command.env(SERVERS_ENV, std::path::absolute(servers_dir())?);
    if options.no_servers {
        command.env(NO_SERVERS_ENV, "1");
    }
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("run cargo test")?;
    let stdout = child.stdout.take().map(|pipe| thread::spawn(move || relay(pipe)));
    let stderr = child.stderr.take().map(|pipe| thread::spawn(move || relay(pipe)));
    let mut counts = Counts::default();
    for reader in [stdout, stderr].into_iter().flatten() {
        counts.add(reader.join().unwrap_or_default());
    }
    Ok((child.wait()?.success(), counts))
}

/// Passes a stream on to standard error while reading the counts out of it.
fn relay(pipe: impl Read) -> Counts {
    let mut counts = Counts::default();
    let mut line = Vec::new();
    let mut reader = BufReader::new(pipe);
    while let Ok(1..) = reader.read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line);
        eprint!("{text}");
        counts.read_line(text.trim_end());
        line.clear();
    }
    counts
}

/// What the test programs said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    /// As the test harness counts: a test that skipped itself is among them.
    returned: usize,
    failed: usize,
    ignored: usize,
    /// Names of failed tests.
    failures: BTreeSet<String>,
    /// Tests that did nothing, each once, with the first reason.
    skipped: Vec<(String, String)>,
}

impl Counts {
    fn read_line(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            let count = |what: &str| {
                let before = result.split(['.', ';']).find_map(|part| part.trim().strip_suffix(what))?;
                before.trim().parse::<usize>().ok()
            };
            self.returned += count("passed").unwrap_or(0);
            self.failed += count("failed").unwrap_or(0);
            self.ignored += count("ignored").unwrap_or(0);
        } else if let Some(rest) = line.strip_prefix("SKIPPED: ") {
            let (test, reason) = rest.split_once(": ").unwrap_or((rest, ""));
            if !self.skipped.iter().any(|(known, _)| known == test) {
                self.skipped.push((test.to_owned(), reason.to_owned()));
            }
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.failures.insert(name.to_owned());
        }
    }

    fn add(&mut self, other: Counts) {
        self.returned += other.returned;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.failures.extend(other.failures);
        self.skipped.extend(other.skipped);
    }

    fn passed(&self) -> usize {
        self.returned.saturating_sub(self.skipped.len())
    }

    fn closing_line(&self) -> String {
        let skipped = self.skipped.len() + self.ignored;
        format!("{} passed, {} failed, {skipped} skipped", self.passed(), self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_nonsense_is_refused() {
        let parsed = Options::parse(&["--require", "core", "redis"]).unwrap();
        assert_eq!(
            parsed,
            Options { require_core: true, filter: Some("redis".into()), ..Options::default() }
        );
        assert_eq!(
            Options::parse(&["--require=core"]).unwrap(),
            Options::parse(&["--require", "core"]).unwrap()
        );
        for bad in [
            &["--require"][..],
            &["--require", "x"],
            &["--fast"],
            &["a", "b"],
            &["--engines", "--no-servers"],
            &["--require=core", "--no-servers"],
        ] {
            assert!(Options::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn counts_are_summed_and_skipped_tests_did_not_pass() {
        let mut counts = Counts::default();
        for line in [
            "test result: ok. 28 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 2.20s",
            "test a::b ... FAILED",
            "test a::c ... ok",
            "test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.10s",
            "SKIPPED: real::redis: redis: no redis-server found",
            "SKIPPED: real::redis: redis: no redis-server found",
            "SKIPPED: real::nats: nats: none",
            "test result says nothing here",
        ] {
            counts.read_line(line);
        }
        assert_eq!(counts.closing_line(), "31 passed, 2 failed, 3 skipped");
        assert_eq!(counts.failures.iter().collect::<Vec<_>>(), ["a::b"]);
        assert_eq!(counts.skipped[0], ("real::redis".into(), "redis: no redis-server found".into()));
    }

    #[test]
    fn nothing_run_is_nothing_passed() {
        assert_eq!(Counts::default().closing_line(), "0 passed, 0 failed, 0 skipped");
    }
}
