//! Whole runs against the embedded engine and against targets that fail.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use touchstone_engine::{EngineConfig, Profile, serve};
use touchstone_flow::bench::{BenchError, BenchRequest, Blind, Live, Observer, Payload, bench};
use touchstone_flow::inside::InsideOptions;
use touchstone_load::LoadPlan;
use touchstone_load::plan::SECOND;
use touchstone_model::{Length, Level, MetricId, RunDocument};
use touchstone_records::RunStore;
use touchstone_runner::Control;

struct Engine {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    fn start(config: EngineConfig) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = channel();
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            serve(config, |address| sender.send(address).unwrap(), &flag).unwrap();
        });
        Self { address: receiver.recv().unwrap(), stop, thread: Some(thread) }
    }

    fn profile(name: &str) -> Self {
        Self::start(EngineConfig::new(Profile::builtin(name).unwrap()))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn request(address: SocketAddr, arrival: &str) -> BenchRequest {
    let mut plan = LoadPlan::new(arrival.parse().unwrap(), 7);
    plan.warm_up_ns = SECOND / 2;
    plan.duration_ns = 3 * SECOND;
    plan.drain_ns = 5 * SECOND;
    plan.shards = 1;
    BenchRequest {
        target: format!("openai-chat=http://{address}").parse().unwrap(),
        model: None,
        plan,
        payload: Payload {
            input_tokens: Length::Fixed(16),
            output_tokens: Length::Fixed(8),
            ..Payload::default()
        },
        ca_pem: None,
        headers: Vec::new(),
        api_key: None,
        probe_ceiling: false,
        inside: InsideOptions::default(),
        store: None,
        labels: BTreeMap::new(),
    }
}

fn run(request: &BenchRequest) -> RunDocument {
    bench(request, &mut Blind, &Control::default()).unwrap().document
}

#[test]
fn the_embedded_engine_is_loaded_and_marked_as_simulated() {
    let engine = Engine::profile("flat");
    let document = run(&request(engine.address, "poisson:50/s"));
    assert!(document.simulated && document.level == Level::E);
    assert_eq!(document.counts.completed, document.counts.intended);
    assert_eq!(document.counts.output_tokens, Some(document.counts.intended * 8));
    assert_eq!(document.counts.input_tokens, Some(document.counts.intended * 16));
    assert!(document.metrics[&MetricId::Itl].p50.unwrap() > 1.9);
    assert_eq!(document.target.model.as_deref(), Some("simulated"));
    assert_eq!(document.generator.loopback_ceiling, None, "it was not asked for");
    assert_eq!(document.fingerprint, None, "it was not stored");
}

/// Keeps what a run tells.
#[derive(Debug, Default)]
struct Watcher {
    lives: Vec<Live>,
    notes: Vec<String>,
    stop_at: Option<(u64, Control)>,
}

impl Observer for Watcher {
    fn live(&mut self, live: &Live) {
        if let Some((completed, control)) = &self.stop_at
            && live.completed >= *completed
        {
            control.stop();
            self.stop_at = None;
        }
        self.lives.push(live.clone());
    }
    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

#[test]
fn who_watches_sees_the_load_from_the_first_figure_on() {
    let engine = Engine::profile("flat");
    let mut watcher = Watcher::default();
    let benched =
        bench(&request(engine.address, "constant:100/s"), &mut watcher, &Control::default()).unwrap();
    let lives = &watcher.lives;
    assert!(lives.len() > 5, "{lives:?}");
    for live in lives.iter().filter(|live| live.elapsed_s < live.load_s - 0.3) {
        let offered = live.offered_per_s.unwrap();
        assert!((50.0..200.0).contains(&offered), "{live:?}");
    }
    assert!(lives.is_sorted_by(|a, b| a.elapsed_s <= b.elapsed_s && a.completed <= b.completed));
    let last = lives.last().unwrap();
    assert_eq!(last.completed, benched.document.counts.completed + benched.document.counts.warm_up);
    assert_eq!((last.in_flight, last.errors.len()), (0, 0));
    assert_eq!(last.leading, Some(MetricId::Ttft));
    assert!(lives.iter().any(|live| live.leading_ms.0.is_some() && live.icl_ms.1.is_some()));
    assert!((last.total_s - 8.5).abs() < 1e-9 && (last.load_s - 3.5).abs() < 1e-9);
}

#[test]
fn a_stop_turns_the_rest_into_drain_and_is_told() {
    let engine = Engine::profile("flat");
    let control = Control::default();
    let mut watcher = Watcher { stop_at: Some((80, control.clone())), ..Watcher::default() };
    let mut request = request(engine.address, "constant:100/s");
    request.plan.duration_ns = 60 * SECOND;
    let document = bench(&request, &mut watcher, &control).unwrap().document;
    assert!(document.interrupted && document.phases.measured_seconds() < 30.0, "{:?}", document.phases);
    assert_eq!(document.counts.completed, document.counts.intended);
    assert!(watcher.notes.iter().any(|note| note.contains("the load has ended")), "{:?}", watcher.notes);
}

#[test]
fn errors_are_told_by_origin_while_they_happen() {
    let mut config = EngineConfig::new(Profile::builtin("flat").unwrap());
    config.faults.error_rate = 0.5;
    let engine = Engine::start(config);
    let mut watcher = Watcher::default();
    let benched =
        bench(&request(engine.address, "constant:100/s"), &mut watcher, &Control::default()).unwrap();
    let errors: u64 = benched.document.errors.iter().map(|group| group.count).sum();
    assert!(errors > 50, "{:?}", benched.document.errors);
    let last = watcher.lives.last().unwrap();
    assert_eq!(last.errors.keys().collect::<Vec<_>>(), ["target"]);
    assert!(watcher.lives.iter().any(|live| live.errors.values().sum::<u64>() > 0));
}

#[test]
fn what_is_recorded_is_what_happened() {
    let mut config = EngineConfig::new(Profile::builtin("flat").unwrap());
    config.faults.error_rate = 0.2;
    let engine = Engine::start(config);
    for shards in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let mut request = request(engine.address, "poisson:100/s");
        request.plan.shards = shards;
        request.store = Some(folder.path().to_owned());
        request.labels = BTreeMap::from([("candidate".to_owned(), "a".into())]);
        let benched = bench(&request, &mut Blind, &Control::default()).unwrap();
        let document = &benched.document;
        assert_eq!(document.workload.parameters["candidate"], "a");
        let store = RunStore::new(folder.path());
        assert!(store.verify(&document.run).unwrap().is_ok());
        assert_eq!(store.load("latest").unwrap(), *document);
        assert!(document.fingerprint.as_ref().unwrap().starts_with("sha256:"));
        // The log alone says the same.
        let recovery = store.recover(&document.run).unwrap();
        let counts = &document.counts;
        assert_eq!(recovery.operations, counts.intended + counts.warm_up);
        assert_eq!(
            (recovery.measured, recovery.completed, recovery.failed),
            (counts.intended, counts.completed, counts.failed)
        );
        assert_eq!(recovery.output_tokens, counts.output_tokens);
        let failures: u64 = recovery.failures.values().map(|failure| failure.count).sum();
        let errors: u64 = document.errors.iter().map(|group| group.count).sum();
        assert_eq!(failures, errors);
        assert!(
            recovery
                .failures
                .values()
                .all(|one| one.entry.as_ref().is_some_and(|entry| entry.kind == "http-500"))
        );
        let (logged, told) = (recovery.metrics[&MetricId::Ttft], &document.metrics[&MetricId::Ttft]);
        assert_eq!((logged.n, logged.censored), (told.n, told.censored));
        let (logged, told) = (logged.p50.unwrap(), told.p50.unwrap());
        assert!((logged - told).abs() <= 0.01 * told, "{logged} {told}");
    }
}

#[test]
fn an_engine_has_to_be_launched_first() {
    let mut request = request(([127, 0, 0, 1], 1).into(), "closed:1");
    request.target = "engine=flat".parse().unwrap();
    let error = bench(&request, &mut Blind, &Control::default()).unwrap_err();
    assert!(matches!(error, BenchError::NotLaunched), "{error}");
}

#[test]
fn a_store_that_cannot_be_written_is_an_error_before_the_load() {
    let engine = Engine::profile("flat");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    let mut request = request(engine.address, "constant:50/s");
    request.store = Some(file);
    let error = bench(&request, &mut Blind, &Control::default()).unwrap_err();
    assert!(matches!(error, BenchError::Store(_)), "{error}");
}

#[test]
fn options_that_contradict_the_protocol_are_refused() {
    let engine = Engine::profile("flat");
    let mut request = request(engine.address, "constant:50/s");
    request.payload.output_tokens = Length::Fixed(0);
    let error = bench(&request, &mut Blind, &Control::default()).unwrap_err();
    assert!(matches!(error, BenchError::Options(_)), "{error}");
}
