//! The tokens of the simulated model. The rule: a token is a whitespace-separated word. So a client that sends N
//! words is told `prompt_tokens == N`, and an answer of N tokens consists of N words; no template is added.

use touchstone_sim::SeededRng;

/// Counts the tokens of a prompt and names the content of its blocks.
#[derive(Debug)]
pub(crate) struct PromptReader {
    block_size: u32,
    tokens: u32,
    hash: u64,
    block_hashes: Vec<u64>,
}

impl PromptReader {
    pub(crate) fn new(block_size: u32) -> Self {
        // The offset basis of 64-bit FNV-1a.
        Self { block_size, tokens: 0, hash: 0xcbf2_9ce4_8422_2325, block_hashes: Vec::new() }
    }

    /// Reads one text: the prompt, or the content of one message.
    pub(crate) fn text(&mut self, text: &str) {
        for word in text.split_whitespace() {
            self.token(word.as_bytes());
        }
    }

    /// Mixes in what is no token but makes the prompt another one: the role of the message that follows.
    pub(crate) fn mark(&mut self, mark: &str) {
        self.mix(mark.as_bytes());
        self.mix(&[0xff]);
    }

    /// Reads one token.
    pub(crate) fn token(&mut self, content: &[u8]) {
        self.mix(content);
        // A byte that no UTF-8 text contains keeps "ab c" and "a bc" apart.
        self.mix(&[0xfe]);
        self.tokens += 1;
        if self.tokens.is_multiple_of(self.block_size) {
            self.block_hashes.push(self.hash);
        }
    }

    fn mix(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Chained hashes of the whole blocks, as the scheduler wants them.
    pub(crate) fn block_hashes(&self) -> &[u64] {
        &self.block_hashes
    }

    /// A hash of the whole prompt.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

/// Appends tokens `from..from + count` of the answer to a prompt: the same seed and prompt give the same text.
pub(crate) fn answer(out: &mut String, seed: u64, prompt_hash: u64, from: u32, count: u32) {
    for k in from..from + count {
        let word = SeededRng::keyed(seed ^ prompt_hash, u64::from(k)).next_u64() % 1000;
        out.push_str(" tok");
        out.push_str(&word.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::{PromptReader, answer};

    fn read(texts: &[&str]) -> PromptReader {
        let mut reader = PromptReader::new(2);
        for text in texts {
            reader.text(text);
        }
        reader
    }

    #[test]
    fn words_are_tokens_and_equal_beginnings_share_hashes() {
        let a = read(&["one two  three\nfour", "five"]);
        let b = read(&["one two three five"]);
        assert_eq!((a.tokens(), a.block_hashes().len()), (5, 2));
        assert_eq!(a.block_hashes()[0], b.block_hashes()[0]);
        assert_ne!(a.block_hashes()[1], b.block_hashes()[1]);
        assert_ne!(read(&["ab c"]).hash(), read(&["a bc"]).hash());
        assert_eq!(read(&["", "  "]).tokens(), 0);
    }

    #[test]
    fn answers_are_words_that_follow_from_seed_and_prompt() {
        let say = |seed, prompt, parts: &[u32]| {
            let (mut text, mut at) = (String::new(), 0);
            for &count in parts {
                answer(&mut text, seed, prompt, at, count);
                at += count;
            }
            text
        };
        let whole = say(1, 2, &[6]);
        assert_eq!(whole.split_whitespace().count(), 6);
        assert_eq!(whole, say(1, 2, &[1, 2, 3]));
        assert_ne!(whole, say(2, 2, &[6]));
        assert_ne!(whole, say(1, 3, &[6]));
    }
}
