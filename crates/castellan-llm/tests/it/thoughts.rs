//! Reasoning: under every name it comes, kept with the answer, sent back to whom it is wanted by.

use castellan_core::message::IssuedCall;
use castellan_core::{CallId, Message, ModelEvent, ModelReply, ModelRequest};
use castellan_llm::{ChatSettings, ReasoningField};
use castellan_testkit::{ManualClock, ModelServer, Reply, SequentialIds};
use serde_json::{Value, json};

use crate::world::{Asked, ask, ask_once, call, card, delta, end, model_with, settings};

async fn stream(chunks: impl IntoIterator<Item = Value>) -> Asked {
    ask_once(&ModelServer::scripted([Reply::sse(chunks)])).await
}

/// The reasoning that was told while it arrived.
fn told(asked: &Asked) -> String {
    let mut told = String::new();
    for event in &asked.events {
        if let ModelEvent::Reasoning(text) = event {
            told.push_str(text);
        }
    }
    told
}

#[tokio::test]
async fn reasoning_is_known_under_every_name() {
    let parts = |text: &str| json!([{"type": "reasoning.text", "text": text, "index": 0}]);
    for (first, second) in [
        (
            json!({"reasoning_content": "h"}),
            json!({"reasoning_content": "m"}),
        ),
        (json!({"reasoning": "h"}), json!({"reasoning": "m"})),
        (json!({"thinking": "h"}), json!({"thinking": "m"})),
        (
            json!({"reasoning_details": parts("h")}),
            json!({"reasoning_details": parts("m")}),
        ),
        (
            json!({"reasoning": "h", "reasoning_details": parts("h")}),
            json!({"reasoning": "m", "reasoning_details": parts("m")}),
        ),
        (
            json!({"content": "<think>h"}),
            json!({"content": "m</think>"}),
        ),
        (
            json!({"content": "<thi"}),
            json!({"content": "nk>hm</think>\n\n"}),
        ),
        (
            json!({"content": [{"type": "thinking", "thinking": "h"}]}),
            json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "m"}]}]}),
        ),
    ] {
        let words = delta(&json!({"content": "yes"}));
        let asked = stream([delta(&first), delta(&second), words, end("stop")]).await;
        assert_eq!(
            (told(&asked).as_str(), asked.thoughts()),
            ("hm", Some("hm")),
            "{first}"
        );
        assert_eq!(
            (asked.words().as_str(), asked.reply().text.as_str()),
            ("yes", "yes")
        );
    }
}

#[tokio::test]
async fn a_whole_answer_has_its_reasoning_taken_out_too() {
    for message in [
        json!({"role": "assistant", "content": "<think>hm</think>yes"}),
        json!({"role": "assistant", "content": "yes", "reasoning_content": "hm"}),
        json!({"role": "assistant", "content": "hm\n</think>\n\nyes"}),
    ] {
        let body = json!({"choices": [{"message": message, "finish_reason": "stop"}]});
        let asked = ask_once(&ModelServer::scripted([Reply::json(200, &body)])).await;
        assert_eq!(
            (asked.thoughts(), asked.reply().text.as_str()),
            (Some("hm"), "yes"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn tags_amid_an_answer_belong_to_it() {
    let text = "Write <think>like this</think>.";
    let asked = stream([delta(&json!({"content": text})), end("stop")]).await;
    assert_eq!(
        (asked.thoughts(), asked.reply().text.as_str()),
        (None, text)
    );
}

#[tokio::test]
async fn an_answer_that_never_leaves_its_reasoning_is_none() {
    let open = delta(&json!({"content": "<think>hm"}));
    let server = ModelServer::scripted([
        Reply::sse([open.clone(), end("stop")]),
        Reply::sse([open, end("length")]),
    ]);
    let asked = ask_once(&server).await;
    assert_eq!(asked.restarts().len(), 1);
    assert!(
        asked.error().hint.contains("max_tokens"),
        "{:?}",
        asked.error()
    );
}

const HIDDEN: &str = "gAAAAAB+/=\u{7}é";

/// An answer with reasoning of all kinds, and one call.
async fn reasoned() -> ModelReply {
    let details = json!([
        {"type": "reasoning.text", "text": "hm", "signature": "s1", "index": 0},
        {"type": "reasoning.encrypted", "data": HIDDEN, "id": "rs_1", "index": 1},
    ]);
    let blocks = json!([{"type": "thinking", "thinking": "hm", "signature": "s2"}]);
    let asked = stream([
        delta(&json!({"reasoning": "hm", "reasoning_details": details, "thinking_blocks": blocks})),
        delta(
            &json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function",
            "extra_content": {"google": {"thought_signature": "ts="}},
            "function": {"name": "list", "arguments": "{}"}}]}),
        ),
        end("tool_calls"),
    ])
    .await;
    asked.reply().clone()
}

