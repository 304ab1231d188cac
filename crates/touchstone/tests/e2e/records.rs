//! A scenario from the match to the record on embedded engines: what is written, that it repeats, that it unfolds, and
//! that changed evidence is found.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use touchstone_model::decision::{DecisionDocument, Status, Word};
use touchstone_model::{Level, RunDocument};
use touchstone_testkit::{Finished, TcpStub, TestContext};

use crate::harness::{check, context, files, record_dir, run};

/// The path that `touchstone demo` takes, in seconds instead of minutes.
const FAST: &str = "\
format: touchstone.scenario/1
name: fast-chat
description: Two simulated engines, and one that does not speak the protocol.
family: inference
horizon: 12 months
workload: {arrival: 'poisson:20/s', input_tokens: 16, output_tokens: 8}
requirements:
  latency: [ttft.p50 <= 150ms, streaming = yes]
  throughput: [throughput >= 10/s]
  consistency: [openai_api = yes]
  reliability: [error_rate <= 20%]
  scalability: {peak_factor: 1.5, growth: 0%/year}
criteria:
  - {metric: ttft.p50, worst: 150ms, best: 1ms}
  - {metric: itl.p50, worst: 50ms, best: 1ms}
preference: [ttft.p50, itl.p50]
candidates:
  - {name: one, product: vllm, target: engine=vllm-like, reversible: true}
  - {name: two, product: tgi, target: engine=flat, reversible: true}
  - {name: kserve, product: triton, configuration: kserve}
measurement: {warm_up: 200ms, duration: 2s, drain: 2s, repeats: 2, seed: 7, confidence: 0.95}
";

fn scenario(context: &TestContext, text: &str) -> PathBuf {
    context.write("s.yaml", text).unwrap()
}

fn decision(dir: &Path) -> DecisionDocument {
    serde_json::from_slice(&fs::read(dir.join("decision.json")).unwrap()).unwrap()
}

/// The stored runs of a folder, in the order in which they were made.
fn runs(context: &TestContext) -> Vec<RunDocument> {
    let stored = files(&context.path(".touchstone/runs"));
    stored
        .iter()
        .filter(|path| path.ends_with("run.json"))
        .map(|path| serde_json::from_slice(&fs::read(path).unwrap()).unwrap())
        .collect()
}

/// A text without the line ends of wrapping and the backslashes of Markdown.
fn plain(text: &str) -> String {
    text.replace('\\', "").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn parameter<'a>(run: &'a RunDocument, name: &str) -> &'a Value {
    &run.workload.parameters[name]
}

#[test]
fn a_candidate_that_cannot_be_measured_leaves_the_others() {
    let context = context();
    let keyless = "  - {name: keyless, product: llama-cpp, target: 'openai-chat=http://127.0.0.1:9', api_key_env: NOT_SET_HERE}\n";
    let text = FAST.replace("  - {name: kserve", &format!("{keyless}  - {{name: kserve"));
    scenario(&context, &text);
    let done = run(&context, "run s.yaml --repeats 1");
    assert_eq!(done.code(), Some(0), "{}", done.snapshot());
    assert!(
        done.stderr.contains("`keyless` cannot be measured") && done.stderr.contains("NOT_SET_HERE"),
        "{}",
        done.stderr
    );
    assert_eq!(runs(&context).len(), 2, "{}", done.snapshot());
    let document = decision(&record_dir(&context));
    // It could have been the best: nobody knows.
    assert_eq!(document.verdict.word, Word::InsufficientEvidence, "{:?}", document.verdict);
}

#[test]
fn a_seal_made_after_the_runs_is_called_so() {
    let (context, _) = recorded("en");
    fs::remove_dir_all(context.path(".touchstone/seals")).unwrap();
    // The clock of records has whole seconds.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let done = run(&context, "decide s.yaml --json -");
    let document: DecisionDocument = serde_json::from_str(&done.stdout).unwrap();
    assert!(!document.seal.before_results, "{:?}", document.seal);
    assert!(done.stderr.contains("SEALED ONLY AFTER RESULTS"), "{}", done.stderr);
}

