//! Makes output comparable between runs: what differs from run to run or from machine to machine is replaced by a
//! name in square brackets. Only what was asked for is replaced, so a snapshot still shows every other number.

use std::path::Path;

/// Which parts of a text to replace. Replacements happen in a fixed order: paths, times, ids, ports, rates, durations.
///
/// ```
/// use touchstone_testkit::Redactor;
/// let redactor = Redactor::new().ports().durations();
/// assert_eq!(redactor.apply("127.0.0.1:6379 in 1.2ms"), "127.0.0.1:[PORT] in [DURATION]");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    paths: Vec<(String, String)>,
    times: bool,
    ids: bool,
    ports: bool,
    durations: bool,
    rates: bool,
}

impl Redactor {
    /// Replaces nothing yet.
    pub fn new() -> Redactor {
        Redactor::default()
    }

    /// Replaces everything this type knows, and `dir` by `[DIR]`.
    pub fn all(dir: &Path) -> Redactor {
        Redactor::new().path(dir, "DIR").times().ids().ports().durations().rates()
    }

    /// Replaces a path, and its canonical form, by `[name]`.
    #[must_use]
    pub fn path(mut self, path: &Path, name: &str) -> Redactor {
        let replacement = format!("[{name}]");
        // The canonical form may contain the other one (`/private/tmp/x`), so it goes first.
        if let Ok(canonical) = path.canonicalize() {
            self.paths.push((canonical.display().to_string(), replacement.clone()));
        }
        self.paths.push((path.display().to_string(), replacement));
        self
    }

    /// Replaces instants as `2026-01-31T09:00:00Z` by `[TIME]`; the part after the seconds and the zone are optional.
    #[must_use]
    pub fn times(mut self) -> Redactor {
        self.times = true;
        self
    }

    /// Replaces by `[ID]`: words of eight or more hexadecimal digits, `sha256:` left in front, and words of 26
    /// upper-case letters and digits (ULID). A word of decimal digits only is a number and stays.
    #[must_use]
    pub fn ids(mut self) -> Redactor {
        self.ids = true;
        self
    }

    /// Replaces the port after a loopback host by `[PORT]`.
    #[must_use]
    pub fn ports(mut self) -> Redactor {
        self.ports = true;
        self
    }

    /// Replaces a number with a unit of time (`1.5ms`, `3 s`, `2min`) by `[DURATION]`.
    #[must_use]
    pub fn durations(mut self) -> Redactor {
        self.durations = true;
        self
    }

    /// Replaces a number per second (`48.2/s`, `120 tok/s`) by `[RATE]`.
    #[must_use]
    pub fn rates(mut self) -> Redactor {
        self.rates = true;
        self
    }

    /// The text with all that was asked for replaced.
    pub fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (path, name) in &self.paths {
            text = text.replace(path, name);
        }
        let scanners: [(bool, Scanner); 5] = [
            (self.times, scan_time),
            (self.ids, scan_id),
            (self.ports, scan_port),
            (self.rates, scan_rate),
            (self.durations, scan_duration),
        ];
        for (wanted, scanner) in scanners {
            if wanted {
                text = replace_all(&text, scanner);
            }
        }
        text
    }
}

/// Looks at the start of a text, at a word boundary; tells how many bytes to replace by what.
type Scanner = fn(&str) -> Option<(usize, String)>;

fn replace_all(text: &str, scanner: Scanner) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut boundary = true;
    while let Some(next) = rest.chars().next() {
        if boundary && let Some((length, replacement)) = scanner(rest) {
            out.push_str(&replacement);
            rest = &rest[length..];
            boundary = false;
            continue;
        }
        out.push(next);
        rest = &rest[next.len_utf8()..];
        boundary = !is_word(next) && next != '.';
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn ends_word(rest: &str) -> bool {
    !rest.chars().next().is_some_and(is_word)
}

fn leading(text: &str, accepts: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|&byte| accepts(byte)).count()
}

/// The length of a decimal number with optional fraction, thousands separators allowed; 0 when there is none.
fn number(text: &str) -> usize {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    let whole = leading(text, |b| b.is_ascii_digit() || b == b',' || b == b'_');
    let fraction = text[whole..].strip_prefix('.').map_or(0, |rest| leading(rest, |b| b.is_ascii_digit()));
    if fraction > 0 { whole + 1 + fraction } else { whole }
}

fn scan_duration(text: &str) -> Option<(usize, String)> {
    const UNITS: [&str; 9] = ["ns", "µs", "us", "ms", "min", "s", "m", "h", "d"];
    let digits = number(text);
    let after = text.get(digits..).filter(|_| digits > 0)?;
    let space = usize::from(after.starts_with(' '));
    let after = &after[space..];
    let unit = UNITS.into_iter().find(|unit| after.strip_prefix(unit).is_some_and(ends_word))?;
    // "3 d" or "5 m" with a space is too easily something else.
    if space > 0 && matches!(unit, "m" | "h" | "d") {
        return None;
    }
    Some((digits + space + unit.len(), "[DURATION]".to_owned()))
}

