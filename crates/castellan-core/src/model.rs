//! The port through which a model is reached, and the one stream of events every provider becomes.

use futures::stream::BoxStream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cancel::Cancel;
use crate::code::ErrorCode;
use crate::message::{Message, RawCall, Reasoning};

/// A tool as a model is told of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolCard {
    /// Its name.
    pub name: String,
    /// What it does, in full.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

/// One request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools the model may call.
    pub tools: Vec<ToolCard>,
}

/// What a model is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// The name it has in the configuration.
    pub name: String,
    /// The name its server knows it by.
    pub model: String,
    /// How many tokens it takes in and gives out together, where that is known.
    pub context_window: Option<u64>,
    /// Whether it takes images.
    pub supports_vision: bool,
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It had said all it wanted.
    Stop,
    /// It wants its tool calls answered.
    ToolCalls,
    /// It ran out of output tokens; the last call or sentence may be cut.
    Length,
    /// Its server withheld the rest.
    ContentFilter,
    /// A reason that is none of the above, in the provider's word.
    Other(String),
}

/// Tokens used by one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens read, those from the provider's cache included.
    pub prompt_tokens: u64,
    /// Tokens written, those of reasoning included.
    pub completion_tokens: u64,
    /// Of the tokens read: those the provider had in its cache. 0 where it doesn't say.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// Of the tokens written: those of reasoning. 0 where the server doesn't say.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde calls"
)]
pub(crate) const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A complete answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelReply {
    /// The words.
    pub text: String,
    /// Reasoning that was shown apart from the answer.
    pub reasoning: Option<Reasoning>,
    /// The calls, in the order the model made them.
    pub calls: Vec<RawCall>,
    /// Why it stopped.
    pub finish: Finish,
    /// Tokens, where the server counted them.
    pub usage: Option<Usage>,
    /// How many requests it took; 1 without retries.
    pub attempts: u32,
}

/// What a model's answer looks like while it arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelEvent {
    /// More words.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// What arrived so far is void: the request failed and is made again after a pause.
    Restart {
        /// What kind of failure it was.
        code: ErrorCode,
        /// What went wrong.
        reason: String,
        /// How long until the next try, in milliseconds.
        wait_ms: u64,
    },
    /// The complete answer; the last event.
    Reply(ModelReply),
}

/// By how much a conversation is too long, as far as the server said it. In tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overflow {
    /// How many the model takes.
    pub limit: Option<u64>,
    /// How many it was asked to take.
    pub asked: Option<u64>,
}

/// A request that came to nothing, after all tries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// Which kind of failure.
    pub code: ErrorCode,
    /// What happened, with the server's own words where it sent any.
    pub message: String,
    /// What a person can do about it; may be empty.
    pub hint: String,
    /// For [`ErrorCode::ModelContextOverflow`]: the sizes the server named.
    pub overflow: Option<Overflow>,
}

impl ModelError {
    /// An error without a hint.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: String::new(),
            overflow: None,
        }
    }
}

/// A model that can be asked.
pub trait Model: Send + Sync {
    /// What it is.
    fn info(&self) -> &ModelInfo;

    /// Asks it. The stream ends after [`ModelEvent::Reply`] or an error. Once `cancel` resolves it
    /// ends with [`ErrorCode::Cancelled`] without waiting for anything.
    fn ask(
        &self,
        request: ModelRequest,
        cancel: Cancel,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>>;
}
