//! The page of a decision.

use touchstone_model::decision::{CandidateResult, DecisionDocument, Gate, GateKind, Status, Word};
use touchstone_model::run::Outcome;
use touchstone_model::{MetricId, RunDocument, Unit};

use super::{Page, charts, code, prose, tag, with_small};
use crate::distribution::Distribution;
use crate::svg::{Head, Interval, IntervalChart, Stack, StackedChart, escape};
use crate::terminal::{headline, outcome_class};
use crate::words::Lang;
use crate::{number, reading, words};

/// A page with the verdict, every candidate with what became of it and why, the matrix of gates, criteria with
/// intervals, rank acceptabilities, pairwise shares, flips, next measurements, the statements with links to their
/// evidence, and charts of the candidates' runs (`runs`: candidate name and its runs).
#[must_use]
pub fn decision_report(
    document: &DecisionDocument,
    runs: &[(String, Vec<RunDocument>)],
    lang: Lang,
) -> String {
    let w = lang.words();
    let mut page = Page::new(lang);
    page.simulated = document.simulated;
    let title = format!("{}{}{}", w.decision_report, w.colon, document.scenario);
    page.push(&format!(
        "<header>\n<h1>{}</h1>\n<p>{}</p>\n<p>{} · {} · touchstone {} · {} {}</p>\n</header>\n",
        escape(&title),
        escape(&document.description),
        escape(words::family(lang, document.family)),
        escape(&document.decided_at),
        escape(&document.touchstone_version),
        escape(w.catalog),
        escape(&document.catalog_date),
    ));
    if document.simulated {
        page.push(&format!(
            "<p class=\"banner sim\"><strong>{}</strong> {}</p>\n",
            escape(w.simulated),
            escape(w.no_product_measured)
        ));
    }
    verdict(&mut page, document);
    candidates(&mut page, document);
    gates(&mut page, document);
    criteria(&mut page, document);
    ranking(&mut page, document);
    robustness(&mut page, document);
    statements(&mut page, document);
    candidate_runs(&mut page, runs);
    evidence(&mut page, document);
    let mark = if document.simulated { format!("[{}] ", w.simulated) } else { String::new() };
    page.finish(&format!("{mark}{title}"))
}

/// Head of a chart about the decision as a whole.
fn head(page: &Page, document: &DecisionDocument, id: &str, title: &str, description: &str) -> Head {
    Head {
        id: id.to_owned(),
        title: super::capital(title),
        description: description.to_owned(),
        mark: document.simulated.then(|| page.lang.words().simulated.to_owned()),
    }
}

/// Links to the statements that say a sentence, when there are any.
fn cited(document: &DecisionDocument, sentence: &str) -> String {
    let ids = document.statements.iter().filter(|statement| crate::markdown::says(statement, sentence));
    ids.map(|statement| format!(" <a href=\"#{0}\">[{0}]</a>", escape(&statement.id))).collect()
}

