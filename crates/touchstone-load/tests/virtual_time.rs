//! The load engine on virtual time, against closed forms of queueing theory and hand-worked timelines.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::VecDeque;
use std::sync::Arc;

use touchstone_load::plan::SECOND;
use touchstone_load::summary::{RunContext, merge, summarise};
use touchstone_load::{Answer, Failure, LoadPlan, OpToken, SessionEvent, Shard, ShardResult, Traits};
use touchstone_model::run::{Certificate, Outcome, RunDocument};
use touchstone_model::{Family, FindingCode, MetricId, Origin, Phase};
use touchstone_stats::rng::Rng;

fn traits(family: Family) -> Traits {
    let leading = match family {
        Family::Inference => MetricId::Ttft,
        Family::Queue => MetricId::EndToEndLatency,
        Family::Cache => MetricId::E2e,
    };
    Traits { family, leading }
}

fn context() -> RunContext {
    RunContext {
        connections: 1,
        certificate: Certificate { shards: 1, kernel_stamps: true, ..Certificate::default() },
        ..RunContext::default()
    }
}

/// One FIFO server with the given service times, as seen by `shards` shards of one plan.
fn serve(plan: &LoadPlan, family: Family, mut service_ns: impl FnMut() -> u64) -> RunDocument {
    let plan = Arc::new(plan.clone());
    let start = 1_000_000;
    let mut shards: Vec<Shard> =
        (0..plan.shards).map(|number| Shard::new(Arc::clone(&plan), traits(family), number, start)).collect();
    let mut queue: VecDeque<(usize, OpToken)> = VecDeque::new();
    let mut busy_until: Option<u64> = None;
    let mut now = start;
    let mut ended = Vec::new();
    loop {
        if busy_until == Some(now) {
            let (shard, token) = queue.pop_front().unwrap();
            let mut events = vec![SessionEvent::Done { op: token, answer: Answer::default() }];
            shards[shard].receive(&mut events, now, &mut ended);
            busy_until = None;
        }
        for (number, shard) in shards.iter_mut().enumerate() {
            shard.pull_due(now);
            while let Some(op) = shard.begin(now) {
                shard.sent(op.token, now);
                queue.push_back((number, op.token));
            }
        }
        if busy_until.is_none() && !queue.is_empty() {
            busy_until = Some(now + service_ns());
        }
        if shards.iter_mut().all(|shard| shard.is_over(now)) {
            break;
        }
        let due: Vec<u64> = shards.iter_mut().filter_map(Shard::next_due).chain(busy_until).collect();
        let over = shards
            .iter()
            .map(|shard| if now < shard.measured_to() { shard.measured_to() } else { shard.drain_end() });
        now = due.into_iter().chain(over).filter(|at| *at > now).min().unwrap_or(now + 1);
    }
    let results: Vec<ShardResult> = shards.into_iter().map(|shard| shard.finish(now).0).collect();
    summarise(&plan, traits(family), &merge(results).unwrap(), context())
}

fn plan(arrival: &str, seconds: u64) -> LoadPlan {
    let mut plan = LoadPlan::new(arrival.parse().unwrap(), 7);
    plan.warm_up_ns = seconds * SECOND / 10;
    plan.duration_ns = seconds * SECOND;
    plan
}

#[test]
fn m_m_1_has_its_mean_sojourn_time() {
    // Mean time in system 1/(mu - lambda) = 1/(100 - 70) s = 33.3 ms; p99 = ln(100)/(mu - lambda) = 153.5 ms.
    let mut rng = Rng::keyed(3, b"service", 0);
    let document = serve(&plan("poisson:70/s", 4_000), Family::Cache, || rng.exponential(1e9 / 100.0) as u64);
    let e2e = &document.metrics[&MetricId::E2e];
    assert!((e2e.mean.unwrap() - 33.33).abs() < 2.5, "{:?}", e2e.mean);
    assert!((e2e.p99.unwrap() - 153.5).abs() < 15.0, "{:?}", e2e.p99);
    // Requests next to each other wait for the same queue: far fewer effective observations than requests.
    assert!(e2e.n > 270_000 && e2e.n_effective < 0.2 * e2e.n as f64, "{} of {}", e2e.n_effective, e2e.n);
    let bound = e2e.bounds[&touchstone_model::Statistic::P99];
    assert!(bound.lower.unwrap() < 153.5 && bound.upper.unwrap() > 153.5, "{bound:?}");
    assert!((document.rates.throughput.unwrap() - 70.0).abs() < 1.0);
    assert!(document.valid, "{:?}", document.findings);
}

