//! What hooks read and write.
//!
//! A hook reads one JSON object: `session_id`, `cwd`, `hook_event_name` (`PreToolUse`,
//! `PostToolUse`), `tool_name`, `tool_input`, `tool_use_id`, after a call also `tool_response`. So
//! that scripts written for other agents can't pass a call by because they don't know its tool,
//! `tool_name` is the name they know where there is one (`Bash`, `Read`, `Write`, `Edit`, `Grep`), and
//! file tools have `file_path` beside `path`. The tool's own name is always in `tool`.
//!
//! A hook that exits with 0 may write one JSON object: `{"decision": "allow|deny|ask", "reason": …,
//! "input": {…}}`, or `{"hookSpecificOutput": {"permissionDecision": …, "permissionDecisionReason":
//! …, "updatedInput": {…}}}`, or `{"decision": "approve|block", "reason": …}`. Exit code 2 denies,
//! with what stands on standard error as the reason, whatever was written beside it.
//!
//! Keys of other agents' answers that have no meaning here are passed over. But an answer of which
//! nothing is known, or with a key that is nearly a known one, or with one where it does not count, is
//! none: what it was to say would get lost.

use std::path::Path;

use castellan_core::event::Decision;
use castellan_core::nearest;
use castellan_core::text::{one_line, shorten};
use serde_json::{Map, Value, json};

use super::Told;

/// Our tools by the names that hooks written for other agents know.
const FAMILIAR: [(&str, &str); 8] = [
    ("bash", "Bash"),
    ("read_file", "Read"),
    ("write_file", "Write"),
    ("edit_file", "Edit"),
    ("search", "Grep"),
    ("web_fetch", "WebFetch"),
    ("web_search", "WebSearch"),
    ("task_agent", "Task"),
];
/// The tools whose `path` such hooks know as `file_path`.
const FILES: [&str; 3] = ["read_file", "write_file", "edit_file"];
/// What an answer may have.
const ANSWER: [&str; 10] = [
    "decision",
    "reason",
    "input",
    "continue",
    "stopReason",
    SPECIFIC,
    "additionalContext",
    "suppressOutput",
    "systemMessage",
    "terminalSequence",
];
/// What has an answer to one kind of event.
const SPECIFIC: &str = "hookSpecificOutput";
/// What that may have.
const SPECIFIC_ANSWER: [&str; 6] = [
    "hookEventName",
    "permissionDecision",
    "permissionDecisionReason",
    "updatedInput",
    "additionalContext",
    "updatedMCPToolOutput",
];
/// The parameter of ours, and its familiar name.
const PATH: [&str; 2] = ["path", "file_path"];

/// The familiar name of a tool.
pub(super) fn familiar(tool: &str) -> Option<&'static str> {
    let found = FAMILIAR.iter().find(|(own, _)| *own == tool);
    found.map(|(_, name)| *name)
}

/// Whether this is a familiar name.
pub(super) fn is_familiar(name: &str) -> bool {
    FAMILIAR.iter().any(|(_, familiar)| *familiar == name)
}

/// What a hook says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Saying {
    pub(super) decision: Option<Decision>,
    pub(super) reason: String,
    pub(super) input: Option<Map<String, Value>>,
}

/// What a hook reads before a call.
pub(super) fn before(told: &Told<'_>, arguments: &Map<String, Value>) -> String {
    Value::Object(common(told, "PreToolUse", arguments)).to_string()
}

/// What a hook reads after a call.
pub(super) fn after(told: &Told<'_>, response: &Value) -> String {
    let mut object = common(told, "PostToolUse", told.arguments);
    object.insert("tool_response".to_owned(), response.clone());
    Value::Object(object).to_string()
}

