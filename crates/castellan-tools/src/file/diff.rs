//! Unified diffs of bounded size and time, made from the regions that differ.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline, group_diff_ops};

use super::text::{Encoding, Replacement};

/// How long the search for a short diff may take; after that the rest counts as replaced whole.
const SEARCHED: Duration = Duration::from_secs(1);
/// Bytes of a line that are shown.
const LINE_SHOWN: usize = 1000;
/// Bytes shown before the first difference of a longer line.
const LINE_LEAD: usize = 200;
/// About how many bytes of a text are compared at once where changes are near to each other.
const REGION: usize = 64 * 1024;
/// Lines that are compared at once, old and new together. More, of what is left between the first
/// and the last difference, count as replaced whole: what a line takes is more than its bytes.
const COMPARED: usize = 1_000_000;
/// Bytes that are compared at once where nothing differs.
const BLOCK: usize = 4096;
/// Lines around a change that an edit shows.
pub const CONTEXT: usize = 3;

/// A region of two texts, each beginning at the start of a line.
#[derive(Debug)]
pub struct Region<'a> {
    /// Number of lines before it in the old text.
    pub old_line: usize,
    /// Number of lines before it in the new text.
    pub new_line: usize,
    /// The old text, with LF line ends.
    pub old: &'a [u8],
    /// The new text, with LF line ends.
    pub new: Cow<'a, [u8]>,
}

impl Region<'_> {
    /// The part from the first difference to the last, with `context` lines around it.
    fn trimmed(&self, context: usize) -> Region<'_> {
        let (old, new): (&[u8], &[u8]) = (self.old, &self.new);
        let same = common(old, new);
        let start = lines_back(old, same, context);
        let (old, new) = (behind(old, start), behind(new, start));
        let most = old.len().min(new.len()) - (same - start);
        let place = old.len() - common_end(old, new).min(most);
        let end = lines_on(old, place, context);
        let new_end = new.len() - (old.len() - end);
        let before = feeds(self.old, 0..start);
        Region {
            old_line: self.old_line + before,
            new_line: self.new_line + before,
            old: old.get(..end).unwrap_or_default(),
            new: Cow::Borrowed(new.get(..new_end).unwrap_or_default()),
        }
    }
}

fn behind(text: &[u8], place: usize) -> &[u8] {
    text.get(place..).unwrap_or_default()
}

/// How many bytes at the start are the same.
fn common(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.chunks(BLOCK).zip(b.chunks(BLOCK));
    let same = blocks.take_while(|(a, b)| a == b).count() * BLOCK;
    let same = same.min(a.len()).min(b.len());
    let rest = behind(a, same).iter().zip(behind(b, same));
    same + rest.take_while(|(a, b)| a == b).count()
}

/// How many bytes at the end are the same.
fn common_end(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.rchunks(BLOCK).zip(b.rchunks(BLOCK));
    let same = blocks.take_while(|(a, b)| a == b).count() * BLOCK;
    let same = same.min(a.len()).min(b.len());
    let rest = a.iter().rev().skip(same).zip(b.iter().rev().skip(same));
    same + rest.take_while(|(a, b)| a == b).count()
}

/// A unified diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unified {
    /// Hunks, without a header that names files.
    pub text: String,
    /// Lines that are only in the new text.
    pub added: usize,
    /// Lines that are only in the old text.
    pub removed: usize,
    /// Whether `text` is only the beginning.
    pub cut: bool,
}

impl Unified {
    /// A line behind the diff that says that it is cut; empty where it is not.
    #[must_use]
    pub const fn cut_note(&self) -> &'static str {
        if self.cut {
            "[the diff is cut here; the counts are of all of it]\n"
        } else {
            ""
        }
    }
}

/// How a diff is shown.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Unchanged lines around each change.
    pub context: usize,
    /// About how many bytes of text are made.
    pub limit: usize,
    /// What the bytes of the old text are.
    pub old: Encoding,
    /// What the bytes of the new text are.
    pub new: Encoding,
}

