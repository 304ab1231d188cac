//! Documents for tests: invented figures from a fixed sequence, in the shape in which the other crates make them.

use std::collections::BTreeMap;

use touchstone_model::decision::{
    Anchors, CandidateResult, CriterionResult, DecisionDocument, EvidenceEntry, Flip, Gate, GateKind,
    NextMeasurement, Ranking, Seal, Statement, Status, Verdict, Word,
};
use touchstone_model::run::{
    Block, Bound, Certificate, Counts, ErrorGroup, MetricSummary, Outcome, Phases, Rates, RunDocument,
    SchedulingError, SloOutcome, SparseHistogram, TargetDescription, Window, WorkloadDescription,
};
use touchstone_model::{Family, Finding, FindingCode, Level, MetricId, Origin, Phase, Statistic};
use touchstone_stats::histogram::Histogram;

/// Numbers between 0 and 1 that look random and never change.
fn noise(index: u64) -> f64 {
    let mixed = (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

pub(crate) fn sparse(values_ns: &[u64], censored: u64) -> SparseHistogram {
    let mut histogram = Histogram::new();
    values_ns.iter().for_each(|value| histogram.record(*value));
    (0..censored).for_each(|_| histogram.record_censored());
    let it = histogram.to_sparse();
    SparseHistogram {
        buckets: it.buckets,
        censored: it.censored,
        min: it.min,
        max: it.max,
        sum: it.sum.to_string(),
    }
}

fn summary(metric: MetricId, scale: f64, n: u64, censored: u64) -> MetricSummary {
    let bound =
        |upper: Option<f64>, needs| Bound { lower: Some(scale * 0.9), upper, confidence: 0.95, needs };
    MetricSummary {
        unit: metric.unit(),
        n,
        n_effective: n as f64 * 0.43,
        censored,
        mean: Some(scale * 1.08),
        p50: Some(scale),
        p90: Some(scale * 1.61),
        p95: Some(scale * 1.93),
        p99: Some(scale * 2.84),
        p999: None,
        max: Some(scale * 3.117),
        bounds: BTreeMap::from([
            (Statistic::P50, bound(Some(scale * 1.05), 6)),
            (Statistic::P95, bound(Some(scale * 2.21), 93)),
            (Statistic::P99, bound(None, 628)),
        ]),
    }
}

/// A simulated run of an inference engine: poisson:50/s, 2 s of warm-up, 10 s measured, two failures.
pub(crate) fn run() -> RunDocument {
    run_of("01-A", 41.2)
}

/// The same with another id and a median of the leading latency in ms.
pub(crate) fn run_of(id: &str, scale: f64) -> RunDocument {
    let windows = (0..14_u64)
        .map(|second| {
            let jitter = noise(second);
            let measured = second < 12;
            Window {
                from_s: second as f64,
                to_s: second as f64 + 1.0,
                offered: if measured { 44 + (jitter * 13.0) as u64 } else { 0 },
                sent: if measured { 44 + (jitter * 13.0) as u64 } else { 0 },
                completed: if measured { 42 + (noise(second + 50) * 14.0) as u64 } else { 3 },
                failed: u64::from(second == 7) * 2,
                output_tokens: 3000,
                in_flight: if measured { 4 + (noise(second + 90) * 7.0) as u64 } else { 13 - second },
                latency_p50: Some(scale * (0.92 + 0.2 * jitter)),
                latency_p99: (second != 12).then_some(scale * (2.2 + 1.1 * noise(second + 20))),
                icl_p50: Some(9.1),
                icl_p99: Some(14.0),
            }
        })
        .collect();
    let blocks = (0..10_u64)
        .map(|block| {
            let values = |scale: f64, n: u64| -> Vec<u64> {
                (0..n)
                    .map(|i| {
                        let u = noise(block * 100 + i + (scale * 7.0) as u64);
                        (scale * 1e6 * (0.75 - 0.42 * (1.0 - u * 0.999).ln())) as u64
                    })
                    .collect()
            };
            let failed = u64::from(block == 5) * 2;
            Block {
                seconds: 1.0,
                intended: 50,
                failed,
                completed_flow: 49,
                output_tokens_flow: 3000,
                good: 47,
                histograms: BTreeMap::from([
                    (MetricId::Ttft, sparse(&values(scale, 50 - failed), failed)),
                    (MetricId::Icl, sparse(&values(9.1, 400), 0)),
                    (MetricId::E2e, sparse(&values(scale * 15.0, 50 - failed), failed)),
                ]),
            }
        })
        .collect();
    RunDocument {
        format: touchstone_model::run::FORMAT.into(),
        run: id.into(),
        level: Level::E,
        simulated: true,
        valid: true,
        interrupted: false,
        started_at: "2026-03-01T09:00:00Z".into(),
        touchstone_version: "0.1.0".into(),
        target: TargetDescription {
            target: "openai-chat=http://127.0.0.1:8000/v1/chat/completions".into(),
            product: Some("touchstone-engine".into()),
            version: Some("0.1.0".into()),
            model: Some("tiny".into()),
        },
        workload: WorkloadDescription {
            arrival: "poisson:50/s".into(),
            seed: 7,
            schedule_digest: format!("sha256:{}", "5c".repeat(32)),
            parameters: BTreeMap::from([
                ("input_tokens".into(), 128.into()),
                ("output_tokens".into(), 64.into()),
            ]),
        },
        phases: Phases {
            start_ns: 1_000_000_000,
            measured_from_ns: 3_000_000_000,
            measured_to_ns: 13_000_000_000,
            end_ns: 15_000_000_000,
        },
        metrics: BTreeMap::from([
            (MetricId::Ttft, summary(MetricId::Ttft, scale, 500, 2)),
            (MetricId::Icl, summary(MetricId::Icl, 9.1, 31_374, 0)),
            (MetricId::E2e, summary(MetricId::E2e, scale * 15.0, 500, 2)),
            (MetricId::SchedulingError, summary(MetricId::SchedulingError, 0.011, 500, 0)),
        ]),
        rates: Rates {
            offered: Some(50.0),
            achieved: Some(50.0),
            throughput: Some(49.7),
            goodput: Some(47.1),
            output_tokens: Some(3186.4),
        },
        counts: Counts {
            intended: 500,
            sent: 500,
            completed: 498,
            failed: 2,
            censored: 1,
            good: Some(471),
            warm_up: 97,
            output_tokens: Some(31_872),
            input_tokens: Some(64_000),
            content_events: 31_874,
            connections: 23,
            bytes_sent: 412_004,
            bytes_received: 9_120_441,
            ..Counts::default()
        },
        errors: vec![ErrorGroup {
            origin: Origin::Target,
            phase: Phase::Headers,
            kind: "http-500".into(),
            message: "500 Internal Server Error: <script>alert('x')</script> \u{1b}[31mred".into(),
            advice: "read the server's log at the time of the first failure".into(),
            count: 2,
            measured: 2,
        }],
        findings: vec![
            Finding::new(
                FindingCode::Simulated,
                "the target says that it is a simulator",
                "use the figures to learn the method, not to choose a product",
            ),
            Finding::new(
                FindingCode::Errors,
                "2 of 500 operations failed",
                "see the errors with their origin and phase",
            ),
        ],
        generator: Certificate {
            shards: 2,
            kernel_stamps: true,
            coalesced_share: Some(0.004),
            scheduling_error_ms: Some(SchedulingError { p50: 0.011, p99: 0.052, max: 0.34 }),
            cpu_busy: vec![0.071, 0.064],
            cpu_us_per_operation: Some(212.0),
            turnaround_us: None,
            realtime: false,
            loopback_ceiling: Some(41_000.0),
            clock_steps: 0,
            events_dropped: 0,
        },
        slo: vec![
            SloOutcome {
                slo: "ttft.p95 <= 150ms".into(),
                outcome: Outcome::Pass,
                value: Some(scale * 1.93),
                lower: Some(scale * 1.7),
                upper: Some(scale * 2.21),
                needs: Some(93),
                share: Some(0.968),
            },
            SloOutcome {
                slo: "ttft.p99 <= 200ms".into(),
                outcome: Outcome::Undetermined,
                value: Some(scale * 2.84),
                lower: Some(scale * 2.3),
                upper: None,
                needs: Some(628),
                share: Some(0.984),
            },
        ],
        windows,
        blocks,
        stages: Vec::new(),
        fingerprint: Some(format!("sha256:{}", "f1".repeat(32))),
        steady: None,
        server: None,
    }
}

/// A measured run in which nothing worked.
pub(crate) fn failed_run() -> RunDocument {
    let mut run = run();
    run.level = Level::P2;
    (run.simulated, run.valid, run.interrupted) = (false, false, true);
    run.metrics.clear();
    run.blocks.clear();
    run.windows.clear();
    run.slo.clear();
    run.rates = Rates { offered: None, ..Rates::default() };
    run.counts = Counts { intended: 500, failed: 500, ..Counts::default() };
    run.generator = Certificate::default();
    run.findings =
        vec![Finding::new(FindingCode::AllFailed, "all 500 operations failed", "check that the target runs")];
    run.errors[0].message = "connection refused".into();
    run.errors[0].origin = Origin::Network;
    run.errors[0].phase = Phase::Connect;
    run.errors[0].kind = "refused".into();
    run
}

/// A run whose figures are at the ends of what numbers can be.
pub(crate) fn huge_run() -> RunDocument {
    let mut run = run();
    run.metrics.insert(MetricId::Ttft, summary(MetricId::Ttft, 1e300, u64::MAX, u64::MAX));
    run.metrics.insert(MetricId::E2e, summary(MetricId::E2e, f64::NAN, 1, 0));
    run.rates.throughput = Some(f64::INFINITY);
    run.rates.offered = Some(1e18);
    run.counts.intended = u64::MAX;
    run.generator.cpu_busy = vec![f64::NAN];
    run.windows[3].latency_p99 = Some(f64::INFINITY);
    run.windows[4].latency_p99 = Some(1e300);
    run.windows[5].to_s = run.windows[5].from_s;
    run.windows[6].in_flight = u64::MAX;
    run
}

fn digest(byte: &str) -> String {
    format!("sha256:{}", byte.repeat(32))
}

fn gate(
    requirement: &str,
    kind: GateKind,
    outcome: Outcome,
    reason: (&str, &str),
    figures: [Option<f64>; 3],
) -> Gate {
    let measured = kind == GateKind::Statistical;
    Gate {
        requirement: requirement.into(),
        kind,
        outcome,
        reason: reason.0.into(),
        reason_zh: reason.1.into(),
        confidence: measured.then_some(0.95),
        value: figures[0],
        lower: figures[1],
        upper: figures[2],
        needs: measured.then_some(93),
        evidence: vec![digest(if measured { "aa" } else { "cc" })],
    }
}

fn candidate(name: &str, product: &str, status: Status, gates: Vec<Gate>) -> CandidateResult {
    let measured = matches!(status, Status::Contender | Status::Failed | Status::Dominated);
    CandidateResult {
        name: name.into(),
        product: product.into(),
        configuration: Some("default".into()),
        version: measured.then(|| "1.0".into()),
        status,
        gates,
        criteria: BTreeMap::new(),
        dominated_by: None,
        durability: None,
        delivery: None,
        level: measured.then_some(Level::E),
        simulated: measured,
        price: measured.then_some(2.5),
        reversible: Some(true),
        runs: Vec::new(),
    }
}

fn figures(median: f64, worth: f64) -> CriterionResult {
    CriterionResult {
        median: Some(median),
        lower: Some(median * 0.93),
        upper: Some(median * 1.09),
        worth: Some(worth),
    }
}

/// A decision between two simulated contenders, with a failed, a vetoed and an unmeasured candidate.
pub(crate) fn decision() -> DecisionDocument {
    use GateKind::{Rule, Semantic, Statistical};
    let streaming = || {
        gate(
            "streaming = yes",
            Semantic,
            Outcome::Pass,
            ("streaming is claimed", "声明支持流式输出"),
            [None; 3],
        )
    };
    let p95 = |outcome, reason, figures| gate("ttft.p95 <= 150ms", Statistical, outcome, reason, figures);
    let mut fast = candidate(
        "paged-fast",
        "vllm",
        Status::Contender,
        vec![
            streaming(),
            p95(
                Outcome::Pass,
                (
                    "79.5 ms, between 70 ms and 91 ms at 95% a side",
                    "79.5 ms，单侧 95% 置信界为 70 ms 至 91 ms",
                ),
                [Some(79.5), Some(70.0), Some(91.0)],
            ),
        ],
    );
    fast.criteria = BTreeMap::from([
        ("ttft.p95".into(), figures(79.5, 0.71)),
        ("throughput".into(), figures(49.7, 0.62)),
    ]);
    let mut steady = candidate(
        "paged",
        "tgi",
        Status::Contender,
        vec![
            streaming(),
            p95(
                Outcome::Undetermined,
                (
                    "121 ms, at least 98 ms at 95%, without an upper bound",
                    "121 ms,95% 置信下界 98 ms，无置信上界",
                ),
                [Some(121.0), Some(98.0), None],
            ),
        ],
    );
    steady.criteria = BTreeMap::from([
        ("ttft.p95".into(), figures(121.0, 0.42)),
        ("throughput".into(), figures(49.9, 0.64)),
    ]);
    let mut slow = candidate(
        "static-batch",
        "fastchat",
        Status::Failed,
        vec![
            streaming(),
            p95(
                Outcome::Fail,
                (
                    "412 ms, between 371 ms and 460 ms at 95% a side",
                    "412 ms，单侧 95% 置信界为 371 ms 至 460 ms",
                ),
                [Some(412.0), Some(371.0), Some(460.0)],
            ),
        ],
    );
    slow.criteria = BTreeMap::from([("ttft.p95".into(), figures(412.0, 0.0))]);
    let vetoed = candidate(
        "old|one",
        "triton",
        Status::Vetoed,
        vec![gate(
            "no-static-batch-for-chat",
            Rule,
            Outcome::Fail,
            ("static batches make short answers wait for long ones <b>", "静态批处理使短回答等待长回答"),
            [None; 3],
        )],
    );
    let unmeasured = candidate("llama.cpp", "llama.cpp", Status::Unmeasured, vec![streaming()]);
    let statement = |id: &str, text: &str, text_zh: &str, evidence: &[&str]| Statement {
        id: id.into(),
        text: text.into(),
        text_zh: text_zh.into(),
        evidence: evidence.iter().map(|byte| digest(byte)).collect(),
    };
    let statements = vec![
        statement(
            "s1",
            "Verdict: leaning `paged-fast`: it wins against `paged` in 0.83 of the draws but holds at every preference in only 0.61.",
            "结论：倾向 `paged-fast`：它在 0.83 的抽样中胜过 `paged`，但仅在 0.61 的抽样中对所有偏好成立。",
            &["aa", "bb"],
        ),
        statement(
            "s2",
            "The verdict speaks only about the measured candidates; these passed the match and have no target: llama.cpp.",
            "结论仅针对已测量的候选；以下候选通过匹配但没有测量目标：llama.cpp。",
            &["dd"],
        ),
        statement(
            "s3",
            "`paged-fast` passes every gate: `streaming = yes` (streaming is claimed); `ttft.p95 <= 150ms` (79.5 ms, between 70 ms and 91 ms at 95% a side).",
            "`paged-fast` 通过全部门槛：`streaming = yes`（声明支持流式输出）;`ttft.p95 <= 150ms`(79.5 ms，单侧 95% 置信界为 70 ms 至 91 ms)。",
            &["aa", "cc"],
        ),
        statement(
            "s4",
            "`paged` is undetermined on `ttft.p95 <= 150ms`: 121 ms, at least 98 ms at 95%, without an upper bound.",
            "`paged` 对 `ttft.p95 <= 150ms` 无法判定：121 ms,95% 置信下界 98 ms，无置信上界。",
            &["bb"],
        ),
        statement(
            "s5",
            "`static-batch` fails `ttft.p95 <= 150ms`: 412 ms, between 371 ms and 460 ms at 95% a side.",
            "`static-batch` 对 `ttft.p95 <= 150ms` 不通过：412 ms，单侧 95% 置信界为 371 ms 至 460 ms。",
            &["aa"],
        ),
        statement(
            "s6",
            "`old|one` fails `no-static-batch-for-chat`: static batches make short answers wait for long ones <b>.",
            "`old|one` 对 `no-static-batch-for-chat` 不通过：静态批处理使短回答等待长回答。",
            &["cc"],
        ),
        statement(
            "s7",
            "At the centre of the preferences `paged` would draw level with the lead if `ttft.p95` of `paged-fast` were 131ms instead of 79.5ms.",
            "在偏好中心处，若 `paged-fast` 的 `ttft.p95` 由 79.5ms 变为 131ms,`paged` 将追平领先者。",
            &["aa", "bb"],
        ),
        statement(
            "s8",
            "Next: measure `paged` for 60 s more to settle ttft.p95 <= 150ms.",
            "下一步：对 `paged` 再测 60 秒，以判定 ttft.p95 <= 150ms。",
            &["bb"],
        ),
    ];
    let entry = |byte: &str, kind: &str, path: &str, level, simulated, label: &str| EvidenceEntry {
        digest: digest(byte),
        kind: kind.into(),
        path: path.into(),
        level,
        simulated,
        label: label.into(),
    };
    DecisionDocument {
        format: touchstone_model::decision::FORMAT.into(),
        id: "2026-03-01-chat".into(),
        scenario: "chat".into(),
        description: "Short answers for a help desk, first word within 150 ms for 95 of 100.".into(),
        family: Family::Inference,
        seal: Seal { digest: digest("5e"), sealed_at: "2026-03-01T08:59:00Z".into(), before_results: true },
        decided_at: "2026-03-01T09:02:10Z".into(),
        level: Level::E,
        simulated: true,
        touchstone_version: "0.1.0".into(),
        catalog_date: "2026-02-20".into(),
        seed: 7,
        criteria: vec![
            Anchors { metric: "ttft.p95".into(), worst: "400ms".into(), best: "50ms".into() },
            Anchors { metric: "cost".into(), worst: "10USD/h".into(), best: "1USD/h".into() },
        ],
        preference: vec![vec!["ttft.p95".into()], vec!["cost".into()]],
        candidates: vec![fast, steady, slow, vetoed, unmeasured],
        ranking: Ranking {
            contenders: vec!["paged-fast".into(), "paged".into()],
            acceptability: vec![vec![0.83, 0.17], vec![0.17, 0.83]],
            pairwise: vec![vec![1.0, 0.83], vec![0.17, 1.0]],
            robust: vec![vec![1.0, 0.61], vec![0.05, 1.0]],
            regret_p95: vec![0.02, 0.21],
            central_weights: vec![vec![0.68, 0.32], vec![]],
            criteria: vec!["ttft.p95".into(), "throughput".into()],
            draws: 20_000,
        },
        flips: vec![Flip {
            criterion: "ttft.p95".into(),
            to: "paged".into(),
            of: "paged-fast".into(),
            from_value: 79.5,
            to_value: 131.0,
        }],
        next_measurements: vec![NextMeasurement {
            candidate: "paged".into(),
            subject: "ttft.p95 <= 150ms".into(),
            probability: None,
            advice: "measure `paged` for 60 s more to settle ttft.p95 <= 150ms".into(),
            advice_zh: "对 `paged` 再测 60 秒，以判定 ttft.p95 <= 150ms".into(),
        }],
        verdict: Verdict {
            word: Word::Leaning,
            candidate: Some("paged-fast".into()),
            reason: "it wins against `paged` in 0.83 of the draws but holds at every preference in only 0.61"
                .into(),
            reason_zh: "它在 0.83 的抽样中胜过 `paged`，但仅在 0.61 的抽样中对所有偏好成立".into(),
        },
        statements,
        evidence: vec![
            entry("aa", "run", "runs/a.json", Level::E, true, "paged-fast, poisson:50/s"),
            entry("bb", "run", "runs/b.json", Level::E, true, "paged, poisson:50/s"),
            entry("cc", "catalog", "catalog.json", Level::P0, false, "claims of 2026-02-20"),
            entry("dd", "scenario", "scenario.yaml", Level::P0, false, "the scenario"),
        ],
        review_by: "2026-06-01".into(),
    }
}

/// A decision in which nothing could be ranked.
pub(crate) fn empty_decision() -> DecisionDocument {
    let mut document = decision();
    document.candidates.retain(|candidate| candidate.status == Status::Vetoed);
    document.ranking = Ranking::default();
    document.flips.clear();
    document.next_measurements.clear();
    document.statements.retain(|statement| statement.id == "s6");
    document.simulated = false;
    document.level = Level::P0;
    document.verdict = Verdict {
        word: Word::NoCandidate,
        candidate: None,
        reason: "no candidate passes every gate".into(),
        reason_zh: "没有候选通过全部门槛".into(),
    };
    document
}