fn common(told: &Told<'_>, event: &str, arguments: &Map<String, Value>) -> Map<String, Value> {
    let name = &told.spec.name;
    let object = json!({
        "session_id": told.view.session.map(|id| id.to_string()).unwrap_or_default(),
        "cwd": told.view.cwd,
        "hook_event_name": event,
        "tool_name": familiar(name).unwrap_or(name),
        "tool_input": shown(name, arguments, &told.view.cwd),
        "tool_use_id": told.call_id,
        "tool": name,
        "workspace": told.view.workspace,
    });
    match object {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// The arguments with their familiar names beside them.
fn shown(tool: &str, arguments: &Map<String, Value>, cwd: &Path) -> Map<String, Value> {
    let mut shown = arguments.clone();
    let [own, familiar] = PATH;
    if FILES.contains(&tool)
        && let Some(path) = arguments.get(own).and_then(Value::as_str)
    {
        let whole = cwd.join(path).to_string_lossy().into_owned();
        shown.insert(familiar.to_owned(), whole.into());
    }
    shown
}

/// A hook's arguments as the tool takes them. `before` is what it was told.
///
/// # Errors
/// Where it gave a parameter two values.
pub(super) fn arguments(
    mut input: Map<String, Value>,
    before: &Map<String, Value>,
    told: &Told<'_>,
) -> Result<Map<String, Value>, String> {
    let [own, familiar] = PATH;
    if !FILES.contains(&told.spec.name.as_str()) {
        return Ok(input);
    }
    let shown = shown(&told.spec.name, before, &told.view.cwd);
    let Some(path) = input.remove(familiar) else {
        return Ok(input);
    };
    let moved = shown.get(familiar) != Some(&path);
    match input.get(own) {
        // It knows the familiar name only, and left or changed that.
        None if !moved => {
            if let Some(path) = before.get(own) {
                input.insert(own.to_owned(), path.clone());
            }
        }
        Some(kept) if moved && before.get(own) != Some(kept) && *kept != path => {
            return Err(format!("`{own}` and `{familiar}` name different files"));
        }
        Some(_) if !moved => {}
        None | Some(_) => {
            input.insert(own.to_owned(), path);
        }
    }
    Ok(input)
}

/// What a hook that ended by itself says of the call.
///
/// # Errors
/// How it failed, in words that read after "it".
pub(super) fn understood(code: i32, stdout: &[u8], stderr: &[u8]) -> Result<Saying, String> {
    match code {
        0 => {}
        2 => {
            return Ok(Saying {
                decision: Some(Decision::Deny),
                reason: String::from_utf8_lossy(stderr).trim().to_owned(),
                input: None,
            });
        }
        code => {
            let said = String::from_utf8_lossy(stderr);
            let said = shorten(said.trim(), 300);
            let said = if said.is_empty() {
                said
            } else {
                format!(": {said}")
            };
            return Err(format!("ended with exit code {code}{said}"));
        }
    }
    let Some(object) = object(stdout)? else {
        return Ok(Saying::default());
    };
    let mut saying = Saying::default();
    if object.get("continue") == Some(&Value::Bool(false)) {
        saying.add(Decision::Deny, text(&object, "stopReason")?);
    }
    if let Some(word) = text(&object, "decision")? {
        saying.add(decision(&word)?, text(&object, "reason")?);
    }
    saying.input = input(&object, "input")?;
    if let Some(nested) = specific(&object)? {
        if let Some(word) = text(nested, "permissionDecision")? {
            saying.add(decision(&word)?, text(nested, "permissionDecisionReason")?);
        }
        if let Some(updated) = input(nested, "updatedInput")? {
            saying.input = Some(updated);
        }
    }
    Ok(saying)
}

impl Saying {
    /// Of two decisions in one answer the stricter one counts.
    fn add(&mut self, decision: Decision, reason: Option<String>) {
        if self.decision.is_none_or(|before| decision > before) {
            self.decision = Some(decision);
            self.reason = reason.unwrap_or_default();
        }
    }
}

/// What a hook that ended by itself has to say to the model after a call.
pub(super) fn remark(code: i32, stdout: &[u8], stderr: &[u8]) -> Option<String> {
    let said = String::from_utf8_lossy(stderr).trim().to_owned();
    match code {
        0 => {}
        2 if said.is_empty() => return Some("it objects, and says nothing more".to_owned()),
        2 => return Some(said),
        code if said.is_empty() => return Some(format!("it failed with exit code {code}")),
        code => return Some(format!("it failed with exit code {code}: {said}")),
    }
    let remark = object(stdout).and_then(|object| {
        let Some(object) = object else {
            return Ok(Vec::new());
        };
        let mut remarks = Vec::new();
        if text(&object, "decision")?.is_some_and(|word| word == "block") {
            remarks.extend(text(&object, "reason")?);
        }
        remarks.extend(text(&object, "additionalContext")?);
        if let Some(nested) = specific(&object)? {
            remarks.extend(text(nested, "additionalContext")?);
        }
        Ok(remarks)
    });
    match remark {
        Ok(remarks) if remarks.is_empty() => None,
        Ok(remarks) => Some(remarks.join("; ")),
        Err(how) => Some(format!("it failed: it {how}")),
    }
}

/// The object a hook wrote; `None` where it wrote nothing.
fn object(stdout: &[u8]) -> Result<Option<Map<String, Value>>, String> {
    if stdout.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    match serde_json::from_slice(stdout) {
        Ok(Value::Object(object)) => {
            known(&object, &ANSWER, &SPECIFIC_ANSWER)?;
            Ok(Some(object))
        }
        Ok(_) => Err("wrote JSON that is no object".to_owned()),
        Err(error) => Err(format!("wrote something that is no JSON: {error}")),
    }
}

/// The part of an answer that is about the event.
fn specific(object: &Map<String, Value>) -> Result<Option<&Map<String, Value>>, String> {
    match object.get(SPECIFIC) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(nested)) => {
            known(nested, &SPECIFIC_ANSWER, &ANSWER)?;
            Ok(Some(nested))
        }
        Some(_) => Err(format!("wrote a `{SPECIFIC}` that is no object")),
    }
}

