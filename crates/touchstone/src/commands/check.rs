//! `touchstone check`: reads a scenario and says what it demands, what will be measured, and whether that is enough.

use serde::Serialize;
use touchstone_catalog::matching;
use touchstone_model::scenario::{Candidates, Scenario};
use touchstone_model::unit::Millis;
use touchstone_model::{Comparison, Dimension, MetricId, Requirement, Subject};
use touchstone_report::text::{Align, Table};
use touchstone_report::{Lang, Style};
use touchstone_stats::quantile::needed_samples;

use super::scenario;
use crate::args::{CheckArgs, horizon, limit_quantity, percent, seconds};
use crate::exit::ExitCode;
use crate::input;
use crate::ui::Ui;

/// The format of `check --json`.
const FORMAT: &str = "touchstone.check/1";

/// Reads the scenario and prints the summary.
pub(crate) fn run(args: &CheckArgs, ui: &Ui) -> anyhow::Result<ExitCode> {
    let name = args.file.display().to_string();
    let scenario = Scenario::from_yaml(&name, &input::scenario_bytes(&args.file)?)?;
    let catalog = scenario::catalog(&args.out)?;
    let candidates =
        matching::expand(&catalog, &scenario).map_err(|error| error.into_document_error(&name))?;
    let check = Check::of(&scenario, candidates.len());
    if args.json {
        ui.json(&check)?
    } else {
        ui.data(&check.text(&ui.style()))?
    }
    Ok(ExitCode::Done)
}

/// What a scenario demands and what will be measured.
#[derive(Debug, Serialize)]
struct Check {
    format: &'static str,
    name: String,
    family: String,
    dimensions: Vec<DimensionRow>,
    /// The stated load.
    base_load: String,
    /// The load at which candidates are measured.
    peak_load: String,
    horizon: String,
    criteria: Vec<CriterionRow>,
    candidates: CandidateCount,
    measurement: Plan,
    samples: Vec<SampleRow>,
}

#[derive(Debug, Serialize)]
struct DimensionRow {
    dimension: String,
    requirements: Vec<RequirementRow>,
    /// Why the dimension does not matter.
    waived: Option<String>,
}

#[derive(Debug, Serialize)]
struct RequirementRow {
    require: String,
    /// For requirements on metrics; capabilities are checked against the catalog.
    confidence: Option<f64>,
}

#[derive(Debug, Serialize)]
struct CriterionRow {
    metric: String,
    worst: String,
    best: String,
    /// The place in the order of preference, from 1; criteria of one place are of equal standing.
    place: usize,
}

#[derive(Debug, Serialize)]
struct CandidateCount {
    /// Candidates that are matched.
    matched: usize,
    /// Those with a target, which are measured.
    measured: usize,
    /// Whether the scenario leaves the choice to the catalog.
    any: bool,
}

#[derive(Debug, Serialize)]
struct Plan {
    repeats: u32,
    runs: u64,
    seed: u64,
    warm_up_ms: f64,
    duration_ms: f64,
    drain_ms: f64,
    /// All runs one after another, when nothing is left to drain.
    least_total_ms: f64,
    /// The same with the whole drain of each run.
    greatest_total_ms: f64,
    /// Operations intended in the measured windows of one candidate; null in a closed loop.
    operations: Option<u64>,
}

/// What a statistical gate needs.
#[derive(Debug, Serialize)]
struct SampleRow {
    require: String,
    confidence: f64,
    /// Effective samples needed when none is over the limit.
    needs: u64,
    /// Samples planned for one candidate; null in a closed loop and where they depend on the answers.
    planned: Option<u64>,
    /// Whether the planned number suffices, if every sample counts in full; null where nothing is planned.
    enough: Option<bool>,
}

