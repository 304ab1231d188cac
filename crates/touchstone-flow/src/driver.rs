//! From what is asked for to the driver that does it.

use std::sync::Arc;

use touchstone_drivers::{
    Dialect, DriverError, Generation, GenerationOptions, Nats, NatsOptions, Resp, RespOptions,
};
use touchstone_load::Driver;
use touchstone_model::Protocol;
use touchstone_stats::rng::Rng;

use crate::bench::BenchRequest;
use crate::prompts::CachePolicy;

/// Connections to an inference target at once, unless said otherwise.
const DEFAULT_CONNECTIONS: u32 = 4096;

/// Builds the driver for a request.
pub(crate) fn driver(
    request: &BenchRequest,
    run: &str,
    model: Option<&str>,
) -> Result<Arc<dyn Driver>, DriverError> {
    let (target, payload, seed) = (&request.target, &request.payload, request.plan.seed);
    let generation = |dialect| generation(request, run, model.unwrap_or_default(), dialect);
    Ok(match target.protocol {
        Protocol::OpenAiChat | Protocol::Engine => generation(Dialect::Chat)?,
        Protocol::OpenAiCompletions => generation(Dialect::Completions)?,
        Protocol::OpenAiResponses => generation(Dialect::Responses)?,
        Protocol::OpenAiEmbeddings => generation(Dialect::Embeddings)?,
        Protocol::Tgi => generation(Dialect::Tgi)?,
        Protocol::TritonGenerate => generation(Dialect::TritonGenerate)?,
        Protocol::TritonInfer => generation(Dialect::TritonInfer)?,
        Protocol::LlamaCpp => generation(Dialect::LlamaCpp)?,
        Protocol::FastChatWorker => generation(Dialect::FastChatWorker)?,
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

/// Builds the driver of an endpoint that generates.
fn generation(
    request: &BenchRequest,
    run: &str,
    model: &str,
    dialect: Dialect,
) -> Result<Arc<dyn Driver>, DriverError> {
    let payload = &request.payload;
    let mut options = GenerationOptions::new(dialect, request.target.authority(), model);
    options.path.clone_from(&request.target.path);
    options.stream = payload.stream;
    options.headers.clone_from(&request.headers);
    options.api_key.clone_from(&request.api_key);
    options.requests = request.requests();
    if payload.cache != CachePolicy::AsIs {
        // A function of seed and run: repeatable from the run document, and no other run's.
        options.requests.text_seed = Rng::keyed(request.plan.seed, run.as_bytes(), 0).next_u64();
    }
    options.preload = payload.cache == CachePolicy::Warm;
    let shares = payload.prefix.is_some() || payload.trace.is_some();
    if dialect == Dialect::LlamaCpp && payload.cache == CachePolicy::Cold && !shares {
        options.cache_prompt = Some(false);
    }
    options.connections = payload.connections.unwrap_or(DEFAULT_CONNECTIONS);
    options.tell_silent = request.plan.log_tokens;
    Ok(Arc::new(Generation::new(options)?))
}
