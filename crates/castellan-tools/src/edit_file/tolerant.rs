//! The second look for a text that is not in a file exactly: whole lines, where only trailing
//! blanks differ, or all lines are indented by the same more or less, or tabs stand for blanks. What
//! is found counts only where everything was looked at.
//!
//! Nothing within a line is ever overlooked: there, blanks can mean something.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Places looked for; what is found more often is ambiguous anyway.
const MOST: usize = 1000;
/// Lines compared in all. Only text that repeats itself thousands of times needs more, and then
/// the search is given up.
const COMPARED: usize = 4_000_000;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Windows {
    pub(super) found: Vec<Window>,
    /// Whether there may be more that nobody looked at, so that what was found is not the only one.
    pub(super) given_up: bool,
}

/// Lines of a file that are an edit's old text but for blanks at their ends.
#[derive(Debug)]
pub(super) struct Window {
    /// In bytes of content.
    pub(super) range: Range<usize>,
    /// Number of the first line, counted from 1.
    first: u64,
    /// How many lines.
    height: usize,
    /// Whether the old text ends with a line end that the file doesn't have.
    unended: bool,
    /// How each line was indented in the old text and is in the file.
    indents: Vec<(Vec<u8>, Vec<u8>)>,
    shift: Shift,
}

/// How the indentation differs.
#[derive(Debug, PartialEq, Eq)]
enum Shift {
    /// Not at all.
    None,
    /// The file has this before it.
    Deeper(Vec<u8>),
    /// The old text has this before it.
    Shallower(Vec<u8>),
    /// Tabs of the one are blanks of the other.
    Columns {
        /// Columns of a tab.
        tab: usize,
        /// How much deeper the file is, in columns.
        deeper: isize,
        /// Whether the file uses tabs.
        tabs: bool,
    },
}

#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    start: usize,
    /// Without its line end.
    body: &'a [u8],
}

/// The windows of `content` that are `old` but for blanks at the ends of lines.
pub(super) fn find(content: &[u8], old: &[u8]) -> Windows {
    find_within(content, old, COMPARED)
}

/// The same, given up after comparing `most` lines.
pub(super) fn find_within(content: &[u8], old: &[u8], most: usize) -> Windows {
    let (body, ended) = match old.strip_suffix(b"\n") {
        Some(body) => (body, true),
        None => (old, false),
    };
    let wanted: Vec<&[u8]> = body.split(|byte| *byte == b'\n').collect();
    let cores: Vec<&[u8]> = wanted.iter().map(|line| core(line)).collect();
    if cores.iter().all(|core| core.is_empty()) {
        return Windows::default();
    }
    let fails = fail_table(&cores);
    let mut windows = Windows::default();
    let mut recent: VecDeque<Line<'_>> = VecDeque::with_capacity(cores.len());
    let (mut matched, mut compared, mut start, mut number) = (0_usize, 0_usize, 0_usize, 0_u64);
    while start < content.len() {
        let rest = content.get(start..).unwrap_or_default();
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let body = rest.get(..length).unwrap_or_default();
        number += 1;
        if recent.len() == cores.len() {
            recent.pop_front();
        }
        recent.push_back(Line { start, body });
        matched = advance(&cores, &fails, matched, &core(body));
        if matched == cores.len() {
            compared += cores.len();
            if windows.found.len() == MOST || compared > most {
                windows.given_up = true;
                return windows;
            }
            windows
                .found
                .extend(window(&wanted, &recent, number, ended, content));
        }
        start += length + 1;
    }
    windows
}

/// Knuth, Morris and Pratt: how many items at the start of the pattern are also the last ones up
/// to each item.
pub(super) fn fail_table<T: PartialEq>(pattern: &[T]) -> Vec<usize> {
    let mut table = vec![0; pattern.len()];
    let mut matched = 0_usize;
    for (at, item) in pattern.iter().enumerate().skip(1) {
        matched = advance(pattern, &table, matched, item);
        if let Some(entry) = table.get_mut(at) {
            *entry = matched;
        }
    }
    table
}

