//! What is seen inside a target, and whether it fits to what the client saw.

use touchstone_model::server::{Reconciled, ServerSection, TtftPartId};
use touchstone_model::{FindingCode, MetricId, ServerMetric};
use touchstone_testkit::{Kind, server};

use crate::harness::{Benched, Engine, bench, context, measuring, valid_bench};

fn section(benched: &Benched) -> &ServerSection {
    benched.document.server.as_deref().unwrap_or_else(|| panic!("no section: {}", benched.told()))
}

fn row<'a>(section: &'a ServerSection, what: &str) -> &'a Reconciled {
    section
        .reconciliation
        .iter()
        .find(|row| row.what == what)
        .unwrap_or_else(|| panic!("no {what}: {section:#?}"))
}

fn part(section: &ServerSection, id: TtftPartId) -> Option<f64> {
    section.ttft_parts.iter().find(|part| part.part == id).unwrap().mean_ms
}

#[test]
fn an_engine_agrees_with_its_client_and_ttft_comes_apart() {
    let engine = Engine::start("vllm-like", "");
    let context = context();
    let flags =
        "--arrival closed:4 --duration 3s --warm-up 500ms --input-tokens 64 --output-tokens 8 --seed 5";
    let benched = valid_bench(&context, &engine.chat(), flags);
    let section = section(&benched);
    assert_eq!((section.engine.as_deref(), section.unavailable.as_ref()), (Some("embedded"), None));
    assert!(section.readings >= 5 && section.failed_readings == 0 && section.restarts == 0, "{section:#?}");
    for what in ["requests_succeeded", "prompt_tokens", "generation_tokens", "ttft_mean"] {
        assert_eq!(row(section, what).agrees, Some(true), "{section:#?}");
    }
    // Warm-up and drain count on both sides.
    let answered = row(section, "requests_succeeded").client.unwrap();
    assert!(answered > benched.document.counts.completed as f64, "{}", benched.told());
    assert_eq!(row(section, "generation_tokens").server, Some(answered * 8.0));
    assert!(section.gauges[&ServerMetric::Running].max.unwrap() > 0.0, "{section:#?}");
    assert!(!benched.finding(FindingCode::ServerDisagrees), "{}", benched.told());

    // The parts are the mean of ttft, which has a warm-up here and no cohort.
    let parts = section.ttft_parts.iter().filter_map(|part| part.mean_ms).sum::<f64>();
    let ttft = benched.document.metrics[&MetricId::Ttft].mean.unwrap();
    assert!((parts - ttft).abs() <= 0.25 * ttft, "{parts} {ttft} {section:#?}");
    for known in [TtftPartId::Generator, TtftPartId::SlotWait, TtftPartId::ServerQueue, TtftPartId::Prefill] {
        assert!(part(section, known).is_some(), "{section:#?}");
    }
    assert!(part(section, TtftPartId::Prefill).unwrap() > part(section, TtftPartId::Generator).unwrap());
    assert!(part(section, TtftPartId::Rest).unwrap() >= 0.0);

    let process = section.process.as_ref().unwrap();
    assert_eq!((process.pid, process.found.as_str()), (engine.pid(), "listening"));
    assert!(
        process.memory_before_bytes > 1 << 20 && process.memory_peak_bytes >= process.memory_before_bytes
    );
    assert!(process.cpu_seconds > 0.0 && process.cpu_us_per_token.unwrap() > 0.0, "{process:?}");
    assert!(process.series.len() > 5);

    let page =
        std::fs::read_to_string(crate::harness::run_dir(&context, &benched.document.run).join("report.html"))
            .unwrap();
    for text in ["Inside the target", "server_queue", "prompt_tokens", "ttft-parts"] {
        assert!(page.contains(text), "{text}");
    }
    let shown = crate::harness::run(&context, &format!("runs show {}", benched.document.run));
    assert!(
        shown.stdout.contains("mean ttft") && shown.stdout.contains("generation_tokens"),
        "{}",
        shown.stdout
    );
}

#[test]
fn a_queue_at_the_server_shows_as_its_queue() {
    let engine = Engine::start("capacity-50", "");
    let context = context();
    let flags =
        "--arrival closed:8 --duration 3s --warm-up 500ms --input-tokens 4 --output-tokens 1 --seed 5";
    let benched = valid_bench(&context, &engine.chat(), flags);
    let section = section(&benched);
    let (queue, prefill) = (part(section, TtftPartId::ServerQueue), part(section, TtftPartId::Prefill));
    assert!(queue.unwrap() > prefill.unwrap(), "{section:#?}");
}

