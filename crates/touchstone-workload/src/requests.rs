//! What requests ask for: how long prompt and answer are, and what the prompt says, each a function of the seed and the
//! operation's number.

use std::sync::Arc;

use touchstone_model::Length;
use touchstone_model::length::MAX_LENGTH;
use touchstone_stats::rng::Rng;

use crate::trace::{BLOCK_TOKENS, Trace};
use crate::vocabulary::Vocabulary;

/// Where the lengths come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Lengths {
    /// Drawn, prompt and answer apart.
    Drawn {
        /// Of prompts.
        input: Length,
        /// Of answers.
        output: Length,
    },
    /// Those of a trace, row by row, from the first again after the last; and its shared blocks.
    Trace(Arc<Trace>),
}

/// Prompts that begin alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrefixGroups {
    /// Number of different beginnings.
    pub groups: u32,
    /// Tokens of a beginning.
    pub tokens: u32,
    /// Share of the requests that have one, 0 to 1.
    pub share: f64,
}

/// How many words make a token at the server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wording {
    /// Tokens that the server counts for a prompt of no words: its chat template.
    pub fixed_tokens: f64,
    /// Tokens of a word.
    pub tokens_per_word: f64,
}

impl Default for Wording {
    /// One token a word and no template.
    fn default() -> Self {
        Self { fixed_tokens: 0.0, tokens_per_word: 1.0 }
    }
}

impl Wording {
    /// Words for so many tokens; at least one.
    fn words(&self, tokens: u32) -> usize {
        let words = ((f64::from(tokens) - self.fixed_tokens) / self.tokens_per_word).round();
        words.clamp(1.0, f64::from(MAX_LENGTH)) as usize
    }
}

/// What one request asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    /// Tokens of the prompt.
    pub input_tokens: u32,
    /// Tokens to generate.
    pub output_tokens: u32,
}

/// The requests of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Requests {
    /// The seed.
    pub seed: u64,
    /// How long prompts and answers are.
    pub lengths: Lengths,
    /// Prompts that begin alike; none where every one is its own.
    pub prefix: Option<PrefixGroups>,
    /// How words become tokens.
    pub wording: Wording,
    /// The words.
    pub vocabulary: Arc<Vocabulary>,
    /// Seed of the text, apart from that of lengths and groups: text that no earlier run had must not change them.
    pub text_seed: u64,
}

impl Requests {
    /// Requests of fixed lengths, each with a prompt of its own.
    #[must_use]
    pub fn fixed(seed: u64, input_tokens: u32, output_tokens: u32) -> Self {
        let (input, output) = (Length::Fixed(input_tokens), Length::Fixed(output_tokens));
        Self {
            seed,
            lengths: Lengths::Drawn { input, output },
            prefix: None,
            wording: Wording::default(),
            vocabulary: Arc::default(),
            text_seed: seed,
        }
    }

    /// What request `index` asks for.
    #[must_use]
    pub fn asked(&self, index: u64) -> Asked {
        match &self.lengths {
            Lengths::Drawn { input, output } => Asked {
                input_tokens: draw(*input, self.seed, b"input-length", index),
                output_tokens: draw(*output, self.seed, b"output-length", index),
            },
            Lengths::Trace(trace) => {
                let rows = trace.rows();
                let row = rows[(index % rows.len().max(1) as u64) as usize];
                Asked { input_tokens: row.input_tokens, output_tokens: row.output_tokens }
            }
        }
    }

    /// Appends the prompt of request `index`: lower-case words with single spaces, safe inside a JSON string.
    pub fn write_prompt(&self, index: u64, out: &mut Vec<u8>) {
        let asked = self.asked(index);
        let mut left = self.wording.words(asked.input_tokens);
        if let Some(anchor) = self.vocabulary.anchor() {
            out.extend_from_slice(anchor.as_bytes());
            left -= 1;
            if left > 0 {
                out.push(b' ');
            }
        }
        let mut part = |key: &[u8], id: u64, words: usize, out: &mut Vec<u8>| {
            let words = words.min(left);
            if words > 0 {
                self.vocabulary.write_shared(self.text_seed, key, id, words, out);
                left -= words;
                if left > 0 {
                    out.push(b' ');
                }
            }
        };
        if let Lengths::Trace(trace) = &self.lengths {
            let rows = trace.rows();
            let row = rows[(index % rows.len().max(1) as u64) as usize];
            let block = (f64::from(BLOCK_TOKENS) / self.wording.tokens_per_word).round().max(1.0) as usize;
            for id in trace.blocks(&row) {
                part(b"block", *id, block, out);
            }
        }
        if let Some(group) = self.group(index) {
            let tokens = self.prefix.map_or(0, |prefix| prefix.tokens);
            let words = (f64::from(tokens) / self.wording.tokens_per_word).round() as usize;
            part(b"prefix", u64::from(group), words, out);
        }
        if left > 0 {
            self.vocabulary.write(self.text_seed, index, left, out);
        }
    }

