//! Writes what each target begins with into `FOLDER/TARGET/`: the streams of the conformance corpus, the shipped files,
//! and one of every grammar. Existing files of the same name are written again. FOLDER is the value of
//! `TOUCHSTONE_FUZZ_SEEDS`: instrumented code needs libFuzzer's `main`, which owns the arguments; run it with `-runs=0`.

#![no_main]
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

use touchstone_fuzz::{CLOSES, WHOLE};

#[path = "../../crates/touchstone-drivers/tests/contract/corpus/mod.rs"]
mod corpus;
#[path = "../../crates/touchstone-drivers/tests/contract/support.rs"]
mod support;

libfuzzer_sys::fuzz_target!(
    init: seeds(),
    |_data: &[u8]| {}
);

fn seeds() {
    let folder = std::env::var_os("TOUCHSTONE_FUZZ_SEEDS").expect("TOUCHSTONE_FUZZ_SEEDS names a folder");
    let folder = Path::new(&folder);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    streams(folder);
    for (target, from) in [("scenario", "scenarios"), ("product", "catalog")] {
        for path in files(&root.join(from)) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            write(folder, target, &name, &fs::read(&path).unwrap_or_default());
        }
    }
    let fed = |text: &str, flags: u8, last: u8| [&[0, 0, flags, last], text.as_bytes()].concat();
    write(folder, "resp", "replies", &fed("$3\r\nabc\r\n$-1\r\n-LOADING x\r\n", 0, 1));
    write(
        folder,
        "resp",
        "pushes",
        &fed(">2\r\n+invalidate\r\n*1\r\n$1\r\na\r\n_\r\n%1\r\n+a\r\n:1\r\n", 0, 1),
    );
    write(folder, "resp", "writes", &fed("+OK\r\n-MOVED 3999 127.0.0.1:6381\r\n+OK\r\n", CLOSES, 0));
    write(folder, "resp", "greeting", &fed("-NOAUTH Authentication required.\r\n", WHOLE, 0));
    write(folder, "nats", "pings", &fed("PING\r\n+OK\r\nPONG\r\n-ERR 'x'\r\n", 0, 0));
    write(
        folder,
        "nats",
        "messages",
        &fed("MSG touchstone.r1.0 1 28\r\n0123456789abcdefghijklmnopqr\r\n", 0, 1),
    );
    write(folder, "nats", "headers", &fed("HMSG a 1 12 15\r\nNATS/1.0\r\n\r\nabc\r\n", 0, 1));
    write(folder, "nats", "greeting", &fed("INFO {\"max_payload\":1048576}\r\nPONG\r\n", WHOLE, 0));
    let page = "# HELP a b\n# TYPE a histogram\na_bucket{le=\"0.5\"} 3\na_bucket{le=\"+Inf\"} 4\na_sum 1.5e0\na_count 4\nvllm:num_requests_running{model_name=\"x\\\"y\"} 1.0 1700000000\n";
    write(folder, "prometheus", "page", page.as_bytes());
    for (number, text) in GRAMMARS.iter().enumerate() {
        write(folder, "grammars", &format!("grammar-{number}"), text.as_bytes());
    }
    let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n";
    write(folder, "trace", "azure", azure.as_bytes());
    let burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,230,1317,API log\n";
    write(folder, "trace", "burstgpt", burst.as_bytes());
    let mooncake = "{\"timestamp\": 0, \"input_length\": 1050, \"output_length\": 2, \"hash_ids\": [0, 1, 2]}\n{\"timestamp\": 30, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [0, 3]}\n";
    write(folder, "trace", "mooncake", mooncake.as_bytes());
    event_log(folder);
}

const GRAMMARS: [&str; 20] = [
    "closed:8",
    "constant:100/s",
    "poisson:1k/s",
    "gamma:50/s,cv=2",
    "openai-chat=http://127.0.0.1:8000",
    "triton-infer=https://[::1]:8000/v2/models/{model}/infer",
    "resp=tls://127.0.0.1:6379",
    "nats=127.0.0.1:4222",
    "engine=vllm-like",
    "tgi=http://h",
    "ttft.p99 <= 200ms",
    "error_rate <= 0.1%",
    "throughput >= 100/s",
    "goodput_share >= 95%",
    "0.6.3.post1",
    ">=0.6, <0.7",
    "1.2",
    "0.32.0-rc1",
    "engine >= 0.6",
    "hardware = h100",
];

fn streams(folder: &Path) {
    for (number, case) in corpus::cases().iter().enumerate() {
        let bytes: Vec<u8> = case.reads.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let flags = u8::from(case.eof) * CLOSES | u8::from(!case.stream) * WHOLE;
        let seed = [0, 1, flags, 0];
        let name = format!("case-{number:03}");
        if bytes.len() > 128 * 1024 {
            continue;
        }
        let target = case.dialect.name().replace("openai-", "").replace('-', "_");
        write(folder, &target, &name, &[&seed, bytes.as_slice()].concat());
        // The events alone, out of their chunks, for the readers behind the framing.
        let text = String::from_utf8_lossy(&bytes);
        let events: Vec<&str> = text.lines().filter(|line| line.starts_with("data:")).collect();
        if !events.is_empty() {
            let body = events.join("\n\n") + "\n\n";
            write(folder, "sse", &name, &[&seed, body.as_bytes()].concat());
            for coding in [0b0000_1000, 0b0000_1100, 0b0011_0000, 0b0101_0100] {
                write(
                    folder,
                    "gzip",
                    &format!("{name}-{coding}"),
                    &[&[0, 1, flags | coding, 9], body.as_bytes()].concat(),
                );
            }
        }
    }
}

/// A log with some of everything, whole and cut.
fn event_log(folder: &Path) {
    use touchstone_records::event_log::Writer;
    let path = folder.join("event_log").join("whole");
    fs::create_dir_all(folder.join("event_log")).expect("a folder for seeds");
    let _ = fs::remove_file(&path);
    let rows: Vec<touchstone_records::OpRow> = vec![touchstone_records::OpRow::default(); 3];
    let mut log = Writer::create(&path, &manifest()).expect("a log");
    log.operations(&rows, 1).expect("rows");
    let token = touchstone_records::TokenRow {
        index: 1,
        at_ns: 5,
        tokens: Some(2),
        kind: touchstone_records::TokenKind::Content,
    };
    log.tokens(&[token; 3], 1).expect("events of answers");
    log.finish(0, 0).expect("the end");
    let bytes = fs::read(&path).expect("the log");
    write(folder, "event_log", "cut", &bytes[..bytes.len() - 5]);
}

fn manifest() -> touchstone_records::Manifest {
    touchstone_records::Manifest {
        run: "run-0".to_owned(),
        started_at: "2026-01-02T03:04:05Z".to_owned(),
        touchstone_version: "0.1.0".to_owned(),
        level: touchstone_model::Level::E,
        simulated: true,
        target: touchstone_model::run::TargetDescription::default(),
        workload: touchstone_model::run::WorkloadDescription {
            arrival: "closed:1".to_owned(),
            seed: 1,
            schedule_digest: String::new(),
            parameters: Default::default(),
        },
        phases: touchstone_model::run::Phases::default(),
        leading_metric: touchstone_model::MetricId::E2e,
        fingerprint: None,
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
    found
}

fn write(folder: &Path, target: &str, name: &str, bytes: &[u8]) {
    let folder = folder.join(target);
    fs::create_dir_all(&folder).expect("a folder for seeds");
    fs::write(folder.join(name), bytes).expect("a seed");
}
