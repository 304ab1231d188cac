//! What the tests of this workspace share: real servers to load, scripted wrong peers, a tiny model, a harness for
//! the command line, and redactions for snapshots.
//!
//! The crate is for tests and for `xtask` only; `cargo xtask tidy` refuses it as a normal dependency of a product
//! crate. It never installs anything: [`servers`] uses what is on the machine or under the servers' folder, and
//! `cargo xtask servers` is what puts it there. It holds no fake of a product: a stand-in that looks like the real
//! thing would prove only that we agree with ourselves.
//!
//! Main types: [`Server`] and [`Kind`] (real servers, stopped on drop), [`TestContext`] (runs the built binary in an
//! empty folder with a deadline), [`TcpStub`] (a peer that misbehaves by script), [`TinyModel`] (a random-weight
//! model with a real tokenizer), [`Redactor`].
//!
//! A test that needs a server starts with [`server!`], which prints one `SKIPPED:` line and returns when the server
//! is not to be had:
//!
//! ```no_run
//! # use touchstone_testkit::{Kind, server};
//! # fn loads_redis() {
//! let redis = server!(Kind::Redis);
//! let target = format!("resp={}", redis.addr());
//! # }
//! ```

pub mod cli;
pub mod nvml;
pub mod redact;
pub mod servers;
pub mod tcp_stub;
pub mod tiny_model;

pub use cli::{Finished, Running, TestContext};
pub use redact::Redactor;
pub use servers::{Installed, Kind, LlamaOptions, Server, Unavailable};
pub use tcp_stub::{Step, TcpStub};
pub use tiny_model::TinyModel;
