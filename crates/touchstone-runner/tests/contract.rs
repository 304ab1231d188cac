//! What callers of the runner rely on, over real drivers and sockets: every operation ends and is told once, whoever
//! fails; stopping stops; and no consumer can hold a run up.
#![expect(
    clippy::unwrap_used,
    reason = "clippy's exemption of tests does not reach the functions they share"
)]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use touchstone_drivers::{Dialect, Generation, GenerationOptions, Nats, NatsOptions, Resp, RespOptions};
use touchstone_load::plan::SECOND;
use touchstone_load::{Driver, LoadPlan, OpRecord};
use touchstone_model::{Origin, Phase};
use touchstone_net::Endpoint;
use touchstone_runner::{Control, RunEvent, RunOutcome, RunSpec, loopback_ceiling, run};
use touchstone_testkit::{Kind, Step, TcpStub, server};
use touchstone_workload::requests::Requests;

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 64\r\n\r\n";
const BODY: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";

/// Answers requests with one token each.
fn answering(then: Vec<Step>) -> TcpStub {
    let head = ANSWER.replace("64", &BODY.len().to_string());
    let mut steps = vec![Step::ReadUntil(b"}]}".to_vec()), Step::send(&format!("{head}{BODY}"))];
    steps.extend(then);
    TcpStub::start(steps).unwrap()
}

fn openai(addr: SocketAddr) -> Arc<dyn Driver> {
    let mut options = GenerationOptions::new(Dialect::Chat, addr.to_string(), "m");
    options.requests = Requests::fixed(0, 4, 1);
    Arc::new(Generation::new(options).unwrap())
}

fn resp(keys: u64) -> Arc<dyn Driver> {
    Arc::new(
        Resp::new(RespOptions { keys, connections: 4, preload: true, ..RespOptions::default() }).unwrap(),
    )
}

fn plan(arrival: &str, duration_ns: u64) -> LoadPlan {
    let mut plan = LoadPlan::new(arrival.parse().unwrap(), 3);
    (plan.warm_up_ns, plan.duration_ns, plan.drain_ns) = (0, duration_ns, 5 * SECOND);
    plan.timeouts.connect_ns = SECOND / 2;
    plan
}

fn spec(driver: &Arc<dyn Driver>, addr: SocketAddr, plan: LoadPlan) -> RunSpec {
    let endpoint = Endpoint::tcp(addr.ip().to_string(), addr.port());
    RunSpec { driver: Arc::clone(driver), endpoint, plan, spin_ns: 0 }
}

/// A run with all of its records.
fn recorded(spec: &RunSpec, control: &Control) -> (RunOutcome, Vec<OpRecord>) {
    let (sender, events) = sync_channel(4096);
    let consumer = thread::spawn(move || {
        let mut all = Vec::new();
        for event in events {
            if let RunEvent::Operations { records, .. } = event {
                all.extend(records);
            }
        }
        all
    });
    let outcome = run(spec, Some(sender), control).unwrap();
    let mut records = consumer.join().unwrap();
    records.sort_by_key(|record| record.index);
    assert_eq!(outcome.certificate.events_dropped, 0);
    (outcome, records)
}

/// Every operation that was intended ended once, well or badly.
#[track_caller]
fn check_complete(outcome: &RunOutcome, records: &[OpRecord]) {
    let sums = &outcome.result.aggregate.sums;
    let indices: BTreeSet<u64> = records.iter().map(|record| record.index).collect();
    assert_eq!(indices.len(), records.len(), "an operation ended twice");
    assert_eq!(records.len() as u64, sums.intended + sums.warm_up);
    assert_eq!(records.len() as u64, sums.completed_all + sums.failed_all);
    for record in records {
        assert!(
            record.dispatch_ns >= record.intended_ns && record.end_ns >= record.dispatch_ns,
            "{record:?}"
        );
    }
}

#[test]
fn the_schedule_is_the_same_for_any_number_of_shards() {
    let stub = answering(vec![Step::Repeat]);
    let driver = openai(stub.addr());
    let mut schedules = Vec::new();
    for shards in [1, 2, 5] {
        let mut plan = plan("poisson:150/s", SECOND);
        plan.shards = shards;
        let (outcome, records) = recorded(&spec(&driver, stub.addr(), plan), &Control::default());
        check_complete(&outcome, &records);
        assert_eq!(outcome.result.aggregate.sums.failed_all, 0, "{:?}", outcome.result.aggregate.errors);
        assert_eq!(outcome.certificate.shards, shards);
        let start = outcome.result.start_ns;
        schedules.push(records.iter().map(|one| (one.index, one.intended_ns - start)).collect::<Vec<_>>());
    }
    assert!(schedules[0].len() > 100);
    assert_eq!(schedules[0], schedules[1]);
    assert_eq!(schedules[0], schedules[2]);
}

