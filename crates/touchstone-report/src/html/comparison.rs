//! The page of a comparison.

use touchstone_model::comparison::ComparisonDocument;

use super::{Page, code, prose, tag};
use crate::svg::escape;
use crate::terminal::{interval_text, metric_text, side_text, standing_text, unit_text};
use crate::words::Lang;
use crate::{number, words};

/// A page with both sides, every metric with its interval and what is said of it, and what limits the comparison.
#[must_use]
pub fn comparison_report(document: &ComparisonDocument, lang: Lang) -> String {
    let w = lang.words();
    let mut page = Page::new(lang);
    page.simulated = document.simulated;
    let title = format!(
        "{} {} {}",
        side_text(&document.a, lang),
        lang.pick("against", "对比"),
        side_text(&document.b, lang)
    );
    page.push(&format!("<header>\n<h1>{}</h1>\n</header>\n", escape(&title)));
    page.section("comparison", lang.pick("comparison", "比较"));
    if document.simulated {
        page.push(&format!(
            "<p class=\"banner sim\"><strong>{}</strong> {}</p>\n",
            escape(w.simulated),
            escape(w.no_product_measured)
        ));
    }
    page.note(unit_text(document.unit, document.paired, lang));
    let rows: Vec<Vec<String>> = document
        .metrics
        .iter()
        .map(|one| {
            let figure = |value: Option<f64>| {
                escape(
                    &value.map_or_else(|| number::NONE.to_owned(), |value| number::quantity(value, one.unit)),
                )
            };
            let class = if one.standing.is_worse() || one.suspected { "bad" } else { "good" };
            vec![
                code(&metric_text(one)),
                figure(one.a),
                figure(one.b),
                escape(&interval_text(one)),
                tag(standing_text(one.standing, lang), class),
                prose(&one.reason),
            ]
        })
        .collect();
    let ratio = format!("a / b ({})", number::percent(document.confidence));
    page.table(&[w.metric, "a", "b", &ratio, lang.pick("a is", "a"), w.reason], &rows, 9);
    page.pairs(&[
        (lang.pick("smallest difference that matters", "有意义的最小差异"), number::percent(document.margin)),
        (w.level, words::level(lang, document.level)),
        ("a", document.a.runs.join(", ")),
        ("b", document.b.runs.join(", ")),
    ]);
    for finding in &document.findings {
        page.note(&format!("{}: {}; {}", finding.code, finding.message, finding.advice));
    }
    page.end();
    let mark = if document.simulated { format!("[{}] ", w.simulated) } else { String::new() };
    page.finish(&format!("{mark}{title}"))
}
