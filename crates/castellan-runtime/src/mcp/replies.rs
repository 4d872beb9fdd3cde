//! What became of a call, as a client of the MCP server is told.

use castellan_core::block::{Block, Content};
use castellan_core::{ErrorCode, ToolSpec};
use castellan_gate::Album;
use castellan_gate::disclosure::Missing;
use castellan_mcp::provider::Contents;
use castellan_mcp::{Answer, Fault};
use serde_json::{Value, json};

use crate::engine::Reply;
use crate::meta::missed;

/// What a refused request carries for programs.
pub(super) fn data(code: ErrorCode, error: &str) -> Value {
    json!({"ok": false, "error_code": code.as_str(), "error": error})
}

/// The words of a failure: what marks them as one for a model is a field here.
fn words(output: &str) -> &str {
    output.strip_prefix("Error: ").unwrap_or(output)
}

/// The same with the names that may have been meant.
fn with_nearest(mut data: Value, near: Option<Vec<String>>) -> Value {
    if let (Some(near), Some(object)) = (near, data.as_object_mut()) {
        object.insert("nearest".to_owned(), json!(near));
    }
    data
}

/// A call of a tool that is not there, or not for this client.
pub(super) fn unroutable(name: &str, missing: Missing) -> Fault {
    let near = match &missing {
        Missing::Unknown(near) => Some(near.clone()),
        Missing::Hidden => None,
    };
    let outcome = missed(name, missing);
    let code = outcome.code().unwrap_or(ErrorCode::ToolNotFound);
    let error = outcome.into_text();
    let error = words(&error);
    Fault::invalid(error).with_data(with_nearest(data(code, error), near))
}

/// A meta tool that failed: the request could not be routed to what it meant, for which `near` may
/// be other names.
pub(super) fn fault(reply: &Reply, near: Option<Vec<String>>) -> Fault {
    let code = reply.code.unwrap_or(ErrorCode::ToolFailed);
    let number = match code {
        ErrorCode::ToolNotFound => Fault::METHOD_NOT_FOUND,
        _ => Fault::INVALID_PARAMS,
    };
    let error = words(&reply.output);
    Fault::new(number, error).with_data(with_nearest(data(code, error), near))
}

/// What keeps a call from being recorded: it is not known how far it came. One that only reads has
/// come to nothing in any case.
pub(super) fn broken(words: &str, only_reads: bool) -> Fault {
    tracing::error!("a call of an MCP client could not be recorded: {words}");
    let (code, what) = if only_reads {
        let what = "the call could not be recorded, so it has no result; it changed nothing, and can \
                    be made again once what is wrong is put right";
        (ErrorCode::StoreUnavailable, what)
    } else {
        let what = "the call could not be recorded, so it was not run or its result is lost; look at \
                    the present state before you make it again";
        (ErrorCode::EffectUnknown, what)
    };
    let error = format!("{what}: {words}");
    let told = data(code, &error);
    Fault::new(Fault::INTERNAL, error).with_data(told)
}

/// The same for a tool that does something: a failure like its others.
///
/// # Errors
/// Any other fault.
pub(super) fn unrecorded(fault: Fault) -> Result<Answer, Fault> {
    match &fault.data {
        Some(data) if data.get("error_code").is_some() => Ok(Answer {
            texts: vec![data.to_string()],
            structured: Some(data.clone()),
            is_error: true,
            ..Answer::default()
        }),
        _ => Err(fault),
    }
}

/// The result of a call.
pub(super) fn answer(spec: &ToolSpec, reply: Reply, album: &Album) -> Answer {
    let mut blocks = reply.blocks.clone();
    if let Some(spill) = &reply.spill {
        blocks.push(Block::Link {
            uri: format!("file://{}", spill.display()),
            name: "the whole output".to_owned(),
            media_type: Some("text/plain".to_owned()),
        });
    }
    if reply.is_error {
        let structured = failed(spec, &reply);
        return Answer {
            texts: vec![structured.to_string()],
            structured: Some(structured),
            blocks,
            is_error: true,
            ..Answer::default()
        };
    }
    // An output that was cut is no value any more.
    let structured: Option<Value> = spec
        .output_schema
        .as_ref()
        .filter(|_| reply.spill.is_none())
        .and_then(|_| serde_json::from_str(&reply.output).ok());
    let mut texts = vec![reply.output];
    let mut pictures = Vec::new();
    for picture in &reply.pictures {
        match album.read(picture) {
            Ok(read) => pictures.push(read),
            Err(error) => texts.push(format!("(a picture could not be read again: {error})")),
        }
    }
    Answer {
        texts,
        structured,
        pictures,
        blocks,
        is_error: false,
    }
}

/// A failure with all that one more try needs.
fn failed(spec: &ToolSpec, reply: &Reply) -> Value {
    let code = reply.code.unwrap_or(ErrorCode::ToolFailed);
    let mut value = data(code, words(&reply.output));
    if let Some(object) = value.as_object_mut() {
        object.insert("effect".to_owned(), json!(reply.effect));
        object.insert("call_id".to_owned(), json!(reply.call_id));
        if code == ErrorCode::Validation {
            object.insert("parameters".to_owned(), spec.parameters.clone());
            object.insert("examples".to_owned(), json!(spec.examples));
        }
    }
    value
}

/// What was read of a resource, from what the tool that reads them answers.
pub(super) fn contents(uri: String, reply: Reply) -> Result<Vec<Contents>, Fault> {
    let value: Value = serde_json::from_str(&reply.output).unwrap_or_default();
    let text = |field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let beside = reply.blocks.into_iter().find_map(|block| match block {
        Block::Resource { content, .. } => Some(content),
        Block::Audio { .. } | Block::Link { .. } => None,
    });
    let Some(content) = beside.or_else(|| text("text").map(Content::Text)) else {
        let what = "the resource is too long to be read at once";
        return Err(Fault::new(Fault::INTERNAL, what));
    };
    Ok(vec![Contents {
        uri,
        media_type: text("media_type"),
        content,
    }])
}
