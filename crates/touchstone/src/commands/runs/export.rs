//! `touchstone runs export`: a run's log as a table.

use std::io;
use std::path::Path;

use touchstone_records::RunStore;
use touchstone_records::event_log::{self, Tail};
use touchstone_records::export::{
    self, ExportError, Exported, OPERATIONS_FILE, TOKENS_FILE, Table, TableFormat,
};

use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::ui::Ui;

/// Writes the table and says what is missing from it.
pub(super) fn run(
    store: &RunStore,
    id: &str,
    (table, format): (Table, TableFormat),
    (to, stdout): (Option<&Path>, bool),
    ui: &Ui,
) -> anyhow::Result<ExitCode> {
    let run = store.resolve(id)?;
    let dir = store.dir(&run);
    let log = dir.join(event_log::FILE);
    if !log.is_file() {
        let failure =
            Failure::new(ExitCode::BrokenEvidence, format!("run `{run}` has no event log to export"));
        return Err(failure.hint("`touchstone runs show` prints the figures of its document").into());
    }
    let exported = if stdout {
        let written = export::export(&log, table, format, io::BufWriter::new(io::stdout()));
        match written {
            // A reader that has gone, such as `head`, has what it wanted.
            Err(ExportError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(ExitCode::Done);
            }
            written => written.map_err(explained)?,
        }
    } else {
        let beside = dir.join(match table {
            Table::Operations => OPERATIONS_FILE,
            Table::Tokens => TOKENS_FILE,
        });
        let to = to.unwrap_or(&beside);
        let exported = export::export_to_file(&log, table, format, to).map_err(explained)?;
        ui.note(&format!("{} rows: {}", exported.rows, to.display()));
        exported
    };
    tell(&run, table, &exported, ui);
    Ok(ExitCode::Done)
}

/// Says what is not in a table, and why.
pub(in crate::commands) fn tell(run: &str, table: Table, exported: &Exported, ui: &Ui) {
    if exported.rows == 0 && table == Table::Tokens {
        ui.warning(&format!("run {run} logged no events of answers"));
        ui.hint("record them with `touchstone bench --log-tokens`");
    }
    if let Some(lost) = exported.lost.filter(|lost| *lost > 0) {
        ui.warning(&format!("{lost} rows are missing: the recorder lost them during the run"));
    }
    if exported.lost.is_none() {
        ui.warning(&format!("run {run} is not complete; the table holds what its log held so far"));
    }
    if let Tail::Torn { bytes, .. } = exported.tail {
        ui.warning(&format!("the last {bytes} bytes of the log are torn and not in the table"));
    }
    if exported.unreadable_frames > 0 {
        ui.warning(&format!(
            "{} frames of the log cannot be read by this version",
            exported.unreadable_frames
        ));
    }
}

fn explained(error: ExportError) -> anyhow::Error {
    let (code, hint) = match &error {
        ExportError::Log(_) => {
            (ExitCode::BrokenEvidence, "`touchstone runs verify` says what is wrong with it")
        }
        _ => (ExitCode::BadInput, "name another file with `--to`"),
    };
    Failure::new(code, "the table cannot be written").hint(hint).because(error).into()
}
