//! Reading a request: what is wrong with it is answered here, in JSON; the rest is handed on.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{ACCEPT, ALLOW, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use rmcp::model::{ProtocolVersion, RequestId};
use rmcp::transport::streamable_http_server::session::SessionId;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;

use super::sessions::{Place, Sessions, principal};
use super::{Settings, batch};
use crate::frame::connection::Connection;
use crate::frame::service::Desk;
use crate::frame::{Frame, Server};
use crate::jsonrpc::{
    self, BUSY, INVALID_REQUEST, METHOD_NOT_FOUND, NO_INTRODUCTION, Shape, Wrong,
};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const META_VERSION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");

/// How much of an explanation from below is passed on.
const LONGEST_WORDS: usize = 4 * 1024;

/// What stands between the guard and the service.
pub(super) struct Door {
    service: StreamableHttpService<Desk, Sessions>,
    pub(super) sessions: Arc<Sessions>,
    frame: Arc<Frame>,
    longest: usize,
    patience: Duration,
}

impl Door {
    pub(super) fn new(server: &Server, settings: Settings) -> Self {
        let frame = Arc::clone(&server.frame);
        let sessions = Sessions::new(&frame, &settings);
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_json_response(true)
            .with_max_request_body_bytes(settings.longest)
            .with_cancellation_token(frame.stop.child_token());
        let desks = Arc::clone(&frame);
        let desk = move || {
            let connection = Arc::new(Connection::new(&desks, None));
            Ok(Desk::new(Arc::clone(&desks), connection))
        };
        Self {
            service: StreamableHttpService::new(desk, Arc::clone(&sessions), config),
            sessions,
            frame,
            longest: settings.longest,
            patience: settings.patience,
        }
    }

    async fn get(&self, request: Request<Body>) -> Answered {
        let headers = request.headers();
        if headers.get(VERSION).is_some_and(is_modern) {
            return Err(Refusal::method());
        }
        self.session(headers).map(drop)?;
        if !accepts(headers, "text/event-stream") {
            return Err(Refusal::new(
                StatusCode::NOT_ACCEPTABLE,
                "a GET is answered with text/event-stream, which the Accept header must name",
            ));
        }
        let mut request = request.map(|_body| Body::empty());
        request.headers_mut().insert(ACCEPT, BOTH);
        Ok(self.serve(request).await)
    }

    async fn delete(&self, request: Request<Body>) -> Answered {
        let headers = request.headers();
        if headers.get(VERSION).is_some_and(is_modern) {
            return Err(Refusal::method());
        }
        let id = self.session(headers)?;
        self.sessions.end(&id).await;
        Ok(plain(StatusCode::NO_CONTENT))
    }

    async fn post(&self, request: Request<Body>) -> Answered {
        let (mut parts, body) = request.into_parts();
        negotiate(&mut parts.headers)?;
        let body = self.read(body).await?;
        let mut message = jsonrpc::parse(&body).map_err(Refusal::wrong)?;
        if let Value::Array(messages) = message {
            let id = self.session(&parts.headers)?;
            return batch::serve(self, &id, messages, &parts).await;
        }
        let shape = jsonrpc::shape(&mut message).map_err(Refusal::wrong)?;
        let introduction = message.get("method").and_then(Value::as_str) == Some("initialize");
        let modern = message.pointer(META_VERSION).is_some();
        if introduction && modern {
            return Err(Refusal::no_introduction(shape));
        }
        let place = if introduction {
            jsonrpc::complete_introduction(&mut message);
            self.begin(&mut parts.headers).await?
        } else {
            self.belong(&mut parts.headers, &message, shape)?;
            None
        };
        // What was checked is what is served.
        let body = Bytes::from(message.to_string());
        parts.headers.insert(CONTENT_TYPE, JSON);
        parts.headers.insert(CONTENT_LENGTH, body.len().into());
        let response = self
            .serve(Request::from_parts(parts, Body::from(body)))
            .await;
        drop(place);
        Ok(response)
    }