/// Makes sure that nothing an object says is lost: `here` are the keys it may have, `elsewhere` those
/// that count in another place.
fn known(object: &Map<String, Value>, here: &[&str], elsewhere: &[&str]) -> Result<(), String> {
    let shown = |key: &str| shorten(&one_line(key), 40);
    for key in object.keys().filter(|key| !here.contains(&key.as_str())) {
        if elsewhere.contains(&key.as_str()) {
            return Err(format!("wrote `{}` where it does not count", shown(key)));
        }
        let plain = key.replace(['_', '-', ' '], "");
        if let Some(meant) = nearest::slip(&plain, here.iter().chain(elsewhere).copied()) {
            return Err(format!(
                "wrote a key `{}`; the one that counts is `{meant}`",
                shown(key)
            ));
        }
    }
    if object.is_empty() || object.keys().any(|key| here.contains(&key.as_str())) {
        return Ok(());
    }
    let keys: Vec<String> = object.keys().take(3).map(|key| shown(key)).collect();
    Err(format!(
        "wrote an answer in which nothing is known: `{}`",
        keys.join("`, `")
    ))
}

fn text(object: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("wrote a `{key}` that is no text")),
    }
}

fn input(object: &Map<String, Value>, key: &str) -> Result<Option<Map<String, Value>>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(input)) => Ok(Some(input.clone())),
        Some(_) => Err(format!("wrote an `{key}` that is no object")),
    }
}