#[test]
fn overload_shows_as_a_growing_backlog_at_the_rate_of_the_server() {
    let document = serve(&plan("constant:60/s", 20), Family::Cache, || SECOND / 50);
    assert!((document.rates.offered.unwrap() - 60.0).abs() < 0.1);
    assert!((document.rates.throughput.unwrap() - 50.0).abs() < 0.2, "{:?}", document.rates.throughput);
    let growing =
        document.findings.iter().find(|finding| finding.code == FindingCode::BacklogGrowing).unwrap();
    assert!(growing.message.contains("grows by 10"), "{}", growing.message);
    // Everything was answered during drain, late: latency counts from the intended start, nothing is omitted.
    assert_eq!(document.counts.completed, document.counts.intended);
    assert!(document.metrics[&MetricId::E2e].max.unwrap() > 3_000.0);
}

#[test]
fn below_saturation_there_is_no_backlog_finding() {
    let document = serve(&plan("constant:40/s", 20), Family::Cache, || SECOND / 50);
    assert!(document.findings.is_empty(), "{:?}", document.findings);
    assert_eq!(document.metrics[&MetricId::E2e].p50, document.metrics[&MetricId::E2e].p999);
}

#[test]
fn the_number_of_shards_changes_nothing() {
    let mut one = plan("poisson:70/s", 100);
    let fixed = |plan: &LoadPlan| serve(plan, Family::Cache, || SECOND / 100);
    let single = fixed(&one);
    one.shards = 3;
    let three = fixed(&one);
    assert_eq!(single.counts, three.counts);
    assert_eq!(single.workload, three.workload);
    assert_eq!(single.rates, three.rates);
    assert_eq!(single.metrics[&MetricId::E2e].p99, three.metrics[&MetricId::E2e].p99);
    assert_eq!(single.windows, three.windows);
}

#[test]
fn a_closed_loop_offers_what_it_gets_back() {
    let document = serve(&plan("closed:4", 10), Family::Cache, || SECOND / 50);
    assert_eq!(document.rates.offered, None);
    assert!((document.rates.throughput.unwrap() - 50.0).abs() < 0.5);
    // Four in the system of one server: each takes four service times.
    assert!((document.metrics[&MetricId::E2e].p50.unwrap() - 80.0).abs() < 0.2);
}

#[test]
fn a_number_of_requests_ends_the_run() {
    for arrival in ["poisson:70/s", "closed:4"] {
        let mut limited = plan(arrival, 1_000);
        limited.warm_up_ns = 0;
        limited.requests = Some(40);
        let document = serve(&limited, Family::Cache, || SECOND / 100);
        assert_eq!(document.counts.intended, 40, "{arrival}");
        assert_eq!(document.counts.completed, 40, "{arrival}");
        assert!(document.phases.measured_seconds() < 2.0, "{arrival}");
    }
}

/// A shard with one operation in flight, sent at `sent`.
fn one_operation(slo: &str, arrival_gap: u64) -> (Arc<LoadPlan>, Shard, OpToken) {
    let mut plan = plan("constant:1/s", 10);
    plan.warm_up_ns = 0;
    plan.requests = Some(1);
    plan.slos = vec![slo.parse().unwrap()];
    let plan = Arc::new(plan);
    let mut shard = Shard::new(Arc::clone(&plan), traits(Family::Inference), 0, 1_000);
    shard.pull_due(1_000 + arrival_gap);
    let op = shard.begin(1_000 + arrival_gap).unwrap();
    (plan, shard, op.token)
}

