//! A conversation as the body of a Chat Completions request.
//!
//! Servers refuse a request for ever over one malformed message in it, so what is written here is
//! well-formed whatever the history holds:
//!
//! - each call's result stands right behind it, once, in the order of the calls; a result without
//!   a call is left out, a call without a result gets one that says so;
//! - ids are the provider's own where one names a single call in the whole request, else ours;
//! - arguments are a JSON object: byte for byte what the model sent where that is one, else what the
//!   gate understood of it, else `{"_raw": "what the model sent"}`;
//! - no text is empty.

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use castellan_core::message::IssuedCall;
use castellan_core::model::ToolCard;
use castellan_core::{CallId, Message, ModelRequest, PictureRef, RawCall, Reasoning, arguments};
use serde_json::{Map, Value, json};

use super::dialect::{Habit, Refused};
use super::settings::{BlankContent, ChatSettings, ReasoningField};

/// The property that holds arguments nothing could be made of.
pub const RAW_ARGUMENTS: &str = "_raw";

/// What stands for a result of no words.
const NO_OUTPUT: &str = "(no output)";

/// What stands for a result that is missing.
const NO_RESULT: &str =
    "(interrupted: no result was recorded; whether it took effect is not known)";

/// What stands for a message of no words.
const NO_WORDS: &str = "(empty message)";

/// What stands for a name that can't be sent.
const NO_NAME: &str = "unnamed";

/// The longest id and the longest name that all servers take.
const LONGEST_ID: usize = 40;
const LONGEST_NAME: usize = 64;

/// What stands beside calls for a server that takes no message without words.
const ONLY_CALLS: &str = "(calling tools)";

/// The body of a request to `model`, without what its server has `refused`.
pub(super) fn body(
    request: &ModelRequest,
    settings: &ChatSettings,
    model: &str,
    refused: Refused,
) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    let writer = Writer::new(request, settings, refused);
    body.insert(
        "messages".to_owned(),
        Value::Array(writer.messages(&request.messages)),
    );
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    body.insert("stream".to_owned(), json!(true));
    body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    for (key, value) in &settings.extra_body {
        body.insert(key.clone(), value.clone());
    }
    refused.apply(&mut body);
    Value::Object(body)
}

fn tool(card: &ToolCard) -> Value {
    let parameters = if card.parameters.is_object() {
        card.parameters.clone()
    } else {
        json!({"type": "object", "properties": {}})
    };
    json!({
        "type": "function",
        "function": {
            "name": card.name,
            "description": card.description,
            "parameters": parameters,
        },
    })
}

struct Writer<'a> {
    tools: &'a [ToolCard],
    /// What stands in a message without words; `None` for no content at all.
    blank: Option<Value>,
    send_reasoning: Option<ReasoningField>,
    refused: Refused,
    /// How many calls have each id that a provider gave.
    provider_ids: HashMap<&'a str, usize>,
    results: HashMap<CallId, &'a str>,
}

impl<'a> Writer<'a> {
    fn new(request: &'a ModelRequest, settings: &ChatSettings, refused: Refused) -> Self {
        let mut provider_ids = HashMap::new();
        let mut results = HashMap::new();
        for message in &request.messages {
            match message {
                Message::Assistant { calls, .. } => {
                    for id in calls
                        .iter()
                        .filter_map(|call| call.raw.provider_id.as_deref())
                    {
                        *provider_ids.entry(id).or_insert(0) += 1;
                    }
                }
                Message::ToolResult {
                    call_id, output, ..
                } => {
                    results.insert(*call_id, output.as_str());
                }
                Message::System { .. } | Message::User { .. } | Message::Picture { .. } => {}
            }
        }
        Self {
            tools: &request.tools,
            blank: blank_content(settings.blank_content, refused),
            send_reasoning: settings
                .send_reasoning
                .filter(|_| !refused.has(Habit::Reasoning)),
            refused,
            provider_ids,
            results,
        }
    }

