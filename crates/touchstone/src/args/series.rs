//! What goes beyond one run of `bench`: repeats, a second target, a baseline, launching the target, reports for CI.

use std::path::PathBuf;

use clap::Args;
use touchstone_decide::contrast::Terms;
use touchstone_model::Target;
use touchstone_model::unit::Millis;

use super::values;
use crate::failure::Failure;

const SERIES: &str = "Repeats and comparison";
const LAUNCH: &str = "Launching the target";

#[derive(Debug, Args)]
pub(super) struct SeriesFlags {
    /// Runs of each target; each has its own warm-up and prompts [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = SERIES)]
    pub(super) repeats: Option<u32>,
    /// A second target under the same load, interleaved A B, B A, ..; the first is compared with it
    #[arg(long, value_name = "PROTOCOL=ADDRESS", value_parser = values::target, help_heading = SERIES)]
    pub(super) versus: Option<values::TargetArg>,
    /// Compare with these recorded runs (ids, or name=value); exit code 3 when something is worse, or suspected to be
    #[arg(long, value_name = "RUN,..", value_delimiter = ',', help_heading = SERIES)]
    pub(super) baseline: Vec<String>,
    /// Smallest relative difference that matters [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = values::share, help_heading = SERIES)]
    pub(super) margin: Option<f64>,
    /// Write the outcome as JUnit XML to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) junit: Option<PathBuf>,
    /// Start the target with this command, in a process group of its own, and end it afterwards; the port must be free
    #[arg(long, value_name = "COMMAND", help_heading = LAUNCH)]
    pub(super) launch: Option<String>,
    /// Fresh deploys, each with its --repeats runs [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), requires = "launch", help_heading = LAUNCH)]
    pub(super) deploys: Option<u32>,
    /// Time that the target may take until it answers [default: 10min]
    #[arg(long, value_name = "DURATION", value_parser = values::length, requires = "launch", help_heading = LAUNCH)]
    pub(super) launch_timeout: Option<Millis>,
}

impl SeriesFlags {
    /// The first flag that was given, by name.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--repeats", self.repeats.is_some()),
            ("--versus", self.versus.is_some()),
            ("--baseline", !self.baseline.is_empty()),
            ("--margin", self.margin.is_some()),
            ("--junit", self.junit.is_some()),
            ("--launch", self.launch.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// What goes beyond one run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeriesArgs {
    /// Runs of each target and deploy.
    pub(crate) repeats: u32,
    /// The second target.
    pub(crate) versus: Option<Target>,
    /// Selectors of recorded runs.
    pub(crate) baseline: Vec<String>,
    /// How to compare.
    pub(crate) terms: Terms,
    /// Where JUnit XML goes.
    pub(crate) junit: Option<PathBuf>,
    /// The command that starts the target.
    pub(crate) launch: Option<String>,
    /// Fresh deploys.
    pub(crate) deploys: u32,
    /// Time that a deploy may take.
    pub(crate) launch_timeout: Millis,
}

impl SeriesArgs {
    pub(super) fn from_flags(flags: SeriesFlags, target: &Target) -> Result<Self, Failure> {
        let versus = match flags.versus {
            Some(given) => {
                let versus = given.0.map_err(|why| Failure::usage(format!("`--versus`: {why}")))?;
                if versus.protocol.family() != target.protocol.family() {
                    return Err(Failure::usage("`--versus` is of another family than `--target`")
                        .hint("only targets that do the same work compare"));
                }
                if !versus.is_loopback() && target.is_loopback() {
                    return Err(Failure::usage("`--versus` is not on this machine while `--target` is")
                        .hint("name the farther one as `--target`, so that its load has to be stated"));
                }
                Some(versus)
            }
            None => None,
        };
        if versus.is_some() && !flags.baseline.is_empty() {
            return Err(Failure::usage("`--versus` and `--baseline` both say what to compare with")
                .hint("use one of them; `touchstone compare` takes recorded runs"));
        }
        let margin = flags.margin.unwrap_or(Terms::default().margin);
        if !(margin > 0.0 && margin < 1.0) {
            return Err(Failure::usage("`--margin` must lie between 0 and 1, both excluded")
                .hint("as in `--margin 5%`"));
        }
        if flags.launch.is_some() && !target.is_loopback() {
            return Err(Failure::usage(
                "`--launch` starts a process here, but the target is not on this machine",
            )
            .hint("give a loopback address as `--target`"));
        }
        if flags.launch.is_some() && target.protocol == touchstone_model::Protocol::Engine {
            return Err(Failure::usage("`engine=` targets are launched anyway")
                .hint("leave `--launch` out; `--repeats` starts a fresh engine for every run"));
        }
        Ok(Self {
            repeats: flags.repeats.unwrap_or(1),
            versus,
            baseline: flags.baseline,
            terms: Terms { margin, ..Terms::default() },
            junit: flags.junit,
            launch: flags.launch,
            deploys: flags.deploys.unwrap_or(1),
            launch_timeout: flags.launch_timeout.unwrap_or(Millis(600_000.0)),
        })
    }

    /// Whether there is more to do than one run.
    pub(crate) fn is_series(&self) -> bool {
        self.repeats > 1 || self.deploys > 1 || self.versus.is_some() || self.launch.is_some()
    }
}