/// The diff of regions that are in order and apart from each other.
pub fn unified<'a>(regions: impl IntoIterator<Item = Region<'a>>, style: Style) -> Unified {
    #[expect(
        clippy::disallowed_methods,
        reason = "a bound on computing, which no clock of a test could reach"
    )]
    let deadline = Instant::now().checked_add(SEARCHED);
    let mut maker = Maker {
        style,
        deadline,
        made: Unified {
            text: String::new(),
            added: 0,
            removed: 0,
            cut: false,
        },
    };
    for region in regions {
        maker.take(&region);
    }
    maker.made
}

/// The regions around replacements: whole lines, with context; near ones are joined, up to a size.
pub fn regions<'a>(
    content: &'a [u8],
    replacements: &'a [Replacement],
) -> impl Iterator<Item = Region<'a>> {
    let mut at = 0;
    let (mut seen, mut taken) = (0, 0);
    let (mut line, mut shift) = (0_usize, 0_isize);
    std::iter::from_fn(move || {
        let first = replacements.get(at)?;
        let start = lines_back(content, first.range.start, CONTEXT).max(taken);
        let mut last = first.range.end;
        let mut end = lines_on(content, last, CONTEXT);
        let from = at;
        at += 1;
        while let Some(next) = replacements.get(at)
            && lines_back(content, next.range.start, CONTEXT) <= end
        {
            let own = lines_back(content, next.range.start, 0);
            if last - start > REGION && own >= lines_on(content, last, 0) {
                end = own;
                break;
            }
            last = next.range.end;
            end = lines_on(content, last, CONTEXT);
            at += 1;
        }
        taken = end;
        line += feeds(content, seen..start);
        seen = start;
        let old = content.get(start..end).unwrap_or_default();
        let mut new = Vec::with_capacity(old.len());
        let mut copied = start;
        for Replacement { range, new: text } in replacements.get(from..at).unwrap_or_default() {
            new.extend_from_slice(content.get(copied..range.start).unwrap_or_default());
            new.extend_from_slice(text);
            copied = range.end;
        }
        new.extend_from_slice(content.get(copied..end).unwrap_or_default());
        let region = Region {
            old_line: line,
            new_line: line.saturating_add_signed(shift),
            old,
            new: Cow::Owned(new),
        };
        let grown = feeds(&region.new, 0..region.new.len());
        let before = feeds(old, 0..old.len());
        shift = shift
            .saturating_add_unsigned(grown)
            .saturating_sub_unsigned(before);
        Some(region)
    })
}

fn feeds(text: &[u8], range: Range<usize>) -> usize {
    memchr::memchr_iter(b'\n', text.get(range).unwrap_or_default()).count()
}

/// The lines that a place is in, whole.
pub(crate) fn whole_lines(content: &[u8], place: &Range<usize>) -> Range<usize> {
    // What ends with a line feed does not reach into the next line.
    let last = place.end.saturating_sub(1).max(place.start);
    lines_back(content, place.start, 0)..lines_on(content, last, 0)
}

/// The start of the line `lines` before the one that `place` is in.
fn lines_back(content: &[u8], place: usize, lines: usize) -> usize {
    let before = content.get(..place).unwrap_or(content);
    memchr::memrchr_iter(b'\n', before)
        .nth(lines)
        .map_or(0, |at| at + 1)
}

/// The end of the line `lines` after the one that `place` is in.
fn lines_on(content: &[u8], place: usize, lines: usize) -> usize {
    let behind = content.get(place..).unwrap_or_default();
    memchr::memchr_iter(b'\n', behind)
        .nth(lines)
        .map_or(content.len(), |at| place + at + 1)
}

struct Maker {
    style: Style,
    deadline: Option<Instant>,
    made: Unified,
}

