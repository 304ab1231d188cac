//! Reading YAML documents into types, with errors a person can act on: file, line, column, what was expected, a hint.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_saphyr::{MessageFormatter, UserMessageFormatter};

use crate::metric::Dimension;

/// The greatest document that is read; real scenarios and catalog files are a few KiB.
pub const MAX_BYTES: usize = 1 << 20;

/// Separates the message from the hint inside errors raised during deserialization; never shown.
const HINT_MARK: char = '\u{1f}';

/// One thing that is wrong in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Name of the file, as the user gave it.
    pub file: String,
    /// Line, from 1; 0 when the place is unknown.
    pub line: u64,
    /// Column, from 1; 0 when the place is unknown.
    pub column: u64,
    /// What is wrong and what was expected.
    pub message: String,
    /// The question to answer, or what to write instead.
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}", self.file, self.message)
        } else {
            write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
        }
    }
}

/// A document that cannot be used, with everything that is wrong in it as far as it could be read. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct DocumentError {
    /// The problems, in document order.
    pub problems: Vec<Problem>,
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
            if let Some(hint) = &problem.hint {
                write!(f, "\n  hint: {hint}")?;
            }
        }
        Ok(())
    }
}

impl DocumentError {
    /// An error without a place in the document.
    pub fn whole(file: &str, message: impl Into<String>, hint: Option<String>) -> Self {
        let problem = Problem { file: file.to_owned(), line: 0, column: 0, message: message.into(), hint };
        Self { problems: vec![problem] }
    }
}

/// An error for use inside `Deserialize` implementations, whose hint survives up to [`Problem::hint`].
pub fn custom<E: serde::de::Error>(message: impl fmt::Display, hint: impl fmt::Display) -> E {
    E::custom(format!("{message}{HINT_MARK}{hint}"))
}

/// Reads one YAML document.
///
/// # Errors
/// When it is larger than [`MAX_BYTES`], is not UTF-8, is no YAML, repeats a key, or does not fit `T`.
pub fn from_yaml<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<T, DocumentError> {
    if bytes.len() > MAX_BYTES {
        return Err(DocumentError::whole(
            file,
            format!("the document has {} bytes; at most {MAX_BYTES} are read", bytes.len()),
            Some("is this the right file? a scenario is a few KiB of text".to_owned()),
        ));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() as u64 + 1;
        DocumentError {
            problems: vec![Problem {
                file: file.to_owned(),
                line,
                column,
                message: "the document is not UTF-8".to_owned(),
                hint: Some("save it with the encoding UTF-8".to_owned()),
            }],
        }
    })?;
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let bare = error.without_snippet();
        let message = UserMessageFormatter.format_message(bare).into_owned();
        let (message, hint) = match message.split_once(HINT_MARK) {
            Some((message, hint)) => (message.to_owned(), Some(hint.to_owned())),
            None => (message, None),
        };
        let hint = hint.or_else(|| hint_for(bare));
        let (line, column) = bare.location().map_or((0, 0), |at| (at.line(), at.column()));
        DocumentError { problems: vec![Problem { file: file.to_owned(), line, column, message, hint }] }
    })
}

/// Hints for errors that the deserializer raises by itself.
fn hint_for(error: &serde_saphyr::Error) -> Option<String> {
    match error {
        serde_saphyr::Error::DuplicateMappingKey { .. } => {
            Some("write each key once; which of the values is meant?".to_owned())
        }
        serde_saphyr::Error::SerdeMissingField { field, .. } => question_for(field),
        _ => None,
    }
}

/// The question that a missing key leaves open.
fn question_for(field: &str) -> Option<String> {
    let dimension = Dimension::ALL.into_iter().find(|dimension| dimension.as_str() == field);
    let question = match (dimension, field) {
        (Some(dimension), _) => dimension.question(),
        (None, "requirements") => {
            "what must hold in latency, throughput, consistency, reliability and scalability?"
        }
        (None, "arrival") => {
            "how many operations per second arrive, and how? for example `arrival: poisson:50/s`"
        }
        (None, "workload") => {
            "what load will be offered? for example `workload: {arrival: poisson:50/s, ...}`"
        }
        (None, "horizon") => "for how long is the decision meant to hold? for example `horizon: 12 months`",
        (None, "family") => "which family of systems: inference, queue or cache?",
        (None, "name") => "what is the scenario called? for example `name: support-chat`",
        (None, "format") => "write `format: touchstone.scenario/1`",
        (None, "worst") => "at which value is the criterion worth nothing? for example `worst: 400ms`",
        (None, "best") => "at which value is the criterion as good as can be? for example `best: 50ms`",
        (None, "metric") => "which metric, with which statistic? for example `metric: ttft.p95`",
        (None, "peak_factor") => "how high is the peak over the stated load? for example `peak_factor: 2`",
        (None, "growth") => "how fast does the load grow? for example `growth: 50%/year`, or `0%/year`",
        (None, "product") => "which product of the catalog is the candidate? for example `product: redis`",
        _ => return None,
    };
    Some(question.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[expect(dead_code, reason = "only its reading is tested")]
        rate: crate::unit::Rate,
    }

    fn problem(bytes: &[u8]) -> Problem {
        from_yaml::<Sample>("s.yaml", bytes).unwrap_err().problems.remove(0)
    }

    #[test]
    fn errors_carry_their_place() {
        let wrong = problem(b"# c\nrate: fast\n");
        assert_eq!((wrong.line, wrong.column), (2, 7));
        assert_eq!(wrong.message, "`fast` is not a number; expected a rate such as `50/s` or `3000/min`");
    }

    #[test]
    fn duplicate_keys_unknown_keys_big_and_binary_documents_are_refused() {
        let duplicate = problem(b"rate: 1/s\nrate: 2/s\n");
        assert_eq!(duplicate.line, 2, "{duplicate}");
        assert!(duplicate.hint.is_some());
        let unknown = problem(b"rate: 1/s\nspeed: 2\n");
        assert_eq!(unknown.line, 2, "{unknown}");
        assert!(problem(&vec![b'a'; MAX_BYTES + 1]).message.contains("at most"));
        let binary = problem(b"rate: 1/s\nx: \xff\xfe");
        assert_eq!((binary.line, binary.column), (2, 4));
    }
}
