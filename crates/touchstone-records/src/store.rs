//! The run store: `runs/<id>/` with the event log, the document, the fingerprint and their digests.
//!
//! There is no index: what is in the folder is what there is, and moving or deleting a run's folder is safe.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use touchstone_model::{Level, RunDocument, run};

use crate::digest::{self, DigestList};
use crate::event_log::{self, LogError, Manifest, Record};
use crate::files::{self, FileError, chain};
use crate::id;
use crate::recover::Recovery;
use crate::verify::{self, VerifyReport};

/// The document's name in a run's folder; it is there when the run is complete.
pub const RUN: &str = "run.json";
/// The name of the environment fingerprint in a run's folder.
pub const FINGERPRINT: &str = "fingerprint.json";
/// Greatest document that is read, bytes.
pub const MAX_RUN_BYTES: u64 = 256 << 20;
/// A typed id that stands for the latest run.
pub const LATEST: &str = "latest";
/// So many candidates are named in an error.
const SHOWN: usize = 8;

/// A run that cannot be found or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file of the store.
    #[error(transparent)]
    File(#[from] FileError),
    /// The event log of an incomplete run.
    #[error(transparent)]
    Log(#[from] LogError),
    /// No run has this id.
    #[error("no run `{prefix}`")]
    Unknown {
        /// What was typed.
        prefix: String,
        /// The latest runs, newest first.
        candidates: Vec<String>,
    },
    /// Several runs begin so.
    #[error("`{prefix}` may mean several runs: {}", candidates.join(", "))]
    Ambiguous {
        /// What was typed.
        prefix: String,
        /// Some of the runs that it may mean, newest first.
        candidates: Vec<String>,
    },
    /// The run was not completed: it has an event log and no document.
    #[error("run `{run}` has no document: it is still running, or was ended before it was complete")]
    Incomplete {
        /// Its id.
        run: String,
    },
    /// A run with this id is there already.
    #[error("run `{run}` exists already")]
    Exists {
        /// Its id.
        run: String,
    },
}

/// What is left of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// It has its document.
    Complete,
    /// It is being recorded now.
    Running {
        /// Operations in its log so far.
        operations_read: u64,
    },
    /// It was ended, by `kill -9` or by the machine, before its document was written.
    Incomplete {
        /// Operations in its log.
        operations_read: u64,
    },
    /// Neither its document nor its log can be read.
    Broken {
        /// Why.
        why: String,
    },
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEntry {
    /// The id.
    pub id: String,
    /// What is left of it. What cannot be known in this state is none below.
    pub state: RunState,
    /// Start, UTC, RFC 3339.
    pub started_at: Option<String>,
    /// `protocol=address`.
    pub target: Option<String>,
    /// The arrival process.
    pub arrival: Option<String>,
    /// How far it can be trusted; for an incomplete run the level it would have had, which it has not.
    pub level: Option<Level>,
    /// Whether the target is a simulator.
    pub simulated: Option<bool>,
    /// Whether its figures say something about the target.
    pub valid: Option<bool>,
    /// Findings of its document.
    pub findings: Option<usize>,
}

impl RunEntry {
    fn bare(id: &str, state: RunState) -> Self {
        Self {
            id: id.to_owned(),
            state,
            started_at: None,
            target: None,
            arrival: None,
            level: None,
            simulated: None,
            valid: None,
            findings: None,
        }
    }
}

/// The runs under a folder.
#[derive(Debug, Clone)]
pub struct RunStore {
    runs: PathBuf,
}

impl RunStore {
    /// The store in the folder `root` (usually `.touchstone`), which need not exist.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { runs: root.join("runs") }
    }

    /// The folder of a run, whether it exists or not.
    #[must_use]
    pub fn dir(&self, run: &str) -> PathBuf {
        self.runs.join(run)
    }

    /// Makes the folder of a new run, to be recorded into.
    ///
    /// # Errors
    /// The folder exists or cannot be made.
    pub fn create(&self, run: &str) -> Result<PathBuf, StoreError> {
        let failed = |path: &Path, source| FileError::new("create", path, source);
        std::fs::create_dir_all(&self.runs).map_err(|source| failed(&self.runs, source))?;
        let dir = self.dir(run);
        match std::fs::create_dir(&dir) {
            Ok(()) => Ok(dir),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                Err(StoreError::Exists { run: run.to_owned() })
            }
            Err(source) => Err(failed(&dir, source).into()),
        }
    }

    /// The ids of all runs, oldest first; none when the store does not exist.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn ids(&self) -> Result<Vec<String>, StoreError> {
        let failed = |source| FileError::new("list", &self.runs, source);
        let entries = match std::fs::read_dir(&self.runs) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed(source).into()),
        };
        let mut ids = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if let Some(name) = name.to_str().filter(|name| id::is_id(name))
                && entry.path().is_dir()
            {
                ids.push(name.to_owned());
            }
        }
        ids.sort();
        Ok(ids)
    }

    /// All runs, oldest first. A run that cannot be read is in the list as broken.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(&self) -> Result<Vec<RunEntry>, StoreError> {
        Ok(self.ids()?.iter().map(|id| self.entry(id)).collect())
    }

    /// The run that a person means: a unique beginning of its id, with or without `run-`, or `latest`.
    ///
    /// # Errors
    /// None or several are meant; the error names candidates.
    pub fn resolve(&self, prefix: &str) -> Result<String, StoreError> {
        let mut ids = self.ids()?;
        ids.reverse();
        let unknown = |ids: &[String]| StoreError::Unknown {
            prefix: prefix.to_owned(),
            candidates: ids.iter().take(SHOWN).cloned().collect(),
        };
        if prefix == LATEST {
            return ids.first().cloned().ok_or_else(|| unknown(&ids));
        }
        if ids.iter().any(|id| id == prefix) {
            return Ok(prefix.to_owned());
        }
        let meant: Vec<&String> = ids.iter().filter(|id| id::matches(id, prefix)).collect();
        match meant.as_slice() {
            [] => Err(unknown(&ids)),
            [one] => Ok((*one).clone()),
            several => Err(StoreError::Ambiguous {
                prefix: prefix.to_owned(),
                candidates: several.iter().take(SHOWN).map(|id| (*id).clone()).collect(),
            }),
        }
    }

    /// The document of a complete run.
    ///
    /// # Errors
    /// The run is not found, incomplete, damaged or of a newer format.
    pub fn load(&self, prefix: &str) -> Result<RunDocument, StoreError> {
        let run = self.resolve(prefix)?;
        let dir = self.dir(&run);
        match load(&dir) {
            Err(error) if error.is_missing() && dir.join(event_log::FILE).exists() => {
                Err(StoreError::Incomplete { run })
            }
            loaded => Ok(loaded?),
        }
    }

    /// What the event log of a run says, for a run without a document.
    ///
    /// # Errors
    /// The run is not found, or has no log that can be read.
    pub fn recover(&self, prefix: &str) -> Result<Recovery, StoreError> {
        let dir = self.dir(&self.resolve(prefix)?);
        Ok(Recovery::read(&dir.join(event_log::FILE))?)
    }

    /// Compares a run's files with their digests and with each other.
    ///
    /// # Errors
    /// The run is not found. What is wrong with its files is in the report.
    pub fn verify(&self, prefix: &str) -> Result<VerifyReport, StoreError> {
        let run = self.resolve(prefix)?;
        Ok(verify::verify(&self.dir(&run), &run))
    }

    /// One run for a list.
    #[must_use]
    pub fn entry(&self, run: &str) -> RunEntry {
        let dir = self.dir(run);
        let why = match load(&dir) {
            Ok(document) => {
                return RunEntry {
                    id: run.to_owned(),
                    state: RunState::Complete,
                    started_at: Some(document.started_at),
                    target: Some(document.target.target),
                    arrival: Some(document.workload.arrival),
                    level: Some(document.level),
                    simulated: Some(document.simulated),
                    valid: Some(document.valid),
                    findings: Some(document.findings.len()),
                };
            }
            Err(error) if error.is_missing() => None,
            Err(error) => Some(chain(&error)),
        };
        if let Some(why) = why {
            return RunEntry::bare(run, RunState::Broken { why });
        }
        match glance(&dir.join(event_log::FILE)) {
            Ok((manifest, state)) => match manifest {
                Some(manifest) => RunEntry {
                    started_at: Some(manifest.started_at),
                    target: Some(manifest.target.target),
                    arrival: Some(manifest.workload.arrival),
                    level: Some(manifest.level),
                    simulated: Some(manifest.simulated),
                    ..RunEntry::bare(run, state)
                },
                None => RunEntry::bare(run, state),
            },
            Err(error) => RunEntry::bare(run, RunState::Broken { why: chain(&error) }),
        }
    }
}

