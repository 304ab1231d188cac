//! Scheduling as seen from outside, faults, and the truth.

use std::time::{Duration, Instant};

use crate::support::{CHAT, COMPLETIONS, Client, Engine, chat, post};
use touchstone_engine::{EngineConfig, FaultPlan, Overload, Profile, Stall, StepTime};

const STREAM: &str = r#","stream":true"#;

fn stream(tokens: u32) -> String {
    post(CHAT, &chat(tokens, STREAM))
}

/// Reads the head and the role event of a stream.
fn opening(client: &mut Client) {
    assert_eq!(client.head().0, 200);
    client.chunk().unwrap();
}

#[test]
fn two_requests_at_once_share_their_steps() {
    let engine = Engine::start("flat", FaultPlan::default());
    let (mut a, mut b) = (engine.client(), engine.client());
    a.send(&stream(400));
    b.send(&stream(400));
    a.reply();
    b.reply();
    let scheduler = engine.stop().scheduler;
    assert_eq!(scheduler.generated_tokens, 800);
    assert_eq!(scheduler.batch_sizes.iter().sum::<u64>(), scheduler.steps);
    // Each step makes one token per sequence, so every shared step saves one.
    assert_eq!(scheduler.steps + scheduler.batch_sizes[2], 800);
    assert!(scheduler.batch_sizes[2] > 0);
}

#[test]
fn a_client_that_leaves_frees_its_blocks() {
    let engine = Engine::start("vllm-like", FaultPlan::default());
    let mut client = engine.client();
    client.send(&stream(8000));
    opening(&mut client);
    client.chunk().unwrap();
    assert!(engine.metric("vllm:kv_cache_usage_perc", "") > 0.0);
    assert_eq!(engine.metric("vllm:num_requests_running", ""), 1.0);
    drop(client);
    engine.await_metric("vllm:num_requests_running", 0.0);
    assert_eq!(engine.metric("vllm:kv_cache_usage_perc", ""), 0.0);
    assert_eq!(engine.metric("vllm:request_success_total", "abort"), 1.0);
    assert_eq!(engine.truth("")["requests"]["cancelled"], 1);
    let stats = engine.stop();
    assert_eq!((stats.cancelled, stats.completed, stats.scheduler.cancelled), (1, 0, 1));
}

#[test]
fn a_client_that_ends_its_sending_side_counts_as_gone() {
    // No token is due for an hour, so nothing but the end of the input can tell the engine.
    let mut config = EngineConfig::new(Profile::builtin("capacity-50").unwrap());
    config.profile.step_time = StepTime::PerRequest { total_ns: 3_600_000_000_000 };
    let engine = Engine::with(config);
    let mut client = engine.client();
    client.send(&stream(1));
    opening(&mut client);
    client.end_sending();
    assert!(client.closed());
    assert_eq!(engine.stop().cancelled, 1);
}

