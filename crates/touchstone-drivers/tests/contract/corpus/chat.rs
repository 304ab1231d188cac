//! Chat completions and completions.

use touchstone_drivers::Dialect::{self, Chat, Completions};

use super::{
    CHUNKED, Case, END, all, bytes, chunk, content, delta, document, done, done_and_end, event, finish, role,
    usage, usage_chunk,
};

fn case(name: &'static str, dialect: Dialect, reads: Vec<(u32, Vec<u8>)>, expected: &[&'static str]) -> Case {
    Case::new(name, dialect, reads, expected)
}

fn text(text: &str, finish: &str, usage: &str) -> Vec<u8> {
    event(format!(r#"{{"choices":[{{"text":"{text}","index":0,"finish_reason":{finish}}}]{usage}}}"#))
}

pub(super) fn cases() -> Vec<Case> {
    let head = || bytes(CHUNKED);
    vec![
        case(
            "chat: token ids tell the tokens of each chunk where usage comes at the end",
            Chat,
            vec![
                (5, head()),
                (10, event(r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"prompt_token_ids":[3,1926]}"#)),
                (15, event(r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null,"token_ids":[1424]}]}"#)),
                (25, event(r#"{"choices":[{"index":0,"delta":{"content":"bcd"},"finish_reason":"length","token_ids":[7,8,9]}]}"#)),
                (26, all(&[usage_chunk(4, 4), done_and_end()])),
            ],
            &["5 head", "15 content 1", "25 content 3", "26 done out=4 in=4", "free"],
        ),
        case(
            "chat: token ids alone are counted, held-back ones with the next text",
            Chat,
            vec![
                (5, head()),
                (15, event(r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null,"token_ids":[1,2]}]}"#)),
                (25, event(r#"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":null,"token_ids":[3]}]}"#)),
                (35, event(r#"{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop","token_ids":[4]}]}"#)),
                (36, done_and_end()),
            ],
            &["5 head", "15 content 2", "35 content 2", "36 done out=4", "free"],
        ),
        case(
            "chat: the role comes long before the first token",
            Chat,
            vec![
                (5, all(&[head(), role("\"\"")])),
                (80, content("a")),
                (90, content("b")),
                (91, finish()),
                (92, all(&[usage_chunk(9, 2), done_and_end()])),
            ],
            &["5 head", "80 content", "90 content", "92 done out=2 in=9", "free"],
        ),
        case(
            "chat: role with null content and the first token in one read",
            Chat,
            vec![(80, all(&[head(), role("null"), content("a")])), (90, all(&[finish(), done_and_end()]))],
            &["80 head", "80 content", "90 done", "free"],
        ),
        case(
            "chat: usage in its own chunk",
            Chat,
            vec![(1, head()), (10, content("a")), (20, all(&[usage_chunk(3, 1), done_and_end()]))],
            &["1 head", "10 content", "20 done out=1 in=3", "free"],
        ),
        case(
            "chat: no usage at all",
            Chat,
            vec![(1, head()), (10, content("a")), (20, all(&[finish(), done_and_end()]))],
            &["1 head", "10 content", "20 done", "free"],
        ),
        case(
            "chat: usage with the last choices",
            Chat,
            vec![
                (1, head()),
                (10, content("a")),
                (
                    20,
                    all(&[
                        event(format!(
                            r#"{{"choices":[{{"delta":{{"content":"b"}},"finish_reason":"length"}}]{}}}"#,
                            usage(4, 2)
                        )),
                        done_and_end(),
                    ]),
                ),
            ],
            &["1 head", "10 content", "20 content 2", "20 done out=2 in=4", "free"],
        ),
        case(
            "chat: continuous usage with several tokens in a chunk",
            Chat,
            vec![
                (5, all(&[head(), event(delta(r#"{"role":"assistant","content":""}"#, &usage(7, 0)))])),
                (10, event(delta(r#"{"content":"a"}"#, &usage(7, 1)))),
                (20, event(delta(r#"{"content":"b c d"}"#, &usage(7, 4)))),
                (30, all(&[usage_chunk(7, 4), done_and_end()])),
            ],
            &["5 head", "10 content 1", "20 content 3", "30 done out=4 in=7", "free"],
        ),
        case(
            "chat: bytes of a character are held back and counted with it",
            Chat,
            vec![
                (5, head()),
                (10, event(delta(r#"{"content":"a"}"#, &usage(7, 1)))),
                (20, event(delta(r#"{"content":""}"#, &usage(7, 2)))),
                (30, event(delta("{\"content\":\"\u{754c}\"}", &usage(7, 3)))),
                (40, done_and_end()),
            ],
            &["5 head", "10 content 1", "30 content 2", "40 done out=3 in=7", "free"],
        ),
        case(
            "chat: reasoning under reasoning_content, then the answer",
            Chat,
            vec![
                (5, all(&[head(), role("\"\"")])),
                (10, event(delta(r#"{"reasoning_content":"hm"}"#, ""))),
                (20, event(delta(r#"{"reasoning_content":"so","content":null}"#, ""))),
                (30, content("a")),
                (40, done_and_end()),
            ],
            &["5 head", "10 reasoning", "20 reasoning", "30 content", "40 done", "free"],
        ),
        case(
            "chat: reasoning under reasoning",
            Chat,
            vec![
                (5, head()),
                (10, event(delta(r#"{"reasoning":"hm","content":""}"#, ""))),
                (30, content("a")),
                (40, done_and_end()),
            ],
            &["5 head", "10 reasoning", "30 content", "40 done", "free"],
        ),
        case(
            "chat: reasoning only, cut by the limit",
            Chat,
            vec![
                (5, head()),
                (10, event(delta(r#"{"reasoning_content":"hm"}"#, ""))),
                (40, all(&[finish(), usage_chunk(3, 1), done_and_end()])),
            ],
            &["5 head", "10 reasoning", "40 done out=1 in=3", "free"],
        ),
        case(
            "chat: a tool call in pieces",
            Chat,
            vec![
                (5, all(&[head(), role("null")])),
                (10, event(delta(r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]}"#, ""))),
                (20, event(delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#, ""))),
                (30, all(&[event(r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#), done_and_end()])),
            ],
            &["5 head", "10 content", "20 content", "30 done", "free"],
        ),
        case(
            "chat: an empty list of tool calls is no content",
            Chat,
            vec![
                (5, head()),
                (10, event(delta(r#"{"tool_calls":[],"content":""}"#, ""))),
                (20, content("a")),
                (30, done_and_end()),
            ],
            &["5 head", "20 content", "30 done", "free"],
        ),
        case(
            "chat: a refusal is content",
            Chat,
            vec![(5, head()), (10, event(delta(r#"{"refusal":"no"}"#, ""))), (30, done_and_end())],
            &["5 head", "10 content", "30 done", "free"],
        ),
        case(
            "chat: an empty answer that ended well",
            Chat,
            vec![(5, all(&[head(), role("\"\"")])), (30, all(&[finish(), usage_chunk(3, 0), done_and_end()]))],
            &["5 head", "30 done out=0 in=3", "free"],
        ),
        case(
            "chat: nothing but the end",
            Chat,
            vec![(5, head()), (30, done_and_end())],
            &["5 head", "30 done out=0", "free"],
        ),
        case(
            "chat: a body without any event",
            Chat,
            vec![(5, head()), (30, bytes(END))],
            &["5 head", "30 failed target stream empty-stream", "free"],
        ),
        case(
            "chat: an error instead of the first event, inside a 200",
            Chat,
            vec![(5, all(&[head(), event(r#"{"error":{"message":"busy","code":503}}"#), done_and_end()]))],
            &["5 head", "5 failed target stream error-in-stream", "free"],
        ),
        case(
            "chat: an error after tokens, inside a 200",
            Chat,
            vec![
                (5, head()),
                (10, content("a")),
                (20, all(&[event(r#"{"error":{"message":"boom"}}"#), done_and_end()])),
            ],
            &["5 head", "10 content", "20 failed target stream error-in-stream", "free"],
        ),
        case(
            "chat: a context error told inside the stream is the scenario's",
            Chat,
            vec![(5, all(&[head(), event(r#"{"error":{"message":"too long","code":400}}"#), done_and_end()]))],
            &["5 head", "5 failed scenario stream error-in-stream", "free"],
        ),
        case(
            "chat: an event of type error",
            Chat,
            vec![(5, head()), (9, all(&[chunk("event: error\ndata: {\"message\":\"gone\"}\n\n"), bytes(END)]))],
            &["5 head", "9 failed target stream error-in-stream", "free"],
        ),
        case(
            "chat: the end marker is missing but the body ends well",
            Chat,
            vec![(5, head()), (10, content("a")), (20, all(&[finish(), bytes(END)]))],
            &["5 head", "10 content", "20 done", "free"],
        ),
        case(
            "chat: several tokens and the end in the read of the head",
            Chat,
            vec![(48, all(&[head(), role("\"\""), content("a"), content("b"), usage_chunk(3, 2), done_and_end()]))],
            &["48 head", "48 content", "48 content", "48 done out=2 in=3", "free"],
        ),
        case(
            "chat: two choices",
            Chat,
            vec![
                (5, head()),
                (
                    10,
                    event(
                        r#"{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}"#,
                    ),
                ),
                (20, all(&[usage_chunk(3, 2), done_and_end()])),
            ],
            &["5 head", "10 content", "20 done out=2 in=3", "free"],
        ),
        case(
            "chat: unknown members and a usage of null",
            Chat,
            vec![
                (5, head()),
                (
                    10,
                    event(
                        r#"{"id":"x","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a","logprob":-0.1,"top_logprobs":[]}]}}],"usage":null,"timings":{"cache_n":0}}"#,
                    ),
                ),
                (20, done_and_end()),
            ],
            &["5 head", "10 content", "20 done", "free"],
        ),
        case(
            "chat: escapes and a lone surrogate",
            Chat,
            vec![(5, head()), (10, content("\\ud83d")), (12, content("\\n")), (20, done_and_end())],
            &["5 head", "10 content", "12 content", "20 done", "free"],
        ),
        case(
            "chat: a whole answer where a stream was asked for",
            Chat,
            vec![(
                30,
                document(
                    "200 OK",
                    "application/json",
                    r#"{"choices":[{"message":{"role":"assistant","content":"a b"},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
                ),
            )],
            &["30 head", "30 content 2", "30 done out=2 in=3", "free"],
        ),
        case(
            "chat: a whole answer that was asked for",
            Chat,
            vec![(
                30,
                document(
                    "200 OK",
                    "application/json",
                    r#"{"choices":[{"message":{"content":"a b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
                ),
            )],
            &["30 head", "30 content 2", "30 done out=2 in=3", "free"],
        )
        .whole(),
        case(
            "chat: an error as the whole answer of a 200",
            Chat,
            vec![(30, document("200 OK", "application/json", r#"{"error":{"message":"boom"}}"#))],
            &["30 head", "30 failed target stream error-in-body", "free"],
        ),
        case(
            "completions: the first event is a token",
            Completions,
            vec![
                (5, all(&[head(), text("a", "null", "")])),
                (15, text("b", "\"length\"", "")),
                (16, all(&[usage_chunk(3, 2), done_and_end()])),
            ],
            &["5 head", "5 content", "15 content", "16 done out=2 in=3", "free"],
        ),
        case(
            "completions: usage in the last chunk unasked, its text empty",
            Completions,
            vec![
                (5, all(&[head(), text("a", "null", "")])),
                (15, all(&[text("", "\"length\"", &usage(3, 1)), done_and_end()])),
            ],
            &["5 head", "5 content", "15 done out=1 in=3", "free"],
        ),
        case(
            "completions: three tokens in one chunk, by continuous usage",
            Completions,
            vec![
                (5, all(&[head(), text("a", "null", &usage(3, 1))])),
                (15, text("b c d", "null", &usage(3, 4))),
                (25, all(&[text("e", "\"length\"", &usage(3, 5)), done_and_end()])),
            ],
            &["5 head", "5 content 1", "15 content 3", "25 content 1", "25 done out=5 in=3", "free"],
        ),
        case(
            "completions: a usage that goes backwards gives no token counts",
            Completions,
            vec![
                (5, all(&[head(), text("a", "null", &usage(3, 4))])),
                (15, text("b", "null", &usage(3, 2))),
                (25, all(&[text("c", "\"length\"", &usage(3, 5)), done_and_end()])),
            ],
            &["5 head", "5 content 4", "15 content", "25 content 1", "25 done out=5 in=3", "free"],
        ),
        case(
            "completions: a chunk of fastchat, without object and date",
            Completions,
            vec![
                (5, all(&[head(), event(r#"{"id":"c","model":"m","choices":[{"index":0,"text":"a","logprobs":null,"finish_reason":null}]}"#)])),
                (300, all(&[event(r#"{"choices":[{"index":0,"text":"","finish_reason":"length"}]}"#), done_and_end()])),
            ],
            &["5 head", "5 content", "300 done", "free"],
        ),
        case(
            "completions: the stream of another endpoint",
            Completions,
            vec![(5, head()), (9, all(&[event(r#"{"token":{"id":1,"text":"a"}}"#), bytes(END)]))],
            &["5 head", "9 failed target decode wrong-protocol", "free"],
        ),
        case(
            "completions: an event that is no JSON",
            Completions,
            vec![(5, head()), (9, all(&[event("oops"), done(), bytes(END)]))],
            &["5 head", "9 failed target decode bad-event", "free"],
        ),
    ]
}
