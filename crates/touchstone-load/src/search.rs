//! Searching over the load: which probe comes next, and what the probes so far say about where the limits lie.
//!
//! There is no state but the list of probes: [`next`] computes the next step from it, so a search that was interrupted goes
//! on where it was, and a test can hand in whatever history it likes. Nothing here runs a probe or reads a clock.
//!
//! A search first doubles the load until it fails (or halves it, until it holds), then halves the ratio between the least
//! failing and the greatest holding level. A level that is not decided beyond chance is looked at again, each time twice as
//! long, with the error spent over the looks ([`touchstone_stats::sequential`]). Where chance still hides the answer after
//! the last look, the definition on the figures as they are decides the direction, and the interval stays as wide as what
//! *was* decided leaves it.

use touchstone_model::metric::MetricId;
use touchstone_model::run::{Outcome, RunDocument};
use touchstone_model::sweep::{Bounded, Estimate, Probe, ProbeSlo, Shape, Verdict};
use touchstone_model::{Finding, FindingCode, Severity, Statistic, Subject, Unit};
use touchstone_stats::sequential::{Decision, ShareTest, Spending, share_bounds};
use touchstone_stats::trend::{drift_interval, slope_interval};

/// Share of the realised load that must be delivered.
pub const DELIVERED: f64 = 0.98;
/// Growth of the itl p99 over its value at concurrency 1 that is a spike.
pub const SPIKE: f64 = 2.0;
/// Times that a search halves its first level at most when nothing holds.
const HALVINGS: u32 = 6;
/// Stretches of the measured window whose changes tell how sure its drift is.
const STRETCHES: usize = 10;
/// Independent pieces that a backlog must be worth before the slope of a line through it counts: the window is then long
/// against the time in which the backlog forgets itself, which it does only where it is stable.
const PIECES: f64 = 10.0;

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Goal {
    /// `saturation_point`.
    Saturation,
    /// `slo_capacity`.
    SloCapacity,
    /// `spike_threshold`.
    Spike,
}

impl Goal {
    /// The metric that is found.
    #[must_use]
    pub fn metric(self) -> MetricId {
        match self {
            Goal::Saturation => MetricId::SaturationPoint,
            Goal::SloCapacity => MetricId::SloCapacity,
            Goal::Spike => MetricId::SpikeThreshold,
        }
    }
}

/// How to search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchPlan {
    /// What is looked for, in this order.
    pub goals: Vec<Goal>,
    /// The first level.
    pub from: f64,
    /// The greatest level that may be tried.
    pub at_most: f64,
    /// Least relative distance between levels worth telling apart, such as 0.05.
    pub resolution: f64,
    /// Looks at one level at most.
    pub looks: u32,
    /// Confidence of a decision about a level, one-sided.
    pub confidence: f64,
    /// Probes at most.
    pub probes: usize,
    /// Whether levels are whole numbers.
    pub whole: bool,
}

impl SearchPlan {
    /// The error of a decision about one level. The level next to the limit on either side has to be right for the interval
    /// to hold, and a queue that starts empty grows at first even when it is stable: half of what the confidence leaves.
    fn error(&self) -> f64 {
        0.5 * (1.0 - self.confidence)
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Make a probe.
    Probe {
        /// At this level.
        level: f64,
        /// Which look at it is, from 1: the measured window is `2^(look - 1)` times that of the first.
        look: u32,
    },
    /// Everything was found, or cannot be.
    Done,
    /// The greatest number of probes was made.
    Exhausted,
}

/// What is known of a level as regards a goal.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Known {
    level: f64,
    /// The level as it was realised: what the estimate is stated in.
    realised: f64,
    looks: u32,
    verdict: Verdict,
    throughput: Option<f64>,
}

/// The next step of a search, given its probes so far.
#[must_use]
pub fn next(plan: &SearchPlan, probes: &[Probe]) -> Step {
    if probes.len() >= plan.probes {
        return Step::Exhausted;
    }
    for &goal in &plan.goals {
        if let Some(step) = next_for(plan, goal, probes) {
            return step;
        }
    }
    Step::Done
}

