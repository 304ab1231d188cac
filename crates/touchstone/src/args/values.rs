//! Single values as people type them, read into the types of the model.
//!
//! Each function fits clap's `value_parser`. Error texts name what was expected; the causes of an error are joined,
//! because clap shows one line.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use touchstone_load::Timeouts;
use touchstone_model::requirement::Limit;
use touchstone_model::scenario::{Candidate, Criterion};
use touchstone_model::unit::{Bytes, Millis, Share, significant};
use touchstone_model::{Arrival, Better, Length, Quantity, Requirement, Subject, Target};
use touchstone_workload::requests::PrefixGroups;

/// Where data goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sink {
    /// `-`: standard output.
    Stdout,
    /// A file, which is replaced.
    File(PathBuf),
}

/// The error with its causes in one line.
fn flat(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

/// `-` or a path.
pub(super) fn sink(text: &str) -> Result<Sink, String> {
    match text {
        "" => Err("the path is empty".to_owned()),
        "-" => Ok(Sink::Stdout),
        path => Ok(Sink::File(PathBuf::from(path))),
    }
}

/// `10s`, `200ms`: at least a microsecond, at most 30 days.
pub(super) fn length(text: &str) -> Result<Millis, String> {
    let millis = duration(text)?;
    if millis.0 < 0.001 { Err(format!("`{text}` is too short; expected at least 1us")) } else { Ok(millis) }
}

/// A positive number, such as a greatest level.
pub(super) fn positive(text: &str) -> Result<f64, String> {
    match text.trim().trim_end_matches("/s").parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(format!("`{text}` is no positive number")),
    }
}

/// A warm-up: of a fixed length, or until the target is steady.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum WarmUp {
    /// So long.
    Fixed(Millis),
    /// Until it is steady, at most so long.
    Auto(Millis),
}

/// `2s`, `auto`, `auto:5min`.
pub(super) fn warm_up(text: &str) -> Result<WarmUp, String> {
    match text.trim().split_once(':') {
        None if text.trim() == "auto" => Ok(WarmUp::Auto(Millis(60_000.0))),
        Some(("auto", at_most)) => length(at_most).map(WarmUp::Auto),
        _ => duration(text).map(WarmUp::Fixed),
    }
}

/// `10s`, `0s`: at most 30 days.
pub(super) fn duration(text: &str) -> Result<Millis, String> {
    // `0` needs no unit to be understood.
    let millis = if text.trim() == "0" {
        Millis(0.0)
    } else {
        text.parse::<Millis>().map_err(|error| flat(&error))?
    };
    if millis.0 > 30.0 * 86_400e3 {
        Err(format!("`{text}` is too long; expected at most 30d"))
    } else {
        Ok(millis)
    }
}

/// `64`, `64B`, `4KiB`: a size in bytes that fits 32 bits.
pub(crate) fn size(text: &str) -> Result<u32, String> {
    let bytes = match text.trim().parse::<u64>() {
        Ok(bytes) => bytes as f64,
        Err(_) => text.parse::<Bytes>().map_err(|error| flat(&error))?.0,
    };
    if bytes.fract() != 0.0 || !(1.0..=f64::from(u32::MAX)).contains(&bytes) {
        return Err(format!("`{text}` is out of range; expected a whole number of bytes from 1B to 4GiB"));
    }
    Ok(bytes as u32)
}

/// `0.9` or `90%`: from 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share: Share = text.parse().map_err(|error| flat(&error))?;
    if share.0 > 1.0 {
        Err(format!("`{text}` is out of range; expected a share from 0 to 100%"))
    } else {
        Ok(share.0)
    }
}

/// `0.95` or `95%`: more than 0.5, less than 1.
pub(super) fn confidence(text: &str) -> Result<f64, String> {
    let value = share(text)?;
    if value > 0.5 && value < 1.0 {
        Ok(value)
    } else {
        Err(format!("`{text}` is out of range; expected more than 50% and less than 100%, such as `0.95`"))
    }
}

