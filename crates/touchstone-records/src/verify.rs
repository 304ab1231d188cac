//! Checking a stored run: digests, checksums, and whether the files agree with each other.

use std::path::Path;

use touchstone_model::RunDocument;

use crate::digest::{self, DigestList};
use crate::event_log::{self, End, LogError, OpFlags, Reader, Record, Tail};
use crate::files::chain;
use crate::store::{self, FINGERPRINT, RUN};

/// The outcome of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckOutcome {
    /// It holds; what was compared.
    Ok(String),
    /// It does not; what was found and what was expected.
    Failed(String),
    /// There is nothing to check, and there need not be.
    Absent(String),
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What is checked: a file's name, `frames` or `counts`.
    pub name: &'static str,
    /// The outcome.
    pub outcome: CheckOutcome,
}

/// All checks of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// The id of the run.
    pub run: String,
    /// The checks, in a fixed order.
    pub checks: Vec<Check>,
}

impl VerifyReport {
    /// Whether nothing failed.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        !self.checks.iter().any(|check| matches!(check.outcome, CheckOutcome::Failed(_)))
    }
}

/// Checks the run in `dir`.
pub(crate) fn verify(dir: &Path, run: &str) -> VerifyReport {
    let mut checks = Vec::new();
    let digests = DigestList::read(dir);
    checks.push(Check {
        name: digest::FILE,
        outcome: match &digests {
            Ok(list) => CheckOutcome::Ok(format!("{} digests", list.files.len())),
            Err(error) => CheckOutcome::Failed(chain(error)),
        },
    });
    let document = store::load(dir);
    checks.push(Check {
        name: "document",
        outcome: match &document {
            Ok(document) if document.run == run => CheckOutcome::Ok(document.format.clone()),
            Ok(document) => {
                CheckOutcome::Failed(format!("it is the document of run `{}`, not of `{run}`", document.run))
            }
            Err(error) => CheckOutcome::Failed(chain(error)),
        },
    });
    let document = document.ok();
    for name in [RUN, event_log::FILE, FINGERPRINT] {
        let expected = digests.as_ref().ok().and_then(|list| list.files.get(name));
        checks.push(Check { name, outcome: file(dir, name, expected.map(String::as_str)) });
    }
    if let Some(document) = &document {
        checks.push(Check { name: "fingerprint", outcome: fingerprint(dir, document) });
    }
    let (frames, rows) = frames(dir);
    checks.push(Check { name: "frames", outcome: frames });
    if let (Some(rows), Some(document)) = (rows, &document) {
        checks.push(Check { name: "counts", outcome: counts(&rows, document) });
    }
    VerifyReport { run: run.to_owned(), checks }
}

fn file(dir: &Path, name: &str, expected: Option<&str>) -> CheckOutcome {
    match (digest::file_digest(&dir.join(name)), expected) {
        (Ok(found), Some(expected)) if found == expected => CheckOutcome::Ok(found),
        (Ok(found), Some(expected)) => CheckOutcome::Failed(format!("changed: {found}, was {expected}")),
        (Ok(_), None) => CheckOutcome::Failed("it has no digest in digests.json".to_owned()),
        (Err(error), None) if error.is_missing() && name != RUN => {
            CheckOutcome::Absent("not recorded".to_owned())
        }
        (Err(error), _) => CheckOutcome::Failed(chain(&error)),
    }
}

/// Whether the document names the fingerprint that is stored beside it.
fn fingerprint(dir: &Path, document: &RunDocument) -> CheckOutcome {
    let found = digest::file_digest(&dir.join(FINGERPRINT)).ok();
    match (&document.fingerprint, found) {
        (None, None) => CheckOutcome::Absent("the document names none".to_owned()),
        (Some(named), Some(found)) if *named == found => CheckOutcome::Ok(found),
        (named, found) => {
            let say = |digest: Option<&str>| digest.unwrap_or("none").to_owned();
            let (named, found) = (say(named.as_deref()), say(found.as_deref()));
            CheckOutcome::Failed(format!("the document names {named}, stored is {found}"))
        }
    }
}

/// What the rows of a log add up to.
#[derive(Debug, Default)]
struct Rows {
    all: u64,
    measured: u64,
    measured_failed: u64,
    token_events: u64,
    end: Option<End>,
}

impl Rows {
    /// Events of answers that the last frame speaks of.
    fn said_tokens(&self) -> u64 {
        self.end.as_ref().and_then(|end| end.token_events).unwrap_or(0)
    }
}

fn frames(dir: &Path) -> (CheckOutcome, Option<Rows>) {
    let path = dir.join(event_log::FILE);
    if !path.exists() {
        return (CheckOutcome::Absent("there is no event log".to_owned()), None);
    }
    match read_rows(&path) {
        Ok((rows, Tail::Clean)) => {
            let said = rows.end.as_ref().map(|e| (e.operations, e.measured, e.measured_failed));
            let outcome = match said {
                None => CheckOutcome::Failed("the log has no last frame".to_owned()),
                Some(_) if rows.said_tokens() != rows.token_events => CheckOutcome::Failed(format!(
                    "the log holds {} events of answers, its last frame says {}",
                    rows.token_events,
                    rows.said_tokens()
                )),
                Some(said) if said == (rows.all, rows.measured, rows.measured_failed) => {
                    CheckOutcome::Ok(format!("{} operations", rows.all))
                }
                Some((operations, ..)) => CheckOutcome::Failed(format!(
                    "the log holds {} operations, its last frame says {operations}",
                    rows.all
                )),
            };
            (outcome, Some(rows))
        }
        Ok((_, Tail::Torn { bytes, offset })) => {
            (CheckOutcome::Failed(format!("{bytes} bytes from byte {offset} on are damaged")), None)
        }
        Err(error) => (CheckOutcome::Failed(chain(&error)), None),
    }
}

fn read_rows(path: &Path) -> Result<(Rows, Tail), LogError> {
    let mut reader = Reader::open(path)?;
    let mut rows = Rows::default();
    while let Some(record) = reader.next_record()? {
        match record {
            Record::Operations(batch) => {
                rows.all += batch.len() as u64;
                for row in batch.iter().filter(|row| row.flags.contains(OpFlags::MEASURED)) {
                    rows.measured += 1;
                    rows.measured_failed += u64::from(row.flags.contains(OpFlags::FAILED));
                }
            }
            Record::Tokens(batch) => rows.token_events += batch.len() as u64,
            Record::End(end) => rows.end = Some(end),
            _ => {}
        }
    }
    Ok((rows, reader.tail().unwrap_or(Tail::Clean)))
}

/// Whether the log's rows are those that the document counts. Lost rows make the log a part of the cohort.
fn counts(rows: &Rows, document: &RunDocument) -> CheckOutcome {
    let counts = &document.counts;
    let dropped = rows.end.as_ref().map_or(0, |end| end.dropped);
    let pairs = [
        ("measured operations", rows.measured, counts.intended),
        ("failed operations", rows.measured_failed, counts.failed),
        ("completed operations", rows.measured - rows.measured_failed, counts.completed),
    ];
    for (what, logged, counted) in pairs {
        if logged > counted || counted - logged > dropped {
            return CheckOutcome::Failed(format!("{logged} {what} in the log, {counted} in the document"));
        }
    }
    let lost = if dropped > 0 { format!(", {dropped} lost") } else { String::new() };
    CheckOutcome::Ok(format!("{} measured operations{lost}", rows.measured))
}
