//! The frame: one server for every revision of the protocol, whatever the transport.
//!
//! Two eras are spoken side by side. In the *legacy* one (up to 2025-11-25) a client introduces
//! itself once, and the server sends it requests of its own. In the *modern* one (2026-07-28) every
//! request carries what there is to know of the client, and a question to the client is a result
//! after which it calls again. `service` has a method for each request, `request` what they
//! have in common; `run` is a request under
//! way, `attend` waits for it; `parking` keeps those that wait for the client's answer; `wire` is the translation.

mod attend;
pub(crate) mod connection;
mod listening;
mod method;
mod notes;
pub(crate) mod page;
mod parking;
mod request;
mod run;
pub(crate) mod service;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use castellan_core::{Clock, Ids};
use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::provider::Provider;
use connection::Sessions;
use parking::Parking;

/// The bounds of a server, each with the value that is meant for use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Entries of a list in one page.
    pub page: usize,
    /// Calls of modern clients that wait for an answer, over all clients.
    pub parked: usize,
    /// The same for one client.
    pub parked_per_client: usize,
    /// How long such a call waits.
    pub parked_for: Duration,
    /// Resources one client may watch.
    pub watched: usize,
    /// How long a client may keep a list without asking again.
    pub list_freshness: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            page: 1_000,
            parked: 1_024,
            parked_per_client: 64,
            parked_for: Duration::from_mins(10),
            watched: 256,
            list_freshness: Duration::from_secs(30),
        }
    }
}

/// A server for one [`Provider`]. Clones are the same server.
#[derive(Clone)]
pub struct Server {
    pub(crate) frame: Arc<Frame>,
}

/// What all connections share.
pub(crate) struct Frame {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) limits: Limits,
    pub(crate) config: ServerConfig,
    /// [`Implementation`] as it goes into the `_meta` of modern results.
    pub(crate) signature: serde_json::Value,
    pub(crate) parking: Parking,
    pub(crate) tasks: TaskTracker,
    pub(crate) sessions: Sessions,
    /// Ends everything.
    pub(crate) stop: CancellationToken,
}

impl Server {
    /// A server that answers for `provider`.
    #[must_use]
    pub fn new(
        provider: Arc<dyn Provider>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        limits: Limits,
    ) -> Self {
        let card = provider.card();
        let mut implementation = Implementation::new(card.name, card.version);
        implementation.title = card.title;
        let signature = serde_json::to_value(&implementation).unwrap_or_default();
        let mut config = ServerConfig::new(capabilities()).with_server_info(implementation);
        config.instructions = card.instructions;
        let frame = Frame {
            provider,
            clock,
            parking: Parking::new(fresh_key(ids.as_ref()), &limits),
            ids,
            limits,
            config,
            signature,
            tasks: TaskTracker::new(),
            sessions: Sessions::default(),
            stop: CancellationToken::new(),
        };
        Self {
            frame: Arc::new(frame),
        }
    }

    /// How many calls of modern clients wait for an answer.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.frame.parking.len()
    }

    /// Ends every connection and every call, and waits until what they started is done, at most
    /// `patience`.
    pub async fn shut_down(&self, patience: Duration) {
        self.frame.stop.cancel();
        self.frame.parking.clear();
        self.frame.tasks.close();
        let sleep = self.frame.clock.sleep(patience);
        tokio::select! {
            () = self.frame.tasks.wait() => {}
            () = sleep => tracing::warn!("calls of MCP clients did not end in time"),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("limits", &self.frame.limits)
            .finish_non_exhaustive()
    }
}

/// Everything a server of ours can do; what a provider has none of is an empty list.
#[expect(
    deprecated,
    reason = "older clients are told that there is logging; newer ones ask for it per request"
)]
fn capabilities() -> ServerCapabilities {
    ServerCapabilities::builder()
        .enable_logging()
        .enable_completions()
        .enable_prompts()
        .enable_prompts_list_changed()
        .enable_resources()
        .enable_resources_list_changed()
        .enable_resources_subscribe()
        .enable_tools()
        .enable_tool_list_changed()
        .build()
}

/// The SHA-256 of `text` in hexadecimal.
pub(crate) fn digest(text: &str) -> String {
    Sha256::digest(text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A key nobody else has, for as long as this process lives. Each id has at least 32 bits nobody
/// can guess.
fn fresh_key(ids: &dyn Ids) -> [u8; 32] {
    let mut hash = Sha256::new();
    for _ in 0..16 {
        hash.update(ids.next().as_bytes());
    }
    hash.finalize().into()
}
