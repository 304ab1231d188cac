//! Starting a target and timing what that takes: launch, port, health, first token, first good answer.
//!
//! Only processes that are started here are ever ended here, each with its own process group.

use std::fs::OpenOptions;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use touchstone_load::LoadPlan;
use touchstone_model::comparison::ColdStart;
use touchstone_model::{Arrival, MetricId, RunDocument};
use touchstone_runner::Control;

use crate::bench::{BenchError, BenchRequest, Blind, bench, endpoint};
use crate::probe;

/// How often the port is tried.
const PORT_EVERY: Duration = Duration::from_millis(2);
/// How often the target is asked who it is, and for a first answer.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// How long one connection attempt may take.
const CONNECT: Duration = Duration::from_millis(500);
/// How long a target may take to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// What to start.
#[derive(Debug, Clone, Copy)]
pub struct Deploy<'a> {
    /// A shell command.
    pub command: &'a str,
    /// Which deploy it is, from 1.
    pub number: u32,
    /// How long it may take until the target answers.
    pub patience: Duration,
    /// Where its output goes.
    pub log: &'a Path,
}

/// Why a target was not started.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// Something listens there already: it would be measured in place of what is launched.
    #[error("something listens on {address} already")]
    PortTaken {
        /// `host:port`.
        address: String,
    },
    /// The process could not be started.
    #[error("the target cannot be started with `{command}`")]
    Start {
        /// The command.
        command: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It ended before it answered.
    #[error("the target ended ({status}) before it {stage}; its output is in {}", log.display())]
    Ended {
        /// How.
        status: String,
        /// What it had not done.
        stage: &'static str,
        /// Its output.
        log: PathBuf,
    },
    /// It took too long.
    #[error("the target has not {stage} within {seconds:.0} s; its output is in {}", log.display())]
    Late {
        /// What it had not done.
        stage: &'static str,
        /// The limit, s.
        seconds: f64,
        /// Its output.
        log: PathBuf,
    },
    /// The wait was interrupted.
    #[error("interrupted while the target was starting")]
    Interrupted,
    /// It cannot be asked at all.
    #[error(transparent)]
    Bench(#[from] BenchError),
}

/// A target that was started; its process group is ended when this is dropped.
#[derive(Debug)]
pub struct Deployed {
    child: Child,
    address: String,
    /// Instant of the launch, ns of CLOCK_MONOTONIC.
    pub launched_ns: u64,
    /// What it took.
    pub cold: ColdStart,
}

/// Starts a target and waits until it has given one good answer.
///
/// # Errors
/// When its port is taken, it cannot be started, or does not answer in time.
pub fn deploy(what: &Deploy<'_>, request: &BenchRequest, control: &Control) -> Result<Deployed, DeployError> {
    let target = &request.target;
    let address = format!("{}:{}", target.host, target.port);
    if connects(&address) {
        return Err(DeployError::PortTaken { address });
    }
    let started = |source| DeployError::Start { command: what.command.to_owned(), source };
    if let Some(folder) = what.log.parent() {
        std::fs::create_dir_all(folder).map_err(started)?;
    }
    let log = OpenOptions::new().create(true).append(true).open(what.log).map_err(started)?;
    let also = log.try_clone().map_err(started)?;
    let begun = Instant::now();
    let launched_ns = touchstone_net::mono_ns();
    let child = Command::new("/bin/sh")
        .args(["-c", what.command])
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(also)
        // Ctrl-C at the terminal is for the load: the target has to answer until drain is over.
        .process_group(0)
        .spawn()
        .map_err(started)?;
    let cold = ColdStart { deploy: what.number, ..ColdStart::default() };
    let mut deployed = Deployed { child, address: address.clone(), launched_ns, cold };
    let since = |ns: u64| ns.saturating_sub(launched_ns) as f64 / 1e6;

    wait(what, &mut deployed, begun, control, "taken connections", PORT_EVERY, || Ok(connects(&address)))?;
    deployed.cold.port_ms = Some(since(touchstone_net::mono_ns()));
    let endpoint = endpoint(request).map_err(BenchError::from)?;
    wait(what, &mut deployed, begun, control, "said who it is", ASK_EVERY, || {
        let told = probe::identify(
            target,
            &endpoint,
            &request.headers,
            request.api_key.as_ref(),
            Duration::from_secs(5),
        );
        Ok(told.is_ok_and(|identity| identity.refusal.is_none()))
    })?;
    deployed.cold.healthy_ms = Some(since(touchstone_net::mono_ns()));
    let mut answer = None;
    wait(what, &mut deployed, begun, control, "given a good answer", ASK_EVERY, || {
        let run = first_answer(request, control)?;
        answer = (run.counts.completed > 0).then_some(run);
        Ok(answer.is_some())
    })?;
    if let Some(run) = answer {
        let at = |metric: MetricId| {
            let latency = run.metrics.get(&metric).and_then(|summary| summary.max)?;
            // One operation, intended when the load began.
            Some(since(run.phases.start_ns) + latency)
        };
        deployed.cold.first_token_ms = at(MetricId::Ttft);
        deployed.cold.good_answer_ms = at(MetricId::E2e)
            .or_else(|| at(MetricId::EndToEndLatency))
            .or_else(|| at(MetricId::PublishLatency));
    }
    Ok(deployed)
}

fn connects(address: &str) -> bool {
    address
        .to_socket_addrs()
        .is_ok_and(|mut all| all.any(|address| TcpStream::connect_timeout(&address, CONNECT).is_ok()))
}

fn wait(
    what: &Deploy<'_>,
    deployed: &mut Deployed,
    begun: Instant,
    control: &Control,
    stage: &'static str,
    every: Duration,
    mut reached: impl FnMut() -> Result<bool, DeployError>,
) -> Result<(), DeployError> {
    loop {
        // A process that ended answers nothing, even where something else took its port.
        if let Ok(Some(status)) = deployed.child.try_wait() {
            let log = what.log.to_owned();
            return Err(DeployError::Ended { status: status.to_string(), stage, log });
        }
        if control.stopped() {
            return Err(DeployError::Interrupted);
        }
        if reached()? {
            return Ok(());
        }
        if begun.elapsed() > what.patience {
            let (seconds, log) = (what.patience.as_secs_f64(), what.log.to_owned());
            return Err(DeployError::Late { stage, seconds, log });
        }
        std::thread::sleep(every);
    }
}

/// One operation, recorded nowhere.
fn first_answer(request: &BenchRequest, control: &Control) -> Result<RunDocument, BenchError> {
    let mut one = request.clone();
    one.plan = LoadPlan {
        warm_up_ns: 0,
        requests: Some(1),
        shards: 1,
        slos: Vec::new(),
        timeouts: request.plan.timeouts,
        ..LoadPlan::new(Arrival::Closed { slots: 1 }, request.plan.seed ^ 0x00c0_1d57_a127)
    };
    // Its prompt is none of the measured ones, and a cache does not have to be filled for it.
    one.payload.read_ratio = 0.0;
    one.probe_ceiling = false;
    one.store = None;
    Ok(bench(&one, &mut Blind, &control.child())?.document)
}

/// From a launch to the instant from which a run is steady, ms; none when it never is.
#[must_use]
pub fn steady_ms(launched_ns: u64, run: &RunDocument) -> Option<f64> {
    let from_s = run.steady?.from_s?;
    Some(run.phases.start_ns.saturating_sub(launched_ns) as f64 / 1e6 + from_s * 1e3)
}

impl Drop for Deployed {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.child.id() as i32);
        // The group may be gone already; then there is nothing to end.
        killpg(group, Signal::SIGTERM).ok();
        let begun = Instant::now();
        // The shell may end before what it has started: the port says when that is over too.
        while begun.elapsed() < PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) && !connects(&self.address) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        killpg(group, Signal::SIGKILL).ok();
        self.child.wait().ok();
    }
}
