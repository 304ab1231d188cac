//! Generated files: the JSON Schemas and the reference documents. The binary writes them (`touchstone generate`), as it
//! alone knows its formats and arguments; here they are put in place, or compared with what is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Folders that hold generated files and nothing else.
const GENERATED: [&str; 2] = ["schemas", "docs/reference"];

/// Generates into the workspace, and removes what is no longer generated.
pub(crate) fn write(root: &Path) -> Result<bool> {
    let fresh = generate(root)?;
    for difference in differences(&fresh, &collect(root)?) {
        let target = root.join(difference.path());
        match &difference {
            Difference::Stale(_) => fs::remove_file(&target)?,
            Difference::Missing(path) | Difference::Changed { path, .. } => {
                if let Some(parent) = target.parent() {
                    fs::create_dir_all(parent)?;
                }
                fs::write(&target, &fresh[path])?;
            }
        }
        println!("{difference}");
    }
    Ok(true)
}

/// True when the workspace holds exactly what would be generated.
pub(crate) fn check(root: &Path) -> Result<bool> {
    let found = differences(&generate(root)?, &collect(root)?);
    for difference in &found {
        println!("{difference}");
    }
    if !found.is_empty() {
        eprintln!(
            "codegen: {} generated files differ; run `cargo xtask codegen` and commit them",
            found.len()
        );
    }
    Ok(found.is_empty())
}

/// Path, relative to the workspace and with `/`, and content.
type Files = BTreeMap<String, Vec<u8>>;

fn generate(root: &Path) -> Result<Files> {
    let dir = tempfile::tempdir()?;
    let status = Command::new("cargo")
        .args(["run", "--quiet", "--package", "touchstone", "--", "generate", "--dir"])
        .arg(dir.path())
        .current_dir(root)
        .status()
        .context("run cargo")?;
    if !status.success() {
        bail!("`touchstone generate` ended with {status}");
    }
    let files = collect(dir.path())?;
    if files.is_empty() {
        bail!("`touchstone generate` wrote nothing under {}", GENERATED.join(" or "));
    }
    Ok(files)
}

fn collect(root: &Path) -> Result<Files> {
    let mut files = Files::new();
    for folder in GENERATED {
        collect_folder(root, folder, &mut files)?;
    }
    Ok(files)
}

fn collect_folder(root: &Path, folder: &str, files: &mut Files) -> Result<()> {
    let dir = root.join(folder);
    if !dir.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(&dir).with_context(|| format!("list {folder}"))? {
        let entry = entry?;
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            collect_folder(root, &path, files)?;
        } else {
            files.insert(path, fs::read(entry.path())?);
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Difference {
    Missing(String),
    Stale(String),
    /// With the first line, from 1, that differs.
    Changed {
        path: String,
        line: usize,
    },
}

impl Difference {
    fn path(&self) -> &str {
        match self {
            Difference::Missing(path) | Difference::Stale(path) | Difference::Changed { path, .. } => path,
        }
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Difference::Missing(path) => write!(f, "{path}:1: codegen: missing"),
            Difference::Stale(path) => write!(f, "{path}:1: codegen: no longer generated"),
            Difference::Changed { path, line } => write!(f, "{path}:{line}: codegen: differs from here on"),
        }
    }
}

fn differences(fresh: &Files, present: &Files) -> Vec<Difference> {
    let mut found = Vec::new();
    for (path, content) in fresh {
        match present.get(path) {
            None => found.push(Difference::Missing(path.clone())),
            Some(old) if old != content => {
                let newline = |byte: &u8| *byte == b'\n';
                let same = content.split(newline).zip(old.split(newline)).take_while(|(a, b)| a == b).count();
                found.push(Difference::Changed { path: path.clone(), line: same + 1 });
            }
            Some(_) => {}
        }
    }
    found.extend(present.keys().filter(|path| !fresh.contains_key(*path)).cloned().map(Difference::Stale));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Files {
        list.iter().map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec())).collect()
    }

    #[test]
    fn every_kind_of_difference_is_found() {
        let fresh = files(&[("schemas/a", "1\n2\n3\n"), ("schemas/b", "x"), ("schemas/c", "same")]);
        let present =
            files(&[("schemas/a", "1\n2\n4\n"), ("schemas/c", "same"), ("docs/reference/d", "old")]);
        let expected = [
            Difference::Changed { path: "schemas/a".into(), line: 3 },
            Difference::Missing("schemas/b".into()),
            Difference::Stale("docs/reference/d".into()),
        ];
        assert_eq!(differences(&fresh, &present), expected);
        assert_eq!(differences(&fresh, &fresh), []);
    }

    #[test]
    fn only_the_generated_folders_are_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in
            [("schemas/a.json", "a"), ("docs/reference/deep/b.md", "b"), ("docs/guide.md", "g")]
        {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        assert_eq!(
            collect(dir.path()).unwrap(),
            files(&[("docs/reference/deep/b.md", "b"), ("schemas/a.json", "a")])
        );
    }
}
