//! The sentences of the record, each with the digests of the evidence it rests on.

use std::collections::BTreeSet;

use touchstone_model::decision::{
    Flip, GateKind, NextMeasurement, Ranking, Statement, Status, Verdict, Word,
};
use touchstone_model::run::Outcome;
use touchstone_model::unit::{share, significant};
use touchstone_model::{Quantity, Scenario, Subject};

use crate::Context;
use crate::judged::Judged;
use crate::verdict::Text;

/// What the sentences are about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matter<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) candidates: &'a [Judged<'a>],
    pub(crate) ranking: &'a Ranking,
    pub(crate) flips: &'a [Flip],
    pub(crate) next: &'a [NextMeasurement],
    pub(crate) verdict: &'a Verdict,
}

/// Collects sentences and numbers them.
#[derive(Default)]
struct Sentences {
    made: Vec<Statement>,
}

impl Sentences {
    fn add(&mut self, text: Text, evidence: Vec<String>, otherwise: &str) {
        let mut unique: Vec<String> = evidence
            .into_iter()
            .collect::<BTreeSet<String>>()
            .into_iter()
            .filter(|e| !e.is_empty())
            .collect();
        if unique.is_empty() {
            unique.push(otherwise.to_owned());
        }
        let id = format!("s{}", self.made.len() + 1);
        self.made.push(Statement { id, text: text.en, text_zh: text.zh, evidence: unique });
    }
}

/// All statements of a decision: verdict, scope, gates of every candidate that was not chosen, dominance, ranking,
/// flips, next measurements.
pub(crate) fn statements(matter: Matter<'_>, context: &Context<'_>) -> Vec<Statement> {
    let mut sentences = Sentences::default();
    let scenario = context.scenario_digest;
    let of = |name: &str| matter.candidates.iter().find(|candidate| candidate.name() == name);
    let runs_of = |name: &str| of(name).map_or_else(Vec::new, |candidate| candidate.pool.digests());
    let load_bearing = |candidate: &&Judged<'_>| candidate.status != Status::Vetoed;
    let all_runs: Vec<String> =
        matter.candidates.iter().filter(load_bearing).flat_map(|c| c.pool.digests()).collect();

    let verdict = matter.verdict;
    let word = headline(verdict);
    let text = Text::new(
        format!("Verdict: {}: {}.", word.en, verdict.reason),
        format!("结论：{}：{}。", word.zh, verdict.reason_zh),
    );
    let mut evidence = all_runs.clone();
    if matter.candidates.iter().all(|candidate| candidate.pool.is_empty()) {
        evidence.extend(matter.candidates.iter().flat_map(|c| &c.gates).flat_map(|g| g.evidence.clone()));
    }
    sentences.add(text, evidence, scenario);
    scope(&mut sentences, matter, context);

    let chosen = match verdict.word {
        Word::Clear | Word::Leaning | Word::TossUp => verdict.candidate.as_deref(),
        Word::InsufficientEvidence | Word::NoCandidate => None,
    };
    for candidate in matter.candidates {
        if chosen == Some(candidate.name()) {
            winner(&mut sentences, candidate, context);
        } else {
            gates(&mut sentences, candidate, context);
        }
        if let Some(by) = &candidate.dominated_by {
            let name = candidate.name();
            let text = Text::new(
                format!(
                    "`{by}` passes every gate and is at least as good as `{name}` on every criterion, and better on one, with probability 0.95 or more."
                ),
                format!(
                    "`{by}` 通过全部门槛，且以不低于 0.95 的概率在每项准则上都不逊于 `{name}` 并至少一项更优。"
                ),
            );
            sentences.add(text, [runs_of(by), runs_of(name)].concat(), scenario);
        }
    }
    ranking(&mut sentences, matter, scenario, &runs_of);
    for flip in matter.flips {
        // Who leads is a matter of all contenders.
        let evidence = matter.ranking.contenders.iter().flat_map(|name| runs_of(name)).collect();
        sentences.add(flip_text(matter.scenario, flip), evidence, scenario);
    }
    for next in matter.next {
        let text = Text::new(format!("Next: {}.", next.advice), format!("下一步：{}。", next.advice_zh));
        sentences.add(text, runs_of(&next.candidate), scenario);
    }
    sentences.made
}

