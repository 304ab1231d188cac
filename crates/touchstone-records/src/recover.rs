//! What the event log says about a run that has no document.
//!
//! These are plain quantiles of what was written until the end, over all of the measured cohort that ended. There is no
//! referee, no bound and no verdict on them: an incomplete run is shown, never used as evidence.

use std::collections::BTreeMap;
use std::path::Path;

use touchstone_model::run::Window;
use touchstone_model::{Finding, MetricId};
use touchstone_stats::histogram::Histogram;

use crate::event_log::{End, FailureEntry, LogError, Manifest, OpFlags, OpRow, Reader, Record, Tail};

/// Nearest-rank quantiles in ms; a quantile among operations without a value is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecoveredQuantiles {
    /// Operations of the measured cohort that ended.
    pub n: u64,
    /// Of these, without the event: +infinity in the quantiles.
    pub censored: u64,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Greatest value.
    pub max: Option<f64>,
}

/// Failures of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredFailure {
    /// What is known about the kind; none when its entry was lost.
    pub entry: Option<FailureEntry>,
    /// Operations of the whole run.
    pub count: u64,
    /// Of these, in the measured cohort.
    pub measured: u64,
}

/// What is left of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovery {
    /// Which run it was; none when even the first frame is damaged.
    pub manifest: Option<Manifest>,
    /// Operations that ended and were written.
    pub operations: u64,
    /// Of these, intended in the measured window.
    pub measured: u64,
    /// Of the measured, without failure.
    pub completed: u64,
    /// Of the measured, failed.
    pub failed: u64,
    /// Output tokens of the measured, where known.
    pub output_tokens: Option<u64>,
    /// From the first intended start to the last end, s; none without operations.
    pub seconds: Option<f64>,
    /// Failures by their index in the log.
    pub failures: BTreeMap<u16, RecoveredFailure>,
    /// Quantiles by metric: the leading one, `e2e` and `scheduling_error`.
    pub metrics: BTreeMap<MetricId, RecoveredQuantiles>,
    /// Events of answers in the log.
    pub token_events: u64,
    /// The course of the run.
    pub windows: Vec<Window>,
    /// Findings that were raised during the run.
    pub findings: Vec<Finding>,
    /// The last frame; present when only the document is missing.
    pub end: Option<End>,
    /// How the log ends.
    pub tail: Tail,
    /// Frames that this version does not know or that make no sense.
    pub unreadable_frames: u64,
}

impl Recovery {
    /// Reads a log from its beginning to its tail. Memory is bounded by the number of windows and findings.
    ///
    /// # Errors
    /// The log cannot be opened, is none, or is of a newer version.
    pub fn read(path: &Path) -> Result<Self, LogError> {
        let mut reader = Reader::open(path)?;
        let mut totals = Totals::default();
        let mut recovery = Self {
            manifest: None,
            operations: 0,
            measured: 0,
            completed: 0,
            failed: 0,
            output_tokens: None,
            seconds: None,
            failures: BTreeMap::new(),
            metrics: BTreeMap::new(),
            token_events: 0,
            windows: Vec::new(),
            findings: Vec::new(),
            end: None,
            tail: Tail::Clean,
            unreadable_frames: 0,
        };
        loop {
            match reader.next_record() {
                Ok(None) => break,
                Ok(Some(Record::Start(manifest))) => recovery.manifest = Some(*manifest),
                Ok(Some(Record::Operations(rows))) => {
                    for row in &rows {
                        recovery.count(row);
                        let leading = recovery.manifest.as_ref().map(|m| m.leading_metric);
                        totals.add(row, leading);
                    }
                }
                Ok(Some(Record::Tokens(rows))) => recovery.token_events += rows.len() as u64,
                Ok(Some(Record::Failure(entry))) => {
                    let empty = RecoveredFailure { entry: None, count: 0, measured: 0 };
                    let index = entry.index;
                    recovery.failures.entry(index).or_insert(empty).entry = Some(entry);
                }
                Ok(Some(Record::Window(window))) => recovery.windows.push(window),
                Ok(Some(Record::Finding(finding))) => recovery.findings.push(finding),
                Ok(Some(Record::End(end))) => recovery.end = Some(end),
                Err(LogError::Payload { .. }) => recovery.unreadable_frames += 1,
                Err(error) => return Err(error),
            }
        }
        recovery.unreadable_frames += reader.skipped();
        recovery.tail = reader.tail().unwrap_or(Tail::Clean);
        recovery.failures.retain(|_, failure| failure.count > 0);
        recovery.seconds = totals.first_ns.map(|first| totals.last_ns.saturating_sub(first) as f64 / 1e9);
        recovery.metrics = totals.histograms.iter().map(|(id, h)| (*id, quantiles(h))).collect();
        Ok(recovery)
    }

    fn count(&mut self, row: &OpRow) {
        let measured = row.flags.contains(OpFlags::MEASURED);
        let failed = row.flags.contains(OpFlags::FAILED);
        self.operations += 1;
        self.measured += u64::from(measured);
        self.completed += u64::from(measured && !failed);
        self.failed += u64::from(measured && failed);
        if failed {
            let empty = RecoveredFailure { entry: None, count: 0, measured: 0 };
            let failure = self.failures.entry(row.failure).or_insert(empty);
            failure.count += 1;
            failure.measured += u64::from(measured);
        }
        if measured && row.flags.contains(OpFlags::OUTPUT_TOKENS) {
            *self.output_tokens.get_or_insert(0) += u64::from(row.output_tokens);
        }
    }
}

#[derive(Default)]
struct Totals {
    first_ns: Option<u64>,
    last_ns: u64,
    histograms: BTreeMap<MetricId, Histogram>,
}

impl Totals {
    fn add(&mut self, row: &OpRow, leading: Option<MetricId>) {
        self.first_ns = Some(self.first_ns.map_or(row.intended_ns, |first| first.min(row.intended_ns)));
        self.last_ns = self.last_ns.max(row.end_ns);
        if !row.flags.contains(OpFlags::MEASURED) {
            return;
        }
        // An operation that failed after its first content still has no valid latency.
        let failed = row.flags.contains(OpFlags::FAILED);
        let since = |at: u64| (at != 0 && !failed).then(|| at.saturating_sub(row.intended_ns));
        let content_or_end = if row.last_content_ns == 0 { row.end_ns } else { row.last_content_ns };
        self.record(MetricId::E2e, since(content_or_end));
        match leading {
            Some(MetricId::Ttft) => self.record(MetricId::Ttft, since(row.first_content_ns)),
            Some(MetricId::EndToEndLatency) => {
                self.record(MetricId::EndToEndLatency, since(row.last_content_ns));
            }
            _ => {}
        }
        if row.dispatch_ns != 0 {
            self.record(MetricId::SchedulingError, Some(row.dispatch_ns.saturating_sub(row.intended_ns)));
        }
    }

    fn record(&mut self, metric: MetricId, ns: Option<u64>) {
        let histogram = self.histograms.entry(metric).or_default();
        match ns {
            Some(ns) => histogram.record(ns),
            None => histogram.record_censored(),
        }
    }
}

fn quantiles(histogram: &Histogram) -> RecoveredQuantiles {
    let ms = |ns: u64| ns as f64 / 1e6;
    let at = |q| histogram.quantile_nearest_rank(q).value().map(ms);
    RecoveredQuantiles {
        n: histogram.count_total(),
        censored: histogram.count_censored(),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        max: histogram.max().map(ms),
    }
}
