//! Calls of tools, in both eras and over both transports.

use std::sync::atomic::Ordering;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::pipes::Pipes;
use super::web::{Web, events};
use super::{LEGACY, call, code, modern, notice, request, text, until};

const SIMPLE: &str = "This is a simple text response for testing.";

#[tokio::test]
async fn an_older_client_on_pipes_lists_and_calls() {
    let mut pipes = Pipes::legacy().await;
    let list = pipes.ask(request(1, "tools/list", json!({}))).await;
    assert!(list["result"]["tools"].as_array().unwrap().len() > 30);
    assert_eq!(list["result"].get("ttlMs"), None);
    let answer = pipes.call(2, "test_simple_text").await;
    assert_eq!(text(&answer), SIMPLE);
    assert_eq!(answer["result"].get("resultType"), None);
    assert_eq!(answer["result"].get("_meta"), None);
}

#[tokio::test]
async fn a_modern_client_on_pipes_needs_no_introduction() {
    let mut pipes = Pipes::new();
    let discovered = pipes
        .ask(request(1, "server/discover", modern(json!({}))))
        .await;
    let versions = &discovered["result"]["supportedVersions"];
    assert!(
        versions.as_array().unwrap().contains(&json!("2026-07-28")),
        "{discovered}"
    );
    assert_eq!(
        discovered["result"]["instructions"],
        "Call whatever you like."
    );
    let list = pipes.ask(request(2, "tools/list", modern(json!({})))).await;
    assert_eq!(list["result"]["cacheScope"], "private");
    let answer = pipes
        .ask(request(
            "three",
            "tools/call",
            modern(call("test_simple_text")),
        ))
        .await;
    assert_eq!(text(&answer), SIMPLE);
    let meta = &answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(
        *meta,
        json!({"name": "fixture", "title": "Fixture", "version": "1.0.0"})
    );
}

#[tokio::test]
async fn both_eras_are_served_on_one_pipe_each_by_its_own_rules() {
    let mut pipes = Pipes::new();
    let missing = json!({"uri": "test://nothing"});
    let answer = pipes
        .ask(request(1, "resources/read", modern(missing.clone())))
        .await;
    assert_eq!(code(&answer), -32602);
    assert_eq!(answer["error"]["data"]["uri"], "test://nothing");
    pipes.introduce(LEGACY).await;
    let answer = pipes.ask(request(2, "resources/read", missing)).await;
    assert_eq!(code(&answer), -32002);
    let answer = pipes.ask(request(3, "ping", json!({}))).await;
    assert_eq!(answer["result"], json!({}));
    let answer = pipes.ask(request(4, "ping", modern(json!({})))).await;
    assert_eq!(code(&answer), -32601);
    let level = json!({"level": "error"});
    let answer = pipes
        .ask(request(5, "logging/setLevel", modern(level.clone())))
        .await;
    assert_eq!(code(&answer), -32601);
    let answer = pipes.ask(request(6, "logging/setLevel", level)).await;
    assert_eq!(answer["result"], json!({}));
}

#[tokio::test]
async fn the_same_calls_over_http_are_answered_the_same() {
    let web = Web::new().await;
    let session = web.session().await;
    let list = session.ask("tools/list", json!({})).await.message();
    let modern_list = web.ask("tools/list", json!({})).await.message();
    assert_eq!(list["result"]["tools"], modern_list["result"]["tools"]);
    for name in [
        "test_simple_text",
        "test_multiple_content_types",
        "structured",
        "test_error_handling",
    ] {
        let old = session.ask("tools/call", call(name)).await.message();
        let new = web.ask("tools/call", call(name)).await.message();
        assert_eq!(old["result"]["content"], new["result"]["content"], "{name}");
        assert_eq!(old["result"]["isError"], new["result"]["isError"], "{name}");
        assert_eq!(new["result"]["resultType"], "complete");
        let mut pipes = Pipes::legacy().await;
        let piped = pipes.call(7, name).await;
        assert_eq!(old, piped, "{name}");
    }
}