    fn messages(&self, messages: &[Message]) -> Vec<Value> {
        let mut out = Vec::with_capacity(messages.len());
        // Reasoning belongs to the turn it was made in: providers want it back within a loop of
        // tool calls and refuse or ignore it afterwards.
        let turn = messages
            .iter()
            .rposition(|message| matches!(message, Message::User { .. }));
        // Words of the system for a server that knows no such role.
        let mut standing = String::new();
        for (place, message) in messages.iter().enumerate() {
            match message {
                Message::System { text } if is_blank(text) => {}
                Message::System { text } if self.refused.has(Habit::SystemRole) => {
                    standing.push_str(text);
                    standing.push_str("\n\n");
                }
                Message::System { text } => out.push(json!({"role": "system", "content": text})),
                Message::User { text } => {
                    let text = std::mem::take(&mut standing) + or(text, NO_WORDS);
                    told(&mut out, vec![words(&text)]);
                }
                Message::Picture {
                    caption,
                    picture,
                    data,
                } => {
                    let mut parts = vec![words(&format!("[{caption}]"))];
                    parts.extend(data.as_deref().map(|data| seen(picture, data)));
                    told(&mut out, parts);
                }
                Message::Assistant {
                    text,
                    reasoning,
                    calls,
                } => {
                    if !standing.is_empty() {
                        let text = std::mem::take(&mut standing);
                        out.push(json!({"role": "user", "content": text.trim_end()}));
                    }
                    let is_of_turn = turn.is_none_or(|turn| turn < place);
                    let reasoning = reasoning.as_ref().filter(|_| is_of_turn);
                    self.assistant(text, reasoning, calls, &mut out);
                }
                // Written behind its call.
                Message::ToolResult { .. } => {}
            }
        }
        if !standing.is_empty() {
            out.push(json!({"role": "user", "content": standing.trim_end()}));
        }
        out
    }

