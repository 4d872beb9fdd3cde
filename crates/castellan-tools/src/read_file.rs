//! `read_file`: a page of a text file with numbered lines.

use std::io::{self, BufRead, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use castellan_core::caller::Surface;
use castellan_core::tool::{
    CallContext, DefaultDecision, Effect, Inspection, Report, SessionEffect, SessionView, ToolSpec,
    TypedTool,
};
use castellan_core::{EffectStatus, Outcome};
use futures::future::{BoxFuture, FutureExt as _};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::DOMAIN;
use crate::file::{self, Closed, Opened};

/// Longer lines are clipped, in characters.
const LINE_SHOWN: usize = 2000;
/// Bytes kept of a line; enough for the characters shown, whatever they are.
const LINE_KEPT: usize = LINE_SHOWN * 4;
/// Bytes of a result kept free for the notes around the lines.
const NOTES: usize = 1024;
/// Up to this size the lines after the page are counted, so that the total can be said.
const COUNTED_UP_TO: u64 = 32 * 1024 * 1024;
/// Bytes at the start of a file that its kind is told by.
const SNIFFED: usize = 8 * 1024;

/// The arguments of `read_file`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Absolute path, or relative to the working folder.
    path: PathBuf,
    /// Line to start from, counted from 1. Default 1.
    #[schemars(range(min = 1))]
    offset: Option<i64>,
    /// How many lines to read. Default: as many as fit.
    #[schemars(range(min = 1))]
    limit: Option<i64>,
}

/// The tool.
#[derive(Debug)]
pub struct ReadFile {
    spec: ToolSpec,
    closed: Closed,
}

impl ReadFile {
    /// The tool, which doesn't enter what is `closed`.
    #[must_use]
    pub fn new(closed: Closed) -> Self {
        let mut spec = ToolSpec::new::<Params>(
            "read_file",
            DOMAIN,
            "Read a text file with numbered lines",
            "Read a text file. Lines come back numbered, `NUMBER<tab>TEXT`; the numbers are not \
             part of the file. A long file comes in pages: the answer names the next offset.",
        );
        spec.primary_key = Some("path".to_owned());
        spec.examples = vec![
            serde_json::json!({"path": "src/main.rs"}),
            serde_json::json!({"path": "server.log", "offset": 1200, "limit": 100}),
        ];
        spec.preconditions = vec!["the path names a regular file".to_owned()];
        spec.effects = vec![Effect::ReadOnly];
        spec.default = DefaultDecision::Allow;
        spec.auto_in_task_agent = true;
        spec.surfaces = vec![Surface::Interactive, Surface::TaskAgent];
        spec.cwd_note = Some("Relative paths are under {working_dir}.".to_owned());
        Self { spec, closed }
    }
}

impl TypedTool for ReadFile {
    type Params = Params;
    type Plan = PathBuf;

    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, params: &Params) -> Result<(), Outcome> {
        for (name, value) in [("offset", params.offset), ("limit", params.limit)] {
            if value.is_some_and(|value| value < 1) {
                let what = format!("`{name}` is {}", value.unwrap_or_default());
                return Err(Outcome::invalid(
                    what,
                    "lines are counted from 1; leave it out for all",
                ));
            }
        }
        Ok(())
    }

    fn inspect<'a>(
        &'a self,
        params: &'a Params,
        view: &'a SessionView,
    ) -> BoxFuture<'a, Result<(Inspection, PathBuf), Outcome>> {
        let path = view.absolute(&params.path);
        async move {
            let resolved = tokio::task::spawn_blocking(move || file::resolve(&path)).await;
            let path = resolved
                .map_err(|error| Outcome::failed(format!("looking broke down: {error}"), ""))??;
            self.closed.refuse(&path)?;
            let header = format!("read {}", params.path.display());
            let mut inspection = Inspection::new("read_file", header);
            inspection.paths = vec![path.clone()];
            Ok((inspection, path))
        }
        .boxed()
    }

    fn execute(
        self: Arc<Self>,
        params: Params,
        path: PathBuf,
        context: CallContext,
    ) -> BoxFuture<'static, Report> {
        let limit = context.view.result_limit;
        let work = move || page(&params, &path, limit);
        async move {
            tokio::task::spawn_blocking(work)
                .await
                .unwrap_or_else(|error| {
                    Outcome::failed(format!("reading broke down: {error}"), "").into()
                })
        }
        .boxed()
    }
}

fn page(params: &Params, path: &std::path::Path, result_limit: usize) -> Report {
    let read = || -> Result<Report, Outcome> {
        let opened = file::open(path)?;
        let shown = opened.path.display().to_string();
        pages(params, opened, result_limit)
            .map_err(|error| Outcome::failed(format!("{shown} can't be read: {error}"), ""))
    };
    read().unwrap_or_else(Report::from)
}

fn pages(params: &Params, opened: Opened, result_limit: usize) -> io::Result<Report> {
    let Opened {
        mut file,
        metadata,
        path,
    } = opened;
    let mark = file::mark(&mut file, &metadata)?;
    let size = mark.size;
    file.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let start = reader.fill_buf()?;
    let seen = vec![SessionEffect::FileSeen {
        path: path.clone(),
        mark,
    }];
    if start.is_empty() {
        let outcome = Outcome::read(format!("({} is empty: 0 bytes)", path.display()));
        return Ok(Report {
            outcome,
            session: seen,
        });
    }
    if let Some(kind) = binary_kind(start) {
        let text = format!(
            "({} is {kind}, {size} bytes; it is not shown as text)",
            path.display()
        );
        return Ok(Outcome::read(text).into());
    }
    let bom = start.starts_with(b"\xef\xbb\xbf");
    if bom {
        reader.consume(3);
    }
    let mut page = Page::new(params, result_limit.saturating_sub(NOTES));
    let mut number = 0_u64;
    while let Some(line) = bounded_line(&mut reader)? {
        number += 1;
        if number < page.first {
            continue;
        }
        if !page.take(number, &line) {
            break;
        }
    }
    let total = if page.more && size <= COUNTED_UP_TO {
        Some(number + count_lines(&mut reader)?)
    } else {
        (!page.more).then_some(number)
    };
    Ok(Report {
        outcome: page.finish(&path, size, number, total),
        session: seen,
    })
}

