//! `diff_file`: a unified diff of two files, or of a file and a given text.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use castellan_core::Outcome;
use castellan_core::text::counted;
use castellan_core::tool::{
    CallContext, Inspection, Report, SessionEffect, SessionView, ToolSpec, TypedTool,
};
use futures::future::{BoxFuture, FutureExt as _};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::blocking;
use crate::file::compare;
use crate::file::diff::CONTEXT;
use crate::file::text::{Binary, Text};
use crate::file::{self, Closed, Place, Recent, Spelling, explain, shown, spec};

/// Larger files are not compared: both are held in memory, cut into lines.
const LARGEST: u64 = 32 * 1024 * 1024;
/// Bytes of a result kept free for what stands around the diff.
const AROUND: usize = 8 * 1024;
/// The most lines of context.
const MOST_CONTEXT: usize = 20;

/// The arguments of `diff_file`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// The old file: absolute path, or relative to the working folder.
    path_a: PathBuf,
    /// The new file. Give this or content_b.
    path_b: Option<PathBuf>,
    /// The new text. Give this or path_b.
    content_b: Option<String>,
    /// Unchanged lines shown around each change. Default 3, at most 20.
    #[schemars(range(min = 0, max = 20))]
    context_lines: Option<i64>,
}

impl Params {
    fn context(&self) -> Option<usize> {
        let Some(lines) = self.context_lines else {
            return Some(CONTEXT);
        };
        usize::try_from(lines)
            .ok()
            .filter(|lines| *lines <= MOST_CONTEXT)
    }
}

/// The files to compare, links followed.
#[derive(Debug)]
pub struct Plan {
    old: PathBuf,
    new: Option<PathBuf>,
}

/// The tool.
#[derive(Debug)]
pub struct DiffFile {
    spec: ToolSpec,
    closed: Closed,
    recent: Recent,
}

impl DiffFile {
    /// The tool, which doesn't enter what is `closed`.
    #[must_use]
    pub fn new(closed: Closed) -> Self {
        let mut spec = spec::reading::<Params>(
            "diff_file",
            "Show a unified diff of two files, or of a file and a text",
            "Compare two text files, or a file and a text: a unified diff from path_a (old) to \
             path_b or content_b (new). Encodings and line ends are not part of the diff; where \
             they differ, it is said. Files compared here count as read for edit_file.",
        );
        spec.primary_key = Some("path_a".to_owned());
        spec.examples = vec![
            serde_json::json!({"path_a": "config.old.toml", "path_b": "config.toml"}),
            serde_json::json!({"path_a": "notes.md", "content_b": "# Notes\n", "context_lines": 1}),
        ];
        spec.preconditions = vec!["the paths name regular text files".to_owned()];
        Self {
            spec,
            closed,
            recent: Recent::default(),
        }
    }

    /// The tool, which shares with others what files had in them.
    #[must_use]
    pub fn remembering(mut self, recent: &Recent) -> Self {
        self.recent = recent.clone();
        self
    }
}

impl TypedTool for DiffFile {
    type Params = Params;
    type Plan = Plan;

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, params: &Params) -> Result<(), Outcome> {
        match (&params.path_b, &params.content_b) {
            (None, None) => {
                let what = "there is nothing to compare with";
                return Err(Outcome::invalid(what, "give path_b or content_b"));
            }
            (Some(_), Some(_)) => {
                let what = "path_b and content_b exclude each other";
                return Err(Outcome::invalid(what, "give one of them"));
            }
            _ => {}
        }
        if params.context().is_none() {
            let what = format!(
                "`context_lines` is {}",
                params.context_lines.unwrap_or_default()
            );
            return Err(Outcome::invalid(what, "it goes from 0 to 20"));
        }
        Ok(())
    }

    fn inspect<'a>(
        &'a self,
        params: &'a Params,
        view: &'a SessionView,
    ) -> BoxFuture<'a, Result<(Inspection, Plan), Outcome>> {
        let (old, new) = (params.path_a.clone(), params.path_b.clone());
        let (cwd, closed) = (view.cwd.clone(), self.closed.clone());
        let work = move || {
            let find = |path: PathBuf| {
                Place::find(&cwd, &path, Spelling::Alike, &closed).map(|place| place.path)
            };
            Ok(Plan {
                old: find(old)?,
                new: new.map(find).transpose()?,
            })
        };
        async move {
            let plan: Plan = blocking("looking", work).await?;
            let other = params
                .path_b
                .as_ref()
                .map_or_else(|| "a text".to_owned(), |path| shown(path));
            let header = format!(
                "compare {} with {other}{}",
                shown(&params.path_a),
                view.elsewhere(&params.path_a)
            );
            let mut inspection = Inspection::new("diff_file", header);
            inspection.paths = std::iter::once(&plan.old)
                .chain(&plan.new)
                .cloned()
                .collect();
            Ok((inspection, plan))
        }
        .boxed()
    }

    fn execute(
        self: Arc<Self>,
        params: Params,
        plan: Plan,
        context: CallContext,
    ) -> BoxFuture<'static, Report> {
        let limit = context.view.result_limit;
        let recent = self.recent.clone();
        let work = move || compare(&params, &plan, limit, &recent);
        blocking("comparing", work)
            .map(|done| done.unwrap_or_else(Report::from))
            .boxed()
    }
}

