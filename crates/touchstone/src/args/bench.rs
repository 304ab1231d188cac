//! What `bench` and `engine` were asked to do, checked as a whole.

use std::path::PathBuf;

use touchstone_engine::{EngineConfig, FaultPlan, Profile};
use touchstone_flow::inside::{InsideOptions, MetricsPage, TargetPid};
use touchstone_flow::prompts::CachePolicy;
use touchstone_load::{LoadPlan, Timeouts};
use touchstone_model::unit::Millis;
use touchstone_model::{Arrival, Family, Length, MetricId, Protocol, Requirement, Severity, Subject, Target};

use touchstone_workload::requests::PrefixGroups;

use super::Folder;
use super::class::ClassArgs;
use super::compare::Replayable;
use super::raw::{BenchFlags, CacheName, EngineFlags};
use super::series::SeriesArgs;
use super::values::{self, Sink};
use crate::failure::Failure;

/// The measured window when neither `--duration` nor `--requests` is given.
const DURATION: Millis = Millis(10_000.0);
/// The greatest measured window of a run that `--requests` ends.
const REQUESTS_DURATION: Millis = Millis(600_000.0);
/// The warm-up when it is not given.
const WARM_UP: Millis = Millis(2_000.0);
/// The load when it is not given: one operation after another can harm nobody.
const ARRIVAL: Arrival = Arrival::Closed { slots: 1 };

/// What only answers that come as a stream have.
const OF_STREAMS: [MetricId; 7] = [
    MetricId::Ttft,
    MetricId::TtftFromSend,
    MetricId::TtftAnswer,
    MetricId::Icl,
    MetricId::Itl,
    MetricId::Tpot,
    MetricId::StreamClose,
];

/// What operations carry, by the family of the target.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum BenchWorkload {
    /// Generations.
    Inference {
        /// The model to ask for; the only one of `/v1/models` when absent.
        model: Option<String>,
        /// Prompt tokens.
        input_tokens: Length,
        /// Generated tokens.
        output_tokens: Length,
        /// Prompts that begin alike.
        prefix: Option<PrefixGroups>,
        /// Whether the target is asked first how it counts tokens.
        fit_tokens: bool,
        /// The model's tokenizer.
        tokenizer: Option<PathBuf>,
        /// What prefix caches may know.
        cache: CachePolicy,
        /// Whether answers are asked for as streams.
        stream: bool,
        /// Headers of each request; values may be secrets.
        headers: Vec<(String, String)>,
    },
    /// GET and SET.
    Cache {
        /// Share of reads, 0 to 1.
        read_ratio: f64,
        /// Number of keys.
        keys: u64,
        /// Size of a value.
        value_bytes: u32,
        /// Commands in flight on one connection.
        pipeline: u32,
    },
    /// Publish and receive.
    Queue {
        /// Size of a message.
        message_bytes: u32,
    },
}

/// What `bench` was asked to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BenchArgs {
    /// What to load.
    pub(crate) target: Target,
    /// What operations carry.
    pub(crate) workload: BenchWorkload,
    /// When operations start.
    pub(crate) arrival: Arrival,
    /// The trace to replay.
    pub(crate) trace: Option<PathBuf>,
    /// Length of the measured window; with `requests` its greatest length; none where the trace tells it.
    pub(crate) duration: Option<Millis>,
    /// Load before it.
    pub(crate) warm_up: Millis,
    /// Before that: load until the target is steady, at most so long.
    pub(crate) warm_up_auto: Option<Millis>,
    /// How long unfinished operations may take after it.
    pub(crate) drain: Millis,
    /// End the load after this many operations.
    pub(crate) requests: Option<u64>,
    /// The seed; when absent a new one for this run, to be recorded and said.
    pub(crate) seed: Option<u64>,
    /// Connections; the driver's default when absent.
    pub(crate) connections: Option<u32>,
    /// Operations on connections at once.
    pub(crate) max_in_flight: Option<u32>,
    /// Failed operations that end the run.
    pub(crate) max_errors: Option<u64>,
    /// Threads that send and receive; chosen by load and cores when absent.
    pub(crate) shards: Option<u32>,
    /// Time limits.
    pub(crate) timeouts: Timeouts,
    /// Certificates to trust for TLS.
    pub(crate) ca_file: Option<PathBuf>,
    /// Environment variable that holds the API key (inference), password (cache) or token (queue).
    pub(crate) api_key_env: Option<String>,
    /// Limits to judge; all of them are about metrics.
    pub(crate) slos: Vec<Requirement>,
    /// Confidence of bounds, one-sided, in (0.5, 1).
    pub(crate) confidence: f64,
    /// Exit with code 3 when a finding is at least this severe.
    pub(crate) fail_on: Option<Severity>,
    /// Where the run document goes as JSON.
    pub(crate) json: Option<Sink>,
    /// Where the report page goes.
    pub(crate) html: Option<PathBuf>,
    /// Whether the run is recorded in the store.
    pub(crate) record: bool,
    /// Whether every event of every answer is logged.
    pub(crate) log_tokens: bool,
    /// Whether tables are written beside the record.
    pub(crate) parquet: bool,
    /// Whether the loopback ceiling is measured before the run.
    pub(crate) ceiling: bool,
    /// What is looked at inside the target.
    pub(crate) inside: InsideOptions,
    /// Classes of a mixed load; none where there is one load.
    pub(crate) classes: Vec<ClassArgs>,
    /// What goes beyond one run.
    pub(crate) series: SeriesArgs,
    /// The words of this command line that can be repeated.
    pub(crate) replayable: Replayable,
    /// The folder of what is kept.
    pub(crate) out: Folder,
}

