//! A run: shards prepared, started together, driven to the end, and merged.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Barrier};
use std::thread;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use touchstone_load::{Driver, LoadPlan, Shard, ShardResult, Traits, summary};
use touchstone_model::run::Certificate;
use touchstone_net::{Endpoint, mono_ns};

use crate::control::{Control, Outlet, RunEvent};
use crate::failure::connect_failure;
use crate::worker::{Counters, Setup, Worker};

/// From all shards being ready to the start of load, ns.
const LEAD_NS: u64 = 5_000_000;

/// What to run.
#[derive(Debug, Clone)]
pub struct RunSpec {
    /// The protocol with its workload.
    pub driver: Arc<dyn Driver>,
    /// Where the target is.
    pub endpoint: Endpoint,
    /// What load, for how long.
    pub plan: LoadPlan,
    /// How long before a deadline a shard stops sleeping and spins, ns.
    pub spin_ns: u64,
}

/// Why a run could not even be tried. A target that cannot be reached is a run with errors, not one of these.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The system gave no poller or thread.
    #[error("the system refused a resource that the load generator needs")]
    System(#[source] io::Error),
    /// A shard ended by a defect of the program.
    #[error("shard {shard} ended by a defect; please report it with the command that was run")]
    Defect {
        /// The shard.
        shard: u32,
    },
}

/// What a run gave.
#[derive(Debug)]
pub struct RunOutcome {
    /// The merged shards.
    pub result: ShardResult,
    /// What the load engine knows of the driver.
    pub traits: Traits,
    /// The generator's part, without scheduling error and loopback ceiling.
    pub certificate: Certificate,
    /// Connections opened.
    pub connections: u64,
    /// Connections opened again.
    pub reconnects: u64,
    /// Bytes sent, without retries.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Whether the run was ended before its time.
    pub interrupted: bool,
    /// Whether failures ended it.
    pub too_many_errors: bool,
    /// Preloaded operations that did not end well; none where there was no preload.
    pub preload_missing: Option<u64>,
}

/// The traits of a driver that the load engine needs.
#[must_use]
pub(crate) fn traits_of(driver: &dyn Driver) -> Traits {
    Traits { family: driver.family(), leading: driver.leading_metric() }
}

/// Files that this process may have open, after it has raised its limit as a run does; none where the system does not say.
#[must_use]
pub fn file_limit() -> Option<u64> {
    raise_file_limit();
    getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft)
}

/// Raises the soft limit of open files to the hard one: connections need descriptors.
fn raise_file_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
        && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_err()
    {
        // The old limit stays; running out of it is reported as a failure of the generator.
    }
}

/// Runs a plan against a target, on as many threads as the plan has shards. Blocks until the run is over.
///
/// # Errors
/// When the run cannot be tried at all, see [`RunnerError`].
pub fn run(
    spec: &RunSpec,
    events: Option<SyncSender<RunEvent>>,
    control: &Control,
) -> Result<RunOutcome, RunnerError> {
    raise_file_limit();
    // A name that does not resolve is a run with errors, like any other way of not reaching the target.
    let (addresses, unresolved) = match spec.endpoint.resolve() {
        Ok(addresses) => (addresses, None),
        Err(error) => (Vec::new(), Some(connect_failure(&error))),
    };
    let traits = traits_of(spec.driver.as_ref());
    let shards = spec.plan.shards.max(1);
    let plan = Arc::new(LoadPlan { shards, ..spec.plan.clone() });
    let start = Arc::new(AtomicU64::new(0));
    let barrier = Arc::new(Barrier::new(shards as usize));
    let mut workers = Vec::new();
    for shard in 0..shards {
        let setup = Setup {
            driver: Arc::clone(&spec.driver),
            endpoint: spec.endpoint.clone(),
            addresses: addresses.clone(),
            unresolved: unresolved.clone(),
            shard,
            shards,
            connect_timeout_ns: plan.timeouts.connect_ns,
            max_errors: plan.max_errors,
            spin_ns: spec.spin_ns,
        };
        let worker =
            Worker::new(setup, Outlet::new(events.clone()), control.clone()).map_err(RunnerError::System)?;
        workers.push(worker);
    }
    drop(events);
    let operations = spec.driver.preload_operations();
    let preload_missing = (operations > 0).then(|| workers[0].preload(spec.driver.as_ref(), operations));
    let mut threads = Vec::new();
    for (number, worker) in workers.into_iter().enumerate() {
        let (plan, start, barrier) = (Arc::clone(&plan), Arc::clone(&start), Arc::clone(&barrier));
        let thread = thread::Builder::new()
            .name(format!("shard-{number}"))
            .spawn(move || shard_thread(worker, plan, traits, number as u32, &start, &barrier))
            .map_err(RunnerError::System)?;
        threads.push(thread);
    }
    let mut results = Vec::new();
    let mut counters: Vec<Counters> = Vec::new();
    for (shard, thread) in threads.into_iter().enumerate() {
        let (result, counted) = thread
            .join()
            .map_err(|_| RunnerError::Defect { shard: shard as u32 })?
            .map_err(RunnerError::System)?;
        results.push(result);
        counters.push(counted);
    }
    let too_many_errors = counters.iter().any(|counted| counted.too_many_errors);
    let certificate = certificate(shards, &counters, &results);
    let sum = |of: fn(&Counters) -> u64| counters.iter().map(of).sum::<u64>();
    let result = summary::merge(results).ok_or(RunnerError::Defect { shard: 0 })?;
    Ok(RunOutcome {
        result,
        traits,
        certificate,
        connections: sum(|counted| counted.connections),
        reconnects: sum(|counted| counted.reconnects),
        bytes_sent: sum(|counted| counted.bytes_sent),
        bytes_received: sum(|counted| counted.bytes_received),
        interrupted: control.stopped(),
        too_many_errors,
        preload_missing,
    })
}

