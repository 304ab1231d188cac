//! What comes from a simulator says so everywhere and never passes as measured.

use std::fs;

use touchstone_model::{FindingCode, Level};
use touchstone_testkit::{Step, TcpStub};

use crate::harness::{Benched, Engine, bench, context, run, run_dir};

const LOAD: &str =
    "--arrival constant:40/s --duration 600ms --warm-up 100ms --input-tokens 4 --output-tokens 3";

/// Everything that is kept or shown of a run.
fn check_marks(context: &touchstone_testkit::TestContext, benched: &Benched) {
    let document = &benched.document;
    assert!(document.simulated && document.level == Level::E, "{}", benched.told());
    assert!(benched.finding(FindingCode::Simulated), "{}", benched.told());
    assert!(benched.stderr.contains("SIMULATED"), "{}", benched.stderr);
    let dir = run_dir(context, &document.run);
    let page = fs::read_to_string(dir.join("report.html")).unwrap();
    assert!(page.matches("<svg").count() >= 2, "charts");
    assert!(page.to_lowercase().matches("simulated").count() >= 3, "page and charts say it");
    let shown = run(context, &format!("runs show {}", document.run));
    assert!(shown.stdout.contains("SIMULATED"), "{}", shown.stdout);
    let list = run(context, "runs list");
    assert!(list.stdout.contains("simulated"), "{}", list.stdout);
}

#[test]
fn an_engine_by_its_profile_and_by_its_address() {
    let context = context();
    check_marks(&context, &bench(&context, "engine=flat", LOAD));
    let engine = Engine::start("flat", "");
    check_marks(&context, &bench(&context, &engine.chat(), LOAD));
    // Also where nothing was asked before the run.
    check_marks(&context, &bench(&context, &engine.chat(), &format!("{LOAD} --model simulated")));
    check_marks(
        &context,
        &bench(&context, &engine.chat(), &LOAD.replace("constant:40/s", "closed:2 --shards 2")),
    );
}

#[test]
fn a_run_that_failed_says_it_as_well() {
    let context = context();
    let engine = Engine::start("flat", "--error-rate 1");
    let benched = bench(&context, &engine.chat(), LOAD);
    assert!(!benched.document.valid, "{}", benched.told());
    check_marks(&context, &benched);
    assert!(run(&context, "runs list").stdout.contains("INVALID"));
}

#[test]
fn the_answers_alone_are_enough() {
    // Like an engine behind a proxy that lets only the generation through.
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-touchstone-simulated: true\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let refusal = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
    // Whatever begins with GET is refused; the stub tells requests apart by what ends them.
    let probe = TcpStub::start(vec![Step::read_head(), Step::send(refusal), Step::Repeat]).unwrap();
    let context = context();
    let refused = bench(&context, &format!("openai-chat=http://{}", probe.addr()), LOAD);
    assert!(!refused.document.simulated, "nobody said so: {}", refused.told());

    let stub =
        TcpStub::start(vec![Step::ReadUntil(b"}]}".to_vec()), Step::send(&answer), Step::Repeat]).unwrap();
    let flags = format!("{LOAD} --model m --timeout connect=300ms --output-tokens 1");
    let flags = flags.replacen("--output-tokens 3", "", 1);
    let benched = bench(&context, &format!("openai-chat=http://{}", stub.addr()), &flags);
    assert!(benched.document.counts.completed > 0, "{}", benched.told());
    check_marks(&context, &benched);
}

#[test]
fn the_page_goes_where_it_is_asked_for_and_no_record_means_none() {
    let context = context();
    let engine = Engine::start("flat", "");
    let line = format!(
        "bench --target {} {LOAD} --no-ceiling --no-record --html page.html --json run.json",
        engine.chat()
    );
    let done = run(&context, &line);
    assert!(done.stdout.contains("SIMULATED"), "the summary is data: {}", done.snapshot());
    assert!(context.read("page.html").unwrap().contains("<svg"));
    let document: touchstone_model::RunDocument =
        serde_json::from_str(&context.read("run.json").unwrap()).unwrap();
    assert!(document.simulated && document.fingerprint.is_none());
    assert!(!context.path(".touchstone").exists());
}

#[test]
fn a_page_that_cannot_be_written_costs_nobody_the_run() {
    let context = context();
    context.write("file", "").unwrap();
    let engine = Engine::start("flat", "");
    let done = run(
        &context,
        &format!("bench --target {} {LOAD} --no-ceiling --html file/page.html --json -", engine.chat()),
    );
    assert_eq!(done.code(), Some(2), "{}", done.snapshot());
    assert!(done.stderr.contains("file/page.html"), "{}", done.stderr);
    let document: touchstone_model::RunDocument = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(run(&context, &format!("runs verify {}", document.run)).code(), Some(0));
}

#[test]
fn runs_at_the_same_time_share_a_folder() {
    let context = context();
    let engine = Engine::start("flat", "");
    let line = crate::harness::bench_line(&engine.chat(), LOAD);
    let running: Vec<_> = (0..4).map(|_| context.spawn(&line).unwrap()).collect();
    let mut ids: Vec<String> =
        running.into_iter().map(|one| Benched::of(&context, one.finish().unwrap()).document.run).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[test]
fn quiet_prints_the_document_alone() {
    let context = context();
    let engine = Engine::start("flat", "");
    let done = run(
        &context,
        &format!("bench --target {} {LOAD} --no-ceiling --quiet --seed 1 --json -", engine.chat()),
    );
    assert_eq!(done.stderr, "", "{}", done.snapshot());
    Benched::of(&context, done);
}

#[test]
fn the_engine_says_it_too() {
    let context = context();
    let mut running = context.spawn(["engine", "--profile", "flat"]).unwrap();
    running.wait_for(|text| text.contains("SIMULATED engine, profile flat").then_some(())).unwrap();
    running.interrupt().unwrap();
    let done = running.finish().unwrap();
    assert_eq!((done.code(), done.timed_out), (Some(0), false), "{}", done.snapshot());
    let profiles = run(&context, "engine --list-profiles");
    assert!(profiles.stdout.contains("capacity-50"), "{}", profiles.stdout);
    let unknown = run(&context, "engine --profile nope");
    assert!(unknown.code() == Some(2) && unknown.stderr.contains("vllm-like"), "{}", unknown.snapshot());
    let unknown = run(&context, "bench --target engine=nope --arrival closed:1");
    assert_eq!(unknown.code(), Some(2), "{}", unknown.snapshot());
}
