//! The turn machine on a recorded session: is what it did then what it would do now?

use castellan_core::event::{Purpose, TurnEnd};
use castellan_core::message::IssuedCall;
use castellan_core::text::{one_line, shorten};
use castellan_core::{CallId, ErrorCode, Event, Message, Recorded, fingerprint, token};
use castellan_gate::{Catalog, understand};

use super::difference::{Words, difference};
use super::{Line, Verdict};
use crate::session::request::messages;
use crate::session::state::{CallState, State};
use crate::session::step::{Limits, Step, next};

/// How much a session may use is its configuration's to say and in no record: the machine is asked
/// without limits, and ends by a limit are taken from the record.
const UNLIMITED: Limits = Limits::turns(u32::MAX);

/// What the replaying program knows of itself.
#[derive(Debug, Clone, Copy)]
pub struct Present<'a> {
    /// Its version.
    pub version: &'a str,
    /// Its tools.
    pub catalog: &'a Catalog,
}

/// Walks through the record.
#[must_use]
pub fn replay(lines: &[Line], present: Present<'_>) -> Verdict {
    let mut walk = Walk {
        present,
        state: None,
        is_same_version: false,
        asked: false,
        error: None,
    };
    let mut torn = 0;
    let mut last = None;
    for line in lines {
        let Some(recorded) = &line.event else {
            torn += 1;
            continue;
        };
        let step = walk
            .in_order(recorded, last)
            .and_then(|()| walk.step(recorded));
        if let Err(what) = step {
            let kind = recorded.event.kind();
            let what = format!("{kind}: {what}");
            return Verdict::Diverges {
                line: line.number,
                what,
            };
        }
        last = recorded.seq;
    }
    Verdict::Agrees {
        lines: lines.len() - torn,
        note: walk.note(torn),
    }
}

/// How a line of a trace and the stored event are told apart.
const STORED: Words = Words {
    old: "the trace has",
    new: "the store has",
    ends: "the store has no such event",
};

/// Holds the record against what is stored of the session, which is the truth that a trace only
/// repeats. `None` where they agree.
#[must_use]
pub fn differs(lines: &[Line], stored: &[Recorded]) -> Option<Verdict> {
    lines.iter().find_map(|line| {
        let recorded = line.event.as_ref()?;
        let before = usize::try_from(recorded.seq?.checked_sub(1)?).ok()?;
        let kept = stored.get(before);
        if kept == Some(recorded) {
            return None;
        }
        let text = |event: &Recorded| serde_json::to_vec(event).unwrap_or_default();
        let kept = kept.map(text);
        Some(Verdict::Diverges {
            line: line.number,
            what: difference(Some(&text(recorded)), kept.as_deref(), &STORED),
        })
    })
}

/// How many of the stored events come after the last of the record.
#[must_use]
pub fn untold(lines: &[Line], stored: &[Recorded]) -> usize {
    let last = lines.iter().rev().find_map(|line| line.event.as_ref()?.seq);
    let last = last.and_then(|last| usize::try_from(last).ok());
    stored.len().saturating_sub(last.unwrap_or(0))
}

struct Walk<'a> {
    present: Present<'a>,
    state: Option<State>,
    /// Whether this program wrote the record.
    is_same_version: bool,
    /// Whether the model was asked and has not answered.
    asked: bool,
    /// The failure that was put on record last.
    error: Option<ErrorCode>,
}

