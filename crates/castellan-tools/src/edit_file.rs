//! `edit_file`: replaces text in a file, one place or several at once, and nothing else.

mod change;
mod locate;
mod nearest;
mod tolerant;

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
use crate::file::diff::Unified;
use crate::file::text::{Binary, Splice, Text, pieces};
use crate::file::{
    self, Closed, EDITED_UP_TO, HASHED_UP_TO, Identity, Opened, Place, Recent, Spelling, explain,
    shown, spec,
};
use change::{Change, Request};
use locate::Which;

/// Bytes of a diff that is shown.
const SHOWN: usize = 64 * 1024;
/// More places than this are located again instead of being kept while a call waits.
const KEPT: usize = 10_000;
/// Bytes of a file that are kept while a call waits, where that spares reading them again.
const HELD: usize = 64 * 1024 * 1024;

/// The arguments of `edit_file`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Absolute path, or relative to the working folder.
    path: PathBuf,
    /// The exact text to replace, without line numbers. It must be in the file once, unless
    /// near_line or replace_all is given.
    old_string: Option<String>,
    /// The text to put there, literally.
    new_string: Option<String>,
    /// Of several places, take the one nearest to this line, counted from 1.
    #[schemars(range(min = 1))]
    near_line: Option<i64>,
    /// Several edits at once instead of old_string and new_string: all are found in the file as it
    /// is, then all are made or none.
    edits: Option<Vec<Edit>>,
    /// Replace every occurrence of old_string. Not with near_line or edits.
    replace_all: Option<bool>,
}

/// One of several edits.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The exact text to replace.
    old_string: String,
    /// The text to put there.
    new_string: String,
    /// Of several places, take the one nearest to this line.
    #[schemars(range(min = 1))]
    near_line: Option<i64>,
}

impl Params {
    /// The edits of the call.
    fn requests(&self) -> Result<Vec<Request<'_>>, Outcome> {
        let batch = self.edits.as_deref().unwrap_or_default();
        let single = (
            self.old_string
                .as_deref()
                .filter(|old| batch.is_empty() || !old.is_empty()),
            self.new_string.as_deref(),
        );
        let requests = match (single, batch) {
            ((None, _), []) => {
                let what = "neither old_string with new_string nor edits is given";
                return Err(Outcome::invalid(what, ""));
            }
            ((Some(_), None), []) => {
                let next = "to delete text, send an empty new_string";
                return Err(Outcome::invalid("new_string is missing", next));
            }
            ((Some(old), Some(new)), []) => vec![Request {
                old,
                new,
                which: self.which()?,
            }],
            ((None, _), batch) if self.near_line.is_none() && self.replace_all != Some(true) => {
                let each = batch.iter().map(|edit| {
                    Ok(Request {
                        old: &edit.old_string,
                        new: &edit.new_string,
                        which: near(edit.near_line)?.map_or(Which::Only, Which::Near),
                    })
                });
                each.collect::<Result<_, Outcome>>()?
            }
            _ => {
                let what = "edits can't be combined with old_string, near_line or replace_all";
                return Err(Outcome::invalid(what, "put everything into edits"));
            }
        };
        if requests.iter().any(|request| request.old.is_empty()) {
            let next = "quote some text to change; write_file creates a file or replaces it whole";
            return Err(Outcome::invalid("old_string is empty", next));
        }
        Ok(requests)
    }

    fn which(&self) -> Result<Which, Outcome> {
        match (near(self.near_line)?, self.replace_all == Some(true)) {
            (None, false) => Ok(Which::Only),
            (Some(line), false) => Ok(Which::Near(line)),
            (None, true) => Ok(Which::All),
            (Some(_), true) => {
                let what = "replace_all and near_line contradict each other";
                Err(Outcome::invalid(what, "give one of them"))
            }
        }
    }
}

fn near(line: Option<i64>) -> Result<Option<u64>, Outcome> {
    let Some(line) = line else { return Ok(None) };
    match u64::try_from(line) {
        Ok(line) if line > 0 => Ok(Some(line)),
        _ => {
            let what = format!("`near_line` is {line}");
            Err(Outcome::invalid(what, "lines are counted from 1"))
        }
    }
}

/// What was there when the call was inspected.
#[derive(Debug)]
pub struct Plan {
    target: PathBuf,
    before: FileMark,
    /// What it makes of just these bytes.
    prepared: Option<Prepared>,
}

/// A change that is only to be made.
#[derive(Debug)]
struct Prepared {
    splices: Vec<Splice>,
    shown: Shown,
    /// All bytes of a file that is known by its identity and not too large. One that is known by
    /// its content is read again anyway.
    held: Option<Vec<u8>>,
}

