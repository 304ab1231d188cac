//! Stored runs against each other: finding them by id or label, and comparing them.

use std::path::Path;

use touchstone_decide::contrast::{Terms, contrast};
use touchstone_model::{ComparisonDocument, RunDocument};
use touchstone_records::{RunState, RunStore, StoreError};

/// Why runs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A run is not there or cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No complete run has the label.
    #[error("no complete run has the label `{label}`")]
    NoLabel {
        /// `name=value`.
        label: String,
    },
    /// Both sides name the same run.
    #[error("run `{run}` stands on both sides")]
    BothSides {
        /// Its id.
        run: String,
    },
}

/// The runs that selectors mean, oldest first, each once: an id, its beginning, `latest`, or `name=value` for every complete
/// run with that parameter (as in `candidate=vllm`, `sweep=s-...`).
///
/// # Errors
/// When a selector means no run.
pub fn select(store: &RunStore, selectors: &[String]) -> Result<Vec<RunDocument>, CompareError> {
    let mut ids: Vec<String> = Vec::new();
    let mut documents: Vec<RunDocument> = Vec::new();
    for selector in selectors {
        let Some((name, value)) = selector.split_once('=') else {
            let run = store.load(selector)?;
            if !ids.contains(&run.run) {
                ids.push(run.run.clone());
                documents.push(run);
            }
            continue;
        };
        let mut found = false;
        for id in store.ids()? {
            if !matches!(store.entry(&id).state, RunState::Complete) {
                continue;
            }
            let run = store.load(&id)?;
            let has = run.workload.parameters.get(name).is_some_and(|parameter| match parameter {
                serde_json::Value::String(text) => text.as_str() == value,
                other => format!("{other}") == value,
            });
            if has {
                found = true;
                if !ids.contains(&run.run) {
                    ids.push(run.run.clone());
                    documents.push(run);
                }
            }
        }
        if !found {
            return Err(CompareError::NoLabel { label: selector.clone() });
        }
    }
    documents.sort_by(|a, b| a.run.cmp(&b.run));
    Ok(documents)
}

/// Compares stored runs.
///
/// # Errors
/// When a selector means no run, or both sides mean the same.
pub fn compare(
    root: &Path,
    a: &[String],
    b: &[String],
    terms: Terms,
) -> Result<ComparisonDocument, CompareError> {
    let store = RunStore::new(root);
    let (runs_a, runs_b) = (select(&store, a)?, select(&store, b)?);
    if let Some(run) = runs_a.iter().find(|run| runs_b.iter().any(|other| other.run == run.run)) {
        return Err(CompareError::BothSides { run: run.run.clone() });
    }
    Ok(against(&a.join(","), &runs_a, &b.join(","), &runs_b, terms))
}

/// Compares runs that are at hand.
#[must_use]
pub fn against(
    name_a: &str,
    a: &[RunDocument],
    name_b: &str,
    b: &[RunDocument],
    terms: Terms,
) -> ComparisonDocument {
    contrast(crate::VERSION, (name_a, a), (name_b, b), terms)
}
