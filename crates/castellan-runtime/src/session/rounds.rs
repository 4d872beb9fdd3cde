//! Whether a model goes round in circles: the same calls with the same results, again and again.
//!
//! A round is one answer with calls and what they came to. Only fingerprints of the rounds of the
//! present turn are kept, so that neither a long turn nor a compaction matters.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::state::CallState;

/// After how many repetitions the model is told.
pub const TOLD_AFTER: usize = 3;
/// After how many the turn ends.
pub const ENDED_AFTER: usize = 6;
/// The longest circle that is looked for, in rounds.
pub const LONGEST_CIRCLE: usize = 3;

/// What is kept of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Round {
    calls: u64,
    results: u64,
    tools: String,
}

/// The last rounds of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rounds(VecDeque<Round>);

/// What a model repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repetition {
    /// How many rounds make up the circle.
    pub circle: usize,
    /// How many rounds fit into it, the first time included.
    pub rounds: usize,
    /// The tools called in it.
    pub tools: String,
}

impl Repetition {
    /// Whether the model should be told now: once, when it has just become clear.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.rounds == self.circle * TOLD_AFTER
    }

    /// Whether the turn should end.
    #[must_use]
    pub const fn is_hopeless(&self) -> bool {
        self.rounds >= self.circle * ENDED_AFTER
    }

    /// What the model is told.
    #[must_use]
    pub fn word(&self) -> String {
        let Self { circle, tools, .. } = self;
        let what = match circle {
            1 => {
                format!("the same call ({tools}) with the same result {TOLD_AFTER} times in a row")
            }
            _ => format!(
                "the same {circle} calls ({tools}) with the same results {TOLD_AFTER} times over"
            ),
        };
        format!(
            "you have made {what}; making it again will not change anything. Do something else, or \
             say what keeps you from going on. If you are waiting for something, wait longer in one \
             call. The turn is ended after {} more",
            ENDED_AFTER - TOLD_AFTER
        )
    }

    /// Why the turn ends.
    #[must_use]
    pub fn end(&self) -> String {
        let Self { circle, tools, .. } = self;
        match circle {
            1 => format!(
                "the model made the same call ({tools}) with the same result {ENDED_AFTER} times in \
                 a row and went on after it was told"
            ),
            _ => format!(
                "the model made the same {circle} calls ({tools}) with the same results \
                 {ENDED_AFTER} times over and went on after it was told"
            ),
        }
    }
}

impl Rounds {
    /// Takes in a round whose calls all have results.
    pub fn push(&mut self, calls: &[CallState]) {
        if self.0.len() == LONGEST_CIRCLE * ENDED_AFTER {
            self.0.pop_front();
        }
        let mut tools: Vec<&str> = calls.iter().map(CallState::name).collect();
        tools.dedup();
        self.0.push_back(Round {
            calls: of_calls(calls),
            results: of_results(calls),
            tools: tools.join(", "),
        });
    }

