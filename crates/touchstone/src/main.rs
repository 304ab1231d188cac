//! The binary `touchstone`: arguments, terminal and exit codes. The only crate that prints or exits.
//!
//! [`args`] turns words into typed requests, [`commands`] has a module for each of them, [`ui`] is the only way to the
//! two output streams, [`exit`] has the codes. What the commands do lies in the library crates; here is no measuring, no
//! deciding and no rendering of documents.

mod args;
mod commands;
mod exit;
mod failure;
mod input;
mod ui;

use std::process;

use clap::error::ErrorKind;

use args::{Command, Stop};
use exit::ExitCode;
use ui::Ui;

fn main() -> process::ExitCode {
    let code = match args::parse(std::env::args_os()) {
        Ok(request) => {
            let ui = Ui::new(&request.globals);
            match dispatch(&request.command, &ui) {
                Ok(code) => code,
                Err(error) => {
                    ui.error(&error);
                    failure::code_of(&error)
                }
            }
        }
        Err(Stop::Clap(error)) => clap_stop(&error),
        Err(Stop::Failure(globals, failure)) => {
            let error = anyhow::Error::new(failure);
            Ui::new(&globals).error(&error);
            failure::code_of(&error)
        }
    };
    code.into()
}

/// Help and version go to standard output; what clap refuses goes to standard error, with code 2.
fn clap_stop(error: &clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::DisplayVersion {
        return match commands::version::line() {
            Ok(line) => ui::print_or_ignore(&line),
            Err(_) => ui::print_or_ignore(concat!("touchstone ", env!("CARGO_PKG_VERSION"), "\n")),
        };
    }
    // Where the reader has gone, there is nobody to tell.
    error.print().ok();
    if error.use_stderr() { ExitCode::BadInput } else { ExitCode::Done }
}

fn dispatch(command: &Command, ui: &Ui) -> anyhow::Result<ExitCode> {
    match command {
        Command::Demo(args) => commands::demo::run(args, ui),
        Command::Init(args) => commands::init::run(args, ui),
        Command::Check(args) => commands::check::run(args, ui),
        Command::Match(args) => commands::matching::run(args, ui),
        Command::Run(args) => commands::run::run(args, ui),
        Command::Decide(args) => commands::decide::run(args, ui),
        Command::Explain(args) => commands::explain::run(args, ui),
        Command::Bench(args) => commands::bench::run(args, ui),
        Command::PlanRun(args) => commands::plan_run::run(args, ui),
        Command::Campaign(args) => commands::campaign::run(args, ui),
        Command::Compare(args) => commands::compare::run(args, ui),
        Command::Rerun(args) => commands::rerun::run(args, ui),
        Command::Search(args) => commands::search::run(args, ui),
        Command::Engine(args) => commands::engine::run(args, ui),
        Command::Runs(args) => commands::runs::run(args, ui),
        Command::Doctor(args) => commands::doctor::run(args, ui),
        Command::Completions(args) => commands::completions::run(args, ui),
        Command::Man => commands::man::run(ui),
        Command::Generate(args) => commands::generate::run(args, ui),
    }
}
