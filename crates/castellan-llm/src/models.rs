//! The models a server lists.

use castellan_core::ErrorCode;
use castellan_host::HttpClient;
use castellan_host::http::{HttpRequest, Timeouts, header};
use serde_json::Value;

use crate::chat::exchange::{content_type, refusal, refuse_encoding};
use crate::chat::failure::{Failure, Retry, Site};
use crate::complaint::tidy;
use crate::endpoint::Endpoint;

/// How much of a list is read; the longest known ones have a few hundred KiB.
const LIST_LIMIT: usize = 8 * 1024 * 1024;

/// Parts of names of models that don't chat.
const OTHER_KINDS: &[&str] = &[
    "embed",
    "rerank",
    "whisper",
    "tts",
    "transcribe",
    "moderation",
    "dall-e",
    "image",
    "realtime",
    "audio",
    "sora",
    "davinci",
    "babbage",
    "ocr",
    "guard",
];

/// A model as a server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedModel {
    /// Its name.
    pub id: String,
    /// How many tokens it takes, where the server says so.
    pub context_window: Option<u64>,
}

impl ListedModel {
    /// Whether its name is one of a model to talk to, rather than of one for embeddings, speech or
    /// images.
    #[must_use]
    pub fn seems_to_chat(&self) -> bool {
        let id = self.id.to_lowercase();
        !OTHER_KINDS.iter().any(|kind| id.contains(kind))
    }
}

/// Asks a server for its models, in its order.
pub(crate) async fn list(
    http: &HttpClient,
    endpoint: &Endpoint,
    site: &Site<'_>,
    timeouts: Timeouts,
) -> Result<Vec<ListedModel>, Failure> {
    let mut get = HttpRequest::get(endpoint.models());
    get.timeouts = timeouts;
    authorize(&mut get, site)?;
    let response = http
        .send(get)
        .await
        .map_err(|error| site.unanswered(&error))?;
    if !response.status.is_success() {
        return Err(refusal(response, site, None).await);
    }
    refuse_encoding(&response.headers, site)?;
    let kind = content_type(&response.headers);
    let body = response.body.read_limited(LIST_LIMIT).await;
    let text = body.map_err(|error| site.unanswered(&error))?.text();
    let read = serde_json::from_str::<Value>(&text)
        .ok()
        .and_then(|list| read(&list));
    read.ok_or_else(|| {
        site.fail(
            ErrorCode::ModelProtocol,
            Retry::Never,
            format!(
                "{} answered something that is no list of models ({kind}): {}",
                site.address,
                tidy(&text)
            ),
            "does the base URL end in /v1?",
        )
    })
}

/// Puts the key into a request.
pub(crate) fn authorize(request: &mut HttpRequest, site: &Site<'_>) -> Result<(), Failure> {
    let Some(key) = site.key else {
        return Ok(());
    };
    let Ok(mut value) = header::HeaderValue::from_str(&format!("Bearer {}", key.expose())) else {
        return Err(site.fail(
            ErrorCode::ModelUnauthorized,
            Retry::Never,
            "the API key holds characters that can't be sent",
            site.key_hint(),
        ));
    };
    value.set_sensitive(true);
    request.headers.insert(header::AUTHORIZATION, value);
    Ok(())
}

/// `{"data": [{"id"}]}`, `{"models": [{"id" or "name"}]}` or the bare list. Null is an empty list.
fn read(value: &Value) -> Option<Vec<ListedModel>> {
    let list = if value.is_object() {
        value.get("data").or_else(|| value.get("models"))?
    } else {
        value
    };
    match list {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => Some(items.iter().filter_map(read_one).collect()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => None,
    }
}

fn read_one(value: &Value) -> Option<ListedModel> {
    let id = ["id", "name", "model"]
        .into_iter()
        .find_map(|key| value[key].as_str())?;
    let windows = [
        "context_window",
        "context_length",
        "max_model_len",
        "max_context_length",
    ];
    let context_window = windows.into_iter().find_map(|key| value[key].as_u64());
    Some(ListedModel {
        id: id.to_owned(),
        context_window: context_window.filter(|size| *size > 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ids(value: &Value) -> Option<Vec<String>> {
        Some(read(value)?.into_iter().map(|model| model.id).collect())
    }

    #[test]
    fn a_list_is_read_in_every_known_shape() {
        let expected = Some(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(
            ids(&json!({"data": [{"id": "a"}, {"id": "b"}, {}]})),
            expected
        );
        assert_eq!(
            ids(&json!({"models": [{"name": "a"}, {"model": "b"}]})),
            expected
        );
        assert_eq!(ids(&json!([{"id": "a"}, {"id": "b"}])), expected);
        assert_eq!(
            ids(&json!({"object": "list", "data": null})),
            Some(Vec::new())
        );
        assert_eq!(ids(&json!({"status": "ok"})), None);
        assert_eq!(ids(&json!("hello")), None);
    }

    #[test]
    fn the_window_is_taken_where_the_server_says_it() {
        let list =
            read(&json!({"data": [{"id": "a", "max_model_len": 8192}, {"id": "b"}]})).unwrap();
        assert_eq!(
            (list[0].context_window, list[1].context_window),
            (Some(8192), None)
        );
    }

    #[test]
    fn models_for_other_ends_are_known_by_name() {
        let chats = |id: &str| {
            ListedModel {
                id: id.to_owned(),
                context_window: None,
            }
            .seems_to_chat()
        };
        assert!(!chats("text-embedding-nomic-embed-text-v1.5") && !chats("whisper-1"));
        assert!(chats("qwen3-coder:30b") && chats("gpt-4o"));
    }
}
