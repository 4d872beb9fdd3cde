//! Sessions of older clients over HTTP: their end, their number, and streams that are lost.

use std::sync::atomic::Ordering;
use std::time::Duration;

use castellan_mcp::Change;
use castellan_mcp::http::{Admission, Guard, Settings};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::web::{Web, events};
use super::{LEGACY, call, code, introduction, request, text, until};

#[tokio::test]
async fn a_session_that_is_over_is_not_found() {
    let web = Web::new().await;
    let session = web.session().await;
    let gone = web.send(Method::DELETE, &session.headers(), "").await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let body = request(1, "tools/list", json!({})).to_string();
        let answer = web.send(method.clone(), &session.headers(), body).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method}");
        assert!(
            answer.message()["error"]["message"]
                .as_str()
                .unwrap()
                .contains("initialize")
        );
    }
    // The way to a new one is open even with the old name.
    let hello = request(0, "initialize", introduction(LEGACY));
    let again = web.post(&[("mcp-session-id", &session.id)], &hello).await;
    assert_eq!(again.status, StatusCode::OK);
    assert_ne!(again.headers["mcp-session-id"], session.id.as_str());
}

#[tokio::test]
async fn an_idle_session_ends_and_one_with_an_open_stream_does_not() {
    let web = Web::with(Settings {
        idle: Duration::from_millis(400),
        ..Settings::default()
    })
    .await;
    let (idle, open) = (web.session().await, web.session().await);
    let mut stream = open.stream(Method::GET, &[], "").await;
    let ended = async {
        loop {
            tokio::time::sleep(Duration::from_millis(450)).await;
            let answer = idle.ask("ping", json!({})).await;
            if answer.status == StatusCode::NOT_FOUND {
                break;
            }
        }
    };
    super::patiently("the end of an idle session", ended).await;
    web.fixture.announce(&Change::Tools);
    let note = stream.next().await.unwrap().message;
    assert_eq!(note["method"], "notifications/tools/list_changed");
    assert_eq!(
        open.ask("ping", json!({})).await.message()["result"],
        json!({})
    );
}

#[tokio::test]
async fn sessions_are_bounded_and_the_rest_is_told_to_come_back() {
    let web = Web::with(Settings {
        sessions: 3,
        ..Settings::default()
    })
    .await;
    let first = web.session().await;
    web.session().await;
    web.session().await;
    for _ in 0..50 {
        let answer = web
            .post(&[], &request(0, "initialize", introduction(LEGACY)))
            .await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(answer.headers.contains_key("retry-after"));
        assert_eq!(code(&answer.message()), -32603);
    }
    // Those that have one go on, modern clients need none, and one that ends makes room.
    assert_eq!(first.ask("ping", json!({})).await.status, StatusCode::OK);
    assert_eq!(
        web.ask("tools/list", json!({})).await.status,
        StatusCode::OK
    );
    web.send(Method::DELETE, &first.headers(), "").await;
    web.session().await;
}

