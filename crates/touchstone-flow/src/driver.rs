//! From what is asked for to the driver that does it.

use std::sync::Arc;

use touchstone_drivers::{
    DriverError, Nats, NatsOptions, OpenAi, OpenAiKind, OpenAiOptions, Resp, RespOptions,
};
use touchstone_load::Driver;
use touchstone_model::Protocol;

use crate::bench::BenchRequest;

/// Connections to an inference target at once, unless said otherwise.
const DEFAULT_CONNECTIONS: u32 = 4096;

/// Builds the driver for a request.
pub(crate) fn driver(
    request: &BenchRequest,
    run: &str,
    model: Option<&str>,
) -> Result<Arc<dyn Driver>, DriverError> {
    let (target, payload, seed) = (&request.target, &request.payload, request.plan.seed);
    Ok(match target.protocol {
        Protocol::OpenAiChat | Protocol::OpenAiCompletions | Protocol::Engine => {
            let kind = if target.protocol == Protocol::OpenAiCompletions {
                OpenAiKind::Completions
            } else {
                OpenAiKind::Chat
            };
            let mut options = OpenAiOptions::new(kind, target.authority(), model.unwrap_or_default());
            options.path.clone_from(&target.path);
            options.headers.clone_from(&request.headers);
            options.api_key.clone_from(&request.api_key);
            options.input_tokens = payload.input_tokens;
            options.output_tokens = payload.output_tokens;
            options.seed = seed;
            options.connections = payload.connections.unwrap_or(DEFAULT_CONNECTIONS);
            Arc::new(OpenAi::new(options)?)
        }
        Protocol::Resp => Arc::new(Resp::new(RespOptions {
            connections: payload.connections.unwrap_or(RespOptions::default().connections),
            pipeline: payload.pipeline,
            read_ratio: payload.read_ratio,
            keys: payload.keys,
            value_bytes: payload.value_bytes,
            seed,
            user: None,
            password: request.api_key.clone(),
            preload: payload.read_ratio > 0.0,
        })?),
        Protocol::Nats => {
            let mut options = NatsOptions::new(run);
            options.connections = payload.connections.unwrap_or(options.connections);
            options.message_bytes = payload.message_bytes;
            options.seed = seed;
            options.auth = request.api_key.clone().map(touchstone_drivers::NatsAuth::Token);
            Arc::new(Nats::new(options)?)
        }
    })
}
