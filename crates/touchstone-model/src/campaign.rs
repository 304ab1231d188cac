//! A campaign: a matrix of model x scenario x hardware x engine, as a file of what is wanted and a document of what is there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{self, DocumentError};
use crate::level::Level;
use crate::run::Outcome;
use crate::target::Target;
use crate::unit::Millis;

/// The format of campaign files.
pub const FILE_FORMAT: &str = "touchstone.campaign-file/1";
/// The format of campaign documents that this version writes.
pub const FORMAT: &str = "touchstone.campaign/1";
/// Cells of a campaign at most.
pub const MAX_CELLS: usize = 10_000;

/// What a campaign measures, as a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CampaignFile {
    /// The format, `touchstone.campaign-file/1`.
    pub format: String,
    /// Short name: letters, digits, hyphens; what is there is kept under it.
    pub name: String,
    /// Models by name.
    pub models: Vec<String>,
    /// Hardware by name; what stands where is for the targets to say.
    pub hardware: Vec<String>,
    /// Engines by name.
    pub engines: Vec<String>,
    /// Scenarios.
    pub scenarios: Vec<CampaignScenario>,
    /// Where cells are reached. The first that fits a cell is taken; a cell that none fits is missing.
    #[serde(default)]
    pub targets: Vec<CampaignTarget>,
    /// Runs per cell, in place of the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// Measured window, in place of the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Millis>,
    /// Warm-up, in place of the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<Millis>,
    /// Drain, in place of the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Millis>,
}

/// A scenario of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CampaignScenario {
    /// Its name in the campaign.
    pub name: String,
    /// Its file, relative to the campaign's.
    pub file: String,
}

/// Where cells are reached. What is absent fits every cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CampaignTarget {
    /// Only cells of this model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Only cells of this hardware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<String>,
    /// Only cells of this engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The target.
    pub target: Target,
    /// The command that starts it; the port must be free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<String>,
    /// The model's name at the target; the only one that it lists when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask_for: Option<String>,
    /// The environment variable that holds the key; never recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
}

impl CampaignFile {
    /// Reads a campaign file.
    ///
    /// # Errors
    /// When the document cannot be read or contradicts itself.
    pub fn from_yaml(file: &str, bytes: &[u8]) -> Result<Self, DocumentError> {
        let campaign: CampaignFile = document::from_yaml(file, bytes)?;
        let wrong =
            |message: String, hint: &str| Err(DocumentError::whole(file, message, Some(hint.to_owned())));
        if campaign.format != FILE_FORMAT {
            return wrong(
                format!("the format is `{}`; this version reads `{FILE_FORMAT}`", campaign.format),
                "write `format: touchstone.campaign-file/1`",
            );
        }
        let plain = |name: &str| {
            (1..=64).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !name.starts_with('-')
        };
        if !plain(&campaign.name) {
            return wrong(
                format!("`{}` is no name of a campaign", campaign.name),
                "use letters, digits and hyphens, at most 64",
            );
        }
        let scenarios: Vec<&String> = campaign.scenarios.iter().map(|scenario| &scenario.name).collect();
        let axes: [(&str, Vec<&String>); 4] = [
            ("models", campaign.models.iter().collect()),
            ("hardware", campaign.hardware.iter().collect()),
            ("engines", campaign.engines.iter().collect()),
            ("scenarios", scenarios),
        ];
        for (axis, names) in &axes {
            if names.is_empty() {
                return wrong(
                    format!("`{axis}` is empty"),
                    "every axis of the matrix needs at least one name",
                );
            }
            let mut sorted = names.clone();
            sorted.sort();
            sorted.dedup();
            if sorted.len() < names.len() {
                return wrong(format!("a name stands twice in `{axis}`"), "each cell is there once");
            }
        }
        let cells: usize = axes.iter().map(|(_, names)| names.len()).product();
        if cells > MAX_CELLS {
            return wrong(format!("the matrix has {cells} cells; at most {MAX_CELLS} are run"), "split it");
        }
        if campaign.repeats == Some(0) {
            return wrong("`repeats` is 0".to_owned(), "a cell needs at least one run");
        }
        Ok(campaign)
    }
}

/// What is there of a campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CampaignDocument {
    /// The format, `touchstone.campaign/1`.
    pub format: String,
    /// The name.
    pub name: String,
    /// The version of touchstone that wrote it last.
    pub touchstone_version: String,
    /// First start, UTC, RFC 3339.
    pub started_at: String,
    /// When it was written, UTC, RFC 3339.
    pub updated_at: String,
    /// Every cell, in the order scenario, model, hardware, engine.
    pub cells: Vec<Cell>,
}

/// What is known of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// Measured on a real target.
    Measured,
    /// Its figures come from a simulator (level E): no measurement of a product.
    Simulated,
    /// Nothing is known; `why` says why.
    Missing,
}

/// One cell of the matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The model.
    pub model: String,
    /// The scenario.
    pub scenario: String,
    /// The hardware.
    pub hardware: String,
    /// The engine.
    pub engine: String,
    /// What is known of it.
    pub state: CellState,
    /// Why it is missing; null when it is not.
    pub why: Option<String>,
    /// Digest of what it was measured with: scenario, target, overrides. A cell whose digest differs is measured again.
    pub digest: String,
    /// The ids of its runs.
    pub runs: Vec<String>,
    /// That of its weakest run; null when missing.
    pub level: Option<Level>,
    /// The medians over its runs; null when missing.
    pub figures: Option<CellFigures>,
}

/// The chief figures of a cell: medians over its runs, null where unmeasured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellFigures {
    /// `ttft` median, ms.
    pub ttft_ms_p50: Option<f64>,
    /// `ttft` 95th percentile, ms.
    pub ttft_ms_p95: Option<f64>,
    /// `itl` 95th percentile, ms.
    pub itl_ms_p95: Option<f64>,
    /// `e2e` 95th percentile, ms.
    pub e2e_ms_p95: Option<f64>,
    /// Completions per second.
    pub throughput: Option<f64>,
    /// Output tokens per second.
    pub output_token_throughput: Option<f64>,
    /// Failed share.
    pub error_rate: Option<f64>,
    /// The worst outcome of the scenario's limits over the runs; null when it has none.
    pub limits: Option<Outcome>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "format: touchstone.campaign-file/1\nname: b3\nmodels: [m]\nhardware: [h]\nengines: [e, f]\nscenarios: [{name: s, file: s.yaml}]\ntargets: [{engine: e, target: engine=flat}]\n";

    #[test]
    fn a_good_file_is_read_and_bad_ones_say_what_is_wrong() {
        let campaign = CampaignFile::from_yaml("c.yaml", GOOD.as_bytes()).unwrap();
        assert_eq!((campaign.engines.len(), campaign.targets.len()), (2, 1));
        for (from, to, says) in [
            ("campaign-file/1", "campaign-file/2", "format"),
            ("name: b3", "name: ../b", "no name"),
            ("[e, f]", "[e, e]", "twice"),
            ("[e, f]", "[]", "empty"),
            ("models:", "model:", "model"),
            ("engine=flat", "what", "what"),
        ] {
            let error = CampaignFile::from_yaml("c.yaml", GOOD.replace(from, to).as_bytes()).unwrap_err();
            assert!(error.problems[0].message.contains(says), "{to}: {}", error.problems[0].message);
        }
    }
}
