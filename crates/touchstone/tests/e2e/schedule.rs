//! One seed, one schedule; and the ways to say how much load there is.

use touchstone_model::RunDocument;

use crate::harness::{Engine, bench, context, run};

#[test]
fn a_seed_gives_one_schedule_whatever_the_shards() {
    let engine = Engine::start("flat", "");
    let context = context();
    let schedule = |flags: &str| {
        let load = "--duration 700ms --warm-up 100ms --input-tokens 4 --output-tokens 2";
        let benched = bench(&context, &engine.chat(), &format!("{load} {flags}"));
        let document = benched.document;
        (document.workload.schedule_digest, document.counts.intended, document.counts.warm_up)
    };
    let first = schedule("--arrival poisson:80/s --seed 11 --shards 1");
    assert!(first.0.starts_with("sha256:") && first.1 > 10, "{first:?}");
    assert_eq!(schedule("--arrival poisson:80/s --seed 11 --shards 1"), first);
    assert_eq!(schedule("--arrival poisson:80/s --seed 11 --shards 3"), first);
    assert_ne!(schedule("--arrival poisson:80/s --seed 12 --shards 1").0, first.0);
    assert_ne!(schedule("--arrival constant:80/s --seed 11 --shards 1").0, first.0);
}

#[test]
fn without_a_seed_the_run_says_which_it_took() {
    let engine = Engine::start("flat", "");
    let context = context();
    let flags = "--arrival constant:20/s --duration 300ms --warm-up 0s --input-tokens 4 --output-tokens 2";
    let first = bench(&context, &engine.chat(), flags);
    let second = bench(&context, &engine.chat(), flags);
    let seed = |document: &RunDocument| document.workload.seed;
    assert_ne!(seed(&first.document), seed(&second.document));
    assert!(first.stderr.contains(&format!("seed {}", seed(&first.document))), "{}", first.stderr);
}

#[test]
fn requests_end_the_run_exactly() {
    let engine = Engine::start("flat", "");
    let context = context();
    let payload = "--input-tokens 4 --output-tokens 3";
    for arrival in ["constant:100/s", "poisson:200/s", "closed:4"] {
        for shards in [1, 2] {
            let flags = format!("--requests 37 --arrival {arrival} --shards {shards} {payload}");
            let benched = bench(&context, &engine.chat(), &flags);
            let counts = &benched.document.counts;
            assert_eq!((counts.intended, counts.completed), (37, 37), "{flags}: {}", benched.told());
            assert_eq!((counts.warm_up, counts.output_tokens), (0, Some(111)), "{flags}");
        }
    }
    assert_eq!(engine.received(), 6 * 37);
}

#[test]
fn a_closed_loop_holds_its_number_in_flight() {
    let engine = Engine::start("flat", "");
    let context = context();
    let flags = "--arrival closed:64 --duration 1s --warm-up 200ms --input-tokens 4 --output-tokens 8";
    let benched = bench(&context, &engine.chat(), flags);
    let document = &benched.document;
    assert_eq!(document.counts.failed, 0, "{}", benched.told());
    assert_eq!(document.rates.offered, None);
    assert!(benched.json["rates"]["offered"].is_null());
    assert!(document.windows.iter().all(|window| window.in_flight <= 64), "{:?}", document.windows);
    assert!(document.windows.iter().any(|window| window.in_flight > 32), "{:?}", document.windows);
    assert_eq!(document.counts.connections, 64, "{}", benched.told());
}

#[test]
fn max_in_flight_makes_operations_wait_and_says_so() {
    let engine = Engine::start("flat", "");
    let context = context();
    let flags = "--arrival constant:200/s --duration 1s --warm-up 100ms --input-tokens 4 --output-tokens 8 \
                 --max-in-flight 2 --shards 1";
    let benched = bench(&context, &engine.chat(), flags);
    assert_eq!(benched.document.counts.connections, 2, "{}", benched.told());
    assert_eq!(benched.document.counts.completed, benched.document.counts.intended, "{}", benched.told());
    assert!(benched.finding(touchstone_model::FindingCode::InFlightLimit), "{}", benched.told());
}

#[test]
fn more_shards_than_connections_open_no_further_ones() {
    let engine = Engine::start("flat", "");
    let context = context();
    let load = "--arrival constant:100/s --duration 500ms --warm-up 0s --input-tokens 4 --output-tokens 8";
    for flags in ["--connections 2 --shards 5", "--max-in-flight 2 --shards 5"] {
        let benched = bench(&context, &engine.chat(), &format!("{load} {flags}"));
        assert_eq!(benched.document.counts.completed, 50, "{}", benched.told());
        assert!(benched.document.counts.connections <= 2, "{flags}: {}", benched.told());
    }
}

#[test]
fn a_target_elsewhere_needs_a_stated_load() {
    let context = context();
    let remote = "openai-chat=http://192.0.2.1:8000";
    for (flags, missing) in [
        ("", "--arrival"),
        ("--arrival constant:1/s", "--duration"),
        ("--duration 1s", "--arrival"),
        ("--requests 5", "--arrival"),
    ] {
        let done = run(&context, &format!("bench --target {remote} {flags} --json -"));
        assert_eq!((done.code(), done.stdout.as_str()), (Some(2), ""), "{}", done.snapshot());
        assert!(done.stderr.contains(missing) && done.stderr.contains("hint:"), "{}", done.stderr);
    }
    assert!(!context.path(".touchstone").exists(), "nothing was tried");
}

#[test]
fn slos_are_judged_by_their_bounds_and_decide_the_exit_code() {
    let engine = Engine::start("flat", "");
    let context = context();
    let load = "--arrival constant:100/s --duration 1s --warm-up 100ms --input-tokens 4 --output-tokens 2";
    for (slo, outcome, code) in [
        ("ttft.p50<=10s", "pass", 0),
        ("ttft.p50<=1us", "fail", 3),
        // 100 operations cannot show a p999 of any kind.
        ("ttft.p999<=10s", "undetermined", 3),
        ("throughput>=10/s", "pass", 0),
    ] {
        let benched = bench(&context, &engine.chat(), &format!("{load} --slo {slo}"));
        assert_eq!(benched.json["slo"][0]["outcome"], outcome, "{slo}: {:?}", benched.json["slo"]);
        if benched.document.valid {
            assert_eq!(benched.code, Some(code), "{slo}: {}", benched.told());
        }
    }
    let benched = bench(&context, &engine.chat(), &format!("{load} --fail-on note"));
    assert!(!benched.document.valid || benched.code == Some(3), "{}", benched.told());
}
