//! The verdict: one word by a fixed rule, and the sentence that gives its reason.
//!
//! Inside one class the *leader* is the contender whose worst pairwise index is best. Then, in this order:
//!
//! 1. **insufficient evidence** when an undetermined gate could change the answer: the leader has one; or a rival has
//!    one and the leader is not leaning against it (pairwise below 0.75), so that the rival would tie or win were it to
//!    pass; or a contender that has a target has no usable run; or a criterion without evidence, were it worth 1, would
//!    bring a rival that close.
//! 2. **clear** when robust >= 0.95 against every rival, and not in both directions (equals are no victory).
//! 3. **leaning** when the pairwise index is >= 0.75 against every rival.
//! 4. **toss-up** otherwise: of the leader and the rivals against which it is not leaning, the first that is marked
//!    reversible is named, the leader first; without such a mark the leader.
//!
//! Without any contender it is **no candidate**, unless nothing at all was measured: then the evidence is insufficient.
//! Contenders of several durability or delivery classes are not compared: the word is toss-up, nobody is named, and the
//! sentence says who leads in which class.

use touchstone_model::decision::{Ranking, Status, Verdict, Word};
use touchstone_model::run::Outcome;
use touchstone_model::unit::share;

use crate::compare::{Class, Entry, leader, pairwise};
use crate::judged::Judged;
use crate::worth::Preferences;

/// Robust share at which a verdict is clear.
const CLEAR: f64 = 0.95;
/// Pairwise index at which a verdict leans.
const LEANING: f64 = 0.75;

/// A sentence in both languages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) en: String,
    pub(crate) zh: String,
}

impl Text {
    pub(crate) fn new(en: impl Into<String>, zh: impl Into<String>) -> Self {
        Self { en: en.into(), zh: zh.into() }
    }
}

/// How the leader stands to one rival.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Standing {
    /// Pairwise index of the leader over the rival.
    pub(crate) pairwise: f64,
    /// The same with full worth for everything unknown about the rival.
    pub(crate) pairwise_at_worst: f64,
    /// Robust share of the leader over the rival.
    pub(crate) robust: f64,
    /// Robust share of the rival over the leader.
    pub(crate) reverse: f64,
    /// Whether the rival has an undetermined gate.
    pub(crate) undetermined: bool,
}

impl Standing {
    fn is_clear(&self) -> bool {
        self.robust >= CLEAR && self.reverse < CLEAR
    }

    fn is_leaning(&self) -> bool {
        self.pairwise >= LEANING
    }

    /// Whether what is not known about the rival could change the answer.
    fn could_change(&self) -> bool {
        (self.undetermined || self.pairwise_at_worst < self.pairwise) && self.pairwise_at_worst < LEANING
    }
}

/// The word by the rule of this module.
pub(crate) fn word(leader_undetermined: bool, unmeasurable: bool, rivals: &[Standing]) -> Word {
    if leader_undetermined || unmeasurable || rivals.iter().any(Standing::could_change) {
        Word::InsufficientEvidence
    } else if rivals.iter().all(Standing::is_clear) {
        Word::Clear
    } else if rivals.iter().all(Standing::is_leaning) {
        Word::Leaning
    } else {
        Word::TossUp
    }
}

/// Everything the verdict is drawn from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) preferences: &'a Preferences,
    pub(crate) ranking: &'a Ranking,
    /// All candidates.
    pub(crate) candidates: &'a [Judged<'a>],
    /// Contenders with figures, in the order of the ranking.
    pub(crate) ranked: &'a [&'a Judged<'a>],
    pub(crate) has_criteria: bool,
}

/// The verdict on the whole.
pub(crate) fn verdict(case: Case<'_>) -> Verdict {
    let contenders: Vec<&Judged<'_>> =
        case.candidates.iter().filter(|candidate| candidate.status == Status::Contender).collect();
    let mut classes: Vec<&Class> = contenders.iter().map(|candidate| &candidate.class).collect();
    classes.sort();
    classes.dedup();
    let (word, candidate, text) = match classes.as_slice() {
        [] => nobody(case.candidates),
        [class] => in_class(case, class),
        several => across(case, several),
    };
    let suffix = simulated_suffix(case.candidates);
    Verdict {
        word,
        candidate,
        reason: format!("{}{}", text.en, suffix.en),
        reason_zh: format!("{}{}", text.zh, suffix.zh),
    }
}

