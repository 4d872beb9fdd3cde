//! The state of a session: what its events add up to.
//!
//! [`State::apply`] is the way to change it, so a state rebuilt from the log is the state that wrote
//! the log. (Taking up a turn that ended early reopens it without an event; the request that follows
//! is the event that says so.)

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use castellan_core::event::{Answer, ApprovalItem, Purpose, Summarizer, TurnEnd};
use castellan_core::message::{IssuedCall, Reasoning};
use castellan_core::model::Finish;
use castellan_core::tool::{BackgroundShell, Effect, FileMark, SessionEffect};
use castellan_core::{
    CallId, Caller, CycleId, EffectStatus, Event, PictureRef, Recorded, Timestamp,
};
use castellan_gate::Asked;

use super::rounds::Rounds;
use crate::usage::Totals;

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult {
    /// What the model reads.
    pub output: String,
    /// Whether it reports a failure.
    pub is_error: bool,
    /// Pictures that belong to it.
    pub pictures: Vec<PictureRef>,
}

/// A call and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallState {
    /// What the model sent.
    pub issued: IssuedCall,
    /// The tool's real name, once the call was understood.
    pub name: Option<String>,
    /// Whether it only reads.
    pub read_only: bool,
    /// What a person was last asked about it.
    pub asked: Option<Asked>,
    /// When they were asked.
    pub asked_at: Timestamp,
    /// What was decided.
    pub answer: Option<Answer>,
    /// Who decided.
    pub answered_by: Option<String>,
    /// Whether it was recorded as started.
    pub started: bool,
    /// What it came to.
    pub result: Option<CallResult>,
}

impl CallState {
    /// A call that nothing has been made of yet.
    pub(crate) const fn new(issued: IssuedCall) -> Self {
        Self {
            issued,
            name: None,
            read_only: false,
            asked: None,
            asked_at: Timestamp(0),
            answer: None,
            answered_by: None,
            started: false,
            result: None,
        }
    }

    /// The name to show: the tool's where it is known, else what the model sent.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.issued.raw.name)
    }

    /// What it may have changed if nobody knows how it ended.
    #[must_use]
    pub const fn effect_if_interrupted(&self) -> EffectStatus {
        if self.read_only {
            EffectStatus::None
        } else {
            EffectStatus::Unknown
        }
    }
}

/// One entry of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Someone spoke.
    User {
        /// The words.
        text: String,
        /// Pictures that came with them.
        pictures: Vec<PictureRef>,
    },
    /// The model answered.
    Assistant {
        /// The words.
        text: String,
        /// Reasoning shown apart from the answer.
        reasoning: Option<Reasoning>,
        /// The calls, in order.
        calls: Vec<CallState>,
    },
    /// Something happened outside the conversation.
    Notice(String),
    /// Stands for what was before it.
    Summary {
        /// The summary.
        text: String,
        /// Who wrote it.
        by: Summarizer,
    },
}

/// Answers in a row that held neither words nor calls. None of them is an entry of the
/// conversation: servers refuse empty ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nothing {
    /// How many.
    pub times: u32,
    /// Why the last one stopped.
    pub finish: Finish,
    /// Whether it held reasoning.
    pub has_reasoning: bool,
    /// Whether the model has been told of it.
    pub is_told: bool,
}

/// A request as it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requested {
    /// The model's name at its server.
    pub model: String,
    /// How large it was, in bytes.
    pub size: u64,
}

/// What a server counted of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// How large the request was, in bytes.
    pub size: u64,
    /// How many tokens that was.
    pub tokens: u64,
}