    /// Forgets them: a turn begins.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The shortest circle that the last rounds form, once it is closed [`TOLD_AFTER`] times.
    #[must_use]
    pub fn repetition(&self) -> Option<Repetition> {
        (1..=LONGEST_CIRCLE).find_map(|circle| {
            let rounds = self.in_circle(circle);
            let members = self.0.iter().rev().take(circle).rev();
            (rounds >= circle * TOLD_AFTER).then(|| Repetition {
                circle,
                rounds,
                tools: members
                    .map(|round| round.tools.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            })
        })
    }

    /// How many of the last rounds repeat what was `circle` rounds before, and that first circle.
    fn in_circle(&self, circle: usize) -> usize {
        let later = self.0.iter().rev();
        let earlier = self.0.iter().rev().skip(circle);
        let same = later
            .zip(earlier)
            .take_while(|(later, earlier)| {
                (later.calls, later.results) == (earlier.calls, earlier.results)
            })
            .count();
        if same == 0 { 0 } else { same + circle }
    }
}

fn of_calls(calls: &[CallState]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for call in calls {
        call.name().hash(&mut hasher);
        call.issued.raw.arguments.trim().hash(&mut hasher);
    }
    hasher.finish()
}

/// Numbers in failures don't count: how long it took, or which process it was, makes the same
/// failure no other. In a success they are often all that changes while something is waited for.
fn of_results(calls: &[CallState]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for result in calls.iter().filter_map(|call| call.result.as_ref()) {
        result.is_error.hash(&mut hasher);
        if result.is_error {
            let is_of_number = |letter: char| letter.is_ascii_digit() || ".,:".contains(letter);
            for part in result.output.split(is_of_number) {
                if !part.is_empty() {
                    part.hash(&mut hasher);
                }
            }
        } else {
            result.output.hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::state::CallResult;
    use castellan_core::RawCall;
    use castellan_core::message::IssuedCall;

    /// A call as `tool arguments=result`; a result that begins with `!` is a failure.
    fn call(told: &str) -> CallState {
        let (call, result) = told.split_once('=').unwrap();
        let (name, arguments) = call.split_once(' ').unwrap();
        let call_id = "call_00000000000000000000000000000001".parse().unwrap();
        let raw = RawCall::new(name, arguments);
        let mut call = CallState::new(IssuedCall { call_id, raw });
        call.result = Some(CallResult {
            output: result.into(),
            is_error: result.starts_with('!'),
            pictures: vec![],
        });
        call
    }

    /// The circle after these rounds, the calls of each separated by `;`.
    fn after(told: &[&str]) -> Option<(usize, usize)> {
        let mut rounds = Rounds::default();
        for round in told {
            let calls: Vec<CallState> = round.split(';').map(call).collect();
            rounds.push(&calls);
        }
        rounds.repetition().map(|it| (it.circle, it.rounds))
    }

    #[test]
    fn circles_are_seen_and_progress_is_not_taken_for_one() {
        let (a, b, c) = ("read x=1", "read y=2", "run z=3");
        for (told, expected) in [
            (vec![], None),
            (vec![a, a], None),
            (vec![a, a, a], Some((1, 3))),
            (vec![b, a, a, a, a], Some((1, 4))),
            (vec![a, a, a, b], None),
            (vec![a, b, a, b, a], None),
            (vec![a, b, a, b, a, b], Some((2, 6))),
            (vec![a, b, a, b, a, b, a], Some((2, 7))),
            (vec![a, b, c, a, b, c, a, b, c], Some((3, 9))),
            (vec![a, a, b, a, a, b, a, a, b], Some((3, 9))),
            // Waiting for something that changes.
            (vec!["poll j=10%", "poll j=20%", "poll j=30%"], None),
            // The same failure but for its numbers, and another failure.
            (
                vec![
                    "run t=!pid 7 after 0.3 s",
                    "run t=!pid 12 after 1.25 s",
                    "run t=!pid 9 after 2 s",
                ],
                Some((1, 3)),
            ),
            (vec!["run t=!no a", "run t=!no b", "run t=!no c"], None),
            // Other arguments, or other calls beside it.
            (vec!["edit 1=ok", "edit 2=ok", "edit 3=ok"], None),
            (
                vec![
                    "edit 1=ok;run t=!no",
                    "edit 2=ok;run t=!no",
                    "edit 3=ok;run t=!no",
                ],
                None,
            ),
            (
                vec![
                    "read x=1;read y=2",
                    "read x=1;read y=2",
                    "read x=1;read y=2",
                ],
                Some((1, 3)),
            ),
            (vec!["read x=1;read x=1;read x=1"], None),
        ] {
            assert_eq!(after(&told), expected, "{told:?}");
        }
    }

    #[test]
    fn only_so_many_rounds_are_kept() {
        let told = vec!["read x=1"; 100];
        assert_eq!(after(&told), Some((1, LONGEST_CIRCLE * ENDED_AFTER)));
    }

    #[test]
    fn a_circle_is_told_once_and_ends_later() {
        let at = |rounds| Repetition {
            circle: 2,
            rounds,
            tools: "read, run".into(),
        };
        let told: Vec<usize> = (6..20).filter(|rounds| at(*rounds).is_new()).collect();
        let ended: Vec<usize> = (6..20).filter(|rounds| at(*rounds).is_hopeless()).collect();
        assert_eq!((told, ended[0]), (vec![6], 12));
        assert!(at(6).word().contains("the same 2 calls (read, run)"));
    }
}
