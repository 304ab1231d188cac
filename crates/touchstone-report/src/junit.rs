//! Runs and comparisons as JUnit XML, for continuous integration.
//!
//! A test case stands for the validity of a run, for each limit, and for each metric of a comparison. What cannot be shown to
//! hold is a failure where it was demanded (a limit), and skipped where it was only asked (a comparison).

use std::fmt::Write as _;

use touchstone_model::comparison::{ComparisonDocument, Standing};
use touchstone_model::run::Outcome;
use touchstone_model::{RunDocument, Severity};

use crate::svg::escape;
use crate::terminal::{interval_text, metric_text};

/// The outcome of a case: none for passed, else the element with its message.
enum Case {
    Passed,
    Failed(String),
    Skipped(String),
}

/// A document with a suite for each run, and one for the comparison.
#[must_use]
pub fn junit(runs: &[RunDocument], comparison: Option<&ComparisonDocument>) -> String {
    let mut suites: Vec<(String, Vec<(String, Case)>)> = runs.iter().map(of_run).collect();
    suites.extend(comparison.map(of_comparison));
    let failed =
        |cases: &[(String, Case)]| cases.iter().filter(|(_, case)| matches!(case, Case::Failed(_))).count();
    let tests: usize = suites.iter().map(|(_, cases)| cases.len()).sum();
    let failures: usize = suites.iter().map(|(_, cases)| failed(cases)).sum();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string cannot fail.
    writeln!(out, "<testsuites name=\"touchstone\" tests=\"{tests}\" failures=\"{failures}\">").ok();
    for (name, cases) in &suites {
        let skipped = cases.iter().filter(|(_, case)| matches!(case, Case::Skipped(_))).count();
        writeln!(
            out,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{skipped}\">",
            escape(name),
            cases.len(),
            failed(cases)
        )
        .ok();
        for (case, outcome) in cases {
            let head = format!("    <testcase classname=\"{}\" name=\"{}\"", escape(name), escape(case));
            match outcome {
                Case::Passed => writeln!(out, "{head}/>"),
                Case::Failed(message) => {
                    writeln!(
                        out,
                        "{head}>\n      <failure message=\"{0}\">{0}</failure>\n    </testcase>",
                        escape(message)
                    )
                }
                Case::Skipped(message) => {
                    writeln!(
                        out,
                        "{head}>\n      <skipped message=\"{}\"/>\n    </testcase>",
                        escape(message)
                    )
                }
            }
            .ok();
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

fn of_run(run: &RunDocument) -> (String, Vec<(String, Case)>) {
    let mark = if run.simulated { " (simulated)" } else { "" };
    let grave: Vec<String> = run
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Invalid)
        .map(|finding| format!("{}: {}; {}", finding.code, finding.message, finding.advice))
        .collect();
    let valid = if run.valid { Case::Passed } else { Case::Failed(grave.join("; ")) };
    let mut cases = vec![("the run is valid".to_owned(), valid)];
    for slo in &run.slo {
        let value = slo.value.map_or_else(|| "no value".to_owned(), |value| format!("value {value}"));
        let case = match slo.outcome {
            Outcome::Pass => Case::Passed,
            Outcome::Fail => Case::Failed(format!("not met: {value}")),
            Outcome::Undetermined => Case::Failed(match slo.needs {
                Some(needs) => format!("not shown to be met: {value}; needs {needs} effective samples"),
                None => format!("not shown to be met: {value}"),
            }),
        };
        cases.push((slo.slo.clone(), case));
    }
    (format!("{} {}{mark}", run.run, run.target.target), cases)
}

fn of_comparison(comparison: &ComparisonDocument) -> (String, Vec<(String, Case)>) {
    let mark = if comparison.simulated { " (simulated)" } else { "" };
    let cases = comparison
        .metrics
        .iter()
        .map(|one| {
            let message = format!("{}: {}; {}", one.standing.as_str(), interval_text(one), one.reason);
            let case = match one.standing {
                Standing::Worse | Standing::SlightlyWorse => Case::Failed(message),
                Standing::NotResolved if one.suspected => Case::Failed(message),
                Standing::NotResolved => Case::Skipped(message),
                Standing::Better | Standing::SlightlyBetter | Standing::Equivalent => Case::Passed,
            };
            (metric_text(one), case)
        })
        .collect();
    (format!("{} against {}{mark}", comparison.a.name, comparison.b.name), cases)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn limits_and_validity_are_cases_and_text_is_escaped() {
        let mut run = fixtures::run();
        run.valid = false;
        run.target.target = "openai-chat=<\"&\u{1}>".into();
        let text = junit(&[run.clone()], None);
        assert!(text.starts_with("<?xml"), "{text}");
        assert!(text.contains("openai-chat=&lt;&quot;&amp; &gt; (simulated)"), "{text}");
        let failures = 1 + run.slo.iter().filter(|slo| slo.outcome != Outcome::Pass).count();
        assert!(text.contains(&format!("tests=\"{}\" failures=\"{failures}\"", 1 + run.slo.len())), "{text}");
        assert_eq!(text.matches("<failure").count(), failures);
        assert_eq!(text.matches("<testcase").count(), 1 + run.slo.len());
    }
}
