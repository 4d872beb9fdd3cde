//! An API key, which can be sent and not shown.

use std::fmt;

use castellan_core::secret::CONCEALED;

/// An API key. Its `Debug` says nothing, it has no `Display` and is never serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// A key, without the blanks and line ends that come along when one is copied or read from a
    /// file. `None` where nothing is left.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// The key itself, to be sent or to be redacted.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(CONCEALED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_trimmed_and_not_shown() {
        let key = ApiKey::new(" sk-test-123\n").unwrap();
        assert_eq!(key.expose(), "sk-test-123");
        assert_eq!(format!("{key:?}"), "[secret]");
        assert_eq!(ApiKey::new(" \n"), None);
    }
}
