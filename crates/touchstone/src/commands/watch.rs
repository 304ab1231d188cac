//! Watching a run: progress on the terminal, and Ctrl-C that ends the load but not the report.

use touchstone_flow::bench::{Live, Observer};
use touchstone_report::terminal::{self, RunPhase};
use touchstone_runner::Control;

use crate::failure::Failure;
use crate::ui::{Progress, Ui};

/// Shows live figures as progress lines and notes as lines that stay.
pub(crate) struct Watcher {
    progress: Progress,
}

impl Watcher {
    pub(crate) fn new(ui: &Ui) -> Self {
        Self { progress: ui.progress() }
    }
}

impl Observer for Watcher {
    fn live(&mut self, live: &Live) {
        let leading = live.leading.map(|metric| metric.as_str());
        self.progress.show(|style| {
            let phase = if live.elapsed_s < live.warm_up_s {
                RunPhase::WarmUp
            } else if live.elapsed_s < live.load_s {
                RunPhase::Measured
            } else {
                RunPhase::Drain
            };
            let progress = terminal::Progress {
                elapsed_s: live.elapsed_s,
                total_s: live.total_s,
                phase,
                offered_per_s: live.offered_per_s,
                achieved_per_s: live.achieved_per_s,
                completed: live.completed,
                in_flight: live.in_flight,
                leading_name: leading.unwrap_or("latency"),
                leading_p50: live.leading_ms.0,
                leading_p99: live.leading_ms.1,
                itl_p50: live.icl_ms.0,
                itl_p99: live.icl_ms.1,
                errors: live.errors.iter().map(|(origin, count)| (origin.clone(), *count)).collect(),
            };
            terminal::progress_line(&progress, style)
        });
    }

    fn note(&mut self, text: &str) {
        self.progress.line(text);
    }
}

/// A control that Ctrl-C stops: once to end the load and drain, twice to end the drain too.
///
/// # Errors
/// When no handler can be set.
pub(crate) fn control_by_ctrl_c() -> anyhow::Result<Control> {
    let control = Control::default();
    let handled = control.clone();
    ctrlc::set_handler(move || handled.stop())
        .map_err(|error| Failure::usage("cannot watch for Ctrl-C").because(error))?;
    Ok(control)
}
