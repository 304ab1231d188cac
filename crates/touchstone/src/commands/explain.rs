//! `touchstone explain`: from a statement of a record down to its evidence.

use std::path::{Path, PathBuf};

use touchstone_flow::explain::{Explained, open};
use touchstone_records::DecisionStore;
use touchstone_records::decision_store::Problem;
use touchstone_report::terminal;

use crate::args::ExplainArgs;
use crate::exit::ExitCode;
use crate::failure::Failure;
use crate::ui::Ui;

/// Reads, checks and unfolds.
pub(crate) fn run(args: &ExplainArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    let path = find(args)?;
    let explained = open(&path).map_err(|error| {
        let code = if error.is_missing() { ExitCode::BadInput } else { ExitCode::BrokenEvidence };
        Failure::new(code, format!("cannot read the record in `{}`", path.display()))
            .because(error)
            .hint("give the folder of a record, as in decisions/<date>-<scenario>-<id>")
    })?;
    let statements: Vec<_> = match &args.statement {
        Some(id) => vec![explained.statement(id).ok_or_else(|| {
            let ids: Vec<&str> = explained.document.statements.iter().map(|one| one.id.as_str()).collect();
            Failure::usage(format!("the record has no statement `{id}`"))
                .hint(format!("it has {}", ids.join(", ")))
        })?],
        None => explained.document.statements.iter().collect(),
    };
    if args.json {
        ui.json(&json(&explained, &statements))?;
    } else {
        if args.statement.is_none() {
            ui.data(&terminal::decision(&explained.document, &ui.style()))?;
        }
        for statement in statements {
            ui.data(&explained.unfold(statement, &ui.style()))?;
        }
    }
    for problem in &explained.problems {
        let what = match &problem.problem {
            Problem::Missing { why } => format!("is missing ({why})"),
            Problem::Changed { found } => format!("was changed: its digest is {found}"),
            Problem::Outside => "lies outside of the record".to_owned(),
            Problem::Unlisted => "is not listed".to_owned(),
        };
        ui.warning(&format!("evidence {} {} {what}", problem.digest, problem.path));
    }
    if explained.problems.is_empty() {
        ui.note("every digest of the record holds");
        Ok(ExitCode::Done)
    } else {
        ui.hint("statements on this evidence cannot be trusted any longer: measure again");
        Ok(ExitCode::BrokenEvidence)
    }
}

fn json(explained: &Explained, statements: &[&touchstone_model::decision::Statement]) -> serde_json::Value {
    let problems: Vec<_> = explained
        .problems
        .iter()
        .map(|one| serde_json::json!({ "digest": one.digest, "path": one.path, "problem": format!("{:?}", one.problem) }))
        .collect();
    serde_json::json!({
        "format": "touchstone.explanation/1",
        "record": explained.document.id,
        "verdict": explained.document.verdict,
        "statements": statements,
        "evidence": explained.document.evidence,
        "problems": problems,
    })
}

/// A path as typed, or the record whose id or folder name is (or begins or ends with) what was typed.
fn find(args: &ExplainArgs) -> anyhow::Result<PathBuf> {
    let typed = Path::new(&args.record);
    if typed.exists() {
        return Ok(typed.to_owned());
    }
    let folders = DecisionStore::new(&args.out.decisions()).list()?;
    let named = |folder: &&PathBuf| {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let by_id = || open(folder).is_ok_and(|one| one.document.id == args.record);
        name.starts_with(&args.record) || name.ends_with(&args.record) || by_id()
    };
    let found: Vec<&PathBuf> = if args.record == "latest" {
        folders.last().into_iter().collect()
    } else {
        folders.iter().filter(named).collect()
    };
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(Failure::usage(format!("there is no record `{}`", args.record))
            .hint(format!("records are looked for in {}", args.out.decisions().display()))
            .into()),
        several => {
            let names: Vec<String> = several.iter().map(|folder| folder.display().to_string()).collect();
            Err(Failure::usage(format!("`{}` names several records", args.record))
                .hint(format!("give one of {}", names.join(", ")))
                .into())
        }
    }
}
