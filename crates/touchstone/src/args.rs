//! Arguments, in two stages: the flags as clap reads them ([`raw`]), then typed requests that were checked as a whole.
//!
//! Neither stage looks at the environment, the terminal or a file, so both can be tested with plain lists of words.

mod bench;
mod class;
mod compare;
mod init;
mod raw;
mod runs;
mod search;
mod series;
#[cfg(test)]
mod tests;
mod values;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use touchstone_report::Lang;

pub(crate) use bench::{BenchArgs, BenchWorkload, EngineArgs};
pub(crate) use class::ClassArgs;
pub(crate) use compare::{CompareArgs, RerunArgs};
pub(crate) use init::{DEMANDED, DemandAnswer, InitArgs, demand};
pub(crate) use runs::{RunsAction, RunsArgs};
pub(crate) use search::SearchArgs;
pub(crate) use values::{Answer, Sink, answer, horizon, limit_quantity, percent, seconds};

/// Readers of single values, for answers that are typed at a prompt.
pub(crate) mod parse_value {
    pub(crate) use super::values::{arrival, share, size};
}

use crate::failure::Failure;
use raw::{Cli, LangName, Raw};

/// The folder of what is kept (`--out`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// The folder itself.
    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    /// Where runs are kept, for `RunStore::new`.
    pub(crate) fn store(&self) -> PathBuf {
        self.0.join(".touchstone")
    }

    /// Where decision records are kept, for `DecisionStore::new`.
    pub(crate) fn decisions(&self) -> PathBuf {
        self.0.join("decisions")
    }
}

/// What holds for every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Globals {
    /// Print neither progress nor summaries.
    pub(crate) quiet: bool,
    /// Print without colour.
    pub(crate) no_color: bool,
    /// The language of sentences.
    pub(crate) lang: Lang,
}

/// A command line that was understood.
#[derive(Debug)]
pub(crate) struct Request {
    /// What holds for every command.
    pub(crate) globals: Globals,
    /// The command.
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug)]
pub(crate) enum Command {
    Demo(DemoArgs),
    Init(Box<InitArgs>),
    Check(CheckArgs),
    Match(MatchArgs),
    Run(RunArgs),
    Decide(DecideArgs),
    Explain(ExplainArgs),
    Bench(Box<BenchArgs>),
    PlanRun(Box<BenchArgs>),
    Search(Box<SearchArgs>),
    Compare(Box<CompareArgs>),
    Rerun(RerunArgs),
    Campaign(CampaignArgs),
    Engine(EngineArgs),
    Runs(RunsArgs),
    Doctor(DoctorArgs),
    Completions(CompletionsArgs),
    Man,
    Generate(GenerateArgs),
}

/// `demo`.
#[derive(Debug)]
pub(crate) struct DemoArgs {
    /// The folder of what is kept.
    pub(crate) out: Folder,
}

/// `check FILE`.
#[derive(Debug)]
pub(crate) struct CheckArgs {
    /// The scenario file.
    pub(crate) file: PathBuf,
    /// Print one JSON document.
    pub(crate) json: bool,
    /// The folder of what is kept, with the user's own catalog.
    pub(crate) out: Folder,
}

/// `match FILE`.
#[derive(Debug)]
pub(crate) struct MatchArgs {
    /// The scenario file.
    pub(crate) file: PathBuf,
    /// Print one JSON document.
    pub(crate) json: bool,
    /// The folder of what is kept, with the user's own catalog.
    pub(crate) out: Folder,
}

/// `run FILE`.
#[derive(Debug)]
pub(crate) struct RunArgs {
    /// The scenario file.
    pub(crate) file: PathBuf,
    /// Where the decision goes as JSON.
    pub(crate) json: Option<Sink>,
    /// Instead of the scenario's seed.
    pub(crate) seed: Option<u64>,
    /// Instead of the scenario's number of runs per candidate; 1 to 1000.
    pub(crate) repeats: Option<u32>,
    /// The folder of what is kept.
    pub(crate) out: Folder,
}

/// `campaign FILE`.
#[derive(Debug)]
pub(crate) struct CampaignArgs {
    /// The campaign file.
    pub(crate) file: PathBuf,
    /// Only show what is there.
    pub(crate) show: bool,
    /// Where the document goes as JSON.
    pub(crate) json: Option<Sink>,
    /// Where the page goes.
    pub(crate) html: Option<PathBuf>,
    /// The folder of what is kept.
    pub(crate) out: Folder,
}

/// `decide FILE`.
#[derive(Debug)]
pub(crate) struct DecideArgs {
    /// The scenario file.
    pub(crate) file: PathBuf,
    /// Where the decision goes as JSON.
    pub(crate) json: Option<Sink>,
    /// Instead of the scenario's seed.
    pub(crate) seed: Option<u64>,
    /// These runs only; empty for every complete run of the scenario.
    pub(crate) runs: Vec<String>,
    /// The folder of what is kept.
    pub(crate) out: Folder,
}