#[test]
fn refused_connections_fail_each_operation_once() {
    let stub = TcpStub::refusing().unwrap();
    for driver in [openai(stub.addr()), resp(10), Arc::new(Nats::new(NatsOptions::new("r")).unwrap()) as _] {
        let spec = spec(&driver, stub.addr(), plan("constant:50/s", SECOND));
        let (outcome, records) = recorded(&spec, &Control::default());
        check_complete(&outcome, &records);
        let [only] = outcome.result.aggregate.errors.as_slice() else {
            panic!("{:?}", outcome.result.aggregate.errors)
        };
        let first = &only.first;
        assert_eq!(
            (first.origin, first.phase, first.kind.as_str()),
            (Origin::Network, Phase::Connect, "refused")
        );
        assert_eq!((only.count, records.len()), (50, 50));
        assert!(records.iter().all(|record| record.sent_ns == 0 && record.failure == 1));
    }
}

#[test]
fn a_hopeless_run_is_given_up_and_says_so() {
    let stub = TcpStub::refusing().unwrap();
    let driver = openai(stub.addr());
    let control = Control::default();
    let (outcome, records) =
        recorded(&spec(&driver, stub.addr(), plan("constant:2000/s", 60 * SECOND)), &control);
    assert!(outcome.too_many_errors && control.stopped());
    assert!(records.len() < 5000, "{}", records.len());
    check_complete(&outcome, &records);
}

#[test]
fn what_ends_one_run_ends_no_other_and_a_stop_ends_all() {
    let dead = TcpStub::refusing().unwrap();
    let parent = Control::default();
    let driver = openai(dead.addr());
    let spec_dead = spec(&driver, dead.addr(), plan("constant:2000/s", 60 * SECOND));
    assert!(run(&spec_dead, None, &parent.child()).unwrap().too_many_errors);
    assert!(!parent.stopped());

    let stub = answering(vec![Step::Repeat]);
    let driver = openai(stub.addr());
    let alive =
        run(&spec(&driver, stub.addr(), plan("constant:50/s", SECOND)), None, &parent.child()).unwrap();
    assert!(!alive.interrupted && !alive.too_many_errors);
    assert_eq!(alive.result.aggregate.sums.completed, 50);

    parent.stop();
    let child = parent.child();
    assert!(child.stopped() && !child.aborted());
    parent.stop();
    assert!(child.aborted());
    let none = run(&spec(&driver, stub.addr(), plan("constant:50/s", 60 * SECOND)), None, &child).unwrap();
    assert!(none.interrupted);
}

#[test]
fn max_errors_counts_over_all_shards() {
    let stub = TcpStub::closing().unwrap();
    let driver = openai(stub.addr());
    let mut plan = plan("constant:200/s", 60 * SECOND);
    plan.shards = 3;
    plan.max_errors = Some(20);
    let (outcome, records) = recorded(&spec(&driver, stub.addr(), plan), &Control::default());
    assert!(outcome.too_many_errors);
    check_complete(&outcome, &records);
    assert!((20..120).contains(&records.len()), "{}", records.len());
}

#[test]
fn a_stop_drains_and_a_second_one_does_not_wait() {
    // Answers, but only after a while: what is in flight at the stop still ends well.
    let head = ANSWER.replace("64", &BODY.len().to_string());
    let slow = TcpStub::start(vec![
        Step::ReadUntil(b"}]}".to_vec()),
        Step::Pause(Duration::from_millis(300)),
        Step::send(&format!("{head}{BODY}")),
        Step::Repeat,
    ])
    .unwrap();
    let stop_after = |addr, stops: u32| {
        let driver = openai(addr);
        let control = Control::default();
        let remote = control.clone();
        let stopper = thread::spawn(move || {
            thread::sleep(Duration::from_millis(500));
            (0..stops).for_each(|_| remote.stop());
        });
        let mut plan = plan("constant:100/s", 60 * SECOND);
        plan.drain_ns = 60 * SECOND;
        let got = recorded(&spec(&driver, addr, plan), &control);
        stopper.join().unwrap();
        got
    };
    let (outcome, records) = stop_after(slow.addr(), 1);
    assert!(outcome.interrupted && !outcome.too_many_errors);
    check_complete(&outcome, &records);
    assert_eq!(outcome.result.aggregate.sums.failed_all, 0, "{:?}", outcome.result.aggregate.errors);
    assert!(outcome.result.to_ns < outcome.result.from_ns + 60 * SECOND, "the window ends with the load");

    let silent = TcpStub::hanging().unwrap();
    let (outcome, records) = stop_after(silent.addr(), 2);
    check_complete(&outcome, &records);
    assert!(records.iter().all(|record| record.censored), "{records:?}");
}

