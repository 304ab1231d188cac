//! Looking inside a target while it is loaded: its metrics page and its processes, before, during and after the run.
//!
//! One thread of its own does all of it, so that a slow page delays no operation. A page costs the server work (vLLM's takes
//! it 10 ms), so pages are asked for about twenty times a run and never for more than one per cent of the time.

mod client;
mod device;
mod parts;
mod process;
mod reconcile;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use touchstone_drivers::Secret;
use touchstone_model::server::{CounterDelta, GaugeSummary, ServerSection};
use touchstone_model::{Finding, FindingCode, Protocol, RunDocument, ServerMetric, Target};
use touchstone_net::mono_ns;
use touchstone_telemetry::prometheus::Page;
use touchstone_telemetry::scrape::{ScrapeError, scrape_as};
use touchstone_telemetry::serving::EngineMap;
use touchstone_telemetry::{Tally, listener};

pub(crate) use client::ClientTotals;
use device::DeviceWatch;
use process::ProcessWatch;

/// How long a page may take.
const PAGE_LIMIT: Duration = Duration::from_secs(2);
/// Readings of a run, about.
const READINGS: u64 = 20;
/// Shortest and longest time between two pages.
const BETWEEN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// Readings of processes between two pages, at most so often.
const PROCESS_TICK: Duration = Duration::from_millis(250);
/// Most points of a course.
const MAX_POINTS: u64 = 1000;
/// How long is waited for a server that still works after the last operation ended.
const SETTLE: (u32, Duration) = (5, Duration::from_millis(200));
/// Reasons of a counter that are kept, and their length.
const REASONS: (usize, usize) = (32, 64);

/// What to look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InsideOptions {
    /// Where the server's metrics are.
    pub metrics: MetricsPage,
    /// The process of the target; looked for on this machine when none.
    pub pid: Option<TargetPid>,
}

/// Where a server's metrics are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MetricsPage {
    /// Where servers of the protocol usually have them; that there are none is no fault.
    #[default]
    Usual,
    /// At this address, `http` only; that there are none is a finding.
    At(String),
    /// They are not to be read.
    Off,
}

/// The process of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetPid {
    /// The user names it.
    Given(u32),
    /// Touchstone launched it.
    Launched(u32),
}

/// What a run's inside watcher needs to know.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) target: &'a Target,
    pub(crate) options: &'a InsideOptions,
    pub(crate) api_key: Option<&'a Secret>,
    /// Warm-up and duration.
    pub(crate) load: Duration,
}

/// The watcher of one run.
#[derive(Debug)]
pub(crate) struct Watcher {
    stop: Sender<()>,
    thread: JoinHandle<Seen>,
    /// Operations in flight, told by who counts them.
    pub(crate) in_flight: Arc<AtomicU64>,
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    source: Option<String>,
    unavailable: Option<String>,
    /// The page was asked for by name.
    asked: bool,
    tally: Option<Tally>,
    failed: u64,
    took: Duration,
    points: Vec<(u64, BTreeMap<ServerMetric, f64>)>,
    process: Option<ProcessWatch>,
    process_unavailable: Option<String>,
    devices: Option<DeviceWatch>,
    devices_unavailable: Option<String>,
}

impl Watcher {
    /// Takes the first readings, before the first operation, and begins to watch. None when there is no thread to be had.
    pub(crate) fn start(subject: &Subject<'_>) -> Option<Self> {
        let in_flight = Arc::new(AtomicU64::new(0));
        let mut eye = Eye::open(subject, Arc::clone(&in_flight));
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("ts-inside".to_owned())
            .spawn(move || eye.watch(&stopped))
            .ok()?;
        Some(Self { stop, thread, in_flight })
    }

    /// Takes the last readings, after the last operation.
    pub(crate) fn finish(self) -> Seen {
        // A watcher that is gone already needs no word to stop.
        self.stop.send(()).ok();
        self.thread.join().unwrap_or_else(|_| Seen {
            unavailable: Some("the watcher ended by a defect".to_owned()),
            process_unavailable: Some("the watcher ended by a defect".to_owned()),
            ..Seen::default()
        })
    }
}

/// What the watching thread holds.
struct Eye {
    url: Option<String>,
    key: Option<Secret>,
    between: Duration,
    tick: Duration,
    in_flight: Arc<AtomicU64>,
    seen: Seen,
}

impl Eye {
    fn open(subject: &Subject<'_>, in_flight: Arc<AtomicU64>) -> Self {
        let spread = |n: u64| subject.load / u32::try_from(n).unwrap_or(1);
        let longest = BETWEEN.1.max(spread(MAX_POINTS));
        let mut eye = Self {
            url: None,
            key: None,
            between: spread(READINGS).clamp(BETWEEN.0, longest),
            tick: PROCESS_TICK.max(spread(MAX_POINTS)),
            in_flight,
            seen: Seen::default(),
        };
        match ProcessWatch::open(subject.target, subject.options.pid) {
            Ok(watch) => eye.seen.process = Some(watch),
            Err(why) => eye.seen.process_unavailable = Some(why),
        }
        match DeviceWatch::open(subject.target) {
            Ok(watch) => eye.seen.devices = Some(watch),
            Err(why) => eye.seen.devices_unavailable = Some(why),
        }
        eye.find(subject);
        eye
    }

