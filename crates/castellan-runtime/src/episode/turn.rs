//! A plugin that is a model: the turn machine of sessions, with the goal as what was said.
//!
//! What the model calls becomes the payload of the step, and the results of the next observation
//! become the results of its calls. Its state is the fold of events, like that of every session; what
//! it was asked and what it answered is on record in the episode's trace.

use std::sync::Arc;

use castellan_core::event::{Purpose, TurnEnd};
use castellan_core::message::IssuedCall;
use castellan_core::model::ToolCard;
use castellan_core::{
    CallId, Caller, Clock, EffectStatus, ErrorCode, Event, Model, ModelError, ModelEvent,
    ModelReply, ModelRequest, Principal, Recorded, SessionId, Surface, fingerprint,
};
use castellan_gate::Pending;
use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};

use super::plugin::{Access, Act, CALLS, Plugin, ToolUse, Trouble};
use crate::session::asking::Sized;
use crate::session::compaction::{Pressure, full, mechanical};
use crate::session::request::messages;
use crate::session::state::State;
use crate::session::step::{Limits, Step, next};

/// How a failure begins that the model's server is the cause of, after the plugin's name.
pub const UNASKED: &str = "could not ask its model: ";

/// What a model reads of a call in which its output ended. Such a call is never made.
const CUT_OFF: &str = "Error: the arguments were cut off, so the call was not made. Make it again \
    with shorter arguments, in several steps if need be.";

/// A model that acts.
pub struct Turn {
    model: Arc<dyn Model>,
    limits: Limits,
    /// The part of the model's window that a request may have.
    compact_at: f64,
    state: Option<State>,
    /// The calls of the last step.
    open: Vec<Pending>,
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turn")
            .field("open", &self.open.len())
            .finish_non_exhaustive()
    }
}

impl Turn {
    /// A turn of this model within these limits. A conversation that has more than the part
    /// `compact_at` of the model's window is made shorter.
    #[must_use]
    pub fn new(model: Arc<dyn Model>, limits: Limits, compact_at: f64) -> Self {
        Self {
            model,
            limits,
            compact_at,
            state: None,
            open: Vec::new(),
        }
    }

    /// The state before anything was asked.
    fn begin(access: &Access<'_>, goal: &str) -> Option<State> {
        let session = access.connection.id();
        let event = |event| recorded(&*access.time.clock, session, event);
        let mut state = State::begin(&event(Event::SessionStart {
            version: String::new(),
            cwd: access.connection.workspace().to_owned(),
            caller: Caller {
                principal: Principal::Workstream(session),
                surface: Surface::Episode,
                capabilities: Vec::new(),
            },
            prompts: Vec::new(),
        }))?;
        state.apply(&event(Event::UserTurn {
            text: goal.to_owned(),
            pictures: Vec::new(),
        }));
        Some(state)
    }

    async fn step(&mut self, observation: &Value, access: &Access<'_>) -> Result<Act, Trouble> {
        let session = access.connection.id();
        let clock = &*access.time.clock;
        let goal = observation.get("goal").and_then(Value::as_str);
        let mut state = match self.state.take() {
            Some(state) => state,
            None => Self::begin(access, goal.unwrap_or_default())
                .ok_or_else(|| Trouble::Plugin("could not begin".to_owned()))?,
        };
        let results = observation.get("results").and_then(Value::as_array);
        for (call, result) in self.open.drain(..).zip(results.into_iter().flatten()) {
            state.apply(&recorded(clock, session, learnt(&call, result)));
        }
        let act = loop {
            match next(&state, &self.limits) {
                Step::Ask => {
                    let event = self.ask(&state, access).await?;
                    state.apply(&recorded(clock, session, event));
                }
                Step::Tell(text) => {
                    let notice = Event::Notice {
                        text,
                        session_effects: Vec::new(),
                    };
                    access.tell(vec![notice.clone()]).await?;
                    state.apply(&recorded(clock, session, notice));
                }
                Step::Handle(calls) => {
                    let (whole, cut): (Vec<_>, Vec<_>) =
                        calls.into_iter().partition(|call| call.issued.raw.complete);
                    for call in cut {
                        let result = json!({"ok": false, "error": CUT_OFF});
                        state.apply(&recorded(clock, session, learnt(&call, &result)));
                    }
                    if whole.is_empty() {
                        continue;
                    }
                    // What is more than a step makes is open still, and comes in the next one.
                    self.open = whole.into_iter().take(CALLS).collect();
                    break Act {
                        mcp_tools: self.open.iter().map(wanted).collect(),
                        ..Act::default()
                    };
                }
                Step::End(end, failure) => break ended(&state, end, failure)?,
                // Nothing is marked as started here, and every turn ends by itself.
                Step::Settle(_) | Step::Rest => break ended(&state, TurnEnd::Done, None)?,
            }
        };
        self.state = Some(state);
        Ok(act)
    }

