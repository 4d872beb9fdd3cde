//! What is known of one connection: a stdio client, or a session over HTTP. Requests that belong to
//! no session each have one of their own.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use castellan_core::event::LogLevel;
use rmcp::RoleServer;
use rmcp::service::Peer;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Frame;
use crate::change::{Change, Interest, Watch};
use crate::provider::{Bearer, Fault};

/// What older clients hear that never said what they want to hear.
const UNASKED_LEVEL: LogLevel = LogLevel::Info;

/// One connection. Dropped, all that belongs to it ends.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) key: Arc<str>,
    /// What proves who is on the other side, where the transport knows it once for all.
    pub(crate) bearer: Option<Bearer>,
    /// Cancelled when the connection ends, or is about to.
    pub(crate) stop: CancellationToken,
    /// The work that goes on for it.
    pub(crate) works: TaskTracker,
    level: Mutex<LogLevel>,
    watch: OnceLock<Watch>,
    introduced: AtomicBool,
    told: AtomicBool,
}

impl Connection {
    pub(crate) fn new(frame: &Frame, bearer: Option<Bearer>) -> Self {
        Self {
            key: format!("c-{}", frame.ids.next().simple()).into(),
            bearer,
            stop: frame.stop.child_token(),
            works: TaskTracker::new(),
            level: Mutex::new(UNASKED_LEVEL),
            watch: OnceLock::new(),
            introduced: AtomicBool::new(false),
            told: AtomicBool::new(false),
        }
    }

    /// Notes that the client has introduced itself; whether it is the first time.
    pub(crate) fn introduce(&self) -> bool {
        !self.introduced.swap(true, Ordering::SeqCst)
    }

    /// The lowest level an older client wants to hear.
    pub(crate) fn level(&self) -> LogLevel {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_level(&self, level: LogLevel) {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = level;
    }

    fn watch(&self, frame: &Frame) -> &Watch {
        let changes = frame.provider.changes();
        self.watch
            .get_or_init(|| changes.watch(Interest::default()))
    }

    /// Watches one more resource for an older client.
    ///
    /// # Errors
    /// [`Fault`] where it watches as many as it may.
    pub(crate) fn subscribe(&self, frame: &Frame, uri: String) -> Result<(), Fault> {
        let most = frame.limits.watched;
        self.watch(frame).want(|interest| {
            if interest.uris.len() >= most && !interest.uris.contains(&uri) {
                return Err(Fault::invalid(format!(
                    "this connection watches {most} resources already; unsubscribe from some"
                )));
            }
            interest.uris.insert(uri);
            Ok(())
        })
    }

    pub(crate) fn unsubscribe(&self, frame: &Frame, uri: &str) {
        self.watch(frame).want(|interest| interest.uris.remove(uri));
    }

    /// From now on tells an older client what has changed, until the connection ends.
    pub(crate) fn tell_changes(&self, frame: &Frame, peer: Peer<RoleServer>) {
        if self.told.swap(true, Ordering::SeqCst) {
            return;
        }
        let lists = Interest::in_lists().lists;
        let watch = self.watch(frame).clone();
        watch.want(|interest| interest.lists = lists);
        let stop = self.stop.clone();
        frame.tasks.spawn(async move {
            loop {
                let changed = tokio::select! {
                    changed = watch.next() => changed,
                    () = stop.cancelled() => return,
                };
                if !tell(&peer, changed).await {
                    return;
                }
            }
        });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Whether somebody still listens.
async fn tell(peer: &Peer<RoleServer>, changed: BTreeSet<Change>) -> bool {
    for change in changed {
        let sent = match change {
            Change::Tools => peer.notify_tool_list_changed().await,
            Change::Prompts => peer.notify_prompt_list_changed().await,
            Change::Resources => peer.notify_resource_list_changed().await,
            Change::Resource(uri) => {
                let update = rmcp::model::ResourceUpdatedNotificationParam::new(uri);
                peer.notify_resource_updated(update).await
            }
        };
        if sent.is_err() {
            return false;
        }
    }
    true
}
