//! What of an answer may be shown while it arrives. Words that were shown can't be taken back, so
//! those that may become a call wait until it is known what they are.

use std::collections::BTreeSet;

use super::marked::{End, Scan, Sight, may_begin_call};
use super::{ARGUMENTS, NAMES};

/// How many bytes of JSON at the start of an answer wait for a property that calls have.
const PATIENCE: usize = 256;

/// Words beside a fence that calls are written in.
const LABELS: &[&str] = &["", "json", "tool_call", "tool_calls", "tool_code", "xml"];

/// What is shown of an answer.
#[derive(Debug, Default)]
pub(in crate::chat) struct Stage {
    shown: usize,
    place: Place,
    scan: Scan,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    /// Only blanks, or what may be JSON from the first letter on.
    #[default]
    Opening,
    /// Amid words.
    Words,
    /// Behind a marker.
    Marker,
}

impl Stage {
    /// How many bytes of the answer were shown.
    pub(in crate::chat) const fn shown(&self) -> usize {
        self.shown
    }

    /// So many bytes at the start of the answer turned out not to belong to it.
    pub(in crate::chat) const fn shift(&mut self, before: usize) {
        self.shown = self.shown.saturating_sub(before);
    }

    /// What has become fit to be shown of an answer that has grown to `text`.
    pub(in crate::chat) fn release<'a>(
        &mut self,
        text: &'a str,
        known: &BTreeSet<String>,
    ) -> Option<&'a str> {
        let before = self.shown;
        self.shown = if known.is_empty() {
            text.len()
        } else {
            self.fit(text, known).max(before)
        };
        text.get(before..self.shown).filter(|part| !part.is_empty())
    }

    fn fit(&mut self, text: &str, known: &BTreeSet<String>) -> usize {
        if self.place == Place::Opening {
            if may_be_call(text.trim_start()) {
                return self.shown;
            }
            self.place = Place::Words;
        }
        loop {
            if self.place == Place::Marker {
                let held = text.get(self.shown..).unwrap_or_default();
                if may_begin_call(held, known) {
                    return self.shown;
                }
                self.place = Place::Words;
            }
            match self.scan.next(text, End::Open) {
                Sight::None => return text.len(),
                Sight::Perhaps(at) => return at,
                Sight::Marker(at) => {
                    self.shown = at;
                    self.place = Place::Marker;
                }
            }
        }
    }
}

/// Whether an answer that begins like this may be a call as a whole.
fn may_be_call(text: &str) -> bool {
    let body = if let Some(fenced) = text.strip_prefix("```") {
        match fenced.split_once('\n') {
            None => return LABELS.iter().any(|label| label.starts_with(fenced.trim())),
            Some((label, _)) if !is_label(label.trim()) => return false,
            Some((_, body)) => body.trim_start(),
        }
    } else if "```".starts_with(text) {
        return true;
    } else {
        text
    };
    let inside = body.trim_start_matches(|letter: char| letter == '[' || letter.is_whitespace());
    let Some(inside) = inside.strip_prefix('{') else {
        return inside.is_empty();
    };
    let inside = inside.trim_start();
    if !inside.is_empty() && !inside.starts_with(|letter: char| "\"'".contains(letter)) {
        return false;
    }
    let start = inside
        .char_indices()
        .nth(PATIENCE)
        .map_or(inside, |(at, _)| inside.get(..at).unwrap_or(inside));
    let names = NAMES.iter().chain(ARGUMENTS).chain(&["tool_calls"]);
    start.len() == inside.len()
        || names
            .into_iter()
            .any(|name| start.contains(&format!("{name}\"")) || start.contains(&format!("{name}'")))
}

/// Whether a word beside a fence is one that calls are written under.
pub(super) fn is_label(word: &str) -> bool {
    LABELS.contains(&word)
}
