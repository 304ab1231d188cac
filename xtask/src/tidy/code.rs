//! Rules for single Rust files.

use super::Violation;
use super::layers;
use super::source::{code_only, find_words, line_of, without_tests};

/// A reader's limit; a longer file is worth a look.
const LONG: usize = 800;
/// No source file may be longer.
const TOO_LONG: usize = 900;
/// Tests are read one at a time.
const TEST_TOO_LONG: usize = 1500;

/// What a pure crate must not reach for, and what to do instead.
const IMPURE: &[(&str, &str)] = &[
    ("std::fs", "take the bytes as an argument"),
    ("std::env", "take the value as an argument"),
    ("std::net", "sockets belong to the runner and above"),
    ("std::thread", "threads belong to the runner and above"),
    ("std::process", "processes belong to the crates above"),
    ("std::os", "the operating system belongs to the crates above"),
    ("Instant::now", "take the instant as an argument"),
    ("SystemTime::now", "take the time as an argument"),
];

/// What only the binary may do.
const TERMINAL: &[&str] =
    &["println!", "print!", "eprintln!", "eprint!", "dbg!", "process::exit", "io::stdout", "io::stderr"];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc"];

/// All rules for the file at `path`, relative to the workspace.
pub(super) fn check(path: &str, content: &str) -> Vec<Violation> {
    let code = code_only(content);
    let mut violations: Vec<Violation> = check_length(path, content).into_iter().collect();
    violations.extend(check_leftovers(path, &code, content));
    violations.extend(check_name(path));
    if is_test_file(path) || is_beside_the_crate(path) {
        return violations;
    }
    let product = without_tests(&code);
    let owner = owner(path);
    if owner.is_some_and(layers::is_pure) {
        violations.extend(check_purity(path, &product));
    }
    if !owner.is_some_and(layers::may_print) {
        violations.extend(check_terminal(path, &product));
    }
    violations
}

/// A crate's root file must begin with its documentation.
pub(super) fn check_crate_docs(path: &str, content: &str) -> Option<Violation> {
    let documented =
        content.lines().find(|line| !line.trim().is_empty()).is_some_and(|line| line.starts_with("//!"));
    let advice = "begin with `//!`: purpose, what it deliberately does not do, main types";
    (!documented).then(|| Violation::new(path, 1, "crate-docs", advice))
}

/// The crate a path belongs to.
fn owner(path: &str) -> Option<&str> {
    match path.split('/').collect::<Vec<_>>()[..] {
        ["crates", name, ..] | [name @ "xtask", ..] => Some(name),
        _ => None,
    }
}

/// Files that are compiled for tests only.
fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs" || part == "benches")
}

/// Examples, and build scripts, which read files and print to cargo by their nature: none is part of the crate.
fn is_beside_the_crate(path: &str) -> bool {
    path.split('/').any(|part| part == "examples") || (path.ends_with("/build.rs") && !path.contains("/src/"))
}

fn check_length(path: &str, content: &str) -> Option<Violation> {
    let lines = content.lines().count();
    let limit = if is_test_file(path) { TEST_TOO_LONG } else { TOO_LONG };
    let advice = format!("{lines} lines; find a natural seam and split (limit {limit})");
    let mut violation = Violation::new(path, 1, "file-length", advice);
    violation.warning = lines <= limit;
    (lines > limit || (lines > LONG && !is_test_file(path))).then_some(violation)
}

fn check_leftovers(path: &str, code: &str, content: &str) -> Vec<Violation> {
    // Spelled in two parts so that this file does not report itself.
    let in_code = [concat!("to", "do!"), concat!("unimplemented", "!"), concat!("#[", "ignore")];
    let anywhere = [concat!("FIX", "ME"), concat!("XX", "X")];
    let mut violations = Vec::new();
    for (text, needles) in [(code, &in_code[..]), (content, &anywhere[..])] {
        for needle in needles {
            for at in find_words(text, needle) {
                let advice = format!("`{needle}` is unfinished work: finish it or open an issue");
                violations.push(Violation::new(path, line_of(text, at), "unfinished", advice));
            }
        }
    }
    violations
}

fn check_name(path: &str) -> Option<Violation> {
    let empty = path.split('/').find(|part| EMPTY_NAMES.contains(&part.trim_end_matches(".rs")))?;
    Some(Violation::new(
        path,
        1,
        "module-name",
        format!("`{empty}` says nothing: name it after what it holds"),
    ))
}

fn check_purity(path: &str, product: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut report = |at: usize, what: &str, advice: &str| {
        violations.push(Violation::new(
            path,
            line_of(product, at),
            "purity",
            format!("no `{what}` here: {advice}"),
        ));
    };
    for (needle, advice) in IMPURE {
        for at in find_words(product, needle) {
            report(at, needle, advice);
        }
    }
    // The same written as a group: `use std::{collections::BTreeMap, fs}`.
    for (start, _) in product.match_indices("std::{") {
        for (at, item) in group_items(product, start + "std::{".len()) {
            let head: String = item.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let path = format!("std::{head}");
            if let Some((needle, advice)) = IMPURE.iter().find(|(needle, _)| *needle == path) {
                report(at, needle, advice);
            }
        }
    }
    violations
}

