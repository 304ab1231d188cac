//! Exit codes: one number, one meaning. Scripts rely on them, so a code never changes its meaning.

use std::process;

/// How a command ended, as the calling shell sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ExitCode {
    /// What was asked for was done. For `decide` and `run`: a verdict was printed, whatever the word.
    Done,
    /// The run is invalid, or the target failed it.
    RunFailed,
    /// An input file, an argument or the machine's set-up does not allow what was asked for.
    BadInput,
    /// An SLO that was asked for was not met, or could not be shown to be met with the confidence asked for; or a finding
    /// reached `--fail-on`; or something is worse than the baseline.
    NotMet,
    /// Stored evidence is missing, changed or unreadable.
    BrokenEvidence,
    /// The user interrupted the command; what was measured until then was still reported.
    Interrupted,
}

impl ExitCode {
    /// Every code, the one that wins first: see [`ExitCode::combine`].
    pub(crate) const BY_PRECEDENCE: [ExitCode; 6] = [
        ExitCode::Interrupted,
        ExitCode::BadInput,
        ExitCode::RunFailed,
        ExitCode::BrokenEvidence,
        ExitCode::NotMet,
        ExitCode::Done,
    ];

    /// The number, from 0 to 255.
    pub(crate) fn number(self) -> u8 {
        match self {
            ExitCode::Done => 0,
            ExitCode::RunFailed => 1,
            ExitCode::BadInput => 2,
            ExitCode::NotMet => 3,
            ExitCode::BrokenEvidence => 4,
            ExitCode::Interrupted => 130,
        }
    }

    /// What the code means, in one sentence, for the reference.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            ExitCode::Done => {
                "what was asked for was done; for `decide` and `run`, a verdict was printed, whatever the word"
            }
            ExitCode::RunFailed => "the run is invalid, or the target failed it",
            ExitCode::BadInput => {
                "an input file, an argument or the machine's set-up does not allow what was asked for"
            }
            ExitCode::NotMet => {
                "an SLO that was asked for was not met or could not be shown to be met, a finding reached `--fail-on`, or something is worse than `--baseline` (or, with `compare --gate`, than `--against`)"
            }
            ExitCode::BrokenEvidence => "stored evidence is missing, changed or unreadable",
            ExitCode::Interrupted => "the command was interrupted; what was measured until then was reported",
        }
    }

    /// The code of two things that happened in one command: the one that stands first in
    /// [`ExitCode::BY_PRECEDENCE`].
    #[must_use]
    pub(crate) fn combine(self, other: ExitCode) -> ExitCode {
        let place = |code: ExitCode| Self::BY_PRECEDENCE.iter().position(|known| *known == code);
        if place(other) < place(self) { other } else { self }
    }

    /// The code of everything that happened in one command; [`ExitCode::Done`] when nothing did.
    pub(crate) fn all(codes: impl IntoIterator<Item = ExitCode>) -> ExitCode {
        codes.into_iter().fold(ExitCode::Done, ExitCode::combine)
    }
}

impl From<ExitCode> for process::ExitCode {
    fn from(code: ExitCode) -> Self {
        process::ExitCode::from(code.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_contract() {
        let numbers = ExitCode::BY_PRECEDENCE.map(ExitCode::number);
        assert_eq!(numbers, [130, 2, 1, 4, 3, 0]);
    }

    #[test]
    fn the_earlier_in_the_order_wins_from_either_side() {
        let codes = ExitCode::BY_PRECEDENCE;
        for (i, a) in codes.into_iter().enumerate() {
            for (j, b) in codes.into_iter().enumerate() {
                assert_eq!(a.combine(b), codes[i.min(j)], "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn many_codes_become_one() {
        use ExitCode::{BrokenEvidence, Done, NotMet, RunFailed};
        assert_eq!(ExitCode::all([]), Done);
        assert_eq!(ExitCode::all([NotMet, Done, BrokenEvidence]), BrokenEvidence);
        assert_eq!(ExitCode::all([BrokenEvidence, NotMet, RunFailed]), RunFailed);
    }
}
