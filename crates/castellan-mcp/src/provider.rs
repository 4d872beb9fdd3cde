//! What a server offers, without a word of the wire: the one trait the frame serves, and the types
//! it speaks.
//!
//! Nothing here knows of protocol versions, sessions or transports. A [`Provider`] answers the same
//! way whoever asks and however the question came; the frame turns its answers into the messages
//! of the client's revision.

use std::fmt;
use std::sync::Arc;

use castellan_core::peer::Declared;
use castellan_core::port::Progress;
use castellan_core::{Block, Cancel, Picture};
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::ask::Ask;
use crate::change::Changes;

/// A JSON object.
pub type Object = Map<String, Value>;

/// Who the server is, and what it offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCard {
    /// Its name, such as `castellan`.
    pub name: String,
    /// What people call it, where that differs.
    pub title: Option<String>,
    /// Its version.
    pub version: String,
    /// What a model is told of the whole server.
    pub instructions: Option<String>,
}

/// A secret that came with a request. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer(String);

impl Bearer {
    /// The secret, as it was sent.
    #[must_use]
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself, for whoever checks it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer([secret])")
    }
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// The name it gave itself, which proves nothing; empty where it gave none.
    pub name: String,
    /// The version it gave itself.
    pub version: String,
    /// The revision of the protocol this request speaks, such as `2025-11-25`.
    pub protocol: String,
    /// What it said it can do.
    pub declared: Declared,
    /// The secret that came with the request over HTTP.
    pub bearer: Option<Bearer>,
    /// What tells its connection from others: constant for a stdio connection and for a session
    /// over HTTP, new for each request that belongs to no session.
    pub connection: Arc<str>,
}

/// What a call, a prompt or a reading may use beyond its arguments.
#[derive(Clone)]
pub struct Context {
    /// Who asks.
    pub client: Arc<Client>,
    /// Resolves once the client has given up, or the server ends.
    pub cancel: Cancel,
    /// Where progress and log messages go; the frame drops those nobody asked for.
    pub progress: Arc<dyn Progress>,
    /// A way back to the client's person, model and folders.
    pub ask: Ask,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("client", &self.client)
            .field("cancel", &self.cancel)
            .finish_non_exhaustive()
    }
}

/// An error of the protocol itself, for requests that can't be routed. What a model should read is
/// an [`Answer`] instead.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct Fault {
    /// A JSON-RPC code.
    pub code: i32,
    /// One sentence.
    pub message: String,
    /// Anything else, for programs.
    pub data: Option<Value>,
}

impl Fault {
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// The parameters are not what the method takes.
    pub const INVALID_PARAMS: i32 = -32602;
    /// A defect of the server.
    pub const INTERNAL: i32 = -32603;
    /// The client did not say that it can do what the request needs.
    pub const CAPABILITY_MISSING: i32 = -32021;
    /// No such resource. The frame sends what the client's revision has for it.
    pub const RESOURCE_NOT_FOUND: i32 = -32002;

    /// A fault with nothing but words.
    #[must_use]
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// Parameters that are not what the method takes.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    /// A resource that does not exist.
    #[must_use]
    pub fn no_resource(uri: &str) -> Self {
        Self {
            code: Self::RESOURCE_NOT_FOUND,
            message: format!("no resource `{uri}`; resources/list has those there are"),
            data: Some(json!({ "uri": uri })),
        }
    }

    /// The request needs what the client did not declare: `elicitation`, `sampling` or `roots`.
    #[must_use]
    pub fn needs(capability: &str) -> Self {
        Self {
            code: Self::CAPABILITY_MISSING,
            message: format!("this needs a client that declares `{capability}`"),
            data: Some(json!({ "requiredCapabilities": { capability: {} } })),
        }
    }

    /// The same with data for programs.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }
}

/// What a client may assume of a tool before it calls it. Only what differs from the protocol's
/// defaults needs to be said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Annotations {
    /// It changes nothing (default: false).
    pub read_only: Option<bool>,
    /// It may destroy something (default: true).
    pub destructive: Option<bool>,
    /// Calling it twice is the same as calling it once (default: false).
    pub idempotent: Option<bool>,
    /// It reaches out to the open world (default: true).
    pub open_world: Option<bool>,
}

/// A tool as a list shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCard {
    /// Its name, `[A-Za-z0-9_.-]{1,64}`.
    pub name: String,
    /// What people call it.
    pub title: Option<String>,
    /// What a model is told of it.
    pub description: String,
    /// JSON Schema of its arguments, an object. Keys are sent in this order.
    pub input_schema: Arc<Object>,
    /// JSON Schema of its structured result.
    pub output_schema: Option<Arc<Object>>,
    /// What a client may assume.
    pub annotations: Option<Annotations>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Which tool.
    pub name: String,
    /// Its arguments; empty where none were sent.
    pub arguments: Object,
}

