//! Tools that answer with every kind of content, and those that say how far they are.

use std::sync::Arc;
use std::time::Duration;

use castellan_core::block::{Block, Content};
use castellan_core::event::LogLevel;
use castellan_core::tool::{CallContext, Report};
use castellan_core::{Outcome, Picture, PictureType, Tool};
use futures::future::ready;
use serde_json::{Value, json};

use crate::tool::{Came, Fixture, said, text};

/// A red pixel.
pub(crate) const PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
    0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00, 0x00, 0x90, 0x77, 0x53,
    0xde, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x08, 0xd7, 0x63, 0xf8, 0xcf, 0xc0, 0x00,
    0x00, 0x03, 0x01, 0x01, 0x00, 0x18, 0xdd, 0x8d, 0xb0, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e,
    0x44, 0xae, 0x42, 0x60, 0x82,
];

/// A moment of silence.
const WAV: &[u8] = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x44\xac\0\0\x88\x58\x01\0\x02\0\x10\0data\0\0\0\0";

/// The pause between two words of a tool that says what it does.
const STEP: Duration = Duration::from_millis(50);

/// All of them.
pub(crate) fn tools() -> Vec<Arc<dyn Tool>> {
    let fixtures = [
        Fixture::fixed("test_simple_text", "Answers with text", || {
            said("This is a simple text response for testing.")
        }),
        Fixture::fixed("test_image_content", "Answers with a picture", || {
            let mut report = said("A pixel:");
            report.pictures.push(pixel());
            report
        }),
        Fixture::fixed("test_audio_content", "Answers with sound", || {
            let mut report = said("Silence:");
            report.blocks.push(Block::Audio {
                media_type: "audio/wav".to_owned(),
                data: WAV.to_vec(),
            });
            report
        }),
        Fixture::fixed("test_embedded_resource", "Answers with a resource", || {
            let mut report = said("A resource:");
            report.blocks.push(resource(
                "test://embedded-resource",
                "text/plain",
                "This is an embedded resource content.",
            ));
            report
        }),
        Fixture::fixed(
            "test_multiple_content_types",
            "Answers with all of it",
            mixed,
        ),
        Fixture::new("test_error_handling", "Fails", |_, _| {
            let what = "This tool intentionally returns an error for testing";
            ready(Err(Outcome::failed(what, "")))
        }),
        Fixture::new(
            "test_tool_with_progress",
            "Tells how far it is",
            |_, context| work(context, Telling::Progress),
        ),
        Fixture::new(
            "test_tool_with_logging",
            "Says what it does",
            |_, context| work(context, Telling::Log),
        ),
        Fixture::new("test_logging_tool", "Says what it does", |_, context| {
            work(context, Telling::Log)
        }),
        Fixture::new(
            "test_mirrored",
            "Takes a parameter that is a header too",
            |given, _| ready(Ok(said(text(&given, "region")))),
        )
        .taking(json!({
            "type": "object",
            "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
            "required": ["region"],
        })),
        Fixture::fixed(
            "json_schema_2020_12_tool",
            "Tool with JSON Schema 2020-12 features",
            || said("ok"),
        )
        .taking(rich_schema()),
    ];
    fixtures.into_iter().map(Fixture::tool).collect()
}

pub(crate) fn pixel() -> Picture {
    Picture {
        kind: PictureType::Png,
        width: 1,
        height: 1,
        bytes: PNG.into(),
    }
}

pub(crate) fn resource(uri: &str, media_type: &str, text: &str) -> Block {
    Block::Resource {
        uri: uri.to_owned(),
        media_type: Some(media_type.to_owned()),
        content: Content::Text(text.to_owned()),
    }
}

fn mixed() -> Report {
    let mut report = said("Multiple content types test:");
    report.pictures.push(pixel());
    report.blocks.push(resource(
        "test://mixed-content-resource",
        "application/json",
        r#"{"test":"data","value":123}"#,
    ));
    report
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Telling {
    Progress,
    Log,
}

async fn work(context: CallContext, telling: Telling) -> Came {
    let steps = [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ];
    for (done, words) in [0, 50, 100].into_iter().zip(steps) {
        if done > 0 {
            context.clock.sleep(STEP).await;
        }
        match telling {
            Telling::Progress => context.progress.advance(done, Some(100), ""),
            Telling::Log => context.progress.log(LogLevel::Info, words),
        }
    }
    Ok(said("done"))
}

/// A schema with every keyword that servers tend to lose.
fn rich_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {
            "properties": {"contactMethod": {"const": "phone"}},
            "required": ["contactMethod"],
        },
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}