fn verdict(page: &mut Page, document: &DecisionDocument) {
    let lang = page.lang;
    let w = lang.words();
    page.push("<section id=\"verdict\" class=\"verdict\">\n");
    let badge = page.badge();
    page.push(&format!(
        "<p class=\"word\">{}{badge}</p>\n",
        escape(&super::capital(&headline(document, lang)))
    ));
    let reason = lang.pick(&document.verdict.reason, &document.verdict.reason_zh);
    page.push(&format!("<p>{}{}</p>\n", prose(reason), cited(document, &document.verdict.reason)));
    let rule = match document.verdict.word {
        Word::Clear => lang.pick(
            "Clear: in at least 95 % of the measurement draws it is at least as good as every rival, whatever weights the preference order allows.",
            "明确：在至少 95% 的测量抽样中，无论偏好次序允许何种权重，它都不逊于每个对手。",
        ),
        Word::Leaning => lang.pick(
            "Leaning: against every rival it is at least as good in 75 % of the draws, but not robustly so.",
            "倾向：与每个对手相比，至少 75% 的抽样中不逊色，但尚不稳健。",
        ),
        Word::TossUp => lang.pick(
            "Toss-up: no candidate reaches 75 % against every rival; prefer the one that is easier to go back on.",
            "难分伯仲：没有候选能对每个对手达到 75%；宜选更容易回退的一个。",
        ),
        Word::InsufficientEvidence => lang.pick(
            "Insufficient evidence: a gate that is still undetermined could change the answer.",
            "证据不足：仍有未定的门槛可能改变答案。",
        ),
        Word::NoCandidate => {
            lang.pick("No candidate: none passes every gate.", "无合格候选：没有候选通过全部门槛。")
        }
    };
    page.note(rule);
    page.pairs(&[
        (
            if document.seal.before_results { w.sealed } else { w.sealed_late },
            format!("{} ({})", document.seal.sealed_at, number::short_digest(&document.seal.digest)),
        ),
        (w.level, words::level(lang, document.level)),
        (w.review_by, document.review_by.clone()),
        (w.draws, number::count(u64::from(document.ranking.draws))),
        (w.seed, document.seed.to_string()),
    ]);
    page.end();
}

fn status_class(status: Status) -> &'static str {
    match status {
        Status::Contender => "good",
        Status::Unmeasured => "warn",
        Status::Vetoed | Status::Failed | Status::Dominated => "bad",
    }
}

fn candidates(page: &mut Page, document: &DecisionDocument) {
    let lang = page.lang;
    let w = lang.words();
    page.section("candidates", w.candidates);
    let rows: Vec<Vec<String>> =
        document.candidates.iter().map(|candidate| candidate_row(document, candidate, lang)).collect();
    page.table(
        &[w.candidate, w.product, w.status, w.reason, w.durability, w.delivery, w.level, w.price],
        &rows,
        7,
    );
    page.end();
}

fn candidate_row(document: &DecisionDocument, candidate: &CandidateResult, lang: Lang) -> Vec<String> {
    let w = lang.words();
    let dash = || number::NONE.to_owned();
    let below = [candidate.configuration.clone(), candidate.version.clone()]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" · ");
    let mut reasons: Vec<String> = candidate
        .gates
        .iter()
        .filter(|gate| gate.outcome != Outcome::Pass)
        .map(|gate| {
            let why = lang.pick(&gate.reason, &gate.reason_zh);
            let rule = if gate.kind == GateKind::Rule {
                format!("{} ", words::gate_kind(lang, gate.kind))
            } else {
                String::new()
            };
            format!(
                "{}{} {}{}",
                escape(&rule),
                code(&gate.requirement),
                prose(why),
                cited(document, &gate.reason)
            )
        })
        .collect();
    reasons.extend(
        candidate
            .dominated_by
            .as_ref()
            .map(|by| escape(&lang.pick(format!("dominated by {by}"), format!("被 {by} 支配")))),
    );
    let simulated = if candidate.simulated { format!(" {}", tag(w.simulated, "sim")) } else { String::new() };
    vec![
        format!("<strong>{}</strong>{simulated}", escape(&candidate.name)),
        with_small(&escape(&candidate.product), &below),
        tag(words::status(lang, candidate.status), status_class(candidate.status)),
        if reasons.is_empty() { dash() } else { reasons.join("<br>") },
        candidate.durability.as_deref().map_or_else(dash, escape),
        candidate.delivery.as_deref().map_or_else(dash, escape),
        candidate.level.map_or_else(dash, |level| level.to_string()),
        candidate.price.map_or_else(dash, |price| escape(&number::quantity(price, Unit::UsdPerHour))),
    ]
}

/// Every requirement or rule that was applied to any candidate, in the order in which it is first seen.
pub(crate) fn requirements(document: &DecisionDocument) -> Vec<&Gate> {
    let mut out: Vec<&Gate> = Vec::new();
    for gate in document.candidates.iter().flat_map(|candidate| &candidate.gates) {
        if !out.iter().any(|known| known.requirement == gate.requirement && known.kind == gate.kind) {
            out.push(gate);
        }
    }
    out
}

