//! What Castellan offers to clients of the MCP server: the catalog as their profile shows it, every
//! call through the gate.
//!
//! Lists are short: the meta tools stand in them in full, every other tool as a card, unless the
//! server was asked to show everything. What keeps a request from being routed is an error of the
//! protocol; what became of a call is a result.

mod asking;
mod connections;
mod prompts;
mod replies;
mod watching;

use std::path::PathBuf;
use std::sync::Arc;

use castellan_core::caller::Claim;
use castellan_core::port::{Elicitation, Progress};
use castellan_core::tool::Effect;
use castellan_core::{Clock, ErrorCode, Event, Peer as _, Principal, Recorded, Surface, ToolSpec};
use castellan_gate::Disclosure;
use castellan_gate::disclosure::Missing;
use castellan_mcp::provider::{
    Annotations, Completing, Completion, Contents, Object, Prompt, PromptCard, ResourceCard,
    ServerCard, TemplateCard, ToolCall, ToolCard,
};
use castellan_mcp::{Answer, Changes, Client, Context, Fault, Provider};
use futures::future::{BoxFuture, FutureExt as _, ready};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::engine::{DISCOVERY, Engine, OutsideCall, Reply};
use crate::evolved::Evolved;
use crate::meta::Looking;
use crate::resources::{READ, Shelf};
use crate::session::Watcher;
use asking::Asking;
use connections::Connections;
use prompts::Prompts;

pub use prompts::PromptTemplate;

/// What a model is told of the whole server.
const INSTRUCTIONS: &str = "Most tools are listed as one line. Before you call one for the first \
    time, read its parameters with castellan_describe_tool; castellan_search_tools finds tools by \
    what they are to do, castellan_discover_tools shows them by domain. A denied call stays denied: \
    do not repeat it.";

/// Marks a parameter that clients send as a header of the request as well.
const MIRRORED: &str = "x-mcp-header";

/// What the provider is built from.
#[derive(Debug)]
pub struct McpParts {
    /// What of the genome steers what is shown.
    pub evolved: Evolved,
    /// Makes the calls.
    pub engine: Engine,
    /// The catalog as clients are shown it; filled in.
    pub looking: Looking,
    /// What can be read.
    pub shelf: Shelf,
    /// Whether lists show every tool in full.
    pub full: bool,
    /// The folder clients work in.
    pub workspace: PathBuf,
    /// The version of this program.
    pub version: &'static str,
}

/// The server's side of MCP.
#[derive(Debug)]
pub struct McpServer {
    parts: McpParts,
    changes: Arc<Changes>,
    prompts: Prompts,
    connections: Connections,
    /// Rung after calls that may have changed what somebody watches.
    changed: Notify,
}

impl McpServer {
    /// The server's side of these parts.
    #[must_use]
    pub fn new(parts: McpParts) -> Self {
        Self {
            parts,
            changes: Arc::default(),
            prompts: Prompts::default(),
            connections: Connections::default(),
            changed: Notify::new(),
        }
    }

    /// Tells clients what has changed of what they watch, until it is dropped.
    pub async fn watch(&self, clock: &dyn Clock) {
        let catalog = self.parts.engine.gate().catalog();
        let evolving = async || match self.parts.evolved.refresh(catalog).await {
            Ok(changed) => changed,
            Err(error) => {
                tracing::debug!(%error, "the genome can't be read now");
                false
            }
        };
        watching::watch(
            (&self.parts.shelf, &self.changes),
            clock,
            &self.changed,
            evolving,
        )
        .await;
    }

    /// Stores what may wait while there are calls. To be called at the end.
    ///
    /// # Errors
    /// As [`Engine::settle`].
    pub async fn settle(&self) -> Result<(), crate::Error> {
        self.parts.engine.settle().await
    }

    /// The same with these prompts, in the order they are shown.
    #[must_use]
    pub fn with_prompts(self, prompts: Vec<Arc<dyn PromptTemplate>>) -> Self {
        Self {
            prompts: prompts.into(),
            ..self
        }
    }

    /// The same, with what others announce of changes: whoever changes what clients are shown
    /// keeps a clone.
    #[must_use]
    pub fn with_changes(self, changes: Arc<Changes>) -> Self {
        Self { changes, ..self }
    }

    fn disclosure(&self) -> Result<&Disclosure, Fault> {
        let missing = || Fault::new(Fault::INTERNAL, "the catalog is not open yet");
        self.parts.looking.disclosure().ok_or_else(missing)
    }

