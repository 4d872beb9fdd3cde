//! What is sent (L05, L12).

use castellan_core::message::{IssuedCall, RawCall};
use castellan_core::model::ToolCard;
use castellan_core::{CallId, Message, Model as _, ModelRequest};
use castellan_llm::ChatSettings;
use castellan_testkit::{ManualClock, ModelServer, Reply, SequentialIds};
use serde_json::{Value, json};

use crate::world::{ask, hello, model_with, settings};

#[tokio::test]
async fn a_request_goes_where_the_settings_say() {
    let server = ModelServer::scripted([Reply::text("yes"), Reply::text("yes")]);
    for suffix in ["/", "/chat/completions"] {
        let mut settings = settings(&server);
        settings.base_url.push_str(suffix);
        settings
            .extra_body
            .insert("temperature".to_owned(), json!(0.5));
        ask(&model_with(settings, &ManualClock::new()), hello())
            .await
            .end
            .unwrap();
    }
    for request in server.requests() {
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/v1/chat/completions")
        );
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.header("authorization"), None);
        assert_eq!(
            request.body,
            json!({
                "model": "m1",
                "messages": [{"role": "user", "content": "hello"}],
                "stream": true,
                "stream_options": {"include_usage": true},
                "temperature": 0.5,
            })
        );
    }
}

#[tokio::test]
async fn a_server_that_cannot_count_is_not_asked_to_again() {
    let server = ModelServer::scripted([
        Reply::error(
            400,
            "Unrecognized request argument supplied: stream_options",
        ),
        Reply::text("one"),
        Reply::text("two"),
    ]);
    let clock = ManualClock::new();
    let model = model_with(settings(&server), &clock);
    let asked = ask(&model, hello()).await;
    assert_eq!(
        (asked.reply().text.as_str(), asked.reply().attempts),
        ("one", 2)
    );
    assert!(asked.restarts().is_empty());
    ask(&model, hello()).await.end.unwrap();
    let asks: Vec<bool> = server
        .requests()
        .iter()
        .map(|request| !request.body["stream_options"].is_null())
        .collect();
    assert_eq!(asks, [true, false, false]);
    assert!(clock.sleeps().is_empty());
}

#[tokio::test]
async fn a_server_that_refuses_the_count_even_without_it_is_not_asked_for_ever() {
    let refusal = || Reply::error(400, "stream_options is not supported");
    let server = ModelServer::scripted([refusal(), refusal()]);
    ask(&model_with(settings(&server), &ManualClock::new()), hello())
        .await
        .end
        .unwrap_err();
    server.assert_spent();
}

#[tokio::test]
async fn without_a_name_the_first_listed_model_is_asked() {
    let server = ModelServer::scripted([Reply::text("yes"), Reply::text("yes")]);
    server.set_models(Reply::json(
        200,
        &json!({"data": [{"id": "nomic-embed-text"}, {"id": "qwen3:8b", "context_length": 40960}]}),
    ));
    let settings = ChatSettings::new("main", server.base_url(), "");
    let model = model_with(settings, &ManualClock::new());
    assert_eq!(model.info().model, "");
    ask(&model, hello()).await.end.unwrap();
    ask(&model, hello()).await.end.unwrap();
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.body["model"] == "qwen3:8b")
    );
    assert_eq!(
        (model.info().model.as_str(), model.info().context_window),
        ("qwen3:8b", Some(40960))
    );
}

/// Four turns of one call each under a constant id, as some servers give it.
fn turns_with_one_id() -> ModelRequest {
    let ids = SequentialIds::new();
    let mut messages = vec![Message::User {
        text: "go".to_owned(),
    }];
    for turn in 0..4 {
        let call_id = CallId::mint(&ids);
        messages.push(Message::Assistant {
            text: String::new(),
            reasoning: None,
            calls: vec![IssuedCall {
                call_id,
                raw: RawCall {
                    provider_id: Some("call_0".to_owned()),
                    ..RawCall::new("read_file", json!({"path": turn.to_string()}).to_string())
                },
            }],
        });
        messages.push(Message::ToolResult {
            call_id,
            name: "read_file".to_owned(),
            output: if turn == 3 {
                String::new()
            } else {
                format!("content {turn}")
            },
            is_error: false,
        });
    }
    let tool = ToolCard {
        name: "read_file".to_owned(),
        description: "Reads.".to_owned(),
        parameters: json!({"type": "object"}),
    };
    ModelRequest {
        messages,
        tools: vec![tool],
    }
}

/// Whether a server that checks everything would take these messages.
fn assert_strict(messages: &[Value]) {
    let mut open: Vec<&str> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for message in messages {
        if message["role"] == "tool" {
            assert_eq!(message["tool_call_id"], open.remove(0));
            assert_ne!(message["content"], "");
            continue;
        }
        assert!(open.is_empty(), "calls without a result: {open:?}");
        assert_ne!(message["content"], "");
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let id = call["id"].as_str().unwrap();
            assert!(!seen.contains(&id), "{id} twice");
            seen.push(id);
            open.push(id);
            let arguments = call["function"]["arguments"].as_str().unwrap();
            assert!(
                serde_json::from_str::<Value>(arguments)
                    .unwrap()
                    .is_object()
            );
        }
    }
    assert!(open.is_empty());
}

#[tokio::test]
async fn calls_under_a_constant_id_stay_next_to_their_own_results() {
    let server = ModelServer::scripted([Reply::text("done")]);
    let model = model_with(settings(&server), &ManualClock::new());
    ask(&model, turns_with_one_id()).await.end.unwrap();
    let request = &server.requests()[0];
    assert_strict(request.messages());
    assert_eq!(request.tool_names(), ["read_file"]);
    for (turn, pair) in request.messages()[1..].chunks(2).enumerate() {
        assert_eq!(
            pair[0]["tool_calls"][0]["function"]["arguments"],
            json!({"path": turn.to_string()}).to_string()
        );
        if turn < 3 {
            assert_eq!(pair[1]["content"], format!("content {turn}"));
        }
        assert_eq!(pair[0]["content"], Value::Null);
    }
}
