//! `/health`: whether this server can do its work.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::Shared;

/// A database that takes longer is of no use.
const PATIENCE: Duration = Duration::from_secs(5);

/// 200 where the database can be read, else 503; in both cases with the version.
pub(crate) async fn answer(State(shared): State<Arc<Shared>>) -> (StatusCode, Json<Value>) {
    let read = shared.looks.store.read(|_| Ok(()));
    let read = tokio::select! {
        read = read => Some(read),
        () = shared.clock.sleep(PATIENCE) => None,
    };
    let problem = match read {
        Some(Ok(())) => {
            let well = json!({"status": "ok", "version": shared.version});
            return (StatusCode::OK, Json(well));
        }
        Some(Err(error)) => {
            // What exactly is wrong names files, which is nothing for whoever asks.
            tracing::error!(%error, "the database can't be read");
            "the database can't be read"
        }
        None => "the database does not answer",
    };
    let ill = json!({"status": "failing", "version": shared.version, "problem": problem});
    (StatusCode::SERVICE_UNAVAILABLE, Json(ill))
}
