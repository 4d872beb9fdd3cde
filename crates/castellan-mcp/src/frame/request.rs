//! What a request says of itself, and how those that are work are done.

use std::sync::Arc;

use axum::http::request::Parts;
use castellan_core::CancelSource;
use castellan_core::event::LogLevel;
use castellan_core::peer::Declared;
use futures::future::BoxFuture;
use rmcp::RoleServer;
use rmcp::model::{
    CacheScope, ErrorData, Implementation, InputResponses, MetaObject, PaginatedRequestParams,
    ProtocolVersion,
};
use rmcp::service::RequestContext;

use super::attend::{self, Reply};
use super::notes::{Notes, Wanted};
use super::page::{Page, page};
use super::run::{Done, Run};
use super::service::Desk;
use super::{Frame, wire};
use crate::ask::Ask;
use crate::http::guard::bearer;
use crate::provider::{Client, Context, Fault, Object};

/// The key under which a modern result says who sent it.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// What one request says of itself.
pub(super) struct Request {
    pub(super) version: ProtocolVersion,
    pub(super) modern: bool,
    pub(super) client: Arc<Client>,
}

/// A request that is work.
pub(super) struct Errand<'a> {
    pub(super) method: &'a str,
    pub(super) name: &'a str,
    pub(super) arguments: &'a Object,
    pub(super) state: Option<String>,
    pub(super) responses: Option<InputResponses>,
}

impl Desk {
    /// What a request says of itself.
    ///
    /// # Errors
    /// A fault where it says nothing, and its client never introduced itself.
    pub(super) fn enter(&self, context: &RequestContext<RoleServer>) -> Result<Request, ErrorData> {
        let Some(version) = context.protocol_version() else {
            return Err(Fault::invalid(
                "this request names no revision of the protocol: send `initialize` first, or \
                 `io.modelcontextprotocol/protocolVersion` and `…/clientCapabilities` in its _meta",
            )
            .into());
        };
        let modern = is_modern(&version);
        let info = context.client_info();
        let (name, revision) = info.map_or_else(Default::default, |info: Implementation| {
            (info.name, info.version)
        });
        let capabilities = context.client_capabilities();
        let parts = context.extensions.get::<Parts>();
        let session = parts
            .filter(|_| !modern)
            .and_then(|parts| parts.headers.get("mcp-session-id")?.to_str().ok());
        let client = Client {
            name,
            version: revision,
            protocol: version.to_string(),
            declared: capabilities
                .as_ref()
                .map_or_else(Declared::default, wire::declared),
            bearer: parts.map_or_else(
                || self.connection.bearer.clone(),
                |parts| bearer(&parts.headers),
            ),
            connection: session.map_or_else(
                || Arc::clone(&self.connection.key),
                |id| self.connection.session(&self.frame, id),
            ),
        };
        Ok(Request {
            version,
            modern,
            client: Arc::new(client),
        })
    }

    /// Signs a modern result.
    pub(super) fn sign(&self, request: &Request, meta: &mut Option<MetaObject>) {
        if request.modern {
            let signature = self.frame.signature.clone();
            meta.get_or_insert_default()
                .insert(SERVER_INFO.to_owned(), signature);
        }
    }

    /// One page of a list.
    pub(super) fn page<T>(
        &self,
        list: &str,
        entries: Vec<T>,
        name: impl Fn(&T) -> &str,
        params: Option<PaginatedRequestParams>,
    ) -> Result<Page<T>, ErrorData> {
        let cursor = params.and_then(|params| params.cursor);
        let size = self.frame.limits.page;
        Ok(page(list, entries, name, cursor.as_deref(), size)?)
    }

    /// How long a modern client may keep a list, in milliseconds.
    pub(super) fn freshness(&self) -> u64 {
        u64::try_from(self.frame.limits.list_freshness.as_millis()).unwrap_or(u64::MAX)
    }

    /// What a modern client may do with a list it was sent.
    pub(super) fn keeping(&self, request: &Request) -> (Option<u64>, Option<CacheScope>) {
        let modern = request.modern;
        (
            modern.then(|| self.freshness()),
            modern.then_some(CacheScope::Private),
        )
    }

    /// Runs work that may ask its client something, or takes up what the client comes back to.
    pub(super) async fn work<'a>(
        &self,
        errand: Errand<'a>,
        request: &'a Request,
        context: &'a RequestContext<RoleServer>,
        start: impl FnOnce(Arc<Frame>, Context) -> BoxFuture<'static, Result<Done, Fault>>,
    ) -> Result<Reply, ErrorData> {
        let token = context.meta.get_progress_token();
        let wanted = Wanted {
            progress: token.is_some(),
            level: self.wanted_level(request, context),
        };
        let waiting = attend::Client {
            context,
            request,
            errand: &errand,
            token,
            wanted,
        };
        let stop = &self.connection.stop;
        // Answers to what nobody has asked, without a state, count for nothing.
        if let Some(state) = errand.state.as_deref().filter(|_| request.modern) {
            return attend::resume(&self.frame, state, waiting, stop).await;
        }
        let notes = Arc::new(Notes::new(wanted));
        let (ask, questions) = Ask::channel(request.client.declared);
        let cancel = CancelSource::new();
        let given = Context {
            client: Arc::clone(&request.client),
            cancel: cancel.token(),
            progress: Arc::clone(&notes) as Arc<_>,
            ask,
        };
        let work = start(Arc::clone(&self.frame), given);
        let (tasks, works) = (&self.frame.tasks, &self.connection.works);
        let run = Run::start(tasks, works, work, questions, notes, cancel);
        attend::attend(&self.frame, run, waiting, stop).await
    }

    /// What level of messages the client of a request wants: modern ones say so each time.
    pub(super) fn wanted_level(
        &self,
        request: &Request,
        context: &RequestContext<RoleServer>,
    ) -> Option<LogLevel> {
        if request.modern {
            context.meta.log_level().map(wire::log_level)
        } else {
            Some(self.connection.level())
        }
    }
}

pub(super) fn is_modern(version: &ProtocolVersion) -> bool {
    !version.has_initialize()
}
