//! Calls within the markers that models are trained on.

use std::collections::BTreeSet;

use castellan_core::RawCall;
use serde_json::{Map, Value};

use super::{
    DEPTH, MOST_CALLS, Setting, Written, call, end_of_value, read, unfenced, without_stops,
};

/// Markers around a call, or around several.
const PAIRS: &[(&str, &str)] = &[
    ("<tool_call>", "</tool_call>"),
    ("<tool_calls>", "</tool_calls>"),
    ("<function_call>", "</function_call>"),
    ("<function_calls>", "</function_calls>"),
    ("<minimax:tool_call>", "</minimax:tool_call>"),
    ("<|tool_call|>", "<|/tool_call|>"),
    ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    ("<|tool_call_begin|>", "<|tool_call_end|>"),
    // Ends with the answer.
    ("<|python_tag|>", "<|eom_id|>"),
];

/// Elements that are a call by themselves.
const ELEMENTS: &[(&str, &str)] = &[
    ("<function=", "</function>"),
    ("<invoke name=", "</invoke>"),
];

/// Mistral's marker, which has no end.
const LIST: &str = "[TOOL_CALLS]";

/// Markers that are looked at in one answer; one that talks about markers has no end of them.
const MOST_MARKERS: usize = 32;

/// The calls in which `text` ends.
pub(super) fn find(text: &str, known: &BTreeSet<String>) -> Option<Written> {
    let mut scan = Scan::default();
    for _ in 0..MOST_MARKERS {
        let Sight::Marker(start) = scan.next(text, End::Here) else {
            return None;
        };
        let calls = section(text.get(start..)?, known, DEPTH);
        if let Some(calls) = calls.filter(|calls| (1..=MOST_CALLS).contains(&calls.len())) {
            return Some(Written { start, calls });
        }
    }
    None
}

/// Whether more of the text is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Open,
    Here,
}

/// What a look for markers came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// One begins here.
    Marker(usize),
    /// What may be the beginning of one stands at the end of what is there.
    Perhaps(usize),
    /// There is none.
    None,
}

/// A look through a text that may still grow, for markers that stand outside of code.
#[derive(Debug, Default)]
pub(super) struct Scan {
    seen: usize,
    /// How many backticks opened the code that is being passed.
    code: Option<usize>,
}

impl Scan {
    /// The next marker that was not returned yet.
    pub(super) fn next(&mut self, text: &str, end: End) -> Sight {
        while let Some(rest) = text.get(self.seen..) {
            let Some(found) = rest.find(['<', '[', '`', '\n']) else {
                self.seen = text.len();
                return Sight::None;
            };
            let at = self.seen + found;
            let rest = rest.get(found..).unwrap_or_default();
            if rest.starts_with('`') {
                let run = rest.len() - rest.trim_start_matches('`').len();
                if run == rest.len() && end == End::Open {
                    // More of them may come.
                    self.seen = at;
                    return Sight::None;
                }
                self.pass_ticks(run);
                self.seen = at + run;
                continue;
            }
            if rest.starts_with('\n') {
                // Only a fence goes on in the next line.
                self.code = self.code.filter(|run| *run >= 3);
            } else if self.code.is_none() {
                let mut markers = markers();
                if markers.clone().any(|marker| rest.starts_with(marker)) {
                    self.seen = at + 1;
                    return Sight::Marker(at);
                }
                if end == End::Open && markers.any(|marker| marker.starts_with(rest)) {
                    self.seen = at;
                    return Sight::Perhaps(at);
                }
            }
            self.seen = at + 1;
        }
        Sight::None
    }

    fn pass_ticks(&mut self, run: usize) {
        self.code = match self.code {
            None => Some(run),
            Some(open) if run == open || (open >= 3 && run > open) => None,
            Some(open) => Some(open),
        };
    }
}

fn markers() -> impl Iterator<Item = &'static str> + Clone {
    let pairs = PAIRS.iter().chain(ELEMENTS);
    pairs.map(|(open, _)| *open).chain([LIST])
}

/// The first words of what may be a call behind a marker, where some have come: JSON, an element,
/// or the name of a tool.
pub(super) fn may_begin_call(text: &str, known: &BTreeSet<String>) -> bool {
    let opened = markers().find_map(|marker| text.strip_prefix(marker));
    let rest = opened
        .unwrap_or(text)
        .trim_start_matches(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '\''));
    if rest.is_empty() || rest.starts_with(['{', '[', '<', '`']) {
        return true;
    }
    let is_of_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let end = rest.find(|letter| !is_of_name(letter));
    let word = end.map_or(rest, |end| rest.get(..end).unwrap_or(rest));
    if word.is_empty() {
        return false;
    }
    if "functions.".starts_with(word) {
        return true;
    }
    let word = word.strip_prefix("functions.").unwrap_or(word);
    known.iter().any(|name| match end {
        Some(_) => name == word,
        None => name.starts_with(word),
    })
}

