//! A tiny Llama with random weights and a real tokenizer, so that a real inference server can be loaded without
//! fetching a model.
//!
//! Two layers, hidden size 256, vocabulary 2048, context 2048, 9 MB as GGUF with 32-bit floats. It writes nonsense,
//! but at the server everything is real: the tokenizer, the chat template, the KV cache, sampling, streaming. The
//! output rows of the end-of-sequence token, the other specials and the bytes outside printable ASCII are zero while
//! all others have logits of a standard deviation near four, so that answers are readable and practically every
//! request runs to the number of tokens it asked for.
//!
//! The same seed gives the same bytes on every platform: weights come from integer arithmetic and one multiplication,
//! never from a mathematical library.

mod gguf;
mod hugging_face;
mod random;
mod tokenizer;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use self::tokenizer::Tokenizer;

use self::gguf::{Gguf, Value};
use self::random::Random;

/// Tokens in the vocabulary, unused ones included.
pub const VOCABULARY: usize = 2048;
/// Greatest number of tokens of prompt and answer together.
pub const CONTEXT: usize = 2048;
/// The name the model gives itself.
pub const NAME: &str = "touchstone-tiny";
/// The seed of [`TinyModel::cached`].
pub const SEED: u64 = 7;

const HIDDEN: usize = 256;
const LAYERS: usize = 2;
const HEADS: usize = 4;
const KEY_VALUE_HEADS: usize = 2;
const HEAD: usize = HIDDEN / HEADS;
const FEED_FORWARD: usize = 512;
/// Part of the cached file's name: raise it with any change to what [`TinyModel::to_gguf`] writes.
const FORMAT: u32 = 1;

const CHAT_TEMPLATE: &str = "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '</s>' }}\
{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";

/// The model: a tokenizer and a seed for the weights, which exist only while they are written.
#[derive(Debug, Clone)]
pub struct TinyModel {
    seed: u64,
    tokenizer: Tokenizer,
}

impl TinyModel {
    /// Trains the tokenizer on text made from `seed`; the weights follow from the same seed.
    pub fn new(seed: u64) -> TinyModel {
        TinyModel { seed, tokenizer: Tokenizer::train(&training_words(seed), VOCABULARY) }
    }

