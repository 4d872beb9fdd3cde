//! Sessions of older clients: so many of them, for so long, each for the client that began it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::http::request::Parts;
use futures::Stream;
use rmcp::model::{
    ClientJsonRpcMessage, GetExtensions as _, JsonRpcMessage, ProtocolVersion,
    ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, LocalSessionWorker,
};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};
use rmcp::transport::worker::WorkerTransport;

use super::Settings;
use super::batch::has_batches;
use super::guard::bearer;
use super::replay::{Record, position};
use crate::frame::Frame;

/// Streams of a session that can be taken up again once they are over.
const MOST_RECORDS: usize = 32;

/// What is known of a session.
#[derive(Debug)]
struct Session {
    /// The digest of the secret it was begun with.
    principal: Option<String>,
    version: Option<ProtocolVersion>,
    /// When it was last used, by the monotonic clock.
    used: Duration,
    /// Streams somebody listens to.
    open: usize,
    records: BTreeMap<u64, Arc<Record>>,
}

/// What a request may know of the session it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) version: Option<ProtocolVersion>,
}

#[derive(Debug, Default)]
struct Table {
    sessions: HashMap<SessionId, Session>,
    /// Sessions about to begin.
    reserved: usize,
}

/// All sessions.
pub(super) struct Sessions {
    inner: LocalSessionManager,
    table: Mutex<Table>,
    frame: Arc<Frame>,
    most: usize,
    idle: Duration,
    spare: Duration,
    own: Weak<Self>,
}

/// A place for one more session, until it is given back.
pub(super) struct Place(Arc<Sessions>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.table().reserved -= 1;
    }
}

impl Sessions {
    pub(super) fn new(frame: &Arc<Frame>, settings: &Settings) -> Arc<Self> {
        let mut inner = LocalSessionManager::default();
        // Who is idle is decided here, where open streams count.
        inner.session_config.keep_alive = None;
        let sessions = Arc::new_cyclic(|own| Self {
            inner,
            table: Mutex::default(),
            frame: Arc::clone(frame),
            most: settings.sessions.max(1),
            idle: settings.idle,
            spare: settings.spare.min(settings.idle),
            own: Weak::clone(own),
        });
        sessions.sweep();
        sessions
    }

    /// A place for a new session. Where there is none, the one that has been idle longest gives
    /// way, if that is long enough.
    pub(super) async fn place(&self) -> Option<Place> {
        let own = self.own.upgrade()?;
        let spare = {
            let mut table = self.table();
            if table.sessions.len() + table.reserved < self.most {
                table.reserved += 1;
                return Some(Place(own));
            }
            let spare = self.oldest(&table, self.spare)?;
            table.reserved += 1;
            spare
        };
        let place = Place(own);
        self.end(&spare).await;
        Some(place)
    }

    fn oldest(&self, table: &Table, idle_for: Duration) -> Option<SessionId> {
        let now = self.frame.clock.monotonic();
        table
            .sessions
            .iter()
            .filter(|(_, session)| {
                session.open == 0 && now.saturating_sub(session.used) >= idle_for
            })
            .min_by_key(|(_, session)| session.used)
            .map(|(id, _)| Arc::clone(id))
    }

    /// The session with this id, for the client with this secret. Noted as used.
    pub(super) fn find(&self, id: &str, principal: Option<&str>) -> Option<Known> {
        let now = self.frame.clock.monotonic();
        let mut table = self.table();
        let session = table.sessions.get_mut(id)?;
        let idle = session.open == 0 && now.saturating_sub(session.used) >= self.idle;
        if idle || session.principal.as_deref() != principal {
            return None;
        }
        session.used = now;
        Some(Known {
            version: session.version.clone(),
        })
    }

    /// Whether a session may send several messages at once.
    pub(super) fn has_batches(&self, id: &SessionId) -> bool {
        let table = self.table();
        let version = table
            .sessions
            .get(id)
            .and_then(|session| session.version.as_ref());
        version.is_some_and(has_batches)
    }

    /// Ends a session.
    pub(super) async fn end(&self, id: &SessionId) {
        if let Err(error) = self.close_session(id).await {
            tracing::debug!(%error, "a session had ended already");
        }
    }

