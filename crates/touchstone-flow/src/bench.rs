//! One measured execution, from the request to the stored run document.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use touchstone_drivers::{DriverError, Secret};
use touchstone_load::summary::{RunContext, summarise};
use touchstone_load::{Connections, Driver, Failure, LoadPlan, OpRecord, TokenEvent};
use touchstone_model::run::{Certificate, Phases, TargetDescription, WorkloadDescription};
use touchstone_model::{
    Family, Finding, FindingCode, Length, Level, MetricId, Protocol, RunDocument, Target,
};
use touchstone_net::{Endpoint, TlsConfig, TlsConfigError};
use touchstone_records::event_log::{FailureEntry, Manifest, OpFlags, OpRow, TokenKind, TokenRow};
use touchstone_records::{RecordSender, Recorder, RunStore, StoreError};
use touchstone_runner::{Control, RunEvent, RunSpec, RunnerError, ShardTick};
use touchstone_telemetry::fingerprint;
use touchstone_telemetry::host::HostSample;
use touchstone_workload::requests::{Lengths, PrefixGroups, Requests, Wording};
use touchstone_workload::trace::Trace;

use crate::driver::driver;
use crate::fit;
use crate::inside::{self, ClientTotals, InsideOptions};
use crate::probe::{self, Identity};
use crate::prompts::{self, CachePolicy, Probed, Tokenizer};
use crate::utc;

/// Events that may wait for the consumer; records come in batches.
const EVENT_CAPACITY: usize = 512;
/// Failure kinds of one shard that get a number of their own in the event log.
const FAILURES_PER_SHARD: u16 = 64;
/// How long before a deadline a shard spins, ns.
const SPIN_NS: u64 = 50_000;
/// Most that is loaded into a cache before a run, GiB.
const MAX_PRELOAD_GIB: f64 = 4.0;
/// Bytes of a key on the wire and in a table, about.
const KEY_OVERHEAD_BYTES: f64 = 64.0;
/// Rate from which on one more shard is used, operations per second.
const RATE_PER_SHARD: f64 = 150_000.0;

/// What operations carry.
#[derive(Debug, Clone, PartialEq)]
pub struct Payload {
    /// Inference: prompt tokens.
    pub input_tokens: Length,
    /// Inference: tokens to generate.
    pub output_tokens: Length,
    /// Inference: a trace whose lengths and shared blocks requests have, instead of the two.
    pub trace: Option<Arc<Trace>>,
    /// Inference: prompts that begin alike.
    pub prefix: Option<PrefixGroups>,
    /// Inference: how words become tokens at the target.
    pub wording: Wording,
    /// Inference: whether the target is asked first how it counts tokens, which then is `wording`.
    pub fit_tokens: bool,
    /// Inference: the words of the model's own tokenizer; then the target is asked too, and refused where it counts others.
    pub tokenizer: Option<Tokenizer>,
    /// Inference: what prefix caches may know when the run begins.
    pub cache: CachePolicy,
    /// Inference: what the target counted when it was asked.
    pub probed: Option<Probed>,
    /// Inference: whether answers are asked for as streams.
    pub stream: bool,
    /// Queue: bytes of a message.
    pub message_bytes: u32,
    /// Cache: number of keys.
    pub keys: u64,
    /// Cache: bytes of a value.
    pub value_bytes: u32,
    /// Cache: share of reads.
    pub read_ratio: f64,
    /// Cache: commands in flight on a connection.
    pub pipeline: u32,
    /// Connections; the driver's default when none.
    pub connections: Option<u32>,
}

impl Default for Payload {
    fn default() -> Self {
        Self {
            input_tokens: Length::Fixed(128),
            output_tokens: Length::Fixed(64),
            trace: None,
            prefix: None,
            wording: Wording::default(),
            fit_tokens: false,
            tokenizer: None,
            cache: CachePolicy::default(),
            probed: None,
            stream: true,
            message_bytes: 128,
            keys: 100_000,
            value_bytes: 64,
            read_ratio: 0.9,
            pipeline: 1,
            connections: None,
        }
    }
}

