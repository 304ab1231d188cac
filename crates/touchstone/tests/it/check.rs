//! `check` on good files and on everything that is none.

use touchstone_testkit::TestContext;

use crate::context;

const GOOD: &str = include_str!("../data/chat.yaml");

fn with_file(content: impl AsRef<[u8]>) -> TestContext {
    let context = context();
    context.write("s.yaml", content).unwrap();
    context
}

/// Standard error of a check that must be refused with code 2 and an empty standard output.
fn refused(content: impl AsRef<[u8]>) -> String {
    let done = with_file(content).run(["check", "s.yaml"]).unwrap();
    assert_eq!((done.code(), done.stdout.as_str()), (Some(2), ""), "{}", done.stderr);
    assert!(done.stderr.starts_with("error: "), "{}", done.stderr);
    done.stderr
}

fn changed(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replace(from, to)
}

#[test]
fn a_good_file_is_summarised() {
    let done = with_file(GOOD).run(["check", "s.yaml"]).unwrap();
    assert_eq!((done.code(), done.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!(done.stdout);
}

#[test]
fn the_summary_is_there_in_chinese() {
    let done = with_file(GOOD).run(["check", "s.yaml", "--lang", "zh"]).unwrap();
    assert_eq!((done.code(), done.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!(done.stdout);
}

#[test]
fn json_is_one_document() {
    let done = with_file(GOOD).run(["check", "s.yaml", "--json"]).unwrap();
    assert_eq!((done.code(), done.stderr.as_str()), (Some(0), ""));
    let value: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(value["format"], "touchstone.check/1");
    assert_eq!(value["peak_load"], "poisson:20/s");
    assert_eq!(value["measurement"]["runs"], 6);
    assert_eq!(value["samples"][0]["needs"], 299);
}

#[test]
fn words_instead_of_numbers_get_a_question_back() {
    let text = refused(changed("[ttft.p99 <= 400ms, itl.p95 <= 50ms]", "low"));
    assert!(text.contains("--> s.yaml:9:") && text.contains("`latency: low` is not quantified"), "{text}");
    assert!(text.contains("\nhint: which metric, which percentile, which bound?"), "{text}");
    let text = refused(changed("ttft.p99 <= 400ms", "ttft.p99 <= fast"));
    assert!(text.contains("`fast` is not a number") && text.contains("hint: a word is no bound"), "{text}");
    let text = refused(changed("[throughput >= 9/s]", "[high]"));
    assert!(text.contains("--> s.yaml:10:") && text.contains("hint: "), "{text}");
}

#[test]
fn unknown_units_and_negative_rates_are_refused_at_their_place() {
    let text = refused(changed("400ms, itl", "400fortnights, itl"));
    assert!(text.contains("the unit `fortnights`") && text.contains("--> s.yaml:9:"), "{text}");
    let text = refused(changed("ttft.p99 <= 400ms", "ttft.p99 <= 400"));
    assert!(text.contains("no unit"), "{text}");
    let text = refused(changed("poisson:10/s", "poisson:-10/s"));
    assert!(text.contains("must not be negative") && text.contains("--> s.yaml:5:"), "{text}");
    let text = refused(changed("duration: 10s", "duration: -10s"));
    assert!(text.contains("must not be negative"), "{text}");
}

#[test]
fn duplicate_and_unknown_keys_are_refused_at_their_place() {
    let text = refused(changed("name: chat\n", "name: chat\nname: talk\n"));
    assert!(text.contains("--> s.yaml:3:") && text.contains("name"), "{text}");
    let text = refused(changed("horizon: 12 months", "horizon: 12 months\nspeed: high"));
    assert!(text.contains("speed") && text.contains("--> s.yaml:22:"), "{text}");
}

#[test]
fn a_missing_dimension_is_asked_for() {
    let text = refused(changed("  throughput: [throughput >= 9/s]\n", ""));
    assert!(
        text.contains("throughput") && text.contains("how many operations or tokens per second"),
        "{text}"
    );
}

#[test]
fn every_contradiction_is_shown() {
    let text = refused(GOOD.replace("name: chat", "name: a/b").replace("peak_factor: 2", "peak_factor: 0.5"));
    assert_eq!(text.matches("error: ").count(), 2, "{text}");
}

#[test]
fn an_unknown_product_names_its_neighbour() {
    let text = refused(changed("product: vllm", "product: vlm"));
    assert!(text.contains("did you mean `vllm`?"), "{text}");
}

#[test]
fn large_files_are_refused_before_they_are_read() {
    let mut large = GOOD.as_bytes().to_vec();
    large.resize(10 << 20, b'#');
    let text = refused(large);
    assert!(
        text.contains("too large") && text.contains("10485760 bytes") && text.contains("hint: "),
        "{text}"
    );
}

#[test]
fn what_is_no_text_is_refused() {
    let text = refused(b"format: touchstone.scenario/1\nname: \xff\xfe\n");
    assert!(text.contains("--> s.yaml:2:7") && text.contains("not UTF-8"), "{text}");
    let text = refused("format: [\n");
    assert!(text.contains("--> s.yaml:"), "{text}");
    refused("");
    refused(b"\0\0\0\0");
    refused("a: &a [*a, *a]\n");
}

#[test]
fn a_missing_file_and_a_folder_are_named() {
    let context = context();
    context.write("folder/s.yaml", GOOD).unwrap();
    let done = context.run(["check", "none.yaml"]).unwrap();
    assert_eq!((done.code(), done.stdout.as_str()), (Some(2), ""));
    insta::assert_snapshot!(done.stderr, @"
    error: cannot read `none.yaml`
      because: No such file or directory (os error 2)
    hint: `touchstone init none.yaml` writes a scenario file; examples are in scenarios/
    ");
    let done = context.run(["check", "folder"]).unwrap();
    assert_eq!((done.code(), done.stdout.as_str()), (Some(2), ""));
    insta::assert_snapshot!(done.stderr, @"
    error: `folder` is a folder, not a scenario file
    hint: name a file in it, as in `folder/scenario.yaml`
    ");
}
