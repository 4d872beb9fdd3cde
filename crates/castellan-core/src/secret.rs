//! Secrets: which values a tool's spec marks, and how they are kept out of every record.

use serde_json::{Map, Value};

/// What stands in a record where a marked value was.
pub const CONCEALED: &str = "[secret]";

/// What stands in text where a known secret was.
pub const REDACTED: &str = "[redacted]";

/// `arguments` with the values of the marked properties replaced.
#[must_use]
pub fn conceal(arguments: &Map<String, Value>, marked: &[String]) -> Map<String, Value> {
    let mut shown = arguments.clone();
    for name in marked {
        if let Some(value) = shown.get_mut(name) {
            *value = Value::String(CONCEALED.to_owned());
        }
    }
    shown
}

/// The secrets this process knows, to be cut out of whatever tools return.
#[derive(Clone, Default)]
pub struct Redaction {
    /// Longest first, so that a secret that contains another is taken whole.
    known: Vec<String>,
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
        Self { known }
    }

    /// `text` without the known secrets.
    #[must_use]
    pub fn apply(&self, mut text: String) -> String {
        for secret in &self.known {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), REDACTED);
            }
        }
        text
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
    fn a_marked_argument_is_not_in_the_record() {
        let arguments = serde_json::json!({"agent_token": "t0p", "name": "w1"});
        let shown = conceal(
            arguments.as_object().unwrap(),
            &["agent_token".into(), "other".into()],
        );
        assert_eq!(
            Value::Object(shown),
            serde_json::json!({"agent_token": CONCEALED, "name": "w1"})
        );
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
