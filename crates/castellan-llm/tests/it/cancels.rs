//! A cancel ends a request at once, wherever it stands.

use castellan_core::{CancelSource, ErrorCode, Model as _, ModelError, ModelEvent};
use castellan_llm::ChatModel;
use castellan_testkit::{ManualClock, ModelServer, Reply};
use futures::StreamExt as _;
use futures::future::join;
use serde_json::json;

use crate::world::{delta, hello, model_with, settings};

/// Asks, cancels once `then` resolves, and returns the last event.
async fn cancelled_when(
    model: &ChatModel,
    then: impl Future<Output = ()>,
) -> Result<ModelEvent, ModelError> {
    let source = CancelSource::new();
    let events = model.ask(hello(), source.token());
    let cancel = async {
        then.await;
        source.cancel();
    };
    let (events, ()) = join(events.collect::<Vec<_>>(), cancel).await;
    events.into_iter().last().unwrap()
}

fn code(end: Result<ModelEvent, ModelError>) -> ErrorCode {
    end.unwrap_err().code
}

#[tokio::test]
async fn a_cancel_before_the_request_sends_nothing() {
    let server = ModelServer::scripted([]);
    let model = model_with(settings(&server), &ManualClock::new());
    let source = CancelSource::new();
    source.cancel();
    let events: Vec<_> = model.ask(hello(), source.token()).collect().await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].as_ref().unwrap_err().code, ErrorCode::Cancelled);
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_cancel_while_the_server_is_silent_ends_the_request_and_the_connection() {
    let server = ModelServer::scripted([Reply::hang()]);
    let model = model_with(settings(&server), &ManualClock::new());
    assert_eq!(
        code(cancelled_when(&model, server.arrived(1)).await),
        ErrorCode::Cancelled
    );
    server.abandoned(1).await;
}

#[tokio::test]
async fn a_cancel_amid_the_words_keeps_them() {
    let chunk = delta(&json!({"content": "half"}));
    let server = ModelServer::scripted([Reply::sse_unfinished([chunk]).then_hang()]);
    let model = model_with(settings(&server), &ManualClock::new());
    let source = CancelSource::new();
    let mut events = model.ask(hello(), source.token());
    assert_eq!(
        events.next().await,
        Some(Ok(ModelEvent::Text("half".to_owned())))
    );
    source.cancel();
    assert_eq!(code(events.next().await.unwrap()), ErrorCode::Cancelled);
    assert_eq!(events.next().await, None);
    drop(events);
    server.abandoned(1).await;
}

#[tokio::test]
async fn a_cancel_ends_the_wait_for_the_next_try() {
    // L08
    let far = "Thu, 01 Jan 2099 00:00:00 GMT";
    for (status, value) in [
        (429, Some("50")),
        (529, Some("5")),
        (429, Some(far)),
        (529, Some("999999")),
        (429, Some("0")),
        (529, None),
    ] {
        let mut refusal = Reply::error(status, "no");
        if let Some(value) = value {
            refusal = refusal.header("retry-after", value);
        }
        let server = ModelServer::scripted([refusal]);
        // This clock never moves, so that only the cancel can end the wait.
        let clock = ManualClock::new();
        let model = model_with(settings(&server), &clock);
        assert_eq!(
            code(cancelled_when(&model, clock.slept(1)).await),
            ErrorCode::Cancelled
        );
        server.assert_spent();
    }
}

#[tokio::test]
async fn a_dropped_stream_ends_the_request() {
    let server = ModelServer::scripted([Reply::hang()]);
    let model = model_with(settings(&server), &ManualClock::new());
    let source = CancelSource::new();
    let mut events = model.ask(hello(), source.token());
    let arrived = std::pin::pin!(server.arrived(1));
    assert!(matches!(
        futures::future::select(events.next(), arrived).await,
        futures::future::Either::Right(_)
    ));
    drop(events);
    server.abandoned(1).await;
}
