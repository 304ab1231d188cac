//! Three-valued statistical gates on pooled evidence.

use crate::fixture::{Contestant, RunBuilder, decided, gate, queue, scenario};
use touchstone_model::decision::{DecisionDocument, Status};
use touchstone_model::run::Outcome;

const NONE: &str = "{none: it does not matter here}";

fn p99(runs: Vec<RunBuilder>) -> DecisionDocument {
    let scenario = scenario("[ttft.p99 <= 200ms]", NONE, NONE, "[]");
    decided(&scenario, &[Contestant::new("a", runs.iter().map(RunBuilder::build).collect())])
}

fn outcome(document: &DecisionDocument) -> (Outcome, Option<u64>) {
    let gate = &document.candidates[0].gates[0];
    (gate.outcome, gate.needs)
}

#[test]
fn p99_needs_299_effective_samples() {
    let sized = |n: usize| p99(vec![RunBuilder::flat(1, n, 100.0)]);
    assert_eq!(outcome(&sized(298)), (Outcome::Undetermined, Some(299)));
    assert_eq!(outcome(&sized(299)), (Outcome::Pass, Some(299)));
    assert_eq!(outcome(&sized(300)), (Outcome::Pass, Some(299)));
    let document = sized(298);
    assert!(document.candidates[0].gates[0].reason.contains("needs 299 effective samples"));
    assert!(document.next_measurements[0].advice.contains("for about 1 s more"), "{document:?}");
}

#[test]
fn dependence_counts() {
    let worth =
        |share: f64| p99(vec![RunBuilder::flat(10, 100, 100.0).with(|run| run.n_effective_share = share)]);
    assert_eq!(outcome(&worth(0.298)).0, Outcome::Undetermined);
    assert_eq!(outcome(&worth(0.299)).0, Outcome::Pass);
}

#[test]
fn runs_pool_their_samples_unless_they_disagree() {
    let pair = |first: f64, second: f64| {
        p99(vec![RunBuilder::flat(5, 100, first), RunBuilder::flat(5, 100, second)])
    };
    assert_eq!(outcome(&pair(100.0, 110.0)).0, Outcome::Pass);
    assert_eq!(outcome(&pair(300.0, 310.0)).0, Outcome::Fail);
    // Neither run has anything over the limit, but a third could lie as far above as they lie apart.
    assert_eq!(outcome(&pair(100.0, 180.0)).0, Outcome::Undetermined);
    // One good run and one bad: half exceeds, but two runs cannot say what the next one does.
    assert_eq!(outcome(&pair(100.0, 300.0)).0, Outcome::Undetermined);
}

#[test]
fn the_spread_between_runs_bounds_a_quantile() {
    // ln 100, ln 110, ln 121: standard deviation ln 1.1, t(0.95, 2) = 2.92.
    let document = p99([100.0, 110.0, 121.0].map(|value| RunBuilder::flat(5, 100, value)).into());
    let half = 1.1_f64.ln() * 2.919_986 / 3.0_f64.sqrt();
    let gate = &document.candidates[0].gates[0];
    // Within the width of a bucket.
    assert!((gate.upper.unwrap() / (110.0 * half.exp()) - 1.0).abs() < 2e-3, "{gate:?}");
    assert!((gate.lower.unwrap() / (110.0 * (-half).exp()) - 1.0).abs() < 2e-3, "{gate:?}");
}

#[test]
fn the_bounds_decide_and_not_the_point() {
    let with_slow = |slow: usize| {
        let mut values = vec![100.0; 1000];
        values[..slow].fill(500.0);
        p99(vec![RunBuilder::new(vec![values])])
    };
    assert_eq!(outcome(&with_slow(3)).0, Outcome::Pass);
    // 8 and 12 in 1000 surround one in 100 within its error.
    assert_eq!(outcome(&with_slow(8)).0, Outcome::Undetermined);
    assert!(outcome(&with_slow(8)).1.unwrap() > 1000);
    assert_eq!(outcome(&with_slow(12)), (Outcome::Undetermined, None));
    assert_eq!(outcome(&with_slow(30)).0, Outcome::Fail);
}

#[test]
fn unfinished_operations_exceed_every_limit() {
    let document = p99(vec![RunBuilder::flat(10, 90, 100.0).with(|run| run.censored = 10)]);
    assert_eq!(outcome(&document).0, Outcome::Fail);
    let gate = &document.candidates[0].gates[0];
    assert_eq!((gate.value, gate.lower, gate.upper), (None, None, None));
    assert!(gate.reason.contains("no end"), "{}", gate.reason);
    assert_eq!(document.candidates[0].status, Status::Failed);
}

#[test]
fn invalid_runs_are_not_used() {
    let bad = RunBuilder::flat(10, 100, 900.0).with(|run| run.valid = false);
    let document = p99(vec![bad.clone(), RunBuilder::flat(10, 100, 100.0)]);
    assert_eq!(outcome(&document).0, Outcome::Pass);
    assert!(document.statements.iter().any(|s| s.text.contains("is not used: it is invalid")));
    let document = p99(vec![bad]);
    assert_eq!(outcome(&document).0, Outcome::Undetermined);
    assert!(document.candidates[0].gates[0].reason.contains("it is invalid"));
    assert_eq!(document.candidates[0].status, Status::Contender);
}

