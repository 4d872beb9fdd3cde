//! A bounded record of what a command wrote: its beginning, its end, and how much there was.
//!
//! Pure: chunks go in, text comes out. Memory stays flat however much is pushed.

use std::collections::VecDeque;
use std::fmt::Write as _;

use castellan_core::secret::{RedactedStream, Redaction};

use crate::shell::Stream;

/// What is put before each line of standard error.
const STDERR_PREFIX: &str = "[stderr] ";

/// Bytes of text kept unless told otherwise.
pub const DEFAULT_LIMIT: usize = 256 * 1024;

/// Output in arrival order, kept as head and tail within a limit.
#[derive(Debug)]
pub struct Capture {
    limit: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes of text there were in all, with prefixes.
    written: u64,
    total: u64,
    lines: u64,
    nuls: u64,
    last: Option<Stream>,
    at_line_start: bool,
    /// Beginnings of characters that were cut by a chunk's end, of stdout and of stderr.
    partial: [Vec<u8>; 2],
    /// Takes known secrets out before anything is kept, of stdout and of stderr.
    redacted: [RedactedStream; 2],
    /// What was added by the present call.
    fresh: String,
}

impl Default for Capture {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT, &Redaction::default())
    }
}

impl Capture {
    /// A record that keeps about `limit` bytes of text, half from the beginning and half from the
    /// end, without the secrets of `redaction`.
    #[must_use]
    pub fn new(limit: usize, redaction: &Redaction) -> Self {
        Self {
            limit,
            head: Vec::new(),
            tail: VecDeque::new(),
            written: 0,
            total: 0,
            lines: 0,
            nuls: 0,
            last: None,
            at_line_start: true,
            partial: [Vec::new(), Vec::new()],
            redacted: [(); 2].map(|()| RedactedStream::new(redaction.clone())),
            fresh: String::new(),
        }
    }

    /// Takes a chunk; returns what it adds to the text. Chunks may be cut anywhere, also within a
    /// character or a secret: what may be the beginning of either is held back.
    pub fn push(&mut self, stream: Stream, chunk: &[u8]) -> String {
        self.total += length(chunk.len());
        self.lines += length(chunk.iter().filter(|byte| **byte == b'\n').count());
        let mut bytes = std::mem::take(self.partial_mut(stream));
        // Nearly always empty: then the chunk is read where it is.
        let joined: &[u8] = if bytes.is_empty() {
            chunk
        } else {
            bytes.extend_from_slice(chunk);
            &bytes
        };
        let mut rest = Vec::new();
        for piece in joined.utf8_chunks() {
            self.redact(stream, piece.valid());
            let invalid = piece.invalid();
            if invalid.is_empty() {
                continue;
            }
            if is_at_end(joined, invalid) && is_unfinished(invalid) {
                rest = invalid.to_vec();
            } else {
                self.redact(stream, "\u{fffd}");
            }
        }
        *self.partial_mut(stream) = rest;
        std::mem::take(&mut self.fresh)
    }