#[test]
fn a_connection_that_closes_after_each_answer_costs_no_operation() {
    // As llama.cpp does: no `connection: close`, and then the end of the connection.
    let stub = answering(Vec::new());
    let driver = openai(stub.addr());
    for arrival in ["closed:1", "closed:4", "constant:100/s"] {
        let mut plan = plan(arrival, 60 * SECOND);
        plan.requests = Some(40);
        let (outcome, records) = recorded(&spec(&driver, stub.addr(), plan), &Control::default());
        check_complete(&outcome, &records);
        let sums = &outcome.result.aggregate.sums;
        assert_eq!(
            (sums.completed, sums.failed),
            (40, 0),
            "{arrival}: {:?}",
            outcome.result.aggregate.errors
        );
        assert!(outcome.connections >= 40 && outcome.reconnects >= 36, "{arrival}: {outcome:?}");
    }
}

#[test]
fn a_target_that_closes_after_each_answer_is_soon_asked_on_fresh_connections_only() {
    // As llama.cpp: the end of the connection comes a moment after the answer, when the next request may be on its way.
    let stub = answering(vec![Step::Pause(Duration::from_millis(2))]);
    let driver = openai(stub.addr());
    for arrival in ["closed:1", "closed:8"] {
        let mut plan = plan(arrival, 60 * SECOND);
        plan.requests = Some(200);
        let (outcome, records) = recorded(&spec(&driver, stub.addr(), plan), &Control::default());
        check_complete(&outcome, &records);
        let sums = &outcome.result.aggregate.sums;
        let errors = &outcome.result.aggregate.errors;
        assert_eq!((sums.completed, sums.failed), (200, 0), "{arrival}: {errors:?}");
        // Those that were under way when it was learnt, and no more.
        assert!(sums.retried <= 20, "{arrival}: {} of 200 were sent again", sums.retried);
    }
}

/// Answers in one chunk, and then does `ending` where the end of the body belongs.
fn answering_in_a_chunk(ending: Vec<Step>) -> TcpStub {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let answer = format!("{head}{:x}\r\n{BODY}\r\n", BODY.len());
    let mut steps = vec![Step::ReadUntil(b"}]}".to_vec()), Step::send(&answer)];
    steps.extend(ending);
    TcpStub::start(steps).unwrap()
}

#[test]
fn a_connection_whose_answer_ends_a_moment_later_is_used_again() {
    // As vLLM does: the end of the chunked body comes in a segment of its own after the event that ends the answer.
    let moment = Step::Pause(Duration::from_micros(300));
    let stub = answering_in_a_chunk(vec![moment, Step::send("0\r\n\r\n"), Step::Repeat]);
    let driver = openai(stub.addr());
    let mut plan = plan("closed:1", 60 * SECOND);
    plan.requests = Some(40);
    let (outcome, records) = recorded(&spec(&driver, stub.addr(), plan), &Control::default());
    check_complete(&outcome, &records);
    assert_eq!(outcome.result.aggregate.sums.completed, 40, "{:?}", outcome.result.aggregate.errors);
    // One, but for the moments that a busy machine draws out.
    assert!(outcome.connections <= 20, "{outcome:?}");
}

#[test]
fn an_answer_whose_body_never_ends_holds_no_operation_up() {
    let stub = answering_in_a_chunk(vec![Step::Hang]);
    for connections in [1, 100] {
        let mut options = GenerationOptions::new(Dialect::Chat, stub.addr().to_string(), "m");
        (options.requests, options.connections) = (Requests::fixed(0, 4, 1), connections);
        let driver: Arc<dyn Driver> = Arc::new(Generation::new(options).unwrap());
        let mut plan = plan("closed:1", 60 * SECOND);
        plan.requests = Some(20);
        let (outcome, records) = recorded(&spec(&driver, stub.addr(), plan), &Control::default());
        check_complete(&outcome, &records);
        assert_eq!(outcome.result.aggregate.sums.completed, 20, "{:?}", outcome.result.aggregate.errors);
        assert_eq!(outcome.connections, 20, "each answer spoils its connection");
    }
}

