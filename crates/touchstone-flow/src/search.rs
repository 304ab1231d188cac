//! Searching over the load of one target: probes are ordinary runs, each recorded; which comes next is decided by
//! [`touchstone_load::search`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use touchstone_load::search::{self, Goal, Saturated, SearchPlan, Step};
use touchstone_model::run::TargetDescription;
use touchstone_model::sweep::{self, Axis, Ending, Probe, SweepDocument, SweepSettings};
use touchstone_model::{Arrival, Finding, FindingCode, Level, RunDocument};
use touchstone_records::{FileError, documents};
use touchstone_runner::Control;

use crate::bench::{BenchError, BenchRequest, Live, Observer, bench};
use crate::utc;

/// The parameter of a run that names the sweep it belongs to.
pub const SWEEP_LABEL: &str = "sweep";
/// The parameter of a run that gives its level in the sweep.
pub const LEVEL_LABEL: &str = "level";

/// The shape of the load that is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// Independent users.
    Poisson,
    /// Equal gaps.
    Constant,
    /// Operations in flight.
    Closed,
}

impl Process {
    /// The shape of an arrival process; none for what cannot be scaled by one number.
    #[must_use]
    pub fn of(arrival: &Arrival) -> Option<Self> {
        match arrival {
            Arrival::Poisson { .. } => Some(Process::Poisson),
            Arrival::Constant { .. } => Some(Process::Constant),
            Arrival::Closed { .. } => Some(Process::Closed),
            _ => None,
        }
    }

    /// The name in documents.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Process::Poisson => "poisson",
            Process::Constant => "constant",
            Process::Closed => "closed",
        }
    }

    fn at(self, level: f64) -> Arrival {
        match self {
            Process::Poisson => Arrival::Poisson { per_second: level },
            Process::Constant => Arrival::Constant { per_second: level },
            Process::Closed => Arrival::Closed { slots: level.round().max(1.0) as u32 },
        }
    }
}

/// What is asked of a search.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    /// A probe: its arrival process is replaced, its measured window is that of a first look.
    pub bench: BenchRequest,
    /// How to search.
    pub plan: SearchPlan,
    /// What is scaled.
    pub process: Process,
    /// Time that may be used.
    pub budget: Option<Duration>,
}

/// A search that was made.
#[derive(Debug)]
pub struct Searched {
    /// The document.
    pub document: SweepDocument,
    /// Where it is stored; none when it was not recorded.
    pub dir: Option<PathBuf>,
}

/// Why there is no search.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// A probe could not be tried.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The document could not be written.
    #[error("the sweep cannot be stored")]
    Store(#[from] FileError),
}

/// Searches. Ctrl-C ends it after the probe it falls in; what was found until then is in the document.
///
/// # Errors
/// When a probe cannot be tried, or the document cannot be written.
pub fn search(
    request: &SearchRequest,
    observer: &mut dyn Observer,
    control: &Control,
) -> Result<Searched, SearchError> {
    let started = Instant::now();
    let sweep = touchstone_records::id::new_id("s");
    let dir = request.bench.store.as_ref().map(|root| documents::sweep_dir(root, &sweep));
    let mut document = empty(request, &sweep);
    let ended = loop {
        let (level, look) = match search::next(&request.plan, &document.probes) {
            Step::Probe { level, look } => (level, look),
            Step::Done => break Ending::Complete,
            Step::Exhausted => break Ending::Probes,
        };
        if control.stopped() {
            break Ending::Interrupted;
        }
        let number = document.probes.len();
        let made = probe_request(request, &sweep, level, look, number);
        let needs = Duration::from_nanos(made.plan.warm_up_ns.saturating_add(made.plan.duration_ns));
        if request.budget.is_some_and(|budget| started.elapsed() + needs > budget) {
            break Ending::Budget;
        }
        observer.note(&format!("probe {}: {}, look {look}", number + 1, made.plan.arrival));
        let own = control.child();
        let mut watch = Watch {
            inner: observer,
            saturated: Saturated::default(),
            control: own.clone(),
            warm_up_s: made.plan.warm_up_ns as f64 / 1e9,
            ended: false,
        };
        let run = bench(&made, &mut watch, &own)?.document;
        let early = watch.ended && !control.stopped();
        if control.stopped() && run.phases.measured_seconds() < 0.9 * made.plan.duration_ns as f64 / 1e9 {
            // A part of a probe decides nothing.
            break Ending::Interrupted;
        }
        describe(&mut document, &run);
        let probe = search::probe(&request.plan, &run, level, look, early);
        observer.note(&told(&probe));
        document.probes.push(probe);
        conclude(&mut document, request, started);
        store(dir.as_ref(), &document)?;
    };
    document.ended = ended;
    conclude(&mut document, request, started);
    store(dir.as_ref(), &document)?;
    Ok(Searched { document, dir })
}

fn store(dir: Option<&PathBuf>, document: &SweepDocument) -> Result<(), FileError> {
    dir.map_or(Ok(()), |dir| documents::write(&dir.join(documents::SWEEP), document))
}

