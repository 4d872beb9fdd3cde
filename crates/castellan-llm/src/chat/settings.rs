//! How a chat model is reached and asked.

use std::time::Duration;

use castellan_host::http::Timeouts;
use serde_json::{Map, Value};

use crate::key::ApiKey;

/// Requests made for one answer before giving up, the first included.
pub const ATTEMPTS: u32 = 4;

/// The longest wait between two tries, whatever the server asks for.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How long until an answer begins. A local model reads a long conversation for minutes before it
/// says the first word.
pub const FIRST_BYTE: Duration = Duration::from_secs(600);

/// How long a stream may be silent.
pub const IDLE: Duration = Duration::from_secs(300);

/// What stands in an assistant message that has calls and no words. Servers differ in what they
/// take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlankContent {
    /// `"content": null`, as the API documents it.
    #[default]
    Null,
    /// `"content": ""`.
    Empty,
    /// No `content` at all.
    Omitted,
}

/// The field in which reasoning of earlier answers is sent back to a model that wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningField {
    /// `reasoning_content`: the words.
    Content,
    /// `reasoning`: the words.
    Reasoning,
    /// `reasoning_details`: the parts as they came, signatures and encrypted ones included.
    Details,
    /// `thinking_blocks`: the same under another name.
    ThinkingBlocks,
}

/// One model at one server.
#[derive(Debug, Clone)]
pub struct ChatSettings {
    /// The name it has in the configuration.
    pub name: String,
    /// Where its API is, such as `http://127.0.0.1:11434/v1`. A trailing slash, an address that
    /// ends in `/chat/completions` and a query are fine.
    pub base_url: String,
    /// The name its server knows it by; empty for the first one the server lists.
    pub model: String,
    /// The key, sent as a bearer token.
    pub api_key: Option<ApiKey>,
    /// Where the key came from, or would come from, for people: `OPENAI_API_KEY in the
    /// environment`. May be empty.
    pub key_source: String,
    /// How many tokens it takes, where that is known.
    pub context_window: Option<u64>,
    /// Whether it takes images.
    pub supports_vision: bool,
    /// Where reasoning is sent back that belongs to answers since the user last spoke; `None` for
    /// a model that does not want it.
    pub send_reasoning: Option<ReasoningField>,
    /// Fields for the request's body, set last, over what stands there.
    pub extra_body: Map<String, Value>,
    /// Requests made for one answer before giving up; at least one is made.
    pub attempts: u32,
    /// The longest wait between two tries, whatever the server asks for.
    pub longest_wait: Duration,
    /// Time limits of each request.
    pub timeouts: Timeouts,
    /// How an assistant message without words is written at first. A server that refuses it gets
    /// the others.
    pub blank_content: BlankContent,
}

impl ChatSettings {
    /// A model without a key, with the usual limits.
    pub fn new(
        name: impl Into<String>,
        base_url: impl Into<String>,
        model: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            base_url: base_url.into(),
            model: model.into(),
            api_key: None,
            key_source: String::new(),
            context_window: None,
            supports_vision: false,
            send_reasoning: None,
            extra_body: Map::new(),
            attempts: ATTEMPTS,
            longest_wait: LONGEST_WAIT,
            timeouts: Timeouts {
                first_byte: FIRST_BYTE,
                idle: IDLE,
            },
            blank_content: BlankContent::default(),
        }
    }
}
