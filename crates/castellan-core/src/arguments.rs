//! From the argument text a model sent to the object its tool takes.
//!
//! [`read`] turns text into an object; [`fit`] holds the object against the tool's schema and
//! coerces only where the schema wants another type. What both did is returned as a list of
//! repairs. Where the text can't be understood without guessing, the error says where, shows the
//! beginning of what was sent, and what the right shape is.

use serde_json::{Map, Value};

use crate::lenient;
use crate::nearest::likely;
use crate::text::shorten;

/// How many characters of unreadable arguments an error quotes.
pub const QUOTED: usize = 500;

/// Arguments that were understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments {
    /// The object.
    pub object: Map<String, Value>,
    /// What was mended on the way, in words.
    pub repairs: Vec<String>,
}

/// The object that `raw` means for a tool whose bare strings stand for `primary_key`.
///
/// # Errors
/// What was wrong, for the model to read.
pub fn read(raw: &str, primary_key: Option<&str>) -> Result<Arguments, String> {
    let text = raw.trim();
    if text.is_empty() {
        return Ok(Arguments {
            object: Map::new(),
            repairs: Vec::new(),
        });
    }
    let strict = match serde_json::from_str(text) {
        Ok(value) => return from_value(value, primary_key, Vec::new()),
        Err(error) => error,
    };
    let (body, fenced) = unfenced(text);
    let mut repairs: Vec<String> = fenced
        .then(|| "code fence".to_owned())
        .into_iter()
        .collect();
    match lenient::read(body) {
        Ok(reading) => {
            repairs.extend(reading.repairs.into_iter().map(str::to_owned));
            from_value(reading.value, primary_key, repairs)
        }
        // What begins like JSON was meant as JSON, and a fence is no part of any value.
        Err(_) if !fenced && !text.starts_with(['{', '[', '"']) => {
            bare(Value::String(text.to_owned()), primary_key, repairs)
        }
        Err(error) => Err(format!(
            "the arguments are not valid JSON: {error} (strict reading: {strict}); they began: {}",
            shorten(text, QUOTED),
        )),
    }
}