/// The gate of a candidate for the requirement of another gate.
pub(crate) fn gate_of<'a>(candidate: &'a CandidateResult, like: &Gate) -> Option<&'a Gate> {
    candidate.gates.iter().find(|gate| gate.requirement == like.requirement && gate.kind == like.kind)
}

fn gates(page: &mut Page, document: &DecisionDocument) {
    let lang = page.lang;
    let w = lang.words();
    page.section("gates", w.gate_matrix);
    let all = requirements(document);
    if all.is_empty() {
        page.note(w.none);
    } else {
        let mut heads = vec![w.requirement, w.kind];
        heads.extend(document.candidates.iter().map(|candidate| candidate.name.as_str()));
        let rows: Vec<Vec<String>> = all
            .iter()
            .map(|gate| {
                let confidence = gate.confidence.map(number::percent).unwrap_or_default();
                let mut row = vec![
                    code(&gate.requirement),
                    with_small(&escape(words::gate_kind(lang, gate.kind)), &confidence),
                ];
                row.extend(document.candidates.iter().map(|candidate| {
                    gate_of(candidate, gate).map_or_else(
                        || number::NONE.to_owned(),
                        |gate| tag(words::outcome(lang, gate.outcome), outcome_class(gate.outcome)),
                    )
                }));
                row
            })
            .collect();
        page.table(&heads, &rows, 99);
    }
    for (index, gate) in all.iter().filter(|gate| gate.kind == GateKind::Statistical).enumerate() {
        let chart = gate_chart(page, document, gate, index);
        page.chart(&chart);
    }
    page.end();
}

fn gate_chart(page: &Page, document: &DecisionDocument, gate: &Gate, index: usize) -> String {
    let lang = page.lang;
    let w = lang.words();
    let unit = reading::unit(&gate.requirement).unwrap_or(Unit::Count);
    let scale = if unit == Unit::Ratio { 100.0 } else { 1.0 };
    let mut rows = Vec::new();
    for candidate in &document.candidates {
        let Some(found) = gate_of(candidate, gate) else { continue };
        let note = match (found.outcome, found.needs) {
            (Outcome::Undetermined, Some(needs)) => {
                let outcome = words::outcome(lang, found.outcome);
                lang.pick(
                    format!("{outcome}, needs {}", number::count(needs)),
                    format!("{outcome}，需要 {} 个样本", number::count(needs)),
                )
            }
            (outcome, _) => words::outcome(lang, outcome).to_owned(),
        };
        let scaled = |value: Option<f64>| value.map(|value| value * scale);
        rows.push(Interval {
            label: candidate.name.clone(),
            lower: scaled(found.lower),
            middle: scaled(found.value),
            upper: scaled(found.upper),
            note,
            color: rows.len(),
        });
    }
    IntervalChart {
        head: head(
            page,
            document,
            &format!("gate-{index}"),
            &lang.pick(format!("measured against {}", gate.requirement), format!("实测值与限值 {}", gate.requirement)),
            lang.pick(
                "Point and confidence bounds of each candidate against the limit; a dotted line is open above.",
                "各候选的点估计与置信界对比限值；虚点线表示上端未定。",
            ),
        ),
        axis: axis_name(&gate.requirement, unit),
        rows,
        limit: reading::limit(&gate.requirement).map(|limit| (limit * scale, gate.requirement.clone())),
        empty: w.no_data.to_owned(),
    }
    .render()
}

/// `ttft.p95, ms` for a requirement or a criterion.
fn axis_name(text: &str, unit: Unit) -> String {
    let name = reading::parsed(text)
        .map_or_else(|| text.to_owned(), |(.., requirement)| requirement.subject.to_string());
    let unit = if unit == Unit::Ratio { "%" } else { unit.as_str() };
    format!("{name}, {unit}")
}

