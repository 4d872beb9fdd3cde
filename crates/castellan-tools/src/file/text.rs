//! The one text layer: what a model reads of a file, and how its edits go back without touching
//! any other byte.
//!
//! A file is decoded into *content*: bytes without byte order mark and with LF line ends, in which
//! places are found and replaced. 8-bit text stays in its own bytes, so that nothing is ever
//! converted; UTF-16 becomes UTF-8 (unpaired surrogates included, so that it converts back to the
//! same units).

mod detect;
mod endings;
mod single;
mod transcoded;
mod wide;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

pub use detect::{Extent, detect};
pub use endings::LineEnds;
pub use transcoded::Transcoded;

use endings::Endings;

/// The UTF-8 byte order mark.
pub const BOM: &[u8] = b"\xef\xbb\xbf";

/// How the bytes of a file are text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8.
    Utf8,
    /// UTF-8 with a few bytes that are not. They are kept but can't be written in an edit.
    DamagedUtf8,
    /// Every byte is a character; shown as Windows-1252, of which Latin-1 is the greater part.
    /// Also what can't be told apart from it, such as GBK: every byte survives.
    SingleByte,
    /// UTF-16, little endian.
    Utf16Le,
    /// UTF-16, big endian.
    Utf16Be,
}

impl Encoding {
    /// What a reader should know of it; `None` for UTF-8.
    #[must_use]
    pub const fn note(self) -> Option<&'static str> {
        match self {
            Self::Utf8 => None,
            Self::DamagedUtf8 => {
                Some("some bytes are not valid UTF-8 and are shown as \u{fffd}; edits keep them")
            }
            Self::SingleByte => Some(
                "not valid UTF-8; shown as single-byte text (Windows-1252/Latin-1); edits keep \
                 every other byte",
            ),
            Self::Utf16Le => Some("the file is UTF-16 (little endian); edits keep that"),
            Self::Utf16Be => Some("the file is UTF-16 (big endian); edits keep that"),
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::DamagedUtf8 => "UTF-8 with invalid bytes",
            Self::SingleByte => "single-byte text",
            Self::Utf16Le => "UTF-16 (little endian)",
            Self::Utf16Be => "UTF-16 (big endian)",
        }
    }

    /// Bytes of content as a model reads them.
    #[must_use]
    pub fn show(self, bytes: &[u8]) -> Cow<'_, str> {
        match self {
            Self::SingleByte => single::show(bytes),
            Self::Utf8 | Self::DamagedUtf8 | Self::Utf16Le | Self::Utf16Be => {
                String::from_utf8_lossy(bytes)
            }
        }
    }

    const fn is_wide(self) -> bool {
        matches!(self, Self::Utf16Le | Self::Utf16Be)
    }
}

/// What a file is that isn't text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binary(pub &'static str);

/// A character that the file's encoding can't hold, in words for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unencodable(pub String);

/// A place of the content and what it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The place, in bytes of [`Text::content`].
    pub range: Range<usize>,
    /// The new content, with LF line ends.
    pub new: Arc<[u8]>,
}

/// A place of a file and the bytes it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    range: Range<usize>,
    bytes: Vec<u8>,
}

/// `bytes` with every splice made, piece after piece.
#[must_use]
pub fn pieces<'a>(bytes: &'a [u8], splices: &'a [Splice]) -> Vec<&'a [u8]> {
    let mut out = Vec::with_capacity(splices.len() * 2 + 1);
    let mut copied = 0;
    for splice in splices {
        out.push(bytes.get(copied..splice.range.start).unwrap_or_default());
        out.push(&splice.bytes);
        copied = splice.range.end;
    }
    out.push(bytes.get(copied..).unwrap_or_default());
    out
}

/// The text of a file.
#[derive(Debug)]
pub struct Text {
    encoding: Encoding,
    /// Bytes of the byte order mark in the file.
    mark: usize,
    /// As in the file, but UTF-16 converted. The mark of 8-bit text is still there.
    raw: Vec<u8>,
    /// `raw` from its mark on with LF line ends, where that differs.
    unified: Option<Vec<u8>>,
    endings: Endings,
}

impl Text {
    /// Decodes the bytes of a file.
    ///
    /// # Errors
    /// What the file is instead of text.
    pub fn decode(bytes: Vec<u8>) -> Result<Self, Binary> {
        let (encoding, mark) = detect(&bytes, Extent::Whole)?;
        let raw = if encoding.is_wide() {
            wide::to_content(bytes.get(mark..).unwrap_or_default(), encoding)
        } else {
            bytes
        };
        let skipped = if encoding.is_wide() { 0 } else { mark };
        let (unified, endings) = endings::unify(raw.get(skipped..).unwrap_or_default());
        Ok(Self {
            encoding,
            mark,
            raw,
            unified,
            endings,
        })
    }

    /// How the file is text.
    #[must_use]
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Whether the file begins with a byte order mark.
    #[must_use]
    pub const fn has_mark(&self) -> bool {
        self.mark > 0
    }

    /// How its lines end.
    #[must_use]
    pub fn line_ends(&self) -> LineEnds {
        self.endings.kind()
    }

