//! What a server turns out not to take, and how it is done without.
//!
//! Servers that call themselves compatible differ in what they refuse. A refusal that names
//! something we sent is a lesson: the request is made again without it, at once, and so are all
//! later ones. A lesson is about what stood in the request, so none is learnt twice.

use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Map, Value};

/// Something a request may have that a server may refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    /// `stream_options`, which asks for the count of tokens.
    Counting,
    /// `max_tokens`, which newer models want as `max_completion_tokens`.
    MaxTokens,
    /// `max_completion_tokens`, which older servers know as `max_tokens`.
    MaxCompletionTokens,
    /// `parallel_tool_calls`.
    ParallelCalls,
    /// Reasoning of earlier answers.
    Reasoning,
    /// What the provider attached to a call; another one may not know it.
    CallExtra,
    /// The role `system`; its words go into the next message of the user.
    SystemRole,
    /// `null` for the content of a message that has calls only.
    NullContent,
    /// `""` for it.
    EmptyContent,
    /// No content in it.
    NoContent,
    /// An answer in pieces.
    Streaming,
}

/// What a server has refused so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Refused(u16);

impl Refused {
    /// Whether this was.
    pub(super) const fn has(self, habit: Habit) -> bool {
        self.0 & (1 << habit as u16) != 0
    }

    /// With this, too.
    pub(super) const fn with(self, habit: Habit) -> Self {
        Self(self.0 | (1 << habit as u16))
    }

    /// Takes out of a body what was refused, whoever put it in.
    pub(super) fn apply(self, body: &mut Map<String, Value>) {
        for (habit, field) in [
            (Habit::Counting, "stream_options"),
            (Habit::ParallelCalls, "parallel_tool_calls"),
        ] {
            if self.has(habit) {
                body.remove(field);
            }
        }
        for (habit, other, from, to) in [
            (
                Habit::MaxTokens,
                Habit::MaxCompletionTokens,
                "max_tokens",
                "max_completion_tokens",
            ),
            (
                Habit::MaxCompletionTokens,
                Habit::MaxTokens,
                "max_completion_tokens",
                "max_tokens",
            ),
        ] {
            if self.has(habit)
                && let Some(limit) = body.remove(from)
                && !self.has(other)
            {
                body.entry(to).or_insert(limit);
            }
        }
        if self.has(Habit::Streaming) {
            body.insert("stream".to_owned(), Value::Bool(false));
            body.remove("stream_options");
        }
    }
}

/// What has been learnt of a server, by all who ask it.
#[derive(Debug, Default)]
pub(super) struct Lessons(AtomicU16);

