//! What `init` was told: every answer that flags gave, still incomplete.

use std::path::PathBuf;

use touchstone_model::scenario::{Candidate, Criterion};
use touchstone_model::unit::{Bytes, Growth, Millis, Share};
use touchstone_model::{Arrival, Dimension, Family, Requirement};

use super::Folder;
use super::raw::{FamilyName, InitFlags};
use super::values::Answer;
use crate::failure::Failure;

/// What `init` was told; what is absent is asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct InitArgs {
    /// The file to write.
    pub(crate) file: PathBuf,
    /// Whether it may be replaced.
    pub(crate) force: bool,
    /// Name of the scenario.
    pub(crate) name: Option<String>,
    /// What it is about.
    pub(crate) description: Option<String>,
    /// Family of systems.
    pub(crate) family: Option<Family>,
    /// The load.
    pub(crate) arrival: Option<Arrival>,
    /// Inference: prompt tokens.
    pub(crate) input_tokens: Option<u32>,
    /// Inference: generated tokens.
    pub(crate) output_tokens: Option<u32>,
    /// Queue: size of a message.
    pub(crate) message_bytes: Option<Bytes>,
    /// Cache: number of keys.
    pub(crate) keys: Option<u64>,
    /// Cache: size of a value.
    pub(crate) value_bytes: Option<Bytes>,
    /// Cache: share of reads.
    pub(crate) read_ratio: Option<Share>,
    /// Latency, throughput, consistency, reliability, in this order.
    pub(crate) demands: [Option<DemandAnswer>; 4],
    /// Peak load / stated load.
    pub(crate) peak_factor: Option<f64>,
    /// Growth of the load.
    pub(crate) growth: Option<Growth>,
    /// How long the decision is meant to hold.
    pub(crate) horizon: Option<Millis>,
    /// Criteria, most important first.
    pub(crate) criteria: Vec<Criterion>,
    /// Candidates; all that the catalog knows when empty.
    pub(crate) candidates: Vec<Candidate>,
    /// Length of the measured window.
    pub(crate) duration: Option<Millis>,
    /// Runs per candidate.
    pub(crate) repeats: Option<u32>,
    /// The folder of what is kept, with the user's own catalog.
    pub(crate) out: Folder,
}

/// The answer to one dimension.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DemandAnswer {
    /// What must hold; not empty, all of the dimension.
    Require(Vec<Requirement>),
    /// Why the dimension does not matter.
    None(String),
}

/// The dimensions that are answered by requirements; scalability has numbers of its own.
pub(crate) const DEMANDED: [Dimension; 4] =
    [Dimension::Latency, Dimension::Throughput, Dimension::Consistency, Dimension::Reliability];

/// Puts the answers to one dimension together.
///
/// # Errors
/// When requirements and `none` are mixed, or a requirement belongs to another dimension.
pub(crate) fn demand(dimension: Dimension, answers: Vec<Answer>) -> Result<Option<DemandAnswer>, Failure> {
    let mut requirements = Vec::new();
    let mut waived = None;
    for answer in answers {
        match answer {
            Answer::None(reason) => waived = Some(reason),
            Answer::Require(requirement) => {
                let belongs = requirement.subject.dimension();
                if belongs != dimension {
                    return Err(Failure::usage(format!(
                        "`{requirement}` belongs to {belongs}, not to {dimension}"
                    ))
                    .hint(format!("write it as `--{belongs} '{requirement}'`")));
                }
                requirements.push(requirement);
            }
        }
    }
    match (waived, requirements.is_empty()) {
        (None, true) => Ok(None),
        (None, false) => Ok(Some(DemandAnswer::Require(requirements))),
        (Some(reason), true) => Ok(Some(DemandAnswer::None(reason))),
        (Some(_), false) => {
            Err(Failure::usage(format!("`--{dimension}` both requires something and says `none`"))
                .hint("keep one of them"))
        }
    }
}

impl InitArgs {
    pub(super) fn from_flags(flags: InitFlags, out: Folder) -> Result<Self, Failure> {
        let [latency, throughput, consistency, reliability] = DEMANDED;
        let demands = [
            demand(latency, flags.latency)?,
            demand(throughput, flags.throughput)?,
            demand(consistency, flags.consistency)?,
            demand(reliability, flags.reliability)?,
        ];
        if let Some(factor) = flags.peak_factor
            && !(1.0..=1e6).contains(&factor)
        {
            return Err(Failure::usage(format!("`--peak-factor` is {factor}"))
                .hint("write peak load / stated load, at least 1"));
        }
        let bytes = |size: u32| Bytes(f64::from(size));
        Ok(Self {
            file: flags.file,
            force: flags.force,
            name: flags.name,
            description: flags.description,
            family: flags.family.map(|family| match family {
                FamilyName::Inference => Family::Inference,
                FamilyName::Queue => Family::Queue,
                FamilyName::Cache => Family::Cache,
            }),
            arrival: flags.arrival,
            input_tokens: flags.input_tokens,
            output_tokens: flags.output_tokens,
            message_bytes: flags.message_bytes.map(bytes),
            keys: flags.keys,
            value_bytes: flags.value_bytes.map(bytes),
            read_ratio: flags.read_ratio.map(Share),
            demands,
            peak_factor: flags.peak_factor,
            growth: flags.growth,
            horizon: flags.horizon,
            criteria: flags.criterion,
            candidates: flags.candidate,
            duration: flags.duration,
            repeats: flags.repeats,
            out,
        })
    }
}
