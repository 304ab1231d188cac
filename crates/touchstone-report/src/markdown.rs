//! The decision record: Markdown that is compatible with MADR 4, with constraints, robustness and evidence added as
//! ordinary sections.
//!
//! The record says about the world only what `statements[]` of the decision document says, and every such sentence ends
//! with its id, `[s3]`, which is a link to the entry under More Information. What has no statement is not said.

use touchstone_model::decision::{
    CandidateResult, DecisionDocument, Gate, GateKind, Statement, Status, Word,
};
use touchstone_model::run::Outcome;
use touchstone_model::{Better, Subject};

use crate::html::{gate_of, requirements};
use crate::terminal::headline;
use crate::words::Lang;
use crate::{number, reading, words};

/// The record of a decision. Its status is `accepted` only for a clear verdict on what was measured, else `proposed`:
/// what a simulator says is never accepted by itself.
#[must_use]
pub fn record(document: &DecisionDocument, lang: Lang) -> String {
    let mut record = Record { document, lang, placed: Vec::new(), out: String::new() };
    record.front_matter();
    record.context();
    record.drivers();
    record.constraints();
    record.options();
    record.outcome();
    record.pros_and_cons();
    record.robustness();
    record.more_information();
    record.out
}

/// The ids of statements that a record cites, in the order in which they first appear. What stands in the front matter,
/// in code or behind a backslash is no citation.
#[must_use]
pub fn statement_ids(record: &str) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    let body = record
        .strip_prefix("---\n")
        .and_then(|rest| rest.split_once("\n---\n"))
        .map_or(record, |(_, body)| body);
    let mut fenced = false;
    for line in body.lines() {
        fenced ^= line.starts_with("```");
        if fenced {
            continue;
        }
        for id in cited_in(&without_code(line)) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
    }
    ids
}

fn cited_in(text: &str) -> Vec<String> {
    let one = |(at, _): (usize, &str)| {
        let (before, after) = (&text[..at], &text[at + 1..]);
        let (id, _) = after.split_once(']').filter(|_| !before.ends_with('\\'))?;
        let digits = id.strip_prefix('s')?;
        (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| id.to_owned())
    };
    text.match_indices('[').filter_map(one).collect()
}

/// A line of Markdown without its code spans: a span ends at a run of as many backticks as it began with.
fn without_code(line: &str) -> String {
    let mut out = String::new();
    let mut fence = 0;
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        let run = rest[at..].bytes().take_while(|byte| *byte == b'`').count();
        if fence == 0 {
            out.push_str(&rest[..at]);
        }
        let escaped = fence == 0 && rest[..at].ends_with('\\');
        fence = match fence {
            0 if !escaped => run,
            open if open == run => 0,
            open => open,
        };
        rest = &rest[at + run..];
    }
    if fence == 0 {
        out.push_str(rest);
    }
    out
}

/// Whether a statement says a sentence: it is the sentence, or holds it.
pub(crate) fn says(statement: &Statement, sentence: &str) -> bool {
    let sentence = sentence.trim().trim_end_matches('.');
    !sentence.is_empty() && statement.text.contains(sentence)
}

/// Escapes text for a line of Markdown: no markup, no HTML, no link, no line break.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in crate::text::clean(text).chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '$' => {
                out.push('\\');
                out.push(c);
            }
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
    out
}

/// A sentence with `code` in backticks, which stays code; all else is escaped.
fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escape(text);
    }
    let part = |(index, part): (usize, &&str)| match (index % 2, part.is_empty()) {
        (0, _) => escape(part),
        (_, true) => String::new(),
        (_, false) => code(part),
    };
    parts.iter().enumerate().map(part).collect()
}

/// Text as code; a fence longer than any run of backticks in it.
fn code(text: &str) -> String {
    let text = crate::text::clean(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    if longest > 0 { format!("{fence} {text} {fence}") } else { format!("{fence}{text}{fence}") }
}

/// Code in a table, where a pipe would end the cell.
fn code_cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

/// A scalar of YAML in double quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", crate::text::clean(text).replace('\\', "\\\\").replace('"', "\\\""))
}

