//! Several runs: a second target, a baseline, repeating a recorded run, launching the target.

use serde_json::Value;
use touchstone_model::comparison::{Replication, RunSet, Standing};
use touchstone_model::{FindingCode, MetricId};

use crate::harness::{Engine, bench, check, context, measuring, run};

const SHORT: &str =
    "--arrival constant:30/s --duration 1s --warm-up 200ms --input-tokens 16 --output-tokens 8";

#[test]
fn two_targets_are_interleaved_and_two_runs_claim_nothing() {
    let _alone = measuring();
    let context = context();
    let done = run(
        &context,
        &format!(
            "bench --target engine=flat --versus engine=fastchat-like --repeats 2 --seed 5 {SHORT} --no-ceiling --json - --junit j.xml"
        ),
    );
    let set: RunSet = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{}", done.snapshot()));
    let value: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(serde_json::to_value(&set).unwrap(), value, "a field that no type knows");
    let labels: Vec<&str> =
        set.runs.iter().map(|run| run.workload.parameters["candidate"].as_str().unwrap()).collect();
    assert_eq!(labels, ["engine=flat", "engine=fastchat-like", "engine=fastchat-like", "engine=flat"]);
    let seeds: Vec<u64> = set.runs.iter().map(|run| run.workload.seed).collect();
    assert_eq!(seeds, [5, 5, 6, 6]);
    let comparison = set.comparison.unwrap();
    assert_eq!((comparison.unit, comparison.a.deploys), (Replication::Deploy, Some(2)));
    assert!(comparison.metrics.iter().all(|one| one.standing == Standing::NotResolved));
    assert!(comparison.findings.iter().any(|finding| finding.code == FindingCode::FewRuns));
    let xml = std::fs::read_to_string(context.path("j.xml")).unwrap();
    assert_eq!(xml.matches("<testsuite ").count(), 5, "{xml}");
    // The same from the store.
    let again =
        run(&context, "compare candidate=engine=flat --against candidate=engine=fastchat-like --json -");
    assert_eq!(again.code(), Some(0), "{}", again.snapshot());
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["metrics"], value["comparison"]["metrics"]);
}

#[test]
fn a_slower_target_breaks_a_baseline() {
    let _alone = measuring();
    let context = context();
    let fast = Engine::start("flat", "");
    let slow = Engine::start("fastchat-like", "");
    let base = bench(&context, &fast.chat(), SHORT);
    let line = format!(
        "bench --target {} {SHORT} --no-ceiling --baseline {} --junit j.xml",
        slow.chat(),
        base.document.run
    );
    let done = run(&context, &line);
    assert_eq!(done.code(), Some(3), "{}", done.snapshot());
    assert!(done.stderr.contains("suspected worse"), "{}", done.stderr);
    assert!(done.stdout.contains("one run a side"), "{}", done.stdout);
    assert!(std::fs::read_to_string(context.path("j.xml")).unwrap().contains("<failure"));
    let received = slow.received();
    let missing =
        run(&context, &format!("bench --target {} {SHORT} --no-ceiling --baseline r-none", slow.chat()));
    assert_eq!(missing.code(), Some(2), "{}", missing.snapshot());
    assert_eq!(slow.received(), received, "nothing was loaded for nothing");
}

#[test]
fn a_run_is_repeated_with_its_seed_and_without_its_secrets() {
    let context = context();
    let engine = Engine::start("flat", "");
    let first =
        bench(&context, &engine.chat(), &format!("{SHORT} --seed 77 --header X-Key:top-secret-value"));
    let done = run(&context, &format!("rerun {} --json", first.document.run));
    assert_eq!(done.code(), Some(0), "{}", done.snapshot());
    assert!(done.stderr.contains("not restored: --header"), "{}", done.stderr);
    let second: touchstone_model::RunDocument = serde_json::from_str(&done.stdout).unwrap();
    assert_ne!(second.run, first.document.run);
    assert_eq!(second.workload.schedule_digest, first.document.workload.schedule_digest);
    assert_eq!(second.workload.seed, 77);
    let asked = |run: &touchstone_model::RunDocument| run.workload.parameters["input_tokens"].clone();
    assert_eq!(asked(&second), asked(&first.document));
    let everything =
        std::fs::read(context.path(".touchstone").join("runs").join(&first.document.run).join("run.json"));
    assert!(!String::from_utf8_lossy(&everything.unwrap()).contains("top-secret-value"));
}

#[test]
fn a_target_that_is_launched_has_its_cold_start_in_stages_and_is_ended() {
    let context = context();
    // A free port, as far as that can be known.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let binary = env!("CARGO_BIN_EXE_touchstone");
    let command = format!("sleep 0.3; {binary} engine --profile flat --port {port}");
    let target = format!("openai-chat=http://127.0.0.1:{port}");
    let words = |command: &str| -> Vec<String> {
        let mut words: Vec<String> =
            ["bench", "--target", &target, "--launch", command].map(str::to_owned).into();
        words.extend(
            format!("{SHORT} --no-ceiling --deploys 2 --launch-timeout 20s --json -")
                .split(' ')
                .map(str::to_owned),
        );
        words
    };
    let done = context.run(words(&command)).unwrap();
    check(&done);
    let set: RunSet = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{}", done.snapshot()));
    assert_eq!((set.runs.len(), set.cold_starts.len()), (2, 2));
    for cold in &set.cold_starts {
        let stages = [cold.port_ms, cold.healthy_ms, cold.first_token_ms, cold.good_answer_ms];
        let stages: Vec<f64> = stages.into_iter().map(Option::unwrap).collect();
        assert!(stages.is_sorted() && stages[0] >= 300.0, "{cold:?}");
        assert!(cold.steady_ms.is_none_or(|steady| steady > stages[3]), "{cold:?}");
    }
    let deploys: std::collections::BTreeSet<String> =
        set.runs.iter().map(|run| run.workload.parameters["deploy"].to_string()).collect();
    assert_eq!(deploys.len(), 2);
    assert!(set.runs.iter().all(|run| run.metrics.contains_key(&MetricId::Ttft)));
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "the target was ended");

    let other = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let taken = context.run(words(&command)).unwrap();
    assert_eq!(taken.code(), Some(2), "{}", taken.snapshot());
    assert!(taken.stderr.contains("listens on"), "{}", taken.stderr);
    drop(other);
    let dead = context.run(words("echo no such model; exit 3")).unwrap();
    assert_eq!(dead.code(), Some(2), "{}", dead.snapshot());
    assert!(dead.stderr.contains("ended (exit status: 3)"), "{}", dead.stderr);
}
