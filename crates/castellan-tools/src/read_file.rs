//! `read_file`: a page of a text file with numbered lines, or what a notebook, a PDF file or a
//! picture has to show. The file is opened once and read once.

mod notebook;
mod page;
mod parsed;

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use castellan_core::text::counted;
use castellan_core::tool::{
    CallContext, Inspection, Report, SessionEffect, SessionView, ToolSpec, TypedTool,
};
use castellan_core::{EffectStatus, Outcome};
use futures::future::{BoxFuture, FutureExt as _};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::blocking;
use crate::file::text::{Binary, Encoding, Extent, Transcoded, detect};
use crate::file::{self, Closed, HASHED_UP_TO, Opened, Place, Recent, Spelling, shown, spec};
use crate::parse::{self, Answer, Parser, Unparsed};
use page::{Page, bounded_line, count_lines};
use parsed::Shown;

/// Bytes of a result kept free for the notes around the lines.
const NOTES: usize = 1024;
/// Up to this size the lines after the page are counted, so that the total can be said.
const COUNTED_UP_TO: u64 = 32 * 1024 * 1024;
/// Bytes at the start of a file that its kind is told by.
const SNIFFED: usize = 64 * 1024;
/// Larger notebooks are shown as text.
const NOTEBOOK: u64 = 32 * 1024 * 1024;

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
pub struct ReadFile {
    spec: ToolSpec,
    closed: Closed,
    recent: Recent,
    parser: Arc<dyn Parser>,
}

impl fmt::Debug for ReadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadFile").finish_non_exhaustive()
    }
}

impl ReadFile {
    /// The tool, which doesn't enter what is `closed`.
    #[must_use]
    pub fn new(closed: Closed, parser: Arc<dyn Parser>) -> Self {
        let mut spec = spec::reading::<Params>(
            "read_file",
            "Read a text file with numbered lines, or look at a picture",
            "Read a text file. Lines come back numbered, `NUMBER<tab>TEXT`; the numbers are not \
             part of the file. A long file comes in pages: the answer names the next offset. \
             Notebooks are shown as their cells, PDF files as their text, pictures (PNG, JPEG, \
             GIF, WebP, BMP, TIFF, ICO of at most 4 MiB) as what they are.",
        );
        spec.primary_key = Some("path".to_owned());
        spec.examples = vec![
            serde_json::json!({"path": "src/main.rs"}),
            serde_json::json!({"path": "server.log", "offset": 1200, "limit": 100}),
        ];
        spec.preconditions = vec!["the path names a regular file".to_owned()];
        Self {
            spec,
            closed,
            parser,
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

impl TypedTool for ReadFile {
    type Params = Params;
    type Plan = Place;

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
    ) -> BoxFuture<'a, Result<(Inspection, Place), Outcome>> {
        let (cwd, path, closed) = (view.cwd.clone(), params.path.clone(), self.closed.clone());
        let find = move || Place::find(&cwd, &path, Spelling::Alike, &closed);
        async move {
            let place = blocking("looking", find).await?;
            let elsewhere = view.elsewhere(&params.path);
            let header = format!("read {}{elsewhere}", shown(&params.path));
            let mut inspection = Inspection::new("read_file", header);
            inspection.paths = vec![place.path.clone()];
            Ok((inspection, place))
        }
        .boxed()
    }

    fn execute(
        self: Arc<Self>,
        params: Params,
        place: Place,
        context: CallContext,
    ) -> BoxFuture<'static, Report> {
        async move {
            let path = place.path.clone();
            let look = move || {
                let mut opened = file::open_resolved(&path)?;
                let format = parsed::format_of(&mut opened)?;
                Ok((opened, format))
            };
            let (opened, format) = match blocking("reading", look).await {
                Ok(looked) => looked,
                Err(outcome) => return outcome.into(),
            };
            let answer = match format {
                Some(format) => {
                    let (path, cancel) = (place.path.clone(), context.cancel.clone());
                    match self.parser.parse(format, path, cancel).await {
                        Ok(answer) => Some(Ok(answer)),
                        Err(Unparsed::Failed(reason)) => Some(Err(reason)),
                        Err(Unparsed::Cancelled) => return cancelled(&place).into(),
                    }
                }
                None => None,
            };
            let limit = context.view.result_limit;
            let recent = self.recent.clone();
            let page = move || page(&params, &place, opened, (limit, &recent), answer);
            blocking("reading", page).await.unwrap_or_else(Report::from)
        }
        .boxed()
    }
}

fn cancelled(place: &Place) -> Outcome {
    Outcome::Cancelled {
        output: format!("reading {} was cancelled", shown(&place.path)),
        effect: EffectStatus::None,
    }
}

fn page(
    params: &Params,
    place: &Place,
    opened: Opened,
    (result_limit, recent): (usize, &Recent),
    answer: Option<Result<Answer, String>>,
) -> Result<Report, Outcome> {
    let read = match answer {
        Some(answer) => special(params, opened, result_limit, answer),
        None => pages(params, opened, result_limit, recent),
    };
    let mut report = read.map_err(|error| file::explain(&place.path, &error))?;
    report.outcome = place.noted(report.outcome);
    Ok(report)
}