const MS: u64 = 1_000_000;

fn finish(plan: &LoadPlan, shard: Shard, at: u64) -> RunDocument {
    let result = shard.finish(at).0;
    summarise(plan, traits(Family::Inference), &result, context())
}

#[test]
fn the_timeline_of_a_generation() {
    let (plan, mut shard, op) = one_operation("ttft.p99 <= 100ms", 2 * MS);
    let at = |ms: u64| 1_000 + ms * MS;
    shard.sent(op, at(3));
    let mut ended = Vec::new();
    let content = |tokens| SessionEvent::Content { op, tokens: Some(tokens), reasoning: false };
    shard.receive(&mut vec![SessionEvent::Head { op }], at(5), &mut ended);
    shard.receive(
        &mut vec![SessionEvent::Content { op, tokens: Some(1), reasoning: true }],
        at(43),
        &mut ended,
    );
    shard.receive(&mut vec![content(3)], at(103), &mut ended);
    shard.receive(&mut vec![content(1)], at(123), &mut ended);
    let done = SessionEvent::Done {
        op,
        answer: Answer { output_tokens: Some(5), input_tokens: Some(9), ..Answer::default() },
    };
    shard.receive(&mut vec![done], at(130), &mut ended);
    assert_eq!(ended, [op]);
    let document = finish(&plan, shard, at(200));
    let p50 = |metric| document.metrics[&metric].p50.unwrap();
    let near = |metric, expected: f64| {
        assert!((p50(metric) - expected).abs() <= expected * 0.001, "{metric} {}", p50(metric))
    };
    near(MetricId::SchedulingError, 2.0);
    near(MetricId::Ttft, 43.0);
    near(MetricId::TtftFromSend, 40.0);
    near(MetricId::TtftAnswer, 103.0);
    near(MetricId::E2e, 123.0);
    near(MetricId::ServiceTime, 120.0);
    near(MetricId::StreamClose, 7.0);
    // (last - first) / (5 tokens - 1 of the first chunk) = 80 / 4.
    near(MetricId::Tpot, 20.0);
    near(MetricId::Ntpot, 24.6);
    // Gaps 60 and 20 ms; per token 20, 20, 20 and 20.
    let (icl, itl) = (&document.metrics[&MetricId::Icl], &document.metrics[&MetricId::Itl]);
    assert_eq!((icl.n, itl.n), (2, 4));
    assert!((icl.max.unwrap() - 60.0).abs() < 1e-9);
    near(MetricId::Itl, 20.0);
    assert_eq!(document.counts.output_tokens, Some(5));
    assert_eq!(document.counts.good, Some(1));
    assert_eq!(
        document.rates.output_tokens.map(|rate| (rate * document.phases.measured_seconds()).round()),
        Some(5.0)
    );
    // One good operation is no proof of a p99: 299 are needed.
    assert_eq!(document.slo[0].outcome, Outcome::Undetermined);
    assert_eq!(document.slo[0].needs, Some(299));
}

#[test]
fn tokens_per_chunk_are_one_each_when_totals_agree_and_unknown_when_not() {
    for (total, itl) in [(3, true), (4, false)] {
        let (plan, mut shard, op) = one_operation("ttft.p99 <= 100ms", 0);
        let mut ended = Vec::new();
        for ms in [10, 20, 40] {
            let mut events = vec![SessionEvent::Content { op, tokens: None, reasoning: false }];
            shard.receive(&mut events, 1_000 + ms * MS, &mut ended);
        }
        let answer = Answer { output_tokens: Some(total), ..Answer::default() };
        shard.receive(&mut vec![SessionEvent::Done { op, answer }], 1_000 + 41 * MS, &mut ended);
        let document = finish(&plan, shard, SECOND);
        assert_eq!(document.metrics.contains_key(&MetricId::Itl), itl, "{total}");
        assert!(document.metrics.contains_key(&MetricId::Icl));
        assert_eq!(document.counts.output_tokens, Some(u64::from(total)));
    }
}

