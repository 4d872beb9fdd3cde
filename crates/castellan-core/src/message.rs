//! The conversation as a model is shown it, independent of any provider's wire.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::CallId;
use crate::picture::PictureRef;

/// A tool call exactly as a model sent it, before anything has been made of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RawCall {
    /// The id the provider gave, if any. Not unique: some providers send a constant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The tool's name as sent.
    pub name: String,
    /// The arguments as sent, which need not be valid JSON.
    pub arguments: String,
    /// False where the model's output ended inside this call. Such a call is never run.
    #[serde(default = "complete", skip_serializing_if = "is_complete")]
    pub complete: bool,
}

const fn complete() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde calls"
)]
const fn is_complete(complete: &bool) -> bool {
    *complete
}

/// A call in the history: what the model sent, under the id minted for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IssuedCall {
    /// Unique in the whole store.
    pub call_id: CallId,
    /// What the model sent.
    #[serde(flatten)]
    pub raw: RawCall,
}

/// One entry of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Standing instructions.
    System {
        /// The instructions.
        text: String,
    },
    /// What the person (or whoever drives the session) said.
    User {
        /// The words.
        text: String,
    },
    /// What the model answered. Text, calls or both; never neither.
    Assistant {
        /// The words, empty where the model only called tools.
        text: String,
        /// Reasoning the provider showed, kept apart from the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
        /// The calls, in the order the model made them.
        calls: Vec<IssuedCall>,
    },
    /// A picture that belongs to what stands before it.
    Picture {
        /// Where it comes from.
        caption: String,
        /// What it is.
        picture: PictureRef,
        /// The encoded picture, once it has been read.
        #[serde(skip)]
        data: Option<Arc<[u8]>>,
    },
    /// What one call came to. Every call of an assistant message has exactly one.
    ToolResult {
        /// The call that this answers.
        call_id: CallId,
        /// The tool's name.
        name: String,
        /// What the model reads; never empty.
        output: String,
        /// Whether the output reports a failure.
        is_error: bool,
    },
}
