//! What the metrics pages of known inference servers mean: tables from their names to ours.
//!
//! Sources: a page of vLLM 0.32 (older releases say `gpu_` before the cache names, and names without `_total` are those of
//! the client library's other format); a page of llama.cpp's server with `--metrics`; a page of Triton 2.51; TGI's
//! router (source of 3.3) and SGLang's metrics reference, neither of which was run here. A name that a server does not have
//! makes its metric missing, never 0.

use touchstone_model::ServerMetric;
use touchstone_model::ServerMetric::{
    GenerationTokens, KvCacheUsage, Preemptions, PrefillTime, PrefillTotal, PrefixHits, PrefixQueries,
    ProcessMemory, PromptTokens, QueueTime, RequestsFinished, RequestsRejected, Running, ServerE2e,
    ServerItl, ServerTtft, SpecAccepted, SpecDrafted, Waiting,
};

use crate::prometheus::Page;

/// Names for the same thing in different releases; the first that a page has counts.
pub type Names = &'static [&'static str];

/// How the label sets of a gauge become one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Added up.
    Sum,
    /// The greatest.
    Max,
}

/// Where a metric is found on a page. Durations are multiplied by `scale` to be ms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Source {
    /// A value of the moment.
    Gauge {
        /// Its names.
        names: Names,
        /// What becomes of several label sets.
        over: Over,
    },
    /// The sum of one or more counters, each of which must be there.
    Counter {
        /// The names of each term.
        terms: &'static [Names],
        /// The label that says the reason, where there is one.
        reason: Option<&'static str>,
        /// What a step of the counter is, in our unit.
        scale: f64,
    },
    /// A histogram with buckets.
    Histogram {
        /// Its names, without `_bucket`, `_sum`, `_count`.
        names: Names,
        /// What its unit is in ms.
        scale: f64,
    },
    /// A mean out of two counters: what was spent, over how often.
    Mean {
        /// What was spent.
        spent: Names,
        /// How often.
        times: Names,
        /// What the unit of `spent` is in ms.
        scale: f64,
    },
    /// The server has none.
    None {
        /// What to know about it.
        why: &'static str,
    },
}

/// The page of one product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineMap {
    /// The product.
    pub engine: &'static str,
    /// How its names begin.
    prefixes: &'static [&'static str],
    /// What is where.
    pub entries: &'static [(ServerMetric, Source)],
}

const fn sum(names: Names) -> Source {
    Source::Gauge { names, over: Over::Sum }
}

const fn max(names: Names) -> Source {
    Source::Gauge { names, over: Over::Max }
}

const fn counter(terms: &'static [Names]) -> Source {
    Source::Counter { terms, reason: None, scale: 1.0 }
}

const fn by(terms: &'static [Names], reason: &'static str) -> Source {
    Source::Counter { terms, reason: Some(reason), scale: 1.0 }
}

const fn seconds(names: Names) -> Source {
    Source::Histogram { names, scale: 1e3 }
}

const VLLM: &[(ServerMetric, Source)] = &[
    (Running, sum(&["vllm:num_requests_running"])),
    (Waiting, sum(&["vllm:num_requests_waiting"])),
    (KvCacheUsage, max(&["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"])),
    (
        PrefixQueries,
        counter(&[&[
            "vllm:prefix_cache_queries_total",
            "vllm:prefix_cache_queries",
            "vllm:gpu_prefix_cache_queries_total",
            "vllm:gpu_prefix_cache_queries",
        ]]),
    ),
    (
        PrefixHits,
        counter(&[&[
            "vllm:prefix_cache_hits_total",
            "vllm:prefix_cache_hits",
            "vllm:gpu_prefix_cache_hits_total",
            "vllm:gpu_prefix_cache_hits",
        ]]),
    ),
    (Preemptions, counter(&[&["vllm:num_preemptions_total", "vllm:num_preemptions"]])),
    (
        SpecDrafted,
        counter(&[&["vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_draft_tokens"]]),
    ),
    (
        SpecAccepted,
        counter(&[&["vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_accepted_tokens"]]),
    ),
    (QueueTime, seconds(&["vllm:request_queue_time_seconds"])),
    (PrefillTime, seconds(&["vllm:request_prefill_time_seconds"])),
    (ServerTtft, seconds(&["vllm:time_to_first_token_seconds"])),
    (ServerItl, seconds(&["vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"])),
    (ServerE2e, seconds(&["vllm:e2e_request_latency_seconds"])),
    (PromptTokens, counter(&[&["vllm:prompt_tokens_total", "vllm:prompt_tokens"]])),
    (GenerationTokens, counter(&[&["vllm:generation_tokens_total", "vllm:generation_tokens"]])),
    (RequestsFinished, by(&[&["vllm:request_success_total", "vllm:request_success"]], "finished_reason")),
    (RequestsRejected, by(&[&["vllm:admission_rejections_total"]], "reason")),
    (ProcessMemory, sum(&["process_resident_memory_bytes"])),
    (PrefillTotal, Source::None { why: "prefill_time has it per request" }),
];