#[test]
fn failures_and_the_unfinished_stand_at_infinity() {
    let (plan, mut shard, op) = one_operation("ttft.p99 <= 100ms", 0);
    let failure = Failure::new(Origin::Target, Phase::Stream, "http-500", "x", "y");
    let mut ended = Vec::new();
    shard.receive(&mut vec![SessionEvent::Failed { op, failure }], 5 * MS, &mut ended);
    let failed = finish(&plan, shard, SECOND);
    let (plan, shard, _) = one_operation("ttft.p99 <= 100ms", 0);
    let censored = finish(&plan, shard, SECOND);
    for (document, count) in [(&failed, 0), (&censored, 1)] {
        assert_eq!((document.counts.failed, document.counts.censored), (1, count));
        assert_eq!(document.metrics[&MetricId::Ttft].p99, None);
        assert_eq!(document.metrics[&MetricId::Ttft].censored, 1);
        assert_eq!(document.counts.good, Some(0));
        assert!(!document.valid);
    }
    assert_eq!(failed.errors[0].kind, "http-500");
}

#[test]
fn an_answer_that_died_unanswered_is_sent_again_once_and_keeps_its_intended_start() {
    let (plan, mut shard, op) = one_operation("ttft.p99 <= 100ms", 0);
    shard.sent(op, 1_000 + MS);
    assert!(shard.send_again(op));
    let again = shard.begin(1_000 + 5 * MS).unwrap();
    assert_eq!(again.intended_ns, 1_000);
    shard.sent(again.token, 1_000 + 6 * MS);
    assert!(!shard.send_again(again.token));
    let mut ended = Vec::new();
    let mut events = vec![
        SessionEvent::Content { op: again.token, tokens: Some(1), reasoning: false },
        SessionEvent::Done {
            op: again.token,
            answer: Answer { output_tokens: Some(1), ..Answer::default() },
        },
    ];
    shard.receive(&mut events, 1_000 + 9 * MS, &mut ended);
    let document = finish(&plan, shard, SECOND);
    assert_eq!((document.counts.sent, document.counts.completed, document.counts.intended), (1, 1, 1));
    assert!((document.metrics[&MetricId::Ttft].p50.unwrap() - 9.0).abs() < 0.01);
    assert!((document.metrics[&MetricId::TtftFromSend].p50.unwrap() - 3.0).abs() < 0.01);
}

#[test]
fn a_limit_of_operations_in_flight_makes_others_wait() {
    let mut limited = plan("constant:100/s", 1);
    limited.warm_up_ns = 0;
    limited.max_in_flight = Some(2);
    let plan = Arc::new(limited);
    let mut shard = Shard::new(plan, traits(Family::Cache), 0, 0);
    shard.pull_due(50 * MS);
    assert!(
        shard.begin(50 * MS).is_some() && shard.begin(50 * MS).is_some() && shard.begin(50 * MS).is_none()
    );
    assert_eq!(shard.tally().in_flight, 6);
}

