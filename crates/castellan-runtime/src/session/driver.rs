//! Drives a session: takes the step its state asks for, until there is none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use castellan_core::caller::Claim;
use castellan_core::event::{Always, Answer, ApprovalItem, Scope, State as Activity, TurnEnd};
use castellan_core::id::{AuditId, GrantId};
use castellan_core::port::Notices;
use castellan_core::tool::SessionView;
use castellan_core::{
    CallId, Caller, Cancel, Clock, CycleId, Event, Ids, Model, ModelError, ModelRequest, Outcome,
    PictureRef, Principal, Recorded, SessionId, Surface,
};
use castellan_gate::gate::TIMEOUT;
use castellan_gate::policy::{Policy, ProjectRules};
use castellan_gate::trace::Trace;
use castellan_gate::{Album, Batch, Gate, Handled, Permission, Recorder as _};
use castellan_store::audit::AuditEntry;
use castellan_store::grants::{GrantRow, Place};
use castellan_store::{SessionClaim, Store, events};

use super::journal::{Journal, Watcher};
use super::request::messages;
use super::sight::Sight;
use super::state::State;
use super::step::{Limits, Step, next};
use crate::error::Error;
use crate::live::Question;
use crate::usage::{Price, Spent};

/// The most bytes of a tool's output that a model is shown.
pub const RESULT_LIMIT: usize = 256 * 1024;
/// The least that is left of it for a model with a small context window.
const LEAST_RESULT: usize = 4 * 1024;

/// What a session runs on.
#[derive(Clone)]
pub struct Parts {
    /// Where it is stored.
    pub store: Store,
    /// The path of its calls.
    pub gate: Arc<Gate>,
    /// The model it asks.
    pub model: Arc<dyn Model>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where ids come from.
    pub ids: Arc<dyn Ids>,
    /// Who sees its events.
    pub watcher: Arc<dyn Watcher>,
    /// Where tools leave word for the model.
    pub notices: Arc<dyn Notices>,
    /// The folder of traces.
    pub traces: PathBuf,
    /// What has been permitted in advance.
    pub permission: Permission,
    /// What the system prompt of a new session says beside its own words.
    pub prompts: Vec<String>,
    /// Where the rules of a project come from.
    pub rules: Arc<dyn ProjectRules>,
    /// How long a question may stay open before it counts as denied; `None` for ever.
    pub patience: Option<Duration>,
    /// How much turns and sessions may use.
    pub limits: Limits,
    /// At which part of the model's context window the conversation is made shorter.
    pub compact_at: f64,
    /// What models cost, by their names at their servers.
    pub prices: BTreeMap<String, Price>,
    /// The version of this program.
    pub version: &'static str,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("traces", &self.traces)
            .finish_non_exhaustive()
    }
}

/// Where a turn stands when there is nothing more to do without someone else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnOutcome {
    /// It is over; the failure where there was one.
    Over(TurnEnd, Option<ModelError>),
    /// A person must decide.
    Waiting(CycleId),
}

/// An open session. While it is open no other process can drive it.
pub struct Session {
    id: SessionId,
    pub(crate) parts: Parts,
    /// The rules of the project, as they were when the session was opened.
    rules: Policy,
    pub(crate) journal: Arc<Journal>,
    sight: Sight,
    _claim: SessionClaim,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Begins a session in `cwd`, driven by the person named `user`. It is stored with its first
    /// turn.
    ///
    /// # Errors
    /// [`Error`] where it can't be claimed or traced.
    pub fn begin(parts: Parts, cwd: &Path, user: &str) -> Result<Self, Error> {
        let id = SessionId::mint(&*parts.ids);
        let claim = parts.store.claim(id)?;
        let caller = Caller {
            principal: Principal::Person(user.to_owned()),
            surface: Surface::Interactive,
            capabilities: Vec::new(),
        };
        let version = parts.version.to_owned();
        let event = Event::SessionStart {
            version,
            cwd: cwd.to_owned(),
            caller,
            prompts: parts.prompts.clone(),
        };
        // Nothing has happened yet: the state takes in the same event again once it is noted.
        let blank = Recorded {
            ts: parts.clock.now(),
            seq: None,
            session: id,
            event: event.clone(),
        };
        let state = State::begin(&blank).ok_or(Error::NoBeginning(id))?;
        let trace = Trace::open(&parts.traces, id, &[])?;
        let session = Self::assemble(id, parts, claim, state, trace)?;
        session.journal.note(event);
        Ok(session)
    }

    /// Opens a stored session.
    ///
    /// # Errors
    /// [`Error`] where another process drives it, or its log can't be read.
    pub async fn open(parts: Parts, id: SessionId) -> Result<Self, Error> {
        let claim = parts.store.claim(id)?;
        let log = parts.store.read(move |tx| events::load(tx, id, 0)).await?;
        let state = State::rebuild(&log).ok_or(Error::NoBeginning(id))?;
        let trace = Trace::open(&parts.traces, id, &log)?;
        Self::assemble(id, parts, claim, state, trace)
    }

