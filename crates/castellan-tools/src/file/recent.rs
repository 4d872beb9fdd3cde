//! What files had in them when a session read or wrote them, as long as that is at hand: so that a
//! refusal can say what has changed since. Sessions themselves keep marks only.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use castellan_core::tool::FileMark;

use super::compare;
use super::text::Text;

/// The largest content that is kept, in bytes.
const LARGEST: u64 = 256 * 1024;
/// How many bytes are kept in all.
const KEPT: usize = 8 * 1024 * 1024;
/// How many contents are kept.
const MOST: usize = 256;
/// Lines around a change.
const CONTEXT: usize = 1;
/// About how many bytes of a diff are shown.
const SHOWN: usize = 2 * 1024;

/// Contents by their hash, the latest. Clones share them.
#[derive(Clone, Default)]
pub struct Recent(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    contents: VecDeque<(String, Arc<[u8]>)>,
    size: usize,
}

impl Recent {
    /// Keeps the content of a file with this mark, given in pieces, if it is not too large.
    pub(crate) fn keep(&self, mark: &FileMark, pieces: &[&[u8]]) {
        if mark.size > LARGEST {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept
            .contents
            .iter()
            .position(|(digest, _)| *digest == mark.digest);
        if let Some(content) = known.and_then(|place| kept.contents.remove(place)) {
            kept.contents.push_back(content);
            return;
        }
        let content: Arc<[u8]> = pieces.concat().into();
        kept.size += content.len();
        kept.contents.push_back((mark.digest.clone(), content));
        while kept.size > KEPT || kept.contents.len() > MOST {
            let Some((_, gone)) = kept.contents.pop_front() else {
                break;
            };
            kept.size -= gone.len();
        }
    }

    /// How a file that had the mark `before` and has the content `now` has changed, as lines for the
    /// end of a text; empty where the old content is not at hand or either is no text.
    pub(crate) fn change(&self, before: &FileMark, now: &[u8]) -> String {
        let old = {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let found = kept
                .contents
                .iter()
                .find(|(digest, _)| *digest == before.digest);
            match found {
                Some((_, content)) => Arc::clone(content),
                None => return String::new(),
            }
        };
        if now.len() as u64 > LARGEST {
            return String::new();
        }
        let (Ok(old), Ok(new)) = (Text::decode(old.to_vec()), Text::decode(now.to_vec())) else {
            return String::new();
        };
        let diff = compare::unified(&old, &new, CONTEXT, SHOWN);
        let beside: String = compare::beside_text(&old, &new)
            .iter()
            .map(|note| format!("[{note}]\n"))
            .collect();
        let text = format!("{}{}{beside}", diff.text, diff.cut_note());
        if text.is_empty() {
            text
        } else {
            format!("; this has changed in it:\n{text}")
        }
    }
}

/// Contents are not for logs.
impl fmt::Debug for Recent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recent").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::mark_of;
    use super::*;

    #[test]
    fn the_latest_contents_are_kept_within_bounds() {
        let recent = Recent::default();
        let keep = |content: &[u8]| recent.keep(&mark_of(content), &[content]);
        let changed = |before: &[u8]| recent.change(&mark_of(before), b"now\n");
        keep(b"first\n");
        assert!(changed(b"first\n").ends_with("-first\n+now\n"));
        keep(&vec![b'x'; 300 * 1024]);
        assert_eq!(changed(&vec![b'x'; 300 * 1024]), "", "too large");
        for number in 0..MOST {
            keep(b"used again\n");
            keep(format!("{number}\n").as_bytes());
        }
        assert_eq!(changed(b"first\n"), "");
        assert!(!changed(b"used again\n").is_empty());
        for number in 0..40 {
            keep(format!("{number}\n").repeat(80 * 1024).as_bytes());
        }
        assert!(recent.0.lock().unwrap().size <= KEPT);
        assert_eq!(changed(b"used again\n"), "");
        assert_eq!(recent.change(&mark_of(b"39\n"), b"\x00\x01"), "");
    }
}
