//! OpenAI Responses and embeddings.

use touchstone_drivers::Dialect::{Embeddings, Responses};

use super::{CHUNKED, Case, END, all, bytes, chunk, document};

/// An event with its type on a line of its own too, as the API sends it.
fn typed(kind: &str, members: &str) -> Vec<u8> {
    chunk(format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{members}}}\n\n"))
}

fn completed(input: u32, output: u32) -> Vec<u8> {
    typed(
        "response.completed",
        &format!(
            r#","response":{{"id":"r","status":"completed","error":null,"output":[{{"type":"message","content":[{{"type":"output_text","text":"ab"}}]}}],"usage":{{"input_tokens":{input},"output_tokens":{output}}}}}"#
        ),
    )
}

pub(super) fn cases() -> Vec<Case> {
    let head = || bytes(CHUNKED);
    let created = || {
        typed("response.created", r#","response":{"id":"r","status":"in_progress","output":[],"usage":null}"#)
    };
    let text =
        |text: &str| typed("response.output_text.delta", &format!(r#","item_id":"m","delta":"{text}""#));
    vec![
        Case::new(
            "responses: progress events before the first token are none",
            Responses,
            vec![
                (5, all(&[head(), created(), typed("response.in_progress", "")])),
                (6, typed("response.output_item.added", r#","item":{"type":"message","content":[]}"#)),
                (7, typed("response.content_part.added", r#","part":{"type":"output_text","text":""}"#)),
                (50, text("a")),
                (60, text("b")),
                (61, typed("response.output_text.done", r#","text":"ab""#)),
                (62, all(&[completed(4, 2), bytes(END)])),
            ],
            &["5 head", "50 content", "60 content", "62 done out=2 in=4", "free"],
        ),
        Case::new(
            "responses: reasoning text and its summary, then the answer",
            Responses,
            vec![
                (5, all(&[head(), created()])),
                (10, typed("response.reasoning_text.delta", r#","delta":"hm""#)),
                (20, typed("response.reasoning_summary_text.delta", r#","delta":"so""#)),
                (30, text("a")),
                (40, all(&[completed(4, 9), bytes(END)])),
            ],
            &["5 head", "10 reasoning", "20 reasoning", "30 content", "40 done out=9 in=4", "free"],
        ),
        Case::new(
            "responses: the arguments of a function call are content",
            Responses,
            vec![
                (5, all(&[head(), created()])),
                (10, typed("response.function_call_arguments.delta", r#","delta":"{}""#)),
                (40, all(&[completed(4, 3), bytes(END)])),
            ],
            &["5 head", "10 content", "40 done out=3 in=4", "free"],
        ),
        Case::new(
            "responses: cut at the number of tokens that was asked for",
            Responses,
            vec![
                (5, head()),
                (10, text("a")),
                (
                    20,
                    all(&[
                        typed(
                            "response.incomplete",
                            r#","response":{"incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":4,"output_tokens":1}}"#,
                        ),
                        bytes(END),
                    ]),
                ),
            ],
            &["5 head", "10 content", "20 done out=1 in=4", "free"],
        ),
        Case::new(
            "responses: failed after a token",
            Responses,
            vec![
                (5, head()),
                (10, text("a")),
                (
                    20,
                    all(&[
                        typed("response.failed", r#","response":{"error":{"code":"server_error","message":"boom"}}"#),
                        bytes(END),
                    ]),
                ),
            ],
            &["5 head", "10 content", "20 failed target stream error-in-stream", "free"],
        ),
        Case::new(
            "responses: an error event",
            Responses,
            vec![(5, head()), (20, all(&[typed("error", r#","code":"x","message":"gone""#), bytes(END)]))],
            &["5 head", "20 failed target stream error-in-stream", "free"],
        ),
        Case::new(
            "responses: the event that ends it is missing",
            Responses,
            vec![(5, head()), (10, text("a")), (20, bytes(END))],
            &["5 head", "10 content", "20 done", "free"],
        ),
        Case::new(
            "responses: a whole answer",
            Responses,
            vec![(
                30,
                document(
                    "200 OK",
                    "application/json",
                    r#"{"object":"response","status":"completed","error":null,"output":[{"type":"reasoning","summary":[]},{"type":"message","content":[{"type":"output_text","text":"a"}]}],"usage":{"input_tokens":4,"output_tokens":2}}"#,
                ),
            )],
            &["30 head", "30 content 2", "30 done out=2 in=4", "free"],
        )
        .whole(),
        Case::new(
            "embeddings: one vector",
            Embeddings,
            vec![(
                30,
                document(
                    "200 OK",
                    "application/json",
                    r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1,-2e-3,3]}],"usage":{"prompt_tokens":5,"total_tokens":5}}"#,
                ),
            )],
            &["30 head", "30 content 0", "30 done out=0 in=5", "free"],
        ),
        Case::new(
            "embeddings: no vector is an empty answer",
            Embeddings,
            vec![(30, document("200 OK", "application/json", r#"{"object":"list","data":[]}"#))],
            &["30 head", "30 done out=0", "free"],
        ),
        Case::new(
            "embeddings: the answer of another endpoint",
            Embeddings,
            vec![(30, document("200 OK", "application/json", r#"{"choices":[]}"#))],
            &["30 head", "30 failed target decode wrong-protocol", "free"],
        ),
    ]
}
