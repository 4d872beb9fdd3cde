//! `write_file`: creates a file, replaces its content or appends to it.

mod preview;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use castellan_core::secret::Redaction;
use castellan_core::tool::{
    CallContext, FileMark, Inspection, Preview, Report, SessionEffect, SessionView, ToolSpec,
    TypedTool,
};
use castellan_core::{EffectStatus, Outcome};
use futures::future::{BoxFuture, FutureExt as _};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::blocking;
use crate::file::text::{Encoding, Extent, LineEnds, Text, Unencodable, detect};
use crate::file::{
    self, Beginning, Closed, EDITED_UP_TO, Identity, Opened, Place, Problem, Recent, Spelling,
    concealed, explain, shown, spec,
};

/// Bytes that tell how a file is text to which something is added.
const SNIFFED: u64 = 64 * 1024;
/// Bytes that tell how a file is text that is replaced in kind.
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

/// What permissions for calls that replace a file's content are called.
const OVERWRITES: &str = "overwrite_file";
/// What those for calls that add to a file are called.
const APPENDS: &str = "append_file";

/// What is done with existing content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Overwrite,
    Append,
}

impl Mode {
    /// How many bytes at the beginning of a file tell how it is text.
    const fn told_by(self) -> u64 {
        match self {
            Self::Overwrite => REWRITTEN,
            // Adding to a file must not cost more the longer it is.
            Self::Append => SNIFFED,
        }
    }
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
    recent: Recent,
}

