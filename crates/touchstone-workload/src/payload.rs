//! What operations carry: prompts, keys and values, each a pure function of the seed and the operation's number.
//!
//! The number of shards, the connection and the instant never enter, so the same seed sends the same bytes
//! however the load is dealt out.

use touchstone_stats::rng::Rng;

/// Common short English words: most tokenizers of language models give each of them, with the space before it,
/// one token. The words stand for the byte values 0 to 255.
pub const WORDS: [&str; 256] = [
    "able", "about", "above", "across", "act", "add", "after", "again", "age", "air", "all", "also", "am",
    "and", "animal", "any", "appear", "area", "arm", "army", "art", "ask", "baby", "back", "bad", "bag",
    "ball", "band", "bank", "bar", "base", "be", "bear", "beat", "bed", "been", "bell", "best", "big",
    "bird", "bit", "black", "blue", "board", "boat", "body", "bone", "book", "born", "both", "box", "boy",
    "bread", "break", "bring", "brown", "build", "burn", "bus", "busy", "but", "buy", "by", "call", "came",
    "camp", "can", "car", "card", "care", "carry", "case", "cat", "catch", "cause", "cell", "center",
    "chair", "chance", "change", "check", "child", "church", "circle", "city", "class", "clean", "clear",
    "climb", "clock", "close", "cloth", "cloud", "coast", "coat", "cold", "color", "come", "cook", "cool",
    "copy", "corn", "cost", "cotton", "could", "count", "course", "cover", "cow", "create", "cross", "crowd",
    "cry", "cup", "cut", "dance", "dark", "day", "dead", "deal", "dear", "death", "deep", "did", "die", "do",
    "doctor", "dog", "dollar", "done", "door", "down", "draw", "dream", "dress", "drink", "drive", "drop",
    "dry", "due", "during", "each", "ear", "early", "earth", "east", "easy", "eat", "edge", "egg", "eight",
    "end", "enemy", "engine", "enter", "even", "ever", "every", "eye", "face", "fact", "fair", "fall",
    "family", "far", "farm", "fast", "fat", "father", "fear", "feed", "feel", "feet", "fell", "felt", "few",
    "field", "fig", "fight", "fill", "film", "final", "find", "fine", "finger", "finish", "fire", "first",
    "fish", "fit", "five", "flat", "floor", "flow", "flower", "fly", "food", "foot", "for", "force",
    "forest", "form", "four", "free", "fresh", "friend", "from", "front", "fruit", "full", "fun", "game",
    "garden", "gas", "gave", "get", "girl", "give", "glad", "glass", "go", "gold", "gone", "good", "got",
    "grand", "grass", "gray", "great", "green", "grew", "ground", "group", "grow", "guess", "gun", "hair",
    "half", "hand", "happy", "hard", "has", "hat", "have", "he", "head", "hear", "heart", "heat", "heavy",
    "held", "help", "her", "high", "hill", "him",
];

/// Bytes of the buffer of [`Values`] beyond one value: the number of different values.
const OFFSETS: usize = 4096;

/// Appends `n` words, separated by single spaces, to `out`: lower-case ASCII letters only, safe inside a JSON string.
///
/// The beginning is unique: no two operations of one seed share their first `n` words as long as there are fewer
/// than 256^n of them, and neighbours in the schedule differ in the first word already. A cache of prompt prefixes
/// thus finds nothing to reuse beyond the chat template. About one token a word in usual vocabularies; the server's
/// own count is the truth.
pub fn words(seed: u64, index: u64, n: usize, out: &mut Vec<u8>) {
    words_from(&WORDS, 8, seed, index, n, out);
}

/// As [`words`], from a list of 2^`bits` words (`bits` 1 to 16): the beginning is unique as long as there are fewer
/// operations than 2^(`bits` n).
pub(crate) fn words_from<W: AsRef<str>>(
    list: &[W],
    bits: u32,
    seed: u64,
    index: u64,
    n: usize,
    out: &mut Vec<u8>,
) {
    // An odd factor makes the product a bijection of `index` modulo every power of two, so each prefix of the
    // little-endian bits is as distinct as its length allows.
    let mut unique = Rng::keyed(seed, b"prompt-start", 0);
    let factor = unique.next_u64() | 1;
    let start = index.wrapping_mul(factor).wrapping_add(unique.next_u64());
    let mut rest = Rng::keyed(seed, b"prompt-rest", index);
    write_words(list, bits, start, &mut rest, n, out);
}

/// Appends `n` words that belong to `id` of a kind of text, such as a beginning that several prompts share. Equal ids give
/// equal words, and fewer words are the beginning of more.
pub(crate) fn words_of_kind<W: AsRef<str>>(
    list: &[W],
    bits: u32,
    (seed, kind, id): (u64, &[u8], u64),
    n: usize,
    out: &mut Vec<u8>,
) {
    let mut rng = Rng::keyed(seed, kind, id);
    let start = rng.next_u64();
    write_words(list, bits, start, &mut rng, n, out);
}

