//! Parsing what hostile input can blow up: pictures and PDF files.
//!
//! A crafted file can make a decoder take all memory, run for ever, or end the process. So the
//! parsing is done by a worker: a child of the own binary ([`work`]) with bounds on memory and
//! time, whose answer is all that comes back.
//!
//! The worker opens the file itself and says the digest of what it read, so that an answer is never
//! about another content than the caller knows.

pub mod child;
mod pdf;
mod picture;

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use castellan_core::{Cancel, PictureType};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The largest picture file that is looked at, in bytes.
pub const PICTURE_LIMIT: u64 = 4 * 1024 * 1024;
/// The largest PDF file that is read, in bytes.
pub const PDF_LIMIT: u64 = 32 * 1024 * 1024;
/// How many pages of a PDF are read.
pub const PDF_PAGES: usize = 100;

/// What a file is parsed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A picture, told by its content.
    Picture,
    /// A PDF file.
    Pdf,
}

impl Format {
    /// The argument a worker knows it by.
    #[must_use]
    pub const fn argument(self) -> &'static str {
        match self {
            Self::Picture => "picture",
            Self::Pdf => "pdf",
        }
    }

    fn from_argument(argument: &str) -> Option<Self> {
        [Self::Picture, Self::Pdf]
            .into_iter()
            .find(|format| format.argument() == argument)
    }

    /// What the format is told by: the kind of file that begins like this.
    #[must_use]
    pub fn of(beginning: &[u8]) -> Option<Self> {
        if picture::is_picture(beginning) {
            Some(Self::Picture)
        } else if beginning.starts_with(b"%PDF-") {
            Some(Self::Pdf)
        } else {
            None
        }
    }

    /// The largest file of this format that is parsed, in bytes.
    #[must_use]
    pub const fn limit(self) -> u64 {
        match self {
            Self::Picture => PICTURE_LIMIT,
            Self::Pdf => PDF_LIMIT,
        }
    }
}

/// What a file turned out to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parsed {
    /// A picture. What follows the head of the answer is the picture to show where it had to be
    /// converted, else nothing: the file itself is shown.
    Picture {
        /// What the file is, in a word.
        found: String,
        /// What is shown.
        kind: PictureType,
        /// Pixels across, of what is shown.
        width: u32,
        /// Pixels down, of what is shown.
        height: u32,
        /// Whether the picture was converted.
        converted: bool,
        /// Pixels across and down of the file, where it was made smaller.
        shrunk_from: Option<(u32, u32)>,
    },
    /// The text of a PDF, which follows the head of the answer: pages apart by a form feed.
    Pdf {
        /// How many pages it has.
        pages: usize,
        /// How many of them were read.
        read: usize,
    },
    /// Not what it was taken for, or broken.
    Broken {
        /// What is wrong.
        reason: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Head {
    digest: String,
    parsed: Parsed,
}

/// The answer of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// SHA-256 of what was read, in hexadecimal.
    pub digest: String,
    /// What it is.
    pub parsed: Parsed,
    /// What belongs to that, see [`Parsed`].
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unparsed {
    /// Somebody asked for that.
    Cancelled,
    /// What stood in the way, a sentence for a model.
    Failed(String),
}

impl fmt::Display for Unparsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "reading it was cancelled",
            Self::Failed(reason) => reason,
        })
    }
}

impl From<String> for Unparsed {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// Where files are parsed.
pub trait Parser: Send + Sync {
    /// Parses the regular file at `path`.
    fn parse(
        &self,
        format: Format,
        path: PathBuf,
        cancel: Cancel,
    ) -> BoxFuture<'static, Result<Answer, Unparsed>>;
}

/// Parses in this process: for tests, and for the worker itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct InProcess;

impl Parser for InProcess {
    fn parse(
        &self,
        format: Format,
        path: PathBuf,
        _cancel: Cancel,
    ) -> BoxFuture<'static, Result<Answer, Unparsed>> {
        Box::pin(async move { Ok(parse(format, &path).map_err(|error| error.to_string())?) })
    }
}

fn parse(format: Format, path: &Path) -> io::Result<Answer> {
    let file = crate::file::open(path)
        .map_err(|problem| io::Error::other(castellan_core::Outcome::from(problem).into_text()))?;
    let mut bytes = Vec::new();
    let mut content: io::Take<File> = file.file.take(format.limit() + 1);
    content.read_to_end(&mut bytes)?;
    let digest = castellan_core::text::hexadecimal(&Sha256::digest(&bytes));
    let too_large = bytes.len() as u64 > format.limit();
    let (parsed, body) = if too_large {
        let reason = format!("it is larger than {} bytes", format.limit());
        (Parsed::Broken { reason }, Vec::new())
    } else {
        match format {
            Format::Picture => picture::parse(&bytes),
            Format::Pdf => pdf::parse(&bytes),
        }
        .unwrap_or_else(|reason| (Parsed::Broken { reason }, Vec::new()))
    };
    Ok(Answer {
        digest,
        parsed,
        body,
    })
}

/// What the worker process does: parses the file that its arguments name, and writes the answer to
/// `out`.
///
/// # Errors
/// What the system says, or that the arguments are none of ours.
pub fn work(arguments: &[String], out: &mut impl io::Write) -> io::Result<()> {
    let [format, path] = arguments else {
        return Err(io::Error::other("the worker takes a format and a path"));
    };
    let format = Format::from_argument(format)
        .ok_or_else(|| io::Error::other("the worker does not know this format"))?;
    let answer = parse(format, Path::new(path))?;
    let head = Head {
        digest: answer.digest,
        parsed: answer.parsed,
    };
    serde_json::to_writer(&mut *out, &head)?;
    out.write_all(b"\n")?;
    out.write_all(&answer.body)?;
    out.flush()
}

/// The answer that a worker wrote.
///
/// # Errors
/// A sentence where it is none.
pub fn answer(output: &[u8]) -> Result<Answer, String> {
    let broken = || "the parser ended without an answer".to_owned();
    let end = output
        .iter()
        .position(|byte| *byte == b'\n')
        .ok_or_else(broken)?;
    let (head, body) = output.split_at(end);
    let Head { digest, parsed } =
        serde_json::from_slice(head).map_err(|error| format!("{}: {error}", broken()))?;
    Ok(Answer {
        digest,
        parsed,
        body: body.get(1..).unwrap_or_default().to_vec(),
    })
}

#[cfg(test)]
mod tests;