fn from_value(
    value: Value,
    primary_key: Option<&str>,
    mut repairs: Vec<String>,
) -> Result<Arguments, String> {
    match value {
        Value::Object(object) => Ok(Arguments { object, repairs }),
        Value::Null => Ok(Arguments {
            object: Map::new(),
            repairs,
        }),
        Value::String(inner) => {
            let encoded = inner
                .trim_start()
                .starts_with('{')
                .then(|| lenient::read(&inner));
            if let Some(Ok(lenient::Reading {
                value: Value::Object(object),
                ..
            })) = encoded
            {
                repairs.push("doubly encoded object".to_owned());
                return Ok(Arguments { object, repairs });
            }
            bare(Value::String(inner), primary_key, repairs)
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => bare(value, primary_key, repairs),
    }
}

fn bare(
    value: Value,
    primary_key: Option<&str>,
    mut repairs: Vec<String>,
) -> Result<Arguments, String> {
    let Some(key) = primary_key else {
        return Err(format!(
            "the arguments must be an object, found {}",
            described(&value)
        ));
    };
    repairs.push(format!("bare {} taken as `{key}`", type_of(&value)));
    Ok(Arguments {
        object: Map::from_iter([(key.to_owned(), value)]),
        repairs,
    })
}

/// The inside of a Markdown code fence that holds the whole text.
fn unfenced(text: &str) -> (&str, bool) {
    text.strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .and_then(|inside| inside.split_once('\n'))
        .filter(|(language, _)| language.trim().chars().all(char::is_alphanumeric))
        .map_or((text, false), |(_, body)| (body.trim(), true))
}

/// Holds `object` against `schema`, coercing in place; returns what was coerced.
///
/// Coercion goes one way: from text to the type the schema wants (`"20"` to 20, `"true"` to true,
/// text that is a JSON array or object to that). A string stays a string wherever the schema takes
/// one. `null` for an optional property that takes no null is as if it were absent.
///
/// # Errors
/// Every problem at once, each with its property, so that one retry suffices.
pub fn fit(object: &mut Map<String, Value>, schema: &Value) -> Result<Vec<String>, String> {
    let mut fit = Fit {
        repairs: Vec::new(),
        problems: Vec::new(),
    };
    fit.object(object, schema, "");
    if fit.problems.is_empty() {
        Ok(fit.repairs)
    } else {
        Err(fit.problems.join("; "))
    }
}

struct Fit {
    repairs: Vec<String>,
    problems: Vec<String>,
}

impl Fit {
    fn object(&mut self, object: &mut Map<String, Value>, schema: &Value, place: &str) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return;
        };
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        object.retain(|name, value| {
            let absent = value.is_null()
                && !required.contains(&name.as_str())
                && properties
                    .get(name)
                    .is_some_and(|wanted| !accepts(wanted, "null"));
            !absent
        });
        for (name, value) in object.iter_mut() {
            let place = join(place, name);
            match properties.get(name) {
                Some(wanted) => self.value(value, wanted, &place),
                None if schema.get("additionalProperties") == Some(&Value::Bool(false)) => {
                    let known: Vec<&str> = properties.keys().map(String::as_str).collect();
                    let meant = likely(name, known.iter().copied())
                        .map_or_else(String::new, |meant| format!(" (did you mean `{meant}`?)"));
                    self.problems.push(format!(
                        "unknown property `{place}`{meant}; the properties are {}",
                        known.join(", "),
                    ));
                }
                None => {}
            }
        }
        for name in required
            .into_iter()
            .filter(|name| !object.contains_key(*name))
        {
            let wanted = properties.get(name).map_or_else(String::new, |schema| {
                let types = types(schema);
                if types.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", types.join(" or "))
                }
            });
            self.problems.push(format!(
                "property `{}`{wanted} is missing",
                join(place, name)
            ));
        }
    }

    fn value(&mut self, value: &mut Value, schema: &Value, place: &str) {
        if !fits(value, schema) {
            match coerced(value, schema) {
                Some(better) => {
                    self.repairs
                        .push(format!("`{place}`: text taken as {}", type_of(&better)));
                    *value = better;
                }
                None => {
                    self.problems.push(format!(
                        "property `{place}` should be {}, found {}",
                        types(schema).join(" or "),
                        described(value),
                    ));
                    return;
                }
            }
        }
        match value {
            Value::Object(object) => self.object(object, schema, place),
            Value::Array(items) => {
                if let Some(wanted) = schema.get("items") {
                    for (number, item) in items.iter_mut().enumerate() {
                        self.value(item, wanted, &format!("{place}[{number}]"));
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

fn join(place: &str, name: &str) -> String {
    if place.is_empty() {
        name.to_owned()
    } else {
        format!("{place}.{name}")
    }
}

/// The JSON Schema types a schema takes; empty where it takes any, or says so in a way that is
/// left to the tool itself.
fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => return vec![one.as_str()],
        Some(Value::Array(several)) => return several.iter().filter_map(Value::as_str).collect(),
        _ => {}
    }
    for word in ["anyOf", "oneOf"] {
        if let Some(variants) = schema.get(word).and_then(Value::as_array) {
            let each: Vec<Vec<&str>> = variants.iter().map(types).collect();
            return if each.iter().any(Vec::is_empty) {
                Vec::new()
            } else {
                each.concat()
            };
        }
    }
    match schema.get("enum").and_then(Value::as_array) {
        Some(values) if values.iter().all(Value::is_string) => vec!["string"],
        _ if schema.get("const").is_some_and(Value::is_string) => vec!["string"],
        _ => Vec::new(),
    }
}

fn accepts(schema: &Value, wanted: &str) -> bool {
    let types = types(schema);
    types.is_empty() || types.contains(&wanted)
}

fn fits(value: &Value, schema: &Value) -> bool {
    match value {
        // JSON Schema counts every integer as a number, and 20.0 as an integer.
        Value::Number(number) => {
            accepts(schema, "number") || (accepts(schema, "integer") && !number.is_f64())
        }
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            accepts(schema, type_of(value))
        }
    }
}

fn coerced(value: &Value, schema: &Value) -> Option<Value> {
    if let Value::Number(number) = value {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        return number
            .as_f64()
            .filter(|float| {
                accepts(schema, "integer") && float.fract() == 0.0 && float.abs() < 9e15
            })
            .map(|float| Value::from(float as i64));
    }
    let text = value.as_str()?.trim();
    let types = types(schema);
    types.iter().find_map(|wanted| match *wanted {
        "integer" => text.parse::<i64>().ok().map(Value::from),
        "number" => text
            .parse::<f64>()
            .ok()
            .filter(|n| n.is_finite())
            .map(|_| ())
            .and_then(|()| serde_json::from_str(text).ok().filter(Value::is_number)),
        "boolean" => text.to_lowercase().parse::<bool>().ok().map(Value::from),
        "array" => lenient::read(text)
            .ok()
            .map(|reading| reading.value)
            .filter(Value::is_array),
        "object" => lenient::read(text)
            .ok()
            .map(|reading| reading.value)
            .filter(Value::is_object),
        _ => None,
    })
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn described(value: &Value) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    format!("{} {}", type_of(value), shorten(&value.to_string(), 60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": ["integer", "null"]},
                "ratio": {"type": "number"},
                "all": {"type": "boolean"},
                "edits": {"type": "array", "items": {
                    "type": "object",
                    "properties": {"old": {"type": "string"}, "line": {"type": "integer"}},
                    "required": ["old"],
                }},
                "mode": {"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]},
            },
            "required": ["path"],
            "additionalProperties": false,
        })
    }

    fn object(raw: &str) -> Value {
        Value::Object(read(raw, Some("command")).unwrap().object)
    }

    fn fitted(value: Value) -> Result<Value, String> {
        let Value::Object(mut map) = value else {
            unreachable!("a test passes objects")
        };
        fit(&mut map, &schema()).map(|_| Value::Object(map))
    }

    #[test]
    fn a_bare_string_stands_for_the_primary_key() {
        assert_eq!(object("ls -la"), json!({"command": "ls -la"}));
        assert_eq!(object(r#""ls -la""#), json!({"command": "ls -la"}));
        assert_eq!(object("  "), json!({}));
        assert!(
            read("ls -la", None)
                .unwrap_err()
                .contains("must be an object")
        );
    }

    #[test]
    fn an_encoded_object_and_a_fenced_one_are_the_object() {
        assert_eq!(
            object(r#""{\"command\": \"ls\"}""#),
            json!({"command": "ls"})
        );
        assert_eq!(
            object("```json\n{\"command\": \"ls\",}\n```"),
            json!({"command": "ls"})
        );
    }

    #[test]
    fn a_fenced_command_is_no_command() {
        assert!(read("```bash\nls\n```", Some("command")).is_err());
    }

    #[test]
    fn broken_json_is_refused_with_its_place_and_its_beginning() {
        let long = format!("{{\"command\": \"{}", "x".repeat(2000));
        let error = read(&long, Some("command")).unwrap_err();
        assert!(
            error.contains("ends inside a string at line 1 column"),
            "{error}"
        );
        assert!(
            error.contains("xxx") && error.chars().count() < 800,
            "{error}"
        );
    }

    #[test]
    fn text_is_coerced_only_where_the_schema_wants_another_type() {
        let sent = json!({"path": "[1,2]", "limit": "20", "all": "True", "ratio": "1.5",
            "edits": "[{\"old\": \"5\", \"line\": \"7\"}]", "mode": "a"});
        let wanted = json!({"path": "[1,2]", "limit": 20, "all": true, "ratio": 1.5,
            "edits": [{"old": "5", "line": 7}], "mode": "a"});
        assert_eq!(fitted(sent).unwrap(), wanted);
    }

    // L04
    #[test]
    fn odd_arguments_are_understood_only_as_the_schema_wants() {
        let schema = json!({"type": "object", "properties": {
            "command": {"type": "string"},
            "content": {"type": "string"},
            "limit": {"type": "integer"},
            "edits": {"type": "array", "items": {"type": "object"}},
        }});
        let understood = |raw: &str| {
            let mut object = read(raw, Some("command"))?.object;
            fit(&mut object, &schema)?;
            Ok::<_, String>(Value::Object(object))
        };
        for (raw, meant) in [
            (
                r#"{"edits":"[{\"old\":\"a\",\"new\":\"b\"}]"}"#,
                json!({"edits": [{"old": "a", "new": "b"}]}),
            ),
            (r#"{"limit":"20"}"#, json!({"limit": 20})),
            ("\"ls -la\"", json!({"command": "ls -la"})),
            ("", json!({})),
            (r#"{"content":"[1,2]"}"#, json!({"content": "[1,2]"})),
        ] {
            assert_eq!(understood(raw), Ok(meant), "{raw}");
        }
        for (raw, named) in [
            (r#"{"limit":"twenty"}"#, "`limit` should be integer"),
            (r#"{"edits":"all"}"#, "`edits` should be array"),
            (r#"{"content":[1,2]}"#, "`content` should be string"),
        ] {
            let error = understood(raw).unwrap_err();
            assert!(error.contains(named), "{raw}: {error}");
        }
    }

    #[test]
    fn null_is_absence_where_null_is_not_taken() {
        assert_eq!(
            fitted(json!({"path": "a", "all": null})).unwrap(),
            json!({"path": "a"})
        );
        assert_eq!(
            fitted(json!({"path": "a", "limit": null})).unwrap(),
            json!({"path": "a", "limit": null})
        );
        assert!(
            fitted(json!({"path": null}))
                .unwrap_err()
                .contains("`path` should be string")
        );
    }

    #[test]
    fn every_problem_is_named_with_its_property() {
        let error =
            fitted(json!({"limit": "many", "pth": 1, "edits": [{"line": [1]}]})).unwrap_err();
        for part in [
            "`limit` should be integer or null, found string \"many\"",
            "`pth` (did you mean `path`?)",
            "`edits[0].line` should be integer, found array [1]",
            "`edits[0].old` (string) is missing",
            "`path` (string) is missing",
        ] {
            assert!(error.contains(part), "{part} not in: {error}");
        }
    }
}
