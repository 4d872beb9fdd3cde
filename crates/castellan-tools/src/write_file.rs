//! `write_file`: creates a file, replaces its content or appends to it.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use castellan_core::caller::Surface;
use castellan_core::text::shorten;
use castellan_core::tool::{
    CallContext, Effect, FileMark, Inspection, Left, Preview, Report, SessionEffect, SessionView,
    ToolSpec, TypedTool,
};
use castellan_core::{EffectStatus, Outcome};
use futures::future::{BoxFuture, FutureExt as _};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::DOMAIN;
use crate::file::text::{Encoding, Extent, LineEnds, Text, Unencodable, detect};
use crate::file::{self, Addition, Closed, Problem};

/// How much of the content a preview shows, in characters.
const PREVIEWED: usize = 2000;
/// Bytes of a file that tell how it is text, where not all of them are read.
const SNIFFED: u64 = 64 * 1024;
/// Bytes of a file that are read to replace them in kind.
const REWRITTEN: u64 = 64 * 1024 * 1024;

/// The arguments of `write_file`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Absolute path, or relative to the working folder. Missing folders are created.
    path: PathBuf,
    /// The whole content to write.
    content: String,
    /// `overwrite` (default) replaces the file, `append` adds to its end.
    #[serde(default)]
    mode: Mode,
}

/// What is done with existing content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Overwrite,
    Append,
}

/// What was there when the call was inspected.
#[derive(Debug)]
pub struct Plan {
    target: PathBuf,
    before: Option<FileMark>,
}

/// The tool.
#[derive(Debug)]
pub struct WriteFile {
    spec: ToolSpec,
    closed: Closed,
}

impl WriteFile {
    /// The tool, which doesn't enter what is `closed`.
    #[must_use]
    pub fn new(closed: Closed) -> Self {
        let mut spec = ToolSpec::new::<Params>(
            "write_file",
            DOMAIN,
            "Create a file, replace its content, or append to it",
            "Write a file: create it, replace its whole content, or append. Folders on the way are \
             created. Links are followed; mode and owner of an existing file stay. A file that \
             changed since this session read it is not overwritten.",
        );
        spec.primary_key = Some("content".to_owned());
        spec.examples = vec![
            serde_json::json!({"path": "notes/todo.md", "content": "- first\n"}),
            serde_json::json!({"path": "run.log", "content": "done\n", "mode": "append"}),
        ];
        spec.preconditions = vec![
            "an existing file is writable and unchanged since this session read it".to_owned(),
        ];
        spec.side_effects = vec!["the file has the new content".to_owned()];
        spec.effects = vec![Effect::Writes];
        spec.surfaces = vec![Surface::Interactive, Surface::TaskAgent];
        spec.cwd_note = Some("Relative paths are under {working_dir}.".to_owned());
        Self { spec, closed }
    }
}

impl TypedTool for WriteFile {
    type Params = Params;
    type Plan = Plan;

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn inspect<'a>(
        &'a self,
        params: &'a Params,
        view: &'a SessionView,
    ) -> BoxFuture<'a, Result<(Inspection, Plan), Outcome>> {
        let path = view.absolute(&params.path);
        async move {
            file::require_folder(&params.path, view)?;
            let looked = tokio::task::spawn_blocking(move || look(&path)).await;
            let (target, before) = looked
                .map_err(|error| Outcome::failed(format!("looking broke down: {error}"), ""))??;
            self.closed.refuse(&target)?;
            let known = view.seen.get(&target);
            if params.mode == Mode::Overwrite
                && let (Some(known), Some(before)) = (known, &before)
                && known != before
            {
                return Err(stale(
                    &target,
                    "since this session last read it",
                    known,
                    before,
                ));
            }
            let (label, action) = match (&before, params.mode) {
                (None, _) => ("write_file", "create"),
                (Some(_), Mode::Overwrite) => ("overwrite_file", "overwrite"),
                (Some(_), Mode::Append) => ("append_file", "append"),
            };
            let bytes = params.content.len();
            let place = view.elsewhere(&params.path);
            let header = format!("{action} {} ({bytes} bytes){place}", params.path.display());
            let mut inspection = Inspection::new(label, header);
            inspection.paths = vec![target.clone()];
            inspection.preview = Preview::File {
                path: target.clone(),
                action: action.to_owned(),
                bytes: bytes as u64,
                beginning: shorten(&params.content, PREVIEWED),
                before: before.clone(),
                note: if action == "overwrite" && known.is_none() {
                    "this session has not read the file it would replace".to_owned()
                } else {
                    String::new()
                },
            };
            Ok((inspection, Plan { target, before }))
        }
        .boxed()
    }

    fn execute(
        self: Arc<Self>,
        params: Params,
        plan: Plan,
        context: CallContext,
    ) -> BoxFuture<'static, Report> {
        async move {
            tokio::task::spawn_blocking(move || write(&params, &plan, &context.left))
                .await
                .unwrap_or_else(|error| {
                    Outcome::failed(format!("writing broke down: {error}"), "").into()
                })
        }
        .boxed()
    }
}

/// Where the path leads and what is there.
fn look(path: &Path) -> Result<(PathBuf, Option<FileMark>), Outcome> {
    let target = file::resolve(path)?;
    match file::open(&target) {
        Ok(mut opened) => {
            let mark = file::mark(&mut opened.file, &opened.metadata).map_err(|error| {
                Outcome::failed(format!("{} can't be read: {error}", target.display()), "")
            })?;
            Ok((target, Some(mark)))
        }
        Err(Problem::Missing(_)) => Ok((target, None)),
        Err(problem) => Err(problem.into()),
    }
}