fn criteria(page: &mut Page, document: &DecisionDocument) {
    let lang = page.lang;
    let w = lang.words();
    page.section("criteria", w.criteria);
    page.note(lang.pick(
        "Intervals are the 5th to 95th percentile over the draws. Worth is the value on the scenario's fixed anchors: 0 at the worst anchor, 1 at the best.",
        "区间为抽样的第 5 至第 95 百分位。价值按场景的固定锚点计算：最差锚点为 0，最好锚点为 1。",
    ));
    let names = reading::criteria_names(document);
    if names.is_empty() {
        page.note(w.no_data);
    }
    for (index, criterion) in names.into_iter().enumerate() {
        let unit = reading::criterion_unit(criterion);
        let scale = if unit == Unit::Ratio { 100.0 } else { 1.0 };
        let mut rows = Vec::new();
        for candidate in &document.candidates {
            let Some(result) = candidate.criteria.get(criterion) else { continue };
            let worth = result.worth.map_or_else(|| number::NONE.to_owned(), number::probability);
            let median = result
                .median
                .map_or_else(|| number::NONE.to_owned(), |median| number::quantity(median, unit));
            rows.push(Interval {
                label: candidate.name.clone(),
                lower: result.lower.map(|value| value * scale),
                middle: result.median.map(|value| value * scale),
                upper: result.upper.map(|value| value * scale),
                note: format!("{median}  ({} {worth})", w.worth),
                color: rows.len(),
            });
        }
        let chart = IntervalChart {
            head: head(page, document, &format!("criterion-{index}"), criterion, w.criteria_intervals),
            axis: axis_name(criterion, unit),
            rows,
            limit: None,
            empty: w.no_data.to_owned(),
        };
        // A criterion keeps its spelling in the title.
        let chart = IntervalChart { head: Head { title: criterion.to_owned(), ..chart.head }, ..chart };
        page.chart(&chart.render());
    }
    page.end();
}

fn ranking(page: &mut Page, document: &DecisionDocument) {
    let lang = page.lang;
    let w = lang.words();
    let ranking = &document.ranking;
    page.section("ranking", w.acceptability);
    if ranking.contenders.is_empty() {
        page.note(w.no_contender);
        page.end();
        return;
    }
    let ranks = ranking.acceptability.iter().map(Vec::len).max().unwrap_or(0);
    let chart = StackedChart {
        head: head(
            page,
            document,
            "acceptability",
            w.acceptability,
            lang.pick(
                "Share of the preference and measurement draws in which each contender has each rank.",
                "各参选者在偏好与测量的联合抽样中获得各名次的占比。",
            ),
        ),
        parts: (1..=ranks).map(|rank| lang.pick(format!("rank {rank}"), format!("第 {rank} 名"))).collect(),
        rows: ranking
            .contenders
            .iter()
            .zip(&ranking.acceptability)
            .map(|(name, parts)| Stack { label: name.clone(), parts: parts.clone() })
            .collect(),
        empty: w.no_data.to_owned(),
    };
    page.chart(&chart.render());
    page.sub(w.pairwise);
    matrix(page, &ranking.contenders, &ranking.pairwise);
    page.sub(w.robust);
    matrix(page, &ranking.contenders, &ranking.robust);
    let rows: Vec<Vec<String>> = ranking
        .contenders
        .iter()
        .enumerate()
        .map(|(row, name)| {
            let weights = ranking.central_weights.get(row).map_or(&[][..], Vec::as_slice);
            let weights: Vec<String> = ranking
                .criteria
                .iter()
                .zip(weights)
                .map(|(criterion, weight)| format!("{criterion} {}", number::probability(*weight)))
                .collect();
            let regret = number::listed(&ranking.regret_p95, row);
            let weights = if weights.is_empty() { number::NONE.to_owned() } else { weights.join(", ") };
            vec![escape(name), escape(&weights), regret]
        })
        .collect();
    page.sub(lang.pick("what each would need to be preferred", "各参选者在何种权重下占优"));
    page.table(&[w.contenders, lang.pick("central weights", "中心权重"), w.regret], &rows, 2);
    page.end();
}