#[test]
fn messages_are_accounted_for() {
    let mut queue_plan = plan("constant:10/s", 1);
    queue_plan.warm_up_ns = 0;
    let plan = Arc::new(queue_plan);
    let mut shard = Shard::new(Arc::clone(&plan), traits(Family::Queue), 0, 0);
    shard.pull_due(SECOND - 1);
    let mut ops = Vec::new();
    while let Some(op) = shard.begin(SECOND) {
        shard.sent(op.token, SECOND);
        ops.push(op);
    }
    assert_eq!(ops.len(), 10);
    let mut ended = Vec::new();
    // Message 3 comes late, 5 twice, 8 never; one copy claims an operation that has ended.
    for number in [0, 1, 2, 4, 3, 5, 5, 6, 7, 9] {
        let op = ops[number];
        let sequence = number as u64;
        let message = SessionEvent::Message { producer: 0, sequence, op: op.token, index: op.index };
        shard.receive(&mut vec![message], 2 * SECOND, &mut ended);
    }
    let result = shard.finish(3 * SECOND).0;
    let document = summarise(&plan, traits(Family::Queue), &result, context());
    let counts = &document.counts;
    assert_eq!(
        (counts.received, counts.lost, counts.duplicated, counts.reordered),
        (Some(9), Some(1), Some(1), Some(1))
    );
    let codes: Vec<_> = document.findings.iter().map(|finding| finding.code).collect();
    for code in [FindingCode::MessagesLost, FindingCode::MessagesDuplicated, FindingCode::MessagesReordered] {
        assert!(codes.contains(&code), "{codes:?}");
    }
}

#[test]
fn a_late_generator_makes_its_run_invalid() {
    let mut late = plan("constant:100/s", 2);
    late.warm_up_ns = 0;
    let plan = Arc::new(late);
    let mut shard = Shard::new(Arc::clone(&plan), traits(Family::Cache), 0, 0);
    let mut now = 0;
    let mut ended = Vec::new();
    while !shard.is_over(now) {
        // The generator wakes every 50 ms only; the target answers in 1 ms.
        now += 50 * MS;
        shard.pull_due(now);
        while let Some(op) = shard.begin(now) {
            shard.sent(op.token, now);
            shard.receive(
                &mut vec![SessionEvent::Done { op: op.token, answer: Answer::default() }],
                now + MS,
                &mut ended,
            );
        }
    }
    let result = shard.finish(now).0;
    let document = summarise(&plan, traits(Family::Cache), &result, context());
    assert!(!document.valid);
    assert!(document.findings.iter().any(|finding| finding.code == FindingCode::GeneratorLate));
}

#[test]
fn a_limit_is_found_at_the_first_look_after_it_breaks() {
    const MS: u64 = 1_000_000;
    let mut plan = LoadPlan::new("constant:1000/s".parse().unwrap(), 1);
    plan.requests = Some(4);
    let t = &mut plan.timeouts;
    (t.first_ns, t.idle_ns, t.total_ns) = (10 * MS, 4 * MS, 30 * MS);
    let start = SECOND;
    let mut shard = Shard::new(Arc::new(plan), traits(Family::Inference), 0, start);
    // A look long before anything can break must not hide what breaks later.
    shard.expire(start, &mut Vec::new());
    let due = start + 20 * MS;
    shard.pull_due(due);
    let ops: Vec<_> = std::iter::from_fn(|| shard.begin(due)).collect();
    assert_eq!(ops.len(), 4);
    // The first is never sent; the second never answered; the third falls silent; the fourth goes on and on.
    ops[1..].iter().for_each(|op| shard.sent(op.token, due));
    let content = |op: OpToken| vec![SessionEvent::Content { op, tokens: Some(1), reasoning: false }];
    shard.receive(&mut content(ops[2].token), due + 2 * MS, &mut Vec::new());
    let mut found = Vec::new();
    for ms in 1..=40 {
        let now = due + ms * MS;
        if ms <= 36 {
            shard.receive(&mut content(ops[3].token), now, &mut Vec::new());
        }
        let mut expired = Vec::new();
        shard.expire(now, &mut expired);
        for (token, failure) in expired {
            found.push((ms, token, failure.kind.clone()));
            assert!(shard.fail(token, failure, now));
        }
    }
    // A limit of n ms is broken after n ms, so at the look at n + 1.
    let expected = [
        (7, 2, "timeout-idle"),
        (11, 1, "timeout-first"),
        (31, 0, "timeout-total"),
        (31, 3, "timeout-total"),
    ];
    assert_eq!(
        found,
        expected.map(|(ms, op, kind): (u64, usize, &str)| (ms, ops[op].token, kind.to_owned()))
    );
}

