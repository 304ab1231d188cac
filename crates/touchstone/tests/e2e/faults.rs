//! Targets that fail: each gives a run with the failure's origin, phase and kind and an advice; none hangs.
//!
//! Code 1 where the target failed the run, code 0 with findings where only a part of it failed.

use std::time::Duration;

use touchstone_model::{FindingCode, Origin, Phase, Severity};
use touchstone_testkit::{Kind, Step, TcpStub, TestContext, server};

use crate::harness::{Benched, Engine, bench, context, run};

/// Little load.
const LOAD: &str = "--arrival constant:50/s --duration 1s --warm-up 100ms --drain 5s --seed 1";
/// Little patience, for targets that say nothing; the others may be slow on a busy machine.
const HASTY: &str = "--timeout connect=500ms,first=500ms,idle=500ms";
const TOKENS: &str = "--input-tokens 8 --output-tokens 6";

/// A bench of which nothing succeeds: all of its failures are of the one kind, origin and phase.
#[track_caller]
fn all_fail(target: &str, flags: &str, expected: (&str, Origin, Phase)) -> Benched {
    let context = context();
    let benched = bench(&context, target, &format!("{LOAD} {flags}"));
    let document = &benched.document;
    let (kind, origin, phase) = expected;
    assert_eq!(benched.kinds(), [format!("{kind} {origin} {phase}")], "{}", benched.told());
    assert_eq!(benched.code, Some(1), "{}", benched.told());
    assert!(!document.valid && benched.finding(FindingCode::AllFailed), "{}", benched.told());
    assert_eq!(document.counts.completed, 0, "{}", benched.told());
    assert_eq!(document.counts.failed, document.counts.intended, "{}", benched.told());
    assert!(!document.interrupted || benched.finding(FindingCode::TooManyErrors), "{}", benched.told());
    benched
}

fn hasty(flags: &str) -> String {
    format!("{flags} {HASTY}")
}

fn chat(addr: impl std::fmt::Display) -> String {
    format!("openai-chat=http://{addr}")
}

/// Answers every request with a status and a JSON body; the connection stays open.
fn answering(status: &str, body: &str) -> TcpStub {
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    TcpStub::start(vec![Step::read_head(), Step::send(&answer), Step::Repeat]).unwrap()
}

#[test]
fn nothing_listens() {
    let stub = TcpStub::refusing().unwrap();
    for target in [chat(stub.addr()), format!("resp={}", stub.addr()), format!("nats={}", stub.addr())] {
        let benched = all_fail(&target, "", ("refused", Origin::Network, Phase::Connect));
        assert!(benched.error("refused").advice.contains("is the server started"), "{}", benched.told());
        assert_eq!(benched.document.counts.sent, 0, "{}", benched.told());
    }
}

#[test]
fn a_name_that_does_not_resolve() {
    let target = "openai-chat=http://nowhere.invalid:8000";
    let benched = all_fail(target, "", ("dns", Origin::Network, Phase::Connect));
    assert!(benched.error("dns").message.contains("nowhere.invalid"), "{}", benched.told());
}

#[test]
fn accepted_and_never_answered() {
    let stub = TcpStub::hanging().unwrap();
    let benched =
        all_fail(&chat(stub.addr()), &hasty(TOKENS), ("timeout-first", Origin::Target, Phase::Headers));
    assert!(benched.document.counts.sent > 0, "{}", benched.told());
    let silent = ("timeout-greeting", Origin::Target, Phase::Connect);
    all_fail(&format!("nats={}", stub.addr()), HASTY, silent);
    all_fail(&format!("resp={}", stub.addr()), &hasty("--keys 10"), silent);
}

#[test]
fn accepted_and_closed_at_once() {
    let stub = TcpStub::closing().unwrap();
    for (target, flags) in [
        (chat(stub.addr()), TOKENS),
        (format!("resp={}", stub.addr()), "--keys 10"),
        (format!("nats={}", stub.addr()), ""),
    ] {
        let context = context();
        let benched = bench(&context, &target, &format!("{LOAD} {flags}"));
        assert_eq!(benched.code, Some(1), "{}", benched.told());
        assert!(!benched.document.errors.is_empty(), "{}", benched.told());
        for error in &benched.document.errors {
            assert!(error.kind.starts_with("closed") || error.kind == "reset", "{}", benched.told());
            assert_eq!(error.origin, Origin::Target, "{}", benched.told());
        }
    }
}

