//! Findings: something wrong or noteworthy about a measurement, never silently dropped.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much a finding matters, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Figures may mislead; read the advice before they are used.
    Warning,
    /// The run is invalid: its figures say nothing about the target.
    Invalid,
}

impl Severity {
    /// The name in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Invalid => "invalid",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Severity {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        [Severity::Note, Severity::Warning, Severity::Invalid]
            .into_iter()
            .find(|severity| severity.as_str() == text)
            .ok_or_else(|| format!("unknown severity `{text}`; expected note, warning or invalid"))
    }
}

macro_rules! findings {
    ($($variant:ident, $code:literal, $severity:ident, $meaning:literal;)+) => {
        /// The codes of all findings; [`FindingCode::meaning`] says when each is raised.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum FindingCode {
            $(#[doc = $meaning] #[serde(rename = $code)] $variant,)+
        }

        impl FindingCode {
            /// Every code, in the order of the reference.
            pub const ALL: &'static [FindingCode] = &[$(FindingCode::$variant),+];

            /// The code as written in files.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(FindingCode::$variant => $code),+ }
            }

            /// The severity with which it is raised.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self { $(FindingCode::$variant => Severity::$severity),+ }
            }

            /// When it is raised.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(FindingCode::$variant => $meaning),+ }
            }
        }
    };
}

findings! {
    Simulated, "simulated", Note, "the target is a simulator: no figure of this run is a measurement of a product";
    GeneratorLate, "generator-late", Invalid, "scheduling error explains the measured latency: the generator fell behind its schedule";
    GeneratorBusy, "generator-busy", Warning, "the generator's threads used more than 85 % of their cores";
    GeneratorLoopback, "generator-near-ceiling", Warning, "the offered load is near what the generator itself can send on this machine";
    GeneratorRealtime, "generator-realtime", Note, "the machine was crowded and the generator ran with real-time priority";
    LoadNotReached, "load-not-reached", Warning, "fewer operations were sent than the schedule intended";
    NoMeasuredOperations, "no-measured-operations", Invalid, "no operation was intended in the measured window";
    TargetFailed, "target-failed", Warning, "the target failed the run: most operations failed, or it stopped answering before the end; the run stands as evidence of that";
    OwnFailures, "own-failures", Invalid, "as target-failed, but some operations failed through the generator or the request itself: no evidence against the target";
    AllFailed, "all-failed", Invalid, "every operation of the measured window failed";
    Errors, "errors", Warning, "some operations failed";
    TooManyErrors, "too-many-errors", Invalid, "the run was stopped because --max-errors was reached";
    BacklogGrowing, "backlog-growing", Warning, "operations arrive faster than they are answered: the load is above saturation";
    Trend, "trend", Warning, "latency drifts over the measured window: this is no steady state";
    Censored, "censored", Warning, "operations were still unfinished at the end of drain; they count as failed";
    EmptyAnswers, "empty-answers", Warning, "answers without any generated content";
    TokenCount, "token-count", Warning, "answers have other token counts than were asked for";
    PrefixCache, "prefix-cache", Warning, "the server's prefix cache found another share of the input tokens than the prompts share on purpose";
    InputTokenCount, "input-token-count", Warning, "the server counts other input tokens than were sent, by more than a tenth";
    CacheNotCold, "cache-not-cold", Warning, "a prefix cache knew more of the prompts than they share, though it was declared cold";
    CacheAsIs, "cache-as-is", Note, "a prefix cache may know the prompts from an earlier run";
    TokensUnknown, "tokens-unknown", Note, "the server reports no token counts: token metrics are null";
    UsageContradiction, "usage-contradiction", Warning, "the server counts fewer output tokens than content came: token metrics are null";
    ItlCoalesced, "itl-coalesced", Warning, "more than 5 % of content events shared a read with an earlier one: their instants are upper bounds";
    SampleTooSmall, "sample-too-small", Note, "too few effective samples for an asked-for percentile bound";
    ClockStep, "clock-step", Warning, "the wall clock stepped during the run: kernel stamps were replaced by user stamps";
    UserStamps, "user-stamps", Note, "receive times come from user space, not from the kernel";
    EventsDropped, "events-dropped", Warning, "a consumer of run events was too slow and lost some";
    RecordFailed, "record-failed", Warning, "the run could not be recorded completely";
    Interrupted, "interrupted", Warning, "the run was ended before its time";
    Reconnects, "reconnects", Note, "the target closed connections and they were opened again";
    MessagesLost, "messages-lost", Warning, "messages were published and never received";
    MessagesDuplicated, "messages-duplicated", Warning, "messages were received more than once";
    MessagesReordered, "messages-reordered", Warning, "messages were received out of their producer's order";
    HostBusy, "host-busy", Warning, "other processes used the machine during the run";
    MissesUnexpected, "cache-misses", Note, "lookups missed although the keys were loaded before";
    NotSteady, "not-steady", Warning, "a transient reaches into the measured window and shapes its figures";
    FewRuns, "few-runs", Warning, "a comparison rests on fewer than 5 runs a side: nothing is claimed";
    FewDeploys, "few-deploys", Note, "a comparison rests on fewer than 3 deploys a side, or on deploys that are not known: it holds for these deploys";
    RunsLeftOut, "runs-left-out", Warning, "invalid runs were left out of a comparison";
    UnequalWorkload, "unequal-workload", Warning, "two sides of a comparison were loaded differently";
    ProbesInvalid, "probes-invalid", Warning, "some probes of a search are invalid and decided nothing";
    SearchIncomplete, "search-incomplete", Warning, "a search ended before it had narrowed its answer down as far as was asked for";
    InFlightLimit, "in-flight-limit", Warning, "operations waited because --max-in-flight was reached";
    ServerDisagrees, "server-disagrees", Warning, "the server's own counters say something else than the client saw over the same window";
    ServerRestarted, "server-restarted", Warning, "the server's counters began anew during the run: it was started again";
    ServerUnreadable, "server-unreadable", Warning, "the metrics page that was asked for could not be read";
    Throttling, "throttling", Warning, "an accelerator held its clocks down during the measured window, by its power or its heat";
    PrefixShare, "prefix-share", Warning, "the server found another share of prompt tokens in its prefix cache than the workload declares";
}

impl fmt::Display for FindingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something wrong or noteworthy about a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What kind of thing it is.
    pub code: FindingCode,
    /// What was seen, with the figures.
    pub message: String,
    /// What to do about it.
    pub advice: String,
}

impl Finding {
    /// A finding with the severity of its code.
    pub fn new(code: FindingCode, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: code.severity(), code, message: message.into(), advice: advice.into() }
    }
}