/// Whether a text names something as a whole word: `vllm` is not named by `vllm-fp8`.
fn names(text: &str, name: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '/');
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let mut after = text[at + name.len()..].chars();
            let next = after.next();
            // A full stop ends a sentence unless the name goes on after it: `redis.conf`.
            let goes_on = next == Some('.') && after.next().is_some_and(char::is_alphanumeric);
            !before.is_some_and(inside) && !next.is_some_and(inside) && !goes_on
        })
}

/// How a statement speaks about a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tone {
    Good,
    Neutral,
    Bad,
}

struct Record<'a> {
    document: &'a DecisionDocument,
    lang: Lang,
    /// Statements that have their place already.
    placed: Vec<&'a str>,
    out: String,
}

impl<'a> Record<'a> {
    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// A heading: MADR's English name, in parentheses after the Chinese one.
    fn heading(&mut self, level: usize, en: &str, zh: &str) {
        let text = self.lang.pick(en.to_owned(), format!("{zh} ({en})"));
        let marks = "#".repeat(level);
        self.line(&format!("\n{marks} {text}\n"));
    }

    fn sentence(&self, statement: &Statement) -> String {
        cite(self.lang.pick(&statement.text, &statement.text_zh), statement)
    }

    fn place(&mut self, statement: &'a Statement) {
        self.placed.push(&statement.id);
    }