/// How many items of the pattern end with the next item of what is searched, where `matched` ended
/// with the one before.
pub(super) fn advance<T: PartialEq>(
    pattern: &[T],
    fails: &[usize],
    mut matched: usize,
    next: &T,
) -> usize {
    while matched > 0 && pattern.get(matched) != Some(next) {
        matched = fails.get(matched - 1).copied().unwrap_or(0);
    }
    if pattern.get(matched) == Some(next) {
        matched += 1;
    }
    matched
}

/// The window that ends with line `number`, if its indentation differs by one rule.
fn window(
    wanted: &[&[u8]],
    lines: &VecDeque<Line<'_>>,
    number: u64,
    ended: bool,
    content: &[u8],
) -> Option<Window> {
    let indents: Vec<(&[u8], &[u8])> = wanted
        .iter()
        .zip(lines)
        .filter(|(line, _)| !core(line).is_empty())
        .map(|(line, there)| (indent(line), indent(there.body)))
        .collect();
    let shift = shift(&indents)?;
    let (first, last) = (lines.front()?, lines.back()?);
    let end = last.start + last.body.len();
    let has_end = content.get(end) == Some(&b'\n');
    Some(Window {
        range: first.start..end + usize::from(ended && has_end),
        first: number + 1 - lines.len() as u64,
        height: lines.len(),
        unended: ended && !has_end,
        indents: indents
            .into_iter()
            .map(|(old, file)| (old.to_vec(), file.to_vec()))
            .collect(),
        shift,
    })
}

fn shift(indents: &[(&[u8], &[u8])]) -> Option<Shift> {
    let (old, file) = indents.first().copied()?;
    let all = |rule: &dyn Fn(&[u8], &[u8]) -> bool| indents.iter().all(|(a, b)| rule(a, b));
    if all(&|old, file| old == file) {
        return Some(Shift::None);
    }
    if let Some(more) = file.strip_suffix(old)
        && all(&|old, file| file.strip_prefix(more) == Some(old))
    {
        return Some(Shift::Deeper(more.to_vec()));
    }
    if let Some(more) = old.strip_suffix(file)
        && all(&|old, file| old.strip_prefix(more) == Some(file))
    {
        return Some(Shift::Shallower(more.to_vec()));
    }
    let tabs = indents.iter().any(|(_, file)| file.contains(&b'\t'));
    // The same depth with another width of tabs is likelier than another depth.
    for same_depth in [true, false] {
        for tab in [4, 8, 2, 3, 1, 5, 6, 7] {
            let deeper = columns(file, tab) - columns(old, tab);
            if (deeper == 0 || !same_depth)
                && all(&|old, file| columns(file, tab) - columns(old, tab) == deeper)
            {
                return Some(Shift::Columns { tab, deeper, tabs });
            }
        }
    }
    None
}

/// Width of an indentation. Tabs stand before blanks in any sane one.
fn columns(indent: &[u8], tab: usize) -> isize {
    let width: usize = indent
        .iter()
        .map(|byte| if *byte == b'\t' { tab } else { 1 })
        .sum();
    isize::try_from(width).unwrap_or(isize::MAX / 2)
}

impl Window {
    /// The number of its first line.
    pub(super) const fn line(&self) -> u64 {
        self.first
    }

