//! The words that prompts are made of.

use crate::payload::{self, WORDS};

/// Fewest and most words of a vocabulary, as powers of two.
const BITS: (u32, u32) = (4, 12);

/// The words that prompts are made of: a power of two of them, each lower-case ASCII, joined by single blanks.
///
/// Where each is exactly one token of the target's model, a prompt of n words has n tokens, so that making a prompt of an
/// exact length is copying words: what needs a tokenizer happened before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    words: Vec<String>,
    bits: u32,
    anchor: Option<String>,
}

impl Default for Vocabulary {
    /// Common English words, one token each in many models, but not in all.
    fn default() -> Self {
        Self { words: WORDS.map(str::to_owned).to_vec(), bits: 8, anchor: None }
    }
}

impl Vocabulary {
    /// A vocabulary from words that a tokenizer makes exactly one token of, with the blank before them and, where there is
    /// no `anchor`, without it. An anchor is one token without a blank, and begins every prompt. Takes the greatest power
    /// of two of the words, 4096 at most; none when there are fewer than 16, or one holds anything but lower-case ASCII
    /// letters.
    #[must_use]
    pub fn new(mut words: Vec<String>, anchor: Option<String>) -> Option<Self> {
        let plain = |word: &String| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
        let bits = words.len().checked_ilog2()?.min(BITS.1);
        if bits < BITS.0 || !words.iter().chain(&anchor).all(plain) {
            return None;
        }
        words.truncate(1 << bits);
        Some(Self { words, bits, anchor })
    }

    /// Number of words, without the anchor.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there is no word; never true.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// What every prompt begins with.
    pub(crate) fn anchor(&self) -> Option<&str> {
        self.anchor.as_deref()
    }

    /// Appends `n` words of operation `index`; no two operations begin alike, see [`payload::words`].
    pub(crate) fn write(&self, seed: u64, index: u64, n: usize, out: &mut Vec<u8>) {
        payload::words_from(&self.words, self.bits, seed, index, n, out);
    }

    /// Appends `n` words of a text that several operations share.
    pub(crate) fn write_shared(&self, seed: u64, kind: &[u8], id: u64, n: usize, out: &mut Vec<u8>) {
        payload::words_of_kind(&self.words, self.bits, (seed, kind, id), n, out);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn words(n: usize) -> Vec<String> {
        (0..n).map(|i| format!("w{}", "ab".repeat(i + 1))).collect()
    }

    #[test]
    fn vocabularies_are_powers_of_two_of_plain_words() {
        assert!(Vocabulary::new(words(15), None).is_none());
        assert_eq!(Vocabulary::new(words(40), None).unwrap().len(), 32);
        assert!(Vocabulary::new(vec!["A".to_owned(); 16], None).is_none());
        assert!(Vocabulary::new(words(16), Some("a b".to_owned())).is_none());
        assert!(Vocabulary::new(Vec::new(), None).is_none());
    }

    #[test]
    fn the_default_words_are_those_of_plain_payloads() {
        let (mut one, mut two) = (Vec::new(), Vec::new());
        Vocabulary::default().write(7, 3, 40, &mut one);
        payload::words(7, 3, 40, &mut two);
        assert_eq!(one, two);
    }

    #[test]
    fn a_small_vocabulary_gives_unique_beginnings_too() {
        let few = Vocabulary::new(words(20), None).unwrap();
        let starts: BTreeSet<Vec<u8>> = (0..16_000)
            .map(|index| {
                let mut out = Vec::new();
                few.write(1, index, 4, &mut out);
                out
            })
            .collect();
        assert_eq!(starts.len(), 16_000, "four of 16 words are enough for 65536 operations");
    }
}
