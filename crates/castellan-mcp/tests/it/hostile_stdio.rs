//! Clients on pipes that send anything, or go away in any way.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::pipes::Pipes;
use super::{call, code, modern, notice, patiently, request, text, until};

/// A server is gone within this, whatever goes on.
const SOON: Duration = Duration::from_secs(2);

#[tokio::test]
async fn what_is_no_message_is_answered_and_the_next_good_one_works() {
    let mut pipes = Pipes::legacy().await;
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let deep_object = format!(r#"{{"a":{}}}"#, "[".repeat(10_000));
    for (line, expected, id) in [
        ("this is no json", -32700, Value::Null),
        ("{\"jsonrpc\": \"2.0\", ", -32700, Value::Null),
        ("\u{0}\u{1}", -32700, Value::Null),
        (deep.as_str(), -32700, Value::Null),
        (deep_object.as_str(), -32700, Value::Null),
        (r#"{"hello":"world"}"#, -32600, Value::Null),
        (
            r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#,
            -32600,
            json!(3),
        ),
        (r#"{"id":3,"method":"ping"}"#, -32600, json!(3)),
        (r#"{"jsonrpc":"2.0","id":3}"#, -32600, json!(3)),
        (r#"{"jsonrpc":"2.0","id":3,"method":5}"#, -32600, json!(3)),
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":"x"}"#,
            -32600,
            json!(3),
        ),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            -32600,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            -32600,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
            -32600,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#,
            -32600,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}"#,
            -32600,
            Value::Null,
        ),
        ("[]", -32600, Value::Null),
        (
            r#"[{"jsonrpc":"2.0","id":3,"method":"ping"}]"#,
            -32600,
            Value::Null,
        ),
        ("5", -32600, Value::Null),
        ("null", -32600, Value::Null),
    ] {
        pipes.write(format!("{line}\n").as_bytes()).await;
        let answer = pipes.next().await;
        assert_eq!(
            (code(&answer), &answer["id"]),
            (expected, &id),
            "{line:.80}"
        );
        assert_eq!(
            pipes.ask(request(9, "ping", json!({}))).await["result"],
            json!({})
        );
    }
    pipes.write(b"\xff\xfe{}\n").await;
    assert_eq!(code(&pipes.next().await), -32700);
}

#[tokio::test]
async fn ids_come_back_as_they_were_sent() {
    let mut pipes = Pipes::legacy().await;
    for id in [
        json!(0),
        json!(-7),
        json!(i64::MAX),
        json!(""),
        json!("1"),
        json!("ü\u{0}\""),
    ] {
        let answer = pipes.ask(request(id.clone(), "ping", json!({}))).await;
        assert_eq!(answer["id"], id);
    }
}

#[tokio::test]
async fn a_line_without_end_is_refused_and_the_next_good_one_works() {
    let mut pipes = Pipes::legacy().await;
    let piece = vec![b'x'; 1024 * 1024];
    for _ in 0..50 {
        pipes.write(&piece).await;
    }
    pipes.write(b"\n").await;
    let answer = pipes.next().await;
    assert_eq!((code(&answer), &answer["id"]), (-32600, &Value::Null));
    assert_eq!(
        pipes.ask(request(9, "ping", json!({}))).await["result"],
        json!({})
    );
}

#[tokio::test]
async fn unknown_methods_and_wrong_parameters_are_told_apart() {
    let mut pipes = Pipes::legacy().await;
    for (method, params, expected) in [
        ("no/such", json!({}), -32601),
        ("server/discover", json!({}), -32602),
        ("subscriptions/listen", json!({}), -32601),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!({"name": 5}), -32602),
        (
            "tools/call",
            json!({"name": "echo", "arguments": [1]}),
            -32602,
        ),
        (
            "tools/call",
            json!({"name": "echo", "arguments": "x"}),
            -32602,
        ),
        ("tools/call", json!([]), -32602),
        ("tools/call", json!({"name": "none"}), -32602),
        ("tools/call", json!({"name": "echo", "_meta": 5}), -32602),
        ("tools/list", json!({"cursor": {}}), -32602),
        ("tools/list", json!({"_meta": "x"}), -32602),
        ("prompts/get", json!({}), -32602),
        ("prompts/get", json!({"name": "none"}), -32602),
        ("resources/read", json!({"uri": 1}), -32602),
        ("resources/read", json!({"uri": "x:none"}), -32002),
        ("resources/subscribe", json!({}), -32602),
        ("logging/setLevel", json!({"level": "loud"}), -32602),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/x"}}),
            -32602,
        ),
        ("tasks/get", json!({"taskId": "1"}), -32601),
    ] {
        let answer = pipes.ask(request(1, method, params.clone())).await;
        assert_eq!(code(&answer), expected, "{method} {params}: {answer}");
    }
    for (method, params, expected) in [
        ("no/such", json!({}), -32601),
        ("tools/call", json!({"name": 5}), -32602),
        ("initialize", super::introduction(super::LEGACY), -32601),
        ("resources/subscribe", json!({"uri": "x:y"}), -32601),
        ("subscriptions/listen", json!({}), -32602),
        ("resources/read", json!({"uri": "x:none"}), -32602),
    ] {
        let answer = pipes.ask(request(1, method, modern(params.clone()))).await;
        assert_eq!(code(&answer), expected, "{method} {params}: {answer}");
    }
}

