//! Settings in TOML.

use std::ops::Range;

use serde_json::{Map, Value};
use toml_edit::{Document, DocumentMut, Item, Key, Table, TableLike, TomlError};

use super::entry::kind;
use super::syntax::{Flaw, Place};

/// As [`super::syntax::Syntax::read`].
pub(super) fn read(text: &str, place: Place) -> Result<Value, Flaw> {
    let document = parsed(text)?;
    let servers = document.as_table().get(place.servers);
    if let Some(odd) = servers.filter(|item| !item.is_table_like()) {
        let what = format!("`{}` is {}, not a table", place.servers, kind(&value(odd)));
        let offset = odd.span().map_or(0, |span| span.start);
        return Err(Flaw::at(text, offset, what));
    }
    Ok(group(document.as_table()))
}

/// Puts the entry in. A table of its own goes behind the last of the other servers' tables, or to
/// the end.
pub(super) fn set(text: &str, place: Place, entry: &Value) -> Result<String, Flaw> {
    let text = &remove(text, place)?;
    let document = parsed(text)?;
    let servers = document.as_table().get(place.servers);
    if let Some(Item::Value(inline)) = servers {
        let value = in_line(entry);
        return rewritten(text, place, inline.span(), |servers| {
            servers.insert(place.name, Item::Value(value));
        });
    }
    let mut table = format!("[{}.{}]\n", place.servers, place.name);
    for (key, value) in entry.as_object().into_iter().flatten() {
        table.push_str(&format!("{} = {}\n", Key::new(key), in_line(value)));
    }
    let mut others = Vec::new();
    if let Some(servers) = servers.and_then(Item::as_table) {
        tables(servers, &mut others);
    }
    let end = others.iter().map(|range| line_end(text, range.end)).max();
    let end = end.unwrap_or(text.len());
    let (before, behind) = text.split_at_checked(end).unwrap_or((text, ""));
    if !behind.is_empty() && !behind.starts_with('\n') {
        // A comment that follows is not about ours.
        table.push('\n');
    }
    let gap = match before {
        "" => "",
        _ if before.ends_with("\n\n") => "",
        _ if before.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    Ok(format!("{before}{gap}{table}{behind}"))
}

/// Takes the entry out, with the lines that are its own. Comments above it stay.
pub(super) fn remove(text: &str, place: Place) -> Result<String, Flaw> {
    let document = parsed(text)?;
    let Some(servers) = document.as_table().get(place.servers) else {
        return Ok(text.to_owned());
    };
    let there = servers
        .as_table_like()
        .and_then(|servers| servers.get_key_value(place.name));
    let Some((key, entry)) = there else {
        return Ok(text.to_owned());
    };
    if let Item::Value(inline) = servers {
        return rewritten(text, place, inline.span(), |servers| {
            servers.remove(place.name);
        });
    }
    let mut own = Vec::new();
    match entry {
        Item::Table(table) => {
            tables(table, &mut own);
            if table.is_dotted() {
                own.extend(table.get_values().iter().filter_map(|(path, value)| {
                    Some(path.first()?.span()?.start..value.span()?.end)
                }));
            }
        }
        Item::Value(value) => {
            let start = key.span().map(|span| span.start);
            own.extend(
                start
                    .zip(value.span())
                    .map(|(start, value)| start..value.end),
            );
        }
        Item::ArrayOfTables(list) => list.iter().for_each(|table| tables(table, &mut own)),
        Item::None => {}
    }
    Ok(without(text, own))
}

/// `text` without the lines of these ranges, and without the second of two empty lines that then
/// follow each other.
fn without(text: &str, mut ranges: Vec<Range<usize>>) -> String {
    ranges.sort_by_key(|range| range.start);
    let mut left = text.to_owned();
    for range in ranges.into_iter().rev() {
        let start = line_start(text, range.start);
        let mut end = line_end(text, range.end);
        let before = text.get(..start).unwrap_or_default();
        let behind = left.get(end..).unwrap_or_default();
        let mut start = start;
        if before.is_empty() || before.ends_with("\n\n") {
            if behind.starts_with('\n') {
                end += 1;
            } else if behind.is_empty() && !before.is_empty() {
                start -= 1;
            }
        }
        left.replace_range(start..end, "");
    }
    left
}

/// `text` with the inline table of servers, which is at `span`, changed.
fn rewritten(
    text: &str,
    place: Place,
    span: Option<Range<usize>>,
    change: impl FnOnce(&mut dyn TableLike),
) -> Result<String, Flaw> {
    let mut document: DocumentMut = text.parse().map_err(|error| flaw(text, &error))?;
    let servers = document
        .get_mut(place.servers)
        .and_then(Item::as_inline_table_mut);
    let (Some(servers), Some(span)) = (servers, span) else {
        return Ok(text.to_owned());
    };
    change(servers);
    servers.decor_mut().clear();
    let mut text = text.to_owned();
    text.replace_range(span, servers.to_string().trim());
    Ok(text)
}

/// The ranges of the tables with a heading that are `table` or below it: from the heading to the end
/// of the last value.
fn tables(table: &Table, found: &mut Vec<Range<usize>>) {
    if let Some(heading) = table
        .span()
        .filter(|_| !table.is_dotted() && !table.is_implicit())
    {
        let values = table.get_values();
        let ends = values
            .iter()
            .filter_map(|(_, value)| Some(value.span()?.end));
        found.push(heading.start..ends.max().unwrap_or(heading.end).max(heading.end));
    }
    for (_, item) in table {
        match item {
            Item::Table(below) => tables(below, found),
            Item::ArrayOfTables(list) => list.iter().for_each(|below| tables(below, found)),
            Item::None | Item::Value(_) => {}
        }
    }
}

fn line_start(text: &str, place: usize) -> usize {
    let before = text.get(..place).unwrap_or_default();
    before.rfind('\n').map_or(0, |at| at + 1)
}

/// Behind the line feed, where there is one.
fn line_end(text: &str, place: usize) -> usize {
    let behind = text.get(place..).unwrap_or_default();
    behind.find('\n').map_or(text.len(), |at| place + at + 1)
}

fn parsed(text: &str) -> Result<Document<&str>, Flaw> {
    Document::parse(text).map_err(|error| flaw(text, &error))
}

fn flaw(text: &str, error: &TomlError) -> Flaw {
    let offset = error.span().map_or(0, |span| span.start);
    Flaw::at(text, offset, error.message())
}

fn group(table: &dyn TableLike) -> Value {
    let items = table
        .iter()
        .map(|(key, item)| (key.to_owned(), value(item)));
    Value::Object(items.collect::<Map<_, _>>())
}

fn value(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => plain(value),
        Item::Table(table) => group(table),
        Item::ArrayOfTables(list) => list.iter().map(|table| group(table)).collect(),
    }
}