fn next_for(plan: &SearchPlan, goal: Goal, probes: &[Probe]) -> Option<Step> {
    if goal == Goal::Spike && !probes.iter().any(|probe| probe.level <= 1.0) {
        return Some(Step::Probe { level: 1.0, look: 1 });
    }
    let known = known(plan, goal, probes);
    let invalid = |level: f64| probes.iter().filter(|probe| !probe.valid && probe.level >= level).count();
    let Some(last) = known.last() else {
        // The first probe decides nothing: once more, in case it was chance, and then no further.
        return (invalid(0.0) < 2).then_some(Step::Probe { level: plan.from, look: 1 });
    };
    let hi = known.iter().find(|one| !one.verdict.holds);
    let lo = known.iter().rev().find(|one| one.verdict.holds && hi.is_none_or(|hi| one.level < hi.level));
    let again = |one: &Known| {
        let open = one.verdict.outcome == Outcome::Undetermined && one.looks < plan.looks;
        open.then_some(Step::Probe { level: one.level, look: one.looks + 1 })
    };
    let level = match (lo, hi) {
        (_, None) => {
            // Two invalid probes above the greatest level: the generator, not the target, is at its limit.
            if last.level >= plan.at_most || invalid(last.level * 1.001) >= 2 {
                return lo.and_then(again);
            }
            (last.level * 2.0).min(plan.at_most)
        }
        (None, Some(hi)) => {
            let floor = plan.from / f64::from(1_u32 << HALVINGS);
            if let Some(step) = again(hi) {
                return Some(step);
            }
            let level = if plan.whole { (hi.level / 2.0).floor() } else { hi.level / 2.0 };
            if level < floor || (plan.whole && level < 1.0) || goal == Goal::Spike {
                return None;
            }
            level
        }
        (Some(lo), Some(hi)) => {
            let narrow = if plan.whole {
                hi.level - lo.level <= 1.0 || hi.level / lo.level <= 1.0 + plan.resolution
            } else {
                hi.level / lo.level <= (1.0 + plan.resolution) * 1.000_001
            };
            if let Some(step) = again(hi).or_else(|| again(lo)) {
                return Some(step);
            }
            if narrow {
                return None;
            }
            between(plan, lo, hi, known.len())
        }
    };
    // Where probes between the two were invalid, the middle would be tried for ever.
    let tried = probes.iter().filter(|probe| !probe.valid && (probe.level - level).abs() < 1e-9).count();
    (tried < 2).then_some(Step::Probe { level, look: 1 })
}

/// A level between one that holds and one that does not: what a saturated target delivered is a good guess of where it
/// saturates, and is taken every other time; the geometric middle keeps the search short whatever the guess is worth.
fn between(plan: &SearchPlan, lo: &Known, hi: &Known, known: usize) -> f64 {
    let middle = (lo.level * hi.level).sqrt();
    let mut level = middle;
    if let Some(guess) = hi.throughput.filter(|_| known.is_multiple_of(2)) {
        let half = 1.0 + plan.resolution / 2.0;
        let inside = |level: f64| level > lo.level * half.sqrt() && level < hi.level / half.sqrt();
        level = [guess / half, guess * half].into_iter().find(|level| inside(*level)).unwrap_or(middle);
    }
    if plan.whole {
        level.round().clamp(lo.level + 1.0, hi.level - 1.0)
    } else {
        // A level that can be typed again.
        let scale = 10_f64.powf(4.0 - level.log10().ceil());
        (level * scale).round() / scale
    }
}