fn decision(word: &str) -> Result<Decision, String> {
    match word {
        "allow" | "approve" => Ok(Decision::Allow),
        "ask" => Ok(Decision::Ask),
        "deny" | "block" => Ok(Decision::Deny),
        other => Err(format!(
            "wrote the decision `{}`; it is one of allow, ask and deny",
            shorten(other, 40)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(stdout: &str) -> Result<Saying, String> {
        understood(0, stdout.as_bytes(), b"")
    }

    #[test]
    fn every_shape_of_an_answer_is_understood() {
        let allow = |decision, reason: &str| Saying {
            decision: Some(decision),
            reason: reason.to_owned(),
            input: None,
        };
        for (stdout, expected) in [
            ("", Saying::default()),
            (" \n", Saying::default()),
            ("{}", Saying::default()),
            (
                r#"{"suppressOutput": true, "reason": null}"#,
                Saying::default(),
            ),
            (
                r#"{"decision": "allow", "reason": "r"}"#,
                allow(Decision::Allow, "r"),
            ),
            (r#"{"decision": "approve"}"#, allow(Decision::Allow, "")),
            (
                r#"{"decision": "block", "reason": "r"}"#,
                allow(Decision::Deny, "r"),
            ),
            (
                r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask",
                    "permissionDecisionReason": "r"}}"#,
                allow(Decision::Ask, "r"),
            ),
            (
                r#"{"continue": false, "stopReason": "r"}"#,
                allow(Decision::Deny, "r"),
            ),
            // What says nothing to us.
            (
                r#"{"continue": true, "systemMessage": "m", "version": 1,
                    "hookSpecificOutput": {"hookEventName": "PreToolUse", "somebodysOwn": 1}}"#,
                Saying::default(),
            ),
            (r#"{"hookSpecificOutput": {}}"#, Saying::default()),
            // The stricter of two.
            (
                r#"{"decision": "approve", "hookSpecificOutput": {"permissionDecision": "deny"}}"#,
                allow(Decision::Deny, ""),
            ),
        ] {
            assert_eq!(said(stdout), Ok(expected), "{stdout}");
        }
    }

    #[test]
    fn an_answer_that_is_none_is_a_failure() {
        for stdout in [
            "looks fine to me",
            "[]",
            "true",
            "{\"decision\": \"allow\"} trailing",
            "{\"decision\": \"alow\"}",
            "{\"decision\": true}",
            "{\"input\": \"ls\"}",
            "{\"hookSpecificOutput\": []}",
            "{\"Decision\": \"deny\"}",
            "{\"DECISION\": \"deny\", \"reason\": \"r\"}",
            "{\"desicion\": \"deny\", \"reason\": \"r\"}",
            "{\"permission\": \"deny\"}",
            "{\"ok\": false}",
            "{\"permissionDecision\": \"deny\", \"continue\": true}",
            "{\"hook_specific_output\": {\"permissionDecision\": \"deny\"}}",
            "{\"hookSpecificOutput\": {\"permission_decision\": \"deny\"}}",
            "{\"hookSpecificOutput\": {\"decision\": \"deny\"}}",
            "{\"hookSpecificOutput\": {\"verdict\": \"deny\"}}",
            "{\"continue\": true, \"updated_input\": {}}",
        ] {
            assert!(said(stdout).is_err(), "{stdout}");
        }
        assert!(understood(1, b"{\"decision\": \"allow\"}", b"").is_err());
        assert!(understood(127, b"", b"not found").is_err());
    }

    #[test]
    fn exit_code_2_denies_whatever_else_was_said() {
        let saying = understood(2, b"{\"decision\": \"allow\"}", b" no force pushes\n").unwrap();
        assert_eq!(saying.decision, Some(Decision::Deny));
        assert_eq!(saying.reason, "no force pushes");
    }

    #[test]
    fn a_remark_is_for_the_model_and_a_failure_is_said() {
        let said =
            |code, stdout: &str, stderr: &str| remark(code, stdout.as_bytes(), stderr.as_bytes());
        assert_eq!(said(0, "", "noise"), None);
        assert_eq!(
            said(2, "", "run the formatter\n").unwrap(),
            "run the formatter"
        );
        let context = r#"{"hookSpecificOutput": {"additionalContext": "see docs"}}"#;
        assert_eq!(said(0, context, "").unwrap(), "see docs");
        assert_eq!(
            said(0, r#"{"decision": "block", "reason": "undo it"}"#, "").unwrap(),
            "undo it"
        );
        assert!(said(3, "", "boom").unwrap().contains("exit code 3: boom"));
        assert!(said(0, "hello", "").unwrap().contains("no JSON"));
    }
}