    /// The statement that says a sentence.
    fn saying(&self, sentence: &str) -> Option<&'a Statement> {
        let exact =
            self.document.statements.iter().find(|statement| statement.text.trim() == sentence.trim());
        exact.or_else(|| self.document.statements.iter().find(|statement| says(statement, sentence)))
    }

    /// The statement that says what became of a candidate at a gate.
    fn about_gate(&self, candidate: &CandidateResult, gate: &Gate) -> Option<&'a Statement> {
        let of_candidate = |statement: &&'a Statement| {
            let others = self
                .document
                .candidates
                .iter()
                .any(|other| other.name != candidate.name && names(&statement.text, &other.name));
            names(&statement.text, &candidate.name) || !others
        };
        let said: Vec<&'a Statement> = self
            .document
            .statements
            .iter()
            .filter(of_candidate)
            .filter(|statement| says(statement, &gate.reason))
            .collect();
        let exact = said.iter().find(|statement| statement.text.contains(&gate.requirement));
        exact.or(said.first()).copied()
    }

    fn front_matter(&mut self) {
        let document = self.document;
        let accepted = document.verdict.word == Word::Clear && !document.simulated;
        let date = document.decided_at.get(..10).unwrap_or(&document.decided_at).to_owned();
        self.line("---");
        self.line(&format!("status: {}", if accepted { "accepted" } else { "proposed" }));
        self.line(&format!(
            "date: {}",
            if date.bytes().all(|b| b.is_ascii_digit() || b == b'-') { date } else { quoted(&date) }
        ));
        self.line("decision-makers: []");
        self.line("touchstone:");
        for (key, value) in [
            ("format", document.format.as_str()),
            ("id", &document.id),
            ("scenario", &document.scenario),
            ("verdict", document.verdict.word.as_str()),
            ("level", document.level.as_str()),
            ("seal", &document.seal.digest),
            ("sealed-at", &document.seal.sealed_at),
            ("version", &document.touchstone_version),
            ("catalog", &document.catalog_date),
            ("review-by", &document.review_by),
        ] {
            self.line(&format!("  {key}: {}", quoted(value)));
        }
        self.line(&format!("  family: {}", document.family));
        self.line(&format!("  simulated: {}", document.simulated));
        self.line(&format!("  seed: {}", document.seed));
        let candidate = document.verdict.candidate.as_deref().map_or_else(|| "null".to_owned(), quoted);
        self.line(&format!("  candidate: {candidate}"));
        self.line("---");
    }

    fn context(&mut self) {
        let document = self.document;
        let w = self.lang.words();
        let mark = if document.simulated { format!("[{}] ", w.simulated) } else { String::new() };
        let title = self.lang.pick(
            format!("{mark}{} for {}", capital(&headline(document, Lang::En)), document.scenario),
            format!("{mark}{}：{}", document.scenario, headline(document, Lang::Zh)),
        );
        self.line(&format!("\n# {}", escape(&title)));
        if document.simulated {
            self.line(&format!("\n> **{}** {}", escape(w.simulated), escape(w.no_product_measured)));
        }
        self.heading(2, "Context and Problem Statement", "背景与问题");
        if !document.description.trim().is_empty() {
            self.line(&escape(document.description.trim()));
            self.line("");
        }
        let family = words::family(self.lang, document.family);
        let question = self.lang.pick(
            format!(
                "Which {family} candidate serves the scenario {} best, as far as the evidence reaches?",
                code(&document.scenario)
            ),
            format!("在现有证据范围内，哪个{family}候选最适合场景 {}？", code(&document.scenario)),
        );
        self.line(&question);
        // What is said about no candidate in particular belongs here.
        let general: Vec<&'a Statement> = document
            .statements
            .iter()
            .filter(|statement| {
                !document.candidates.iter().any(|candidate| names(&statement.text, &candidate.name))
            })
            .filter(|statement| !self.reserved(statement))
            .collect();
        if !general.is_empty() {
            self.line("");
        }
        for statement in general {
            self.place(statement);
            let sentence = self.sentence(statement);
            self.line(&format!("* {sentence}"));
        }
    }

    /// Whether a statement has its place elsewhere: the verdict, a gate, an advice.
    fn reserved(&self, statement: &Statement) -> bool {
        let document = self.document;
        says(statement, &document.verdict.reason)
            || document.next_measurements.iter().any(|next| says(statement, &next.advice))
            || document
                .candidates
                .iter()
                .flat_map(|candidate| &candidate.gates)
                .any(|gate| says(statement, &gate.reason))
    }

    fn drivers(&mut self) {
        self.heading(2, "Decision Drivers", "决策驱动因素");
        let document = self.document;
        let w = self.lang.words();
        let criteria = reading::criteria_names(document);
        if criteria.is_empty() {
            self.line(w.none);
        }
        for (index, criterion) in criteria.iter().enumerate() {
            let better = match criterion.parse() {
                Ok(Subject::Metric(metric, _)) => Some(metric.better()),
                _ => None,
            };
            let direction = match better {
                Some(Better::Lower) => self.lang.pick("less is better", "越小越好"),
                Some(Better::Higher) => self.lang.pick("more is better", "越大越好"),
                None => "",
            };
            let definition = match criterion.parse() {
                Ok(Subject::Metric(metric, _)) => words::definition(self.lang, metric),
                _ => "",
            };
            let weighted = index < document.ranking.criteria.len();
            let order = if weighted { format!("{}. ", index + 1) } else { "* ".to_owned() };
            let anchors = document.criteria.iter().find(|one| one.metric == *criterion);
            let anchors = anchors.map_or_else(String::new, |one| {
                let (worst, best) = (code(&one.worst), code(&one.best));
                self.lang.pick(
                    format!("; worth 0 at {worst}, 1 at {best}"),
                    format!("；{worst} 时价值为 0，{best} 时为 1"),
                )
            });
            self.line(&format!(
                "{order}{}{}{direction}{anchors}{}{}",
                code(criterion),
                w.colon,
                self.lang.pick("; ", "；"),
                escape(definition)
            ));
        }
        if !document.preference.is_empty() {
            let equal =
                |group: &Vec<String>| group.iter().map(|name| code(name)).collect::<Vec<_>>().join(" = ");
            let order: Vec<String> = document.preference.iter().map(equal).collect();
            let order = order.join(" ≥ ");
            let said =
                self.lang.pick(format!("Order of preference: {order}."), format!("偏好次序：{order}。"));
            self.line(&format!("\n{said}"));
        }
        let sealed = format!("{} ({})", document.seal.sealed_at, number::short_digest(&document.seal.digest));
        let said = self.lang.pick(
            format!(
                "Criteria, anchors, preference order and requirements were sealed {}: {}.",
                if document.seal.before_results {
                    "before any result was shown"
                } else {
                    "only after runs had been made, so results may have bent them"
                },
                code(&sealed)
            ),
            format!(
                "评价标准、锚点、偏好次序与要求{}：{}。",
                if document.seal.before_results {
                    "在结果揭示前已封存"
                } else {
                    "在已有运行之后才封存，可能受结果影响"
                },
                code(&sealed)
            ),
        );
        self.line(&format!("\n{said}"));
    }

    fn constraints(&mut self) {
        self.heading(2, "Constraints", "约束");
        let document = self.document;
        let w = self.lang.words();
        let all = requirements(document);
        if all.is_empty() {
            self.line(w.none);
            return;
        }
        let names: Vec<String> =
            document.candidates.iter().map(|candidate| escape(&candidate.name)).collect();
        self.line(&format!("| {} | {} | {} |", w.requirement, w.kind, names.join(" | ")));
        self.line(&format!("|{}", " --- |".repeat(names.len() + 2)));
        for gate in all {
            let kind = words::gate_kind(self.lang, gate.kind);
            let kind = gate.confidence.map_or_else(
                || kind.to_owned(),
                |confidence| format!("{kind}{}{}", w.comma, number::percent(confidence)),
            );
            let cells: Vec<String> = document
                .candidates
                .iter()
                .map(|candidate| {
                    let Some(found) = gate_of(candidate, gate) else { return number::NONE.to_owned() };
                    let word = words::outcome(self.lang, found.outcome);
                    self.about_gate(candidate, found)
                        .map_or_else(|| word.to_owned(), |statement| format!("{word} [{}]", statement.id))
                })
                .collect();
            self.line(&format!("| {} | {kind} | {} |", code_cell(&gate.requirement), cells.join(" | ")));
        }
    }

    fn options(&mut self) {
        self.heading(2, "Considered Options", "备选方案");
        let document = self.document;
        for candidate in &document.candidates {
            let of = [Some(&candidate.product), candidate.configuration.as_ref(), candidate.version.as_ref()];
            let of: Vec<String> = of.into_iter().flatten().map(|part| escape(part)).collect();
            self.line(&format!("* {} ({})", escape(&candidate.name), of.join(", ")));
        }
        if document.candidates.is_empty() {
            self.line(self.lang.words().none);
        }
    }

    fn outcome(&mut self) {
        self.heading(2, "Decision Outcome", "决策结果");
        let document = self.document;
        let verdict = &document.verdict;
        let word = words::verdict(self.lang, verdict.word);
        let statement = self.saying(&verdict.reason);
        let because = statement.map(|statement| {
            let text = cite(self.lang.pick(&verdict.reason, &verdict.reason_zh), statement);
            self.lang.pick(lower_first(&text), text.clone())
        });
        let lead = match (&verdict.candidate, verdict.word) {
            (Some(name), Word::Clear | Word::Leaning) => self.lang.pick(
                format!("Chosen option: \"{}\"", escape(name)),
                format!("选定方案：“{}”", escape(name)),
            ),
            (Some(name), _) => self.lang.pick(
                format!(
                    "No option is chosen yet ({word}); the one to prefer until more is known: \"{}\"",
                    escape(name)
                ),
                format!("尚未选定方案（{word}）；在获得更多证据之前优先：“{}”", escape(name)),
            ),
            (None, _) => {
                self.lang.pick(format!("No option is chosen ({word})"), format!("未选定方案（{word}）"))
            }
        };
        let text = match because {
            Some(because) => {
                self.lang.pick(format!("{lead}, because {because}"), format!("{lead}，因为{because}"))
            }
            None => self.lang.pick(format!("{lead}."), format!("{lead}。")),
        };
        self.line(&text);
        if let Some(statement) = statement {
            self.place(statement);
        }
        self.line("");
        let level = words::level(self.lang, document.level);
        let said = self.lang.pick(
            format!("Verdict: **{word}**. Weakest load-bearing evidence: **{level}**."),
            format!("结论：**{word}**。最弱的关键证据等级：**{level}**。"),
        );
        self.line(&said);
        self.consequences();
        self.heading(3, "Confirmation", "确认");
        let said = self.lang.pick(
            "Recompute the decision from its recorded evidence, in this record's folder; the same evidence and seed give the same verdict, byte for byte:",
            "在本记录所在目录中，根据已记录的证据重新计算本决策；相同的证据与随机种子得到逐字节一致的结论：",
        );
        self.line(&format!("{said}\n\n```sh\ntouchstone decide .\n```"));
    }

    fn consequences(&mut self) {
        self.heading(3, "Consequences", "后果");
        let document = self.document;
        let mut any = false;
        let chosen = document
            .candidates
            .iter()
            .find(|candidate| Some(&candidate.name) == document.verdict.candidate.as_ref());
        for (tone, statement) in chosen.map(|candidate| self.about(candidate)).unwrap_or_default() {
            self.because(tone, statement);
            any = true;
        }
        for next in &document.next_measurements {
            if let Some(statement) = self.saying(&next.advice) {
                self.place(statement);
                let sentence = cite(self.lang.pick(&next.advice, &next.advice_zh), statement);
                self.line(&format!(
                    "* {}{}{sentence}",
                    self.tone(Tone::Neutral),
                    self.lang.pick(", still to be measured: ", "，仍需测量：")
                ));
                any = true;
            }
        }
        if !any {
            self.line(&format!("* {}", self.lang.words().none));
        }
    }

    fn tone(&self, tone: Tone) -> &'static str {
        match tone {
            Tone::Good => self.lang.pick("Good", "优点 (Good)"),
            Tone::Neutral => self.lang.pick("Neutral", "中性 (Neutral)"),
            Tone::Bad => self.lang.pick("Bad", "缺点 (Bad)"),
        }
    }

    fn because(&mut self, tone: Tone, statement: &Statement) {
        let (sentence, tone) = (self.sentence(statement), self.tone(tone));
        let line = self
            .lang
            .pick(format!("* {tone}, because {}", lower_first(&sentence)), format!("* {tone}：{sentence}"));
        self.line(&line);
    }

    /// The statements about this candidate alone, with the tone in which each speaks; the verdict's is not among them.
    fn about(&self, candidate: &'a CandidateResult) -> Vec<(Tone, &'a Statement)> {
        let document = self.document;
        let mut out: Vec<(Tone, &'a Statement)> = document
            .statements
            .iter()
            .filter(|statement| names(&statement.text, &candidate.name))
            .filter(|statement| {
                !document
                    .candidates
                    .iter()
                    .any(|other| other.name != candidate.name && names(&statement.text, &other.name))
            })
            .filter(|statement| !says(statement, &document.verdict.reason))
            .filter(|statement| !document.next_measurements.iter().any(|next| says(statement, &next.advice)))
            .map(|statement| (self.tone_of(candidate, statement), statement))
            .collect();
        // Gates whose statement does not name the candidate.
        for gate in &candidate.gates {
            if let Some(statement) = self.about_gate(candidate, gate)
                && !out.iter().any(|(_, known)| known.id == statement.id)
                && !says(statement, &document.verdict.reason)
                && !names_any(document, &statement.text)
            {
                out.push((tone_of_gate(gate), statement));
            }
        }
        out.sort_by_key(|(tone, _)| *tone);
        out
    }

    fn tone_of(&self, candidate: &CandidateResult, statement: &Statement) -> Tone {
        let told = |gate: &&Gate| says(statement, &gate.reason) && statement.text.contains(&gate.requirement);
        let told: Vec<Tone> = candidate.gates.iter().filter(told).map(tone_of_gate).collect();
        match told.iter().max() {
            // Neutral is worse than good, but a rule that does not apply takes nothing from gates that pass.
            Some(Tone::Neutral) if told.contains(&Tone::Good) && all_pass(candidate) => return Tone::Good,
            Some(worst) => return *worst,
            None => {}
        }
        // A figure of a criterion is good when it is the best among the contenders, bad when it is the worst.
        for (criterion, result) in &candidate.criteria {
            let Some(worth) = result.worth.filter(|_| statement.text.contains(criterion.as_str())) else {
                continue;
            };
            let rivals: Vec<f64> = self
                .document
                .candidates
                .iter()
                .filter(|other| other.status == Status::Contender && other.name != candidate.name)
                .filter_map(|other| other.criteria.get(criterion)?.worth)
                .collect();
            if !rivals.is_empty() && rivals.iter().all(|rival| *rival < worth) {
                return Tone::Good;
            }
            if !rivals.is_empty() && rivals.iter().all(|rival| *rival > worth) {
                return Tone::Bad;
            }
        }
        Tone::Neutral
    }

    fn pros_and_cons(&mut self) {
        self.heading(2, "Pros and Cons of the Options", "各方案的优缺点");
        let document = self.document;
        for (index, candidate) in document.candidates.iter().enumerate() {
            if index > 0 {
                self.line("");
            }
            self.line(&format!("### {}\n", escape(&candidate.name)));
            let status = words::status(self.lang, candidate.status);
            let level = candidate
                .level
                .map_or_else(|| number::NONE.to_owned(), |level| words::level(self.lang, level));
            let mark = if candidate.simulated {
                format!("{}**{}**", self.lang.words().comma, self.lang.words().simulated)
            } else {
                String::new()
            };
            let said = self.lang.pick(
                format!("Status: {status}; evidence level: {level}{mark}"),
                format!("状态：{status}；证据等级：{level}{mark}"),
            );
            self.line(&format!("{said}\n"));
            for (tone, statement) in self.about(candidate) {
                self.place(statement);
                self.because(tone, statement);
            }
        }
    }

    fn robustness(&mut self) {
        self.heading(2, "Robustness", "稳健性");
        let document = self.document;
        let w = self.lang.words();
        // What compares candidates with each other, flips, and whatever has no place yet.
        let rest: Vec<&'a Statement> = document
            .statements
            .iter()
            .filter(|statement| !self.placed.contains(&statement.id.as_str()))
            .collect();
        for statement in rest {
            self.place(statement);
            let sentence = self.sentence(statement);
            self.line(&format!("* {sentence}"));
        }
        let ranking = &document.ranking;
        if ranking.contenders.is_empty() {
            self.line(&format!("\n{}", w.no_contender));
            return;
        }
        let draws = number::count(u64::from(ranking.draws));
        let said = self.lang.pick(
            format!("\nShares of {draws} draws (seed {}), computed from the evidence below by the method of touchstone {}:\n", document.seed, escape(&document.touchstone_version)),
            format!("\n{draws} 次抽样（随机种子 {}）中的占比，由 touchstone {} 依据下列证据计算：\n", document.seed, escape(&document.touchstone_version)),
        );
        self.line(&said);
        let beats: Vec<String> =
            ranking.contenders.iter().map(|name| format!("{} {}", w.beats, escape(name))).collect();
        self.line(&format!("| {} | {} | {} | {} |", w.contenders, w.first_rank, beats.join(" | "), w.regret));
        self.line(&format!("| --- |{}", " ---: |".repeat(beats.len() + 2)));
        for (row, name) in ranking.contenders.iter().enumerate() {
            let cells: Vec<String> = (0..beats.len())
                .map(|column| {
                    if row == column {
                        return number::NONE.to_owned();
                    }
                    let (wins, robust) = (&ranking.pairwise, &ranking.robust);
                    format!("{} ({})", number::share(wins, row, column), number::share(robust, row, column))
                })
                .collect();
            let first = number::share(&ranking.acceptability, row, 0);
            let regret = number::listed(&ranking.regret_p95, row);
            self.line(&format!("| {} | {first} | {} | {regret} |", escape(name), cells.join(" | ")));
        }
        self.line(&format!("\n{}", w.robust_in_parentheses));
    }

    fn more_information(&mut self) {
        self.heading(2, "More Information", "更多信息");
        let document = self.document;
        let w = self.lang.words();
        let review = self.lang.pick(
            format!("To be reviewed by {}.", escape(&document.review_by)),
            format!("复审日期：{}。", escape(&document.review_by)),
        );
        self.line(&review);
        let explain = code(&format!("touchstone explain {} s1", document.id));
        let said = self.lang.pick(
            format!("Each statement unfolds down to its evidence with {explain}."),
            format!("每条陈述都可用 {explain} 展开到其证据。"),
        );
        self.line(&format!("{said}\n"));
        let head = self.lang.pick("Statements:", "陈述：");
        self.line(&format!("{head}\n"));
        for statement in &document.statements {
            let digests: Vec<String> =
                statement.evidence.iter().map(|digest| code(&number::short_digest(digest))).collect();
            let sentence = self.sentence(statement);
            self.line(&format!("* <a id=\"{}\"></a>{sentence}: {}", statement.id, digests.join(" ")));
        }
        let head = self.lang.pick("Evidence:", "证据：");
        self.line(&format!("\n{head}\n"));
        self.line(&format!("| {} | {} | {} | {} | {} |", w.digest, w.kind, w.level, w.label, w.path));
        self.line("| --- | --- | --- | --- | --- |");
        for entry in &document.evidence {
            let mark = if entry.simulated { format!("{}{}", w.comma, w.simulated) } else { String::new() };
            self.line(&format!(
                "| {} | {} | {}{mark} | {} | {} |",
                code_cell(&number::short_digest(&entry.digest)),
                escape(&entry.kind),
                words::level(self.lang, entry.level),
                escape(&entry.label),
                code_cell(&entry.path)
            ));
        }
        self.line("");
        for statement in &document.statements {
            self.out.push_str(&format!("[{0}]: #{0}\n", statement.id));
        }
    }
}

