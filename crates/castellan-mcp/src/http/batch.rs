//! Batches over HTTP, which one revision has: the answers come on one stream, each as it is ready.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Response, StatusCode};
use futures::StreamExt as _;
use futures::stream::SelectAll;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions as _, JsonRpcMessage, ProtocolVersion};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager as _,
};
use serde_json::Value;

use super::door::{Answered, Door, Refusal, plain};
use crate::jsonrpc::{self, INVALID_REQUEST, Wrong};

/// Messages of one batch.
const MOST_MESSAGES: usize = 256;

/// Serves a batch in a session that may send one.
pub(super) async fn serve(
    door: &Door,
    session: &SessionId,
    messages: Vec<Value>,
    parts: &Parts,
) -> Answered {
    if !door.sessions.has_batches(session) {
        return Err(Refusal::wrong(wrong(
            "batches are no part of this revision; send one message in each request",
        )));
    }
    if messages.is_empty() || messages.len() > MOST_MESSAGES {
        let what = format!("a batch has between 1 and {MOST_MESSAGES} messages");
        return Err(Refusal::wrong(wrong(&what)));
    }
    let mut answers = SelectAll::new();
    let mut refused = Vec::new();
    for message in messages {
        match read(message, parts) {
            Ok(message @ JsonRpcMessage::Request(_)) => {
                let stream = door.sessions.create_stream(session, message).await;
                answers.push(Box::pin(stream.map_err(gone)?));
            }
            Ok(message) => {
                let taken = door.sessions.accept_message(session, message).await;
                taken.map_err(gone)?;
            }
            Err(wrong) => refused.push(wrong.to_json().to_string()),
        }
    }
    if answers.is_empty() && refused.is_empty() {
        return Ok(plain(StatusCode::ACCEPTED));
    }
    let refused = futures::stream::iter(refused.into_iter().map(|answer| event(None, &answer)));
    let answers = answers.map(|answer| sent(&answer));
    let body = refused.chain(answers).map(Ok::<Bytes, Infallible>);
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

fn wrong(what: &str) -> Wrong {
    Wrong::new(None, INVALID_REQUEST, what)
}

fn gone(error: super::sessions::SessionError) -> Refusal {
    tracing::debug!(%error, "a session ended under a batch");
    Refusal::new(
        StatusCode::NOT_FOUND,
        "this session is over; send `initialize` again",
    )
}

fn read(mut message: Value, parts: &Parts) -> Result<ClientJsonRpcMessage, Wrong> {
    let shape = jsonrpc::shape(&mut message)?;
    if message.get("method").and_then(Value::as_str) == Some("initialize") {
        return Err(wrong("`initialize` comes alone"));
    }
    let id = shape.id();
    let mut message: ClientJsonRpcMessage = serde_json::from_value(message)
        .map_err(|error| Wrong::new(id, INVALID_REQUEST, format!("this can't be read: {error}")))?;
    if let JsonRpcMessage::Request(request) = &mut message {
        request.request.extensions_mut().insert(parts.clone());
    }
    Ok(message)
}

fn sent(message: &ServerSseMessage) -> Bytes {
    let data = message.message.as_ref();
    let data = data.and_then(|message| serde_json::to_string(message).ok());
    event(message.event_id.as_deref(), &data.unwrap_or_default())
}

fn event(id: Option<&str>, data: &str) -> Bytes {
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    Bytes::from(format!("{id}data: {data}\n\n"))
}

/// The revision that has batches.
pub(super) fn has_batches(version: &ProtocolVersion) -> bool {
    *version == ProtocolVersion::V_2025_03_26
}
