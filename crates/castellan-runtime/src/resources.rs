//! What can be read by its URI: `castellan_read_resource`, and the shelf of sources behind it.
//!
//! Each room that has something to read puts a [`Source`] on the [`Shelf`]. Clients of the MCP
//! server read through the same tool, so that reading passes the gate like every call.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use castellan_core::block::Content;
use castellan_core::caller::Surface;
use castellan_core::outcome::Retry;
use castellan_core::tool::{
    CallContext, DefaultDecision, Effect, Inspection, Report, SessionView, Typed, TypedTool,
    result_schema,
};
use castellan_core::{Block, Caller, EffectStatus, ErrorCode, Outcome, Tool, ToolSpec};
use futures::future::{BoxFuture, FutureExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The tool that reads.
pub const READ: &str = "castellan_read_resource";

/// How many resources a list shows.
const LISTED: usize = 1_000;
/// The most bytes that are read at once of what is no text.
pub const MOST_BYTES: usize = 4 * 1024 * 1024;
/// How many values a completion offers.
const OFFERED: usize = 100;

/// A resource as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its URI.
    pub uri: String,
    /// What it is called.
    pub name: String,
    /// What it holds.
    pub about: String,
    /// The media type.
    pub media_type: String,
}

/// Resources that differ in a part of their URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The URI as a template of RFC 6570.
    pub uri_template: String,
    /// What they are called.
    pub name: String,
    /// What they hold.
    pub about: String,
    /// The media type.
    pub media_type: String,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The media type.
    pub media_type: String,
    /// What it holds.
    pub text: String,
}

/// What was read and is no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes {
    /// The media type.
    pub media_type: String,
    /// What it holds, at most [`MOST_BYTES`].
    pub bytes: Vec<u8>,
}

/// Something to read, all of one scheme.
pub trait Source: Send + Sync {
    /// The scheme, without `://`.
    fn scheme(&self) -> &'static str;

    /// The kinds of resource there are.
    fn templates(&self) -> Vec<Template>;

    /// The resources there are now, the most useful first.
    fn list(&self) -> BoxFuture<'_, Vec<Entry>>;

    /// What stands after `://`, read for this caller; `None` where there is none of that name.
    ///
    /// # Errors
    /// The outcome the caller reads.
    fn read<'a>(
        &'a self,
        name: &'a str,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Text>, Outcome>>;

    /// A mark for each of these names, which differs once what is read there does. Names without a
    /// mark never change.
    ///
    /// # Errors
    /// What keeps them from being looked at.
    fn marks<'a>(
        &'a self,
        _names: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<String>, castellan_store::Error>> {
        futures::future::ready(Ok(Vec::new())).boxed()
    }

    /// The same for what is no text; asked where there is no text of that name.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn bytes<'a>(
        &'a self,
        _name: &'a str,
        _caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Option<Bytes>, Outcome>> {
        futures::future::ready(Ok(None)).boxed()
    }
}

/// All sources.
#[derive(Clone, Default)]
pub struct Shelf(Arc<[Arc<dyn Source>]>);

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|source| source.scheme()))
            .finish()
    }
}

impl Shelf {
    /// A shelf of these.
    #[must_use]
    pub fn new(sources: Vec<Arc<dyn Source>>) -> Self {
        Self(sources.into())
    }

    /// The resources there are now.
    pub async fn list(&self) -> Vec<Entry> {
        let mut all = Vec::new();
        for source in self.0.iter() {
            all.extend(source.list().await);
        }
        all.truncate(LISTED);
        all
    }

