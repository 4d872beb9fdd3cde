//! Requests over HTTP that should not be served, each with the answer it deserves.

use std::time::Duration;

use castellan_mcp::http::{Admission, Guard, Settings};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::web::Web;
use super::{LEGACY, MODERN, call, code, introduction, modern, notice, patiently, request};

#[tokio::test]
async fn foreign_hosts_and_pages_are_refused_whatever_they_ask() {
    let web = Web::new().await;
    let session = web.session().await;
    let port = web.address.port();
    let hello = request(0, "initialize", introduction(LEGACY)).to_string();
    let evil_host = format!("evil.test:{port}");
    let neighbour = format!("http://localhost:{}", port ^ 1);
    let refused: [(&str, &str); 5] = [
        ("host", &evil_host),
        ("origin", "http://evil.test"),
        ("origin", "null"),
        ("origin", "http://localhost.evil.test"),
        ("origin", &neighbour),
    ];
    for header in refused {
        for method in [Method::POST, Method::GET, Method::DELETE, Method::OPTIONS] {
            let mut headers = session.headers();
            headers.push(header);
            let answer = web.send(method.clone(), &headers, hello.clone()).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{method} {header:?}");
            assert_eq!(code(&answer.message()), -32600);
            let headers = answer.headers;
            assert!(!headers.contains_key("access-control-allow-origin"));
        }
    }
    assert_eq!(session.ask("ping", json!({})).await.status, StatusCode::OK);
    let (v6, own) = (format!("[::1]:{port}"), format!("http://localhost:{port}"));
    for headers in [
        vec![("host", v6.as_str())],
        vec![("origin", own.as_str())],
        vec![],
    ] {
        let answer = web.send(Method::POST, &headers, hello.clone()).await;
        assert_eq!(answer.status, StatusCode::OK, "{headers:?}");
    }
}

#[tokio::test]
async fn without_the_secret_nothing_is_served() {
    let guard = Guard {
        admission: Admission::secret("s3cret"),
        ..Guard::default()
    };
    let web = Web::with(Settings {
        guard,
        ..Settings::default()
    })
    .await;
    let hello = request(0, "initialize", introduction(LEGACY));
    for authorization in ["", "Bearer wrong", "Bearer", "Basic s3cret", "s3cret"] {
        let answer = web.post(&[("authorization", authorization)], &hello).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{authorization}");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        assert_eq!(code(&answer.message()), -32600);
    }
    web.session_with(LEGACY, &[("authorization", "Bearer s3cret")])
        .await;
}

