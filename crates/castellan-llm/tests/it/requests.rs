//! What is sent (L02, L04, L05).

use castellan_core::message::{IssuedCall, RawCall};
use castellan_core::{CallId, Message, Model as _, ModelRequest, PictureRef, PictureType};
use castellan_llm::ChatSettings;
use castellan_testkit::{ManualClock, ModelServer, Reply, SequentialIds};
use serde_json::{Value, json};

use crate::world::{ask, card, hello, model_with, settings};

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
    ModelRequest {
        messages,
        tools: vec![card("read_file")],
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

// L02: of `c1` and `c2` only `c2` has a result; and there is a result without a call.
#[tokio::test]
async fn a_call_without_a_result_gets_one_and_a_result_without_a_call_is_left_out() {
    let ids = SequentialIds::new();
    let issued = |id: &str| IssuedCall {
        call_id: CallId::mint(&ids),
        raw: RawCall {
            provider_id: Some(id.to_owned()),
            ..RawCall::new("read_file", "{}")
        },
    };
    let (first, second, stray) = (issued("c1"), issued("c2"), issued("c3"));
    let result = |call: &IssuedCall, output: &str| Message::ToolResult {
        call_id: call.call_id,
        name: "read_file".to_owned(),
        output: output.to_owned(),
        is_error: false,
    };
    let request = ModelRequest {
        messages: vec![
            Message::User {
                text: "go".to_owned(),
            },
            result(&stray, "stray"),
            Message::Assistant {
                text: String::new(),
                reasoning: None,
                calls: vec![first, second.clone()],
            },
            result(&second, "two"),
        ],
        tools: vec![card("read_file")],
    };
    let server = ModelServer::scripted([Reply::text("done")]);
    let model = model_with(settings(&server), &ManualClock::new());
    ask(&model, request).await.end.unwrap();
    let request = &server.requests()[0];
    assert_strict(request.messages());
    let results: Vec<_> = request.messages()[2..]
        .iter()
        .map(|message| {
            (
                &message["tool_call_id"],
                message["content"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(results.len(), 2);
    assert!(*results[0].0 == "c1" && results[0].1.contains("not known"));
    assert_eq!((results[1].0, results[1].1), (&json!("c2"), "two"));
    assert!(!request.text.contains("stray"));
}

// L04: whatever a model sent for arguments, the history stays one that servers take.
#[tokio::test]
async fn odd_arguments_in_the_history_are_sent_as_objects() {
    let ids = SequentialIds::new();
    let odd = [
        r#"{"edits":"[{\"old\":\"a\",\"new\":\"b\"}]"}"#,
        r#"{"limit":"20"}"#,
        "\"ls -la\"",
        "",
        r#"{"content":"[1,2]"}"#,
        r#""{\"command\": \"ls\"}""#,
    ];
    let call = |arguments: &&str| IssuedCall {
        call_id: CallId::mint(&ids),
        raw: RawCall::new("read_file", *arguments),
    };
    let calls: Vec<IssuedCall> = odd.iter().map(call).collect();
    let request = ModelRequest {
        messages: vec![Message::Assistant {
            text: String::new(),
            reasoning: None,
            calls,
        }],
        tools: vec![card("read_file")],
    };
    let server = ModelServer::scripted([Reply::text("done")]);
    let model = model_with(settings(&server), &ManualClock::new());
    ask(&model, request).await.end.unwrap();
    let request = &server.requests()[0];
    assert_strict(request.messages());
    let sent = request.messages()[0]["tool_calls"].as_array().unwrap();
    let sent: Vec<&str> = sent
        .iter()
        .map(|call| call["function"]["arguments"].as_str().unwrap())
        .collect();
    // Objects stay as they were sent; it is the gate that coerces, where a schema wants it.
    assert_eq!([sent[0], sent[1], sent[4]], [odd[0], odd[1], odd[4]]);
    assert_eq!([sent[3], sent[5]], ["{}", r#"{"command":"ls"}"#]);
}

// L05
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

#[tokio::test]
async fn a_picture_goes_with_what_stands_beside_it() {
    let server = ModelServer::scripted([Reply::text("seen")]);
    let picture = |data: Option<&[u8]>| Message::Picture {
        caption: "attached picture".into(),
        picture: PictureRef {
            media_type: PictureType::Gif,
            width: 1,
            height: 1,
            bytes: 3,
            digest: String::new(),
            path: "/nowhere".into(),
        },
        data: data.map(Into::into),
    };
    let user = |text: &str| Message::User { text: text.into() };
    let request = ModelRequest {
        messages: vec![
            user("one"),
            picture(None),
            picture(Some(b"GIF")),
            user("two"),
        ],
        tools: vec![],
    };
    let model = model_with(settings(&server), &ManualClock::new());
    ask(&model, request).await.end.unwrap();
    let text = |text: &str| json!({"type": "text", "text": text});
    let caption = text("[attached picture]");
    let url = json!({"url": "data:image/gif;base64,R0lG"});
    let image = json!({"type": "image_url", "image_url": url});
    let first = text("one\n\n[attached picture]");
    assert_eq!(
        server.requests()[0].messages(),
        [json!({"role": "user", "content": [first, caption, image, text("two")]})],
    );
}