    fn assistant(
        &self,
        text: &str,
        reasoning: Option<&Reasoning>,
        calls: &[IssuedCall],
        out: &mut Vec<Value>,
    ) {
        let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
        if !is_blank(text) {
            message.insert("content".to_owned(), json!(text));
        } else if calls.is_empty() {
            // Nothing was said: servers refuse such a message, and the model loses nothing.
            return;
        } else if let Some(content) = &self.blank {
            message.insert("content".to_owned(), content.clone());
        }
        let reasoning = reasoning.zip(self.send_reasoning);
        if let Some((name, value)) = reasoning.and_then(|(reasoning, field)| sent(reasoning, field))
        {
            message.insert(name.to_owned(), value);
        }
        if !calls.is_empty() {
            let calls = calls.iter().map(|call| self.call(call)).collect();
            message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        out.push(Value::Object(message));
        for call in calls {
            let output = self.results.get(&call.call_id);
            out.push(json!({
                "role": "tool",
                "tool_call_id": self.id(call),
                "content": output.map_or(NO_RESULT, |output| or(output, NO_OUTPUT)),
            }));
        }
    }

    fn call(&self, call: &IssuedCall) -> Value {
        let mut written = json!({
            "id": self.id(call),
            "type": "function",
            "function": {
                "name": self.name(&call.raw.name),
                "arguments": arguments_of(&call.raw),
            },
        });
        let extra = call.raw.extra.as_ref();
        if let Some(extra) = extra.filter(|_| !self.refused.has(Habit::CallExtra)) {
            written["extra_content"] = extra.clone();
        }
        written
    }

    fn id(&self, call: &IssuedCall) -> String {
        let own = call.raw.provider_id.as_deref().filter(|id| {
            !is_blank(id) && id.len() <= LONGEST_ID && self.provider_ids.get(id) == Some(&1)
        });
        own.map_or_else(|| call.call_id.to_string(), str::to_owned)
    }

    /// The name as sent where it is a tool's, else in letters that every server takes: a name the
    /// model made up must not make the history unusable.
    fn name(&self, name: &str) -> String {
        if self.tools.iter().any(|tool| tool.name == name) {
            return name.to_owned();
        }
        let name: String = name
            .trim()
            .chars()
            .map(|letter| {
                if letter.is_ascii_alphanumeric() || letter == '-' {
                    letter
                } else {
                    '_'
                }
            })
            .take(LONGEST_NAME)
            .collect();
        if name.is_empty() {
            NO_NAME.to_owned()
        } else {
            name
        }
    }
}

/// Reasoning as the field a model wants it in; `None` where there is none of that kind.
fn sent(reasoning: &Reasoning, field: ReasoningField) -> Option<(&'static str, Value)> {
    let words = || (!is_blank(&reasoning.text)).then(|| json!(reasoning.text));
    // Which field they came in, their types tell.
    let parts = |is_named: bool| {
        let is_fit = |part: &&Value| {
            let kind = part["type"].as_str().unwrap_or_default();
            kind.starts_with("reasoning") == is_named
        };
        let parts: Vec<&Value> = reasoning.details.iter().filter(is_fit).collect();
        (!parts.is_empty()).then(|| json!(parts))
    };
    match field {
        ReasoningField::Content => Some(("reasoning_content", words()?)),
        ReasoningField::Reasoning => Some(("reasoning", words()?)),
        ReasoningField::Details => Some(("reasoning_details", parts(true)?)),
        ReasoningField::ThinkingBlocks => Some(("thinking_blocks", parts(false)?)),
    }
}

/// What stands in a message without words for a server that has refused some ways to write it.
fn blank_content(first: BlankContent, refused: Refused) -> Option<Value> {
    let ways = [
        first,
        BlankContent::Null,
        BlankContent::Empty,
        BlankContent::Omitted,
    ];
    let way = ways.into_iter().find(|way| {
        !refused.has(match way {
            BlankContent::Null => Habit::NullContent,
            BlankContent::Empty => Habit::EmptyContent,
            BlankContent::Omitted => Habit::NoContent,
        })
    });
    match way {
        Some(BlankContent::Null) => Some(Value::Null),
        Some(BlankContent::Empty) => Some(json!("")),
        Some(BlankContent::Omitted) => None,
        None => Some(json!(ONLY_CALLS)),
    }
}

/// The arguments of a call as the text of a JSON object.
fn arguments_of(call: &RawCall) -> String {
    let raw = &call.arguments;
    if serde_json::from_str::<Map<String, Value>>(raw).is_ok() {
        return raw.clone();
    }
    // Of a call that was cut nothing is to be understood.
    let understood = if call.complete {
        arguments::read(raw, None).ok().map(|read| read.object)
    } else {
        None
    };
    understood.map_or_else(
        || json!({RAW_ARGUMENTS: raw}).to_string(),
        |object| Value::Object(object).to_string(),
    )
}

/// A part of a message that is text.
fn words(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A part of a message that is a picture.
fn seen(picture: &PictureRef, data: &[u8]) -> Value {
    let data = BASE64.encode(data);
    let url = format!("data:{};base64,{data}", picture.media_type.media_type());
    json!({"type": "image_url", "image_url": {"url": url}})
}

/// Adds to what the person said last, or begins a message of theirs: many chat templates insist on
/// alternation. A message of text alone is a plain string, which every server takes.
fn told(out: &mut Vec<Value>, parts: Vec<Value>) {
    let last = out.last_mut().filter(|last| last["role"] == "user");
    let Some(content) = last.and_then(|last| last.get_mut("content")) else {
        let message = match parts.as_slice() {
            [only] if only["type"] == "text" => json!({"role": "user", "content": only["text"]}),
            _ => json!({"role": "user", "content": parts}),
        };
        out.push(message);
        return;
    };
    let before = match content.take() {
        Value::String(text) => vec![words(&text)],
        Value::Array(parts) => parts,
        _ => Vec::new(),
    };
    let all: Vec<Value> = before.into_iter().chain(parts).collect();
    let texts: Option<Vec<&str>> = all.iter().map(|part| part["text"].as_str()).collect();
    *content = match texts {
        Some(texts) => Value::String(texts.join("\n\n")),
        None => Value::Array(all),
    };
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn or<'a>(text: &'a str, substitute: &'a str) -> &'a str {
    if is_blank(text) { substitute } else { text }
}

#[cfg(test)]
mod tests;
