//! Builders of scenarios, runs and inputs for the tests of this crate.

#![expect(clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

use std::collections::BTreeMap;

use touchstone_decide::{CandidateInput, Context, EvidenceRun, decide};
use touchstone_model::decision::{CandidateResult, DecisionDocument, Gate, GateKind, Seal};
use touchstone_model::run::{
    Block, Certificate, Counts, MetricSummary, Outcome, Phases, Rates, SparseHistogram, TargetDescription,
    Window, WorkloadDescription,
};
use touchstone_model::scenario::Candidate;
use touchstone_model::{Level, MetricId, RunDocument, Scenario, Unit};
use touchstone_stats::histogram::Histogram;
use touchstone_stats::rng::Rng;

/// A run under construction: ttft values in ms per block of one second.
#[derive(Clone, Debug)]
pub(crate) struct RunBuilder {
    pub(crate) blocks: Vec<Vec<f64>>,
    /// Censored operations per block.
    pub(crate) censored: u64,
    pub(crate) arrival: String,
    /// Intended starts per block; the number of values and censored when none.
    pub(crate) intended: Option<u64>,
    pub(crate) completed_flow: Option<u64>,
    pub(crate) n_effective_share: f64,
    pub(crate) in_flight: u64,
    pub(crate) lost: Option<u64>,
    pub(crate) good_share: Option<f64>,
    pub(crate) valid: bool,
    pub(crate) simulated: bool,
}

impl RunBuilder {
    pub(crate) fn new(blocks: Vec<Vec<f64>>) -> Self {
        Self {
            blocks,
            censored: 0,
            arrival: "constant:50/s".to_owned(),
            intended: None,
            completed_flow: None,
            n_effective_share: 1.0,
            in_flight: 0,
            lost: None,
            good_share: None,
            valid: true,
            simulated: false,
        }
    }

    /// `blocks` blocks of `n` values, log-normal about `median` ms.
    pub(crate) fn noisy(seed: u64, blocks: usize, n: usize, median: f64, sigma: f64) -> Self {
        let mut rng = Rng::new(seed);
        let mut block = || (0..n).map(|_| rng.log_normal(median.ln(), sigma)).collect();
        Self::new((0..blocks).map(|_| block()).collect())
    }