impl BenchArgs {
    pub(super) fn from_flags(flags: BenchFlags, out: Folder) -> Result<Self, Failure> {
        let target = flags.target.0.clone().map_err(|why| {
            Failure::usage(format!("`--target`: {why}"))
                .hint("as in `--target openai-chat=http://127.0.0.1:8000`")
        })?;
        if target.protocol == Protocol::Engine && Profile::builtin(&target.host).is_none() {
            return Err(Failure::usage(format!("no engine profile is called `{}`", target.host))
                .hint(format!("there are {}", Profile::builtin_names().join(", "))));
        }
        refuse_unstated_load(&flags, &target)?;
        refuse_beside_classes(&flags, &target)?;
        refuse_foreign_flags(&flags, &target)?;
        limits_fit(&flags.slo, !flags.no_stream, &target)?;
        if flags.cache == Some(CacheName::Warm) && flags.prefix.is_none() {
            return Err(Failure::usage(
                "`--cache warm` has nothing to send before the run: no prompts begin alike",
            )
            .hint("say what they share, as in `--prefix groups=8,tokens=1024,share=60%`"));
        }
        if flags.ca_file.is_some() && !target.tls {
            return Err(Failure::usage("`--ca-file` is given, but the target speaks no TLS")
                .hint("write the address with `https://` (or `tls://`), or leave `--ca-file` out"));
        }
        if let (Arrival::Closed { slots }, Some(limit)) =
            (flags.arrival.unwrap_or(ARRIVAL), flags.max_in_flight)
            && limit < slots
        {
            return Err(Failure::usage(format!(
                "`closed:{slots}` keeps {slots} operations in flight, but `--max-in-flight` allows {limit}"
            ))
            .hint("make them equal, or leave `--max-in-flight` out"));
        }
        let headers = flags.header.iter().map(|text| values::header(text)).collect::<Result<Vec<_>, _>>();
        let headers = headers.map_err(Failure::usage)?;
        let api_key_env =
            flags.api_key_env.as_deref().map(values::variable).transpose().map_err(Failure::usage)?;
        let series = SeriesArgs::from_flags(flags.series, &target)?;
        let by_requests = flags.requests.is_some();
        let arrival = match flags.arrival {
            Some(arrival) => arrival,
            None if flags.trace.is_some() => Arrival::Trace { speed: 1.0 },
            None => ARRIVAL,
        };
        let replay = matches!(arrival, Arrival::Trace { .. });
        if replay && flags.trace.is_none() {
            return Err(
                Failure::usage("`--arrival trace` needs a trace").hint("name its file with `--trace FILE`")
            );
        }
        let natural = arrival.length().or((!replay).then_some(DURATION));
        let duration = flags.duration.or(if by_requests { Some(REQUESTS_DURATION) } else { natural });
        // A trace is not cut up unasked: what it begins with belongs to it.
        let (warm_up, warm_up_auto) = match flags.warm_up {
            Some(values::WarmUp::Fixed(length)) => (length, None),
            // Prompts of the run itself warm up too: the pause before it is short, and caches may be per prompt length.
            Some(values::WarmUp::Auto(at_most)) => (WARM_UP, Some(at_most)),
            None => (if by_requests || replay { Millis(0.0) } else { WARM_UP }, None),
        };
        if warm_up_auto.is_some() && !arrival.is_stationary() {
            return Err(Failure::usage(format!("`{arrival}` changes by design and never becomes steady"))
                .hint("give `--warm-up` a length"));
        }
        let workload = match target.protocol.family() {
            Family::Inference => BenchWorkload::Inference {
                model: flags.model,
                input_tokens: flags.input_tokens.unwrap_or(Length::Fixed(128)),
                output_tokens: flags.output_tokens.unwrap_or(Length::Fixed(64)),
                prefix: flags.prefix,
                fit_tokens: flags.fit_tokens,
                tokenizer: flags.tokenizer,
                cache: flags.cache.map(CachePolicy::from).unwrap_or_default(),
                stream: !flags.no_stream,
                headers,
            },
            Family::Cache => BenchWorkload::Cache {
                read_ratio: flags.read_ratio.unwrap_or(0.9),
                keys: flags.keys.unwrap_or(100_000),
                value_bytes: flags.value_bytes.unwrap_or(64),
                pipeline: flags.pipeline.unwrap_or(1),
            },
            Family::Queue => BenchWorkload::Queue { message_bytes: flags.message_bytes.unwrap_or(128) },
        };
        let inside = InsideOptions {
            metrics: match flags.metrics_url {
                Some(url) => MetricsPage::At(values::metrics_url(url).map_err(Failure::usage)?),
                None if flags.no_server_metrics => MetricsPage::Off,
                None => MetricsPage::Usual,
            },
            pid: flags.target_pid.map(TargetPid::Given),
        };
        Ok(Self {
            target,
            workload,
            arrival,
            trace: flags.trace,
            duration,
            warm_up,
            warm_up_auto,
            drain: flags.drain,
            requests: flags.requests,
            seed: flags.seed,
            connections: flags.connections,
            max_in_flight: flags.max_in_flight,
            max_errors: flags.max_errors,
            shards: flags.shards,
            timeouts: flags.timeout.unwrap_or_default(),
            ca_file: flags.ca_file,
            api_key_env,
            slos: flags.slo,
            confidence: flags.confidence,
            fail_on: flags.fail_on.map(Severity::from),
            json: flags.json,
            html: flags.html,
            record: !flags.no_record,
            log_tokens: flags.log_tokens,
            parquet: flags.parquet,
            ceiling: !flags.no_ceiling,
            inside,
            classes: flags.class,
            series,
            replayable: Replayable::default(),
            out,
        })
    }

