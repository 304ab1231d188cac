//! The verdict words on whole decisions, and what the sentences say.

use touchstone_model::Level;
use touchstone_model::decision::{DecisionDocument, Status, Word};
use touchstone_model::run::Outcome;

use crate::fixture::{Contestant, RunBuilder, decided, decided_with, free, of, scenario, semantic};

const NONE: &str = "{none: it does not matter here}";
const CRITERIA: &str = "[{metric: ttft.p50, worst: 200ms, best: 0ms}]";
const TWO: &str =
    "[{metric: ttft.p50, worst: 200ms, best: 0ms}, {metric: cost, worst: 10USD/h, best: 0USD/h}]";

fn exact(name: &str, ttft: f64) -> Contestant {
    Contestant::new(name, vec![RunBuilder::flat(4, 20, ttft).build()])
}

fn priced(name: &str, ttft: f64, price: f64) -> Contestant {
    exact(name, ttft).with(|c| c.candidate.price = Some(touchstone_model::unit::UsdPerHour(price)))
}

fn verdict(document: &DecisionDocument) -> (Word, Option<&str>) {
    (document.verdict.word, document.verdict.candidate.as_deref())
}

#[test]
fn a_single_candidate_that_passes_is_clear() {
    let document = decided(&free(CRITERIA), &[exact("a", 100.0)]);
    assert_eq!(verdict(&document), (Word::Clear, Some("a")));
    assert_eq!(document.level, Level::P2);
}

#[test]
fn leaning_lies_between_clear_and_toss_up() {
    // a = (0.8, 0.4), b = (0.3, 0.5): a wins when 0.5 w > 0.1 (1 - w), for 5/6 of the weights.
    let document = decided_with(&free(TWO), &[priced("a", 40.0, 6.0), priced("b", 140.0, 5.0)], 1000);
    assert_eq!(verdict(&document), (Word::Leaning, Some("a")));
    assert!(document.verdict.reason.contains("`b`, its closest rival"), "{}", document.verdict.reason);
}

#[test]
fn a_toss_up_prefers_the_reversible() {
    let a = priced("a", 40.0, 8.0);
    let b = priced("b", 120.0, 5.0).with(|c| c.candidate.reversible = Some(true));
    let document = decided(&free(TWO), &[a.clone(), b.clone()]);
    assert_eq!(verdict(&document), (Word::TossUp, Some("b")));
    assert!(document.verdict.reason.contains("going back on it is easy"));
    // A reversible rival that is far behind is not preferred for that.
    let far = priced("far", 190.0, 7.9).with(|c| c.candidate.reversible = Some(true));
    let document = decided(&free(TWO), &[a, b.with(|c| c.candidate.reversible = None), far]);
    assert_eq!(verdict(&document), (Word::TossUp, Some("a")), "{:?}", document.ranking.pairwise);
}

#[test]
fn nobody_to_choose() {
    let gone = |name| exact(name, 1.0).with(|c| c.gates = vec![semantic("maintained = yes", Outcome::Fail)]);
    let document = decided(&free(CRITERIA), &[gone("a"), gone("b")]);
    assert_eq!(verdict(&document), (Word::NoCandidate, None));
    assert!(document.verdict.reason.contains("2 ruled out"));
    assert_eq!(verdict(&decided(&free(CRITERIA), &[])), (Word::NoCandidate, None));
}

#[test]
fn candidates_without_a_target_are_outside_the_comparison() {
    let outside = |name| Contestant::new(name, Vec::new()).with(|c| c.candidate.target = None);
    let document = decided(&free(CRITERIA), &[exact("a", 100.0), outside("z")]);
    assert_eq!(verdict(&document), (Word::Clear, Some("a")));
    assert_eq!(of(&document, "z").status, Status::Unmeasured);
    let said = "The verdict speaks only about the measured candidates";
    assert!(document.statements.iter().any(|s| s.text.starts_with(said)));
    // Evidence that was brought along needs no target.
    let imported = exact("i", 50.0).with(|c| c.candidate.target = None);
    assert_eq!(of(&decided(&free(CRITERIA), &[imported]), "i").status, Status::Contender);
    let document = decided(&free(CRITERIA), &[outside("y"), outside("z")]);
    assert_eq!(verdict(&document), (Word::InsufficientEvidence, None));
    assert_eq!(document.level, Level::P0);
}

#[test]
fn a_target_that_could_not_be_measured_counts() {
    let down = Contestant::new("down", Vec::new());
    let document = decided(&free(CRITERIA), &[exact("a", 100.0), down]);
    assert_eq!(verdict(&document), (Word::InsufficientEvidence, Some("a")));
    assert!(document.verdict.reason.contains("no usable run was made of down"));
    assert_eq!(of(&document, "down").status, Status::Contender);
    assert_eq!(document.ranking.contenders, ["a"]);
    let next = &document.next_measurements[0];
    assert_eq!((next.candidate.as_str(), next.subject.as_str()), ("down", "run"));
}

