//! A decision on a screen.

use touchstone_model::decision::{CandidateResult, DecisionDocument, Status};
use touchstone_model::run::Outcome;

use crate::terminal::{Ink, Style, matching, plot};
use crate::text::{Align, Table, clean, pad, width, wrap};
use crate::{number, reading, words};

/// The verdict in a box, the losers with the rule or gate that ruled them out, the contenders with their rank
/// acceptability and pairwise shares, criteria, flips, the next most valuable measurement, and what all of it rests on.
#[must_use]
pub fn decision(document: &DecisionDocument, style: &Style) -> String {
    let mut out = String::new();
    verdict(&mut out, document, style);
    losers(&mut out, document, style);
    open_gates(&mut out, document, style);
    ranking(&mut out, document, style);
    criteria(&mut out, document, style);
    flips(&mut out, document, style);
    next(&mut out, document, style);
    foot(&mut out, document, style);
    out
}

/// The verdict in a few words: `leaning: vllm-fast`.
pub(crate) fn headline(document: &DecisionDocument, lang: crate::Lang) -> String {
    let word = words::verdict(lang, document.verdict.word);
    match &document.verdict.candidate {
        Some(candidate) => {
            lang.pick(format!("{word}: {}", clean(candidate)), format!("{word}：{}", clean(candidate)))
        }
        None => word.to_owned(),
    }
}

fn verdict(out: &mut String, document: &DecisionDocument, style: &Style) {
    let w = style.lang.words();
    let mark = if document.simulated { format!("{}  ", w.simulated) } else { String::new() };
    let room = style.width.clamp(40, 110) - 4;
    let mut lines = wrap(&format!("{mark}{} {}", w.verdict, headline(document, style.lang)), room);
    let heads = lines.len();
    let reason = style.lang.pick(&document.verdict.reason, &document.verdict.reason_zh);
    lines.extend(wrap(&clean(reason), room));
    if document.simulated {
        lines.extend(wrap(w.no_product_measured, room));
    }
    let [top_left, top_right, low_left, low_right, flat, up] = if style.unicode {
        ["┌", "┐", "└", "┘", "─", "│"]
    } else {
        ["+", "+", "+", "+", "-", "|"]
    };
    let edge = flat.repeat(room + 2);
    *out += &format!("{top_left}{edge}{top_right}\n");
    for (index, line) in lines.iter().enumerate() {
        let body = pad(line, room);
        let body = if index < heads { style.head(&body) } else { body };
        *out += &format!("{up} {body} {up}\n");
    }
    *out += &format!("{low_left}{edge}{low_right}\n");
}

fn losers(out: &mut String, document: &DecisionDocument, style: &Style) {
    let w = style.lang.words();
    let losers: Vec<&CandidateResult> = document
        .candidates
        .iter()
        .filter(|candidate| !matches!(candidate.status, Status::Contender | Status::Unmeasured))
        .collect();
    let unmeasured = document.candidates.iter().filter(|candidate| candidate.status == Status::Unmeasured);
    let unmeasured: Vec<&str> = unmeasured.map(|candidate| candidate.name.as_str()).collect();
    if !unmeasured.is_empty() {
        out.push('\n');
        style.paragraph(out, &format!("{}  ", w.not_measured), &unmeasured.join(", "));
    }
    if losers.is_empty() {
        return;
    }
    *out += &format!("\n{}\n", style.head(w.ruled_out));
    for candidate in losers {
        let status = words::status(style.lang, candidate.status);
        *out += &format!("  {}  {}", clean(&candidate.name), style.ink(Ink::Bad, status));
        if let Some(by) = &candidate.dominated_by {
            *out += &style.lang.pick(format!(" by {}", clean(by)), format!("（支配者：{}）", clean(by)));
        }
        out.push('\n');
        for gate in candidate.gates.iter().filter(|gate| gate.outcome == Outcome::Fail) {
            let mut lines = String::new();
            matching::reason(&mut lines, gate, &Style { width: style.width.saturating_sub(2), ..*style });
            for line in lines.lines() {
                *out += &format!("  {line}\n");
            }
        }
    }
}

fn open_gates(out: &mut String, document: &DecisionDocument, style: &Style) {
    let contenders = document.candidates.iter().filter(|candidate| candidate.status == Status::Contender);
    let mut lines = String::new();
    for candidate in contenders {
        let open = candidate.gates.iter().filter(|gate| gate.outcome == Outcome::Undetermined);
        for (index, gate) in open.enumerate() {
            if index == 0 {
                lines += &format!("  {}\n", clean(&candidate.name));
            }
            let mut reason = String::new();
            matching::reason(&mut reason, gate, &Style { width: style.width.saturating_sub(2), ..*style });
            lines.extend(reason.lines().map(|line| format!("  {line}\n")));
        }
    }
    if !lines.is_empty() {
        *out += &format!("\n{}\n{lines}", style.head(style.lang.pick("undetermined gates", "未定的门槛")));
    }
}