#[tokio::test]
async fn what_needs_no_answer_gets_none() {
    let mut pipes = Pipes::legacy().await;
    for silent in [
        notice("notifications/unknown", json!({})),
        notice("notifications/initialized", json!({})),
        notice("notifications/progress", json!("x")),
        notice("notifications/cancelled", json!({})),
        notice("tools/call", json!({})),
        json!({"jsonrpc": "2.0", "id": 77, "result": {}}),
        json!({"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "m"}}),
        json!({"jsonrpc": "2.0", "id": 78, "result": 5}),
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "m"}}),
    ] {
        pipes.send(&silent).await;
    }
    pipes.write(b"\n\r\n   \n").await;
    let answer = pipes.ask(request(1, "ping", json!({}))).await;
    assert_eq!(answer["result"], json!({}));
}

#[tokio::test]
async fn before_the_introduction_only_a_ping_is_answered() {
    let mut pipes = Pipes::new();
    pipes
        .send(&notice("notifications/initialized", json!({})))
        .await;
    pipes
        .send(&notice("notifications/cancelled", json!({"requestId": 1})))
        .await;
    assert_eq!(
        pipes.ask(request(1, "ping", json!({}))).await["result"],
        json!({})
    );
    for method in ["tools/list", "tools/call", "resources/list"] {
        let answer = pipes.ask(request(2, method, json!({"name": "echo"}))).await;
        assert_eq!(code(&answer), -32602);
        assert!(
            answer["error"]["message"]
                .as_str()
                .unwrap()
                .contains("initialize"),
            "{answer}"
        );
    }
    let hello = super::introduction(super::LEGACY);
    let answer = pipes.ask(request(3, "initialize", hello.clone())).await;
    assert_eq!(answer["result"]["serverInfo"]["name"], "fixture");
    // Before `initialized` a client is served; twice is once too often.
    assert!(pipes.ask(request(4, "tools/list", json!({}))).await["result"].is_object());
    let again = pipes.ask(request(5, "initialize", hello)).await;
    assert_eq!(code(&again), -32600);
    assert!(pipes.ask(request(6, "tools/list", json!({}))).await["result"].is_object());
}