impl Maker {
    fn take(&mut self, region: &Region<'_>) {
        let region = region.trimmed(self.style.context);
        if feeds(region.old, 0..region.old.len()) + feeds(&region.new, 0..region.new.len())
            > COMPARED
        {
            return self.replaced(&region);
        }
        let old: Vec<&[u8]> = lines(region.old);
        let new: Vec<&[u8]> = lines(&region.new);
        if self.made.cut {
            self.count(&old, &new);
            return;
        }
        let ops = self.compare(&old, &new);
        for op in &ops {
            if !matches!(op, DiffOp::Equal { .. }) {
                self.made.removed += op.old_range().len();
                self.made.added += op.new_range().len();
            }
        }
        for group in group_diff_ops(ops, self.style.context) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else {
                continue;
            };
            let olds = first.old_range().start..last.old_range().end;
            let news = first.new_range().start..last.new_range().end;
            if self.full() {
                return;
            }
            self.made.text.push_str(&format!(
                "@@ -{} +{} @@\n",
                place(region.old_line, &olds),
                place(region.new_line, &news)
            ));
            for op in &group {
                self.show(op, &old, &new);
            }
        }
    }

    /// A region that is too long to compare.
    fn replaced(&mut self, region: &Region<'_>) {
        let count = |text: &[u8]| {
            feeds(text, 0..text.len()) + usize::from(!text.is_empty() && !text.ends_with(b"\n"))
        };
        let (old, new) = (count(region.old), count(&region.new));
        self.made.removed += old;
        self.made.added += new;
        if self.full() {
            return;
        }
        self.made.text.push_str(&format!(
            "@@ -{} +{} @@\n",
            place(region.old_line, &(0..old)),
            place(region.new_line, &(0..new))
        ));
        for (sign, text, encoding) in [
            ('-', region.old, self.style.old),
            ('+', &region.new, self.style.new),
        ] {
            for line in text.split_inclusive(|byte| *byte == b'\n') {
                if self.full() {
                    return;
                }
                self.line(sign, line, 0, encoding);
            }
        }
    }

    /// After the text is full only numbers are made, from what is not the same at both ends.
    fn count(&mut self, old: &[&[u8]], new: &[&[u8]]) {
        let before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        let rest = old.len().min(new.len()) - before;
        let behind = old.iter().rev().zip(new.iter().rev()).take(rest);
        let behind = behind.take_while(|(a, b)| a == b).count();
        let changed = if old.len() == new.len() {
            let between = old.iter().zip(new).filter(|(a, b)| a != b).count();
            (between, between)
        } else {
            (old.len() - before - behind, new.len() - before - behind)
        };
        self.made.removed += changed.0;
        self.made.added += changed.1;
    }

    /// Lines are compared as numbers, so that each is hashed once.
    fn compare(&self, old: &[&[u8]], new: &[&[u8]]) -> Vec<DiffOp> {
        let mut numbers: HashMap<&[u8], usize> = HashMap::new();
        let mut old_numbers = Vec::with_capacity(old.len());
        for line in old {
            let next = numbers.len();
            old_numbers.push(*numbers.entry(line).or_insert(next));
        }
        let mut new_numbers = Vec::with_capacity(new.len());
        for line in new {
            let next = numbers.len();
            new_numbers.push(*numbers.entry(line).or_insert(next));
        }
        capture_diff_slices_deadline(Algorithm::Myers, &old_numbers, &new_numbers, self.deadline)
    }

    fn show(&mut self, op: &DiffOp, old: &[&[u8]], new: &[&[u8]]) {
        let olds = old.get(op.old_range()).unwrap_or_default();
        let news = new.get(op.new_range()).unwrap_or_default();
        if matches!(op, DiffOp::Equal { .. }) {
            for line in olds {
                self.line(' ', line, 0, self.style.old);
            }
            return;
        }
        let focus = |at: usize| match (olds.get(at), news.get(at)) {
            (Some(a), Some(b)) => a.iter().zip(*b).take_while(|(a, b)| a == b).count(),
            _ => 0,
        };
        for (at, line) in olds.iter().enumerate() {
            self.line('-', line, focus(at), self.style.old);
        }
        for (at, line) in news.iter().enumerate() {
            self.line('+', line, focus(at), self.style.new);
        }
    }

    fn full(&mut self) -> bool {
        self.made.cut |= self.made.text.len() > self.style.limit;
        self.made.cut
    }

    /// A line; of a long one the part around its first difference.
    fn line(&mut self, sign: char, line: &[u8], focus: usize, encoding: Encoding) {
        if self.full() {
            return;
        }
        let (body, ended) = match line.strip_suffix(b"\n") {
            Some(body) => (body, true),
            None => (line, false),
        };
        let text = &mut self.made.text;
        text.push(sign);
        if body.len() <= LINE_SHOWN {
            text.push_str(&encoding.show(body));
        } else {
            let start = letter_start(body, focus.saturating_sub(LINE_LEAD));
            let end = letter_start(body, (start + LINE_SHOWN).min(body.len()));
            if start > 0 {
                text.push_str(&format!("[{start} bytes]…"));
            }
            text.push_str(&encoding.show(body.get(start..end).unwrap_or_default()));
            if end < body.len() {
                text.push_str(&format!("…[{} bytes]", body.len() - end));
            }
        }
        text.push('\n');
        if !ended {
            text.push_str("\\ No newline at end of file\n");
        }
    }
}