impl Check {
    fn of(scenario: &Scenario, matched: usize) -> Self {
        let r = &scenario.requirements;
        let row = |requirement: &Requirement| RequirementRow {
            require: requirement.to_string(),
            confidence: matches!(requirement.subject, Subject::Metric(..))
                .then(|| scenario.confidence(requirement)),
        };
        let rows = |list: &[Requirement]| list.iter().map(row).collect::<Vec<_>>();
        let mut scalability = vec![
            RequirementRow {
                require: format!("peak_factor {}", r.scalability.peak_factor),
                confidence: None,
            },
            RequirementRow { require: format!("growth {}", r.scalability.growth), confidence: None },
        ];
        scalability.extend(rows(&r.scalability.require));
        let dimension = |dimension: Dimension, requirements, waived: Option<&String>| DimensionRow {
            dimension: dimension.to_string(),
            requirements,
            waived: waived.cloned(),
        };
        let [latency, throughput, consistency, reliability, scale] = Dimension::ALL;
        let plan = Plan::of(scenario);
        Self {
            format: FORMAT,
            name: scenario.name.clone(),
            family: scenario.family.to_string(),
            dimensions: vec![
                dimension(latency, rows(r.latency.requirements()), waived(&r.latency)),
                dimension(throughput, rows(r.throughput.requirements()), waived(&r.throughput)),
                dimension(consistency, rows(r.consistency.requirements()), waived(&r.consistency)),
                dimension(reliability, rows(r.reliability.requirements()), waived(&r.reliability)),
                dimension(scale, scalability, None),
            ],
            base_load: scenario.workload.arrival.to_string(),
            peak_load: scenario.peak_arrival().to_string(),
            horizon: horizon(scenario.horizon),
            criteria: criteria(scenario),
            candidates: CandidateCount {
                matched,
                measured: measured(scenario),
                any: scenario.candidates == Candidates::Any,
            },
            samples: samples(scenario, plan.operations),
            measurement: plan,
        }
    }
}

fn waived<const D: usize>(demand: &touchstone_model::scenario::Demand<D>) -> Option<&String> {
    match demand {
        touchstone_model::scenario::Demand::None(reason) => Some(reason),
        touchstone_model::scenario::Demand::Require(_) => None,
    }
}

fn criteria(scenario: &Scenario) -> Vec<CriterionRow> {
    let groups = scenario.preference_groups();
    let mut rows = Vec::new();
    for (place, group) in groups.iter().enumerate() {
        for criterion in group.iter().filter_map(|index| scenario.criteria.get(*index)) {
            rows.push(CriterionRow {
                metric: criterion.metric.to_string(),
                worst: criterion.worst.to_string(),
                best: criterion.best.to_string(),
                place: place + 1,
            });
        }
    }
    rows
}

fn measured(scenario: &Scenario) -> usize {
    scenario.candidates.listed().iter().filter(|candidate| candidate.target.is_some()).count()
}

impl Plan {
    fn of(scenario: &Scenario) -> Self {
        let m = &scenario.measurement;
        let runs = u64::from(m.repeats) * measured(scenario) as u64;
        let least = runs as f64 * (m.warm_up.0 + m.duration.0);
        let per_run = scenario.peak_arrival().per_second().map(|rate| rate * m.duration.0 / 1e3);
        Self {
            repeats: m.repeats,
            runs,
            seed: m.seed,
            warm_up_ms: m.warm_up.0,
            duration_ms: m.duration.0,
            drain_ms: m.drain.0,
            least_total_ms: least,
            greatest_total_ms: least + runs as f64 * m.drain.0,
            operations: per_run.map(|count| (count * f64::from(m.repeats)).floor() as u64),
        }
    }
}

/// The gates whose outcome depends on the number of samples, with what they need.
fn samples(scenario: &Scenario, operations: Option<u64>) -> Vec<SampleRow> {
    let mut rows = Vec::new();
    for requirement in scenario.all_requirements() {
        let Some((level, planned)) = sampled(scenario, requirement, operations) else { continue };
        let confidence = scenario.confidence(requirement);
        let needs = needed_samples(level, confidence, 0);
        let enough = planned.map(|planned| planned >= needs);
        rows.push(SampleRow { require: requirement.to_string(), confidence, needs, planned, enough });
    }
    rows
}

/// The quantile level that a gate tests, with the number of samples planned for it.
fn sampled(
    scenario: &Scenario,
    requirement: &Requirement,
    operations: Option<u64>,
) -> Option<(f64, Option<u64>)> {
    let limit = limit_quantity(requirement)?.value;
    let Subject::Metric(metric, statistic) = requirement.subject else { return None };
    match (metric, requirement.comparison) {
        (MetricId::ErrorRate, Comparison::AtMost) => (limit > 0.0).then_some((1.0 - limit, operations)),
        (MetricId::GoodputShare, Comparison::AtLeast) => (limit < 1.0).then_some((limit, operations)),
        (_, Comparison::AtMost) => {
            let level = statistic?.level()?;
            let per_operation = match metric {
                // Gaps between chunks: how many there are depends on the answers; at most one less than tokens.
                MetricId::Icl | MetricId::Itl => {
                    scenario.workload.output_tokens.map(|tokens| u64::from(tokens).saturating_sub(1))
                }
                _ => Some(1),
            };
            let planned = operations.zip(per_operation).map(|(count, each)| count.saturating_mul(each));
            Some((level, planned))
        }
        _ => None,
    }
}