#[test]
fn a_damaged_histogram_takes_its_run_out() {
    let scenario = scenario("[ttft.p50 <= 200ms]", NONE, NONE, "[]");
    let (good, mut bad) =
        (RunBuilder::flat(2, 50, 100.0).build(), RunBuilder::noisy(1, 2, 50, 900.0, 0.2).build());
    let buckets = &mut bad.blocks[1].histograms.get_mut(&touchstone_model::MetricId::Ttft).unwrap().buckets;
    buckets.reverse();
    let document = decided(&scenario, &[Contestant::new("a", vec![good, bad])]);
    assert_eq!(outcome(&document).0, Outcome::Pass);
    let said: Vec<_> = document.statements.iter().filter(|s| s.text.contains("is damaged")).collect();
    assert_eq!((said.len(), said[0].evidence.as_slice()), (1, &["sha256:a-1".to_owned()][..]));
    assert!(document.statements.iter().any(|s| s.text.starts_with("One run cannot show")));
}

fn throughput(limit: &str, run: RunBuilder) -> DecisionDocument {
    let scenario = scenario(NONE, &format!("[throughput >= {limit}]"), NONE, "[]");
    decided(&scenario, &[Contestant::new("a", vec![run.build(), run.build(), run.build()])])
}

#[test]
fn throughput_is_held_against_what_was_offered() {
    let run = |offered: &str, intended: u64, completed: u64| {
        RunBuilder::flat(20, completed as usize, 10.0).with(|run| {
            run.arrival = offered.to_owned();
            run.intended = Some(intended);
            run.in_flight = 1;
        })
    };
    let of = |limit: &str, run: RunBuilder| outcome(&throughput(limit, run)).0;
    // The schedule realised 49 of a nominal 50 and all of it was done.
    assert_eq!(of("50/s", run("poisson:50/s", 49, 49)), Outcome::Pass);
    // A 50/s server offered 60/s has a throughput of 50.
    assert_eq!(of("50/s", run("poisson:60/s", 60, 50)), Outcome::Pass);
    assert_eq!(of("50/s", run("poisson:60/s", 60, 48)), Outcome::Fail);
    // It fell behind what was asked.
    assert_eq!(of("50/s", run("poisson:50/s", 50, 45)), Outcome::Fail);
    // It kept up with a load that does not show the limit.
    let low = throughput("50/s", run("poisson:40/s", 40, 40));
    assert_eq!(outcome(&low).0, Outcome::Undetermined);
    assert!(low.candidates[0].gates[0].reason.contains("offer at least the limit"));
    // Not even when the shortfall is no more than chance might bring.
    assert_eq!(of("50/s", run("poisson:46/s", 46, 46)), Outcome::Undetermined);
    // It could not even keep up with that.
    assert_eq!(of("50/s", run("poisson:40/s", 40, 30)), Outcome::Fail);
    // Half the load by name was never offered in fact.
    assert_eq!(of("50/s", run("poisson:50/s", 25, 25)), Outcome::Undetermined);
    // A closed loop is judged by its rate alone.
    assert_eq!(of("50/s", run("closed:4", 49, 49)), Outcome::Fail);
    assert_eq!(of("50/s", run("closed:4", 51, 51)), Outcome::Pass);
}

#[test]
fn three_runs_pay_for_being_few() {
    // 52, 53 and 54/s: the resampled mean stays above 52.3, but Student's t with 2 degrees of freedom reaches to 51.3.
    let scenario = scenario(NONE, "[throughput >= 52/s]", NONE, "[]");
    let run = |n| RunBuilder::flat(10, n, 10.0).with(|run| run.arrival = "closed:1".to_owned()).build();
    let document = decided(&scenario, &[Contestant::new("a", vec![run(52), run(53), run(54)])]);
    assert_eq!(outcome(&document).0, Outcome::Undetermined);
    let gate = gate(&document, "a", "throughput >= 52/s");
    assert!((gate.lower.unwrap() - (53.0 - 2.919_986 / 3.0_f64.sqrt())).abs() < 1e-5);
    assert!((gate.upper.unwrap() - (53.0 + 2.919_986 / 3.0_f64.sqrt())).abs() < 1e-5);
}

#[test]
fn a_backlog_at_the_ends_and_a_spread_between_runs_widen_what_was_delivered() {
    let scenario = scenario(NONE, "[throughput >= 200/s]", NONE, "[]");
    let of = |completed: [u64; 3], in_flight: u64| {
        let run = |completed| {
            let change = |run: &mut RunBuilder| {
                run.arrival = "constant:200/s".to_owned();
                run.completed_flow = Some(completed);
                run.in_flight = in_flight;
            };
            RunBuilder::flat(20, 200, 10.0).with(change).build()
        };
        outcome(&decided(&scenario, &[Contestant::new("a", completed.map(run).into())])).0
    };
    // 0.985 of 12,000: a standard error of sqrt(6)/12,000 leaves it above 0.98, one of sqrt(6,000)/12,000 does not.
    assert_eq!(of([197; 3], 1), Outcome::Pass);
    assert_eq!(of([197; 3], 1000), Outcome::Undetermined);
    assert_eq!(of([194, 197, 200], 1), Outcome::Undetermined);
}

