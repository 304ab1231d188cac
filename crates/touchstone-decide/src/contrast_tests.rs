use touchstone_model::run::{
    Block, Counts, MetricSummary, Phases, Rates, SparseHistogram, TargetDescription, WorkloadDescription,
};
use touchstone_stats::histogram::Histogram;
use touchstone_stats::rng::Rng;

use super::*;

fn sparse(values_ms: &[f64]) -> SparseHistogram {
    let mut histogram = Histogram::new();
    values_ms.iter().for_each(|value| histogram.record((value * 1e6) as u64));
    let it = histogram.to_sparse();
    SparseHistogram {
        buckets: it.buckets,
        censored: it.censored,
        min: it.min,
        max: it.max,
        sum: it.sum.to_string(),
    }
}

/// A run whose ttft is exponential around `ttft` ms and whose throughput is `throughput`.
fn run(id: &str, ttft: f64, throughput: f64, seed: u64, deploy: Option<u64>) -> RunDocument {
    let mut rng = Rng::new(seed + 1000);
    let blocks: Vec<Block> = (0..20)
        .map(|_| {
            let values: Vec<f64> = (0..50).map(|_| ttft * (0.9 + 0.2 * rng.uniform())).collect();
            Block {
                seconds: 1.0,
                intended: 50,
                completed_flow: throughput.round() as u64,
                histograms: BTreeMap::from([(MetricId::Ttft, sparse(&values))]),
                ..Block::default()
            }
        })
        .collect();
    let summary = MetricSummary {
        unit: MetricId::Ttft.unit(),
        n: 1000,
        n_effective: 1000.0,
        censored: 0,
        mean: Some(ttft),
        p50: Some(ttft),
        p90: Some(ttft * 1.08),
        p95: Some(ttft * 1.09),
        p99: Some(ttft * 1.098),
        p999: None,
        max: Some(ttft * 1.1),
        bounds: BTreeMap::new(),
    };
    let mut parameters: BTreeMap<String, serde_json::Value> =
        BTreeMap::from([("input_tokens".into(), 128.into())]);
    if let Some(deploy) = deploy {
        parameters.insert(DEPLOY.into(), deploy.into());
    }
    RunDocument {
        format: "touchstone.run/1".into(),
        run: id.into(),
        level: Level::P2,
        simulated: false,
        valid: true,
        interrupted: false,
        started_at: "2026-01-01T00:00:00Z".into(),
        touchstone_version: "0".into(),
        target: TargetDescription::default(),
        workload: WorkloadDescription {
            arrival: "poisson:50/s".into(),
            seed,
            schedule_digest: format!("sha256:{seed}"),
            parameters,
        },
        phases: Phases::default(),
        metrics: BTreeMap::from([(MetricId::Ttft, summary)]),
        rates: Rates { throughput: Some(throughput), ..Rates::default() },
        counts: Counts { intended: 1000, completed: 1000, ..Counts::default() },
        errors: Vec::new(),
        findings: Vec::new(),
        generator: touchstone_model::run::Certificate::default(),
        slo: Vec::new(),
        windows: Vec::new(),
        blocks,
        stages: Vec::new(),
        fingerprint: None,
        server: None,
        steady: None,
    }
}

/// Runs around a ttft, with a spread between deploys and between runs.
fn runs(name: &str, ttft: f64, n: usize, cv: f64, seed: u64) -> Vec<RunDocument> {
    let mut rng = Rng::new(seed);
    (0..n)
        .map(|index| {
            let value = ttft * rng.log_normal(0.0, cv);
            run(
                &format!("{name}{index}"),
                value,
                50.0 * rng.log_normal(0.0, 0.002),
                seed * 100 + index as u64,
                None,
            )
        })
        .collect()
}

fn standing(document: &ComparisonDocument, metric: MetricId, statistic: Option<Statistic>) -> &Compared {
    document.metrics.iter().find(|one| one.metric == metric && one.statistic == statistic).unwrap()
}

fn compare(a: &[RunDocument], b: &[RunDocument]) -> ComparisonDocument {
    contrast("0", ("a", a), ("b", b), Terms::default())
}

#[test]
fn lower_latency_is_better_and_equal_throughput_is_equivalent() {
    let document = compare(&runs("a", 80.0, 6, 0.01, 1), &runs("b", 100.0, 6, 0.01, 2));
    assert_eq!(document.unit, Replication::Run);
    let ttft = standing(&document, MetricId::Ttft, Some(Statistic::P99));
    assert_eq!(ttft.standing, Standing::Better, "{ttft:?}");
    assert!((ttft.ratio.unwrap() - 0.8).abs() < 0.02 && ttft.upper.unwrap() < 0.85, "{ttft:?}");
    let throughput = standing(&document, MetricId::Throughput, None);
    assert_eq!(throughput.standing, Standing::Equivalent, "{throughput:?}");
    assert_eq!(document.regressions().count(), 0);
    let turned = compare(&runs("b", 100.0, 6, 0.01, 2), &runs("a", 80.0, 6, 0.01, 1));
    assert_eq!(standing(&turned, MetricId::Ttft, Some(Statistic::P99)).standing, Standing::Worse);
    assert!(turned.regressions().count() >= 3);
    assert!(document.findings.iter().any(|finding| finding.code == FindingCode::FewDeploys));
}

