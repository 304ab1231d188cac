//! The engines' own endpoints: TGI, Triton, llama.cpp, FastChat's worker.

use touchstone_drivers::Dialect::{FastChatWorker, LlamaCpp, Tgi, TritonGenerate, TritonInfer};

use super::{CHUNKED, Case, END, all, bytes, chunk, document, event};

/// A token event of TGI; without a space after the colon, as its server writes it.
fn token(text: &str, special: bool, last: &str) -> Vec<u8> {
    chunk(format!(
        "data:{{\"index\":1,\"token\":{{\"id\":5,\"text\":\"{text}\",\"logprob\":-0.5,\"special\":{special}}},{last}}}\n\n"
    ))
}

const GOING_ON: &str = r#""generated_text":null,"details":null"#;

fn ended(tokens: u32) -> String {
    format!(
        r#""generated_text":"a b","details":{{"finish_reason":"length","generated_tokens":{tokens},"input_length":4,"seed":null}}"#
    )
}

fn word(text: &str) -> Vec<u8> {
    event(format!(r#"{{"model_name":"m","model_version":"1","text_output":"{text}"}}"#))
}

/// An event of llama.cpp.
fn native(text: &str, tokens: &str, predicted: u32) -> Vec<u8> {
    event(format!(
        r#"{{"index":0,"content":"{text}","tokens":{tokens},"stop":false,"id_slot":-1,"tokens_predicted":{predicted},"tokens_evaluated":5}}"#
    ))
}

fn stopped(predicted: u32) -> Vec<u8> {
    event(format!(
        r#"{{"index":0,"content":"","tokens":[],"stop":true,"tokens_predicted":{predicted},"tokens_evaluated":5,"generation_settings":{{"stop":[],"samplers":["top_k"]}},"prompt":"<s>x","stop_type":"limit","timings":{{"cache_n":4}}}}"#
    ))
}

/// A record of a FastChat worker.
fn record(text: &str, tokens: u32, finish: &str) -> Vec<u8> {
    chunk(format!(
        "{{\"text\": \"{text}\", \"error_code\": 0, \"usage\": {{\"prompt_tokens\": 5, \"completion_tokens\": {tokens}, \"total_tokens\": 9}}, \"finish_reason\": {finish}, \"logprobs\": null}}\0"
    ))
}

/// The worker names no content type.
const BARE: &str = "HTTP/1.1 200 OK\r\nserver: uvicorn\r\nTransfer-Encoding: chunked\r\n\r\n";

pub(super) fn cases() -> Vec<Case> {
    let head = || bytes(CHUNKED);
    vec![
        Case::new(
            "tgi: one token an event, counted by the last",
            Tgi,
            vec![
                (5, head()),
                (20, token(" a", false, GOING_ON)),
                (30, all(&[token(" b", false, &ended(2)), bytes(END)])),
            ],
            &["5 head", "20 content 1", "30 content 1", "30 done out=2 in=4", "free"],
        ),
        Case::new(
            "tgi: a special token ends the text and is none of it",
            Tgi,
            vec![
                (5, head()),
                (20, token(" a", false, GOING_ON)),
                (30, all(&[token("</s>", true, &ended(2)), bytes(END)])),
            ],
            &["5 head", "20 content 1", "30 done out=2 in=4", "free"],
        ),
        Case::new(
            "tgi: a token whose bytes are held back counts with the next",
            Tgi,
            vec![
                (5, head()),
                (20, token("", false, GOING_ON)),
                (25, token("\u{754c}", false, GOING_ON)),
                (30, all(&[token(" b", false, &ended(3)), bytes(END)])),
            ],
            &["5 head", "25 content 2", "30 content 1", "30 done out=3 in=4", "free"],
        ),
        Case::new(
            "tgi: empty comments keep the connection alive while it waits",
            Tgi,
            vec![
                (5, head()),
                (15_000, chunk(":\n\n")),
                (30_000, chunk(":\n\n")),
                (31_000, all(&[token(" a", false, &ended(1)), bytes(END)])),
            ],
            &["5 head", "31000 content 1", "31000 done out=1 in=4", "free"],
        ),
        Case::new(
            "tgi: turned away inside a 200",
            Tgi,
            vec![(
                5,
                all(&[
                    head(),
                    chunk("data:{\"error\":\"Model is overloaded\",\"error_type\":\"overloaded\"}\n\n"),
                    bytes(END),
                ]),
            )],
            &["5 head", "5 failed target stream error-in-stream", "free"],
        ),
        Case::new(
            "tgi: an error after tokens",
            Tgi,
            vec![
                (5, head()),
                (20, token(" a", false, GOING_ON)),
                (
                    25,
                    all(&[
                        chunk("data:{\"error\":\"Request failed\",\"error_type\":\"generation\"}\n\n"),
                        bytes(END),
                    ]),
                ),
            ],
            &["5 head", "20 content 1", "25 failed target stream error-in-stream", "free"],
        ),
        Case::new(
            "tgi: a whole answer with details",
            Tgi,
            vec![(
                30,
                document(
                    "200 OK",
                    "application/json",
                    r#"{"generated_text":" a b","details":{"finish_reason":"length","generated_tokens":2,"prefill":[],"tokens":[]}}"#,
                ),
            )],
            &["30 head", "30 content 2", "30 done out=2", "free"],
        )
        .whole(),
        Case::new(
            "tgi: refused before the stream",
            Tgi,
            vec![(
                5,
                document(
                    "422 Unprocessable Entity",
                    "application/json",
                    r#"{"error":"`inputs` must have less than 1024 tokens","error_type":"validation"}"#,
                ),
            )],
            &["5 head", "5 failed scenario headers http-422", "free"],
        ),
        Case::new(
            "triton: a word a response, the end is the body's",
            TritonGenerate,
            vec![(5, head()), (10, word(" a")), (20, word(" b")), (21, bytes(END))],
            &["5 head", "10 content", "20 content", "21 done", "free"],
        ),
        Case::new(
            "triton: an empty response at the end is no content",
            TritonGenerate,
            vec![(5, head()), (10, word(" a")), (20, all(&[word(""), bytes(END)]))],
            &["5 head", "10 content", "20 done", "free"],
        ),
        Case::new(
            "triton: text in a list",
            TritonGenerate,
            vec![
                (5, head()),
                (10, event(r#"{"model_name":"m","text_output":["",""]}"#)),
                (20, event(r#"{"model_name":"m","text_output":["","a"]}"#)),
                (21, bytes(END)),
            ],
            &["5 head", "20 content", "21 done", "free"],
        ),
        Case::new(
            "triton: an error inside the stream",
            TritonGenerate,
            vec![(5, head()), (10, word(" a")), (20, all(&[event(r#"{"error":"boom"}"#), bytes(END)]))],
            &["5 head", "10 content", "20 failed target stream error-in-stream", "free"],
        ),
        Case::new(
            "triton: an error as the first response, a 400 with an event stream",
            TritonGenerate,
            vec![(
                5,
                all(&[
                    bytes("HTTP/1.1 400 Bad Request\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"),
                    event(r#"{"error":"prompt is too long"}"#),
                    bytes(END),
                ]),
            )],
            &["5 head", "5 failed scenario headers http-400", "free"],
        ),
        Case::new(
            "triton: no response at all",
            TritonGenerate,
            vec![(5, head()), (6, bytes(END))],
            &["5 head", "6 failed target stream empty-stream", "free"],
        ),
        Case::new(
            "triton: generate of a model that gives several responses, an error in a 200",
            TritonGenerate,
            vec![(
                5,
                document("200 OK", "application/json", r#"{"error":"generate expects exactly 1 response"}"#),
            )],
            &["5 head", "5 failed target stream error-in-body", "free"],
        )
        .whole(),
        Case::new(
            "triton: a full queue",
            TritonInfer,
            vec![(5, document("503 Service Unavailable", "text/plain", r#"{"error":"Exceeds maximum queue size"}"#))],
            &["5 head", "5 failed target headers overloaded", "free"],
        ),
        Case::new(
            "triton: infer answers with outputs",
            TritonInfer,
            vec![(
                5,
                document(
                    "200 OK",
                    "application/json",
                    r#"{"model_name":"m","outputs":[{"name":"text_output","datatype":"BYTES","shape":[1,1],"data":["echo"]}]}"#,
                ),
            )],
            &["5 head", "5 content", "5 done", "free"],
        ),
        Case::new(
            "llama.cpp: counts in every event, the end by stop",
            LlamaCpp,
            vec![
                (5, head()),
                (10, native("a", "[828]", 1)),
                (20, native("bcd", "[1,2,3]", 4)),
                (21, all(&[stopped(4), bytes(END)])),
            ],
            &["5 head", "10 content 1", "20 content 3", "21 done out=4 in=5", "free"],
        ),
        Case::new(
            "llama.cpp: progress of the prompt is no token",
            LlamaCpp,
            vec![
                (5, head()),
                (
                    8,
                    event(
                        r#"{"index":0,"content":"","tokens":[0],"stop":false,"tokens_predicted":0,"tokens_evaluated":5,"prompt_progress":{"total":5,"cache":0,"processed":2,"time_ms":1}}"#,
                    ),
                ),
                (20, native("a", "[7]", 1)),
                (21, all(&[stopped(1), bytes(END)])),
            ],
            &["5 head", "20 content 1", "21 done out=1 in=5", "free"],
        ),
        Case::new(
            "llama.cpp: closes after the stream in spite of keep-alive",
            LlamaCpp,
            vec![
                (5, bytes("HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5, max=100\r\nAccess-Control-Allow-Origin: \r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")),
                (20, native("a", "[7]", 1)),
                (21, all(&[stopped(1), bytes(END)])),
            ],
            &["5 head", "20 content 1", "21 done out=1 in=5", "closed"],
        )
        .then_closed(),
        Case::new(
            "llama.cpp: an error inside the stream",
            LlamaCpp,
            vec![
                (5, head()),
                (
                    6,
                    all(&[
                        event(r#"{"error":{"code":500,"message":"context shift is off","type":"server_error"}}"#),
                        bytes(END),
                    ]),
                ),
            ],
            &["5 head", "6 failed target stream error-in-stream", "free"],
        ),
        Case::new(
            "llama.cpp: a whole answer",
            LlamaCpp,
            vec![(
                30,
                document(
                    "200 OK",
                    "application/json",
                    r#"{"index":0,"content":"abc","tokens":[],"stop":true,"tokens_predicted":3,"tokens_evaluated":5}"#,
                ),
            )],
            &["30 head", "30 content 3", "30 done out=3 in=5", "free"],
        )
        .whole(),
        Case::new(
            "fastchat worker: the text is repeated, the count one too few",
            FastChatWorker,
            vec![
                (6, all(&[bytes(BARE), record("a", 0, "null")])),
                (8, record("abc", 2, "null")),
                (10, record("abcd", 3, "null")),
                (14, record("abcd", 3, "\"length\"")),
                (300, bytes(END)),
            ],
            &["6 head", "6 content 1", "8 content 2", "10 content 1", "300 done out=4 in=5", "free"],
        ),
        Case::new(
            "fastchat worker: a right count stays",
            FastChatWorker,
            vec![
                (6, all(&[bytes(BARE), record("a", 1, "null")])),
                (8, record("abc", 3, "\"length\"")),
                (9, bytes(END)),
            ],
            &["6 head", "6 content 1", "8 content 2", "9 done out=3 in=5", "free"],
        ),
        Case::new(
            "fastchat worker: an empty text before the first token is none",
            FastChatWorker,
            vec![
                (6, all(&[bytes(BARE), record("", 0, "null")])),
                (8, record("ab", 1, "\"length\"")),
                (9, bytes(END)),
            ],
            &["6 head", "8 content 1", "9 done out=1 in=5", "free"],
        ),
        Case::new(
            "fastchat worker: an error record",
            FastChatWorker,
            vec![
                (6, all(&[bytes(BARE), chunk("{\"text\": \"**NETWORK ERROR**\", \"error_code\": 50001}\0")])),
                (7, bytes(END)),
            ],
            &["6 head", "6 failed target stream error-in-stream", "free"],
        ),
        Case::new(
            "fastchat worker: a full worker's 200 and then nothing",
            FastChatWorker,
            vec![(6, bytes(BARE)), (60, bytes(END))],
            &["6 head", "60 failed target stream empty-stream", "free"],
        ),
        Case::new(
            "fastchat worker: cut in the middle of a record",
            FastChatWorker,
            vec![
                (6, all(&[bytes(BARE), record("a", 0, "null")])),
                (8, chunk("{\"text\": \"ab")),
            ],
            &["6 head", "6 content 1", "8 failed target stream eof-in-stream", "closed"],
        )
        .then_closed(),
    ]
}