    /// Reads the first page at the first address that has one.
    fn find(&mut self, subject: &Subject<'_>) {
        let addresses = match addresses(subject.target, &subject.options.metrics) {
            Ok(addresses) => addresses,
            Err(why) => {
                self.seen.unavailable = Some(why);
                return;
            }
        };
        self.seen.asked = matches!(subject.options.metrics, MetricsPage::At(_));
        let mut why = None;
        for url in addresses {
            // The key is the target's, and nobody else's.
            let own = format!("http://{}/", subject.target.authority());
            self.key = subject.api_key.filter(|_| url.starts_with(&own)).cloned();
            self.url = Some(url.clone());
            match self.page() {
                Ok(page) => match EngineMap::of(&page) {
                    Some(map) => {
                        self.seen.source = Some(url.split('?').next().unwrap_or_default().to_owned());
                        self.seen.tally = Some(Tally::new(map));
                        self.take(&page);
                        return;
                    }
                    None => {
                        why =
                            Some("its metrics page has no name that a known inference server uses".to_owned())
                    }
                },
                Err(error) => why = why.or_else(|| Some(in_words(&error))),
            }
        }
        self.url = None;
        self.seen.unavailable = why;
    }

    fn page(&mut self) -> Result<Page, ScrapeError> {
        let url = self.url.as_deref().unwrap_or_default();
        let begun = Instant::now();
        let page = scrape_as(url, PAGE_LIMIT, self.key.as_ref().map(Secret::expose));
        self.seen.took += begun.elapsed();
        page
    }

    /// Counts a page and keeps its gauges. Returns whether the server still has work.
    fn take(&mut self, page: &Page) -> bool {
        let Some(tally) = &mut self.seen.tally else { return false };
        tally.push(page);
        let gauges = tally.gauges(page);
        let busy = [ServerMetric::Running, ServerMetric::Waiting];
        let busy = busy.iter().any(|metric| gauges.get(metric).is_some_and(|value| *value > 0.0));
        self.seen.points.push((mono_ns(), gauges));
        busy
    }

    fn read(&mut self) -> bool {
        match self.page() {
            Ok(page) => self.take(&page),
            Err(_) => {
                self.seen.failed += 1;
                false
            }
        }
    }

    fn watch(&mut self, stopped: &Receiver<()>) -> Seen {
        let mut next = Instant::now() + self.between;
        // It ends by a word, and also when who started it is gone.
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(self.tick) {
            let in_flight = self.in_flight.load(Ordering::Relaxed);
            if let Some(process) = &mut self.seen.process {
                process.read(in_flight);
            }
            if let Some(devices) = &mut self.seen.devices {
                devices.read();
            }
            if self.url.is_some() && Instant::now() >= next {
                let begun = Instant::now();
                self.read();
                // At most one per cent of the time, whatever a page costs.
                next = Instant::now() + self.between.max(begun.elapsed() * 100);
            }
        }
        if let Some(process) = &mut self.seen.process {
            process.read(0);
        }
        if let Some(devices) = &mut self.seen.devices {
            devices.read();
        }
        for _ in 0..SETTLE.0 {
            // What was cut off at the end of drain is still being taken down.
            if self.url.is_none() || !self.read() {
                break;
            }
            std::thread::sleep(SETTLE.1);
        }
        std::mem::take(&mut self.seen)
    }
}

/// Where pages are looked for, in order.
fn addresses(target: &Target, page: &MetricsPage) -> Result<Vec<String>, String> {
    let host = if target.host.contains(':') { format!("[{}]", target.host) } else { target.host.clone() };
    let at = |port: u16| format!("http://{host}:{port}/metrics");
    match page {
        MetricsPage::Off => Err("--no-server-metrics".to_owned()),
        MetricsPage::At(url) => Ok(vec![url.clone()]),
        MetricsPage::Usual if !target.protocol.is_http() => {
            Err(format!("no metrics page is known for `{}`", target.protocol))
        }
        MetricsPage::Usual if target.tls => {
            Err("metrics are read over http only; name an address with --metrics-url".to_owned())
        }
        // HTTP, gRPC and metrics are on 8000, 8001, 8002 as Triton comes, and usually stay neighbours.
        MetricsPage::Usual if matches!(target.protocol, Protocol::TritonGenerate | Protocol::TritonInfer) => {
            Ok(target.port.checked_add(2).map(at).into_iter().chain([at(target.port)]).collect())
        }
        MetricsPage::Usual => Ok(vec![at(target.port)]),
    }
}

