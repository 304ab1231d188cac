//! What prompts are made of, what prefix caches may know of them, and what the run document says about it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use touchstone_model::run::Counts;
use touchstone_model::{Finding, FindingCode};
use touchstone_records::digest;
use touchstone_workload::requests::Wording;
use touchstone_workload::vocabulary::Vocabulary;

/// Greatest tokenizer that is read, bytes.
const MAX_TOKENIZER: u64 = 256 << 20;
/// Share of the input tokens by which a cold cache may know more than prompts share.
const COLD: f64 = 0.05;
/// Share of the input tokens by which a cache may know more or less than prompts share, where that is no fault by itself.
const OTHER: f64 = 0.1;

/// What prefix caches may know when the run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CachePolicy {
    /// Nothing: the text of prompts is the run's own, whatever the seed.
    #[default]
    Cold,
    /// The shared beginnings: each is sent once before the run. The text is the run's own.
    Warm,
    /// Whatever earlier runs left: equal seeds give equal prompts.
    AsIs,
}

impl CachePolicy {
    /// The name in files and arguments.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            CachePolicy::Cold => "cold",
            CachePolicy::Warm => "warm",
            CachePolicy::AsIs => "as-is",
        }
    }
}

/// Words of a model's own tokenizer.
#[derive(Debug, Clone, PartialEq)]
pub struct Tokenizer {
    /// Words that are one token each.
    pub vocabulary: Arc<Vocabulary>,
    /// Digest of the file.
    pub sha256: String,
}

/// Why there are no words of a tokenizer.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The file cannot be read.
    #[error("`{}` cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// No prompts of exact length can be made with it.
    #[error("`{}` gives no prompts of exact length: {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl Tokenizer {
    /// Reads a `tokenizer.json` and finds words that it makes one token of.
    ///
    /// # Errors
    /// See [`TokenizerError`].
    pub fn read(path: &Path) -> Result<Self, TokenizerError> {
        use std::io::Read;
        let file = |source| TokenizerError::File { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        std::fs::File::open(path)
            .map_err(file)?
            .take(MAX_TOKENIZER + 1)
            .read_to_end(&mut bytes)
            .map_err(file)?;
        if bytes.len() as u64 > MAX_TOKENIZER {
            return Err(file(std::io::Error::other(format!("larger than {} MiB", MAX_TOKENIZER >> 20))));
        }
        let vocabulary =
            vocabulary(&bytes).map_err(|why| TokenizerError::Unusable { path: path.to_owned(), why })?;
        Ok(Self { vocabulary: Arc::new(vocabulary), sha256: digest::sha256(&bytes) })
    }
}

#[cfg(feature = "tokenizer")]
fn vocabulary(json: &[u8]) -> Result<Vocabulary, String> {
    crate::tokenizer::vocabulary(json)
}

#[cfg(not(feature = "tokenizer"))]
fn vocabulary(_: &[u8]) -> Result<Vocabulary, String> {
    Err("this program was built without the feature `tokenizer`".to_owned())
}

/// What the target counted in prompts of known length before the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probed {
    /// Words of the two prompts.
    pub words: [u32; 2],
    /// Tokens that the target counted in each.
    pub counted: [u32; 2],
}

impl Probed {
    /// How words become tokens at the target.
    #[must_use]
    pub fn wording(&self) -> Wording {
        let [few, many] = self.words.map(f64::from);
        let [short, long] = self.counted.map(f64::from);
        let tokens_per_word = (long - short) / (many - few);
        Wording { fixed_tokens: short - tokens_per_word * few, tokens_per_word }
    }

    /// The same where each word is one token by the model's own tokenizer: then only a constant may stand between them.
    ///
    /// # Errors
    /// A text that says why it is not the target's tokenizer.
    pub fn exact(&self) -> Result<Wording, String> {
        let words = i64::from(self.words[1]) - i64::from(self.words[0]);
        let tokens = i64::from(self.counted[1]) - i64::from(self.counted[0]);
        if tokens != words || self.counted[0] < self.words[0] {
            return Err(format!(
                "for {words} more tokens of the tokenizer it counts {tokens} more: this is not the tokenizer of the model that it serves"
            ));
        }
        Ok(Wording { fixed_tokens: f64::from(self.counted[0] - self.words[0]), tokens_per_word: 1.0 })
    }
}