#[test]
fn an_http_server_loaded_as_cache_or_queue() {
    let engine = Engine::start("flat", "");
    let decode = |kind| (kind, Origin::Target, Phase::Connect);
    let benched = all_fail(&format!("resp={}", engine.address), "--keys 10", decode("not-resp"));
    assert!(benched.error("not-resp").advice.contains("HTTP"), "{}", benched.told());
    // An HTTP server waits for a request, a NATS client for a greeting.
    all_fail(
        &format!("nats={}", engine.address),
        HASTY,
        ("timeout-greeting", Origin::Target, Phase::Connect),
    );
}

#[test]
fn redis_and_nats_loaded_as_something_else() {
    let redis = server!(Kind::Redis);
    let nats = server!(Kind::Nats);
    // Redis takes a POST for an attack and hangs up.
    let closed = ("closed-before-answer", Origin::Target, Phase::Headers);
    let benched = all_fail(&chat(redis.addr()), TOKENS, closed);
    assert!(benched.error("closed-before-answer").advice.contains("right port"), "{}", benched.told());
    let benched = all_fail(&chat(nats.addr()), TOKENS, ("not-http", Origin::Target, Phase::Decode));
    assert!(benched.error("not-http").advice.contains("port"), "{}", benched.told());
    all_fail(&format!("resp={}", nats.addr()), "--keys 10", ("not-resp", Origin::Target, Phase::Connect));
    let silent = ("timeout-greeting", Origin::Target, Phase::Connect);
    all_fail(&format!("nats={}", redis.addr()), HASTY, silent);
}