#[tokio::test]
async fn where_all_are_taken_the_one_that_has_been_idle_longest_gives_way() {
    let web = Web::with(Settings {
        sessions: 2,
        spare: Duration::ZERO,
        ..Settings::default()
    })
    .await;
    let first = web.session().await;
    let second = web.session().await;
    first.ask("ping", json!({})).await;
    let third = web.session().await;
    assert_eq!(
        second.ask("ping", json!({})).await.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(first.ask("ping", json!({})).await.status, StatusCode::OK);
    assert_eq!(third.ask("ping", json!({})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_thousand_abandoned_sessions_leave_nothing_behind() {
    let web = Web::with(Settings {
        sessions: 20,
        spare: Duration::ZERO,
        ..Settings::default()
    })
    .await;
    let hello = request(0, "initialize", introduction(LEGACY));
    for _ in 0..1_000 {
        assert_eq!(web.post(&[], &hello).await.status, StatusCode::OK);
    }
    assert_eq!(
        web.ask("tools/list", json!({})).await.status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn a_session_belongs_to_the_secret_it_was_begun_with() {
    let admission = Admission::Bearer(std::sync::Arc::new(|_: &_| true));
    let guard = Guard {
        admission,
        ..Guard::default()
    };
    let web = Web::with(Settings {
        guard,
        ..Settings::default()
    })
    .await;
    let session = web
        .session_with(LEGACY, &[("authorization", "Bearer one")])
        .await;
    assert_eq!(session.ask("ping", json!({})).await.status, StatusCode::OK);
    let stolen = [
        ("mcp-session-id", session.id.as_str()),
        ("authorization", "Bearer two"),
    ];
    let ping = request(1, "ping", json!({}));
    assert_eq!(web.post(&stolen, &ping).await.status, StatusCode::NOT_FOUND);
    for method in [Method::GET, Method::DELETE] {
        let answer = web.send(method, &stolen, "").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
    }
    assert_eq!(session.ask("ping", json!({})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_lost_stream_is_taken_up_where_it_was() {
    let web = Web::new().await;
    let session = web.session().await;
    let mut params = call("test_tool_with_progress");
    params["_meta"] = json!({"progressToken": 1});
    let body = request(5, "tools/call", params).to_string();
    let mut stream = session.stream(Method::POST, &[], &body).await;
    let first = stream.next().await.unwrap();
    assert_eq!(first.message["params"]["progress"], 0.0);
    drop(stream);
    let seen = first.id;
    // While it runs, and again after it is over.
    for _ in 0..2 {
        let mut stream = session
            .stream(Method::GET, &[("last-event-id", &seen)], "")
            .await;
        let mut rest = Vec::new();
        while let Some(event) = stream.next().await {
            rest.push(event.message);
        }
        let progress: Vec<&Value> = rest.iter().map(|m| &m["params"]["progress"]).collect();
        assert_eq!(
            progress,
            [&json!(50.0), &json!(100.0), &Value::Null],
            "{rest:?}"
        );
        assert_eq!(text(&rest[2]), "done");
    }
}

#[tokio::test]
async fn the_stream_of_another_session_is_not_to_be_had() {
    let web = Web::new().await;
    let (one, other) = (web.session().await, web.session().await);
    let body = request(5, "tools/call", call("test_simple_text")).to_string();
    let mut stream = one.stream(Method::POST, &[], &body).await;
    let event = stream.next().await.unwrap();
    let position = event.id.split_once('/').unwrap().1;
    let from_start = format!("0/{position}");
    let mut theirs = other
        .stream(Method::GET, &[("last-event-id", &from_start)], "")
        .await;
    assert_eq!(theirs.next().await, None);
    for nonsense in ["x", "9/9", "0/", "/", "999999999999999999999/1"] {
        let mut stream = one
            .stream(Method::GET, &[("last-event-id", nonsense)], "")
            .await;
        assert_eq!(stream.next().await, None, "{nonsense}");
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody() {
    let web = Web::new().await;
    let session = web.session().await;
    let mut params = call("flood");
    params["_meta"] = json!({"progressToken": 1});
    let body = request(5, "tools/call", params).to_string();
    let unread = session.stream(Method::POST, &[], &body).await;
    let answer = session.ask("tools/call", call("test_simple_text")).await;
    assert!(answer.message()["result"].is_object());
    drop(unread);
}

#[tokio::test]
async fn losing_the_stream_does_not_cancel_an_older_clients_call_and_cancelling_does() {
    let web = Web::new().await;
    let session = web.session().await;
    let body = request(5, "tools/call", call("wait")).to_string();
    let stream = session.stream(Method::POST, &[], &body).await;
    let fixture = &web.fixture;
    until("the call", || fixture.waiting.load(Ordering::SeqCst) == 1).await;
    drop(stream);
    session.ask("ping", json!({})).await;
    assert_eq!(fixture.cancelled.load(Ordering::SeqCst), 0);
    let cancel = super::notice("notifications/cancelled", json!({"requestId": 5}));
    assert_eq!(session.post(&cancel).await.status, StatusCode::ACCEPTED);
    until("the cancel", || {
        fixture.cancelled.load(Ordering::SeqCst) == 1
    })
    .await;
}

#[tokio::test]
async fn the_end_of_a_session_is_the_end_of_its_calls() {
    let web = Web::new().await;
    let session = web.session().await;
    let body = request(5, "tools/call", call("wait")).to_string();
    let _stream = session.stream(Method::POST, &[], &body).await;
    let fixture = &web.fixture;
    until("the call", || fixture.waiting.load(Ordering::SeqCst) == 1).await;
    web.send(Method::DELETE, &session.headers(), "").await;
    until("the cancel", || {
        fixture.cancelled.load(Ordering::SeqCst) == 1
    })
    .await;
}

#[tokio::test]
async fn batches_are_answered_where_the_revision_has_them() {
    let web = Web::new().await;
    let batch = json!([
        request(1, "ping", json!({})),
        super::notice("notifications/nothing", json!({})),
        request(2, "tools/call", call("test_simple_text")),
        {"jsonrpc": "2.0", "id": 3},
    ]);
    let session = web.session_with("2025-03-26", &[]).await;
    let answer = session.post(&batch).await;
    assert_eq!(answer.status, StatusCode::OK);
    let mut answers = events(&answer.body);
    answers.sort_by_key(|answer| answer["id"].as_i64());
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert_eq!(answers[0]["result"], json!({}));
    assert_eq!(answers[1]["id"], 2);
    assert_eq!(code(&answers[2]), -32600);
    let silent = json!([super::notice("notifications/nothing", json!({}))]);
    assert_eq!(session.post(&silent).await.status, StatusCode::ACCEPTED);
    let session = web.session().await;
    let answer = session.post(&batch).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(code(&answer.message()), -32600);
}