#[tokio::test]
async fn bodies_that_are_no_message_are_answered_in_json() {
    let web = Web::new().await;
    let session = web.session().await;
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    for (body, status, expected) in [
        ("no json", 400, -32700),
        ("", 400, -32700),
        (deep.as_str(), 400, -32700),
        (r#"{"hello":"world"}"#, 400, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, 400, -32600),
        ("[]", 400, -32600),
        ("5", 400, -32600),
    ] {
        let answer = web
            .send(Method::POST, &session.headers(), body.to_owned())
            .await;
        assert_eq!(answer.status.as_u16(), status, "{body:.50}");
        assert_eq!(code(&answer.message()), expected, "{body:.50}");
    }
    let big = vec![b'x'; 4 * 1024 * 1024 + 1];
    let answer = web.send(Method::POST, &session.headers(), big).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(code(&answer.message()), -32600);
    assert_eq!(session.ask("ping", json!({})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn what_a_request_is_and_takes_has_to_be_said() {
    let web = Web::new().await;
    let session = web.session().await;
    let ping = request(1, "ping", json!({})).to_string();
    let with = |name: &'static str, value: &'static str| {
        let mut headers = session.headers();
        headers.push((name, value));
        headers
    };
    for (headers, status) in [
        (with("content-type", "text/plain"), 415),
        (with("content-type", ""), 415),
        (with("content-type", "application/json; charset=utf-8"), 200),
        (with("accept", "application/json"), 406),
        (with("accept", "text/html"), 406),
        (
            with("accept", "text/event-stream;q=0, application/json"),
            406,
        ),
        (with("accept", "*/*"), 200),
        (
            with("accept", "text/event-stream;q=0.5,application/json"),
            200,
        ),
    ] {
        let answer = web.send(Method::POST, &headers, ping.clone()).await;
        assert_eq!(answer.status.as_u16(), status, "{headers:?}");
        answer.message();
    }
    let answer = web
        .send(Method::GET, &with("accept", "application/json"), "")
        .await;
    assert_eq!(answer.status, StatusCode::NOT_ACCEPTABLE);
    for method in [Method::PUT, Method::PATCH, Method::OPTIONS, Method::HEAD] {
        let answer = web.send(method.clone(), &session.headers(), "").await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert_eq!(answer.headers["allow"], "GET, POST, DELETE");
    }
}

#[tokio::test]
async fn the_revision_in_the_header_has_to_be_the_one_that_was_agreed_on() {
    let web = Web::new().await;
    let session = web.session().await;
    let ping = request(1, "ping", json!({}));
    for (version, status) in [
        ("2020-01-01", 400),
        ("nonsense", 400),
        ("2025-06-18", 400),
        ("2025-11-25", 200),
        ("", 200),
    ] {
        let headers = [
            ("mcp-session-id", session.id.as_str()),
            ("mcp-protocol-version", version),
        ];
        let answer = web.post(&headers, &ping).await;
        assert_eq!(answer.status.as_u16(), status, "{version}");
        answer.message();
    }
    for asked in ["2099-01-01", "1.0", "2026-07-28"] {
        let answer = web
            .post(&[], &request(0, "initialize", introduction(asked)))
            .await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.message()["result"]["protocolVersion"], "2025-11-25");
    }
    let mut hello = introduction("");
    hello.as_object_mut().unwrap().remove("protocolVersion");
    let answer = web.post(&[], &request(0, "initialize", hello)).await;
    assert_eq!(answer.message()["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn without_a_session_an_older_client_is_told_how_to_begin() {
    let web = Web::new().await;
    for message in [
        request(4, "tools/list", json!({})),
        notice("notifications/initialized", json!({})),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
    ] {
        let answer = web.post(&[], &message).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        let error = answer.message();
        assert!(
            error["error"]["message"]
                .as_str()
                .unwrap()
                .contains("initialize"),
            "{error}"
        );
    }
    let answer = web
        .post(&[], &request(4, "tools/list", json!({})))
        .await
        .message();
    assert_eq!(answer["id"], 4);
    let answer = web
        .post(
            &[("mcp-session-id", "made-up")],
            &request(4, "ping", json!({})),
        )
        .await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert_eq!(answer.message()["id"], 4);
}

#[tokio::test]
async fn a_second_introduction_in_one_session_is_refused() {
    let web = Web::new().await;
    let session = web.session().await;
    let answer = session.ask("initialize", introduction(LEGACY)).await;
    assert_eq!(code(&answer.message()), -32600);
    assert_eq!(session.ask("ping", json!({})).await.status, StatusCode::OK);
}

#[tokio::test]
async fn modern_requests_are_held_to_their_headers() {
    let web = Web::new().await;
    let body = request(1, "tools/call", modern(call("test_simple_text")));
    let good = [
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/call"),
        ("mcp-name", "test_simple_text"),
    ];
    assert_eq!(web.post(&good, &body).await.status, StatusCode::OK);
    for (index, value) in [
        (0, "2025-11-25"),
        (0, ""),
        (1, "tools/list"),
        (1, ""),
        (2, "other"),
        (2, ""),
    ] {
        let mut headers = good;
        headers[index].1 = value;
        let answer = web.post(&headers, &body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{headers:?}");
        assert_eq!(code(&answer.message()), -32020, "{headers:?}");
    }
    let mut future = modern(json!({}));
    future["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01".into();
    let headers = [
        ("mcp-protocol-version", "2099-01-01"),
        ("mcp-method", "tools/list"),
    ];
    let answer = web.post(&headers, &request(1, "tools/list", future)).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(code(&answer.message()), -32022);
    assert_eq!(answer.message()["error"]["data"]["requested"], "2099-01-01");
}

#[tokio::test]
async fn what_the_modern_revision_has_dropped_is_not_found() {
    let web = Web::new().await;
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "no/such",
    ] {
        for params in [json!({}), introduction(LEGACY)] {
            let answer = web.ask(method, params).await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method}");
            let message = answer.message();
            assert_eq!(
                (code(&message), &message["id"]),
                (-32601, &json!(7)),
                "{method}"
            );
            assert!(!answer.headers.contains_key("mcp-session-id"));
        }
    }
    for method in [Method::GET, Method::DELETE] {
        let headers = [("mcp-protocol-version", MODERN), ("mcp-session-id", "x")];
        let answer = web.send(method.clone(), &headers, "").await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
    }
    // A session a modern request names by mistake is no matter.
    let mut headers = vec![("mcp-session-id", "made-up")];
    headers.extend([
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/list"),
    ]);
    let answer = web
        .post(&headers, &request(1, "tools/list", modern(json!({}))))
        .await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test]
async fn notifications_are_accepted_and_not_answered() {
    let web = Web::new().await;
    let session = web.session().await;
    for silent in [
        notice("notifications/unknown", json!({})),
        json!({"jsonrpc": "2.0", "id": 99, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "m"}}),
    ] {
        let answer = session.post(&silent).await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (StatusCode::ACCEPTED, "")
        );
    }
}

#[tokio::test]
async fn a_request_that_does_not_arrive_is_not_waited_for() {
    let web = Web::with(Settings {
        patience: Duration::from_millis(200),
        ..Settings::default()
    })
    .await;
    let mut stream = tokio::net::TcpStream::connect(web.address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: */*\r\n\
         Content-Length: 100\r\n\r\n{{",
        web.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 1024];
    let read = patiently("an answer", stream.read(&mut answer))
        .await
        .unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[tokio::test]
async fn other_paths_are_not_here() {
    let web = Web::new().await;
    let mut stream = tokio::net::TcpStream::connect(web.address).await.unwrap();
    let head = format!("GET /etc/passwd HTTP/1.1\r\nHost: {}\r\n\r\n", web.address);
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 1024];
    let read = patiently("an answer", stream.read(&mut answer))
        .await
        .unwrap();
    assert!(String::from_utf8_lossy(&answer[..read]).starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn many_clients_at_once_are_all_served() {
    let web = std::sync::Arc::new(Web::new().await);
    let clients = (0..32).map(|_| {
        let web = std::sync::Arc::clone(&web);
        tokio::spawn(async move {
            for _ in 0..20 {
                let answer = web.ask("tools/call", call("test_simple_text")).await;
                assert!(answer.message()["result"].is_object());
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    let unused: Value = web.ask("tools/list", json!({})).await.message();
    assert!(unused["result"].is_object());
}
