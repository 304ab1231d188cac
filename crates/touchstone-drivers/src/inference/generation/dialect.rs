//! The dialects: what each endpoint wants to be asked, and how what it answers is read.
//!
//! A dialect knows neither sockets nor HTTP: it writes a request's body and reads one event or one document. That is
//! all that tells them apart; connections, framing, failures and token sums are the session's, the same for all.

pub(super) mod decode;
mod embeddings;
mod fastchat;
mod llamacpp;
mod openai;
mod responses;
mod tgi;
mod triton;

use self::decode::Decoded;
use super::GenerationOptions;

/// Which endpoint is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI `/v1/chat/completions`: one user message.
    Chat,
    /// OpenAI `/v1/completions`: a bare prompt.
    Completions,
    /// OpenAI `/v1/responses`: typed events.
    Responses,
    /// OpenAI `/v1/embeddings`: one document.
    Embeddings,
    /// TGI's own `/generate_stream` and `/generate`: one token an event.
    Tgi,
    /// Triton's `/v2/models/MODEL/generate_stream` and `/generate`, with the inputs of its vLLM and TensorRT-LLM
    /// backends.
    TritonGenerate,
    /// Triton's `/v2/models/MODEL/infer` (KServe v2): one document.
    TritonInfer,
    /// llama.cpp's own `/completion`.
    LlamaCpp,
    /// A FastChat worker's `/worker_generate_stream`: JSON records that end with a NUL byte.
    FastChatWorker,
}

/// Stands for the number of output tokens in a body that is being made. It is above every number that can be asked for.
pub(super) const OUTPUT_TOKENS: u64 = 18_446_744_073_709_551_557;

/// How the body of a good answer is cut into what a dialect decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Server-sent events, or one document where a server answers so.
    Events,
    /// Records that end with a NUL byte.
    Records,
    /// One JSON document.
    Document,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Dialect; 9] = [
        Dialect::Chat,
        Dialect::Completions,
        Dialect::Responses,
        Dialect::Embeddings,
        Dialect::Tgi,
        Dialect::TritonGenerate,
        Dialect::TritonInfer,
        Dialect::LlamaCpp,
        Dialect::FastChatWorker,
    ];

    /// The name of the protocol, as in `--target`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Chat => "openai-chat",
            Dialect::Completions => "openai-completions",
            Dialect::Responses => "openai-responses",
            Dialect::Embeddings => "openai-embeddings",
            Dialect::Tgi => "tgi",
            Dialect::TritonGenerate => "triton-generate",
            Dialect::TritonInfer => "triton-infer",
            Dialect::LlamaCpp => "llamacpp",
            Dialect::FastChatWorker => "fastchat-worker",
        }
    }

    /// The usual path; `{model}` stands for the model's name.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Dialect::Chat => "/v1/chat/completions",
            Dialect::Completions => "/v1/completions",
            Dialect::Responses => "/v1/responses",
            Dialect::Embeddings => "/v1/embeddings",
            Dialect::Tgi => "/generate_stream",
            Dialect::TritonGenerate => "/v2/models/{model}/generate_stream",
            Dialect::TritonInfer => "/v2/models/{model}/infer",
            Dialect::LlamaCpp => "/completion",
            Dialect::FastChatWorker => "/worker_generate_stream",
        }
    }

    /// Whether the endpoint can answer by a stream.
    #[must_use]
    pub fn can_stream(self) -> bool {
        !matches!(self, Dialect::Embeddings | Dialect::TritonInfer)
    }

    /// Whether the endpoint can answer by one document.
    #[must_use]
    pub fn can_answer_whole(self) -> bool {
        self != Dialect::FastChatWorker
    }

    /// Whether the endpoint generates tokens, so that their number can be asked for.
    #[must_use]
    pub fn generates(self) -> bool {
        !matches!(self, Dialect::Embeddings | Dialect::TritonInfer)
    }

    /// How the body of a good answer is cut.
    pub(super) fn framing(self, stream: bool) -> Framing {
        match self {
            Dialect::FastChatWorker => Framing::Records,
            _ if stream => Framing::Events,
            _ => Framing::Document,
        }
    }

    /// The request's body before and after the prompt, which needs no escaping. Before it is cut where the number of output
    /// tokens stands.
    pub(super) fn body(self, options: &GenerationOptions) -> (Vec<Vec<u8>>, Vec<u8>) {
        let (before, after) = match self {
            Dialect::Chat => openai::chat_body(options),
            Dialect::Completions => openai::completions_body(options),
            Dialect::Responses => responses::body(options),
            Dialect::Embeddings => embeddings::body(options),
            Dialect::Tgi => tgi::body(),
            Dialect::TritonGenerate => triton::generate_body(options),
            Dialect::TritonInfer => triton::infer_body(),
            Dialect::LlamaCpp => llamacpp::body(options),
            Dialect::FastChatWorker => fastchat::body(options),
        };
        let mark = OUTPUT_TOKENS.to_string();
        let pieces = before.split(&mark).map(|piece| piece.as_bytes().to_vec());
        (pieces.collect(), after.as_bytes().to_vec())
    }

    /// Reads one event or one document.
    pub(super) fn decode(self, data: &[u8]) -> Result<Decoded, serde_json::Error> {
        match self {
            Dialect::Chat | Dialect::Completions => decode::decode(data),
            Dialect::Responses => responses::decode(data),
            Dialect::Embeddings => embeddings::decode(data),
            Dialect::Tgi => tgi::decode(data),
            Dialect::TritonGenerate | Dialect::TritonInfer => triton::decode(data),
            Dialect::LlamaCpp => llamacpp::decode(data),
            Dialect::FastChatWorker => fastchat::decode(data),
        }
    }
}

/// The members of a body as text, opened for a last member: the closing brace is left out.
fn opened(body: &serde_json::Value) -> String {
    let mut text = body.to_string();
    text.pop();
    text
}
