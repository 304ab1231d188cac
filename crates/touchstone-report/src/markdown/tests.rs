use super::*;
use crate::fixtures;

#[test]
fn every_id_resolves_and_every_statement_is_cited() {
    for lang in [Lang::En, Lang::Zh] {
        for document in [fixtures::decision(), fixtures::empty_decision()] {
            let record = record(&document, lang);
            let mut cited = statement_ids(&record);
            cited.sort();
            let known: Vec<String> =
                document.statements.iter().map(|statement| statement.id.clone()).collect();
            assert_eq!(cited, known);
            // Each has its place in the body, not only in the list at the end.
            let body = record.split("More Information").next().unwrap();
            let mut placed = statement_ids(body);
            placed.sort();
            assert_eq!(placed, known, "{body}");
        }
    }
}

#[test]
fn ids_are_read_out_of_text() {
    assert_eq!(
        statement_ids("a [s3]. b [s12] [s3] \\[s4] [s] [sx] [t1] `[s6]` `` ` [s7] `` [s8] [s5"),
        ["s3", "s12", "s8"]
    );
    assert_eq!(statement_ids("---\nx: \"[s1]\"\n---\n[s2]"), ["s2"]);
}

#[test]
fn what_has_no_statement_is_not_said() {
    let mut document = fixtures::decision();
    document.statements.clear();
    let record = record(&document, Lang::En);
    assert!(statement_ids(&record).is_empty());
    assert!(
        !record.contains("412 ms") && !record.contains("because") && !record.contains("wins against"),
        "{record}"
    );
    assert!(record.contains("Chosen option: \"paged-fast\"."));
}

#[test]
fn the_status_follows_the_verdict_and_the_evidence() {
    let mut document = fixtures::decision();
    let status = |document: &DecisionDocument| record(document, Lang::En).lines().nth(1).map(str::to_owned);
    assert_eq!(status(&document).as_deref(), Some("status: proposed"));
    document.verdict.word = Word::Clear;
    assert_eq!(
        status(&document).as_deref(),
        Some("status: proposed"),
        "what is simulated is never accepted by itself"
    );
    document.simulated = false;
    assert_eq!(status(&document).as_deref(), Some("status: accepted"));
}

#[test]
fn text_from_outside_stays_text() {
    let mut document = fixtures::decision();
    let evil = "x\n# Title [s99](http://example.com) <script> | a: b \"q\" `c`";
    document.description = evil.into();
    document.scenario = evil.into();
    document.id = evil.into();
    document.candidates[4].name = evil.into();
    document.evidence[0].label = evil.into();
    document.review_by = evil.into();
    let record = record(&document, Lang::En);
    assert!(!statement_ids(&record).contains(&"s99".to_owned()));
    let body = record.split("\n---\n").nth(1).unwrap();
    let body: String = body.lines().map(|line| without_code(line) + "\n").collect();
    assert!(!record.contains("\n# Title") && !body.contains("<script"), "{body}");
    let columns = |line: &str| line.replace("\\|", "").matches('|').count();
    let table: Vec<usize> = record.lines().filter(|line| line.starts_with('|')).map(columns).collect();
    assert_eq!(table[..4], [8, 8, 8, 8], "constraints: requirement, kind, five candidates");
    // The front matter is still YAML of single-line scalars.
    let front = record.split("---").nth(1).unwrap();
    assert!(front.lines().skip(1).all(|line| line.trim_start().split_once(':').is_some()), "{front}");
}

#[test]
fn names_are_whole_words() {
    assert!(
        names("`paged` wins", "paged")
            && names("of paged.", "paged")
            && names("llama.cpp, redis", "llama.cpp")
    );
    assert!(
        !names("`paged-fast` wins", "paged") && !names("unpaged", "paged") && !names("redis.conf", "redis")
    );
    assert!(!names("anything", ""));
}

#[test]
fn records_are_what_they_were() {
    insta::assert_snapshot!("record", record(&fixtures::decision(), Lang::En));
    insta::assert_snapshot!("record_zh", record(&fixtures::decision(), Lang::Zh));
    insta::assert_snapshot!("record_empty", record(&fixtures::empty_decision(), Lang::En));
}