/// What is recorded of the prompts beside their lengths.
pub(crate) fn parameters(
    cache: CachePolicy,
    tokenizer: Option<&Tokenizer>,
    probed: Option<Probed>,
) -> BTreeMap<String, Value> {
    let tokenizer =
        tokenizer.map(|tokenizer| json!({"sha256": tokenizer.sha256, "words": tokenizer.vocabulary.len()}));
    let exact = tokenizer.is_some() && probed.is_some();
    let probe = probed.map(|probed| json!({"words": probed.words, "counted": probed.counted}));
    [
        ("cache", json!(cache.as_str())),
        ("tokenizer", json!(tokenizer)),
        ("input_tokens_probe", json!(probe)),
        ("input_tokens_exact", json!(exact)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// What a run with this policy shows about prefix caches; `cacheable` is the share of input tokens that prompts share, and
/// `template` the tokens that begin every prompt.
pub(crate) fn cache_finding(
    cache: CachePolicy,
    counts: &Counts,
    cacheable: f64,
    template: f64,
) -> Option<Finding> {
    if cache == CachePolicy::AsIs {
        return Some(Finding::new(
            FindingCode::CacheAsIs,
            "prompts are those of every run with this seed: a prefix cache may know them from an earlier one",
            "use `--cache cold` for figures that do not depend on what ran before",
        ));
    }
    let (cached, input) = (counts.cached_input_tokens?, counts.input_tokens.filter(|tokens| *tokens > 0)?);
    let share = cached as f64 / input as f64;
    let template = template.max(0.0) * counts.completed as f64 / input as f64;
    if cache == CachePolicy::Cold && share > cacheable + template + COLD {
        return Some(Finding::new(
            FindingCode::CacheNotCold,
            format!(
                "{:.1} % of the input tokens came from a prefix cache that was declared cold; prompts share {:.1} %, and the chat template is {:.1} %",
                share * 100.0,
                cacheable * 100.0,
                template * 100.0
            ),
            "latency and throughput are flattered: does a proxy or the server keep answers or prompts of its own? restart it, or turn its prefix cache off",
        ));
    }
    let more = share > cacheable + template + OTHER;
    (more || share < cacheable - OTHER).then(|| {
        Finding::new(
            FindingCode::PrefixCache,
            format!(
                "{:.0} % of the input tokens came from a prefix cache, where the prompts share {:.0} %",
                share * 100.0,
                cacheable * 100.0
            ),
            if more {
                "the cache knew these prompts before: give another --seed, or compare candidates with the cache off"
            } else {
                "the cache is off, too small, or keeps whole blocks only: ttft has the full prefill in it"
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_probes_give_the_template_and_the_tokens_of_a_word() {
        let probed = |counted| Probed { words: [32, 160], counted };
        assert_eq!(probed([40, 168]).exact(), Ok(Wording { fixed_tokens: 8.0, tokens_per_word: 1.0 }));
        assert_eq!(probed([40, 232]).wording(), Wording { fixed_tokens: -8.0, tokens_per_word: 1.5 });
        assert!(probed([40, 232]).exact().unwrap_err().contains("192 more"));
        assert!(probed([20, 148]).exact().is_err(), "fewer tokens than were sent");
    }

    #[test]
    fn a_cold_cache_may_know_the_template_and_what_prompts_share() {
        let counts = |cached| Counts {
            completed: 10,
            input_tokens: Some(1000),
            cached_input_tokens: cached,
            ..Counts::default()
        };
        let code = |cache, cached, cacheable, template| {
            cache_finding(cache, &counts(cached), cacheable, template).map(|finding| finding.code)
        };
        assert_eq!(code(CachePolicy::Cold, Some(0), 0.0, 0.0), None);
        assert_eq!(code(CachePolicy::Cold, None, 0.0, 0.0), None);
        assert_eq!(code(CachePolicy::Cold, Some(100), 0.0, 8.0), None);
        assert_eq!(code(CachePolicy::Cold, Some(100), 0.0, 2.0), Some(FindingCode::CacheNotCold));
        assert_eq!(code(CachePolicy::Cold, Some(500), 0.5, 0.0), None);
        assert_eq!(code(CachePolicy::Warm, Some(500), 0.5, 0.0), None);
        assert_eq!(code(CachePolicy::Warm, Some(500), 0.0, 0.0), Some(FindingCode::PrefixCache));
        assert_eq!(code(CachePolicy::Cold, Some(300), 0.5, 0.0), Some(FindingCode::PrefixCache));
        assert_eq!(code(CachePolicy::AsIs, None, 0.0, 0.0), Some(FindingCode::CacheAsIs));
    }
}
