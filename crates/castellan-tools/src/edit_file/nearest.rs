//! What a text that is not in a file was probably meant to be, for the error that says so.

use memchr::memmem;

use super::tolerant::core;

/// Lines of the old text that are looked for in the file, longest first.
const ANCHORS: usize = 8;
/// Places of an anchor that are compared.
const PLACES: usize = 64;
/// Bytes of the file that are searched for a line that is only similar.
const SEARCHED: usize = 4 * 1024 * 1024;
/// Letters of a line that are compared.
const LINE: usize = 400;

/// A place of the file that is most like the old text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Nearest {
    /// Its first line, counted from 1.
    pub(super) line: u64,
    /// Where it begins, in bytes of content.
    pub(super) start: usize,
    /// How many lines the old text has.
    pub(super) height: usize,
    /// The first line of the old text, counted from 1, that the place does not have.
    pub(super) differs: usize,
}

/// The place of `content` most like `old`; `None` where nothing is.
pub(super) fn nearest(content: &[u8], old: &[u8]) -> Option<Nearest> {
    let body = old.strip_suffix(b"\n").unwrap_or(old);
    let wanted: Vec<&[u8]> = body.split(|byte| *byte == b'\n').map(core).collect();
    let mut longest: Vec<usize> = (0..wanted.len()).collect();
    longest.sort_by_key(|at| std::cmp::Reverse(wanted.get(*at).map_or(0, |line| line.len())));
    let mut best: Option<(usize, usize, usize)> = None;
    for at in longest.iter().copied().take(ANCHORS) {
        let Some(line) = wanted.get(at).filter(|line| line.len() > 2) else {
            continue;
        };
        for place in memmem::find_iter(content, line).take(PLACES) {
            let start = line_start(content, place);
            if core(line_at(content, start)) != *line {
                continue;
            }
            let start = lines_before(content, start, at);
            let same = same_lines(content, start, &wanted);
            let better = best.is_none_or(|(most, ..)| same.0 > most);
            if better {
                best = Some((same.0, start, same.1));
            }
        }
    }
    let (start, differs) = match best {
        Some((_, start, differs)) => (start, differs),
        None => {
            let at = *longest.first()?;
            let start = similar_line(content, wanted.get(at)?)?;
            let start = lines_before(content, start, at);
            (start, same_lines(content, start, &wanted).1)
        }
    };
    let before = content.get(..start).unwrap_or_default();
    Some(Nearest {
        line: memchr::memchr_iter(b'\n', before).count() as u64 + 1,
        start,
        height: wanted.len(),
        differs: differs + 1,
    })
}

/// How many lines from `start` on are those wanted, and the first that isn't.
fn same_lines(content: &[u8], start: usize, wanted: &[&[u8]]) -> (usize, usize) {
    let there = content
        .get(start..)
        .unwrap_or_default()
        .split(|byte| *byte == b'\n');
    let same: Vec<bool> = wanted
        .iter()
        .zip(there)
        .map(|(a, b)| *a == core(b))
        .collect();
    let first = same.iter().position(|same| !same).unwrap_or(same.len());
    (
        same.iter().filter(|same| **same).count(),
        first.min(wanted.len() - 1),
    )
}

fn line_start(content: &[u8], place: usize) -> usize {
    let before = content.get(..place).unwrap_or_default();
    memchr::memrchr(b'\n', before).map_or(0, |at| at + 1)
}

fn line_at(content: &[u8], start: usize) -> &[u8] {
    let rest = content.get(start..).unwrap_or_default();
    rest.get(..memchr::memchr(b'\n', rest).unwrap_or(rest.len()))
        .unwrap_or_default()
}

/// The start of the line `lines` before the one at `start`, or the first.
fn lines_before(content: &[u8], start: usize, lines: usize) -> usize {
    let before = content.get(..start).unwrap_or_default();
    memchr::memrchr_iter(b'\n', before)
        .nth(lines)
        .map_or(0, |at| at + 1)
}

/// The start of the line that shares most three-byte pieces with `wanted`, if it shares half.
fn similar_line(content: &[u8], wanted: &[u8]) -> Option<usize> {
    // Blanks within a line are what a quoted line most often has wrong.
    let squeeze = |line: &[u8], into: &mut Vec<u8>| {
        into.clear();
        let letters = line.iter().filter(|byte| !byte.is_ascii_whitespace());
        into.extend(letters.take(LINE).map(u8::to_ascii_lowercase));
    };
    let slot = |piece: &[u8]| {
        piece.iter().fold(0_usize, |hash, byte| {
            (hash * 31 + usize::from(*byte)) % 4096
        })
    };
    // A short line is one piece.
    let pieces = |line: &[u8]| line.len().saturating_sub(2).max(1);
    let (mut own, mut text) = (Vec::new(), Vec::new());
    squeeze(wanted, &mut own);
    if own.is_empty() {
        return None;
    }
    let mut known = vec![false; 4096];
    for piece in own.windows(own.len().min(3)) {
        if let Some(known) = known.get_mut(slot(piece)) {
            *known = true;
        }
    }
    let searched = content.get(..SEARCHED).unwrap_or(content);
    let (mut start, mut best) = (0, None);
    for line in searched.split(|byte| *byte == b'\n') {
        squeeze(line, &mut text);
        let width = text.len().clamp(1, 3);
        let shared = text
            .windows(width)
            .filter(|piece| known.get(slot(piece)) == Some(&true));
        let score = shared.count() * 100 / pieces(&own).max(pieces(&text));
        if score >= 50 && best.is_none_or(|(most, _)| score > most) {
            best = Some((score, start));
        }
        start += line.len() + 1;
    }
    best.map(|(_, start)| start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_with_most_of_its_lines_is_nearest() {
        let content = b"fn a() {\n    go(1);\n}\nfn b() {\n    go(2);\n    stop();\n}\n";
        let found = nearest(content, b"fn b() {\n    go(3);\n    stop();\n}\n").unwrap();
        assert_eq!((found.line, found.height, found.differs), (4, 4, 2));
    }

    #[test]
    fn a_similar_line_is_found_and_nothing_is_not() {
        let found = nearest(
            b"one\nlet total = count(items);\n",
            b"let totl = count(item);",
        )
        .unwrap();
        assert_eq!(found.line, 2);
        assert_eq!(nearest(b"one\ntwo\n", b"quite another thing"), None);
    }
}
