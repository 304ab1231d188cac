//! What an engine is told to behave like.

/// How sequences share a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batching {
    /// Sequences join and leave the batch at every step.
    Continuous {
        /// `true`: a step mixes decodes with pieces of prompts, up to `max_batched_tokens` together. `false`: waiting
        /// prompts are prefilled whole, in steps of their own that go before decoding.
        chunked_prefill: bool,
    },
    /// A batch is formed from what waits, runs until its last sequence ends, and pays for its full size until then.
    Static,
    /// Each step advances one sequence; up to `max_num_seqs` sequences in progress take turns. With
    /// `max_num_seqs = 1`: first come, first served, one at a time.
    OneSequence,
}

/// How long a step takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepTime {
    /// The sum of `base_ns`, `prefill_ns_per_token` times the prompt tokens computed, `decode_ns_per_seq` times the
    /// decoding sequences, and `kv_ns_per_block` times the KV blocks read. A linear stand-in for a roofline: the base
    /// plays reading the weights, the prefill term arithmetic, and the block term reading the KV cache.
    Linear {
        /// Every step, ns.
        base_ns: u64,
        /// Per prompt token computed in the step, ns.
        prefill_ns_per_token: u64,
        /// Per sequence that decodes in the step, ns.
        decode_ns_per_seq: u64,
        /// Per block held by the sequences of the step, ns.
        kv_ns_per_block: u64,
    },
    /// A request takes exactly `total_ns` of service whatever its lengths; its tokens are spread evenly over that.
    /// Only with [`Batching::OneSequence`].
    PerRequest {
        /// Service time of one request, ns.
        total_ns: u64,
    },
}

/// Everything that decides how a simulated engine behaves. Plain data: build one, or take a built-in one.
///
/// The numbers of the built-in profiles are invented for demonstration, shaped after the qualitative behaviour of the
/// product in the name, and chosen so that a demonstration is comfortable on two slow cores: a mixed step of
/// `vllm-like` takes 6 to 30 ms, a prompt of 256 tokens on an idle engine about 33 ms to its first token, and about
/// 28 requests/s of 256 + 64 tokens saturate it. They are not a measurement of that product.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Name, e.g. `vllm-like`; it ends in what marks it as an imitation, or names no product.
    pub name: String,
    /// Which traits were imitated, for people.
    pub about: String,
    /// Most sequences in progress.
    pub max_num_seqs: u32,
    /// Most tokens in a step (prompt and decode together), where prefill is chunked; otherwise most prompt tokens in
    /// a prefill step, save that one prompt alone may exceed it.
    pub max_batched_tokens: u32,
    /// Batching policy.
    pub batching: Batching,
    /// Tokens per KV block.
    pub block_size: u32,
    /// KV blocks in the pool.
    pub kv_blocks: u32,
    /// Reserve blocks for prompt + `max_tokens` at admission, so that nothing is ever preempted, at the price of
    /// admitting less. Static and one-sequence batching always reserve.
    pub reserve_full_length: bool,
    /// Most tokens of prompt and answer together.
    pub max_context: u32,
    /// Whether whole prompt blocks seen before are taken over instead of computed.
    pub prefix_cache: bool,
    /// Tokens collected before they are handed out; the last chunk may be smaller.
    pub tokens_per_chunk: u32,
    /// Step-time model.
    pub step_time: StepTime,
    /// Standard deviation of the logarithm of the factor (mean 1) that each step's time is multiplied by.
    pub jitter_sigma: f64,
}

/// Why a profile cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// A count that must be at least one is zero.
    #[error("profile `{profile}`: {field} is 0, must be at least 1")]
    Zero {
        /// Name of the profile.
        profile: String,
        /// Name of the field.
        field: &'static str,
    },
    /// `jitter_sigma` is negative, infinite or not a number.
    #[error("profile `{profile}`: jitter_sigma must be finite and at least 0")]
    Jitter {
        /// Name of the profile.
        profile: String,
    },
    /// [`StepTime::PerRequest`] has no meaning where sequences share steps.
    #[error("profile `{profile}`: a service time per request needs one-sequence batching")]
    SharedService {
        /// Name of the profile.
        profile: String,
    },
    /// A full batch of decodes would not fit into `max_batched_tokens`, so some sequences could starve.
    #[error("profile `{profile}`: max_batched_tokens is {tokens}, below max_num_seqs {seqs}")]
    Budget {
        /// Name of the profile.
        profile: String,
        /// `max_batched_tokens`.
        tokens: u32,
        /// `max_num_seqs`.
        seqs: u32,
    },
}

/// Names of the built-in profiles, in the order in which to show them.
const NAMES: [&str; 7] =
    ["vllm-like", "tgi-like", "fastchat-like", "llamacpp-like", "static-batch", "flat", "capacity-50"];

const CHUNKED: Batching = Batching::Continuous { chunked_prefill: true };
const PREFILL_FIRST: Batching = Batching::Continuous { chunked_prefill: false };

const fn linear(
    base_us: u64,
    prefill_us_per_token: u64,
    decode_us_per_seq: u64,
    kv_ns_per_block: u64,
) -> StepTime {
    StepTime::Linear {
        base_ns: base_us * 1000,
        prefill_ns_per_token: prefill_us_per_token * 1000,
        decode_ns_per_seq: decode_us_per_seq * 1000,
        kv_ns_per_block,
    }
}