/// `poisson:50/s`, `constant:20k/s`, `closed:64`.
pub(crate) fn arrival(text: &str) -> Result<Arrival, String> {
    text.parse().map_err(|error| flat(&error))
}

/// `128`, `lognormal:mean=512,cv=1.5`.
pub(super) fn tokens(text: &str) -> Result<Length, String> {
    text.parse().map_err(|error| flat(&error))
}

/// `groups=8,tokens=1024,share=60%`.
pub(super) fn prefix(text: &str) -> Result<PrefixGroups, String> {
    let wrong = || {
        format!(
            "`{text}` says nothing about prompts that begin alike; expected as in `groups=8,tokens=1024,share=60%`, with at least one group and one token"
        )
    };
    let (mut groups, mut tokens, mut part) = (None, None, None);
    for item in text.split(',') {
        let (key, value) = item.split_once('=').ok_or_else(wrong)?;
        let whole = || value.trim().parse::<u32>().ok().filter(|n| (1..=10_000_000).contains(n));
        let twice = match key.trim() {
            "groups" => groups.replace(whole().ok_or_else(wrong)?).is_some(),
            "tokens" => tokens.replace(whole().ok_or_else(wrong)?).is_some(),
            "share" => part.replace(share(value.trim())?).is_some(),
            _ => return Err(wrong()),
        };
        if twice {
            return Err(wrong());
        }
    }
    match (groups, tokens) {
        (Some(groups), Some(tokens)) => Ok(PrefixGroups { groups, tokens, share: part.unwrap_or(1.0) }),
        _ => Err(wrong()),
    }
}

/// `openai-chat=http://127.0.0.1:8000`.
/// A target as it was typed. Clap would repeat what it refuses, and an address may hold a password.
#[derive(Debug, Clone)]
pub(super) struct TargetArg(pub(super) Result<Target, String>);

/// Reads a target; the error comes out in the second stage.
#[expect(clippy::unnecessary_wraps, reason = "the form that clap asks for")]
pub(super) fn target(text: &str) -> Result<TargetArg, String> {
    Ok(TargetArg(text.parse().map_err(|error| flat(&error))))
}

/// `ttft.p99<=200ms`.
pub(super) fn requirement(text: &str) -> Result<Requirement, String> {
    text.parse().map_err(|error| flat(&error))
}

/// An SLO of a run: a requirement on a metric, since a run cannot judge a promise.
pub(super) fn slo(text: &str) -> Result<Requirement, String> {
    let requirement = requirement(text)?;
    match requirement.subject {
        Subject::Metric(..) => Ok(requirement),
        Subject::Capability(capability) => Err(format!(
            "`{capability}` is a capability: a run measures metrics, such as `ttft.p99<=200ms`; `touchstone match` checks capabilities"
        )),
    }
}

/// `connect=5s,first=60s,idle=30s,total=600s`; what is not named keeps its default.
pub(super) fn timeouts(text: &str) -> Result<Timeouts, String> {
    let expected = "expected NAME=DURATION with connect, first, idle or total, as in `connect=5s,total=600s`";
    let mut timeouts = Timeouts::default();
    let mut named: Vec<&str> = Vec::new();
    for part in text.split(',') {
        let Some((name, value)) = part.split_once('=') else {
            return Err(format!("`{part}` is no time limit; {expected}"));
        };
        let name = name.trim();
        let field = match name {
            "connect" => &mut timeouts.connect_ns,
            "first" => &mut timeouts.first_ns,
            "idle" => &mut timeouts.idle_ns,
            "total" => &mut timeouts.total_ns,
            _ => return Err(format!("unknown time limit `{name}`; {expected}")),
        };
        if named.contains(&name) {
            return Err(format!("the time limit `{name}` is given twice"));
        }
        named.push(name);
        *field = length(value)?.nanos();
    }
    Ok(timeouts)
}