    /// Its tokenizer, which cuts text as the server does.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The path of the model with [`SEED`] under `dir`, written there first if it is missing. Several processes may
    /// ask at once: each writes a file of its own and renames it into place.
    pub fn cached(dir: &Path) -> Result<PathBuf> {
        let path = dir.join(format!("tiny-f{FORMAT}-s{SEED}.gguf"));
        if path.is_file() {
            return Ok(path);
        }
        fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        let part = tempfile::NamedTempFile::new_in(dir)?;
        fs::write(part.path(), TinyModel::new(SEED).to_gguf())?;
        part.persist(&path).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// The whole GGUF file.
    pub fn to_gguf(&self) -> Vec<u8> {
        let mut file = Gguf::default();
        self.describe(&mut file);
        self.add_weights(&mut file);
        file.to_bytes()
    }

    fn describe(&self, file: &mut Gguf) {
        let tokenizer = &self.tokenizer;
        let eos = tokenizer::EOS;
        file.set("general.architecture", Value::Text("llama".into()));
        file.set("general.name", Value::Text(NAME.into()));
        file.set("general.file_type", Value::U32(0));
        for (key, number) in [
            ("context_length", CONTEXT),
            ("embedding_length", HIDDEN),
            ("block_count", LAYERS),
            ("feed_forward_length", FEED_FORWARD),
            ("attention.head_count", HEADS),
            ("attention.head_count_kv", KEY_VALUE_HEADS),
            ("rope.dimension_count", HEAD),
            ("vocab_size", VOCABULARY),
        ] {
            file.set(&format!("llama.{key}"), Value::U32(number as u32));
        }
        file.set("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5));
        file.set("llama.rope.freq_base", Value::F32(10_000.0));
        file.set("tokenizer.ggml.model", Value::Text("gpt2".into()));
        file.set("tokenizer.ggml.pre", Value::Text("gpt-2".into()));
        file.set("tokenizer.ggml.tokens", Value::Texts(tokenizer.tokens().to_vec()));
        file.set("tokenizer.ggml.token_type", Value::I32s(tokenizer.types()));
        file.set("tokenizer.ggml.merges", Value::Texts(tokenizer.merges()));
        file.set("tokenizer.ggml.unknown_token_id", Value::U32(tokenizer::UNKNOWN));
        file.set("tokenizer.ggml.bos_token_id", Value::U32(tokenizer::BOS));
        file.set("tokenizer.ggml.eos_token_id", Value::U32(eos));
        file.set("tokenizer.ggml.padding_token_id", Value::U32(eos));
        file.set("tokenizer.ggml.add_bos_token", Value::Bool(true));
        file.set("tokenizer.chat_template", Value::Text(CHAT_TEMPLATE.into()));
    }

    /// A converter from another layout would have to permute the rows of queries and keys for GGUF's rotary order;
    /// rows of independent random numbers are as good in any order.
    fn add_weights(&self, file: &mut Gguf) {
        for Tensor { name, rows, columns, numbers } in self.tensors() {
            match rows {
                None => file.add_vector(&name, numbers),
                Some(rows) => file.add_tensor(&name, rows, columns, numbers),
            }
        }
    }

    /// All weights, under GGUF's names and in its order of rows.
    fn tensors(&self) -> Vec<Tensor> {
        let mut random = Random::new(self.seed);
        let mut tensors = Vec::new();
        let mut add = |name: String, rows: Option<usize>, columns: usize, numbers: Vec<f32>| {
            tensors.push(Tensor { name, rows, columns, numbers });
        };
        let embedding = random.matrix(VOCABULARY, HIDDEN, 1.0);
        add("token_embd.weight".into(), Some(VOCABULARY), HIDDEN, embedding);
        add("output_norm.weight".into(), None, HIDDEN, vec![1.0; HIDDEN]);
        let mut head = random.matrix(VOCABULARY, HIDDEN, 0.25);
        for (id, row) in head.chunks_exact_mut(HIDDEN).enumerate() {
            if !self.tokenizer.is_readable(id) {
                row.fill(0.0);
            }
        }
        add("output.weight".into(), Some(VOCABULARY), HIDDEN, head);
        let attention = HEADS * HEAD;
        let key_value = KEY_VALUE_HEADS * HEAD;
        for layer in 0..LAYERS {
            for (name, rows, columns) in [
                ("attn_q", attention, HIDDEN),
                ("attn_k", key_value, HIDDEN),
                ("attn_v", key_value, HIDDEN),
                ("attn_output", HIDDEN, attention),
                ("ffn_gate", FEED_FORWARD, HIDDEN),
                ("ffn_up", FEED_FORWARD, HIDDEN),
                ("ffn_down", HIDDEN, FEED_FORWARD),
            ] {
                // The usual scale: a unit-variance input keeps unit variance.
                let scale = 1.0 / (columns as f32).sqrt();
                let weights = random.matrix(rows, columns, scale);
                add(format!("blk.{layer}.{name}.weight"), Some(rows), columns, weights);
            }
            for name in ["attn_norm", "ffn_norm"] {
                add(format!("blk.{layer}.{name}.weight"), None, HIDDEN, vec![1.0; HIDDEN]);
            }
        }
        tensors
    }
}

/// A matrix of `rows` by `columns`, or a vector of `columns` where there are no rows.
struct Tensor {
    name: String,
    rows: Option<usize>,
    columns: usize,
    numbers: Vec<f32>,
}

/// Invented words with how often each occurs, in a frequency order like a language's, and the role names that a chat
/// template and its users write.
fn training_words(seed: u64) -> Vec<(String, u64)> {
    const CONSONANTS: &[u8] = b"bcdfghklmnprstvwz";
    const VOWELS: &[u8] = b"aeiou";
    const WORDS: u64 = 1600;
    let mut random = Random::new(seed ^ 0x7061_6765);
    let mut words = Vec::new();
    for rank in 1..=WORDS {
        let mut word = String::new();
        for _ in 0..=random.below(4) {
            word.push(char::from(CONSONANTS[random.below(CONSONANTS.len())]));
            word.push(char::from(VOWELS[random.below(VOWELS.len())]));
        }
        let count = 60_000 / (rank + 10);
        let mut capital = word.clone();
        capital[..1].make_ascii_uppercase();
        words.push((format!(" {word}"), count));
        words.push((capital, count / 12 + 1));
    }
    for word in
        ["user", "assistant", "system", "Hello", " world", " the", " a", " is", " you", " and", " of", " to"]
    {
        words.push((word.to_owned(), 400));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_file_and_another_gives_another() {
        let first = TinyModel::new(7).to_gguf();
        assert_eq!(first, TinyModel::new(7).to_gguf());
        assert_ne!(first, TinyModel::new(8).to_gguf());
    }

    /// Pins the bytes, so that a platform whose arithmetic differs, or a change without a new `FORMAT`, is seen.
    #[test]
    fn the_bytes_of_the_cached_model_are_fixed() {
        use sha2::{Digest, Sha256};
        let digest = Sha256::digest(TinyModel::new(SEED).to_gguf());
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            (FORMAT, hex.as_str()),
            (1, "c18cfb2a7d28682def71a4fdb2e1bc745085a2a96893fd76e3829b88791710a7")
        );
    }

    #[test]
    fn the_cache_writes_once_and_leaves_no_parts() {
        let dir = tempfile::tempdir().unwrap();
        let path = TinyModel::cached(dir.path()).unwrap();
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(TinyModel::cached(dir.path()).unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
