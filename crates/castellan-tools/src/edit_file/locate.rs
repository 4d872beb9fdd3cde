//! Finding the place that an edit means. Pure: bytes in, places out.

use std::ops::Range;
use std::sync::Arc;

use memchr::memmem;

use super::tolerant::{self, Window, Windows};
use crate::file::text::Replacement;

/// More places than this are too many for one edit.
const MOST: usize = 1_000_000;

/// An edit as a model asks for it, in bytes of content.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) old: Vec<u8>,
    pub(super) new: Vec<u8>,
    pub(super) which: Which,
}

/// Which of several places is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// There must be only one.
    Only,
    /// The one nearest to this line.
    Near(u64),
    /// All of them.
    All,
}

/// Where an edit goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) replacements: Vec<Replacement>,
    /// What was overlooked to find it, for the answer.
    pub(super) note: Option<String>,
}

/// Why an edit goes nowhere.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Miss {
    /// The text is not there.
    Absent,
    /// It is there more than once: the lines of the first ones, and how many there are.
    Several { lines: Vec<u64>, total: usize },
    /// It is there more than once, if blanks are overlooked.
    SeveralAlike {
        lines: Vec<u64>,
        total: usize,
        /// Whether there may be more.
        given_up: bool,
    },
    /// It is not there, and whether it is there if blanks are overlooked, and only once, would take
    /// too long to find out.
    GivenUp,
    /// Two places are equally near.
    Tie(u64, u64),
    /// More than [`MOST`].
    TooMany,
}

/// Lines that an answer lists at most.
const LISTED: usize = 20;

/// The place or places of one edit.
pub(super) fn locate(content: &[u8], wanted: &Wanted) -> Result<Found, Miss> {
    let Wanted { old, new, which } = wanted;
    let all = memmem::find_iter(content, old);
    let mut found: Vec<usize> = all.take(MOST + 1).collect();
    let looked = match which {
        Which::All => 0,
        // It takes repetitive text, which is ambiguous soon.
        Which::Only => LISTED,
        Which::Near(_) => MOST,
    };
    found.append(&mut overlapping(content, old, &found, looked));
    found.sort_unstable();
    if found.len() > MOST {
        return Err(Miss::TooMany);
    }
    let chosen = match (found.as_slice(), which) {
        ([], _) => return tolerated(content, wanted, &tolerant::find(content, old)),
        ([one], _) => vec![*one],
        (_, Which::All) => found,
        (_, Which::Near(line)) => vec![nearest_to(content, old, &found, *line)?],
        (several, Which::Only) => {
            let first = several.get(..LISTED).unwrap_or(several);
            let lines = lines_of(content, first.iter().copied());
            return Err(Miss::Several {
                lines,
                total: several.len(),
            });
        }
    };
    let new: Arc<[u8]> = new.as_slice().into();
    Ok(Found {
        replacements: chosen
            .into_iter()
            .map(|start| Replacement {
                range: start..start + old.len(),
                new: Arc::clone(&new),
            })
            .collect(),
        note: None,
    })
}

/// A place that overlaps an earlier one is a place too where one is to be chosen: of `aXa` in
/// `aXaXa` there are two. Looked for only behind the first `looked` ones.
fn overlapping(content: &[u8], old: &[u8], found: &[usize], looked: usize) -> Vec<usize> {
    let fails = tolerant::fail_table(old);
    if fails.last().is_none_or(|repeated| *repeated == 0) {
        return Vec::new();
    }
    let mut more = Vec::new();
    for start in found.iter().take(looked) {
        let end = (start + 2 * old.len() - 1).min(content.len());
        let behind = content.get(start + 1..end).unwrap_or_default();
        let mut matched = 0;
        for (at, byte) in (start + 2..).zip(behind) {
            matched = tolerant::advance(old, &fails, matched, byte);
            if matched == old.len() {
                more.push(at - old.len());
            }
        }
        if more.len() > MOST {
            break;
        }
    }
    more
}

/// The place that is there with other blanks, if it is certain that there is only one.
fn tolerated(content: &[u8], wanted: &Wanted, windows: &Windows) -> Result<Found, Miss> {
    match windows.found.as_slice() {
        [] | [_] if windows.given_up => Err(Miss::GivenUp),
        [] => Err(Miss::Absent),
        [window] => {
            let new = window.fitted(content, &wanted.old, &wanted.new);
            Ok(Found {
                replacements: vec![Replacement {
                    range: window.range.clone(),
                    new: new.into(),
                }],
                note: Some(window.note()),
            })
        }
        several => Err(Miss::SeveralAlike {
            lines: several.iter().take(LISTED).map(Window::line).collect(),
            total: several.len(),
            given_up: windows.given_up,
        }),
    }
}

