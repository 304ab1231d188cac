//! Where a run becomes steady, by its windows.

use touchstone_model::RunDocument;
use touchstone_stats::steady::{Steadiness, steadiness};

/// Drift over the rest of a series, relative to its mean, that is let pass.
const TOLERANCE: f64 = 0.10;

/// What the windows of a run say about its steadiness.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settling {
    /// From this instant on it is steady, s since the start of load; none when it never is.
    pub from_s: Option<f64>,
    /// The leading latency.
    pub latency: Steadiness,
    /// Operations in flight.
    pub backlog: Steadiness,
}

/// Where the load, warm-up included, becomes steady: the later of the MSER-5 cuts of the leading latency and of the backlog,
/// when what follows them is stationary. None with fewer than 20 windows that have a latency.
#[must_use]
pub fn settling(run: &RunDocument) -> Option<Settling> {
    let end = run.phases.measured_to_ns.saturating_sub(run.phases.start_ns) as f64 / 1e9;
    let windows: Vec<_> = run.windows.iter().filter(|window| window.to_s <= end + 1e-9).collect();
    let with_latency: Vec<(f64, f64)> =
        windows.iter().filter_map(|window| Some((window.from_s, window.latency_p50?))).collect();
    let latencies: Vec<f64> = with_latency.iter().map(|(_, latency)| *latency).collect();
    let backlogs: Vec<f64> = windows.iter().map(|window| window.in_flight as f64).collect();
    let latency = steadiness(&latencies, TOLERANCE)?;
    let backlog = steadiness(&backlogs, TOLERANCE)?;
    let from = with_latency.get(latency.drop)?.0.max(windows.get(backlog.drop)?.from_s);
    let from_s = (latency.steady && backlog.steady).then_some(from);
    Some(Settling { from_s, latency, backlog })
}