/// Appends `n` words by the bits of `random`, and further draws when these are used up.
fn write_words<W: AsRef<str>>(
    list: &[W],
    bits: u32,
    mut random: u64,
    rng: &mut Rng,
    n: usize,
    out: &mut Vec<u8>,
) {
    let (mask, at_once) = ((1_u64 << bits) - 1, (64 / bits) as usize);
    for at in 0..n {
        if at > 0 {
            out.push(b' ');
            if at % at_once == 0 {
                random = rng.next_u64();
            }
        }
        if let Some(word) = list.get((random & mask) as usize) {
            out.extend_from_slice(word.as_ref().as_bytes());
        }
        random >>= bits;
    }
}

/// The key that the operation uses: uniform over `0..keys`; 0 when `keys` is 0.
#[must_use]
pub fn key(seed: u64, index: u64, keys: u64) -> u64 {
    Rng::keyed(seed, b"key", index).below(keys)
}

/// Whether the operation is a read; true with probability `ratio` (0 to 1).
#[must_use]
pub fn is_read(seed: u64, index: u64, ratio: f64) -> bool {
    Rng::keyed(seed, b"read", index).uniform() < ratio
}

/// Values of one size: slices of one buffer of random bytes, so that making one costs nothing and compressing one
/// gains nothing. There are 4096 different ones.
#[derive(Clone, PartialEq, Eq)]
pub struct Values {
    buffer: Vec<u8>,
    size: usize,
}

impl Values {
    /// Values of `size` bytes; takes `size` + 4 KiB of memory.
    #[must_use]
    pub fn new(seed: u64, size: usize) -> Self {
        let mut rng = Rng::keyed(seed, b"values", size as u64);
        let len = size + OFFSETS - 1;
        let mut buffer = Vec::with_capacity(len + 8);
        while buffer.len() < len {
            buffer.extend_from_slice(&rng.next_u64().to_le_bytes());
        }
        buffer.truncate(len);
        Self { buffer, size }
    }

    /// Bytes in each value.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The value of operation `index`; neighbours differ.
    #[must_use]
    pub fn get(&self, index: u64) -> &[u8] {
        // 2654435761 is the prime nearest to 2^32 over the golden ratio: neighbours land far from each other.
        let at = (index.wrapping_mul(2_654_435_761) % OFFSETS as u64) as usize;
        &self.buffer[at..at + self.size]
    }
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Values").field("size", &self.size).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn text(seed: u64, index: u64, n: usize) -> String {
        let mut out = Vec::new();
        words(seed, index, n, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_list_holds_distinct_plain_words() {
        assert_eq!(WORDS.iter().collect::<BTreeSet<_>>().len(), 256);
        assert!(WORDS.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())));
    }

    #[test]
    fn prompts_have_the_asked_number_of_words_and_do_not_depend_on_the_order() {
        for n in [0, 1, 7, 8, 9, 128] {
            assert_eq!(text(7, 3, n).split_whitespace().count(), n);
        }
        assert_eq!(text(7, 3, 40), text(7, 3, 40));
        assert_ne!(text(7, 3, 40), text(8, 3, 40));
    }

    #[test]
    fn no_two_prompts_begin_alike() {
        let starts: BTreeSet<String> = (0..20_000).map(|index| text(1, index, 2)).collect();
        assert_eq!(starts.len(), 20_000);
        for index in 0..1000 {
            assert_ne!(text(1, index, 1), text(1, index + 1, 1));
        }
    }

    #[test]
    fn keys_cover_the_range_evenly() {
        let mut counts = [0_u32; 10];
        for index in 0..10_000 {
            counts[key(3, index, 10) as usize] += 1;
        }
        // 1000 expected in each, standard deviation 30: five of them.
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        assert_eq!(key(3, 5, 0), 0);
        assert_eq!(key(3, 5, 1), 0);
    }

    #[test]
    fn the_share_of_reads_is_as_asked() {
        let reads = (0..10_000).filter(|index| is_read(3, *index, 0.9)).count();
        assert!((8850..9150).contains(&reads), "{reads}");
        assert!((0..1000).all(|index| is_read(3, index, 1.0)));
        assert!((0..1000).all(|index| !is_read(3, index, 0.0)));
    }

    #[test]
    fn values_have_their_size_and_differ_between_neighbours() {
        let values = Values::new(5, 64);
        for index in 0..5000 {
            assert_eq!(values.get(index).len(), 64);
            assert_ne!(values.get(index), values.get(index + 1));
        }
        assert_eq!(values.get(u64::MAX).len(), 64);
        assert_eq!(Values::new(5, 64), values);
        assert!(Values::new(5, 0).get(9).is_empty());
    }
}
