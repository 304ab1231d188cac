//! Key-value caches.

pub mod resp;
