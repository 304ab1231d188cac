use super::*;
use crate::fixtures;
use touchstone_model::decision::Status;

fn style() -> Style {
    Style { width: 140, ..Style::default() }
}

#[test]
fn summaries_are_what_they_were() {
    insta::assert_snapshot!("run_summary", run_summary(&fixtures::run(), &style()));
    let narrow = Style { width: 80, unicode: false, ..style() };
    insta::assert_snapshot!("run_summary_narrow_ascii", run_summary(&fixtures::run(), &narrow));
    insta::assert_snapshot!(
        "run_summary_zh",
        run_summary(&fixtures::run(), &Style { lang: Lang::Zh, ..style() })
    );
    insta::assert_snapshot!("run_summary_failed", run_summary(&fixtures::failed_run(), &style()));
    insta::assert_snapshot!("run_summary_huge", run_summary(&fixtures::huge_run(), &style()));
}

#[test]
fn decisions_are_what_they_were() {
    let style = Style { width: 100, ..style() };
    insta::assert_snapshot!("decision", decision(&fixtures::decision(), &style));
    insta::assert_snapshot!(
        "decision_zh",
        decision(&fixtures::decision(), &Style { lang: Lang::Zh, ..style })
    );
    insta::assert_snapshot!(
        "decision_empty_ascii",
        decision(&fixtures::empty_decision(), &Style { unicode: false, ..style })
    );
}

#[test]
fn matches_are_what_they_were() {
    let rows: Vec<MatchRow> = fixtures::decision()
        .candidates
        .into_iter()
        .map(|candidate| MatchRow {
            vetoed: candidate.status == Status::Vetoed,
            recommendations: if candidate.name == "paged-fast" {
                vec![("high concurrency".into(), "paged KV cache and continuous batching".into())]
            } else {
                Vec::new()
            },
            name: candidate.name,
            product: candidate.product,
            configuration: candidate.configuration,
            durability: Some("D3".into()),
            delivery: None,
            gates: candidate.gates,
        })
        .collect();
    insta::assert_snapshot!("match", match_table(&rows, &Style { width: 100, ..style() }));
    insta::assert_snapshot!("match_zh", match_table(&rows, &Style { width: 100, lang: Lang::Zh, ..style() }));
}

#[test]
fn the_first_line_carries_the_marks() {
    let first = |run| run_summary(&run, &style()).lines().next().map(str::to_owned).unwrap_or_default();
    assert!(first(fixtures::run()).starts_with("SIMULATED  run "));
    assert!(first(fixtures::failed_run()).starts_with("INVALID INTERRUPTED  run "));
    let mut all = fixtures::failed_run();
    all.simulated = true;
    assert!(first(all).starts_with("SIMULATED INVALID INTERRUPTED"));
}

#[test]
fn colour_only_repeats_what_the_words_say() {
    let strip = |text: &str| {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("\u{1b}[") {
            out.push_str(&rest[..at]);
            let end = rest[at..].find('m').unwrap();
            rest = &rest[at + end + 1..];
        }
        out + rest
    };
    let colored = Style { color: true, ..style() };
    for run in [fixtures::run(), fixtures::failed_run()] {
        let with = run_summary(&run, &colored);
        assert!(with.contains("\u{1b}["));
        assert_eq!(strip(&with), run_summary(&run, &style()));
    }
    let with = decision(&fixtures::decision(), &colored);
    assert_eq!(strip(&with), decision(&fixtures::decision(), &style()));
}

#[test]
fn ascii_is_ascii_and_nothing_escapes() {
    let plain = Style { unicode: false, width: 72, ..style() };
    for run in [fixtures::run(), fixtures::failed_run(), fixtures::huge_run()] {
        let text = run_summary(&run, &plain);
        assert!(text.is_ascii(), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains("NaN") && !text.contains(" inf"), "{text}");
    }
    assert!(decision(&fixtures::decision(), &plain).is_ascii());
}
