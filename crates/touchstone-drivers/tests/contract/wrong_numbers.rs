//! What load generators have told wrong, each with a server whose timetable is known: its bytes go through the driver
//! and the load engine on virtual time, and every figure of the run document must be the one worked out by hand.
//!
//! Timetable of every operation, in ms after its intended start: handed over at 1, on a connection at 3, sent at 5;
//! what the server writes is read at the instants of its script.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use touchstone_drivers::{Dialect, Generation, GenerationOptions};
use touchstone_load::plan::SECOND;
use touchstone_load::summary::{RunContext, summarise};
use touchstone_load::{Driver, LoadPlan, Op, Session, SessionEvent, Shard, Traits};
use touchstone_model::run::{Certificate, Outcome, RunDocument};
use touchstone_model::{Arrival, FindingCode, MetricId, Statistic};
use touchstone_stats::histogram::RELATIVE_ERROR;
use touchstone_stats::rng::Rng;
use touchstone_workload::requests::Requests;

const MS: u64 = 1_000_000;
/// Ten operations a second for four seconds, from the start on.
const OPERATIONS: u64 = 40;
const SECONDS: f64 = 4.0;

/// What the server writes for one operation: instants in ms after the intended start, with the bytes; none is the end
/// of the connection.
type Script = Vec<(u64, Option<Vec<u8>>)>;

/// The limits of every run: one on each metric that can be limited per operation.
const LIMITS: [&str; 9] = [
    "ttft.p99 <= 10s",
    "ttft_from_send.p99 <= 10s",
    "ttft_answer.p99 <= 10s",
    "e2e.p99 <= 10s",
    "service_time.p99 <= 10s",
    "stream_close.p99 <= 10s",
    "icl.p99 <= 10s",
    "itl.p99 <= 10s",
    "tpot.p99 <= 10s",
];

struct Live {
    session: Box<dyn Session>,
    op: Op,
    over: bool,
}

/// A run of the whole schedule against the scripts.
fn run(dialect: Dialect, asked: u32, script: impl Fn(u64) -> Script) -> RunDocument {
    let mut options = GenerationOptions::new(dialect, "127.0.0.1:8000", "tiny");
    options.requests = Requests::fixed(0, 4, asked);
    let driver: Arc<dyn Driver> = Arc::new(Generation::new(options).unwrap());
    let traits = Traits { family: driver.family(), leading: driver.leading_metric() };
    let mut plan = LoadPlan::new("constant:10/s".parse::<Arrival>().unwrap(), 1);
    (plan.warm_up_ns, plan.duration_ns) = (0, 4 * SECOND);
    plan.slos = LIMITS.iter().map(|limit| limit.parse().unwrap()).collect();
    let plan = Arc::new(plan);
    let start = 7 * SECOND;
    let mut shard = Shard::new(Arc::clone(&plan), traits, 0, start).for_driver(Arc::clone(&driver));
    let mut live: Vec<Live> = Vec::new();
    let mut reads: Vec<(usize, Option<Vec<u8>>)> = Vec::new();
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Step {
        Pull,
        Begin,
        Sent(usize),
        Read(usize),
    }
    let mut steps = BinaryHeap::from([Reverse((shard.next_due().unwrap() + MS, Step::Pull))]);
    let mut now = start;
    while let Some(Reverse((at, step))) = steps.pop() {
        now = at;
        match step {
            Step::Pull => {
                shard.pull_due(now);
                steps.push(Reverse((now + 2 * MS, Step::Begin)));
                steps.extend(shard.next_due().map(|due| Reverse((due + MS, Step::Pull))));
            }
            Step::Begin => {
                let op = shard.begin(now).unwrap();
                let (mut session, mut out) = (driver.session(0, 0), Vec::new());
                session.open(&mut out, &mut Vec::new());
                session.start(op, &mut out);
                let number = live.len();
                live.push(Live { session, op, over: false });
                steps.push(Reverse((now + 2 * MS, Step::Sent(number))));
                for (at, bytes) in script(op.index) {
                    steps.push(Reverse((op.intended_ns + at * MS, Step::Read(reads.len()))));
                    reads.push((number, bytes));
                }
            }
            Step::Sent(number) => shard.sent(live[number].op.token, now),
            Step::Read(read) => {
                let (number, bytes) = &reads[read];
                let of = &mut live[*number];
                let (mut events, mut ended) = (Vec::new(), Vec::new());
                match bytes {
                    Some(bytes) => of.session.receive(bytes, &mut Vec::new(), &mut events),
                    None => of.session.end_of_stream(&mut events),
                }
                let broken = events.iter().find_map(|event| match event {
                    SessionEvent::Broken { failure } => Some(failure.clone()),
                    _ => None,
                });
                shard.receive(&mut events, now, &mut ended);
                of.over |= !ended.is_empty();
                if let Some(failure) = broken.filter(|_| !of.over) {
                    assert!(shard.fail(of.op.token, failure, now));
                    of.over = true;
                }
            }
        }
    }
    let context = RunContext {
        connections: 1,
        certificate: Certificate { shards: 1, kernel_stamps: true, ..Certificate::default() },
        ..RunContext::default()
    };
    summarise(&plan, traits, &shard.finish(now.max(start + 4 * SECOND)).0, context)
}