/// The levels of valid probes, ascending, each with the verdict of all its looks.
fn known(plan: &SearchPlan, goal: Goal, probes: &[Probe]) -> Vec<Known> {
    let mut levels: Vec<f64> = probes.iter().filter(|probe| probe.valid).map(|probe| probe.level).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let base = probes.iter().rfind(|probe| probe.valid && probe.level <= 1.0).and_then(|probe| probe.gap_p99);
    let mut known: Vec<Known> = levels
        .into_iter()
        .filter_map(|level| {
            let looks: Vec<&Probe> =
                probes.iter().filter(|probe| probe.valid && probe.level == level).collect();
            let latest = looks.last()?;
            let verdict = match goal {
                Goal::Saturation => latest.sustained,
                Goal::SloCapacity => slo_verdict(plan, &looks),
                Goal::Spike => spike_verdict(base?, latest)?,
            };
            Some(Known {
                level,
                realised: latest.offered.unwrap_or(level),
                looks: latest.look,
                verdict,
                throughput: latest.throughput.filter(|_| latest.offered.is_some()),
            })
        })
        .collect();
    // What chance leaves open at one level is settled by what was decided at a harder or an easier one.
    let passed = known.iter().rev().find(|one| one.verdict.outcome == Outcome::Pass).map(|one| one.level);
    let failed = known.iter().find(|one| one.verdict.outcome == Outcome::Fail).map(|one| one.level);
    for one in known.iter_mut().filter(|one| one.verdict.outcome == Outcome::Undetermined) {
        let easier = passed.is_some_and(|passed| one.level < passed);
        let harder = failed.is_some_and(|failed| one.level > failed);
        if easier != harder {
            one.verdict.holds = easier;
        }
    }
    known
}

/// All limits over all looks at one level. A load whose backlog grows has no capacity, whatever its latencies were so far.
fn slo_verdict(plan: &SearchPlan, looks: &[&Probe]) -> Verdict {
    let Some(latest) = looks.last() else {
        return Verdict { holds: false, outcome: Outcome::Undetermined };
    };
    let grows = latest.sustained.outcome == Outcome::Fail;
    let mut holds = !grows && latest.sustained.holds;
    let mut outcome = if grows { Outcome::Fail } else { Outcome::Pass };
    for slo in &latest.slo {
        let (point, decided) = pooled(plan, looks, slo);
        holds &= point;
        outcome = match (outcome, decided) {
            (Outcome::Fail, _) | (_, Outcome::Fail) => Outcome::Fail,
            (Outcome::Pass, Outcome::Pass) => Outcome::Pass,
            _ => Outcome::Undetermined,
        };
    }
    Verdict { holds: holds && outcome != Outcome::Fail, outcome }
}

/// One limit over all looks: whether it holds on the figures, and whether that is beyond chance.
fn pooled(plan: &SearchPlan, looks: &[&Probe], slo: &ProbeSlo) -> (bool, Outcome) {
    let Some(needed) = slo.needs_share else {
        // A rate or a count of one run is what it is.
        return (slo.outcome == Outcome::Pass, slo.outcome);
    };
    let mut test = ShareTest::new(needed, plan.error(), plan.looks, Spending::Even);
    let mut share = None;
    for look in looks {
        let seen = look.slo.iter().find(|seen| seen.slo == slo.slo);
        if let Some((share, n)) = seen.and_then(|seen| seen.share.zip(seen.n_effective)) {
            test.observe(share * n, n);
        }
        share = test.share().or(share);
    }
    let outcome = match test.decision() {
        Decision::AtLeast => Outcome::Pass,
        Decision::Below => Outcome::Fail,
        Decision::Continue | Decision::Unresolved => Outcome::Undetermined,
    };
    let holds = match outcome {
        Outcome::Pass => true,
        Outcome::Fail => false,
        Outcome::Undetermined => share.is_some_and(|share| share >= needed),
    };
    (holds, outcome)
}

/// Whether gaps at a concurrency are still within twice those at 1.
fn spike_verdict(base: Bounded, probe: &Probe) -> Option<Verdict> {
    let gap = probe.gap_p99?;
    let holds = gap.value <= SPIKE * base.value;
    let below = gap.upper.zip(base.lower).is_some_and(|(gap, base)| gap <= SPIKE * base);
    let above = gap.lower.zip(base.upper).is_some_and(|(gap, base)| gap > SPIKE * base);
    let outcome = match (probe.level <= 1.0 || (below && holds), above && !holds) {
        (true, _) => Outcome::Pass,
        (_, true) => Outcome::Fail,
        _ => Outcome::Undetermined,
    };
    Some(Verdict { holds, outcome })
}