const LLAMA_CPP: &[(ServerMetric, Source)] = &[
    (Running, sum(&["llamacpp:requests_processing"])),
    (Waiting, sum(&["llamacpp:requests_deferred"])),
    // Gone from newer releases.
    (KvCacheUsage, max(&["llamacpp:kv_cache_usage_ratio"])),
    // Processed tokens are those that were not found in the cache.
    (PromptTokens, counter(&[&["llamacpp:prompt_tokens_total"], &["llamacpp:prompt_tokens_cached_total"]])),
    (PrefixQueries, counter(&[&["llamacpp:prompt_tokens_total"], &["llamacpp:prompt_tokens_cached_total"]])),
    (PrefixHits, counter(&[&["llamacpp:prompt_tokens_cached_total"]])),
    (GenerationTokens, counter(&[&["llamacpp:tokens_predicted_total"]])),
    (SpecDrafted, counter(&[&["llamacpp:spec_decode_num_draft_tokens_total"]])),
    (SpecAccepted, counter(&[&["llamacpp:spec_decode_num_accepted_tokens_total"]])),
    (
        PrefillTotal,
        Source::Counter { terms: &[&["llamacpp:prompt_seconds_total"]], reason: None, scale: 1e3 },
    ),
    (QueueTime, Source::None { why: "llama.cpp counts no time in its queue" }),
    (RequestsFinished, Source::None { why: "llama.cpp counts no requests" }),
];

const TGI: &[(ServerMetric, Source)] = &[
    (Running, sum(&["tgi_batch_current_size"])),
    (Waiting, sum(&["tgi_queue_size"])),
    (QueueTime, seconds(&["tgi_request_queue_duration"])),
    (ServerItl, seconds(&["tgi_request_mean_time_per_token_duration"])),
    (ServerE2e, seconds(&["tgi_request_duration"])),
    (PromptTokens, counter(&[&["tgi_request_input_length_sum"]])),
    (GenerationTokens, counter(&[&["tgi_request_generated_tokens_sum"]])),
    (RequestsFinished, counter(&[&["tgi_request_success"]])),
    (RequestsRejected, by(&[&["tgi_request_failure"]], "err")),
    (ServerTtft, Source::None { why: "TGI's router reports no time to the first token" }),
];

const SGLANG: &[(ServerMetric, Source)] = &[
    (Running, sum(&["sglang:num_running_reqs", "sglang_num_running_reqs"])),
    (Waiting, sum(&["sglang:num_queue_reqs", "sglang_num_queue_reqs"])),
    (KvCacheUsage, max(&["sglang:token_usage", "sglang_token_usage"])),
    (PromptTokens, counter(&[&["sglang:prompt_tokens_total", "sglang_prompt_tokens_total"]])),
    (GenerationTokens, counter(&[&["sglang:generation_tokens_total", "sglang_generation_tokens_total"]])),
    (PrefixQueries, counter(&[&["sglang:prompt_tokens_total", "sglang_prompt_tokens_total"]])),
    (PrefixHits, counter(&[&["sglang:cached_tokens_total", "sglang_cached_tokens_total"]])),
    (Preemptions, counter(&[&["sglang:num_retracted_reqs_total"]])),
    (RequestsFinished, counter(&[&["sglang:num_requests_total", "sglang_num_requests_total"]])),
    (QueueTime, seconds(&["sglang:queue_time_seconds", "sglang_queue_time_seconds"])),
    (ServerTtft, seconds(&["sglang:time_to_first_token_seconds", "sglang_time_to_first_token_seconds"])),
    (ServerItl, seconds(&["sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"])),
    (ServerE2e, seconds(&["sglang:e2e_request_latency_seconds", "sglang_e2e_request_latency_seconds"])),
    (ProcessMemory, sum(&["process_resident_memory_bytes"])),
];

