//! The scenario file that `init` writes: YAML with a comment for whoever opens it later.

use std::fmt::{self, Write as _};
use std::path::Path;

use touchstone_model::scenario::{Candidate, FORMAT};
use touchstone_model::{Arrival, Dimension};

use crate::args::{self, DEMANDED, DemandAnswer, InitArgs};
use crate::failure::Failure;

/// The file's text.
///
/// # Errors
/// When an answer is missing.
pub(super) fn scenario(answers: &InitArgs) -> Result<String, Failure> {
    let mut out = String::new();
    match write(&mut out, answers) {
        Ok(Some(())) => Ok(out),
        _ => Err(Failure::usage("the scenario is incomplete")),
    }
}

/// `None` when an answer is missing.
fn write(out: &mut String, answers: &InitArgs) -> Result<Option<()>, fmt::Error> {
    let name = answers.name.clone().unwrap_or_else(|| name_of(&answers.file));
    let (Some(family), Some(arrival)) = (answers.family, answers.arrival) else { return Ok(None) };
    writeln!(out, "# A scenario: the demand in numbers, before any product is chosen.")?;
    writeln!(
        out,
        "# `touchstone check` reads it, `touchstone match` rules candidates out, `touchstone run` measures and decides."
    )?;
    writeln!(out, "format: {FORMAT}")?;
    writeln!(out, "name: {}", quoted(&name))?;
    if let Some(description) = &answers.description {
        writeln!(out, "description: {}", quoted(description))?;
    }
    writeln!(out, "family: {family}\n")?;
    workload(out, answers, arrival)?;
    if requirements(out, answers)?.is_none() {
        return Ok(None);
    }
    criteria(out, answers)?;
    candidates(out, &answers.candidates)?;
    let Some(horizon) = answers.horizon else { return Ok(None) };
    writeln!(out, "\n# How long the decision is meant to hold.\nhorizon: {}", args::horizon(horizon))?;
    measurement(out, answers)?;
    Ok(Some(()))
}

fn workload(out: &mut String, answers: &InitArgs, arrival: Arrival) -> fmt::Result {
    writeln!(out, "# The base load; candidates are measured at peak_factor times its rate.")?;
    writeln!(out, "workload:\n  arrival: {arrival}")?;
    let mut field = |name: &str, value: Option<String>| match value {
        Some(value) => writeln!(out, "  {name}: {value}"),
        None => Ok(()),
    };
    field("input_tokens", answers.input_tokens.map(|n| n.to_string()))?;
    field("output_tokens", answers.output_tokens.map(|n| n.to_string()))?;
    field("message_bytes", answers.message_bytes.map(|size| size.to_string()))?;
    field("keys", answers.keys.map(|n| n.to_string()))?;
    field("value_bytes", answers.value_bytes.map(|size| size.to_string()))?;
    field("read_ratio", answers.read_ratio.map(|share| share.to_string()))
}

fn requirements(out: &mut String, answers: &InitArgs) -> Result<Option<()>, fmt::Error> {
    writeln!(out, "\n# What must hold, in five dimensions. A dimension that does not matter says why.")?;
    writeln!(out, "requirements:")?;
    for (dimension, demand) in DEMANDED.into_iter().zip(&answers.demands) {
        let Some(demand) = demand else { return Ok(None) };
        match demand {
            DemandAnswer::None(reason) => writeln!(out, "  {dimension}:\n    none: {}", quoted(reason))?,
            DemandAnswer::Require(requirements) => {
                writeln!(out, "  {dimension}:")?;
                for requirement in requirements {
                    writeln!(out, "    - {requirement}")?;
                }
            }
        }
    }
    let (Some(peak), Some(growth)) = (answers.peak_factor, answers.growth) else { return Ok(None) };
    writeln!(out, "  {}:\n    peak_factor: {peak}\n    growth: {growth}", Dimension::Scalability)?;
    Ok(Some(()))
}

fn criteria(out: &mut String, answers: &InitArgs) -> fmt::Result {
    if answers.criteria.is_empty() {
        writeln!(
            out,
            "\n# What to have more of, between two fixed anchors: worst is worth 0, best is worth 1."
        )?;
        return writeln!(
            out,
            "# criteria:\n#   - {{metric: ttft.p95, worst: 400ms, best: 50ms}}\n# preference: [ttft.p95]"
        );
    }
    writeln!(
        out,
        "\n# What to have more of, between two fixed anchors: worst is worth 0, best is worth 1.\ncriteria:"
    )?;
    for criterion in &answers.criteria {
        writeln!(
            out,
            "  - metric: {}\n    worst: {}\n    best: {}",
            criterion.metric, criterion.worst, criterion.best
        )?;
    }
    writeln!(out, "# Most important first; criteria of equal standing share an inner list.\npreference:")?;
    for criterion in &answers.criteria {
        writeln!(out, "  - {}", criterion.metric)?;
    }
    Ok(())
}

fn candidates(out: &mut String, candidates: &[Candidate]) -> fmt::Result {
    if candidates.is_empty() {
        writeln!(out, "\n# All that the catalog knows; list some, with a `target`, to have them measured:")?;
        writeln!(out, "#   - {{name: a, product: vllm, target: \"openai-chat=http://127.0.0.1:8000\"}}")?;
        return writeln!(out, "candidates: any");
    }
    writeln!(out, "\n# A candidate with a target is measured; one without is matched only.\ncandidates:")?;
    for candidate in candidates {
        writeln!(out, "  - name: {}\n    product: {}", quoted(&candidate.name), quoted(&candidate.product))?;
        if let Some(configuration) = &candidate.configuration {
            writeln!(out, "    configuration: {}", quoted(configuration))?;
        }
        if let Some(target) = &candidate.target {
            writeln!(out, "    target: {}", quoted(&target.to_string()))?;
        }
    }
    Ok(())
}

fn measurement(out: &mut String, answers: &InitArgs) -> fmt::Result {
    if answers.duration.is_none() && answers.repeats.is_none() {
        return Ok(());
    }
    writeln!(out, "\n# How each candidate is measured.\nmeasurement:")?;
    if let Some(duration) = answers.duration {
        writeln!(out, "  duration: {duration}")?;
    }
    if let Some(repeats) = answers.repeats {
        writeln!(out, "  repeats: {repeats}")?;
    }
    Ok(())
}

/// A text as YAML: plain where that is unmistakable, else in double quotes, whose escapes are those of JSON.
fn quoted(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        && !["true", "false", "yes", "no", "on", "off", "null", "y", "n"]
            .contains(&text.to_ascii_lowercase().as_str());
    if plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

/// A scenario's name from its file's: `my chat.yaml` gives `my-chat`.
fn name_of(file: &Path) -> String {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let good = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' };
    let name: String = stem.chars().map(good).take(100).collect();
    if name.trim_matches('-').is_empty() { "scenario".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_yaml_would_misread_are_quoted() {
        assert_eq!(quoted("chat-1"), "chat-1");
        for text in ["", "no", "NULL", "1e5", "a: b", "a #b", "- x", "it \"is\"\n so", "回答"] {
            assert!(quoted(text).starts_with('"'), "{text}");
        }
    }

    #[test]
    fn a_name_follows_from_the_file() {
        assert_eq!(name_of(Path::new("a/my chat.v2.yaml")), "my-chat-v2");
        assert_eq!(name_of(Path::new("聊天.yaml")), "scenario");
    }
}
