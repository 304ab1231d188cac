//! Unfolding a decision record: from a statement down to runs, histograms and fingerprints, each checked by digest.

use std::path::{Path, PathBuf};

use touchstone_model::decision::{DecisionDocument, EvidenceEntry, Statement};
use touchstone_model::{RunDocument, Statistic};
use touchstone_records::decision_store::{self, EvidenceProblem, Problem};
use touchstone_report::terminal::Style;
use touchstone_report::text::{self, Check, Node, Unfolded};

/// A record that was read and checked.
#[derive(Debug)]
pub struct Explained {
    /// Its folder.
    pub dir: PathBuf,
    /// The decision.
    pub document: DecisionDocument,
    /// Everything whose digest does not hold: evidence, and the record's own files.
    pub problems: Vec<EvidenceProblem>,
}

/// Reads a record and checks every digest.
///
/// # Errors
/// When there is no readable decision.
pub fn open(path: &Path) -> Result<Explained, touchstone_records::FileError> {
    let loaded = decision_store::load(path)?;
    let mut problems = match decision_store::verify_record(&loaded.dir) {
        // A decision without its digests is a record that was changed, not a folder that holds none.
        Err(error) if error.is_missing() => vec![EvidenceProblem {
            digest: String::new(),
            path: touchstone_records::digest::FILE.to_owned(),
            problem: Problem::Missing { why: "the list of the record's digests is gone".to_owned() },
        }],
        verified => verified?,
    };
    problems.extend(decision_store::verify_evidence(&loaded.document, &loaded.dir));
    Ok(Explained { dir: loaded.dir, document: loaded.document, problems })
}

impl Explained {
    /// The statement with this id.
    #[must_use]
    pub fn statement(&self, id: &str) -> Option<&Statement> {
        let id = id.trim_matches(['[', ']']);
        self.document.statements.iter().find(|statement| statement.id == id)
    }

    /// A statement with its evidence, as a tree.
    #[must_use]
    pub fn unfold(&self, statement: &Statement, style: &Style) -> String {
        let mut entries: Vec<&EvidenceEntry> = Vec::new();
        for digest in &statement.evidence {
            entries.extend(self.document.evidence.iter().filter(|entry| entry.digest == *digest));
        }
        let unfolded: Vec<Unfolded<'_>> = entries
            .into_iter()
            .map(|entry| Unfolded { entry, check: self.check(entry), details: self.details(entry) })
            .collect();
        text::explain(statement, &unfolded, style)
    }

    fn check(&self, entry: &EvidenceEntry) -> Check {
        match self
            .problems
            .iter()
            .find(|problem| problem.digest == entry.digest && problem.path == entry.path)
        {
            None => Check::Intact,
            Some(EvidenceProblem { problem: Problem::Changed { found }, .. }) => {
                Check::Changed { found: found.clone() }
            }
            Some(_) => Check::Missing,
        }
    }

    /// What a piece of evidence holds, as far as a reader wants to see it here.
    fn details(&self, entry: &EvidenceEntry) -> Vec<Node> {
        if entry.kind != "run" {
            return Vec::new();
        }
        let Ok(bytes) = std::fs::read(self.dir.join(&entry.path)) else { return Vec::new() };
        let Ok(run) = serde_json::from_slice::<RunDocument>(&bytes) else { return Vec::new() };
        let mut nodes = vec![
            Node::leaf(format!(
                "{} with {}, seed {}",
                run.target.target, run.workload.arrival, run.workload.seed
            )),
            Node::leaf(format!(
                "{} intended, {} completed, {} failed in {:.1} s",
                run.counts.intended,
                run.counts.completed,
                run.counts.failed,
                run.phases.measured_seconds()
            )),
        ];
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        let metrics = run.metrics.iter().map(|(metric, summary)| {
            let values: Vec<String> = Statistic::QUANTILES
                .iter()
                .map(|statistic| format!("{statistic} {}", figure(summary.statistic(*statistic))))
                .collect();
            Node::leaf(format!("{metric} ({}): {}; n {}", summary.unit, values.join(", "), summary.n))
        });
        nodes.push(Node::with("metrics", metrics.collect()));
        let histograms = run.blocks.iter().enumerate().map(|(number, block)| {
            let buckets: usize = block.histograms.values().map(|histogram| histogram.buckets.len()).sum();
            Node::leaf(format!(
                "block {number}: {:.2} s, {} intended, {} histograms with {buckets} buckets",
                block.seconds,
                block.intended,
                block.histograms.len()
            ))
        });
        nodes.push(Node::with("histograms", histograms.collect()));
        if let Some(digest) = &run.fingerprint {
            nodes.push(self.fingerprint(digest));
        }
        nodes
    }

    /// The fingerprint of a run's environment, which is evidence of its own.
    fn fingerprint(&self, digest: &str) -> Node {
        let Some(entry) = self.document.evidence.iter().find(|entry| entry.digest == *digest) else {
            return Node::leaf(format!("fingerprint {digest}: not part of this record"));
        };
        let state = match self.check(entry) {
            Check::Intact => "intact",
            Check::Changed { .. } => "changed",
            Check::Missing | Check::Unread => "missing",
        };
        let facts = std::fs::read(self.dir.join(&entry.path))
            .ok()
            .and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok())
            .and_then(|value| value.as_object().cloned())
            .into_iter()
            .flatten()
            .filter(|(_, value)| !value.is_object() && !value.is_array() && !value.is_null())
            .map(|(name, value)| Node::leaf(format!("{name}: {value}")));
        Node::with(format!("fingerprint {} ({state})", entry.path), facts.collect())
    }
}
