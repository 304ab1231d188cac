//! One line while a run goes on.

use crate::terminal::{Ink, Style};
use crate::{number, text};

/// The phase that a run is in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunPhase {
    /// Load without measuring.
    #[default]
    WarmUp,
    /// What counts.
    Measured,
    /// Waiting for what is still in flight.
    Drain,
}

/// How far a run is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress<'a> {
    /// Time since the start of warm-up, s.
    pub elapsed_s: f64,
    /// Warm-up, duration and drain together, s.
    pub total_s: f64,
    /// The phase.
    pub phase: RunPhase,
    /// Intended starts per second, lately; null in a closed loop.
    pub offered_per_s: Option<f64>,
    /// Sends per second, lately.
    pub achieved_per_s: f64,
    /// Operations completed so far.
    pub completed: u64,
    /// Operations intended and not ended.
    pub in_flight: u64,
    /// The id of the leading latency, such as `ttft`.
    pub leading_name: &'a str,
    /// Its median lately, ms.
    pub leading_p50: Option<f64>,
    /// Its 99th percentile lately, ms.
    pub leading_p99: Option<f64>,
    /// Median of itl (icl where tokens are unknown) lately, ms.
    pub itl_p50: Option<f64>,
    /// 99th percentile of the same, ms.
    pub itl_p99: Option<f64>,
    /// Failures so far by origin.
    pub errors: Vec<(String, u64)>,
}

/// One line without a line break, in the order of what is asked first. It is cut at the style's width only where it
/// would otherwise wrap in the terminal.
#[must_use]
pub fn progress_line(progress: &Progress<'_>, style: &Style) -> String {
    let w = style.lang.words();
    let phase = match progress.phase {
        RunPhase::WarmUp => w.warm_up,
        RunPhase::Measured => w.measured,
        RunPhase::Drain => w.drain,
    };
    let left = (progress.total_s - progress.elapsed_s).max(0.0);
    let mut line = format!(
        "{phase} {} ({})",
        number::clock(progress.elapsed_s),
        style.lang.pick(format!("{} left", number::clock(left)), format!("剩余 {}", number::clock(left)))
    );
    let rate = |value: f64| format!("{}/s", number::plain(value, 4));
    let offered = progress.offered_per_s.map_or_else(|| w.closed_loop.to_owned(), rate);
    put(&mut line, w.offered, &offered);
    put(&mut line, w.achieved, &rate(progress.achieved_per_s));
    put(&mut line, w.in_flight, &number::count(progress.in_flight));
    let mut pair = |name: &str, p50: Option<f64>, p99: Option<f64>| {
        if p50.is_some() || p99.is_some() {
            put(&mut line, name, &format!("{}/{} ms", number::optional(p50, 3), number::optional(p99, 3)));
        }
    };
    pair(&format!("{} p50/p99", progress.leading_name), progress.leading_p50, progress.leading_p99);
    pair("itl", progress.itl_p50, progress.itl_p99);
    put(&mut line, w.completed, &number::count(progress.completed));
    let errors: Vec<String> = progress
        .errors
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(origin, count)| format!("{origin} {}", number::count(*count)))
        .collect();
    let tail =
        if errors.is_empty() { String::new() } else { format!("  {} {}", w.errors, errors.join(", ")) };
    let room = style.width.saturating_sub(text::width(&tail));
    format!("{}{}", text::shorten(&text::clean(&line), room), style.ink(Ink::Bad, &text::clean(&tail)))
}

fn put(line: &mut String, name: &str, value: &str) {
    line.push_str(&format!("  {name} {value}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lang;

    fn progress() -> Progress<'static> {
        Progress {
            elapsed_s: 4.2,
            total_s: 42.0,
            phase: RunPhase::Measured,
            offered_per_s: Some(50.0),
            achieved_per_s: 49.8,
            completed: 204,
            in_flight: 7,
            leading_name: "ttft",
            leading_p50: Some(41.23),
            leading_p99: Some(118.9),
            itl_p50: Some(9.1),
            itl_p99: None,
            errors: vec![("target".into(), 3), ("network".into(), 0)],
        }
    }

    #[test]
    fn a_line_says_how_far_and_how_well() {
        let style = Style { width: 200, ..Style::default() };
        insta::assert_snapshot!(progress_line(&progress(), &style), @"measured 4s (38s left)  offered 50/s  achieved 49.8/s  in flight 7  ttft p50/p99 41.2/119 ms  itl 9.1/- ms  completed 204  errors target 3");
        let zh = Style { lang: Lang::Zh, ..style };
        insta::assert_snapshot!(progress_line(&progress(), &zh), @"测量 4s (剩余 38s)  计划 50/s  发出 49.8/s  在途 7  ttft p50/p99 41.2/119 ms  itl 9.1/- ms  成功 204  错误 target 3");
    }

    #[test]
    fn it_never_wraps_and_never_hides_errors() {
        let narrow = progress_line(&progress(), &Style { width: 60, ..Style::default() });
        assert!(text::width(&narrow) <= 60, "{narrow}");
        assert!(narrow.ends_with("errors target 3"), "{narrow}");
        let closed =
            Progress { offered_per_s: None, leading_p50: None, leading_p99: Some(f64::NAN), ..progress() };
        let line = progress_line(&closed, &Style::default());
        assert!(line.contains("closed loop") && !line.contains("NaN"), "{line}");
    }
}
