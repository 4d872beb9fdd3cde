//! Each request of the protocol, answered from the provider.
#![expect(
    deprecated,
    reason = "what only older clients send has to be answered all the same"
)]

use std::fmt;
use std::sync::Arc;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
    CompletionInfo, CustomRequest, CustomResult, DiscoverResult, ErrorData, GetPromptRequestParams,
    GetPromptResponse, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, Reference, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};

use super::attend::Reply;
use super::connection::Connection;
use super::listening::Listening;
use super::request::{Errand, is_modern};
use super::run::Done;
use super::{Frame, method, wire};
use crate::change::Change;
use crate::jsonrpc::NO_INTRODUCTION;
use crate::provider::{Completing, Completion, Fault, Object, ToolCall};

/// How many values a completion may have.
const MOST_VALUES: usize = 100;

/// How long a modern client may keep what the server said of itself, in terms of lists.
const DISCOVERY_LASTS: u64 = 10;

/// Answers the requests of one connection.
pub(crate) struct Desk {
    pub(super) frame: Arc<Frame>,
    pub(super) connection: Arc<Connection>,
    listening: Listening,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Desk({})", self.connection.key)
    }
}

impl Desk {
    pub(crate) fn new(frame: Arc<Frame>, connection: Arc<Connection>) -> Self {
        Self {
            frame,
            connection,
            listening: Listening::default(),
        }
    }
}

const UNEXPECTED: &str = "the provider answered something else than was asked";

impl ServerHandler for Desk {
    fn get_info(&self) -> ServerConfig {
        self.frame.config.clone()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        if context
            .meta
            .protocol_version()
            .is_some_and(|version| is_modern(&version))
        {
            return Err(Fault::new(Fault::METHOD_NOT_FOUND, NO_INTRODUCTION).into());
        }
        if !self.connection.introduce() {
            return Err(ErrorData::invalid_request(
                "this connection is initialized already",
                None,
            ));
        }
        let result = self.negotiate_initialize(&request)?;
        let mut known = request;
        known.protocol_version = result.protocol_version.clone();
        context.peer.set_peer_info(known);
        Ok(result)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.connection.tell_changes(&self.frame, context.peer);
    }

    async fn discover(
        &self,
        _context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let mut result = DiscoverResult::from_server_info(versions, self.get_info());
        result.ttl_ms = self.freshness().saturating_mul(DISCOVERY_LASTS);
        result.cache_scope = CacheScope::Private;
        Ok(result)
    }

    async fn list_tools(
        &self,
        params: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let request = self.enter(&context)?;
        let cards = self.frame.provider.tools(&request.client).await?;
        let page = self.page("tools/list", cards, |card| &card.name, params)?;
        let tools = page.entries.into_iter().map(wire::tool).collect();
        let mut result = ListToolsResult::with_all_items(tools);
        result.next_cursor = page.next;
        (result.ttl_ms, result.cache_scope) = self.keeping(&request);
        self.sign(&request, &mut result.meta);
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let schema = self.frame.provider.mirrored_schema(name)?;
        Some(Tool::new(name.to_owned(), "", schema))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let request = self.enter(&context)?;
        let call = ToolCall {
            name: params.name.into_owned(),
            arguments: params.arguments.unwrap_or_default(),
        };
        let errand = Errand {
            method: "tools/call",
            name: &call.name,
            arguments: &call.arguments,
            state: params.request_state,
            responses: params.input_responses,
        };
        let own = call.clone();
        let reply = self.work(errand, &request, &context, |frame, context| {
            Box::pin(async move { frame.provider.call(own, context).await.map(Done::Answer) })
        });
        match reply.await? {
            Reply::Ask(mut asks) => {
                self.sign(&request, &mut asks.meta);
                Ok(asks.into())
            }
            Reply::Done(Done::Answer(answer)) => {
                let mut result = wire::answer(answer, &request.version);
                self.sign(&request, &mut result.meta);
                Ok(result.into())
            }
            Reply::Done(_) => Err(ErrorData::internal_error(UNEXPECTED, None)),
        }
    }

    async fn list_prompts(
        &self,
        params: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let request = self.enter(&context)?;
        let cards = self.frame.provider.prompts(&request.client).await?;
        let page = self.page("prompts/list", cards, |card| &card.name, params)?;
        let prompts = page.entries.into_iter().map(wire::prompt_card).collect();
        let mut result = ListPromptsResult::with_all_items(prompts);
        result.next_cursor = page.next;
        (result.ttl_ms, result.cache_scope) = self.keeping(&request);
        self.sign(&request, &mut result.meta);
        Ok(result)
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let request = self.enter(&context)?;
        let arguments = params.arguments.unwrap_or_default();
        let errand = Errand {
            method: "prompts/get",
            name: &params.name,
            arguments: &arguments,
            state: params.request_state,
            responses: params.input_responses,
        };
        let (name, given) = (params.name.clone(), arguments.clone());
        let reply = self.work(errand, &request, &context, |frame, context| {
            Box::pin(async move {
                let prompt = frame.provider.prompt(name, given, context).await;
                prompt.map(Done::Prompt)
            })
        });
        match reply.await? {
            Reply::Ask(mut asks) => {
                self.sign(&request, &mut asks.meta);
                Ok(asks.into())
            }
            Reply::Done(Done::Prompt(prompt)) => {
                let mut result = wire::prompt(prompt, &request.version);
                self.sign(&request, &mut result.meta);
                Ok(result.into())
            }
            Reply::Done(_) => Err(ErrorData::internal_error(UNEXPECTED, None)),
        }
    }