    async fn called(&self, call: ToolCall, context: Context) -> Result<Answer, Fault> {
        let disclosure = self.disclosure()?;
        let spec = disclosure
            .find(&call.name)
            .map_err(|missing| replies::unroutable(&call.name, missing))?;
        let meant = call.arguments.get("name").and_then(Value::as_str);
        let meant = meant.map(str::to_owned);
        let reply = match self.run(spec, call.arguments, context).await {
            Ok(reply) => reply,
            Err(fault) if spec.domain == DISCOVERY => return Err(fault),
            Err(fault) => return replies::unrecorded(fault),
        };
        if reply.is_error && spec.domain == DISCOVERY {
            let near = match meant.map(|name| disclosure.find(&name).err()) {
                Some(Some(Missing::Unknown(near))) => Some(near),
                _ => None,
            };
            return Err(replies::fault(&reply, near));
        }
        let album = self.parts.engine.gate().album();
        Ok(replies::answer(spec, reply, &album))
    }

    async fn run(
        &self,
        spec: &ToolSpec,
        arguments: Object,
        context: Context,
    ) -> Result<Reply, Fault> {
        let Context {
            client,
            cancel,
            progress,
            ask,
        } = context;
        let broken = |error: crate::Error| {
            replies::broken(&castellan_core::text::chain(&error), spec.is_read_only())
        };
        let opened = || self.parts.engine.connect(&self.parts.workspace);
        let connection = self.connections.get(&client.connection, opened);
        let person = ask
            .declared()
            .elicitation
            .then(|| Arc::new(ask.clone()) as Arc<dyn Elicitation>);
        let peer = Arc::new(Asking::new(ask));
        let call = OutsideCall {
            claim: claim(&client),
            name: spec.name.clone(),
            arguments: Value::Object(arguments).to_string(),
            cancel,
            person,
            peer: Some(Arc::clone(&peer) as _),
            model: None,
            watcher: Arc::new(Relayed(progress)),
        };
        let connection = connection.map_err(broken)?;
        let reply = self.parts.engine.call(&connection, call).await;
        if !spec.is_read_only() {
            self.changed.notify_one();
        }
        let reply = reply.map_err(broken)?;
        if let (Some(ErrorCode::CapabilityMissing), Some(lacks)) = (reply.code, peer.lacks()) {
            return Err(Fault::needs(lacks));
        }
        Ok(reply)
    }

    async fn read_resource(&self, uri: String, context: Context) -> Result<Vec<Contents>, Fault> {
        let disclosure = self.disclosure()?;
        let Ok(spec) = disclosure.find(READ) else {
            return Err(Fault::no_resource(&uri));
        };
        let mut arguments = Object::new();
        arguments.insert("uri".to_owned(), uri.clone().into());
        let reply = self.run(spec, arguments, context).await?;
        match reply.code {
            None => replies::contents(uri, reply),
            Some(ErrorCode::NotFound | ErrorCode::Validation) => Err(Fault::no_resource(&uri)),
            Some(_) => Err(replies::fault(&reply, None)),
        }
    }
}

/// Who a client is: whoever it says, which proves nothing. The secret that let it in is the door's
/// affair: everybody has the same, so that it says nothing of who somebody is.
fn claim(client: &Client) -> Claim {
    let name = castellan_core::text::one_line(&castellan_core::text::shorten(&client.name, 64));
    let name = if name.is_empty() {
        "unnamed".to_owned()
    } else {
        name
    };
    Claim {
        principal: Principal::McpClient(name),
        surface: Surface::Mcp,
        token: None,
    }
}

/// Hands what passes by on to the client.
struct Relayed(Arc<dyn Progress>);

impl Watcher for Relayed {
    fn see(&self, recorded: &Recorded) {
        match &recorded.event {
            Event::ToolProgress {
                done,
                total,
                message,
                ..
            } => self.0.advance(*done, *total, message),
            Event::ToolLog { level, message, .. } => self.0.log(*level, message),
            Event::ToolOutputChunk { text, .. } => self.0.output(text),
            _ => {}
        }
    }
}

/// A tool as a list shows it.
fn listed(spec: &ToolSpec, summary: String, full: bool) -> ToolCard {
    let in_full = full || spec.domain == DISCOVERY;
    let object = |schema: &Value| Arc::new(schema.as_object().cloned().unwrap_or_default());
    let short = || Arc::new(Object::from_iter([("type".to_owned(), json!("object"))]));
    ToolCard {
        name: spec.name.clone(),
        title: None,
        description: if in_full {
            spec.description.clone()
        } else {
            summary
        },
        input_schema: if in_full {
            object(&spec.parameters)
        } else {
            short()
        },
        output_schema: spec.output_schema.as_ref().filter(|_| full).map(object),
        annotations: annotations(spec),
    }
}

