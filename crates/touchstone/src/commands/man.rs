//! `touchstone man`: the manual page, from the definition of the command line.

use clap_mangen::Man;

use crate::args::definition;
use crate::exit::ExitCode;
use crate::ui::Ui;

/// Prints the page of `touchstone`, with the options of every command below it.
pub(crate) fn run(ui: &Ui) -> anyhow::Result<ExitCode> {
    ui.data(&page()?)?;
    Ok(ExitCode::Done)
}

fn page() -> anyhow::Result<String> {
    let mut command = definition();
    command.build();
    let mut page = Vec::new();
    let top = Man::new(command.clone());
    top.render_title(&mut page)?;
    top.render_name_section(&mut page)?;
    top.render_synopsis_section(&mut page)?;
    top.render_description_section(&mut page)?;
    top.render_options_section(&mut page)?;
    for sub in leaves(&command) {
        let name = sub.get_bin_name().unwrap_or_else(|| sub.get_name()).to_uppercase();
        page.extend_from_slice(format!(".SH \"{name}\"\n").as_bytes());
        let mut section = Vec::new();
        // The global options stand at the top of the page.
        let own = |arg: clap::Arg| if arg.is_global_set() { arg.hide(true) } else { arg };
        let man = Man::new(sub.clone().mut_args(own));
        man.render_description_section(&mut section)?;
        man.render_synopsis_section(&mut section)?;
        man.render_options_section(&mut section)?;
        // Sections of a command become subsections of the page.
        page.extend_from_slice(String::from_utf8(section)?.replace("\n.SH ", "\n.SS ").as_bytes());
    }
    top.render_extra_section(&mut page)?;
    Ok(String::from_utf8(page)?)
}

/// The commands that do something, depth first, without hidden ones.
fn leaves(command: &clap::Command) -> Vec<clap::Command> {
    let mut found = Vec::new();
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let below = leaves(sub);
        if below.is_empty() { found.push(sub.clone()) } else { found.extend(below) }
    }
    found
}