#[test]
fn an_operation_is_sent_again_once_and_never_on_a_fresh_connection() {
    // One answer, then the next request is read and the connection reset.
    let stub = answering(vec![Step::ReadUntil(b"}]}".to_vec()), Step::Reset]);
    let driver = openai(stub.addr());
    let mut twice = plan("closed:1", 60 * SECOND);
    twice.requests = Some(10);
    let (outcome, records) = recorded(&spec(&driver, stub.addr(), twice.clone()), &Control::default());
    check_complete(&outcome, &records);
    assert_eq!(outcome.result.aggregate.sums.completed, 10, "{:?}", outcome.result.aggregate.errors);
    // Twice, and then it is known that this target bears no second request on a connection.
    assert_eq!(records.iter().filter(|record| record.retried).count(), 2);

    // A fresh connection that is reset before any answer is the target's failure.
    let stub = TcpStub::start(vec![Step::ReadUntil(b"}]}".to_vec()), Step::Reset]).unwrap();
    let driver = openai(stub.addr());
    let (outcome, records) = recorded(&spec(&driver, stub.addr(), twice), &Control::default());
    check_complete(&outcome, &records);
    assert_eq!(outcome.result.aggregate.sums.failed, 10);
    assert_eq!(stub.connections(), 10, "one try each");
}

#[test]
fn a_consumer_that_never_reads_holds_nothing_up() {
    let stub = answering(vec![Step::Repeat]);
    let driver = openai(stub.addr());
    let (sender, unread) = sync_channel(1);
    let spec = spec(&driver, stub.addr(), plan("constant:100/s", 2 * SECOND));
    let outcome = run(&spec, Some(sender), &Control::default()).unwrap();
    assert_eq!(outcome.result.aggregate.sums.completed, 200, "{:?}", outcome.result.aggregate.errors);
    assert!(outcome.certificate.events_dropped >= 100, "what was lost is counted: {:?}", outcome.certificate);
    drop(unread);
}

#[test]
fn a_consumer_that_left_holds_nothing_up() {
    let stub = answering(vec![Step::Repeat]);
    let driver = openai(stub.addr());
    let (sender, left) = sync_channel(1);
    drop(left);
    let spec = spec(&driver, stub.addr(), plan("constant:100/s", SECOND));
    let outcome = run(&spec, Some(sender), &Control::default()).unwrap();
    assert_eq!(outcome.result.aggregate.sums.completed, 100);
}

#[test]
fn every_key_is_loaded_before_the_load() {
    let redis = server!(Kind::Redis);
    // More than fits into one write or one read.
    let driver = resp(50_000);
    let spec = spec(&driver, redis.addr(), plan("constant:500/s", SECOND));
    let (outcome, records) = recorded(&spec, &Control::default());
    check_complete(&outcome, &records);
    assert_eq!(outcome.preload_missing, Some(0));
    let sums = &outcome.result.aggregate.sums;
    assert_eq!(sums.hits, sums.lookups);
    assert!(sums.lookups > 300, "{sums:?}");
}

#[test]
fn a_preload_that_gets_no_answer_ends_and_says_what_is_missing() {
    let stub = TcpStub::hanging().unwrap();
    let driver = resp(100);
    let (outcome, records) =
        recorded(&spec(&driver, stub.addr(), plan("constant:50/s", SECOND)), &Control::default());
    assert_eq!(outcome.preload_missing, Some(100));
    check_complete(&outcome, &records);
    let kinds: Vec<&str> =
        outcome.result.aggregate.errors.iter().map(|group| group.first.kind.as_str()).collect();
    assert_eq!(kinds, ["timeout-greeting"]);
}

#[test]
fn every_protocol_has_a_ceiling() {
    let stub = TcpStub::refusing().unwrap();
    for shards in [1, 2] {
        assert!(loopback_ceiling(&openai(stub.addr()), shards).unwrap() > 50.0);
        assert!(loopback_ceiling(&resp(100), shards).unwrap() > 50.0);
        let nats: Arc<dyn Driver> = Arc::new(Nats::new(NatsOptions::new("r")).unwrap());
        assert!(loopback_ceiling(&nats, shards).unwrap() > 50.0);
    }
}

#[test]
fn messages_are_counted_over_shards_and_publishers() {
    let nats = server!(Kind::Nats);
    let mut options = NatsOptions::new("contract");
    options.connections = 4;
    let driver: Arc<dyn Driver> = Arc::new(Nats::new(options).unwrap());
    let mut plan = plan("constant:1000/s", SECOND);
    plan.shards = 2;
    let (outcome, records) = recorded(&spec(&driver, nats.addr(), plan), &Control::default());
    check_complete(&outcome, &records);
    let sums = &outcome.result.aggregate.sums;
    assert_eq!((sums.received, sums.duplicated, sums.reordered), (1000, 0, 0), "{sums:?}");
}