/// The document in a run's folder.
pub(crate) fn load(dir: &Path) -> Result<RunDocument, FileError> {
    files::read_json(&dir.join(RUN), MAX_RUN_BYTES, run::FORMAT)
}

/// The manifest and the number of operations of a log without a document.
fn glance(path: &Path) -> Result<(Option<Manifest>, RunState), LogError> {
    let running = is_locked(path);
    let mut reader = event_log::Reader::open(path)?;
    let mut manifest = None;
    let mut operations_read = 0;
    loop {
        match reader.next_record() {
            Ok(None) => break,
            Ok(Some(Record::Start(start))) => manifest = Some(*start),
            Ok(Some(Record::Operations(rows))) => operations_read += rows.len() as u64,
            Ok(Some(_)) | Err(LogError::Payload { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let state = if running {
        RunState::Running { operations_read }
    } else {
        RunState::Incomplete { operations_read }
    };
    Ok((manifest, state))
}

/// Whether a living writer holds the log.
fn is_locked(path: &Path) -> bool {
    std::fs::File::open(path)
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock)))
}

/// Stores the document of a run whose log is closed: the digests first, the document last, as the sign of completion.
pub(crate) fn complete(dir: &Path, document: &RunDocument) -> Result<(), FileError> {
    let path = dir.join(RUN);
    let bytes = files::json_bytes(document, &path)?;
    let mut digests = BTreeMap::from([(RUN.to_owned(), digest::sha256(&bytes))]);
    for name in [event_log::FILE, FINGERPRINT] {
        match digest::file_digest(&dir.join(name)) {
            Ok(digest) => {
                digests.insert(name.to_owned(), digest);
            }
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(error),
        }
    }
    DigestList::new(digests).write(dir)?;
    files::write_atomic(&path, &bytes)
}

#[cfg(test)]
#[path = "store_tests.rs"]
pub(crate) mod tests;
