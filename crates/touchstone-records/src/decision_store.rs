//! The decision store: a folder for each record, with copies of all its evidence, that can be moved and sent as it is.
//!
//! `<date>-<scenario>-<short id>/` holds `record.md`, `decision.json`, `report.html`, `digests.json` and
//! `evidence/<16 hexadecimal digits>.<kind>.<extension>`. Evidence is named by its content and every path is relative.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use touchstone_model::decision::{self, DecisionDocument};

use crate::digest::{self, DigestList};
use crate::files::{self, FileError};

/// The record's name in its folder.
pub const RECORD: &str = "record.md";
/// The name of the machine-readable decision.
pub const DECISION: &str = "decision.json";
/// The name of the page.
pub const REPORT: &str = "report.html";
/// Greatest decision that is read, bytes.
const MAX_BYTES: u64 = 64 << 20;
/// So many folders with the same name are told apart.
const MAX_NAMESAKES: u32 = 1000;

/// A record that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum DecisionStoreError {
    /// A file of the store.
    #[error(transparent)]
    File(#[from] FileError),
    /// Evidence does not have the digest that the decision names.
    #[error("evidence `{label}` has digest {found}, the decision names {expected}")]
    Mismatch {
        /// What the evidence says.
        label: String,
        /// The digest that the decision names.
        expected: String,
        /// Its digest.
        found: String,
    },
    /// The decision names evidence that was not given, or whose path leaves the folder.
    #[error("evidence `{label}` ({digest}) {why}")]
    Evidence {
        /// What the evidence says.
        label: String,
        /// Its digest.
        digest: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There are too many records of this name.
    #[error("{} and its namesakes exist already", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
}

/// The content of a piece of evidence.
#[derive(Debug, Clone)]
pub enum EvidenceContent {
    /// In memory.
    Bytes(Vec<u8>),
    /// In a file, which is copied.
    File(PathBuf),
}

/// A record to be written.
#[derive(Debug)]
pub struct DecisionBundle<'a> {
    /// The decision. Its evidence entries say where everything goes: see [`evidence_path`].
    pub document: &'a DecisionDocument,
    /// The rendered record, Markdown.
    pub record: &'a str,
    /// The rendered page.
    pub report: &'a str,
    /// Evidence by digest; what no entry names is left out.
    pub evidence: &'a BTreeMap<String, EvidenceContent>,
}

/// What is wrong with a piece of evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// It is not there or cannot be read.
    Missing {
        /// Why.
        why: String,
    },
    /// Its content is another.
    Changed {
        /// The digest that it has.
        found: String,
    },
    /// Its path is absolute or leaves the record's folder; it is not read.
    Outside,
    /// A statement or gate rests on it, but the decision does not list it.
    Unlisted,
}

/// Evidence that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceProblem {
    /// The digest that the decision names.
    pub digest: String,
    /// Where it should be, relative to the record's folder; empty when unlisted.
    pub path: String,
    /// What is wrong.
    pub problem: Problem,
}

/// A record that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedDecision {
    /// Its folder.
    pub dir: PathBuf,
    /// The decision.
    pub document: DecisionDocument,
}

/// Where evidence is stored, relative to the record's folder: named by its content, so that equal content is stored
/// once. `kind` and `extension` are cut to letters, digits and hyphens.
#[must_use]
pub fn evidence_path(digest: &str, kind: &str, extension: &str) -> String {
    let plain =
        |text: &str| -> String { text.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect() };
    let digits = digest::hex(digest).map_or("unknown", |hex| &hex[..16]);
    format!("evidence/{digits}.{}.{}", plain(kind), plain(extension))
}

/// Records under a folder.
#[derive(Debug, Clone)]
pub struct DecisionStore {
    root: PathBuf,
}