    /// Room for a session that is about to begin; none is needed where it has begun.
    async fn begin(&self, headers: &mut HeaderMap) -> Result<Option<Place>, Refusal> {
        if headers.contains_key(SESSION) {
            if self.session(headers).is_ok() {
                return Ok(None);
            }
            // Of a session that is over; this is the way to a new one.
            headers.remove(SESSION);
        }
        match self.sessions.place().await {
            Some(place) => Ok(Some(place)),
            None => Err(Refusal {
                code: BUSY,
                ..Refusal::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "all sessions are taken; end some, or come back later",
                )
            }),
        }
    }

    /// Whether a message belongs to a session, as those of older clients must.
    fn belong(
        &self,
        headers: &mut HeaderMap,
        message: &Value,
        shape: Shape,
    ) -> Result<(), Refusal> {
        let version = headers.get(VERSION);
        let modern = message.pointer(META_VERSION).is_some() || version.is_some_and(is_modern);
        let discovers = message.get("method").and_then(Value::as_str) == Some("server/discover");
        if modern || discovers {
            // This revision has no sessions.
            headers.remove(SESSION);
            return Ok(());
        }
        self.session(headers).map(drop).map_err(|refusal| Refusal {
            id: shape.id(),
            ..refusal
        })
    }

    /// The session a request names and may use.
    fn session(&self, headers: &HeaderMap) -> Result<SessionId, Refusal> {
        let mut versions = headers.get_all(VERSION).iter();
        let version = match (versions.next(), versions.next()) {
            (None, _) => None,
            (Some(version), None) => Some(known_version(version)?),
            (Some(_), Some(_)) => {
                let what = "the MCP-Protocol-Version header was sent more than once";
                return Err(Refusal::new(StatusCode::BAD_REQUEST, what));
            }
        };
        let Some(id) = headers.get(SESSION) else {
            return Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                "the Mcp-Session-Id header is missing: send `initialize` first, or speak revision \
                 2026-07-28, which has no sessions",
            ));
        };
        let principal = principal(headers);
        let known = id
            .to_str()
            .ok()
            .and_then(|id| Some((id, self.sessions.find(id, principal.as_deref())?)));
        let Some((id, known)) = known else {
            return Err(Refusal::new(
                StatusCode::NOT_FOUND,
                "this session is over or was never begun; send `initialize` again",
            ));
        };
        match (version, known.version) {
            (Some(sent), Some(agreed)) if sent != agreed => Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                format!(
                    "this session speaks {agreed}, the MCP-Protocol-Version header says {sent}"
                ),
            )),
            _ => Ok(SessionId::from(id)),
        }
    }

    /// The body of a request.
    async fn read(&self, body: Body) -> Result<Bytes, Refusal> {
        let read = axum::body::to_bytes(body, self.longest);
        let late = self.frame.clock.sleep(self.patience);
        let body = tokio::select! {
            body = read => body,
            () = late => return Err(Refusal::new(
                StatusCode::REQUEST_TIMEOUT,
                format!("the request did not arrive within {} s", self.patience.as_secs()),
            )),
        };
        body.map_err(|_too_long| {
            Refusal::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("a request has at most {} bytes", self.longest),
            )
        })
    }

    async fn serve(&self, request: Request<Body>) -> Response<Body> {
        let response = self.service.handle(request).await;
        explained(response.map(Body::new)).await
    }
}

/// Serves one request.
pub(super) async fn enter(State(door): State<Arc<Door>>, request: Request<Body>) -> Response<Body> {
    let answered = match *request.method() {
        Method::POST => door.post(request).await,
        Method::GET => door.get(request).await,
        Method::DELETE => door.delete(request).await,
        _ => Err(Refusal::method()),
    };
    answered.unwrap_or_else(|refusal| refusal.response())
}

pub(super) type Answered = Result<Response<Body>, Refusal>;

