//! UTF-16 read as UTF-8 piece by piece, so that a large file costs only what is read of it.

use std::io::{self, BufRead, Read};

use super::{Encoding, wide};

/// A reader of UTF-16, without its mark, as UTF-8.
#[derive(Debug)]
pub struct Transcoded<R> {
    inner: R,
    encoding: Encoding,
    /// What has been converted, and how much of it is used.
    ready: Vec<u8>,
    used: usize,
    /// The last bytes of a piece that may be the beginning of a character.
    open: Vec<u8>,
}

impl<R: BufRead> Transcoded<R> {
    /// The text of `inner`, which is UTF-16 of this byte order.
    pub const fn new(inner: R, encoding: Encoding) -> Self {
        Self {
            inner,
            encoding,
            ready: Vec::new(),
            used: 0,
            open: Vec::new(),
        }
    }

    fn convert_next(&mut self) -> io::Result<()> {
        self.ready.clear();
        self.used = 0;
        while self.ready.is_empty() {
            let piece = self.inner.fill_buf()?;
            let taken = piece.len();
            let mut bytes = std::mem::take(&mut self.open);
            bytes.extend_from_slice(piece);
            self.inner.consume(taken);
            let mut whole = bytes.len() - bytes.len() % 2;
            let last = bytes
                .get(whole.saturating_sub(2)..whole)
                .unwrap_or_default();
            let high = |unit| (0xd800..=0xdbff).contains(&unit);
            if taken > 0 && wide::units(last, self.encoding).any(high) {
                whole -= 2;
            }
            let (now, later) = bytes.split_at(whole);
            self.ready = wide::to_content(now, self.encoding);
            if taken == 0 {
                return Ok(());
            }
            self.open = later.to_vec();
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Transcoded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Transcoded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used >= self.ready.len() {
            self.convert_next()?;
        }
        Ok(self.ready.get(self.used..).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        self.used += amount;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    #[test]
    fn characters_that_are_split_between_pieces_are_joined() {
        let text = "a\u{1f600}bé中\u{1f600}";
        let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for capacity in 1..8 {
            let inner = BufReader::with_capacity(capacity, io::Cursor::new(bytes.clone()));
            let mut read = String::new();
            Transcoded::new(inner, Encoding::Utf16Be)
                .read_to_string(&mut read)
                .unwrap();
            assert_eq!(read, text);
        }
    }
}