    /// Takes the end of all output; returns what had been held back.
    pub fn finish(&mut self) -> String {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if !std::mem::take(self.partial_mut(stream)).is_empty() {
                self.redact(stream, "\u{fffd}");
            }
            let held = self.redacted_mut(stream).finish();
            self.write(stream, &held);
        }
        std::mem::take(&mut self.fresh)
    }

    /// NUL bytes are no text and are left out: a disk image would push out everything that is.
    fn redact(&mut self, stream: Stream, text: &str) {
        if !text.contains('\0') {
            return self.take_text(stream, text);
        }
        let rest: Vec<u8> = text.bytes().filter(|byte| *byte != 0).collect();
        self.nuls += length(text.len() - rest.len());
        // Text without some of its characters is text.
        self.take_text(stream, &String::from_utf8_lossy(&rest));
    }

    fn take_text(&mut self, stream: Stream, text: &str) {
        let text = self.redacted_mut(stream).push(text);
        self.write(stream, &text);
    }

    const fn redacted_mut(&mut self, stream: Stream) -> &mut RedactedStream {
        let [stdout, stderr] = &mut self.redacted;
        match stream {
            Stream::Stdout => stdout,
            Stream::Stderr => stderr,
        }
    }

    /// Bytes pushed in all.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Line ends pushed in all.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        self.lines
    }

    /// NUL bytes pushed in all, which are not in the text.
    #[must_use]
    pub const fn nuls(&self) -> u64 {
        self.nuls
    }

    /// Whether text had to be left out.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut() > 0
    }

    /// The text, with a line where something was left out that says how much.
    #[must_use]
    pub fn text(&self) -> String {
        let head = String::from_utf8_lossy(&self.head);
        let (first, second) = self.tail.as_slices();
        let tail = [first, second].concat();
        // The tail may begin within a character.
        let begin = tail
            .iter()
            .take(4)
            .take_while(|byte| (**byte & 0xc0) == 0x80)
            .count();
        let tail = tail.get(begin..).unwrap_or_default();
        let mut text = head.into_owned();
        let cut = self.cut();
        if cut > 0 {
            let cut = cut + length(begin);
            let break_before = if text.is_empty() || text.ends_with('\n') {
                ""
            } else {
                "\n"
            };
            // Writing to a String cannot fail.
            writeln!(
                text,
                "{break_before}[… {cut} of {} bytes left out …]",
                self.written
            )
            .unwrap_or_default();
        }
        text.push_str(&String::from_utf8_lossy(tail));
        text
    }

    /// Bytes of text that are in neither head nor tail.
    fn cut(&self) -> u64 {
        self.written - length(self.head.len()) - length(self.tail.len())
    }

    const fn partial_mut(&mut self, stream: Stream) -> &mut Vec<u8> {
        let [stdout, stderr] = &mut self.partial;
        match stream {
            Stream::Stdout => stdout,
            Stream::Stderr => stderr,
        }
    }

    /// Takes text of one stream: a line belongs to one stream, and says so if that is stderr.
    fn write(&mut self, stream: Stream, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.last.is_some_and(|last| last != stream) && !self.at_line_start {
            self.keep("\n");
            self.at_line_start = true;
        }
        self.last = Some(stream);
        if stream == Stream::Stdout {
            self.keep(text);
        } else {
            for line in text.split_inclusive('\n') {
                if self.at_line_start {
                    self.keep(STDERR_PREFIX);
                }
                self.keep(line);
                self.at_line_start = line.ends_with('\n');
            }
        }
        self.at_line_start = text.ends_with('\n');
    }

    /// Keeps text at the end, and lets go of what is past the limit.
    fn keep(&mut self, text: &str) {
        self.written += length(text.len());
        self.fresh.push_str(text);
        let mut text = text;
        let half = self.limit / 2;
        if self.tail.is_empty() {
            let (head, rest) = text.split_at(text.floor_char_boundary(half - self.head.len()));
            self.head.extend_from_slice(head.as_bytes());
            if rest.is_empty() {
                return;
            }
            text = rest;
        }
        // Bytes that would be pushed out again at once need not go in.
        let last = text
            .as_bytes()
            .get(text.len().saturating_sub(half)..)
            .unwrap_or_default();
        let surplus = (self.tail.len() + last.len()).saturating_sub(half);
        self.tail.drain(..surplus.min(self.tail.len()));
        self.tail.extend(last);
    }
}

/// Whether `part`, a subslice of `whole`, is its end.
fn is_at_end(whole: &[u8], part: &[u8]) -> bool {
    whole.as_ptr_range().end == part.as_ptr_range().end
}

