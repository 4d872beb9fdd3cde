//! `docs/catalog.md`: every tool, as `castellan tools --all --json` lists it.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::cell;

const COLUMNS: &[&str] = &[
    "name",
    "domain",
    "summary",
    "primary_key",
    "effects",
    "surfaces",
    "default",
];

/// Columns whose values are words of a program.
const IN_CODE: &[&str] = &["name", "primary_key"];

/// The page. The list may stand alone or under `tools`; a tool without a name is an error.
pub(crate) fn page(json: &str) -> Result<String> {
    let json: Value = serde_json::from_str(json).context("the list of tools is not JSON")?;
    let tools = json.get("tools").unwrap_or(&json);
    let tools = tools
        .as_array()
        .context("the list of tools is not a list")?;

    let mut page = format!("# The catalog\n\n{} tools.\n\n", tools.len());
    page.push_str(&row(COLUMNS.iter().map(|column| (*column).to_owned())));
    page.push_str(&row(COLUMNS.iter().map(|_| "---".to_owned())));
    for tool in tools {
        tool.get("name")
            .and_then(Value::as_str)
            .context("a tool has no name")?;
        page.push_str(&row(COLUMNS.iter().map(|column| {
            let text = cell(&shown(tool.get(column).unwrap_or(&Value::Null)));
            let in_code = IN_CODE.contains(column) && !text.is_empty();
            if in_code { format!("`{text}`") } else { text }
        })));
    }
    Ok(page)
}

fn row(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

/// A value as words: lists are joined, of flags those that are set are named.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        Value::Object(flags) => {
            let set = flags.iter().filter(|(_, flag)| **flag == Value::Bool(true));
            set.map(|(name, _)| name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_one_row() {
        let json = r#"[{"name": "read_file", "domain": "files", "summary": "Reads | a file",
            "primary_key": "path", "effects": ["read_only"], "surfaces": {"mcp": true, "episode": false},
            "default": "allow"}]"#;
        let page = page(json).unwrap();
        let row = "| `read_file` | files | Reads \\| a file | `path` | read_only | mcp | allow |";
        assert_eq!(page.lines().last(), Some(row));
    }

    #[test]
    fn the_list_may_stand_under_a_key_and_fields_may_be_missing() {
        let page = page(r#"{"tools": [{"name": "a"}]}"#).unwrap();
        assert_eq!(page.lines().last(), Some("| `a` |  |  |  |  |  |  |"));
    }

    #[test]
    fn anything_but_a_list_of_named_tools_is_an_error() {
        assert!(page("nothing").is_err());
        assert!(page("{}").is_err());
        assert!(page(r#"[{"summary": "x"}]"#).is_err());
    }
}
