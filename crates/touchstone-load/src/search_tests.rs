use touchstone_model::run::Outcome;
use touchstone_model::sweep::{Bounded, Probe, Verdict};

use super::*;

fn plan(goals: &[Goal]) -> SearchPlan {
    SearchPlan {
        goals: goals.to_vec(),
        from: 1.0,
        at_most: 10_000.0,
        resolution: 0.05,
        looks: 3,
        confidence: 0.95,
        probes: 60,
        whole: false,
    }
}

fn bare(level: f64, look: u32) -> Probe {
    Probe {
        run: format!("r-{level}-{look}"),
        level,
        look,
        seconds: 10.0,
        offered: Some(level),
        throughput: Some(level),
        goodput: None,
        failed: 0.0,
        leading: Some(MetricId::Ttft),
        p50: Some(10.0),
        p95: Some(20.0),
        p99: Some(30.0),
        gap_p50: None,
        gap_p99: None,
        backlog_slope: None,
        sustained: Verdict { holds: true, outcome: Outcome::Pass },
        slo: Vec::new(),
        stopped_early: false,
        valid: true,
        note: None,
    }
}

/// A target that saturates at exactly `capacity`, with an undecided zone around it that takes `looks_needed` looks.
fn sharp(capacity: f64, zone: f64, looks_needed: u32) -> impl FnMut(f64, u32) -> Probe {
    move |level, look| {
        let mut probe = bare(level, look);
        let holds = level <= capacity;
        let open = (level / capacity - 1.0).abs() < zone && look < looks_needed;
        probe.throughput = Some(level.min(capacity));
        probe.sustained = Verdict {
            holds,
            outcome: match (open, holds) {
                (true, _) => Outcome::Undetermined,
                (false, true) => Outcome::Pass,
                (false, false) => Outcome::Fail,
            },
        };
        probe
    }
}

fn search(plan: &SearchPlan, mut make: impl FnMut(f64, u32) -> Probe) -> Vec<Probe> {
    let mut probes = Vec::new();
    while let Step::Probe { level, look } = next(plan, &probes) {
        probes.push(make(level, look));
        assert!(probes.len() <= plan.probes);
    }
    probes
}

#[test]
fn a_sharp_capacity_is_bracketed_to_the_resolution_from_below_and_from_above() {
    for capacity in [0.7, 1.0, 3.3, 50.0, 777.0] {
        let plan = plan(&[Goal::Saturation]);
        let probes = search(&plan, sharp(capacity, 0.0, 1));
        let found = estimate(&plan, Goal::Saturation, &probes);
        let (lower, upper) = (found.lower.unwrap(), found.upper.unwrap());
        assert!(lower <= capacity && capacity < upper && upper / lower <= 1.0501, "{capacity}: {found:?}");
        assert_eq!(found.value, Some(lower));
        assert!(probes.len() <= 22, "{capacity}: {}", probes.len());
    }
}

#[test]
fn an_undecided_level_is_looked_at_again_and_only_so_often() {
    let plan = plan(&[Goal::Saturation]);
    let probes = search(&plan, sharp(50.0, 0.1, 2));
    assert!(probes.iter().any(|probe| probe.look == 2) && probes.iter().all(|probe| probe.look <= 2));
    let probes = search(&plan, sharp(50.0, 0.1, 9));
    assert!(probes.iter().all(|probe| probe.look <= 3));
    let found = estimate(&plan, Goal::Saturation, &probes);
    // The direction was found by the definition, and the interval says how much of it is beyond chance.
    let (lower, upper) = (found.lower.unwrap(), found.upper.unwrap());
    assert!(lower <= 45.0 && upper >= 55.0, "{found:?}");
    assert!((47.0..=50.0).contains(&found.value.unwrap()), "{found:?}");
    assert!(found.reason.contains("not decided beyond chance"), "{}", found.reason);
}