impl Walk<'_> {
    /// No event is missing, doubled or of another session.
    fn in_order(&self, recorded: &Recorded, last: Option<u64>) -> Result<(), String> {
        let expected = last.map_or(1, |last| last + 1);
        match recorded.seq {
            Some(seq) if seq == expected => Ok(()),
            Some(seq) => Err(format!("it is event {seq}, and {expected} comes next")),
            None => Err("it has no number".to_owned()),
        }
    }

    fn note(&self, torn: usize) -> String {
        let mut notes = Vec::new();
        if torn > 0 {
            notes.push(format!("{torn} torn lines were passed over"));
        }
        if let Some(state) = self.state.as_ref().filter(|state| state.turn_end.is_none()) {
            let step = said(&next(state, &UNLIMITED));
            notes.push(format!(
                "the record ends in the middle of a turn, which {step} next"
            ));
        }
        notes.join("; ")
    }

    fn step(&mut self, recorded: &Recorded) -> Result<(), String> {
        let Some(mut state) = self.state.take() else {
            let state = State::begin(recorded).ok_or("the record does not begin with its start")?;
            if let Event::SessionStart { version, .. } = &recorded.event {
                self.is_same_version = version == self.present.version;
            }
            self.state = Some(state);
            return Ok(());
        };
        let held = self.hold(&mut state, &recorded.event);
        if held.is_ok() {
            state.apply(recorded);
        }
        self.state = Some(state);
        held
    }

    /// Holds an event against what the machine does in this state.
    fn hold(&mut self, state: &mut State, event: &Event) -> Result<(), String> {
        match event {
            Event::SessionStart { .. } => Err("the session has begun already".to_owned()),
            Event::UserTurn { .. } => nothing_open(state, "somebody speaks"),
            Event::Notice { text, .. } => {
                reopen(state);
                match next(state, &UNLIMITED) {
                    Step::Tell(word) if word == *text => Ok(()),
                    // Word from outside comes just before the model is asked.
                    Step::Ask => Ok(()),
                    step => Err(now(&step)),
                }
            }
            Event::ModelRequest {
                purpose: Purpose::Summary,
                ..
            } => nothing_open(state, "a summary is asked for"),
            Event::ModelRequest { .. } => {
                reopen(state);
                self.asks(state, event)
            }
            Event::ModelResponse { calls, .. } => self.answers(state, calls),
            Event::Compaction { replaces, .. } => {
                self.asked = false;
                if *replaces > state.entries.len() {
                    let entries = state.entries.len();
                    return Err(format!(
                        "it stands for {replaces} entries, and there are {entries}"
                    ));
                }
                nothing_open(state, "the conversation is made shorter")
            }
            Event::Error { code, .. } => {
                self.error = Some(*code);
                Ok(())
            }
            Event::StateChange {
                reason: Some(reason),
                ..
            } => {
                let asked = std::mem::take(&mut self.asked);
                let error = self.error.take();
                reopen(state);
                ends(state, *reason, asked, error)
            }
            event => self.hold_call(state, event),
        }
    }

    /// The same for what happens to calls.
    fn hold_call(&self, state: &State, event: &Event) -> Result<(), String> {
        match event {
            Event::ToolPrepared { call_id, .. } => {
                let call = open_call(state, *call_id)?;
                self.prepares(state, call, event)
            }
            Event::Policy { call_id, .. } => open_call(state, *call_id)
                .and_then(|call| {
                    call.name
                        .as_ref()
                        .ok_or("it was never looked at".to_owned())
                })
                .map(drop),
            Event::ApproveRequest { items, .. } => items
                .iter()
                .try_for_each(|item| open_call(state, item.call_id).map(drop)),
            Event::ApprovalResolved { cycle_id, .. } => {
                let mut open = state.undecided();
                if open.any(|(asked, _)| asked.cycle_id == *cycle_id) {
                    Ok(())
                } else {
                    Err(format!("{cycle_id} is not open"))
                }
            }
            Event::ToolInfo { items } => items.iter().try_for_each(|item| {
                let call = open_call(state, item.call_id)?;
                starts(call)
            }),
            Event::ToolResult {
                call_id, outcome, ..
            } => {
                let call = open_call(state, *call_id)?;
                if outcome == "done" && !call.started {
                    return Err(format!("{} is done and never began", call.name()));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn asks(&mut self, state: &State, event: &Event) -> Result<(), String> {
        let Event::ModelRequest {
            messages: recorded,
            tools: recorded_tools,
            size: recorded_size,
            fingerprint: recorded_words,
            ..
        } = event
        else {
            return Ok(());
        };
        let step = next(state, &UNLIMITED);
        if step != Step::Ask {
            return Err(now(&step));
        }
        self.asked = true;
        let shown = messages(state);
        if shown.len() != *recorded {
            let now = shown.len();
            return Err(format!(
                "the model was shown {recorded} messages, and would be shown {now}"
            ));
        }
        let place = (state.cwd.as_path(), state.workspace.as_path());
        let has_shells = !state.shells.is_empty();
        let tools = self
            .present
            .catalog
            .cards(state.caller.surface, place, has_shells);
        // What is said of pictures depends on the model; and another program has other tools.
        let is_comparable = self.is_same_version
            && !shown
                .iter()
                .any(|one| matches!(one, Message::Picture { .. }));
        let size = token::size(&shown, &tools);
        let is_sized = *recorded_size > 0 && tools.len() == *recorded_tools;
        if is_comparable && is_sized && size != *recorded_size {
            return Err(format!(
                "the request had {recorded_size} bytes, and would have {size}"
            ));
        }
        let words = fingerprint::of(&shown);
        if is_comparable && !recorded_words.is_empty() && words != *recorded_words {
            return Err(format!(
                "the model was shown other words than stand before this line (their fingerprint was \
                 {recorded_words}, and would be {words})"
            ));
        }
        Ok(())
    }

    fn answers(&mut self, state: &State, calls: &[IssuedCall]) -> Result<(), String> {
        if !std::mem::take(&mut self.asked) {
            return Err("nobody had asked the model".to_owned());
        }
        match calls.iter().find(|call| state.has_call(call.call_id)) {
            Some(call) => Err(format!("{} was made before", call.call_id)),
            None => Ok(()),
        }
    }

    /// What the model sent is understood now as it was then.
    fn prepares(&self, state: &State, call: &CallState, event: &Event) -> Result<(), String> {
        let Event::ToolPrepared {
            name,
            arguments,
            repairs,
            ..
        } = event
        else {
            return Ok(());
        };
        if call.started {
            return Err(format!("{name} has begun already"));
        }
        let is_changed = repairs.iter().any(|repair| repair.starts_with(CHANGED));
        let is_known = self.present.catalog.get(name).is_some();
        if is_changed || !is_known || !self.is_same_version {
            return Ok(());
        }
        match understand(self.present.catalog, state.caller.surface, &call.issued.raw) {
            Ok(understood) => {
                let spec = understood.tool.spec();
                if spec.name != *name {
                    return Err(format!("it was {name}, and is taken for {}", spec.name));
                }
                if understood.arguments != *arguments {
                    let now = serde_json::Value::Object(understood.arguments).to_string();
                    let now = one_line(&shorten(&now, 200));
                    return Err(format!("the arguments of {name} are understood as {now}"));
                }
                Ok(())
            }
            Err((_, outcome)) => {
                let why = one_line(&shorten(&outcome.into_text(), 200));
                Err(format!("{name} was understood, and is not now: {why}"))
            }
        }
    }
}

/// How the note begins that hooks have changed arguments.
pub(super) const CHANGED: &str = "arguments changed by ";

/// A turn that ended early may have been taken up again, which is no event of its own.
fn reopen(state: &mut State) {
    if state.turn_end.is_some_and(|end| end != TurnEnd::Done) {
        state.turn_end = None;
    }
}

fn nothing_open(state: &State, what: &str) -> Result<(), String> {
    match state.open_calls().next() {
        Some(call) => Err(format!("{what}, and {} has no result", call.name())),
        None => Ok(()),
    }
}

fn open_call(state: &State, id: CallId) -> Result<&CallState, String> {
    let mut open = state.open_calls();
    open.find(|call| call.issued.call_id == id)
        .ok_or_else(|| format!("{id} is not open"))
}

fn starts(call: &CallState) -> Result<(), String> {
    let name = call.name();
    if call.name.is_none() {
        return Err(format!("{name} begins and was never looked at"));
    }
    if call.started {
        return Err(format!("{name} begins a second time"));
    }
    match (&call.asked, &call.answer) {
        (Some(_), None) => Err(format!("{name} begins, and nobody has decided about it")),
        (_, Some(answer)) if !answer.approve => Err(format!("{name} begins, and was refused")),
        _ => Ok(()),
    }
}

fn ends(
    state: &State,
    reason: TurnEnd,
    asked: bool,
    error: Option<ErrorCode>,
) -> Result<(), String> {
    let step = next(state, &UNLIMITED);
    let agrees = match (reason, &step) {
        (TurnEnd::Done, Step::End(TurnEnd::Done, _)) => true,
        (TurnEnd::Failed, Step::End(TurnEnd::Failed, failure)) => {
            failure.as_ref().map(|failure| failure.code) == error
        }
        // A model that could not be asked ends the turn from outside.
        (TurnEnd::Failed, _) => asked && error.is_some(),
        (TurnEnd::Limit, Step::Ask | Step::Tell(_) | Step::End(..)) => {
            matches!(error, Some(ErrorCode::TurnLimit | ErrorCode::TokenLimit))
        }
        (TurnEnd::Cancelled, _) => return nothing_open(state, "the turn was stopped"),
        (TurnEnd::Done | TurnEnd::Limit, _) => false,
    };
    if agrees { Ok(()) } else { Err(now(&step)) }
}

/// What the machine does in the place of what is recorded.
fn now(step: &Step) -> String {
    format!("here the session {} now", said(step))
}

fn said(step: &Step) -> String {
    match step {
        Step::Settle(calls) => format!("says of {} calls that they were interrupted", calls.len()),
        Step::Handle(calls) => format!("hands {} calls to the gate", calls.len()),
        Step::Tell(text) => format!("tells the model: {}", one_line(&shorten(text, 120))),
        Step::Ask => "asks the model".to_owned(),
        Step::End(TurnEnd::Done, _) => "ends the turn".to_owned(),
        Step::End(_, failure) => {
            let why = failure.as_ref().map_or("", |failure| &failure.message);
            format!("ends the turn: {}", one_line(&shorten(why, 120)))
        }
        Step::Rest => "has nothing to do".to_owned(),
    }
}