    /// The load plan, with the seed and the number of shards that were settled on.
    pub(crate) fn plan(&self, seed: u64, shards: u32) -> LoadPlan {
        LoadPlan {
            warm_up_ns: self.warm_up.nanos(),
            duration_ns: self.duration.unwrap_or(DURATION).nanos(),
            drain_ns: self.drain.nanos(),
            requests: self.requests,
            max_in_flight: self.max_in_flight,
            max_errors: self.max_errors,
            timeouts: self.timeouts,
            slos: self.slos.clone(),
            confidence: self.confidence,
            shards,
            log_tokens: self.log_tokens,
            ..LoadPlan::new(self.arrival, seed)
        }
    }
}

/// A system that is not on this machine may be somebody else's: its load has to be the user's own words.
fn refuse_unstated_load(flags: &BenchFlags, target: &Target) -> Result<(), Failure> {
    if target.is_loopback() {
        return Ok(());
    }
    let mut missing = Vec::new();
    if flags.arrival.is_none() && flags.trace.is_none() && flags.class.is_empty() {
        missing.push("`--arrival`");
    }
    let told = flags.trace.is_some() || flags.arrival.is_some_and(|arrival| arrival.length().is_some());
    if flags.duration.is_none() && flags.requests.is_none() && !told {
        missing.push("`--duration` (or `--requests`)");
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "`{}` is not on this machine, so its load must be stated; missing: {}",
        target.authority(),
        missing.join(" and ")
    ))
    .hint(
        "say how much load the target may get and for how long, as in `--arrival poisson:5/s --duration 10s`",
    ))
}

/// Each class says its own load; a flag that says another one beside them would be ignored.
fn refuse_beside_classes(flags: &BenchFlags, target: &Target) -> Result<(), Failure> {
    if flags.class.is_empty() {
        return Ok(());
    }
    if target.protocol.family() != Family::Inference {
        return Err(Failure::usage("`--class` is for inference targets")
            .hint("leave `--class` out, or load another target"));
    }
    let given = [
        ("--arrival", flags.arrival.is_some()),
        ("--trace", flags.trace.is_some()),
        ("--input-tokens", flags.input_tokens.is_some()),
        ("--output-tokens", flags.output_tokens.is_some()),
        ("--prefix", flags.prefix.is_some()),
        ("--no-stream", flags.no_stream),
        ("--slo", !flags.slo.is_empty()),
        ("--requests", flags.requests.is_some()),
        ("--cache", flags.cache.is_some()),
        ("--metrics-url", flags.metrics_url.is_some()),
        ("--target-pid", flags.target_pid.is_some()),
        ("--warm-up auto", matches!(flags.warm_up, Some(values::WarmUp::Auto(_)))),
    ];
    let given = given.iter().find(|(_, given)| *given).map(|(name, _)| *name).or(flags.series.given());
    if let Some(given) = given {
        return Err(Failure::usage(format!("`{given}` does not go with `--class`"))
            .hint("arrival, input, output, prefix, stream and slo are said in each class; a mix is one run for a `--duration`"));
    }
    for (at, class) in flags.class.iter().enumerate() {
        if flags.class[..at].iter().any(|other| other.name == class.name) {
            return Err(Failure::usage(format!("two classes are called `{}`", class.name)));
        }
        limits_fit(&class.slos, class.stream, target)?;
    }
    Ok(())
}

