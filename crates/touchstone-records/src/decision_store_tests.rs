//! Tests of the decision store on real folders.

use std::fs;

use touchstone_model::decision::{EvidenceEntry, Ranking, Seal, Statement, Verdict, Word};
use touchstone_model::{Family, Level};

use super::*;

fn entry(kind: &str, extension: &str, content: &[u8]) -> (EvidenceEntry, EvidenceContent) {
    let digest = digest::sha256(content);
    let path = evidence_path(&digest, kind, extension);
    let label = format!("the {kind}");
    let entry =
        EvidenceEntry { digest, kind: kind.to_owned(), path, level: Level::E, simulated: true, label };
    (entry, EvidenceContent::Bytes(content.to_vec()))
}

fn decision() -> (DecisionDocument, BTreeMap<String, EvidenceContent>) {
    let (scenario, scenario_content) = entry("scenario", "yaml", b"name: chat\n");
    let (run, run_content) = entry("run", "json", b"{\"format\":\"touchstone.run/1\"}\n");
    let statement = Statement {
        id: "s1".to_owned(),
        text: "a is faster".to_owned(),
        text_zh: "a 更快".to_owned(),
        evidence: vec![run.digest.clone()],
    };
    let contents =
        BTreeMap::from([(scenario.digest.clone(), scenario_content), (run.digest.clone(), run_content)]);
    let document = DecisionDocument {
        format: decision::FORMAT.to_owned(),
        id: "decision-01hv3k9qzabcd".to_owned(),
        scenario: "Chat / 客服".to_owned(),
        description: String::new(),
        family: Family::Inference,
        seal: Seal {
            digest: digest::sha256(b"seal"),
            sealed_at: "2026-01-02T03:04:05Z".to_owned(),
            before_results: true,
        },
        decided_at: "2026-01-02T03:05:05Z".to_owned(),
        level: Level::E,
        simulated: true,
        touchstone_version: "0.1.0".to_owned(),
        catalog_date: "2026-01-01".to_owned(),
        seed: 7,
        criteria: Vec::new(),
        preference: Vec::new(),
        candidates: Vec::new(),
        ranking: Ranking::default(),
        flips: Vec::new(),
        next_measurements: Vec::new(),
        verdict: Verdict {
            word: Word::TossUp,
            candidate: None,
            reason: String::new(),
            reason_zh: String::new(),
        },
        statements: vec![statement],
        evidence: vec![scenario, run],
        review_by: "2026-07-01".to_owned(),
    };
    (document, contents)
}

fn write(root: &Path, document: &DecisionDocument, evidence: &BTreeMap<String, EvidenceContent>) -> PathBuf {
    let bundle = DecisionBundle { document, record: "# Record\n", report: "<html></html>", evidence };
    DecisionStore::new(root).write(&bundle).unwrap()
}

#[test]
fn a_record_survives_being_moved() {
    let folder = tempfile::tempdir().unwrap();
    let (document, evidence) = decision();
    let dir = write(&folder.path().join("decisions"), &document, &evidence);
    assert_eq!(dir.file_name().unwrap(), "2026-01-02-chat-客服-qzabcd");
    let moved = folder.path().join("elsewhere");
    fs::rename(&dir, &moved).unwrap();
    for path in [moved.clone(), moved.join(RECORD), moved.join(DECISION)] {
        let loaded = load(&path).unwrap();
        assert_eq!(loaded.document, document);
        assert_eq!(verify_evidence(&loaded.document, &loaded.dir), []);
        assert_eq!(verify_record(&loaded.dir).unwrap(), []);
    }
}

#[test]
fn changed_missing_and_unlisted_evidence_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (mut document, evidence) = decision();
    let dir = write(folder.path(), &document, &evidence);
    let [scenario, run] = [0, 1].map(|i| document.evidence[i].clone());
    fs::write(dir.join(&run.path), b"{\"format\":\"touchstone.run/1\" }\n").unwrap();
    fs::remove_file(dir.join(&scenario.path)).unwrap();
    document.statements[0].evidence.push(digest::sha256(b"nobody has this"));
    let problems = verify_evidence(&document, &dir);
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(matches!(&problems[0].problem, Problem::Missing { .. }));
    assert_eq!(problems[0].digest, scenario.digest);
    let found = digest::sha256(b"{\"format\":\"touchstone.run/1\" }\n");
    assert_eq!(problems[1].problem, Problem::Changed { found });
    assert_eq!(problems[2].problem, Problem::Unlisted);
}

#[test]
fn an_edited_record_or_decision_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (document, evidence) = decision();
    let dir = write(folder.path(), &document, &evidence);
    fs::write(dir.join(RECORD), "# Another record\n").unwrap();
    fs::remove_file(dir.join(REPORT)).unwrap();
    let problems = verify_record(&dir).unwrap();
    assert_eq!(problems.iter().map(|p| p.path.as_str()).collect::<Vec<_>>(), [RECORD, REPORT]);
}

#[test]
fn paths_that_leave_the_folder_are_neither_read_nor_written() {
    let folder = tempfile::tempdir().unwrap();
    let (document, evidence) = decision();
    let dir = write(folder.path(), &document, &evidence);
    for path in ["../x", "/etc/hostname", "evidence/../../x", "", "./x"] {
        let mut foreign = document.clone();
        foreign.evidence[0].path = path.to_owned();
        assert_eq!(verify_evidence(&foreign, &dir)[0].problem, Problem::Outside, "{path}");
        let bundle = DecisionBundle { document: &foreign, record: "", report: "", evidence: &evidence };
        let error = DecisionStore::new(folder.path()).write(&bundle).unwrap_err();
        assert!(error.to_string().contains("outside"), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left of the refused ones");
}

#[test]
fn evidence_that_is_not_what_the_decision_names_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (document, mut evidence) = decision();
    let store = DecisionStore::new(folder.path());
    let digest = document.evidence[1].digest.clone();
    evidence.insert(digest.clone(), EvidenceContent::Bytes(b"other".to_vec()));
    let bundle = DecisionBundle { document: &document, record: "", report: "", evidence: &evidence };
    assert!(matches!(store.write(&bundle), Err(DecisionStoreError::Mismatch { .. })));
    evidence.remove(&digest);
    let bundle = DecisionBundle { document: &document, record: "", report: "", evidence: &evidence };
    assert!(matches!(store.write(&bundle), Err(DecisionStoreError::Evidence { .. })));
    assert_eq!(store.list().unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn the_same_decision_is_stored_once_and_another_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let (mut document, mut evidence) = decision();
    let file = folder.path().join("events.tslog");
    fs::write(&file, b"log").unwrap();
    let (log, _) = entry("event-log", "tslog", b"log");
    evidence.insert(log.digest.clone(), EvidenceContent::File(file));
    document.evidence.push(log);
    let root = folder.path().join("decisions");
    let first = write(&root, &document, &evidence);
    assert_eq!(write(&root, &document, &evidence), first);
    document.seed = 8;
    let second = write(&root, &document, &evidence);
    assert_ne!(second, first);
    assert_eq!(DecisionStore::new(&root).list().unwrap(), [first.clone(), second]);
    assert_eq!(load(&first).unwrap().document.seed, 7);
}
