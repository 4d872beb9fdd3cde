//! What is taken for a call, and what is left alone (both as tables).

use super::stage::Stage;
use super::*;
use proptest::prelude::*;
use serde_json::json;

fn known() -> BTreeSet<String> {
    ["read_file", "bash"].map(str::to_owned).into()
}

/// The calls of an answer, with the words before them.
fn found(text: &str) -> Option<(String, Vec<(String, Value)>)> {
    let written = find(text, &known())?;
    let calls = written.calls.iter().map(|call| {
        assert!(call.from_text && call.complete && call.provider_id.is_none());
        let arguments = serde_json::from_str(&call.arguments).unwrap_or(json!(call.arguments));
        (call.name.clone(), arguments)
    });
    let before = text.get(..written.start).unwrap();
    Some((before.trim().to_owned(), calls.collect()))
}

/// One answer for each way to write the call `read_file {"path": "a.txt"}`.
const ONE_CALL: &[&str] = &[
    r#"{"name": "read_file", "arguments": {"path": "a.txt"}}"#,
    r#"{"name": "read_file", "parameters": {"path": "a.txt"}}"#,
    r#"{"tool": "read_file", "args": {"path": "a.txt"}}"#,
    r#"{"tool_name": "read_file", "input": {"path": "a.txt"}}"#,
    r#"{"action": "read_file", "action_input": {"path": "a.txt"}}"#,
    r#"{"type": "function", "function": {"name": "read_file", "arguments": "{\"path\": \"a.txt\"}"}}"#,
    r#"{"tool_calls": [{"id": "1", "type": "function", "function": {"name": "read_file", "arguments": {"path": "a.txt"}}}]}"#,
    r#"[{"name": "read_file", "arguments": {"path": "a.txt"}}]"#,
    r#"{'name': 'read_file', 'arguments': {'path': 'a.txt',}}"#,
    "\n{\"name\": \"functions.read_file\", \"arguments\": {\"path\": \"a.txt\"}}<|im_end|>\n",
    "```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}\n```",
    "```\n[{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}]\n```\n",
    "<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}\n</tool_call>",
    "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}",
    "<tool_call>[{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}]</tool_call>",
    "<tool_call>\n```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}\n```\n</tool_call>",
    "<tool_call>\n<function=read_file>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>",
    "<function=read_file><parameter=path>a.txt</parameter></function>",
    "<function=read_file>{\"path\": \"a.txt\"}</function>",
    "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a.txt</arg_value>\n</tool_call>",
    "<function_calls>\n<invoke name=\"read_file\">\n<parameter name=\"path\">a.txt</parameter>\n</invoke>\n</function_calls>",
    "<minimax:tool_call><invoke name=\"read_file\"><parameter name=\"path\">a.txt</parameter></invoke></minimax:tool_call>",
    "<function_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}</function_call>",
    "<|tool_call|>[{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}]<|/tool_call|>",
    "<|python_tag|>{\"name\": \"read_file\", \"parameters\": {\"path\": \"a.txt\"}}<|eom_id|>",
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{\"path\": \"a.txt\"}<|tool_call_end|><|tool_calls_section_end|>",
    "[TOOL_CALLS] [{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}]</s>",
    "[TOOL_CALLS]read_file[ARGS]{\"path\": \"a.txt\"}",
    "[TOOL_CALLS]read_file{\"path\": \"a.txt\"}",
];

#[test]
fn a_call_is_found_in_every_known_shape() {
    let call = ("read_file".to_owned(), json!({"path": "a.txt"}));
    for text in ONE_CALL {
        assert_eq!(
            found(text),
            Some((String::new(), vec![call.clone()])),
            "{text}"
        );
    }
}

#[test]
fn words_before_a_marker_stay_words() {
    let call = ("read_file".to_owned(), json!({"path": "a.txt"}));
    for text in ONE_CALL
        .iter()
        .filter(|text| text.starts_with("<tool_call") || text.starts_with("[T"))
    {
        for lead in [
            "I'll look.\n\n",
            "I'll look. ",
            "Use `<tool_call>`, they said:\n",
        ] {
            let expected = Some((lead.trim().to_owned(), vec![call.clone()]));
            assert_eq!(found(&format!("{lead}{text}")), expected, "{lead}{text}");
        }
    }
}

#[test]
fn several_calls_are_found_in_their_order() {
    let two = vec![
        ("read_file".to_owned(), json!({"path": "a"})),
        ("bash".to_owned(), json!({"command": "ls"})),
    ];
    for text in [
        r#"[{"name": "read_file", "arguments": {"path": "a"}}, {"name": "bash", "arguments": {"command": "ls"}}]"#,
        "{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}",
        r#"{"name": "read_file", "parameters": {"path": "a"}}; {"name": "bash", "parameters": {"command": "ls"}}"#,
        "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tool_call>\n<tool_call>{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}</tool_call>",
        "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n<tool_call>{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}",
        "<tool_call><function=read_file><parameter=path>a</parameter></function></tool_call><tool_call><function=bash><parameter=command>ls</parameter></function></tool_call>",
        "[TOOL_CALLS]read_file[CALL_ID]x1[ARGS]{\"path\": \"a\"}[TOOL_CALLS]bash[ARGS]{\"command\": \"ls\"}",
    ] {
        assert_eq!(found(text), Some((String::new(), two.clone())), "{text}");
    }
}

#[test]
fn arguments_may_be_missing_or_bare_within_a_marker() {
    let call = |arguments: Value| Some((String::new(), vec![("bash".to_owned(), arguments)]));
    for (text, arguments) in [
        ("<tool_call>{\"name\": \"bash\"}</tool_call>", json!("")),
        (
            "<tool_call>{\"name\": \"bash\", \"arguments\": null}</tool_call>",
            json!(""),
        ),
        ("<tool_call>bash</tool_call>", json!({})),
        ("<function=bash></function>", json!({})),
        (
            "<function=bash><parameter=command>\n\n  ls\n[1,2]\n</parameter></function>",
            json!({"command": "\n  ls\n[1,2]"}),
        ),
    ] {
        assert_eq!(found(text), call(arguments), "{text}");
    }
    assert_eq!(
        found(r#"{"tool": "bash", "input": "ls -la"}"#),
        call(json!("ls -la"))
    );
}

/// Answers that have something like a call in them and are none.
const NO_CALLS: &[&str] = &[
    // Words around it.
    "You can call it like this:\n```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}\n```",
    "```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}\n```\nThat would read the file.",
    "Sure: {\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}}",
    "{\"name\": \"read_file\", \"arguments\": {\"path\": \"a.txt\"}} reads the file.",
    "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tool_call>\nis how models write it.",
    "<tool_call> is a tag; it ends with </tool_call>",
    // In code.
    "Write:\n```\n<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tool_call>\n```",
    "Write `<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tool_call>`",
    "Write:\n````\n```\n<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}</tool_call>",
    // Data, not a call.
    r#"{"name": "read_file", "description": "Reads.", "parameters": {"type": "object"}}"#,
    r#"{"name": "read_file", "parameters": {"type": "object", "properties": {"path": {}}}}"#,
    r#"{"name": "read_file"}"#,
    r#"{"name": "read_file", "arguments": null}"#,
    r#"{"name": "read_file", "arguments": [1]}"#,
    r#"{"name": "read_file", "arguments": {"path": "a"}, "result": "text"}"#,
    r#"{"path": "a.txt"}"#,
    "[]",
    "[[[[[{\"name\": \"read_file\", \"arguments\": {}}]]]]]",
    // No tool of that name, or another one beside.
    r#"{"name": "Read_File", "arguments": {"path": "a.txt"}}"#,
    r#"{"name": "Ada", "arguments": {"path": "a.txt"}}"#,
    r#"[{"name": "read_file", "arguments": {"path": "a"}}, {"name": "remove", "arguments": {}}]"#,
    // Cut or broken.
    r#"{"name": "read_file", "arguments": {"path": "a.txt"}"#,
    "<tool_call>{\"name\": \"bash\", \"arguments\": {\"command\": \"rm -rf bu",
    "<tool_call>\n<function=bash>\n<parameter=command>\nrm -rf bu",
    "<function=bash><parameter=command>ls</parameter>",
    "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls",
    "[TOOL_CALLS]bash{\"command\": \"ls",
    "<function=bash><parameter=command>ls</parameter><parameter=command>rm</parameter></function>",
    // Lines of another protocol.
    "Thought: I should look.\nAction: read_file\nAction Input: {\"path\": \"a.txt\"}",
    "",
    "yes",
];

#[test]
fn an_example_data_or_half_a_call_is_no_call() {
    for text in NO_CALLS {
        assert_eq!(found(text), None, "{text}");
    }
    assert_eq!(find(ONE_CALL[0], &BTreeSet::new()), None);
}

#[test]
fn an_answer_that_is_nothing_but_markers_takes_no_time() {
    let text = "<tool_call>".repeat(100_000);
    assert_eq!(found(&text), None);
    let mut stage = Stage::default();
    assert_eq!(stage.release(&text, &known()), None);
}

/// What is shown of an answer before its end, letter by letter.
fn shown(text: &str) -> String {
    let mut stage = Stage::default();
    let mut shown = String::new();
    for (at, letter) in text.char_indices() {
        let so_far = text.get(..at + letter.len_utf8()).unwrap();
        shown.push_str(stage.release(so_far, &known()).unwrap_or_default());
        assert_eq!(shown.len(), stage.shown());
    }
    shown
}

#[test]
fn of_what_becomes_a_call_nothing_is_shown() {
    for text in ONE_CALL {
        assert_eq!(shown(text).trim(), "", "{text}");
        assert_eq!(
            shown(&format!("I'll look.\n{text}")).trim_end().get(..10),
            Some("I'll look.")
        );
    }
    assert_eq!(
        shown("I'll look.\n<tool_call>{\"name\": \"bash\"}"),
        "I'll look.\n"
    );
}

#[test]
fn what_can_be_no_call_is_shown_as_it_comes() {
    for text in [
        "Some words, a < b, [a link](x) and `<tool_call>` in code.",
        "[a link](x) at the start",
        "{ not: json }",
        "```rust\nfn main() {}\n```",
        "<tool_call> is a tag, ",
        "<b>bold</b> ",
    ] {
        assert_eq!(shown(text), text);
    }
    let data = format!("{{\"rows\": [{}0]}}", "1, ".repeat(200));
    assert_eq!(shown(&data), data);
}

proptest! {
    #[test]
    fn no_text_breaks_the_search_and_cuts_change_nothing(
        text in "(<tool_call>|</tool_call>|<function=bash>|</function>|\\[TOOL_CALLS\\]|`{1,4}|\
            \\{\"name\": \"bash\", \"arguments\": \\{\\}\\}|[a<\\[{}\\]\"\n :]|é){0,14}",
    ) {
        let whole = Stage::default().release(&text, &known()).unwrap_or_default().to_owned();
        prop_assert_eq!(&shown(&text), &whole);
        if let Some(written) = find(&text, &known()) {
            prop_assert!(text.is_char_boundary(written.start));
            prop_assert!(whole.len() <= written.start, "{} was shown", whole);
        }
    }
}
