//! Command lines in, requests out.

use touchstone_model::Arrival;
use touchstone_model::unit::Millis;

use super::*;

fn parsed(line: &str) -> Command {
    match parse(words(line)) {
        Ok(request) => request.command,
        Err(stop) => panic!("{line}: {stop:?}"),
    }
}

fn refused(line: &str) -> String {
    match parse(words(line)) {
        Ok(request) => panic!("{line} was understood: {request:?}"),
        Err(Stop::Clap(error)) => {
            assert_eq!(error.exit_code(), 2, "{line}");
            error.to_string()
        }
        Err(Stop::Failure(_, failure)) => format!("{failure}\n{}", failure.hints().join("\n")),
    }
}

/// Words by spaces; `_` stands for a space inside a word.
fn words(line: &str) -> Vec<String> {
    let words = line.split_whitespace().map(|word| word.replace('~', " "));
    std::iter::once("touchstone".to_owned()).chain(words).collect()
}

fn bench(line: &str) -> BenchArgs {
    match parsed(&format!("bench {line}")) {
        Command::Bench(args) => *args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn clap_finds_no_contradiction_in_the_definition() {
    definition().debug_assert();
}

#[test]
fn the_spellings_of_the_contract_are_understood() {
    for line in [
        "demo --out d",
        "init s.yaml",
        "check s.yaml",
        "match s.yaml",
        "run s.yaml",
        "decide s.yaml",
        "explain decisions/1",
        "explain decisions/1 S2",
        "bench --target openai-chat=http://127.0.0.1:8000 --model M --arrival poisson:50/s --duration 10s --warm-up 2s --input-tokens 128 --output-tokens 64 --seed 7 --json -",
        "bench --target resp=127.0.0.1:6379 --arrival constant:50000/s --duration 10s --read-ratio 0.9 --keys 100000 --value-bytes 64 --pipeline 1 --connections 50 --json -",
        "bench --target nats=127.0.0.1:4222 --arrival constant:100000/s --duration 10s --message-bytes 128 --json -",
        "bench --target nats=127.0.0.1:4222 --slo end_to_end_latency.p99<=5ms --slo lost<=0 --timeout connect=5s,first=60s,idle=30s,total=600s --max-in-flight 9 --drain 30s --max-errors 5",
        "bench --target openai-chat=http://127.0.0.1 --arrival closed:64 --requests 500",
        "engine --profile vllm-like --port 8000",
        "engine --list-profiles",
        "runs list",
        "runs show latest --json",
        "runs verify R",
        "doctor",
        "doctor --json",
        "check s.yaml --quiet --no-color --lang zh --out d",
        "--quiet check s.yaml",
        "completions bash",
        "man",
    ] {
        parsed(line);
    }
}

#[test]
fn a_search_knows_what_it_can_look_for() {
    let search = |line: &str| match parsed(&format!("search --target engine=flat {line}")) {
        Command::Search(args) => *args,
        other => panic!("{other:?}"),
    };
    let plain = search("");
    assert_eq!(plain.plan.goals, [touchstone_load::search::Goal::Saturation]);
    assert_eq!((plain.plan.from, plain.plan.whole, plain.budget), (1.0, false, None));
    assert_eq!(search("--slo ttft.p95<=200ms --arrival constant:5/s").plan.goals.len(), 2);
    let closed = search("--arrival closed:64");
    assert_eq!((closed.plan.from, closed.plan.at_most, closed.plan.whole), (1.0, 64.0, true));
    assert_eq!(search("--find spike-threshold --at-most 8").plan.at_most, 8.0);
    let refused = |line: &str| refused(&format!("search {line}"));
    assert!(refused("--target engine=flat --find slo-capacity").contains("--slo"));
    assert!(refused("--target engine=flat --find saturation-point --arrival closed:4").contains("open loop"));
    assert!(refused("--target engine=flat --requests 5").contains("--duration"));
    assert!(
        refused("--target engine=flat --arrival poisson:50/s --at-most 10").contains("below the first level")
    );
    let remote = "--target resp=10.1.2.3 --arrival poisson:5/s --duration 5s";
    assert!(refused(remote).contains("--at-most"));
    parsed(&format!("search {remote} --at-most 100"));
}

#[test]
fn a_bench_has_defaults() {
    let args = bench("--target resp=127.0.0.1");
    assert_eq!(args.arrival, Arrival::Closed { slots: 1 });
    assert_eq!((args.warm_up, args.duration, args.drain), (Millis(2e3), Some(Millis(10e3)), Millis(30e3)));
    assert_eq!((args.confidence, args.seed, args.fail_on), (0.95, None, None));
    assert!(args.record && args.ceiling && args.json.is_none());
    assert_eq!(args.out, Folder(".".into()));
    let cache = BenchWorkload::Cache { read_ratio: 0.9, keys: 100_000, value_bytes: 64, pipeline: 1 };
    assert_eq!(args.workload, cache);
}

#[test]
fn requests_end_a_bench_without_a_warm_up_unless_asked_for() {
    let args = bench("--target resp=127.0.0.1 --requests 10");
    assert_eq!((args.warm_up, args.duration), (Millis(0.0), Some(Millis(600e3))));
    let args = bench("--target resp=127.0.0.1 --requests 10 --warm-up 1s --duration 5s");
    assert_eq!((args.warm_up, args.duration), (Millis(1e3), Some(Millis(5e3))));
    let plan = args.plan(7, 3);
    assert_eq!((plan.seed, plan.shards, plan.requests), (7, 3, Some(10)));
    assert_eq!((plan.warm_up_ns, plan.duration_ns), (1_000_000_000, 5_000_000_000));
}

#[test]
fn a_target_elsewhere_needs_a_stated_load() {
    let target = "bench --target resp=10.1.2.3";
    let text = refused(target);
    assert!(
        text.contains("10.1.2.3:6379") && text.contains("--arrival") && text.contains("--requests"),
        "{text}"
    );
    assert!(refused(&format!("{target} --duration 5s")).contains("--arrival"));
    assert!(refused(&format!("{target} --arrival closed:1")).contains("--duration"));
    parsed(&format!("{target} --arrival closed:1 --duration 5s"));
    parsed(&format!("{target} --arrival closed:1 --requests 5"));
}

#[test]
fn flags_that_would_mean_nothing_are_refused() {
    assert!(
        refused("bench --target resp=127.0.0.1 --model m").contains("`--model` is for inference targets")
    );
    assert!(refused("bench --target nats=127.0.0.1 --keys 5").contains("`--keys` is for cache targets"));
    assert!(refused("bench --target engine=vllm-like --message-bytes 5").contains("for queue targets"));
    assert!(refused("bench --target resp=127.0.0.1 --ca-file ca.pem").contains("speaks no TLS"));
    assert!(
        refused("bench --target resp=127.0.0.1 --arrival closed:9 --max-in-flight 8").contains("closed:9")
    );
}

#[test]
fn values_that_cannot_be_are_refused_with_what_was_expected() {
    let target = "bench --target resp=127.0.0.1";
    for (flag, expected) in [
        ("--arrival poisson:fast", "is not a number"),
        ("--arrival poisson:-5/s", "must not be negative"),
        ("--arrival burst:5", "unknown arrival process"),
        ("--duration long", "a duration such as"),
        ("--duration 10", "no unit"),
        ("--slo ttft<=5ms", "which statistic"),
        ("--slo durability>=D3", "touchstone match"),
        ("--confidence 1.5", "out of range"),
        ("--timeout forever=1s", "unknown time limit"),
        ("--connections 0", "0 is not in"),
        ("--shards 0", "0 is not in"),
        ("--fail-on loud", "possible values"),
        ("--nonsense", "unexpected argument"),
    ] {
        let text = refused(&format!("{target} {flag}"));
        assert!(text.contains(expected), "{flag}: {text}");
    }
    assert!(refused("bench").contains("--target"));
    assert!(refused("bench --target http://h").contains("names no protocol"));
    assert!(refused("bench --target openai-chat=http://user:pw@h").contains("credentials"));
}

#[test]
fn secrets_are_read_and_never_repeated() {
    for flag in ["--header sk-secret", "--header a~b:sk-secret", "--api-key-env sk-secret"] {
        let text = refused(&format!("bench --target openai-chat=http://127.0.0.1 {flag}"));
        assert!(!text.contains("sk-secret") && text.contains("expected"), "{text}");
    }
    let args =
        bench("--target openai-chat=http://127.0.0.1 --header Authorization:~Bearer~x --api-key-env KEY");
    assert_eq!(args.api_key_env.as_deref(), Some("KEY"));
    let BenchWorkload::Inference { headers, .. } = args.workload else { panic!() };
    assert_eq!(headers, [("Authorization".to_owned(), "Bearer x".to_owned())]);
}

#[test]
fn json_goes_to_standard_output_when_no_path_is_named() {
    for (line, expected) in [
        ("--json", Sink::Stdout),
        ("--json -", Sink::Stdout),
        ("--json run.json", Sink::File("run.json".into())),
    ] {
        assert_eq!(bench(&format!("--target resp=127.0.0.1 {line}")).json, Some(expected), "{line}");
    }
}

#[test]
fn an_engine_has_its_faults() {
    let line = "engine --profile vllm-like --port 9 --seed 3 --error-rate 1% --stall 2%:3:1s --reject-when-waiting 4:503 --slow-headers 5ms --drop-done";
    let Command::Engine(EngineArgs::Serve { config, .. }) = parsed(line) else { panic!() };
    assert_eq!((config.port, config.seed, config.faults.error_rate), (9, 3, 0.01));
    assert!(config.host.is_loopback() && config.faults.drop_done);
    assert_eq!(config.faults.reject_when_waiting.unwrap().status, 503);
    assert!(refused("engine --profile nobody").contains("vllm-like"));
    assert!(refused("engine").contains("--profile"));
    assert!(matches!(parsed("engine --list-profiles"), Command::Engine(EngineArgs::ListProfiles)));
}

#[test]
fn init_sorts_answers_by_dimension() {
    let text = refused("init s.yaml --latency error_rate<=1%");
    assert!(text.contains("belongs to reliability") && text.contains("--reliability"), "{text}");
    assert!(refused("init s.yaml --latency none:~no --latency ttft.p99<=1s").contains("both"));
    assert!(refused("init s.yaml --peak-factor 0.5").contains("at least 1"));
    assert!(refused("init s.yaml --latency low").contains("no requirement"));
    assert!(refused("init s.yaml --latency none").contains("needs a reason"));
    let line = "init s.yaml --latency ttft.p99<=1s --latency itl.p95<=50ms --consistency none:~no~need";
    let Command::Init(args) = parsed(line) else { panic!() };
    assert!(matches!(&args.demands[0], Some(DemandAnswer::Require(list)) if list.len() == 2));
    assert_eq!(args.demands[2], Some(DemandAnswer::None("no need".to_owned())));
}