#[test]
fn another_client_of_the_same_server_is_noticed() {
    let _alone = measuring();
    let engine = Engine::start("vllm-like", "");
    let (context, other) = (context(), context());
    let flags = "--arrival closed:2 --duration 3s --warm-up 0s --input-tokens 16 --output-tokens 4";
    let busy = crate::harness::bench_line(&engine.chat(), &flags.replace("3s", "30s"));
    let running = other.spawn(busy).unwrap();
    engine.wait_received(5);
    let benched = bench(&context, &engine.chat(), flags);
    running.interrupt().unwrap();
    running.interrupt().unwrap();
    crate::harness::check(&running.finish().unwrap());
    assert!(benched.finding(FindingCode::ServerDisagrees), "{}", benched.told());
    let section = section(&benched);
    assert_eq!(row(section, "requests_succeeded").agrees, Some(false), "{section:#?}");
    let queue = section.ttft_parts.iter().find(|part| part.part == TtftPartId::ServerQueue).unwrap();
    assert!(
        queue.mean_ms.is_none() && queue.note.as_ref().unwrap().contains("not the same requests"),
        "{queue:?}"
    );
}

#[test]
fn llama_cpp_agrees_with_its_client() {
    let server = server!(Kind::LlamaCpp);
    let context = context();
    let flags = "--arrival closed:2 --duration 3s --warm-up 500ms --input-tokens 24 --output-tokens 12";
    let benched = valid_bench(&context, &format!("openai-chat={}", server.base_url()), flags);
    let section = section(&benched);
    assert_eq!(section.engine.as_deref(), Some("llama.cpp"), "{section:#?}");
    for what in ["prompt_tokens", "generation_tokens"] {
        assert_eq!(row(section, what).agrees, Some(true), "{section:#?}");
    }
    assert!(!benched.finding(FindingCode::ServerDisagrees), "{}", benched.told());
    assert!(part(section, TtftPartId::Prefill).is_some_and(|ms| ms > 0.0), "{}", benched.told());
    assert!(part(section, TtftPartId::ServerQueue).is_none());
    assert!(section.missing[&ServerMetric::QueueTime].contains("queue"));
    let process = section.process.as_ref().unwrap();
    assert_eq!(process.pid, server.pid());
}

#[test]
fn what_was_asked_for_and_is_not_there_is_a_finding() {
    let engine = Engine::start("vllm-like", "");
    let context = context();
    let flags = "--requests 3 --input-tokens 8 --output-tokens 2";
    let nowhere = bench(&context, &engine.chat(), &format!("{flags} --metrics-url http://127.0.0.1:9/m"));
    assert!(nowhere.finding(FindingCode::ServerUnreadable), "{}", nowhere.told());
    assert!(section(&nowhere).unavailable.as_ref().unwrap().contains("127.0.0.1:9"));
    let off =
        bench(&context, &engine.chat(), &format!("{flags} --no-server-metrics --target-pid 4294967295"));
    assert!(!off.finding(FindingCode::ServerUnreadable), "{}", off.told());
    let section = section(&off);
    assert_eq!((section.readings, section.unavailable.as_deref()), (0, Some("--no-server-metrics")));
    assert!(section.process.is_none() && section.process_unavailable.is_some());
}

#[test]
fn devices_of_a_stub_library_are_read_and_their_throttling_is_found() {
    let folder = context();
    touchstone_testkit::nvml::stub_library(folder.dir()).unwrap();
    let engine = Engine::start("vllm-like", "");
    let context = context().variable("LD_LIBRARY_PATH", folder.dir().to_str().unwrap());
    let flags = "--arrival closed:2 --duration 2s --warm-up 500ms --input-tokens 8 --output-tokens 4";
    let benched = bench(&context, &engine.chat(), flags);
    let section = section(&benched);
    assert_eq!(section.devices.len(), 2, "{:?}", section.devices_unavailable);
    let (busy, silent) = (&section.devices[0], &section.devices[1]);
    assert_eq!((busy.utilisation, busy.watts, busy.sm_mhz_min), (Some(0.75), Some(250.0), Some(1410)));
    assert!(busy.readings >= 4 && busy.memory_peak_bytes > busy.memory_before_bytes, "{busy:?}");
    let tokens = row(section, "generation_tokens").client.unwrap();
    assert!((busy.joules_per_token.unwrap() - busy.joules.unwrap() / tokens).abs() < 1e-9, "{busy:?}");
    assert!(busy.joules.unwrap() >= 50.0);
    assert_eq!((silent.utilisation, silent.joules, silent.memory_peak_bytes), (None, None, None));
    assert!(benched.finding(FindingCode::Throttling), "{}", benched.told());
}