fn certificate(shards: u32, counters: &[Counters], results: &[ShardResult]) -> Certificate {
    let mut busy: Vec<f64> =
        counters.iter().map(|counted| counted.busy_ns as f64 / counted.loop_ns.max(1) as f64).collect();
    busy.sort_by(|a, b| b.total_cmp(a));
    let operations: u64 =
        results.iter().map(|r| r.aggregate.sums.completed_all + r.aggregate.sums.failed_all).sum();
    let busy_ns: u64 = counters.iter().map(|counted| counted.busy_ns).sum();
    let reads: u64 = counters.iter().map(|counted| counted.reads).sum();
    let user: u64 = counters.iter().map(|counted| counted.user_stamped).sum();
    Certificate {
        shards,
        // The kernel switches stamping on shortly after the first socket asked for it: a few reads may come before.
        kernel_stamps: reads > 0 && user * 100 <= reads,
        coalesced_share: None,
        scheduling_error_ms: None,
        cpu_busy: busy,
        cpu_us_per_operation: (operations > 0).then(|| busy_ns as f64 / 1e3 / operations as f64),
        turnaround_us: {
            let (ns, times) = counters
                .iter()
                .fold((0, 0), |(ns, times), one| (ns + one.turnaround_ns, times + one.turnarounds));
            (times > 0).then(|| ns as f64 / 1e3 / times as f64)
        },
        loopback_ceiling: None,
        realtime: counters.iter().any(|counted| counted.realtime),
        clock_steps: counters.iter().map(|counted| counted.clock_steps).sum(),
        events_dropped: counters.iter().map(|counted| counted.dropped).sum(),
    }
}

fn shard_thread(
    mut worker: Worker,
    plan: Arc<LoadPlan>,
    traits: Traits,
    number: u32,
    start: &AtomicU64,
    barrier: &Barrier,
) -> io::Result<(ShardResult, Counters)> {
    // Connections are opened against a shard that never starts, so that their times are kept.
    let mut rehearsal = Shard::new(Arc::clone(&plan), traits, number, u64::MAX);
    worker.prepare(&mut rehearsal);
    if barrier.wait().is_leader() {
        start.store(mono_ns() + LEAD_NS, Ordering::Release);
    }
    barrier.wait();
    let start_ns = start.load(Ordering::Acquire);
    let mut shard = Shard::new(plan, traits, number, start_ns).for_driver(worker.driver());
    worker.drive(&mut shard, start_ns)?;
    let (mut result, records) = shard.finish(mono_ns());
    let (prepared, _) = rehearsal.finish(start_ns);
    result.aggregate.connects.merge(&prepared.aggregate.connects);
    worker.send_last(&result, records);
    Ok((result, worker.counters))
}