    /// `blocks` blocks of `n` equal values.
    pub(crate) fn flat(blocks: usize, n: usize, value: f64) -> Self {
        Self::new(vec![vec![value; n]; blocks])
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(crate) fn build(&self) -> RunDocument {
        let mut total = Counts::default();
        let blocks: Vec<Block> = self
            .blocks
            .iter()
            .map(|values| {
                let mut histogram = Histogram::new();
                values.iter().for_each(|value| histogram.record((value * 1e6) as u64));
                (0..self.censored).for_each(|_| histogram.record_censored());
                let sparse = histogram.to_sparse();
                let intended = self.intended.unwrap_or(values.len() as u64 + self.censored);
                let good = self.good_share.map_or(0, |share| (share * intended as f64).round() as u64);
                total.intended += intended;
                total.sent += intended;
                total.completed += values.len() as u64;
                total.failed += self.censored;
                Block {
                    seconds: 1.0,
                    intended,
                    failed: self.censored,
                    completed_flow: self.completed_flow.unwrap_or(values.len() as u64),
                    output_tokens_flow: 64 * values.len() as u64,
                    good,
                    histograms: BTreeMap::from([(
                        MetricId::Ttft,
                        SparseHistogram {
                            buckets: sparse.buckets,
                            censored: sparse.censored,
                            min: sparse.min,
                            max: sparse.max,
                            sum: sparse.sum.to_string(),
                        },
                    )]),
                }
            })
            .collect();
        let seconds = blocks.len() as f64;
        let n: u64 = self.blocks.iter().map(|block| block.len() as u64 + self.censored).sum();
        let flow: u64 = blocks.iter().map(|block| block.completed_flow).sum();
        let good: u64 = blocks.iter().map(|block| block.good).sum();
        let open = !self.arrival.starts_with("closed");
        RunDocument {
            format: touchstone_model::run::FORMAT.to_owned(),
            run: "run".to_owned(),
            level: if self.simulated { Level::E } else { Level::P2 },
            simulated: self.simulated,
            valid: self.valid,
            interrupted: false,
            started_at: "2026-01-01T00:00:00Z".to_owned(),
            touchstone_version: "0".to_owned(),
            target: TargetDescription::default(),
            workload: WorkloadDescription {
                arrival: self.arrival.clone(),
                seed: 1,
                schedule_digest: "sha256:0".to_owned(),
                parameters: BTreeMap::new(),
            },
            phases: Phases {
                start_ns: 0,
                measured_from_ns: 0,
                measured_to_ns: (seconds * 1e9) as u64,
                end_ns: (seconds * 1e9) as u64,
            },
            metrics: BTreeMap::from([(
                MetricId::Ttft,
                MetricSummary {
                    unit: Unit::Milliseconds,
                    n,
                    n_effective: n as f64 * self.n_effective_share,
                    censored: self.censored * self.blocks.len() as u64,
                    mean: None,
                    p50: None,
                    p90: None,
                    p95: None,
                    p99: None,
                    p999: None,
                    max: None,
                    bounds: BTreeMap::new(),
                },
            )]),
            rates: Rates {
                offered: open.then(|| total.intended as f64 / seconds),
                achieved: Some(total.sent as f64 / seconds),
                throughput: Some(flow as f64 / seconds),
                goodput: self.good_share.map(|_| good as f64 / seconds),
                output_tokens: Some(64.0 * total.completed as f64 / seconds),
            },
            counts: Counts { good: self.good_share.map(|_| good), lost: self.lost, ..total },
            errors: Vec::new(),
            findings: Vec::new(),
            generator: Certificate::default(),
            slo: Vec::new(),
            windows: (0..blocks.len())
                .map(|second| Window {
                    from_s: second as f64,
                    to_s: second as f64 + 1.0,
                    in_flight: self.in_flight,
                    ..Window::default()
                })
                .collect(),
            blocks,
            stages: Vec::new(),
            fingerprint: None,
            steady: None,
            server: None,
        }
    }
}

/// A candidate under construction.
#[derive(Clone, Debug)]
pub(crate) struct Contestant {
    pub(crate) candidate: Candidate,
    pub(crate) runs: Vec<RunDocument>,
    pub(crate) gates: Vec<Gate>,
    pub(crate) durability: Option<String>,
    /// Digest of the workload of all its runs.
    pub(crate) workload: String,
    /// Digests of the workloads run by run, instead.
    pub(crate) workloads: Vec<String>,
}

impl Contestant {
    pub(crate) fn new(name: &str, runs: Vec<RunDocument>) -> Self {
        let candidate = serde_json::json!({ "name": name, "product": "vllm", "target": "engine=p" });
        Self {
            candidate: serde_json::from_value(candidate).unwrap(),
            runs,
            gates: Vec::new(),
            durability: None,
            workload: "sha256:w".to_owned(),
            workloads: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// A semantic gate with the given outcome.
pub(crate) fn semantic(requirement: &str, outcome: Outcome) -> Gate {
    Gate {
        requirement: requirement.to_owned(),
        kind: GateKind::Semantic,
        outcome,
        reason: "the catalog says so".to_owned(),
        reason_zh: "目录如此说明".to_owned(),
        confidence: None,
        value: None,
        lower: None,
        upper: None,
        needs: None,
        evidence: Vec::new(),
    }
}

/// A queue scenario with these reliability requirements.
pub(crate) fn queue(reliability: &str) -> Scenario {
    let none = "{none: it does not matter here}";
    of_family("queue", "message_bytes: 128B", [none, none, reliability, "[]"])
}

/// An inference scenario with the given requirements (YAML lists) and criteria (YAML list).
pub(crate) fn scenario(latency: &str, throughput: &str, reliability: &str, criteria: &str) -> Scenario {
    let payload = "input_tokens: 128, output_tokens: 64";
    of_family("inference", payload, [latency, throughput, reliability, criteria])
}

fn of_family(family: &str, payload: &str, parts: [&str; 4]) -> Scenario {
    let [latency, throughput, reliability, criteria] = parts;
    let text = format!(
        "
format: touchstone.scenario/1
name: test
family: {family}
horizon: 12 months
workload: {{arrival: 'constant:50/s', {payload}}}
requirements:
  latency: {latency}
  throughput: {throughput}
  consistency: {{none: any answer will do}}
  reliability: {reliability}
  scalability: {{peak_factor: 1, growth: 0%/year}}
criteria: {criteria}
"
    );
    Scenario::from_yaml("s.yaml", text.as_bytes()).unwrap()
}

/// A scenario without gates on figures.
pub(crate) fn free(criteria: &str) -> Scenario {
    let none = "{none: it does not matter here}";
    scenario(none, none, none, criteria)
}

/// Decides with few draws.
pub(crate) fn decided(scenario: &Scenario, contestants: &[Contestant]) -> DecisionDocument {
    decided_with(scenario, contestants, 200)
}

pub(crate) fn decided_with(scenario: &Scenario, contestants: &[Contestant], draws: u32) -> DecisionDocument {
    let digests: Vec<Vec<String>> = contestants
        .iter()
        .map(|c| (0..c.runs.len()).map(|i| format!("sha256:{}-{i}", c.candidate.name)).collect())
        .collect();
    let inputs: Vec<CandidateInput<'_>> = contestants
        .iter()
        .zip(&digests)
        .map(|(c, digests)| CandidateInput {
            candidate: &c.candidate,
            semantic_gates: c.gates.clone(),
            durability: c.durability.clone(),
            delivery: None,
            runs: c
                .runs
                .iter()
                .zip(digests)
                .enumerate()
                .map(|(i, (document, digest))| EvidenceRun {
                    digest,
                    workload_digest: c.workloads.get(i).unwrap_or(&c.workload),
                    document,
                })
                .collect(),
        })
        .collect();
    let seal = Seal {
        digest: "sha256:seal".to_owned(),
        sealed_at: "2026-01-01T00:00:00Z".to_owned(),
        before_results: true,
    };
    let context = Context {
        id: "d1",
        touchstone_version: "0.1.0",
        catalog_date: "2026-01-01",
        catalog_digest: "sha256:catalog",
        scenario_digest: "sha256:scenario",
        seal: &seal,
        decided_at: "2026-01-01T00:01:00Z",
        review_by: "2027-01-01",
        draws,
    };
    decide(scenario, &inputs, &context)
}

/// The result of a candidate by name.
pub(crate) fn of<'a>(document: &'a DecisionDocument, name: &str) -> &'a CandidateResult {
    document.candidates.iter().find(|candidate| candidate.name == name).unwrap()
}

/// The gate of a candidate on a requirement.
pub(crate) fn gate<'a>(document: &'a DecisionDocument, name: &str, requirement: &str) -> &'a Gate {
    of(document, name).gates.iter().find(|gate| gate.requirement == requirement).unwrap()
}
