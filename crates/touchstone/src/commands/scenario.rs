//! What the commands on scenario files share: reading the file and the catalog.

use std::path::Path;

use touchstone_catalog::Catalog;
use touchstone_flow::scenario::{Matched, ScenarioFile, match_all};

use crate::args::Folder;
use crate::failure::Failure;
use crate::input;

/// Reads a scenario file, never more of it than a scenario can have.
pub(crate) fn read(path: &Path) -> anyhow::Result<ScenarioFile> {
    let bytes = input::scenario_bytes(path)?;
    Ok(ScenarioFile::read(&path.display().to_string(), bytes)?)
}

/// The shipped catalog with the user's own files over it: `OUT/.touchstone/catalog/**/*.yaml`.
pub(crate) fn catalog(out: &Folder) -> anyhow::Result<Catalog> {
    let catalog = Catalog::shipped()?;
    let folder = out.store().join("catalog");
    let mut files = Vec::new();
    collect(&folder, &folder, &mut files)?;
    if files.is_empty() { Ok(catalog) } else { Ok(catalog.with_overlay(&files)?) }
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, Vec<u8>)>) -> anyhow::Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let bytes = std::fs::read(&path).map_err(|error| {
                Failure::usage(format!("cannot read the catalog file `{}`", path.display())).because(error)
            })?;
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            files.push((name, bytes));
        }
    }
    Ok(())
}

/// Matches a scenario, with the file's name in errors.
pub(crate) fn matched(file: &ScenarioFile, catalog: &Catalog, path: &Path) -> anyhow::Result<Vec<Matched>> {
    match_all(catalog, &file.scenario)
        .map_err(|error| error.into_document_error(&path.display().to_string()).into())
}