    /// The content: no byte order mark, LF line ends.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        self.unified.as_deref().unwrap_or_else(|| self.inner())
    }

    /// Whether the files are the same in every byte.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.encoding == other.encoding && self.mark == other.mark && self.raw == other.raw
    }

    /// Bytes of content as a model reads them.
    #[must_use]
    pub fn show<'a>(&self, bytes: &'a [u8]) -> Cow<'a, str> {
        self.encoding.show(bytes)
    }

    /// A model's text as bytes of content. Line ends become LF: the file's own are put back by
    /// [`Text::replaced`]. A byte order mark that the file has anyway is dropped.
    ///
    /// # Errors
    /// [`Unencodable`].
    pub fn encode(&self, text: &str) -> Result<Vec<u8>, Unencodable> {
        let text = if self.has_mark() {
            text.strip_prefix('\u{feff}').unwrap_or(text)
        } else {
            text
        };
        let text = text.replace("\r\n", "\n");
        match self.encoding {
            Encoding::Utf8 | Encoding::Utf16Le | Encoding::Utf16Be => Ok(text.into_bytes()),
            Encoding::DamagedUtf8 if text.contains('\u{fffd}') => Err(Unencodable(
                "the text contains \u{fffd}, which stands for bytes of the file that are not \
                 valid UTF-8 and can't be matched or written; leave them out"
                    .to_owned(),
            )),
            Encoding::DamagedUtf8 => Ok(text.into_bytes()),
            Encoding::SingleByte => single::encode(&text),
        }
    }

    /// The bytes of the file with every replacement made; they are sorted and do not overlap.
    /// Nothing but the replaced places changes. A line of a replaced place keeps its kind of line
    /// end, a line that is added gets the one most lines of the file have.
    #[must_use]
    pub fn replaced(&self, replacements: &[Replacement]) -> Vec<u8> {
        self.encoded(pieces(&self.raw, &self.raw_splices(replacements)).concat())
    }

    /// The replacements as bytes of the file itself, for [`pieces`]; `None` where the file's bytes
    /// are not those of content.
    #[must_use]
    pub fn splices(&self, replacements: &[Replacement]) -> Option<Vec<Splice>> {
        (!self.encoding.is_wide()).then(|| self.raw_splices(replacements))
    }

    /// The bytes of the file; `None` where they were converted.
    #[must_use]
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        (!self.encoding.is_wide()).then_some(self.raw)
    }

    fn raw_splices(&self, replacements: &[Replacement]) -> Vec<Splice> {
        let inner = self.inner();
        let skipped = self.raw.len() - inner.len();
        let splice = |Replacement { range, new }: &Replacement| {
            let (start, end) = (
                self.endings.outer(range.start),
                self.endings.outer(range.end),
            );
            let old = inner.get(start..end).unwrap_or_default();
            let mut bytes = Vec::with_capacity(new.len());
            self.endings.restore(old, new, &mut bytes);
            Splice {
                range: start + skipped..end + skipped,
                bytes,
            }
        };
        replacements.iter().map(splice).collect()
    }

    /// A whole new content as bytes of the file: same encoding and byte order mark, and CRLF line
    /// ends where every line had them and `content` has none.
    ///
    /// # Errors
    /// [`Unencodable`].
    pub fn rewritten(&self, content: &str) -> Result<Vec<u8>, Unencodable> {
        let bytes = self.rewritten_part(content)?;
        let mut out = Vec::with_capacity(bytes.len() + BOM.len());
        if self.has_mark() && !self.encoding.is_wide() {
            out.extend_from_slice(BOM);
        }
        out.extend_from_slice(&bytes);
        Ok(self.encoded(out))
    }

    /// The same for text that goes behind the file's: without byte order mark.
    ///
    /// # Errors
    /// [`Unencodable`].
    pub fn added(&self, content: &str) -> Result<Vec<u8>, Unencodable> {
        let bytes = self.rewritten_part(content)?;
        Ok(if self.encoding.is_wide() {
            wide::to_file(&bytes, self.encoding, false)
        } else {
            bytes
        })
    }

    fn rewritten_part(&self, content: &str) -> Result<Vec<u8>, Unencodable> {
        if content.contains("\r\n") || self.line_ends() != LineEnds::CrLf {
            // Its line ends are meant as they are.
            let parts: Result<Vec<_>, _> = content
                .split("\r\n")
                .enumerate()
                .map(|(number, part)| {
                    if number == 0 {
                        self.encode(part)
                    } else {
                        self.encode(&format!("\n{part}"))
                    }
                })
                .collect();
            return Ok(join_crlf(parts?));
        }
        let encoded = self.encode(content)?;
        let mut out = Vec::with_capacity(encoded.len() + encoded.len() / 16);
        endings::push_crlf(&encoded, &mut out);
        Ok(out)
    }

    /// `raw` without its mark.
    fn inner(&self) -> &[u8] {
        let skipped = if self.encoding.is_wide() {
            0
        } else {
            self.mark
        };
        self.raw.get(skipped..).unwrap_or_default()
    }

    fn encoded(&self, raw: Vec<u8>) -> Vec<u8> {
        if self.encoding.is_wide() {
            wide::to_file(&raw, self.encoding, self.has_mark())
        } else {
            raw
        }
    }
}

/// Parts, each but the first beginning with the LF of a CRLF, joined with the CR in between.
fn join_crlf(parts: Vec<Vec<u8>>) -> Vec<u8> {
    let mut parts = parts.into_iter();
    let mut out = parts.next().unwrap_or_default();
    for part in parts {
        out.push(b'\r');
        out.extend_from_slice(&part);
    }
    out
}
