//! Secrets: which values a tool's spec marks, and how they are kept out of every record.

use std::sync::Arc;

use crate::id::CallId;

/// What a value that must not be shown prints as.
pub const CONCEALED: &str = "[secret]";

/// What stands, wherever it could be recorded or shown, for a marked value. The value itself is
/// known only to the gate that made the handle.
#[must_use]
pub fn handle(call_id: CallId, name: &str) -> String {
    format!("{HANDLE}{call_id}.{name}")
}

/// Whether `text` has the form of a handle.
#[must_use]
pub fn is_handle(text: &str) -> bool {
    text.starts_with(HANDLE)
}

const HANDLE: &str = "secret:";

/// What stands in text where a known secret was.
pub const REDACTED: &str = "[redacted]";

/// The secrets this process knows, to be cut out of whatever tools return.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Redaction {
    /// Longest first, so that a secret that contains another is taken whole.
    known: Arc<[String]>,
}

impl Redaction {
    /// Shorter values are not redacted: they would match ordinary text.
    pub const SHORTEST: usize = 8;

    /// A redaction of these values.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut known: Vec<String> = secrets
            .into_iter()
            .filter(|secret| secret.len() >= Self::SHORTEST)
            .collect();
        known.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        known.dedup();
        Self {
            known: known.into(),
        }
    }

    /// `text` without the known secrets.
    #[must_use]
    pub fn apply(&self, mut text: String) -> String {
        for secret in self.known.iter() {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), REDACTED);
            }
        }
        text
    }

    /// Whether there is a known secret in `text`.
    #[must_use]
    pub fn finds(&self, text: &str) -> bool {
        self.known
            .iter()
            .any(|secret| text.contains(secret.as_str()))
    }

    /// Where the longest end of `text` begins that is the beginning of a secret.
    fn possible_beginning(&self, text: &str) -> usize {
        let longest = self.known.first().map_or(0, |secret| secret.len() - 1);
        let from = text.len().saturating_sub(longest);
        (from..text.len())
            .filter_map(|start| Some((start, text.get(start..)?)))
            .find(|(_, end)| self.known.iter().any(|secret| secret.starts_with(end)))
            .map_or(text.len(), |(start, _)| start)
    }
}

/// Redacts text that arrives in pieces: a secret is found wherever the pieces were cut.
#[derive(Debug, Clone, Default)]
pub struct RedactedStream {
    redaction: Redaction,
    held: String,
}

impl RedactedStream {
    /// A stream without the secrets of `redaction`.
    #[must_use]
    pub const fn new(redaction: Redaction) -> Self {
        Self {
            redaction,
            held: String::new(),
        }
    }

    /// Takes a piece; returns what can be let out. An end that may be the beginning of a secret is
    /// held back until the next piece.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let mut text = self.redaction.apply(std::mem::take(&mut self.held));
        let end = self.redaction.possible_beginning(&text);
        self.held = text.split_off(end);
        text
    }

    /// What was held back, at the end.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Never shows what it hides.
impl std::fmt::Debug for Redaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redaction({} known)", self.known.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_cut_out_of_a_stream_wherever_its_pieces_end() {
        let text = "a sk-test-123 b sk-test-12x sk-test-123";
        for size in 1..text.len() {
            let mut stream = RedactedStream::new(Redaction::new(["sk-test-123".to_owned()]));
            let mut out = String::new();
            for piece in text.as_bytes().chunks(size) {
                out.push_str(&stream.push(std::str::from_utf8(piece).unwrap()));
                assert!(!out.contains("sk-test-123"));
            }
            out.push_str(&stream.finish());
            assert_eq!(
                out, "a [redacted] b sk-test-12x [redacted]",
                "pieces of {size}"
            );
        }
    }

    #[test]
    fn known_secrets_are_cut_out_of_text_and_short_ones_are_left() {
        let redaction =
            Redaction::new(["sk-test-123".to_owned(), "sk-test-1234".into(), "y".into()]);
        assert_eq!(
            redaction.apply("y sk-test-1234 sk-test-123".into()),
            "y [redacted] [redacted]"
        );
        assert!(!format!("{redaction:?}").contains("sk-test"));
    }
}
