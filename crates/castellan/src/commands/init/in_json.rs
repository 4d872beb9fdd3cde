//! Settings in JSON, with or without comments.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Number, Value};

use super::entry::kind;
use super::syntax::{Dialect, Flaw, Place};

/// Groups in each other that are taken for settings: the parser goes into each, on a stack that ends.
const DEEPEST: usize = 200;

/// As [`super::syntax::Syntax::read`].
pub(super) fn read(text: &str, dialect: Dialect, place: Place) -> Result<Value, Flaw> {
    if let Some(offset) = too_deep(text) {
        let what = format!("more than {DEEPEST} groups are in each other");
        return Err(Flaw::at(text, offset, what));
    }
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

/// Puts the entry in.
pub(super) fn set(
    text: &str,
    dialect: Dialect,
    place: Place,
    entry: &Value,
) -> Result<String, Flaw> {
    let root = tree(text, dialect)?;
    let servers = root
        .object_value_or_set()
        .object_value_or_set(place.servers);
    match servers.get(place.name) {
        Some(there) => there.set_value(input(entry)),
        None => {
            servers.append(place.name, input(entry));
        }
    }
    let mut changed = root.to_string();
    if text.is_empty() {
        changed.push('\n');
    }
    Ok(changed)
}

/// Takes the entry out.
pub(super) fn remove(text: &str, dialect: Dialect, place: Place) -> Result<String, Flaw> {
    let root = tree(text, dialect)?;
    let entry = root
        .object_value()
        .and_then(|all| all.object_value(place.servers))
        .and_then(|servers| servers.get(place.name));
    if let Some(entry) = entry {
        entry.remove();
    }
    Ok(root.to_string())
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

fn tree(text: &str, dialect: Dialect) -> Result<CstRootNode, Flaw> {
    CstRootNode::parse(text, &options(dialect))
        .map_err(|error| Flaw::at(text, error.range().start, said(&error)))
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