/// What the probes say about a goal.
#[must_use]
pub fn estimate(plan: &SearchPlan, goal: Goal, probes: &[Probe]) -> Estimate {
    let known = known(plan, goal, probes);
    let hi = known.iter().find(|one| !one.verdict.holds);
    let lo = known.iter().rev().find(|one| one.verdict.holds && hi.is_none_or(|hi| one.level < hi.level));
    // What was decided beyond chance. Where decisions contradict each other, the interval spans both.
    let fails = |one: &&Known| one.verdict.outcome == Outcome::Fail;
    let passes = |one: &&Known| one.verdict.outcome == Outcome::Pass;
    let least_fail = known.iter().find(fails);
    let greatest_pass = known.iter().rev().find(passes);
    let contradicted = match (greatest_pass, least_fail) {
        (Some(pass), Some(fail)) => pass.level > fail.level,
        _ => false,
    };
    let lower = if contradicted {
        known.iter().rev().find(|one| passes(one) && least_fail.is_some_and(|fail| one.level < fail.level))
    } else {
        greatest_pass
    };
    let upper = if contradicted {
        known.iter().find(|one| fails(one) && greatest_pass.is_some_and(|pass| one.level > pass.level))
    } else {
        least_fail
    };
    let stated = |one: Option<&Known>| one.map(|one| if plan.whole { one.level } else { one.realised });
    let value = match goal {
        Goal::Spike => hi,
        Goal::Saturation | Goal::SloCapacity => lo,
    };
    let (mut value, mut lower, mut upper) = (stated(value), stated(lower), stated(upper));
    // Realised loads scatter around what was asked for, so that neighbours may change places.
    if let (Some(low), Some(high)) = (lower, upper)
        && low > high
    {
        (lower, upper) = (Some(high), Some(low));
    }
    if let Some(point) = value {
        lower = lower.map(|low| low.min(point));
        upper = upper.map(|high| high.max(point));
    }
    if goal == Goal::Spike && hi.is_none() {
        value = None;
    }
    let reason = reason(plan, goal, probes, &known, lo, hi, contradicted);
    let unit = if goal == Goal::Spike { Unit::Count } else { Unit::PerSecond };
    Estimate { value, lower, upper, unit, confidence: plan.confidence, reason }
}

fn reason(
    plan: &SearchPlan,
    goal: Goal,
    probes: &[Probe],
    known: &[Known],
    lo: Option<&Known>,
    hi: Option<&Known>,
    contradicted: bool,
) -> String {
    if known.is_empty() {
        return match (goal, probes.iter().any(|probe| probe.valid)) {
            (Goal::Spike, true) => "the target's chunks give no gaps between tokens".to_owned(),
            _ => "no valid probe was made".to_owned(),
        };
    }
    let what = match goal {
        Goal::Saturation => "the load is sustained",
        Goal::SloCapacity => "every limit is kept",
        Goal::Spike => "gaps stay within twice those at 1",
    };
    let mut text = match (lo, hi) {
        (Some(lo), None) if lo.level >= plan.at_most => {
            format!("{what} up to the greatest level that was allowed")
        }
        (Some(_), None) => format!("{what} at every level that was measured; the limit lies above"),
        (None, _) => "no level that was measured holds".to_owned(),
        (Some(lo), Some(hi)) => {
            format!("bracketed to {:.1} %", (hi.level / lo.level - 1.0) * 100.0)
        }
    };
    let open = known.iter().filter(|one| one.verdict.outcome == Outcome::Undetermined).count();
    if open > 0 {
        text += &format!("; {open} of {} levels are not decided beyond chance", known.len());
    }
    if contradicted {
        text += "; a higher level passed where a lower one failed, and the interval spans both";
    }
    text
}