fn empty(request: &SearchRequest, sweep: &str) -> SweepDocument {
    let (plan, bench) = (&request.plan, &request.bench);
    let seconds = |ns: u64| ns as f64 / 1e9;
    SweepDocument {
        format: sweep::FORMAT.to_owned(),
        sweep: sweep.to_owned(),
        started_at: utc::now(),
        touchstone_version: crate::VERSION.to_owned(),
        target: TargetDescription { target: bench.target.to_string(), ..TargetDescription::default() },
        level: Level::P2,
        simulated: false,
        axis: if request.process == Process::Closed { Axis::Concurrency } else { Axis::OfferedLoad },
        settings: SweepSettings {
            process: request.process.as_str().to_owned(),
            from: plan.from,
            at_most: plan.at_most,
            resolution: plan.resolution,
            looks: plan.looks,
            confidence: plan.confidence,
            probe_s: seconds(bench.plan.duration_ns),
            warm_up_s: seconds(bench.plan.warm_up_ns),
            drain_s: seconds(bench.plan.drain_ns),
            budget_s: request.budget.map(|budget| budget.as_secs_f64()),
            seed: bench.plan.seed,
            slo: bench.plan.slos.iter().map(ToString::to_string).collect(),
        },
        estimates: BTreeMap::new(),
        probes: Vec::new(),
        shape: None,
        ended: Ending::Running,
        spent_s: 0.0,
        findings: Vec::new(),
    }
}

fn probe_request(request: &SearchRequest, sweep: &str, level: f64, look: u32, number: usize) -> BenchRequest {
    let mut made = request.bench.clone();
    made.plan.arrival = request.process.at(level);
    // Fresh prompts for every probe: the same ones twice would meet a warm prefix cache.
    made.plan.seed = request.bench.plan.seed.wrapping_add(number as u64);
    made.plan.duration_ns = request.bench.plan.duration_ns.saturating_mul(1 << (look - 1).min(16));
    made.probe_ceiling &= number == 0;
    made.labels.insert(SWEEP_LABEL.to_owned(), sweep.into());
    made.labels.insert(LEVEL_LABEL.to_owned(), level.into());
    made
}

/// What a run tells about the target belongs to the sweep; the weakest level counts.
fn describe(document: &mut SweepDocument, run: &RunDocument) {
    if document.probes.is_empty() {
        document.level = run.level;
    }
    document.level = document.level.min(run.level);
    document.simulated |= run.simulated;
    document.target = run.target.clone();
}

fn conclude(document: &mut SweepDocument, request: &SearchRequest, started: Instant) {
    let plan = &request.plan;
    document.spent_s = started.elapsed().as_secs_f64();
    document.estimates = plan
        .goals
        .iter()
        .map(|&goal: &Goal| (goal.metric(), search::estimate(plan, goal, &document.probes)))
        .collect();
    document.shape = search::shape(&document.probes);
    document.findings.clear();
    if document.simulated {
        document.findings.push(Finding::new(
            FindingCode::Simulated,
            "the target says that it is a simulator",
            "use these figures to try the method, never to choose a product",
        ));
    }
    let invalid: Vec<&Probe> = document.probes.iter().filter(|probe| !probe.valid).collect();
    if let Some(first) = invalid.first() {
        document.findings.push(Finding::new(
            FindingCode::ProbesInvalid,
            format!(
                "{} of {} probes are invalid and decide nothing; first at {}: {}",
                invalid.len(),
                document.probes.len(),
                touchstone_model::unit::significant(first.level, 4),
                first.note.as_deref().unwrap_or("see the run")
            ),
            "look at the runs; where the generator was late, the limit that was found may be its own",
        ));
    }
    let cut = match document.ended {
        Ending::Budget => Some("the budget was used up before the search was complete"),
        Ending::Probes => Some("the greatest number of probes was made before the search was complete"),
        Ending::Interrupted => Some("the search was interrupted"),
        Ending::Complete | Ending::Running => None,
    };
    if let Some(cut) = cut {
        document.findings.push(Finding::new(
            FindingCode::SearchIncomplete,
            cut,
            "the intervals say what is known; a longer budget (--budget) narrows them",
        ));
    }
}

/// A probe in one line.
fn told(probe: &Probe) -> String {
    let number = |value: f64| touchstone_model::unit::significant(value, 4);
    let rate =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{}/s", number(value)));
    let verdict = match (probe.valid, probe.sustained.holds) {
        (false, _) => "invalid",
        (true, true) => "sustained",
        (true, false) => "not sustained",
    };
    let mut text = format!(
        "  {verdict} ({}): {} offered, {} completed",
        probe.sustained.outcome.as_str(),
        rate(probe.offered),
        rate(probe.throughput)
    );
    if let Some(slope) = probe.backlog_slope {
        text += &format!(", backlog {}{}/s", if slope.value > 0.0 { "+" } else { "" }, number(slope.value));
    }
    for slo in &probe.slo {
        text += &format!(", {} {}", slo.slo, slo.outcome.as_str());
    }
    if let Some(note) = &probe.note {
        text += &format!("; {note}");
    }
    text
}

/// Watches a probe for over-saturation while somebody else watches it for its figures.
struct Watch<'a> {
    inner: &'a mut dyn Observer,
    saturated: Saturated,
    control: Control,
    warm_up_s: f64,
    ended: bool,
}

impl Observer for Watch<'_> {
    fn live(&mut self, live: &Live) {
        self.inner.live(live);
        if let Some(offered) = live.offered_per_s.filter(|_| !self.ended && live.elapsed_s < live.load_s)
            && self.saturated.observe(live.elapsed_s - self.warm_up_s, live.in_flight, offered)
        {
            self.ended = true;
            self.control.stop();
        }
    }

    fn note(&mut self, text: &str) {
        self.inner.note(text);
    }
}