/// The word and whom it names.
fn headline(verdict: &Verdict) -> Text {
    let (word, zh) = (verdict.word, verdict.word.zh());
    let Some(name) = &verdict.candidate else { return Text::new(word.as_str(), zh) };
    match word {
        Word::Clear => Text::new(format!("clear for `{name}`"), format!("{zh}选择 `{name}`")),
        Word::Leaning => Text::new(format!("leaning to `{name}`"), format!("{zh}于 `{name}`")),
        Word::TossUp => Text::new(format!("toss-up, naming `{name}`"), format!("{zh}，列出 `{name}`")),
        Word::InsufficientEvidence | Word::NoCandidate => {
            Text::new(format!("{word}, `{name}` in the lead"), format!("{zh}，`{name}` 暂时领先"))
        }
    }
}

/// About whom the verdict speaks, and which runs were left out.
fn scope(sentences: &mut Sentences, matter: Matter<'_>, context: &Context<'_>) {
    let unmeasured: Vec<&str> = matter
        .candidates
        .iter()
        .filter(|candidate| candidate.status == Status::Unmeasured)
        .map(Judged::name)
        .collect();
    if !unmeasured.is_empty() {
        let names = unmeasured.join(", ");
        let text = Text::new(
            format!(
                "The verdict speaks only about the measured candidates; these passed the match and have no target: {names}."
            ),
            format!("结论仅针对已测量的候选；以下候选通过匹配但没有测量目标：{names}。"),
        );
        sentences.add(text, Vec::new(), context.scenario_digest);
    }
    let single: Vec<&Judged<'_>> =
        matter.candidates.iter().filter(|c| c.is_ranked() && c.pool.runs.len() == 1).collect();
    if !single.is_empty() {
        let names = single.iter().map(|candidate| candidate.name()).collect::<Vec<_>>().join(", ");
        let text = Text::new(
            format!(
                "One run cannot show the spread between runs, so the draws of these understate it: {names}."
            ),
            format!("仅一次运行无法反映运行间差异，以下候选的抽样因此低估了不确定性：{names}。"),
        );
        let evidence = single.iter().flat_map(|candidate| candidate.pool.digests()).collect();
        sentences.add(text, evidence, context.scenario_digest);
    }
    for candidate in matter.candidates {
        for (digest, why, why_zh) in &candidate.pool.rejected {
            let name = candidate.name();
            let text = Text::new(
                format!("A run of `{name}` is not used: {why}."),
                format!("未采用 `{name}` 的一次运行：{why_zh}。"),
            );
            sentences.add(text, vec![(*digest).to_owned()], context.scenario_digest);
        }
    }
}

fn outcome_zh(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "通过",
        Outcome::Fail => "不通过",
        Outcome::Undetermined => "无法判定",
    }
}

fn outcome_text(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "passes",
        Outcome::Fail => "fails",
        Outcome::Undetermined => "is undetermined on",
    }
}

fn winner(sentences: &mut Sentences, candidate: &Judged<'_>, context: &Context<'_>) {
    if candidate.gates.is_empty() {
        return;
    }
    let name = candidate.name();
    let list = |read: fn(&touchstone_model::decision::Gate) -> &str, comma: &str| -> String {
        let part = |gate| format!("`{}` ({})", gate_name(gate), read(gate));
        candidate.gates.iter().map(part).collect::<Vec<_>>().join(comma)
    };
    let text = Text::new(
        format!("`{name}` passes every gate: {}.", list(|gate| &gate.reason, "; ")),
        format!("`{name}` 通过全部门槛：{}。", list(|gate| &gate.reason_zh, ";")),
    );
    let evidence = candidate.gates.iter().flat_map(|gate| gate.evidence.clone()).collect();
    sentences.add(text, evidence, context.catalog_digest);
}

