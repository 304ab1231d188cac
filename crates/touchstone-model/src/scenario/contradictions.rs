//! What contradicts itself in a scenario that can be read.

use super::{Candidates, Scenario};
use crate::metric::Family;
use crate::requirement::Subject;

impl Scenario {
    /// What contradicts itself: (key, message, hint).
    pub(super) fn contradictions(&self) -> Vec<(String, String, String)> {
        let mut found = Vec::new();
        let mut add = |key: &str, message: String, hint: String| found.push((key.to_owned(), message, hint));
        let named_well = !self.name.is_empty()
            && self.name.len() <= 100
            && self.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if !named_well {
            add("name", format!("`{}` is no name", self.name), "use letters, digits, `-` and `_`".to_owned());
        }
        let w = &self.workload;
        let fields: [(&str, bool, Family, bool); 7] = [
            ("input_tokens", w.input_tokens.is_some(), Family::Inference, true),
            ("output_tokens", w.output_tokens.is_some(), Family::Inference, true),
            ("message_bytes", w.message_bytes.is_some(), Family::Queue, true),
            ("keys", w.keys.is_some(), Family::Cache, true),
            ("value_bytes", w.value_bytes.is_some(), Family::Cache, true),
            ("read_ratio", w.read_ratio.is_some(), Family::Cache, true),
            ("pipeline", w.pipeline.is_some(), Family::Cache, false),
        ];
        for (key, given, family, needed) in fields {
            if given && family != self.family {
                add(
                    key,
                    format!("`{key}` belongs to {family} workloads, but the family is {}", self.family),
                    "remove it, or change `family`".to_owned(),
                );
            }
            if !given && needed && family == self.family {
                add("workload", format!("`workload.{key}` is missing"), workload_question(key).to_owned());
            }
        }
        let positive = [
            ("input_tokens", w.input_tokens.map(u64::from)),
            ("output_tokens", w.output_tokens.map(u64::from)),
            ("keys", w.keys),
            ("pipeline", w.pipeline.map(u64::from)),
            ("connections", w.connections.map(u64::from)),
        ];
        for (key, value) in positive {
            if value == Some(0) {
                add(key, format!("`{key}` is 0"), "expected a whole number from 1 on".to_owned());
            }
        }
        if w.read_ratio.is_some_and(|share| share.0 > 1.0) {
            add(
                "read_ratio",
                "`read_ratio` is above 100%".to_owned(),
                "expected a share from 0 to 100%".to_owned(),
            );
        }
        let peak = self.requirements.scalability.peak_factor;
        if !(1.0..=1e6).contains(&peak) {
            add(
                "peak_factor",
                format!("`peak_factor` is {peak}"),
                "expected peak load / base load, at least 1".to_owned(),
            );
        }
        for requirement in self.all_requirements() {
            if let Subject::Capability(capability) = requirement.subject
                && !capability.families().contains(&self.family)
            {
                let subject = requirement.subject.to_string();
                add(
                    &subject,
                    format!("`{subject}` means nothing for {} systems", self.family),
                    "remove it, or change `family`".to_owned(),
                );
            }
            if let Subject::Metric(metric, _) = requirement.subject
                && !metric.families().contains(&self.family)
            {
                add(
                    metric.as_str(),
                    format!("`{metric}` is not measured for {} systems", self.family),
                    "remove it, or change `family`".to_owned(),
                );
            }
            if let (Subject::Metric(metric, _), crate::requirement::Limit::Quantity(limit)) =
                (requirement.subject, requirement.limit)
                && metric.unit() == crate::unit::Unit::Ratio
                && limit.value > 1.0
            {
                add(
                    metric.as_str(),
                    format!("`{requirement}`: a share is at most 100%"),
                    "expected a share such as `0.1%`".to_owned(),
                );
            }
        }
        let mut metrics: Vec<String> = Vec::new();
        for criterion in &self.criteria {
            let name = criterion.metric.to_string();
            if let Subject::Metric(metric, _) = criterion.metric
                && !metric.families().contains(&self.family)
            {
                add(
                    metric.as_str(),
                    format!("`{metric}` is not measured for {} systems", self.family),
                    "remove the criterion, or change `family`".to_owned(),
                );
            }
            if metrics.contains(&name) {
                add(
                    "criteria",
                    format!("the criterion `{name}` is listed twice"),
                    "keep one of them".to_owned(),
                );
            }
            metrics.push(name);
        }
        let mut preferred: Vec<&String> = Vec::new();
        for name in self.preference.iter().flat_map(|group| &group.0) {
            if !metrics.contains(name) {
                add(
                    "preference",
                    format!("the preference names `{name}`, which is no criterion"),
                    format!("expected one of {}", metrics.join(", ")),
                );
            }
            if preferred.contains(&name) {
                add(
                    "preference",
                    format!("the preference names `{name}` twice"),
                    "keep one of them".to_owned(),
                );
            }
            preferred.push(name);
        }
        if self.criteria.len() > 8 {
            add(
                "criteria",
                format!("{} criteria are too many", self.criteria.len()),
                "at most 8 can be weighed soundly; turn the others into requirements".to_owned(),
            );
        }
        if let Candidates::List(list) = &self.candidates {
            if list.is_empty() {
                add(
                    "candidates",
                    "the list of candidates is empty".to_owned(),
                    "write `any`, or name at least one".to_owned(),
                );
            }
            for (index, candidate) in list.iter().enumerate() {
                if list[..index].iter().any(|earlier| earlier.name == candidate.name) {
                    add(
                        "candidates",
                        format!("two candidates are called `{}`", candidate.name),
                        "names must be unique".to_owned(),
                    );
                }
                if candidate.name.chars().any(char::is_control) || candidate.name.chars().count() > 100 {
                    add(
                        "candidates",
                        "a candidate's name holds control characters or is longer than 100".to_owned(),
                        "give it a short, plain name".to_owned(),
                    );
                }
                if candidate.name.trim().is_empty() {
                    add(
                        "candidates",
                        "a candidate has an empty name".to_owned(),
                        "give it a name".to_owned(),
                    );
                }
                if let Some(target) = &candidate.target
                    && target.protocol.family() != self.family
                {
                    add(
                        "candidates",
                        format!(
                            "the target of `{}` speaks {}, which is no {} protocol",
                            candidate.name, target.protocol, self.family
                        ),
                        "use a target of the scenario's family".to_owned(),
                    );
                }
            }
        }
        let m = &self.measurement;
        if !(m.confidence > 0.5 && m.confidence < 1.0) {
            add(
                "confidence",
                format!("`confidence` is {}", m.confidence),
                "expected more than 0.5 and less than 1".to_owned(),
            );
        }
        if !(1..=1000).contains(&m.repeats) {
            add("repeats", format!("`repeats` is {}", m.repeats), "expected from 1 to 1000".to_owned());
        }
        if m.duration.0 < 1.0 || m.duration.0 > 30.0 * 86_400e3 {
            add("duration", format!("`duration` is {}", m.duration), "expected from 1ms to 30d".to_owned());
        }
        if self.horizon.0 <= 0.0 {
            add(
                "horizon",
                "`horizon` is 0".to_owned(),
                "for how long is the decision meant to hold? for example `12 months`".to_owned(),
            );
        }
        found
    }
}

fn workload_question(key: &str) -> &'static str {
    match key {
        "input_tokens" => "how many prompt tokens does a request have? for example `input_tokens: 128`",
        "output_tokens" => "how many tokens does an answer have? for example `output_tokens: 64`",
        "message_bytes" => "how large is a message? for example `message_bytes: 128B`",
        "keys" => "how many keys are in use? for example `keys: 100000`",
        "value_bytes" => "how large is a value? for example `value_bytes: 64B`",
        _ => "what share of the operations reads? for example `read_ratio: 90%`",
    }
}

/// The first line on which `key` stands as a word, with its column; (0, 0) when it stands nowhere.
pub(super) fn place_of(bytes: &[u8], key: &str) -> (u64, u64) {
    let text = String::from_utf8_lossy(bytes);
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    for (number, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices(key) {
            let before = line[..at].chars().next_back();
            let after = line[at + key.len()..].chars().next();
            if !is_word(before) && !is_word(after) && !line.trim_start().starts_with('#') {
                return (number as u64 + 1, line[..at].chars().count() as u64 + 1);
            }
        }
    }
    (0, 0)
}
