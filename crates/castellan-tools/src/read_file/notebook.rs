//! A Jupyter notebook as text: its cells in order, with what they printed.

use castellan_core::text::{head_and_tail, plain};
use serde_json::Value;

/// Bytes of one output that are shown.
const OUTPUT: usize = 16 * 1024;

/// The cells of a notebook (nbformat 3 and 4); `None` where the bytes are no notebook.
pub(super) fn render(bytes: &[u8]) -> Option<String> {
    let notebook: Value = serde_json::from_slice(bytes).ok()?;
    let cells: Vec<&Value> = match notebook.get("cells").and_then(Value::as_array) {
        Some(cells) => cells.iter().collect(),
        None => {
            let sheets = notebook.get("worksheets")?.as_array()?.iter();
            sheets
                .filter_map(|sheet| sheet.get("cells")?.as_array())
                .flatten()
                .collect()
        }
    };
    let language = language(&notebook);
    let mut out = String::new();
    for (number, cell) in cells.into_iter().enumerate() {
        render_cell(number + 1, cell, language, &mut out);
    }
    if out.is_empty() {
        out.push_str("(a notebook without cells)\n");
    }
    Some(out)
}

fn language(notebook: &Value) -> &str {
    [
        "/metadata/kernelspec/language",
        "/metadata/language_info/name",
    ]
    .iter()
    .find_map(|place| notebook.pointer(place)?.as_str())
    .unwrap_or("")
}

fn render_cell(number: usize, cell: &Value, language: &str, out: &mut String) {
    let kind = string(cell, "cell_type");
    let count = ["execution_count", "prompt_number"]
        .iter()
        .find_map(|name| cell.get(name)?.as_u64())
        .map_or_else(String::new, |count| format!(" [{count}]"));
    let language = match string(cell, "language") {
        own if kind == "code" && !own.is_empty() => format!(" {own}"),
        _ if kind == "code" && !language.is_empty() => format!(" {language}"),
        _ => String::new(),
    };
    out.push_str(&format!("--- cell {number}: {kind}{count}{language}\n"));
    // Format 3 calls the source of a code cell its input.
    let source = cell.get("source").or_else(|| cell.get("input"));
    push(&joined(source), out);
    let outputs = cell.get("outputs").and_then(Value::as_array);
    for output in outputs.into_iter().flatten() {
        render_output(output, out);
    }
}

fn render_output(output: &Value, out: &mut String) {
    let kind = string(output, "output_type");
    if matches!(kind, "error" | "pyerr") {
        out.push_str(&format!(
            "--- error: {}: {}\n",
            string(output, "ename"),
            string(output, "evalue")
        ));
        let trace = output.get("traceback").and_then(Value::as_array);
        let lines = trace.into_iter().flatten().filter_map(Value::as_str);
        push(&cut(&plain(&lines.collect::<Vec<_>>().join("\n"))), out);
        return;
    }
    if kind == "stream" {
        let name = match string(output, "name") {
            "" => string(output, "stream"),
            name => name,
        };
        out.push_str(&format!("--- output ({name})\n"));
        push(&cut(&plain(&joined(output.get("text")))), out);
        return;
    }
    // Format 4 keeps what was displayed by media type, format 3 by short names beside the rest.
    let data = output.get("data").unwrap_or(output);
    let Some(data) = data.as_object() else { return };
    let text = ["text/plain", "text/markdown", "text/latex", "text"];
    let shown = text.into_iter().find(|name| data.contains_key(*name));
    for (name, value) in data {
        if Some(name.as_str()) == shown {
            out.push_str("--- output\n");
            push(&cut(&plain(&joined(Some(value)))), out);
        } else if is_media(name) {
            out.push_str(&format!(
                "--- output: {}\n",
                placeholder(name, &joined(Some(value)))
            ));
        }
    }
}

fn is_media(name: &str) -> bool {
    name.contains('/') || matches!(name, "png" | "jpeg" | "svg" | "html" | "latex" | "pdf")
}

/// What stands for what is not text.
fn placeholder(name: &str, data: &str) -> String {
    let image = name.starts_with("image/") || matches!(name, "png" | "jpeg");
    if image && !name.contains("svg") {
        let bytes = data.bytes().filter(u8::is_ascii_alphanumeric).count() * 3 / 4;
        format!("[{name}, about {bytes} bytes, not shown]")
    } else {
        format!("[{name}, {} bytes, not shown]", data.len())
    }
}

fn cut(text: &str) -> String {
    head_and_tail(text, OUTPUT, None).map_or_else(|| text.to_owned(), |cut| cut.text)
}

/// Text, which a notebook keeps whole or as a list of lines with their ends.
fn joined(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        Some(other) if !other.is_null() => other.to_string(),
        _ => String::new(),
    }
}

fn string<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("")
}

fn push(text: &str, out: &mut String) {
    out.push_str(text);
    if !text.is_empty() && !text.ends_with('\n') {
        out.push('\n');
    }
}