#[test]
fn a_search_ends_at_the_greatest_level_and_says_so() {
    let plan = SearchPlan { at_most: 100.0, ..plan(&[Goal::Saturation]) };
    let probes = search(&plan, sharp(1e9, 0.0, 1));
    assert_eq!(probes.last().unwrap().level, 100.0);
    let found = estimate(&plan, Goal::Saturation, &probes);
    assert_eq!((found.value, found.lower, found.upper), (Some(100.0), Some(100.0), None));
    assert!(found.reason.contains("greatest level that was allowed"), "{}", found.reason);
}

#[test]
fn a_target_that_sustains_nothing_has_no_value() {
    let plan = plan(&[Goal::Saturation]);
    let probes = search(&plan, sharp(0.0, 0.0, 1));
    let found = estimate(&plan, Goal::Saturation, &probes);
    assert_eq!((found.value, found.lower), (None, None));
    assert!(found.upper.unwrap() < 0.04 && probes.len() <= 8, "{found:?}");
}

#[test]
fn invalid_probes_decide_nothing_and_end_the_climb() {
    let plan = plan(&[Goal::Saturation]);
    let probes = search(&plan, |level, look| Probe { valid: level < 60.0, ..bare(level, look) });
    let found = estimate(&plan, Goal::Saturation, &probes);
    assert_eq!((found.value, found.upper), (Some(32.0), None), "{found:?}");
    assert_eq!(probes.iter().filter(|probe| !probe.valid).count(), 2);
    let never = search(&plan, |level, look| Probe { valid: false, ..bare(level, look) });
    assert_eq!(never.len(), 2);
    assert_eq!(estimate(&plan, Goal::Saturation, &never).reason, "no valid probe was made");
}

/// A target whose share within the limit falls with the load, seen by `n` effective operations a look.
fn with_share(share_at: impl Fn(f64) -> f64, n: f64) -> impl FnMut(f64, u32) -> Probe {
    move |level, look| {
        let n = n * f64::from(1 << (look - 1));
        let share = share_at(level);
        let slo = ProbeSlo {
            slo: "ttft.p95 <= 200ms".into(),
            outcome: Outcome::Undetermined,
            value: None,
            needs_share: Some(0.95),
            share: Some(share),
            n_effective: Some(n),
        };
        Probe { slo: vec![slo], ..bare(level, look) }
    }
}

#[test]
fn looks_at_a_limit_are_pooled() {
    let plan = plan(&[Goal::SloCapacity]);
    // All within the limit: 20 effective operations decide nothing, 20 + 40 + 80 do.
    let make = with_share(|level| if level <= 40.0 { 1.0 } else { 0.2 }, 20.0);
    let probes = search(&plan, make);
    let found = estimate(&plan, Goal::SloCapacity, &probes);
    let (value, lower, upper) = (found.value.unwrap(), found.lower.unwrap(), found.upper.unwrap());
    assert!(lower <= 40.0 && 40.0 < upper && upper / value <= 1.051, "{found:?}");
    assert!(probes.iter().any(|probe| probe.look == 3), "one look is not enough");
    // Doubling goes on without waiting for proof.
    assert!(probes.iter().take(6).all(|probe| probe.look == 1));
}

#[test]
fn a_growing_backlog_is_no_capacity_whatever_the_latency() {
    let plan = plan(&[Goal::SloCapacity, Goal::Saturation]);
    let mut target = sharp(50.0, 0.0, 1);
    let mut shares = with_share(|_| 1.0, 1000.0);
    let probes = search(&plan, |level, look| Probe { slo: shares(level, look).slo, ..target(level, look) });
    let found = estimate(&plan, Goal::SloCapacity, &probes);
    assert!(found.value.unwrap() <= 50.0 && found.upper.unwrap() > 50.0, "{found:?}");
    // One curve serves both goals.
    assert_eq!(estimate(&plan, Goal::Saturation, &probes).value, found.value);
    let alone = search(&self::plan(&[Goal::Saturation]), sharp(50.0, 0.0, 1));
    assert!(probes.len() <= alone.len() + 2, "{} {}", probes.len(), alone.len());
}