    /// Appends the beginning of a group alone, for a cache to know it before the first request comes.
    pub fn write_beginning(&self, group: u32, out: &mut Vec<u8>) {
        if let Some(anchor) = self.vocabulary.anchor() {
            out.extend_from_slice(anchor.as_bytes());
            out.push(b' ');
        }
        let tokens = self.prefix.map_or(1, |prefix| prefix.tokens);
        let words = (f64::from(tokens) / self.wording.tokens_per_word).round().max(1.0) as usize;
        self.vocabulary.write_shared(self.text_seed, b"prefix", u64::from(group), words, out);
    }

    /// The group whose beginning request `index` has; none when it has a beginning of its own.
    #[must_use]
    pub fn group(&self, index: u64) -> Option<u32> {
        let prefix = self.prefix.filter(|prefix| prefix.groups > 0)?;
        let mut rng = Rng::keyed(self.seed, b"prefix-group", index);
        (rng.uniform() < prefix.share).then(|| rng.below(u64::from(prefix.groups)) as u32)
    }

    /// Share of the prompt tokens of the first `requests` that an endless prefix cache at the server would find there;
    /// leading words of a chat template are not counted. Where the cache is `warm`, it knows every group's beginning from
    /// the start.
    #[must_use]
    pub fn cacheable_share(&self, requests: u64, warm: bool) -> f64 {
        if let Lengths::Trace(trace) = &self.lengths {
            return trace.reusable_share();
        }
        let Some(prefix) = self.prefix else { return 0.0 };
        let mut seen = std::collections::HashSet::new();
        let (mut reused, mut all) = (0_u64, 0_u64);
        for index in 0..requests.min(1_000_000) {
            let input = self.asked(index).input_tokens;
            all += u64::from(input);
            if let Some(group) = self.group(index)
                && (!seen.insert(group) || warm)
            {
                reused += u64::from(prefix.tokens.min(input));
            }
        }
        reused as f64 / all.max(1) as f64
    }
}

