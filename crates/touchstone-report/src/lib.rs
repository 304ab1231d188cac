//! Rendering: run and decision documents in, strings out (terminal text, Markdown records, HTML with inline SVG).
//!
//! The same document always gives the same bytes: no clock, no randomness, no map with an unstable order. Nothing is
//! computed here that is not already in the documents, apart from scaling figures to axes and merging histograms.
//! What was made by a simulator says so on every page, in every section and inside every chart, so that a chart that
//! is cut out of its report still says it.
//!
//! What this crate deliberately does not do: it reads and writes no files, knows no terminal (colour, width and
//! character set come in as a [`Style`]), and judges nothing: verdicts, outcomes and findings are in the documents.
//!
//! | module | makes |
//! | --- | --- |
//! | [`terminal`] | what `bench`, `match`, `run` and `decide` show on a screen |
//! | [`html`] | self-contained pages for runs and decisions |
//! | [`junit`] | test reports for continuous integration |
//! | [`markdown`] | the decision record, compatible with MADR 4 |
//! | [`text`] | tables, wrapping and trees of plain text, `explain` |
//! | [`svg`] | the charts, each a complete `<svg>` element |
//!
//! Text that comes from outside (answers of servers, names in files) is cleaned of control characters and escaped for
//! the format it goes into.

mod distribution;
pub mod html;
pub mod junit;
pub mod markdown;
mod number;
mod reading;
mod stages;
pub mod svg;
pub mod terminal;
pub mod text;
mod words;

pub use terminal::Style;
pub use words::{Lang, UnknownLang};

#[cfg(test)]
mod fixtures;
