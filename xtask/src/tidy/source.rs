//! Just enough Rust to tell code from comments, literals and tests.

/// The source with comments and the contents of literals blanked out; every line keeps its number.
pub(super) fn code_only(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut previous = ' ';
    while let Some(next) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| literal(rest, previous)).unwrap_or(0);
        if skipped > 0 {
            blank(&rest[..skipped], &mut out);
            rest = &rest[skipped..];
            previous = ' ';
        } else {
            out.push(next);
            rest = &rest[next.len_utf8()..];
            previous = next;
        }
    }
    out
}

fn blank(text: &str, out: &mut String) {
    out.extend(text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
}

/// The length of the comment at the start of `text`, if there is one.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    Some(text.len())
}

/// The length of the string or character literal at the start of `text`, if there is one.
fn literal(text: &str, previous: char) -> Option<usize> {
    if text.starts_with('"') {
        return Some(quoted(text, '"'));
    }
    if let Some(rest) = text.strip_prefix('\'') {
        let mut following = rest.chars();
        let first = following.next()?;
        // 'a' is a character, 'a is a lifetime.
        return (first == '\\' || following.next() == Some('\'')).then(|| quoted(text, '\''));
    }
    let starts_word = !(previous.is_alphanumeric() || previous == '_');
    let raw =
        ["r", "br", "cr"].into_iter().find_map(|prefix| text.strip_prefix(prefix)).filter(|_| starts_word)?;
    let hashes = raw.len() - raw.trim_start_matches('#').len();
    raw[hashes..].starts_with('"').then_some(())?;
    let end = format!("\"{}", &raw[..hashes]);
    let body = text.len() - raw.len() + hashes + 1;
    Some(text[body..].find(&end).map_or(text.len(), |at| body + at + end.len()))
}

/// The length of a literal that begins and ends with `mark`, escapes considered.
fn quoted(text: &str, mark: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == mark => return at + mark.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Code (already without comments and literals) with every item under `#[cfg(test)]` blanked out.
pub(super) fn without_tests(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) =
        ["#[cfg(test)]", "#[cfg(all(test"].into_iter().filter_map(|mark| rest.find(mark)).min()
    {
        out.push_str(&rest[..at]);
        let length = item_length(&rest[at..]);
        blank(&rest[at..at + length], &mut out);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out
}

/// The length of the item at the start of `code`, attributes included: up to a `;` or the end of its braces.
fn item_length(code: &str) -> usize {
    let mut depth = 0_usize;
    let mut brackets = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && brackets == 0 {
                    // A `use` with a group still has its semicolon.
                    return at + 1 + usize::from(code[at + 1..].starts_with(';'));
                }
            }
            ';' if depth == 0 && brackets == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Where `needle` stands as whole words: the byte offset of each place.
pub(super) fn find_words<'a>(code: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(needle).map(|(at, _)| at).filter(move |&at| {
        let before = code[..at].ends_with(is_word);
        let after = needle.ends_with(is_word) && code[at + needle.len()..].starts_with(is_word);
        !before && !after
    })
}

/// The line, from 1, of a byte offset.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &str) {
        let code = code_only(source);
        let squeezed: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(squeezed.join(" "), expected);
        assert_eq!(code.matches('\n').count(), source.matches('\n').count());
    }

    #[test]
    fn comments_go() {
        check("a // b\nc /* d /* e\n */ f */ g //! h", "a c g");
        check("a / b /* open", "a / b");
    }

    #[test]
    fn literals_go_and_lifetimes_stay() {
        check(r#"f("a \" b // c", 'x', '\'', '"') // d"#, "f( , , , )");
        check("r#\"a \" b\"# x br\"\\\" y", "x y");
        check(
            "fn f<'a>(x: &'a str) -> &'static str { var\"s\" }",
            "fn f<'a>(x: &'a str) -> &'static str { var }",
        );
    }

    #[test]
    fn tests_go() {
        let code = "a();\n#[cfg(test)]\n#[derive(X)]\nmod tests {\n fn b() { c(); }\n}\nd();";
        let left = without_tests(code);
        assert_eq!(left.split_whitespace().collect::<String>(), "a();d();");
        assert_eq!(line_of(&left, left.find("d()").unwrap()), 7);
        assert_eq!(without_tests("#[cfg(test)] use x::{a, b};y").trim(), "y");
        assert_eq!(without_tests("#[cfg(test)] mod tests;y").trim(), "y");
        assert_eq!(without_tests("#[cfg(test)] fn f(a: [u8; 2]) { b }y").trim(), "y");
    }

    #[test]
    fn words_are_whole() {
        let found = |code, needle| find_words(code, needle).collect::<Vec<_>>();
        assert_eq!(found("std::fs std::fs_ xstd::fs std::fs::read", "std::fs"), [0, 26]);
        assert_eq!(found("print!(eprint!(", "print!"), [0]);
    }
}
