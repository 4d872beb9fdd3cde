//! JSON schemas of blackboard slots: which are taken, and whether a value fits one.
//!
//! A schema comes from whoever writes, so holding a value against it must end soon and reach for
//! nothing outside: no reference leaves the schema, none leads back to itself, what all references
//! unfold to is bounded, and patterns run in linear time.

use jsonschema::PatternOptions;
use serde_json::Value;

use castellan_core::text::{one_line, shorten};

/// The longest schema, in bytes of JSON.
pub(crate) const SCHEMA_LIMIT: usize = 16 * 1024;

/// How many values a schema consists of once its references are unfolded.
const NODES: usize = 2000;

/// How deep references lead into each other.
const DEPTH: usize = 64;

/// How large a compiled pattern gets, in bytes.
const PATTERN_LIMIT: usize = 256 * 1024;

/// How many problems of a value are named.
const PROBLEMS: usize = 5;

/// Keywords that make references mean something else than their text says.
const REFUSED: [&str; 5] = [
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
];

/// Why a schema is not taken, if it is not.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check(schema: &Value) -> Result<(), String> {
    if !schema.is_object() {
        return Err("a schema is a JSON object".to_owned());
    }
    let size = schema.to_string().len();
    if size > SCHEMA_LIMIT {
        return Err(format!(
            "it has {size} bytes, at most {SCHEMA_LIMIT} are kept"
        ));
    }
    let mut nodes = 0;
    unfold(schema, schema, 0, &mut nodes)?;
    compile(schema).map(drop)
}

/// Why `value` does not fit `schema`, if it does not.
///
/// # Errors
/// The first problems, each with its place.
pub(crate) fn fits(schema: &Value, value: &Value) -> Result<(), String> {
    let validator = compile(schema)?;
    let mut problems: Vec<String> = validator
        .iter_errors(value)
        .take(PROBLEMS + 1)
        .map(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() {
                "the value"
            } else {
                &place
            };
            format!("{place}: {}", one_line(&shorten(&error.to_string(), 160)))
        })
        .collect();
    if problems.is_empty() {
        return Ok(());
    }
    if problems.len() > PROBLEMS {
        problems.truncate(PROBLEMS);
        problems.push("and more".to_owned());
    }
    Err(problems.join("; "))
}

fn compile(schema: &Value) -> Result<jsonschema::Validator, String> {
    let patterns = PatternOptions::regex()
        .size_limit(PATTERN_LIMIT)
        .dfa_size_limit(PATTERN_LIMIT);
    jsonschema::options()
        .offline()
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| one_line(&shorten(&error.to_string(), 200)))
}