/// What is asked of a bench.
#[derive(Debug, Clone)]
pub struct BenchRequest {
    /// Where the target is; never [`Protocol::Engine`] (launch it first).
    pub target: Target,
    /// The model; the only one that the target lists when none.
    pub model: Option<String>,
    /// What load, for how long. `shards` 0 lets the flow choose.
    pub plan: LoadPlan,
    /// What operations carry.
    pub payload: Payload,
    /// Certificates of authorities to trust, PEM.
    pub ca_pem: Option<Vec<u8>>,
    /// Further request headers.
    pub headers: Vec<(String, String)>,
    /// Key, token or password.
    pub api_key: Option<Secret>,
    /// Whether the loopback ceiling is measured first.
    pub probe_ceiling: bool,
    /// What is looked at inside the target.
    pub inside: InsideOptions,
    /// Where the run is recorded; nowhere when none.
    pub store: Option<PathBuf>,
    /// Further parameters for the run document, such as the scenario's digest.
    pub labels: BTreeMap<String, serde_json::Value>,
}

impl BenchRequest {
    /// A request with nothing but these: no key, no ceiling, recorded nowhere.
    #[must_use]
    pub fn new(target: Target, plan: LoadPlan, payload: Payload) -> Self {
        Self {
            target,
            model: None,
            plan,
            payload,
            ca_pem: None,
            headers: Vec::new(),
            api_key: None,
            probe_ceiling: false,
            inside: InsideOptions::default(),
            store: None,
            labels: BTreeMap::new(),
        }
    }
}

impl BenchRequest {
    /// What requests of an inference target ask for.
    #[must_use]
    pub fn requests(&self) -> Requests {
        let payload = &self.payload;
        let (input, output) = (payload.input_tokens, payload.output_tokens);
        Requests {
            seed: self.plan.seed,
            lengths: payload.trace.clone().map_or(Lengths::Drawn { input, output }, Lengths::Trace),
            prefix: payload.prefix,
            wording: payload.wording,
            vocabulary: payload
                .tokenizer
                .as_ref()
                .map(|tokenizer| Arc::clone(&tokenizer.vocabulary))
                .unwrap_or_default(),
            text_seed: self.plan.seed,
        }
    }
}

/// Where a run is, for who watches. All figures are since the start of warm-up or about the last moments.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// Since the start of warm-up, s.
    pub elapsed_s: f64,
    /// Warm-up, s.
    pub warm_up_s: f64,
    /// Warm-up and duration, s.
    pub load_s: f64,
    /// Warm-up, duration and drain, s.
    pub total_s: f64,
    /// Intended starts per second lately; none in a closed loop.
    pub offered_per_s: Option<f64>,
    /// Sends per second lately.
    pub achieved_per_s: f64,
    /// Operations completed so far.
    pub completed: u64,
    /// Operations intended and not ended.
    pub in_flight: u64,
    /// The leading latency.
    pub leading: Option<MetricId>,
    /// Its quantiles lately, ms.
    pub leading_ms: (Option<f64>, Option<f64>),
    /// Quantiles of icl lately, ms.
    pub icl_ms: (Option<f64>, Option<f64>),
    /// Failures so far by origin.
    pub errors: BTreeMap<String, u64>,
}

/// Who watches a run.
pub trait Observer: Send {
    /// The run is here now; about five times a second.
    fn live(&mut self, live: &Live);
    /// Something worth telling happened.
    fn note(&mut self, text: &str);
}

/// An observer that looks away.
#[derive(Debug, Default)]
pub struct Blind;

impl Observer for Blind {
    fn live(&mut self, _: &Live) {}
    fn note(&mut self, _: &str) {}
}

