//! The search over load on virtual time, against targets whose capacity is known.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use touchstone_load::plan::SECOND;
use touchstone_load::search::{Goal, SearchPlan, Step, estimate, next, probe, shape};
use touchstone_load::summary::{RunContext, merge, summarise};
use touchstone_load::{Answer, LoadPlan, OpToken, SessionEvent, Shard, Traits};
use touchstone_model::run::{Certificate, RunDocument};
use touchstone_model::sweep::Probe;
use touchstone_model::{Arrival, Family, MetricId};
use touchstone_sim::{EngineModel, Profile};
use touchstone_stats::rng::Rng;

/// A target on virtual time: given the arrivals, it says when the next operation ends.
trait Target {
    fn submit(&mut self, now: u64, token: OpToken);
    fn next_event(&self) -> Option<u64>;
    fn advance(&mut self, now: u64, ended: &mut Vec<OpToken>);
}

/// One server with exponential service times, first come, first served.
struct MM1 {
    rng: Rng,
    mean_ns: f64,
    queue: std::collections::VecDeque<OpToken>,
    busy_until: Option<u64>,
}

impl Target for MM1 {
    fn submit(&mut self, now: u64, token: OpToken) {
        self.queue.push_back(token);
        if self.busy_until.is_none() {
            self.busy_until = Some(now + self.rng.exponential(self.mean_ns) as u64);
        }
    }
    fn next_event(&self) -> Option<u64> {
        self.busy_until
    }
    fn advance(&mut self, now: u64, ended: &mut Vec<OpToken>) {
        if self.busy_until.is_some_and(|at| at <= now) {
            ended.extend(self.queue.pop_front());
            let more = !self.queue.is_empty();
            self.busy_until = more.then(|| now + self.rng.exponential(self.mean_ns) as u64);
        }
    }
}

/// The model of an engine.
struct Engine {
    model: EngineModel,
    tokens: BTreeMap<u64, OpToken>,
    number: u64,
    output: u32,
}

impl Target for Engine {
    fn submit(&mut self, now: u64, token: OpToken) {
        self.number += 1;
        self.tokens.insert(self.number, token);
        self.model.submit(now, self.number, 32, &[], self.output);
    }
    fn next_event(&self) -> Option<u64> {
        self.model.next_event()
    }
    fn advance(&mut self, now: u64, ended: &mut Vec<OpToken>) {
        let mut out = Vec::new();
        self.model.advance(now, &mut out);
        let done: BTreeSet<u64> = out.iter().filter(|one| one.finished.is_some()).map(|one| one.id).collect();
        ended.extend(done.iter().filter_map(|id| self.tokens.remove(id)));
    }
}

fn run(plan: &LoadPlan, target: &mut dyn Target) -> RunDocument {
    let plan = Arc::new(plan.clone());
    let traits = Traits { family: Family::Cache, leading: MetricId::E2e };
    let start = 1_000_000;
    let mut shard = Shard::new(Arc::clone(&plan), traits, 0, start);
    let (mut now, mut ended) = (start, Vec::new());
    loop {
        let mut done = Vec::new();
        if target.next_event().is_some_and(|at| at <= now) {
            target.advance(now, &mut done);
        }
        for token in done {
            let mut events = vec![SessionEvent::Done { op: token, answer: Answer::default() }];
            shard.receive(&mut events, now, &mut ended);
        }
        shard.pull_due(now);
        while let Some(op) = shard.begin(now) {
            shard.sent(op.token, now);
            target.submit(now, op.token);
        }
        // What was handed in may start, and end, at this very instant.
        if target.next_event().is_some_and(|at| at <= now) {
            continue;
        }
        if shard.is_over(now) {
            break;
        }
        let over = if now < shard.measured_to() { shard.measured_to() } else { shard.drain_end() };
        let due = [shard.next_due(), target.next_event(), Some(over)];
        now = due.into_iter().flatten().filter(|at| *at > now).min().unwrap_or(now + 1);
    }
    let context = RunContext {
        connections: 1,
        certificate: Certificate { shards: 1, kernel_stamps: true, ..Certificate::default() },
        ..RunContext::default()
    };
    summarise(&plan, traits, &merge(vec![shard.finish(now).0]).unwrap(), context)
}

fn search_plan(goals: &[Goal]) -> SearchPlan {
    SearchPlan {
        goals: goals.to_vec(),
        from: 2.0,
        at_most: 4_000.0,
        resolution: 0.05,
        looks: 3,
        confidence: 0.95,
        probes: 60,
        whole: false,
    }
}