#[test]
fn a_key_is_asked_for() {
    let stub = answering("401 Unauthorized", r#"{"error":{"message":"no key"}}"#);
    // Also when nobody said which model: the refusal is what there is to see.
    for flags in ["--model m", ""] {
        let flags = format!("{TOKENS} {flags}");
        let benched = all_fail(&chat(stub.addr()), &flags, ("http-401", Origin::Scenario, Phase::Headers));
        let error = benched.error("http-401");
        assert!(error.advice.contains("--api-key-env") && error.message.contains("no key"), "{error:?}");
    }
}

#[test]
fn a_server_without_any_of_the_paths() {
    let stub = answering("404 Not Found", r#"{"detail":"Not Found"}"#);
    for flags in ["--model m", ""] {
        let flags = format!("{TOKENS} {flags}");
        let benched = all_fail(&chat(stub.addr()), &flags, ("http-404", Origin::Scenario, Phase::Headers));
        assert!(benched.error("http-404").advice.contains("path"), "{}", benched.told());
    }
}

#[test]
fn a_model_that_the_server_does_not_have() {
    let engine = Engine::start("flat", "--model mine");
    let flags = format!("{TOKENS} --model yours");
    let benched = all_fail(&engine.chat(), &flags, ("http-404", Origin::Scenario, Phase::Headers));
    assert!(benched.error("http-404").advice.contains("/v1/models"), "{}", benched.told());
    assert!(benched.stderr.contains("does not list the model `yours`"), "{}", benched.stderr);
}

#[test]
fn a_server_that_lists_several_models_must_be_told_which() {
    let body = r#"{"object":"list","data":[{"id":"big"},{"id":"small"}]}"#;
    let stub = answering("200 OK", body);
    let context = context();
    let done = run(&context, &format!("bench --target {} {LOAD} --json -", chat(stub.addr())));
    assert_eq!((done.code(), done.stdout.as_str()), (Some(2), ""), "{}", done.snapshot());
    assert!(done.stderr.contains("big, small") && done.stderr.contains("--model"), "{}", done.stderr);
}

#[test]
fn every_answer_is_an_error() {
    let engine = Engine::start("flat", "--error-rate 1");
    let benched = all_fail(&engine.chat(), TOKENS, ("http-500", Origin::Target, Phase::Headers));
    assert!(benched.document.simulated, "{}", benched.told());
}

/// A bench of which a part fails, in one way; gives the share of the cohort that failed.
#[track_caller]
fn some_fail(engine_flags: &str, kind: &str, phase: Phase) -> (f64, Benched) {
    let engine = Engine::start("flat", engine_flags);
    let context = context();
    let load = LOAD.replace("constant:50/s", "constant:100/s").replace("duration 1s", "duration 2s");
    let mut benched = bench(&context, &engine.chat(), &format!("{load} {TOKENS}"));
    for _ in 0..5 {
        // Lateness of the generator on a busy machine is no part of this.
        if benched.document.valid {
            break;
        }
        benched = bench(&context, &engine.chat(), &format!("{load} {TOKENS}"));
    }
    assert_eq!(benched.code, Some(0), "{}", benched.told());
    assert!(benched.finding(FindingCode::Errors), "{}", benched.told());
    assert_eq!(benched.kinds(), [format!("{kind} target {phase}")], "{}", benched.told());
    let counts = &benched.document.counts;
    assert_eq!(counts.completed + counts.failed, counts.intended, "{}", benched.told());
    assert_eq!(counts.censored, 0, "{}", benched.told());
    (counts.failed as f64 / counts.intended as f64, benched)
}

#[test]
fn a_fifth_of_the_answers_are_errors() {
    let (share, benched) = some_fail("--error-rate 0.2", "http-500", Phase::Headers);
    assert!((0.1..0.3).contains(&share), "{share}");
    assert_eq!(benched.document.counts.output_tokens, Some(benched.document.counts.completed * 6));
    // What failed is at +infinity, so a p95 cannot be given: unmeasured is null, never 0 or the best of the rest.
    assert!(benched.json["metrics"]["ttft"]["p95"].is_null(), "{}", benched.json["metrics"]["ttft"]);
    assert_eq!(benched.json["metrics"]["ttft"]["censored"], benched.document.counts.failed);
}

#[test]
fn streams_are_cut() {
    let (share, _) = some_fail("--cut-rate 0.3", "eof-in-stream", Phase::Stream);
    assert!((0.15..0.45).contains(&share), "{share}");
}

#[test]
fn an_error_is_told_inside_a_stream() {
    let (share, _) = some_fail("--error-in-stream-rate 0.3", "error-in-stream", Phase::Stream);
    assert!((0.15..0.45).contains(&share), "{share}");
}

#[test]
fn a_missing_done_is_no_failure() {
    let engine = Engine::start("flat", "--drop-done");
    let benched = bench(&context(), &engine.chat(), &format!("{LOAD} {TOKENS}"));
    assert_eq!(benched.document.counts.completed, benched.document.counts.intended, "{}", benched.told());
    assert!(benched.document.errors.is_empty(), "{}", benched.told());
}

#[test]
fn streams_that_stop_after_the_first_token() {
    let engine = Engine::start("flat", "--stall 1:1");
    let flags = format!("{TOKENS} --timeout idle=500ms");
    let benched = all_fail(&engine.chat(), &flags, ("timeout-idle", Origin::Target, Phase::Stream));
    // The first token was measured, although no answer ended.
    assert!(benched.document.metrics[&touchstone_model::MetricId::Ttft].p50.is_some(), "{}", benched.told());
    assert!(benched.error("timeout-idle").advice.contains("--timeout"), "{}", benched.told());
}

#[test]
fn headers_that_come_too_late_and_headers_that_come_late() {
    let engine = Engine::start("flat", "--slow-headers 900ms");
    all_fail(&engine.chat(), &hasty(TOKENS), ("timeout-first", Origin::Target, Phase::Headers));
    let benched = bench(&context(), &engine.chat(), &format!("{LOAD} {TOKENS}"));
    assert!(benched.document.errors.is_empty(), "{}", benched.told());
    let ttft = &benched.document.metrics[&touchstone_model::MetricId::TtftFromSend];
    assert!(ttft.p50.unwrap() >= 900.0, "{ttft:?}");
}

#[test]
fn unfinished_at_the_end_of_drain_is_censored() {
    let engine = Engine::start("flat", "--stall 1:1");
    let flags = "--arrival constant:20/s --duration 1s --warm-up 0s --drain 300ms";
    let benched = bench(&context(), &engine.chat(), &format!("{flags} {TOKENS}"));
    let counts = &benched.document.counts;
    assert_eq!((counts.intended, counts.censored, counts.failed), (20, 20, 20), "{}", benched.told());
    assert!(benched.finding(FindingCode::Censored) && benched.code == Some(1), "{}", benched.told());
}

#[test]
fn requests_are_turned_away() {
    let engine = Engine::start("capacity-50", "--reject-when-waiting 2:503");
    let flags = "--arrival constant:120/s --duration 1s --warm-up 0s";
    let benched = bench(&context(), &engine.chat(), &format!("{flags} --input-tokens 4 --output-tokens 1"));
    assert_eq!(benched.kinds(), ["overloaded target headers"], "{}", benched.told());
    assert!(benched.error("overloaded").advice.contains("lower the rate"), "{}", benched.told());
    let counts = &benched.document.counts;
    assert!(counts.completed > 0 && counts.failed > 0, "{}", benched.told());
}

#[test]
fn max_errors_ends_a_run() {
    let engine = Engine::start("flat", "--error-rate 0.5");
    let flags = "--arrival constant:100/s --duration 30s --warm-up 0s --max-errors 10";
    let benched = bench(&context(), &engine.chat(), &format!("{flags} {TOKENS}"));
    assert_eq!(benched.code, Some(1), "an end by errors is no interrupt: {}", benched.told());
    assert!(benched.finding(FindingCode::TooManyErrors), "{}", benched.told());
    let failed: u64 = benched.document.errors.iter().map(|error| error.count).sum();
    assert!((10..100).contains(&failed), "{}", benched.told());
}

#[test]
fn a_password_is_asked_for() {
    let redis = server!(Kind::Redis);
    let set = |password: &str| {
        let stub_free = std::net::TcpStream::connect(redis.addr()).unwrap();
        let mut stream = stub_free;
        std::io::Write::write_all(&mut stream, format!("CONFIG SET requirepass {password}\r\n").as_bytes())
            .unwrap();
        let mut answer = [0; 5];
        std::io::Read::read_exact(&mut stream, &mut answer).unwrap();
        assert_eq!(&answer, b"+OK\r\n");
    };
    set("hunter2-hunter2");
    let target = format!("resp={}", redis.addr());
    let benched = bench(&context(), &target, &format!("{LOAD} --keys 10"));
    assert_eq!(benched.code, Some(1), "{}", benched.told());
    assert_eq!(benched.document.errors.len(), 1, "{}", benched.told());
    assert_eq!(benched.document.errors[0].origin, Origin::Scenario, "{}", benched.told());
    let with_password = context().variable("CACHE_PASSWORD", "hunter2-hunter2");
    let flags = format!("{LOAD} --keys 10 --api-key-env CACHE_PASSWORD");
    let benched = bench(&with_password, &target, &flags);
    assert_eq!(benched.document.counts.failed, 0, "{}", benched.told());
    assert_eq!(benched.document.counts.hits, benched.document.counts.lookups, "{}", benched.told());
}

/// Kills the target once the load is on, and says what became of the rest.
fn killed_mid_run(context: &TestContext, line: Vec<String>, after: Duration, kill: impl FnOnce()) -> Benched {
    let mut running = context.spawn(line).unwrap();
    running.wait_for(|text| text.contains("measured ").then_some(())).unwrap();
    std::thread::sleep(after);
    kill();
    let benched = Benched::of(context, running.finish().unwrap());
    let counts = &benched.document.counts;
    assert!(counts.completed > 0, "some came before: {}", benched.told());
    assert!(counts.failed > 0, "some came after: {}", benched.told());
    assert_eq!(counts.completed + counts.failed, counts.intended, "{}", benched.told());
    assert!(!benched.document.interrupted, "{}", benched.told());
    // Evidence against the target, whatever else the machine did to the run meanwhile.
    assert!(!benched.finding(FindingCode::OwnFailures), "{}", benched.told());
    assert!(!benched.finding(FindingCode::AllFailed), "{}", benched.told());
    let own = |code| matches!(code, FindingCode::GeneratorLate | FindingCode::TooManyErrors);
    let invalid = benched.document.findings.iter().filter(|one| one.severity == Severity::Invalid);
    assert!(invalid.clone().all(|one| own(one.code)), "{}", benched.told());
    assert_eq!(benched.document.valid, invalid.count() == 0, "{}", benched.told());
    assert!(benched.finding(FindingCode::TargetFailed) && benched.code == Some(1), "{}", benched.told());
    for error in &benched.document.errors {
        assert!(matches!(error.origin, Origin::Target | Origin::Network), "{}", benched.told());
    }
    benched
}

/// Into the measured window of [`LONG`].
const SOON: Duration = Duration::from_secs(1);
const LONG: &str = "--arrival constant:60/s --duration 5s --warm-up 200ms --drain 2s --seed 1";

#[test]
fn the_engine_is_killed_mid_run() {
    let engine = Engine::start("flat", "");
    let line = crate::harness::bench_line(&engine.chat(), &format!("{LONG} {TOKENS}"));
    let benched = killed_mid_run(&context(), line, SOON, || engine.kill());
    benched.error("refused");
}

#[test]
fn a_target_that_is_killed_late_has_failed_the_run_too() {
    let engine = Engine::start("flat", "");
    let line = crate::harness::bench_line(&engine.chat(), &format!("{LONG} {TOKENS}"));
    let benched = killed_mid_run(&context(), line, Duration::from_millis(3500), || engine.kill());
    let counts = &benched.document.counts;
    assert!(counts.completed > counts.failed, "most came before: {}", benched.told());
}

#[test]
fn llama_cpp_is_killed_mid_run() {
    let mut llama = server!(Kind::LlamaCpp);
    let target = format!("openai-completions={}", llama.base_url());
    let flags = LONG.replace("60/s", "10/s");
    let line = crate::harness::bench_line(&target, &format!("{flags} {TOKENS}"));
    let benched = killed_mid_run(&context(), line, SOON, || llama.kill().unwrap());
    benched.error("refused");
}

#[test]
fn redis_is_killed_mid_run() {
    let mut redis = server!(Kind::Redis);
    let line = crate::harness::bench_line(&format!("resp={}", redis.addr()), &format!("{LONG} --keys 100"));
    let benched = killed_mid_run(&context(), line, SOON, || redis.kill().unwrap());
    benched.error("refused");
}

#[test]
fn nats_is_killed_mid_run() {
    let mut nats = server!(Kind::Nats);
    let line = crate::harness::bench_line(&format!("nats={}", nats.addr()), LONG);
    killed_mid_run(&context(), line, SOON, || nats.kill().unwrap());
}

#[test]
fn redis_stands_still_for_a_while() {
    let redis = server!(Kind::Redis);
    let context = context();
    let flags = format!("{LONG} --keys 100 --connections 4 --timeout first=200ms,connect=200ms");
    let mut running =
        context.spawn(crate::harness::bench_line(&format!("resp={}", redis.addr()), &flags)).unwrap();
    running.wait_for(|text| text.contains("measured ").then_some(())).unwrap();
    redis.pause().unwrap();
    std::thread::sleep(Duration::from_millis(900));
    redis.resume().unwrap();
    let benched = Benched::of(&context, running.finish().unwrap());
    let document = &benched.document;
    assert!(document.errors.iter().any(|error| error.kind.starts_with("timeout-")), "{}", benched.told());
    // It serves again once it goes on: the last whole second has completions and no failures.
    let end = document.phases.measured_to_ns.saturating_sub(document.phases.start_ns) as f64 / 1e9;
    let late = document.windows.iter().filter(|window| window.from_s >= end - 1.0 && window.to_s <= end);
    let (completed, failed) = late.fold((0, 0), |sum, w| (sum.0 + w.completed, sum.1 + w.failed));
    assert!(completed > 0 && failed == 0, "{completed} {failed} {}", benched.told());
}
