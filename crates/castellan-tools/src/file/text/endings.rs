//! Line ends: content has LF only, and what was CRLF in the file is CRLF again afterwards.

use memchr::{memchr_iter, memmem};

/// How the lines of a file end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnds {
    /// LF, or there is none.
    Lf,
    /// CRLF, all of them.
    CrLf,
    /// Both occur.
    Mixed,
}

impl LineEnds {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lf => "LF",
            Self::CrLf => "CRLF",
            Self::Mixed => "mixed LF and CRLF",
        }
    }
}

/// Where the file has CRLF.
#[derive(Debug, Default)]
pub(super) struct Endings {
    /// The places in content of each LF that is a CRLF in the file; ascending.
    crlf: Vec<usize>,
    /// All LFs.
    feeds: usize,
}

/// The text with LF line ends, `None` where it is that already, and what was different.
pub(super) fn unify(raw: &[u8]) -> (Option<Vec<u8>>, Endings) {
    let mut endings = Endings::default();
    let mut unified = Vec::new();
    let mut copied = 0;
    for at in memmem::find_iter(raw, b"\r\n") {
        if copied == 0 && unified.is_empty() {
            unified.reserve_exact(raw.len());
        }
        unified.extend_from_slice(raw.get(copied..at).unwrap_or_default());
        endings.crlf.push(unified.len());
        // The LF is copied with what follows.
        copied = at + 1;
    }
    if endings.crlf.is_empty() {
        return (None, endings);
    }
    unified.extend_from_slice(raw.get(copied..).unwrap_or_default());
    endings.feeds = memchr_iter(b'\n', raw).count();
    (Some(unified), endings)
}

impl Endings {
    pub(super) const fn kind(&self) -> LineEnds {
        if self.crlf.is_empty() {
            LineEnds::Lf
        } else if self.crlf.len() == self.feeds {
            LineEnds::CrLf
        } else {
            LineEnds::Mixed
        }
    }

    /// A place of content as a place of the file's text. A CRLF is never parted: a place before
    /// its LF is before its CR too.
    pub(super) fn outer(&self, place: usize) -> usize {
        place + self.crlf.partition_point(|at| *at < place)
    }

    /// Appends `new`, which has LF line ends, with those of `old`, the text of the file it
    /// replaces.
    pub(super) fn restore(&self, old: &[u8], new: &[u8], out: &mut Vec<u8>) {
        match self.kind() {
            LineEnds::Lf => out.extend_from_slice(new),
            LineEnds::CrLf => push_crlf(new, out),
            LineEnds::Mixed => self.restore_each(old, new, out),
        }
    }

    /// Lines at both ends that stay as they were keep their line end; between them the lines take
    /// those of the old ones in turn, and added ones what most lines of the file have.
    fn restore_each(&self, old: &[u8], new: &[u8], out: &mut Vec<u8>) {
        let (old, new) = (split(old), split(new));
        let same = |(a, b): &(&Line<'_>, &Line<'_>)| a.0 == b.0;
        let before = old.iter().zip(&new).take_while(same).count();
        let shorter = old.len().min(new.len()) - before;
        let behind = old.iter().rev().zip(new.iter().rev()).take(shorter);
        let behind = behind.take_while(same).count();
        let usual = if self.crlf.len() * 2 > self.feeds {
            End::CrLf
        } else {
            End::Lf
        };
        let replaced = old.len() - before - behind;
        let added = new.len() - before - behind;
        for (number, (line, end)) in new.iter().enumerate() {
            out.extend_from_slice(line);
            if *end == End::None {
                continue;
            }
            let counterpart = if number < before {
                Some(number)
            } else if number >= before + added {
                Some(number - added + replaced)
            } else {
                Some(number).filter(|number| number - before < replaced)
            };
            let kept = counterpart
                .and_then(|number| old.get(number))
                .map(|(_, end)| *end)
                .filter(|end| *end != End::None);
            out.extend_from_slice(match kept.unwrap_or(usual) {
                End::CrLf => b"\r\n",
                End::Lf | End::None => b"\n",
            });
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    None,
    Lf,
    CrLf,
}

/// A line without its end, and the end.
type Line<'a> = (&'a [u8], End);

fn split(text: &[u8]) -> Vec<Line<'_>> {
    let line = |part: &'_ [u8]| -> (usize, End) {
        if part.ends_with(b"\r\n") {
            (part.len() - 2, End::CrLf)
        } else if part.ends_with(b"\n") {
            (part.len() - 1, End::Lf)
        } else {
            (part.len(), End::None)
        }
    };
    text.split_inclusive(|byte| *byte == b'\n')
        .map(|part| {
            let (length, end) = line(part);
            (part.get(..length).unwrap_or_default(), end)
        })
        .collect()
}

/// Appends text with LF line ends as text with CRLF line ends.
pub(super) fn push_crlf(text: &[u8], out: &mut Vec<u8>) {
    let mut copied = 0;
    for at in memchr_iter(b'\n', text) {
        out.extend_from_slice(text.get(copied..at).unwrap_or_default());
        out.extend_from_slice(b"\r\n");
        copied = at + 1;
    }
    out.extend_from_slice(text.get(copied..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(file: &[u8], place: std::ops::Range<usize>, new: &[u8]) -> String {
        let (_, endings) = unify(file);
        let (start, end) = (endings.outer(place.start), endings.outer(place.end));
        let mut out = file[..start].to_vec();
        endings.restore(&file[start..end], new, &mut out);
        out.extend_from_slice(&file[end..]);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_place_before_an_lf_is_before_its_cr() {
        let (unified, endings) = unify(b"a\r\nb\n\r\n");
        assert_eq!(unified.unwrap(), b"a\nb\n\n");
        let places: Vec<usize> = (0..=5).map(|place| endings.outer(place)).collect();
        assert_eq!(places, [0, 1, 3, 4, 5, 7]);
    }

    #[test]
    fn a_line_keeps_its_kind_of_end_and_an_added_one_takes_the_usual() {
        let file = b"a\r\nb\nc\r\nd\r\n";
        assert_eq!(edited(file, 2..3, b"B"), "a\r\nB\nc\r\nd\r\n");
        assert_eq!(edited(file, 0..6, b"A\nB\nC\n"), "A\r\nB\nC\r\nd\r\n");
        assert_eq!(edited(file, 2..3, b"b\nnew"), "a\r\nb\r\nnew\nc\r\nd\r\n");
        assert_eq!(edited(file, 0..6, b"x\nc\n"), "x\r\nc\r\nd\r\n");
        assert_eq!(edited(b"a\r\nb\r\n", 0..4, b"1\n2\n3\n"), "1\r\n2\r\n3\r\n");
    }
}