fn stale(target: &Path, when: &str, before: &FileMark, now: &FileMark) -> Outcome {
    let sizes = if before.size == now.size {
        format!("same size, {} bytes, other content", now.size)
    } else {
        format!("{} bytes then, {} bytes now", before.size, now.size)
    };
    Outcome::failed(
        format!(
            "{} changed {when} ({sizes}); nothing was written",
            target.display()
        ),
        "read it again and decide anew",
    )
}

fn write(params: &Params, plan: &Plan, left: &Left) -> Report {
    let attempt = || -> Result<Report, Outcome> {
        let now = look(&plan.target)?.1;
        // An earlier call of the same batch may have written it; adding to a file needs no more
        // than that it is there.
        let expected = now.as_ref().is_some_and(|now| left.has(&plan.target, now));
        match (&plan.before, &now) {
            _ if expected || params.mode == Mode::Append => {}
            (Some(before), Some(now)) if before != now => {
                return Err(stale(&plan.target, "while the call waited", before, now));
            }
            (None, Some(_)) => {
                let what = format!("{} appeared while the call waited", plan.target.display());
                return Err(Outcome::failed(what, "read it and decide anew"));
            }
            _ => {}
        }
        let Bytes {
            bytes,
            addition,
            note,
        } = content(params, plan, now.is_some())?;
        file::save(&plan.target, &bytes, addition)?;
        // It is written; that it can't be looked at again would be no failure to write it.
        let mark = look(&plan.target).ok().and_then(|(_, mark)| mark);
        let done = match (now.is_some(), addition) {
            (false, _) => "created",
            (true, Addition::Replace) => "replaced the content of",
            (true, Addition::Append) => "appended to",
        };
        let size = mark.as_ref().map_or(bytes.len() as u64, |mark| mark.size);
        let output = format!("{done} {} ({size} bytes now{note})", plan.target.display());
        Ok(Report {
            outcome: Outcome::Done {
                output,
                effect: EffectStatus::Committed,
            },
            pictures: Vec::new(),
            session: mark
                .map(|mark| SessionEffect::FileSeen {
                    path: plan.target.clone(),
                    mark,
                })
                .into_iter()
                .collect(),
        })
    };
    attempt().unwrap_or_else(Report::from)
}

/// What to write, and how.
struct Bytes {
    bytes: Vec<u8>,
    addition: Addition,
    /// What was kept of how the file is text, or not; may be empty.
    note: String,
}

/// The bytes to write. Encoding, byte order mark and CRLF line ends of the file stay: models never
/// see them, so they can't send them back.
fn content(params: &Params, plan: &Plan, exists: bool) -> Result<Bytes, Outcome> {
    let addition = match params.mode {
        Mode::Append => Addition::Append,
        Mode::Overwrite => Addition::Replace,
    };
    let plain = |note: &str| Bytes {
        bytes: params.content.clone().into_bytes(),
        addition,
        note: note.to_owned(),
    };
    let Some(text) = (if exists {
        present(plan, addition)?
    } else {
        None
    }) else {
        return Ok(plain(""));
    };
    let made = match addition {
        Addition::Append => text.added(&params.content),
        Addition::Replace => text.rewritten(&params.content),
    };
    match made {
        Ok(bytes) => Ok(Bytes {
            note: kept(&text),
            bytes,
            addition,
        }),
        // A whole new text may be in another encoding, but not one that has lost what was there.
        Err(_) if addition == Addition::Replace && !params.content.contains('\u{fffd}') => {
            Ok(plain(&format!(
                "; it was {} and is UTF-8 now",
                text.encoding().name()
            )))
        }
        Err(Unencodable(what)) => Err(Outcome::failed(
            format!("{what}; nothing was written"),
            "change it in place with edit_file, or convert the file first",
        )),
    }
}

/// What is kept that a model did not send, in words.
fn kept(text: &Text) -> String {
    let mut kept = Vec::new();
    if text.encoding() != Encoding::Utf8 {
        kept.push(text.encoding().name());
    }
    if text.line_ends() == LineEnds::CrLf {
        kept.push("CRLF line ends");
    }
    if kept.is_empty() {
        String::new()
    } else {
        format!("; as before: {}", kept.join(", "))
    }
}

/// The text of the file as it is, or of its beginning; `None` where it is no text, or so large
/// that its beginning must do and doesn't.
fn present(plan: &Plan, addition: Addition) -> Result<Option<Text>, Outcome> {
    let opened = file::open(&plan.target)?;
    let limit = match addition {
        Addition::Replace => REWRITTEN,
        // Adding to a file must not cost more the longer it is.
        Addition::Append => SNIFFED,
    };
    let mut bytes = Vec::new();
    opened
        .file
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| {
            Outcome::failed(
                format!("{} can't be read: {error}", plan.target.display()),
                "",
            )
        })?;
    if bytes.len() as u64 == limit {
        let whole = match detect(&bytes, Extent::Beginning) {
            Ok((Encoding::Utf16Le | Encoding::Utf16Be, _)) => bytes.len() - bytes.len() % 2,
            _ => bytes
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1),
        };
        bytes.truncate(whole);
    }
    Ok(Text::decode(bytes).ok())
}
