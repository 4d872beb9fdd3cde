//! What of a conversation is left out so that the rest fits: a pure function of sizes.

use castellan_core::event::ResultCut;

use super::request::sizes;
use super::state::{CallState, Entry, State};

/// How small a result may be cut, in bytes.
pub const LEAST_CUT: usize = 1_024;
/// The most bytes a summary may have.
pub const LONGEST_SUMMARY: u64 = 16 * 1_024;
/// What a cut adds: the line that says so.
const MARKER: u64 = 128;

/// How far to go, in bytes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aim {
    /// How large the request is to be at most where whole entries are left out.
    pub target: u64,
    /// How large it may be for the sake of showing the present turn whole.
    pub whole_turn: u64,
    /// Beyond which results are cut.
    pub hard: u64,
    /// How much a summary may take up.
    pub summary: u64,
    /// How much has to be left out for a summary to be worth it; `None` where only results may be cut.
    pub least_gain: Option<u64>,
}

impl Aim {
    /// For a window of so many bytes, at the first or a later try.
    #[must_use]
    pub fn within(window: u64, tries: u32) -> Self {
        let tenths = |tenths: u64| window / 10 * tenths;
        let summary = (window / 8).min(LONGEST_SUMMARY);
        let least_gain = Some(summary + window / 20);
        if tries == 0 {
            Self {
                target: tenths(4),
                whole_turn: tenths(6),
                hard: tenths(7),
                summary,
                least_gain,
            }
        } else {
            Self {
                target: tenths(2),
                whole_turn: tenths(3),
                hard: tenths(5),
                summary: summary / 2,
                least_gain,
            }
        }
    }

    /// For a person who asked: the last `kept` bytes stay.
    #[must_use]
    pub const fn asked_for(fixed: u64, kept: u64) -> Self {
        Self {
            target: fixed + LONGEST_SUMMARY + kept,
            whole_turn: 0,
            hard: u64::MAX,
            summary: LONGEST_SUMMARY,
            least_gain: Some(LEAST_CUT as u64),
        }
    }
}

/// What is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How many entries from the beginning a summary stands for; 0 for none.
    pub replaces: usize,
    /// How many bytes the summary may have.
    pub summary: u64,
    /// Which of these stay.
    pub keeps: Vec<usize>,
    /// Results that are cut.
    pub cuts: Vec<ResultCut>,
}

/// What to leave out of a conversation whose instructions and tools take `fixed` bytes; `None`
/// where nothing can be.
///
/// What the person asked last stays, and so do the newest entries: the whole turn under way where
/// it fits. A call and its result are one entry, so they are never torn apart. The newest entry
/// always stays; if it alone is too large, its largest results are cut.
#[must_use]
pub fn plan(state: &State, fixed: u64, aim: &Aim) -> Option<Plan> {
    let entries = &state.entries;
    let sizes = sizes(entries);
    let request = last_request(entries);
    let asked: u64 = sizes.get(request.clone()).unwrap_or_default().iter().sum();
    let taken = fixed + aim.summary + asked;
    let newest = newest(entries);
    let mut first = beginning(&sizes, newest, aim.target.saturating_sub(taken));
    if first > request.start
        && beginning(&sizes, newest, aim.whole_turn.saturating_sub(taken)) <= request.start
    {
        first = request.start;
    }
    let keeps: Vec<usize> = request.filter(|position| *position < first).collect();
    let size = |position: &usize| sizes.get(*position).copied().unwrap_or(0);
    let left_out = sizes.iter().take(first).sum::<u64>() - keeps.iter().map(size).sum::<u64>();
    let worth_it = aim.least_gain.is_some_and(|least| left_out >= least);
    let total = fixed + sizes.iter().sum::<u64>();
    let (plan, after) = if first > 0 && worth_it {
        let plan = Plan {
            replaces: first,
            summary: aim.summary.min(left_out),
            keeps,
            cuts: Vec::new(),
        };
        (plan, total - left_out + aim.summary)
    } else {
        first = 0;
        let plan = Plan {
            replaces: 0,
            summary: 0,
            keeps: Vec::new(),
            cuts: Vec::new(),
        };
        (plan, total)
    };
    let plan = Plan {
        cuts: cuts(
            entries.get(first..).unwrap_or_default(),
            after.saturating_sub(aim.hard),
        ),
        ..plan
    };
    (plan.replaces > 0 || !plan.cuts.is_empty()).then_some(plan)
}

/// The first entry of the newest ones that together have at most `room` bytes.
fn beginning(sizes: &[u64], newest: usize, room: u64) -> usize {
    let mut first = sizes.len();
    let mut sum = 0_u64;
    for (position, size) in sizes.iter().enumerate().rev() {
        sum = sum.saturating_add(*size);
        if sum > room && position < newest {
            break;
        }
        first = position;
    }
    first
}

/// Where what the person asked last stands: the last of their messages and those right before it.
fn last_request(entries: &[Entry]) -> std::ops::Range<usize> {
    let is_theirs = |entry: &Entry| matches!(entry, Entry::User { .. });
    let Some(last) = entries.iter().rposition(is_theirs) else {
        return 0..0;
    };
    let before = entries
        .iter()
        .take(last)
        .rev()
        .take_while(|entry| is_theirs(entry))
        .count();
    last - before..last + 1
}

/// The newest entry that isn't merely a notice riding on it, and anything with an open call.
fn newest(entries: &[Entry]) -> usize {
    let last = entries
        .iter()
        .rposition(|entry| !matches!(entry, Entry::Notice(_)))
        .unwrap_or(0);
    let is_open = |entry: &Entry| match entry {
        Entry::Assistant { calls, .. } => calls.iter().any(|call| call.result.is_none()),
        Entry::User { .. } | Entry::Notice(_) | Entry::Summary { .. } => false,
    };
    let open = entries.iter().rposition(is_open).unwrap_or(last);
    last.min(open)
}

/// Cuts of the largest results that win `excess` bytes, as far as that can be.
fn cuts(entries: &[Entry], mut excess: u64) -> Vec<ResultCut> {
    let calls = entries.iter().flat_map(|entry| match entry {
        Entry::Assistant { calls, .. } => calls.as_slice(),
        Entry::User { .. } | Entry::Notice(_) | Entry::Summary { .. } => &[],
    });
    let length = |call: &CallState| call.result.as_ref().map_or(0, |result| result.output.len());
    let mut calls: Vec<&CallState> = calls.filter(|call| length(call) > LEAST_CUT * 2).collect();
    calls.sort_by_key(|call| std::cmp::Reverse(length(call)));
    let mut cuts = Vec::new();
    for call in calls {
        if excess == 0 {
            break;
        }
        let size = length(call) as u64;
        let limit = size.saturating_sub(excess + MARKER).max(LEAST_CUT as u64);
        excess = excess.saturating_sub(size.saturating_sub(limit + MARKER));
        cuts.push(ResultCut {
            call_id: call.issued.call_id,
            limit: usize::try_from(limit).unwrap_or(LEAST_CUT),
        });
    }
    cuts
}
