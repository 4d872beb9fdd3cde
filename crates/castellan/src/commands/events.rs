//! `castellan __events`: the page about events, made from the types themselves.

use castellan_core::Recorded;
use serde_json::Value;

use crate::error::CommandError;
use crate::output::out;

const HEAD: &str = "\
# Events

Everything that happens in a session is told in these events: in the store, in the trace
(`traces/ID.jsonl` in the data folder), and by `castellan exec --json`. One event is one JSON object.

Every event has `ts` (UTC, milliseconds since 1970), `session` and `kind`. Those that are stored also
have `seq`, which counts a session's stored events from 1 without gaps; they are printed once they are
stored, in that order. Those that only pass by have none and are printed at once.
";

pub(crate) fn run() -> Result<(), CommandError> {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
    });
    let schema = settings.into_generator().into_root_schema_for::<Recorded>();
    out(&page(schema.as_value()))
}

fn page(schema: &Value) -> String {
    let mut page = HEAD.to_owned();
    for variant in schema["oneOf"].as_array().into_iter().flatten() {
        let kind = variant["properties"]["kind"]["const"]
            .as_str()
            .unwrap_or_default();
        page.push_str(&format!(
            "\n## `{kind}`\n\n{}\n",
            one_line(&variant["description"])
        ));
        let required = variant["required"].as_array();
        let is_required = |name: &str| {
            required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)))
        };
        let fields = variant["properties"].as_object().into_iter().flatten();
        let rows: String = fields
            .filter(|(name, _)| name.as_str() != "kind")
            .map(|(name, field)| {
                let may_miss = if is_required(name) {
                    ""
                } else {
                    ", may be absent"
                };
                let (shape, told) = (shape(field), one_line(&field["description"]));
                format!("| `{name}` | {shape}{may_miss} | {told} |\n")
            })
            .collect();
        if !rows.is_empty() {
            page.push_str(&format!(
                "\n| field | shape | meaning |\n|---|---|---|\n{rows}"
            ));
        }
    }
    page
}

fn one_line(text: &Value) -> String {
    text.as_str()
        .unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// A schema in a few words.
fn shape(schema: &Value) -> String {
    for word in ["oneOf", "anyOf"] {
        if let Some(variants) = schema[word].as_array() {
            let shapes: Vec<String> = variants.iter().map(shape).filter(|s| s != "null").collect();
            return shapes.join(" or ");
        }
    }
    if let Some(constant) = schema["const"].as_str() {
        return format!("`{constant}`");
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values
            .iter()
            .map(|v| format!("`{}`", v.as_str().unwrap_or_default()))
            .collect();
        return values.join(" or ");
    }
    match &schema["type"] {
        Value::String(one) if one == "array" => format!("list of {}", shape(&schema["items"])),
        Value::String(one) if one == "object" => object(schema),
        Value::String(one) => one.clone(),
        Value::Array(several) => {
            let known: Vec<&str> = several
                .iter()
                .filter_map(Value::as_str)
                .filter(|one| *one != "null")
                .collect();
            known.join(" or ")
        }
        _ => "anything".to_owned(),
    }
}

fn object(schema: &Value) -> String {
    let Some(properties) = schema["properties"].as_object() else {
        return "object".to_owned();
    };
    let fields: Vec<String> = properties
        .iter()
        .map(|(name, field)| match field["const"].as_str() {
            Some(constant) => format!("{name}: `{constant}`"),
            None => name.clone(),
        })
        .collect();
    format!("{{{}}}", fields.join(", "))
}