/// The shape of the curve; none when no valid probe has a throughput.
#[must_use]
pub fn shape(probes: &[Probe]) -> Option<Shape> {
    let valid: Vec<&Probe> = probes.iter().filter(|probe| probe.valid).collect();
    let throughput = |probe: &&&Probe| probe.throughput.unwrap_or(f64::NEG_INFINITY);
    let peak = valid.iter().max_by(|a, b| throughput(a).total_cmp(&throughput(b)))?;
    let peak_throughput = peak.throughput?;
    let lowest = valid.iter().filter(|probe| probe.p95.is_some()).min_by(|a, b| a.level.total_cmp(&b.level));
    let base = lowest.and_then(|probe| probe.p95);
    let mut sorted = valid.clone();
    sorted.sort_by(|a, b| a.level.total_cmp(&b.level));
    let knee = base.and_then(|base| {
        let within = |probe: &&&Probe| probe.p95.is_some_and(|p95| p95 <= 2.0 * base);
        sorted.iter().take_while(within).last().map(|probe| probe.level)
    });
    let fallen = valid
        .iter()
        .filter(|probe| probe.level > peak.level)
        .filter_map(|probe| Some((probe.level, probe.throughput?)))
        .filter(|(_, throughput)| *throughput < 0.9 * peak_throughput)
        .min_by(|a, b| a.1.total_cmp(&b.1));
    Some(Shape {
        peak_throughput,
        peak_level: peak.level,
        knee,
        collapse_level: fallen.map(|(level, _)| level),
        collapse_throughput: fallen.map(|(_, throughput)| throughput),
    })
}

/// What a run says at a level.
#[must_use]
pub fn probe(plan: &SearchPlan, run: &RunDocument, level: f64, look: u32, stopped_early: bool) -> Probe {
    let leading = [MetricId::Ttft, MetricId::EndToEndLatency, MetricId::E2e]
        .into_iter()
        .find_map(|metric| Some((metric, run.metrics.get(&metric)?)));
    let gap = run.metrics.get(&MetricId::Itl).or_else(|| run.metrics.get(&MetricId::Icl));
    let statistic = |statistic| leading.and_then(|(_, summary)| summary.statistic(statistic));
    let failed = run.counts.failed as f64 / run.counts.intended.max(1) as f64;
    // The error of a look, and a two-sided interval whose lower end has that error.
    let alpha = Spending::Even.at_look(plan.error(), look, plan.looks);
    let slope = backlog_slope(run, 1.0 - 2.0 * alpha);
    let effective = leading.map_or(0.0, |(_, summary)| summary.n_effective);
    let slo = run
        .slo
        .iter()
        .map(|slo| {
            let subject = slo.slo.parse::<touchstone_model::Requirement>().ok().map(|slo| slo.subject);
            let level = match subject {
                Some(Subject::Metric(_, Some(statistic))) => statistic.level(),
                _ => None,
            };
            let n = match subject {
                Some(Subject::Metric(metric, _)) => run.metrics.get(&metric),
                _ => None,
            };
            ProbeSlo {
                slo: slo.slo.clone(),
                outcome: slo.outcome,
                value: slo.value,
                needs_share: level,
                share: slo.share,
                n_effective: level.and(n.map(|summary| summary.n_effective)),
            }
        })
        .collect();
    let gone = run.findings.iter().any(|finding| finding.code == FindingCode::AllFailed)
        && run.errors.iter().all(|error| error.origin.is_beyond_the_generator());
    Probe {
        run: run.run.clone(),
        level,
        look,
        seconds: run.phases.measured_seconds(),
        offered: run.rates.offered,
        throughput: run.rates.throughput,
        goodput: run.rates.goodput,
        failed,
        leading: leading.map(|(metric, _)| metric),
        p50: statistic(Statistic::P50),
        p95: statistic(Statistic::P95),
        p99: statistic(Statistic::P99),
        gap_p50: gap.and_then(|summary| summary.p50),
        gap_p99: gap.and_then(|summary| {
            let bound = summary.bounds.get(&Statistic::P99);
            Some(Bounded {
                value: summary.p99?,
                lower: bound.and_then(|bound| bound.lower),
                upper: bound.and_then(|bound| bound.upper),
            })
        }),
        backlog_slope: slope,
        sustained: sustained(run, slope, failed, effective, alpha),
        slo,
        stopped_early,
        // A target that answers nothing at a load does not sustain it: that is an answer, not an invalid probe.
        valid: run.valid || gone,
        note: note(run, stopped_early),
    }
}

fn note(run: &RunDocument, stopped_early: bool) -> Option<String> {
    let worst: Option<&Finding> = run.findings.iter().find(|finding| finding.severity == Severity::Invalid);
    match (worst, stopped_early) {
        (Some(finding), _) => Some(format!("{}: {}", finding.code, finding.message)),
        (None, true) => Some("ended early: clearly above saturation".to_owned()),
        (None, false) => None,
    }
}

