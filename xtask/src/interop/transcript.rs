//! What a client was answered, held against what the docs promise. A transcript is the object that
//! `tests/external/clients/episode.py` tells.

use serde_json::Value;

/// The tools that are listed in full.
const IN_FULL: [&str; 3] = [
    "castellan_discover_tools",
    "castellan_search_tools",
    "castellan_describe_tool",
];

/// The tool that the sequence finds, reads up and calls.
const FOUND: &str = "castellan_deposit_signal";

/// The protocol's code for what does not exist.
const METHOD_NOT_FOUND: i64 = -32601;

/// What is wrong with a transcript of a client that must have agreed on `revision`; nothing where
/// all is as promised.
pub(super) fn wrong(said: &Value, revision: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut demand = |holds: bool, what: &str, found: &Value| {
        if !holds {
            wrong.push(format!("{what}, but: {}", shortened(found)));
        }
    };
    let at = |path: &str| said.pointer(path).unwrap_or(&Value::Null);
    let text = |path: &str| at(path).as_str().unwrap_or_default();

    demand(
        text("/protocol") == revision,
        "the revision is agreed on",
        at("/protocol"),
    );
    let server = at("/server");
    let known = server.is_null() || server == "castellan";
    demand(known, "the server is named, if at all", server);
    demand(
        lists_as_promised(at("/tools")),
        "the meta tools are in full, others are cards",
        at("/tools"),
    );

    let search = at("/search");
    let first = text("/search/structured/tools/0/name") == FOUND;
    demand(
        first && succeeded(search),
        "the search finds the tool first",
        search,
    );
    let ranking = at("/search/structured/ranking");
    demand(ranking == "bm25", "it says how it ranked", ranking);

    let describe = at("/describe");
    let parameters = at("/describe/structured/tool/parameters/properties");
    let full = ["zone", "signal", "amount"]
        .iter()
        .all(|name| parameters.get(name).is_some());
    demand(
        full && succeeded(describe),
        "the description has the parameters",
        describe,
    );

    let deposit = at("/deposit");
    let after = at("/deposit/structured/after").as_f64().unwrap_or_default();
    demand(
        after >= 2.0 && succeeded(deposit),
        "the signal is deposited",
        deposit,
    );
    let read = at("/read");
    let pressure = at("/read/structured/pressure").as_f64().unwrap_or_default();
    demand(pressure > 0.0 && succeeded(read), "and can be read", read);

    let mistake = at("/mistake");
    let failed = at("/mistake/is_error") == true;
    let code = text("/mistake/structured/error_code") == "VALIDATION";
    let shown = at("/mistake/structured/parameters/properties/amount").is_object();
    demand(
        failed && code && shown,
        "a wrong call is a result that shows the right one",
        mistake,
    );

    let unknown = at("/unknown");
    let coded = at("/unknown/code").as_i64() == Some(METHOD_NOT_FOUND)
        && text("/unknown/data/error_code") == "TOOL_NOT_FOUND"
        && at("/unknown/data/ok") == false
        && at("/unknown/data/nearest").is_array();
    // The Inspector shows the words of an error and not its code.
    let worded = text("/unknown/message").contains("there is no tool named");
    demand(
        coded || worded,
        "an unknown tool is an error of the protocol",
        unknown,
    );
    wrong
}

/// Whether a result is no failure, and its text is the structured value.
fn succeeded(told: &Value) -> bool {
    let at = |field: &str| told.get(field).unwrap_or(&Value::Null);
    let text = at("text").as_str().unwrap_or_default();
    let same =
        serde_json::from_str::<Value>(text).is_ok_and(|value| alike(&value, at("structured")));
    at("is_error") == false && same
}

/// Equality of JSON for programs that know one kind of number only.
fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, one)| other.get(key).is_some_and(|other| alike(one, other)))
        }
        _ => one == other,
    }
}

fn lists_as_promised(tools: &Value) -> bool {
    let tools = tools.as_array().map_or(&[] as &[Value], Vec::as_slice);
    let name = |tool: &Value| {
        let name = tool.get("name").and_then(Value::as_str);
        name.unwrap_or_default().to_owned()
    };
    let full = |tool: &Value| tool.pointer("/schema/properties").is_some();
    let meta = |tool: &Value| IN_FULL.contains(&name(tool).as_str());
    tools.iter().filter(|tool| meta(tool)).count() == IN_FULL.len()
        && tools.iter().any(|tool| name(tool) == FOUND)
        && tools.iter().all(|tool| full(tool) == meta(tool))
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(300).collect();
    if short.len() < text.len() {
        format!("{short}…")
    } else {
        short
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(structured: &Value) -> Value {
        json!({"structured": structured, "text": structured.to_string(), "is_error": false})
    }

    fn promised() -> Value {
        let tool = |name: &str, schema: Value| json!({"name": name, "schema": schema});
        let card = json!({"type": "object"});
        let full = json!({"type": "object", "properties": {}});
        let mut tools: Vec<Value> = IN_FULL.map(|name| tool(name, full.clone())).to_vec();
        tools.push(tool(FOUND, card));
        let parameters = json!({"properties": {"zone": {}, "signal": {}, "amount": {}}});
        json!({
            "protocol": "2025-11-25",
            "server": "castellan",
            "tools": tools,
            "search": told(&json!({"ranking": "bm25", "tools": [{"name": FOUND}]})),
            "describe": told(&json!({"tool": {"parameters": parameters}})),
            "deposit": told(&json!({"after": 2.0})),
            "read": told(&json!({"pressure": 1.9})),
            "mistake": {
                "structured": {"error_code": "VALIDATION", "parameters": parameters},
                "is_error": true,
            },
            "unknown": {
                "code": METHOD_NOT_FOUND,
                "data": {"ok": false, "error_code": "TOOL_NOT_FOUND", "nearest": [FOUND]},
            },
        })
    }

    #[test]
    fn what_is_promised_has_nothing_wrong() {
        assert_eq!(wrong(&promised(), "2025-11-25"), [] as [String; 0]);
    }

    #[test]
    fn every_single_answer_that_is_missing_is_noticed() {
        let all = promised();
        for field in all
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| *key != "server")
        {
            let mut less = all.clone();
            less.as_object_mut().unwrap().remove(field);
            assert!(!wrong(&less, "2025-11-25").is_empty(), "{field}");
        }
        assert_eq!(wrong(&all, "2026-07-28").len(), 1);
        assert!(!wrong(&Value::Null, "2025-11-25").is_empty());
    }

    #[test]
    fn an_answer_whose_text_says_something_else_is_noticed() {
        let mut other = promised();
        other["deposit"]["text"] = r#"{"after": 3}"#.into();
        assert_eq!(wrong(&other, "2025-11-25").len(), 1);
        // One kind of number is as good as another.
        other["deposit"]["text"] = r#"{"after": 2}"#.into();
        assert_eq!(wrong(&other, "2025-11-25"), [] as [String; 0]);
    }

    #[test]
    fn a_list_that_shows_too_much_or_too_little_is_noticed() {
        let mut much = promised();
        much["tools"][3]["schema"]["properties"] = json!({});
        assert_eq!(wrong(&much, "2025-11-25").len(), 1);
        let mut little = promised();
        little["tools"][0]["schema"] = json!({"type": "object"});
        assert_eq!(wrong(&little, "2025-11-25").len(), 1);
    }
}