/// The comma-separated items of a `use` group whose text starts at `start`, with their offsets.
fn group_items(code: &str, start: usize) -> Vec<(usize, &str)> {
    let mut items = Vec::new();
    let mut depth = 0_usize;
    let mut from = start;
    for (offset, c) in code[start..].char_indices() {
        let at = start + offset;
        let ends = depth == 0 && matches!(c, ',' | '}');
        if ends {
            let item = &code[from..at];
            items.push((from + item.len() - item.trim_start().len(), item.trim()));
            from = at + 1;
            if c == '}' {
                break;
            }
        }
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    items
}

fn check_terminal(path: &str, product: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for needle in TERMINAL {
        for at in find_words(product, needle) {
            let advice = format!("`{needle}`: only the binary prints or exits; return it instead");
            violations.push(Violation::new(path, line_of(product, at), "terminal", advice));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::brief;

    const PURE: &str = "crates/touchstone-stats/src/lib.rs";
    const IMPURE_CRATE: &str = "crates/touchstone-runner/src/lib.rs";

    #[track_caller]
    fn check_file(path: &str, content: &str, expected: &[(&str, usize)]) {
        assert_eq!(brief(&check(path, content)), expected);
    }

    #[test]
    fn purity_holds_in_pure_crates_only() {
        let content = "fn f() {\n std::fs::read(x);\n let t = Instant::now();\n}";
        check_file(PURE, content, &[("purity", 2), ("purity", 3)]);
        check_file(IMPURE_CRATE, content, &[]);
    }

    #[test]
    fn purity_sees_groups() {
        let content = "use std::{\n collections::{BTreeMap, BTreeSet},\n fs,\n env::var, time::Duration,\n};";
        check_file(PURE, content, &[("purity", 3), ("purity", 4)]);
        check_file(PURE, "use std::{collections::BTreeMap, fmt};", &[]);
    }

    #[test]
    fn purity_leaves_tests_comments_and_strings_alone() {
        check_file(
            PURE,
            "// std::fs\nconst A: &str = \"std::env\";\n#[cfg(test)]\nmod tests { use std::fs; }",
            &[],
        );
        check_file("crates/touchstone-stats/tests/files.rs", "use std::fs;", &[]);
        check_file("crates/touchstone-stats/src/bounds/tests.rs", "use std::fs;", &[]);
    }

    #[test]
    fn only_the_binary_prints_and_exits() {
        let content = "fn f() {\n println!();\n std::process::exit(1);\n write!(std::io::stderr(), \"\");\n}";
        check_file(IMPURE_CRATE, content, &[("terminal", 2), ("terminal", 3), ("terminal", 4)]);
        check_file("crates/touchstone/src/main.rs", content, &[]);
        check_file("xtask/src/main.rs", content, &[]);
        check_file("crates/touchstone-runner/examples/probe.rs", content, &[]);
        check_file("crates/touchstone-stats/examples/probe.rs", content, &[]);
        check_file("crates/touchstone-stats/build.rs", content, &[]);
        let found = [("terminal", 2), ("terminal", 3), ("terminal", 4)];
        check_file("crates/touchstone-runner/src/build.rs", content, &found);
        check_file("crates/touchstone-runner/tests/probe.rs", content, &[]);
    }

    #[test]
    fn long_files_are_warned_about_and_longer_ones_refused() {
        let verdict = |path: &str, lines: usize| {
            check(path, &"\n".repeat(lines)).first().map(|violation| (violation.rule, violation.warning))
        };
        assert_eq!(verdict(PURE, 800), None);
        assert_eq!(verdict(PURE, 801), Some(("file-length", true)));
        assert_eq!(verdict(PURE, 900), Some(("file-length", true)));
        assert_eq!(verdict(PURE, 901), Some(("file-length", false)));
        assert_eq!(verdict("crates/touchstone/tests/cli.rs", 1500), None);
        assert_eq!(verdict("crates/touchstone/tests/cli.rs", 1501), Some(("file-length", false)));
    }

    #[test]
    fn unfinished_work_is_found_in_code_and_in_comments() {
        let content =
            "fn f() { TODO!() }\n// FIX_ME later\n#[IGNORE]\nUNIMPLEMENTED!();\nlet s = \"TODO!()\";"
                .replace("TODO", "todo")
                .replace("FIX_ME", concat!("FIX", "ME"))
                .replace("IGNORE", "ignore")
                .replace("UNIMPLEMENTED", "unimplemented");
        let mut found = brief(&check(PURE, &content));
        found.sort_unstable();
        assert_eq!(found, [("unfinished", 1), ("unfinished", 2), ("unfinished", 3), ("unfinished", 4)]);
    }

    #[test]
    fn empty_names_are_refused() {
        check_file("crates/touchstone-net/src/utils.rs", "", &[("module-name", 1)]);
        check_file("crates/touchstone-net/src/common/mod.rs", "", &[("module-name", 1)]);
        check_file("crates/touchstone-net/src/commonplace.rs", "", &[]);
    }

    #[test]
    fn a_crate_begins_with_its_docs() {
        assert_eq!(check_crate_docs("a", "//! Purpose.\n"), None);
        assert_eq!(check_crate_docs("a", "\n//! Purpose.\n"), None);
        assert!(check_crate_docs("a", "// No.\n//! Late.\n").is_some());
        assert!(check_crate_docs("a", "").is_some());
    }
}
