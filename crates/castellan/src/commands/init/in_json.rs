//! Settings in JSON, with or without comments.

use std::borrow::Cow;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::de::IgnoredAny;
use serde_json::{Map, Number, Value};

use super::entry::kind;
use super::syntax::{Dialect, Flaw, Place, changed_part};

/// Groups in each other that are taken for settings: the parser goes into each, on a stack that ends.
const DEEPEST: usize = 200;

/// As [`super::syntax::Syntax::read`].
pub(super) fn read(text: &str, dialect: Dialect, place: Place) -> Result<Value, Flaw> {
    if let Some(offset) = too_deep(text) {
        let what = format!("more than {DEEPEST} groups are in each other");
        return Err(Flaw::at(text, offset, what));
    }
    let original = text;
    let text = &*whole_characters(text);
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options(dialect))
        .map_err(|error| Flaw::at(text, error.range().start, said(&error)))?;
    let root = match parsed.value {
        None => return Ok(Value::Object(Map::new())),
        Some(ast::Value::Object(root)) => root,
        Some(other) => {
            let what = format!("it holds {}, not an object", kind(&value(&other)));
            return Err(Flaw::at(text, other.range().start, what));
        }
    };
    if dialect == Dialect::Strict {
        proper(original)?;
    }
    match once(text, &root, place.servers)? {
        None => {}
        Some(ast::Value::Object(servers)) => {
            once(text, servers, place.name)?;
        }
        Some(other) => {
            let what = format!(
                "`{}` is {}, not an object",
                place.servers,
                kind(&value(other))
            );
            return Err(Flaw::at(text, other.range().start, what));
        }
    }
    Ok(object(&root))
}

/// Puts the entry in; where there is one, only what differs in it.
pub(super) fn set(
    text: &str,
    dialect: Dialect,
    place: Place,
    entry: &Value,
) -> Result<String, Flaw> {
    let settings = read(text, dialect, place)?;
    edited(text, dialect, |root| {
        let servers = root
            .object_value_or_set()
            .object_value_or_set(place.servers);
        let there = place.of(&settings).unwrap_or(&Value::Null);
        put(&servers, place.name, there, entry);
    })
}

/// Takes the entry out, and the group of servers with the last of them.
pub(super) fn remove(text: &str, dialect: Dialect, place: Place) -> Result<String, Flaw> {
    edited(text, dialect, |root| {
        let group = root.object_value().and_then(|all| all.get(place.servers));
        let Some((group, servers)) =
            group.and_then(|group| Some((group.clone(), group.object_value()?)))
        else {
            return;
        };
        if let Some(entry) = servers.get(place.name) {
            entry.remove();
        }
        let said_within = servers.children().iter().any(CstNode::is_comment);
        if servers.properties().is_empty() && !said_within && !said_beside(&group) {
            group.remove();
        }
    })
}

/// Whether a comment is on the same line: it would go with the property.
fn said_beside(property: &CstObjectProp) -> bool {
    let on_line = |node: &CstNode| node.is_comma() || (node.is_trivia() && !node.is_newline());
    let before = property.previous_siblings().take_while(on_line);
    let behind = property.next_siblings().take_while(on_line);
    before.chain(behind).any(|node| node.is_comment())
}

/// Makes `name` in `group` what is wanted, where `there` is what it is. Of two objects, the second
/// with all that the first has, only what differs is written.
fn put(group: &CstObject, name: &str, there: &Value, wanted: &Value) {
    let Some(property) = group.get(name) else {
        group.append(name, input(wanted));
        return;
    };
    match (property.object_value(), there, wanted) {
        (Some(within), Value::Object(there), Value::Object(wanted))
            if there.keys().all(|key| wanted.contains_key(key)) =>
        {
            for (key, wanted) in wanted {
                put(&within, key, there.get(key).unwrap_or(&Value::Null), wanted);
            }
        }
        _ if there == wanted => {}
        _ => property.set_value(input(wanted)),
    }
}

/// `text` after a change of its tree.
fn edited(text: &str, dialect: Dialect, change: impl FnOnce(&CstRootNode)) -> Result<String, Flaw> {
    let readable = whole_characters(text);
    let root = CstRootNode::parse(&readable, &options(dialect))
        .map_err(|error| Flaw::at(text, error.range().start, said(&error)))?;
    change(&root);
    let changed = root.to_string();
    if text.trim().is_empty() {
        return Ok(format!("{}\n", changed.trim()));
    }
    if readable == text {
        return Ok(changed);
    }
    // What was unreadable is left as it is: only the part that changed is taken over.
    let part = changed_part(readable.as_bytes(), changed.as_bytes());
    let behind = readable.len() - part.end;
    let pieces = (
        text.get(..part.start),
        changed.get(part.start..changed.len() - behind),
        text.get(part.end..),
    );
    match pieces {
        (Some(before), Some(new), Some(behind)) if text.get(part.clone()) == readable.get(part) => {
            Ok([before, new, behind].concat())
        }
        _ => Err(Flaw::of_all(
            "a half of a character (`\\ud800` to `\\udfff`) is where it would change",
        )),
    }
}

