//! `touchstone completions`: a script for a shell, from the definition of the command line.

use crate::args::{CompletionsArgs, definition};
use crate::exit::ExitCode;
use crate::ui::Ui;

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition(), "touchstone", &mut script);
    ui.data(&String::from_utf8(script)?)?;
    Ok(ExitCode::Done)
}
