//! Asks the model: room is made for the request where there is none, it is put on record, and the
//! answer becomes an event.

use castellan_core::event::{Purpose, State as Activity, TurnEnd};
use castellan_core::message::IssuedCall;
use castellan_core::{
    CallId, Cancel, ErrorCode, Event, ModelError, ModelEvent, ModelReply, ModelRequest,
    fingerprint, token,
};
use castellan_gate::Recorder as _;
use futures::StreamExt as _;
use futures::future::{Either, select};

use super::compaction::{Pressure, Squeezed};
use super::driver::{Session, TurnOutcome};
use crate::error::Error;

/// What of a model's answer watchers see while it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// All of it.
    Answer,
    /// Only that it is tried again: it is no answer to anybody.
    Troubles,
}

impl Session {
    /// Asks once; the outcome where that ends the turn.
    pub(super) async fn take_turn(&self, cancel: &Cancel) -> Result<Option<TurnOutcome>, Error> {
        for notice in self.parts.notices.take(&self.view()) {
            self.journal.note(Event::Notice {
                text: self.parts.gate.redact(notice.text),
                session_effects: notice.session,
            });
        }
        let request = self.request();
        let sized = Sized::of(&request);
        if let Some(pressure) = self.pressure(sized) {
            match self.squeeze(pressure, None, cancel).await? {
                Squeezed::Done(_) => return Ok(None),
                Squeezed::Stopped => return self.cancelled().await.map(Some),
                // Perhaps it fits nevertheless.
                Squeezed::Nothing => {}
            }
        }
        self.on_record(&request, sized.whole, Purpose::Turn).await?;
        self.activity(Activity::Thinking);
        match self.ask(request, cancel).await {
            Ok(()) => Ok(None),
            Err(error) if error.code == ErrorCode::Cancelled => self.cancelled().await.map(Some),
            Err(error) if error.code == ErrorCode::ModelContextOverflow => {
                self.overflowed(error, sized, cancel).await
            }
            Err(error) => self.end(TurnEnd::Failed, Some(error)).await.map(Some),
        }
    }

    /// The server says that the request was too long: makes it shorter, or ends the turn where that
    /// has been tried.
    async fn overflowed(
        &self,
        mut error: ModelError,
        sized: Sized,
        cancel: &Cancel,
    ) -> Result<Option<TurnOutcome>, Error> {
        if let Some(pressure) = self.refused(&error, &sized) {
            match self.squeeze(pressure, None, cancel).await? {
                Squeezed::Done(_) => return Ok(None),
                Squeezed::Stopped => return self.cancelled().await.map(Some),
                Squeezed::Nothing => {}
            }
        }
        if error.hint.is_empty() {
            "what is left of the conversation can't be made shorter; say less at once, begin a new \
             session, or use a model with a larger context window"
                .clone_into(&mut error.hint);
        }
        self.end(TurnEnd::Failed, Some(error)).await.map(Some)
    }

    /// A request costs money and may be seen: it is on record before it is made.
    pub(super) async fn on_record(
        &self,
        request: &ModelRequest,
        size: u64,
        purpose: Purpose,
    ) -> Result<(), Error> {
        self.journal.note(Event::ModelRequest {
            model: self.parts.model.info().model.clone(),
            messages: request.messages.len(),
            tools: request.tools.len(),
            size,
            fingerprint: fingerprint::of(&request.messages),
            purpose,
        });
        self.journal.commit().await?;
        Ok(())
    }

    /// Asks the model and notes its answer; the commit is left to what follows from it.
    async fn ask(&self, request: ModelRequest, cancel: &Cancel) -> Result<(), ModelError> {
        let began = self.parts.clock.monotonic();
        let reply = self.hear(request, cancel, Shown::Answer).await?;
        let took = self.parts.clock.monotonic().saturating_sub(began);
        self.answered(reply, u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        Ok(())
    }

    /// Asks the model and waits for the whole answer. A cancel ends it at once, whatever the model
    /// does.
    pub(super) async fn hear(
        &self,
        request: ModelRequest,
        cancel: &Cancel,
        shown: Shown,
    ) -> Result<ModelReply, ModelError> {
        let pass = |event| {
            if shown == Shown::Answer {
                self.journal.pass(event);
            }
        };
        let mut stream = self.parts.model.ask(request, cancel.clone());
        let mut reply = None;
        loop {
            // An answer that is there already is taken, even if someone asks to stop.
            let event = match select(stream.next(), cancel.clone()).await {
                Either::Left((event, _)) => event,
                Either::Right(((), _)) => Some(Err(stopped())),
            };
            match event {
                Some(Ok(ModelEvent::Text(text))) => pass(Event::Content { text }),
                Some(Ok(ModelEvent::Reasoning(text))) => pass(Event::Reasoning { text }),
                Some(Ok(ModelEvent::Restart {
                    code,
                    reason,
                    wait_ms,
                })) => {
                    pass(Event::StreamEnd { complete: false });
                    let wait = wait_ms.div_ceil(1000);
                    let message = format!("{reason}; trying again in {wait} s");
                    self.journal.pass(Event::Error { code, message });
                }
                Some(Ok(ModelEvent::Reply(complete))) => reply = Some(complete),
                Some(Err(error)) => {
                    pass(Event::StreamEnd { complete: false });
                    return Err(error);
                }
                None => break,
            }
            if reply.is_none() && cancel.is_cancelled() {
                pass(Event::StreamEnd { complete: false });
                return Err(stopped());
            }
        }
        let Some(reply) = reply else {
            return Err(ModelError::new(
                ErrorCode::ModelProtocol,
                "the model's answer ended without an end",
            ));
        };
        pass(Event::StreamEnd { complete: true });
        Ok(reply)
    }

    fn answered(&self, reply: ModelReply, duration_ms: u64) {
        let usage = reply.usage;
        let surface = self.journal.read(|state| state.caller.surface);
        let calls = reply
            .calls
            .into_iter()
            .map(|raw| {
                let call_id = CallId::mint(&*self.parts.ids);
                self.parts
                    .gate
                    .conceal(surface, IssuedCall { call_id, raw })
            })
            .collect();
        self.journal.note(Event::ModelResponse {
            text: self.parts.gate.redact(reply.text),
            reasoning: reply
                .reasoning
                .map(|shown| shown.map_texts(&mut |text| self.parts.gate.redact(text))),
            calls,
            finish: reply.finish,
            usage,
            attempts: reply.attempts,
            duration_ms,
        });
        if let Some(usage) = usage {
            let context_window = self.journal.read(|state| self.window(state));
            self.journal.pass(Event::Status {
                usage,
                context_window,
            });
        }
    }
}

fn stopped() -> ModelError {
    ModelError::new(ErrorCode::Cancelled, "the request was stopped")
}

/// How large a request was, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sized {
    /// All of it.
    pub(crate) whole: u64,
    /// Its instructions and tools, which no compaction makes shorter.
    pub(crate) fixed: u64,
}

impl Sized {
    pub(crate) fn of(request: &ModelRequest) -> Self {
        let system = request.messages.get(..1).unwrap_or_default();
        Self {
            whole: token::size(&request.messages, &request.tools),
            fixed: token::size(system, &request.tools),
        }
    }
}

impl Session {
    /// The pressure that a refused request is under.
    fn refused(&self, error: &ModelError, sized: &Sized) -> Option<Pressure> {
        let told = error.overflow.unwrap_or_default();
        self.journal
            .read(|state| Pressure::refused(state, self.window(state), sized, told))
    }
}
