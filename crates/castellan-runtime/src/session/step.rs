//! What a session does next: a pure function of its state.

use castellan_core::CallId;
use castellan_core::event::TurnEnd;
use castellan_gate::Pending;

use super::state::{CallState, Entry, State};

/// The next thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// These calls began and nobody knows how they ended. Nothing runs in this process when a step
    /// is taken, so whoever ran them is gone: say so, and never run them again.
    Settle(Vec<CallId>),
    /// Hand these calls to the gate.
    Handle(Vec<Pending>),
    /// Ask the model.
    Ask,
    /// The turn is over, and its end is not recorded yet.
    End(TurnEnd),
    /// There is nothing to do.
    Rest,
}

/// The next step of a session that may ask its model `max_turns` times a turn.
#[must_use]
pub fn next(state: &State, max_turns: u32) -> Step {
    if state.turn_end.is_some() {
        return Step::Rest;
    }
    let open: Vec<&CallState> = state.open_calls().collect();
    let begun: Vec<CallId> = open
        .iter()
        .filter(|call| call.started)
        .map(|call| call.issued.call_id)
        .collect();
    if !begun.is_empty() {
        return Step::Settle(begun);
    }
    if !open.is_empty() {
        return Step::Handle(open.into_iter().map(pending).collect());
    }
    match state.entries.last() {
        None => Step::Rest,
        Some(Entry::Assistant { calls, .. }) if calls.is_empty() => Step::End(TurnEnd::Done),
        Some(_) if state.model_calls >= max_turns => Step::End(TurnEnd::Limit),
        Some(_) => Step::Ask,
    }
}

fn pending(call: &CallState) -> Pending {
    Pending {
        issued: call.issued.clone(),
        prepared: call.name.is_some(),
        asked: call.asked.clone(),
        answer: call.answer.clone(),
        answered_by: call.answered_by.clone(),
    }
}