/// A context in which the fast scenario was run, with what the command printed.
fn recorded(lang: &str) -> (TestContext, Finished) {
    let context = context();
    scenario(&context, FAST);
    let done = run(&context, &format!("run s.yaml --lang {lang}"));
    assert_eq!(done.code(), Some(0), "{}", done.snapshot());
    (context, done)
}

#[test]
fn a_scenario_becomes_a_record_whose_every_sentence_unfolds() {
    let (context, done) = recorded("en");
    let dir = record_dir(&context);
    let document = decision(&dir);
    check_runs(&context);
    check_simulated(&context, &done, &dir, &document);
    check_veto(&done, &dir, &document);
    check_evidence(&context, &dir, &document);
    check_repeats(&context, &dir);
    check_tampering(&context, &dir, &document);
}

/// Two repeats, turned around, under equal schedules.
fn check_runs(context: &TestContext) {
    let runs = runs(context);
    let order: Vec<(&str, u64)> = runs
        .iter()
        .map(|run| {
            (parameter(run, "candidate").as_str().unwrap(), parameter(run, "repeat").as_u64().unwrap())
        })
        .collect();
    assert_eq!(order, [("one", 1), ("two", 1), ("two", 2), ("one", 2)]);
    assert_eq!(runs[0].workload.schedule_digest, runs[1].workload.schedule_digest);
    assert_eq!(runs[2].workload.schedule_digest, runs[3].workload.schedule_digest);
    assert_ne!(runs[0].workload.schedule_digest, runs[3].workload.schedule_digest, "repeats differ");
    for run in &runs {
        assert_eq!(run.workload.arrival, "poisson:30/s", "the peak is what is measured");
        assert!(run.simulated && run.level == Level::E && run.counts.completed > 0, "{run:?}");
    }
}

fn check_simulated(context: &TestContext, done: &Finished, dir: &Path, document: &DecisionDocument) {
    assert!(document.simulated && document.level == Level::E);
    assert!(document.candidates.iter().all(|one| one.simulated != one.runs.is_empty()));
    let shown = run(context, "explain latest").stdout;
    for (what, text) in [
        ("terminal", &done.stdout),
        ("explain", &shown),
        ("record", &fs::read_to_string(dir.join("record.md")).unwrap()),
        ("page", &fs::read_to_string(dir.join("report.html")).unwrap()),
        ("decision", &fs::read_to_string(dir.join("decision.json")).unwrap()),
    ] {
        assert!(text.to_lowercase().contains("simulated"), "{what}: {text}");
        assert!(text.contains(document.verdict.word.as_str()) || what == "decision", "{what}: {text}");
    }
    let page = fs::read_to_string(dir.join("report.html")).unwrap();
    assert!(page.contains("<svg"), "charts");
    assert!(!page.contains("http://") || !page.contains("src=\"http"), "self-contained");
}

fn check_veto(done: &Finished, dir: &Path, document: &DecisionDocument) {
    let vetoed = document.candidates.iter().find(|one| one.name == "kserve").unwrap();
    assert_eq!(vetoed.status, Status::Vetoed);
    let why = vetoed.gates.iter().find(|gate| gate.outcome == touchstone_model::run::Outcome::Fail).unwrap();
    assert!(!why.reason.is_empty() && !why.evidence.is_empty(), "{why:?}");
    let record = fs::read_to_string(dir.join("record.md")).unwrap();
    assert!(record.contains(&why.requirement), "{}: {record}", why.requirement);
    assert!(done.stdout.contains("kserve") && done.stdout.contains(&why.requirement), "{}", done.stdout);
}