/// What a call answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Words, each its own part. Where there are none, the structured value is sent as text too.
    pub texts: Vec<String>,
    /// The structured value, as the tool's output schema has it.
    pub structured: Option<Value>,
    /// Pictures.
    pub pictures: Vec<Picture>,
    /// Sound and resources.
    pub blocks: Vec<Block>,
    /// Whether the call failed in a way the model should read.
    pub is_error: bool,
}

impl Answer {
    /// One text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            texts: vec![text.into()],
            ..Self::default()
        }
    }

    /// One text that says what went wrong.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            is_error: true,
            ..Self::text(text)
        }
    }
}

/// A parameter of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Whether the prompt can't be had without it.
    pub required: bool,
}

/// A prompt as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptCard {
    /// Its name.
    pub name: String,
    /// What people call it.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What it takes.
    pub arguments: Vec<PromptArgument>,
}

/// Who speaks a message of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// What a message of a prompt holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Words.
    Text(String),
    /// A picture.
    Picture(Picture),
    /// Sound or a resource.
    Block(Block),
}

/// A prompt, ready for a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// What it is for.
    pub description: Option<String>,
    /// Its messages.
    pub messages: Vec<(Speaker, Part)>,
}

/// A resource as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceCard {
    /// Its URI.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// What people call it.
    pub title: Option<String>,
    /// What it holds.
    pub description: Option<String>,
    /// The media type, where it is known.
    pub media_type: Option<String>,
    /// Its size in bytes, where it is known.
    pub size: Option<u64>,
}

/// Resources that differ in parts of their URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateCard {
    /// The URI as a template of RFC 6570, such as `mail://{agent}/inbox`.
    pub uri_template: String,
    /// Its name.
    pub name: String,
    /// What people call it.
    pub title: Option<String>,
    /// What they hold.
    pub description: Option<String>,
    /// The media type, where all of them have the same one.
    pub media_type: Option<String>,
}

/// What was read of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// The URI of this part.
    pub uri: String,
    /// The media type, where it is known.
    pub media_type: Option<String>,
    /// What it holds.
    pub content: castellan_core::block::Content,
}

/// What an argument that is completed belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completing {
    /// A prompt, by its name.
    Prompt(String),
    /// A resource template, by its URI.
    Template(String),
}

/// An argument somebody is typing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// What it belongs to.
    pub of: Completing,
    /// The argument.
    pub argument: String,
    /// What has been typed.
    pub typed: String,
    /// The arguments that are known already.
    pub known: Vec<(String, String)>,
}

/// What a server offers. One value serves every connection at once.
///
/// Lists are given whole and in an order that stays the same; the frame cuts them into pages.
/// An unknown tool, prompt or resource is a [`Fault`].
pub trait Provider: Send + Sync + 'static {
    /// Who the server is. Asked once.
    fn card(&self) -> ServerCard;

    /// Where changes of the lists and of resources are announced.
    fn changes(&self) -> &Changes;

    /// The tools this client may see.
    fn tools<'a>(&'a self, client: &'a Client) -> BoxFuture<'a, Result<Vec<ToolCard>, Fault>>;

    /// The input schema of a tool, where parameters of it are mirrored in HTTP headers by
    /// `x-mcp-header`. Asked before each call over HTTP of the modern revision.
    fn mirrored_schema(&self, _tool: &str) -> Option<Arc<Object>> {
        None
    }

    /// Calls a tool. What the model should know of a failure is an [`Answer`] with `is_error`.
    fn call(&self, call: ToolCall, context: Context) -> BoxFuture<'_, Result<Answer, Fault>>;

    /// The prompts this client may see.
    fn prompts<'a>(&'a self, client: &'a Client) -> BoxFuture<'a, Result<Vec<PromptCard>, Fault>>;

    /// A prompt with its arguments filled in.
    fn prompt(
        &self,
        name: String,
        arguments: Object,
        context: Context,
    ) -> BoxFuture<'_, Result<Prompt, Fault>>;

    /// The resources this client may see.
    fn resources<'a>(
        &'a self,
        client: &'a Client,
    ) -> BoxFuture<'a, Result<Vec<ResourceCard>, Fault>>;

    /// The resource templates this client may see.
    fn templates<'a>(
        &'a self,
        client: &'a Client,
    ) -> BoxFuture<'a, Result<Vec<TemplateCard>, Fault>>;

    /// Reads a resource. None of that URI is [`Fault::no_resource`].
    fn read(&self, uri: String, context: Context) -> BoxFuture<'_, Result<Vec<Contents>, Fault>>;

    /// What the argument could be, best first; the frame sends the first hundred and the total.
    /// Unknown prompts and templates have none.
    fn complete<'a>(
        &'a self,
        completion: Completion,
        client: &'a Client,
    ) -> BoxFuture<'a, Result<Vec<String>, Fault>>;
}
