//! The conversation as a model is shown it, independent of any provider's wire.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// True where the model wrote the call into the words of its answer and it was taken from there.
    #[serde(default, skip_serializing_if = "is_not")]
    pub from_text: bool,
    /// What the provider attached to the call and wants back unchanged with it, such as a signature
    /// of the reasoning behind it. Means nothing to anybody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
}

impl RawCall {
    /// A complete call without an id, as the tool protocol carries it.
    pub fn new(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self {
            provider_id: None,
            name: name.into(),
            arguments: arguments.into(),
            complete: true,
            from_text: false,
            extra: None,
        }
    }
}

const fn complete() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde calls"
)]
const fn is_not(flag: &bool) -> bool {
    !*flag
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

/// What a model thought before it answered, as far as its provider shows it.
///
/// In JSON its two fields stand in the message or event that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Reasoning {
    /// The words; empty where the provider keeps them to itself.
    #[serde(rename = "reasoning")]
    pub text: String,
    /// The parts as the provider sent them, signatures and encrypted ones included, to be sent back
    /// as they are.
    #[serde(
        rename = "reasoning_details",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub details: Vec<Value>,
}

impl Reasoning {
    /// Reasoning of which there are only words; `None` where there are none.
    #[must_use]
    pub fn of_words(text: String) -> Option<Self> {
        let words = Self {
            text,
            details: Vec::new(),
        };
        (!words.is_blank()).then_some(words)
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.text.trim().is_empty() && self.details.is_empty()
    }

    /// Changes every text in it, those inside the parts included. For cutting secrets out: a part
    /// that is changed may lose its signature, one that isn't stays as it is.
    #[must_use]
    pub fn map_texts(self, change: &mut dyn FnMut(String) -> String) -> Self {
        Self {
            text: change(self.text),
            details: self
                .details
                .into_iter()
                .map(|part| map_texts(part, change))
                .collect(),
        }
    }
}

fn map_texts(value: Value, change: &mut dyn FnMut(String) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(items) => items
            .into_iter()
            .map(|item| map_texts(item, change))
            .collect(),
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| (name, map_texts(value, change)))
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
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
        #[serde(flatten)]
        reasoning: Option<Reasoning>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(reasoning: Option<Reasoning>) -> Message {
        Message::Assistant {
            text: "yes".to_owned(),
            reasoning,
            calls: Vec::new(),
        }
    }

    #[test]
    fn reasoning_stands_beside_the_words_and_comes_back_as_it_was() {
        let hidden =
            json!({"type": "reasoning.encrypted", "data": "AbC+/=\u{fffd}", "z": 1, "a": 1.0});
        let with_details = Reasoning {
            text: "hm".to_owned(),
            details: vec![hidden.clone()],
        };
        for (message, written) in [
            (
                said(None),
                json!({"role": "assistant", "text": "yes", "calls": []}),
            ),
            (
                said(Reasoning::of_words("hm".to_owned())),
                json!({"role": "assistant", "text": "yes", "reasoning": "hm", "calls": []}),
            ),
            (
                said(Some(with_details)),
                json!({"role": "assistant", "text": "yes", "reasoning": "hm",
                    "reasoning_details": [hidden], "calls": []}),
            ),
        ] {
            let text = serde_json::to_string(&message).unwrap();
            assert_eq!(text, written.to_string());
            assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), message);
        }
    }

    #[test]
    fn every_text_of_reasoning_can_be_changed() {
        let reasoning = Reasoning {
            text: "a".to_owned(),
            details: vec![json!({"text": "b", "parts": ["c", 1]})],
        };
        let changed = reasoning.map_texts(&mut |text| text.to_uppercase());
        assert_eq!(changed.text, "A");
        assert_eq!(changed.details, [json!({"text": "B", "parts": ["C", 1]})]);
    }

    #[test]
    fn an_ordinary_call_is_written_without_what_it_lacks() {
        let call = RawCall::new("list", "{}");
        let text = serde_json::to_string(&call).unwrap();
        assert_eq!(text, r#"{"name":"list","arguments":"{}"}"#);
        assert_eq!(serde_json::from_str::<RawCall>(&text).unwrap(), call);
    }
}
