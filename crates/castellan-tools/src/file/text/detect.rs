//! Telling what kind of text a file is, or what else it is.

use super::{BOM, Binary, Encoding};

/// Bytes at the start that the kind of a file is told by, where a sample is enough.
const SAMPLE: usize = 8 * 1024;

/// Bytes that are looked at in several ways while they are near.
const BLOCK: usize = 64 * 1024;

/// How much of a file is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// Its beginning, which may end within a character.
    Beginning,
}

/// What begins like this is something else than text.
const KINDS: [(&[u8], &str); 7] = [
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"\x7fELF", "an ELF binary"),
];

/// The encoding of a file and the length of its byte order mark.
///
/// # Errors
/// What it is instead of text.
pub fn detect(bytes: &[u8], extent: Extent) -> Result<(Encoding, usize), Binary> {
    if let Some((_, kind)) = KINDS.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Err(Binary(kind));
    }
    if is_plain(bytes) {
        let mark = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
        return Ok((Encoding::Utf8, mark));
    }
    for (mark, encoding) in [
        (&b"\xff\xfe"[..], Encoding::Utf16Le),
        (b"\xfe\xff", Encoding::Utf16Be),
    ] {
        if let Some(rest) = bytes.strip_prefix(mark) {
            return marked_wide(rest, encoding, extent).map(|()| (encoding, mark.len()));
        }
    }
    let zero = memchr::memchr(0, bytes).is_some();
    if let Some(rest) = bytes.strip_prefix(BOM) {
        if zero {
            return Err(Binary("a binary file"));
        }
        return narrow(rest, extent).map(|encoding| (encoding, BOM.len()));
    }
    if zero {
        return unmarked_wide(bytes, extent)
            .map(|encoding| (encoding, 0))
            .ok_or(Binary("a binary file"));
    }
    narrow(bytes, extent).map(|encoding| (encoding, 0))
}

/// Whether it is UTF-8 without zeros, as most text is: found out block by block, so that a large one
/// comes from memory only once.
fn is_plain(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        let block = rest.get(..BLOCK).unwrap_or(rest);
        let end = match std::str::from_utf8(block) {
            Ok(_) => block.len(),
            // A character that goes on in the next block.
            Err(error) if error.error_len().is_none() && block.len() < rest.len() => {
                error.valid_up_to()
            }
            Err(_) => return false,
        };
        if memchr::memchr(0, block).is_some() {
            return false;
        }
        rest = rest.get(end..).unwrap_or_default();
    }
    true
}

/// Text of 8-bit units, none of them zero, that is not UTF-8 as a whole.
fn narrow(bytes: &[u8], extent: Extent) -> Result<Encoding, Binary> {
    if extent == Extent::Beginning
        && let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
    {
        return Ok(Encoding::Utf8);
    }
    let sample = bytes.get(..SAMPLE).unwrap_or(bytes);
    let controls = sample.iter().filter(|byte| is_control(u16::from(**byte)));
    if controls.count() * 20 > sample.len() {
        return Err(Binary("a binary file"));
    }
    // Foreign 8-bit text is valid UTF-8 here and there by chance; damaged UTF-8 is invalid here
    // and there.
    let (mut letters, mut invalid) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        letters += chunk.valid().bytes().filter(|byte| *byte >= 0xc0).count();
        invalid += chunk.invalid().len();
    }
    Ok(if letters > invalid {
        Encoding::DamagedUtf8
    } else {
        Encoding::SingleByte
    })
}

/// A byte order mark is a promise; it is believed unless the rest is clearly something else, such
/// as UTF-32 or numbers.
fn marked_wide(bytes: &[u8], encoding: Encoding, extent: Extent) -> Result<(), Binary> {
    let odd = bytes.len() % 2 == 1;
    if odd && extent == Extent::Whole {
        return Err(Binary("damaged UTF-16 text (an odd number of bytes)"));
    }
    let mut controls = 0;
    for (count, unit) in super::wide::units(bytes, encoding).enumerate() {
        if unit == 0 {
            return Err(Binary("a binary file"));
        }
        controls += usize::from(count < SAMPLE && is_control(unit));
    }
    if controls * 20 > (bytes.len() / 2).min(SAMPLE) {
        return Err(Binary("a binary file"));
    }
    Ok(())
}

/// UTF-16 without a mark, only where it can't be anything else: most characters are ASCII, every
/// unit is text, and every pair is whole. Small numbers stored in 16 bits are full of controls.
fn unmarked_wide(bytes: &[u8], extent: Extent) -> Option<Encoding> {
    if bytes.len() < 8 || (extent == Extent::Whole && bytes.len() % 2 == 1) {
        return None;
    }
    let zero = memchr::memchr(0, bytes)?;
    let encoding = if zero % 2 == 1 {
        Encoding::Utf16Le
    } else {
        Encoding::Utf16Be
    };
    let (mut count, mut ascii, mut open) = (0_usize, 0_usize, false);
    for unit in super::wide::units(bytes, encoding) {
        let low = (0xdc00..=0xdfff).contains(&unit);
        if open != low || is_control(unit) || matches!(unit, 0 | 0xfffe | 0xffff) {
            return None;
        }
        open = (0xd800..=0xdbff).contains(&unit);
        count += 1;
        ascii += usize::from(unit < 0x7f);
    }
    let whole = !open || extent == Extent::Beginning;
    (whole && ascii * 2 > count).then_some(encoding)
}

/// A control character that text doesn't use.
const fn is_control(unit: u16) -> bool {
    matches!(unit, 0x01..=0x08 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f)
}
