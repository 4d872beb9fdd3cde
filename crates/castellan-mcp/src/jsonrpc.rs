//! The envelope of JSON-RPC 2.0: what shape a message has before anybody asks what it means, and
//! the answers for those that have none.

use rmcp::model::{ProtocolVersion, RequestId};
use serde::Deserialize as _;
use serde_json::{Value, json};

/// The JSON could not be read.
pub(crate) const PARSE_ERROR: i32 = -32700;
/// The JSON is no message.
pub(crate) const INVALID_REQUEST: i32 = -32600;
/// The parameters are not what the method takes.
pub(crate) const INVALID_PARAMS: i32 = -32602;
/// No such method.
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
/// The server can't take this now.
pub(crate) const BUSY: i32 = -32603;

/// A message that gets an error instead of being served.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wrong {
    /// The id of the request, where it has one.
    pub(crate) id: Option<RequestId>,
    pub(crate) code: i32,
    pub(crate) message: String,
}

impl Wrong {
    pub(crate) fn new(id: Option<RequestId>, code: i32, message: impl Into<String>) -> Self {
        Self {
            id,
            code,
            message: message.into(),
        }
    }

    /// The error as it is sent. Without an id that could be read it has `null`.
    pub(crate) fn to_json(&self) -> Value {
        let id = self
            .id
            .clone()
            .map_or(Value::Null, RequestId::into_json_value);
        json!({
            "jsonrpc": "2.0",
            "id": id,
            "error": { "code": self.code, "message": self.message },
        })
    }
}

/// What a message is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    Request(RequestId),
    Notification,
    Response,
}

impl Shape {
    /// The id, where it is a request.
    pub(crate) fn id(self) -> Option<RequestId> {
        match self {
            Self::Request(id) => Some(id),
            Self::Notification | Self::Response => None,
        }
    }
}

/// What a client reads that speaks the modern revision and sends `initialize`.
pub(crate) const NO_INTRODUCTION: &str =
    "revision 2026-07-28 has no `initialize`: every request says in its _meta what there is to say";

/// Reads JSON.
///
/// # Errors
/// [`Wrong`] where it is none, or nested deeper than anything that means something.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, Wrong> {
    serde_json::from_slice(bytes)
        .map_err(|error| Wrong::new(None, PARSE_ERROR, format!("this is no JSON: {error}")))
}

/// What `message` is. Parameters that are `null` count as none.
///
/// # Errors
/// [`Wrong`] where it is no message.
pub(crate) fn shape(message: &mut Value) -> Result<Shape, Wrong> {
    let wrong = |id, what: &str| Wrong::new(id, INVALID_REQUEST, what);
    let Value::Object(fields) = message else {
        return Err(wrong(None, "a message is a JSON object"));
    };
    let id = fields
        .get("id")
        .and_then(|id| RequestId::deserialize(id).ok());
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(wrong(id, "`jsonrpc` must be \"2.0\""));
    }
    if !fields.contains_key("method") {
        let answers = fields.contains_key("result") || fields.contains_key("error");
        return if answers && fields.contains_key("id") {
            Ok(Shape::Response)
        } else {
            Err(wrong(id, "a message has a `method`, or answers one"))
        };
    }
    let Some(method) = fields.get("method").and_then(Value::as_str) else {
        return Err(wrong(id, "`method` must be a string"));
    };
    let lists = method.ends_with("/list");
    if !fields.contains_key("id") {
        // Nothing is said of a notification that is wrong.
        if !fields.get("params").is_some_and(Value::is_object) {
            fields.shift_remove("params");
        }
        return Ok(Shape::Notification);
    }
    let Some(id) = id else {
        return Err(wrong(None, "`id` must be a string or an integer"));
    };
    if fields.get("params").is_some_and(Value::is_null) {
        fields.shift_remove("params");
    }
    parameters(fields.get("params"), lists)
        .map_err(|(code, what)| Wrong::new(Some(id.clone()), code, what))?;
    Ok(Shape::Request(id))
}

/// What all methods ask of their parameters.
fn parameters(params: Option<&Value>, lists: bool) -> Result<(), (i32, &'static str)> {
    let fields = match params {
        None => return Ok(()),
        Some(Value::Object(fields)) => fields,
        Some(Value::Array(_)) => return Err((INVALID_PARAMS, "`params` must be an object")),
        Some(_) => return Err((INVALID_REQUEST, "`params` must be an object")),
    };
    if fields.get("_meta").is_some_and(|meta| !meta.is_object()) {
        return Err((INVALID_PARAMS, "`_meta` must be an object"));
    }
    // What is below would take the list from its beginning.
    if lists
        && fields
            .get("cursor")
            .is_some_and(|cursor| !cursor.is_string())
    {
        return Err((INVALID_PARAMS, "`cursor` must be a string"));
    }
    Ok(())
}

/// Fills in what an `initialize` must have and some clients leave out: the revision, for which the
/// server proposes its own.
pub(crate) fn complete_introduction(message: &mut Value) {
    let params = message.get_mut("params").and_then(Value::as_object_mut);
    if let Some(params) = params {
        let newest = ProtocolVersion::LATEST_WITH_INITIALIZE;
        params
            .entry("protocolVersion")
            .or_insert_with(|| newest.as_str().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(message: Value) -> (i32, Value) {
        let mut message = message;
        let wrong = shape(&mut message).unwrap_err().to_json();
        let code = wrong["error"]["code"].as_i64().unwrap();
        (i32::try_from(code).unwrap(), wrong["id"].clone())
    }

    #[test]
    fn what_is_no_message_is_an_invalid_request_with_its_id_where_it_has_one() {
        for (message, id) in [
            (json!(5), Value::Null),
            (json!([]), Value::Null),
            (json!({"hello": "world"}), Value::Null),
            (
                json!({"jsonrpc": "1.0", "id": 4, "method": "ping"}),
                json!(4),
            ),
            (
                json!({"jsonrpc": "2.0", "id": "a", "method": 7}),
                json!("a"),
            ),
            (
                json!({"jsonrpc": "2.0", "id": 1, "method": "m", "params": 3}),
                json!(1),
            ),
            (
                json!({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}),
                Value::Null,
            ),
            (
                json!({"jsonrpc": "2.0", "id": null, "method": "ping"}),
                Value::Null,
            ),
            (
                json!({"jsonrpc": "2.0", "id": {}, "method": "ping"}),
                Value::Null,
            ),
            (json!({"jsonrpc": "2.0", "id": 9}), json!(9)),
        ] {
            assert_eq!(code(message.clone()), (INVALID_REQUEST, id), "{message}");
        }
    }

    #[test]
    fn messages_are_told_apart() {
        let of = |message: Value| shape(&mut message.clone()).unwrap();
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "m", "params": null});
        assert_eq!(of(request), Shape::Request(RequestId::Number(1)));
        let notice = json!({"jsonrpc": "2.0", "method": "m"});
        assert_eq!(of(notice), Shape::Notification);
        let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
        assert_eq!(of(response), Shape::Response);
    }

    #[test]
    fn ten_thousand_brackets_are_no_json_and_no_crash() {
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        assert_eq!(parse(deep.as_bytes()).unwrap_err().code, PARSE_ERROR);
    }
}