impl DecisionStore {
    /// The store in the folder `root` (usually `decisions`), which need not exist.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Writes a record and gives its folder. The folder appears whole or not at all. The same decision written again
    /// replaces its record and report; another decision never overwrites one.
    ///
    /// # Errors
    /// Evidence is missing or has another digest than the decision names, or a file cannot be written.
    pub fn write(&self, bundle: &DecisionBundle<'_>) -> Result<PathBuf, DecisionStoreError> {
        let failed = |path: &Path, source| FileError::new("create", path, source);
        std::fs::create_dir_all(&self.root).map_err(|source| failed(&self.root, source))?;
        let document = files::json_bytes(bundle.document, Path::new(DECISION))?;
        let (dir, exists) = self.folder_for(bundle.document, &document)?;
        if exists {
            fill(&dir, bundle, &document)?;
            return Ok(dir);
        }
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let staging = self.root.join(format!(".{name}.{}.tmp", std::process::id()));
        std::fs::create_dir(&staging).map_err(|source| failed(&staging, source))?;
        let filled = fill(&staging, bundle, &document)
            .and_then(|()| std::fs::rename(&staging, &dir).map_err(|source| failed(&dir, source).into()));
        if let Err(error) = filled {
            // Best effort: the error that matters is the first one.
            drop(std::fs::remove_dir_all(&staging));
            return Err(error);
        }
        files::sync_folder(Some(&self.root))?;
        Ok(dir)
    }

    /// The folders of all records, in the order of their names, which begin with the date.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(&self) -> Result<Vec<PathBuf>, FileError> {
        let failed = |source| FileError::new("list", &self.root, source);
        let entries = match std::fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed(source)),
        };
        let mut folders = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
            if !hidden && path.join(DECISION).is_file() {
                folders.push(path);
            }
        }
        folders.sort();
        Ok(folders)
    }

    /// The folder for a decision, and whether it holds that very decision already.
    fn folder_for(
        &self,
        document: &DecisionDocument,
        bytes: &[u8],
    ) -> Result<(PathBuf, bool), DecisionStoreError> {
        let name = folder_name(document);
        for number in 1..=MAX_NAMESAKES {
            let dir = match number {
                1 => self.root.join(&name),
                number => self.root.join(format!("{name}-{number}")),
            };
            if !dir.exists() {
                return Ok((dir, false));
            }
            if files::read(&dir.join(DECISION), MAX_BYTES).is_ok_and(|old| old == bytes) {
                return Ok((dir, true));
            }
        }
        Err(DecisionStoreError::Exists { path: self.root.join(name) })
    }
}

