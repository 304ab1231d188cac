//! What commands show on a screen: progress, the summary of a run, matches and decisions.
//!
//! Everything is understood without colour: marks are words, states are words, and colour only repeats them.

mod campaign;
mod comparison;
mod decision;
mod matching;
mod mix;
mod plot;
mod progress;
mod run;
pub(crate) mod server;
mod sweep;

pub use campaign::campaign_summary;
pub(crate) use campaign::{FIGURES, figure_texts, state_text, tally};
pub use comparison::comparison_summary;
pub(crate) use comparison::{interval_text, metric_text, side_text, standing_text, unit_text};
pub use decision::decision;
pub use matching::{MatchRow, match_table};
pub use mix::mix_summary;
pub use progress::{Progress, RunPhase, progress_line};
pub(crate) use run::certificate_pairs;
pub use run::run_summary;
pub use sweep::sweep_summary;
pub(crate) use sweep::{curve, estimate_text, shape_text};

pub(crate) use decision::headline;

use touchstone_model::run::Outcome;

use crate::text;
use crate::words::Lang;

/// How to write for a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether ANSI colours may be used.
    pub color: bool,
    /// Columns; tables and single long words may be wider.
    pub width: usize,
    /// The language.
    pub lang: Lang,
    /// Whether box and block characters may be used; ASCII otherwise.
    pub unicode: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { color: false, width: 100, lang: Lang::En, unicode: true }
    }
}

/// The few inks there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ink {
    Bold,
    Dim,
    Good,
    Warn,
    Bad,
}

/// The class that colours an outcome on a page.
pub(crate) fn outcome_class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "good",
        Outcome::Fail => "bad",
        Outcome::Undetermined => "warn",
    }
}

impl Style {
    /// Colours a text, when colours may be used.
    fn ink(&self, ink: Ink, text: &str) -> String {
        if !self.color || text.is_empty() {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Bold => "1",
            Ink::Dim => "2",
            Ink::Good => "32",
            Ink::Warn => "33",
            Ink::Bad => "31",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    fn head(&self, text: &str) -> String {
        self.ink(Ink::Bold, text)
    }

    fn outcome(&self, outcome: Outcome) -> String {
        let ink = match outcome {
            Outcome::Pass => Ink::Good,
            Outcome::Fail => Ink::Bad,
            Outcome::Undetermined => Ink::Warn,
        };
        self.ink(ink, crate::words::outcome(self.lang, outcome))
    }

    /// Wraps a text to the width, with `first` before its first line and as many spaces before the others.
    fn paragraph(&self, out: &mut String, first: &str, body: &str) {
        let indent = text::width(first);
        let room = self.width.saturating_sub(indent).max(24);
        for (index, line) in text::wrap(&text::clean(body), room).iter().enumerate() {
            let before = if index == 0 { first.to_owned() } else { " ".repeat(indent) };
            out.push_str(before.as_str());
            out.push_str(line);
            out.push('\n');
        }
    }

    /// A piece of advice below what it is about.
    fn hint(&self, out: &mut String, indent: &str, advice: &str) {
        if !advice.trim().is_empty() {
            let label = self.lang.pick("advice: ", "建议：");
            self.paragraph(out, &format!("{indent}{label}"), advice);
        }
    }
}

#[cfg(test)]
mod tests;
