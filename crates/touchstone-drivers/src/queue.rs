//! Message queues.

pub mod nats;