/// Observations in ms, each with its number; infinity for what never came.
type Truth = (MetricId, Vec<(f64, u64)>);

/// Every metric of the document is the truth, and there is no other.
fn check(name: &str, document: &RunDocument, truth: &[Truth]) {
    let always = [
        (MetricId::SchedulingError, vec![(1.0, OPERATIONS)]),
        (MetricId::SlotWait, vec![(2.0, OPERATIONS)]),
        (MetricId::Write, vec![(2.0, OPERATIONS)]),
    ];
    let truth: BTreeMap<MetricId, Vec<(f64, u64)>> =
        always.into_iter().chain(truth.iter().cloned()).collect();
    let told: Vec<MetricId> = document.metrics.keys().copied().collect();
    assert_eq!(told, truth.keys().copied().collect::<Vec<_>>(), "{name}: which metrics there are");
    for (metric, mut values) in truth {
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let summary = &document.metrics[&metric];
        let n: u64 = values.iter().map(|value| value.1).sum();
        let came: Vec<(f64, u64)> = values.iter().copied().filter(|value| value.0.is_finite()).collect();
        let observed: u64 = came.iter().map(|value| value.1).sum();
        assert_eq!((summary.n, summary.censored), (n, n - observed), "{name}: {metric}: how many");
        // To the ns: the engine counts in whole ones.
        let near = |told: Option<f64>, value: f64| told.is_some_and(|told| (told - value).abs() <= 1.001e-6);
        let sum: f64 = came.iter().map(|(value, n)| value * *n as f64).sum();
        assert!(
            observed == 0 || near(summary.mean, sum / observed as f64),
            "{name}: {metric}: mean {:?}",
            summary.mean
        );
        assert!(
            observed == 0 || near(summary.max, came[came.len() - 1].0),
            "{name}: {metric}: max {:?}",
            summary.max
        );
        for statistic in Statistic::QUANTILES {
            let rank = (statistic.level().unwrap() * n as f64).ceil() as u64;
            let mut so_far = 0;
            let right = values
                .iter()
                .find(|(_, n)| {
                    so_far += n;
                    so_far >= rank
                })
                .unwrap()
                .0;
            let told = summary.statistic(statistic);
            let good = match told {
                None => right.is_infinite(),
                Some(told) => told >= right - 1.001e-6 && told <= right * (1.0 + RELATIVE_ERROR) + 1.001e-6,
            };
            assert!(good, "{name}: {metric} {statistic} is {told:?}, not {right}");
        }
    }
}

fn codes(document: &RunDocument) -> Vec<FindingCode> {
    document
        .findings
        .iter()
        .map(|finding| finding.code)
        .filter(|code| *code != FindingCode::SampleTooSmall)
        .collect()
}

// What a server writes.

fn head() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec()
}

fn event(data: &str) -> Vec<u8> {
    let data = format!("data: {data}\n\n");
    format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()
}

/// A chat chunk with this delta, and usage so far where it is told.
fn delta(delta: &str, so_far: Option<u32>) -> Vec<u8> {
    let usage = so_far.map_or(String::new(), |tokens| {
        format!(r#","usage":{{"prompt_tokens":4,"completion_tokens":{tokens}}}"#)
    });
    event(&format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]{usage}}}"#))
}