/// A flag that means nothing for the target would be ignored, and the run would not be what was asked for.
fn refuse_foreign_flags(flags: &BenchFlags, target: &Target) -> Result<(), Failure> {
    use Family::{Cache, Inference, Queue};
    let given = [
        ("--model", Inference, flags.model.is_some()),
        ("--prefix", Inference, flags.prefix.is_some()),
        ("--fit-tokens", Inference, flags.fit_tokens),
        ("--input-tokens", Inference, flags.input_tokens.is_some()),
        ("--output-tokens", Inference, flags.output_tokens.is_some()),
        ("--tokenizer", Inference, flags.tokenizer.is_some()),
        ("--cache", Inference, flags.cache.is_some()),
        ("--no-stream", Inference, flags.no_stream),
        ("--log-tokens", Inference, flags.log_tokens),
        ("--header", Inference, !flags.header.is_empty()),
        ("--read-ratio", Cache, flags.read_ratio.is_some()),
        ("--keys", Cache, flags.keys.is_some()),
        ("--value-bytes", Cache, flags.value_bytes.is_some()),
        ("--pipeline", Cache, flags.pipeline.is_some()),
        ("--message-bytes", Queue, flags.message_bytes.is_some()),
    ];
    let family = target.protocol.family();
    match given.iter().find(|(_, own, given)| *given && *own != family) {
        None => Ok(()),
        Some((flag, own, _)) => {
            let protocol = target.protocol;
            Err(Failure::usage(format!(
                "`{flag}` is for {own} targets, and `{protocol}` is a {family} protocol"
            ))
            .hint(format!("leave `{flag}` out, or load another target")))
        }
    }
}

/// A limit on what the target's family never shows could neither be met nor broken.
fn limits_fit(slos: &[Requirement], stream: bool, target: &Target) -> Result<(), Failure> {
    let family = target.protocol.family();
    for slo in slos {
        if let Subject::Metric(metric, _) = slo.subject
            && !metric.families().contains(&family)
        {
            let known = MetricId::ALL.iter().filter(|known| known.families().contains(&family));
            let known: Vec<&str> = known.map(|known| known.as_str()).collect();
            return Err(Failure::usage(format!("`{slo}`: `{metric}` is not measured for {family} targets"))
                .hint(format!("a limit can be on {}", known.join(", "))));
        }
        if let Subject::Metric(metric, _) = slo.subject
            && family == Family::Inference
            && (!stream || !target.protocol.can_stream())
            && OF_STREAMS.contains(&metric)
        {
            return Err(Failure::usage(format!("`{slo}`: an answer without a stream has no `{metric}`"))
                .hint("put the limit on e2e, or ask for a stream"));
        }
    }
    Ok(())
}

/// What `engine` was asked to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum EngineArgs {
    /// Print the profiles.
    ListProfiles,
    /// Run an engine.
    Serve {
        /// How it behaves.
        config: Box<EngineConfig>,
        /// Print the address as one line of JSON when ready.
        json: bool,
        /// End when standard input closes.
        until_stdin_closes: bool,
    },
}

impl EngineArgs {
    pub(super) fn from_flags(flags: EngineFlags) -> Result<Self, Failure> {
        if flags.list_profiles {
            return Ok(EngineArgs::ListProfiles);
        }
        let name = flags.profile.unwrap_or_default();
        let Some(profile) = Profile::builtin(&name) else {
            return Err(Failure::usage(format!("no profile is called `{name}`"))
                .hint(format!("there are {}", Profile::builtin_names().join(", "))));
        };
        let mut config = EngineConfig::new(profile);
        config.host = flags.host;
        config.port = flags.port;
        config.seed = flags.seed;
        config.model = flags.model;
        config.faults = FaultPlan {
            error_rate: flags.error_rate,
            cut_rate: flags.cut_rate,
            error_in_stream_rate: flags.error_in_stream_rate,
            stall: flags.stall,
            slow_headers: values::std_duration(flags.slow_headers),
            reject_when_waiting: flags.reject_when_waiting,
            drop_done: flags.drop_done,
        };
        Ok(EngineArgs::Serve {
            config: Box::new(config),
            json: flags.json,
            until_stdin_closes: flags.until_stdin_closes,
        })
    }
}