/// A session as its events have made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// When it began.
    pub began: Timestamp,
    /// Who drives it.
    pub caller: Caller,
    /// The number of the last event.
    pub last_seq: u64,
    /// The working folder.
    pub cwd: PathBuf,
    /// The folder it began in.
    pub workspace: PathBuf,
    /// What its system prompt says beside its own words.
    pub prompts: Vec<String>,
    /// The conversation, oldest first.
    pub entries: Vec<Entry>,
    /// The files whose content it knows.
    pub seen: BTreeMap<PathBuf, FileMark>,
    /// The commands it started in the background, by id.
    pub shells: BTreeMap<String, BackgroundShell>,
    /// Why the last turn is over; `None` while one is under way.
    pub turn_end: Option<TurnEnd>,
    /// Model answers since the turn began or was taken up again.
    pub model_calls: u32,
    /// Tokens used since then.
    pub turn_tokens: u64,
    /// What the whole session has used, by the model's name at its server.
    pub usage: BTreeMap<String, Totals>,
    /// What the model has called since then.
    pub rounds: Rounds,
    /// The last answers, where they held nothing.
    pub nothing: Option<Nothing>,
    /// The last request for an answer.
    pub requested: Option<Requested>,
    /// The last request for a summary.
    pub summary_requested: Option<Requested>,
    /// The last request that was counted.
    pub counted: Option<Counted>,
    /// How many tokens the model of this name takes, as its server's refusals showed.
    pub learnt_window: Option<(String, u64)>,
    /// How often the conversation was made shorter since the model last answered.
    pub squeezes: u32,
    /// Where each call stands, by entry and position.
    pub(super) calls: HashMap<CallId, (usize, usize)>,
    /// The call that set the working folder, by entry and position.
    pub(super) folder_by: (usize, usize),
}

impl State {
    /// The state after these events, oldest first; `None` where the first is no session start.
    pub fn rebuild(events: &[Recorded]) -> Option<Self> {
        let (first, rest) = events.split_first()?;
        let mut state = Self::begin(first)?;
        for event in rest {
            state.apply(event);
        }
        Some(state)
    }

    /// The state after a session's first event.
    #[must_use]
    pub fn begin(first: &Recorded) -> Option<Self> {
        let Event::SessionStart {
            cwd,
            caller,
            prompts,
            ..
        } = &first.event
        else {
            return None;
        };
        Some(Self {
            began: first.ts,
            caller: caller.clone(),
            last_seq: first.seq.unwrap_or(0),
            cwd: cwd.clone(),
            workspace: cwd.clone(),
            prompts: prompts.clone(),
            entries: Vec::new(),
            seen: BTreeMap::new(),
            shells: BTreeMap::new(),
            turn_end: Some(TurnEnd::Done),
            model_calls: 0,
            turn_tokens: 0,
            usage: BTreeMap::new(),
            rounds: Rounds::default(),
            nothing: None,
            requested: None,
            summary_requested: None,
            counted: None,
            learnt_window: None,
            squeezes: 0,
            calls: HashMap::new(),
            folder_by: (0, 0),
        })
    }

    /// Takes in the next event.
    pub fn apply(&mut self, recorded: &Recorded) {
        if let Some(seq) = recorded.seq {
            self.last_seq = seq;
        }
        match &recorded.event {
            Event::UserTurn { text, pictures } => self.said(text, pictures),
            Event::Notice {
                text,
                session_effects,
            } => self.told(text, session_effects),
            Event::ModelResponse { .. } => self.responded(&recorded.event),
            Event::ToolPrepared {
                call_id,
                name,
                effects,
                ..
            } => self.on_call(*call_id, |call| {
                call.name = Some(name.clone());
                call.read_only = effects.iter().all(|effect| *effect == Effect::ReadOnly);
            }),
            Event::ToolInfo { items } => {
                for item in items {
                    self.on_call(item.call_id, |call| call.started = true);
                }
            }
            Event::ApproveRequest { cycle_id, items } => {
                self.asked(*cycle_id, items, recorded.ts);
            }
            Event::ApprovalResolved {
                cycle_id,
                by,
                answers,
            } => self.decided(*cycle_id, by, answers),
            Event::ToolResult { .. } => self.has_result(&recorded.event),
            Event::StateChange {
                reason: Some(reason),
                ..
            } => {
                self.turn_begins();
                self.turn_end = Some(*reason);
            }
            Event::SessionStart { .. } => self.began = recorded.ts,
            Event::ModelRequest {
                purpose,
                model,
                size,
                ..
            } => {
                let requested = Some(Requested {
                    model: model.clone(),
                    size: *size,
                });
                match purpose {
                    Purpose::Turn => {
                        // A turn that ended early is taken up again by asking.
                        self.turn_end = None;
                        self.requested = requested;
                    }
                    Purpose::Summary => self.summary_requested = requested,
                }
            }
            Event::Compaction { .. } => self.compacted(&recorded.event),
            Event::StateChange { reason: None, .. }
            | Event::Reasoning { .. }
            | Event::Content { .. }
            | Event::StreamEnd { .. }
            | Event::Policy { .. }
            | Event::ToolOutputChunk { .. }
            | Event::ToolProgress { .. }
            | Event::ToolLog { .. }
            | Event::McpDiscovery { .. }
            | Event::McpTool { .. }
            | Event::Mutation { .. }
            | Event::EpisodeStart { .. }
            | Event::Observation { .. }
            | Event::EpisodeEnd { .. }
            | Event::Status { .. }
            | Event::Error { .. }
            | Event::SessionEnd { .. } => {}
        }
    }

