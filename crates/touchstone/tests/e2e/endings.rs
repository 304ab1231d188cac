//! Runs that end before their time, and runs whose generator fell behind.

use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use touchstone_model::FindingCode;
use touchstone_testkit::{Finished, Running, TestContext};

use crate::harness::{Benched, Engine, bench, bench_line, context, run, run_dir};

const TOKENS: &str = "--input-tokens 8 --output-tokens 4";

/// A bench of half a minute against an engine, with its load on.
fn long_bench(context: &TestContext, engine: &Engine, flags: &str) -> Running {
    let line = bench_line(&engine.chat(), &format!("--duration 30s --warm-up 200ms {TOKENS} {flags}"));
    let running = context.spawn(line).unwrap();
    engine.wait_received(60);
    running
}

fn finish(context: &TestContext, running: Running) -> Benched {
    Benched::of(context, running.finish().unwrap())
}

#[test]
fn ctrl_c_ends_the_load_and_still_reports() {
    let engine = Engine::start("flat", "");
    let context = context().limit(Duration::from_secs(25));
    let running = long_bench(&context, &engine, "--arrival constant:100/s --seed 4");
    running.interrupt().unwrap();
    let benched = finish(&context, running);
    let document = &benched.document;
    assert_eq!(benched.code, Some(130), "{}", benched.told());
    assert!(document.interrupted && benched.finding(FindingCode::Interrupted), "{}", benched.told());
    assert!(document.errors.is_empty(), "what was in flight was drained: {}", benched.told());
    assert_eq!(document.counts.completed, document.counts.intended, "{}", benched.told());
    assert!(document.counts.intended > 0, "{}", benched.told());
    // Rates are over the window as it was, not as it was planned.
    let seconds = document.phases.measured_seconds();
    assert!(seconds < 25.0, "{seconds}");
    let throughput = document.counts.completed as f64 / seconds;
    assert!(
        (document.rates.throughput.unwrap() - throughput).abs() < 0.1 * throughput,
        "{:?}",
        document.rates
    );
    assert!(run_dir(&context, &document.run).join("report.html").exists());
    // The same for a person: the summary says that it is no whole run.
    let shown = run(&context, &format!("runs show {}", document.run));
    assert!(shown.stdout.contains("interrupted"), "{}", shown.stdout);
}

#[test]
fn ctrl_c_within_warm_up_reports_that_nothing_was_measured() {
    let engine = Engine::start("flat", "");
    let context = context().limit(Duration::from_secs(25));
    let flags = format!("--arrival constant:100/s --duration 5s --warm-up 30s {TOKENS}");
    let running = context.spawn(bench_line(&engine.chat(), &flags)).unwrap();
    engine.wait_received(20);
    running.interrupt().unwrap();
    let benched = finish(&context, running);
    assert_eq!(benched.code, Some(130), "{}", benched.told());
    assert_eq!(benched.document.counts.intended, 0, "{}", benched.told());
    assert!(!benched.document.valid, "{}", benched.told());
    assert!(benched.finding(FindingCode::NoMeasuredOperations), "{}", benched.told());
}

#[test]
fn a_second_ctrl_c_ends_the_drain() {
    // Every stream stops after its first token and for ever, so that only the second one can end the drain.
    let engine = Engine::start("flat", "--stall 1:1");
    let context = context().limit(Duration::from_secs(25));
    let patient = "--drain 60s --timeout idle=60s";
    let mut running = long_bench(&context, &engine, &format!("--arrival constant:100/s {patient}"));
    running.interrupt().unwrap();
    running.wait_for(|text| text.contains("the load has ended").then_some(())).unwrap();
    running.interrupt().unwrap();
    let benched = finish(&context, running);
    assert_eq!(benched.code, Some(130), "{}", benched.told());
    let counts = &benched.document.counts;
    assert!(counts.censored > 0 && counts.censored == counts.intended, "{}", benched.told());
}

#[test]
fn ctrl_c_ends_a_closed_loop_and_a_run_against_a_silent_target() {
    let engine = Engine::start("flat", "");
    let context = context().limit(Duration::from_secs(25));
    let running = long_bench(&context, &engine, "--arrival closed:4");
    running.interrupt().unwrap();
    let benched = finish(&context, running);
    assert_eq!(benched.code, Some(130), "{}", benched.told());
    assert_eq!(benched.document.counts.completed, benched.document.counts.intended, "{}", benched.told());

    let stub = touchstone_testkit::TcpStub::hanging().unwrap();
    let flags = "--arrival constant:20/s --duration 30s --drain 1s --timeout connect=500ms,first=60s";
    let target = format!("openai-chat=http://{}", stub.addr());
    let mut running = context.spawn(bench_line(&target, flags)).unwrap();
    running.wait_for(|text| text.contains("warm-up").then_some(())).unwrap();
    running.interrupt().unwrap();
    assert_eq!(finish(&context, running).code, Some(130));
}

/// `runs ... --json` as a value.
fn runs(context: &TestContext, what: &str) -> Value {
    let done = run(context, &format!("runs {what} --json"));
    assert_eq!(done.code(), Some(0), "{}", done.snapshot());
    serde_json::from_str(&done.stdout).unwrap()
}

