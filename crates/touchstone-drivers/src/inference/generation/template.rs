//! A short way through events that differ from the one before in their text and their token counts only.
//!
//! Nearly every event of a stream is the one before with another piece of text. What a decoder makes of an event depends on
//! the bytes around that text, which are compared, on whether the text is empty, and on the number of output tokens, which
//! is read. So where these agree the answer is known without parsing, and it is the same: a property test holds the two ways
//! against each other. Whatever differs in any other way is parsed, and becomes the next pattern.

use memchr::memmem;

use super::dialect::decode::Decoded;

/// Members whose string value is the generated text.
const TEXTS: [&[u8]; 4] = [b"\"content\":\"", b"\"text\":\"", b"\"delta\":\"", b"\"text_output\":\""];
/// The member with the number of output tokens so far, and those that change with it and matter to nobody here.
const COUNTED: &[u8] = b"\"completion_tokens\":";
const TOTALS: [&[u8]; 2] = [b"\"total_tokens\":", b"\"index\":"];
/// After so many events in a row that were like none before, a stream is parsed throughout.
const PATIENCE: u8 = 8;
/// Longer events are not worth it.
const LONGEST: usize = 4096;
/// Most numbers that may change in an event.
const NUMBERS: usize = 4;

/// The pattern of one stream.
#[derive(Debug, Default)]
pub(super) struct Template {
    /// The event that was parsed.
    event: Vec<u8>,
    /// Where its text begins; all before it must be equal.
    text_at: usize,
    /// The literal pieces after the text, as ends of ranges of `event`; between each two stands a number.
    pieces: [(usize, usize); NUMBERS + 1],
    numbers: usize,
    /// Which of the numbers is the number of output tokens.
    counted: Option<usize>,
    /// What the decoder made of it.
    decoded: Option<Decoded>,
    misses: u8,
}

impl Template {
    /// Forgets the pattern, keeping the memory: another stream begins.
    pub(super) fn reset(&mut self) {
        self.decoded = None;
        self.misses = 0;
    }

    /// What an event says, when it differs from the pattern in its text and counts only.
    pub(super) fn decode(&mut self, data: &[u8]) -> Option<&Decoded> {
        let decoded = self.decoded.as_mut()?;
        let rest = data.strip_prefix(&self.event[..self.text_at])?;
        // An escape makes the text's end, and its emptiness, a parser's matter.
        let end = memchr::memchr2(b'"', b'\\', rest).filter(|end| *end > 0 && rest[*end] == b'"')?;
        if rest[..end].iter().any(|byte| *byte < b' ') {
            return None;
        }
        let mut rest = &rest[end..];
        for number in 0..=self.numbers {
            let (from, to) = self.pieces[number];
            rest = rest.strip_prefix(&self.event[from..to])?;
            if number < self.numbers {
                let (value, digits) = whole_number(rest)?;
                if self.counted == Some(number) {
                    decoded.completion_tokens = Some(value);
                }
                rest = &rest[digits..];
            }
        }
        rest.is_empty().then_some(&*decoded)
    }

    /// Takes an event that was parsed as the pattern of those to come.
    pub(super) fn learn(&mut self, data: &[u8], decoded: &Decoded) {
        if self.misses >= PATIENCE {
            self.decoded = None;
            return;
        }
        self.misses += 1;
        let plain = decoded.text
            && !decoded.finish
            && !decoded.end
            && decoded.error.is_none()
            && decoded.text_length.is_none()
            && data.len() <= LONGEST;
        if !(plain && self.take(data, decoded)) {
            self.decoded = None;
        }
    }

    /// An event followed the pattern: the stream is of a kind that is worth the look.
    pub(super) fn matched(&mut self) {
        self.misses = 0;
    }

    fn take(&mut self, data: &[u8], decoded: &Decoded) -> bool {
        // Text in two places, or in none that is known: no pattern.
        let mut found = TEXTS.iter().flat_map(|name| memmem::find_iter(data, name).map(|at| at + name.len()));
        let (Some(text_at), None) = (found.next(), found.next()) else { return false };
        let Some(end) = memchr::memchr2(b'"', b'\\', &data[text_at..]) else { return false };
        if end == 0 || data[text_at + end] != b'"' {
            return false;
        }
        self.event.clear();
        self.event.extend_from_slice(data);
        self.text_at = text_at;
        self.numbers = 0;
        self.counted = None;
        let mut from = text_at + end;
        let counts = decoded.completion_tokens.is_some();
        while self.numbers < NUMBERS && counts {
            let tail = &data[from..];
            let next = std::iter::once(COUNTED)
                .chain(TOTALS)
                .filter_map(|name| memmem::find(tail, name).map(|at| (at + name.len(), name == COUNTED)))
                .min();
            let Some((at, counted)) = next else { break };
            let Some((value, digits)) = whole_number(&tail[at..]) else { return false };
            if !matches!(tail.get(at + digits), Some(b',' | b'}' | b']' | b' ')) {
                return false;
            }
            // The member must be the one that the decoder read, and the only one of its name.
            let read = decoded.completion_tokens == Some(value);
            if counted && (!read || self.counted.replace(self.numbers).is_some()) {
                return false;
            }
            self.pieces[self.numbers] = (from, from + at);
            self.numbers += 1;
            from += at + digits;
        }
        self.pieces[self.numbers] = (from, data.len());
        // A count that does not stand after the text in a known place would be taken for one that never changes.
        if counts && self.counted.is_none() {
            return false;
        }
        self.decoded = Some(decoded.clone());
        true
    }
}

