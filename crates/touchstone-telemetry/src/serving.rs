//! What the metrics pages of known inference servers say, under the same words.
//!
//! Sources: vLLM's page "Production Metrics" (names of the V1 engine; older releases say `gpu_` before the cache names
//! and leave out `_total`), llama.cpp's `tools/server/README.md` (`--metrics`), TGI's metrics reference. What a server
//! does not report is none, never 0.

use crate::prometheus::Page;

/// Whose page it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServingKind {
    /// vLLM, or the embedded engine, which uses its names.
    Vllm,
    /// llama.cpp's server.
    LlamaCpp,
    /// Text Generation Inference.
    Tgi,
}

/// What a server says about itself at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServingMetrics {
    /// Whose page it is.
    pub kind: ServingKind,
    /// Whether the page says that it comes from a simulator.
    pub simulated: bool,
    /// Share of the KV cache in use, 0 to 1; the greatest of several engines.
    pub kv_cache_usage: Option<f64>,
    /// Requests in execution.
    pub running: Option<f64>,
    /// Requests that wait.
    pub waiting: Option<f64>,
    /// Tokens looked up in the prefix cache, since start.
    pub prefix_queries: Option<f64>,
    /// Of these, found.
    pub prefix_hits: Option<f64>,
    /// Requests that were put back for want of memory, since start.
    pub preemptions: Option<f64>,
    /// Prompt tokens processed, since start.
    pub prompt_tokens: Option<f64>,
    /// Tokens generated, since start.
    pub generation_tokens: Option<f64>,
}

impl ServingMetrics {
    /// Reads the known names of a page; none when it has none of them.
    #[must_use]
    pub fn from_page(page: &Page) -> Option<Self> {
        let kind = kind(page)?;
        let sum = |names: &[&str]| names.iter().find_map(|name| page.sum(name));
        let max = |names: &[&str]| names.iter().find_map(|name| page.max(name));
        let simulated = page.max("touchstone_simulated").is_some_and(|value| value > 0.0);
        Some(match kind {
            ServingKind::Vllm => Self {
                kind,
                simulated,
                kv_cache_usage: max(&["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"]),
                running: sum(&["vllm:num_requests_running"]),
                waiting: sum(&["vllm:num_requests_waiting"]),
                prefix_queries: sum(&[
                    "vllm:prefix_cache_queries_total",
                    "vllm:prefix_cache_queries",
                    "vllm:gpu_prefix_cache_queries_total",
                    "vllm:gpu_prefix_cache_queries",
                ]),
                prefix_hits: sum(&[
                    "vllm:prefix_cache_hits_total",
                    "vllm:prefix_cache_hits",
                    "vllm:gpu_prefix_cache_hits_total",
                    "vllm:gpu_prefix_cache_hits",
                ]),
                preemptions: sum(&["vllm:num_preemptions_total", "vllm:num_preemptions"]),
                prompt_tokens: sum(&["vllm:prompt_tokens_total", "vllm:prompt_tokens"]),
                generation_tokens: sum(&["vllm:generation_tokens_total", "vllm:generation_tokens"]),
            },
            ServingKind::LlamaCpp => {
                // Processed tokens are those that were not found in the cache.
                let processed = sum(&["llamacpp:prompt_tokens_total"]);
                let cached = sum(&["llamacpp:prompt_tokens_cached_total"]);
                Self {
                    kind,
                    simulated,
                    kv_cache_usage: max(&["llamacpp:kv_cache_usage_ratio"]),
                    running: sum(&["llamacpp:requests_processing"]),
                    waiting: sum(&["llamacpp:requests_deferred"]),
                    prefix_queries: processed.zip(cached).map(|(processed, cached)| processed + cached),
                    prefix_hits: cached,
                    preemptions: None,
                    prompt_tokens: processed,
                    generation_tokens: sum(&["llamacpp:tokens_predicted_total"]),
                }
            }
            ServingKind::Tgi => Self {
                kind,
                simulated,
                kv_cache_usage: None,
                running: sum(&["tgi_batch_current_size"]),
                waiting: sum(&["tgi_queue_size"]),
                prefix_queries: None,
                prefix_hits: None,
                preemptions: None,
                prompt_tokens: sum(&["tgi_request_input_length_sum"]),
                generation_tokens: sum(&["tgi_request_generated_tokens_sum"]),
            },
        })
    }

    /// Share of looked-up tokens found in the prefix cache since `earlier`; none when nothing was looked up, or the
    /// server started again in between.
    #[must_use]
    pub fn prefix_hit_ratio_since(&self, earlier: &Self) -> Option<f64> {
        let queries = self.prefix_queries? - earlier.prefix_queries?;
        let hits = self.prefix_hits? - earlier.prefix_hits?;
        (queries > 0.0 && hits >= 0.0).then(|| hits / queries)
    }
}

fn kind(page: &Page) -> Option<ServingKind> {
    let known =
        [("vllm:", ServingKind::Vllm), ("llamacpp:", ServingKind::LlamaCpp), ("tgi_", ServingKind::Tgi)];
    known
        .into_iter()
        .find(|(prefix, _)| page.samples.iter().any(|sample| sample.name.starts_with(prefix)))
        .map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ServingMetrics {
        ServingMetrics::from_page(&Page::parse(text)).unwrap()
    }

    #[test]
    fn two_vllm_engines_are_one_server() {
        let page = "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} 4\n\
            vllm:num_requests_waiting{engine=\"0\"} 0\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n\
            vllm:kv_cache_usage_perc{engine=\"1\"} 0.5\nvllm:prefix_cache_queries_total 100\n\
            vllm:prefix_cache_hits_total 40\ntouchstone_simulated 1\n";
        let metrics = read(page);
        assert_eq!((metrics.running, metrics.waiting), (Some(7.0), Some(0.0)));
        assert_eq!(metrics.kv_cache_usage, Some(0.5));
        assert!(metrics.simulated);
        assert_eq!(metrics.preemptions, None);
        let later = ServingMetrics { prefix_queries: Some(300.0), prefix_hits: Some(190.0), ..metrics };
        assert_eq!(later.prefix_hit_ratio_since(&metrics), Some(0.75));
        assert_eq!(metrics.prefix_hit_ratio_since(&later), None, "it started again");
    }

    #[test]
    fn older_names_are_known() {
        let metrics = read("vllm:gpu_cache_usage_perc 0.1\nvllm:gpu_prefix_cache_hits_total 5\n");
        assert_eq!((metrics.kv_cache_usage, metrics.prefix_hits), (Some(0.1), Some(5.0)));
        assert!(!metrics.simulated);
    }

    #[test]
    fn llama_cpp_and_tgi_pages_are_read() {
        let llama = read(
            "llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\nllamacpp:prompt_tokens_total 30\n\
            llamacpp:prompt_tokens_cached_total 10\nllamacpp:tokens_predicted_total 99\n",
        );
        assert_eq!(llama.kind, ServingKind::LlamaCpp);
        assert_eq!((llama.running, llama.waiting, llama.kv_cache_usage), (Some(2.0), Some(1.0), None));
        assert_eq!((llama.prefix_queries, llama.prefix_hits), (Some(40.0), Some(10.0)));
        let tgi = read("tgi_queue_size 6\ntgi_batch_current_size 8\n");
        assert_eq!((tgi.kind, tgi.running, tgi.waiting), (ServingKind::Tgi, Some(8.0), Some(6.0)));
    }

    #[test]
    fn an_unknown_page_is_none() {
        assert_eq!(ServingMetrics::from_page(&Page::parse("node_load1 0.5\n")), None);
    }
}