/// Only what differs from the protocol's defaults.
fn annotations(spec: &ToolSpec) -> Option<Annotations> {
    let open_world = spec
        .effects
        .iter()
        .any(|effect| matches!(effect, Effect::Network | Effect::Executes));
    let annotations = Annotations {
        read_only: spec.is_read_only().then_some(true),
        // What only reads destroys nothing in any case.
        destructive: (!spec.is_read_only() && spec.additive).then_some(false),
        idempotent: None,
        open_world: (!open_world).then_some(false),
    };
    (annotations != Annotations::default()).then_some(annotations)
}

impl Provider for McpServer {
    fn card(&self) -> ServerCard {
        ServerCard {
            name: "castellan".to_owned(),
            title: Some("Castellan".to_owned()),
            version: self.parts.version.to_owned(),
            instructions: Some(INSTRUCTIONS.to_owned()),
        }
    }

    fn changes(&self) -> &Changes {
        &self.changes
    }

    fn tools<'a>(&'a self, _client: &'a Client) -> BoxFuture<'a, Result<Vec<ToolCard>, Fault>> {
        let full = self.parts.full;
        let listed = |disclosure: &Disclosure| {
            let cards = disclosure.specs();
            let cards = cards.map(|spec| listed(spec, disclosure.summary(spec), full));
            cards.collect()
        };
        ready(self.disclosure().map(listed)).boxed()
    }

    /// A client that was shown a tool as a card knows of no header.
    fn mirrored_schema(&self, tool: &str) -> Option<Arc<Object>> {
        let disclosure = self.disclosure().ok()?;
        let spec = disclosure.find(tool).ok()?;
        let listed = listed(spec, disclosure.summary(spec), self.parts.full).input_schema;
        let properties = listed.get("properties")?.as_object()?;
        let mirrored = properties.values().any(|of| of.get(MIRRORED).is_some());
        mirrored.then_some(listed)
    }

    fn call(&self, call: ToolCall, context: Context) -> BoxFuture<'_, Result<Answer, Fault>> {
        self.called(call, context).boxed()
    }

    fn prompts<'a>(&'a self, _client: &'a Client) -> BoxFuture<'a, Result<Vec<PromptCard>, Fault>> {
        let cards = |disclosure: &Disclosure| self.prompts.cards(disclosure);
        ready(self.disclosure().map(cards)).boxed()
    }

    fn prompt(
        &self,
        name: String,
        arguments: Object,
        context: Context,
    ) -> BoxFuture<'_, Result<Prompt, Fault>> {
        async move {
            let disclosure = self.disclosure()?;
            let rendered = self.prompts.render(disclosure, &name, arguments, context);
            rendered.await
        }
        .boxed()
    }

    fn resources<'a>(
        &'a self,
        _client: &'a Client,
    ) -> BoxFuture<'a, Result<Vec<ResourceCard>, Fault>> {
        async move {
            if self.disclosure()?.find(READ).is_err() {
                return Ok(Vec::new());
            }
            let listed = self.parts.shelf.list().await;
            let card = |entry: crate::resources::Entry| ResourceCard {
                uri: entry.uri,
                name: entry.name,
                title: None,
                description: Some(entry.about),
                media_type: Some(entry.media_type),
                size: None,
            };
            Ok(listed.into_iter().map(card).collect())
        }
        .boxed()
    }

    fn templates<'a>(
        &'a self,
        _client: &'a Client,
    ) -> BoxFuture<'a, Result<Vec<TemplateCard>, Fault>> {
        let card = |template: crate::resources::Template| TemplateCard {
            uri_template: template.uri_template,
            name: template.name,
            title: None,
            description: Some(template.about),
            media_type: Some(template.media_type),
        };
        let shown = |disclosure: &Disclosure| {
            let readable = disclosure.find(READ).is_ok();
            let templates = readable.then(|| self.parts.shelf.templates());
            templates.into_iter().flatten().map(card).collect()
        };
        ready(self.disclosure().map(shown)).boxed()
    }

    fn read(&self, uri: String, context: Context) -> BoxFuture<'_, Result<Vec<Contents>, Fault>> {
        self.read_resource(uri, context).boxed()
    }

    fn complete<'a>(
        &'a self,
        completion: Completion,
        _client: &'a Client,
    ) -> BoxFuture<'a, Result<Vec<String>, Fault>> {
        async move {
            let typed = &completion.typed;
            Ok(match completion.of {
                Completing::Template(uri) => self.parts.shelf.complete(&uri, typed).await,
                Completing::Prompt(name) => {
                    let argument = (name.as_str(), completion.argument.as_str());
                    let disclosure = self.disclosure()?;
                    self.prompts.complete(disclosure, argument, typed).await
                }
            })
        }
        .boxed()
    }
}
