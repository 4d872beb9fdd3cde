//! What the server answers: written down step by step, or through builders for the usual answers.

use serde_json::{Value, json};

use super::RecordedRequest;
use crate::gate::Gate;

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// `transfer-encoding: chunked`, one chunk per piece.
    Chunked,
    /// `content-length`.
    Length,
    /// The connection's end.
    UntilClose,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Status and headers are sent.
    Head,
    /// A piece of the body is written.
    Body(Vec<u8>),
    /// The server waits until the test opens the gate.
    Wait(Gate),
    /// Nothing more is sent and the connection stays open.
    Hang,
    /// The connection is closed without an end of the body.
    Cut,
}

/// One answer of a [`ModelServer`](super::ModelServer).
///
/// ```
/// use castellan_testkit::Reply;
/// use serde_json::json;
///
/// let script = [
///     Reply::calls([("read_file", json!({"path": "a.txt"}))]),
///     Reply::error(429, "slow down").header("retry-after", "2"),
///     Reply::text("The file is empty.").byte_by_byte(),
/// ];
/// # drop(script);
/// ```
#[derive(Debug, Clone)]
pub struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) framing: Framing,
    pub(super) steps: Vec<Step>,
    /// The most bytes that are written at once.
    pub(super) piece: usize,
    wanted: Option<String>,
}

impl Reply {
    /// Where this stands in a scripted body, the number of the request is sent.
    pub const NUMBER_MARK: &'static str = "{{request}}";

    /// A streamed answer of words, each in a chunk of its own, that stops by itself.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::text_and_calls(text, [])
    }

    /// A streamed answer of tool calls, given as name and arguments. Each has the id
    /// `call_REQUEST_PLACE`, with the number of the request and its place in this answer.
    #[must_use]
    pub fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        Self::text_and_calls("", calls)
    }

    /// A streamed answer of words and then tool calls.
    #[must_use]
    pub fn text_and_calls<'a>(
        text: &str,
        calls: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Self {
        let mut deltas = vec![json!({"role": "assistant", "content": ""})];
        deltas.extend(
            text.split_inclusive(' ')
                .map(|word| json!({"content": word})),
        );
        let mut finish = "stop";
        for (index, (name, arguments)) in calls.into_iter().enumerate() {
            finish = "tool_calls";
            let id = format!("call_{}_{}", Self::NUMBER_MARK, index + 1);
            deltas.push(json!({"tool_calls": [{
                "index": index, "id": id, "type": "function",
                "function": {"name": name, "arguments": ""},
            }]}));
            deltas.push(json!({"tool_calls": [{
                "index": index, "function": {"arguments": arguments.to_string()},
            }]}));
        }
        let chunks = deltas.into_iter().map(|delta| chunk(&delta, None));
        Self::sse(chunks.chain([chunk(&json!({}), Some(finish)), usage(10, 5)]))
    }

    /// A stream of these events, each in a chunk of its own, and `[DONE]`.
    #[must_use]
    pub fn sse(events: impl IntoIterator<Item = Value>) -> Self {
        Self::sse_unfinished(events).then_data("[DONE]")
    }

    /// A stream of these events that ends cleanly but without `[DONE]`.
    #[must_use]
    pub fn sse_unfinished(events: impl IntoIterator<Item = Value>) -> Self {
        let reply = Self::bare(200).header("content-type", "text/event-stream");
        events
            .into_iter()
            .fold(reply, |reply, event| reply.then_data(&event.to_string()))
    }

    /// A whole JSON answer.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        Self::raw(status, "application/json", body.to_string())
    }

    /// A page such as a proxy would send, with status 200.
    #[must_use]
    pub fn html(body: &str) -> Self {
        Self::raw(200, "text/html; charset=utf-8", body)
    }

    /// A failure with this message in the shape that most servers use.
    #[must_use]
    pub fn error(status: u16, message: &str) -> Self {
        Self::json(status, &json!({"error": {"message": message}}))
    }

    /// Any body of any type, with its length.
    #[must_use]
    pub fn raw(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let mut reply = Self::bare(status).header("content-type", content_type);
        reply.framing = Framing::Length;
        reply.then_bytes(body)
    }

    /// Status and no body yet, to be followed by `then_…`.
    #[must_use]
    pub fn bare(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            framing: Framing::Chunked,
            steps: vec![Step::Head],
            piece: usize::MAX,
            wanted: None,
        }
    }

    /// The request is taken and never answered.
    #[must_use]
    pub fn hang() -> Self {
        let mut reply = Self::bare(200);
        reply.steps = vec![Step::Hang];
        reply
    }

    /// The request is taken and the connection closed without a word.
    #[must_use]
    pub fn dropped() -> Self {
        let mut reply = Self::bare(200);
        reply.steps = vec![Step::Cut];
        reply
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Replaces the counts of tokens that [`text`](Self::text) and [`calls`](Self::calls) report.
    #[must_use]
    pub fn usage(mut self, prompt: u64, completion: u64) -> Self {
        let (old, new) = (
            event(&usage(10, 5).to_string()),
            event(&usage(prompt, completion).to_string()),
        );
        for step in &mut self.steps {
            if let Step::Body(bytes) = step
                && *bytes == old
            {
                bytes.clone_from(&new);
            }
        }
        self
    }

    /// Used only for a request whose body contains `text`, whichever comes first; for scripts in
    /// which several agents ask at once.
    #[must_use]
    pub fn for_request_with(mut self, text: &str) -> Self {
        self.wanted = Some(text.to_owned());
        self
    }

    /// Waits at the gate before anything is sent.
    #[must_use]
    pub fn held_at(mut self, gate: &Gate) -> Self {
        self.steps.insert(0, Step::Wait(gate.clone()));
        self
    }

    /// Then waits at the gate.
    #[must_use]
    pub fn then_wait(self, gate: &Gate) -> Self {
        self.then(Step::Wait(gate.clone()))
    }

    /// Then sends one event with this data.
    #[must_use]
    pub fn then_data(self, data: &str) -> Self {
        self.then(Step::Body(event(data)))
    }

    /// Then sends these bytes as one piece.
    #[must_use]
    pub fn then_bytes(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.then(Step::Body(bytes.into()))
    }

    /// Then sends nothing more and keeps the connection open.
    #[must_use]
    pub fn then_hang(self) -> Self {
        self.then(Step::Hang)
    }

    /// Then closes the connection without ending the body.
    #[must_use]
    pub fn then_cut(self) -> Self {
        self.then(Step::Cut)
    }

    /// Sends every byte of the body in a chunk of its own.
    #[must_use]
    pub const fn byte_by_byte(mut self) -> Self {
        self.piece = 1;
        self
    }

    /// Ends the body by closing the connection, as HTTP/1.0 servers do.
    #[must_use]
    pub fn until_close(mut self) -> Self {
        self.framing = Framing::UntilClose;
        self
    }

    fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    pub(super) fn fits(&self, request: &RecordedRequest) -> bool {
        self.wanted
            .as_ref()
            .is_none_or(|wanted| request.text.contains(wanted))
    }
}

fn event(data: &str) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({
        "id": "chatcmpl-scripted",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    })
}

fn usage(prompt: u64, completion: u64) -> Value {
    json!({
        "object": "chat.completion.chunk",
        "choices": [],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
    })
}