fn check_evidence(context: &TestContext, dir: &Path, document: &DecisionDocument) {
    assert!(document.statements.len() >= 3, "{:?}", document.statements);
    for kind in ["scenario", "catalog", "run", "fingerprint", "event-log"] {
        assert!(document.evidence.iter().any(|entry| entry.kind == kind), "no {kind}");
    }
    assert_eq!(document.evidence.iter().filter(|entry| entry.kind == "run").count(), 4);
    for entry in &document.evidence {
        assert!(dir.join(&entry.path).is_file(), "{entry:?}");
    }
    let record = fs::read_to_string(dir.join("record.md")).unwrap();
    for statement in &document.statements {
        assert!(record.contains(&format!("[{}]", statement.id)), "{} is not in {record}", statement.id);
        let line = format!("explain {} {}", dir.display(), statement.id);
        let done = run(context, &line);
        assert_eq!(done.code(), Some(0), "{}", done.snapshot());
        assert!(plain(&done.stdout).contains(&plain(&statement.text)), "{}", done.stdout);
        for digest in &statement.evidence {
            let short = &digest.trim_start_matches("sha256:")[..12];
            assert!(done.stdout.contains(short), "{short} is not in {}", done.stdout);
        }
    }
    // From a sentence about figures down to quantiles, histograms and the machine.
    let measured = document
        .statements
        .iter()
        .find(|one| {
            one.evidence.iter().any(|digest| {
                document.evidence.iter().any(|entry| entry.kind == "run" && entry.digest == *digest)
            })
        })
        .unwrap();
    let shown = run(context, &format!("explain {} {}", dir.display(), measured.id)).stdout;
    for word in ["ttft (ms): p50", "histograms", "fingerprint"] {
        assert!(shown.contains(word), "{word} is not in {shown}");
    }
    let wrong = run(context, &format!("explain {} s999", dir.display()));
    assert_eq!(wrong.code(), Some(2), "{}", wrong.snapshot());
    let json: Value = serde_json::from_str(&run(context, "explain latest --json").stdout).unwrap();
    assert_eq!(json["problems"], serde_json::json!([]));
}

/// The same evidence, the same bytes, the same folder.
fn check_repeats(context: &TestContext, dir: &Path) {
    let before = fs::read(dir.join("decision.json")).unwrap();
    let record = fs::read(dir.join("record.md")).unwrap();
    for _ in 0..2 {
        let done = run(context, "decide s.yaml --json decision-again.json");
        assert_eq!(done.code(), Some(0), "{}", done.snapshot());
        assert_eq!(record_dir(context), dir);
        assert_eq!(fs::read(dir.join("decision.json")).unwrap(), before);
        assert_eq!(fs::read(dir.join("record.md")).unwrap(), record);
    }
    let again: Value = serde_json::from_str(&context.read("decision-again.json").unwrap()).unwrap();
    assert_eq!(again, serde_json::from_slice::<Value>(&before).unwrap());
    // Evidence that was moved decides as before.
    let elsewhere = crate::harness::context();
    for file in files(&context.path(".touchstone")) {
        let name = file.strip_prefix(context.dir()).unwrap().to_str().unwrap().to_owned();
        elsewhere.write(&format!("moved/{name}"), fs::read(&file).unwrap()).unwrap();
    }
    elsewhere.write("renamed.yaml", FAST).unwrap();
    let done = run(&elsewhere, "decide renamed.yaml --out moved");
    assert_eq!(done.code(), Some(0), "{}", done.snapshot());
    let moved = files(&elsewhere.path("moved/decisions"));
    let decided = moved.iter().find(|path| path.ends_with("decision.json")).unwrap();
    assert_eq!(fs::read(decided).unwrap(), before);
}