/// Shares of one as a table shaded by their size; the figure is in the cell.
fn matrix(page: &mut Page, names: &[String], shares: &[Vec<f64>]) {
    page.push("<div class=\"scroll\"><table class=\"matrix\">\n<thead><tr><th></th>");
    for name in names {
        page.push(&format!("<th scope=\"col\">{}</th>", escape(name)));
    }
    page.push("</tr></thead>\n<tbody>\n");
    for (row, name) in names.iter().enumerate() {
        page.push(&format!("<tr><th scope=\"row\">{}</th>", escape(name)));
        for column in 0..names.len() {
            let share =
                shares.get(row).and_then(|row| row.get(column)).copied().filter(|share| share.is_finite());
            match share {
                Some(share) if row != column => page.push(&format!(
                    "<td class=\"heat\" style=\"background:rgba(var(--heat),{:.2})\">{}</td>",
                    share.clamp(0.0, 1.0) * 0.45,
                    number::probability(share)
                )),
                _ => page.push("<td class=\"heat\">-</td>"),
            }
        }
        page.push("</tr>\n");
    }
    page.push("</tbody></table></div>\n");
}

fn robustness(page: &mut Page, document: &DecisionDocument) {
    let lang = page.lang;
    let w = lang.words();
    page.section("flips", w.flips);
    if document.flips.is_empty() {
        page.note(if document.ranking.contenders.len() < 2 { w.none } else { w.no_flips });
    } else {
        let rows: Vec<Vec<String>> = document
            .flips
            .iter()
            .map(|flip| {
                let unit = reading::criterion_unit(&flip.criterion);
                vec![
                    code(&flip.criterion),
                    escape(&flip.of),
                    escape(&number::quantity(flip.from_value, unit)),
                    escape(&number::quantity(flip.to_value, unit)),
                    escape(&flip.to),
                ]
            })
            .collect();
        let (now, then, leader) =
            lang.pick(("now", "flips at", "then leads"), ("当前", "翻转点", "届时领先"));
        page.table(&[w.criteria, w.candidate, now, then, leader], &rows, 99);
    }
    page.end();
    page.section("next", w.next_measurement);
    if document.next_measurements.is_empty() {
        page.note(w.none);
    } else {
        let rows: Vec<Vec<String>> = document
            .next_measurements
            .iter()
            .map(|next| {
                vec![
                    escape(&next.candidate),
                    code(&next.subject),
                    next.probability.map_or_else(|| escape(w.settles_gate), number::probability),
                    prose(lang.pick(&next.advice, &next.advice_zh)),
                ]
            })
            .collect();
        page.table(&[w.candidate, w.subject, w.probability, w.advice], &rows, 99);
    }
    page.end();
}

fn statements(page: &mut Page, document: &DecisionDocument) {
    let lang = page.lang;
    let w = lang.words();
    page.section("statements", w.statements);
    page.push("<ul class=\"plain\">\n");
    for statement in &document.statements {
        let links: Vec<String> = statement
            .evidence
            .iter()
            .map(|digest| {
                let short = number::short_digest(digest);
                if document.evidence.iter().any(|entry| entry.digest == *digest) {
                    format!("<a href=\"#ev-{0}\">{1}</a>", escape(&short), code(&short))
                } else {
                    format!("{} {}", code(&short), tag(w.missing, "bad"))
                }
            })
            .collect();
        page.push(&format!(
            "<li id=\"{}\"><strong>[{}]</strong> {}<p class=\"advice\">{} {}</p></li>\n",
            escape(&statement.id),
            escape(&statement.id),
            prose(lang.pick(&statement.text, &statement.text_zh)),
            escape(w.rests_on),
            links.join(" ")
        ));
    }
    page.push("</ul>\n");
    page.end();
}