/// `Name: value`. The value may be a secret, so an error never repeats it.
pub(super) fn header(text: &str) -> Result<(String, String), String> {
    let expected = "expected `NAME: VALUE`, as in `X-Tenant: blue`";
    let Some((name, value)) = text.split_once(':') else {
        return Err(format!("a header has no colon; {expected}"));
    };
    let (name, value) = (name.trim(), value.trim());
    let in_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(in_token) {
        return Err(format!("a header has an impossible name; {expected}"));
    }
    if value.bytes().any(|byte| (byte < b' ' && byte != b'\t') || byte == 0x7f) {
        return Err(format!("the value of the header `{name}` holds control characters"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Where a metrics page is. What is refused is not repeated: it may hold a secret.
pub(super) fn metrics_url(url: String) -> Result<String, String> {
    let expected = "as in `--metrics-url http://127.0.0.1:8002/metrics`";
    if url.contains('@') {
        return Err(format!("`--metrics-url` must not hold credentials, {expected}"));
    }
    let rest = url.strip_prefix("http://").filter(|rest| !rest.is_empty() && !rest.starts_with('/'));
    if rest.is_none() || url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(format!("`--metrics-url` is no address that begins with http://, {expected}"));
    }
    Ok(url)
}

/// The name of an environment variable.
pub(super) fn variable(text: &str) -> Result<String, String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if text.is_empty() || !text.bytes().all(good) {
        // The text is not repeated: a key pasted here by mistake must not reach a log.
        return Err(
            "`--api-key-env` is no name; expected the name of an environment variable that holds the key, such as `API_KEY`"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}

/// `NAME=PRODUCT[:CONFIGURATION][@TARGET]`.
pub(super) fn candidate(text: &str) -> Result<Candidate, String> {
    let expected =
        "expected NAME=PRODUCT[:CONFIGURATION][@TARGET], as in `a=vllm@openai-chat=http://127.0.0.1:8000`";
    let Some((name, rest)) = text.split_once('=') else {
        return Err(format!("`{text}` is no candidate; {expected}"));
    };
    let (product, target) = match rest.split_once('@') {
        Some((product, address)) => (product, Some(target(address)?.0?)),
        None => (rest, None),
    };
    let (product, configuration) = match product.split_once(':') {
        Some((product, configuration)) => (product, Some(configuration.trim().to_owned())),
        None => (product, None),
    };
    let (name, product) = (name.trim().to_owned(), product.trim().to_owned());
    if name.is_empty() || product.is_empty() || configuration.as_ref().is_some_and(String::is_empty) {
        return Err(format!("`{text}` is no candidate; {expected}"));
    }
    Ok(Candidate {
        name,
        product,
        configuration,
        version: None,
        target,
        model: None,
        price: None,
        api_key_env: None,
        ca_file: None,
        reversible: None,
    })
}

/// `ttft.p95:400ms..50ms`: the metric, the value worth 0, the value worth 1.
pub(super) fn criterion(text: &str) -> Result<Criterion, String> {
    let expected = "expected METRIC:WORST..BEST, as in `ttft.p95:400ms..50ms`";
    let parts = text.split_once(':').and_then(|(metric, anchors)| Some((metric, anchors.split_once("..")?)));
    let Some((metric, (worst, best))) = parts else {
        return Err(format!("`{text}` is no criterion; {expected}"));
    };
    let subject: Subject = metric.trim().parse().map_err(|error| flat(&error))?;
    let Subject::Metric(id, _) = subject else {
        return Err(format!("`{subject}` is a capability and cannot be a criterion; require it instead"));
    };
    let quantity = |text: &str| Quantity::parse(text, id.unit()).map_err(|error| flat(&error));
    let (worst, best) = (quantity(worst)?, quantity(best)?);
    let in_order = match id.better() {
        Better::Lower => best.value < worst.value,
        Better::Higher => best.value > worst.value,
    };
    if !in_order {
        return Err(format!(
            "the anchors of `{subject}` are reversed or equal: `{best}` is not better than `{worst}`"
        ));
    }
    Ok(Criterion { metric: subject, worst, best })
}

/// What a scenario says about one dimension.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// A requirement.
    Require(Requirement),
    /// `none: REASON`.
    None(String),
}

/// A requirement, or `none: REASON`.
pub(crate) fn answer(text: &str) -> Result<Answer, String> {
    match text.trim().split_once(':').unwrap_or((text.trim(), "")) {
        ("none", reason) if !reason.trim().is_empty() => Ok(Answer::None(reason.trim().to_owned())),
        ("none", _) => {
            Err("`none` needs a reason: say in one sentence why the dimension does not matter".to_owned())
        }
        _ => requirement(text).map(Answer::Require),
    }
}

/// `RATE:TOKENS[:HOLD]`, as in `1%:5:2s`; without HOLD the stall never ends.
pub(super) fn stall(text: &str) -> Result<touchstone_engine::Stall, String> {
    let expected = "expected RATE:TOKENS[:HOLD], as in `1%:5:2s`";
    let mut parts = text.splitn(3, ':');
    let (Some(rate), Some(tokens)) = (parts.next(), parts.next()) else {
        return Err(format!("`{text}` is no stall; {expected}"));
    };
    let after_tokens =
        tokens.trim().parse().map_err(|_| format!("`{tokens}` is no number of tokens; {expected}"))?;
    let hold = parts.next().map(duration).transpose()?.map(std_duration);
    Ok(touchstone_engine::Stall { rate: share(rate)?, after_tokens, hold })
}

/// `N[:STATUS]`, as in `100:503`; 429 when no status is given.
pub(super) fn overload(text: &str) -> Result<touchstone_engine::Overload, String> {
    let expected = "expected N[:STATUS] with the status 429 or 503, as in `100:503`";
    let (waiting, status) = text.split_once(':').unwrap_or((text, "429"));
    let waiting_above =
        waiting.trim().parse().map_err(|_| format!("`{waiting}` is no number; {expected}"))?;
    let status = match status.trim() {
        "429" => 429,
        "503" => 503,
        other => return Err(format!("`{other}` is no status for a rejection; {expected}")),
    };
    Ok(touchstone_engine::Overload { waiting_above, status })
}

/// A number of milliseconds as the standard library's type.
pub(super) fn std_duration(millis: Millis) -> Duration {
    Duration::from_nanos(millis.nanos())
}

/// The limit of a requirement as a plain number, for those that have one.
pub(crate) fn limit_quantity(requirement: &Requirement) -> Option<Quantity> {
    match requirement.limit {
        Limit::Quantity(quantity) => Some(quantity),
        Limit::Capability(_) => None,
    }
}

/// A long time as people say it: `12 months`, `2 years`; other times as they are.
pub(crate) fn horizon(time: Millis) -> String {
    const MONTH: f64 = 30.4375 * 86_400e3;
    let months = time.0 / MONTH;
    if months.fract() != 0.0 || months < 1.0 {
        return time.to_string();
    }
    if months % 12.0 == 0.0 && months >= 24.0 {
        format!("{} years", months / 12.0)
    } else {
        format!("{months} months")
    }
}

/// A share as people say it: `95%`, `99.9%`.
pub(crate) fn percent(share: f64) -> String {
    format!("{}%", significant(share * 100.0, 6))
}

/// A short time as people say it: whole seconds as `2s`, others as they are.
pub(crate) fn seconds(time: Millis) -> String {
    if time.0 % 1e3 == 0.0 && time.0 < 10e3 { format!("{}s", time.0 / 1e3) } else { time.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_need_no_unit_but_take_one() {
        assert_eq!(size("64"), Ok(64));
        assert_eq!(size("64B"), Ok(64));
        assert_eq!(size("4KiB"), Ok(4096));
        for text in ["0", "-1", "1.5", "64 apples", "8GiB", "big", ""] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_and_shares_have_ranges() {
        assert_eq!(duration("0"), Ok(Millis(0.0)));
        assert_eq!(length("200ms"), Ok(Millis(200.0)));
        assert!(length("0s").is_err() && duration("31d").is_err() && duration("10").is_err());
        assert!(duration("-5s").unwrap_err().contains("negative"));
        assert_eq!((share("90%"), share("0.9")), (Ok(0.9), Ok(0.9)));
        assert!(share("101%").is_err() && share("-1%").is_err());
        assert!(confidence("50%").is_err() && confidence("1").is_err() && confidence("0.99") == Ok(0.99));
    }

    #[test]
    fn causes_of_an_arrival_are_said() {
        assert!(arrival("poisson:50").unwrap_err().contains("no unit"));
        assert!(arrival("poisson:-5/s").unwrap_err().contains("negative"));
        assert!(arrival("poisson:fast").unwrap_err().contains("not a number"));
    }

    #[test]
    fn time_limits_are_named_once() {
        let read = timeouts("connect=1s,total=2min").unwrap();
        assert_eq!((read.connect_ns, read.total_ns), (1_000_000_000, 120_000_000_000));
        assert_eq!(read.idle_ns, Timeouts::default().idle_ns);
        for text in ["", "connect", "connect=5", "connect=0s", "read=5s", "idle=1s,idle=2s"] {
            assert!(timeouts(text).is_err(), "{text}");
        }
    }

    #[test]
    fn headers_never_echo_their_value_in_errors() {
        assert_eq!(header("X-Tenant: blue:green"), Ok(("X-Tenant".into(), "blue:green".into())));
        for text in ["secret", ": secret", "a b: secret", "a: secret\r\nb: c"] {
            let error = header(text).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(!variable("sk-secret").unwrap_err().contains("sk-secret"));
        assert_eq!(variable("MY_KEY"), Ok("MY_KEY".to_owned()));
    }

    #[test]
    fn an_slo_is_about_a_metric() {
        assert!(slo("ttft.p99<=200ms").is_ok());
        assert!(slo("durability >= D3").unwrap_err().contains("touchstone match"));
        assert!(slo("ttft<=200ms").unwrap_err().contains("which statistic"));
    }

    #[test]
    fn candidates_and_criteria() {
        let full = candidate("a=vllm:fp8@openai-chat=http://127.0.0.1:8000").unwrap();
        assert_eq!((full.name.as_str(), full.product.as_str()), ("a", "vllm"));
        assert_eq!(full.configuration.as_deref(), Some("fp8"));
        assert_eq!(full.target.unwrap().port, 8000);
        for text in ["vllm", "=vllm", "a=", "a=vllm:", "a=vllm@somewhere"] {
            assert!(candidate(text).is_err(), "{text}");
        }
        assert_eq!(criterion("ttft.p95:400ms..50ms").unwrap().value(225.0), 0.5);
        assert!(criterion("throughput:1/s..9/s").is_ok());
        for text in [
            "ttft.p95",
            "ttft.p95:50ms..400ms",
            "ttft.p95:50ms..50ms",
            "ttft.p95:1/s..2/s",
            "durability:1..2",
        ] {
            assert!(criterion(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for text in ["12 months", "18 months", "2 years", "1 months"] {
            assert_eq!(horizon(text.parse().unwrap()), text);
        }
        assert_eq!((percent(0.95), percent(0.999)), ("95%".to_owned(), "99.9%".to_owned()));
        assert_eq!((seconds(Millis(2e3)), seconds(Millis(500.0))), ("2s".to_owned(), "500ms".to_owned()));
        assert_eq!(horizon(Millis(14.0 * 86_400e3)), "14d");
    }

    #[test]
    fn faults_are_read() {
        let read = stall("1%:5:2s").unwrap();
        assert_eq!((read.rate, read.after_tokens, read.hold), (0.01, 5, Some(Duration::from_secs(2))));
        assert_eq!(stall("1:0").unwrap().hold, None);
        assert!(stall("1").is_err() && stall("2:1").is_err() && stall("1:x").is_err());
        assert_eq!(overload("10").unwrap().status, 429);
        assert_eq!(overload("10:503").unwrap().waiting_above, 10);
        assert!(overload("10:500").is_err() && overload("x").is_err());
    }

    #[test]
    fn waiving_needs_a_reason() {
        assert_eq!(answer("none: it is a cache"), Ok(Answer::None("it is a cache".into())));
        assert!(answer("none:").is_err() && answer("none").is_err() && answer("low").is_err());
        assert!(matches!(answer("durability >= D3"), Ok(Answer::Require(_))));
    }
}
