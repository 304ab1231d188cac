//! The error of the binary itself: a message, what the reader can do about it, and the exit code.
//!
//! Library errors carry data; here they get the hints and the code that a person at a terminal needs. Everything is
//! rendered in one place, [`crate::ui::Ui::error`].

use std::error::Error;
use std::fmt;

use touchstone_model::DocumentError;

use crate::exit::ExitCode;

/// Something that ends a command.
#[derive(Debug)]
pub(crate) struct Failure {
    code: ExitCode,
    message: String,
    hints: Vec<String>,
    source: Option<Box<dyn Error + Send + Sync + 'static>>,
}

impl Failure {
    /// A failure with its exit code. The message begins in lower case and has no full stop.
    pub(crate) fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hints: Vec::new(), source: None }
    }

    /// Arguments that contradict themselves, or do not suffice.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitCode::BadInput, message)
    }

    /// Adds something that the reader can do at once.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds what caused it.
    #[must_use]
    pub(crate) fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync + 'static>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What the reader can do.
    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as &(dyn Error + 'static))
    }
}

/// The exit code of an error that reached `main`: that of the first [`Failure`] in its chain, else
/// [`ExitCode::BadInput`].
pub(crate) fn code_of(error: &anyhow::Error) -> ExitCode {
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    failure.map_or(ExitCode::BadInput, |failure| failure.code)
}

/// One block of an error as the reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// What is wrong.
    pub(crate) message: String,
    /// `file:line:column`, where there is such a place.
    pub(crate) place: Option<String>,
    /// What caused it, outermost first.
    pub(crate) causes: Vec<String>,
    /// What to do.
    pub(crate) hints: Vec<String>,
}

/// The blocks of an error: one for each problem of a document, one for anything else.
pub(crate) fn blocks(error: &anyhow::Error) -> Vec<Block> {
    let hints: Vec<String> = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<Failure>())
        .flat_map(|failure| failure.hints().iter().cloned())
        .collect();
    if let Some(document) = error.chain().find_map(|cause| cause.downcast_ref::<DocumentError>()) {
        let mut blocks: Vec<Block> = document.problems.iter().map(problem_block).collect();
        if let Some(last) = blocks.last_mut() {
            last.hints.extend(hints);
        }
        return blocks;
    }
    // An error that repeats its cause word for word (`#[error(transparent)]`) is said once.
    let mut messages: Vec<String> = error.chain().map(ToString::to_string).collect();
    messages.dedup();
    let causes = messages.split_off(1);
    let message = messages.pop().unwrap_or_default();
    vec![Block { message, place: None, causes, hints }]
}

fn problem_block(problem: &touchstone_model::Problem) -> Block {
    let place = if problem.line == 0 {
        problem.file.clone()
    } else {
        format!("{}:{}:{}", problem.file, problem.line, problem.column)
    };
    Block {
        message: problem.message.clone(),
        place: Some(place),
        causes: Vec::new(),
        hints: problem.hint.iter().cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn the_code_and_the_hints_are_found_below_contexts() {
        let failure = Failure::new(ExitCode::BrokenEvidence, "the digest differs").hint("measure again");
        let error = anyhow::Error::new(failure).context("cannot explain `D-1`");
        assert_eq!(code_of(&error), ExitCode::BrokenEvidence);
        let block = &blocks(&error)[0];
        assert_eq!(block.message, "cannot explain `D-1`");
        assert_eq!(block.causes, ["the digest differs"]);
        assert_eq!(block.hints, ["measure again"]);
    }

    #[test]
    fn every_problem_of_a_document_has_a_block_with_its_place() {
        let error = touchstone_model::Scenario::from_yaml("s.yaml", b"a: 1").unwrap_err();
        let error = Err::<(), _>(error).context("outer").unwrap_err();
        assert_eq!(code_of(&error), ExitCode::BadInput);
        let blocks = blocks(&error);
        assert!(blocks[0].place.as_deref().unwrap().starts_with("s.yaml:1:"), "{blocks:?}");
    }

    #[test]
    fn a_cause_is_kept_and_a_repeated_one_is_said_once() {
        let cause = std::io::Error::other("disk is full");
        let error = anyhow::Error::new(Failure::usage("cannot write `a`").because(cause));
        assert_eq!(blocks(&error)[0].causes, ["disk is full"]);
        let repeated = anyhow::anyhow!("same").context("same");
        assert_eq!(blocks(&repeated)[0].causes, Vec::<String>::new());
    }
}