/// `place` or the next start of a UTF-8 character; 8-bit text, where a byte may look like a
/// continuation, is moved by three at most.
fn letter_start(bytes: &[u8], place: usize) -> usize {
    let rest = bytes.get(place..).unwrap_or_default().iter();
    place
        + rest
            .take(3)
            .take_while(|byte| **byte & 0xc0 == 0x80)
            .count()
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// `12,3` as in the head of a hunk; an empty range names the line before it.
fn place(before: usize, range: &Range<usize>) -> String {
    let start = before + range.start + usize::from(!range.is_empty());
    if range.len() == 1 {
        start.to_string()
    } else {
        format!("{start},{}", range.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(limit: usize) -> Style {
        Style {
            context: CONTEXT,
            limit,
            old: Encoding::Utf8,
            new: Encoding::Utf8,
        }
    }

    fn replace(range: Range<usize>, new: &[u8]) -> Replacement {
        Replacement {
            range,
            new: new.into(),
        }
    }

    #[test]
    fn regions_give_the_line_numbers_of_the_whole_file() {
        let content: String = (1..=40).map(|n| format!("line {n}\n")).collect();
        let at = |text: &str| content.find(text).unwrap();
        let edits = [
            replace(at("line 5\n")..at("line 6\n"), b"five\nmore\n"),
            replace(at("line 30\n")..at("line 31\n"), b""),
        ];
        let diff = unified(regions(content.as_bytes(), &edits), style(10_000));
        assert_eq!(
            diff.text,
            "@@ -2,7 +2,8 @@\n line 2\n line 3\n line 4\n-line 5\n+five\n+more\n line 6\n line 7\n line 8\n\
             @@ -27,7 +28,6 @@\n line 27\n line 28\n line 29\n-line 30\n line 31\n line 32\n line 33\n"
        );
        assert_eq!((diff.added, diff.removed, diff.cut), (2, 2, false));
    }

    #[test]
    fn a_missing_final_newline_is_marked_and_a_long_line_shows_its_change() {
        let content = format!("{}x tail", "a".repeat(5000));
        let diff = unified(
            regions(content.as_bytes(), &[replace(5000..5001, b"y")]),
            style(10_000),
        );
        assert!(
            diff.text.contains("ax tail\n\\ No newline"),
            "{}",
            diff.text
        );
        assert!(diff.text.contains("+[4800 bytes]…aaa") && diff.text.contains("ay tail\n"));
    }

    #[test]
    fn a_long_diff_is_cut_and_counted() {
        let content = "x\n\n\n\n\n\n\n\n\n".repeat(1000);
        let edits: Vec<_> = (0..1000)
            .map(|n| replace(n * 10..n * 10 + 1, b"y"))
            .collect();
        let diff = unified(regions(content.as_bytes(), &edits), style(500));
        assert!(diff.cut && diff.text.len() < 700, "{}", diff.text.len());
        assert_eq!((diff.added, diff.removed), (1000, 1000));
    }

    #[test]
    fn only_what_is_between_the_first_and_the_last_difference_is_compared() {
        let text = "a\nb\nc\nd\ne\n";
        for (old, new, wanted) in [
            (text, "a\nb\nX\nd\ne\n", "@@ -2,3 +2,3 @@\n b\n-c\n+X\n d\n"),
            (text, "a\nb\nc\nd\ne\ne\n", "@@ -5 +5,2 @@\n e\n+e\n"),
            (text, "b\nc\nd\ne\n", "@@ -1,2 +1 @@\n-a\n b\n"),
            (text, "a\nb\nc\nd\nfe\n", "@@ -4,2 +4,2 @@\n d\n-e\n+fe\n"),
            ("", "a\n", "@@ -0,0 +1 @@\n+a\n"),
            ("a\n", "", "@@ -1 +0,0 @@\n-a\n"),
            (text, text, ""),
        ] {
            let region = Region {
                old_line: 0,
                new_line: 0,
                old: old.as_bytes(),
                new: Cow::Borrowed(new.as_bytes()),
            };
            let style = Style {
                context: 1,
                ..style(10_000)
            };
            assert_eq!(unified([region], style).text, wanted);
        }
    }

    #[test]
    fn more_lines_than_are_compared_count_as_replaced() {
        let old = "\n".repeat(COMPARED);
        let region = Region {
            old_line: 0,
            new_line: 0,
            old: old.as_bytes(),
            new: Cow::Owned(b"x\n".repeat(9)),
        };
        let diff = unified([region], style(500));
        assert!(diff.cut && diff.text.len() < 700, "{}", diff.text.len());
        assert_eq!((diff.added, diff.removed), (9, COMPARED));
    }

    /// Makes the new text from the old one and the hunks, as any patch program would.
    fn patched(old: &str, diff: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut new, mut at) = (String::new(), 0);
        for line in diff.split_inclusive('\n') {
            let (sign, text) = line.split_at(1);
            match sign {
                "@" => {
                    let start = text.split(['-', ',', ' ']).nth(2).unwrap();
                    let start = start.parse::<usize>().unwrap() - 1;
                    assert!(start >= at, "hunks are in order and apart");
                    new.extend(old[at..start].iter().copied());
                    at = start;
                }
                "+" => new.push_str(text),
                _ => {
                    assert_eq!(old[at], text);
                    at += 1;
                    if sign == " " {
                        new.push_str(text);
                    }
                }
            }
        }
        new.extend(old[at..].iter().copied());
        new
    }

    #[test]
    fn many_changes_near_to_each_other_make_a_diff_that_can_be_applied() {
        let old: String = (0..9000)
            .map(|n| format!("a line with the number {n}\n"))
            .collect();
        for word in ["number", "e\n", "number 1", "9\n", "88\n"] {
            let places = old.match_indices(word);
            let edits: Vec<_> = places.map(|(at, _)| replace(at..at + 1, b"N\nM")).collect();
            let diff = unified(regions(old.as_bytes(), &edits), style(usize::MAX));
            let mut new = Vec::new();
            let mut copied = 0;
            for edit in &edits {
                new.extend_from_slice(&old.as_bytes()[copied..edit.range.start]);
                new.extend_from_slice(&edit.new);
                copied = edit.range.end;
            }
            new.extend_from_slice(&old.as_bytes()[copied..]);
            assert!(patched(&old, &diff.text).as_bytes() == new, "{word}");
        }
    }
}
