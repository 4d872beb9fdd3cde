//! Lines of bounded length on their way into a page of bounded size.

use std::borrow::Cow;
use std::io::{self, BufRead};
use std::path::Path;

use castellan_core::{EffectStatus, Outcome};

use crate::file::shown;
use crate::file::text::Encoding;

/// Longer lines are clipped, in characters.
const LINE_SHOWN: usize = 2000;
/// Bytes kept of a line; enough for the characters shown, whatever they are.
const LINE_KEPT: usize = LINE_SHOWN * 4;

/// Lines on their way into a result.
pub(super) struct Page {
    pub(super) first: u64,
    wanted: u64,
    budget: usize,
    text: String,
    last: u64,
    pub(super) more: bool,
    undecodable: bool,
    encoding: Encoding,
}

impl Page {
    /// Lines from `first` on, at most `wanted`, within about `budget` bytes.
    pub(super) const fn new(first: u64, wanted: u64, budget: usize, encoding: Encoding) -> Self {
        Self {
            first,
            wanted,
            budget,
            text: String::new(),
            last: 0,
            more: false,
            undecodable: false,
            encoding,
        }
    }

    /// Takes a line; false where the page is full. The first line is always taken, so that every
    /// page moves on.
    pub(super) fn take(&mut self, number: u64, line: &Line) -> bool {
        let full = number - self.first >= self.wanted;
        let text = self.encoding.show(&line.kept);
        let mut shown = format!("{number:>6}\t");
        let clipped = text.char_indices().nth(LINE_SHOWN).map(|(end, _)| end);
        if clipped.is_some() || line.length > line.kept.len() as u64 {
            let (head, _) = text.split_at(clipped.unwrap_or(text.len()));
            shown.push_str(head);
            shown.push_str(&format!(
                "… [the line has {} bytes; `bash` with `sed -n {number}p FILE | cut -c {}-` shows more]",
                line.length,
                LINE_SHOWN + 1,
            ));
        } else {
            self.undecodable |= self.encoding == Encoding::Utf8 && matches!(text, Cow::Owned(_));
            shown.push_str(&text);
        }
        shown.push('\n');
        if full || (!self.text.is_empty() && self.text.len() + shown.len() > self.budget) {
            self.more = true;
            return false;
        }
        self.text.push_str(&shown);
        self.last = number;
        true
    }

    /// The page as an answer: `read` lines were met, of `total` where that is known.
    pub(super) fn finish(
        mut self,
        path: &Path,
        size: u64,
        read: u64,
        total: Option<u64>,
        notes: &[String],
    ) -> Outcome {
        if self.text.is_empty() {
            let lines = if read == 1 {
                "1 line".to_owned()
            } else {
                format!("{read} lines")
            };
            return Outcome::failed(
                format!(
                    "offset {} is past the end: {} has {lines}",
                    self.first,
                    shown(path)
                ),
                "use a smaller offset",
            );
        }
        if self.undecodable {
            self.text
                .push_str("[some bytes are not valid UTF-8 and are shown as \u{fffd}]\n");
        }
        for note in notes {
            self.text.push_str(&format!("[{note}]\n"));
        }
        if self.more {
            let whole =
                total.map_or_else(|| format!("{size} bytes"), |total| format!("{total} lines"));
            self.text.push_str(&format!(
                "[lines {} to {} of {whole}; continue with offset {}]\n",
                self.first,
                self.last,
                self.last + 1,
            ));
        }
        Outcome::Done {
            output: self.text,
            effect: EffectStatus::None,
        }
    }
}

pub(super) struct Line {
    /// The beginning of the line, without its end.
    kept: Vec<u8>,
    /// Its length in bytes, without its end.
    length: u64,
}

/// The next line, of which only the beginning is kept, however long it is.
pub(super) fn bounded_line(reader: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Line {
        kept: Vec::new(),
        length: 0,
    };
    let mut any = false;
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(any.then_some(line));
        }
        any = true;
        let newline = bytes.iter().position(|byte| *byte == b'\n');
        let (part, _) = bytes.split_at(newline.unwrap_or(bytes.len()));
        let room = LINE_KEPT.saturating_sub(line.kept.len()).min(part.len());
        line.kept.extend(part.iter().take(room));
        line.length += part.len() as u64;
        let used = newline.map_or(part.len(), |at| at + 1);
        reader.consume(used);
        if newline.is_some() {
            if line.kept.last() == Some(&b'\r') && line.length == line.kept.len() as u64 {
                line.kept.pop();
                line.length -= 1;
            }
            return Ok(Some(line));
        }
    }
}

/// Lines from here to the end.
pub(super) fn count_lines(reader: &mut impl BufRead) -> io::Result<u64> {
    let (mut count, mut open) = (0, false);
    loop {
        let bytes = reader.fill_buf()?;
        let Some(last) = bytes.last() else {
            return Ok(count + u64::from(open));
        };
        open = *last != b'\n';
        count += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let used = bytes.len();
        reader.consume(used);
    }
}
