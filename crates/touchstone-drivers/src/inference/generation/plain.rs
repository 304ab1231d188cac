//! JSON without escapes, so that reading it allocates nothing.
//!
//! A decoder has to put a text with escapes together in memory of its own, once per event: models write line ends and
//! quotes all the time, and some servers escape everything that is not ASCII. Here nobody reads the text; what matters
//! is whether there is any, and how long it is in relation to an earlier one.

use memchr::memchr;

/// `data` itself when it has no escape, else a copy in `scratch` in which each escape is letters of the same length. A
/// malformed escape is left to the decoder to tell.
pub(super) fn plain<'a>(data: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let Some(mut at) = memchr(b'\\', data) else { return data };
    scratch.clear();
    scratch.extend_from_slice(data);
    loop {
        let length = match &scratch[at + 1..] {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [b'u', digits @ ..] if digits.len() >= 4 && digits[..4].iter().all(u8::is_ascii_hexdigit) => 6,
            _ => return data,
        };
        scratch[at] = b'a';
        scratch[at + 1] = b'a';
        at += length;
        match memchr(b'\\', &scratch[at..]) {
            Some(further) => at += further,
            None => return scratch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_letters_and_faults_stay() {
        for (data, expected) in [
            (r#"{"a":"x"}"#, r#"{"a":"x"}"#),
            (r#"{"a":"\n\"\\"}"#, r#"{"a":"aaaaaa"}"#),
            (r#"{"a":"\\","b":"\/"}"#, r#"{"a":"aa","b":"aa"}"#),
            (r#"{"a":"\u00e9\ud83d"}"#, r#"{"a":"aa00e9aad83d"}"#),
            (r#"{"a":"\n\q"}"#, r#"{"a":"\n\q"}"#),
            (r#"{"a":"\u12"}"#, r#"{"a":"\u12"}"#),
            (r#"{"a":"\"#, r#"{"a":"\"#),
        ] {
            assert_eq!(plain(data.as_bytes(), &mut vec![b'z'; 3]), expected.as_bytes(), "{data}");
        }
    }
}
