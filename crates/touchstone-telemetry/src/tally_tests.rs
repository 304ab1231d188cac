use std::fmt::Write as _;

use super::*;

fn tally(pages: &[&str]) -> Tally {
    let pages: Vec<Page> = pages.iter().map(|text| Page::parse(text)).collect();
    let mut tally = Tally::new(EngineMap::of(&pages[0]).unwrap());
    pages.iter().for_each(|page| tally.push(page));
    tally
}

/// A page in the shape of vLLM's, of a server with two engines.
fn vllm(requests: u32, aborted: Option<u32>, slow: u32, prompt: u32) -> String {
    let mut page = format!(
        "# TYPE vllm:num_requests_running gauge\n\
         vllm:num_requests_running{{engine=\"0\",model_name=\"m\"}} 3.0\n\
         vllm:num_requests_running{{engine=\"1\",model_name=\"m\"}} 4.0\n\
         vllm:kv_cache_usage_perc{{engine=\"0\",model_name=\"m\"}} 0.25\n\
         vllm:kv_cache_usage_perc{{engine=\"1\",model_name=\"m\"}} 0.5\n\
         vllm:prompt_tokens_total{{engine=\"0\",model_name=\"m\"}} {prompt}.0\n\
         vllm:request_success_total{{engine=\"0\",finished_reason=\"length\",model_name=\"m\"}} {requests}.0\n"
    );
    if let Some(aborted) = aborted {
        writeln!(
            page,
            "vllm:request_success_total{{engine=\"0\",finished_reason=\"abort\",model_name=\"m\"}} {aborted}.0"
        )
        .unwrap();
    }
    let all = requests + slow;
    for (le, count) in [("0.01", requests), ("0.1", requests), ("+Inf", all)] {
        writeln!(page, "vllm:request_queue_time_seconds_bucket{{engine=\"0\",le=\"{le}\"}} {count}.0")
            .unwrap();
    }
    writeln!(page, "vllm:request_queue_time_seconds_count{{engine=\"0\"}} {all}.0").unwrap();
    let sum = f64::from(requests) * 0.005 + f64::from(slow) * 2.0;
    writeln!(page, "vllm:request_queue_time_seconds_sum{{engine=\"0\"}} {sum}").unwrap();
    page
}

#[test]
fn what_was_there_before_the_run_does_not_count() {
    let tally = tally(&[
        &vllm(1000, None, 0, 50_000),
        &vllm(1090, Some(3), 0, 59_000),
        &vllm(1095, Some(5), 5, 60_000),
    ]);
    assert_eq!((tally.pages(), tally.restarts()), (3, 0));
    let counters = tally.counters();
    assert_eq!(counters[&ServerMetric::PromptTokens].delta, 10_000.0);
    let finished = &counters[&ServerMetric::RequestsFinished];
    assert_eq!(finished.delta, 100.0, "a reason that appears later began at 0");
    assert_eq!(finished.by_reason["length"], 95.0);
    assert_eq!(finished.by_reason["abort"], 5.0);
    let queue = &tally.distributions()[&ServerMetric::QueueTime];
    assert_eq!(queue.count, 100.0);
    assert!((queue.mean.unwrap() - (95.0 * 5.0 + 5.0 * 2000.0) / 100.0).abs() < 1e-6, "{queue:?}");
    let bounds = |statistic| queue.quantiles[&statistic];
    assert_eq!((bounds(Statistic::P90).lower, bounds(Statistic::P90).upper), (0.0, Some(10.0)));
    assert_eq!((bounds(Statistic::P99).lower, bounds(Statistic::P99).upper), (100.0, None));
}

#[test]
fn a_restart_is_noticed_and_loses_only_what_was_between_two_pages() {
    let tally = tally(&[&vllm(10, None, 0, 1000), &vllm(20, None, 0, 2000), &vllm(4, None, 0, 400)]);
    assert_eq!(tally.restarts(), 1);
    assert_eq!(tally.counters()[&ServerMetric::PromptTokens].delta, 1400.0);
}

#[test]
fn gauges_are_of_all_engines_and_the_missing_says_why() {
    let page = Page::parse(&vllm(1, None, 0, 5));
    let mut tally = Tally::new(EngineMap::of(&page).unwrap());
    tally.push(&page);
    let gauges = tally.gauges(&page);
    assert_eq!((gauges[&ServerMetric::Running], gauges[&ServerMetric::KvCacheUsage]), (7.0, 0.5));
    let missing = tally.missing(&gauges.keys().copied().collect());
    assert_eq!(missing[&ServerMetric::Waiting], "the page has no `vllm:num_requests_waiting`");
    assert!(
        !missing.contains_key(&ServerMetric::PromptTokens) && !missing.contains_key(&ServerMetric::Running)
    );
    assert_eq!(tally.counters()[&ServerMetric::PromptTokens].delta, 0.0, "one page is no window");
}

#[test]
fn llama_cpp_splits_its_prompt_tokens_and_triton_gives_means() {
    let llama = |processed: u32, cached: u32, seconds: f64| {
        format!(
            "llamacpp:prompt_tokens_total {processed}\nllamacpp:prompt_tokens_cached_total {cached}\n\
             llamacpp:prompt_seconds_total {seconds}\nllamacpp:tokens_predicted_total 5\n"
        )
    };
    let seen = tally(&[&llama(100, 10, 1.5), &llama(160, 50, 2.0)]).counters();
    assert_eq!(seen[&ServerMetric::PromptTokens].delta, 100.0);
    assert_eq!(
        (seen[&ServerMetric::PrefixQueries].delta, seen[&ServerMetric::PrefixHits].delta),
        (100.0, 40.0)
    );
    assert_eq!(seen[&ServerMetric::PrefillTotal].delta, 500.0);

    let old = tally(&["llamacpp:prompt_tokens_total 1\n", "llamacpp:prompt_tokens_total 9\n"]);
    assert!(!old.counters().contains_key(&ServerMetric::PromptTokens), "half of a sum is no sum");

    let triton = |requests: u32, queue: u32| {
        format!(
            "nv_inference_request_success{{model=\"a\",version=\"1\"}} {requests}\n\
             nv_inference_request_success{{model=\"b\",version=\"1\"}} 7\n\
             nv_inference_queue_duration_us{{model=\"a\",version=\"1\"}} {queue}\n\
             nv_inference_request_failure{{model=\"a\",reason=\"REJECTED\",version=\"1\"}} 0\n"
        )
    };
    let seen = tally(&[&triton(10, 1000), &triton(14, 9000)]);
    let queue = &seen.distributions()[&ServerMetric::QueueTime];
    assert_eq!((queue.count, queue.mean), (4.0, Some(2.0)));
    assert!(queue.quantiles.is_empty());
    assert_eq!(seen.counters()[&ServerMetric::RequestsRejected].by_reason["REJECTED"], 0.0);
}

#[test]
fn a_page_cut_anywhere_is_survived() {
    let page = vllm(20, Some(1), 2, 2000);
    for at in 0..page.len() {
        let mut tally = Tally::new(EngineMap::of(&Page::parse(&vllm(10, None, 0, 1000))).unwrap());
        tally.push(&Page::parse(&vllm(10, None, 0, 1000)));
        tally.push(&Page::parse(&page[..at]));
        assert!(tally.counters().values().all(|counter| counter.delta >= 0.0));
        assert!(tally.distributions().values().all(|seen| seen.count >= 0.0));
    }
}
