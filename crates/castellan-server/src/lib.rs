//! What Castellan answers over HTTP: `/mcp` for clients, `/health` for whoever keeps it running,
//! `/metrics` for whoever watches it.
//!
//! Before any of it stands the guard of `castellan-mcp`: a request names a host and an origin that
//! are ours, and carries the secret where one is needed. This crate has no rule of its own about
//! calls; it puts on the wire what the rooms below it say.
//!
//! Start reading at [`router`].

mod address;
mod health;
mod metrics;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Response, StatusCode};
use axum::routing::get;
use axum::{Json, Router};
use castellan_core::Clock;
use castellan_mcp::http::{Admission, Guard, Settings, guard, listen};
use castellan_mcp::{Server, http};
use castellan_runtime::snapshot::Looks;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use address::{Address, Unusable};

/// What a server answers from.
#[derive(Clone)]
pub struct Parts {
    /// Answers MCP clients.
    pub mcp: Server,
    /// What health and metrics are read from.
    pub looks: Looks,
    /// Who may send requests, and how much at a time.
    pub settings: Settings,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The version of this program.
    pub version: &'static str,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// What the routes share.
struct Shared {
    looks: Looks,
    mcp: Server,
    version: &'static str,
    clock: Arc<dyn Clock>,
    /// By the monotonic clock.
    began: Duration,
}

/// Every route of the server, each behind the guard. `/health` needs no secret: who asks whether a
/// server lives has none, and learns nothing else.
///
/// # Panics
/// Outside of an async runtime.
pub fn router(parts: &Parts) -> Router {
    let shared = Arc::new(Shared {
        looks: parts.looks.clone(),
        mcp: parts.mcp.clone(),
        version: parts.version,
        began: parts.clock.monotonic(),
        clock: Arc::clone(&parts.clock),
    });
    let open = Guard {
        admission: Admission::Anyone,
        ..parts.settings.guard.clone()
    };
    let health = Router::new()
        .route("/health", get(health::answer))
        .with_state(Arc::clone(&shared));
    let rest = Router::new()
        .route("/metrics", get(metrics::answer))
        .fallback(unknown)
        .with_state(shared);
    http::router(&parts.mcp, &parts.settings)
        .merge(guard::layer(health, open))
        .merge(guard::layer(rest, parts.settings.guard.clone()))
}

/// What is answered to a path that leads nowhere.
async fn unknown() -> (StatusCode, Json<serde_json::Value>) {
    let error = "nothing is served here; there are /mcp, /health and /metrics";
    (
        StatusCode::NOT_FOUND,
        Json(json!({"ok": false, "error": error})),
    )
}

/// A listener at `address`, and where it listens: a port of 0 is a free one.
///
/// # Errors
/// The address is taken, not ours, or not allowed.
pub async fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// Answers on `listener` until `stop`, then waits for requests under way, for a while.
///
/// # Errors
/// None that a single connection can cause.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
) -> io::Result<()> {
    listen::listen(listener, router, stop).await
}

fn text(status: StatusCode, media_type: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
