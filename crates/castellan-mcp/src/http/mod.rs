//! Clients over HTTP: one endpoint for every revision, guarded before anything else happens.
//!
//! [`guard`] looks at where a request comes from and what it proves; `door` reads it, answers what
//! is wrong with it, and hands on what can be served; `sessions` are what older clients have, with
//! `replay` for streams they lose on the way; [`listen`] takes connections.

mod batch;
mod door;
pub mod guard;
pub mod listen;
mod replay;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::any;

use crate::frame::Server;
pub use guard::{Admission, Guard};

/// How a server is reached over HTTP.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who may send requests at all.
    pub guard: Guard,
    /// Bytes of a request.
    pub longest: usize,
    /// How long a client may take to send one.
    pub patience: Duration,
    /// Sessions of older clients at a time.
    pub sessions: usize,
    /// After this long without a request or an open stream a session ends.
    pub idle: Duration,
    /// After this long it may have to make way for a new one.
    pub spare: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            guard: Guard::default(),
            longest: 4 * 1024 * 1024,
            patience: Duration::from_secs(30),
            sessions: 1_000,
            idle: Duration::from_hours(1),
            spare: Duration::from_secs(30),
        }
    }
}

/// The endpoint `/mcp` of `server`. The guard of `settings` stands before it; a program that serves
/// more than this puts [`guard::layer`] before all of it.
///
/// # Panics
/// Outside of an async runtime: what looks after sessions is a task.
pub fn router(server: &Server, settings: &Settings) -> Router {
    let guard = settings.guard.clone();
    let door = Arc::new(door::Door::new(server, settings));
    let router = Router::new()
        .route("/mcp", any(door::enter))
        .with_state(door);
    guard::layer(router, guard)
}
