//! `compare` and `rerun`, and which words of a command line can be repeated.

use std::path::PathBuf;

use clap::Args;
use touchstone_decide::contrast::Terms;

use super::values::{self, Sink};
use super::{Folder, raw::RunId};
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(super) struct CompareFlags {
    /// What is judged: ids of recorded runs, their beginnings, `latest`, or name=value for every run with that parameter
    #[arg(required = true, value_name = "RUN")]
    pub(super) runs: Vec<String>,
    /// What it is judged against, in the same form
    #[arg(long, required = true, num_args = 1.., value_name = "RUN", value_delimiter = ',')]
    pub(super) against: Vec<String>,
    /// Smallest relative difference that matters
    #[arg(long, value_name = "SHARE", value_parser = values::share, default_value = "5%")]
    pub(super) margin: f64,
    /// Confidence of all claims together
    #[arg(long, value_name = "SHARE", value_parser = values::confidence, default_value = "0.95")]
    pub(super) confidence: f64,
    /// Exit with code 3 when something is worse, or suspected to be
    #[arg(long)]
    pub(super) gate: bool,
    /// Write the comparison as JSON to a file, or to standard output with `-`
    #[arg(long, value_name = "PATH|-", value_parser = values::sink, num_args = 0..=1, default_missing_value = "-")]
    pub(super) json: Option<Sink>,
    /// Write a page to this file
    #[arg(long, value_name = "PATH")]
    pub(super) html: Option<PathBuf>,
    /// Write the outcome as JUnit XML to this file
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
}

/// `compare RUN.. --against RUN..`.
#[derive(Debug)]
pub(crate) struct CompareArgs {
    /// What is judged.
    pub(crate) runs: Vec<String>,
    /// What it is judged against.
    pub(crate) against: Vec<String>,
    /// How to compare.
    pub(crate) terms: Terms,
    /// Whether a worse metric gives exit code 3.
    pub(crate) gate: bool,
    /// Where the document goes.
    pub(crate) json: Option<Sink>,
    /// Where the page goes.
    pub(crate) html: Option<PathBuf>,
    /// Where JUnit XML goes.
    pub(crate) junit: Option<PathBuf>,
    /// The folder of what is kept.
    pub(crate) out: Folder,
}

impl CompareArgs {
    pub(super) fn from_flags(flags: CompareFlags, out: Folder) -> Result<Self, Failure> {
        if !(flags.margin > 0.0 && flags.margin < 1.0) {
            return Err(Failure::usage("`--margin` must lie between 0 and 1, both excluded"));
        }
        Ok(Self {
            runs: flags.runs,
            against: flags.against,
            terms: Terms { margin: flags.margin, confidence: flags.confidence },
            gate: flags.gate,
            json: flags.json,
            html: flags.html,
            junit: flags.junit,
            out,
        })
    }
}

/// `rerun ID`.
#[derive(Debug)]
pub(crate) struct RerunArgs {
    /// The run's id, as typed.
    pub(crate) id: String,
    /// Print one JSON document.
    pub(crate) json: bool,
    /// The folder of what is kept.
    pub(crate) out: Folder,
}

impl RerunArgs {
    pub(super) fn from_flags(run: RunId, out: Folder) -> Self {
        Self { id: run.id, json: run.json, out }
    }
}

/// Words of a `bench` that can be kept and repeated, and the names of flags whose values cannot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Replayable {
    /// From `bench` on.
    pub(crate) words: Vec<String>,
    /// Flags that were left out because they may hold a secret.
    pub(crate) dropped: Vec<String>,
}

/// Flags about where output goes and about series: they are not part of what a run is.
const ASIDE: [&str; 17] = [
    "--json",
    "--html",
    "--junit",
    "--out",
    "--lang",
    "--quiet",
    "-q",
    "--no-color",
    "--repeats",
    "--versus",
    "--baseline",
    "--margin",
    "--deploys",
    "--launch-timeout",
    "--seed",
    "--no-record",
    "--parquet",
];
/// Those among them that take no value.
const BARE: [&str; 5] = ["--quiet", "-q", "--no-color", "--no-record", "--parquet"];

/// Splits the words of a `bench` into what can be repeated and what cannot. A header may hold a secret, and so may an address
/// with a user in it: neither is kept.
pub(crate) fn replayable(words: &[String]) -> Replayable {
    let mut kept = Replayable::default();
    let Some(start) = words.iter().position(|word| word == "bench") else { return kept };
    kept.words.push("bench".to_owned());
    let mut rest = words[start + 1..].iter().peekable();
    while let Some(word) = rest.next() {
        let (name, attached) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        let value = match attached {
            Some(value) => Some(value),
            None if name.starts_with('-') && !BARE.contains(&name) => {
                rest.next_if(|next| !next.starts_with("--")).cloned()
            }
            None => None,
        };
        if ASIDE.contains(&name) {
            continue;
        }
        let secret = |value: &String| {
            value.split_once("://").is_some_and(|(_, rest)| {
                rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
            })
        };
        if name == "--header" || value.as_ref().is_some_and(secret) {
            if !kept.dropped.iter().any(|dropped| dropped == name) {
                kept.dropped.push(name.to_owned());
            }
            continue;
        }
        kept.words.push(name.to_owned());
        kept.words.extend(value);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Replayable {
        replayable(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_a_run_is_stays_and_secrets_go() {
        let kept = split(
            "touchstone --quiet bench --target openai-chat=http://127.0.0.1:1 --header X-Key:abc --header=Y:z --arrival=poisson:5/s --json - --html a --seed 4 --no-ceiling --api-key-env KEY --proxy http://user:word@p:1 --slo ttft.p99<=1s",
        );
        assert_eq!(
            kept.words.join(" "),
            "bench --target openai-chat=http://127.0.0.1:1 --arrival poisson:5/s --no-ceiling --api-key-env KEY --slo ttft.p99<=1s"
        );
        assert_eq!(kept.dropped, ["--header", "--proxy"]);
        assert_eq!(split("touchstone search --target x").words, Vec::<String>::new());
        assert_eq!(split("touchstone bench --json --drain 5s").words, ["bench", "--drain", "5s"]);
    }
}
