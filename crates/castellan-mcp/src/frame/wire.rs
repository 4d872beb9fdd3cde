//! Between what a provider says and the messages of the protocol.
#![expect(
    deprecated,
    reason = "logging, sampling and roots are what older clients speak, and have no successor"
)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use castellan_core::Picture;
use castellan_core::block::{Block, Content};
use castellan_core::event::LogLevel;
use castellan_core::peer::{Declared, Question, Unasked};
use rmcp::model::{
    CallToolResult, ClientCapabilities, ContentBlock, CreateMessageRequest, ElicitRequest,
    ElicitRequestParams, ErrorCode, ErrorData, GetPromptResult, InputRequest, ListRootsRequest,
    LoggingLevel, PromptMessage, ProtocolVersion, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate, Role, ServerRequest, Tool, ToolAnnotations,
};
use serde_json::Value;

use crate::provider::{
    Annotations, Answer, Contents, Fault, Part, Prompt, PromptCard, ResourceCard, Speaker,
    TemplateCard, ToolCard,
};

impl From<Fault> for ErrorData {
    fn from(fault: Fault) -> Self {
        Self::new(ErrorCode(fault.code), fault.message, fault.data)
    }
}

/// A tool as a list shows it.
pub(super) fn tool(card: ToolCard) -> Tool {
    let mut tool = Tool::new(card.name, card.description, card.input_schema);
    tool.title = card.title;
    tool.output_schema = card.output_schema;
    tool.annotations = card.annotations.map(annotations);
    tool
}

fn annotations(of: Annotations) -> ToolAnnotations {
    ToolAnnotations::from_raw(
        None,
        of.read_only,
        of.destructive,
        of.idempotent,
        of.open_world,
    )
}

