//! The latest output of a background command, and how far it has been read. Pure and bounded.

use std::collections::VecDeque;

/// Text in arrival order of which only the end is kept.
#[derive(Debug)]
pub(super) struct Ring {
    /// How many bytes it holds at most.
    most: usize,
    /// Whole characters.
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
    /// An empty one that holds `most` bytes.
    pub(super) const fn new(most: usize) -> Self {
        Self {
            most,
            kept: VecDeque::new(),
            read: 0,
            lost: 0,
        }
    }

    /// Takes what was written.
    pub(super) fn push(&mut self, text: &str) {
        // What would be pushed out again at once need not go in.
        let skipped = text.ceil_char_boundary(text.len().saturating_sub(self.most));
        let last = text.as_bytes().get(skipped..).unwrap_or_default();
        let mut surplus = match skipped {
            0 => (self.kept.len() + last.len()).saturating_sub(self.most),
            // What is before a part that is left out goes too.
            _ => self.kept.len(),
        };
        // A character goes whole.
        while self.kept.get(surplus).is_some_and(|byte| is_inside(*byte)) {
            surplus += 1;
        }
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
    let after = begun.take_while(|byte| is_inside(**byte)).count();
    // The character the bytes end with, whole or not: it is left for later, unless it is all there
    // is.
    match bytes.len().saturating_sub(after + 1) {
        0 => bytes.len(),
        end => end,
    }
}

/// Whether a byte of UTF-8 is not the first one of its character.
const fn is_inside(byte: u8) -> bool {
    byte & 0xc0 == 0x80
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
        let mut ring = Ring::new(50);
        ring.push("first\n");
        assert_eq!(ring.take(100, false).text, "first\n");
        ring.push("second\n");
        ring.push(&"x".repeat(50));
        let taken = ring.take(50, false);
        assert_eq!((taken.lost, taken.text.len(), taken.waiting), (7, 50, 0));
        ring.push(&"y".repeat(60));
        assert_eq!(ring.take(50, false).lost, 10);
        assert_eq!(ring.kept.len(), 50);
    }

    #[test]
    fn a_character_is_pushed_out_whole() {
        let mut ring = Ring::new(4);
        ring.push("€a");
        ring.push("b");
        let taken = ring.take(100, false);
        assert_eq!((taken.text.as_str(), taken.lost), ("ab", 3));
        ring.push("x€€");
        let taken = ring.take(100, false);
        assert_eq!((taken.text.as_str(), taken.lost), ("€", 4));
    }

    #[test]
    fn a_line_that_is_not_complete_is_read_or_left_as_asked() {
        let mut ring = Ring::new(1000);
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
        /// Also where the ring overflows, before and between reads.
        #[test]
        fn every_byte_is_read_once_or_counted_as_lost(
            steps in proptest::collection::vec(("(\\PC|\n|€|😀){0,40}", 0_usize..3), 0..15),
            most in 4_usize..300,
            limit in 4_usize..100,
            whole_lines: bool,
        ) {
            let mut ring = Ring::new(most);
            let written: String = steps.iter().map(|(piece, _)| piece.as_str()).collect();
            // How far what was written has been read or lost.
            let mut at = 0;
            let mut check = |ring: &mut Ring, whole_lines| {
                let taken = ring.take(limit, whole_lines);
                at += usize::try_from(taken.lost).unwrap();
                let there = written.get(at..at + taken.text.len());
                prop_assert_eq!(there, Some(taken.text.as_str()));
                at += taken.text.len();
                prop_assert!(ring.kept.len() <= most);
                Ok(at)
            };
            for (piece, reads) in &steps {
                ring.push(piece);
                for _ in 0..*reads {
                    check(&mut ring, whole_lines)?;
                }
            }
            while ring.unread() > 0 {
                check(&mut ring, false)?;
            }
            prop_assert_eq!(check(&mut ring, false)?, written.len());
        }
    }
}