/// One byte of any file is enough, and the file is named.
fn check_tampering(context: &TestContext, dir: &Path, document: &DecisionDocument) {
    let mut paths: Vec<String> = Vec::new();
    for kind in ["scenario", "catalog", "run", "fingerprint", "event-log"] {
        let entry = document.evidence.iter().find(|entry| entry.kind == kind).unwrap();
        paths.push(entry.path.clone());
    }
    paths.extend(["record.md".to_owned(), "report.html".to_owned(), "digests.json".to_owned()]);
    for path in paths {
        let file = dir.join(&path);
        let good = fs::read(&file).unwrap();
        let mut bad = good.clone();
        let at = bad.len() / 2;
        bad[at] ^= 1;
        fs::write(&file, &bad).unwrap();
        let done = run(context, &format!("explain {}", dir.display()));
        assert_eq!(done.code(), Some(4), "{path}: {}", done.snapshot());
        // A changed list of digests looks like a change of what it lists.
        let named =
            done.stderr.contains(&path) || path == "digests.json" && done.stderr.contains("was changed");
        assert!(named, "{path} is not named: {}", done.stderr);
        fs::remove_file(&file).unwrap();
        let done = run(context, &format!("explain {}", dir.display()));
        assert_eq!(done.code(), Some(4), "{path} is gone: {}", done.snapshot());
        assert!(done.stderr.contains(&path), "{path} is not named: {}", done.stderr);
        fs::write(&file, &good).unwrap();
    }
    assert_eq!(run(context, &format!("explain {}", dir.display())).code(), Some(0));

    // A stored run that was changed is no evidence, whatever the record beside it says.
    let stored = files(&context.path(".touchstone/runs"));
    for name in ["run.json", "fingerprint.json", "events.tslog"] {
        let file = stored.iter().find(|path| path.ends_with(name)).unwrap();
        let id = file.parent().unwrap().file_name().unwrap().to_str().unwrap();
        let good = fs::read(file).unwrap();
        let text = String::from_utf8_lossy(&good);
        let bad = if name == "run.json" {
            // Still a document: only a figure is another.
            text.replacen("\"completed\": ", "\"completed\": 1", 1).into_bytes()
        } else {
            let mut bad = good.clone();
            let at = bad.len() / 2;
            bad[at] ^= 1;
            bad
        };
        assert_ne!(bad, good, "{name}");
        fs::write(file, bad).unwrap();
        let done = run(context, "decide s.yaml");
        assert_eq!(done.code(), Some(4), "{name}: {}", done.snapshot());
        assert!(done.stderr.contains(id), "{id} is not named: {}", done.stderr);
        let done = run(context, &format!("runs verify {id}"));
        assert_eq!(done.code(), Some(4), "{name}: {}", done.snapshot());
        fs::write(file, good).unwrap();
    }
    assert_eq!(run(context, "decide s.yaml").code(), Some(0));
    // A document that is none any more must not silently leave the evidence.
    let file = stored.iter().find(|path| path.ends_with("run.json")).unwrap();
    let good = fs::read(file).unwrap();
    fs::write(file, &good[..good.len() / 2]).unwrap();
    let done = run(context, "decide s.yaml");
    assert_eq!(done.code(), Some(4), "{}", done.snapshot());
    assert!(run(context, "runs list").stdout.contains("broken"));
    fs::write(file, good).unwrap();
}

#[test]
fn a_decision_over_named_runs_uses_those_and_tells_of_others() {
    let context = context();
    scenario(&context, &FAST.replace("duration: 2s", "duration: 500ms").replace("repeats: 2", "repeats: 1"));
    assert_eq!(run(&context, "run s.yaml").code(), Some(0));
    let all = runs(&context);
    let [one, two] = all.as_slice() else { panic!("{}", all.len()) };
    let done = run(&context, &format!("decide s.yaml --runs {} --json one.json", one.run));
    assert_eq!(done.code(), Some(0), "{}", done.snapshot());
    let document: DecisionDocument = serde_json::from_str(&context.read("one.json").unwrap()).unwrap();
    let measured = |name: &str| document.candidates.iter().find(|one| one.name == name).unwrap().runs.len();
    assert_eq!((measured("one"), measured("two")), (1, 0));
    let done = run(&context, "decide s.yaml --runs r-never");
    assert_eq!(done.code(), Some(2), "{}", done.snapshot());
    assert!(done.stderr.contains("r-never"), "{}", done.stderr);
    // A run that was killed is no evidence, and asking for it by name is refused.
    fs::remove_file(crate::harness::run_dir(&context, &two.run).join("run.json")).unwrap();
    let done = run(&context, &format!("decide s.yaml --runs {}", two.run));
    assert_eq!(done.code(), Some(2), "{}", done.snapshot());
    assert!(done.stderr.contains(&two.run), "{}", done.stderr);
    assert_eq!(run(&context, "decide s.yaml").code(), Some(0));
}