#[tokio::test]
async fn everything_may_be_sent_at_once() {
    let mut pipes = Pipes::new();
    let hello = request(0, "initialize", super::introduction(super::LEGACY));
    let ready = notice("notifications/initialized", json!({}));
    let list = request(1, "tools/list", json!({}));
    let called = request(2, "tools/call", call("test_simple_text"));
    pipes
        .write(format!("{hello}\n{ready}\n{list}\n{called}\n").as_bytes())
        .await;
    pipes.hang_up().await;
    let mut answered = Vec::new();
    for _ in 0..3 {
        let answer = pipes.next().await;
        assert!(answer["result"].is_object(), "{answer}");
        answered.push(answer["id"].as_i64().unwrap());
    }
    assert_eq!(answered[0], 0);
    assert_eq!(
        patiently("the end", pipes.lines.next_line()).await.unwrap(),
        None
    );
}

#[tokio::test]
async fn every_revision_is_answered_with_one_we_speak() {
    for (asked, agreed) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("2099-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1.0", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        let mut pipes = Pipes::new();
        let hello = request(0, "initialize", super::introduction(asked));
        let answer = pipes.ask(hello).await;
        assert_eq!(answer["result"]["protocolVersion"], agreed, "{asked}");
    }
    let mut pipes = Pipes::new();
    let mut hello = super::introduction("");
    hello.as_object_mut().unwrap().remove("protocolVersion");
    let answer = pipes.ask(request(0, "initialize", hello)).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    let mut pipes = Pipes::new();
    let mut params = modern(json!({}));
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01".into();
    let answer = pipes.ask(request(0, "tools/list", params)).await;
    assert_eq!(code(&answer), -32022);
    assert_eq!(answer["error"]["data"]["requested"], "2099-01-01");
    assert!(
        answer["error"]["data"]["supported"]
            .as_array()
            .unwrap()
            .len()
            >= 4
    );
}

#[tokio::test]
async fn a_modern_request_without_its_metadata_is_refused() {
    let mut pipes = Pipes::new();
    for missing in ["protocolVersion", "clientCapabilities"] {
        let mut params = modern(json!({}));
        let meta = params["_meta"].as_object_mut().unwrap();
        meta.remove(&format!("io.modelcontextprotocol/{missing}"));
        let answer = pipes.ask(request(0, "server/discover", params)).await;
        assert_eq!(code(&answer), -32602, "{missing}");
    }
    let mut params = modern(json!({}));
    let meta = params["_meta"].as_object_mut().unwrap();
    meta.remove("io.modelcontextprotocol/clientInfo");
    let answer = pipes.ask(request(0, "tools/list", params)).await;
    assert!(answer["result"].is_object());
}