impl Profile {
    /// Names of the built-in profiles.
    #[must_use]
    pub const fn builtin_names() -> &'static [&'static str] {
        &NAMES
    }

    /// The built-in profile of that name. All numbers: invented for demonstration, see the type's documentation.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        let base = Self {
            name: name.to_owned(),
            about: String::new(),
            max_num_seqs: 64,
            max_batched_tokens: 224,
            batching: CHUNKED,
            block_size: 16,
            kv_blocks: 2048,
            reserve_full_length: false,
            max_context: 8192,
            prefix_cache: true,
            tokens_per_chunk: 1,
            step_time: linear(6000, 80, 80, 500),
            jitter_sigma: 0.08,
        };
        let profile = match name {
            "vllm-like" => Self {
                about: "continuous batching, chunked prefill, blocks as needed, preemption by recomputation"
                    .to_owned(),
                ..base
            },
            "tgi-like" => Self {
                about:
                    "continuous batching, whole prompts before decoding, full length reserved at admission"
                        .to_owned(),
                max_num_seqs: 48,
                max_batched_tokens: 1024,
                batching: PREFILL_FIRST,
                reserve_full_length: true,
                step_time: linear(7000, 80, 90, 500),
                ..base
            },
            "fastchat-like" => Self {
                about: "no batching: requests in progress take turns; two tokens per chunk".to_owned(),
                max_num_seqs: 5,
                batching: Batching::OneSequence,
                prefix_cache: false,
                tokens_per_chunk: 2,
                step_time: linear(5000, 80, 0, 500),
                jitter_sigma: 0.12,
                ..base
            },
            "llamacpp-like" => Self {
                about: "continuous batching over four slots of fixed size, chunked prefill".to_owned(),
                max_num_seqs: 4,
                max_batched_tokens: 160,
                kv_blocks: 1024,
                reserve_full_length: true,
                max_context: 4096,
                step_time: linear(8000, 120, 900, 1000),
                jitter_sigma: 0.06,
                ..base
            },
            "static-batch" => Self {
                about: "static batching: nobody joins before the whole batch has ended".to_owned(),
                max_num_seqs: 16,
                batching: Batching::Static,
                prefix_cache: false,
                ..base
            },
            "flat" => Self {
                about: "a constant 2 ms per step, whatever the batch: for testing load generators".to_owned(),
                max_num_seqs: 1024,
                max_batched_tokens: 1 << 20,
                kv_blocks: 1 << 17,
                max_context: 1 << 16,
                prefix_cache: false,
                step_time: linear(2000, 0, 0, 0),
                jitter_sigma: 0.0,
                ..base
            },
            "capacity-50" => Self {
                about: "one request at a time, 20 ms each: exactly 50 requests/s, neither more nor less"
                    .to_owned(),
                max_num_seqs: 1,
                max_batched_tokens: 1 << 20,
                batching: Batching::OneSequence,
                kv_blocks: 1 << 13,
                max_context: 1 << 16,
                prefix_cache: false,
                step_time: StepTime::PerRequest { total_ns: 20_000_000 },
                jitter_sigma: 0.0,
                ..base
            },
            _ => return None,
        };
        Some(profile)
    }

    /// Checks that the profile can be simulated.
    ///
    /// # Errors
    /// The first [`ProfileError`] found.
    pub fn check(&self) -> Result<(), ProfileError> {
        let profile = || self.name.clone();
        let counts = [
            ("max_num_seqs", self.max_num_seqs),
            ("max_batched_tokens", self.max_batched_tokens),
            ("block_size", self.block_size),
            ("kv_blocks", self.kv_blocks),
            ("max_context", self.max_context),
            ("tokens_per_chunk", self.tokens_per_chunk),
        ];
        if let Some((field, _)) = counts.into_iter().find(|&(_, count)| count == 0) {
            return Err(ProfileError::Zero { profile: profile(), field });
        }
        if !self.jitter_sigma.is_finite() || self.jitter_sigma < 0.0 {
            return Err(ProfileError::Jitter { profile: profile() });
        }
        if matches!(self.step_time, StepTime::PerRequest { .. }) && self.batching != Batching::OneSequence {
            return Err(ProfileError::SharedService { profile: profile() });
        }
        if self.batching == CHUNKED && self.max_batched_tokens < self.max_num_seqs {
            return Err(ProfileError::Budget {
                profile: profile(),
                tokens: self.max_batched_tokens,
                seqs: self.max_num_seqs,
            });
        }
        Ok(())
    }

    /// Whether blocks for the whole length are taken at admission.
    pub(crate) fn reserves(&self) -> bool {
        self.reserve_full_length || !matches!(self.batching, Batching::Continuous { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::{Batching, Profile, ProfileError};

    #[test]
    fn every_builtin_profile_is_valid_and_keeps_its_name() {
        for name in Profile::builtin_names() {
            let profile = Profile::builtin(name).unwrap();
            assert_eq!(&profile.name, name);
            assert!(!profile.about.is_empty());
            profile.check().unwrap();
            assert!(
                profile.kv_blocks * profile.block_size >= profile.max_context,
                "{name}: the context must fit"
            );
        }
        assert_eq!(Profile::builtin("vllm"), None);
    }

    #[test]
    fn bad_profiles_are_refused() {
        let good = Profile::builtin("vllm-like").unwrap();
        let zero = Profile { block_size: 0, ..good.clone() };
        assert!(matches!(zero.check(), Err(ProfileError::Zero { field: "block_size", .. })));
        let jitter = Profile { jitter_sigma: f64::NAN, ..good.clone() };
        assert!(matches!(jitter.check(), Err(ProfileError::Jitter { .. })));
        let budget = Profile { max_batched_tokens: 8, ..good };
        assert!(matches!(budget.check(), Err(ProfileError::Budget { tokens: 8, seqs: 64, .. })));
        let shared = Profile { batching: Batching::Static, ..Profile::builtin("capacity-50").unwrap() };
        assert!(matches!(shared.check(), Err(ProfileError::SharedService { .. })));
    }
}
