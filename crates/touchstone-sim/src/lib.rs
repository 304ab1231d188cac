//! A model of an LLM serving engine on an abstract clock.
//!
//! [`EngineModel`] is a scheduler with a paged KV cache. It knows nothing of real time, sockets or files: the caller
//! passes nanoseconds in and receives [`Emission`]s out, so that one model serves a simulator on virtual time and the
//! embedded engine on the real clock. The same profile, seed and calls give the same emissions.
//!
//! What is modelled: admission in order of arrival, three batching policies, chunked prefill, block allocation with
//! preemption by recomputation, a prefix cache over whole blocks, a step time that is linear in documented
//! coefficients, and seeded log-normal jitter per step.
//!
//! What is deliberately not modelled: end-of-sequence tokens (a sequence runs to `max_tokens`), speculative decoding,
//! parallelism over several devices, and any hardware. The built-in [`Profile`]s are invented for demonstration; they
//! are **not** measurements of the products whose behaviour they resemble.
//!
//! ```
//! use touchstone_sim::{EngineModel, Profile};
//!
//! let profile = Profile::builtin("capacity-50").ok_or("no such profile")?;
//! let mut model = EngineModel::new(profile, 1)?;
//! model.submit(0, 7, 10, &[], 4);
//! let mut out = Vec::new();
//! while let Some(at) = model.next_event() {
//!     model.advance(at, &mut out);
//! }
//! assert_eq!(out.last().map(|e| e.at), Some(20_000_000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod engine;
mod kv;
mod profile;
mod rng;

pub use engine::{Admission, Counters, Emission, EngineModel, FinishReason, FirstToken, Rejection};
pub use profile::{Batching, Profile, ProfileError, StepTime};
pub use rng::SeededRng;
