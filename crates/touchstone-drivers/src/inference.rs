//! LLM inference engines.

mod http;
mod sse;

pub mod openai;