#[test]
fn repeated_prompts_hit_the_prefix_cache() {
    let engine = Engine::start("vllm-like", FaultPlan::default());
    let mut client = engine.client();
    let words: Vec<String> = (0..40).map(|n| format!("w{n}")).collect();
    let body = format!(r#"{{"prompt":"{}","max_tokens":1}}"#, words.join(" "));
    client.post(COMPLETIONS, &body);
    client.post(COMPLETIONS, &body);
    assert_eq!(engine.metric("vllm:prefix_cache_queries_total", ""), 80.0);
    assert_eq!(engine.metric("vllm:prefix_cache_hits_total", ""), 32.0);
}

#[test]
fn the_truth_covers_a_window_of_the_servers_clock() {
    let engine = Engine::start("flat", FaultPlan::default());
    let mut client = engine.client();
    let clock = |client: &mut Client| client.get("/clock").json()["mono_ns"].as_u64().unwrap();
    client.post(CHAT, &chat(9, STREAM));
    let from = clock(&mut client);
    for _ in 0..3 {
        client.post(CHAT, &chat(5, STREAM));
    }
    client.post(CHAT, &chat(5, ""));
    client.post(CHAT, "{");
    let to = clock(&mut client);
    client.post(CHAT, &chat(9, STREAM));
    let truth = engine.truth(&format!("?from_ns={from}&to_ns={to}"));
    let requests = &truth["requests"];
    assert_eq!((&requests["received"], &requests["streamed"]), (&5.into(), &3.into()), "{truth}");
    assert_eq!((&requests["completed"], &requests["invalid"]), (&4.into(), &1.into()));
    assert_eq!((&truth["ttft_from_receive"]["n"], &truth["itl"]["n"]), (&3.into(), &12.into()));
    assert_eq!((&truth["e2e_from_receive"]["n"], &truth["output_tokens"]), (&4.into(), &20.into()));
    assert_eq!(truth["truncated"], false);
    // The first step begins after the receipt and takes 2 ms; nothing can be written before it has ended.
    let value = |path: &str| truth.pointer(path).unwrap().as_u64().unwrap();
    assert!(value("/ttft_from_receive/p50") >= 2_000_000);
    assert!(value("/ttft_from_receive/max") < to - from);
    assert!(value("/e2e_from_receive/max") >= value("/ttft_from_receive/max"));
    let nothing = engine.truth("?from_ns=5&to_ns=6");
    assert_eq!(
        (&nothing["requests"]["received"], &nothing["itl"]["p99"]),
        (&0.into(), &serde_json::Value::Null)
    );
    assert_eq!(engine.truth("")["requests"]["received"], 7);
}

#[test]
fn capacity_50_builds_up_a_backlog_that_is_served_in_order() {
    let engine = Engine::start("capacity-50", FaultPlan::default());
    let mut clients: Vec<_> = (0..6).map(|_| engine.client()).collect();
    let begun = Instant::now();
    for client in &mut clients {
        client.send(&stream(1));
    }
    clients.iter_mut().for_each(|client| assert!(client.reply().complete));
    // Six, one at a time, 20 ms each: no machine can be faster.
    assert!(begun.elapsed() >= Duration::from_millis(120));
    assert_eq!(engine.truth("")["requests"]["completed"], 6);
    assert_eq!(engine.stop().scheduler.busy_ns, 6 * 20_000_000);
}

#[test]
fn errors_are_injected_at_their_rate() {
    let engine = Engine::start("flat", FaultPlan { error_rate: 0.5, ..FaultPlan::default() });
    let mut client = engine.client();
    let statuses: Vec<u16> = (0..40).map(|_| client.post(CHAT, &chat(1, "")).status).collect();
    let errors = statuses.iter().filter(|&&status| status == 500).count();
    assert!(statuses.iter().all(|&status| status == 200 || status == 500));
    assert!((8..=32).contains(&errors), "{errors}");
    let again = Engine::start("flat", FaultPlan { error_rate: 0.5, ..FaultPlan::default() });
    let mut client = again.client();
    assert_eq!(statuses, (0..40).map(|_| client.post(CHAT, &chat(1, "")).status).collect::<Vec<_>>());
    assert_eq!(engine.metric("touchstone_faults_total", "error"), errors as f64);
    let stats = engine.stop();
    assert_eq!((stats.failed, stats.faults), (errors as u64, errors as u64));
}

#[test]
fn cut_streams_end_part_way_without_the_end_of_the_body() {
    let engine = Engine::start("flat", FaultPlan { cut_rate: 1.0, ..FaultPlan::default() });
    let mut client = engine.client();
    client.send(&stream(10));
    let reply = client.reply();
    assert!(!reply.complete);
    let content = reply.chunks().len() - 1;
    assert!((1..10).contains(&content), "{content}");
    assert!(!reply.text().contains("[DONE]"));
    assert_eq!(engine.truth("")["requests"]["cut"], 1);
    assert_eq!(engine.metric("vllm:num_requests_running", ""), 0.0);
}

#[test]
fn errors_inside_a_stream_come_with_status_200() {
    let engine = Engine::start("flat", FaultPlan { error_in_stream_rate: 1.0, ..FaultPlan::default() });
    let mut client = engine.client();
    client.send(&stream(10));
    let reply = client.reply();
    assert_eq!((reply.status, reply.complete), (200, true));
    let events = reply.events();
    assert_eq!(events.last().unwrap(), "[DONE]");
    assert_eq!(reply.chunks().last().unwrap()["error"]["code"], 500);
    assert_eq!(client.post(CHAT, &chat(10, "")).status, 500);
    assert_eq!(engine.stop().failed, 2);
}

#[test]
fn done_can_be_dropped() {
    let engine = Engine::start("flat", FaultPlan { drop_done: true, ..FaultPlan::default() });
    let mut client = engine.client();
    client.send(&stream(2));
    let reply = client.reply();
    assert!(reply.complete && !reply.text().contains("[DONE]"));
    assert_eq!(reply.chunks().last().unwrap()["choices"][0]["finish_reason"], "length");
}

#[test]
fn a_stall_shows_as_one_long_gap() {
    let hold = Some(Duration::from_millis(150));
    let stall = Some(Stall { rate: 1.0, after_tokens: 3, hold });
    let engine = Engine::start("flat", FaultPlan { stall, ..FaultPlan::default() });
    let mut client = engine.client();
    client.send(&stream(6));
    assert_eq!(client.reply().chunks().len(), 1 + 6);
    let gaps = engine.truth("")["itl"].clone();
    assert_eq!(gaps["n"], 5);
    assert!(gaps["max"].as_u64().unwrap() >= 150_000_000, "{gaps}");
    assert_eq!(engine.stop().faults, 1);
}

#[test]
fn a_stall_for_ever_holds_until_the_client_goes() {
    let stall = Some(Stall { rate: 1.0, after_tokens: 2, hold: None });
    let engine = Engine::start("flat", FaultPlan { stall, ..FaultPlan::default() });
    let mut client = engine.client();
    client.send(&stream(5));
    opening(&mut client);
    client.chunk().unwrap();
    client.chunk().unwrap();
    // The scheduler goes on and ends the sequence; the answer stays open.
    engine.await_metric("vllm:generation_tokens_total", 5.0);
    assert_eq!(engine.truth("")["requests"]["unfinished"], 1);
    drop(client);
    engine.await_metric("vllm:request_success_total", 1.0);
    let stats = engine.stop();
    assert_eq!((stats.cancelled, stats.faults), (1, 1));
}

#[test]
fn slow_headers_hold_everything_back() {
    let faults = FaultPlan { slow_headers: Duration::from_millis(120), ..FaultPlan::default() };
    let engine = Engine::start("flat", faults);
    let mut client = engine.client();
    client.send(&stream(3));
    assert_eq!(client.reply().chunks().len(), 4);
    assert_eq!(client.post(CHAT, &chat(2, "")).status, 200);
    let truth = engine.truth("");
    assert!(truth["ttft_from_receive"]["p50"].as_u64().unwrap() >= 120_000_000, "{truth}");
    assert_eq!(truth["requests"]["completed"], 2);
}

#[test]
fn requests_are_turned_away_while_too_many_wait() {
    for status in [429, 503] {
        let reject_when_waiting = Some(Overload { waiting_above: 1, status });
        let faults = FaultPlan { reject_when_waiting, ..FaultPlan::default() };
        let mut config =
            EngineConfig { faults, ..EngineConfig::new(Profile::builtin("capacity-50").unwrap()) };
        // Slow enough for all twelve to come while the first is served.
        config.profile.step_time = StepTime::PerRequest { total_ns: 300_000_000 };
        let engine = Engine::with(config);
        let mut clients: Vec<_> = (0..12).map(|_| engine.client()).collect();
        for client in &mut clients {
            client.send(&post(CHAT, &chat(1, "")));
        }
        let statuses: Vec<u16> = clients.iter_mut().map(|client| client.reply().status).collect();
        assert!(statuses.iter().all(|s| [200, status].contains(s)), "{statuses:?}");
        let rejected = statuses.iter().filter(|&&s| s == status).count() as u64;
        assert!(rejected > 0);
        let stats = engine.stop();
        assert_eq!((stats.rejected, stats.completed), (rejected, 12 - rejected));
    }
}

#[test]
fn a_client_that_does_not_read_is_cut_in_the_end() {
    // 60,000 chunks of over 200 bytes against 4 MiB, made as fast as the clock allows.
    let mut profile = Profile::builtin("flat").unwrap();
    profile.step_time = StepTime::Linear {
        base_ns: 20_000,
        prefill_ns_per_token: 0,
        decode_ns_per_seq: 0,
        kv_ns_per_block: 0,
    };
    let engine = Engine::with(EngineConfig::new(profile));
    let mut client = engine.client();
    client.send(&stream(65_000));
    opening(&mut client);
    engine.await_metric("touchstone_slow_readers_cut_total", 1.0);
    assert_eq!(engine.metric("vllm:num_requests_running", ""), 0.0);
    let stats = engine.stop();
    assert_eq!((stats.slow_readers_cut, stats.cut, stats.cancelled), (1, 1, 0));
}
