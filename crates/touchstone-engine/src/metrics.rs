//! `/metrics`: the Prometheus text format, with the names that vLLM uses, and what only a simulator has.

use std::collections::BTreeMap;

use touchstone_sim::Counters;

const TTFT_BUCKETS: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0,
];
const ITL_BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0];
const E2E_BUCKETS: &[f64] =
    &[0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 120.0, 240.0];

#[derive(Debug)]
struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    fn observe(&mut self, ns: u64) {
        let seconds = ns as f64 / 1e9;
        self.counts[self.bounds.partition_point(|&bound| bound < seconds)] += 1;
        self.sum += seconds;
    }
}

/// What the scheduler does not count by itself.
#[derive(Debug)]
pub(crate) struct Metrics {
    time_to_first_token: Histogram,
    queue: Histogram,
    prefill: Histogram,
    inter_token: Histogram,
    end_to_end: Histogram,
    /// Ended requests by vLLM's `finished_reason`.
    finished: BTreeMap<&'static str, u64>,
    /// Faults committed, by kind.
    faults: BTreeMap<&'static str, u64>,
    pub(crate) slow_readers_cut: u64,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self {
            time_to_first_token: Histogram::new(TTFT_BUCKETS),
            queue: Histogram::new(E2E_BUCKETS),
            prefill: Histogram::new(E2E_BUCKETS),
            inter_token: Histogram::new(ITL_BUCKETS),
            end_to_end: Histogram::new(E2E_BUCKETS),
            finished: ["stop", "length", "abort", "error"].map(|reason| (reason, 0)).into(),
            faults: BTreeMap::new(),
            slow_readers_cut: 0,
        }
    }

    pub(crate) fn first_token(&mut self, ns: u64) {
        self.time_to_first_token.observe(ns);
    }

    /// What the scheduler says of a sequence's way to its first token.
    pub(crate) fn started(&mut self, queue_ns: u64, prefill_ns: u64) {
        self.queue.observe(queue_ns);
        self.prefill.observe(prefill_ns);
    }

    pub(crate) fn gap(&mut self, ns: u64) {
        self.inter_token.observe(ns);
    }

    pub(crate) fn end_to_end(&mut self, ns: u64) {
        self.end_to_end.observe(ns);
    }

    pub(crate) fn finished(&mut self, reason: &'static str) {
        *self.finished.entry(reason).or_default() += 1;
    }

    pub(crate) fn fault(&mut self, kind: &'static str) {
        *self.faults.entry(kind).or_default() += 1;
    }

    pub(crate) fn faults(&self) -> u64 {
        self.faults.values().sum()
    }

    /// The whole page.
    pub(crate) fn render(&self, model: &str, counters: &Counters) -> String {
        let mut page = Page { text: String::with_capacity(8192), labels: labels(model) };
        page.single("vllm:num_requests_running", "gauge", "Requests in execution.", counters.running as f64);
        page.single("vllm:num_requests_waiting", "gauge", "Requests waiting.", counters.waiting as f64);
        page.single("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage, 1 is full.", counters.kv_usage());
        let totals = [
            ("vllm:prefix_cache_queries_total", "Prompt tokens looked up.", counters.prefix_queries),
            ("vllm:prefix_cache_hits_total", "Prompt tokens found.", counters.prefix_hits),
            ("vllm:prompt_tokens_total", "Prompt tokens processed.", counters.prompt_tokens),
            ("vllm:generation_tokens_total", "Tokens generated.", counters.generated_tokens),
            ("vllm:num_preemptions_total", "Preemptions.", counters.preemptions),
            ("touchstone_steps_total", "Scheduler steps.", counters.steps),
            ("touchstone_slow_readers_cut_total", "Connections cut: unread output.", self.slow_readers_cut),
        ];
        for (name, help, value) in totals {
            page.single(name, "counter", help, value as f64);
        }
        page.head("vllm:request_success_total", "counter", "Ended requests.");
        for (reason, count) in &self.finished {
            page.sample(
                "vllm:request_success_total",
                &format!("finished_reason=\"{reason}\","),
                *count as f64,
            );
        }
        page.head("touchstone_faults_total", "counter", "Faults committed on purpose.");
        for (kind, count) in &self.faults {
            page.sample("touchstone_faults_total", &format!("kind=\"{kind}\","), *count as f64);
        }
        let histograms = [
            (
                "vllm:time_to_first_token_seconds",
                "Receipt to first content written.",
                &self.time_to_first_token,
            ),
            ("vllm:request_queue_time_seconds", "Time of a request in the queue.", &self.queue),
            ("vllm:request_prefill_time_seconds", "Queue to first token.", &self.prefill),
            ("vllm:inter_token_latency_seconds", "Gaps between content chunks.", &self.inter_token),
            ("vllm:e2e_request_latency_seconds", "Receipt to last content written.", &self.end_to_end),
        ];
        for (name, help, histogram) in histograms {
            page.histogram(name, help, histogram);
        }
        page.text.push_str("# HELP touchstone_simulated These figures come from a simulated engine.\n");
        page.text.push_str("# TYPE touchstone_simulated gauge\ntouchstone_simulated 1\n");
        page.text
    }
}

fn labels(model: &str) -> String {
    let model = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("engine=\"0\",model_name=\"{model}\"")
}

struct Page {
    text: String,
    labels: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    fn sample(&mut self, name: &str, extra: &str, value: f64) {
        self.text.push_str(&format!("{name}{{{extra}{}}} {value}\n", self.labels));
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        self.sample(name, "", value);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let mut cumulative = 0;
        let bounds = histogram.bounds.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&histogram.counts) {
            cumulative += count;
            self.sample(&bucket, &format!("le=\"{bound}\","), cumulative as f64);
        }
        self.sample(&format!("{name}_sum"), "", histogram.sum);
        self.sample(&format!("{name}_count"), "", cumulative as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::Metrics;
    use touchstone_sim::Counters;

    #[test]
    fn the_page_has_names_labels_and_cumulative_buckets() {
        let mut metrics = Metrics::new();
        metrics.first_token(10_000_000); // exactly a bound: belongs to le="0.01"
        metrics.first_token(11_000_000);
        metrics.first_token(500_000_000_000);
        metrics.finished("length");
        metrics.fault("cut");
        let counters = Counters { running: 3, kv_blocks_used: 1, kv_blocks_total: 4, ..Counters::default() };
        let page = metrics.render("a\"b", &counters);
        for line in [
            r#"vllm:num_requests_running{engine="0",model_name="a\"b"} 3"#,
            r#"vllm:kv_cache_usage_perc{engine="0",model_name="a\"b"} 0.25"#,
            r#"vllm:request_success_total{finished_reason="length",engine="0",model_name="a\"b"} 1"#,
            r#"vllm:time_to_first_token_seconds_bucket{le="0.005",engine="0",model_name="a\"b"} 0"#,
            r#"vllm:time_to_first_token_seconds_bucket{le="0.01",engine="0",model_name="a\"b"} 1"#,
            r#"vllm:time_to_first_token_seconds_bucket{le="0.02",engine="0",model_name="a\"b"} 2"#,
            r#"vllm:time_to_first_token_seconds_bucket{le="+Inf",engine="0",model_name="a\"b"} 3"#,
            r#"vllm:time_to_first_token_seconds_count{engine="0",model_name="a\"b"} 3"#,
            r#"touchstone_faults_total{kind="cut",engine="0",model_name="a\"b"} 1"#,
            "touchstone_simulated 1",
        ] {
            assert!(page.lines().any(|have| have == line), "{line}\n{page}");
        }
        assert_eq!(metrics.faults(), 1);
    }
}