    /// The new text with the file's indentation. Lines of the old text that it keeps stay as they
    /// are in the file, with the blanks that were overlooked.
    pub(super) fn fitted(&self, content: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
        let (old, new) = match (old.strip_suffix(b"\n"), new.strip_suffix(b"\n")) {
            // The file ends without a line end, and goes on doing so.
            (Some(old), Some(new)) if self.unended => (old, new),
            _ => (old, new),
        };
        let split = |text| <[u8]>::split(text, |byte: &u8| *byte == b'\n');
        let (old, new): (Vec<&[u8]>, Vec<&[u8]>) = (split(old).collect(), split(new).collect());
        let there = content.get(self.range.clone()).unwrap_or_default();
        let there: Vec<&[u8]> = split(there).collect();
        let mut lines: Vec<Cow<'_, [u8]>> = Vec::with_capacity(new.len());
        for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
            if let DiffOp::Equal { old_index, len, .. } = op {
                let same = new.get(op.new_range()).unwrap_or_default();
                let kept = there.get(old_index..old_index + len).unwrap_or(same);
                lines.extend(kept.iter().copied().map(Cow::Borrowed));
            } else {
                let changed = new.get(op.new_range()).unwrap_or_default();
                lines.extend(changed.iter().map(|line| self.fitted_line(line)));
            }
        }
        lines.join(&b'\n')
    }

    fn fitted_line<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        if self.shift == Shift::None || core(line).is_empty() {
            return Cow::Borrowed(line);
        }
        let indent = indent(line);
        let mut fitted = self.indented(indent);
        fitted.extend_from_slice(line.get(indent.len()..).unwrap_or_default());
        Cow::Owned(fitted)
    }

    /// What an indentation of the new text is in the file.
    fn indented(&self, indent: &[u8]) -> Vec<u8> {
        if let Some((_, file)) = self.indents.iter().find(|(old, _)| old == indent) {
            return file.clone();
        }
        match &self.shift {
            Shift::None => indent.to_vec(),
            Shift::Deeper(more) => [more.as_slice(), indent].concat(),
            Shift::Shallower(more) => {
                // A line that is less deep than the shift can only go to the margin.
                let common = indent.iter().zip(more).take_while(|(a, b)| a == b).count();
                indent.get(common..).unwrap_or_default().to_vec()
            }
            Shift::Columns { tab, deeper, tabs } => {
                let width = usize::try_from(columns(indent, *tab) + deeper).unwrap_or(0);
                let (tabs, blanks) = if *tabs {
                    (width / tab, width % tab)
                } else {
                    (0, width)
                };
                [b"\t".repeat(tabs), b" ".repeat(blanks)].concat()
            }
        }
    }

    /// What was overlooked, for the answer.
    pub(super) fn note(&self) -> String {
        let what = match self.shift {
            Shift::None => "other blanks at line ends",
            Shift::Deeper(_) | Shift::Shallower(_) => {
                "another depth of indentation; the new text was re-indented to fit"
            }
            Shift::Columns { .. } => {
                "other indentation (tabs or blanks); the new text was re-indented to fit"
            }
        };
        let last = self.first + self.height as u64 - 1;
        let place = if self.height == 1 {
            format!("line {last}")
        } else {
            format!("lines {} to {last}", self.first)
        };
        format!("the old text is not there exactly; {place} matched with {what}")
    }
}

/// A line without the blanks at its ends.
pub(super) fn core(line: &[u8]) -> &[u8] {
    let rest = line.get(indent(line).len()..).unwrap_or_default();
    let end = rest
        .iter()
        .rposition(|byte| !is_blank(*byte))
        .map_or(0, |at| at + 1);
    rest.get(..end).unwrap_or_default()
}

