//! The latest output of a background command, and how far it has been read. Pure and bounded.

use std::collections::VecDeque;

/// Bytes of text kept of one command.
pub(super) const KEPT: usize = 256 * 1024;

/// Text in arrival order of which only the end is kept.
#[derive(Debug, Default)]
pub(super) struct Ring {
    kept: VecDeque<u8>,
    /// Bytes of `kept` that were read.
    read: usize,
    /// Bytes that were pushed out before they were read, since the last read.
    lost: u64,
}

/// What a read came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The text, oldest first.
    pub(crate) text: String,
    /// Bytes lost before it.
    pub(crate) lost: u64,
    /// Bytes that the next read would find by now.
    pub(crate) waiting: usize,
}

impl Ring {
    /// Takes what was written.
    pub(super) fn push(&mut self, text: &str) {
        // What would be pushed out again at once need not go in.
        let bytes = text.as_bytes();
        let skipped = bytes.len().saturating_sub(KEPT);
        let last = bytes.get(skipped..).unwrap_or_default();
        let surplus = (self.kept.len() + last.len()).saturating_sub(KEPT);
        let surplus = surplus.min(self.kept.len());
        self.kept.drain(..surplus);
        let unread = surplus.saturating_sub(self.read);
        self.read = self.read.saturating_sub(surplus);
        self.kept.extend(last);
        self.lost += length(unread) + length(skipped);
    }

    /// Bytes that were not read yet.
    pub(super) fn unread(&self) -> usize {
        self.kept.len() - self.read
    }

    fn waiting(&self, whole_lines: bool) -> usize {
        if !whole_lines {
            return self.unread();
        }
        let mut unread = self.kept.range(self.read..);
        unread
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1)
    }

    /// Reads on: at most `limit` bytes, up to a line's end where there is one. `whole_lines` leaves
    /// a line that is not complete for later.
    pub(super) fn take(&mut self, limit: usize, whole_lines: bool) -> Taken {
        let unread: Vec<u8> = self.kept.range(self.read..).take(limit).copied().collect();
        let cut = whole_lines || unread.len() < self.unread();
        let line_end = unread.iter().rposition(|byte| *byte == b'\n');
        let end = match line_end {
            Some(end) if cut => end + 1,
            // One line longer than the limit is read in parts, or it would never be.
            _ if whole_lines && unread.len() == self.unread() && unread.len() < limit => 0,
            _ => character_end(&unread, unread.len() == self.unread()),
        };
        self.read += end;
        let text = unread.get(..end).unwrap_or_default();
        Taken {
            text: String::from_utf8_lossy(text).into_owned(),
            lost: std::mem::take(&mut self.lost),
            waiting: self.waiting(whole_lines),
        }
    }
}

/// Where the last whole character ends; at the end where nothing follows.
fn character_end(bytes: &[u8], is_all: bool) -> usize {
    if is_all {
        return bytes.len();
    }
    let begun = bytes.iter().rev().take(4);
    let after = begun.take_while(|byte| (**byte & 0xc0) == 0x80).count();
    // The character the bytes end with, whole or not: it is left for later, unless it is all there
    // is.
    match bytes.len().saturating_sub(after + 1) {
        0 => bytes.len(),
        end => end,
    }
}

const fn length(length: usize) -> u64 {
    length as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_was_pushed_out_unread_is_counted() {
        let mut ring = Ring::default();
        ring.push("first\n");
        assert_eq!(ring.take(100, false).text, "first\n");
        ring.push("second\n");
        ring.push(&"x".repeat(KEPT));
        let taken = ring.take(KEPT, false);
        assert_eq!((taken.lost, taken.text.len(), taken.waiting), (7, KEPT, 0));
        ring.push(&"y".repeat(KEPT + 10));
        assert_eq!(ring.take(KEPT, false).lost, 10);
        assert_eq!(ring.kept.len(), KEPT);
    }

    #[test]
    fn a_line_that_is_not_complete_is_read_or_left_as_asked() {
        let mut ring = Ring::default();
        ring.push("one\ntw");
        assert_eq!(ring.take(100, true).text, "one\n");
        assert_eq!(ring.take(100, true).text, "");
        assert_eq!(ring.take(100, false).text, "tw");
        ring.push("o\n");
        assert_eq!(ring.take(100, true).text, "o\n");
        ring.push("a line that is too long");
        assert_eq!(ring.take(6, true).text, "a lin");
    }

    proptest! {
        #[test]
        fn every_byte_is_read_once_or_counted_as_lost(
            pieces in proptest::collection::vec("(\\PC|\n|€|😀){0,200}", 0..20),
            limit in 4_usize..100,
        ) {
            let mut ring = Ring::default();
            let mut read = String::new();
            for piece in &pieces {
                ring.push(piece);
                read.push_str(&ring.take(limit, false).text);
            }
            while ring.unread() > 0 {
                read.push_str(&ring.take(limit, false).text);
            }
            prop_assert_eq!(read, pieces.concat());
        }
    }
}