    /// Asks the model once, or makes the conversation shorter where it would not fit; what came of
    /// it is on record when it returns.
    async fn ask(&self, state: &State, access: &Access<'_>) -> Result<Event, Trouble> {
        let gate = access.engine.gate();
        let workspace = access.connection.workspace();
        let tools = if access.mcp {
            let place = (workspace, workspace);
            gate.catalog().cards(Surface::Episode, place, false)
        } else {
            Vec::new()
        };
        let request = ModelRequest {
            messages: messages(state),
            tools,
        };
        let sized = Sized::of(&request);
        let info = self.model.info();
        let window = state.window(&info.model, info.context_window);
        let pressure = full(state, window, sized, self.compact_at);
        if let Some(event) = shortened(state, pressure.as_ref(), &request.tools, access) {
            access.tell(vec![event.clone()]).await?;
            return Ok(event);
        }
        let tools = request.tools.clone();
        let asked = Event::ModelRequest {
            model: self.model.info().model.clone(),
            messages: request.messages.len(),
            tools: request.tools.len(),
            size: sized.whole,
            fingerprint: fingerprint::of(&request.messages),
            purpose: Purpose::Turn,
        };
        access.tell(vec![asked]).await?;
        let began = access.time.clock.monotonic();
        let reply = match self.hear(request, access).await {
            Ok(reply) => reply,
            Err(error) => {
                let told = error.overflow.unwrap_or_default();
                let pressure = (error.code == ErrorCode::ModelContextOverflow)
                    .then(|| Pressure::refused(state, window, &sized, told))
                    .flatten();
                let event = shortened(state, pressure.as_ref(), &tools, access);
                let event = event.ok_or_else(|| failed(&error))?;
                access.tell(vec![event.clone()]).await?;
                return Ok(event);
            }
        };
        let took = access.time.clock.monotonic().saturating_sub(began);
        let calls = reply.calls.into_iter().map(|raw| {
            let call_id = CallId::mint(&*access.time.ids);
            gate.conceal(Surface::Episode, IssuedCall { call_id, raw })
        });
        let answered = Event::ModelResponse {
            calls: calls.collect(),
            text: gate.redact(reply.text),
            reasoning: reply
                .reasoning
                .map(|shown| shown.map_texts(&mut |text| gate.redact(text))),
            finish: reply.finish,
            usage: reply.usage,
            attempts: reply.attempts,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        };
        access.tell(vec![answered.clone()]).await?;
        Ok(answered)
    }

    async fn hear(
        &self,
        request: ModelRequest,
        access: &Access<'_>,
    ) -> Result<ModelReply, ModelError> {
        let mut stream = self.model.ask(request, access.cancel.clone());
        let mut reply = None;
        while let Some(event) = stream.next().await {
            match event {
                Ok(ModelEvent::Reply(complete)) => reply = Some(complete),
                Ok(ModelEvent::Text(_) | ModelEvent::Reasoning(_) | ModelEvent::Restart { .. }) => {
                }
                Err(error) => return Err(error),
            }
        }
        let unended = "the model's answer ended without an end";
        reply.ok_or_else(|| ModelError::new(ErrorCode::ModelProtocol, unended))
    }
}

impl Plugin for Turn {
    fn name(&self) -> String {
        "session".to_owned()
    }

    fn settings(&self) -> Value {
        let info = self.model.info();
        let Limits {
            max_turns,
            turn_tokens,
            session_tokens,
        } = self.limits;
        json!({
            "model": info.model,
            "max_turns": max_turns,
            "max_turn_tokens": turn_tokens,
            "max_session_tokens": session_tokens,
            "context_window": info.context_window,
            "compact_at": self.compact_at,
        })
    }

    fn act<'a>(
        &'a mut self,
        observation: &'a Value,
        access: &'a Access<'a>,
    ) -> BoxFuture<'a, Result<Act, Trouble>> {
        self.step(observation, access).boxed()
    }
}

fn failed(error: &ModelError) -> Trouble {
    let hint = if error.hint.is_empty() {
        String::new()
    } else {
        format!(" ({})", error.hint)
    };
    Trouble::Plugin(format!("{UNASKED}{}{hint}", error.message))
}

/// The event by which the conversation becomes shorter, where it must and can.
fn shortened(
    state: &State,
    pressure: Option<&Pressure>,
    tools: &[ToolCard],
    access: &Access<'_>,
) -> Option<Event> {
    let (clock, session) = (&*access.time.clock, access.connection.id());
    mechanical(state, pressure?, tools, |event| {
        recorded(clock, session, event)
    })
}

fn recorded(clock: &dyn Clock, session: SessionId, event: Event) -> Recorded {
    Recorded {
        ts: clock.now(),
        seq: None,
        session,
        event,
    }
}

/// A call of the model as the payload has it: with the arguments exactly as they were written.
fn wanted(call: &Pending) -> ToolUse {
    let raw = &call.issued.raw;
    ToolUse {
        tool: raw.name.clone(),
        args: Value::String(raw.arguments.clone()),
    }
}

/// The result of a call, as the observation tells of it.
fn learnt(call: &Pending, result: &Value) -> Event {
    let is_error = result.get("ok") != Some(&Value::Bool(true));
    let said = result.get(if is_error { "error" } else { "result" });
    let output = match said {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "(no output)".to_owned(),
    };
    Event::ToolResult {
        call_id: call.issued.call_id,
        name: call.issued.raw.name.clone(),
        output,
        is_error,
        effect: EffectStatus::None,
        outcome: if is_error { "failed" } else { "done" }.to_owned(),
        code: None,
        duration_ms: 0,
        spill: None,
        session_effects: Vec::new(),
        pictures: Vec::new(),
    }
}

/// What the end of the turn means for the episode. That the goal is reached is the model's word.
fn ended(state: &State, end: TurnEnd, failure: Option<ModelError>) -> Result<Act, Trouble> {
    let why = failure.map_or_else(String::new, |failure| failure.message);
    let (reached, note) = match end {
        TurnEnd::Done => (true, format!("the model says: {}", state.last_answer())),
        TurnEnd::Limit | TurnEnd::Cancelled => (false, why),
        TurnEnd::Failed => return Err(Trouble::Plugin(format!("failed: {why}"))),
    };
    Ok(Act {
        done: true,
        reached: Some(reached),
        note,
        ..Act::default()
    })
}