fn indent(line: &[u8]) -> &[u8] {
    let length = line.iter().take_while(|byte| is_blank(**byte)).count();
    line.get(..length).unwrap_or_default()
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The content after the edit, where exactly one window is found.
    fn edited(content: &str, old: &str, new: &str) -> Option<String> {
        let windows = find(content.as_bytes(), old.as_bytes()).found;
        let [window] = windows.as_slice() else {
            return None;
        };
        let mut out = content.as_bytes()[..window.range.start].to_vec();
        let (old, new) = (old.as_bytes(), new.as_bytes());
        out.extend(window.fitted(content.as_bytes(), old, new));
        out.extend_from_slice(&content.as_bytes()[window.range.end..]);
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn trailing_blanks_are_overlooked() {
        assert_eq!(
            edited("a  \nb\t\nc\n", "a\nb", "A\nB").as_deref(),
            Some("A\nB\nc\n")
        );
    }

    #[test]
    fn a_uniform_shift_moves_the_new_text_too() {
        assert_eq!(
            edited(
                "{\n        if x {\n            y\n        }\n}\n",
                "if x {\n    y\n}\n",
                "if z {\n    if x {\n        y\n    }\n}\n"
            )
            .as_deref(),
            Some(
                "{\n        if z {\n            if x {\n                y\n            }\n        }\n}\n"
            )
        );
        assert_eq!(
            edited(
                "if x:\n    y\n",
                "    if x:\n        y",
                "    if x:\n        z\n  w"
            )
            .as_deref(),
            Some("if x:\n    z\nw\n")
        );
    }

    #[test]
    fn tabs_and_blanks_stand_for_each_other() {
        assert_eq!(
            edited(
                "f\n\tif x {\n\t\ty\n\t}\n",
                "    if x {\n        y\n    }",
                "    if x {\n        if y {\n            z\n        }\n    }"
            )
            .as_deref(),
            Some("f\n\tif x {\n\t\tif y {\n\t\t\tz\n\t\t}\n\t}\n")
        );
        assert_eq!(
            edited("  a\n    b\n", "\ta\n\t\tb", "\ta\n\t\tc\n\t\t\td").as_deref(),
            Some("  a\n    c\n      d\n")
        );
    }

    #[test]
    fn blanks_within_a_line_and_uneven_shifts_are_never_overlooked() {
        assert_eq!(edited("    x = 1\n", "    x  =  1", "y"), None);
        assert_eq!(edited("a\n    b\n", "a\n  b", "y"), None);
        assert_eq!(edited("\n\n", "  \n", "y"), None);
    }

    #[test]
    fn the_same_text_at_two_depths_is_found_twice() {
        let content = "f(){\n    ok();\n}\ng(){\n        ok();\n}";
        let found = find(content.as_bytes(), b"            ok();").found;
        assert_eq!(found.iter().map(Window::line).collect::<Vec<_>>(), [2, 5]);
    }

    /// Case E11: what was overlooked in a line that the edit keeps stays too.
    #[test]
    fn a_line_that_the_edit_keeps_stays_as_it_is_in_the_file() {
        for (content, old, new, wanted) in [
            ("a  \nb\nc\n", "a\nb", "a\nB", "a  \nB\nc\n"),
            ("a\n  \nb  \n", "a\n\nb\n", "x\n\nb\ny\n", "x\n  \nb  \ny\n"),
            (
                "\tx\n        y \n\tz\n",
                "        x\n        y\n        z",
                "        x\n        w\n        y\n        Z",
                "\tx\n\tw\n        y \n\tZ\n",
            ),
            ("  a  \n  b", "a\nb\n", "a\nc\n", "  a  \n  c"),
        ] {
            assert_eq!(edited(content, old, new).as_deref(), Some(wanted));
        }
    }

    #[test]
    fn a_missing_final_newline_stays_missing() {
        assert_eq!(edited("a\n  b", "b\n", "c\n").as_deref(), Some("a\n  c"));
        assert_eq!(
            edited("a\n  b\n", "b\n", "c\n").as_deref(),
            Some("a\n  c\n")
        );
    }

    /// Case E11: a place that was not looked at may be the one that is meant.
    #[test]
    fn a_search_that_is_given_up_says_so() {
        let there = " x\n   x\n x\n";
        let content = format!("{there}{}", "x\n".repeat(30));
        for (most, given_up) in [(93, false), (92, true)] {
            let windows = find_within(content.as_bytes(), b"  x\n    x\n  x\n", most);
            assert_eq!((windows.found.len(), windows.given_up), (1, given_up));
        }
    }

    #[test]
    fn repetitive_text_takes_no_quadratic_time() {
        let content = "x\n".repeat(100_000);
        let old = "  x\n".repeat(500);
        assert_eq!(find(content.as_bytes(), old.as_bytes()).found.len(), MOST);
        let uneven = " x\n".to_owned() + &"  x\n".repeat(500);
        assert_eq!(find(content.as_bytes(), uneven.as_bytes()).found.len(), 0);
    }
}
