//! A byte-level BPE tokenizer: training on word counts, and encoding as a server with the GPT-2 rules does it.
//!
//! Byte-level means that every byte has a printable stand-in character, so that any text can be cut. Merges are found
//! the plain way (Sennrich, Haddow and Birch, 2016): the most frequent pair of neighbours becomes a token, again and
//! again; equal counts go to the pair that sorts first, which makes the result a function of the text alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

pub(super) const UNKNOWN: u32 = 0;
pub(super) const BOS: u32 = 1;
pub(super) const EOS: u32 = 2;
pub(super) const SPECIALS: [&str; 6] = ["<unk>", "<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>"];

/// GGUF's token types.
const TYPE_NORMAL: i32 = 1;
const TYPE_CONTROL: i32 = 3;
const TYPE_UNUSED: i32 = 5;

/// A vocabulary and the merges that cut text into it.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    /// By id; the specials first, then the 256 bytes, then merged tokens, then unused fillers.
    tokens: Vec<String>,
    used: usize,
    /// Pairs of token ids with their rank and the id they merge into.
    merges: HashMap<(u32, u32), (usize, u32)>,
    /// The same in order of rank.
    ranked: Vec<(u32, u32)>,
    /// The id of each byte.
    bytes: Vec<u32>,
}

/// A distinct word of the training text, cut as far as the merges so far cut it.
struct Word {
    pieces: Vec<u32>,
    count: i64,
}

impl Tokenizer {
    /// Learns merges from words (each with its leading space, if it has one) and their counts until `size` tokens are
    /// reached or no pair occurs twice; the rest of the vocabulary is filled with unused tokens.
    pub(super) fn train(words: &[(String, u64)], size: usize) -> Tokenizer {
        let mut tokens: Vec<String> = SPECIALS.iter().map(|&text| text.to_owned()).collect();
        let bytes: Vec<u32> = (0..256).map(|byte| (SPECIALS.len() + byte) as u32).collect();
        tokens.extend((0..=u8::MAX).map(|byte| stand_in(byte).to_string()));
        let mut counted: BTreeMap<&str, i64> = BTreeMap::new();
        for (word, count) in words {
            *counted.entry(word).or_default() += *count as i64;
        }
        let mut corpus: Vec<Word> = counted
            .into_iter()
            .map(|(word, count)| Word {
                pieces: word.bytes().map(|b| bytes[usize::from(b)]).collect(),
                count,
            })
            .collect();

        let mut pairs = PairCounts::default();
        for (index, word) in corpus.iter().enumerate() {
            pairs.add_word(index, word, 1);
        }
        let mut merges = HashMap::new();
        let mut ranked = Vec::new();
        while tokens.len() < size {
            let Some(pair) = pairs.most_frequent() else { break };
            let id = tokens.len() as u32;
            tokens.push(format!("{}{}", tokens[pair.0 as usize], tokens[pair.1 as usize]));
            merges.insert(pair, (ranked.len(), id));
            ranked.push(pair);
            for index in pairs.words_with(pair) {
                pairs.add_word(index, &corpus[index], -1);
                merge_in_place(&mut corpus[index].pieces, pair, id);
                pairs.add_word(index, &corpus[index], 1);
            }
        }
        let used = tokens.len();
        tokens.extend((used..size).map(|id| format!("[unused{id}]")));
        Tokenizer { tokens, used, merges, ranked, bytes }
    }

    /// Every token's text in stand-in characters, by id.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// Cuts text of letters, digits, spaces and ASCII punctuation into token ids, without a begin-of-sequence token.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        for word in split_words(text) {
            let mut pieces: Vec<u32> = word.bytes().map(|byte| self.bytes[usize::from(byte)]).collect();
            while let Some((pair, id)) = pieces
                .windows(2)
                .filter_map(|two| {
                    self.merges.get(&(two[0], two[1])).map(|&(rank, id)| (rank, (two[0], two[1]), id))
                })
                .min()
                .map(|(_, pair, id)| (pair, id))
            {
                merge_in_place(&mut pieces, pair, id);
            }
            ids.extend(pieces);
        }
        ids
    }

    pub(super) fn types(&self) -> Vec<i32> {
        (0..self.tokens.len())
            .map(|id| match id {
                _ if id < SPECIALS.len() => TYPE_CONTROL,
                _ if id < self.used => TYPE_NORMAL,
                _ => TYPE_UNUSED,
            })
            .collect()
    }

    pub(super) fn merges(&self) -> Vec<String> {
        let text = |id: u32| &self.tokens[id as usize];
        self.ranked.iter().map(|&(left, right)| format!("{} {}", text(left), text(right))).collect()
    }

    /// Whether a token shows as printable ASCII; specials, unused ones and lone bytes outside ASCII do not.
    pub(super) fn is_readable(&self, id: usize) -> bool {
        let printable = |c: char| c.is_ascii_graphic() || c == stand_in(b' ');
        (SPECIALS.len()..self.used).contains(&id) && self.tokens[id].chars().all(printable)
    }
}

/// How often each pair of neighbours occurs, and in which words.
#[derive(Default)]
struct PairCounts {
    counts: BTreeMap<(u32, u32), i64>,
    words: HashMap<(u32, u32), BTreeSet<usize>>,
}

