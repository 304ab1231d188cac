//! What goes over the wire.

use crate::support::{CHAT, COMPLETIONS, Engine, chat, post};
use touchstone_engine::{EngineConfig, EngineError, FaultPlan, Profile, StepTime, serve};

fn flat() -> Engine {
    Engine::start("flat", FaultPlan::default())
}

#[test]
fn a_chat_stream_has_the_shape_of_vllm() {
    let engine = flat();
    let body = chat(3, r#","stream":true,"stream_options":{"include_usage":true}"#);
    let reply = engine.client().post(CHAT, &body);
    assert_eq!((reply.status, reply.complete), (200, true));
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(reply.header("x-touchstone-simulated"), Some("1"));
    let (events, chunks) = (reply.events(), reply.chunks());
    assert_eq!(events.last().unwrap(), "[DONE]");
    assert_eq!(chunks.len(), 1 + 3 + 1);
    assert_eq!(chunks[0]["choices"][0]["delta"], serde_json::json!({"role": "assistant", "content": ""}));
    for chunk in &chunks[1..4] {
        let content = chunk["choices"][0]["delta"]["content"].as_str().unwrap();
        assert!(content.starts_with(" tok") && content.split_whitespace().count() == 1, "{content:?}");
        assert_eq!(chunk.get("usage"), None);
    }
    let reasons: Vec<_> = chunks[..4].iter().map(|c| c["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(reasons, [None, None, None, Some("length")]);
    let usage = serde_json::json!({"prompt_tokens": 3, "total_tokens": 6, "completion_tokens": 3});
    assert_eq!((&chunks[4]["usage"], &chunks[4]["choices"]), (&usage, &serde_json::json!([])));
    for chunk in &chunks {
        assert_eq!(chunk["system_fingerprint"], "touchstone-simulated-flat");
        assert_eq!((&chunk["object"], &chunk["id"]), (&"chat.completion.chunk".into(), &chunks[0]["id"]));
    }
}

#[test]
fn headers_and_role_come_before_any_token() {
    // The first step takes longer than anybody waits.
    let mut profile = Profile::builtin("flat").unwrap();
    profile.step_time = StepTime::Linear {
        base_ns: 3_600_000_000_000,
        prefill_ns_per_token: 0,
        decode_ns_per_seq: 0,
        kv_ns_per_block: 0,
    };
    let engine = Engine::with(EngineConfig::new(profile));
    let mut client = engine.client();
    client.send(&post(CHAT, &chat(4000, r#","stream":true"#)));
    let (status, _) = client.head();
    let first = String::from_utf8(client.chunk().unwrap()).unwrap();
    assert_eq!(status, 200);
    assert!(first.contains(r#""role":"assistant","content":"""#), "{first}");
    assert_eq!(engine.metric("vllm:time_to_first_token_seconds_count", ""), 0.0);
}

#[test]
fn completions_streams_report_usage_continuously_when_asked() {
    let engine = flat();
    let body = r#"{"prompt":"a b","max_tokens":2,"stream":true,
        "stream_options":{"include_usage":true,"continuous_usage_stats":true}}"#;
    let chunks = engine.client().post(COMPLETIONS, body).chunks();
    let usage: Vec<_> = chunks.iter().map(|c| c["usage"]["completion_tokens"].as_u64()).collect();
    assert_eq!(usage, [Some(1), Some(2), Some(2)]);
    assert!(chunks[0]["choices"][0]["text"].as_str().unwrap().starts_with(" tok"));
    assert_eq!(chunks[1]["choices"][0]["finish_reason"], "length");
}

#[test]
fn fastchat_sends_two_tokens_a_chunk() {
    let engine = Engine::start("fastchat-like", FaultPlan::default());
    let chunks = engine.client().post(COMPLETIONS, r#"{"prompt":"a","max_tokens":5,"stream":true}"#).chunks();
    let words = |c: &serde_json::Value| c["choices"][0]["text"].as_str().unwrap().split_whitespace().count();
    assert_eq!(chunks.iter().map(words).collect::<Vec<_>>(), [2, 2, 1]);
}

#[test]
fn an_answer_not_streamed_says_the_same_words_as_a_stream() {
    let engine = flat();
    let whole = engine.client().post(CHAT, &chat(5, "")).json();
    let streamed = engine.client().post(CHAT, &chat(5, r#","stream":true"#)).chunks();
    let text: String =
        streamed.iter().map(|c| c["choices"][0]["delta"]["content"].as_str().unwrap()).collect();
    assert_eq!(whole["choices"][0]["message"]["content"], text);
    assert_eq!(
        (&whole["usage"]["completion_tokens"], &whole["object"]),
        (&5.into(), &"chat.completion".into())
    );
    let open = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a b"}]}]}"#;
    let open = engine.client().post(CHAT, open).json();
    assert_eq!(
        (&open["choices"][0]["finish_reason"], &open["usage"]["prompt_tokens"]),
        (&"stop".into(), &2.into())
    );
}

#[test]
fn connections_are_kept_and_requests_may_be_sent_ahead() {
    let engine = flat();
    let mut client = engine.client();
    let stream = post(CHAT, &chat(2, r#","stream":true"#));
    // A stream, an answer, an error, health and a chunked request: all in one go.
    let body = r#"{"prompt":"a","max_tokens":1}"#;
    let (one, two) = body.split_at(7);
    let chunked = format!(
        "POST {COMPLETIONS} HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{one}\r\n{:x}\r\n{two}\r\n0\r\n\r\n",
        one.len(),
        two.len()
    );
    let health = "GET /health HTTP/1.1\r\n\r\n";
    client.send(&format!("{stream}{}{}{health}{chunked}", post(CHAT, &chat(1, "")), post(CHAT, "{bad")));
    let replies: Vec<_> = (0..5).map(|_| client.reply()).collect();
    assert_eq!(replies.iter().map(|r| r.status).collect::<Vec<_>>(), [200, 200, 400, 200, 200]);
    assert!(replies[0].text().ends_with("data: [DONE]\n\n"));
    assert_eq!(replies[3].body, b"");
    assert_eq!(replies[4].json()["usage"]["completion_tokens"], 1);
    client.send("GET /health HTTP/1.1\r\nconnection: close\r\n\r\n");
    assert_eq!(client.reply().header("connection"), Some("close"));
    assert!(client.closed());
    assert_eq!(engine.stop().connections, 1);
}

#[test]
fn http_1_0_streams_end_with_the_connection() {
    let engine = flat();
    let mut client = engine.client();
    let body = chat(2, r#","stream":true"#);
    client.send(&format!("POST {CHAT} HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
    let reply = client.reply();
    assert_eq!(reply.header("transfer-encoding"), None);
    assert_eq!(reply.events().last().unwrap(), "[DONE]");
}

#[test]
fn a_client_that_expects_continue_is_told_to() {
    let engine = flat();
    let mut client = engine.client();
    let body = chat(1, "");
    client.send(&format!(
        "POST {CHAT} HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    ));
    assert_eq!(client.head().0, 100);
    client.send(&body);
    assert_eq!(client.reply().status, 200);
}

#[test]
fn bad_requests_are_refused_the_way_vllm_does() {
    let engine = flat();
    let mut client = engine.client();
    let unknown = client.post(CHAT, r#"{"model":"nope","messages":[{"role":"user","content":"a"}]}"#);
    assert_eq!(unknown.status, 404);
    let error = unknown.json();
    assert_eq!(
        error["error"],
        serde_json::json!({"message": "The model `nope` does not exist. Valid aliases: simulated.",
            "type": "NotFoundError", "param": "model", "code": 404})
    );
    assert_eq!(unknown.header("x-touchstone-simulated"), Some("1"));
    for (path, body) in
        [(CHAT, "{"), (CHAT, &chat(0, "")), (CHAT, &chat(1, r#","n":2"#)), (COMPLETIONS, "{}")]
    {
        assert_eq!(client.post(path, body).status, 400, "{body}");
    }
    let too_long = client.post(CHAT, &chat(1 << 20, ""));
    assert_eq!(too_long.status, 400);
    assert!(too_long.text().contains("maximum context length is 65536 tokens"));
    assert_eq!(client.get("/nope").json()["detail"], "Not Found");
    let wrong = client.get(CHAT);
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
    assert_eq!(client.get("/truth?from_ns=x").status, 400);
    let stats = engine.stop();
    assert_eq!((stats.requests, stats.invalid, stats.completed), (6, 6, 0));
}

#[test]
fn oversized_requests_are_refused_and_the_connection_closed() {
    let engine = flat();
    let mut client = engine.client();
    client.send("POST / HTTP/1.1\r\ncontent-length: 10485761\r\n\r\n");
    client.send(&"x".repeat(100_000));
    assert_eq!(client.reply().status, 413);
    assert!(client.closed());
    let mut client = engine.client();
    client.send(&format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(70_000)));
    assert_eq!(client.reply().status, 431);
    let mut client = engine.client();
    client.send("\u{1}\r\n\r\n");
    assert_eq!(client.reply().status, 400);
}

#[test]
fn the_engine_describes_itself_and_says_that_it_is_simulated() {
    let engine = flat();
    let mut client = engine.client();
    let models = client.get("/v1/models").json();
    assert_eq!(
        (&models["data"][0]["id"], &models["data"][0]["max_model_len"]),
        (&"simulated".into(), &65536.into())
    );
    assert!(client.get("/version").json()["version"].as_str().unwrap().ends_with("simulated"));
    client.post(CHAT, &chat(4, r#","stream":true"#));
    let page = client.get("/metrics").text();
    let value = |start: &str| {
        let line =
            page.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}\n{page}"));
        line.rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(value("touchstone_simulated"), "1");
    assert_eq!(value("vllm:generation_tokens_total{"), "4");
    assert_eq!(value("vllm:prompt_tokens_total{"), "3");
    assert_eq!(value(r#"vllm:request_success_total{finished_reason="length""#), "1");
    assert_eq!(value("vllm:time_to_first_token_seconds_count{"), "1");
    assert_eq!(value("vllm:inter_token_latency_seconds_count{"), "3");
    assert_eq!(value("vllm:e2e_request_latency_seconds_count{"), "1");
    for name in ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"] {
        assert_eq!(value(&format!("{name}{{")), "0");
    }
}

#[test]
fn an_engine_that_cannot_start_says_why() {
    let engine = flat();
    let taken =
        EngineConfig { port: engine.addr.port(), ..EngineConfig::new(Profile::builtin("flat").unwrap()) };
    let stop = std::sync::atomic::AtomicBool::new(true);
    assert!(matches!(serve(taken.clone(), |_| (), &stop), Err(EngineError::Listen { .. })));
    let faults = FaultPlan { cut_rate: 2.0, ..FaultPlan::default() };
    let bad = EngineConfig { faults, port: 0, ..taken.clone() };
    assert!(matches!(serve(bad, |_| (), &stop), Err(EngineError::Faults(_))));
    let profile = Profile { block_size: 0, ..taken.profile.clone() };
    assert!(matches!(serve(EngineConfig { profile, ..taken }, |_| (), &stop), Err(EngineError::Profile(_))));
}