fn scan_rate(text: &str) -> Option<(usize, String)> {
    let digits = number(text);
    let after = text.get(digits..).filter(|_| digits > 0)?;
    let space = usize::from(after.starts_with(' '));
    let noun = leading(&after[space..], |b| b.is_ascii_alphabetic());
    let rest = after[space + noun..].strip_prefix("/s")?;
    ends_word(rest).then(|| (digits + space + noun + 2, "[RATE]".to_owned()))
}

fn scan_time(text: &str) -> Option<(usize, String)> {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let bytes = text.as_bytes();
    let fits = bytes.len() >= SHAPE.len()
        && SHAPE.iter().zip(bytes).all(|(shape, byte)| match shape {
            b'0' => byte.is_ascii_digit(),
            b'T' => matches!(byte, b'T' | b' '),
            _ => byte == shape,
        });
    if !fits {
        return None;
    }
    let mut length = SHAPE.len();
    if let Some(rest) = text[length..].strip_prefix('.') {
        length += 1 + leading(rest, |b| b.is_ascii_digit());
    }
    let zone = &text[length..];
    if zone.starts_with('Z') {
        length += 1;
    } else if zone.starts_with(['+', '-']) {
        length += 1 + leading(&zone[1..], |b| b.is_ascii_digit() || b == b':');
    }
    Some((length, "[TIME]".to_owned()))
}

fn scan_id(text: &str) -> Option<(usize, String)> {
    let word = leading(text, |b| b.is_ascii_alphanumeric());
    let bytes = &text.as_bytes()[..word];
    let hexadecimal = word >= 8
        && bytes.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        && bytes.iter().any(u8::is_ascii_digit)
        && !bytes.iter().all(u8::is_ascii_digit);
    let ulid = word == 26 && bytes.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    ((hexadecimal || ulid) && ends_word(&text[word..])).then(|| (word, "[ID]".to_owned()))
}

fn scan_port(text: &str) -> Option<(usize, String)> {
    let host = ["127.0.0.1:", "localhost:", "[::1]:"].into_iter().find(|host| text.starts_with(host))?;
    let digits = leading(&text[host.len()..], |b| b.is_ascii_digit());
    (digits > 0).then(|| (host.len() + digits, format!("{host}[PORT]")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(redactor: &Redactor, text: &str, expected: &str) {
        assert_eq!(redactor.apply(text), expected);
    }

    #[test]
    fn durations() {
        let redactor = Redactor::new().durations();
        check(
            &redactor,
            "p99 12.5ms, 3 s, 1,200 us, 40µs",
            "p99 [DURATION], [DURATION], [DURATION], [DURATION]",
        );
        check(&redactor, "10s/0.5min", "[DURATION]/[DURATION]");
        check(&redactor, "v1.2s2 50/s 3 stages p50ms 5 m", "v1.2s2 50/s 3 stages p50ms 5 m");
    }

    #[test]
    fn rates() {
        let redactor = Redactor::new().rates();
        check(&redactor, "offered 50/s, 48.25 /s, 1200 tok/s", "offered [RATE], [RATE], [RATE]");
        check(&redactor, "3/sec 10s/s/x", "3/sec [RATE]/x");
    }

    #[test]
    fn ids() {
        let redactor = Redactor::new().ids();
        check(&redactor, "run 01JD8Z4V7Q2M5X9K3T6W1R0PBN.", "run [ID].");
        check(&redactor, "sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f9", "sha256:[ID]");
        check(&redactor, "12345678 deadbeef 0a1b2c3 face1234g", "12345678 deadbeef 0a1b2c3 face1234g");
    }

    #[test]
    fn times() {
        let redactor = Redactor::new().times();
        check(&redactor, "at 2026-01-31T09:00:00.123Z; 2026-01-31 09:00:00+01:00!", "at [TIME]; [TIME]!");
        check(&redactor, "2026-01-31 is a date", "2026-01-31 is a date");
    }

    #[test]
    fn ports_and_paths() {
        let dir = tempfile::tempdir().unwrap();
        let redactor = Redactor::all(dir.path());
        check(&redactor, "http://127.0.0.1:40123/v1", "http://127.0.0.1:[PORT]/v1");
        check(&redactor, &format!("wrote {}/a.html", dir.path().display()), "wrote [DIR]/a.html");
        check(&redactor, "10.0.0.1:80 ratio 3:4", "10.0.0.1:80 ratio 3:4");
    }

    #[test]
    fn nothing_is_replaced_unasked() {
        let text = "127.0.0.1:1 5ms 50/s 2026-01-31T09:00:00Z 0a1b2c3d4";
        check(&Redactor::new(), text, text);
    }
}
