//! Calls that a model writes into its words, over the wire.

use castellan_core::model::Finish;
use castellan_core::{ModelEvent, ModelRequest};
use castellan_testkit::{ManualClock, ModelServer, Reply};
use serde_json::json;

use crate::world::{Asked, ask, call, card, delta, end, hello, model_with, settings};

const CALL: &str = r#"{"name": "read_file", "arguments": {"path": "a.txt"}}"#;

/// What is answered by a model that was offered `read_file` and says `text`, letter by letter.
async fn says(text: &str, finish: &str) -> Asked {
    let letters = text
        .chars()
        .map(|letter| delta(&json!({"content": letter.to_string()})));
    let reply = Reply::sse(letters.chain([end(finish)]));
    let server = ModelServer::scripted([reply]);
    let request = ModelRequest {
        tools: vec![card("read_file")],
        ..hello()
    };
    ask(
        &model_with(settings(&server), &ManualClock::skipping()),
        request,
    )
    .await
}

#[tokio::test]
async fn a_call_written_as_words_is_a_call_and_is_never_shown() {
    for (text, before) in [
        (CALL.to_owned(), ""),
        (format!("```json\n{CALL}\n```"), ""),
        (
            format!("I'll look.\n\n<tool_call>\n{CALL}\n</tool_call>"),
            "I'll look.",
        ),
        (format!("I'll look. [TOOL_CALLS] [{CALL}]"), "I'll look."),
        (format!("<think>hm</think>\n\n{CALL}"), ""),
        (
            format!("<think>hm</think>Well. <tool_call>{CALL}</tool_call>"),
            "Well.",
        ),
    ] {
        for finish in ["stop", "tool_calls", "length", "eos"] {
            let asked = says(&text, finish).await;
            let reply = asked.reply();
            assert_eq!(call(reply), ("read_file", r#"{"path":"a.txt"}"#), "{text}");
            assert!(reply.calls[0].from_text && reply.calls[0].complete);
            assert_eq!(
                (reply.text.as_str(), asked.words().trim()),
                (before, before),
                "{text}"
            );
            let expected = if finish == "length" {
                Finish::Length
            } else {
                Finish::ToolCalls
            };
            assert_eq!(reply.finish, expected);
        }
    }
}

#[tokio::test]
async fn an_example_is_shown_and_does_not_run() {
    for text in [
        format!("Call it like this:\n```json\n{CALL}\n```"),
        format!("```json\n{CALL}\n```\nThat is how."),
        format!("<tool_call>{CALL}</tool_call> is how models write it."),
        CALL.replace("read_file", "unknown"),
        format!("{{\"rows\": [{}0]}}", "1, ".repeat(200)),
        "<tool_call>{\"name\": \"read_file\", \"arguments\": {\"path\": \"a".to_owned(),
    ] {
        let asked = says(&text, "stop").await;
        assert_eq!(asked.reply().calls, []);
        assert_eq!((asked.words(), &asked.reply().text), (text.clone(), &text));
        assert_eq!(asked.reply().finish, Finish::Stop);
    }
}

#[tokio::test]
async fn of_a_withheld_answer_no_call_is_taken() {
    let asked = says(CALL, "content_filter").await;
    assert_eq!(
        (asked.reply().calls.len(), asked.words().as_str()),
        (0, CALL)
    );
}

#[tokio::test]
async fn beside_a_real_call_written_ones_are_words() {
    let real = json!({"tool_calls": [{"index": 0, "id": "a",
        "function": {"name": "read_file", "arguments": "{}"}}]});
    let words = delta(&json!({"content": format!("<tool_call>{CALL}</tool_call>")}));
    let server = ModelServer::scripted([Reply::sse([words, delta(&real), end("tool_calls")])]);
    let request = ModelRequest {
        tools: vec![card("read_file")],
        ..hello()
    };
    let asked = ask(&model_with(settings(&server), &ManualClock::new()), request).await;
    assert_eq!(call(asked.reply()), ("read_file", "{}"));
    assert!(!asked.reply().calls[0].from_text);
    assert_eq!(asked.words(), asked.reply().text);
}

#[tokio::test]
async fn a_model_that_was_offered_no_tools_is_shown_at_once() {
    let server =
        ModelServer::scripted([Reply::sse([delta(&json!({"content": CALL})), end("stop")])]);
    let asked = ask(&model_with(settings(&server), &ManualClock::new()), hello()).await;
    assert_eq!(asked.events, [ModelEvent::Text(CALL.to_owned())]);
    assert_eq!(asked.reply().text, CALL);
}