fn pick<T>(lang: Lang, en: T, zh: T) -> T {
    match lang {
        Lang::En => en,
        Lang::Zh => zh,
    }
}

/// A length as a person says it: `42s`, `7min`, `3h`.
fn long(ms: f64) -> String {
    match ms / 1e3 {
        s if s < 120.0 => format!("{}s", s.round()),
        s if s < 7200.0 => format!("{}min", (s / 60.0).round()),
        s => format!("{}h", (s / 360.0).round() / 10.0),
    }
}

impl Check {
    fn text(&self, style: &Style) -> String {
        let lang = style.lang;
        let mut lines = vec![format!("{}  {}", self.name, self.family), String::new()];
        lines.extend(self.demands(lang).lines(""));
        lines.push(String::new());
        lines.extend([self.load(lang), self.horizon_line(lang), self.preferences(lang)]);
        lines.extend(self.plan(lang));
        if !self.samples.is_empty() {
            lines.push(String::new());
            lines.extend(self.sample_table(lang).lines(""));
            lines.push(String::new());
            let remark = pick(
                lang,
                "samples of one candidate; `needs` holds while none is over the limit, and samples that depend on each other count for less",
                "样本数按单个候选方案计；“需要”以没有样本超限为前提，相互关联的样本要打折计算",
            );
            lines.push(remark.to_owned());
        }
        lines.join("\n") + "\n"
    }

    fn demands(&self, lang: Lang) -> Table {
        let mut table = Table::new(&[
            (pick(lang, "dimension", "维度"), Align::Left),
            (pick(lang, "must hold", "必须满足"), Align::Left),
            (pick(lang, "confidence", "置信度"), Align::Right),
        ]);
        for row in &self.dimensions {
            let mut name = row.dimension.clone();
            if let Some(reason) = &row.waived {
                let none = pick(lang, format!("nothing ({reason})"), format!("无（{reason}）"));
                table.row(vec![name.clone(), none, String::new()]);
            }
            for requirement in &row.requirements {
                let confidence = requirement.confidence.map_or_else(|| "-".to_owned(), percent);
                table.row(vec![std::mem::take(&mut name), requirement.require.clone(), confidence]);
            }
        }
        table
    }

    fn load(&self, lang: Lang) -> String {
        let (base, peak) = (&self.base_load, &self.peak_load);
        if base == peak {
            return pick(lang, format!("load: {base}"), format!("负载：{base}"));
        }
        pick(
            lang,
            format!("load: {base}; candidates are measured at the peak, {peak}"),
            format!("负载：{base}；候选方案按峰值 {peak} 测量"),
        )
    }

    fn horizon_line(&self, lang: Lang) -> String {
        let horizon = &self.horizon;
        pick(lang, format!("horizon: {horizon}"), format!("有效期：{horizon}"))
    }

    fn preferences(&self, lang: Lang) -> String {
        if self.criteria.is_empty() {
            let none = pick(
                lang,
                "criteria: none; candidates that pass every gate are of equal value",
                "评价准则：无；通过全部门槛的候选方案价值相同",
            );
            return none.to_owned();
        }
        let one = |row: &CriterionRow| format!("{}. {} {}..{}", row.place, row.metric, row.worst, row.best);
        let list = self.criteria.iter().map(one).collect::<Vec<_>>().join(", ");
        pick(lang, format!("criteria: {list}"), format!("评价准则：{list}"))
    }