/// A conversation of two turns, each of which has an answer with reasoning and a call.
async fn two_turns() -> ModelRequest {
    let ids = SequentialIds::new();
    let mut messages = Vec::new();
    for turn in ["one", "two"] {
        let reply = reasoned().await;
        let call_id = CallId::mint(&ids);
        let raw = reply.calls[0].clone();
        messages.extend([
            Message::User {
                text: turn.to_owned(),
            },
            Message::Assistant {
                text: String::new(),
                reasoning: reply.reasoning,
                calls: vec![IssuedCall { call_id, raw }],
            },
            Message::ToolResult {
                call_id,
                name: "list".to_owned(),
                output: "a.txt".to_owned(),
                is_error: false,
            },
        ]);
    }
    // As a store would hand it back.
    let stored = serde_json::to_string(&messages).unwrap();
    ModelRequest {
        messages: serde_json::from_str(&stored).unwrap(),
        tools: vec![card("list")],
    }
}

#[tokio::test]
async fn reasoning_goes_back_only_where_it_is_wanted_and_only_in_its_turn() {
    for (field, name, value) in [
        (None, "reasoning", Value::Null),
        (
            Some(ReasoningField::Content),
            "reasoning_content",
            json!("hm"),
        ),
        (Some(ReasoningField::Reasoning), "reasoning", json!("hm")),
        (
            Some(ReasoningField::Details),
            "reasoning_details",
            json!([
                {"type": "reasoning.text", "text": "hm", "signature": "s1", "index": 0},
                {"type": "reasoning.encrypted", "data": HIDDEN, "id": "rs_1", "index": 1},
            ]),
        ),
        (
            Some(ReasoningField::ThinkingBlocks),
            "thinking_blocks",
            json!([{"type": "thinking", "thinking": "hm", "signature": "s2"}]),
        ),
    ] {
        let server = ModelServer::scripted([Reply::text("done")]);
        let settings = ChatSettings {
            send_reasoning: field,
            ..settings(&server)
        };
        let model = model_with(settings, &ManualClock::new());
        ask(&model, two_turns().await).await.end.unwrap();
        let request = &server.requests()[0];
        let answers: Vec<&Value> = request
            .messages()
            .iter()
            .filter(|message| message["role"] == "assistant")
            .collect();
        assert_eq!(answers[1][name], value, "{field:?}");
        let is_reasoning = |key: &&String| key.contains("reasoning") || key.contains("thinking");
        let fields = |message: &Value| {
            message
                .as_object()
                .unwrap()
                .keys()
                .filter(is_reasoning)
                .count()
        };
        assert_eq!(
            (fields(answers[0]), fields(answers[1])),
            (0, usize::from(field.is_some()))
        );
        // What came with a call goes back with it.
        let extra = &answers[1]["tool_calls"][0]["extra_content"];
        assert_eq!(*extra, json!({"google": {"thought_signature": "ts="}}));
    }
}

#[tokio::test]
async fn a_server_that_refuses_reasoning_gets_none() {
    let server = ModelServer::scripted([
        Reply::error(
            400,
            "messages.1.reasoning_content: Extra inputs are not permitted",
        ),
        Reply::error(
            400,
            "Unknown name \"extra_content\" at messages[1].tool_calls[0]",
        ),
        Reply::text("one"),
        Reply::text("two"),
    ]);
    let settings = ChatSettings {
        send_reasoning: Some(ReasoningField::Content),
        ..settings(&server)
    };
    let model = model_with(settings, &ManualClock::new());
    let asked = ask(&model, two_turns().await).await;
    assert_eq!(
        (asked.reply().text.as_str(), asked.reply().attempts),
        ("one", 3)
    );
    ask(&model, two_turns().await).await.end.unwrap();
    let has = |word: &str| -> Vec<bool> {
        server
            .requests()
            .iter()
            .map(|request| request.text.contains(word))
            .collect()
    };
    assert_eq!(has("reasoning_content"), [true, false, false, false]);
    assert_eq!(has("extra_content"), [true, true, false, false]);
}

#[tokio::test]
async fn calls_of_an_answer_keep_what_their_provider_attached() {
    let reply = reasoned().await;
    assert_eq!(
        reply.calls[0].extra,
        Some(json!({"google": {"thought_signature": "ts="}}))
    );
    assert_eq!(call(&reply), ("list", "{}"));
    assert_eq!(reply.reasoning.unwrap().details[1]["data"], HIDDEN);
}