/// An error with its causes, and what helps where it is known.
fn in_words(error: &ScrapeError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(why) = cause {
        text = format!("{text}: {why}");
        cause = why.source();
    }
    match error {
        // llama.cpp's answer without its flag.
        ScrapeError::Status { status: 501, .. } => {
            format!("{text}; llama.cpp's server has metrics with --metrics")
        }
        ScrapeError::Status { status: 404, .. } => {
            format!(
                "{text}; SGLang has metrics with --enable-metrics, others may have another address (--metrics-url)"
            )
        }
        _ => text,
    }
}

/// The process that listens where a target on this machine is.
fn listening(target: &Target) -> Result<u32, String> {
    if !target.is_loopback() {
        return Err("the target is not on this machine".to_owned());
    }
    listener::listening_on(target.port)
}

impl Seen {
    /// The section of the run document, with what is wrong about it. `dropped` events were lost on the way to `client`.
    pub(crate) fn conclude(
        self,
        client: &ClientTotals,
        document: &RunDocument,
        dropped: u64,
    ) -> (ServerSection, Vec<Finding>) {
        let mut findings = Vec::new();
        let phases = &document.phases;
        let seconds = |at: u64| (at as f64 - phases.start_ns as f64) / 1e9;
        let mut section = ServerSection {
            source: self.source.clone(),
            unavailable: self.unavailable.clone(),
            failed_readings: self.failed,
            ..ServerSection::default()
        };
        if let Some(why) = self.unavailable.as_ref().filter(|_| self.asked) {
            findings.push(Finding::new(
                FindingCode::ServerUnreadable,
                format!("the server's metrics could not be read: {why}"),
                "check the address given with --metrics-url, or leave it out",
            ));
        }
        if let Some(tally) = &self.tally {
            section.engine = Some(tally.map().engine.to_owned());
            section.readings = tally.pages();
            let asked = tally.pages() + self.failed;
            section.reading_ms = (asked > 0).then(|| self.took.as_secs_f64() * 1e3 / asked as f64);
            section.restarts = tally.restarts();
            section.counters =
                tally.counters().into_iter().map(|(metric, delta)| (metric, bounded(delta))).collect();
            section.distributions = tally.distributions();
            let measured = phases.measured_from_ns..=phases.measured_to_ns;
            let known: BTreeSet<ServerMetric> =
                self.points.iter().flat_map(|(_, gauges)| gauges.keys().copied()).collect();
            for metric in &known {
                let course: Vec<(u64, f64)> =
                    self.points.iter().filter_map(|(at, gauges)| Some((*at, *gauges.get(metric)?))).collect();
                let inside: Vec<f64> =
                    course.iter().filter(|(at, _)| measured.contains(at)).map(|(_, value)| *value).collect();
                section.gauges.insert(*metric, summary(&inside));
                section
                    .series
                    .insert(*metric, course.iter().map(|(at, value)| (seconds(*at), *value)).collect());
            }
            section.missing = tally.missing(&known);
            if tally.restarts() > 0 {
                findings.push(Finding::new(
                    FindingCode::ServerRestarted,
                    format!("the server's counters began anew {} times during the run", tally.restarts()),
                    "look into the server's log: it, or a part of it, was started again under load",
                ));
            }
        }
        section.reconciliation = reconcile::table(&section, client, document, dropped);
        findings.extend(reconcile::findings(&section));
        section.ttft_parts = parts::parts(&section, client, document, dropped);
        section.process_unavailable = self.process_unavailable;
        match self.process {
            Some(process) => match process.conclude(phases, client, dropped) {
                Ok(process) => section.process = Some(process),
                Err(why) => section.process_unavailable = Some(why),
            },
            None => section.process = None,
        }
        section.devices_unavailable = self.devices_unavailable;
        if let Some(devices) = self.devices {
            section.devices = devices.conclude(phases, client, dropped);
        }
        findings.extend(device::finding(&section.devices));
        (section, findings)
    }
}

fn summary(values: &[f64]) -> GaugeSummary {
    let n = values.len() as u64;
    GaugeSummary {
        mean: (n > 0).then(|| values.iter().sum::<f64>() / n as f64),
        max: values.iter().copied().reduce(f64::max),
        n,
    }
}

/// Reasons come from the server: few and short ones are kept.
fn bounded(delta: CounterDelta) -> CounterDelta {
    let by_reason = delta.by_reason.into_iter().take(REASONS.0);
    CounterDelta {
        delta: delta.delta,
        by_reason: by_reason.map(|(name, value)| (name.chars().take(REASONS.1).collect(), value)).collect(),
    }
}

#[cfg(test)]
#[path = "inside/tests.rs"]
mod tests;