fn text(so_far: Option<u32>) -> Vec<u8> {
    delta(r#"{"content":"some words"}"#, so_far)
}

fn usage(tokens: u32) -> Vec<u8> {
    event(&format!(r#"{{"choices":[],"usage":{{"prompt_tokens":4,"completion_tokens":{tokens}}}}}"#))
}

fn end() -> Vec<u8> {
    [event("[DONE]"), b"0\r\n\r\n".to_vec()].concat()
}

fn at(ms: u64, pieces: &[Vec<u8>]) -> (u64, Option<Vec<u8>>) {
    (ms, Some(pieces.concat()))
}

fn each(value: f64) -> Vec<(f64, u64)> {
    vec![(value, OPERATIONS)]
}

#[test]
fn merged_tokens() {
    let document = run(Dialect::Chat, 8, |_| {
        vec![
            at(10, &[head()]),
            at(45, &[text(Some(1))]),
            at(65, &[text(Some(4))]),
            at(105, &[text(Some(8))]),
            at(125, &[usage(8), end()]),
        ]
    });
    let n = OPERATIONS;
    check(
        "merged tokens",
        &document,
        &[
            (MetricId::Ttft, each(45.0)),
            (MetricId::TtftFromSend, each(40.0)),
            (MetricId::TtftAnswer, each(45.0)),
            (MetricId::Icl, vec![(20.0, n), (40.0, n)]),
            // Seven tokens came after the first chunk: three in 20 ms, four in 40 ms. One a chunk would be 20 and 40 ms.
            (MetricId::Itl, vec![(20.0 / 3.0, 3 * n), (10.0, 4 * n)]),
            (MetricId::Tpot, each(60.0 / 7.0)),
            (MetricId::Ntpot, each(105.0 / 8.0)),
            (MetricId::E2e, each(105.0)),
            (MetricId::ServiceTime, each(100.0)),
            (MetricId::StreamClose, each(20.0)),
        ],
    );
    let counts = &document.counts;
    assert_eq!((counts.intended, counts.sent, counts.completed, counts.failed), (n, n, n, 0));
    assert_eq!((counts.output_tokens, counts.input_tokens), (Some(8 * n), Some(4 * n)));
    assert_eq!((counts.content_events, counts.good), (3 * n, Some(n)));
    let rates = &document.rates;
    assert_eq!((rates.offered, rates.achieved), (Some(10.0), Some(10.0)));
    assert_eq!(rates.goodput, Some(10.0));
    // The last operation begins 100 ms before the window ends: its end and its last four tokens fall outside.
    assert_eq!(rates.throughput, Some((n - 1) as f64 / SECONDS));
    assert_eq!(rates.output_tokens, Some((8 * n - 4) as f64 / SECONDS));
    assert_eq!(codes(&document), []);
}

#[test]
fn reasoning_first() {
    let document = run(Dialect::Chat, 6, |_| {
        vec![
            at(10, &[head(), delta(r#"{"role":"assistant","content":""}"#, Some(0))]),
            at(45, &[delta(r#"{"reasoning_content":"I think"}"#, Some(2))]),
            at(55, &[delta(r#"{"reasoning":" that"}"#, Some(4))]),
            at(95, &[text(Some(5))]),
            at(105, &[text(Some(6))]),
            at(110, &[end()]),
        ]
    });
    let n = OPERATIONS;
    check(
        "reasoning first",
        &document,
        &[
            (MetricId::Ttft, each(45.0)),
            (MetricId::TtftFromSend, each(40.0)),
            (MetricId::TtftAnswer, each(95.0)),
            (MetricId::Icl, vec![(10.0, 2 * n), (40.0, n)]),
            (MetricId::Itl, vec![(5.0, 2 * n), (10.0, n), (40.0, n)]),
            (MetricId::Tpot, each(15.0)),
            (MetricId::Ntpot, each(17.5)),
            (MetricId::E2e, each(105.0)),
            (MetricId::ServiceTime, each(100.0)),
            (MetricId::StreamClose, each(5.0)),
        ],
    );
    assert_eq!(document.counts.output_tokens, Some(6 * n));
    assert_eq!(codes(&document), []);
}

#[test]
fn a_role_chunk_is_no_first_token() {
    let role = |content: &str| delta(&format!(r#"{{"role":"assistant","content":{content}}}"#), None);
    let n = OPERATIONS;
    // On its own long before the first token, in one read with it, and none at all: the same figures.
    for (name, script) in [
        ("role early", vec![at(15, &[head(), role("\"\"")]), at(45, &[text(None)])]),
        ("role with the first token", vec![at(15, &[head()]), at(45, &[role("null"), text(None)])]),
        ("no role", vec![at(45, &[head(), text(None)])]),
    ] {
        let document = run(Dialect::Chat, 3, |_| {
            let mut script = script.clone();
            script.extend([at(55, &[text(None)]), at(65, &[text(None), usage(3), end()])]);
            script
        });
        check(
            name,
            &document,
            &[
                (MetricId::Ttft, each(45.0)),
                (MetricId::TtftFromSend, each(40.0)),
                (MetricId::TtftAnswer, each(45.0)),
                (MetricId::Icl, vec![(10.0, 2 * n)]),
                // Three chunks, three tokens: one each is the only possibility.
                (MetricId::Itl, vec![(10.0, 2 * n)]),
                (MetricId::Tpot, each(10.0)),
                (MetricId::Ntpot, each(65.0 / 3.0)),
                (MetricId::E2e, each(65.0)),
                (MetricId::ServiceTime, each(60.0)),
                (MetricId::StreamClose, each(0.0)),
            ],
        );
        assert_eq!((document.counts.content_events, document.counts.good), (3 * n, Some(n)), "{name}");
        assert_eq!(codes(&document), [], "{name}");
    }
}

#[test]
fn usage_that_cannot_be_right_makes_no_token_metric() {
    let n = OPERATIONS;
    // Fewer tokens than chunks; fewer than the chunks have told; none at all in spite of content.
    for (name, so_far, total) in [
        ("fewer than chunks", [None, None, None], 2),
        ("fewer than told before", [Some(1), Some(4), Some(8)], 5),
        ("none", [None, None, None], 0),
    ] {
        let document = run(Dialect::Chat, 3, |_| {
            vec![
                at(45, &[head(), text(so_far[0])]),
                at(65, &[text(so_far[1])]),
                at(75, &[text(so_far[2]), usage(total), end()]),
            ]
        });
        check(
            name,
            &document,
            &[
                (MetricId::Ttft, each(45.0)),
                (MetricId::TtftFromSend, each(40.0)),
                (MetricId::TtftAnswer, each(45.0)),
                (MetricId::Icl, vec![(10.0, n), (20.0, n)]),
                (MetricId::E2e, each(75.0)),
                (MetricId::ServiceTime, each(70.0)),
                (MetricId::StreamClose, each(0.0)),
            ],
        );
        assert_eq!(document.counts.output_tokens, None, "{name}");
        assert_eq!(document.rates.output_tokens, None, "{name}");
        assert_eq!(codes(&document), [FindingCode::TokenCount, FindingCode::UsageContradiction], "{name}");
        // A limit on a metric that is not known was not met.
        assert_eq!(document.counts.good, Some(0), "{name}");
    }
}

#[test]
fn usage_that_says_nothing_about_chunks_makes_no_itl() {
    // Eight tokens in three chunks: who knows in which?
    let document = run(Dialect::Chat, 8, |_| {
        vec![at(45, &[head(), text(None)]), at(65, &[text(None)]), at(75, &[text(None), usage(8), end()])]
    });
    let n = OPERATIONS;
    check(
        "usage at the end",
        &document,
        &[
            (MetricId::Ttft, each(45.0)),
            (MetricId::TtftFromSend, each(40.0)),
            (MetricId::TtftAnswer, each(45.0)),
            (MetricId::Icl, vec![(10.0, n), (20.0, n)]),
            (MetricId::Ntpot, each(75.0 / 8.0)),
            (MetricId::E2e, each(75.0)),
            (MetricId::ServiceTime, each(70.0)),
            (MetricId::StreamClose, each(0.0)),
        ],
    );
    assert_eq!(document.counts.output_tokens, Some(8 * n));
    assert_eq!(codes(&document), [FindingCode::TokensUnknown]);
}

#[test]
fn a_worker_that_counts_one_too_few_is_known() {
    let record = |text: &str, tokens: u32| {
        let data = format!(
            "{{\"text\":\"{text}\",\"error_code\":0,\"usage\":{{\"prompt_tokens\":4,\"completion_tokens\":{tokens}}}}}\0"
        );
        format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()
    };
    let bare = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let document = run(Dialect::FastChatWorker, 4, |_| {
        vec![
            at(45, &[bare.clone(), record("a", 0)]),
            at(55, &[record("abc", 2)]),
            at(75, &[record("abcd", 3)]),
            // The end comes late: e2e is to the last content.
            at(375, &[b"0\r\n\r\n".to_vec()]),
        ]
    });
    let n = OPERATIONS;
    check(
        "one too few",
        &document,
        &[
            (MetricId::Ttft, each(45.0)),
            (MetricId::TtftFromSend, each(40.0)),
            (MetricId::TtftAnswer, each(45.0)),
            (MetricId::Icl, vec![(10.0, n), (20.0, n)]),
            (MetricId::Itl, vec![(5.0, 2 * n), (20.0, n)]),
            (MetricId::Tpot, each(10.0)),
            (MetricId::Ntpot, each(75.0 / 4.0)),
            (MetricId::E2e, each(75.0)),
            (MetricId::ServiceTime, each(70.0)),
            (MetricId::StreamClose, each(300.0)),
        ],
    );
    assert_eq!(document.counts.output_tokens, Some(4 * n));
    assert_eq!(codes(&document), []);
}

#[test]
fn a_slow_first_byte_is_waited_for_by_all() {
    // Twenty operations are in flight at once; each waits 2 s for its first byte.
    let document = run(Dialect::Tgi, 3, |_| {
        let token = |last: &str| event(&format!(r#"{{"token":{{"text":"a","special":false}},{last}}}"#));
        let more = r#""generated_text":null"#;
        let last = r#""generated_text":"aaa","details":{"generated_tokens":3,"input_length":4}"#;
        vec![
            at(2000, &[head(), token(more)]),
            at(2010, &[token(more)]),
            at(2020, &[token(last), b"0\r\n\r\n".to_vec()]),
        ]
    });
    let n = OPERATIONS;
    check(
        "slow first byte",
        &document,
        &[
            (MetricId::Ttft, each(2000.0)),
            (MetricId::TtftFromSend, each(1995.0)),
            (MetricId::TtftAnswer, each(2000.0)),
            (MetricId::Icl, vec![(10.0, 2 * n)]),
            (MetricId::Itl, vec![(10.0, 2 * n)]),
            (MetricId::Tpot, each(10.0)),
            (MetricId::Ntpot, each(2020.0 / 3.0)),
            (MetricId::E2e, each(2020.0)),
            (MetricId::ServiceTime, each(2015.0)),
            (MetricId::StreamClose, each(0.0)),
        ],
    );
    // Those of the first 1.9 s were answered inside the window: 0, 100, ... 1900 ms.
    assert_eq!(document.rates.throughput, Some(20.0 / SECONDS));
    assert_eq!(document.rates.output_tokens, Some(60.0 / SECONDS));
    assert_eq!((document.rates.offered, document.rates.goodput), (Some(10.0), Some(10.0)));
}

/// Good answers: three tokens at 45, 65 and 85 ms.
fn good() -> Script {
    vec![
        at(45, &[head(), text(Some(1))]),
        at(65, &[text(Some(2))]),
        at(85, &[text(Some(3)), usage(3), end()]),
    ]
}

#[test]
fn half_of_the_requests_fail() {
    // A quarter is turned away at once, a quarter breaks after a quick first token.
    let document = run(Dialect::Chat, 3, |index| match index % 4 {
        1 => vec![at(8, &[b"HTTP/1.1 503 x\r\nContent-Length: 4\r\n\r\nbusy".to_vec()])],
        3 => vec![at(20, &[head(), text(Some(1))]), (25, None)],
        _ => good(),
    });
    let (n, never) = (OPERATIONS, f64::INFINITY);
    let (half, quarter) = (n / 2, n / 4);
    check(
        "half fail",
        &document,
        &[
            (MetricId::Ttft, vec![(20.0, quarter), (45.0, half), (never, quarter)]),
            (MetricId::TtftFromSend, vec![(15.0, quarter), (40.0, half), (never, quarter)]),
            (MetricId::TtftAnswer, vec![(20.0, quarter), (45.0, half), (never, quarter)]),
            // Two gaps are missing of each that failed.
            (MetricId::Icl, vec![(20.0, 2 * half), (never, 2 * half)]),
            (MetricId::Itl, vec![(20.0, 2 * half), (never, 2 * half)]),
            (MetricId::Tpot, vec![(20.0, half), (never, half)]),
            (MetricId::Ntpot, vec![(85.0 / 3.0, half), (never, half)]),
            (MetricId::E2e, vec![(85.0, half), (never, half)]),
            (MetricId::ServiceTime, vec![(80.0, half), (never, half)]),
            (MetricId::StreamClose, vec![(0.0, half), (never, half)]),
        ],
    );
    let counts = &document.counts;
    assert_eq!((counts.intended, counts.completed, counts.failed, counts.censored), (n, half, half, 0));
    assert_eq!((counts.good, counts.output_tokens), (Some(half), Some(3 * half)));
    assert_eq!(document.rates.goodput, Some(5.0));
    assert_eq!(document.rates.throughput, Some(5.0));
    let errors: Vec<(&str, u64)> =
        document.errors.iter().map(|error| (error.kind.as_str(), error.count)).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(
        errors.contains(&("overloaded", quarter)) && errors.contains(&("eof-in-stream", quarter)),
        "{errors:?}"
    );
    // No limit on a percentile passes, though every answer that came was far below it.
    for slo in &document.slo {
        assert_eq!((slo.outcome, slo.value), (Outcome::Fail, None), "{}", slo.slo);
    }
}

#[test]
fn failures_never_improve_a_percentile() {
    const METRICS: [MetricId; 10] = [
        MetricId::Ttft,
        MetricId::TtftFromSend,
        MetricId::TtftAnswer,
        MetricId::Icl,
        MetricId::Itl,
        MetricId::Tpot,
        MetricId::Ntpot,
        MetricId::E2e,
        MetricId::ServiceTime,
        MetricId::StreamClose,
    ];
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        // Answers of random speed with merged tokens, the slow ones failing the most.
        let scripts: Vec<(Script, usize)> = (0..OPERATIONS)
            .map(|_| {
                let slow = 1 + rng.index(40) as u64;
                let mut at_ms = 6 + slow;
                let mut script = vec![at(at_ms, &[head()])];
                let mut so_far = 0;
                while so_far < 8 {
                    at_ms += 1 + rng.index(10) as u64 * slow;
                    so_far = (so_far + 1 + rng.index(3) as u32).min(8);
                    script.push(at(at_ms, &[text(Some(so_far))]));
                }
                script.push(at(at_ms + slow, &[end()]));
                let cut = if rng.index(40) < slow as usize { rng.index(script.len()) } else { usize::MAX };
                (script, cut)
            })
            .collect();
        let whole = run(Dialect::Chat, 8, |index| scripts[index as usize].0.clone());
        let failing = run(Dialect::Chat, 8, |index| {
            let (script, cut) = &scripts[index as usize];
            let mut script = script.clone();
            if let Some(step) = script.get_mut(*cut) {
                step.1 = None;
                script.truncate(cut + 1);
            }
            script
        });
        assert!(failing.counts.failed > 0 && whole.counts.failed == 0, "seed {seed}");
        for metric in METRICS {
            for statistic in Statistic::QUANTILES {
                let of = |document: &RunDocument| {
                    document.metrics[&metric].statistic(statistic).unwrap_or(f64::INFINITY)
                };
                let (before, after) = (of(&whole), of(&failing));
                assert!(after >= before, "seed {seed}: {metric} {statistic} fell from {before} to {after}");
            }
        }
        assert!(failing.counts.good <= whole.counts.good, "seed {seed}");
    }
}
