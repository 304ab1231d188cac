//! Properties: independence of irrelevant candidates, monotonicity, invariance to units, determinism.

#![expect(clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

use proptest::prelude::*;
use touchstone_model::decision::{DecisionDocument, Status};
use touchstone_model::run::Outcome;
use touchstone_model::unit::UsdPerHour;

use crate::fixture::{Contestant, RunBuilder, decided_with, free, scenario, semantic};

const CRITERIA: &str = "[{metric: ttft.p95, worst: 400ms, best: 50ms}, {metric: throughput, worst: 0/s, best: 60/s}, {metric: cost, worst: 10USD/h, best: 0USD/h}]";

/// What a candidate is made of.
#[derive(Clone, Debug)]
struct Recipe {
    seed: u64,
    median: f64,
    sigma: f64,
    price: f64,
    runs: usize,
    blocks: usize,
    shared: bool,
    vetoed: bool,
    clone_of_first: bool,
}

fn recipe() -> impl Strategy<Value = Recipe> {
    (any::<u64>(), 20.0..350.0, 0.05..0.8, 0.5..12.0, 1_usize..4, 1_usize..6, any::<bool>(), 0_u8..8)
        .prop_map(|(seed, median, sigma, price, runs, blocks, shared, kind)| Recipe {
            seed,
            median,
            sigma,
            price,
            runs,
            blocks,
            shared,
            vetoed: kind == 0,
            clone_of_first: kind == 1,
        })
}

fn bake(name: &str, recipe: &Recipe) -> Contestant {
    let runs = (0..recipe.runs as u64)
        .map(|i| RunBuilder::noisy(recipe.seed ^ i, recipe.blocks, 12, recipe.median, recipe.sigma).build());
    Contestant::new(name, runs.collect()).with(|c| {
        c.candidate.price = Some(UsdPerHour(recipe.price));
        if !recipe.shared {
            c.workload = format!("sha256:{name}");
        }
        if recipe.vetoed {
            c.gates = vec![semantic("maintained = yes", Outcome::Fail)];
        }
    })
}

