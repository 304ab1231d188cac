//! What the sessions of the drivers promise for bytes: the right events, the same wherever the bytes are cut, and
//! neither a panic nor unbounded memory for any bytes at all.

#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

mod corpus;
mod nats;
mod openai;
mod properties;
mod resp;
mod sinks;
mod support;
mod wrong_numbers;