#[test]
fn kill_9_loses_at_most_a_second_and_only_of_its_own_run() {
    const RATE: u64 = 200;
    let engine = Engine::start("flat", "");
    let context = context();
    let short = "--arrival constant:50/s --duration 500ms --warm-up 100ms --input-tokens 8 --output-tokens 4";
    let before = bench(&context, &engine.chat(), short);

    let start = engine.received();
    let flags = format!("--arrival constant:{RATE}/s --duration 60s --warm-up 0s {TOKENS}");
    let running = context.spawn(bench_line(&engine.chat(), &flags)).unwrap();
    engine.wait_received(start + 3 * RATE);
    let alive = runs(&context, "list");
    assert_eq!(alive["runs"][0]["state"], "running", "{alive}");
    running.kill().unwrap();
    let done: Finished = running.finish().unwrap();
    assert_eq!((done.code(), done.timed_out), (None, false));
    let sent = engine.received() - start;

    let list = runs(&context, "list");
    assert_eq!(list["runs"].as_array().unwrap().len(), 2, "{list}");
    assert_eq!(list["runs"][0]["state"], "incomplete", "{list}");
    assert_eq!(list["runs"][0]["level"], "E", "{list}");
    assert_eq!(list["runs"][1]["run"], before.document.run.as_str());
    assert_eq!(list["runs"][1]["state"], "complete", "{list}");
    let shown = runs(&context, "show latest");
    assert_eq!(shown["state"], "incomplete", "{shown}");
    let kept = shown["operations"].as_u64().unwrap();
    assert!(kept <= sent && kept + RATE + RATE / 4 >= sent, "{kept} of {sent} are left");
    assert!(shown["metrics"]["ttft"]["p50"].as_f64().unwrap() > 0.0, "{shown}");
    let text = run(&context, "runs show latest");
    assert!(text.stdout.contains("INCOMPLETE") && text.stdout.contains("SIMULATED"), "{}", text.stdout);
    let verified = run(&context, &format!("runs verify {}", before.document.run));
    assert_eq!(verified.code(), Some(0), "{}", verified.snapshot());
    let incomplete = run(&context, &format!("runs verify {}", list["runs"][0]["run"].as_str().unwrap()));
    assert_eq!(incomplete.code(), Some(4), "{}", incomplete.snapshot());
    // The next run is as good as any.
    let after = bench(&context, &engine.chat(), short);
    assert_eq!(after.document.counts.failed, 0, "{}", after.told());
}

#[test]
fn a_generator_that_fell_behind_makes_no_valid_run() {
    let engine = Engine::start("flat", "");
    let context = context();
    let flags =
        format!("--arrival constant:200/s --duration 4s --warm-up 200ms --drain 3s {TOKENS} --seed 2");
    let start = engine.received();
    let running = context.spawn(bench_line(&engine.chat(), &flags)).unwrap();
    engine.wait_received(start + 100);
    let pid = Pid::from_raw(i32::try_from(running.pid()).unwrap());
    for _ in 0..4 {
        kill(pid, Signal::SIGSTOP).unwrap();
        sleep(Duration::from_millis(300));
        kill(pid, Signal::SIGCONT).unwrap();
        sleep(Duration::from_millis(200));
    }
    let benched = finish(&context, running);
    let document = &benched.document;
    assert!(!document.valid && benched.finding(FindingCode::GeneratorLate), "{}", benched.told());
    assert_eq!(benched.code, Some(1), "{}", benched.told());
    assert_eq!(document.counts.failed, 0, "the target answered all: {}", benched.told());
    let late = document.generator.scheduling_error_ms.unwrap();
    assert!(late.max > 200.0, "{late:?}");
    assert!(benched.stderr.contains("invalid"), "{}", benched.stderr);
}

/// The processes that a command has started.
fn children(pid: u32) -> Vec<Pid> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    text.split_whitespace().map(|word| Pid::from_raw(word.parse().unwrap())).collect()
}

#[test]
fn ctrl_c_at_a_terminal_leaves_the_engine_until_the_drain_is_over() {
    let context = context().limit(Duration::from_secs(40));
    let flags = format!("--arrival constant:60/s --duration 30s --warm-up 100ms {TOKENS}");
    let mut running = context.spawn(bench_line("engine=flat", &flags)).unwrap();
    running.wait_for(|text| text.contains("measured ").then_some(())).unwrap();
    let engines = children(running.pid());
    assert_eq!(engines.len(), 1);
    let group = |pid: Pid| nix::unistd::getpgid(Some(pid)).unwrap();
    let own = Pid::from_raw(i32::try_from(running.pid()).unwrap());
    assert_ne!(group(engines[0]), group(own), "a terminal interrupts its whole foreground group");
    kill(engines[0], Signal::SIGINT).unwrap();
    sleep(Duration::from_millis(200));
    running.interrupt().unwrap();
    let benched = finish(&context, running);
    assert_eq!(benched.code, Some(130), "{}", benched.told());
    assert!(benched.document.errors.is_empty(), "{}", benched.told());
    assert_eq!(kill(engines[0], None), Err(nix::errno::Errno::ESRCH), "it ends with the run");
}

#[test]
fn an_engine_does_not_outlive_the_command_that_launched_it() {
    let context = context();
    let flags = format!("--arrival constant:60/s --duration 30s --warm-up 100ms {TOKENS}");
    let mut running = context.spawn(bench_line("engine=flat", &flags)).unwrap();
    running.wait_for(|text| text.contains("measured ").then_some(())).unwrap();
    let listed = runs(&context, "list");
    let target = listed["runs"][0]["target"].as_str().unwrap().to_owned();
    let address = target.split("://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    assert!(std::net::TcpStream::connect(&address).is_ok(), "{address}");
    running.kill().unwrap();
    drop(running.finish().unwrap());
    // Bounded by far more than the engine needs to see that its standard input has closed.
    for _ in 0..400 {
        if std::net::TcpStream::connect(&address).is_err() {
            return;
        }
        sleep(Duration::from_millis(50));
    }
    panic!("the engine at {address} lives on");
}