#[test]
fn the_record_is_there_in_chinese() {
    let (context, done) = recorded("zh");
    let dir = record_dir(&context);
    let document = decision(&dir);
    let record = fs::read_to_string(dir.join("record.md")).unwrap();
    let page = fs::read_to_string(dir.join("report.html")).unwrap();
    for text in [&record, &page, &done.stdout] {
        assert!(text.contains(document.verdict.word.zh()), "{text}");
        assert!(text.contains("模拟"), "it says simulated: {text}");
    }
    assert!(plain(&record).contains(&plain(&document.verdict.reason_zh)), "{record}");
    assert!(page.contains("lang=\"zh"), "{}", &page[..300]);
    let vetoed = document.candidates.iter().find(|one| one.status == Status::Vetoed).unwrap();
    let why = vetoed.gates.iter().find(|gate| gate.outcome == touchstone_model::run::Outcome::Fail).unwrap();
    assert!(plain(&record).contains(&plain(&why.reason_zh)), "{} is not in {record}", why.reason_zh);
    // Sentences change with the language, the decision does not.
    let before = fs::read(dir.join("decision.json")).unwrap();
    assert_eq!(run(&context, "decide s.yaml --lang en").code(), Some(0));
    assert_eq!(fs::read(dir.join("decision.json")).unwrap(), before);
    let english = plain(&fs::read_to_string(dir.join("record.md")).unwrap());
    assert!(!english.contains(&plain(&document.verdict.reason_zh)), "{english}");
    assert!(english.contains(&plain(&document.verdict.reason)), "{english}");
}

#[test]
fn a_dead_candidate_spoils_nobody_elses_runs() {
    let stub = TcpStub::refusing().unwrap();
    let context = context();
    let dead = format!(
        "  - {{name: dead, product: vllm, target: 'openai-chat=http://{}', model: m}}\n",
        stub.addr()
    );
    let text = FAST
        .replace("poisson:20/s", "poisson:200/s")
        .replace("engine=vllm-like", "engine=flat")
        .replace("candidates:\n", &format!("candidates:\n{dead}"))
        .replace("duration: 2s", "duration: 1s");
    scenario(&context, &text);
    let done = run(&context, "run s.yaml");
    assert_eq!(done.code(), Some(0), "a verdict was printed: {}", done.snapshot());
    let runs = runs(&context);
    let of = |name: &str| runs.iter().filter(|run| parameter(run, "candidate") == name).collect::<Vec<_>>();
    assert_eq!((of("dead").len(), of("one").len(), of("two").len()), (2, 2, 2));
    assert!(of("dead").iter().all(|run| !run.valid && run.errors[0].kind == "refused"));
    for run in of("one").iter().chain(&of("two")) {
        assert!(!run.interrupted && run.counts.failed == 0, "{:?} {:?}", run.counts, run.findings);
    }
    let document = decision(&record_dir(&context));
    assert_ne!(document.verdict.candidate.as_deref(), Some("dead"));
    assert!(done.stderr.contains("dead") && done.stderr.contains("is invalid"), "{}", done.stderr);
}

