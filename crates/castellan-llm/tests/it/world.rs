//! What the tests of this binary share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use castellan_core::model::ToolCard;
use castellan_core::{
    CancelSource, Clock, Message, Model as _, ModelError, ModelEvent, ModelReply, ModelRequest,
    Timestamp,
};
use castellan_host::{Environment, HttpClient};
use castellan_llm::{ChatModel, ChatSettings};
use castellan_testkit::{ManualClock, ModelServer, SequentialIds};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

/// A model at a server that is not there or not scripted.
pub(crate) fn model_with(settings: ChatSettings, clock: &ManualClock) -> ChatModel {
    ChatModel::new(
        settings,
        http(),
        Arc::new(clock.clone()),
        Arc::new(SequentialIds::new()),
    )
}

/// A clock that moves on by a second whenever someone looks at it, and on which sleeps take no time.
#[derive(Debug)]
pub(crate) struct Ticking(ManualClock);

impl Ticking {
    pub(crate) fn new() -> Self {
        Self(ManualClock::skipping())
    }
}

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn monotonic(&self) -> Duration {
        self.0.advance(Duration::from_secs(1));
        self.0.monotonic()
    }

    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(length)
    }
}

/// A client as the program makes it, in an empty environment.
pub(crate) fn http() -> HttpClient {
    HttpClient::new(&Environment::new([], PathBuf::from("/"))).unwrap()
}

/// Settings for a model at `server`.
pub(crate) fn settings(server: &ModelServer) -> ChatSettings {
    ChatSettings::new("main", server.base_url(), "m1")
}

/// A request of one message.
pub(crate) fn hello() -> ModelRequest {
    ModelRequest {
        messages: vec![Message::User {
            text: "hello".to_owned(),
        }],
        tools: Vec::new(),
    }
}

/// A tool to be offered.
pub(crate) fn card(name: &str) -> ToolCard {
    ToolCard {
        name: name.to_owned(),
        description: "Does it.".to_owned(),
        parameters: json!({"type": "object"}),
    }
}

/// Name and arguments of the only call of an answer.
pub(crate) fn call(reply: &ModelReply) -> (&str, &str) {
    assert_eq!(reply.calls.len(), 1, "{reply:?}");
    (&reply.calls[0].name, &reply.calls[0].arguments)
}

/// What a question came to.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The events before the end.
    pub(crate) events: Vec<ModelEvent>,
    /// The end.
    pub(crate) end: Result<ModelReply, ModelError>,
}

impl Asked {
    /// The answer.
    pub(crate) fn reply(&self) -> &ModelReply {
        self.end.as_ref().unwrap()
    }

    /// The error.
    pub(crate) fn error(&self) -> &ModelError {
        self.end.as_ref().unwrap_err()
    }

    /// The words of the reasoning.
    pub(crate) fn thoughts(&self) -> Option<&str> {
        let reasoning = self.reply().reasoning.as_ref();
        reasoning.map(|reasoning| reasoning.text.as_str())
    }

    /// The reasons of the restarts.
    pub(crate) fn restarts(&self) -> Vec<&str> {
        let mut reasons = Vec::new();
        for event in &self.events {
            if let ModelEvent::Restart { reason, .. } = event {
                reasons.push(reason.as_str());
            }
        }
        reasons
    }

    /// The words that arrived since the last restart.
    pub(crate) fn words(&self) -> String {
        let mut words = String::new();
        for event in &self.events {
            match event {
                ModelEvent::Text(text) => words.push_str(text),
                ModelEvent::Restart { .. } => words.clear(),
                ModelEvent::Reasoning(_) | ModelEvent::Reply(_) => {}
            }
        }
        words
    }
}

/// Asks to the end and holds the stream to its contract: exactly one end, and it is the last event.
pub(crate) async fn ask(model: &ChatModel, request: ModelRequest) -> Asked {
    let source = CancelSource::new();
    let mut all: Vec<_> = model.ask(request, source.token()).collect().await;
    let end = match all.pop().unwrap() {
        Ok(ModelEvent::Reply(reply)) => Ok(reply),
        Ok(other) => panic!("the stream ended with {other:?}"),
        Err(error) => Err(error),
    };
    let events: Vec<ModelEvent> = all.into_iter().map(Result::unwrap).collect();
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, ModelEvent::Reply(_)))
    );
    Asked { events, end }
}

/// Asks a scripted server once, with waits that take no time.
pub(crate) async fn ask_once(server: &ModelServer) -> Asked {
    ask(
        &model_with(settings(server), &ManualClock::skipping()),
        hello(),
    )
    .await
}

/// A chunk with this delta.
pub(crate) fn delta(delta: &Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

/// A chunk that ends an answer.
pub(crate) fn end(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}
