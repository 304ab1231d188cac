//! Words that a model's own tokenizer makes exactly one token of.
//!
//! A prompt of n such words has n tokens, whatever their order: that is shown before the run by encoding, and made cheap in
//! it, where a prompt is a copy of words (`docs/adr/0011-prompts.md`).

use std::sync::Arc;

use tokenizers::Tokenizer;
use touchstone_workload::payload::WORDS;
use touchstone_workload::requests::Requests;
use touchstone_workload::vocabulary::Vocabulary;

/// Most words that are looked for.
const ENOUGH: usize = 4096;
/// Fewest words with which a prompt may begin without an anchor.
const FEW: usize = 256;
/// Prompts that are encoded to show that counts add up, and their length in words.
const SHOWN: (u64, u32) = (64, 512);
/// Times that words which spoil a count are left out.
const ROUNDS: usize = 8;
/// Longest word, bytes.
const LONGEST: usize = 12;

/// The vocabulary that a `tokenizer.json` gives.
///
/// # Errors
/// A text that says why there is none.
pub(crate) fn vocabulary(json: &[u8]) -> Result<Vocabulary, String> {
    let mut tokenizer = Tokenizer::from_bytes(json).map_err(|error| format!("it cannot be read: {error}"))?;
    // What a server does with long prompts is its own; here every token counts.
    tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
    tokenizer.with_padding(None);
    let mut words = words(&tokenizer)?;
    for _ in 0..ROUNDS {
        let alone: Vec<String> =
            words.iter().filter(|word| count(&tokenizer, word) == Some(1)).cloned().collect();
        let (chosen, anchor) = if alone.len() >= FEW.min(words.len()) {
            (alone, None)
        } else {
            let letters = ('a'..='z').map(String::from);
            let anchor = alone
                .first()
                .cloned()
                .or_else(|| letters.into_iter().find(|one| count(&tokenizer, one) == Some(1)));
            let anchor = anchor.ok_or("no letter is one token at the beginning of a text")?;
            (words.clone(), Some(anchor))
        };
        let found = chosen.len();
        let vocabulary = Vocabulary::new(chosen, anchor)
            .ok_or_else(|| format!("only {found} lower-case words are one token each, and 16 are needed"))?;
        let spoilers = spoilers(&tokenizer, &vocabulary);
        if spoilers.is_empty() {
            return Ok(vocabulary);
        }
        words.retain(|word| !spoilers.contains(word));
    }
    Err("its counts do not add up: words change how their neighbours are cut".to_owned())
}

/// Tokens of a text without what a template adds; none where it cannot be encoded.
pub(crate) fn count(tokenizer: &Tokenizer, text: &str) -> Option<usize> {
    tokenizer.encode_fast(text, false).ok().map(|encoding| encoding.len())
}

/// Words that are one token behind another word, the commonest first.
fn words(tokenizer: &Tokenizer) -> Result<Vec<String>, String> {
    let mut known: Vec<(u32, String)> =
        tokenizer.get_vocab(false).into_iter().map(|(token, id)| (id, token)).collect();
    known.sort_unstable();
    let mut seen = std::collections::BTreeSet::new();
    let of_vocabulary = known.iter().map(|(_, token)| token.trim_start_matches(['\u{120}', '\u{2581}']));
    let mut words = Vec::new();
    // Common English words first: what is sent should look like text where it can.
    for word in WORDS.iter().copied().chain(of_vocabulary) {
        let plain = (2..=LONGEST).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase());
        if !plain || !seen.insert(word) {
            continue;
        }
        let base = count(tokenizer, "a");
        let both = count(tokenizer, &format!("a {word}"));
        if base.zip(both).is_some_and(|(base, both)| both == base + 1) {
            words.push(word.to_owned());
            if words.len() == ENOUGH {
                break;
            }
        }
    }
    if words.is_empty() { Err("no lower-case word is one token".to_owned()) } else { Ok(words) }
}

/// Words next to which the count is not the number of words.
fn spoilers(tokenizer: &Tokenizer, vocabulary: &Vocabulary) -> Vec<String> {
    let mut spoilers = Vec::new();
    let (prompts, length) = SHOWN;
    let source = Requests { vocabulary: Arc::new(vocabulary.clone()), ..Requests::fixed(0, length, 1) };
    for index in 0..prompts {
        let mut text = Vec::new();
        source.write_prompt(index, &mut text);
        let text = String::from_utf8_lossy(&text);
        if count(tokenizer, &text) == Some(length as usize) {
            continue;
        }
        let words: Vec<&str> = text.split(' ').collect();
        let before = spoilers.len();
        for three in words.windows(3) {
            if count(tokenizer, &three.join(" "))
                .zip(count(tokenizer, three[0]))
                .is_none_or(|(all, one)| all != one + 2)
            {
                spoilers.extend(three[1..].iter().map(|word| (*word).to_owned()));
            }
        }
        if spoilers.len() == before {
            // No near cause: give these words up.
            spoilers.extend(words.iter().map(|word| (*word).to_owned()));
        }
    }
    spoilers
}