#[test]
fn only_dead_candidates_give_no_choice() {
    let stub = TcpStub::refusing().unwrap();
    let context = context();
    let target = format!("'openai-chat=http://{}', model: m", stub.addr());
    let text = FAST
        .replace("engine=vllm-like", &target)
        .replace("engine=flat", &target)
        .replace("duration: 2s", "duration: 500ms");
    scenario(&context, &text);
    let done = run(&context, "run s.yaml");
    let document = decision(&record_dir(&context));
    assert!(
        matches!(document.verdict.word, Word::NoCandidate | Word::InsufficientEvidence),
        "{:?}",
        document.verdict
    );
    assert_eq!(document.verdict.candidate, None, "{:?}", document.verdict);
    assert!(matches!(done.code(), Some(0 | 1)), "{}", done.snapshot());
}

#[test]
fn ctrl_c_ends_the_scenario_and_decides_over_what_there_is() {
    let context = context();
    scenario(&context, &FAST.replace("duration: 2s", "duration: 60s"));
    let mut running = context.spawn(["run", "s.yaml", "--json", "-"]).unwrap();
    running.wait_for(|text| text.contains("measured ").then_some(())).unwrap();
    running.interrupt().unwrap();
    let done = running.finish().unwrap();
    check(&done);
    assert_eq!(done.code(), Some(130), "{}", done.snapshot());
    let runs = runs(&context);
    assert_eq!(runs.len(), 1, "no further run was begun");
    assert!(runs[0].interrupted);
    let document: DecisionDocument = serde_json::from_str(&done.stdout).unwrap();
    assert_ne!(document.verdict.word, Word::Clear, "half of the candidates were not measured");
}

#[test]
fn ctrl_c_before_the_first_run_is_an_interrupt_too() {
    let stub = TcpStub::hanging().unwrap();
    let context = context();
    let target = format!("'openai-chat=http://{}', model: m", stub.addr());
    let text = FAST.replace("engine=vllm-like", &target).replace("engine=flat", &target);
    scenario(&context, &text.replace("duration: 2s", "duration: 60s"));
    let mut running = context.spawn(["run", "s.yaml"]).unwrap();
    // It is asking the silent target who it is.
    running.wait_for(|text| text.contains("run 1 of").then_some(())).unwrap();
    running.interrupt().unwrap();
    running.interrupt().unwrap();
    let done = running.finish().unwrap();
    check(&done);
    assert_eq!(done.code(), Some(130), "{}", done.snapshot());
}

#[test]
fn without_runs_there_is_nothing_to_decide() {
    let context = context();
    scenario(&context, FAST);
    let done = run(&context, "decide s.yaml");
    assert_eq!(done.code(), Some(2), "{}", done.snapshot());
    assert!(done.stderr.contains("touchstone run"), "{}", done.stderr);
    assert!(!context.path("decisions").exists());
    let done = run(&context, "explain latest");
    assert_eq!(done.code(), Some(2), "{}", done.snapshot());
    let done = run(&context, "demo --help");
    assert!(done.code() == Some(0) && done.stdout.contains("two minutes"), "{}", done.snapshot());
}

#[test]
fn one_seed_gives_one_set_of_schedules_in_any_folder() {
    let digests = |seed: u32| {
        let context = context();
        scenario(
            &context,
            &FAST.replace("duration: 2s", "duration: 500ms").replace("repeats: 2", "repeats: 1"),
        );
        let done = run(&context, &format!("run s.yaml --seed {seed} --out kept"));
        assert_eq!(done.code(), Some(0), "{}", done.snapshot());
        let stored = files(&context.path("kept/.touchstone/runs"));
        let of =
            |path: &PathBuf| -> RunDocument { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
        let runs = stored.iter().filter(|path| path.ends_with("run.json")).map(of);
        runs.map(|run| run.workload.schedule_digest).collect::<Vec<_>>()
    };
    let first = digests(21);
    assert_eq!(first.len(), 2);
    assert_eq!(digests(21), first);
    assert_ne!(digests(22), first);
}