const TRITON: &[(ServerMetric, Source)] = &[
    (Waiting, sum(&["nv_inference_pending_request_count"])),
    (RequestsFinished, counter(&[&["nv_inference_request_success"]])),
    (RequestsRejected, by(&[&["nv_inference_request_failure"]], "reason")),
    (
        QueueTime,
        Source::Mean {
            spent: &["nv_inference_queue_duration_us"],
            times: &["nv_inference_request_success"],
            scale: 1e-3,
        },
    ),
    (
        ServerE2e,
        Source::Mean {
            spent: &["nv_inference_request_duration_us"],
            times: &["nv_inference_request_success"],
            scale: 1e-3,
        },
    ),
    (Running, Source::None { why: "a decoupled request counts as ended while it still streams" }),
];

/// Every known page, in the order in which they are tried.
pub const MAPS: &[EngineMap] = &[
    EngineMap { engine: "vllm", prefixes: &["vllm:"], entries: VLLM },
    EngineMap { engine: "sglang", prefixes: &["sglang:", "sglang_"], entries: SGLANG },
    EngineMap { engine: "llama.cpp", prefixes: &["llamacpp:"], entries: LLAMA_CPP },
    EngineMap { engine: "tgi", prefixes: &["tgi_"], entries: TGI },
    EngineMap { engine: "triton", prefixes: &["nv_inference_"], entries: TRITON },
];

/// The embedded engine uses vLLM's names, and says that it is a simulator.
pub const EMBEDDED: EngineMap = EngineMap { engine: "embedded", prefixes: &["vllm:"], entries: VLLM };

impl EngineMap {
    /// Whose page it is; none when it has no known name.
    #[must_use]
    pub fn of(page: &Page) -> Option<&'static EngineMap> {
        if page.max("touchstone_simulated").is_some_and(|value| value > 0.0) {
            return Some(&EMBEDDED);
        }
        MAPS.iter().find(|map| {
            let own = |name: &str| map.prefixes.iter().any(|prefix| name.starts_with(prefix));
            page.samples.iter().any(|sample| own(&sample.name))
        })
    }

    /// Where a metric is; none when nothing is known of it.
    #[must_use]
    pub fn source(&self, metric: ServerMetric) -> Option<Source> {
        self.entries.iter().find(|(known, _)| *known == metric).map(|(_, source)| *source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_told_apart() {
        let engine = |text: &str| EngineMap::of(&Page::parse(text)).map(|map| map.engine);
        assert_eq!(engine("vllm:num_requests_running 3\n"), Some("vllm"));
        assert_eq!(engine("vllm:num_requests_running 3\ntouchstone_simulated 1\n"), Some("embedded"));
        assert_eq!(engine("nv_inference_count 3\nvllm:num_requests_running 1\n"), Some("vllm"));
        assert_eq!(engine("nv_inference_count{model=\"a\"} 3\n"), Some("triton"));
        assert_eq!(engine("llamacpp:requests_deferred 0\n"), Some("llama.cpp"));
        assert_eq!(engine("sglang_num_running_reqs 0\n"), Some("sglang"));
        assert_eq!(engine("tgi_queue_size 0\n"), Some("tgi"));
        assert_eq!(engine("node_load1 0.5\n"), None);
    }

    #[test]
    fn no_table_names_a_metric_twice() {
        for map in MAPS {
            let mut metrics: Vec<_> = map.entries.iter().map(|(metric, _)| *metric).collect();
            let all = metrics.len();
            metrics.sort_unstable();
            metrics.dedup();
            assert_eq!(metrics.len(), all, "{}", map.engine);
        }
    }
}