#[tokio::test]
async fn a_value_is_sent_as_it_is_and_as_text() {
    let mut pipes = Pipes::legacy().await;
    let answer = pipes.call(1, "structured").await;
    assert_eq!(
        answer["result"]["structuredContent"],
        json!({"b": 1, "a": [true]})
    );
    assert_eq!(text(&answer), r#"{"b":1,"a":[true]}"#);
    assert_eq!(answer["result"]["isError"], false);
}

#[tokio::test]
async fn a_modern_call_over_http_is_plain_json_unless_it_has_something_to_say() {
    let web = Web::new().await;
    let answer = web.ask("tools/call", call("test_tool_with_progress")).await;
    assert_eq!(answer.headers["content-type"], "application/json");
    let mut params = modern(call("test_tool_with_progress"));
    params["_meta"]["progressToken"] = "p".into();
    let answer = web.ask_as("tools/call", params).await;
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    let progress: Vec<Value> = events(&answer.body)
        .iter()
        .filter(|event| event["method"] == "notifications/progress")
        .map(|event| event["params"]["progress"].clone())
        .collect();
    assert_eq!(progress, [json!(0.0), json!(50.0), json!(100.0)]);
    assert_eq!(text(&answer.message()), "done");
}

#[tokio::test]
async fn progress_comes_in_order_and_before_the_answer() {
    let mut pipes = Pipes::legacy().await;
    let mut params = call("test_tool_with_progress");
    params["_meta"] = json!({"progressToken": 41});
    pipes.send(&request(1, "tools/call", params)).await;
    for step in [0.0, 50.0, 100.0] {
        let note = pipes.next().await;
        assert_eq!(note["method"], "notifications/progress");
        assert_eq!(
            note["params"],
            json!({"progressToken": 41, "progress": step, "total": 100.0})
        );
    }
    assert_eq!(text(&pipes.next().await), "done");
}

#[tokio::test]
async fn messages_are_sent_from_the_level_that_was_asked_for_on() {
    let mut pipes = Pipes::legacy().await;
    pipes
        .send(&request(1, "tools/call", call("test_logging_tool")))
        .await;
    let note = pipes.next().await;
    assert_eq!(note["method"], "notifications/message");
    assert_eq!(
        note["params"],
        json!({"level": "info", "logger": "test_logging_tool", "data": "Tool execution started"})
    );
    assert_eq!(pipes.next().await["method"], "notifications/message");
    assert_eq!(pipes.next().await["method"], "notifications/message");
    assert_eq!(pipes.next().await["id"], 1);
    pipes
        .ask(request(2, "logging/setLevel", json!({"level": "warning"})))
        .await;
    pipes.call(3, "test_logging_tool").await;
    // A modern request asks for itself.
    let mut params = modern(call("test_logging_tool"));
    let answer = pipes.ask(request(4, "tools/call", params.clone())).await;
    assert_eq!(text(&answer), "done");
    params["_meta"]["io.modelcontextprotocol/logLevel"] = "debug".into();
    pipes.send(&request(5, "tools/call", params)).await;
    assert_eq!(pipes.next().await["method"], "notifications/message");
}

#[tokio::test]
async fn a_flood_of_messages_ends_in_an_answer() {
    let mut pipes = Pipes::legacy().await;
    let mut params = call("flood");
    params["_meta"] = json!({"progressToken": 1});
    pipes.send(&request(1, "tools/call", params)).await;
    let mut notes = 0;
    let answer = loop {
        let message = pipes.next().await;
        if message["id"] == 1 {
            break message;
        }
        notes += 1;
    };
    assert_eq!(text(&answer), "flooded");
    assert!((100..2_000).contains(&notes), "{notes}");
}

#[tokio::test]
async fn a_call_that_is_cancelled_stops_and_the_others_go_on() {
    let mut pipes = Pipes::legacy().await;
    pipes.send(&request(1, "tools/call", call("wait"))).await;
    pipes.send(&request("1", "tools/call", call("wait"))).await;
    let fixture = std::sync::Arc::clone(&pipes.fixture);
    let waiting = |count| {
        let fixture = std::sync::Arc::clone(&fixture);
        move || fixture.waiting.load(Ordering::SeqCst) == count
    };
    until("both calls", waiting(2)).await;
    for unknown in [json!(99), json!("x"), json!(null), json!({}), json!([1])] {
        pipes
            .send(&notice(
                "notifications/cancelled",
                json!({"requestId": unknown}),
            ))
            .await;
    }
    assert_eq!(text(&pipes.call(2, "test_simple_text").await), SIMPLE);
    assert_eq!(fixture.cancelled.load(Ordering::SeqCst), 0);
    pipes
        .send(&notice(
            "notifications/cancelled",
            json!({"requestId": "1"}),
        ))
        .await;
    until("one call", waiting(1)).await;
    assert_eq!(fixture.cancelled.load(Ordering::SeqCst), 1);
    pipes
        .send(&notice("notifications/cancelled", json!({"requestId": 1})))
        .await;
    until("no call", waiting(0)).await;
    // Neither is answered, and what was over before can be cancelled as well.
    pipes
        .send(&notice("notifications/cancelled", json!({"requestId": 2})))
        .await;
    assert_eq!(text(&pipes.call(3, "test_simple_text").await), SIMPLE);
}

#[tokio::test]
async fn a_modern_client_that_hangs_up_has_its_call_cancelled() {
    let web = Web::new().await;
    let mut params = modern(call("wait"));
    params["_meta"]["progressToken"] = 1.into();
    let body = request(1, "tools/call", params).to_string();
    let headers = [
        ("mcp-protocol-version", super::MODERN),
        ("mcp-method", "tools/call"),
        ("mcp-name", "wait"),
    ];
    let open = web.open(hyper::Method::POST, &headers, body);
    let opening = tokio::time::timeout(std::time::Duration::from_millis(300), open).await;
    // The answer does not come; giving up on it closes the connection.
    assert!(opening.is_err());
    let fixture = &web.fixture;
    until("the cancel", || {
        fixture.cancelled.load(Ordering::SeqCst) == 1
    })
    .await;
}

#[tokio::test]
async fn a_call_that_panics_is_a_fault_and_no_more() {
    let mut pipes = Pipes::legacy().await;
    let answer = pipes.call(1, "panics").await;
    assert_eq!(code(&answer), -32603);
    assert_eq!(text(&pipes.call(2, "test_simple_text").await), SIMPLE);
}

#[tokio::test]
async fn older_clients_get_words_for_what_they_do_not_know() {
    for (version, kind) in [
        ("2025-11-25", "resource_link"),
        ("2025-06-18", "resource_link"),
        ("2025-03-26", "text"),
        ("2024-11-05", "text"),
    ] {
        let mut pipes = Pipes::introduced(version).await;
        let answer = pipes.call(1, "link").await;
        assert_eq!(answer["result"]["content"][0]["type"], kind, "{version}");
    }
    let mut pipes = Pipes::introduced("2024-11-05").await;
    let answer = pipes.call(1, "test_audio_content").await;
    assert_eq!(text(&answer), "[audio/wav, 44 bytes]");
}

#[tokio::test]
async fn who_calls_is_known_to_the_provider() {
    let mut pipes = Pipes::legacy().await;
    let first = text(&pipes.call(1, "whoami").await).to_owned();
    assert!(first.contains(r#"name: "tester""#), "{first}");
    assert!(first.contains("elicitation: true"), "{first}");
    assert_eq!(text(&pipes.call(2, "whoami").await), first);
    let web = Web::new().await;
    let headers = [("authorization", "Bearer s3cret")];
    let session = web.session_with(LEGACY, &headers).await;
    let answer = session.ask("tools/call", call("whoami")).await.message();
    assert!(text(&answer).contains(&session.id), "{answer}");
    assert!(text(&answer).contains("Some(Bearer([secret]))"), "{answer}");
}

#[tokio::test]
async fn a_mirrored_parameter_is_checked_against_its_header() {
    let web = Web::new().await;
    let params = modern(json!({"name": "mirrored", "arguments": {"region": "north"}}));
    let body = request(1, "tools/call", params);
    let headers = |region| {
        [
            ("mcp-protocol-version", super::MODERN),
            ("mcp-method", "tools/call"),
            ("mcp-name", "mirrored"),
            ("mcp-param-region", region),
        ]
    };
    let answer = web.post(&headers("north"), &body).await;
    assert_eq!(text(&answer.message()), "north");
    for region in ["south", ""] {
        let answer = web.post(&headers(region), &body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        assert_eq!(code(&answer.message()), -32020);
    }
}
