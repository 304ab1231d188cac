//! Self-contained pages: inline CSS and SVG, no script, no external resource; light and dark by the reader's
//! preference, and fit for printing.
//!
//! Whatever comes from a document is escaped; nothing from outside becomes markup or an address.

mod campaign;
mod charts;
mod comparison;
mod decision;
mod run;
mod server;
mod sweep;

pub use campaign::campaign_report;
pub use comparison::comparison_report;
pub use decision::decision_report;
pub(crate) use decision::{gate_of, requirements};
pub use run::run_report;
pub use sweep::sweep_report;

use touchstone_model::MetricId;

use crate::svg::escape;
use crate::words::Lang;

const CSS: &str = include_str!("page.css");

/// A page under way.
struct Page {
    lang: Lang,
    body: String,
    /// Whether the section being written is about a simulator.
    simulated: bool,
}

impl Page {
    fn new(lang: Lang) -> Self {
        Self { lang, body: String::new(), simulated: false }
    }

    fn push(&mut self, html: &str) {
        self.body.push_str(html);
    }

    fn badge(&self) -> String {
        if self.simulated { format!(" {}", tag(self.lang.words().simulated, "sim")) } else { String::new() }
    }

    /// Opens a section; a section about a simulator says so in its heading.
    fn section(&mut self, id: &str, heading: &str) {
        let badge = self.badge();
        self.push(&format!(
            "<section id=\"{}\">\n<h2>{}{badge}</h2>\n",
            escape(id),
            escape(&capital(heading))
        ));
    }

    fn end(&mut self) {
        self.push("</section>\n");
    }

    fn sub(&mut self, heading: &str) {
        self.push(&format!("<h3>{}</h3>\n", escape(&capital(heading))));
    }

    /// A subheading that is a name and keeps its spelling.
    fn sub_plain(&mut self, name: &str) {
        self.push(&format!("<h3>{}</h3>\n", escape(name)));
    }

    fn note(&mut self, text: &str) {
        self.push(&format!("<p class=\"note\">{}</p>\n", escape(text)));
    }

    /// A table of cells that are already HTML. `numeric` says from which column on cells are numbers.
    fn table(&mut self, heads: &[&str], rows: &[Vec<String>], numeric: usize) {
        self.push("<div class=\"scroll\"><table>\n<thead><tr>");
        let class = |column: usize| if column >= numeric { " class=\"n\"" } else { "" };
        for (column, head) in heads.iter().enumerate() {
            self.push(&format!("<th scope=\"col\"{}>{}</th>", class(column), escape(head)));
        }
        self.push("</tr></thead>\n<tbody>\n");
        for row in rows {
            self.push("<tr>");
            for (column, cell) in row.iter().enumerate() {
                self.push(&format!("<td{}>{cell}</td>", class(column)));
            }
            self.push("</tr>\n");
        }
        self.push("</tbody></table></div>\n");
    }

    /// Names with their values.
    fn pairs(&mut self, pairs: &[(&str, String)]) {
        self.push("<dl class=\"pairs\">\n");
        for (name, value) in pairs {
            self.push(&format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(&capital(name)), escape(value)));
        }
        self.push("</dl>\n");
    }

    /// Figures to be seen first.
    fn tiles(&mut self, tiles: &[(String, String, String)]) {
        self.push("<div class=\"tiles\">\n");
        for (name, value, below) in tiles {
            self.push(&format!(
                "<div class=\"tile\"><span class=\"name\">{}</span><span class=\"value\">{}</span><span class=\"below\">{}</span></div>\n",
                escape(name),
                escape(value),
                escape(below)
            ));
        }
        self.push("</div>\n");
    }

    fn chart(&mut self, svg: &str) {
        self.push(&format!("<figure>{svg}</figure>\n"));
    }

    fn finish(self, title: &str) -> String {
        format!(
            "<!DOCTYPE html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{CSS}</style>\n</head>\n<body>\n<main>\n{}</main>\n</body>\n</html>\n",
            self.lang.tag(),
            escape(title),
            self.body
        )
    }
}

/// A word in a coloured frame; the word itself says what it is.
fn tag(text: &str, class: &str) -> String {
    format!("<span class=\"tag {class}\">{}</span>", escape(text))
}

/// A text in the code font.
fn code(text: &str) -> String {
    format!("<code>{}</code>", escape(text))
}

/// A sentence with `code` in backticks.
fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escape(text);
    }
    let part = |(index, part): (usize, &&str)| if index % 2 == 0 { escape(part) } else { code(part) };
    parts.iter().enumerate().map(part).collect()
}

/// Headings begin with a capital letter, unless they begin with a metric's id: `ttft`, not `Ttft`.
fn capital(text: &str) -> String {
    let first = text.split(' ').next().unwrap_or_default();
    if first.parse::<MetricId>().is_ok() && text != first {
        return text.to_owned();
    }
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A text with a part below it in smaller type.
fn with_small(text: &str, small: &str) -> String {
    if small.is_empty() { text.to_owned() } else { format!("{text}<br><small>{}</small>", prose(small)) }
}

#[cfg(test)]
mod tests;