/// The place nearest to a line, none of it counting as away where it spans the line.
fn nearest_to(content: &[u8], old: &[u8], found: &[usize], line: u64) -> Result<usize, Miss> {
    let starts = lines_of(content, found.iter().copied());
    let body = old.strip_suffix(b"\n").unwrap_or(old);
    let height = memchr::memchr_iter(b'\n', body).count() as u64;
    let away = |start: u64| {
        if line < start {
            start - line
        } else {
            line.saturating_sub(start + height)
        }
    };
    let mut ranked: Vec<(u64, u64, usize)> = starts
        .iter()
        .zip(found)
        .map(|(start, place)| (away(*start), *start, *place))
        .collect();
    ranked.sort_unstable();
    match ranked.as_slice() {
        [(near, first, _), (also, second, _), ..] if near == also => {
            Err(Miss::Tie(*first, *second))
        }
        [(_, _, place), ..] => Ok(*place),
        [] => Err(Miss::Absent),
    }
}

/// The lines, counted from 1, of ascending places.
pub(super) fn lines_of(content: &[u8], places: impl Iterator<Item = usize>) -> Vec<u64> {
    let (mut line, mut counted) = (1_u64, 0);
    places
        .map(|place| {
            let between = content.get(counted..place).unwrap_or_default();
            line += memchr::memchr_iter(b'\n', between).count() as u64;
            counted = place.max(counted);
            line
        })
        .collect()
}

/// The first two edits, by number, that touch the same text.
pub(super) fn overlap(edits: &[(usize, Range<usize>)]) -> Option<(usize, usize)> {
    let mut sorted: Vec<_> = edits.iter().collect();
    sorted.sort_by_key(|(_, range)| range.start);
    sorted.windows(2).find_map(|pair| match pair {
        [(a, first), (b, second)] if second.start < first.end => Some((*a.min(b), *a.max(b))),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(old: &str, which: Which) -> Wanted {
        Wanted {
            old: old.into(),
            new: b"new".to_vec(),
            which,
        }
    }

    fn starts(content: &str, old: &str, which: Which) -> Result<Vec<usize>, Miss> {
        locate(content.as_bytes(), &wanted(old, which)).map(|found| {
            let each = found.replacements.iter();
            each.map(|one| one.range.start).collect()
        })
    }

    #[test]
    fn one_place_is_found_and_several_are_listed() {
        assert_eq!(starts("a\nb\nc\n", "b", Which::Only), Ok(vec![2]));
        assert_eq!(starts("x\na\nx\n", "x", Which::All), Ok(vec![0, 4]));
        assert_eq!(
            starts("x\na\nx\n", "x", Which::Only),
            Err(Miss::Several {
                lines: vec![1, 3],
                total: 2
            })
        );
        assert_eq!(starts("x\n", "y", Which::Only), Err(Miss::Absent));
    }

    #[test]
    fn overlapping_places_are_several() {
        assert_eq!(
            starts("aXaXa", "aXa", Which::Only),
            Err(Miss::Several {
                lines: vec![1, 1],
                total: 2
            })
        );
        assert_eq!(starts("aXaXa", "aXa", Which::All), Ok(vec![0]));
        let lines = "x\n".repeat(8);
        assert_eq!(starts(&lines, "x\nx\nx\n", Which::Near(99)), Ok(vec![10]));
        let late = "aXa\n".repeat(LISTED) + "aXaXa\n";
        let tie = Err(Miss::Tie(21, 21));
        assert_eq!(starts(&late, "aXa", Which::Near(21)), tie);
    }

    #[test]
    fn the_nearest_place_is_taken_and_a_tie_is_not_decided() {
        let content = "x\n\n\nx\n\n\n\nx\n";
        assert_eq!(starts(content, "x", Which::Near(3)), Ok(vec![4]));
        assert_eq!(starts(content, "x", Which::Near(99)), Ok(vec![9]));
        assert_eq!(starts(content, "x", Which::Near(6)), Err(Miss::Tie(4, 8)));
    }

    /// Case E11.
    #[test]
    fn one_place_that_is_alike_is_not_taken_where_others_were_not_looked_at() {
        let content = b"{\n  x\n  y\n}\nx\ny\n";
        let wanted = wanted("    x\n    y\n", Which::Only);
        let found = |most| {
            let windows = tolerant::find_within(content, &wanted.old, most);
            tolerated(content, &wanted, &windows)
        };
        let several = Miss::SeveralAlike {
            lines: vec![2, 5],
            total: 2,
            given_up: false,
        };
        assert_eq!(found(4), Err(several));
        assert_eq!(found(3), Err(Miss::GivenUp));
        assert_eq!(found(1), Err(Miss::GivenUp));
    }

    #[test]
    fn edits_of_the_same_text_overlap_and_neighbours_do_not() {
        assert_eq!(overlap(&[(0, 5..8), (1, 0..5), (2, 8..9)]), None);
        assert_eq!(overlap(&[(0, 5..8), (1, 0..6)]), Some((0, 1)));
    }
}