fn gate_name(gate: &touchstone_model::decision::Gate) -> &str {
    &gate.requirement
}

fn gates(sentences: &mut Sentences, candidate: &Judged<'_>, context: &Context<'_>) {
    let name = candidate.name();
    for gate in &candidate.gates {
        let text = Text::new(
            format!("`{name}` {} `{}`: {}.", outcome_text(gate.outcome), gate.requirement, gate.reason),
            format!("`{name}` 对 `{}` {}：{}。", gate.requirement, outcome_zh(gate.outcome), gate.reason_zh),
        );
        let otherwise = match gate.kind {
            GateKind::Statistical => context.scenario_digest,
            GateKind::Semantic | GateKind::Rule => context.catalog_digest,
        };
        sentences.add(text, gate.evidence.clone(), otherwise);
    }
}

fn ranking(
    sentences: &mut Sentences,
    matter: Matter<'_>,
    scenario: &str,
    runs_of: &dyn Fn(&str) -> Vec<String>,
) {
    let table = matter.ranking;
    if table.contenders.len() < 2 {
        return;
    }
    for (i, name) in table.contenders.iter().enumerate() {
        let class = |name: &str| {
            matter.candidates.iter().find(|candidate| candidate.name() == name).map(|found| &found.class)
        };
        let rivals: Vec<usize> = (0..table.contenders.len())
            .filter(|&j| j != i && class(&table.contenders[j]) == class(name))
            .collect();
        if rivals.is_empty() {
            continue;
        }
        let list = |word: &str| -> String {
            let part = |&j: &usize| {
                let (wins, robust) = (table.pairwise[i][j], table.robust[i][j]);
                format!("`{}` {} ({word} {})", table.contenders[j], share(wins), share(robust))
            };
            rivals.iter().map(part).collect::<Vec<_>>().join(", ")
        };
        let first = share(table.acceptability[i][0]);
        let regret = significant(table.regret_p95[i], 2);
        let text = Text::new(
            format!(
                "`{name}` ranks first in {first} of {} draws; it wins against {}; its regret is at most {regret} of worth in 95% of them.",
                table.draws,
                list("whatever the preference")
            ),
            format!(
                "在 {} 次抽样中，`{name}` 排名第一的比例为 {first}；对各对手的胜率：{}；95% 的抽样中后悔值不超过 {regret}。",
                table.draws,
                list("对所有偏好")
            ),
        );
        let evidence =
            rivals.iter().map(|&j| table.contenders[j].as_str()).chain([name.as_str()]).flat_map(runs_of);
        sentences.add(text, evidence.collect(), scenario);
    }
}

fn flip_text(scenario: &Scenario, flip: &Flip) -> Text {
    let unit =
        scenario.criteria.iter().find(|criterion| criterion.metric.to_string() == flip.criterion).and_then(
            |criterion| match criterion.metric {
                Subject::Metric(metric, _) => Some(metric.unit()),
                Subject::Capability(_) => None,
            },
        );
    let show =
        |value: f64| unit.map_or_else(|| value.to_string(), |unit| Quantity::new(value, unit).rounded(4));
    let (of, to, criterion) = (&flip.of, &flip.to, &flip.criterion);
    let (from_value, to_value) = (show(flip.from_value), show(flip.to_value));
    Text::new(
        format!(
            "At the centre of the preferences `{to}` would draw level with the lead if `{criterion}` of `{of}` were {to_value} instead of {from_value}."
        ),
        format!(
            "在偏好中心处，若 `{of}` 的 `{criterion}` 由 {from_value} 变为 {to_value}，`{to}` 将追平领先者。"
        ),
    )
}