/// What a call answers, for a client that speaks `version`.
pub(super) fn answer(answer: Answer, version: &ProtocolVersion) -> CallToolResult {
    let mut content: Vec<ContentBlock> = answer.texts.into_iter().map(ContentBlock::text).collect();
    if let Some(structured) = answer.structured.as_ref().filter(|_| content.is_empty()) {
        content.push(ContentBlock::text(structured.to_string()));
    }
    content.extend(answer.pictures.iter().map(picture));
    content.extend(answer.blocks.into_iter().map(|part| block(part, version)));
    let mut result = if answer.is_error {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    result.structured_content = answer.structured;
    result
}

fn picture(of: &Picture) -> ContentBlock {
    ContentBlock::image(BASE64.encode(&of.bytes), of.kind.media_type())
}

/// Clients take an answer with a block they do not know for broken, so older ones get words.
fn block(block: Block, version: &ProtocolVersion) -> ContentBlock {
    match block {
        Block::Audio { media_type, data } if *version >= ProtocolVersion::V_2025_03_26 => {
            ContentBlock::audio(BASE64.encode(data), media_type)
        }
        Block::Audio { media_type, data } => {
            ContentBlock::text(format!("[{media_type}, {} bytes]", data.len()))
        }
        Block::Resource {
            uri,
            media_type,
            content,
        } => ContentBlock::resource(contents(Contents {
            uri,
            media_type,
            content,
        })),
        Block::Link {
            uri,
            name,
            media_type,
        } if *version >= ProtocolVersion::V_2025_06_18 => {
            let mut resource = Resource::new(uri, name);
            resource.mime_type = media_type;
            ContentBlock::resource_link(resource)
        }
        Block::Link { uri, name, .. } => ContentBlock::text(format!("{name}: {uri}")),
    }
}

fn contents(of: Contents) -> ResourceContents {
    match of.content {
        Content::Text(text) => ResourceContents::TextResourceContents {
            uri: of.uri,
            mime_type: of.media_type,
            text,
            meta: None,
        },
        Content::Bytes(bytes) => ResourceContents::BlobResourceContents {
            uri: of.uri,
            mime_type: of.media_type,
            blob: BASE64.encode(bytes),
            meta: None,
        },
    }
}

/// What was read of a resource.
pub(super) fn reading(parts: Vec<Contents>) -> ReadResourceResult {
    ReadResourceResult::new(parts.into_iter().map(contents).collect())
}

/// A prompt as a list shows it.
pub(super) fn prompt_card(card: PromptCard) -> rmcp::model::Prompt {
    let arguments = card.arguments.into_iter().map(|argument| {
        let mut wire = rmcp::model::PromptArgument::new(argument.name);
        wire.description = argument.description;
        wire.required = argument.required.then_some(true);
        wire
    });
    let arguments: Vec<_> = arguments.collect();
    let arguments = (!arguments.is_empty()).then_some(arguments);
    let mut prompt = rmcp::model::Prompt::new(card.name, card.description, arguments);
    prompt.title = card.title;
    prompt
}

/// A prompt with its arguments filled in.
pub(super) fn prompt(prompt: Prompt, version: &ProtocolVersion) -> GetPromptResult {
    let messages = prompt.messages.into_iter().map(|(speaker, part)| {
        let role = match speaker {
            Speaker::User => Role::User,
            Speaker::Assistant => Role::Assistant,
        };
        let content = match part {
            Part::Text(text) => ContentBlock::text(text),
            Part::Picture(of) => picture(&of),
            Part::Block(of) => block(of, version),
        };
        PromptMessage::new(role, content)
    });
    let mut result = GetPromptResult::new(messages.collect());
    result.description = prompt.description;
    result
}

/// A resource as a list shows it.
pub(super) fn resource(card: ResourceCard) -> Resource {
    let mut resource = Resource::new(card.uri, card.name);
    resource.title = card.title;
    resource.description = card.description;
    resource.mime_type = card.media_type;
    resource.size = card.size;
    resource
}

/// A resource template as a list shows it.
pub(super) fn template(card: TemplateCard) -> ResourceTemplate {
    let mut template = ResourceTemplate::new(card.uri_template, card.name);
    template.title = card.title;
    template.description = card.description;
    template.mime_type = card.media_type;
    template
}

/// What a client said it can do. Elicitation without a mode means forms.
pub(super) fn declared(capabilities: &ClientCapabilities) -> Declared {
    Declared {
        elicitation: capabilities
            .elicitation
            .as_ref()
            .is_some_and(|modes| modes.form.is_some() || modes.url.is_none()),
        sampling: capabilities.sampling.is_some(),
        roots: capabilities.roots.is_some(),
    }
}

/// A question as the modern revision hands it to the client.
///
/// # Errors
/// [`Unasked::Unsuitable`] for a schema or request the protocol has no place for.
pub(super) fn input_request(question: &Question) -> Result<InputRequest, Unasked> {
    let unsuitable = |error: serde_json::Error| Unasked::Unsuitable(error.to_string());
    Ok(match question {
        Question::Elicit { message, schema } => {
            let requested_schema = serde_json::from_value(schema.clone()).map_err(unsuitable)?;
            InputRequest::Elicitation(ElicitRequest::new(
                ElicitRequestParams::FormElicitationParams {
                    meta: None,
                    message: message.clone(),
                    requested_schema,
                },
            ))
        }
        Question::Sample(request) => {
            let params = serde_json::from_value(request.clone()).map_err(unsuitable)?;
            InputRequest::CreateMessage(CreateMessageRequest::new(params))
        }
        Question::Roots => InputRequest::ListRoots(ListRootsRequest::default()),
    })
}

/// A question as older revisions send it to the client.
///
/// # Errors
/// As [`input_request`].
pub(super) fn server_request(question: &Question) -> Result<ServerRequest, Unasked> {
    Ok(match input_request(question)? {
        InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
        InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
        InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
        _ => return Err(Unasked::Unsuitable("no such request".to_owned())),
    })
}

/// Whether `answer` is one to `question`; else what is wrong with it.
pub(super) fn answers(question: &Question, answer: &Value) -> Result<(), String> {
    let text = |field: &str| answer.get(field).and_then(Value::as_str);
    match question {
        Question::Elicit { .. } => match text("action") {
            Some("accept") if !answer.get("content").is_some_and(Value::is_object) => {
                Err("an accepted form has its values in `content`".to_owned())
            }
            Some("accept" | "decline" | "cancel") => Ok(()),
            _ => Err("`action` must be accept, decline or cancel".to_owned()),
        },
        Question::Sample(_) if answer.get("content").is_none() => {
            Err("a message of the model has `content`".to_owned())
        }
        Question::Roots if !answer.get("roots").is_some_and(Value::is_array) => {
            Err("`roots` must be a list".to_owned())
        }
        Question::Sample(_) | Question::Roots => Ok(()),
    }
}

pub(super) const fn level(of: LogLevel) -> LoggingLevel {
    match of {
        LogLevel::Debug => LoggingLevel::Debug,
        LogLevel::Info => LoggingLevel::Info,
        LogLevel::Notice => LoggingLevel::Notice,
        LogLevel::Warning => LoggingLevel::Warning,
        LogLevel::Error => LoggingLevel::Error,
        LogLevel::Critical => LoggingLevel::Critical,
        LogLevel::Alert => LoggingLevel::Alert,
        LogLevel::Emergency => LoggingLevel::Emergency,
    }
}

pub(super) const fn log_level(of: LoggingLevel) -> LogLevel {
    match of {
        LoggingLevel::Debug => LogLevel::Debug,
        LoggingLevel::Info => LogLevel::Info,
        LoggingLevel::Notice => LogLevel::Notice,
        LoggingLevel::Warning => LogLevel::Warning,
        LoggingLevel::Error => LogLevel::Error,
        LoggingLevel::Critical => LogLevel::Critical,
        LoggingLevel::Alert => LogLevel::Alert,
        LoggingLevel::Emergency => LogLevel::Emergency,
    }
}
