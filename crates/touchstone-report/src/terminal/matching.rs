//! The table of semantic matching: who passes, who is vetoed and by which rule, who is recommended and why.

use touchstone_model::decision::{Gate, GateKind};
use touchstone_model::run::Outcome;

use crate::terminal::{Ink, Style};
use crate::text::{Align, Table, clean};
use crate::{number, words};

/// One candidate in a match.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MatchRow {
    /// The name in the scenario, or the product's id.
    pub name: String,
    /// The product's id in the catalog.
    pub product: String,
    /// The configuration's id in the catalog.
    pub configuration: Option<String>,
    /// Durability class; candidates compare only inside an equal class.
    pub durability: Option<String>,
    /// Delivery class.
    pub delivery: Option<String>,
    /// Whether a gate or a rule ruled it out.
    pub vetoed: bool,
    /// Every semantic gate and rule.
    pub gates: Vec<Gate>,
    /// What the decision matrix recommends it for, with the reason.
    pub recommendations: Vec<(String, String)>,
}

/// A table of the candidates, then below each the gates that ruled it out or are undetermined, and the reasons for
/// which it is recommended.
#[must_use]
pub fn match_table(rows: &[MatchRow], style: &Style) -> String {
    let w = style.lang.words();
    let mut table = Table::new(&[
        (w.candidate, Align::Left),
        (w.product, Align::Left),
        (w.durability, Align::Left),
        (w.delivery, Align::Left),
        (w.outcome, Align::Left),
        (w.gates, Align::Left),
    ]);
    for row in rows {
        let product = match &row.configuration {
            Some(configuration) => format!("{} / {configuration}", row.product),
            None => row.product.clone(),
        };
        let class = |value: &Option<String>| value.clone().unwrap_or_else(|| number::NONE.to_owned());
        table.row(vec![
            row.name.clone(),
            product,
            class(&row.durability),
            class(&row.delivery),
            words::match_result(style.lang, row.vetoed, has(row, Outcome::Undetermined)).to_owned(),
            tally(row, style),
        ]);
    }
    let mut out = String::new();
    for (index, line) in table.lines("").iter().enumerate() {
        let vetoed = index > 0 && rows.get(index - 1).is_some_and(|row| row.vetoed);
        out += &match (index, vetoed) {
            (0, _) => style.head(line),
            (_, true) => style.ink(Ink::Dim, line),
            _ => line.clone(),
        };
        out.push('\n');
    }
    for row in rows {
        let open: Vec<&Gate> = row.gates.iter().filter(|gate| gate.outcome != Outcome::Pass).collect();
        if open.is_empty() && row.recommendations.is_empty() {
            continue;
        }
        out += &format!("\n{}\n", style.head(&clean(&row.name)));
        for gate in open {
            reason(&mut out, gate, style);
        }
        for (subject, why) in &row.recommendations {
            style.paragraph(&mut out, "  + ", &format!("{subject}: {why}"));
        }
    }
    out
}

fn has(row: &MatchRow, outcome: Outcome) -> bool {
    row.gates.iter().any(|gate| gate.outcome == outcome)
}

/// `4 pass, 1 fail`, without what there is none of.
fn tally(row: &MatchRow, style: &Style) -> String {
    let parts = [Outcome::Pass, Outcome::Fail, Outcome::Undetermined].into_iter().filter_map(|outcome| {
        let n = row.gates.iter().filter(|gate| gate.outcome == outcome).count();
        (n > 0).then(|| format!("{n} {}", words::outcome(style.lang, outcome)))
    });
    parts.collect::<Vec<_>>().join(style.lang.pick(", ", "，"))
}

/// A gate that did not pass, with its reason: `x fail  rule broker-without-disk: ...`.
pub(super) fn reason(out: &mut String, gate: &Gate, style: &Style) {
    let sign = match gate.outcome {
        Outcome::Pass => "+",
        Outcome::Fail => "x",
        Outcome::Undetermined => "?",
    };
    let kind = match gate.kind {
        GateKind::Statistical => String::new(),
        kind => format!("{} ", words::gate_kind(style.lang, kind)),
    };
    let why = style.lang.pick(&gate.reason, &gate.reason_zh);
    let text = format!("{}  {kind}`{}`: {why}", words::outcome(style.lang, gate.outcome), gate.requirement);
    style.paragraph(out, &format!("  {sign} "), &text);
}