#[test]
fn the_concurrency_at_which_gaps_spike_is_found_as_a_whole_number() {
    for threshold in [2.0, 3.0, 7.0, 37.0] {
        let plan = SearchPlan { at_most: 64.0, whole: true, resolution: 0.0, ..plan(&[Goal::Spike]) };
        let probes = search(&plan, |level, look| {
            let value = if level >= threshold { 25.0 } else { 10.0 };
            let gap = Bounded { value, lower: Some(value * 0.9), upper: Some(value * 1.1) };
            Probe { gap_p99: Some(gap), offered: None, ..bare(level, look) }
        });
        let found = estimate(&plan, Goal::Spike, &probes);
        assert_eq!(found.value, Some(threshold), "{found:?}");
        assert_eq!((found.lower, found.upper), (Some(threshold - 1.0), Some(threshold)), "{found:?}");
        assert!(probes.iter().all(|probe| probe.level.fract() == 0.0));
    }
    let plan = SearchPlan { at_most: 8.0, whole: true, ..plan(&[Goal::Spike]) };
    let flat = search(&plan, |level, look| {
        let gap = Bounded { value: 10.0, lower: Some(9.0), upper: Some(11.0) };
        Probe { gap_p99: Some(gap), offered: None, ..bare(level, look) }
    });
    let found = estimate(&plan, Goal::Spike, &flat);
    assert_eq!((found.value, found.lower), (None, Some(8.0)), "{found:?}");
}

#[test]
fn contradictions_widen_the_interval() {
    let plan = plan(&[Goal::Saturation]);
    let with = |level: f64, outcome: Outcome| {
        let verdict = Verdict { holds: outcome == Outcome::Pass, outcome };
        Probe { sustained: verdict, ..bare(level, 1) }
    };
    let probes = [
        with(10.0, Outcome::Pass),
        with(20.0, Outcome::Fail),
        with(30.0, Outcome::Pass),
        with(40.0, Outcome::Fail),
    ];
    let found = estimate(&plan, Goal::Saturation, &probes);
    assert_eq!((found.value, found.lower, found.upper), (Some(10.0), Some(10.0), Some(40.0)));
    assert!(found.reason.contains("spans both"), "{}", found.reason);
}

#[test]
fn the_shape_has_peak_knee_and_collapse() {
    let at = |level: f64, throughput: f64, p95: f64| Probe {
        throughput: Some(throughput),
        p95: Some(p95),
        ..bare(level, 1)
    };
    let probes = [at(10.0, 10.0, 20.0), at(80.0, 30.0, 900.0), at(20.0, 20.0, 30.0), at(40.0, 39.0, 300.0)];
    let found = shape(&probes).unwrap();
    assert_eq!((found.peak_throughput, found.peak_level, found.knee), (39.0, 40.0, Some(20.0)));
    assert_eq!((found.collapse_level, found.collapse_throughput), (Some(80.0), Some(30.0)));
    assert_eq!(shape(&probes[..1]).unwrap().collapse_level, None);
    assert_eq!(shape(&[]), None);
}

#[test]
fn a_probe_is_ended_early_by_growth_and_not_by_a_burst() {
    let mut growing = Saturated::default();
    let ended = (0..100).find(|tick| growing.observe(f64::from(*tick) * 0.2, 5 + *tick as u64 * 4, 100.0));
    assert!(ended.is_some_and(|tick| (15..25).contains(&tick)), "{ended:?}");
    let mut burst = Saturated::default();
    let backlog = |tick: u64| if tick % 40 < 10 { 40 - 4 * (tick % 40) } else { 2 };
    assert!(!(0..400).any(|tick| burst.observe(tick as f64 * 0.2, backlog(tick), 100.0)));
    let mut small = Saturated::default();
    assert!(!(0..19).any(|tick| small.observe(tick as f64 * 0.2, tick, 1.0)));
}
