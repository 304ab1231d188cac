//! The command line as clap sees it. Single values are read here; what several flags mean together is decided by the
//! typed requests in the modules next to this one.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use touchstone_flow::prompts::CachePolicy;
use touchstone_load::Timeouts;
use touchstone_model::scenario::{Candidate, Criterion};
use touchstone_model::unit::{Growth, Millis};
use touchstone_model::{Arrival, Length, Requirement, Severity};
use touchstone_workload::requests::PrefixGroups;

use super::values::{self, Answer, Sink};

/// Chooses AI-serving infrastructure by measured evidence.
///
/// A scenario states the demand in numbers; candidates are matched against it, measured under exact load, and a decision
/// is written down whose every sentence unfolds to its evidence.
#[derive(Debug, Parser)]
#[command(
    name = "touchstone",
    bin_name = "touchstone",
    version,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "Start with `touchstone demo`. Exit codes: 0 done, 1 the run is invalid or the target failed it, 2 bad input or usage, 3 an SLO or gate was not met or a finding reached --fail-on, 4 stored evidence is broken, 130 interrupted."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Raw,
}

#[derive(Debug, Clone, Args)]
pub(super) struct Global {
    /// Print neither progress nor summaries; data, errors and hints stay
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub(super) quiet: bool,
    /// Print without colour
    #[arg(long, global = true, help_heading = "Global options")]
    pub(super) no_color: bool,
    /// Language of sentences; ids, units and formats are the same in both
    #[arg(long, global = true, value_enum, default_value_t = LangName::En, value_name = "LANG", help_heading = "Global options")]
    pub(super) lang: LangName,
    /// Folder for what is kept: runs in DIR/.touchstone, decisions in DIR/decisions
    #[arg(long, global = true, default_value = ".", value_name = "DIR", help_heading = "Global options")]
    pub(super) out: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LangName {
    /// English
    En,
    /// Simplified Chinese
    Zh,
}

#[derive(Debug, Subcommand)]
pub(super) enum Raw {
    /// Show the whole method on this machine in about two minutes, with simulated engines
    Demo,
    /// Ask the questions of the five dimensions and write a scenario file
    Init(Box<InitFlags>),
    /// Read a scenario and say what it demands and what will be measured
    Check(FileJson),
    /// Match a scenario against the catalog: who is ruled out, and by which rule
    Match(FileJson),
    /// Match, measure each reachable candidate, decide, and write the record
    Run(RunFlags),
    /// Decide from recorded runs of the scenario, and write the record
    Decide(DecideFlags),
    /// Unfold a statement of a decision record down to its evidence
    Explain(ExplainFlags),
    /// Put one target under exact load and report what was measured
    Bench(Box<BenchFlags>),
    /// Say what a bench with the same flags would send, and whether it is enough for the bounds asked for; sends nothing
    PlanRun(Box<BenchFlags>),
    /// Say how recorded runs stand against others: better, equivalent, worse, or not resolved
    Compare(Box<super::compare::CompareFlags>),
    /// Measure a matrix of model, scenario, hardware and engine; goes on where it was when started again
    Campaign(CampaignFlags),
    /// Repeat a recorded bench with its own words and seed
    Rerun(RunId),
    /// Find the limits of one target by adaptive search over its load
    Search(Box<super::search::SearchFlags>),
    /// Run the embedded engine: a simulated server behind the OpenAI protocol
    Engine(Box<EngineFlags>),
    /// List, show, verify and export recorded runs
    Runs(Box<super::runs::RunsFlags>),
    /// Say how well this machine can measure, and what to change
    Doctor(JsonOnly),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// Write the JSON Schemas and the reference documents
    #[command(hide = true)]
    Generate {
        /// The folder to write into
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        /// Write nothing; fail when a file differs
        #[arg(long)]
        check: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct FileJson {
    /// The scenario file (YAML)
    pub(super) file: PathBuf,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct CampaignFlags {
    /// The campaign file (YAML)
    pub(super) file: PathBuf,
    /// Measure nothing; show what is there
    #[arg(long)]
    pub(super) show: bool,
    /// Write the campaign as JSON to a file, or to standard output with `-`
    #[arg(long, value_name = "PATH|-", value_parser = values::sink, num_args = 0..=1, default_missing_value = "-")]
    pub(super) json: Option<Sink>,
    /// Write the page to this file [default: report.html beside the campaign's state]
    #[arg(long, value_name = "PATH")]
    pub(super) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct JsonOnly {
    /// Print one JSON document instead of text
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RunFlags {
    /// The scenario file (YAML)
    pub(super) file: PathBuf,
    /// Write the decision as JSON to a file, or to standard output with `-`
    #[arg(long, value_name = "PATH|-", value_parser = values::sink, num_args = 0..=1, default_missing_value = "-")]
    pub(super) json: Option<Sink>,
    /// Seed of schedules, payloads and draws, instead of the scenario's
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Runs per candidate, interleaved, instead of the scenario's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeats: Option<u32>,
}

#[derive(Debug, Args)]
pub(super) struct DecideFlags {
    /// The scenario file (YAML)
    pub(super) file: PathBuf,
    /// Write the decision as JSON to a file, or to standard output with `-`
    #[arg(long, value_name = "PATH|-", value_parser = values::sink, num_args = 0..=1, default_missing_value = "-")]
    pub(super) json: Option<Sink>,
    /// Seed of the draws, instead of the scenario's
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Use these runs only, instead of every complete run of the scenario
    #[arg(long, value_name = "ID", num_args = 1.., value_delimiter = ',')]
    pub(super) runs: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct ExplainFlags {
    /// The decision record: its folder, a file in it, or its id
    pub(super) record: String,
    /// The statement to unfold, as in `S3`; all of them when absent
    pub(super) statement: Option<String>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RunId {
    /// The run's id, its beginning, or `latest`
    pub(super) id: String,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Default, Args)]
pub(super) struct InitFlags {
    /// The scenario file to write
    pub(super) file: PathBuf,
    /// Replace the file when it is there already
    #[arg(long)]
    pub(super) force: bool,
    /// Short name of the scenario; the file's name when absent
    #[arg(long)]
    pub(super) name: Option<String>,
    /// What the scenario is about
    #[arg(long, value_name = "TEXT")]
    pub(super) description: Option<String>,
    /// Family of systems: inference, queue or cache
    #[arg(long, value_enum)]
    pub(super) family: Option<FamilyName>,
    /// The load: poisson:50/s, constant:50/s or closed:64
    #[arg(long, value_name = "PROCESS", value_parser = values::arrival)]
    pub(super) arrival: Option<Arrival>,
    /// Inference: prompt tokens of a request
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(super) input_tokens: Option<u32>,
    /// Inference: generated tokens of a request
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(super) output_tokens: Option<u32>,
    /// Queue: size of a message
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(super) message_bytes: Option<u32>,
    /// Cache: number of keys
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) keys: Option<u64>,
    /// Cache: size of a value
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(super) value_bytes: Option<u32>,
    /// Cache: share of reads
    #[arg(long, value_name = "SHARE", value_parser = values::share)]
    pub(super) read_ratio: Option<f64>,
    /// Latency requirement, as in 'ttft.p99 <= 200ms', or 'none: REASON'; repeatable
    #[arg(long, value_name = "REQUIREMENT", value_parser = values::answer)]
    pub(super) latency: Vec<Answer>,
    /// Throughput requirement, as in 'throughput >= 50/s', or 'none: REASON'; repeatable
    #[arg(long, value_name = "REQUIREMENT", value_parser = values::answer)]
    pub(super) throughput: Vec<Answer>,
    /// Consistency requirement, as in 'delivery >= at-least-once', or 'none: REASON'; repeatable
    #[arg(long, value_name = "REQUIREMENT", value_parser = values::answer)]
    pub(super) consistency: Vec<Answer>,
    /// Reliability requirement, as in 'error_rate <= 0.1%', or 'none: REASON'; repeatable
    #[arg(long, value_name = "REQUIREMENT", value_parser = values::answer)]
    pub(super) reliability: Vec<Answer>,
    /// Peak load / stated load, at least 1
    #[arg(long, value_name = "X")]
    pub(super) peak_factor: Option<f64>,
    /// Growth of the load, as in 50%/year
    #[arg(long)]
    pub(super) growth: Option<Growth>,
    /// How long the decision is meant to hold, as in 12months
    #[arg(long, value_name = "DURATION")]
    pub(super) horizon: Option<Millis>,
    /// What to have more of, with its anchors worst..best, as in ttft.p95:400ms..50ms; repeatable, most important first
    #[arg(long, value_name = "METRIC:WORST..BEST", value_parser = values::criterion)]
    pub(super) criterion: Vec<Criterion>,
    /// A candidate, as in a=vllm@openai-chat=http://127.0.0.1:8000; repeatable; all that the catalog knows when absent
    #[arg(long, value_name = "NAME=PRODUCT[@TARGET]", value_parser = values::candidate)]
    pub(super) candidate: Vec<Candidate>,
    /// Length of the measured window of a run
    #[arg(long, value_name = "DURATION", value_parser = values::length)]
    pub(super) duration: Option<Millis>,
    /// Runs per candidate
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeats: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FamilyName {
    /// LLM inference engines
    Inference,
    /// Message queues and event streams
    Queue,
    /// Key-value caches
    Cache,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SeverityName {
    /// Any finding
    Note,
    /// Findings by which figures may mislead
    Warning,
    /// Findings that make a run invalid
    Invalid,
}

impl From<SeverityName> for Severity {
    fn from(name: SeverityName) -> Self {
        match name {
            SeverityName::Note => Severity::Note,
            SeverityName::Warning => Severity::Warning,
            SeverityName::Invalid => Severity::Invalid,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum CacheName {
    /// Prompts that no earlier run had
    Cold,
    /// What prompts share is sent once before the run
    Warm,
    /// Equal seeds give equal prompts
    AsIs,
}

impl From<CacheName> for CachePolicy {
    fn from(name: CacheName) -> Self {
        match name {
            CacheName::Cold => CachePolicy::Cold,
            CacheName::Warm => CachePolicy::Warm,
            CacheName::AsIs => CachePolicy::AsIs,
        }
    }
}

const LOAD: &str = "Load";
const WORKLOAD: &str = "Workload";
const CONNECTION: &str = "Connection";
const JUDGEMENT: &str = "Judgement";
const OUTPUT: &str = "Output";
const INSIDE: &str = "Inside the target";

#[derive(Debug, Args)]
pub(super) struct BenchFlags {
    /// What to load: openai-chat=URL, openai-completions=URL, openai-responses=URL, openai-embeddings=URL, tgi=URL,
    /// triton-generate=URL, triton-infer=URL, llamacpp=URL, fastchat-worker=URL, resp=HOST:PORT, nats=HOST:PORT or
    /// engine=PROFILE
    #[arg(long, value_name = "PROTOCOL=ADDRESS", value_parser = values::target)]
    pub(super) target: values::TargetArg,
    /// When operations start: poisson:50/s, constant:50/s, closed:64, gamma:50/s,cv=2, bursts:size=100,period=10s,
    /// wave:50/s,amplitude=0.8,period=10min, ramp:10/s..100/s,over=60s, stairs:10/s..100/s,steps=10,hold=10s,down,
    /// gradient:hold=30s, trace:speed=2 [default: closed:1]
    #[arg(long, value_name = "PROCESS", value_parser = values::arrival, help_heading = LOAD)]
    pub(super) arrival: Option<Arrival>,
    /// Trace to replay: an Azure LLM or BurstGPT CSV file, a Mooncake JSONL file, or the folder of a recorded run. Its
    /// instants are the load (unless --arrival gives another), its lengths and shared blocks the requests'
    #[arg(long, value_name = "FILE", help_heading = LOAD)]
    pub(super) trace: Option<PathBuf>,
    /// Length of the measured window [default: 10s, or what the shape or the trace takes; with --requests at most 10min]
    #[arg(long, value_name = "DURATION", value_parser = values::length, help_heading = LOAD)]
    pub(super) duration: Option<Millis>,
    /// Load before the measured window; `auto` loads until latency and backlog are stationary, at most 60s (`auto:5min`
    /// says otherwise), and then for 2s more [default: 2s; none with --requests]
    #[arg(long, value_name = "DURATION|auto", value_parser = values::warm_up, help_heading = LOAD)]
    pub(super) warm_up: Option<values::WarmUp>,
    /// How long unfinished operations may take after the measured window
    #[arg(long, value_name = "DURATION", value_parser = values::duration, default_value = "30s", help_heading = LOAD)]
    pub(super) drain: Millis,
    /// A class of a mixed load, as in name=chat,arrival=poisson:5/s,input=200,output=64,stream=yes,slo=ttft.p99<=200ms;
    /// repeatable, all of them load the target at once
    #[arg(long, value_name = "CLASS", value_parser = super::class::class, help_heading = LOAD)]
    pub(super) class: Vec<super::ClassArgs>,
    /// End the load after this many operations
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = LOAD)]
    pub(super) requests: Option<u64>,
    /// Seed of schedule, lengths and payloads; a new one for each run when absent. The text of prompts is the run's own with
    /// an equal seed too, unless --cache as-is
    #[arg(long, value_name = "N", help_heading = LOAD)]
    pub(super) seed: Option<u64>,
    /// Operations on connections at once; further ones wait
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = LOAD)]
    pub(super) max_in_flight: Option<u32>,
    /// Failed operations that end the run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = LOAD)]
    pub(super) max_errors: Option<u64>,
    /// Threads that send and receive [default: by the load and the cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), help_heading = LOAD)]
    pub(super) shards: Option<u32>,
    /// Model to ask for [default: the only one of /v1/models]
    #[arg(long, value_name = "NAME", help_heading = WORKLOAD)]
    pub(super) model: Option<String>,
    /// Prompt tokens of a request: 128, uniform:100..500, normal:mean=512,sd=100, lognormal:mean=512,cv=1.5,max=8192
    /// [default: 128]
    #[arg(long, value_name = "LENGTH", value_parser = values::tokens, help_heading = WORKLOAD)]
    pub(super) input_tokens: Option<Length>,
    /// Generated tokens of a request, as for the prompt [default: 64]
    #[arg(long, value_name = "LENGTH", value_parser = values::tokens, help_heading = WORKLOAD)]
    pub(super) output_tokens: Option<Length>,
    /// Prompts that begin alike: so many groups, tokens of the beginning, share of the requests
    #[arg(long, value_name = "groups=N,tokens=N,share=SHARE", value_parser = values::prefix, help_heading = WORKLOAD)]
    pub(super) prefix: Option<PrefixGroups>,
    /// The model's tokenizer.json: every prompt has exactly the tokens asked for by the target's own count, chat template
    /// included; where the target counts otherwise, the run is refused
    #[arg(long, value_name = "FILE", help_heading = WORKLOAD)]
    pub(super) tokenizer: Option<PathBuf>,
    /// What prefix caches may know: cold (prompts that no earlier run had), warm (what prompts share is sent once before
    /// the run) or as-is (equal seeds give equal prompts) [default: cold]
    #[arg(long, value_enum, value_name = "POLICY", help_heading = WORKLOAD)]
    pub(super) cache: Option<CacheName>,
    /// Ask the target first how many tokens it counts in prompts of two lengths, and make prompts that have the asked number
    #[arg(long, help_heading = WORKLOAD)]
    pub(super) fit_tokens: bool,
    /// Ask for each answer as one document instead of a stream: e2e is measured, ttft is not
    #[arg(long, help_heading = WORKLOAD)]
    pub(super) no_stream: bool,
    /// Share of reads among cache operations [default: 90%]
    #[arg(long, value_name = "SHARE", value_parser = values::share, help_heading = WORKLOAD)]
    pub(super) read_ratio: Option<f64>,
    /// Number of cache keys [default: 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = WORKLOAD)]
    pub(super) keys: Option<u64>,
    /// Size of a cache value [default: 64B]
    #[arg(long, value_name = "SIZE", value_parser = values::size, help_heading = WORKLOAD)]
    pub(super) value_bytes: Option<u32>,
    /// Cache commands in flight on one connection [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = WORKLOAD)]
    pub(super) pipeline: Option<u32>,
    /// Size of a message [default: 128B]
    #[arg(long, value_name = "SIZE", value_parser = values::size, help_heading = WORKLOAD)]
    pub(super) message_bytes: Option<u32>,
    /// Connections [default: the driver's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_000), help_heading = CONNECTION)]
    pub(super) connections: Option<u32>,
    /// Time limits; those not named keep connect=5s,first=60s,idle=30s,total=600s
    #[arg(long, value_name = "NAME=DURATION,..", value_parser = values::timeouts, help_heading = CONNECTION)]
    pub(super) timeout: Option<Timeouts>,
    /// Certificates (PEM) to trust for TLS, instead of the built-in ones
    #[arg(long, value_name = "FILE", help_heading = CONNECTION)]
    pub(super) ca_file: Option<PathBuf>,
    // Not checked here: clap's errors repeat what was typed, and this may be a secret.
    /// Header of each request, as in 'X-Tenant: blue'; repeatable; never recorded
    #[arg(long, value_name = "NAME: VALUE", help_heading = CONNECTION)]
    pub(super) header: Vec<String>,
    // Not checked here, as above.
    /// Environment variable that holds the API key, password or token; never recorded
    #[arg(long, value_name = "VARIABLE", help_heading = CONNECTION)]
    pub(super) api_key_env: Option<String>,
    /// A limit to judge, as in 'ttft.p99<=200ms'; repeatable; exit code 3 when not met
    #[arg(long, value_name = "REQUIREMENT", value_parser = values::slo, help_heading = JUDGEMENT)]
    pub(super) slo: Vec<Requirement>,
    /// Confidence of bounds, one-sided
    #[arg(long, value_name = "SHARE", value_parser = values::confidence, default_value = "0.95", help_heading = JUDGEMENT)]
    pub(super) confidence: f64,
    /// Exit with code 3 when a finding is at least this severe
    #[arg(long, value_name = "SEVERITY", value_enum, help_heading = JUDGEMENT)]
    pub(super) fail_on: Option<SeverityName>,
    /// Write the run as JSON to a file, or to standard output with `-`
    #[arg(long, value_name = "PATH|-", value_parser = values::sink, num_args = 0..=1, default_missing_value = "-", help_heading = OUTPUT)]
    pub(super) json: Option<Sink>,
    /// Write the report page to this file [default: report.html beside the recorded run]
    #[arg(long, value_name = "PATH", help_heading = OUTPUT)]
    pub(super) html: Option<PathBuf>,
    /// Keep no record of the run
    #[arg(long, help_heading = OUTPUT)]
    pub(super) no_record: bool,
    /// Log every event of every answer, for `runs export --table tokens`
    #[arg(long, conflicts_with = "no_record", help_heading = OUTPUT)]
    pub(super) log_tokens: bool,
    /// Also write the operations (and logged events) as Parquet beside the recorded run
    #[arg(long, conflicts_with = "no_record", help_heading = OUTPUT)]
    pub(super) parquet: bool,
    /// Skip measuring what this machine could send at most (2s before the run)
    #[arg(long, help_heading = OUTPUT)]
    pub(super) no_ceiling: bool,
    /// Metrics page of the server (Prometheus text over http) [default: where servers of the protocol have it]
    #[arg(long, value_name = "URL", conflicts_with = "no_server_metrics", help_heading = INSIDE)]
    pub(super) metrics_url: Option<String>,
    /// Do not read the server's metrics
    #[arg(long, help_heading = INSIDE)]
    pub(super) no_server_metrics: bool,
    /// Process of the target on this machine [default: who listens at the address]
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..), help_heading = INSIDE)]
    pub(super) target_pid: Option<u32>,
    #[command(flatten)]
    pub(super) series: super::series::SeriesFlags,
}

const FAULTS: &str = "Faults";

#[derive(Debug, Args)]
pub(super) struct EngineFlags {
    /// Behaviour of the scheduler; --list-profiles shows them
    #[arg(long, value_name = "NAME", required_unless_present = "list_profiles")]
    pub(super) profile: Option<String>,
    /// Print the profiles and what they are like
    #[arg(long)]
    pub(super) list_profiles: bool,
    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    pub(super) port: u16,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub(super) host: std::net::IpAddr,
    /// Seed of jitter, faults and texts
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// The only model name that is accepted
    #[arg(long, default_value = "simulated", value_name = "NAME")]
    pub(super) model: String,
    /// Share of requests answered with HTTP 500
    #[arg(long, value_name = "SHARE", value_parser = values::share, default_value = "0", help_heading = FAULTS)]
    pub(super) error_rate: f64,
    /// Share of answers that break off
    #[arg(long, value_name = "SHARE", value_parser = values::share, default_value = "0", help_heading = FAULTS)]
    pub(super) cut_rate: f64,
    /// Share of streams that report an error inside a response of status 200
    #[arg(long, value_name = "SHARE", value_parser = values::share, default_value = "0", help_heading = FAULTS)]
    pub(super) error_in_stream_rate: f64,
    /// Share of answers that pause after so many tokens, for so long or for ever
    #[arg(long, value_name = "RATE:TOKENS[:HOLD]", value_parser = values::stall, help_heading = FAULTS)]
    pub(super) stall: Option<touchstone_engine::Stall>,
    /// Time for which the headers of each answer are withheld
    #[arg(long, value_name = "DURATION", value_parser = values::duration, default_value = "0s", help_heading = FAULTS)]
    pub(super) slow_headers: Millis,
    /// Turn requests away while more than N wait, with status 429 or 503
    #[arg(long, value_name = "N[:STATUS]", value_parser = values::overload, help_heading = FAULTS)]
    pub(super) reject_when_waiting: Option<touchstone_engine::Overload>,
    /// End streams without `data: [DONE]`
    #[arg(long, help_heading = FAULTS)]
    pub(super) drop_done: bool,
    /// Print the address as one line of JSON when ready, and nothing else
    #[arg(long)]
    pub(super) json: bool,
    /// End when standard input closes: for programs that launch an engine and may die
    #[arg(long, hide = true)]
    pub(super) until_stdin_closes: bool,
}