fn search(
    plan: &SearchPlan,
    seed: u64,
    slo: &[&str],
    poisson: bool,
    mut target: impl FnMut(u64) -> Box<dyn Target>,
) -> Vec<Probe> {
    let mut probes = Vec::new();
    while let Step::Probe { level, look } = next(plan, &probes) {
        let seed = seed * 1_000 + probes.len() as u64;
        let arrival = if poisson {
            Arrival::Poisson { per_second: level }
        } else {
            Arrival::Constant { per_second: level }
        };
        let mut load = LoadPlan::new(arrival, seed);
        load.warm_up_ns = 2 * SECOND;
        load.duration_ns = (10 * SECOND) << (look - 1);
        load.drain_ns = 5 * SECOND;
        load.slos = slo.iter().map(|slo| slo.parse().unwrap()).collect();
        let document = run(&load, target(seed).as_mut());
        probes.push(probe(plan, &document, level, look, false));
    }
    probes
}

fn mm1(seed: u64, per_second: f64) -> Box<dyn Target> {
    Box::new(MM1 {
        rng: Rng::keyed(seed, b"service", 0),
        mean_ns: 1e9 / per_second,
        queue: std::collections::VecDeque::new(),
        busy_until: None,
    })
}

fn engine(profile: &str, output: u32) -> Box<dyn Target> {
    let model = EngineModel::new(Profile::builtin(profile).unwrap(), 3).unwrap();
    Box::new(Engine { model, tokens: BTreeMap::new(), number: 0, output })
}

#[test]
fn the_capacity_of_an_engine_that_serves_exactly_fifty_is_found() {
    for (seed, poisson) in [(1, false), (2, false), (3, true), (4, true), (5, true)] {
        let plan = search_plan(&[Goal::Saturation]);
        let probes = search(&plan, seed, &[], poisson, |_| engine("capacity-50", 8));
        let found = estimate(&plan, Goal::Saturation, &probes);
        let (value, lower, upper) = (found.value.unwrap(), found.lower.unwrap(), found.upper.unwrap());
        // By the definition up to 50 / 0.98 is sustained.
        assert!((46.0..=52.0).contains(&value), "seed {seed}: {found:?}");
        assert!(lower <= 51.03 && upper >= 50.0, "seed {seed}: {found:?}");
        assert!(probes.len() < 30, "{}", probes.len());
        assert!((shape(&probes).unwrap().peak_throughput - 50.0).abs() < 1.0);
    }
}

#[test]
fn the_interval_of_an_m_m_1_queue_holds_its_capacity() {
    // Capacity 200/s, so 2,000 services in a probe of 10 s have a standard error of 2.2 %.
    let plan = search_plan(&[Goal::Saturation]);
    let (mut held, mut bracketed, mut near) = (0, 0, 0);
    let searches = 40;
    for seed in 1..=searches {
        let probes = search(&plan, seed, &[], true, |seed| mm1(seed, 200.0));
        let found = estimate(&plan, Goal::Saturation, &probes);
        let lower = found.lower.unwrap_or(0.0);
        let upper = found.upper.unwrap_or(f64::INFINITY);
        held += u32::from(lower <= 200.0 / 0.98 && upper >= 200.0);
        bracketed += u32::from(found.upper.is_some() && lower > 0.0);
        near += u32::from((170.0..=215.0).contains(&found.value.unwrap()));
    }
    assert!(held >= 36, "{held} of {searches} intervals hold the capacity");
    assert!(bracketed >= 38 && near >= 36, "{bracketed} {near}");
}

#[test]
fn the_slo_capacity_of_an_m_m_1_queue_is_found() {
    // The sojourn time is exponential with rate mu - lambda: p95 = ln 20 / (mu - lambda) <= 100 ms up to lambda = mu - 29.96.
    let truth = 200.0 - 20_f64.ln() / 0.1;
    let plan = search_plan(&[Goal::SloCapacity]);
    let (mut held, mut near) = (0, 0);
    let searches = 20;
    for seed in 1..=searches {
        let probes = search(&plan, seed, &["e2e.p95 <= 100ms"], true, |seed| mm1(seed, 200.0));
        let found = estimate(&plan, Goal::SloCapacity, &probes);
        held +=
            u32::from(found.lower.unwrap_or(0.0) <= truth && found.upper.unwrap_or(f64::INFINITY) >= truth);
        near += u32::from((truth * 0.85..=truth * 1.12).contains(&found.value.unwrap()));
    }
    assert!(held >= 17, "{held} of {searches} intervals hold {truth}");
    assert!(near >= 16, "{near} of {searches} values are near {truth}");
}

#[test]
fn one_curve_serves_both_capacities() {
    let plan = search_plan(&[Goal::Saturation, Goal::SloCapacity]);
    let probes = search(&plan, 9, &["e2e.p95 <= 60ms"], true, |_| engine("capacity-50", 8));
    let (saturation, slo) =
        (estimate(&plan, Goal::Saturation, &probes), estimate(&plan, Goal::SloCapacity, &probes));
    assert!(slo.value.unwrap() < saturation.value.unwrap(), "{slo:?} {saturation:?}");
    let slopes =
        probes.iter().filter(|probe| probe.level > 60.0).map(|probe| probe.backlog_slope.unwrap().value);
    assert!(slopes.into_iter().all(|slope| slope > 5.0));
}