/// Growth of the operations in flight over the measured window, per second; none in a closed loop, where it cannot grow.
///
/// Its interval is that of the drift of a random walk, which a backlog is near saturation and above. Below, where the
/// backlog keeps returning to a mean, the upper end is that of the line through it, which is far narrower there.
fn backlog_slope(run: &RunDocument, confidence: f64) -> Option<Bounded> {
    run.rates.offered?;
    let since = |ns: u64| ns.saturating_sub(run.phases.start_ns) as f64 / 1e9;
    let (from, to) = (since(run.phases.measured_from_ns), since(run.phases.measured_to_ns));
    let windows =
        run.windows.iter().filter(|window| window.from_s >= from - 1e-9 && window.to_s <= to + 1e-9);
    let (times, backlog): (Vec<f64>, Vec<f64>) =
        windows.map(|window| (window.to_s, window.in_flight as f64)).unzip();
    let drift = drift_interval(&backlog, STRETCHES, confidence)?;
    // Windows are of equal length.
    let length = times[1] - times[0];
    let line = slope_interval(&times, &backlog, confidence).filter(|line| line.n_effective >= PIECES);
    let upper = drift.upper / length;
    Some(Bounded {
        value: drift.slope / length,
        lower: Some(drift.lower / length),
        upper: Some(line.map_or(upper, |line| upper.min(line.upper.max(drift.slope / length)))),
    })
}

/// Whether a load is sustained. A closed loop always is, unless operations fail.
fn sustained(run: &RunDocument, slope: Option<Bounded>, failed: f64, effective: f64, alpha: f64) -> Verdict {
    let (failing, _) = share_bounds(failed * effective, effective, alpha);
    let too_many = failing > 1.0 - DELIVERED;
    let Some((offered, throughput)) = run.rates.offered.zip(run.rates.throughput) else {
        let outcome = if too_many { Outcome::Fail } else { Outcome::Pass };
        return Verdict { holds: failed <= 1.0 - DELIVERED, outcome };
    };
    if run.counts.completed == 0 {
        return Verdict { holds: false, outcome: Outcome::Fail };
    }
    let delivers = throughput >= DELIVERED * offered;
    let lower = slope.and_then(|slope| slope.lower).unwrap_or(f64::NEG_INFINITY);
    let upper = slope.and_then(|slope| slope.upper).unwrap_or(f64::INFINITY);
    let holds = lower <= 0.0 && delivers;
    let outcome = if too_many || (lower > 0.0 && !delivers) {
        Outcome::Fail
    } else if holds && upper < (1.0 - DELIVERED) * offered {
        Outcome::Pass
    } else {
        Outcome::Undetermined
    };
    Verdict { holds: holds && outcome != Outcome::Fail, outcome }
}

/// Watches a probe for clear over-saturation while it runs.
///
/// It needs 3 s of the measured window, a backlog of at least 20 operations, and a 99.9 % interval of the backlog's growth
/// that lies above 5 % of the offered load: a burst that drains again does not end a probe.
#[derive(Debug, Clone, Default)]
pub struct Saturated {
    first_s: f64,
    last_s: f64,
    backlog: Vec<f64>,
}

impl Saturated {
    /// Notes the state `at_s` seconds into the measured window; true when the probe may be ended.
    pub fn observe(&mut self, at_s: f64, in_flight: u64, offered_per_s: f64) -> bool {
        // About five a second come, evenly enough; a bound for hours of them.
        if at_s < 0.0
            || self.backlog.len() >= 20_000
            || (!self.backlog.is_empty() && at_s < self.last_s + 0.05)
        {
            return false;
        }
        if self.backlog.is_empty() {
            self.first_s = at_s;
        }
        self.last_s = at_s;
        self.backlog.push(in_flight as f64);
        let length = self.last_s - self.first_s;
        if length < 3.0 || in_flight < 20 {
            return false;
        }
        let per_second = (self.backlog.len() - 1) as f64 / length;
        drift_interval(&self.backlog, STRETCHES, 0.999)
            .is_some_and(|drift| drift.lower * per_second > 0.05 * offered_per_s)
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