impl Lessons {
    pub(super) fn refused(&self) -> Refused {
        Refused(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn learn(&self, habit: Habit) {
        self.0.fetch_or(Refused(0).with(habit).0, Ordering::Relaxed);
    }
}

/// Fields of a message that hold reasoning.
const REASONING: &[&str] = &[
    "reasoning_content",
    "reasoning_details",
    "thinking_blocks",
    "reasoning",
];

/// Words by which something is refused.
const REFUSALS: &[&str] = &[
    "not support",
    "n't support",
    "unsupported",
    "unrecognized",
    "unrecognised",
    "unknown",
    "unexpected",
    "not permitted",
    "not allowed",
    "not enabled",
    "not a valid",
    "extra input",
    "extra field",
    "invalid",
    "must be",
    "should",
    "only ",
    "additional propert",
];

/// Words by which the lack of content is refused.
const LACKS: &[&str] = &[
    "null", "none", "string", "missing", "required", "empty", "blank", "valid",
];

/// What a complaint about the request `sent` says has to be left out of it.
pub(super) fn lesson(complaint: &str, sent: &Value) -> Option<Habit> {
    let said = complaint.to_lowercase();
    let names = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let has = |field: &str| !sent[field].is_null();
    let refuses = || names(REFUSALS);
    if has("stream_options") && names(&["stream_options", "include_usage"]) {
        return Some(Habit::Counting);
    }
    if has("max_tokens") && names(&["max_completion_tokens"]) && refuses() {
        return Some(Habit::MaxTokens);
    }
    if has("max_completion_tokens") && names(&["max_completion_tokens"]) && refuses() {
        return Some(Habit::MaxCompletionTokens);
    }
    if has("parallel_tool_calls") && names(&["parallel_tool_calls", "parallel tool calls"]) {
        return Some(Habit::ParallelCalls);
    }
    let messages = || sent["messages"].as_array().into_iter().flatten();
    let sends_reasoning =
        || messages().any(|message| REASONING.iter().any(|field| message.get(field).is_some()));
    if names(&["reasoning", "thinking"]) && sends_reasoning() {
        return Some(Habit::Reasoning);
    }
    let mut calls =
        messages().flat_map(|message| message["tool_calls"].as_array().into_iter().flatten());
    if names(&["extra_content", "thought_signature"])
        && calls.any(|call| call.get("extra_content").is_some())
    {
        return Some(Habit::CallExtra);
    }
    let speaks_as_system = || messages().any(|message| message["role"] == "system");
    let is_about_system = || {
        let role = names(&["system", "developer"])
            && names(&["role", "message", "instruction", "prompt"])
            && refuses();
        role || names(&["only user and assistant roles", "roles must alternate"])
    };
    if speaks_as_system() && is_about_system() {
        return Some(Habit::SystemRole);
    }
    if (names(&["content"]) && names(LACKS)) || names(&["nonetype"]) {
        let blank = messages()
            .filter(|message| message["role"] == "assistant")
            .find_map(blank_content);
        if blank.is_some() {
            return blank;
        }
    }
    let is_about_streaming =
        names(&["streaming", "`stream`", "'stream'", "stream=true"]) && refuses();
    (sent["stream"] == true && is_about_streaming).then_some(Habit::Streaming)
}

/// How an assistant message without words is written, if it is one.
fn blank_content(message: &Value) -> Option<Habit> {
    match message.get("content") {
        None => Some(Habit::NoContent),
        Some(Value::Null) => Some(Habit::NullContent),
        Some(Value::String(text)) if text.is_empty() => Some(Habit::EmptyContent),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request() -> Value {
        json!({
            "stream": true,
            "stream_options": {"include_usage": true},
            "max_tokens": 100,
            "parallel_tool_calls": true,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "assistant", "content": null, "reasoning_content": "hm",
                    "tool_calls": [{"id": "a", "extra_content": {"google": {}}}]},
            ],
        })
    }

    #[test]
    fn a_refusal_names_what_to_leave_out() {
        for (said, habit) in [
            (
                "Unrecognized request argument supplied: stream_options",
                Habit::Counting,
            ),
            (
                "body.stream_options.include_usage: Extra inputs are not permitted",
                Habit::Counting,
            ),
            (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
              'max_completion_tokens' instead.",
                Habit::MaxTokens,
            ),
            (
                "Unknown parameter: 'parallel_tool_calls'",
                Habit::ParallelCalls,
            ),
            (
                "messages.1.reasoning_content: Extra inputs are not permitted",
                Habit::Reasoning,
            ),
            (
                "property 'messages.1.reasoning_content' is unsupported",
                Habit::Reasoning,
            ),
            ("Invalid `signature` in `thinking` block", Habit::Reasoning),
            (
                "Unknown name \"extra_content\" at 'messages[1].tool_calls[0]'",
                Habit::CallExtra,
            ),
            ("System role not supported", Habit::SystemRole),
            (
                "Developer instruction is not enabled for models/gemma-3-27b-it",
                Habit::SystemRole,
            ),
            (
                "Only user and assistant roles are supported!",
                Habit::SystemRole,
            ),
            (
                "Conversation roles must alternate user/assistant/user/assistant/...",
                Habit::SystemRole,
            ),
            (
                "Invalid value for 'content': expected a string, got null.",
                Habit::NullContent,
            ),
            (
                "messages.1.content: Input should be a valid string",
                Habit::NullContent,
            ),
            (
                "can only concatenate str (not \"NoneType\") to str",
                Habit::NullContent,
            ),
            ("streaming is not supported with tools", Habit::Streaming),
        ] {
            assert_eq!(lesson(said, &request()), Some(habit), "{said}");
        }
    }

    #[test]
    fn a_complaint_about_something_else_teaches_nothing() {
        for said in [
            "",
            "invalid tool name",
            "max_tokens is too large: 100000",
            "the model does not support tools",
            "invalid system configuration",
            "upstream error: unknown host",
            "temperature must be at most 2",
        ] {
            assert_eq!(lesson(said, &request()), None, "{said}");
        }
    }

    #[test]
    fn what_was_not_sent_is_not_left_out() {
        let plain = json!({"stream": true, "messages": [{"role": "user", "content": "hi"}]});
        for said in [
            "stream_options is not supported",
            "use max_completion_tokens, max_tokens is not supported",
            "parallel_tool_calls is unknown",
            "reasoning_content is unknown",
            "unknown field extra_content",
            "System role not supported",
            "content must be a string, not null",
        ] {
            assert_eq!(lesson(said, &plain), None, "{said}");
        }
    }

    #[test]
    fn what_was_refused_is_taken_out_of_the_body() {
        let all = [
            Habit::Counting,
            Habit::MaxTokens,
            Habit::ParallelCalls,
            Habit::Streaming,
        ];
        let refused = all.into_iter().fold(Refused::default(), Refused::with);
        let Value::Object(mut body) = request() else {
            unreachable!("the request is an object")
        };
        refused.apply(&mut body);
        body.remove("messages");
        assert_eq!(
            Value::Object(body),
            json!({"stream": false, "max_completion_tokens": 100})
        );
        let mut body = Map::from_iter([("max_tokens".to_owned(), json!(1))]);
        let both = refused.with(Habit::MaxCompletionTokens);
        both.apply(&mut body);
        assert!(!body.contains_key("max_tokens") && !body.contains_key("max_completion_tokens"));
    }
}
