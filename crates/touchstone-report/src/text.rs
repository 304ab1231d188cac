//! Plain text: tables, wrapping, trees, and the unfolding of a statement down to its evidence.
//!
//! Widths are columns of a terminal: a Chinese character takes two.

use touchstone_model::decision::{EvidenceEntry, Statement};

use crate::terminal::Style;
use crate::{number, words};

/// Replaces what could steer a terminal or reorder text: control characters become spaces, direction marks go.
#[must_use]
pub fn clean(text: &str) -> String {
    text.chars()
        .filter(|c| !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'))
        .map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c })
        .collect()
}

/// Columns that a character takes on a terminal.
fn columns(c: char) -> usize {
    let wide = matches!(u32::from(c),
        0x1100..=0x115f | 0x2e80..=0x303e | 0x3041..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd);
    let none = matches!(u32::from(c), 0x0300..=0x036f | 0xfe00..=0xfe0f);
    if none { 0 } else { 1 + usize::from(wide) }
}

/// Columns that a text takes on a terminal.
#[must_use]
pub fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// Fills a text up with spaces on the right.
pub(crate) fn pad(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(width(text))))
}

/// Fills a text up with spaces on the left.
pub(crate) fn pad_left(text: &str, to: usize) -> String {
    format!("{}{text}", " ".repeat(to.saturating_sub(width(text))))
}

/// Cuts a text to at most `to` columns, with `...` in place of what is gone.
pub(crate) fn shorten(text: &str, to: usize) -> String {
    if width(text) <= to {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += columns(c);
        if used + 3 > to {
            break;
        }
        out.push(c);
    }
    out + "..."
}

/// Breaks a text into lines of at most `to` columns, at spaces and between Chinese characters; longer words stay whole.
#[must_use]
pub fn wrap(text: &str, to: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in pieces(text) {
        let piece = if line.is_empty() { word.trim_start() } else { word };
        if !line.is_empty() && width(&line) + width(piece.trim_end()) > to {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
            line.push_str(piece.trim_start());
        } else {
            line.push_str(piece);
        }
    }
    if !line.trim_end().is_empty() || lines.is_empty() {
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// The pieces between which a line may break: words with the space after them, and single Chinese characters. Closing
/// punctuation stays with what is before it.
fn pieces(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut from = 0;
    let mut previous: Option<char> = None;
    for (at, c) in text.char_indices() {
        let closing = matches!(c, '，' | '。' | '；' | '：' | '）' | '”' | '、' | '！' | '？');
        let breakable = previous.is_some_and(|p| {
            (p == ' ' && c != ' ')
                || (!closing && p != ' ' && p != '（' && p != '“' && (columns(p) == 2 || columns(c) == 2))
        });
        if breakable {
            out.push(&text[from..at]);
            from = at;
        }
        previous = Some(c);
    }
    if from < text.len() {
        out.push(&text[from..]);
    }
    out
}

/// The side to which the cells of a column are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table of plain text with two spaces between columns and no lines, so that it reads in every terminal and mail.
#[derive(Debug, Clone, Default)]
pub struct Table {
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads.
    #[must_use]
    pub fn new(columns: &[(&str, Align)]) -> Self {
        Self {
            align: columns.iter().map(|(_, align)| *align).collect(),
            rows: vec![columns.iter().map(|(head, _)| (*head).to_owned()).collect()],
        }
    }

    /// Adds a row; cells are cleaned of control characters, missing ones are empty.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|cell| clean(cell)).collect());
    }

    /// Whether there is nothing below the heads.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// Columns that the widest line takes, without the indent.
    #[must_use]
    pub fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
    }

    fn widths(&self) -> Vec<usize> {
        (0..self.align.len())
            .map(|column| {
                self.rows.iter().map(|row| row.get(column).map_or(0, |cell| width(cell))).max().unwrap_or(0)
            })
            .collect()
    }

    /// The lines, each with `indent` before it and no space at its end.
    #[must_use]
    pub fn lines(&self, indent: &str) -> Vec<String> {
        let widths = self.widths();
        self.rows
            .iter()
            .map(|row| {
                let cells = self.align.iter().zip(&widths).enumerate().map(|(column, (align, width))| {
                    let cell = row.get(column).map_or("", String::as_str);
                    match align {
                        Align::Left => pad(cell, *width),
                        Align::Right => pad_left(cell, *width),
                    }
                });
                format!("{indent}{}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
            })
            .collect()
    }
}

/// A node of a tree of text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// One line.
    pub label: String,
    /// What hangs below it.
    pub children: Vec<Node>,
}

impl Node {
    /// A node without children.
    pub fn leaf(label: impl Into<String>) -> Self {
        Self { label: label.into(), children: Vec::new() }
    }

    /// A node with children.
    pub fn with(label: impl Into<String>, children: Vec<Node>) -> Self {
        Self { label: label.into(), children }
    }
}

/// Draws a tree; labels are wrapped to the style's width.
#[must_use]
pub fn tree(root: &Node, style: &Style) -> String {
    let mut out = String::new();
    branch(&mut out, root, "", "", style);
    out
}