#[test]
fn a_number_of_requests_with_a_warm_up_rates_the_window_only() {
    let mut limited = plan("constant:100/s", 1_000);
    limited.warm_up_ns = SECOND / 5;
    limited.requests = Some(60);
    let document = serve(&limited, Family::Cache, || SECOND / 1_000);
    assert_eq!((document.counts.warm_up, document.counts.intended), (20, 40));
    let throughput = document.rates.throughput.unwrap();
    assert!((throughput - 100.0).abs() < 5.0, "{throughput}");
    assert_eq!(document.blocks.iter().map(|block| block.intended).sum::<u64>(), 40);
}

#[test]
fn a_late_generator_is_called_late_though_no_latency_was_observed() {
    let mut late = plan("constant:1000/s", 2);
    late.warm_up_ns = 0;
    late.drain_ns = SECOND / 10;
    let plan = Arc::new(late);
    let mut shard = Shard::new(Arc::clone(&plan), traits(Family::Cache), 0, 0);
    let mut now = 0;
    let mut ended = Vec::new();
    while !shard.is_over(now) {
        now += 200 * MS;
        shard.pull_due(now);
        // One in fifty is answered: the median of e2e stands at infinity.
        while let Some(op) = shard.begin(now) {
            shard.sent(op.token, now);
            if op.index % 50 == 0 {
                let done = SessionEvent::Done { op: op.token, answer: Answer::default() };
                shard.receive(&mut vec![done], now + MS, &mut ended);
            }
        }
    }
    let result = shard.finish(now).0;
    let document = summarise(&plan, traits(Family::Cache), &result, context());
    assert!(!document.valid);
    assert!(
        document.findings.iter().any(|finding| finding.code == FindingCode::GeneratorLate),
        "{:?}",
        document.findings
    );
}

#[test]
fn a_schedule_that_cannot_be_walked_ends_with_drain_and_says_so() {
    let mut huge = plan("constant:50M/s", 2);
    (huge.warm_up_ns, huge.drain_ns) = (0, SECOND);
    let plan = Arc::new(huge);
    let mut shard = Shard::new(Arc::clone(&plan), traits(Family::Cache), 0, 0);
    let mut now = 0;
    let mut rounds = 0;
    while !shard.is_over(now) {
        now += 100 * MS;
        shard.pull_due(now);
        rounds += 1;
        assert!(rounds <= 30, "the run outlives its length");
    }
    let result = shard.finish(now).0;
    let document = summarise(&plan, traits(Family::Cache), &result, context());
    assert!(
        document.findings.iter().any(|finding| finding.code == FindingCode::GeneratorLate),
        "{:?}",
        document.findings
    );
}

#[test]
fn token_metrics_are_null_when_some_answers_do_not_tell_their_chunks() {
    let mut two = plan("constant:2/s", 1);
    two.warm_up_ns = 0;
    let plan = Arc::new(two);
    let mut shard = Shard::new(Arc::clone(&plan), traits(Family::Inference), 0, 0);
    shard.pull_due(SECOND);
    let ops = [shard.begin(SECOND).unwrap(), shard.begin(SECOND).unwrap()];
    let mut ended = Vec::new();
    // Two chunks each; the first answer has two tokens (so one a chunk), the second four (so nobody knows).
    for (op, total) in ops.into_iter().zip([2, 4]) {
        for ms in [10, 30] {
            let content = SessionEvent::Content { op: op.token, tokens: None, reasoning: false };
            shard.receive(&mut vec![content], SECOND + ms * MS, &mut ended);
        }
        let answer = Answer { output_tokens: Some(total), ..Answer::default() };
        shard.receive(&mut vec![SessionEvent::Done { op: op.token, answer }], SECOND + 31 * MS, &mut ended);
    }
    let result = shard.finish(2 * SECOND).0;
    let document = summarise(&plan, traits(Family::Inference), &result, context());
    for metric in [MetricId::Itl, MetricId::Tpot] {
        assert!(!document.metrics.contains_key(&metric), "{metric} would speak for half of the answers");
    }
    assert!(document.metrics.contains_key(&MetricId::Icl));
    assert!(document.findings.iter().any(|finding| finding.code == FindingCode::TokensUnknown));
}