    /// Ends sessions nobody uses, now and then.
    fn sweep(&self) {
        let own = Weak::clone(&self.own);
        let pause = (self.idle / 4).clamp(Duration::from_millis(100), Duration::from_mins(1));
        let (clock, stop) = (Arc::clone(&self.frame.clock), self.frame.stop.clone());
        self.frame.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = clock.sleep(pause) => {}
                    () = stop.cancelled() => return,
                }
                let Some(sessions) = own.upgrade() else {
                    return;
                };
                loop {
                    let idle = sessions.oldest(&sessions.table(), sessions.idle);
                    let Some(idle) = idle else {
                        break;
                    };
                    sessions.end(&idle).await;
                }
            }
        });
    }

    /// `stream` to its end, in a record that can be taken up again.
    fn record(
        &self,
        id: &SessionId,
        stream: impl Stream<Item = ServerSseMessage> + Send + 'static,
    ) -> Arc<Record> {
        let record = Record::new();
        let (kept, own, id) = (Arc::clone(&record), Weak::clone(&self.own), Arc::clone(id));
        self.frame.tasks.spawn(async move {
            let mut stream = Box::pin(futures::StreamExt::peekable(stream));
            // The first event names the stream.
            let first = stream.as_mut().peek().await;
            let number = first.and_then(|event| Some(position(event.event_id.as_deref()?)?.0));
            if let (Some(number), Some(sessions)) = (number, own.upgrade()) {
                sessions.file(&id, number, &kept);
            }
            drop(own);
            kept.keep(stream).await;
        });
        record
    }

    fn file(&self, id: &SessionId, number: u64, record: &Arc<Record>) {
        let mut table = self.table();
        if let Some(session) = table.sessions.get_mut(id) {
            let over = |(number, record): (&u64, &Arc<Record>)| record.is_over().then_some(*number);
            if session.records.len() >= MOST_RECORDS
                && let Some(oldest) = session.records.iter().find_map(over)
            {
                session.records.remove(&oldest);
            }
            session.records.insert(number, Arc::clone(record));
        }
    }

    /// `stream` as somebody listens to it: as long as they do, the session is in use.
    fn listened<S>(&self, id: &SessionId, stream: S) -> Listened<S> {
        if let Some(session) = self.table().sessions.get_mut(id) {
            session.open += 1;
        }
        Listened {
            stream,
            sessions: Weak::clone(&self.own),
            id: Arc::clone(id),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream somebody listens to.
struct Listened<S> {
    stream: S,
    sessions: Weak<Sessions>,
    id: SessionId,
}

impl<S: Stream + Unpin> Stream for Listened<S> {
    type Item = S::Item;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<S::Item>> {
        std::pin::Pin::new(&mut self.stream).poll_next(context)
    }
}

impl<S> Drop for Listened<S> {
    fn drop(&mut self) {
        if let Some(sessions) = self.sessions.upgrade() {
            let now = sessions.frame.clock.monotonic();
            if let Some(session) = sessions.table().sessions.get_mut(&self.id) {
                session.open = session.open.saturating_sub(1);
                session.used = now;
            }
        }
    }
}

/// Something a session could not do.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error(transparent)]
    Inner(#[from] LocalSessionManagerError),
    #[error("this stream can't be taken up again")]
    NoStream,
}

impl From<SessionError> for io::Error {
    fn from(error: SessionError) -> Self {
        Self::other(error)
    }
}

type Events = std::pin::Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>;

impl SessionManager for Sessions {
    type Error = SessionError;
    type Transport = WorkerTransport<LocalSessionWorker>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionError> {
        let (id, transport) = self.inner.create_session().await?;
        let session = Session {
            principal: None,
            version: None,
            used: self.frame.clock.monotonic(),
            open: 0,
            records: BTreeMap::new(),
        };
        self.table().sessions.insert(Arc::clone(&id), session);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        let principal = match &message {
            JsonRpcMessage::Request(request) => {
                let parts = request.request.extensions().get::<Parts>();
                parts.and_then(|parts| principal(&parts.headers))
            }
            _ => None,
        };
        let response = self.inner.initialize_session(id, message).await?;
        if let Some(session) = self.table().sessions.get_mut(id) {
            session.principal = principal;
            session.version = match &response {
                JsonRpcMessage::Response(response) => match &response.result {
                    ServerResult::InitializeResult(result) => Some(result.protocol_version.clone()),
                    _ => None,
                },
                _ => None,
            };
        }
        Ok(response)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.inner.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        drop(self.table().sessions.remove(id));
        Ok(self.inner.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let stream = self.inner.create_stream(id, message).await?;
        let record = self.record(id, stream);
        Ok(self.listened(id, Box::pin(record.follow(0))))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let stream = self.inner.create_standalone_stream(id).await?;
        Ok(self.listened(id, Box::pin(stream)))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let Some((number, event)) = position(&last_event_id) else {
            let stream: Events = Box::pin(self.inner.resume(id, last_event_id).await?);
            return Ok(self.listened(id, stream));
        };
        let record = {
            let table = self.table();
            let session = table.sessions.get(id);
            session.and_then(|session| session.records.get(&number).cloned())
        };
        let record = record.ok_or(SessionError::NoStream)?;
        let stream: Events = Box::pin(record.follow(event + 1));
        Ok(self.listened(id, stream))
    }
}

/// What tells the clients of sessions apart.
pub(super) fn principal(headers: &axum::http::HeaderMap) -> Option<String> {
    bearer(headers).map(|bearer| crate::frame::digest(bearer.expose()))
}