/// Why there is no run at all. A target that fails is a run with errors, not one of these.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The options contradict the protocol.
    #[error("the options do not fit the protocol")]
    Options(#[from] DriverError),
    /// The certificate file cannot be used.
    #[error("TLS cannot be set up")]
    Tls(#[from] TlsConfigError),
    /// No model was named, and the target lists none or several.
    #[error("{}", .listed)]
    Model {
        /// What the target lists, in words.
        listed: String,
    },
    /// The run could not be tried.
    #[error(transparent)]
    Runner(#[from] RunnerError),
    /// The run cannot be stored.
    #[error("the run cannot be stored")]
    Store(#[from] StoreError),
    /// The variable that should hold the key is not set.
    #[error("the environment variable `{variable}`, which should hold the key, is not set or empty")]
    NoKey {
        /// The variable.
        variable: String,
    },
    /// The file with certificates cannot be read.
    #[error("the certificates in `{path}` cannot be read")]
    Certificates {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Loading all keys before the run would write very much.
    #[error(
        "loading {keys} keys of {value_bytes} bytes before the run would write about {gib:.1} GiB; at most {MAX_PRELOAD_GIB} GiB are loaded"
    )]
    Preload {
        /// Number of keys.
        keys: u64,
        /// Bytes of a value.
        value_bytes: u32,
        /// About what would be written, GiB.
        gib: f64,
    },
    /// Prompts cannot be made to have the asked number of tokens.
    #[error("the prompts cannot be fitted to the target's count of tokens: {why}")]
    Fit {
        /// Why.
        why: String,
    },
    /// Another class of the mix cannot be tried, so that there is no mix.
    #[error("another class of the mix cannot be tried")]
    Mix,
    /// The embedded engine has to be launched before it is loaded.
    #[error("`engine=` targets are launched by the flow; load their address with openai-chat=")]
    NotLaunched,
}

/// A run that was made.
#[derive(Debug)]
pub struct Benched {
    /// The document.
    pub document: RunDocument,
    /// Where it is stored; none when it was not recorded.
    pub dir: Option<PathBuf>,
}

/// Makes a run.
///
/// # Errors
/// When the run cannot be tried, see [`BenchError`].
pub fn bench(
    request: &BenchRequest,
    observer: &mut dyn Observer,
    control: &Control,
) -> Result<Benched, BenchError> {
    bench_when(request, observer, control, None)
}

/// Makes a run that begins when `ready` returns, as one of several at once: everything that can be done before the load is
/// done then, and nothing is looked at inside the target, where what belongs to which of them cannot be told apart.
pub(crate) fn bench_when(
    request: &BenchRequest,
    observer: &mut dyn Observer,
    control: &Control,
    ready: Option<&dyn Fn() -> Result<(), BenchError>>,
) -> Result<Benched, BenchError> {
    if request.target.protocol == Protocol::Engine {
        return Err(BenchError::NotLaunched);
    }
    let endpoint = endpoint(request)?;
    let patience = Duration::from_nanos(request.plan.timeouts.connect_ns);
    let identified =
        probe::identify(&request.target, &endpoint, &request.headers, request.api_key.as_ref(), patience);
    let refusal = identified.as_ref().map_or_else(Some, |identity| identity.refusal.as_ref());
    if let Some(failure) = refusal {
        observer
            .note(&format!("the target does not say who it is: {} ({})", failure.message, failure.advice));
    }
    let identity = without_secrets(identified.as_ref().cloned().unwrap_or_default(), request);
    check_preload(request)?;
    let model = model(request, &identified, observer)?;
    let run = touchstone_records::id::new_id("r");
    let fitted = fit::fitted(request, model.as_deref(), &endpoint, patience, observer)?;
    let request = fitted.as_ref().unwrap_or(request);
    let driver = driver(request, &run, model.as_deref())?;
    let mut plan = request.plan.clone();
    if plan.shards == 0 {
        plan.shards = shards(&plan);
    }
    plan.shards = plan.shards.min(most_shards(&plan, driver.as_ref()));
    let reachable = identified.is_ok();
    let ceiling = if request.probe_ceiling && reachable && !control.stopped() && driver.sink().is_some() {
        observer.note("measuring the loopback ceiling of this machine");
        touchstone_runner::loopback_ceiling(&driver, plan.shards)
    } else {
        None
    };
    let started_at = utc::now();
    let fingerprint = fingerprint::fingerprint(crate::VERSION).to_canonical_json();
    let mut parameters = driver.parameters();
    if driver.family() == Family::Inference {
        let payload = &request.payload;
        parameters.extend(prompts::parameters(payload.cache, payload.tokenizer.as_ref(), payload.probed));
    }
    parameters.extend(request.labels.clone());
    let target = TargetDescription {
        target: request.target.to_string(),
        product: identity.product.clone(),
        version: identity.version.clone(),
        model: model.clone(),
    };
    let alone = ready.is_none();
    if let Some(ready) = ready {
        ready()?;
    }
    let recorder = match &request.store {
        Some(root) => {
            let dir = RunStore::new(root).create(&run)?;
            let manifest =
                manifest(&run, &started_at, &plan, driver.as_ref(), &identity, &target, &parameters);
            Some(Recorder::start(&dir, manifest, Some(&fingerprint)))
        }
        None => None,
    };
    let before = (HostSample::read(), process_cpu());
    let spec = RunSpec { driver: Arc::clone(&driver), endpoint, plan: plan.clone(), spin_ns: SPIN_NS };
    let (sender, events) = sync_channel(EVENT_CAPACITY);
    let record = recorder.as_ref().map(touchstone_records::RecorderHandle::sender);
    let mut watch = Watch::new(&plan, driver.leading_metric(), control.clone());
    let family = driver.family();
    let subject = inside::Subject {
        target: &request.target,
        options: &request.inside,
        api_key: request.api_key.as_ref(),
        load: Duration::from_nanos(plan.warm_up_ns.saturating_add(plan.duration_ns)),
    };
    let inside = alone.then(|| inside::Watcher::start(&subject)).flatten();
    watch.in_flight = inside.as_ref().map(|inside| Arc::clone(&inside.in_flight));
    let (outcome, client) = std::thread::scope(|scope| {
        let consumer = scope.spawn(move || consume(&events, observer, record.as_ref(), watch, family));
        let outcome = touchstone_runner::run(&spec, Some(sender), control);
        // The consumer ends when the last sender is gone; it only reads from a channel.
        let client = consumer.join().map_err(|_| RunnerError::Defect { shard: u32::MAX })?;
        outcome.map(|outcome| (outcome, client))
    })?;
    let seen = inside.map(inside::Watcher::finish);
    let mut certificate: Certificate = outcome.certificate.clone();
    certificate.loopback_ceiling = ceiling;
    let context = RunContext {
        run,
        started_at,
        touchstone_version: crate::VERSION.to_owned(),
        target,
        parameters,
        simulated: identity.simulated || driver.simulated(),
        interrupted: outcome.interrupted && !outcome.too_many_errors,
        too_many_errors: outcome.too_many_errors,
        reconnects: outcome.reconnects,
        connections: outcome.connections,
        bytes_sent: outcome.bytes_sent,
        bytes_received: outcome.bytes_received,
        certificate,
        fingerprint: None,
    };
    let mut document = summarise(&plan, outcome.traits, &outcome.result, context);
    if family == Family::Inference {
        let (payload, counts) = (&request.payload, &document.counts);
        let cacheable = driver.cacheable_share(counts.warm_up + counts.intended).unwrap_or(0.0);
        let found = prompts::cache_finding(payload.cache, counts, cacheable, payload.wording.fixed_tokens);
        document.workload.parameters.insert("cacheable_share".to_owned(), cacheable.into());
        document.findings.extend(found);
    }
    if let Some(seen) = seen {
        let dropped = document.generator.events_dropped;
        let (section, findings) = seen.conclude(&client, &document, dropped);
        document.server = Some(Box::new(section));
        document.findings.extend(findings);
    }
    if let Some(missing) = outcome.preload_missing.filter(|missing| *missing > 0) {
        document.findings.push(if family == Family::Inference {
            Finding::new(
                FindingCode::PrefixCache,
                format!("{missing} shared beginnings could not be sent before the run"),
                "their first requests find nothing in the prefix cache: look at the errors of the run",
            )
        } else {
            Finding::new(
                FindingCode::MissesUnexpected,
                format!("{missing} keys could not be loaded before the run"),
                "lookups of these keys miss: check memory limits and credentials of the target",
            )
        });
    }
    document.findings.extend(host_finding(&before, request.target.is_loopback()));
    let (document, dir) = match recorder {
        Some(recorder) => {
            let dir = recorder.dir().to_owned();
            let sender = recorder.sender();
            for finding in &document.findings {
                sender.finding(finding.clone());
            }
            (recorder.finish(document).document, Some(dir))
        }
        None => (document, None),
    };
    Ok(Benched { document, dir })
}

pub(crate) fn endpoint(request: &BenchRequest) -> Result<Endpoint, TlsConfigError> {
    let target = &request.target;
    let endpoint = Endpoint::tcp(target.host.clone(), target.port);
    if target.tls {
        Ok(endpoint.with_tls(TlsConfig::client(request.ca_pem.as_deref(), &target.host)?))
    } else {
        Ok(endpoint)
    }
}

/// What a target says of itself, without the key and the header values that it may have repeated. Short ones are left:
/// they are words that may stand there by chance.
fn without_secrets(mut identity: Identity, request: &BenchRequest) -> Identity {
    let headers = request.headers.iter().map(|(_, value)| Secret::new(value));
    let long = |secret: &Secret| secret.expose().len() >= 8;
    for secret in
        request.api_key.iter().cloned().chain(headers).flat_map(|secret| secret.parts()).filter(long)
    {
        for text in [&mut identity.product, &mut identity.version] {
            *text = text.take().map(|text| secret.blot(text));
        }
    }
    identity
}

/// The model to ask for: the one that was named, or the only one that the target lists.
fn model(
    request: &BenchRequest,
    identified: &Result<Identity, Failure>,
    observer: &mut dyn Observer,
) -> Result<Option<String>, BenchError> {
    if request.target.protocol.family() != Family::Inference {
        return Ok(None);
    }
    let listed: &[String] = identified.as_ref().map_or(&[], |identity| identity.models.as_slice());
    match (&request.model, listed) {
        (Some(model), listed) => {
            if !listed.is_empty() && !listed.contains(model) {
                observer.note(&format!(
                    "the target does not list the model `{model}`; it lists {}",
                    listed.join(", ")
                ));
            }
            Ok(Some(model.clone()))
        }
        (None, [only]) => Ok(Some(only.clone())),
        // A target that cannot be reached or wants a key gives a run with errors, whatever the model is called.
        (None, _) if identified.as_ref().map_or(true, |identity| identity.refusal.is_some()) => {
            Ok(Some("unknown".to_owned()))
        }
        (None, []) => {
            Err(BenchError::Model { listed: "the target lists no model; name one with --model".to_owned() })
        }
        (None, several) => Err(BenchError::Model {
            listed: format!(
                "the target lists several models ({}); name one with --model",
                several.join(", ")
            ),
        }),
    }
}

/// Refuses a preload that would fill the target's memory by mistake.
fn check_preload(request: &BenchRequest) -> Result<(), BenchError> {
    let payload = &request.payload;
    if request.target.protocol.family() != Family::Cache || payload.read_ratio <= 0.0 {
        return Ok(());
    }
    let bytes = payload.keys as f64 * (f64::from(payload.value_bytes) + KEY_OVERHEAD_BYTES);
    let gib = bytes / 1_073_741_824.0;
    if gib > MAX_PRELOAD_GIB {
        return Err(BenchError::Preload { keys: payload.keys, value_bytes: payload.value_bytes, gib });
    }
    Ok(())
}

/// Threads for a plan: one, or more where the rate needs them and half of the cores are left to others.
fn shards(plan: &LoadPlan) -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let wanted = plan.arrival.per_second().map_or(1.0, |rate| (rate / RATE_PER_SHARD).ceil()) as u32;
    wanted.clamp(1, (cores / 2).max(1))
}

/// Threads that can have a part of every limit: each has a connection of its own, and at least one operation in flight.
fn most_shards(plan: &LoadPlan, driver: &dyn Driver) -> u32 {
    let connections = match driver.connections() {
        Connections::Fixed(connections) | Connections::OnDemand { at_most: connections } => connections,
    };
    connections.min(plan.max_in_flight.unwrap_or(u32::MAX)).max(1)
}

/// CPU time of this process so far, s.
fn process_cpu() -> f64 {
    touchstone_telemetry::process::process_cpu_ns().map_or(0.0, |ns| ns as f64 / 1e9)
}

/// Whether others used the machine during the run. A target on this machine is one of them and cannot be told apart, so
/// only stolen time is held against such a run.
fn host_finding(before: &(HostSample, f64), target_is_here: bool) -> Option<Finding> {
    let usage = HostSample::read().since(&before.0)?;
    let all = usage.seconds * f64::from(usage.processors);
    let accounted = if target_is_here { all } else { process_cpu() - before.1 };
    usage.finding(accounted)
}

fn manifest(
    run: &str,
    started_at: &str,
    plan: &LoadPlan,
    driver: &dyn Driver,
    identity: &Identity,
    target: &TargetDescription,
    parameters: &BTreeMap<String, serde_json::Value>,
) -> Manifest {
    let start_ns = touchstone_net::mono_ns();
    let measured_from_ns = start_ns.saturating_add(plan.warm_up_ns);
    let measured_to_ns = measured_from_ns.saturating_add(plan.duration_ns);
    Manifest {
        run: run.to_owned(),
        started_at: started_at.to_owned(),
        touchstone_version: crate::VERSION.to_owned(),
        level: if identity.simulated { Level::E } else { Level::P2 },
        simulated: identity.simulated,
        target: target.clone(),
        workload: WorkloadDescription {
            arrival: plan.arrival.to_string(),
            seed: plan.seed,
            schedule_digest: plan.schedule_digest(),
            parameters: parameters.clone(),
        },
        phases: Phases {
            start_ns,
            measured_from_ns,
            measured_to_ns,
            end_ns: measured_to_ns.saturating_add(plan.drain_ns),
        },
        leading_metric: driver.leading_metric(),
        fingerprint: None,
    }
}

/// Sums shard ticks up for who watches.
struct Watch {
    live: Live,
    control: Control,
    drain_s: f64,
    /// Whether the load was ended before its time.
    cut: bool,
    start_ns: u64,
    shards: BTreeMap<u32, ShardTick>,
    /// Of a moment ago: (instant, offered, sent).
    past: (u64, u64, u64),
    failures: BTreeMap<(u32, u16), String>,
    /// Who else wants to know how many operations are in flight.
    in_flight: Option<Arc<AtomicU64>>,
}

impl Watch {
    fn new(plan: &LoadPlan, leading: MetricId, control: Control) -> Self {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let live = Live {
            warm_up_s: seconds(plan.warm_up_ns),
            load_s: seconds(plan.warm_up_ns + plan.duration_ns),
            total_s: seconds(plan.warm_up_ns + plan.duration_ns + plan.drain_ns),
            offered_per_s: plan.arrival.per_second().map(|_| 0.0),
            leading: Some(leading),
            ..Live::default()
        };
        Self {
            live,
            control,
            drain_s: seconds(plan.drain_ns),
            cut: false,
            start_ns: 0,
            shards: BTreeMap::new(),
            past: (0, 0, 0),
            failures: BTreeMap::new(),
            in_flight: None,
        }
    }

    fn start(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.past = (start_ns, 0, 0);
    }

    /// What to tell once the load was ended before its time: from then on the run drains.
    fn cut(&mut self) -> Option<String> {
        if self.cut || !self.control.stopped() || self.live.elapsed_s >= self.live.load_s {
            return None;
        }
        self.cut = true;
        self.live.load_s = self.live.elapsed_s;
        self.live.warm_up_s = self.live.warm_up_s.min(self.live.load_s);
        self.live.total_s = self.live.load_s + self.drain_s;
        Some(format!(
            "the load has ended; {} operations in flight are waited for, at most {} s (Ctrl-C ends that too)",
            self.live.in_flight, self.drain_s
        ))
    }

    fn tick(&mut self, tick: ShardTick) -> &Live {
        self.shards.insert(tick.shard, tick);
        let sum = |of: fn(&ShardTick) -> u64| self.shards.values().map(of).sum::<u64>();
        let (offered, sent) = (sum(|tick| tick.tally.offered), sum(|tick| tick.tally.sent));
        self.live.elapsed_s = tick.at_ns.saturating_sub(self.start_ns) as f64 / 1e9;
        self.live.completed = sum(|tick| tick.tally.completed);
        self.live.in_flight = sum(|tick| tick.tally.in_flight);
        if let Some(in_flight) = &self.in_flight {
            in_flight.store(self.live.in_flight, Ordering::Relaxed);
        }
        let (at, past_offered, past_sent) = self.past;
        if tick.at_ns > at + 150_000_000 {
            let seconds = (tick.at_ns - at) as f64 / 1e9;
            self.live.offered_per_s =
                self.live.offered_per_s.map(|_| offered.saturating_sub(past_offered) as f64 / seconds);
            self.live.achieved_per_s = sent.saturating_sub(past_sent) as f64 / seconds;
            self.past = (tick.at_ns, offered, sent);
        }
        let ms = |value: Option<u64>| value.map(|value| value as f64 / 1e6);
        self.live.leading_ms = (ms(tick.recent.latency.0), ms(tick.recent.latency.1));
        self.live.icl_ms = (ms(tick.recent.icl.0), ms(tick.recent.icl.1));
        &self.live
    }

    fn count_failures(&mut self, shard: u32, records: &[OpRecord]) {
        for record in records.iter().filter(|record| record.failure > 0) {
            let origin = self.failures.get(&(shard, record.failure - 1)).map_or("target", String::as_str);
            match self.live.errors.get_mut(origin) {
                Some(count) => *count += 1,
                None => {
                    self.live.errors.insert(origin.to_owned(), 1);
                }
            }
        }
    }
}

/// The consumer of run events: live figures for who watches, rows for the recorder, sums over everything.
fn consume(
    events: &Receiver<RunEvent>,
    observer: &mut dyn Observer,
    record: Option<&RecordSender>,
    mut watch: Watch,
    family: Family,
) -> ClientTotals {
    let mut client = ClientTotals::default();
    for event in events {
        match event {
            RunEvent::Started { start_ns } => watch.start(start_ns),
            RunEvent::Tick(tick) => {
                observer.live(watch.tick(tick));
                if let Some(text) = watch.cut() {
                    observer.note(&text);
                }
            }
            RunEvent::FirstFailure { shard, number, failure } => {
                watch.failures.insert((shard, number), failure.origin.to_string());
                if let Some(record) = record {
                    record.failure(FailureEntry {
                        index: failure_index(shard, number + 1),
                        origin: failure.origin,
                        phase: failure.phase,
                        kind: failure.kind,
                        message: failure.message,
                        advice: failure.advice,
                    });
                }
            }
            RunEvent::Operations { shard, records } => {
                watch.count_failures(shard, &records);
                records.iter().for_each(|record| client.add(record));
                if let Some(record) = record {
                    record.try_send(records.iter().map(|one| row(shard, one, family)).collect());
                }
            }
            RunEvent::Tokens { events, .. } => {
                if let Some(record) = record {
                    record.tokens(events.iter().map(token_row).collect());
                }
            }
        }
    }
    client
}

fn token_row(event: &TokenEvent) -> TokenRow {
    let kind = match event.kind {
        touchstone_load::TokenKind::Content => TokenKind::Content,
        touchstone_load::TokenKind::Reasoning => TokenKind::Reasoning,
        touchstone_load::TokenKind::Empty => TokenKind::Empty,
        touchstone_load::TokenKind::Report => TokenKind::Report,
    };
    TokenRow { index: event.index, at_ns: event.at_ns, tokens: event.tokens, kind }
}

fn failure_index(shard: u32, number: u16) -> u16 {
    (shard as u16).saturating_mul(FAILURES_PER_SHARD).saturating_add(number)
}

fn row(shard: u32, record: &OpRecord, family: Family) -> OpRow {
    let flags = OpFlags::default()
        .with(OpFlags::MEASURED, record.measured)
        .with(OpFlags::FAILED, record.failure > 0 || record.censored)
        .with(OpFlags::CENSORED, record.censored)
        .with(OpFlags::LOOKUP, record.hit.is_some())
        .with(OpFlags::HIT, record.hit == Some(true))
        .with(OpFlags::RETRIED, record.retried)
        .with(OpFlags::OUTPUT_TOKENS, record.output_tokens > 0)
        .with(OpFlags::INPUT_TOKENS, record.input_tokens > 0);
    let last_content_ns = match family {
        Family::Queue if record.failure == 0 && !record.censored => record.end_ns,
        _ => record.last_content_ns,
    };
    OpRow {
        index: record.index,
        intended_ns: record.intended_ns,
        dispatch_ns: record.dispatch_ns,
        slot_ns: record.slot_ns,
        sent_ns: record.sent_ns,
        head_ns: record.head_ns,
        first_content_ns: record.first_content_ns,
        last_content_ns,
        end_ns: record.end_ns,
        output_tokens: record.output_tokens,
        input_tokens: record.input_tokens,
        chunks: record.chunks,
        flags,
        failure: if record.failure == 0 { 0 } else { failure_index(shard, record.failure) },
    }
}

/// Where runs are stored under an output folder.
#[must_use]
pub fn store_root(out: &Path) -> PathBuf {
    out.join(".touchstone")
}