#[tokio::test]
async fn an_id_that_is_in_use_is_refused() {
    let mut pipes = Pipes::legacy().await;
    pipes.send(&request(1, "tools/call", call("wait"))).await;
    let fixture = Arc::clone(&pipes.fixture);
    until("the call", || fixture.waiting.load(Ordering::SeqCst) == 1).await;
    let answer = pipes.ask(request(1, "ping", json!({}))).await;
    assert_eq!(code(&answer), -32600);
    assert_eq!(fixture.waiting.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn calls_under_way_are_bounded() {
    let mut pipes = Pipes::legacy().await;
    for id in 1..=1_024 {
        pipes.send(&request(id, "tools/call", call("wait"))).await;
    }
    let answer = pipes.ask(request(2_000, "ping", json!({}))).await;
    assert_eq!(code(&answer), -32603);
    let cancel = notice("notifications/cancelled", json!({"requestId": 5}));
    pipes.send(&cancel).await;
    let answer = pipes.ask(request(2_001, "ping", json!({}))).await;
    assert_eq!(answer["result"], json!({}));
}

#[tokio::test]
async fn batches_are_answered_where_the_revision_has_them() {
    let mut pipes = Pipes::introduced("2025-03-26").await;
    let batch = json!([
        request(1, "ping", json!({})),
        notice("notifications/unknown", json!({})),
        request(2, "tools/call", call("test_simple_text")),
        {"jsonrpc": "2.0", "id": 3},
        request(4, "initialize", json!({})),
    ]);
    pipes.send(&batch).await;
    let answers = pipes.next().await;
    let answers = answers.as_array().unwrap();
    let result = |id: i64| {
        answers
            .iter()
            .any(|a| a["id"] == id && a.get("result").is_some())
    };
    assert!(result(1) && result(2), "{answers:?}");
    assert_eq!(answers.len(), 4);
    pipes
        .send(&json!([notice("notifications/unknown", json!({}))]))
        .await;
    pipes.send(&json!([])).await;
    assert_eq!(code(&pipes.next().await), -32600);
    let ping = pipes.ask(request(9, "ping", json!({}))).await;
    assert_eq!(ping["result"], json!({}));
}

#[tokio::test]
async fn a_server_ends_soon_after_its_client_whatever_still_runs() {
    for stuck in ["wait", "stubborn", "test_simple_text"] {
        let mut pipes = Pipes::legacy().await;
        pipes.send(&request(1, "tools/call", call(stuck))).await;
        if stuck == "test_simple_text" {
            pipes.next().await;
        } else {
            let fixture = Arc::clone(&pipes.fixture);
            until("the call", || fixture.waiting.load(Ordering::SeqCst) == 1).await;
        }
        let start = Instant::now();
        pipes.hang_up().await;
        patiently("the end", &mut pipes.served).await.unwrap();
        assert!(
            start.elapsed() < SOON + Duration::from_millis(500),
            "{stuck}"
        );
        if stuck == "wait" {
            assert_eq!(
                pipes.fixture.cancelled.load(Ordering::SeqCst),
                1,
                "work outlived its server"
            );
        }
    }
}

#[tokio::test]
async fn a_server_ends_when_nobody_reads_what_it_says() {
    let (server, fixture) = super::server(castellan_mcp::Limits::default());
    let (mut hold, reader) = tokio::io::duplex(4096);
    let (writer, unread) = tokio::io::duplex(4096);
    let served = tokio::spawn(async move {
        castellan_mcp::stdio::serve(&server, reader, writer, None).await;
    });
    use tokio::io::AsyncWriteExt as _;
    let hello = request(0, "initialize", super::introduction(super::LEGACY));
    let ready = notice("notifications/initialized", json!({}));
    let wait = request(1, "tools/call", call("wait"));
    hold.write_all(format!("{hello}\n{ready}\n{wait}\n").as_bytes())
        .await
        .unwrap();
    until("the call", || fixture.waiting.load(Ordering::SeqCst) == 1).await;
    drop(unread);
    fixture.announce(&castellan_mcp::Change::Tools);
    patiently("the end", served).await.unwrap();
    assert_eq!(fixture.cancelled.load(Ordering::SeqCst), 1);
    drop(hold);
}

#[tokio::test]
async fn a_server_that_is_shut_down_ends_its_connections() {
    let mut pipes = Pipes::legacy().await;
    pipes.send(&request(1, "tools/call", call("wait"))).await;
    let fixture = Arc::clone(&pipes.fixture);
    until("the call", || fixture.waiting.load(Ordering::SeqCst) == 1).await;
    patiently("the end", pipes.server.shut_down(SOON)).await;
    patiently("the end", &mut pipes.served).await.unwrap();
    assert_eq!(fixture.cancelled.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn arguments_arrive_as_they_were_sent() {
    let mut pipes = Pipes::legacy().await;
    let arguments = json!({"z": 1, "a": [null, "ü\n", {"deep": {"er": -1.5}}], "": true});
    let params = json!({"name": "echo", "arguments": arguments});
    let answer = pipes.ask(request(1, "tools/call", params)).await;
    assert_eq!(text(&answer), arguments.to_string());
    let answer = pipes
        .ask(request(1, "tools/call", json!({"name": "echo"})))
        .await;
    assert_eq!(text(&answer), "{}");
}