    fn assemble(
        id: SessionId,
        parts: Parts,
        claim: SessionClaim,
        state: State,
        trace: Trace,
    ) -> Result<Self, Error> {
        let rules = parts.rules.read(&state.workspace)?;
        let base = (
            parts.store.clone(),
            Arc::clone(&parts.clock),
            Arc::clone(&parts.gate),
        );
        let journal = Journal::new(id, base, Arc::clone(&parts.watcher), state, trace);
        Ok(Self {
            id,
            parts,
            rules,
            journal: Arc::new(journal),
            sight: Sight::default(),
            _claim: claim,
        })
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> SessionId {
        self.id
    }

    /// The words of the model's last answer.
    #[must_use]
    pub fn last_answer(&self) -> String {
        self.journal.read(|state| state.last_answer().to_owned())
    }

    /// What a person is asked to decide about now.
    #[must_use]
    pub fn waiting(&self) -> Vec<ApprovalItem> {
        self.journal.read(|state| {
            let undecided = state.undecided();
            undecided.map(|(asked, _)| asked.item.clone()).collect()
        })
    }

    /// What it has used, by model, and what that costs.
    #[must_use]
    pub fn usage(&self) -> Vec<Spent> {
        self.journal.usage(&self.parts.prices)
    }

    /// Says something to the model, to be stored and answered by [`run`](Self::run). What the last
    /// turn left open is closed first: calls that began are said to be interrupted, calls that did
    /// not begin are said not to have been run.
    pub fn say(&mut self, text: String) {
        self.say_with(text, Vec::new());
    }

    /// Where pictures are kept that [`say_with`](Self::say_with) names.
    #[must_use]
    pub fn album(&self) -> Album {
        self.parts.gate.album()
    }

    /// Says something that pictures belong to.
    pub fn say_with(&mut self, text: String, pictures: Vec<PictureRef>) {
        let open: Vec<(CallId, bool)> = self.journal.read(|state| {
            state
                .open_calls()
                .map(|call| (call.issued.call_id, call.started))
                .collect()
        });
        for (call_id, started) in open {
            if started {
                self.settle(call_id);
            } else {
                let reason = "the person said something else instead of deciding".to_owned();
                let by = "the person".to_owned();
                self.conclude(call_id, Outcome::Denied { by, reason });
            }
        }
        let text = self.parts.gate.redact(text);
        self.journal.note(Event::UserTurn { text, pictures });
    }

    /// Records what a person decided about an open round of asking; `by` says who and where. Calls
    /// that the answer leaves out stay open. A permission for good is kept in the same transaction
    /// as the answer it comes with.
    ///
    /// # Errors
    /// [`Error::AlreadyDecided`] where that round, or the part of it that is answered, is not open
    /// any more; [`Error::NotOffered`] for a permission for good that wasn't; [`Error::Gate`] where
    /// the decision can't be recorded.
    pub async fn decide(
        &mut self,
        cycle_id: CycleId,
        by: &str,
        answers: Vec<Answer>,
    ) -> Result<(), Error> {
        let open = self.open_question();
        let items = self.waiting();
        let stale = answers
            .iter()
            .any(|answer| items.iter().all(|item| item.call_id != answer.call_id));
        if open != Some(cycle_id) || stale {
            return Err(Error::AlreadyDecided {
                asked: cycle_id,
                open,
            });
        }
        for grant in self.granted(by, &items, &answers)? {
            self.journal.audit(grant.1);
            self.journal.give(grant.0);
        }
        let by = by.to_owned();
        self.journal.note(Event::ApprovalResolved {
            cycle_id,
            by,
            answers,
        });
        self.journal.commit().await?;
        Ok(())
    }

    /// The permissions for good that come with these answers, each with what the audit keeps of it.
    fn granted(
        &self,
        by: &str,
        items: &[ApprovalItem],
        answers: &[Answer],
    ) -> Result<Vec<(GrantRow, AuditEntry)>, Error> {
        let (who, surface, workspace) = self.journal.read(|state| {
            let caller = &state.caller;
            let workspace = state.workspace.clone();
            (caller.principal.to_string(), caller.surface, workspace)
        });
        let mut granted = Vec::new();
        for answer in answers {
            let Some(Always { grant, scope }) = &answer.always else {
                continue;
            };
            let not_offered = || Error::NotOffered {
                grant: grant.clone(),
            };
            let offered = items
                .iter()
                .any(|item| item.call_id == answer.call_id && item.grants.contains(grant));
            if !offered || !answer.approve {
                return Err(not_offered());
            }
            let place = match scope {
                Scope::Session => Place::Session(self.id),
                // However the folder is spelled, it is one project.
                Scope::Project => Place::Project(
                    workspace
                        .canonicalize()
                        .unwrap_or_else(|_error| workspace.clone()),
                ),
                Scope::Everywhere => Place::Everywhere,
            };
            let row = GrantRow {
                id: GrantId::mint(&*self.parts.ids),
                grant: grant.parse().map_err(|_not_a_grant| not_offered())?,
                place,
                who: who.clone(),
                surface: surface.to_string(),
                session: Some(self.id),
                given: self.parts.clock.now(),
                uses: 0,
                last_used: None,
            };
            let entry = AuditEntry {
                id: AuditId::mint(&*self.parts.ids),
                ts: row.given,
                caller: who.clone(),
                claimed: None,
                tool: "grant".to_owned(),
                source: surface.to_string(),
                session: Some(self.id),
                call_id: answer.call_id,
                outcome: "done".to_owned(),
                code: None,
                duration_ms: 0,
                params: format!("given by {by}: {}", row.described()),
            };
            granted.push((row, entry));
        }
        Ok(granted)
    }

    /// The open round of asking with the calls in it.
    #[must_use]
    pub fn question(&self) -> Option<Question> {
        self.journal.read(|state| {
            let (first, _) = state.undecided().next()?;
            let cycle_id = first.cycle_id;
            let mut question = Question {
                cycle_id,
                items: Vec::new(),
                numbers: Vec::new(),
                asked: 0,
            };
            for (asked, is_open) in state.round(cycle_id) {
                question.asked += 1;
                if is_open {
                    question.items.push(asked.item.clone());
                    question.numbers.push(question.asked);
                }
            }
            Some(question)
        })
    }

    /// Whether the last turn ended before it was done, so that [`take_up`](Self::take_up) would go
    /// on with it.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.journal.read(|state| {
            let begun = !state.entries.is_empty();
            begun && state.turn_end != Some(TurnEnd::Done)
        })
    }

    /// The round of asking that is open now.
    #[must_use]
    pub fn open_question(&self) -> Option<CycleId> {
        self.journal
            .read(|state| state.undecided().next().map(|(asked, _)| asked.cycle_id))
    }

    /// Takes up a turn that ended before it was done, by a failure, a limit or a cancel.
    ///
    /// # Errors
    /// [`Error::NothingToDo`] where the last turn is done.
    pub fn take_up(&mut self) -> Result<(), Error> {
        match self.journal.read(|state| state.turn_end) {
            Some(TurnEnd::Done) => Err(Error::NothingToDo(self.id)),
            Some(TurnEnd::Failed | TurnEnd::Limit | TurnEnd::Cancelled) => {
                self.journal.reopen();
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Goes on until the turn is over or someone must decide. Cancelling ends the turn within about
    /// a second and leaves nothing running.
    ///
    /// # Errors
    /// [`Error`] where what happens can't be recorded; everything recorded until then stays true,
    /// and opening the session again goes on from there.
    pub async fn run(&mut self, cancel: Cancel) -> Result<TurnOutcome, Error> {
        loop {
            let step = self.journal.read(|state| next(state, &self.parts.limits));
            match step {
                Step::Settle(calls) => {
                    for call_id in calls {
                        self.settle(call_id);
                    }
                    self.journal.commit().await?;
                }
                Step::Rest => {
                    self.journal.commit().await?;
                    let end = self.journal.read(|state| state.turn_end);
                    return Ok(TurnOutcome::Over(end.unwrap_or(TurnEnd::Done), None));
                }
                Step::End(end, reason) => return self.end(end, reason).await,
                _ if cancel.is_cancelled() => return self.cancelled().await,
                Step::Handle(_) if self.expire() => self.journal.commit().await?,
                Step::Handle(calls) => {
                    self.activity(Activity::Running);
                    if let Handled::Waiting(cycle_id) = self.handle(&calls, &cancel).await? {
                        self.activity(Activity::Waiting);
                        return Ok(TurnOutcome::Waiting(cycle_id));
                    }
                }
                Step::Tell(text) => self.journal.note(Event::Notice {
                    text,
                    session_effects: Vec::new(),
                }),
                Step::Ask => {
                    if let Some(over) = self.take_turn(&cancel).await? {
                        return Ok(over);
                    }
                }
            }
        }
    }

    /// How long the open question may still stand; `None` where there is none, or it may for ever.
    /// Its age counts from when it was asked, in whichever process that was.
    #[must_use]
    pub fn patience_left(&self) -> Option<Duration> {
        let patience = self.parts.patience?;
        let asked_at = self
            .journal
            .read(|state| state.undecided().map(|(_, at)| at).min())?;
        Some(patience.saturating_sub(self.parts.clock.now().since(asked_at)))
    }

    /// Denies what has been asked for too long; whether there was any.
    fn expire(&self) -> bool {
        if self.patience_left() != Some(Duration::ZERO) {
            return false;
        }
        let Some(question) = self.question() else {
            return false;
        };
        let deny = |item: &ApprovalItem| Answer {
            feedback: "nobody answered in time".to_owned(),
            ..Answer::new(item.call_id, false)
        };
        self.journal.note(Event::ApprovalResolved {
            cycle_id: question.cycle_id,
            by: TIMEOUT.to_owned(),
            answers: question.items.iter().map(deny).collect(),
        });
        true
    }

    pub(super) fn activity(&self, state: Activity) {
        self.journal.pass(Event::StateChange {
            state,
            reason: None,
        });
    }

    /// Ends the turn, with the reason unless it is done or was stopped.
    pub(super) async fn end(
        &self,
        end: TurnEnd,
        failure: Option<ModelError>,
    ) -> Result<TurnOutcome, Error> {
        if let Some(ModelError { code, message, .. }) = failure.clone() {
            self.journal.note(Event::Error { code, message });
        }
        self.journal.note(Event::StateChange {
            state: Activity::Idle,
            reason: Some(end),
        });
        self.journal.commit().await?;
        Ok(TurnOutcome::Over(end, failure))
    }

    /// Calls that have not begun are closed, so that the next turn doesn't run what was stopped.
    pub(super) async fn cancelled(&self) -> Result<TurnOutcome, Error> {
        let open: Vec<CallId> = self
            .journal
            .read(|state| state.open_calls().map(|call| call.issued.call_id).collect());
        for call_id in open {
            let output = "cancelled before it began".to_owned();
            let effect = castellan_core::EffectStatus::None;
            self.conclude(call_id, Outcome::Cancelled { output, effect });
        }
        self.end(TurnEnd::Cancelled, None).await
    }

    fn settle(&self, call_id: CallId) {
        let effect = self.journal.read(|state| {
            state
                .open_calls()
                .find(|call| call.issued.call_id == call_id)
                .map(super::state::CallState::effect_if_interrupted)
        });
        if let Some(effect) = effect {
            self.conclude(call_id, Outcome::interrupted(effect));
        }
    }

    /// Records a result that no run of the tool gave.
    fn conclude(&self, call_id: CallId, outcome: Outcome) {
        let name = self.journal.read(|state| {
            state
                .open_calls()
                .find(|call| call.issued.call_id == call_id)
                .map(|call| call.name().to_owned())
        });
        let Some(name) = name else { return };
        let subject = castellan_gate::gate::Unrun {
            call_id,
            name,
            session: Some(self.id),
        };
        self.parts
            .gate
            .conclude(&*self.journal, &self.claim(), subject, outcome);
    }

    fn claim(&self) -> Claim {
        let surface = self.journal.read(|state| state.caller.surface);
        Claim {
            principal: Principal::Workstream(self.id),
            surface,
            token: None,
        }
    }

    /// The session as its calls see it.
    pub(super) fn view(&self) -> SessionView {
        self.journal.read(|state| SessionView {
            session: Some(self.id),
            cwd: state.cwd.clone(),
            workspace: state.workspace.clone(),
            seen: state.seen.clone(),
            shells: state.shells.clone(),
            result_limit: result_limit(self.window(state)),
            redaction: self.parts.gate.redaction().clone(),
        })
    }

    async fn handle(
        &self,
        calls: &[castellan_gate::Pending],
        cancel: &Cancel,
    ) -> Result<Handled, Error> {
        let batch = Batch {
            claim: &self.claim(),
            view: Arc::new(self.view()),
            calls,
            permission: &self.parts.permission,
            rules: &self.rules,
            cancel: cancel.clone(),
            model: Some(Arc::clone(&self.parts.model)),
            elicitation: None,
            peer: None,
            recorder: Arc::clone(&self.journal) as _,
        };
        Ok(self.parts.gate.handle(batch).await?)
    }

    pub(super) fn request(&self) -> ModelRequest {
        let sees = self.parts.model.info().supports_vision;
        let mut messages = self.journal.read(messages);
        self.sight.fill(&mut messages, sees);
        self.journal.read(|state| ModelRequest {
            messages,
            tools: self.parts.gate.catalog().cards(
                state.caller.surface,
                (&state.cwd, &state.workspace),
                !state.shells.is_empty(),
            ),
        })
    }
}

/// How much of an output a model with this context window is shown: at most a quarter of it, at
/// three bytes a token.
fn result_limit(context_window: Option<u64>) -> usize {
    context_window
        .and_then(|tokens| usize::try_from(tokens).ok())
        .map_or(RESULT_LIMIT, |tokens| {
            (tokens / 4 * 3).clamp(LEAST_RESULT, RESULT_LIMIT)
        })
}