fn candidate_runs(page: &mut Page, runs: &[(String, Vec<RunDocument>)]) {
    let lang = page.lang;
    let w = lang.words();
    let all: Vec<&RunDocument> = runs.iter().flat_map(|(_, runs)| runs).collect();
    if all.is_empty() {
        return;
    }
    page.simulated = all.iter().any(|run| run.simulated);
    page.section("runs", w.candidate_runs);
    if let Some(metric) = all.iter().find_map(|run| reading::leading(run)) {
        let chart = overlay(lang, runs, &all, metric);
        page.chart(&chart);
    }
    for (index, (name, runs)) in runs.iter().enumerate() {
        page.sub_plain(name);
        for (repeat, run) in runs.iter().enumerate() {
            page.simulated = run.simulated;
            let id = format!("c{}r{}", index + 1, repeat + 1);
            let open = if repeat == 0 { " open" } else { "" };
            let figures = reading::leading(run)
                .and_then(|metric| Some((metric, run.metrics.get(&metric)?.p99?)))
                .map(|(metric, p99)| format!(" · {metric} p99 {}", number::quantity(p99, Unit::Milliseconds)))
                .unwrap_or_default();
            let badge = page.badge();
            let invalid = if run.valid { String::new() } else { format!(" {}", tag(w.invalid, "bad")) };
            page.push(&format!(
                "<details{open}><summary>{} {}{}{badge}{invalid}</summary>\n",
                escape(&super::capital(w.run)),
                escape(&run.run),
                escape(&figures)
            ));
            page.chart(&charts::latency(lang, run, &id));
            page.chart(&charts::rates(lang, run, &id));
            page.chart(&charts::in_flight(lang, run, &id));
            if !run.errors.is_empty() {
                page.chart(&charts::errors(lang, run, &id));
            }
            page.push("</details>\n");
        }
    }
    page.end();
}

/// The leading latency of all candidates in one chart, each over all its runs.
fn overlay(
    lang: Lang,
    runs: &[(String, Vec<RunDocument>)],
    all: &[&RunDocument],
    metric: MetricId,
) -> String {
    let named: Vec<(String, Distribution)> = runs
        .iter()
        .filter_map(|(name, runs)| {
            let runs: Vec<&RunDocument> = runs.iter().collect();
            Some((name.clone(), Distribution::of(&runs, metric)?))
        })
        .collect();
    let head = charts::head(
        lang,
        all,
        "overlay".to_owned(),
        format!("{}: {metric}", lang.words().distribution),
        lang.pick(
            "Share of all operations of each candidate at or below each value, over all its runs.",
            "各候选在其全部运行中不超过各取值的操作占比。",
        )
        .to_owned(),
    );
    charts::cumulative(lang, head, &named)
}

fn evidence(page: &mut Page, document: &DecisionDocument) {
    let lang = page.lang;
    let w = lang.words();
    page.simulated = document.simulated;
    page.section("evidence", w.evidence);
    let rows: Vec<Vec<String>> = document
        .evidence
        .iter()
        .map(|entry| {
            let short = number::short_digest(&entry.digest);
            let simulated =
                if entry.simulated { format!(" {}", tag(w.simulated, "sim")) } else { String::new() };
            vec![
                format!("<span id=\"ev-{}\">{}</span>", escape(&short), code(&short)),
                escape(&entry.kind),
                format!("{}{simulated}", escape(&words::level(lang, entry.level))),
                with_small(&escape(&entry.label), &entry.path),
            ]
        })
        .collect();
    page.table(&[w.digest, w.kind, w.level, w.label], &rows, 99);
    page.note(lang.pick(
        "Digests are SHA-256 over the bytes of each file, shortened to twelve digits here; the sidecar holds them whole.",
        "摘要为各文件字节的 SHA-256，此处截取前十二位；完整值见附属文件。",
    ));
    page.end();
}
