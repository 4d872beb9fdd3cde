//! A line as it is shown: whole, or where it is long the part with the hit in it.

use std::borrow::Cow;

use castellan_core::text::one_line;
use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;

/// Characters shown of a line.
pub(super) const SHOWN: usize = 300;
/// Of these, characters before the hit.
const BEFORE: usize = 100;
/// Bytes that hold so many characters, with room for one that is cut.
const WIDEST: usize = 4;

/// A line with a hit.
pub(super) fn hit(bytes: &[u8], matcher: &RegexMatcher) -> String {
    let bytes = without_end(bytes);
    if fits(bytes) {
        return visible(&String::from_utf8_lossy(bytes));
    }
    let start = match matcher.find(bytes) {
        Ok(Some(found)) => found.start(),
        Ok(None) | Err(_) => 0,
    };
    let (before, after) = bytes.split_at(start.min(bytes.len()));
    let column = letters(before) + 1;
    let total = letters(bytes);
    let near = before
        .get(before.len().saturating_sub((BEFORE + 1) * WIDEST)..)
        .unwrap_or_default();
    let near = String::from_utf8_lossy(near);
    let skip = near.chars().count().saturating_sub(BEFORE);
    let mut text: String = near.chars().skip(skip).collect();
    let shown_before = text.chars().count();
    let (head, more) = beginning(after, SHOWN - shown_before);
    text.push_str(&head);
    let left = if column > shown_before + 1 { "…" } else { "" };
    let right = if more { "…" } else { "" };
    format!(
        "[column {column} of {total}] {left}{}{right}",
        visible(&text)
    )
}

/// A line beside a hit.
pub(super) fn context(bytes: &[u8]) -> String {
    let bytes = without_end(bytes);
    if fits(bytes) {
        return visible(&String::from_utf8_lossy(bytes));
    }
    let (head, _) = beginning(bytes, SHOWN);
    format!("{}… [{} characters]", visible(&head), letters(bytes))
}

/// The first characters, and whether there are more.
fn beginning(bytes: &[u8], wanted: usize) -> (String, bool) {
    let near = bytes.get(..(wanted + 1) * WIDEST).unwrap_or(bytes);
    let text = String::from_utf8_lossy(near);
    let head: String = text.chars().take(wanted).collect();
    let more = near.len() < bytes.len() || text.chars().nth(wanted).is_some();
    (head, more)
}

fn fits(bytes: &[u8]) -> bool {
    bytes.len() <= SHOWN || (bytes.len() <= SHOWN * WIDEST && letters(bytes) <= SHOWN)
}

/// How many characters these bytes are, where they are UTF-8.
fn letters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

fn without_end(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

/// Without what would make a line look like two, or like what is around it.
fn visible(text: &str) -> String {
    let plain = |letter: char| letter == '\t' || !letter.is_control();
    if text.chars().all(plain) {
        return text.to_owned();
    }
    let parts: Vec<Cow<'_, str>> = text.split('\t').map(|part| one_line(part).into()).collect();
    parts.join("\t")
}