#[test]
fn an_undetermined_gate_matters_only_where_it_could_change_the_answer() {
    // 80 samples cannot show a p99; 400 can.
    let scenario = scenario("[ttft.p99 <= 200ms]", NONE, NONE, CRITERIA);
    let small = |name: &str, ttft: f64| exact(name, ttft);
    let large = |name: &str, ttft: f64| Contestant::new(name, vec![RunBuilder::flat(4, 100, ttft).build()]);
    let word = |contest: &[Contestant]| decided(&scenario, contest).verdict.word;
    assert_eq!(word(&[large("a", 50.0), large("b", 150.0)]), Word::Clear);
    assert_eq!(word(&[large("a", 50.0), small("b", 150.0)]), Word::Clear);
    assert_eq!(word(&[small("a", 50.0), large("b", 150.0)]), Word::InsufficientEvidence);
    assert_eq!(word(&[small("a", 50.0)]), Word::InsufficientEvidence);
    // A rival that ties.
    assert_eq!(word(&[large("a", 50.0), large("b", 50.0)]), Word::TossUp);
    assert_eq!(word(&[large("a", 50.0), small("b", 50.0)]), Word::InsufficientEvidence);
    let document = decided(&scenario, &[small("a", 50.0), large("b", 150.0)]);
    assert!(document.verdict.reason.contains("`a` leads, but `ttft.p99 <= 200ms` is undetermined"));
    assert_eq!(document.next_measurements[0].subject, "ttft.p99 <= 200ms");
}

#[test]
fn an_unknown_capability_of_the_leader_leaves_the_evidence_short() {
    let open = exact("a", 50.0).with(|c| c.gates = vec![semantic("maintained = yes", Outcome::Undetermined)]);
    let document = decided(&free(CRITERIA), &[open, exact("b", 150.0)]);
    assert_eq!(verdict(&document), (Word::InsufficientEvidence, Some("a")));
    assert!(document.next_measurements[0].advice.starts_with("find out whether `a` meets"));
}

#[test]
fn an_unknown_criterion_counts_at_its_best_for_the_rival() {
    // b without a price could be free: then it would win for most weights.
    let document = decided(&free(TWO), &[priced("a", 100.0, 5.0), exact("b", 110.0)]);
    assert_eq!(verdict(&document), (Word::InsufficientEvidence, Some("a")));
    assert!(document.verdict.reason.contains("a criterion that is unknown for it"));
    assert_eq!(of(&document, "b").criteria["cost"].worth, None);
    assert_eq!(of(&document, "b").status, Status::Contender);
    let subjects: Vec<&str> = document.next_measurements.iter().map(|n| n.subject.as_str()).collect();
    assert!(subjects.contains(&"cost"), "{subjects:?}");
}

#[test]
fn simulation_is_never_a_measurement() {
    let simulated = |name: &str, ttft: f64| {
        Contestant::new(name, vec![RunBuilder::flat(4, 20, ttft).with(|run| run.simulated = true).build()])
    };
    let document = decided(&free(CRITERIA), &[simulated("a", 50.0), simulated("b", 150.0)]);
    assert_eq!((document.level, document.simulated), (Level::E, true));
    assert!(document.verdict.reason.ends_with("(by simulation only; not a measurement)"));
    assert!(document.verdict.reason_zh.ends_with("（仅基于仿真，并非测量）"));
    assert!(document.statements[0].text.starts_with("Verdict: clear for `a`: "));
    assert!(document.statements[0].text.contains("not a measurement"));
    let document = decided(&free(CRITERIA), &[simulated("a", 50.0), exact("b", 150.0)]);
    // What was ruled out without a figure does not bear on the decision.
    let vetoed = simulated("v", 1.0).with(|c| c.gates = vec![semantic("maintained = yes", Outcome::Fail)]);
    let without = decided(&free(CRITERIA), &[vetoed, exact("b", 150.0)]);
    assert_eq!((without.level, without.simulated), (Level::P2, false));
    assert_eq!(without.statements[0].evidence, ["sha256:b-0"]);
    assert!(!without.verdict.reason.contains("simulation"));
    assert_eq!(document.level, Level::E);
    assert!(document.verdict.reason.contains("partly by simulation"));
}

#[test]
fn classes_are_not_compared() {
    let mut scenario = free(CRITERIA);
    scenario.family = touchstone_model::Family::Cache;
    let of_class = |name: &str, ttft: f64, class: &str| {
        exact(name, ttft).with(|c| c.durability = Some(class.to_owned()))
    };
    let contest = [of_class("a", 10.0, "D1"), of_class("b", 150.0, "D3"), of_class("c", 190.0, "D3")];
    let document = decided(&scenario, &contest);
    // b does not lose to a, which promises less; within D3 it dominates c.
    assert_eq!(of(&document, "b").status, Status::Contender);
    assert_eq!(of(&document, "c").dominated_by.as_deref(), Some("b"));
    assert_eq!(verdict(&document), (Word::TossUp, None));
    assert!(document.verdict.reason.contains("with durability D1: clear `a`; with durability D3: clear `b`"));
    assert_eq!(document.ranking.pairwise[0][1], 0.0);
    assert_eq!(document.ranking.pairwise[1][0], 0.0);
    assert_eq!(document.ranking.acceptability, [[1.0, 0.0], [1.0, 0.0]]);
    assert!(document.flips.is_empty());
    let document = decided(&scenario, &contest[1..]);
    assert_eq!(verdict(&document), (Word::Clear, Some("b")));
}

#[test]
fn without_criteria_nothing_tells_the_passing_apart() {
    let document = decided(&free("[]"), &[exact("a", 10.0), exact("b", 100.0)]);
    assert_eq!(document.verdict.word, Word::TossUp);
    assert!(document.verdict.reason.contains("states no criterion"));
}