/// What the answer says of the change.
#[derive(Debug)]
struct Shown {
    places: usize,
    notes: Vec<String>,
    diff: Unified,
}

/// The tool.
#[derive(Debug)]
pub struct EditFile {
    spec: ToolSpec,
    closed: Closed,
    recent: Recent,
}

impl EditFile {
    /// The tool, which doesn't enter what is `closed`.
    #[must_use]
    pub fn new(closed: Closed) -> Self {
        let mut spec = spec::writing::<Params>(
            "edit_file",
            "Replace text in a file, one place or several at once",
            "Replace exact text in a file that this session has read (read_file or diff_file). \
             old_string must be in the file once; near_line or replace_all say what to do where it \
             is there more often; edits makes several replacements at once, all or none. Every \
             other byte stays: line ends, encoding, mode, links. The answer is the diff.",
        );
        spec.primary_key = Some("old_string".to_owned());
        spec.examples = vec![
            serde_json::json!({"path": "src/main.rs", "old_string": "let n = 1;", "new_string": "let n = 2;"}),
            serde_json::json!({"path": "notes.md", "edits": [
                {"old_string": "teh", "new_string": "the", "near_line": 12},
                {"old_string": "- old item\n", "new_string": ""},
            ]}),
        ];
        spec.preconditions = vec![
            "this session has read the file and it has not changed since".to_owned(),
            "the file is text and writable".to_owned(),
        ];
        spec.side_effects = vec!["the replaced places of the file are changed".to_owned()];
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

impl TypedTool for EditFile {
    type Params = Params;
    type Plan = Plan;

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, params: &Params) -> Result<(), Outcome> {
        params.requests().map(drop)
    }

    fn inspect<'a>(
        &'a self,
        params: &'a Params,
        view: &'a SessionView,
    ) -> BoxFuture<'a, Result<(Inspection, Plan), Outcome>> {
        let (asked, cwd, closed) = (params.clone(), view.cwd.clone(), self.closed.clone());
        let recent = self.recent.clone();
        let (seen, redaction) = (view.seen.clone(), view.redaction.clone());
        let work = move || {
            let place = Place::find(&cwd, &asked.path, Spelling::Alike, &closed)?;
            let target = place.path;
            let Loaded {
                bytes,
                mark: before,
                ..
            } = load(&target, open(&target)?)?;
            let Some(known) = seen.get(&target) else {
                // What can't be edited needs no reading first.
                decode(&target, bytes)?;
                return Err(unread(&target));
            };
            require_same(&target, (known, &before), &bytes, &recent)?;
            inspection(&asked, target, (bytes, before), &redaction)
        };
        async move {
            let (mut inspection, plan) = blocking("looking", work).await?;
            inspection.header.push_str(&view.elsewhere(&params.path));
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
        let work = move || edit(&params, plan, &context, &self.recent);
        blocking("editing", work)
            .map(|done| done.unwrap_or_else(Report::from))
            .boxed()
    }
}

/// What a call would do, once all of it has been found possible.
fn inspection(
    params: &Params,
    target: PathBuf,
    (bytes, before): (Vec<u8>, FileMark),
    redaction: &Redaction,
) -> Result<(Inspection, Plan), Outcome> {
    let text = decode(&target, bytes)?;
    let change = Change::of(&text, &params.requests()?, redaction)?;
    let diff = change.diff(&text, SHOWN);
    let name = shown(&params.path);
    let header = match (change.replacements.len(), params.replace_all) {
        (count, Some(true)) => format!("edit {name}: replace all, {}", occurrences(count)),
        (1, _) => format!("edit {name}"),
        (count, _) => format!("edit {name} in {count} places"),
    };
    let mut inspection = Inspection::new("edit_file", header);
    inspection.paths = vec![target.clone()];
    inspection.preview = Preview::Diff {
        path: target.clone(),
        unified: format!("{}{}", diff.text, diff.cut_note()),
        added: diff.added as u64,
        removed: diff.removed as u64,
        note: change.notes.join("; "),
        before: Some(before.clone()),
    };
    let few = change.replacements.len() <= KEPT;
    let splices = few.then(|| text.splices(&change.replacements)).flatten();
    let prepared = splices.map(|splices| {
        let places = change.replacements.len();
        let notes = change.notes;
        let shown = Shown {
            places,
            notes,
            diff,
        };
        let is_held = before.size > HASHED_UP_TO && before.size <= HELD as u64;
        let held = if is_held { text.into_bytes() } else { None };
        Prepared {
            splices,
            shown,
            held,
        }
    });
    let plan = Plan {
        target,
        before,
        prepared,
    };
    Ok((inspection, plan))
}

fn occurrences(count: usize) -> String {
    if count == 1 {
        "1 occurrence".to_owned()
    } else {
        format!("{count} occurrences")
    }
}