    /// A mark for each of these URIs that may change, which differs once what is read there does.
    ///
    /// # Errors
    /// What keeps them from being looked at.
    pub async fn marks(
        &self,
        uris: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, String>, castellan_store::Error> {
        let mut all = BTreeMap::new();
        for source in self.0.iter() {
            let of_it = |uri: &&String| uri.split("://").next() == Some(source.scheme());
            let uris: Vec<&String> = uris.iter().filter(of_it).collect();
            let start = source.scheme().len() + "://".len();
            let names: Vec<&str> = uris.iter().filter_map(|uri| uri.get(start..)).collect();
            if names.is_empty() {
                continue;
            }
            let marks = source.marks(&names).await?;
            all.extend(uris.into_iter().cloned().zip(marks));
        }
        Ok(all)
    }

    /// A mark of the whole list.
    pub async fn list_mark(&self) -> String {
        let entries = self.list().await;
        let uris: Vec<_> = entries.into_iter().map(|entry| entry.uri).collect();
        uris.join("\n")
    }

    /// The kinds of resource there are.
    #[must_use]
    pub fn templates(&self) -> Vec<Template> {
        self.0
            .iter()
            .flat_map(|source| source.templates())
            .collect()
    }

    /// What the open part of a template could be, given how it begins.
    pub async fn complete(&self, template: &str, typed: &str) -> Vec<String> {
        let Some((scheme, _)) = template.split_once("://") else {
            return Vec::new();
        };
        let Some(source) = self.0.iter().find(|source| source.scheme() == scheme) else {
            return Vec::new();
        };
        let entries = source.list().await;
        let names = entries
            .iter()
            .filter_map(|entry| entry.uri.split_once("://"));
        names
            .map(|(_, name)| name)
            .filter(|name| name.starts_with(typed))
            .map(str::to_owned)
            .take(OFFERED)
            .collect()
    }

    async fn read(&self, uri: &str, caller: &Caller) -> Result<(String, Content), Outcome> {
        let schemes: Vec<_> = self
            .0
            .iter()
            .map(|one| format!("{}://", one.scheme()))
            .collect();
        let Some((scheme, name)) = uri.split_once("://") else {
            let what = format!("`{}` is no URI", castellan_core::text::shorten(uri, 100));
            return Err(Outcome::invalid(
                what,
                format!("the schemes are {}", schemes.join(", ")),
            ));
        };
        let Some(source) = self.0.iter().find(|source| source.scheme() == scheme) else {
            let scheme = castellan_core::text::shorten(scheme, 40);
            return Err(missing(
                format!("nothing is read by `{scheme}://`"),
                format!("the schemes are {}", schemes.join(", ")),
            ));
        };
        if let Some(read) = source.read(name, caller).await? {
            return Ok((read.media_type, Content::Text(read.text)));
        }
        if let Some(read) = source.bytes(name, caller).await? {
            if read.bytes.len() > MOST_BYTES {
                let size = read.bytes.len();
                let what = format!("it has {size} bytes, and {MOST_BYTES} are read at once");
                return Err(Outcome::failed(what, ""));
            }
            return Ok((read.media_type, Content::Bytes(read.bytes)));
        }
        let there: Vec<_> = source
            .list()
            .await
            .into_iter()
            .map(|entry| entry.uri)
            .take(5)
            .collect();
        let next = if there.is_empty() {
            format!("there is nothing under {scheme}:// yet")
        } else {
            format!("there are {}", there.join(", "))
        };
        let uri = castellan_core::text::shorten(uri, 200);
        Err(missing(format!("there is no `{uri}`"), next))
    }
}

fn missing(what: String, next: String) -> Outcome {
    Outcome::Failed {
        output: String::new(),
        code: ErrorCode::NotFound,
        what,
        effect: EffectStatus::None,
        retry: Retry::Useful,
        next,
    }
}

/// The arguments of `castellan_read_resource`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// The URI: `genome://current`, `genome://VERSION`, `blackboard://SLOT`, `episode://ID` or
    /// `pane://ID`.
    uri: String,
}

/// What `castellan_read_resource` answers.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Read {
    ok: bool,
    /// What was read.
    uri: String,
    /// The media type.
    media_type: String,
    /// What it holds, where that is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// How many bytes it holds, where that is no text; they stand beside this answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
}

/// `castellan_read_resource` over this shelf.
#[must_use]
pub fn tool(shelf: Shelf) -> Arc<dyn Tool> {
    let mut spec = ToolSpec::new::<Params>(
        READ,
        "substrate",
        "Read a resource by its typed URI (genome, blackboard, episode, pane)",
        "Reads what a URI names: the harness as it is (`genome://current`) or was \
         (`genome://VERSION`), a slot of the blackboard (`blackboard://SLOT`), the record of an \
         episode (`episode://ID`) or the last screen of a pane (`pane://ID`).",
    );
    spec.primary_key = Some("uri".to_owned());
    spec.examples = vec![json!({"uri": "genome://current"})];
    spec.preconditions = vec!["the resource exists".to_owned()];
    spec.effects = vec![Effect::ReadOnly];
    spec.surfaces = vec![Surface::Mcp, Surface::Episode];
    spec.default = DefaultDecision::Allow;
    spec.output_schema = Some(result_schema::<Read>());
    Arc::new(Typed::new(ReadResource { spec, shelf }))
}

struct ReadResource {
    spec: ToolSpec,
    shelf: Shelf,
}

impl TypedTool for ReadResource {
    type Params = Params;
    type Plan = ();

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn inspect<'a>(
        &'a self,
        params: &'a Params,
        _view: &'a SessionView,
    ) -> BoxFuture<'a, Result<(Inspection, ()), Outcome>> {
        let inspection = Inspection::new(READ, format!("read {}", params.uri));
        futures::future::ready(Ok((inspection, ()))).boxed()
    }

    fn execute(
        self: Arc<Self>,
        params: Params,
        (): (),
        context: CallContext,
    ) -> BoxFuture<'static, Report> {
        async move {
            match self.shelf.read(&params.uri, &context.caller).await {
                Ok((media_type, content)) => report(params.uri, media_type, content),
                Err(outcome) => outcome.into(),
            }
        }
        .boxed()
    }
}

/// What was read: text in the answer itself, anything else beside it.
fn report(uri: String, media_type: String, content: Content) -> Report {
    let mut read = Read {
        ok: true,
        uri,
        media_type,
        text: None,
        bytes: None,
    };
    let bytes = match content {
        Content::Text(text) => {
            read.text = Some(text);
            return crate::meta::answered(&read).into();
        }
        Content::Bytes(bytes) => bytes,
    };
    read.bytes = Some(bytes.len());
    let mut report = Report::from(crate::meta::answered(&read));
    report.blocks.push(Block::Resource {
        uri: read.uri,
        media_type: Some(read.media_type),
        content: Content::Bytes(bytes),
    });
    report
}