fn nobody(candidates: &[Judged<'_>]) -> (Word, Option<String>, Text) {
    let unmeasured = candidates.iter().filter(|c| c.status == Status::Unmeasured).count();
    let measured = candidates.iter().any(|c| !c.pool.is_empty());
    if unmeasured > 0 && !measured {
        let text = Text::new(
            format!("no candidate was measured; {unmeasured} passed the match and lack a target"),
            format!("没有任何候选被测量；{unmeasured} 个通过匹配但缺少测量目标"),
        );
        return (Word::InsufficientEvidence, None, text);
    }
    let count = |status: Status| candidates.iter().filter(|c| c.status == status).count();
    let (vetoed, failed) = (count(Status::Vetoed), count(Status::Failed));
    let text = Text::new(
        format!(
            "no candidate passes every gate: {vetoed} ruled out by what they are, {failed} failed a measured or stated limit, {unmeasured} not measured"
        ),
        format!(
            "没有候选通过全部门槛：{vetoed} 个因自身特性被排除，{failed} 个未达到测量或给定的限值，{unmeasured} 个未测量"
        ),
    );
    (Word::NoCandidate, None, text)
}

/// `durability D1, delivery at-least-once`.
fn class_text(class: &Class) -> Text {
    let unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| "?".to_owned());
    match class {
        (durability, None) => Text::new(
            format!("durability {}", unknown(durability)),
            format!("持久性 {}", unknown(durability)),
        ),
        (durability, delivery) => Text::new(
            format!("durability {}, delivery {}", unknown(durability), unknown(delivery)),
            format!("持久性 {}、投递 {}", unknown(durability), unknown(delivery)),
        ),
    }
}

fn across(case: Case<'_>, classes: &[&Class]) -> (Word, Option<String>, Text) {
    let mut parts = Text::new("", "");
    for class in classes {
        let (word, candidate, _) = in_class(case, class);
        let name = class_text(class);
        if !parts.en.is_empty() {
            parts.en.push_str("; ");
            parts.zh.push(';');
        }
        let who = candidate.map_or_else(String::new, |candidate| format!(" `{candidate}`"));
        parts.en.push_str(&format!("with {}: {word}{who}", name.en));
        parts.zh.push_str(&format!("{}:{}{who}", name.zh, word.zh()));
    }
    let text = Text::new(
        format!(
            "candidates of different durability or delivery are not compared; say which is needed ({})",
            parts.en
        ),
        format!("持久性或投递语义不同的候选不作比较，请说明需要哪一类（{}）", parts.zh),
    );
    (Word::TossUp, None, text)
}

fn in_class(case: Case<'_>, class: &Class) -> (Word, Option<String>, Text) {
    let entries: Vec<Entry<'_>> = case.ranked.iter().map(|candidate| candidate.entry()).collect();
    let members: Vec<usize> = (0..entries.len()).filter(|&i| entries[i].class == class).collect();
    let without_run: Vec<&str> = case
        .candidates
        .iter()
        .filter(|c| c.status == Status::Contender && c.pool.is_empty() && c.class == *class)
        .map(Judged::name)
        .collect();
    let Some(lead) = leader(case.preferences, case.ranking, &entries, &members) else {
        let names = without_run.join(", ");
        let text = Text::new(format!("no usable run was made of {names}"), format!("{names} 没有可用的运行"));
        return (Word::InsufficientEvidence, None, text);
    };
    let rivals: Vec<usize> = members.iter().copied().filter(|&i| i != lead).collect();
    let standings: Vec<Standing> = rivals
        .iter()
        .map(|&j| {
            let rival = case.ranked[j];
            let unknown = rival.worths.missing.iter().any(|&missing| missing);
            let as_is = case.ranking.pairwise[lead][j];
            Standing {
                pairwise: as_is,
                pairwise_at_worst: if unknown {
                    pairwise(case.preferences, &entries[lead].worths.rows, &rival.worths.at_best())
                } else {
                    as_is
                },
                robust: case.ranking.robust[lead][j],
                reverse: case.ranking.robust[j][lead],
                undetermined: !rival.passes(),
            }
        })
        .collect();
    let found = word(!case.ranked[lead].passes(), !without_run.is_empty(), &standings);
    let name = entries[lead].name;
    match found {
        Word::InsufficientEvidence => {
            let text = lacking(case, lead, &rivals, &standings, &without_run);
            (found, Some(name.to_owned()), text)
        }
        Word::TossUp => toss_up(case, lead, &rivals, &standings),
        _ => (found, Some(name.to_owned()), won(case, found, lead, &rivals, &standings)),
    }
}

