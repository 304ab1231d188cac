//! `runs`: what was recorded, listed, shown, exported and cleared away.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use touchstone_records::export::{Table, TableFormat};

use super::Folder;
use super::raw::{JsonOnly, RunId};
use super::values::{self, Sink};

#[derive(Debug, Args)]
pub(super) struct RunsFlags {
    #[command(subcommand)]
    action: RunsRaw,
}

#[derive(Debug, Subcommand)]
enum RunsRaw {
    /// List the recorded runs, newest first
    List(JsonOnly),
    /// Show a run
    Show(RunId),
    /// Check a run's files against their digests
    Verify(RunId),
    /// Write a run's operations, or the events of its answers, as a table for other tools
    Export(ExportFlags),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatName {
    /// A line of names, then a line per row
    Csv,
    /// A JSON object per line
    Jsonl,
    /// One JSON document
    Json,
    /// Apache Parquet
    Parquet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TableName {
    /// One row per operation
    Operations,
    /// One row per event of an answer (recorded with `bench --log-tokens`)
    Tokens,
}

#[derive(Debug, Args)]
struct ExportFlags {
    /// The run's id, its beginning, or `latest`; a run that was ended before its time can be exported too
    id: String,
    /// How the table is written
    #[arg(long, value_enum, default_value = "csv")]
    format: FormatName,
    /// Which table
    #[arg(long, value_enum, default_value = "operations")]
    table: TableName,
    /// Where it is written, `-` for standard output [default: `-`; for Parquet TABLE.parquet beside the run]
    #[arg(long, value_name = "PATH|-", value_parser = values::sink)]
    to: Option<Sink>,
}

/// `runs ...`.
#[derive(Debug)]
pub(crate) struct RunsArgs {
    /// What to do.
    pub(crate) action: RunsAction,
    /// Print one JSON document.
    pub(crate) json: bool,
    /// The folder of what is kept.
    pub(crate) out: Folder,
}

/// What `runs` does; ids are as typed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RunsAction {
    /// List all.
    List,
    /// Show one.
    Show(String),
    /// Check one.
    Verify(String),
    /// Write a table of one.
    Export {
        /// Which run.
        id: String,
        /// Which table of it.
        table: Table,
        /// How.
        format: TableFormat,
        /// Where; beside the run when none.
        to: Option<PathBuf>,
        /// Whether it goes to standard output.
        stdout: bool,
    },
}

impl RunsArgs {
    pub(super) fn from_flags(flags: RunsFlags, out: Folder) -> Self {
        let (action, json) = match flags.action {
            RunsRaw::List(flags) => (RunsAction::List, flags.json),
            RunsRaw::Show(run) => (RunsAction::Show(run.id), run.json),
            RunsRaw::Verify(run) => (RunsAction::Verify(run.id), run.json),
            RunsRaw::Export(flags) => (export(flags), false),
        };
        Self { action, json, out }
    }
}

fn export(flags: ExportFlags) -> RunsAction {
    let format = match flags.format {
        FormatName::Csv => TableFormat::Csv,
        FormatName::Jsonl => TableFormat::JsonLines,
        FormatName::Json => TableFormat::Json,
        FormatName::Parquet => TableFormat::Parquet,
    };
    let table = match flags.table {
        TableName::Operations => Table::Operations,
        TableName::Tokens => Table::Tokens,
    };
    let (to, stdout) = match flags.to {
        Some(Sink::File(path)) => (Some(path), false),
        Some(Sink::Stdout) => (None, true),
        // A table of bytes on a terminal helps nobody.
        None => (None, format != TableFormat::Parquet),
    };
    RunsAction::Export { id: flags.id, table, format, to, stdout }
}