/// Counts what `part` of `schema` consists of, references followed.
fn unfold(schema: &Value, part: &Value, depth: usize, nodes: &mut usize) -> Result<(), String> {
    *nodes += 1;
    if *nodes > NODES {
        return Err(format!(
            "with its references unfolded it has more than {NODES} parts, or they lead back to \
             themselves"
        ));
    }
    if depth > DEPTH {
        return Err("its references lead back to themselves, or too deep".to_owned());
    }
    match part {
        Value::Array(items) => {
            for item in items {
                unfold(schema, item, depth, nodes)?;
            }
        }
        Value::Object(object) => {
            let root = std::ptr::eq(part, schema);
            for (key, value) in object {
                keyword(key, value, root)?;
                if let (true, Some(reference)) = (key == "$ref", value.as_str()) {
                    let target = referred(schema, reference)?;
                    unfold(schema, target, depth + 1, nodes)?;
                }
                // What is only defined counts where it is referred to. Further in, the same words
                // can be names of properties.
                if !root || (key != "$defs" && key != "definitions") {
                    unfold(schema, value, depth, nodes)?;
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

/// Refuses keywords that could lead elsewhere than [`unfold`] follows them.
fn keyword(key: &str, value: &Value, root: bool) -> Result<(), String> {
    let Some(text) = value.as_str() else {
        return Ok(());
    };
    if REFUSED.contains(&key) || (key == "$id" && !root) {
        return Err(format!(
            "`{key}` is not taken: references are written `{{\"$ref\": \"#/$defs/NAME\"}}`"
        ));
    }
    // There `id` means what `$id` means later.
    if key == "$schema" && (text.contains("draft-03") || text.contains("draft-04")) {
        return Err("it is of a draft older than 6; write it as draft 2020-12".to_owned());
    }
    Ok(())
}

/// What a reference means.
fn referred<'a>(schema: &'a Value, reference: &str) -> Result<&'a Value, String> {
    let shown = one_line(&shorten(reference, 80));
    let pointer = reference
        .strip_prefix('#')
        .filter(|pointer| pointer.is_empty() || pointer.starts_with('/'))
        .ok_or_else(|| {
            format!(
                "the reference `{shown}` leaves the schema; only `#/…` is followed, nothing is \
                 fetched"
            )
        })?;
    // A percent sign would make it mean another place to whoever decodes it.
    if pointer.contains('%') {
        return Err(format!("the reference `{shown}` contains a percent sign"));
    }
    schema
        .pointer(pointer)
        .ok_or_else(|| format!("the reference `{shown}` leads nowhere"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_held_against_its_schema() {
        let schema = json!({
            "type": "object",
            "properties": {"step": {"$ref": "#/$defs/step"}},
            "required": ["step"],
            "$defs": {"step": {"type": "integer", "minimum": 1}},
        });
        check(&schema).unwrap();
        fits(&schema, &json!({"step": 3})).unwrap();
        let problem = fits(&schema, &json!({"step": 0})).unwrap_err();
        assert!(problem.starts_with("/step: "), "{problem}");
        assert!(fits(&schema, &json!({})).is_err());
        let many = fits(
            &json!({"items": {"type": "null"}}),
            &json!([1, 2, 3, 4, 5, 6, 7]),
        );
        assert!(many.unwrap_err().ends_with("; and more"));
    }

    #[test]
    fn no_reference_leaves_the_schema() {
        for reference in [
            "http://127.0.0.1:1/schema.json",
            "https://example.com/x",
            "file:///etc/passwd",
            "other.json",
            "#name",
            "json-schema:///x",
            "#/%24defs/a",
            "#/$defs/none",
        ] {
            for schema in [
                json!({"$ref": reference}),
                json!({"properties": {"a": {"items": {"$ref": reference}}}, "$defs": {"a": {}}}),
            ] {
                assert!(check(&schema).is_err(), "{schema}");
            }
        }
        assert!(check(&json!({"$schema": "https://example.com/meta"})).is_err());
        let old = json!({"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://a/"});
        assert!(check(&old).is_err());
        let data =
            json!({"default": {"id": "x"}, "$schema": "http://json-schema.org/draft-07/schema#"});
        assert_eq!(check(&data), Ok(()));
        assert!(
            check(&json!({"properties": {"a": {"$id": "http://a/", "type": "null"}}})).is_err()
        );
        assert!(check(&json!({"$id": "https://example.com/x", "type": "object"})).is_ok());
    }

    #[test]
    fn no_schema_takes_for_ever() {
        let twice = |name: &str| json!({"allOf": [{"$ref": name}, {"$ref": name}]});
        let mut doubling = json!({"$ref": "#/$defs/d0", "$defs": {}});
        for number in 0..40 {
            doubling["$defs"][format!("d{number}")] = twice(&format!("#/$defs/d{}", number + 1));
        }
        doubling["$defs"]["d40"] = json!({"type": "null"});
        let recursive = json!({"properties": {"a": {"$ref": "#"}}});
        let circle = json!({"$ref": "#/$defs/a", "$defs": {
            "a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"},
        }});
        let itself = json!({"$ref": "#"});
        let dynamic = json!({"$dynamicRef": "#a", "$dynamicAnchor": "a"});
        let hidden = json!({"properties": {"$defs": twice("#")}});
        let unused = json!({"$defs": {"a": {"$ref": "#/$defs/a"}}});
        for schema in [doubling, recursive, circle, itself, dynamic, hidden] {
            assert!(check(&schema).is_err(), "{schema}");
        }
        // Nothing refers to it, so nothing follows it.
        let harmless = check(&unused).and_then(|()| fits(&unused, &json!(1)));
        assert_eq!(harmless, Ok(()));
    }

    #[test]
    fn a_hostile_pattern_is_refused_or_quick() {
        let slow = json!({"pattern": "^(a+)+$"});
        check(&slow).unwrap();
        assert!(fits(&slow, &json!(format!("{}b", "a".repeat(50_000)))).is_err());
        for pattern in ["(?=a)b", "(", "(((((a{100}){100}){100}){100}){100})"] {
            assert!(check(&json!({"pattern": pattern})).is_err(), "{pattern}");
        }
        let large = json!({"description": "x".repeat(SCHEMA_LIMIT)});
        assert!(check(&large).unwrap_err().contains("at most"));
        assert!(check(&json!(true)).is_err());
    }
}
