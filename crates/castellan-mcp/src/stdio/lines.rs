//! Lines of bounded length from a client that may send anything.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What a line may have, in bytes.
pub(super) const LONGEST: usize = 4 * 1024 * 1024;

/// How much of a buffer is kept between lines.
const KEPT: usize = 64 * 1024;

/// The next thing a client sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line, without its end.
    Text(Vec<u8>),
    /// A line that was too long, of which nothing was kept.
    TooLong,
    /// There is nothing more.
    End,
}

/// Reads lines. Losing the future of [`next`](Self::next) loses nothing.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Up to here there is no line end.
    searched: usize,
    skipping: bool,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) const fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            searched: 0,
            skipping: false,
            ended: false,
        }
    }

    /// The next line. A broken reader ends like one that is done.
    pub(super) async fn next(&mut self) -> Line {
        loop {
            if let Some(line) = self.take() {
                return line;
            }
            if self.ended {
                return self.last();
            }
            match self.fill().await {
                Ok(0) => self.ended = true,
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%error, "an MCP client can't be read any more");
                    self.ended = true;
                }
            }
        }
    }

    async fn fill(&mut self) -> io::Result<usize> {
        if self.skipping {
            self.buffer.clear();
            self.searched = 0;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT {
            self.buffer = Vec::new();
        }
        self.buffer.reserve(8 * 1024);
        self.reader.read_buf(&mut self.buffer).await
    }

    /// A line that is complete.
    fn take(&mut self) -> Option<Line> {
        let unsearched = self.buffer.get(self.searched..)?;
        let Some(found) = unsearched.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            self.skipping |= self.buffer.len() > LONGEST;
            return None;
        };
        let rest = self.buffer.split_off(self.searched + found + 1);
        let mut line = std::mem::replace(&mut self.buffer, rest);
        self.searched = 0;
        if std::mem::take(&mut self.skipping) || line.len() > LONGEST + 1 {
            return Some(Line::TooLong);
        }
        line.pop();
        Some(Line::Text(line))
    }

    /// What comes after the last line end.
    fn last(&mut self) -> Line {
        if std::mem::take(&mut self.skipping) {
            self.buffer.clear();
            self.searched = 0;
            return Line::TooLong;
        }
        self.searched = 0;
        match std::mem::take(&mut self.buffer) {
            rest if rest.is_empty() => Line::End,
            rest => Line::Text(rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    fn all(input: &[u8]) -> Vec<Line> {
        let mut lines = Lines::new(input);
        let mut found = Vec::new();
        loop {
            match lines.next().now_or_never().unwrap() {
                Line::End => return found,
                line => found.push(line),
            }
        }
    }

    fn text(text: &str) -> Line {
        Line::Text(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_come_one_by_one_and_the_last_needs_no_end() {
        assert_eq!(
            all(b"a\nb\r\n\nc"),
            [text("a"), text("b\r"), text(""), text("c")]
        );
        assert_eq!(all(b""), []);
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_one_is_read() {
        let mut input = vec![b'x'; 50 * 1024 * 1024];
        input.extend_from_slice(b"\nnext\n");
        assert_eq!(all(&input), [Line::TooLong, text("next")]);
        assert_eq!(all(&vec![b'x'; LONGEST + 5_000]), [Line::TooLong]);
    }

    #[test]
    fn a_line_of_the_greatest_length_is_read() {
        let mut input = vec![b'x'; LONGEST];
        input.push(b'\n');
        let found = all(&input);
        assert!(matches!(found.as_slice(), [Line::Text(line)] if line.len() == LONGEST));
        input.insert(0, b'x');
        assert_eq!(all(&input), [Line::TooLong]);
    }
}