fn branch(out: &mut String, node: &Node, first: &str, rest: &str, style: &Style) {
    let room = style.width.saturating_sub(width(rest)).max(20);
    for (index, line) in wrap(&clean(&node.label), room).iter().enumerate() {
        out.push_str(if index == 0 { first } else { rest });
        out.push_str(line);
        out.push('\n');
    }
    let base = rest;
    for (index, child) in node.children.iter().enumerate() {
        let last = index + 1 == node.children.len();
        let (knee, stem) = match (style.unicode, last) {
            (true, false) => ("├─ ", "│  "),
            (true, true) => ("└─ ", "   "),
            (false, false) => ("|- ", "|  "),
            (false, true) => ("`- ", "   "),
        };
        branch(out, child, &format!("{base}{knee}"), &format!("{base}{stem}"), style);
    }
}

/// What a look at the stored file of a piece of evidence showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// The file's digest is the one in the record.
    Intact,
    /// The file has another digest: it was changed after the record was made.
    Changed {
        /// The digest found.
        found: String,
    },
    /// There is no such file.
    Missing,
    /// Nobody looked.
    Unread,
}

/// A piece of evidence with what was found when it was opened.
#[derive(Debug, Clone, PartialEq)]
pub struct Unfolded<'a> {
    /// The entry in the record.
    pub entry: &'a EvidenceEntry,
    /// Whether its file is what it was.
    pub check: Check,
    /// What it holds: figures, histograms, the fingerprint.
    pub details: Vec<Node>,
}

/// Unfolds a statement: its sentence, below it every piece of evidence with digest, level and check, below those what
/// they hold. Evidence that is named but not given is shown as missing.
#[must_use]
pub fn explain(statement: &Statement, evidence: &[Unfolded<'_>], style: &Style) -> String {
    let w = style.lang.words();
    let sentence = style.lang.pick(&statement.text, &statement.text_zh);
    let children = statement.evidence.iter().map(|digest| {
        let short = number::short_digest(digest);
        let Some(found) = evidence.iter().find(|unfolded| unfolded.entry.digest == *digest) else {
            return Node::leaf(format!("{short}  {}", w.missing));
        };
        let entry = found.entry;
        let state = match &found.check {
            Check::Intact => w.intact.to_owned(),
            Check::Changed { found } => format!("{} ({})", w.changed, number::short_digest(found)),
            Check::Missing => w.missing.to_owned(),
            Check::Unread => w.unread.to_owned(),
        };
        let mark = if entry.simulated { format!("  {}", w.simulated) } else { String::new() };
        let head = format!(
            "{} {short}  {}{mark}  {state}  {}",
            entry.kind,
            words::level(style.lang, entry.level),
            entry.label
        );
        let mut below =
            vec![Node::leaf(format!("{}: {}", w.path, entry.path)), Node::leaf(entry.digest.clone())];
        below.extend(found.details.iter().cloned());
        Node::with(head, below)
    });
    tree(&Node::with(format!("[{}] {sentence}", statement.id), children.collect()), style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lang;
    use touchstone_model::Level;

    #[test]
    fn control_characters_cannot_reach_a_terminal() {
        assert_eq!(clean("a\u{1b}[31mred\u{7}\nb\u{202e}c"), "a [31mred  bc");
    }

    #[test]
    fn widths_count_chinese_twice() {
        assert_eq!(width("延迟 p99"), 8);
        assert_eq!(pad("延迟", 6), "延迟  ");
        assert_eq!(shorten("abcdefgh", 6), "abc...");
    }

    #[test]
    fn wrapping_keeps_every_character() {
        let text = "the p99 of ttft is at most 213 ms, which keeps the limit of 300 ms";
        let lines = wrap(text, 24);
        assert!(lines.iter().all(|line| width(line) <= 24), "{lines:?}");
        assert_eq!(lines.join(" "), text);
        let zh = "负载发生器落后于计划，本次运行无效（见建议）。";
        let lines = wrap(zh, 12);
        assert!(lines.iter().all(|line| width(line) <= 14 && !line.starts_with('，')), "{lines:?}");
        assert_eq!(lines.concat(), zh);
        assert_eq!(wrap("", 10), [""]);
    }

    #[test]
    fn a_statement_unfolds_to_its_evidence() {
        let entry = EvidenceEntry {
            digest: format!("sha256:{}", "ab".repeat(32)),
            kind: "run".into(),
            path: "runs/r1.json".into(),
            level: Level::P2,
            simulated: false,
            label: "redis, constant:50000/s".into(),
        };
        let statement = Statement {
            id: "s3".into(),
            text: "redis answers p99 within 2 ms".into(),
            text_zh: "redis 的 p99 不超过 2 ms".into(),
            evidence: vec![entry.digest.clone(), "sha256:ffff".into()],
        };
        let unfolded = [Unfolded {
            entry: &entry,
            check: Check::Changed { found: "sha256:0123456789abcdef".into() },
            details: vec![Node::leaf("p99 1.9 ms")],
        }];
        let style = Style { color: false, width: 60, lang: Lang::En, unicode: true };
        insta::assert_snapshot!(explain(&statement, &unfolded, &style), @"
        [s3] redis answers p99 within 2 ms
        ├─ run abababababab  P2 (recorded)  CHANGED (0123456789ab)
        │  redis, constant:50000/s
        │  ├─ path: runs/r1.json
        │  ├─ sha256:abababababababababababababababababababababababababababababababab
        │  └─ p99 1.9 ms
        └─ ffff  MISSING
        ");
    }
}
