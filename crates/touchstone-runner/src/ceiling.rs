//! The loopback ceiling: how many operations of the same payload this machine's generator completes against a sink that
//! answers at once, with generator and sink sharing the machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use touchstone_load::plan::SECOND;
use touchstone_load::{Connections, Driver, LoadPlan, Sink};
use touchstone_model::Arrival;
use touchstone_net::{Conn, Endpoint, Interest, Listener, Poller, Ready, RecvBuf, Token, mono_ns};

use crate::control::Control;
use crate::run::{RunSpec, run};

/// Length of the probe, ns.
const PROBE_NS: u64 = 3 * SECOND / 10;
/// Operations in flight of the probe.
const PROBE_SLOTS: u32 = 64;

/// Measures the ceiling for a driver, in operations per second; none where the driver has no sink, or nothing ended.
#[must_use]
pub fn loopback_ceiling(driver: &Arc<dyn Driver>, shards: u32) -> Option<f64> {
    let first = driver.sink()?;
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).ok()?;
    let address = listener.local_addr();
    let stop = Arc::new(AtomicBool::new(false));
    let serving = {
        let (stop, driver) = (Arc::clone(&stop), Arc::clone(driver));
        thread::Builder::new()
            .name("loopback-sink".to_owned())
            .spawn(move || serve(&listener, first, driver.as_ref(), &stop))
            .ok()?
    };
    let slots = match driver.connections() {
        Connections::Fixed(connections) => connections.max(PROBE_SLOTS),
        Connections::OnDemand { at_most } => at_most.min(PROBE_SLOTS),
    };
    let mut plan = LoadPlan::new(Arrival::Closed { slots }, 1);
    (plan.warm_up_ns, plan.duration_ns, plan.drain_ns) = (PROBE_NS / 3, PROBE_NS, SECOND / 5);
    plan.shards = shards;
    let spec = RunSpec {
        driver: Arc::new(WithoutPreload(Arc::clone(driver))),
        endpoint: Endpoint::tcp(address.ip().to_string(), address.port()),
        plan,
        spin_ns: 0,
    };
    let outcome = run(&spec, None, &Control::default());
    stop.store(true, Ordering::Relaxed);
    if serving.join().is_err() {
        return None;
    }
    let completed = outcome.ok()?.result.aggregate.sums.completed_flow;
    (completed > 0).then(|| completed as f64 / (PROBE_NS as f64 / 1e9))
}

/// A driver whose keys need no loading: the sink answers every lookup.
#[derive(Debug)]
struct WithoutPreload(Arc<dyn Driver>);

impl Driver for WithoutPreload {
    fn family(&self) -> touchstone_model::Family {
        self.0.family()
    }
    fn connections(&self) -> Connections {
        self.0.connections()
    }
    fn session(&self, shard: u32, connection: u32) -> Box<dyn touchstone_load::Session> {
        self.0.session(shard, connection)
    }
    fn consumer(&self, shard: u32, connection: u32) -> Option<Box<dyn touchstone_load::Session>> {
        self.0.consumer(shard, connection)
    }
    fn leading_metric(&self) -> touchstone_model::MetricId {
        self.0.leading_metric()
    }
    fn parameters(&self) -> std::collections::BTreeMap<String, serde_json::Value> {
        self.0.parameters()
    }
}

fn serve(listener: &Listener, first: Box<dyn Sink>, driver: &dyn Driver, stop: &AtomicBool) {
    let Ok(mut poller) = Poller::new() else { return };
    let listening = Token(usize::from(u16::MAX));
    if poller.register(listener, listening, Interest::READABLE).is_err() {
        return;
    }
    let mut first = Some(first);
    let mut peers: Vec<Option<(Conn, Box<dyn Sink>)>> = Vec::new();
    let (mut recv, mut ready): (RecvBuf, Vec<Ready>) = (RecvBuf::new(), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        if poller.wait(&mut ready, Some(mono_ns() + SECOND / 50)).is_err() {
            return;
        }
        for event in &ready {
            if event.token == listening {
                while let Ok(Some(mut conn)) = listener.accept() {
                    let Some(mut sink) = first.take().or_else(|| driver.sink()) else { return };
                    let token = Token(peers.len());
                    if poller.register(&conn, token, Interest::READABLE | Interest::WRITABLE).is_ok() {
                        sink.open(conn.out());
                        let alive = conn.write_pending().is_ok();
                        peers.push(alive.then_some((conn, sink)));
                        if let Some(Some((conn, sink))) = peers.last_mut()
                            && !answer(conn, sink.as_mut(), &mut recv)
                        {
                            peers.pop();
                            peers.push(None);
                        }
                    }
                }
            } else if let Some(slot) = peers.get_mut(event.token.0)
                && let Some((conn, sink)) = slot
                && !answer(conn, sink.as_mut(), &mut recv)
            {
                *slot = None;
            }
        }
        for slot in &mut peers {
            if let Some((conn, sink)) = slot {
                sink.pending(conn.out());
                if conn.has_pending() && conn.write_pending().is_err() {
                    *slot = None;
                }
            }
        }
    }
}

/// Reads what came and answers it. Returns whether the connection lives.
fn answer(conn: &mut Conn, sink: &mut dyn Sink, recv: &mut RecvBuf) -> bool {
    let mut out = Vec::new();
    loop {
        let read = conn.read(recv, &mut |bytes, _, _| sink.receive(bytes, &mut out));
        conn.out().append(&mut out);
        let wrote = conn.write_pending().is_ok();
        match read {
            Ok(outcome) if outcome.eof || !wrote => return false,
            Ok(outcome) if outcome.more => {}
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
}