/// `explain RECORD [STATEMENT]`.
#[derive(Debug)]
pub(crate) struct ExplainArgs {
    /// A folder, a file, or an id, as typed.
    pub(crate) record: String,
    /// The statement to unfold; all when absent.
    pub(crate) statement: Option<String>,
    /// Print one JSON document.
    pub(crate) json: bool,
    /// The folder of what is kept.
    pub(crate) out: Folder,
}

/// `doctor`.
#[derive(Debug)]
pub(crate) struct DoctorArgs {
    /// Print one JSON document.
    pub(crate) json: bool,
}

/// `completions SHELL`.
#[derive(Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

/// `generate --dir DIR`.
#[derive(Debug)]
pub(crate) struct GenerateArgs {
    /// The folder to write into.
    pub(crate) dir: PathBuf,
    /// Compare instead of writing.
    pub(crate) check: bool,
}

/// Why there is no request.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Help or version were asked for, or clap refused the words.
    Clap(clap::Error),
    /// The words contradict each other.
    Failure(Globals, Failure),
}

/// The definition of the command line: for help, completions, the manual and the reference.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

/// Reads a command line, its first word being the name of the program.
pub(crate) fn parse<T: Into<OsString> + Clone>(words: impl IntoIterator<Item = T>) -> Result<Request, Stop> {
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    // Clap decides about colour before it has read the flag.
    let plain = words.iter().any(|word| word == "--no-color");
    let color = if plain { clap::ColorChoice::Never } else { clap::ColorChoice::Auto };
    let matches = Cli::command().color(color).try_get_matches_from(&words).map_err(Stop::Clap)?;
    let cli = <Cli as clap::FromArgMatches>::from_arg_matches(&matches).map_err(Stop::Clap)?;
    let globals = Globals {
        quiet: cli.global.quiet,
        no_color: cli.global.no_color,
        lang: match cli.global.lang {
            LangName::En => Lang::En,
            LangName::Zh => Lang::Zh,
        },
    };
    let out = Folder(cli.global.out);
    let mut command = command(cli.command, out).map_err(|failure| Stop::Failure(globals, failure))?;
    if let Command::Bench(args) = &mut command {
        let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        args.replayable = compare::replayable(&words);
    }
    Ok(Request { globals, command })
}

fn command(raw: Raw, out: Folder) -> Result<Command, Failure> {
    Ok(match raw {
        Raw::Demo => Command::Demo(DemoArgs { out }),
        Raw::Init(flags) => Command::Init(Box::new(InitArgs::from_flags(*flags, out)?)),
        Raw::Check(flags) => Command::Check(CheckArgs { file: flags.file, json: flags.json, out }),
        Raw::Match(flags) => Command::Match(MatchArgs { file: flags.file, json: flags.json, out }),
        Raw::Run(flags) => Command::Run(RunArgs {
            file: flags.file,
            json: flags.json,
            seed: flags.seed,
            repeats: flags.repeats,
            out,
        }),
        Raw::Decide(flags) => Command::Decide(DecideArgs {
            file: flags.file,
            json: flags.json,
            seed: flags.seed,
            runs: flags.runs,
            out,
        }),
        Raw::Explain(flags) => Command::Explain(ExplainArgs {
            record: flags.record,
            statement: flags.statement,
            json: flags.json,
            out,
        }),
        Raw::Bench(flags) => Command::Bench(Box::new(BenchArgs::from_flags(*flags, out)?)),
        Raw::PlanRun(flags) if !flags.class.is_empty() => {
            return Err(Failure::usage("`--class` does not go with plan-run")
                .hint("plan each class by itself, with its `--arrival`, tokens and `--slo`"));
        }
        Raw::PlanRun(flags) => Command::PlanRun(Box::new(BenchArgs::from_flags(*flags, out)?)),
        Raw::Compare(flags) => Command::Compare(Box::new(CompareArgs::from_flags(*flags, out)?)),
        Raw::Campaign(flags) => Command::Campaign(CampaignArgs {
            file: flags.file,
            show: flags.show,
            json: flags.json,
            html: flags.html,
            out,
        }),
        Raw::Rerun(run) => Command::Rerun(RerunArgs::from_flags(run, out)),
        Raw::Search(flags) => Command::Search(Box::new(SearchArgs::from_flags(*flags, out)?)),
        Raw::Engine(flags) => Command::Engine(EngineArgs::from_flags(*flags)?),
        Raw::Runs(flags) => Command::Runs(RunsArgs::from_flags(*flags, out)),
        Raw::Doctor(flags) => Command::Doctor(DoctorArgs { json: flags.json }),
        Raw::Completions { shell } => Command::Completions(CompletionsArgs { shell }),
        Raw::Man => Command::Man,
        Raw::Generate { dir, check } => Command::Generate(GenerateArgs { dir, check }),
    })
}