/// Whether bytes that are no character yet may become one.
fn is_unfinished(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

const fn length(length: usize) -> u64 {
    length as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Cuts bytes into chunks of the given lengths, over and over.
    fn cut<'a>(mut bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
        let mut chunks = Vec::new();
        for length in lengths.iter().cycle() {
            if bytes.is_empty() {
                break;
            }
            let (chunk, rest) = bytes.split_at((*length).min(bytes.len()));
            chunks.push(chunk);
            bytes = rest;
        }
        chunks
    }

    fn captured(limit: usize, pieces: &[(Stream, &[u8])]) -> Capture {
        let mut capture = Capture::new(limit, &Redaction::default());
        let mut said = String::new();
        for (stream, piece) in pieces {
            said.push_str(&capture.push(*stream, piece));
        }
        said.push_str(&capture.finish());
        assert!(capture.is_cut() || capture.text() == said);
        capture
    }

    proptest! {
        #[test]
        fn where_chunks_are_cut_changes_nothing(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..400),
                "(\\PC|\n|€|😀){0,200}".prop_map(String::into_bytes),
            ],
            lengths in proptest::collection::vec(1_usize..9, 1..6),
            limit in 0_usize..200,
            is_stderr in any::<bool>(),
        ) {
            let stream = if is_stderr { Stream::Stderr } else { Stream::Stdout };
            let whole = captured(limit, &[(stream, &bytes)]);
            let pieces: Vec<_> =
                cut(&bytes, &lengths).into_iter().map(|chunk| (stream, chunk)).collect();
            let cut = captured(limit, &pieces);
            prop_assert_eq!(whole.text(), cut.text());
            prop_assert_eq!(whole.total(), cut.total());
            prop_assert_eq!(whole.lines(), cut.lines());
        }

        #[test]
        fn within_the_limit_standard_output_is_what_was_written(
            text in "(\\PC|\n|€|😀){0,200}",
            lengths in proptest::collection::vec(1_usize..9, 1..6),
        ) {
            let pieces: Vec<_> = cut(text.as_bytes(), &lengths)
                .into_iter()
                .map(|chunk| (Stream::Stdout, chunk))
                .collect();
            let capture = captured(10_000, &pieces);
            prop_assert!(!capture.is_cut());
            prop_assert_eq!(capture.text(), text);
        }

        #[test]
        fn what_is_kept_and_what_is_cut_add_up(
            text in "(\\PC|\n|€|😀){0,300}",
            limit in 8_usize..300,
        ) {
            let capture = captured(limit, &[(Stream::Stdout, text.as_bytes())]);
            let shown = capture.text();
            if !capture.is_cut() {
                prop_assert_eq!(shown, text);
                return Ok(());
            }
            let (head, rest) = shown.split_once("[… ").unwrap();
            let (count, tail) = rest.split_once(" bytes left out …]\n").unwrap();
            let (count, total) = count.split_once(" of ").unwrap();
            prop_assert_eq!(total.parse::<usize>().unwrap(), text.len());
            let head = if text.starts_with(head) { head } else { head.trim_end_matches('\n') };
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            // The line break before the marker may or may not be the text's own.
            let kept = text.len() - count.parse::<usize>().unwrap();
            prop_assert!(kept == head.len() + tail.len() || kept + 1 == head.len() + tail.len());
            prop_assert!(kept <= limit);
        }
    }

    #[test]
    fn lines_of_standard_error_are_marked_and_lines_are_not_mixed() {
        let capture = captured(
            1000,
            &[
                (Stream::Stdout, b"progress"),
                (Stream::Stderr, b"one\ntw"),
                (Stream::Stderr, b"o\n"),
                (Stream::Stdout, b"rest\n"),
            ],
        );
        assert_eq!(
            capture.text(),
            "progress\n[stderr] one\n[stderr] two\nrest\n"
        );
        assert_eq!((capture.total(), capture.lines()), (21, 3));
    }

    #[test]
    fn nul_bytes_are_counted_and_take_no_room() {
        let mut capture = Capture::new(10, &Redaction::default());
        let mut text = capture.push(Stream::Stdout, b"a\0b\0\0");
        for _ in 0..1000 {
            text.push_str(&capture.push(Stream::Stdout, &[0; 1000]));
        }
        text.push_str(&capture.push(Stream::Stderr, b"\0c"));
        capture.finish();
        assert_eq!(text, "ab\n[stderr] c");
        assert!(capture.is_cut(), "10 bytes are kept of 14");
        assert_eq!((capture.total(), capture.nuls()), (1_000_007, 1_000_004));
    }

    #[test]
    fn a_character_cut_in_two_survives_the_other_stream_in_between() {
        let [first, second, third] = "€".as_bytes() else {
            panic!()
        };
        let capture = captured(
            1000,
            &[
                (Stream::Stdout, &[*first]),
                (Stream::Stderr, b"x\n"),
                (Stream::Stdout, &[*second, *third, b'\n']),
            ],
        );
        assert_eq!(capture.text(), "[stderr] x\n€\n");
    }

    #[test]
    fn a_character_that_never_came_is_shown_as_broken() {
        assert_eq!(
            captured(1000, &[(Stream::Stdout, b"a\xe2\x82")]).text(),
            "a\u{fffd}"
        );
    }

    #[test]
    fn a_secret_is_taken_out_wherever_the_output_is_cut() {
        let redaction = Redaction::new(["sk-test-123".to_owned()]);
        for limit in 0..60 {
            let mut capture = Capture::new(limit, &redaction);
            for piece in b"the key is sk-test-123, says the log".chunks(4) {
                capture.push(Stream::Stderr, piece);
            }
            capture.finish();
            assert!(
                !capture.text().contains("sk-t"),
                "limit {limit}: {}",
                capture.text()
            );
        }
    }

    #[test]
    fn memory_stays_within_the_limit() {
        let mut capture = Capture::new(1000, &Redaction::default());
        for _ in 0..1000 {
            capture.push(Stream::Stdout, &[b'x'; 1000]);
            assert!(capture.head.len() + capture.tail.len() <= 1000);
            assert!(capture.tail.capacity() < 4000);
        }
        assert_eq!(capture.total(), 1_000_000);
        assert!(
            capture
                .text()
                .contains("[… 999000 of 1000000 bytes left out …]")
        );
    }
}
