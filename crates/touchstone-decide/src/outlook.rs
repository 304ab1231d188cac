//! What would change the leader: the smallest flips in natural units, and the measurement most worth making next.
//!
//! Both look at the centre of gravity of the preferences, where the value of a candidate is linear in each criterion
//! between its anchors, so that a flip has a closed form.

use touchstone_model::MetricId;
use touchstone_model::decision::{Flip, GateKind, NextMeasurement};
use touchstone_model::run::Outcome;
use touchstone_model::scenario::Criterion;
use touchstone_model::unit::share;

use crate::compare::Entry;
use crate::judged::Judged;
use crate::worth::{Preferences, SLACK, score};

/// Most measurements that are proposed by the draws.
const MOST_PROPOSALS: usize = 5;

/// Who leads at the centre of the preferences, by the given worths; the earlier of equals.
fn central_leader(preferences: &Preferences, worths: &[Vec<f64>]) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (index, row) in worths.iter().enumerate() {
        let own = score(&preferences.centroid, row);
        if best.is_none_or(|(_, top)| own > top + SLACK) {
            best = Some((index, own));
        }
    }
    best.map(|(index, _)| index)
}

/// For each criterion, the smallest worsening of the leader and the smallest improvement of a rival that hand over the
/// lead, at median figures and the centre of the preferences; the smallest change first. `entries` are of one class.
pub(crate) fn flips(preferences: &Preferences, criteria: &[Criterion], entries: &[Entry<'_>]) -> Vec<Flip> {
    let typical: Vec<Vec<f64>> = entries.iter().map(|entry| entry.worths.typical.clone()).collect();
    let Some(leader) = central_leader(preferences, &typical) else { return Vec::new() };
    let top = score(&preferences.centroid, &typical[leader]);
    let mut found: Vec<(f64, Flip)> = Vec::new();
    for (c, criterion) in criteria.iter().enumerate() {
        let weight = preferences.centroid[c];
        let value_of =
            |worth: f64| criterion.worst.value + worth * (criterion.best.value - criterion.worst.value);
        let mut smallest_loss: Option<(f64, Flip)> = None;
        let mut smallest_gain: Option<(f64, Flip)> = None;
        for (r, rival) in entries.iter().enumerate().filter(|(r, _)| *r != leader) {
            if weight <= 0.0 {
                continue;
            }
            let change = (top - score(&preferences.centroid, &typical[r])) / weight;
            let flip = |of: &Entry<'_>, from: Option<f64>, to_worth: f64| {
                let possible = (-SLACK..=1.0 + SLACK).contains(&to_worth);
                from.filter(|_| possible).map(|from_value| Flip {
                    criterion: criterion.metric.to_string(),
                    to: rival.name.to_owned(),
                    of: of.name.to_owned(),
                    from_value,
                    to_value: value_of(to_worth.clamp(0.0, 1.0)),
                })
            };
            let own = &entries[leader];
            let loss = flip(own, own.worths.median[c], typical[leader][c] - change);
            let gain = flip(rival, rival.worths.median[c], typical[r][c] + change);
            for (smallest, flip) in [(&mut smallest_loss, loss), (&mut smallest_gain, gain)] {
                if let Some(flip) = flip
                    && smallest.as_ref().is_none_or(|(least, _)| change < *least)
                {
                    *smallest = Some((change, flip));
                }
            }
        }
        found.extend(smallest_loss.into_iter().chain(smallest_gain));
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.into_iter().map(|(_, flip)| flip).collect()
}

/// Measurements worth making, gates first: what is undetermined, then what most probably changes the leader.
///
/// The second part is the probability of switching that underlies the expected value of partial perfect information:
/// one criterion of one candidate is fixed at each of its draws in turn, all others at their means.
pub(crate) fn next_measurements(
    preferences: &Preferences,
    criteria: &[Criterion],
    contenders: &[&Judged<'_>],
    classes: &[Vec<Entry<'_>>],
) -> Vec<NextMeasurement> {
    let mut next: Vec<NextMeasurement> = Vec::new();
    for candidate in contenders {
        next.extend(unsettled(candidate, criteria));
    }
    let mut proposals: Vec<NextMeasurement> = Vec::new();
    for entries in classes {
        let mut worths: Vec<Vec<f64>> = entries.iter().map(|entry| entry.worths.mean.clone()).collect();
        let Some(leader) = central_leader(preferences, &worths) else { continue };
        for (e, entry) in entries.iter().enumerate() {
            for (c, criterion) in criteria.iter().enumerate() {
                let rows = &entry.worths.rows;
                let mean = worths[e][c];
                let switched = rows
                    .iter()
                    .filter(|row| {
                        worths[e][c] = row[c];
                        central_leader(preferences, &worths) != Some(leader)
                    })
                    .count();
                worths[e][c] = mean;
                if switched == 0 {
                    continue;
                }
                let probability = switched as f64 / rows.len() as f64;
                let (name, metric) = (entry.name, criterion.metric);
                let shown = share(probability);
                proposals.push(NextMeasurement {
                    candidate: name.to_owned(),
                    subject: metric.to_string(),
                    probability: Some(probability),
                    advice: format!(
                        "measure `{metric}` of `{name}` in further runs: knowing it changes the leader with probability {shown}"
                    ),
                    advice_zh: format!("增加运行以测量 `{name}` 的 `{metric}`：得知其真值后领先者改变的概率为 {shown}"),
                });
            }
        }
    }
    proposals.sort_by(|a, b| b.probability.unwrap_or(0.0).total_cmp(&a.probability.unwrap_or(0.0)));
    proposals.truncate(MOST_PROPOSALS);
    next.extend(proposals);
    next
}

/// What has to be settled for one contender before the rest means anything.
fn unsettled(candidate: &Judged<'_>, criteria: &[Criterion]) -> Vec<NextMeasurement> {
    let name = &candidate.input.candidate.name;
    let entry = |subject: String, advice: String, advice_zh: String| NextMeasurement {
        candidate: name.clone(),
        subject,
        probability: None,
        advice,
        advice_zh,
    };
    let mut next = Vec::new();
    if candidate.pool.is_empty() {
        next.push(entry(
            "run".to_owned(),
            format!("make a valid run of `{name}`: there is none yet"),
            format!("对 `{name}` 完成一次有效运行：目前没有"),
        ));
    }
    for gate in candidate.gates.iter().filter(|gate| gate.outcome == Outcome::Undetermined) {
        let requirement = &gate.requirement;
        let of_price = requirement.split_whitespace().next() == Some(MetricId::Cost.as_str());
        if gate.kind == GateKind::Statistical && candidate.pool.is_empty() && !of_price {
            // The run that is asked for above settles it.
            continue;
        }
        let (advice, advice_zh) = if of_price {
            (
                format!("state the price of `{name}`: `{requirement}` asks for it"),
                format!("给出 `{name}` 的价格：`{requirement}` 需要它"),
            )
        } else if gate.kind != GateKind::Statistical {
            (
                format!("find out whether `{name}` meets `{requirement}`: {}", gate.reason),
                format!("查明 `{name}` 是否满足 `{requirement}`：{}", gate.reason_zh),
            )
        } else if let Some((more, seconds)) = candidate.lacking(gate) {
            (
                format!(
                    "run `{name}` for about {seconds} s more at this rate: `{requirement}` lacks some {more} effective samples"
                ),
                format!(
                    "以当前速率再运行 `{name}` 约 {seconds} 秒：`{requirement}` 尚缺约 {more} 个有效样本"
                ),
            )
        } else {
            (
                format!("make further runs of `{name}` for `{requirement}`: {}", gate.reason),
                format!("为 `{requirement}` 增加 `{name}` 的运行：{}", gate.reason_zh),
            )
        };
        next.push(entry(requirement.clone(), advice, advice_zh));
    }
    if !candidate.pool.is_empty() {
        for (criterion, _) in criteria.iter().zip(&candidate.worths.missing).filter(|(_, missing)| **missing)
        {
            let metric = criterion.metric;
            next.push(entry(
                metric.to_string(),
                format!("`{metric}` of `{name}` is unknown and counts as worthless: measure or state it"),
                format!("`{name}` 的 `{metric}` 未知，暂按零价值计：请测量或给出"),
            ));
        }
    }
    next
}
