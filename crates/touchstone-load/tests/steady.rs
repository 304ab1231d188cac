//! Where runs become steady, on windows whose course is known.

#![expect(clippy::unwrap_used, reason = "tests")]

use touchstone_load::steady::{settling, transient};
use touchstone_model::RunDocument;
use touchstone_model::run::Window;
use touchstone_stats::rng::Rng;

/// A run of 12 s, 2 s of them warm-up, in windows of 100 ms, with the median latency at each second.
fn run(latency_ms: impl Fn(f64) -> f64, in_flight: impl Fn(f64) -> f64) -> RunDocument {
    let mut rng = Rng::new(8);
    let text = include_str!("data/run.json");
    let mut run: RunDocument = serde_json::from_str(text).unwrap();
    run.phases.start_ns = 1_000_000_000;
    run.phases.measured_from_ns = 3_000_000_000;
    run.phases.measured_to_ns = 13_000_000_000;
    run.windows = (0..140)
        .map(|index| {
            let from_s = f64::from(index) * 0.1;
            let noise = 1.0 + 0.05 * rng.normal();
            Window {
                from_s,
                to_s: from_s + 0.1,
                latency_p50: Some(latency_ms(from_s) * noise),
                in_flight: (in_flight(from_s) * noise).round() as u64,
                ..Window::default()
            }
        })
        .collect();
    run.steady = settling(&run);
    run
}

#[test]
fn a_transient_within_warm_up_is_found_and_not_held_against_the_run() {
    let run = run(|at| if at < 1.0 { 200.0 } else { 50.0 }, |_| 100.0);
    let steady = run.steady.unwrap();
    assert!((0.9..=1.6).contains(&steady.from_s.unwrap()), "{steady:?}");
    assert_eq!(transient(&run), None);
}

#[test]
fn a_transient_that_reaches_into_the_measured_window_is_told_with_its_figures() {
    let run = run(|at| if at < 5.0 { 200.0 } else { 50.0 }, |_| 100.0);
    // MSER-5 cuts no less than the transient, and with noise somewhat more.
    let found = transient(&run).unwrap();
    assert!((2.9..=4.6).contains(&found.until_s), "{found:?}");
    assert!(
        (140.0..=210.0).contains(&found.within_ms) && (45.0..=55.0).contains(&found.after_ms),
        "{found:?}"
    );
}

#[test]
fn what_climbs_all_the_time_is_never_steady() {
    let climbing = run(|_| 50.0, |at| 10.0 + 20.0 * at).steady.unwrap();
    assert!(climbing.from_s.is_none() && !climbing.backlog_steady && climbing.latency_steady, "{climbing:?}");
    let flat = run(|_| 50.0, |_| 100.0);
    assert!(flat.steady.unwrap().from_s.is_some());
    assert_eq!(transient(&flat), None, "noise that is cut off is no transient");
    let mut short = flat;
    short.windows.truncate(19);
    assert_eq!(settling(&short), None);
}
