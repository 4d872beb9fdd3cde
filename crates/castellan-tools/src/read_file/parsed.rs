//! Files that are no text but can be told in one: pictures and PDF files.

use std::io::Read as _;
use std::path::Path;

use castellan_core::text::hexadecimal;
use castellan_core::{Outcome, Picture};
use sha2::{Digest as _, Sha256};

use crate::file;
use crate::parse::{Answer, Format, Parsed};

/// What becomes of a file that looked like one of these.
pub(super) enum Shown {
    /// A sentence, and the picture where it is one.
    Told(String, Option<Picture>),
    /// Text to be shown in pages, with a note.
    Text(Vec<u8>, String),
}

/// What the file at `path` is to be parsed as, if it is small enough.
///
/// # Errors
/// What the model reads where the file can't be opened, or is too large.
pub(super) fn format_of(path: &Path) -> Result<Option<Format>, Outcome> {
    let opened = file::open_resolved(path)?;
    let mut beginning = Vec::new();
    let read = opened.file.take(32).read_to_end(&mut beginning);
    let (path, size) = (file::shown(path), opened.metadata.len());
    read.map_err(|error| Outcome::failed(format!("{path} can't be read: {error}"), ""))?;
    let Some(format) = Format::of(&beginning) else {
        return Ok(None);
    };
    if size <= format.limit() {
        return Ok(Some(format));
    }
    let what = match format {
        Format::Picture => "a picture",
        Format::Pdf => "a PDF",
    };
    let limit = format.limit() / (1024 * 1024);
    let what = format!("{path} is {what} of {size} bytes; up to {limit} MiB are shown");
    Err(Outcome::failed(what, "make a smaller one of it first"))
}

/// What `answer` shows of the file at `path` with this content.
///
/// # Errors
/// What the model reads where the content is not what was parsed.
pub(super) fn shown(path: &Path, bytes: Vec<u8>, answer: Answer) -> Result<Shown, Outcome> {
    let (path, size) = (file::shown(path), bytes.len());
    if answer.digest != hexadecimal(&Sha256::digest(&bytes)) {
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
        } => {
            let (bytes, how) = match converted {
                true => (answer.body, "; shown as PNG"),
                false => (bytes, ""),
            };
            let what = format!("{found} picture, {width} x {height} pixels, {size} bytes{how}");
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