/// What is in the file at `target`.
struct Loaded {
    bytes: Vec<u8>,
    mark: FileMark,
    identity: Identity,
}

fn open(target: &Path) -> Result<Opened, Outcome> {
    let opened = file::open_resolved(target)?;
    file::require_writable(target, &opened.metadata)?;
    Ok(opened)
}

fn load(target: &Path, mut opened: Opened) -> Result<Loaded, Outcome> {
    let loaded = file::load(&mut opened.file, &opened.metadata, EDITED_UP_TO)
        .map_err(|error| explain(target, &error))?;
    let Some((bytes, mark)) = loaded else {
        let what = format!("{} is larger than {EDITED_UP_TO} bytes", shown(target));
        return Err(Outcome::failed(what, "use `bash` with `sed`"));
    };
    Ok(Loaded {
        bytes,
        mark,
        identity: Identity::of(&opened.metadata),
    })
}

fn decode(target: &Path, bytes: Vec<u8>) -> Result<Text, Outcome> {
    Text::decode(bytes).map_err(|Binary(kind)| {
        let what = format!("{} is {kind}; edit_file changes text", shown(target));
        Outcome::failed(what, "")
    })
}

/// An edit is made to what the model has read, so it must have read it.
fn unread(target: &Path) -> Outcome {
    let what = format!("this session has not read {}", shown(target));
    Outcome::failed(what, "read it first with read_file or diff_file")
}

/// And the file must still be what it has read.
fn require_same(
    target: &Path,
    (known, now): (&FileMark, &FileMark),
    bytes: &[u8],
    recent: &Recent,
) -> Result<(), Outcome> {
    if known == now {
        return Ok(());
    }
    let what = format!(
        "{} changed since this session last read it ({})",
        shown(target),
        file::difference(known, now)
    );
    let change = recent.change(known, bytes);
    let next = format!("read it again and decide anew{change}");
    Err(Outcome::failed(what, next))
}

fn edit(
    params: &Params,
    plan: Plan,
    context: &CallContext,
    recent: &Recent,
) -> Result<Report, Outcome> {
    let Plan {
        target,
        before,
        mut prepared,
    } = plan;
    let mut opened = open(&target)?;
    let held = prepared.as_mut().and_then(|prepared| prepared.held.take());
    let loaded = match held {
        // What is known by its identity is compared without being read.
        Some(bytes) if mark(&target, &mut opened)? == before => Loaded {
            bytes,
            mark: before.clone(),
            identity: Identity::of(&opened.metadata),
        },
        _ => load(&target, opened)?,
    };
    // An earlier call of the same batch may have written it.
    if loaded.mark != before && !context.left.has(&target, &loaded.mark) {
        let what = format!(
            "{} changed while the call waited; nothing was written",
            shown(&target)
        );
        let change = recent.change(&before, &loaded.bytes);
        let next = format!("read it again and decide anew{change}");
        return Err(Outcome::failed(what, next));
    }
    let (mark, shown) = match prepared {
        Some(Prepared { splices, shown, .. }) if loaded.mark == before => {
            let content = pieces(&loaded.bytes, &splices);
            let mark = file::replace(&target, &content, Some(&loaded.identity))?;
            recent.keep(&mark, &content);
            (mark, shown)
        }
        _ => {
            let text = decode(&target, loaded.bytes)?;
            let change = Change::of(&text, &params.requests()?, &context.redaction)?;
            let content = text.replaced(&change.replacements);
            let mark = file::replace(&target, &[&content], Some(&loaded.identity))?;
            recent.keep(&mark, &[&content]);
            let shown = Shown {
                places: change.replacements.len(),
                diff: change.diff(&text, SHOWN),
                notes: change.notes,
            };
            (mark, shown)
        }
    };
    let outcome = Outcome::Done {
        output: answer(&target, &shown),
        effect: EffectStatus::Committed,
    };
    Ok(Report {
        session: vec![SessionEffect::FileSeen { path: target, mark }],
        ..Report::from(outcome)
    })
}

fn mark(target: &Path, opened: &mut Opened) -> Result<FileMark, Outcome> {
    let mark = file::mark(&mut opened.file, &opened.metadata);
    Ok(mark.map_err(|error| explain(target, &error))?)
}

fn answer(target: &Path, change: &Shown) -> String {
    let Shown {
        places,
        notes,
        diff,
    } = change;
    let mut output = format!(
        "edited {} ({places} place{}, +{} -{} lines)\n",
        shown(target),
        if *places == 1 { "" } else { "s" },
        diff.added,
        diff.removed,
    );
    for note in notes {
        output.push_str(&format!("[{note}]\n"));
    }
    output.push_str(&diff.text);
    output.push_str(diff.cut_note());
    output
}