impl PairCounts {
    /// Adds (`sign` 1) or takes away (-1) what one word contributes.
    fn add_word(&mut self, index: usize, word: &Word, sign: i64) {
        for two in word.pieces.windows(2) {
            let pair = (two[0], two[1]);
            let count = self.counts.entry(pair).or_default();
            *count += sign * word.count;
            if *count == 0 {
                self.counts.remove(&pair);
            }
            let words = self.words.entry(pair).or_default();
            if sign > 0 {
                words.insert(index);
            } else {
                words.remove(&index);
            }
        }
    }

    /// The most frequent pair that occurs at least twice; of equals the one with the lowest ids.
    fn most_frequent(&self) -> Option<(u32, u32)> {
        let (pair, &count) = self.counts.iter().max_by(|a, b| a.1.cmp(b.1).then_with(|| b.0.cmp(a.0)))?;
        (count >= 2).then_some(*pair)
    }

    fn words_with(&self, pair: (u32, u32)) -> Vec<usize> {
        self.words.get(&pair).map(|words| words.iter().copied().collect()).unwrap_or_default()
    }
}

fn merge_in_place(pieces: &mut Vec<u32>, pair: (u32, u32), id: u32) {
    let mut write = 0;
    let mut read = 0;
    while read < pieces.len() {
        if read + 1 < pieces.len() && (pieces[read], pieces[read + 1]) == pair {
            pieces[write] = id;
            read += 2;
        } else {
            pieces[write] = pieces[read];
            read += 1;
        }
        write += 1;
    }
    pieces.truncate(write);
}

/// The printable character for a byte in GPT-2's scheme: visible Latin-1 stands for itself, the other 68 bytes get the
/// characters from U+0100 on, in order.
fn stand_in(byte: u8) -> char {
    let visible = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if visible(byte) {
        return char::from(byte);
    }
    let hidden_before = (0..byte).filter(|&b| !visible(b)).count() as u32;
    char::from_u32(0x100 + hidden_before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// GPT-2's cut into words, for ASCII: runs of letters, of digits or of other signs, each with at most one space before
/// it; the spaces left over form a word of their own. English contractions are left whole, so keep them out of tests
/// that compare with a server.
fn split_words(text: &str) -> Vec<&str> {
    #[derive(PartialEq, Clone, Copy)]
    enum Class {
        Letter,
        Digit,
        Space,
        Sign,
    }
    let class = |c: char| match c {
        _ if c.is_alphabetic() => Class::Letter,
        _ if c.is_numeric() => Class::Digit,
        _ if c.is_whitespace() => Class::Space,
        _ => Class::Sign,
    };
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped =
            usize::from(first == ' ' && rest[1..].chars().next().is_some_and(|c| class(c) != Class::Space));
        let body = &rest[skipped..];
        let kind = body.chars().next().map_or(Class::Space, class);
        let mut end = body.find(|c| class(c) != kind).unwrap_or(body.len());
        // A run of spaces before a word leaves its last one to the word.
        let before_word = kind == Class::Space && end < body.len();
        if before_word && body[..end].chars().count() > 1 {
            end = body[..end].char_indices().last().map_or(end, |(at, _)| at);
        }
        let (word, after) = rest.split_at(skipped + end);
        words.push(word);
        rest = after;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trained(words: &[(&str, u64)], size: usize) -> Tokenizer {
        let words: Vec<(String, u64)> =
            words.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect();
        Tokenizer::train(&words, size)
    }

    #[test]
    fn the_most_frequent_pairs_are_merged_first() {
        let tokenizer = trained(&[("low", 5), ("lower", 2), ("newest", 6), ("widest", 3)], 262 + 4);
        assert_eq!(tokenizer.merges(), ["e s", "es t", "l o", "lo w"]);
        let cut: Vec<&str> =
            tokenizer.encode("lowest").iter().map(|&id| tokenizer.tokens()[id as usize].as_str()).collect();
        assert_eq!(cut, ["low", "est"]);
    }

    #[test]
    fn a_short_text_leaves_unused_tokens_that_are_never_readable() {
        let tokenizer = trained(&[("aa", 2)], 300);
        assert_eq!(tokenizer.tokens().len(), 300);
        assert_eq!(tokenizer.merges(), ["a a"]);
        assert_eq!(tokenizer.types()[299], TYPE_UNUSED);
        assert!(!tokenizer.is_readable(299));
        assert!(!tokenizer.is_readable(EOS as usize));
        assert!(tokenizer.is_readable(262));
    }

    #[test]
    fn stand_ins_are_distinct_and_known() {
        let all: BTreeSet<char> = (0..=u8::MAX).map(stand_in).collect();
        assert_eq!(all.len(), 256);
        assert_eq!((stand_in(b' '), stand_in(b'\n'), stand_in(b'A')), ('Ġ', 'Ċ', 'A'));
    }

    #[test]
    fn words_are_cut_with_their_leading_space() {
        assert_eq!(
            split_words("Hello world, 12  apples  "),
            ["Hello", " world", ",", " 12", " ", " apples", "  "]
        );
        assert_eq!(split_words(""), Vec::<&str>::new());
        assert_eq!(split_words(" "), [" "]);
        assert_eq!(split_words("a\n b"), ["a", "\n", " b"]);
    }
}