#[test]
fn a_noisy_difference_is_not_resolved_and_says_how_many_runs_it_needs() {
    let document = compare(&runs("a", 97.0, 5, 0.2, 3), &runs("b", 100.0, 5, 0.2, 4));
    let ttft = standing(&document, MetricId::Ttft, Some(Statistic::P50));
    assert_eq!(ttft.standing, Standing::NotResolved, "{ttft:?}");
    assert!(ttft.runs_needed.unwrap() > 50 && ttft.reason.contains("runs a side"), "{ttft:?}");
}

#[test]
fn one_run_a_side_claims_nothing_and_may_raise_a_suspicion() {
    let a = [run("a", 200.0, 50.0, 1, None)];
    let b = [run("b", 100.0, 50.0, 1, None)];
    let document = compare(&a, &b);
    assert_eq!(document.unit, Replication::Block);
    assert!(document.metrics.iter().all(|one| one.standing == Standing::NotResolved));
    let ttft = standing(&document, MetricId::Ttft, Some(Statistic::P99));
    assert!(ttft.suspected && ttft.lower.unwrap() > 1.9, "{ttft:?}");
    assert!(document.regressions().count() >= 3);
    let same = compare(&b, &[run("c", 101.0, 50.0, 2, None)]);
    assert_eq!(same.regressions().count(), 0, "{:?}", same.metrics);
    assert!(same.findings.iter().any(|finding| finding.code == FindingCode::FewRuns));
}

#[test]
fn four_runs_a_side_claim_nothing_either() {
    let document = compare(&runs("a", 50.0, 4, 0.01, 1), &runs("b", 100.0, 4, 0.01, 2));
    assert!(document.metrics.iter().all(|one| one.standing == Standing::NotResolved));
}

#[test]
fn deploys_are_the_unit_where_they_are_known() {
    // Deploys differ by 10 %, runs of a deploy by 0.1 %: twelve runs are worth three deploys.
    let make = |name: &str, shift: f64| -> Vec<RunDocument> {
        [0.9, 1.0, 1.1]
            .iter()
            .enumerate()
            .flat_map(|(deploy, factor)| {
                (0..4).map(move |index| (deploy as u64, index, factor * (1.0 + 0.001 * f64::from(index))))
            })
            .map(|(deploy, index, factor)| {
                let id = format!("{name}{deploy}{index}");
                run(&id, 100.0 * shift * factor, 50.0, deploy * 10 + u64::from(index as u32), Some(deploy))
            })
            .collect()
    };
    let document = compare(&make("a", 0.96), &make("b", 1.0));
    assert_eq!((document.unit, document.a.deploys), (Replication::Deploy, Some(3)));
    let ttft = standing(&document, MetricId::Ttft, Some(Statistic::P50));
    assert_eq!(ttft.standing, Standing::NotResolved, "{ttft:?}");
    assert!(ttft.between_deploys.unwrap() > 0.99, "{ttft:?}");
    // As if the runs were independent it would be a claim.
    let strip = |runs: Vec<RunDocument>| -> Vec<RunDocument> {
        runs.into_iter()
            .map(|mut run| {
                run.workload.parameters.remove(DEPLOY);
                run
            })
            .collect()
    };
    assert!(!document.paired);
    let paired = compare(&strip(make("a", 0.96)), &strip(make("b", 1.0)));
    assert!(paired.paired);
    assert_eq!(standing(&paired, MetricId::Ttft, Some(Statistic::P50)).standing, Standing::SlightlyBetter);
}

#[test]
fn invalid_runs_and_unequal_work_are_told() {
    let mut a = runs("a", 80.0, 6, 0.01, 1);
    a[0].valid = false;
    a[1].workload.arrival = "poisson:40/s".into();
    let document = compare(&a, &runs("b", 100.0, 6, 0.01, 2));
    assert_eq!((document.a.runs.len(), document.a.left_out.len()), (5, 1));
    let codes: Vec<FindingCode> = document.findings.iter().map(|finding| finding.code).collect();
    assert!(
        codes.contains(&FindingCode::RunsLeftOut) && codes.contains(&FindingCode::UnequalWorkload),
        "{codes:?}"
    );
    let empty = compare(&[], &runs("b", 100.0, 6, 0.01, 2));
    assert!(empty.metrics.is_empty());
}

#[test]
fn equals_are_rarely_called_different() {
    let wrong = (0..200_u64).filter(|case| {
        let document =
            compare(&runs("a", 100.0, 5, 0.05, 2 * case + 10), &runs("b", 100.0, 5, 0.05, 2 * case + 11));
        document
            .metrics
            .iter()
            .any(|one| !matches!(one.standing, Standing::NotResolved | Standing::Equivalent))
    });
    let wrong = wrong.count();
    assert!(wrong <= 16, "{wrong} of 200");
}