    fn has_result(&mut self, event: &Event) {
        if let Event::ToolResult {
            call_id,
            output,
            is_error,
            session_effects,
            pictures,
            ..
        } = event
        {
            let result = CallResult {
                output: output.clone(),
                is_error: *is_error,
                pictures: pictures.clone(),
            };
            self.ended(*call_id, result, session_effects);
        }
    }

    fn responded(&mut self, event: &Event) {
        let Event::ModelResponse {
            text,
            reasoning,
            calls,
            finish,
            usage,
            ..
        } = event
        else {
            return;
        };
        self.model_calls += 1;
        self.squeezes = 0;
        self.used(usage.as_ref(), text, calls);
        if text.trim().is_empty() && calls.is_empty() {
            self.came_to_nothing(finish, reasoning.is_some());
        } else {
            self.nothing = None;
            self.answered(text, reasoning.as_ref(), calls);
        }
    }

    fn said(&mut self, text: &str, pictures: &[PictureRef]) {
        self.entries.push(Entry::User {
            text: text.to_owned(),
            pictures: pictures.to_vec(),
        });
        self.turn_begins();
    }

    fn turn_begins(&mut self) {
        self.turn_end = None;
        self.model_calls = 0;
        self.turn_tokens = 0;
        self.rounds.clear();
        self.nothing = None;
        self.squeezes = 0;
    }

    fn told(&mut self, text: &str, effects: &[SessionEffect]) {
        if let Some(nothing) = &mut self.nothing {
            nothing.is_told = true;
        }
        let place = (self.entries.len(), 0);
        self.entries.push(Entry::Notice(text.to_owned()));
        self.changed(place, effects);
    }

    fn answered(&mut self, text: &str, reasoning: Option<&Reasoning>, calls: &[IssuedCall]) {
        let entry = self.entries.len();
        for (position, issued) in calls.iter().enumerate() {
            self.calls.insert(issued.call_id, (entry, position));
        }
        self.entries.push(Entry::Assistant {
            text: text.to_owned(),
            reasoning: reasoning.cloned(),
            calls: calls.iter().cloned().map(CallState::new).collect(),
        });
    }

    /// A new question makes earlier answers void.
    fn asked(&mut self, cycle_id: CycleId, items: &[ApprovalItem], at: Timestamp) {
        for item in items {
            let asked = Asked {
                cycle_id,
                item: item.clone(),
            };
            self.on_call(item.call_id, |call| {
                call.asked = Some(asked);
                call.asked_at = at;
                call.answer = None;
                call.answered_by = None;
            });
        }
    }

    /// An answer to an earlier round says nothing about the present one.
    fn decided(&mut self, cycle_id: CycleId, by: &str, answers: &[Answer]) {
        for answer in answers {
            self.on_call(answer.call_id, |call| {
                if call
                    .asked
                    .as_ref()
                    .is_some_and(|asked| asked.cycle_id == cycle_id)
                {
                    call.answer = Some(answer.clone());
                    call.answered_by = Some(by.to_owned());
                }
            });
        }
    }