/// The calls that all of `text` is, markers included.
fn section(text: &str, known: &BTreeSet<String>, depth: usize) -> Option<Vec<RawCall>> {
    let depth = depth.checked_sub(1)?;
    let mut calls = Vec::new();
    let mut rest = without_stops(text.trim());
    while !rest.is_empty() {
        if let Some(list) = rest.strip_prefix(LIST) {
            calls.extend(list_of(list.trim(), known)?);
            return Some(calls);
        }
        let element = ELEMENTS
            .iter()
            .find_map(|(open, close)| Some((rest.strip_prefix(open)?, *close)));
        if let Some((inside, close)) = element {
            let (body, after) = inside.split_once(close)?;
            let (name, body) = body.split_once('>')?;
            let arguments = parameters(body)?;
            calls.push(call(name.trim_matches(['"', '\'', ' ']), arguments, known)?);
            rest = after.trim_start();
            continue;
        }
        let (open, close, inside) = PAIRS
            .iter()
            .find_map(|(open, close)| Some((*open, *close, rest.strip_prefix(open)?)))?;
        // Some models never close, and begin the next call instead.
        let until = [inside.find(close), inside.find(open)]
            .into_iter()
            .flatten();
        let (body, after) = inside.split_at(until.min().unwrap_or(inside.len()));
        calls.extend(body_of(unfenced(body.trim()), known, depth)?);
        rest = after.strip_prefix(close).unwrap_or(after).trim_start();
    }
    Some(calls)
}

/// The calls between two markers.
fn body_of(body: &str, known: &BTreeSet<String>, depth: usize) -> Option<Vec<RawCall>> {
    if body.starts_with(['{', '[']) {
        return read(body, known, Setting::Marked);
    }
    if body.starts_with('<') {
        return section(body, known, depth);
    }
    if let Some((name, arguments)) = body.split_once("<|tool_call_argument_begin|>") {
        // The name is numbered: `functions.list:0`.
        let name = name.split(':').next().unwrap_or(name);
        return Some(vec![call(name, object_text(arguments)?, known)?]);
    }
    let end = body.find(['\n', '<']).unwrap_or(body.len());
    let (name, pairs) = body.split_at(end);
    Some(vec![call(name, pairs_of(pairs.trim())?, known)?])
}

/// `arguments` where they are a JSON object.
fn object_text(arguments: &str) -> Option<String> {
    let arguments = arguments.trim();
    let reading = castellan_core::lenient::read(arguments).ok()?;
    reading.value.is_object().then(|| arguments.to_owned())
}

/// Mistral's lists: JSON, or a name and its arguments, again and again.
fn list_of(list: &str, known: &BTreeSet<String>) -> Option<Vec<RawCall>> {
    if list.starts_with(['{', '[']) {
        return read(list, known, Setting::Marked);
    }
    let mut calls = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let (head, _) = rest.split_once('{')?;
        let from = head.len();
        let name = head.split('[').next().unwrap_or(head);
        let body = rest.get(from..)?;
        let (arguments, after) = body.split_at(end_of_value(body)?);
        calls.push(call(name, object_text(arguments)?, known)?);
        rest = after.trim_start();
        rest = rest.strip_prefix(LIST).unwrap_or(rest).trim_start();
    }
    Some(calls)
}

/// Arguments inside an element: JSON, or one element for each.
fn parameters(body: &str) -> Option<String> {
    if body.trim_start().starts_with('{') {
        return object_text(body);
    }
    let mut arguments = Map::new();
    let mut rest = body.trim();
    while !rest.is_empty() {
        let inside = ["<parameter=", "<parameter name="]
            .iter()
            .find_map(|open| rest.strip_prefix(open))?;
        let (name, inside) = inside.split_once('>')?;
        let (value, after) = inside.split_once("</parameter>")?;
        add(&mut arguments, name.trim_matches(['"', '\'', ' ']), value)?;
        rest = after.trim_start();
    }
    Some(Value::Object(arguments).to_string())
}

/// GLM's arguments: names and values in elements of their own.
fn pairs_of(body: &str) -> Option<String> {
    let mut arguments = Map::new();
    let mut rest = body;
    while !rest.is_empty() {
        let (name, after) = rest.strip_prefix("<arg_key>")?.split_once("</arg_key>")?;
        let value = after.trim_start().strip_prefix("<arg_value>")?;
        let (value, after) = value.split_once("</arg_value>")?;
        add(&mut arguments, name.trim(), value)?;
        rest = after.trim_start();
    }
    Some(Value::Object(arguments).to_string())
}

/// Adds an argument as text, from which the gate makes what the tool's schema wants. A line end
/// right inside of either tag belongs to the tags.
fn add(arguments: &mut Map<String, Value>, name: &str, value: &str) -> Option<()> {
    let value = value.strip_prefix('\n').unwrap_or(value);
    let value = value.strip_suffix('\n').unwrap_or(value);
    let before = arguments.insert(name.to_owned(), Value::String(value.to_owned()));
    (!name.is_empty() && before.is_none()).then_some(())
}