/// A text that a statement says, with the statement's id after it.
fn cite(text: &str, statement: &Statement) -> String {
    format!("{} [{}]", prose(text.trim()), statement.id)
}

fn names_any(document: &DecisionDocument, text: &str) -> bool {
    document.candidates.iter().any(|candidate| names(text, &candidate.name))
}

fn all_pass(candidate: &CandidateResult) -> bool {
    candidate.gates.iter().all(|gate| gate.outcome == Outcome::Pass)
}

fn tone_of_gate(gate: &Gate) -> Tone {
    match (gate.outcome, gate.kind) {
        (Outcome::Pass, GateKind::Semantic | GateKind::Statistical) => Tone::Good,
        (Outcome::Pass, GateKind::Rule) | (Outcome::Undetermined, _) => Tone::Neutral,
        (Outcome::Fail, _) => Tone::Bad,
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A sentence inside another: its first letter small, unless it is a name or an abbreviation.
fn lower_first(text: &str) -> String {
    let first = text.split(' ').next().unwrap_or_default();
    if matches!(
        first,
        "The" | "No" | "In" | "It" | "A" | "An" | "At" | "Against" | "Neither" | "None" | "Every" | "Only"
    ) {
        let mut chars = text.chars();
        chars.next().map_or_else(String::new, |c| c.to_lowercase().chain(chars).collect())
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests;