#[test]
fn a_closed_loop_pauses_after_failures() {
    let mut closed = plan("closed:1", 1);
    closed.warm_up_ns = 0;
    let plan = Arc::new(closed);
    let mut shard = Shard::new(plan, traits(Family::Cache), 0, 0);
    let mut starts = 0;
    let mut now = 0;
    while now < SECOND {
        shard.pull_due(now);
        while let Some(op) = shard.begin(now) {
            starts += 1;
            shard.fail(op.token, Failure::new(Origin::Network, Phase::Connect, "refused", "", ""), now);
        }
        now = shard.next_due().unwrap_or(SECOND).max(now + 1);
    }
    assert!((90..=101).contains(&starts), "{starts} attempts in a second");
}

/// A server that answers after 1 ms, and operations that fail instead by what `fails` says of their index.
fn failing(plan: LoadPlan, fails: impl Fn(u64) -> Option<Origin>) -> RunDocument {
    let plan = Arc::new(plan);
    let mut shard = Shard::new(Arc::clone(&plan), traits(Family::Cache), 0, 0);
    let mut ended = Vec::new();
    let mut now = 0;
    while !shard.is_over(now) {
        shard.pull_due(now);
        while let Some(op) = shard.begin(now) {
            shard.sent(op.token, now);
            let event = match fails(op.index) {
                Some(origin) => SessionEvent::Failed {
                    op: op.token,
                    failure: Failure::new(origin, Phase::Connect, "planted", "a planted failure", "mend it"),
                },
                None => SessionEvent::Done { op: op.token, answer: Answer::default() },
            };
            shard.receive(&mut vec![event], now + MS, &mut ended);
        }
        let over = if now < shard.measured_to() { shard.measured_to() } else { shard.drain_end() };
        now = shard.next_due().unwrap_or(over).max(now + 1);
    }
    summarise(&plan, traits(Family::Cache), &shard.finish(now).0, context())
}

fn codes(document: &RunDocument) -> Vec<FindingCode> {
    document.findings.iter().map(|finding| finding.code).collect()
}

#[test]
fn a_target_that_fails_is_evidence_and_a_generator_that_fails_is_none() {
    for origin in [Origin::Target, Origin::Network] {
        let document = failing(plan("constant:100/s", 10), |index| (index % 5 < 3).then_some(origin));
        assert!(
            document.valid && codes(&document).contains(&FindingCode::TargetFailed),
            "{:?}",
            document.findings
        );
        assert_eq!((document.counts.intended, document.counts.failed), (1000, 600));
    }
    for origin in [Origin::Generator, Origin::Scenario] {
        // A few of its own among many of the target's suffice: nobody can tell what they kept from being answered.
        let mixed = |index: u64| match index % 100 {
            7 => Some(origin),
            other => (other < 60).then_some(Origin::Target),
        };
        let document = failing(plan("constant:100/s", 10), mixed);
        assert!(
            !document.valid && codes(&document).contains(&FindingCode::OwnFailures),
            "{:?}",
            document.findings
        );
        assert!(!codes(&document).contains(&FindingCode::TargetFailed), "{:?}", document.findings);
    }
    // Gone for the last tenth of the window (operations 1000 to 1099 after 100 of warm-up).
    let document = failing(plan("constant:100/s", 10), |index| (index >= 990).then_some(Origin::Network));
    assert!(
        document.valid && codes(&document).contains(&FindingCode::TargetFailed),
        "{:?}",
        document.findings
    );
    let document = failing(plan("constant:100/s", 10), |index| (index % 10 == 0).then_some(Origin::Target));
    assert!(document.valid && codes(&document) == [FindingCode::Errors], "{:?}", document.findings);
}

