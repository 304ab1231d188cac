//! The project's own chores, run as `cargo xtask CHORE`.
//!
//! `tidy` checks what the compiler cannot (dependency direction, purity, documents), `codegen` writes or checks the
//! generated files, `servers` obtains the real servers that tests load, `fuzz` runs the fuzz targets, `test` does all of it and ends with the
//! counts. It is not shipped, measures nothing and is the one place that installs anything. Progress goes to standard
//! error, results to standard output.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program for a terminal")]

mod codegen;
mod engines;
mod fuzz;
mod servers;
mod test_run;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
cargo xtask CHORE

  tidy                                      check the rules of the house; each violation is `path:line: rule: advice`
  codegen [--check]                         write the generated files, or say which differ
  servers                                   obtain the real servers for tests, and tell what is there
  engines                                   obtain vLLM, FastChat and Triton on CPU (about 4 GB), and tell what is there
  fuzz [--seconds 20] [--jobs 2] [TARGET ...]
                                            build the fuzz targets (needs a C++ compiler) and run each for a while
  test [--require core] [--no-servers] [--no-fuzz] [--engines] [FILTER]
                                            tidy, clippy, codegen --check, fuzz, servers, all tests; ends with the counts.
                                            With a FILTER only the tests whose name contains it run.
                                            --engines: load vLLM, FastChat and Triton too
                                            --require core: a missing llama.cpp, Redis or NATS is a failure
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match dispatch(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// False when the chore was done and found something wrong.
fn dispatch(arguments: &[&str]) -> Result<bool> {
    match arguments {
        ["tidy"] => tidy::run(&root()),
        ["codegen"] => codegen::write(&root()),
        ["codegen", "--check"] => codegen::check(&root()),
        ["servers"] => Ok(servers::run()),
        ["engines"] => Ok(engines::run()),
        ["fuzz", rest @ ..] => fuzz::run(&root(), &fuzz::Options::parse(rest)?),
        ["test", rest @ ..] => test_run::run(&root(), &test_run::Options::parse(rest)?),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(true)
        }
        [] => bail!("which chore?\n\n{USAGE}"),
        _ => bail!("not a chore: {}\n\n{USAGE}", arguments.join(" ")),
    }
}

/// The workspace's folder.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}