/// A request that is not served.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    id: Option<RequestId>,
    code: i32,
    message: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            id: None,
            code: INVALID_REQUEST,
            message: message.into(),
        }
    }

    pub(super) fn wrong(wrong: Wrong) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            id: wrong.id,
            code: wrong.code,
            message: wrong.message,
        }
    }

    /// The modern revision knows no `initialize`.
    fn no_introduction(shape: Shape) -> Self {
        Self {
            id: shape.id(),
            code: METHOD_NOT_FOUND,
            ..Self::new(
                StatusCode::NOT_FOUND,
                format!(
                    "{NO_INTRODUCTION}; the revisions before it do: {}",
                    spoken()
                ),
            )
        }
    }

    fn method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "this endpoint takes POST, and from clients with a session GET and DELETE",
        )
    }

    fn response(self) -> Response<Body> {
        let wrong = Wrong::new(self.id, self.code, self.message);
        let mut response = json(self.status, wrong.to_json().to_string());
        let headers = response.headers_mut();
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, METHODS);
        } else if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("60"));
        }
        response
    }
}

/// An error without an id.
pub(super) fn refusal(status: StatusCode, code: i32, message: &str) -> Response<Body> {
    let refusal = Refusal {
        code,
        ..Refusal::new(status, message)
    };
    refusal.response()
}

fn json(status: StatusCode, body: String) -> Response<Body> {
    let mut response = plain(status);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    *response.body_mut() = Body::from(body);
    response
}

pub(super) fn plain(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// An error in plain words, as JSON.
async fn explained(response: Response<Body>) -> Response<Body> {
    let is_json = response.headers().get(CONTENT_TYPE) == Some(&JSON);
    if is_json || response.status().as_u16() < 400 {
        return response;
    }
    let (parts, body) = response.into_parts();
    let words = axum::body::to_bytes(body, LONGEST_WORDS).await;
    let words = words.unwrap_or_default();
    let refusal = Refusal::new(parts.status, String::from_utf8_lossy(&words));
    refusal.response()
}

/// Sees to it that a request says what it takes and what it is in the words the service looks for.
fn negotiate(headers: &mut HeaderMap) -> Result<(), Refusal> {
    let content = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = content.and_then(|value| value.split(';').next());
    if !essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json")) {
        return Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "a request is application/json, which the Content-Type header must say",
        ));
    }
    if !accepts(headers, "application/json") || !accepts(headers, "text/event-stream") {
        return Err(Refusal::new(
            StatusCode::NOT_ACCEPTABLE,
            "the Accept header must name application/json and text/event-stream",
        ));
    }
    headers.insert(ACCEPT, BOTH);
    Ok(())
}

/// Whether the Accept header has `kind`, by itself or in general.
fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let general = kind.split('/').next().unwrap_or_default();
    let accepted = headers.get_all(ACCEPT).iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            let essence = parts.next()?;
            let refused = parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
            (!refused).then_some(essence)
        })
        .any(|essence| {
            essence.eq_ignore_ascii_case(kind)
                || essence == "*/*"
                || essence.strip_suffix("/*") == Some(general)
        })
}

fn is_modern(version: &HeaderValue) -> bool {
    version.as_bytes() >= ProtocolVersion::NO_INITIALIZE.as_str().as_bytes()
}

/// A revision that is spoken here.
fn known_version(header: &HeaderValue) -> Result<ProtocolVersion, Refusal> {
    let known = ProtocolVersion::KNOWN_VERSIONS;
    let found = known
        .iter()
        .find(|known| known.as_str().as_bytes() == header.as_bytes());
    found.cloned().ok_or_else(|| {
        let spoken = spoken();
        Refusal::new(
            StatusCode::BAD_REQUEST,
            format!("the MCP-Protocol-Version header names none of the revisions {spoken}"),
        )
    })
}

/// The revisions that are spoken here, for people.
fn spoken() -> String {
    let known = ProtocolVersion::KNOWN_VERSIONS;
    let spoken: Vec<&str> = known.iter().map(ProtocolVersion::as_str).collect();
    spoken.join(", ")
}