    async fn list_resources(
        &self,
        params: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let request = self.enter(&context)?;
        let cards = self.frame.provider.resources(&request.client).await?;
        let page = self.page("resources/list", cards, |card| &card.uri, params)?;
        let resources = page.entries.into_iter().map(wire::resource).collect();
        let mut result = ListResourcesResult::with_all_items(resources);
        result.next_cursor = page.next;
        (result.ttl_ms, result.cache_scope) = self.keeping(&request);
        self.sign(&request, &mut result.meta);
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        params: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let request = self.enter(&context)?;
        let cards = self.frame.provider.templates(&request.client).await?;
        let list = "resources/templates/list";
        let page = self.page(list, cards, |card| &card.uri_template, params)?;
        let templates = page.entries.into_iter().map(wire::template).collect();
        let mut result = ListResourceTemplatesResult::with_all_items(templates);
        result.next_cursor = page.next;
        (result.ttl_ms, result.cache_scope) = self.keeping(&request);
        self.sign(&request, &mut result.meta);
        Ok(result)
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let request = self.enter(&context)?;
        let nothing = Object::new();
        let errand = Errand {
            method: "resources/read",
            name: &params.uri,
            arguments: &nothing,
            state: params.request_state,
            responses: params.input_responses,
        };
        let uri = params.uri.clone();
        let reply = self.work(errand, &request, &context, |frame, context| {
            Box::pin(async move { frame.provider.read(uri, context).await.map(Done::Contents) })
        });
        match reply.await? {
            Reply::Ask(mut asks) => {
                self.sign(&request, &mut asks.meta);
                Ok(asks.into())
            }
            Reply::Done(Done::Contents(parts)) => {
                let mut result = wire::reading(parts);
                if request.modern {
                    (result.ttl_ms, result.cache_scope) = (Some(0), Some(CacheScope::Private));
                }
                self.sign(&request, &mut result.meta);
                Ok(result.into())
            }
            Reply::Done(_) => Err(ErrorData::internal_error(UNEXPECTED, None)),
        }
    }

    async fn complete(
        &self,
        params: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let request = self.enter(&context)?;
        let of = match params.r#ref {
            Reference::Prompt(prompt) => Completing::Prompt(prompt.name),
            Reference::Resource(resource) => Completing::Template(resource.uri),
            _ => return Err(Fault::invalid("`ref` is neither a prompt nor a resource").into()),
        };
        let mut known: Vec<(String, String)> = params
            .context
            .and_then(|context| context.arguments)
            .map_or_else(Vec::new, |known| known.into_iter().collect());
        known.sort();
        let completion = Completion {
            of,
            argument: params.argument.name,
            typed: params.argument.value,
            known,
        };
        let provider = &self.frame.provider;
        let mut values = provider.complete(completion, &request.client).await?;
        let total = values.len();
        values.truncate(MOST_VALUES);
        let mut info = CompletionInfo::default();
        info.values = values;
        info.total = u32::try_from(total).ok();
        info.has_more = Some(total > MOST_VALUES);
        let mut result = CompleteResult::new(info);
        self.sign(&request, &mut result.meta);
        Ok(result)
    }

    async fn set_level(
        &self,
        params: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.enter(&context)?.modern {
            return Err(method::unknown("logging/setLevel", true).into());
        }
        self.connection.set_level(wire::log_level(params.level));
        Ok(())
    }

    async fn subscribe(
        &self,
        params: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.enter(&context)?;
        Ok(self.connection.subscribe(&self.frame, params.uri)?)
    }

    async fn unsubscribe(
        &self,
        params: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.enter(&context)?;
        self.connection.unsubscribe(&self.frame, &params.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        if let Some(uris) = &mut accepted.resource_subscriptions {
            uris.truncate(self.frame.limits.watched);
        }
        // It is acknowledged next, and served only then.
        let changes = self.frame.provider.changes();
        self.listening.expect(changes, requested);
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let changes = self.frame.provider.changes();
        let (requested, accepted) = (context.requested(), context.accepted());
        let watch = self.listening.begin(changes, requested, accepted);
        loop {
            let changed = tokio::select! {
                changed = watch.next() => changed,
                () = context.cancelled() => return Ok(()),
                () = self.connection.stop.cancelled() => return Ok(()),
            };
            for change in changed {
                let sink = context.sink();
                let sent = match change {
                    Change::Tools => sink.notify_tool_list_changed().await,
                    Change::Prompts => sink.notify_prompt_list_changed().await,
                    Change::Resources => sink.notify_resource_list_changed().await,
                    Change::Resource(uri) => sink.notify_resource_updated(uri).await,
                };
                if let Err(error) = sent {
                    tracing::debug!(%error, "a subscription ended");
                    return Ok(());
                }
            }
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let modern = context
            .protocol_version()
            .is_some_and(|version| is_modern(&version));
        Err(method::unread(request, modern).into())
    }
}