/// A whole number of plain digits that fits, and how many digits it has; nothing that a further digit, a point or an
/// exponent would change, for the byte after it is compared with the pattern's.
fn whole_number(bytes: &[u8]) -> Option<(u32, usize)> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || digits > 9 || digits > 1 && bytes[0] == b'0' {
        return None;
    }
    let value = bytes[..digits].iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
    Some((value, digits))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::dialect::Dialect;
    use super::*;

    /// Decodes events one after the other, by the pattern where it holds, and says how many it held for.
    fn both_ways(dialect: Dialect, events: &[String]) -> usize {
        let mut template = Template::default();
        let mut short = 0;
        for event in events {
            let data = event.as_bytes();
            let parsed = dialect.decode(data);
            if let Some(found) = template.decode(data) {
                assert_eq!(Some(found), parsed.as_ref().ok(), "{event}");
                template.matched();
                short += 1;
            } else if let Ok(parsed) = parsed {
                template.learn(data, &parsed);
            }
        }
        short
    }

    fn chat(text: &str, tail: &str) -> String {
        format!(
            r#"{{"id":"c","choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":null}}]{tail}}}"#
        )
    }

    fn usage(n: u32) -> String {
        format!(r#","usage":{{"prompt_tokens":9,"total_tokens":{},"completion_tokens":{n}}}"#, n + 9)
    }

    #[test]
    fn events_that_differ_in_text_and_counts_take_the_short_way() {
        let plain: Vec<String> = ["a", "bc", " d", "\u{4f60}"].iter().map(|text| chat(text, "")).collect();
        assert_eq!(both_ways(Dialect::Chat, &plain), 3);
        let counted: Vec<String> = (1..=12).map(|n| chat("a", &usage(n))).collect();
        assert_eq!(both_ways(Dialect::Chat, &counted), 11);
        let text = |text: &str| format!(r#"{{"choices":[{{"text":"{text}","finish_reason":null}}]}}"#);
        assert_eq!(both_ways(Dialect::Completions, &[text("a"), text("b")]), 1);
        let typed = |text: &str| format!(r#"{{"type":"response.output_text.delta","delta":"{text}"}}"#);
        assert_eq!(both_ways(Dialect::Responses, &[typed("a"), typed("b")]), 1);
        let triton = |text: &str| format!(r#"{{"model_name":"m","text_output":"{text}"}}"#);
        assert_eq!(both_ways(Dialect::TritonGenerate, &[triton("a"), triton("b")]), 1);
    }

    #[test]
    fn whatever_else_differs_is_parsed() {
        for other in [
            chat("", ""),
            chat("\\n", ""),
            chat("a", &usage(3)),
            chat("a", "").replace("null", "\"stop\""),
            chat("a", "").replace("\"c\"", "\"d\""),
            chat("a", "").replace("content", "reasoning"),
            chat("a\",\"x\":\"b", ""),
            chat("a", "") + " ",
            "{".to_owned(),
        ] {
            assert_eq!(both_ways(Dialect::Chat, &[chat("a", ""), other.clone()]), 0, "{other}");
        }
        let long = chat("a", &usage(1)).replace("\"completion_tokens\":1", "\"completion_tokens\":1.5");
        assert_eq!(both_ways(Dialect::Chat, &[chat("a", &usage(1)), long]), 0);
        // Digits at the beginning of something else are no count.
        let power = chat("a", &usage(1)).replace("\"completion_tokens\":1", "\"completion_tokens\":1e2");
        assert_eq!(both_ways(Dialect::Chat, &[power.clone(), power]), 0);
        let minus = chat("a", &usage(1)).replace("\"completion_tokens\":1", "\"completion_tokens\":-1");
        assert_eq!(both_ways(Dialect::Chat, &[chat("a", &usage(1)), minus]), 0);
    }

    #[test]
    fn a_stream_whose_events_are_never_alike_is_left_to_the_parser() {
        let events: Vec<String> = (0..40).map(|n| chat("a", &format!(r#","x":"{n}""#))).collect();
        assert_eq!(both_ways(Dialect::Chat, &events), 0);
    }

    fn events() -> impl Strategy<Value = Vec<String>> {
        let text = prop_oneof![
            Just("a".to_owned()),
            Just(String::new()),
            Just("\\\"".to_owned()),
            Just("\\u00e9".to_owned()),
            "[ -~]{0,6}",
        ];
        let tail = prop_oneof![
            Just(String::new()),
            (0_u32..2000).prop_map(usage),
            Just(r#","usage":null"#.to_owned()),
            Just(r#","usage":{"completion_tokens":1e2}"#.to_owned()),
            Just(r#","usage":{"completion_tokens":"7"}"#.to_owned()),
            Just(r#","error":{"message":"x"}"#.to_owned()),
            Just(r#","text":"b""#.to_owned()),
        ];
        let finish = prop_oneof![4 => Just("null"), 1 => Just("\"stop\"")];
        let event = (text, tail, finish)
            .prop_map(|(text, tail, finish)| chat(&text, &tail).replacen("null", finish, 1));
        proptest::collection::vec(event, 1..12)
    }

    proptest! {
        #[test]
        fn both_ways_agree(events in events()) {
            for dialect in [Dialect::Chat, Dialect::Completions, Dialect::Responses, Dialect::TritonGenerate, Dialect::LlamaCpp] {
                both_ways(dialect, &events);
            }
        }
    }
}
