//! Whether a model was shown the same words: a number that two conversations share if they are the
//! same, and hardly ever if they differ. It tells an accident, not a forger.

use std::io::{self, Write};

use crate::message::Message;

/// The fingerprint of these messages, 16 hexadecimal digits. A picture counts by its name and not by
/// its bytes.
#[must_use]
pub fn of(messages: &[Message]) -> String {
    let mut fold = Fold::default();
    // What can't be written as JSON, which no message is, has no fingerprint.
    serde_json::to_writer(&mut fold, messages)
        .map_or_else(|_error| String::new(), |()| format!("{:016x}", fold.0))
}

/// FNV-1a (Fowler, Noll and Vo) over what is written to it.
struct Fold(u64);

impl Default for Fold {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Write for Fold {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = bytes.iter().fold(self.0, |fold, byte| {
            (fold ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Message {
        Message::User {
            text: text.to_owned(),
        }
    }

    #[test]
    fn other_words_of_the_same_length_have_another_fingerprint() {
        let one = of(&[said("line one"), said("x")]);
        assert_eq!(one, of(&[said("line one"), said("x")]));
        assert_eq!(one.len(), 16);
        for other in [
            vec![said("line two"), said("x")],
            vec![said("x"), said("line one")],
            vec![said("line one")],
        ] {
            assert_ne!(one, of(&other));
        }
    }

    #[test]
    fn the_fold_is_the_published_one() {
        let mut fold = Fold::default();
        fold.write_all(b"foobar").unwrap();
        assert_eq!(fold.0, 0x8594_4171_f739_67e8);
    }
}
