//! Secrets in files. A model reads a mark in their place, so what it writes may have the mark where
//! the file has the secret: that would be lost.

use std::collections::HashSet;
use std::path::Path;

use castellan_core::Outcome;
use castellan_core::secret::{REDACTED, Redaction};

use super::open::shown;

/// Lines that are named.
const NAMED: usize = 10;

/// Whether `text` has the mark of a secret at all, without which nothing needs to be compared.
pub(crate) fn is_marked(text: &str) -> bool {
    text.contains(REDACTED)
}

/// Refuses `new` as the whole content of a file with the content `present`, where it has the mark in
/// a line that the file doesn't have and the file has a secret.
///
/// # Errors
/// Says where the secret is and how to change the rest.
pub(crate) fn keep(
    target: &Path,
    present: &str,
    new: &str,
    redaction: &Redaction,
) -> Result<(), Outcome> {
    if !is_marked(new) || !redaction.finds(present) {
        return Ok(());
    }
    let literal: HashSet<&str> = present.lines().filter(|line| is_marked(line)).collect();
    let mut marked = new.lines().filter(|line| is_marked(line));
    if marked.all(|line| literal.contains(line)) {
        return Ok(());
    }
    let place = place(present, redaction);
    Err(Outcome::failed(
        format!(
            "{} has a secret{place}, shown only as {REDACTED}, and this content would write the \
             word {REDACTED} over it; nothing was written",
            shown(target)
        ),
        "change the other lines with edit_file, and leave that one out of old_string and \
         new_string; the secret itself is for a person to change",
    ))
}

/// What is said of an edit that would put the mark into a line with a secret.
pub(crate) fn overwritten(present: &str, redaction: &Redaction) -> (String, String) {
    (
        format!(
            "new_string would write the word {REDACTED} where the file has a secret{}; nothing was \
             written",
            place(present, redaction)
        ),
        BESIDE.to_owned(),
    )
}

/// What is said of an `old_string` with the mark that is not in the file, where that has a secret.
pub(crate) fn unquotable(present: &str, redaction: &Redaction) -> (String, String) {
    (
        format!(
            "old_string has {REDACTED}, which is not in the file: it is only shown in place of a \
             secret that stands there{}",
            place(present, redaction)
        ),
        BESIDE.to_owned(),
    )
}

const BESIDE: &str = "quote text that has no secret in it, before it or behind it, and leave the \
                      secret as it is; it is for a person to change";

/// The lines with a secret, in words.
fn place(present: &str, redaction: &Redaction) -> String {
    let lines: Vec<usize> = (1..)
        .zip(present.lines())
        .filter(|(_, line)| redaction.finds(line))
        .map(|(number, _)| number)
        .collect();
    let numbers: Vec<String> = lines.iter().take(NAMED).map(usize::to_string).collect();
    match lines.len() {
        // It goes over several lines.
        0 => String::new(),
        1 => format!(" on line {}", numbers.join("")),
        total if total > NAMED => {
            format!(" on {total} lines, the first {}", numbers.join(", "))
        }
        _ => format!(" on lines {}", numbers.join(", ")),
    }
}
