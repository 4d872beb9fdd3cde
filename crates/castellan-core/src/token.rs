//! How many tokens a request has: an estimate by size, corrected by what a provider counted.
//!
//! No tokenizer is asked: each model has its own, and one for the wrong model is no better than a
//! ratio that was learnt from the right one.

use serde_json::Value;

use crate::message::{Message, Reasoning};
use crate::model::{ToolCard, Usage};

/// Bytes of a token before anything has been learnt. Of text in ASCII a byte is a character; other
/// scripts have more tokens for each character, and more bytes.
const UNLEARNT: f64 = 3.5;

/// Ratios outside of this are a miscount (a provider that counts only what was not in its cache, or
/// adds instructions of its own), not a language.
const SENSIBLE: std::ops::RangeInclusive<f64> = 1.5..=6.0;

/// What the frame around a message or a tool costs, in bytes.
const FRAME: usize = 16;

/// What a picture counts for, in bytes of text: providers charge some hundred to two thousand
/// tokens, by its size in pixels and not in bytes.
const PICTURE: usize = 4_000;

/// Requests of fewer tokens teach nothing: in them the frame outweighs the text.
const LEAST_TO_LEARN: u64 = 200;

/// How many bytes of a conversation one token of a model stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio(f64);

impl Default for Ratio {
    fn default() -> Self {
        Self(UNLEARNT)
    }
}

impl Ratio {
    /// The ratio after a request with these messages and tools was counted. One that says nothing
    /// sensible leaves it as it is.
    #[must_use]
    pub fn learnt(self, messages: &[Message], tools: &[ToolCard], usage: &Usage) -> Self {
        self.counted(size(messages, tools), usage.prompt_tokens)
    }

    /// The ratio after a request of this [`size`] was counted.
    #[must_use]
    pub fn counted(self, size: u64, tokens: u64) -> Self {
        if tokens < LEAST_TO_LEARN {
            return self;
        }
        let ratio = as_float(size) / as_float(tokens);
        if SENSIBLE.contains(&ratio) {
            Self(ratio)
        } else {
            self
        }
    }

    /// How many tokens the messages and tools are, roughly.
    #[must_use]
    pub fn estimate(self, messages: &[Message], tools: &[ToolCard]) -> u64 {
        self.tokens(size(messages, tools))
    }

    /// How many bytes so many tokens are, roughly.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count times a small positive number, far below the limits of either type"
    )]
    pub fn bytes(self, tokens: u64) -> u64 {
        (as_float(tokens) * self.0) as u64
    }

    /// How many tokens a text of this many bytes is, roughly; rounded up.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a size divided by a positive number, far below the limits of either type"
    )]
    pub fn tokens(self, bytes: u64) -> u64 {
        (as_float(bytes) / self.0).ceil() as u64
    }
}

/// How many tokens the messages and tools are, roughly, for a model of which nothing is known.
///
/// ```
/// use castellan_core::{Message, token};
///
/// let said = Message::User { text: "a".repeat(3_500) };
/// assert_eq!(token::estimate(&[said], &[]), 1_005);
/// ```
#[must_use]
pub fn estimate(messages: &[Message], tools: &[ToolCard]) -> u64 {
    Ratio::default().estimate(messages, tools)
}

/// How large messages and tools are together, in bytes: their texts and a frame around each.
/// Reasoning counts only where it is signed or hidden, because mere words of it are rarely sent.
#[must_use]
pub fn size(messages: &[Message], tools: &[ToolCard]) -> u64 {
    let messages: usize = messages.iter().map(|said| FRAME + of_message(said)).sum();
    let tools: usize = tools
        .iter()
        .map(|tool| FRAME + tool.name.len() + tool.description.len() + of_json(&tool.parameters))
        .sum();
    u64::try_from(messages.saturating_add(tools)).unwrap_or(u64::MAX)
}

fn of_message(message: &Message) -> usize {
    match message {
        Message::System { text } | Message::User { text } => text.len(),
        Message::Assistant {
            text,
            reasoning,
            calls,
        } => {
            let calls: usize = calls
                .iter()
                .map(|call| FRAME + call.raw.name.len() + call.raw.arguments.len())
                .sum();
            text.len() + calls + reasoning.as_ref().map_or(0, of_reasoning)
        }
        Message::ToolResult { output, .. } => output.len(),
        Message::Picture { caption, data, .. } => {
            caption.len() + data.as_ref().map_or(0, |_| PICTURE)
        }
    }
}

fn of_reasoning(reasoning: &Reasoning) -> usize {
    reasoning.details.iter().map(of_json).sum()
}

/// The length of a value as JSON, near enough: escapes are not counted.
fn of_json(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| of_json(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| name.len() + 4 + of_json(value);
            2 + fields.iter().map(field).sum::<usize>()
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "sizes of conversations are exact up to 2^53, and this is an estimate"
)]
const fn as_float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::CallId;
    use crate::message::{IssuedCall, RawCall};
    use proptest::prelude::*;
    use serde_json::json;

    fn user(text: &str) -> Message {
        Message::User {
            text: text.to_owned(),
        }
    }

    fn counted(prompt_tokens: u64) -> Usage {
        Usage {
            prompt_tokens,
            ..Usage::default()
        }
    }

    #[test]
    fn everything_that_is_sent_counts() {
        let call_id: CallId = "call_00000000000000000000000000000001".parse().unwrap();
        let call = IssuedCall {
            call_id,
            raw: RawCall::new("list", "x".repeat(700)),
        };
        let all = [
            user(&"x".repeat(350)),
            Message::Assistant {
                text: String::new(),
                reasoning: None,
                calls: vec![call],
            },
            Message::ToolResult {
                call_id,
                name: "list".to_owned(),
                output: "x".repeat(1400),
                is_error: false,
            },
        ];
        let tool = ToolCard {
            name: "list".to_owned(),
            description: "x".repeat(350),
            parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        };
        let estimate = estimate(&all, &[tool]);
        assert!((800..860).contains(&estimate), "{estimate}");
        assert_eq!(super::estimate(&[], &[]), 0);
    }

    #[test]
    fn the_next_estimate_is_corrected_by_the_last_count() {
        let said = [user(&"word ".repeat(2_000))];
        let ratio = Ratio::default().learnt(&said, &[], &counted(2_504));
        assert_eq!(ratio.estimate(&said, &[]), 2_504);
        let twice = [user(&"word ".repeat(4_000))];
        assert_eq!(ratio.estimate(&twice, &[]), 5_004);
    }

    #[test]
    fn a_count_that_makes_no_sense_teaches_nothing() {
        let said = [user(&"word ".repeat(2_000))];
        for count in [0, 100, 500, 100_000] {
            let ratio = Ratio::default().learnt(&said, &[], &counted(count));
            assert_eq!(ratio, Ratio::default(), "{count}");
        }
    }

    #[test]
    fn a_script_of_many_tokens_is_not_underestimated() {
        // Real tokenizers make 0.6 to 1.1 tokens of such a character.
        let estimate = estimate(&[user(&"汉".repeat(1_000))], &[]);
        assert!((600..=1_100).contains(&estimate), "{estimate}");
    }

    proptest! {
        #[test]
        fn more_text_is_never_fewer_tokens(
            before in "\\PC{0,300}", more in "\\PC{0,40}", count in 0_u64..2_000,
        ) {
            let ratio = Ratio::default().learnt(&[user(&before)], &[], &counted(count));
            let longer = format!("{before}{more}");
            prop_assert!(
                ratio.estimate(&[user(&longer)], &[]) >= ratio.estimate(&[user(&before)], &[])
            );
        }
    }
}