    fn plan(&self, lang: Lang) -> Vec<String> {
        let CandidateCount { matched, measured, any } = self.candidates;
        let from = match (any, lang) {
            (false, _) => "",
            (true, Lang::En) => " from the catalog",
            (true, Lang::Zh) => "（来自目录）",
        };
        let count = pick(
            lang,
            format!("candidates: {matched}{from}, of which {measured} have a target and are measured"),
            format!("候选方案：{matched} 个{from}，其中 {measured} 个有测量目标"),
        );
        if measured == 0 {
            let nothing = pick(
                lang,
                "nothing is measured: give candidates a `target` to go beyond matching",
                "不会进行测量：给候选方案写上 `target` 才能超出匹配这一步",
            );
            return vec![count, nothing.to_owned()];
        }
        let m = &self.measurement;
        let (least, greatest) = (long(m.least_total_ms), long(m.greatest_total_ms));
        let [warm_up, duration, drain] =
            [m.warm_up_ms, m.duration_ms, m.drain_ms].map(|ms| seconds(Millis(ms)));
        let (runs, repeats) = (m.runs, m.repeats);
        let runs = pick(
            lang,
            format!(
                "runs: {runs} ({measured} candidates x {repeats}), each {warm_up} warm-up, {duration} measured, at most {drain} drain"
            ),
            format!(
                "运行：{runs} 次（{measured} 个候选方案 × {repeats}），每次预热 {warm_up}，测量 {duration}，收尾至多 {drain}"
            ),
        );
        let time = pick(
            lang,
            format!("time: {least}, at most {greatest}"),
            format!("用时：{least}，至多 {greatest}"),
        );
        vec![count, runs, time]
    }

    fn sample_table(&self, lang: Lang) -> Table {
        let mut table = Table::new(&[
            (pick(lang, "gate", "门槛"), Align::Left),
            (pick(lang, "needs", "需要"), Align::Right),
            (pick(lang, "planned", "计划"), Align::Right),
            ("", Align::Left),
        ]);
        for row in &self.samples {
            let planned = row.planned.map_or_else(|| "-".to_owned(), |planned| planned.to_string());
            let remark = match row.enough {
                Some(true) => "",
                Some(false) => pick(
                    lang,
                    "too few: longer runs or more repeats are needed",
                    "样本不足：需要更长的测量或更多的重复",
                ),
                None => pick(lang, "depends on the answers", "取决于被测系统"),
            };
            table.row(vec![row.require.clone(), row.needs.to_string(), planned, remark.to_owned()]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = include_str!("../../tests/data/chat.yaml");

    fn check(from: &str, to: &str) -> Check {
        assert!(from.is_empty() || SCENARIO.contains(from), "{from}");
        let scenario = Scenario::from_yaml("s.yaml", SCENARIO.replace(from, to).as_bytes()).unwrap();
        Check::of(&scenario, scenario.candidates.listed().len())
    }

    #[test]
    fn planned_samples_follow_from_peak_load_length_and_repeats() {
        let check = check("", "");
        assert_eq!(check.peak_load, "poisson:20/s");
        assert_eq!(check.measurement.operations, Some(20 * 10 * 3));
        let of = |name: &str| check.samples.iter().find(|row| row.require.starts_with(name)).unwrap();
        assert_eq!((of("ttft.p99").needs, of("ttft.p99").enough), (299, Some(true)));
        assert_eq!(of("itl.p95").planned, Some(600 * 31));
        // At 95 %, an error rate of 0.1 % needs 2995 operations without an error.
        assert_eq!((of("error_rate").needs, of("error_rate").enough), (2995, Some(false)));
        assert_eq!(check.samples.len(), 3);
    }

    #[test]
    fn a_closed_loop_promises_no_number_of_samples() {
        let check = check("poisson:10/s", "closed:4");
        assert_eq!(check.measurement.operations, None);
        assert!(check.samples.iter().all(|row| row.planned.is_none() && row.enough.is_none()));
    }

    #[test]
    fn time_is_runs_times_their_length() {
        let check = check("", "");
        let m = &check.measurement;
        assert_eq!((m.runs, m.least_total_ms, m.greatest_total_ms), (6, 72e3, 252e3));
        assert_eq!((long(72e3).as_str(), long(252e3).as_str(), long(9e6).as_str()), ("72s", "4min", "2.5h"));
    }

    #[test]
    fn both_languages_carry_the_same_numbers() {
        let numbers = |lang: Lang| {
            let text = check("", "").text(&Style { lang, ..Style::default() });
            let mut numbers: Vec<String> = text
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '.')
                .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
                .map(str::to_owned)
                .collect();
            numbers.sort();
            numbers
        };
        assert_eq!(numbers(Lang::En), numbers(Lang::Zh));
    }
}
