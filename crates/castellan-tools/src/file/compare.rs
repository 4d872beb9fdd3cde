//! Two whole texts side by side: how they differ as text, and in what is not text.

use std::borrow::Cow;

use super::diff::{self, Region, Style, Unified};
use super::text::{Encoding, Text};

/// The diff from `old` to `new`, of about `limit` bytes. Texts in the same encoding are compared in
/// their bytes, others as characters.
pub(crate) fn unified(old: &Text, new: &Text, context: usize, limit: usize) -> Unified {
    let same = old.encoding() == new.encoding();
    let lines = |text: &'_ Text| -> Vec<u8> { text.show(text.content()).into_owned().into_bytes() };
    let (a, b) = if same {
        (Cow::Borrowed(old.content()), Cow::Borrowed(new.content()))
    } else {
        (Cow::Owned(lines(old)), Cow::Owned(lines(new)))
    };
    let encoding = |text: &Text| {
        if same {
            text.encoding()
        } else {
            Encoding::Utf8
        }
    };
    let style = Style {
        context,
        limit,
        old: encoding(old),
        new: encoding(new),
    };
    let region = Region {
        old_line: 0,
        new_line: 0,
        old: &a,
        new: Cow::Borrowed(&*b),
    };
    diff::unified([region], style)
}

/// Differences that are not of the text, in words.
pub(crate) fn beside_text(old: &Text, new: &Text) -> Vec<String> {
    let mut notes = Vec::new();
    let (a, b) = (old.line_ends(), new.line_ends());
    if a != b {
        notes.push(format!(
            "line ends: {} before, {} after",
            a.name(),
            b.name()
        ));
    }
    let (a, b) = (old.encoding(), new.encoding());
    if a != b {
        notes.push(format!("encoding: {} before, {} after", a.name(), b.name()));
    }
    let mark = |text: &Text| if text.has_mark() { "with" } else { "without" };
    if old.has_mark() != new.has_mark() {
        let (a, b) = (mark(old), mark(new));
        notes.push(format!("byte order mark: {a} before, {b} after"));
    }
    if notes.is_empty() && old.content() == new.content() && !old.is_same(new) {
        notes.push("line ends: mixed in both, in different lines".to_owned());
    }
    notes
}