#[test]
fn a_run_given_up_before_its_window_says_what_failed_and_not_that_the_window_is_empty() {
    let mut late = plan("constant:100/s", 10);
    // Ends within the warm-up: the measured window never begins.
    late.requests = Some(20);
    let plan = Arc::new(late);
    let ended = |succeeds: bool| {
        let mut shard = Shard::new(Arc::clone(&plan), traits(Family::Cache), 0, 0);
        shard.pull_due(100 * MS);
        let mut first = true;
        while let Some(op) = shard.begin(100 * MS) {
            if std::mem::take(&mut first) && succeeds {
                shard.sent(op.token, 100 * MS);
                let done = SessionEvent::Done { op: op.token, answer: Answer::default() };
                shard.receive(&mut vec![done], 101 * MS, &mut Vec::new());
            } else {
                shard.fail(
                    op.token,
                    Failure::new(Origin::Network, Phase::Connect, "refused", "", ""),
                    100 * MS,
                );
            }
        }
        summarise(&plan, traits(Family::Cache), &shard.finish(200 * MS).0, context())
    };
    let dead = ended(false);
    assert!(!dead.valid && dead.counts.intended == 0);
    let found = dead.findings.iter().find(|finding| finding.code == FindingCode::AllFailed);
    assert!(found.unwrap().message.contains("operations failed; first: refused"), "{:?}", dead.findings);
    assert!(!codes(&dead).contains(&FindingCode::NoMeasuredOperations), "{:?}", dead.findings);
    let answered = ended(true);
    assert!(codes(&answered).contains(&FindingCode::NoMeasuredOperations), "{:?}", answered.findings);
    assert!(!codes(&answered).contains(&FindingCode::AllFailed), "{:?}", answered.findings);
}

#[test]
fn the_log_of_tokens_has_every_event_once_and_no_metric_knows_of_it() {
    let run = |log_tokens: bool| {
        let mut plan = plan("closed:1", 1);
        (plan.warm_up_ns, plan.requests, plan.log_tokens) = (0, Some(1), log_tokens);
        let mut shard = Shard::new(Arc::new(plan.clone()), traits(Family::Inference), 0, 1_000);
        shard.pull_due(1_000);
        let op = shard.begin(1_000).unwrap().token;
        shard.sent(op, 2_000);
        let content = |tokens, reasoning| SessionEvent::Content { op, tokens, reasoning };
        let silent = |part| SessionEvent::Silent { op, part };
        let mut ended = Vec::new();
        // Nobody tells of silent events unless they are logged; when they come, they count for nothing.
        shard.receive(&mut vec![silent(true)], 3_000, &mut ended);
        shard.receive(&mut vec![content(Some(1), true)], 4_000, &mut ended);
        shard.receive(&mut vec![content(Some(3), false), silent(true), silent(false)], 6_000, &mut ended);
        shard.receive(&mut vec![SessionEvent::Done { op, answer: Answer::default() }], 7_000, &mut ended);
        let log: Vec<_> =
            shard.take_token_log().iter().map(|e| (e.index, e.at_ns, e.tokens, e.kind)).collect();
        assert_eq!(shard.token_log_len(), 0);
        let (result, records) = shard.finish(8_000);
        (log, summarise(&plan, traits(Family::Inference), &result, context()), records)
    };
    let (log, with, records) = run(true);
    use touchstone_load::TokenKind::{Content, Empty, Reasoning, Report};
    assert_eq!(
        log,
        [
            (0, 3_000, None, Empty),
            (0, 4_000, Some(1), Reasoning),
            (0, 6_000, Some(3), Content),
            (0, 6_000, None, Empty),
            (0, 6_000, None, Report),
        ]
    );
    let (log, without, same_records) = run(false);
    assert!(log.is_empty());
    assert_eq!((with.metrics, with.counts, records), (without.metrics, without.counts, same_records));
}
