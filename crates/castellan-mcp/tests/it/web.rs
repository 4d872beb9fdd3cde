//! A client over HTTP that sets every header itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use castellan_mcp::Limits;
use castellan_mcp::http::{Settings, listen, router};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::fixture::Fixture;
use super::{LEGACY, MODERN, introduction, notice, patiently, request, server};

/// A server that listens.
pub(crate) struct Web {
    pub(crate) address: SocketAddr,
    pub(crate) fixture: Arc<Fixture>,
    stop: CancellationToken,
}

impl Drop for Web {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    /// The one JSON message in it, or the last one of a stream.
    pub(crate) fn message(&self) -> Value {
        let is_stream = self.headers["content-type"].as_bytes() == b"text/event-stream";
        if is_stream {
            events(&self.body).pop().unwrap()
        } else {
            serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
        }
    }
}

/// The messages of a stream.
pub(crate) fn events(body: &str) -> Vec<Value> {
    body.lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter_map(|data| serde_json::from_str(data.trim()).ok())
        .collect()
}

impl Web {
    pub(crate) async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        let (server, fixture) = server(Limits::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let router = router(&server, settings);
        tokio::spawn(listen::listen(listener, router, stop.clone()));
        Self {
            address,
            fixture,
            stop,
        }
    }

    /// Sends a request with these headers on a connection of its own; those that every client sends
    /// are filled in.
    pub(crate) async fn open(
        &self,
        method: Method,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let io = TokioIo::new(stream);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri("/mcp");
        let has = |name: &str| headers.iter().any(|(key, _)| *key == name);
        let own = self.address.to_string();
        for (name, value) in [
            ("host", own.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ] {
            if !has(name) {
                request = request.header(name, value);
            }
        }
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        patiently("an answer", sender.send_request(request))
            .await
            .unwrap()
    }

    /// The same, with the whole answer.
    pub(crate) async fn send(
        &self,
        method: Method,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let response = self.open(method, headers, body).await;
        let (parts, body) = response.into_parts();
        let body = patiently("a whole answer", body.collect()).await.unwrap();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: String::from_utf8(body.to_bytes().to_vec()).unwrap(),
        }
    }

    pub(crate) async fn post(&self, headers: &[(&str, &str)], message: &Value) -> Answer {
        self.send(Method::POST, headers, message.to_string()).await
    }

    /// A modern request.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Answer {
        let params = super::modern(params);
        self.ask_as(method, params).await
    }

    /// A modern request whose parameters are complete.
    pub(crate) async fn ask_as(&self, method: &str, params: Value) -> Answer {
        let name = params.get("name").or_else(|| params.get("uri"));
        let name = name.and_then(Value::as_str).unwrap_or_default().to_owned();
        let headers = [
            ("mcp-protocol-version", MODERN),
            ("mcp-method", method),
            ("mcp-name", &name),
        ];
        self.post(&headers, &request(7, method, params)).await
    }

    /// A session of an older client.
    pub(crate) async fn session(&self) -> Session<'_> {
        self.session_with(LEGACY, &[]).await
    }

    pub(crate) async fn session_with(
        &self,
        version: &'static str,
        headers: &[(&str, &str)],
    ) -> Session<'_> {
        let hello = request(0, "initialize", introduction(version));
        let answer = self.post(headers, &hello).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        assert_eq!(answer.message()["result"]["protocolVersion"], version);
        let id = answer.headers["mcp-session-id"]
            .to_str()
            .unwrap()
            .to_owned();
        let session = Session {
            web: self,
            id,
            version,
            more: headers
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        };
        let ready = session
            .post(&notice("notifications/initialized", json!({})))
            .await;
        assert_eq!(ready.status, StatusCode::ACCEPTED, "{ready:?}");
        session
    }
}

/// A session of an older client.
pub(crate) struct Session<'a> {
    pub(crate) web: &'a Web,
    pub(crate) id: String,
    version: &'static str,
    more: Vec<(String, String)>,
}

impl Session<'_> {
    pub(crate) fn headers(&self) -> Vec<(&str, &str)> {
        let mut headers = vec![
            ("mcp-session-id", self.id.as_str()),
            ("mcp-protocol-version", self.version),
        ];
        headers.extend(
            self.more
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str())),
        );
        headers
    }

    pub(crate) async fn post(&self, message: &Value) -> Answer {
        self.web.post(&self.headers(), message).await
    }

    pub(crate) async fn ask(&self, method: &str, params: Value) -> Answer {
        self.post(&request(7, method, params)).await
    }

    /// A stream that is read event by event.
    pub(crate) async fn stream(&self, method: Method, more: &[(&str, &str)], body: &str) -> Stream {
        let mut headers = self.headers();
        headers.extend(more);
        let response = self.web.open(method, &headers, body.to_owned()).await;
        assert_eq!(response.status(), StatusCode::OK);
        Stream::of(response)
    }
}

/// Events as they come.
pub(crate) struct Stream {
    body: Incoming,
    buffer: String,
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) message: Value,
}

impl Stream {
    pub(crate) fn of(response: Response<Incoming>) -> Self {
        Self {
            body: response.into_body(),
            buffer: String::new(),
        }
    }

    /// The next event with a message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap_or_default().trim().to_owned()
                };
                let (id, data) = (field("id:"), field("data:"));
                self.buffer = rest.to_owned();
                if let Ok(message) = serde_json::from_str(&data) {
                    return Some(Event { id, message });
                }
            }
            let frame = patiently("an event", self.body.frame()).await?;
            let data = frame.unwrap().into_data().unwrap();
            self.buffer.push_str(std::str::from_utf8(&data).unwrap());
        }
    }

    /// Whether nothing comes for a while.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        let next = tokio::time::timeout(Duration::from_millis(200), self.next());
        next.await.is_err()
    }
}