/// One side of the comparison.
struct Side {
    name: String,
    text: Text,
    size: usize,
}

fn load(path: &Path, recent: &Recent) -> Result<(Side, SessionEffect), Outcome> {
    let name = shown(path);
    let mut opened = file::open_resolved(path)?;
    let loaded = file::load(&mut opened.file, &opened.metadata, LARGEST)
        .map_err(|error| explain(path, &error))?;
    let Some((bytes, mark)) = loaded else {
        let what = format!("{name} is larger than {LARGEST} bytes");
        return Err(Outcome::failed(what, "use `bash` with `diff` or `cmp`"));
    };
    let size = bytes.len();
    recent.keep(&mark, &[&bytes]);
    let text = Text::decode(bytes).map_err(|Binary(kind)| {
        let what = format!("{name} is {kind}; diff_file compares text");
        Outcome::failed(what, "`bash` with `cmp` compares bytes")
    })?;
    let seen = SessionEffect::FileSeen {
        path: opened.path,
        mark,
    };
    Ok((Side { name, text, size }, seen))
}

fn compare(params: &Params, plan: &Plan, limit: usize, recent: &Recent) -> Result<Report, Outcome> {
    let (old, seen) = load(&plan.old, recent)?;
    let mut session = vec![seen];
    let new = match (&plan.new, &params.content_b) {
        (Some(path), _) => {
            let (side, seen) = load(path, recent)?;
            session.push(seen);
            side
        }
        (None, content) => given(content.clone().unwrap_or_default())?,
    };
    let context = params.context().unwrap_or(CONTEXT);
    let diff = compare::unified(&old.text, &new.text, context, limit.saturating_sub(AROUND));
    let notes = notes(&old, &new, plan.new.is_some());
    let mut output = if diff.text.is_empty() {
        same(&old, &new, notes.is_empty())
    } else {
        let (added, removed) = (diff.added, diff.removed);
        format!(
            "--- {}\n+++ {}\n{}[+{added} -{removed} lines]\n",
            old.name, new.name, diff.text
        )
    };
    output.push_str(diff.cut_note());
    for note in notes {
        output.push_str(&format!("[{note}]\n"));
    }
    Ok(Report {
        session,
        ..Outcome::read(output).into()
    })
}

/// A text that a model gave.
fn given(content: String) -> Result<Side, Outcome> {
    let size = content.len();
    if size as u64 > LARGEST {
        return Err(Outcome::failed(
            "content_b is too long",
            "write it to a file first",
        ));
    }
    let text = Text::decode(content.into_bytes()).map_err(|Binary(kind)| {
        Outcome::failed(format!("content_b is {kind}; diff_file compares text"), "")
    })?;
    let name = "content_b".to_owned();
    Ok(Side { name, text, size })
}

fn same(old: &Side, new: &Side, wholly: bool) -> String {
    if wholly {
        format!(
            "no differences between {} and {} ({})\n",
            old.name,
            new.name,
            counted(old.size, "byte")
        )
    } else {
        format!("the text of {} and {} is the same\n", old.name, new.name)
    }
}

/// Differences that are not of the text. A given text has none of its own.
fn notes(old: &Side, new: &Side, two_files: bool) -> Vec<String> {
    if two_files {
        compare::beside_text(&old.text, &new.text)
    } else {
        let note = old.text.encoding().note();
        note.map(str::to_owned).into_iter().collect()
    }
}
