//! Where a run becomes steady, by its windows.

use touchstone_model::run::{RunDocument, Steady, Window};
use touchstone_stats::steady::steadiness;

/// Drift over the rest of a series, relative to its mean, that is let pass.
const TOLERANCE: f64 = 0.10;
/// Difference between a transient and the rest, relative to the rest, that shapes figures.
const SHAPES: f64 = 0.25;
/// Share of the measured window that a transient may take.
const SHARE: f64 = 0.10;

/// The windows of the load, warm-up included, that have a latency.
fn windows(run: &RunDocument) -> Vec<(&Window, f64)> {
    let end = run.phases.measured_to_ns.saturating_sub(run.phases.start_ns) as f64 / 1e9;
    let load = run.windows.iter().filter(|window| window.to_s <= end + 1e-9);
    load.filter_map(|window| Some((window, window.latency_p50?))).collect()
}

/// Where the load, warm-up included, becomes steady: the later of the MSER-5 cuts of the leading latency and of the backlog,
/// when what follows them is stationary. None with fewer than 20 windows that have a latency.
#[must_use]
pub fn settling(run: &RunDocument) -> Option<Steady> {
    let windows = windows(run);
    let latencies: Vec<f64> = windows.iter().map(|(_, latency)| *latency).collect();
    let backlogs: Vec<f64> = windows.iter().map(|(window, _)| window.in_flight as f64).collect();
    let latency = steadiness(&latencies, TOLERANCE)?;
    let backlog = steadiness(&backlogs, TOLERANCE)?;
    let at = |drop: usize| windows.get(drop).map(|(window, _)| window.from_s);
    let (latency_cut_s, backlog_cut_s) = (at(latency.drop)?, at(backlog.drop)?);
    let steady = latency.steady && backlog.steady;
    Some(Steady {
        from_s: steady.then_some(latency_cut_s.max(backlog_cut_s)),
        latency_cut_s,
        latency_steady: latency.steady,
        backlog_cut_s,
        backlog_steady: backlog.steady,
    })
}

/// A transient that shapes the figures of the measured window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transient {
    /// Its end, s into the measured window.
    pub until_s: f64,
    /// Mean of the leading latency's window medians within it, ms.
    pub within_ms: f64,
    /// The same after it, ms.
    pub after_ms: f64,
}

/// A transient of the leading latency that takes more than a tenth of the measured window and differs by more than a quarter
/// from what follows. MSER-5 cuts noise as well; what it cuts has to differ before it is held against a run.
#[must_use]
pub fn transient(run: &RunDocument) -> Option<Transient> {
    let steady = run.steady?;
    let since = |ns: u64| ns.saturating_sub(run.phases.start_ns) as f64 / 1e9;
    let (from, to) = (since(run.phases.measured_from_ns), since(run.phases.measured_to_ns));
    let until_s = steady.latency_cut_s - from;
    if until_s <= SHARE * (to - from) {
        return None;
    }
    let measured = windows(run).into_iter().filter(|(window, _)| window.from_s >= from - 1e-9);
    let (within, after): (Vec<_>, Vec<_>) =
        measured.partition(|(window, _)| window.from_s < steady.latency_cut_s - 1e-9);
    let mean = |part: &[(&Window, f64)]| {
        (!part.is_empty()).then(|| part.iter().map(|(_, latency)| latency).sum::<f64>() / part.len() as f64)
    };
    let (within_ms, after_ms) = (mean(&within)?, mean(&after)?);
    ((within_ms - after_ms).abs() > SHAPES * after_ms).then_some(Transient { until_s, within_ms, after_ms })
}