/// Lines on their way into a result.
struct Page {
    first: u64,
    wanted: u64,
    budget: usize,
    text: String,
    last: u64,
    more: bool,
    undecodable: bool,
}

impl Page {
    fn new(params: &Params, budget: usize) -> Self {
        let number = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
        Self {
            first: number(params.offset).unwrap_or(1),
            wanted: number(params.limit).unwrap_or(u64::MAX),
            budget,
            text: String::new(),
            last: 0,
            more: false,
            undecodable: false,
        }
    }

    /// Takes a line; false where the page is full. The first line is always taken, so that every
    /// page moves on.
    fn take(&mut self, number: u64, line: &Line) -> bool {
        let full = number - self.first >= self.wanted;
        let text = String::from_utf8_lossy(&line.kept);
        let mut shown = format!("{number:>6}\t");
        let clipped = text.char_indices().nth(LINE_SHOWN).map(|(end, _)| end);
        if clipped.is_some() || line.length > line.kept.len() as u64 {
            let (head, _) = text.split_at(clipped.unwrap_or(text.len()));
            shown.push_str(head);
            shown.push_str(&format!(
                "… [the line has {} bytes; `bash` with `sed -n {number}p FILE | cut -c {}-` shows more]",
                line.length,
                LINE_SHOWN + 1,
            ));
        } else {
            self.undecodable |= matches!(text, std::borrow::Cow::Owned(_));
            shown.push_str(&text);
        }
        shown.push('\n');
        if full || (!self.text.is_empty() && self.text.len() + shown.len() > self.budget) {
            self.more = true;
            return false;
        }
        self.text.push_str(&shown);
        self.last = number;
        true
    }

    fn finish(
        mut self,
        path: &std::path::Path,
        size: u64,
        read: u64,
        total: Option<u64>,
    ) -> Outcome {
        if self.text.is_empty() {
            let lines = if read == 1 {
                "1 line".to_owned()
            } else {
                format!("{read} lines")
            };
            return Outcome::failed(
                format!(
                    "offset {} is past the end: {} has {lines}",
                    self.first,
                    path.display()
                ),
                "use a smaller offset",
            );
        }
        if self.undecodable {
            self.text
                .push_str("[some bytes are not valid UTF-8 and are shown as \u{fffd}]\n");
        }
        if self.more {
            let whole =
                total.map_or_else(|| format!("{size} bytes"), |total| format!("{total} lines"));
            self.text.push_str(&format!(
                "[lines {} to {} of {whole}; continue with offset {}]\n",
                self.first,
                self.last,
                self.last + 1,
            ));
        }
        Outcome::Done {
            output: self.text,
            effect: EffectStatus::None,
        }
    }
}

struct Line {
    /// The beginning of the line, without its end.
    kept: Vec<u8>,
    /// Its length in bytes, without its end.
    length: u64,
}

/// The next line, of which only the beginning is kept, however long it is.
fn bounded_line(reader: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Line {
        kept: Vec::new(),
        length: 0,
    };
    let mut any = false;
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(any.then_some(line));
        }
        any = true;
        let newline = bytes.iter().position(|byte| *byte == b'\n');
        let (part, _) = bytes.split_at(newline.unwrap_or(bytes.len()));
        let room = LINE_KEPT.saturating_sub(line.kept.len()).min(part.len());
        line.kept.extend(part.iter().take(room));
        line.length += part.len() as u64;
        let used = newline.map_or(part.len(), |at| at + 1);
        reader.consume(used);
        if newline.is_some() {
            if line.kept.last() == Some(&b'\r') && line.length == line.kept.len() as u64 {
                line.kept.pop();
                line.length -= 1;
            }
            return Ok(Some(line));
        }
    }
}

/// Lines from here to the end.
fn count_lines(reader: &mut impl BufRead) -> io::Result<u64> {
    let (mut count, mut open) = (0, false);
    loop {
        let bytes = reader.fill_buf()?;
        let Some(last) = bytes.last() else {
            return Ok(count + u64::from(open));
        };
        open = *last != b'\n';
        count += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let used = bytes.len();
        reader.consume(used);
    }
}

/// What a file is that isn't text, by its first bytes.
fn binary_kind(start: &[u8]) -> Option<&'static str> {
    const KINDS: [(&[u8], &str); 9] = [
        (b"\x89PNG\r\n\x1a\n", "a PNG image"),
        (b"\xff\xd8\xff", "a JPEG image"),
        (b"GIF8", "a GIF image"),
        (b"%PDF-", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"\x1f\x8b", "gzip-compressed data"),
        (b"\x7fELF", "an ELF binary"),
        (b"\xff\xfe", "UTF-16 text (little endian)"),
        (b"\xfe\xff", "UTF-16 text (big endian)"),
    ];
    let sniffed = start.get(..SNIFFED).unwrap_or(start);
    KINDS
        .iter()
        .find(|(magic, _)| sniffed.starts_with(magic))
        .map(|(_, kind)| *kind)
        .or_else(|| sniffed.contains(&0).then_some("a binary file"))
}
