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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::state::CallResult;
    use castellan_core::message::IssuedCall;
    use castellan_core::{Caller, Event, Principal, RawCall, Recorded, Surface, Timestamp};

    fn blank() -> State {
        let event = Event::SessionStart {
            version: "0".into(),
            cwd: "/".into(),
            caller: Caller {
                principal: Principal::Person("me".into()),
                surface: Surface::Interactive,
                capabilities: vec![],
            },
            prompts: vec![],
        };
        let first = Recorded {
            ts: Timestamp(0),
            seq: Some(1),
            session: "ws_00000000000000000000000000000001".parse().unwrap(),
            event,
        };
        State::begin(&first).unwrap()
    }

    fn result(number: usize, bytes: usize, is_open: bool) -> Entry {
        let call_id = format!("call_{number:032x}").parse().unwrap();
        let raw = RawCall::new("look", "{}");
        let mut call = CallState::new(IssuedCall { call_id, raw });
        call.result = (!is_open).then(|| CallResult {
            output: "x".repeat(bytes),
            is_error: false,
            pictures: vec![],
        });
        Entry::Assistant {
            text: String::new(),
            reasoning: None,
            calls: vec![call],
        }
    }

    /// `u` a person, `r` a call with its result, `o` an open call, `n` a notice, `s` a summary; each
    /// of 1,000 bytes and a frame, `R` a result of 20,000.
    fn planned(conversation: &str, target: u64) -> Option<Plan> {
        let mut state = blank();
        let text = || "x".repeat(1_000);
        for (number, kind) in conversation.chars().enumerate() {
            state.entries.push(match kind {
                'u' => Entry::User {
                    text: text(),
                    pictures: vec![],
                },
                'n' => Entry::Notice(text()),
                's' => Entry::Summary {
                    text: text(),
                    by: castellan_core::event::Summarizer::Model,
                },
                'R' => result(number, 20_000, false),
                kind => result(number, 1_000, kind == 'o'),
            });
        }
        let aim = Aim {
            target,
            whole_turn: target * 3 / 2,
            hard: target * 2,
            summary: 500,
            least_gain: Some(1_500),
        };
        plan(&state, 100, &aim)
    }

    #[test]
    fn the_last_request_and_the_newest_stay_and_the_older_part_goes() {
        for (conversation, target, expected) in [
            // All that fits stays.
            ("urr", 10_000, None),
            ("", 1_000, None),
            // What was asked last stays where it stood before what is kept.
            ("urrrrrr", 4_000, Some((5, vec![0]))),
            ("ururr", 3_700, Some((2, vec![]))),
            // The turn under way stays whole where it fits into a little more.
            ("urururrr", 5_000, Some((4, vec![]))),
            ("ururrrrrr", 5_000, Some((6, vec![2]))),
            // Two messages in a row are one request.
            ("rruurrrrr", 5_000, Some((7, vec![2, 3]))),
            // The newest entry stays even if it is too large, with what rides on it.
            ("urrrrn", 1_200, Some((4, vec![0]))),
            // Nothing behind an open call goes.
            ("urrrorr", 2_000, Some((4, vec![0]))),
            // A summary goes into the next one; one alone is not summed up again.
            ("surrrrr", 4_000, Some((5, vec![1]))),
            ("sur", 2_000, None),
        ] {
            let plan = planned(conversation, target);
            let found = plan.map(|plan| (plan.replaces, plan.keeps));
            assert_eq!(found, expected, "{conversation} {target}");
        }
    }

    #[test]
    fn whatever_the_conversation_a_plan_keeps_its_promises() {
        for shape in 0..3_usize.pow(7) {
            let conversation: String = (0..7)
                .map(|place| ['u', 'r', 'n'][shape / 3_usize.pow(place) % 3])
                .collect();
            for target in [0, 1_000, 3_000, 5_000] {
                let Some(plan) = planned(&conversation, target) else {
                    continue;
                };
                let newest = conversation.rfind(['u', 'r']).unwrap_or(0);
                assert!(plan.replaces <= newest, "{conversation} {target} {plan:?}");
                let asked = conversation.rfind('u');
                let is_kept =
                    asked.is_none_or(|asked| asked >= plan.replaces || plan.keeps.contains(&asked));
                assert!(is_kept, "{conversation} {target} {plan:?}");
                assert!(plan.keeps.iter().all(|kept| *kept < plan.replaces));
            }
        }
    }

    #[test]
    fn results_are_cut_largest_first_and_only_as_far_as_needed() {
        let plan = planned("uRrR", 10_000).unwrap();
        assert_eq!(plan.replaces, 3, "{plan:?}");
        let cuts: Vec<usize> = plan.cuts.iter().map(|cut| cut.limit).collect();
        assert_eq!(cuts.len(), 1, "{plan:?}");
        assert!((15_000..19_000).contains(&cuts[0]), "{plan:?}");
        let all = planned("uR", 500).unwrap();
        assert_eq!((all.replaces, all.cuts[0].limit), (0, LEAST_CUT));
    }
}
