//! `--class`: one class of a mixed load.

use touchstone_model::{Arrival, Length, Requirement};
use touchstone_workload::requests::PrefixGroups;

use super::values;

/// The keys of a class. What follows a comma and begins with none of them belongs to the value before it, so that values
/// with commas of their own (`arrival=gamma:5/s,cv=2`) are written as elsewhere.
const KEYS: [&str; 7] = ["name", "arrival", "input", "output", "stream", "prefix", "slo"];

/// One class of a mixed load.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClassArgs {
    /// Its name.
    pub(crate) name: String,
    /// When its operations start.
    pub(crate) arrival: Arrival,
    /// Prompt tokens.
    pub(crate) input_tokens: Length,
    /// Generated tokens.
    pub(crate) output_tokens: Length,
    /// Whether answers are asked for as streams.
    pub(crate) stream: bool,
    /// Prompts that begin alike.
    pub(crate) prefix: Option<PrefixGroups>,
    /// Limits to judge.
    pub(crate) slos: Vec<Requirement>,
}

/// `name=chat,arrival=poisson:5/s,input=200,output=64,slo=ttft.p99<=200ms`.
pub(super) fn class(text: &str) -> Result<ClassArgs, String> {
    let mut items: Vec<(&str, String)> = Vec::new();
    for piece in text.split(',') {
        let known = piece.split_once('=').and_then(|(key, value)| {
            KEYS.into_iter().find(|known| *known == key.trim()).map(|key| (key, value))
        });
        match (known, items.last_mut()) {
            (Some((key, value)), _) => items.push((key, value.to_owned())),
            (None, Some((_, value))) => {
                value.push(',');
                value.push_str(piece);
            }
            (None, None) => return Err(wrong(text, "it does not begin with a key")),
        }
    }
    let (mut name, mut arrival, mut input, mut output, mut stream, mut prefix) =
        (None, None, None, None, None, None);
    let mut slos = Vec::new();
    for (key, value) in &items {
        let value = value.trim();
        let twice = match *key {
            "name" => name.replace(named(value)?).is_some(),
            "arrival" => arrival.replace(values::arrival(value)?).is_some(),
            "input" => input.replace(values::tokens(value)?).is_some(),
            "output" => output.replace(values::tokens(value)?).is_some(),
            "stream" => stream.replace(yes_or_no(value)?).is_some(),
            "prefix" => prefix.replace(values::prefix(value)?).is_some(),
            _ => {
                slos.push(values::slo(value)?);
                false
            }
        };
        if twice {
            return Err(wrong(text, &format!("`{key}` stands twice")));
        }
    }
    let arrival = arrival.ok_or_else(|| wrong(text, "it has no `arrival`"))?;
    if matches!(arrival, Arrival::Trace { .. }) {
        return Err(wrong(text, "a class cannot replay a trace"));
    }
    Ok(ClassArgs {
        name: name.ok_or_else(|| wrong(text, "it has no `name`"))?,
        arrival,
        input_tokens: input.unwrap_or(Length::Fixed(128)),
        output_tokens: output.unwrap_or(Length::Fixed(64)),
        stream: stream.unwrap_or(true),
        prefix,
        slos,
    })
}

fn wrong(text: &str, why: &str) -> String {
    format!(
        "`{text}` is no class: {why}; expected as in `name=chat,arrival=poisson:5/s,input=200,output=64,stream=yes,slo=ttft.p99<=200ms`"
    )
}

fn named(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=32).contains(&text.len()) && text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is no name of a class; expected 1 to 32 letters, digits, `-` or `_`"))
    }
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("`stream={text}` is neither `stream=yes` nor `stream=no`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_own_commas() {
        let read = class(
            "name=long,arrival=bursts:size=5,period=10s,background=1/s,input=lognormal:mean=8000,cv=1.5,max=16000,output=uniform:5..9,stream=no,prefix=groups=2,tokens=64,share=50%,slo=e2e.p95<=20s,slo=error_rate<=1%",
        )
        .unwrap();
        assert_eq!(read.name, "long");
        assert_eq!(read.arrival, "bursts:size=5,period=10s,background=1/s".parse().unwrap());
        assert_eq!(read.input_tokens, "lognormal:mean=8000,cv=1.5,max=16000".parse().unwrap());
        assert!(!read.stream && read.slos.len() == 2);
        assert_eq!(read.prefix, Some(PrefixGroups { groups: 2, tokens: 64, share: 0.5 }));
        let short = class("name=a,arrival=closed:2").unwrap();
        assert_eq!((short.input_tokens, short.output_tokens), (Length::Fixed(128), Length::Fixed(64)));
        assert!(short.stream && short.prefix.is_none() && short.slos.is_empty());
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, told) in [
            ("", "begin with a key"),
            ("chat,arrival=poisson:1/s", "begin with a key"),
            ("name=a", "no `arrival`"),
            ("arrival=poisson:1/s", "no `name`"),
            ("name=a b,arrival=poisson:1/s", "no name of a class"),
            ("name=a,name=b,arrival=poisson:1/s", "twice"),
            ("name=a,arrival=poisson:1/s,stream=maybe", "neither"),
            ("name=a,arrival=trace:speed=1", "cannot replay"),
            ("name=a,arrival=often", "arrival process"),
            ("name=a,arrival=poisson:1/s,slo=fast", "fast"),
            ("name=a,arrival=poisson:1/s,inputs=3", ""),
        ] {
            let error = class(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