/// `<date>-<scenario>-<short id>`, in letters, digits and hyphens.
fn folder_name(document: &DecisionDocument) -> String {
    let slug = |text: &str, most: usize| -> String {
        let mut slug = String::new();
        for c in text.chars().flat_map(char::to_lowercase) {
            if c.is_alphanumeric() {
                slug.push(c);
            } else if !slug.is_empty() && !slug.ends_with('-') {
                slug.push('-');
            }
        }
        let cut: String = slug.chars().take(most).collect();
        cut.trim_matches('-').to_owned()
    };
    let date = slug(document.decided_at.get(..10).unwrap_or_default(), 10);
    let id = slug(&document.id, 64);
    let short = id.char_indices().rev().nth(5).map_or(id.as_str(), |(at, _)| &id[at..]);
    let parts = [date, slug(&document.scenario, 40), short.trim_matches('-').to_owned()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// Writes all files of a record into its folder.
fn fill(dir: &Path, bundle: &DecisionBundle<'_>, document: &[u8]) -> Result<(), DecisionStoreError> {
    let evidence = dir.join("evidence");
    std::fs::create_dir_all(&evidence).map_err(|source| FileError::new("create", &evidence, source))?;
    let mut written = BTreeSet::new();
    for entry in &bundle.document.evidence {
        let wrong = |why| DecisionStoreError::Evidence {
            label: entry.label.clone(),
            digest: entry.digest.clone(),
            why,
        };
        let path = inside(dir, &entry.path).ok_or_else(|| wrong("has a path outside the record's folder"))?;
        if !entry.path.starts_with("evidence/") {
            return Err(wrong("has a path outside the folder `evidence`"));
        }
        if !written.insert(path.clone()) {
            continue;
        }
        let found = match bundle.evidence.get(&entry.digest).ok_or_else(|| wrong("was not given"))? {
            EvidenceContent::Bytes(bytes) => {
                files::write_atomic(&path, bytes)?;
                digest::sha256(bytes)
            }
            EvidenceContent::File(source) => {
                std::fs::copy(source, &path).map_err(|error| FileError::new("copy", source, error))?;
                digest::file_digest(&path)?
            }
        };
        if found != entry.digest {
            let (label, expected) = (entry.label.clone(), entry.digest.clone());
            return Err(DecisionStoreError::Mismatch { label, expected, found });
        }
    }
    let mut digests = BTreeMap::new();
    let parts =
        [(RECORD, bundle.record.as_bytes()), (REPORT, bundle.report.as_bytes()), (DECISION, document)];
    for (name, bytes) in parts {
        files::write_atomic(&dir.join(name), bytes)?;
        digests.insert(name.to_owned(), digest::sha256(bytes));
    }
    DigestList::new(digests).write(dir)?;
    Ok(())
}

/// `relative` under `dir`; none when it is absolute or leaves the folder.
fn inside(dir: &Path, relative: &str) -> Option<PathBuf> {
    let path = Path::new(relative);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    (plain && !relative.is_empty()).then(|| dir.join(path))
}

/// Reads a record: `path` is its folder, or its `record.md`, `decision.json` or `report.html`.
///
/// # Errors
/// There is no decision, or it is damaged or of a newer format.
pub fn load(path: &Path) -> Result<LoadedDecision, FileError> {
    let dir = if path.is_dir() {
        path
    } else {
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    };
    let document = files::read_json(&dir.join(DECISION), MAX_BYTES, decision::FORMAT)?;
    Ok(LoadedDecision { dir: dir.to_owned(), document })
}

/// Compares every piece of evidence in the record's folder `dir` with the digest that the decision names, and looks for
/// statements and gates whose evidence is not listed. Empty when all holds.
#[must_use]
pub fn verify_evidence(document: &DecisionDocument, dir: &Path) -> Vec<EvidenceProblem> {
    let mut problems = Vec::new();
    for entry in &document.evidence {
        let problem = match inside(dir, &entry.path) {
            None => Some(Problem::Outside),
            Some(path) => compare(&path, &entry.digest),
        };
        if let Some(problem) = problem {
            let (digest, path) = (entry.digest.clone(), entry.path.clone());
            problems.push(EvidenceProblem { digest, path, problem });
        }
    }
    let listed: BTreeSet<&String> = document.evidence.iter().map(|entry| &entry.digest).collect();
    let gates = document.candidates.iter().flat_map(|c| c.gates.iter().flat_map(|gate| &gate.evidence));
    let runs = document.candidates.iter().flat_map(|c| &c.runs);
    let used: BTreeSet<&String> =
        document.statements.iter().flat_map(|s| &s.evidence).chain(gates).chain(runs).collect();
    for digest in used.difference(&listed) {
        let digest = (*digest).clone();
        problems.push(EvidenceProblem { digest, path: String::new(), problem: Problem::Unlisted });
    }
    problems
}

/// Compares the record, the decision and the page in `dir` with `digests.json`. Empty when all holds.
///
/// # Errors
/// `digests.json` cannot be read.
pub fn verify_record(dir: &Path) -> Result<Vec<EvidenceProblem>, FileError> {
    let list = DigestList::read(dir)?;
    let mut problems = Vec::new();
    for name in [RECORD, DECISION, REPORT] {
        let (digest, problem) = match list.files.get(name) {
            Some(digest) => (digest.clone(), compare(&dir.join(name), digest)),
            None => (String::new(), Some(Problem::Unlisted)),
        };
        if let Some(problem) = problem {
            problems.push(EvidenceProblem { digest, path: name.to_owned(), problem });
        }
    }
    Ok(problems)
}

fn compare(path: &Path, digest: &str) -> Option<Problem> {
    match digest::file_digest(path) {
        Ok(found) if found == digest => None,
        Ok(found) => Some(Problem::Changed { found }),
        Err(error) => Some(Problem::Missing { why: files::chain(&error) }),
    }
}

#[cfg(test)]
#[path = "decision_store_tests.rs"]
mod tests;