impl WriteFile {
    /// The tool, which doesn't enter what is `closed`.
    #[must_use]
    pub fn new(closed: Closed) -> Self {
        let mut spec = spec::writing::<Params>(
            "write_file",
            "Create a file, replace its content, or append to it",
            "Write a file: create it, replace its whole content, or append. Folders on the way are \
             created. Links are followed; mode and owner of an existing file stay. A file that \
             changed since this session read it is not overwritten.",
        );
        spec.labels = vec![OVERWRITES.to_owned(), APPENDS.to_owned()];
        spec.primary_key = Some("content".to_owned());
        spec.examples = vec![
            serde_json::json!({"path": "notes/todo.md", "content": "- first\n"}),
            serde_json::json!({"path": "run.log", "content": "done\n", "mode": "append"}),
        ];
        spec.preconditions = vec![
            "an existing file is writable and unchanged since this session read it".to_owned(),
        ];
        spec.side_effects = vec!["the file has the new content".to_owned()];
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
        let (asked, view_of) = (params.clone(), view.clone());
        let (closed, recent) = (self.closed.clone(), self.recent.clone());
        async move {
            let look = move || look(&asked, &view_of, &closed, &recent);
            let Looked {
                target,
                before,
                preview,
            } = blocking("looking", look).await?;
            let (label, action) = match (&before, params.mode) {
                (None, _) => ("write_file", "create"),
                (Some(_), Mode::Overwrite) => (OVERWRITES, "overwrite"),
                (Some(_), Mode::Append) => (APPENDS, "append"),
            };
            let bytes = params.content.len();
            let place = view.elsewhere(&params.path);
            let header = format!(
                "{action} {} ({}){place}",
                shown(&params.path),
                castellan_core::text::counted(bytes, "byte")
            );
            let mut inspection = Inspection::new(label, header);
            inspection.paths = vec![target.clone()];
            inspection.preview = preview;
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
        let work = move || write(&params, &plan, &context, &self.recent);
        blocking("writing", work)
            .map(|done| done.unwrap_or_else(Report::from))
            .boxed()
    }
}

/// What a call finds before it is judged.
struct Looked {
    target: PathBuf,
    before: Option<FileMark>,
    preview: Preview,
}

fn look(
    params: &Params,
    view: &SessionView,
    closed: &Closed,
    recent: &Recent,
) -> Result<Looked, Outcome> {
    let target = Place::find(&view.cwd, &params.path, Spelling::Same, closed)?.path;
    let wanted = |size| match params.mode {
        Mode::Overwrite if size <= EDITED_UP_TO => size,
        Mode::Overwrite | Mode::Append => 0,
    };
    let there = look_at(&target, wanted)?;
    let before = there.as_ref().map(|there| there.content.mark.clone());
    if there.is_some() {
        file::require_kept(&target)?;
    }
    let known = view.seen.get(&target);
    if params.mode == Mode::Overwrite
        && let Some(there) = &there
    {
        let now = &there.content.mark;
        if let Some(known) = known
            && known != now
        {
            let change = recent.change(known, &there.content.bytes);
            let when = "since this session last read it";
            return Err(stale(&target, when, (known, now), &change));
        }
        keep_secrets(
            &target,
            &there.content.bytes,
            &params.content,
            &view.redaction,
        )?;
    }
    let preview = preview::preview(&target, params, there, known.is_some())?;
    Ok(Looked {
        target,
        before,
        preview,
    })
}

/// A secret in what is there is not overwritten by what is shown in its place.
fn keep_secrets(
    target: &Path,
    present: &[u8],
    content: &str,
    redaction: &Redaction,
) -> Result<(), Outcome> {
    if !concealed::is_marked(content) {
        return Ok(());
    }
    match Text::decode(present.to_owned()) {
        Ok(text) => concealed::keep(target, &text.show(text.content()), content, redaction),
        Err(_) => concealed::keep(
            target,
            &String::from_utf8_lossy(present),
            content,
            redaction,
        ),
    }
}

/// What is in a file.
struct There {
    content: Beginning,
    identity: Identity,
}

/// What is at a path that was resolved before, with as many of its first bytes as are `wanted` of a
/// file of its size.
fn look_at(target: &Path, wanted: impl Fn(u64) -> u64) -> Result<Option<There>, Outcome> {
    match file::open_resolved(target) {
        Ok(Opened {
            mut file, metadata, ..
        }) => {
            let content = file::beginning(&mut file, &metadata, wanted(metadata.len()))
                .map_err(|error| explain(target, &error))?;
            let identity = Identity::of(&metadata);
            Ok(Some(There { content, identity }))
        }
        Err(Problem::Missing(_)) => {
            file::require_unmoved(target)?;
            Ok(None)
        }
        Err(problem) => Err(problem.into()),
    }
}

fn stale(
    target: &Path,
    when: &str,
    (before, now): (&FileMark, &FileMark),
    change: &str,
) -> Outcome {
    Outcome::failed(
        format!(
            "{} changed {when} ({}); nothing was written",
            shown(target),
            file::difference(before, now)
        ),
        format!("read it again and decide anew{change}"),
    )
}

fn write(
    params: &Params,
    plan: &Plan,
    context: &CallContext,
    recent: &Recent,
) -> Result<Report, Outcome> {
    let (view, left) = (&context.view, &context.left);
    let target = &plan.target;
    let mut there = look_at(target, |_| params.mode.told_by())?;
    let now = there.as_ref().map(|there| &there.content.mark);
    // An earlier call of the same batch may have written it; adding to a file needs no more than
    // that it is there.
    let expected = now.is_some_and(|now| left.has(target, now));
    match (&plan.before, now) {
        _ if expected || params.mode == Mode::Append => {}
        (Some(before), Some(now)) if before != now => {
            let there = there.as_ref();
            let change = there.map(|there| recent.change(before, &there.content.bytes));
            let change = change.unwrap_or_default();
            let marks = (before, now);
            return Err(stale(target, "while the call waited", marks, &change));
        }
        (None, Some(_)) => {
            let what = format!("{} appeared while the call waited", shown(target));
            return Err(Outcome::failed(what, "read it and decide anew"));
        }
        _ => {}
    }
    if let Some(there) = &there
        && params.mode == Mode::Overwrite
    {
        let redaction = &context.redaction;
        keep_secrets(target, &there.content.bytes, &params.content, redaction)?;
    }
    let present = there.as_mut().and_then(|there| {
        let bytes = std::mem::take(&mut there.content.bytes);
        present(bytes, params.mode)
    });
    let Bytes { bytes, note } = content(params, present.as_ref())?;
    let (done, size, mark) = match (there, params.mode) {
        (Some(there), Mode::Append) => {
            let (before, now) = file::append(target, &bytes)?;
            let size = now.len();
            // Where more has happened to it, nobody has read that.
            let alone =
                before == there.identity && size == there.content.mark.size + bytes.len() as u64;
            let known = expected || view.seen.get(target) == Some(&there.content.mark);
            let mark = (alone && known).then(|| there.content.grown(&bytes, &now));
            ("appended to", size, mark)
        }
        (there, _) => {
            let before = there.as_ref().map(|there| &there.identity);
            let mark = file::replace(target, &[&bytes], before)?;
            recent.keep(&mark, &[&bytes]);
            let done = match there {
                Some(_) => "replaced the content of",
                None => "created",
            };
            (done, bytes.len() as u64, Some(mark))
        }
    };
    let output = format!(
        "{done} {} ({} now{note})",
        shown(target),
        castellan_core::text::counted(size, "byte")
    );
    let path = target.clone();
    let outcome = Outcome::Done {
        output,
        effect: EffectStatus::Committed,
    };
    Ok(Report {
        session: mark
            .map(|mark| SessionEffect::FileSeen { path, mark })
            .into_iter()
            .collect(),
        ..outcome.into()
    })
}

/// What to write.
struct Bytes {
    bytes: Vec<u8>,
    /// What was kept of how the file is text, or not; may be empty.
    note: String,
}

/// The bytes to write. Encoding, byte order mark and CRLF line ends of the file stay: models never
/// see them, so they can't send them back.
fn content(params: &Params, present: Option<&Text>) -> Result<Bytes, Outcome> {
    let plain = |note: &str| Bytes {
        bytes: params.content.clone().into_bytes(),
        note: note.to_owned(),
    };
    let Some(text) = present else {
        return Ok(plain(""));
    };
    let made = match params.mode {
        Mode::Append => text.added(&params.content),
        Mode::Overwrite => text.rewritten(&params.content),
    };
    match made {
        Ok(bytes) => Ok(Bytes {
            note: kept(text),
            bytes,
        }),
        // A whole new text may be in another encoding, but not one that has lost what was there.
        Err(_) if params.mode == Mode::Overwrite && !params.content.contains('\u{fffd}') => {
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

/// The text of a file that begins with `bytes`, or of its beginning; `None` where it is no text, or
/// so large that its beginning must do and doesn't.
fn present(mut bytes: Vec<u8>, mode: Mode) -> Option<Text> {
    let limit = usize::try_from(mode.told_by()).unwrap_or(usize::MAX);
    if bytes.len() >= limit {
        bytes.truncate(limit);
        let whole = match detect(&bytes, Extent::Beginning) {
            Ok((Encoding::Utf16Le | Encoding::Utf16Be, _)) => limit - limit % 2,
            _ => memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1),
        };
        bytes.truncate(whole);
    }
    Text::decode(bytes).ok()
}
