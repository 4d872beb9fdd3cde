//! A request as the server saw it.

use std::io::{BufRead, Read as _};

use serde_json::Value;

/// One request, for assertions.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRequest {
    /// `POST`.
    pub method: String,
    /// `/v1/chat/completions`.
    pub path: String,
    /// Names in lower case, in the order they were sent.
    pub headers: Vec<(String, String)>,
    /// The body as sent.
    pub text: String,
    /// The body as JSON; null where it is none.
    pub body: Value,
}

impl RecordedRequest {
    /// The first header of that name, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(&found.1)
    }

    /// The messages of the conversation; empty where there are none.
    #[must_use]
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The last message's content; empty where it is no text.
    #[must_use]
    pub fn last_text(&self) -> &str {
        self.messages()
            .last()
            .and_then(|message| message["content"].as_str())
            .unwrap_or("")
    }

    /// The names of the tools that were offered.
    #[must_use]
    pub fn tool_names(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map_or(&[][..], Vec::as_slice);
        tools
            .iter()
            .filter_map(|tool| tool["function"]["name"].as_str())
            .collect()
    }
}

/// The next request on a connection; `None` once the client has closed it or sends no HTTP.
pub(super) fn read(input: &mut impl BufRead) -> Option<RecordedRequest> {
    let first = read_line(input)?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let line = read_line(input)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: u64 = length
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    let mut body = Vec::new();
    input.take(length).read_to_end(&mut body).ok()?;
    let text = String::from_utf8_lossy(&body).into_owned();
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    Some(RecordedRequest {
        method,
        path,
        headers,
        text,
        body,
    })
}

fn read_line(input: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    match input.read_line(&mut line) {
        Ok(1..) => Some(line.trim_end_matches(['\r', '\n']).to_owned()),
        Ok(0) | Err(_) => None,
    }
}