/// The rival that comes closest, with its standing.
fn closest(rivals: &[usize], standings: &[Standing]) -> Option<(usize, Standing)> {
    rivals
        .iter()
        .copied()
        .zip(standings.iter().copied())
        .reduce(|closest, other| if other.1.pairwise < closest.1.pairwise { other } else { closest })
}

fn won(case: Case<'_>, word: Word, lead: usize, rivals: &[usize], standings: &[Standing]) -> Text {
    let name = case.ranked[lead].name();
    let Some((rival, standing)) = closest(rivals, standings) else {
        let dominated = case.candidates.iter().filter(|c| c.status == Status::Dominated).count();
        if dominated > 0 {
            return Text::new(
                format!("`{name}` passes every gate and dominates what else does ({dominated})"),
                format!("`{name}` 通过全部门槛，并支配其余 {dominated} 个候选"),
            );
        }
        return Text::new(
            format!("`{name}` is the only measured candidate that passes every gate"),
            format!("`{name}` 是唯一通过全部门槛的已测候选"),
        );
    };
    let other = case.ranked[rival].name();
    let (wins, robust) = (share(standing.pairwise), share(standing.robust));
    if word == Word::Clear {
        Text::new(
            format!(
                "`{name}` is at least as good as every rival whatever the admissible preference (closest: `{other}`, in {robust} of the measurement draws)"
            ),
            format!(
                "在任何允许的偏好下，`{name}` 都不逊于各对手（最接近者 `{other}`，占测量抽样的 {robust}）"
            ),
        )
    } else {
        Text::new(
            format!(
                "`{name}` wins against `{other}`, its closest rival, in {wins} of the draws of preferences and measurements, but in only {robust} of the measurements whatever the preference"
            ),
            format!(
                "在偏好与测量的抽样中，`{name}` 胜过最接近的对手 `{other}` 的比例为 {wins}，但对所有偏好都成立的测量仅占 {robust}"
            ),
        )
    }
}

fn toss_up(
    case: Case<'_>,
    lead: usize,
    rivals: &[usize],
    standings: &[Standing],
) -> (Word, Option<String>, Text) {
    let name = case.ranked[lead].name();
    let near = rivals.iter().zip(standings).filter(|(_, standing)| !standing.is_leaning()).map(|(&j, _)| j);
    // Where every pairwise index leans and none is clear the word is leaning, so someone is near.
    let near: Vec<usize> = std::iter::once(lead).chain(near).collect();
    let reversible = near.iter().copied().find(|&i| case.ranked[i].input.candidate.reversible == Some(true));
    let chosen = case.ranked[reversible.unwrap_or(lead)].name();
    let start = match closest(rivals, standings) {
        Some((rival, standing)) if case.has_criteria => {
            let (other, wins) = (case.ranked[rival].name(), share(standing.pairwise));
            Text::new(
                format!("`{name}` wins against `{other}` in only {wins} of the draws, below 75%"),
                format!("`{name}` 胜过 `{other}` 的比例仅为 {wins}，低于 75%"),
            )
        }
        _ => Text::new(
            "the scenario states no criterion by which those that pass could be told apart",
            "场景没有给出可用来区分合格候选的准则",
        ),
    };
    let end = if reversible.is_some() {
        Text::new(
            format!("; `{chosen}` is preferred because going back on it is easy"),
            format!("；优先选择易于回退的 `{chosen}`"),
        )
    } else {
        Text::new(
            format!("; none of them is marked reversible, so the leader `{chosen}` is named"),
            format!("；均未标明易于回退，故列出领先者 `{chosen}`"),
        )
    };
    let text = Text::new(format!("{}{}", start.en, end.en), format!("{}{}", start.zh, end.zh));
    (Word::TossUp, Some(chosen.to_owned()), text)
}

