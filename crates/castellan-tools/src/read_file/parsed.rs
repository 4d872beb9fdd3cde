//! Files that are no text but can be told in one: pictures and PDF files.

use std::io::Read as _;
use std::path::Path;

use castellan_core::{Outcome, Picture};

use crate::file::{self, Opened};
use crate::parse::{Answer, Format, Parsed};

/// What becomes of a file that looked like one of these.
pub(super) enum Shown {
    /// A sentence, and the picture where it is one.
    Told(String, Option<Picture>),
    /// Text to be shown in pages, with a note.
    Text(Vec<u8>, String),
}

/// What an open file is to be parsed as, if anything.
///
/// # Errors
/// What the model reads where it can't be read, or is too large for that.
pub(super) fn format_of(opened: &mut Opened) -> Result<Option<Format>, Outcome> {
    let mut beginning = Vec::new();
    let read = (&mut opened.file).take(32).read_to_end(&mut beginning);
    read.map_err(|error| file::explain(&opened.path, &error))?;
    let Some(format) = Format::of(&beginning) else {
        return Ok(None);
    };
    let size = opened.metadata.len();
    if size <= format.limit() {
        return Ok(Some(format));
    }
    let what = match format {
        Format::Picture => "a picture",
        Format::Pdf => "a PDF",
    };
    let (path, limit) = (file::shown(&opened.path), format.limit() / (1024 * 1024));
    let what = format!("{path} is {what} of {size} bytes; up to {limit} MiB are shown");
    Err(Outcome::failed(what, "make a smaller one of it first"))
}

/// What `answer` shows of the file at `path` with this content, which has this digest.
///
/// # Errors
/// What the model reads where the content is not what was parsed.
pub(super) fn shown(
    path: &Path,
    bytes: Vec<u8>,
    digest: &str,
    answer: Answer,
) -> Result<Shown, Outcome> {
    let (path, size) = (file::shown(path), bytes.len());
    if answer.digest != digest {
        let what = format!("{path} changed while it was read");
        return Err(Outcome::failed(what, "read it again"));
    }
    Ok(match answer.parsed {
        Parsed::Picture {
            found,
            kind,
            width,
            height,
            converted,
            shrunk_from,
        } => {
            let (bytes, mut how) = match converted {
                true => (answer.body, "; shown as PNG".to_owned()),
                false => (bytes, String::new()),
            };
            if shrunk_from.is_some() {
                how.push_str(&format!(", made smaller to {width} x {height} pixels"));
            }
            let (across, down) = shrunk_from.unwrap_or((width, height));
            let what = format!("{found} picture, {across} x {down} pixels, {size} bytes{how}");
            let picture = Picture {
                kind,
                width,
                height,
                bytes: bytes.into(),
            };
            Shown::Told(format!("({path} is a {what})"), Some(picture))
        }
        Parsed::Pdf { pages, read } => {
            let text = String::from_utf8_lossy(&answer.body);
            if text.trim().is_empty() {
                let what = format!("a PDF of {pages} pages, {size} bytes, without any text");
                return Ok(Shown::Told(format!("({path} is {what})"), None));
            }
            let mut told = String::with_capacity(text.len());
            for (number, page) in (1..).zip(text.split('\u{c}')) {
                let page = page.trim();
                told.push_str(&format!("--- page {number} of {pages} ---\n{page}\n"));
            }
            let mut note = format!("the text of a PDF of {pages} pages, not the lines of the file");
            if read < pages {
                note.push_str(&format!("; only the first {read} pages were read"));
            }
            Shown::Text(told.into_bytes(), note)
        }
        Parsed::Broken { reason } => Shown::Told(
            format!("({path}, {size} bytes, is not shown: {reason})"),
            None,
        ),
    })
}
