//! `init` without a terminal: flags in, a file out that `check` reads, or the list of open questions.

use crate::context;

const INFERENCE: &[&str] = &[
    "init",
    "chat.yaml",
    "--family",
    "inference",
    "--arrival",
    "poisson:10/s",
    "--input-tokens",
    "128",
    "--output-tokens",
    "64",
    "--latency",
    "ttft.p99 <= 400ms",
    "--latency",
    "itl.p95 <= 50ms",
    "--throughput",
    "throughput >= 9/s",
    "--consistency",
    "none: any fluent: answer # will \"do\"",
    "--reliability",
    "error_rate <= 1%",
    "--peak-factor",
    "2",
    "--growth",
    "50%/year",
    "--horizon",
    "12 months",
    "--criterion",
    "ttft.p95:400ms..50ms",
    "--criterion",
    "output_token_throughput:100tokens/s..640tokens/s",
    "--candidate",
    "a=vllm:fp8@openai-chat=http://127.0.0.1:8000",
    "--candidate",
    "b=tgi@engine=tgi-like",
    "--repeats",
    "2",
    "--duration",
    "20s",
    "--description",
    "support: \"chat\"",
];

#[test]
fn flags_become_a_file_that_check_reads() {
    let context = context();
    let done = context.run(INFERENCE).unwrap();
    assert_eq!((done.code(), done.stdout.as_str()), (Some(0), ""), "{}", done.stderr);
    assert!(
        done.stderr.contains("wrote chat.yaml") && done.stderr.contains("touchstone check chat.yaml"),
        "{}",
        done.stderr
    );
    insta::assert_snapshot!(context.read("chat.yaml").unwrap());
    let done = context.run(["check", "chat.yaml", "--json"]).unwrap();
    assert_eq!(done.code(), Some(0), "{}", done.stderr);
    let value: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(value["dimensions"][2]["waived"], "any fluent: answer # will \"do\"");
    assert_eq!(value["candidates"]["measured"], 2);
    assert_eq!(value["measurement"]["duration_ms"], 20000.0);
    assert_eq!(value["criteria"][1]["place"], 2);
}

#[test]
fn queues_and_caches_leave_the_candidates_to_the_catalog() {
    let context = context();
    for arguments in [
        "init queue.yaml --family queue --arrival constant:1000/s --message-bytes 128 --latency end_to_end_latency.p99<=20ms \
         --throughput throughput>=900/s --consistency ordering>=per-key --reliability durability>=D3 --peak-factor 1.5 --growth 0%/year --horizon 2years",
        "init cache.yaml --family cache --arrival closed:8 --keys 1000 --value-bytes 1KiB --read-ratio 0.9 --latency e2e.p99<=5ms \
         --throughput throughput>=900/s --consistency staleness<=100ms --reliability none:~it~is~a~cache --peak-factor 1 --growth 0%/year --horizon 1years",
    ] {
        let words: Vec<String> = arguments.split_whitespace().map(|word| word.replace('~', " ")).collect();
        let done = context.run(&words).unwrap();
        assert_eq!(done.code(), Some(0), "{}", done.stderr);
        let done = context.run(["check", words[1].as_str(), "--json"]).unwrap();
        let value: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!(value["candidates"]["any"], true);
        assert!(value["candidates"]["matched"].as_u64().unwrap() > 1);
    }
}

#[test]
fn open_questions_are_listed_with_their_flags() {
    let context = context();
    let done = context.run(["init", "s.yaml", "--family", "cache", "--keys", "1000"]).unwrap();
    assert_eq!((done.code(), done.stdout.as_str()), (Some(2), ""));
    insta::assert_snapshot!(done.stderr);
    assert!(!context.path("s.yaml").exists());
}

#[test]
fn a_file_is_not_replaced_unless_asked_for() {
    let context = context();
    context.write("chat.yaml", "mine").unwrap();
    let done = context.run(INFERENCE).unwrap();
    assert_eq!(done.code(), Some(2));
    assert!(done.stderr.contains("--force"), "{}", done.stderr);
    assert_eq!(context.read("chat.yaml").unwrap(), "mine");
    let done = context.run(INFERENCE.iter().copied().chain(["--force"])).unwrap();
    assert_eq!(done.code(), Some(0), "{}", done.stderr);
    assert!(context.read("chat.yaml").unwrap().contains("touchstone.scenario/1"));
}

#[test]
fn answers_that_contradict_each_other_are_not_written() {
    let context = context();
    let with = |extra: &[&str]| context.run(INFERENCE.iter().chain(extra)).unwrap();
    for (extra, expected) in [
        (&["--candidate", "a=triton"][..], "two candidates are called `a`"),
        (&["--candidate", "c=nobody"], "the catalog has no product `nobody`"),
        (&["--keys", "5"], "`keys` belongs to cache workloads"),
        (&["--criterion", "ttft.p95:300ms..20ms"], "listed twice"),
        (&["--name", "a/b"], "is no name"),
    ] {
        let done = with(extra);
        assert_eq!((done.code(), done.stdout.as_str()), (Some(2), ""), "{extra:?}");
        assert!(done.stderr.contains(expected), "{extra:?}: {}", done.stderr);
        assert!(!context.path("chat.yaml").exists(), "{extra:?}");
    }
}