    /// A result without a call, or a second one for the same call, tells the model nothing.
    fn ended(&mut self, id: CallId, result: CallResult, effects: &[SessionEffect]) {
        let mut first = false;
        self.on_call(id, |call| {
            first = call.result.is_none();
            call.result.get_or_insert(result);
        });
        if first {
            self.close_round(id);
        }
        if let Some(place) = self.calls.get(&id).copied().filter(|_| first) {
            self.changed(place, effects);
        }
    }

    /// Takes in what came of the call, or of the notice, at `place`.
    fn changed(&mut self, place: (usize, usize), effects: &[SessionEffect]) {
        for effect in effects {
            match effect {
                SessionEffect::FileSeen { path, mark } => {
                    self.seen.insert(path.clone(), mark.clone());
                }
                // Calls made together end in any order; the order they were made in decides.
                SessionEffect::WorkingFolder { path } if place >= self.folder_by => {
                    self.cwd.clone_from(path);
                    self.folder_by = place;
                }
                SessionEffect::WorkingFolder { .. } => {}
                SessionEffect::ShellStarted { id, command } => {
                    let shell = BackgroundShell {
                        command: command.clone(),
                        running: true,
                    };
                    self.shells.insert(id.clone(), shell);
                }
                SessionEffect::ShellEnded { id } => {
                    if let Some(shell) = self.shells.get_mut(id) {
                        shell.running = false;
                    }
                }
            }
        }
    }

    /// Takes in the round that this call belongs to, once all of it is over.
    fn close_round(&mut self, id: CallId) {
        if let Some((entry, _)) = self.calls.get(&id)
            && let Some(Entry::Assistant { calls, .. }) = self.entries.get(*entry)
            && calls.iter().all(|call| call.result.is_some())
        {
            self.rounds.push(calls);
        }
    }

    /// Changes a call, if there is one of that id.
    pub(super) fn on_call(&mut self, id: CallId, change: impl FnOnce(&mut CallState)) {
        let Some((entry, position)) = self.calls.get(&id) else {
            return;
        };
        if let Some(Entry::Assistant { calls, .. }) = self.entries.get_mut(*entry)
            && let Some(call) = calls.get_mut(*position)
        {
            change(call);
        }
    }

    /// What somebody was asked and has not answered, with when that was.
    pub fn undecided(&self) -> impl Iterator<Item = (&Asked, Timestamp)> {
        let open = self.open_calls().filter(|call| call.answer.is_none());
        open.filter_map(|call| Some((call.asked.as_ref()?, call.asked_at)))
    }

    /// What a round of asking was about, in order, and whether it is still open.
    pub fn round(&self, cycle_id: CycleId) -> impl Iterator<Item = (&Asked, bool)> {
        self.last_calls().iter().filter_map(move |call| {
            let asked = call
                .asked
                .as_ref()
                .filter(|asked| asked.cycle_id == cycle_id)?;
            Some((asked, call.result.is_none() && call.answer.is_none()))
        })
    }

    /// Calls of the model's last answer that have no result.
    pub fn open_calls(&self) -> impl Iterator<Item = &CallState> {
        let calls = self.last_calls().iter();
        calls.filter(|call| call.result.is_none())
    }

    /// The calls of the model's last answer.
    fn last_calls(&self) -> &[CallState] {
        let mut spoken = self
            .entries
            .iter()
            .rev()
            .filter(|entry| !matches!(entry, Entry::Notice(_)));
        match spoken.next() {
            Some(Entry::Assistant { calls, .. }) => calls,
            Some(Entry::User { .. } | Entry::Notice(_) | Entry::Summary { .. }) | None => &[],
        }
    }

    /// Whether the model has made this call.
    #[must_use]
    pub fn has_call(&self, id: CallId) -> bool {
        self.calls.contains_key(&id)
    }

    /// The words of the model's last answer.
    #[must_use]
    pub fn last_answer(&self) -> &str {
        self.entries
            .iter()
            .rev()
            .find_map(|entry| match entry {
                Entry::Assistant { text, .. } => Some(text.as_str()),
                Entry::User { .. } | Entry::Notice(_) | Entry::Summary { .. } => None,
            })
            .unwrap_or_default()
    }
}
