//! LLM inference engines.

mod http;
mod inflate;
mod sse;

pub mod generation;
