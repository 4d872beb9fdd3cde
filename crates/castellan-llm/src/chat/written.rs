//! Tool calls that a model writes into the words of its answer, as small models and servers without
//! a parser for their model do.
//!
//! Words become a call only where they can hardly be meant for a reader:
//!
//! - the answer has no real call, and every name is that of a tool offered in the request, letter
//!   for letter;
//! - either the whole answer is JSON that is a call or a list of calls (a code fence around it and
//!   the model's own stop tokens aside), with arguments and with no property a call doesn't have;
//! - or the answer ends in calls within markers that models are trained on (`<tool_call>`,
//!   `[TOOL_CALLS]` and their kin), outside of code, with nothing behind them;
//! - all of it can be read; of what is cut or broken nothing is taken.
//!
//! So an example amid prose, in a fence beside prose, or followed by a word of explanation stays
//! what it is. `Action:` and `Action Input:` lines are never taken: nothing tells them from prose.
//! What is taken is marked ([`RawCall::from_text`]) and passes the gate like any other call.
//!
//! [`stage`] keeps the words that may become a call from being shown.

use std::collections::BTreeSet;

use castellan_core::{RawCall, lenient};
use serde_json::{Map, Value};

use super::fragment::Extent;

mod marked;
pub(super) mod stage;

/// More calls in one answer are no answer to a question.
const MOST_CALLS: usize = 64;

/// How deep lists and wrappers may stand in each other.
const DEPTH: usize = 4;

/// Stop tokens that servers let through at the end of an answer.
const STOPS: &[&str] = &[
    "<|im_end|>",
    "</s>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<|end|>",
    "<|endoftext|>",
];

/// Properties of a call that hold the tool's name.
const NAMES: &[&str] = &["name", "tool", "tool_name", "function", "action"];

/// Properties of a call that hold its arguments.
const ARGUMENTS: &[&str] = &[
    "arguments",
    "parameters",
    "args",
    "input",
    "tool_input",
    "params",
    "action_input",
];

/// Properties that may stand beside them.
const BESIDE: &[&str] = &["id", "type", "call_id", "tool_call_id"];

/// Calls found in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    /// Where in the answer they begin; the words before stay.
    pub(super) start: usize,
    /// The calls, in their order.
    pub(super) calls: Vec<RawCall>,
}

/// Whether a marker says that this is a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    Marked,
    Bare,
}

/// The calls in a complete answer of a model that was offered the tools `known`.
pub(super) fn find(text: &str, known: &BTreeSet<String>) -> Option<Written> {
    if known.is_empty() {
        return None;
    }
    let whole = || {
        let calls = read(unfenced(without_stops(text.trim())), known, Setting::Bare)?;
        Some(Written { start: 0, calls })
    };
    whole().or_else(|| marked::find(text, known))
}

/// The calls that a JSON text is.
fn read(text: &str, known: &BTreeSet<String>, setting: Setting) -> Option<Vec<RawCall>> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let mut calls = Vec::new();
    for value in values(text)? {
        collect(&value, known, setting, &mut calls, DEPTH)?;
    }
    (1..=MOST_CALLS).contains(&calls.len()).then_some(calls)
}

/// The JSON values that a text is: one, or several behind each other.
fn values(text: &str) -> Option<Vec<Value>> {
    if let Ok(reading) = lenient::read(text) {
        return Some(vec![reading.value]);
    }
    let mut values = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (value, after) = rest.split_at(end_of_value(rest)?);
        values.push(lenient::read(value).ok()?.value);
        rest = after.trim_start_matches(|letter: char| {
            letter.is_whitespace() || matches!(letter, ',' | ';')
        });
    }
    Some(values)
}

/// Where the object or array at the beginning of `text` ends.
fn end_of_value(text: &str) -> Option<usize> {
    let mut extent = Extent::default();
    let closing = text.match_indices(['}', ']']);
    let mut fed = 0;
    for (at, _) in closing {
        extent.feed(text.get(fed..=at)?);
        fed = at + 1;
        if extent.has_ended() {
            return Some(fed);
        }
    }
    None
}

/// Adds the calls that a value is; `None` where it is anything else.
fn collect(
    value: &Value,
    known: &BTreeSet<String>,
    setting: Setting,
    calls: &mut Vec<RawCall>,
    depth: usize,
) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    match value {
        Value::Array(items) => items
            .iter()
            .try_for_each(|item| collect(item, known, setting, calls, depth)),
        Value::Object(fields) => {
            if let (Some(list @ Value::Array(_)), 1) = (fields.get("tool_calls"), fields.len()) {
                return collect(list, known, setting, calls, depth);
            }
            calls.push(call_of(fields, known, setting)?);
            Some(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn call_of(
    fields: &Map<String, Value>,
    known: &BTreeSet<String>,
    setting: Setting,
) -> Option<RawCall> {
    let has_only = |allowed: &[&[&str]]| {
        let is_allowed = |name: &str| allowed.iter().any(|names| names.contains(&name));
        fields.keys().all(|name| is_allowed(name))
    };
    if let Some(Value::Object(function)) = fields.get("function") {
        // The wire's own shape.
        return has_only(&[&["function"], BESIDE])
            .then(|| call_of(function, known, setting))
            .flatten();
    }
    if setting == Setting::Bare && !has_only(&[NAMES, ARGUMENTS, BESIDE]) {
        return None;
    }
    let name = NAMES.iter().find_map(|name| fields.get(*name)?.as_str())?;
    let arguments = ARGUMENTS.iter().find_map(|name| fields.get(*name));
    let arguments = match arguments {
        // A description of a tool, not a call of one.
        Some(Value::Object(object))
            if object.get("type").is_some_and(|kind| kind == "object")
                && object.contains_key("properties") =>
        {
            return None;
        }
        Some(Value::Object(_)) => arguments?.to_string(),
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) if setting == Setting::Marked => String::new(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | None => {
            return None;
        }
    };
    call(name, arguments, known)
}

/// A call of a tool that was offered.
fn call(name: &str, arguments: String, known: &BTreeSet<String>) -> Option<RawCall> {
    let name = name.trim();
    let name = name.strip_prefix("functions.").unwrap_or(name);
    known.contains(name).then(|| RawCall {
        from_text: true,
        ..RawCall::new(name, arguments)
    })
}

/// `text` without stop tokens at its end.
fn without_stops(text: &str) -> &str {
    let mut text = text.trim_end();
    while let Some(rest) = STOPS.iter().find_map(|stop| text.strip_suffix(stop)) {
        text = rest.trim_end();
    }
    text
}

/// The inside of a code fence around all of `text`.
fn unfenced(text: &str) -> &str {
    let inside = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .and_then(|inside| inside.split_once('\n'))
        .filter(|(label, _)| stage::is_label(label.trim()));
    inside.map_or(text, |(_, body)| body.trim())
}

#[cfg(test)]
mod tests;
