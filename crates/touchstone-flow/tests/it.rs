//! Whole runs against the embedded engine and against targets that fail.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use touchstone_engine::{EngineConfig, Profile, serve};
use touchstone_flow::bench::{BenchRequest, Blind, Payload, bench};
use touchstone_load::LoadPlan;
use touchstone_load::plan::SECOND;
use touchstone_model::{Level, MetricId, RunDocument};
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
        payload: Payload { input_tokens: 16, output_tokens: 8, ..Payload::default() },
        ca_pem: None,
        headers: Vec::new(),
        api_key: None,
        probe_ceiling: false,
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
    println!("{}", serde_json::to_string_pretty(&document.counts).unwrap());
    for (metric, summary) in &document.metrics {
        println!(
            "{metric}: n {} neff {:.0} p50 {:?} p99 {:?}",
            summary.n, summary.n_effective, summary.p50, summary.p99
        );
    }
    println!("{:?} {:?}", document.generator, document.findings);
    assert!(document.simulated && document.level == Level::E);
    assert_eq!(document.counts.completed, document.counts.intended);
    assert_eq!(document.counts.output_tokens, Some(document.counts.intended * 8));
    assert_eq!(document.counts.input_tokens, Some(document.counts.intended * 16));
    assert!(document.metrics[&MetricId::Itl].p50.unwrap() > 1.9);
}
