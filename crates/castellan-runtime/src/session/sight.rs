//! The pictures of a conversation, read from their files for a model that sees.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use castellan_core::Message;

/// The most pictures one request carries; the newest are kept.
const SHOWN: usize = 20;
/// The most bytes of pictures one request carries.
const SHOWN_BYTES: u64 = 20 * 1024 * 1024;

/// Pictures that have been read, by digest. A turn asks many times with the same ones.
#[derive(Debug, Default)]
pub(crate) struct Sight(Mutex<HashMap<String, Arc<[u8]>>>);

impl Sight {
    /// Gives the newest pictures among `messages` their bytes. What is not shown is told in words.
    pub(crate) fn fill(&self, messages: &mut [Message], sees: bool) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut shown, mut bytes) = (0, 0);
        let mut wanted = HashMap::new();
        for message in messages.iter_mut().rev() {
            let Message::Picture {
                picture,
                data,
                caption,
            } = message
            else {
                continue;
            };
            if !sees {
                caption.push_str("; it can't be shown to this model, which takes no pictures");
                continue;
            }
            if picture.bytes > SHOWN_BYTES {
                caption.push_str("; not shown, since it is too large for a request");
                continue;
            }
            if shown >= SHOWN || bytes + picture.bytes > SHOWN_BYTES {
                caption.push_str("; no longer shown, since newer ones take its place");
                continue;
            }
            let known = cache.get(&picture.digest).map(Arc::clone);
            let read = || std::fs::read(&picture.path).ok().map(Arc::from);
            match known.or_else(read) {
                Some(found) => {
                    shown += 1;
                    bytes += picture.bytes;
                    wanted.insert(picture.digest.clone(), Arc::clone(&found));
                    *data = Some(found);
                }
                None => caption.push_str("; its file is gone"),
            }
        }
        *cache = wanted;
    }
}

#[cfg(test)]
mod tests {
    use castellan_core::{PictureRef, PictureType};

    use super::*;

    fn picture(path: &std::path::Path, digest: usize) -> Message {
        Message::Picture {
            caption: "p".into(),
            picture: PictureRef {
                media_type: PictureType::Gif,
                width: 1,
                height: 1,
                bytes: 3,
                digest: digest.to_string(),
                path: path.into(),
            },
            data: None,
        }
    }

    fn told(messages: &[Message]) -> Vec<(String, bool)> {
        let one = |message: &Message| match message {
            Message::Picture { caption, data, .. } => (caption.clone(), data.is_some()),
            _ => (String::new(), false),
        };
        messages.iter().map(one).collect()
    }

    #[test]
    fn the_newest_pictures_are_shown_and_the_others_said() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"GIF").unwrap();
        let mut messages: Vec<_> = (0..=SHOWN).map(|n| picture(file.path(), n)).collect();
        messages.push(picture("/nowhere".as_ref(), 99));
        let sight = Sight::default();
        sight.fill(&mut messages, true);
        let told = told(&messages);
        assert!(!told[0].1 && told[0].0.contains("newer ones"), "{told:?}");
        assert!(told[1].1 && told[SHOWN].1);
        assert!(!told[SHOWN + 1].1 && told[SHOWN + 1].0.contains("gone"));
        // Read once: the file may go.
        drop(file);
        let mut again = vec![picture("/nowhere".as_ref(), 5)];
        sight.fill(&mut again, true);
        assert!(matches!(&again[0], Message::Picture { data: Some(_), .. }));
    }

    #[test]
    fn a_model_that_does_not_see_is_told_in_words() {
        let mut messages = vec![picture("/nowhere".as_ref(), 1)];
        Sight::default().fill(&mut messages, false);
        assert!(told(&messages)[0].0.contains("takes no pictures"));
    }
}