/// Every number about two candidates that both documents rank, by name, must be the same to the last bit.
fn assert_same_pairs(before: &DecisionDocument, after: &DecisionDocument) -> Result<(), TestCaseError> {
    let place = |document: &DecisionDocument, name: &str| {
        document.ranking.contenders.iter().position(|contender| contender == name)
    };
    for (i, a) in before.ranking.contenders.iter().enumerate() {
        let Some(i2) = place(after, a) else {
            // Whoever left the ranking was dominated by the newcomer; nothing else can remove it.
            let gone = after.candidates.iter().find(|candidate| candidate.name == *a).unwrap();
            prop_assert_eq!(gone.status, Status::Dominated);
            prop_assert_eq!(gone.dominated_by.as_deref(), Some("new"));
            continue;
        };
        for (j, b) in before.ranking.contenders.iter().enumerate() {
            if let Some(j2) = place(after, b) {
                prop_assert_eq!(
                    before.ranking.pairwise[i][j].to_bits(),
                    after.ranking.pairwise[i2][j2].to_bits()
                );
                prop_assert_eq!(
                    before.ranking.robust[i][j].to_bits(),
                    after.ranking.robust[i2][j2].to_bits()
                );
            }
        }
    }
    for old in &before.candidates {
        let new = after.candidates.iter().find(|candidate| candidate.name == old.name).unwrap();
        prop_assert_eq!(&old.gates, &new.gates);
        prop_assert_eq!(&old.criteria, &new.criteria);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_further_candidate_changes_no_pair(
        recipes in prop::collection::vec(recipe(), 2..5),
        newcomer in recipe(),
        at in 0_usize..5,
        ordered in any::<bool>(),
    ) {
        let none = "{none: it does not matter here}";
        let mut scenario = scenario("[ttft.p50 <= 200ms]", none, none, CRITERIA);
        if ordered {
            scenario.preference = vec![serde_json::from_str("[\"cost\", \"ttft.p95\"]").unwrap()];
        }
        let mut contest: Vec<Contestant> =
            recipes.iter().enumerate().map(|(i, recipe)| bake(&format!("c{i}"), recipe)).collect();
        let before = decided_with(&scenario, &contest, 60);
        let new = if newcomer.clone_of_first {
            contest[0].clone().with(|c| c.candidate.name = "new".to_owned())
        } else {
            bake("new", &newcomer)
        };
        contest.insert(at.min(contest.len()), new);
        let after = decided_with(&scenario, &contest, 60);
        assert_same_pairs(&before, &after)?;
    }

    #[test]
    fn improving_a_value_never_lowers_its_acceptability(a in recipe(), b in recipe(), c in recipe(), cut in 0.1..5.0) {
        let first = |contest: &[Contestant]| {
            let document = decided_with(&free(CRITERIA), contest, 60);
            let place = document.ranking.contenders.iter().position(|name| name == "a");
            // Dominated is the lowest that a candidate can stand.
            place.map_or(-1.0, |place| document.ranking.acceptability[place][0])
        };
        let clear = |recipe: &Recipe| Recipe { vetoed: false, ..recipe.clone() };
        let others = [bake("b", &clear(&b)), bake("c", &clear(&c))];
        let a = clear(&a);
        let better = Recipe { price: f64::max(a.price - cut, 0.0), ..a.clone() };
        let before = first(&[bake("a", &a), others[0].clone(), others[1].clone()]);
        let after = first(&[bake("a", &better), others[0].clone(), others[1].clone()]);
        prop_assert!(after >= before - 1e-12, "{before} {after}");
    }

    #[test]
    fn equal_input_gives_equal_bytes(recipes in prop::collection::vec(recipe(), 1..4)) {
        let contest: Vec<Contestant> =
            recipes.iter().enumerate().map(|(i, recipe)| bake(&format!("c{i}"), recipe)).collect();
        let once = serde_json::to_string(&decided_with(&free(CRITERIA), &contest, 40)).unwrap();
        let again = serde_json::to_string(&decided_with(&free(CRITERIA), &contest, 40)).unwrap();
        prop_assert_eq!(&once, &again);
        // Nothing that JSON cannot say, such as an infinity written as null.
        prop_assert!(serde_json::from_str::<DecisionDocument>(&once).is_ok());
    }
}

#[test]
fn units_do_not_matter() {
    let contest: Vec<Contestant> = [(1, 80.0, 3.0), (2, 120.0, 2.0), (3, 200.0, 1.0)]
        .iter()
        .map(|&(seed, median, price)| {
            let runs = vec![RunBuilder::noisy(seed, 6, 30, median, 0.4).build()];
            Contestant::new(&format!("c{seed}"), runs).with(|c| c.candidate.price = Some(UsdPerHour(price)))
        })
        .collect();
    let of = |criteria: &str| decided_with(&free(criteria), &contest, 100);
    let hourly =
        of("[{metric: ttft.p95, worst: 400ms, best: 50ms}, {metric: cost, worst: 10USD/h, best: 0USD/h}]");
    let other = of(
        "[{metric: ttft.p95, worst: 0.4s, best: 50000us}, {metric: cost, worst: 10USD/h, best: 0USD/month}]",
    );
    assert_eq!(hourly.ranking, other.ranking);
    assert_eq!(hourly.verdict, other.verdict);
}

#[test]
fn another_seed_gives_other_draws() {
    let contest: Vec<Contestant> = (1..3)
        .map(|seed| {
            let runs = vec![RunBuilder::noisy(seed, 6, 30, 100.0, 0.4).build()];
            Contestant::new(&format!("c{seed}"), runs)
                .with(|c| c.candidate.price = Some(UsdPerHour(seed as f64)))
        })
        .collect();
    let mut scenario = free(CRITERIA);
    let one = decided_with(&scenario, &contest, 100);
    scenario.measurement.seed += 1;
    let two = decided_with(&scenario, &contest, 100);
    assert_ne!(one.ranking.regret_p95, two.ranking.regret_p95);
}