/// A file that was parsed.
fn special(
    params: &Params,
    mut opened: Opened,
    result_limit: usize,
    answer: Result<Answer, String>,
) -> io::Result<Report> {
    let path = opened.path.clone();
    let loaded = file::load(&mut opened.file, &opened.metadata, parse::PDF_LIMIT)?;
    let Some((bytes, mark)) = loaded else {
        return Err(io::Error::other("it changed while it was read"));
    };
    let (size, digest) = (bytes.len() as u64, file::digest(&bytes, &mark));
    let session = vec![SessionEffect::FileSeen {
        path: path.clone(),
        mark,
    }];
    let told = match answer {
        Ok(answer) => parsed::shown(&path, bytes, &digest, answer),
        Err(reason) => Ok(Shown::Told(
            format!(
                "({}, {}, is not shown: {reason})",
                shown(&path),
                counted(size, "byte")
            ),
            None,
        )),
    };
    Ok(match told {
        Err(outcome) => outcome.into(),
        Ok(Shown::Told(text, picture)) => Report {
            session,
            pictures: picture.into_iter().collect(),
            ..Outcome::read(text).into()
        },
        Ok(Shown::Text(text, note)) => {
            let source = Source {
                lines: Box::new(Cursor::new(text)),
                encoding: Encoding::Utf8,
                notes: vec![note],
            };
            Report {
                session,
                ..lines(params, source, &path, size, result_limit)?.into()
            }
        }
    })
}

/// Where the lines come from, and what is said of them.
struct Source {
    lines: Box<dyn BufRead>,
    encoding: Encoding,
    notes: Vec<String>,
}

fn pages(
    params: &Params,
    opened: Opened,
    result_limit: usize,
    recent: &Recent,
) -> io::Result<Report> {
    let Opened {
        mut file,
        metadata,
        path,
    } = opened;
    let notebook = path
        .extension()
        .is_some_and(|extension| extension == "ipynb");
    let whole = if notebook { NOTEBOOK } else { HASHED_UP_TO };
    let (mark, source) = match file::load(&mut file, &metadata, whole)? {
        Some((bytes, mark)) => {
            recent.keep(&mark, &[&bytes]);
            (mark, small(bytes, notebook))
        }
        None => (file::mark(&mut file, &metadata)?, large(file)?),
    };
    let size = mark.size;
    let seen = vec![SessionEffect::FileSeen {
        path: path.clone(),
        mark,
    }];
    if size == 0 {
        let outcome = Outcome::read(format!("({} is empty: 0 bytes)", shown(&path)));
        return Ok(Report {
            session: seen,
            ..outcome.into()
        });
    }
    let source = match source {
        Ok(source) => source,
        Err(Binary(kind)) => {
            let text = format!(
                "({} is {kind}, {}; it is not shown as text)",
                shown(&path),
                counted(size, "byte")
            );
            return Ok(Outcome::read(text).into());
        }
    };
    Ok(Report {
        session: seen,
        ..lines(params, source, &path, size, result_limit)?.into()
    })
}

/// The page of the source that was asked for.
fn lines(
    params: &Params,
    mut source: Source,
    path: &Path,
    size: u64,
    result_limit: usize,
) -> io::Result<Outcome> {
    let first = params.offset.and_then(|offset| u64::try_from(offset).ok());
    let wanted = params.limit.and_then(|limit| u64::try_from(limit).ok());
    let mut page = Page::new(
        first.unwrap_or(1),
        wanted.unwrap_or(u64::MAX),
        result_limit.saturating_sub(NOTES),
        source.encoding,
    );
    let mut number = 0_u64;
    while let Some(line) = bounded_line(&mut source.lines)? {
        number += 1;
        if number < page.first {
            continue;
        }
        if !page.take(number, &line) {
            break;
        }
    }
    let total = if page.more && size <= COUNTED_UP_TO {
        Some(number + count_lines(&mut source.lines)?)
    } else {
        (!page.more).then_some(number)
    };
    Ok(page.finish(path, size, number, total, &source.notes))
}

/// A file that is in memory whole, so that all of it tells what it is.
fn small(bytes: Vec<u8>, notebook: bool) -> Result<Source, Binary> {
    let mut notes = Vec::new();
    if notebook {
        if let Some(cells) = notebook::render(&bytes) {
            return Ok(Source {
                lines: Box::new(Cursor::new(cells)),
                encoding: Encoding::Utf8,
                notes: vec![
                    "a notebook, shown as its cells; these are not the lines of the file, whose \
                     JSON `bash` with `cat` shows"
                        .to_owned(),
                ],
            });
        }
        notes.push("not a notebook that can be read as one; shown as text".to_owned());
    }
    // A NUL far behind the beginning, as in a log after a crash, doesn't hide the rest.
    let (encoding, bom) = detect(&bytes, Extent::Whole).or_else(|_| {
        let beginning = bytes.get(..SNIFFED).unwrap_or(&bytes);
        detect(beginning, Extent::Beginning)
    })?;
    notes.extend(encoding.note().map(str::to_owned));
    let mut lines = Cursor::new(bytes);
    lines.consume(bom);
    Ok(Source {
        lines: readable(lines, encoding),
        encoding,
        notes,
    })
}

/// A file of which only what is needed is read; its beginning tells what it is.
fn large(mut file: File) -> io::Result<Result<Source, Binary>> {
    file.seek(SeekFrom::Start(0))?;
    let mut lines = BufReader::with_capacity(SNIFFED, file);
    Ok(
        detect(lines.fill_buf()?, Extent::Beginning).map(|(encoding, bom)| {
            lines.consume(bom);
            Source {
                lines: readable(lines, encoding),
                encoding,
                notes: encoding.note().map(str::to_owned).into_iter().collect(),
            }
        }),
    )
}

fn readable(lines: impl BufRead + 'static, encoding: Encoding) -> Box<dyn BufRead> {
    match encoding {
        Encoding::Utf16Le | Encoding::Utf16Be => Box::new(Transcoded::new(lines, encoding)),
        Encoding::Utf8 | Encoding::DamagedUtf8 | Encoding::SingleByte => Box::new(lines),
    }
}