/// `text` with the escapes of halves of characters replaced by others of the same length. Clients
/// write them where they cut text, and read them, but they are no characters of ours.
fn whole_characters(text: &str) -> Cow<'_, str> {
    const HALF: &str = r"\ufffd";
    let mut whole = Cow::Borrowed(text);
    let mut at = 0;
    while let Some(escape) = next_escape(text, at) {
        at = escape + 2;
        let second = match unit(text, escape) {
            Some(0xD800..=0xDBFF) => unit(text, escape + HALF.len()),
            Some(0xDC00..=0xDFFF) => None,
            _ => continue,
        };
        if matches!(second, Some(0xDC00..=0xDFFF)) {
            at = escape + 2 * HALF.len();
        } else {
            whole
                .to_mut()
                .replace_range(escape..escape + HALF.len(), HALF);
        }
    }
    whole
}

/// Where the next backslash is.
fn next_escape(text: &str, from: usize) -> Option<usize> {
    let found = text.as_bytes().get(from..)?;
    Some(from + found.iter().position(|byte| *byte == b'\\')?)
}

/// The UTF-16 unit that an escape at this place stands for.
fn unit(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| hexadecimal)
}

/// What a client with a parser of JSON proper would not read, though ours does.
fn proper(text: &str) -> Result<(), Flaw> {
    let read: Result<IgnoredAny, _> = serde_json::from_str(text);
    read.map(|_| ()).map_err(|error| {
        let words = error.to_string();
        Flaw {
            place: Some((error.line(), error.column())),
            what: words
                .split(" at line ")
                .next()
                .unwrap_or_default()
                .to_owned(),
        }
    })
}

/// Where the groups are too many in each other; what brackets are in texts and comments is none.
fn too_deep(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut bytes = text.bytes().enumerate().peekable();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'{' | b'[' if depth == DEEPEST => return Some(at),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some((_, byte)) = bytes.next() {
                    match byte {
                        b'\\' => {
                            bytes.next();
                        }
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            b'/' => match bytes.next() {
                Some((_, b'/')) => {
                    bytes.find(|(_, byte)| *byte == b'\n');
                }
                Some((_, b'*')) => {
                    while let Some((_, byte)) = bytes.next() {
                        if byte == b'*' && bytes.peek().is_some_and(|(_, next)| *next == b'/') {
                            bytes.next();
                            break;
                        }
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }
    None
}

fn options(dialect: Dialect) -> ParseOptions {
    ParseOptions {
        allow_comments: dialect != Dialect::Strict,
        allow_trailing_commas: dialect == Dialect::Lenient,
        allow_missing_commas: false,
        allow_loose_object_property_names: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_extended_string_escapes: false,
        allow_non_finite_numbers: false,
    }
}

/// The parser's words, as the middle of a sentence.
fn said(error: &jsonc_parser::errors::ParseError) -> String {
    let words = error.kind().to_string();
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(letters).collect()
    })
}

/// The property of this name. Of two, clients would take one and we perhaps the other.
fn once<'a, 't>(
    text: &str,
    object: &'a ast::Object<'t>,
    name: &str,
) -> Result<Option<&'a ast::Value<'t>>, Flaw> {
    let mut found = object
        .properties
        .iter()
        .filter(|property| property.name.as_str() == name);
    let first = found.next();
    match found.next() {
        None => Ok(first.map(|property| &property.value)),
        Some(second) => {
            let what = format!("`{name}` is there for the second time");
            Err(Flaw::at(text, second.range().start, what))
        }
    }
}

fn object(object: &ast::Object<'_>) -> Value {
    let properties = object.properties.iter();
    let properties =
        properties.map(|property| (property.name.as_str().to_owned(), value(&property.value)));
    Value::Object(properties.collect())
}

fn value(parsed: &ast::Value<'_>) -> Value {
    match parsed {
        ast::Value::StringLit(text) => Value::from(text.value.as_ref()),
        // What is too large for a number of ours is compared as it is written.
        ast::Value::NumberLit(number) => number
            .value
            .parse::<Number>()
            .map_or_else(|_| Value::from(number.value), Value::Number),
        ast::Value::BooleanLit(word) => Value::from(word.value),
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::Array(list) => list.elements.iter().map(value).collect(),
        ast::Value::Object(group) => object(group),
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(word) => CstInputValue::Bool(*word),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(list) => CstInputValue::Array(list.iter().map(input).collect()),
        Value::Object(map) => {
            let properties = map.iter().map(|(key, value)| (key.clone(), input(value)));
            CstInputValue::Object(properties.collect())
        }
    }
}
