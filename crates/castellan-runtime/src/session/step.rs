//! What a session does next: a pure function of its state.

use castellan_core::event::TurnEnd;
use castellan_core::model::Finish;
use castellan_core::{CallId, ErrorCode, ModelError};
use castellan_gate::Pending;

use super::state::{CallState, Entry, Nothing, State};

/// How often a model that answers nothing is told so before the turn ends.
pub const NUDGES: u32 = 2;

/// The next thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// These calls began and nobody knows how they ended. Nothing runs in this process when a step
    /// is taken, so whoever ran them is gone: say so, and never run them again.
    Settle(Vec<CallId>),
    /// Hand these calls to the gate.
    Handle(Vec<Pending>),
    /// Tell the model this with the next request.
    Tell(String),
    /// Ask the model.
    Ask,
    /// The turn is over, and its end is not recorded yet; with the reason, unless it is done.
    End(TurnEnd, Option<ModelError>),
    /// There is nothing to do.
    Rest,
}

/// How much a session may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How often a turn may ask the model.
    pub max_turns: u32,
    /// How many tokens a turn may use, read and written together.
    pub turn_tokens: Option<u64>,
    /// How many tokens the whole session may use.
    pub session_tokens: Option<u64>,
}

impl Limits {
    /// So many requests a turn, and any number of tokens.
    #[must_use]
    pub const fn turns(max_turns: u32) -> Self {
        Self {
            max_turns,
            turn_tokens: None,
            session_tokens: None,
        }
    }
}

/// The next step of a session within these limits.
#[must_use]
pub fn next(state: &State, limits: &Limits) -> Step {
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
        Some(Entry::Assistant { calls, .. }) if calls.is_empty() && state.nothing.is_none() => {
            Step::End(TurnEnd::Done, None)
        }
        Some(_) => ask(state, limits),
    }
}

/// Asks, unless something speaks against it.
fn ask(state: &State, limits: &Limits) -> Step {
    if let Some(step) = state.nothing.as_ref().and_then(after_nothing) {
        return step;
    }
    if let Some(reached) = reached(state, limits) {
        return Step::End(TurnEnd::Limit, Some(reached));
    }
    match state.rounds.repetition() {
        Some(circle) if circle.is_hopeless() => {
            let hint = "say what it should do otherwise, or ask another model";
            let error = because(ErrorCode::ModelLoop, circle.end(), hint);
            Step::End(TurnEnd::Failed, Some(error))
        }
        Some(circle) if circle.is_new() && !is_told(state, &circle.word()) => {
            Step::Tell(circle.word())
        }
        _ => Step::Ask,
    }
}

/// What follows from answers that held nothing; `None` where it is simply to ask again.
fn after_nothing(nothing: &Nothing) -> Option<Step> {
    let failed = |message: String, hint| {
        let error = because(ErrorCode::ModelEmpty, message, hint);
        Some(Step::End(TurnEnd::Failed, Some(error)))
    };
    if nothing.finish == Finish::ContentFilter {
        return failed(
            "the model's server withheld the whole answer (content filter)".to_owned(),
            "ask in other words, or ask another model",
        );
    }
    if nothing.times > NUDGES {
        let how = match (&nothing.finish, nothing.has_reasoning) {
            (Finish::Length, _) => "used up its output limit without an answer",
            (_, true) => "thought and answered nothing",
            (_, false) => "answered nothing",
        };
        return failed(
            format!("the model {how}, {} times in a row", nothing.times),
            "go on, ask in other words, or ask another model",
        );
    }
    (!nothing.is_told).then(|| Step::Tell(nudge(nothing)))
}

/// What a model is told that answered nothing.
fn nudge(nothing: &Nothing) -> String {
    let what = match (&nothing.finish, nothing.has_reasoning) {
        (Finish::Length, _) => {
            "your last answer reached the output limit before it said or called anything; think \
             less, and take a smaller step"
        }
        (_, true) => {
            "only your reasoning arrived, neither an answer nor a call; say what you found, or make \
             the next call"
        }
        (_, false) => {
            "your last answer was empty; make the next call, or, if everything is done, say in a \
             sentence what was done"
        }
    };
    what.to_owned()
}

/// The limit that has been reached.
fn reached(state: &State, limits: &Limits) -> Option<ModelError> {
    if state.model_calls >= limits.max_turns {
        let message = format!("the model was asked {} times", limits.max_turns);
        let hint = "go on, or give turns more room with session.max_turns";
        return Some(because(ErrorCode::TurnLimit, message, hint));
    }
    let used = |tokens, limit, what: &str| format!("{what} has used {tokens} of {limit} tokens");
    let session = state.session_tokens();
    match (limits.turn_tokens, limits.session_tokens) {
        (_, Some(limit)) if session >= limit => Some(because(
            ErrorCode::TokenLimit,
            used(session, limit, "the session"),
            "it goes on once session.max_session_tokens is higher",
        )),
        (Some(limit), _) if state.turn_tokens >= limit => Some(because(
            ErrorCode::TokenLimit,
            used(state.turn_tokens, limit, "the turn"),
            "go on, or give turns more room with session.max_turn_tokens",
        )),
        _ => None,
    }
}

fn because(code: ErrorCode, message: String, hint: &str) -> ModelError {
    ModelError {
        hint: hint.to_owned(),
        ..ModelError::new(code, message)
    }
}

/// Whether this was said since the model's last answer.
fn is_told(state: &State, word: &str) -> bool {
    state
        .entries
        .iter()
        .rev()
        .map_while(|entry| match entry {
            Entry::Notice(text) => Some(text),
            Entry::User { .. } | Entry::Assistant { .. } | Entry::Summary { .. } => None,
        })
        .any(|text| text == word)
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