#[test]
fn failures_of_one_run_weigh_as_one_run() {
    let scenario = scenario(NONE, NONE, "[error_rate <= 0.7%]", "[]");
    let run = |failed: u64| {
        RunBuilder::flat(30, 100 - failed as usize, 10.0).with(|run| run.censored = failed).build()
    };
    let of =
        |failed: [u64; 2]| outcome(&decided(&scenario, &[Contestant::new("a", failed.map(run).into())])).0;
    assert_eq!(of([0, 0]), Outcome::Pass);
    // 30 of 6,000 would be at most 0.67 %; but they are all in one of two runs.
    assert_eq!(of([0, 1]), Outcome::Undetermined);
}

#[test]
fn a_share_is_bounded_exactly() {
    let failing = |failed: u64, blocks: usize| {
        let scenario = scenario(NONE, NONE, "[error_rate <= 1%]", "[]");
        let run = RunBuilder::flat(blocks, 100 - failed as usize, 10.0).with(|run| run.censored = failed);
        decided(&scenario, &[Contestant::new("a", vec![run.build()])])
    };
    assert_eq!(outcome(&failing(0, 2)), (Outcome::Undetermined, Some(299)));
    let document = failing(0, 3);
    assert_eq!(outcome(&document).0, Outcome::Pass);
    // Clopper-Pearson without a failure: 1 - 0.05^(1/300).
    let upper = gate(&document, "a", "error_rate <= 1%").upper.unwrap();
    assert!((upper - (1.0 - 0.05_f64.powf(1.0 / 300.0))).abs() < 1e-12);
    assert_eq!(outcome(&failing(3, 10)).0, Outcome::Fail);
}

#[test]
fn losses_are_counted() {
    let losing = |lost: Option<u64>| {
        let scenario = queue("[lost <= 0]");
        let run = |lost| RunBuilder::flat(2, 100, 10.0).with(|run| run.lost = lost).build();
        decided(&scenario, &[Contestant::new("a", vec![run(Some(0)), run(lost)])])
    };
    let document = losing(Some(0));
    assert_eq!(outcome(&document).0, Outcome::Pass);
    assert_eq!(document.candidates[0].gates[0].reason, "0 lost of 400, as observed");
    assert_eq!(outcome(&losing(Some(1))).0, Outcome::Fail);
    assert_eq!(outcome(&losing(None)).0, Outcome::Undetermined);
}

#[test]
fn means_maxima_and_what_is_not_measured() {
    let on = |requirement: &str, run: RunBuilder| {
        let scenario = scenario(&format!("[{requirement}]"), NONE, NONE, "[]");
        outcome(&decided(&scenario, &[Contestant::new("a", vec![run.build()])])).0
    };
    let run = || RunBuilder::noisy(3, 20, 50, 100.0, 0.2);
    assert_eq!(on("ttft.mean <= 120ms", run()), Outcome::Pass);
    assert_eq!(on("ttft.mean <= 90ms", run()), Outcome::Fail);
    assert_eq!(on("ttft.mean <= 120ms", run().with(|run| run.censored = 1)), Outcome::Undetermined);
    assert_eq!(on("ttft.max <= 100ms", run()), Outcome::Fail);
    assert_eq!(on("ttft.max <= 10s", run()), Outcome::Undetermined);
    assert_eq!(on("e2e.p50 <= 1s", run()), Outcome::Undetermined);
}

#[test]
fn goodput_is_held_against_what_was_offered() {
    let of = |share: f64| {
        let scenario = scenario(NONE, "[goodput >= 50/s]", NONE, "[]");
        let run = RunBuilder::flat(40, 50, 10.0).with(|run| {
            run.good_share = Some(share);
            run.arrival = "poisson:50/s".to_owned();
            run.intended = Some(49);
        });
        outcome(&decided(&scenario, &[Contestant::new("a", vec![run.build()])])).0
    };
    assert_eq!(of(1.0), Outcome::Pass);
    assert_eq!(of(0.9), Outcome::Fail);
}

#[test]
fn a_price_is_known_or_not() {
    let costing = |price: Option<&str>| {
        let mut scenario = scenario(NONE, NONE, NONE, "[]");
        scenario.requirements.scalability.require = vec!["cost <= 2USD/h".parse().unwrap()];
        let contestant = Contestant::new("a", vec![RunBuilder::flat(2, 10, 1.0).build()])
            .with(|c| c.candidate.price = price.map(|price| price.parse().unwrap()));
        outcome(&decided(&scenario, &[contestant])).0
    };
    assert_eq!(costing(Some("2USD/h")), Outcome::Pass);
    assert_eq!(costing(Some("2.5USD/h")), Outcome::Fail);
    assert_eq!(costing(None), Outcome::Undetermined);
}