fn plain(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => Value::from(text.value().as_str()),
        toml_edit::Value::Integer(number) => Value::from(*number.value()),
        // What JSON has no number for is compared as it is written.
        toml_edit::Value::Float(number) => {
            let number = *number.value();
            serde_json::Number::from_f64(number)
                .map_or_else(|| Value::from(number.to_string()), Value::Number)
        }
        toml_edit::Value::Boolean(word) => Value::from(*word.value()),
        toml_edit::Value::Datetime(time) => Value::from(time.value().to_string()),
        toml_edit::Value::Array(list) => list.iter().map(plain).collect(),
        toml_edit::Value::InlineTable(table) => group(table),
    }
}

fn in_line(value: &Value) -> toml_edit::Value {
    match value {
        // TOML has no null; that it is not what was wanted is found when it is read again.
        Value::Null => toml_edit::Value::from("null"),
        Value::Bool(word) => toml_edit::Value::from(*word),
        Value::Number(number) => number.as_i64().map_or_else(
            || toml_edit::Value::from(number.as_f64().unwrap_or_default()),
            toml_edit::Value::from,
        ),
        Value::String(text) => toml_edit::Value::from(text.as_str()),
        Value::Array(list) => toml_edit::Value::Array(list.iter().map(in_line).collect()),
        Value::Object(map) => {
            let items = map
                .iter()
                .map(|(key, value)| (key.as_str(), in_line(value)));
            toml_edit::Value::InlineTable(items.collect())
        }
    }
}
