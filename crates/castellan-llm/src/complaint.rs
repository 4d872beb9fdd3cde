//! What a server says is wrong, dug out of the many shapes in which it is said.

use castellan_core::model::Overflow;
use castellan_core::text::{plain, shorten};
use serde_json::Value;

/// How much of a server's words is shown.
const SHOWN: usize = 600;

/// How deep an error is looked for inside others.
const DEPTH: usize = 8;

/// A server's complaint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Complaint {
    /// Its words, shortened; empty where it had none.
    pub(crate) message: String,
    /// Code, type and status, where they are words.
    pub(crate) codes: Vec<String>,
    /// The code, where it is an HTTP status.
    pub(crate) status: Option<u16>,
    /// For a conversation that is too long: the sizes, where they stand in fields of their own.
    pub(crate) overflow: Overflow,
}

impl Complaint {
    /// From the body of an answer.
    pub(crate) fn from_body(body: &str) -> Self {
        let read = serde_json::from_str::<Value>(body).ok();
        let mut complaint = read.map_or_else(Self::default, |value| Self::from_json(&value));
        if complaint.message.is_empty() {
            complaint.message = tidy(body);
        }
        complaint
    }

    /// From a JSON value: `{"error": {"message", "code", "type"}}` and its relatives.
    pub(crate) fn from_json(value: &Value) -> Self {
        let mut complaint = Self::default();
        let mut messages = Vec::new();
        complaint.dig(value, &mut messages, DEPTH);
        complaint.message = tidy(&messages.join(": "));
        complaint
    }

    /// Whether one of the codes is one of `words`.
    pub(crate) fn has_code(&self, words: &[&str]) -> bool {
        self.codes.iter().any(|code| words.contains(&code.as_str()))
    }

    /// The codes as slices.
    pub(crate) fn codes(&self) -> Vec<&str> {
        self.codes.iter().map(String::as_str).collect()
    }

    fn dig(&mut self, value: &Value, messages: &mut Vec<String>, depth: usize) {
        match value {
            Value::String(text) => {
                // Some proxies put the error of the server behind them into text.
                let inner = serde_json::from_str::<Value>(text)
                    .ok()
                    .filter(Value::is_object);
                match inner {
                    Some(inner) if depth > 0 => self.dig(&inner, messages, depth - 1),
                    _ if text.trim().is_empty() || messages.contains(text) => {}
                    _ => messages.push(text.clone()),
                }
            }
            Value::Array(items) if depth > 0 => {
                for item in items {
                    self.dig(item, messages, depth - 1);
                }
            }
            Value::Object(fields) if depth > 0 => {
                for key in ["code", "type", "status"] {
                    self.note_code(fields.get(key));
                }
                // llama.cpp's.
                let size = |key: &str| fields.get(key).and_then(Value::as_u64);
                self.overflow.limit = self.overflow.limit.or(size("n_ctx"));
                self.overflow.asked = self.overflow.asked.or(size("n_prompt_tokens"));
                for key in ["error", "message", "msg", "detail", "metadata", "raw"] {
                    if let Some(value) = fields.get(key) {
                        self.dig(value, messages, depth - 1);
                    }
                }
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => {}
        }
    }

    fn note_code(&mut self, code: Option<&Value>) {
        let status = code.and_then(|code| match code {
            Value::Number(number) => number.as_u64().and_then(|code| u16::try_from(code).ok()),
            Value::String(word) => {
                self.codes.push(word.to_lowercase());
                word.parse().ok()
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        });
        self.status = self
            .status
            .or(status.filter(|status| (400..600).contains(status)));
    }
}

/// `text` on one line, without control characters, shortened.
pub(crate) fn tidy(text: &str) -> String {
    // Not more than could be shown is looked at: a body may be large.
    let start: String = text.chars().take(SHOWN * 4).collect();
    let words: Vec<String> = plain(&start)
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    shorten(&words.join(" "), SHOWN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_message_is_found_in_every_known_shape() {
        for body in [
            json!({"error": {"message": "too hot", "type": "x", "code": null}}),
            json!({"error": "too hot"}),
            json!({"object": "error", "message": "too hot", "code": 400}),
            json!({"detail": "too hot"}),
            json!({"detail": [{"loc": ["body"], "msg": "too hot", "input": "the conversation"}]}),
            json!([{"error": {"code": 429, "message": "too hot", "status": "RESOURCE_EXHAUSTED"}}]),
            json!({"message": "too hot"}),
            json!({"error": {"message": "{\"error\": {\"message\": \"too hot\"}}"}}),
        ] {
            assert_eq!(
                Complaint::from_body(&body.to_string()).message,
                "too hot",
                "{body}"
            );
        }
        assert_eq!(
            Complaint::from_body("<h1>Bad\n gateway</h1>").message,
            "<h1>Bad gateway</h1>"
        );
        assert_eq!(Complaint::from_body("").message, "");
    }

    #[test]
    fn codes_are_words_or_statuses() {
        let complaint = Complaint::from_json(
            &json!({"error": {"code": 502, "type": "Server_Error", "message": "m"}}),
        );
        assert_eq!(
            (complaint.status, complaint.codes()),
            (Some(502), vec!["server_error"])
        );
        assert_eq!(
            Complaint::from_json(&json!({"error": {"code": 7}})).status,
            None
        );
    }

    #[test]
    fn what_a_proxy_quotes_of_the_server_behind_it_is_kept() {
        let body = json!({"error": {"message": "Provider returned error", "code": 400,
            "metadata": {"raw": "prompt has 9001 tokens but the slot holds 8192"}}});
        assert_eq!(
            Complaint::from_body(&body.to_string()).message,
            "Provider returned error: prompt has 9001 tokens but the slot holds 8192"
        );
    }

    #[test]
    fn a_long_body_is_shortened() {
        let complaint = Complaint::from_body(&"word ".repeat(100_000));
        assert_eq!(complaint.message.chars().count(), SHOWN);
    }
}