fn draw(length: Length, seed: u64, key: &[u8], index: u64) -> u32 {
    let cut = |value: f64, max: u32| value.round().clamp(1.0, f64::from(max)) as u32;
    match length {
        Length::Fixed(tokens) => tokens,
        Length::Uniform { from, to } => {
            from + Rng::keyed(seed, key, index).below(u64::from(to - from) + 1) as u32
        }
        Length::Normal { mean, sd, max } => cut(mean + sd * Rng::keyed(seed, key, index).normal(), max),
        Length::LogNormal { mean, cv, max } => {
            // Parameters of the logarithm for this mean and coefficient of variation.
            let variance = (1.0 + cv * cv).ln();
            let mu = mean.ln() - variance / 2.0;
            cut(Rng::keyed(seed, key, index).log_normal(mu, variance.sqrt()), max)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(input: &str, output: &str) -> Requests {
        let lengths = Lengths::Drawn { input: input.parse().unwrap(), output: output.parse().unwrap() };
        Requests { lengths, ..Requests::fixed(3, 1, 1) }
    }

    fn prompt(requests: &Requests, index: u64) -> Vec<String> {
        let mut out = Vec::new();
        requests.write_prompt(index, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(!text.starts_with(' ') && !text.ends_with(' ') && !text.contains("  "), "{text:?}");
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn lengths_have_their_means_and_spreads() {
        for (text, mean, sd) in [
            ("128", 128.0, 0.0),
            ("uniform:100..300", 200.0, 58.02),
            ("normal:mean=500,sd=50", 500.0, 50.0),
            ("lognormal:mean=500,cv=1.5", 500.0, 750.0),
        ] {
            let requests = requests(text, "1");
            let n = 40_000;
            let drawn: Vec<f64> = (0..n).map(|index| f64::from(requests.asked(index).input_tokens)).collect();
            let found = drawn.iter().sum::<f64>() / n as f64;
            let variance = drawn.iter().map(|value| (value - found).powi(2)).sum::<f64>() / n as f64;
            assert!((found - mean).abs() <= 4.0 * sd / (n as f64).sqrt() + 1e-9, "{text}: {found}");
            assert!((variance.sqrt() - sd).abs() <= 0.08 * sd + 1e-9, "{text}: {}", variance.sqrt());
        }
        let cut = requests("lognormal:mean=500,cv=3,max=600", "uniform:2..3");
        assert!((0..5000).all(|index| (1..=600).contains(&cut.asked(index).input_tokens)));
        assert!((0..50).all(|index| (2..=3).contains(&cut.asked(index).output_tokens)));
    }

    #[test]
    fn prompts_have_their_words_and_are_their_own() {
        let requests = requests("uniform:3..40", "1");
        let mut starts = std::collections::BTreeSet::new();
        for index in 0..2000 {
            let words = prompt(&requests, index);
            assert_eq!(words.len(), requests.asked(index).input_tokens as usize);
            assert!(starts.insert(words[..2].join(" ")), "{index} begins like another");
        }
    }

    #[test]
    fn groups_share_their_beginning_and_nothing_else() {
        let mut requests = requests("64", "1");
        requests.prefix = Some(PrefixGroups { groups: 4, tokens: 48, share: 0.5 });
        let with: Vec<u64> = (0..4000).filter(|index| requests.group(*index).is_some()).collect();
        assert!((1850..2150).contains(&with.len()), "{}", with.len());
        let (a, b) = (
            with[0],
            with[1..].iter().copied().find(|b| requests.group(*b) == requests.group(with[0])).unwrap(),
        );
        let (a, b) = (prompt(&requests, a), prompt(&requests, b));
        assert_eq!(a.len(), 64);
        assert_eq!(a[..48], b[..48]);
        assert_ne!(a[48..], b[48..]);
        // Half of the requests have 48 of their 64 tokens in a cache, but for the first of each group.
        assert_eq!(requests.cacheable_share(4000, true), with.len() as f64 * 48.0 / (4000.0 * 64.0));
        let share = requests.cacheable_share(4000, false);
        let expected = (with.len() as f64 - 4.0) * 48.0 / (4000.0 * 64.0);
        assert!((share - expected).abs() < 1e-12, "{share}");
        assert_eq!(Requests::fixed(1, 64, 1).cacheable_share(1000, false), 0.0);
    }

    #[test]
    fn other_text_has_the_same_lengths_and_groups() {
        let mut one = requests("uniform:3..40", "uniform:1..9");
        one.prefix = Some(PrefixGroups { groups: 4, tokens: 20, share: 0.5 });
        let other = Requests { text_seed: 99, ..one.clone() };
        for index in 0..50 {
            assert_eq!((one.asked(index), one.group(index)), (other.asked(index), other.group(index)));
            assert_ne!(prompt(&one, index), prompt(&other, index));
        }
    }

    #[test]
    fn an_anchor_is_one_of_the_words_and_begins_everything() {
        let words: Vec<String> = (0..16).map(|i| format!("w{}", "ab".repeat(i + 1))).collect();
        let mut requests = requests("30", "1");
        requests.vocabulary = Arc::new(Vocabulary::new(words, Some("x".to_owned())).unwrap());
        requests.prefix = Some(PrefixGroups { groups: 1, tokens: 10, share: 1.0 });
        let (one, two) = (prompt(&requests, 0), prompt(&requests, 1));
        assert_eq!((one.len(), one[0].as_str()), (30, "x"));
        assert_eq!(one[..11], two[..11]);
        let mut beginning = Vec::new();
        requests.write_beginning(0, &mut beginning);
        assert_eq!(String::from_utf8(beginning).unwrap(), one[..11].join(" "));
        assert_eq!(prompt(&Requests { lengths: Requests::fixed(0, 1, 1).lengths, ..requests }, 0), ["x"]);
    }

    #[test]
    fn words_follow_what_the_server_counts() {
        let mut requests = requests("100", "1");
        requests.wording = Wording { fixed_tokens: 20.0, tokens_per_word: 2.0 };
        assert_eq!(prompt(&requests, 7).len(), 40);
        requests.wording = Wording { fixed_tokens: 200.0, tokens_per_word: 2.0 };
        assert_eq!(prompt(&requests, 7).len(), 1);
    }

    #[test]
    fn a_traces_blocks_are_equal_text() {
        let lines = "{\"timestamp\":0,\"input_length\":1100,\"output_length\":5,\"hash_ids\":[1,2,3]}\n\
            {\"timestamp\":9,\"input_length\":1300,\"output_length\":6,\"hash_ids\":[1,2,4]}\n";
        let trace = Arc::new(Trace::read(lines.as_bytes()).unwrap());
        let requests = Requests { lengths: Lengths::Trace(trace), ..Requests::fixed(3, 1, 1) };
        assert_eq!(requests.asked(1), Asked { input_tokens: 1300, output_tokens: 6 });
        assert_eq!(requests.asked(2), requests.asked(0), "from the first again");
        let (a, b) = (prompt(&requests, 0), prompt(&requests, 1));
        assert_eq!((a.len(), b.len()), (1100, 1300));
        assert_eq!(a[..1024], b[..1024]);
        assert_ne!(a[1024..1030], b[1024..1030]);
    }
}