fn ranking(out: &mut String, document: &DecisionDocument, style: &Style) {
    let w = style.lang.words();
    let ranking = &document.ranking;
    if ranking.contenders.is_empty() {
        *out += &format!("\n{}\n", w.no_contender);
        return;
    }
    let beats: Vec<String> =
        ranking.contenders.iter().map(|name| format!("{} {}", w.beats, clean(name))).collect();
    let mut columns = vec![(w.contenders, Align::Left), (w.first_rank, Align::Right)];
    columns.extend(beats.iter().map(|name| (name.as_str(), Align::Right)));
    columns.push((w.regret, Align::Right));
    let mut table = Table::new(&columns);
    for (row, name) in ranking.contenders.iter().enumerate() {
        let mut cells = vec![name.clone(), number::share(&ranking.acceptability, row, 0)];
        cells.extend((0..ranking.contenders.len()).map(|column| {
            if row == column {
                return number::NONE.to_owned();
            }
            let (wins, robust) = (&ranking.pairwise, &ranking.robust);
            format!("{} ({})", number::share(wins, row, column), number::share(robust, row, column))
        }));
        cells.push(number::listed(&ranking.regret_p95, row));
        table.row(cells);
    }
    out.push('\n');
    push(out, &table, style);
    style.paragraph(out, "  ", w.robust_in_parentheses);
    *out += &format!(
        "\n{} ({} {})\n",
        style.head(w.acceptability),
        w.draws,
        number::count(u64::from(ranking.draws))
    );
    let wide = ranking.contenders.iter().map(|name| width(&clean(name))).max().unwrap_or(0);
    for (row, name) in ranking.contenders.iter().enumerate() {
        let first =
            ranking.acceptability.get(row).and_then(|ranks| ranks.first()).copied().unwrap_or(f64::NAN);
        let bar = plot::bar(first, 30, style);
        let ranks = ranking.acceptability.get(row).map_or(&[][..], Vec::as_slice);
        let ranks = ranks.iter().map(|share| number::probability(*share)).collect::<Vec<_>>().join(" / ");
        *out += &format!("  {}  {}  {ranks}\n", pad(&clean(name), wide), pad(&bar, 30));
    }
}

fn push(out: &mut String, table: &Table, style: &Style) {
    for (index, line) in table.lines("  ").iter().enumerate() {
        *out += &if index == 0 { style.head(line) } else { line.clone() };
        out.push('\n');
    }
}

fn criteria(out: &mut String, document: &DecisionDocument, style: &Style) {
    let w = style.lang.words();
    let mut table = Table::new(&[
        (w.criteria, Align::Left),
        (w.candidate, Align::Left),
        ("p50", Align::Right),
        ("5-95 %", Align::Left),
        (w.worth, Align::Right),
    ]);
    for criterion in crate::reading::criteria_names(document) {
        let unit = reading::criterion_unit(criterion);
        for candidate in &document.candidates {
            let Some(result) = candidate.criteria.get(criterion).filter(|result| result.median.is_some())
            else {
                continue;
            };
            let show = |value: Option<f64>| {
                value.map_or_else(|| number::NONE.to_owned(), |value| number::quantity(value, unit))
            };
            table.row(vec![
                criterion.to_owned(),
                candidate.name.clone(),
                show(result.median),
                format!("{} .. {}", show(result.lower), show(result.upper)),
                result.worth.map_or_else(|| number::NONE.to_owned(), number::probability),
            ]);
        }
    }
    if !table.is_empty() {
        out.push('\n');
        push(out, &table, style);
    }
}

fn flips(out: &mut String, document: &DecisionDocument, style: &Style) {
    let w = style.lang.words();
    *out += &format!("\n{}\n", style.head(w.flips));
    if document.flips.is_empty() {
        let none = if document.ranking.contenders.len() < 2 { w.none } else { w.no_flips };
        *out += &format!("  {none}\n");
    }
    for flip in &document.flips {
        style.paragraph(out, "  ", &words::flip(style.lang, flip, reading::criterion_unit(&flip.criterion)));
    }
}

fn next(out: &mut String, document: &DecisionDocument, style: &Style) {
    let w = style.lang.words();
    *out += &format!("\n{}\n", style.head(w.next_measurement));
    if document.next_measurements.is_empty() {
        *out += &format!("  {}\n", w.none);
    }
    for (index, next) in document.next_measurements.iter().enumerate() {
        let odds = next.probability.map_or_else(
            || w.settles_gate.to_owned(),
            |probability| format!("{} {}", w.probability, number::probability(probability)),
        );
        let advice = style.lang.pick(&next.advice, &next.advice_zh);
        let text = format!("{} / {}  ({odds})  {advice}", next.candidate, next.subject);
        style.paragraph(out, &format!("  {}. ", index + 1), &text);
    }
}

fn foot(out: &mut String, document: &DecisionDocument, style: &Style) {
    let w = style.lang.words();
    let parts = [
        format!("{} {}", w.level, words::level(style.lang, document.level)),
        format!("{} {}", w.review_by, clean(&document.review_by)),
        format!("{} {}", w.catalog, clean(&document.catalog_date)),
        format!(
            "{} {} ({})",
            if document.seal.before_results { w.sealed } else { w.sealed_late },
            clean(&document.seal.sealed_at),
            number::short_digest(&document.seal.digest)
        ),
    ];
    out.push('\n');
    style.paragraph(out, "", &parts.join("   "));
}