/// What is missing, in words: the leader's gates, rivals' gates and criteria, runs.
fn lacking(
    case: Case<'_>,
    lead: usize,
    rivals: &[usize],
    standings: &[Standing],
    without_run: &[&str],
) -> Text {
    let open_gates = |candidate: &Judged<'_>| -> String {
        let open = candidate.gates.iter().filter(|gate| gate.outcome == Outcome::Undetermined);
        open.map(|gate| format!("`{}`", gate.requirement)).collect::<Vec<_>>().join(", ")
    };
    let leader = case.ranked[lead];
    let name = leader.name();
    let mut en = Vec::new();
    let mut zh = Vec::new();
    if !leader.passes() {
        let open = open_gates(leader);
        en.push(format!("`{name}` leads, but {open} is undetermined for it"));
        zh.push(format!("`{name}` 领先，但其 {open} 尚不能判定"));
    }
    for (&j, standing) in rivals.iter().zip(standings).filter(|(_, standing)| standing.could_change()) {
        let rival = case.ranked[j];
        let other = rival.name();
        if standing.undetermined {
            let open = open_gates(rival);
            en.push(format!(
                "`{other}` could tie with `{name}` or beat it, but {open} is undetermined for it"
            ));
            zh.push(format!("`{other}` 可能追平或胜过 `{name}`，但其 {open} 尚不能判定"));
        } else {
            en.push(format!(
                "`{other}` could tie with `{name}` or beat it by a criterion that is unknown for it"
            ));
            zh.push(format!("`{other}` 有未知的准则值，可能追平或胜过 `{name}`"));
        }
    }
    if !without_run.is_empty() {
        let names = without_run.join(", ");
        en.push(format!("no usable run was made of {names}"));
        zh.push(format!("{names} 没有可用的运行"));
    }
    Text::new(en.join("; "), zh.join(";"))
}

/// What the verdict may not be taken for.
pub(crate) fn simulated_suffix(candidates: &[Judged<'_>]) -> Text {
    let bearing = || candidates.iter().filter(|c| c.status != Status::Vetoed && !c.pool.is_empty());
    let simulated: Vec<&str> = bearing().filter(|c| c.pool.simulated()).map(Judged::name).collect();
    let measured = bearing().count();
    if simulated.is_empty() {
        Text::new("", "")
    } else if simulated.len() == measured {
        Text::new(" (by simulation only; not a measurement)", "（仅基于仿真，并非测量）")
    } else {
        let names = simulated.join(", ");
        Text::new(
            format!(" (partly by simulation: the figures of {names} are not measurements)"),
            format!("（部分基于仿真：{names} 的数据并非测量）"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(pairwise: f64, robust: f64) -> Standing {
        Standing { pairwise, pairwise_at_worst: pairwise, robust, reverse: 0.0, undetermined: false }
    }

    #[test]
    fn the_word_follows_the_rule() {
        let far = standing(0.99, 0.96);
        let lean = standing(0.8, 0.5);
        let near = standing(0.6, 0.2);
        let open = |mut standing: Standing| {
            standing.undetermined = true;
            standing
        };
        let table: [(bool, bool, &[Standing], Word); 17] = [
            (false, false, &[], Word::Clear),
            (false, false, &[far], Word::Clear),
            (false, false, &[standing(0.99, 0.95)], Word::Clear),
            (false, false, &[standing(0.99, 0.9499)], Word::Leaning),
            (false, false, &[far, lean], Word::Leaning),
            (false, false, &[standing(0.75, 0.0)], Word::Leaning),
            (false, false, &[standing(0.7499, 0.0)], Word::TossUp),
            (false, false, &[far, lean, near], Word::TossUp),
            // An undetermined gate of the leader always could; a rival's only when it comes close.
            (true, false, &[], Word::InsufficientEvidence),
            (true, false, &[far], Word::InsufficientEvidence),
            (false, false, &[open(far)], Word::Clear),
            (false, false, &[open(lean), far], Word::Leaning),
            (false, false, &[open(near), far], Word::InsufficientEvidence),
            (false, true, &[far], Word::InsufficientEvidence),
            // Equals are no victory, though each is at least as good as the other.
            (false, false, &[Standing { reverse: 1.0, ..standing(0.5, 1.0) }], Word::TossUp),
            // What is unknown of a rival could bring it near.
            (false, false, &[Standing { pairwise_at_worst: 0.3, ..far }], Word::InsufficientEvidence),
            (false, false, &[Standing { pairwise_at_worst: 0.76, ..far }], Word::Clear),
        ];
        for (leader, unmeasurable, rivals, expected) in table {
            assert_eq!(word(leader, unmeasurable, rivals), expected, "{leader} {unmeasurable} {rivals:?}");
        }
    }
}
