//! Calls from outside any session: clients of the MCP server and unattended runs make theirs
//! through an [`Engine`]. It is the same gate that a session's calls pass; what differs is where
//! they are told (a trace, and the audit, instead of a session's log) and who is asked.

mod asking;
mod ledger;
mod meter;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use castellan_core::caller::Claim;
use castellan_core::message::IssuedCall;
use castellan_core::outcome::EffectStatus;
use castellan_core::port::Elicitation;
use castellan_core::secret::Redaction;
use castellan_core::tool::{FileMark, SessionEffect, SessionView};
use castellan_core::{
    Block, CallId, Cancel, Clock, ErrorCode, Event, Ids, Model, Peer, PictureRef, RawCall,
    SessionId,
};
use castellan_gate::gate::{Asked, Batch, Pending};
use castellan_gate::policy::{Policy, ProjectRules};
use castellan_gate::{Gate, Handled, Permission, Recorder as _};
use castellan_store::Store;

use crate::error::Error;
use crate::session::Watcher;
use crate::session::driver::RESULT_LIMIT;

pub use ledger::{Ledger, TraceTo};
pub use meter::{Counts, Latency, Meter};

/// The domain of the tools that only look around in the catalog.
pub const DISCOVERY: &str = "meta";

/// What calls from outside run on.
#[derive(Clone)]
pub struct EngineParts {
    /// The path of every call.
    pub gate: Arc<Gate>,
    /// Where the audit is kept; `None` keeps none, for runs that leave nothing behind.
    pub store: Option<Store>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where ids come from.
    pub ids: Arc<dyn Ids>,
    /// Where calls are traced.
    pub trace: TraceTo,
    /// What has been permitted in advance.
    pub permission: Permission,
    /// Where the rules of a project come from.
    pub rules: Arc<dyn ProjectRules>,
    /// How long a question may stay open before it counts as denied; `None` for ever.
    pub patience: Option<Duration>,
    /// Counts calls.
    pub meter: Arc<Meter>,
}

impl std::fmt::Debug for EngineParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineParts")
            .field("trace", &self.trace)
            .finish_non_exhaustive()
    }
}

/// Runs calls from outside any session.
pub struct Engine {
    parts: EngineParts,
    ledger: Arc<Ledger>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.parts.fmt(f)
    }
}

/// One client, or one run: its calls know of one another what calls of a session know.
pub struct Connection {
    id: SessionId,
    workspace: PathBuf,
    rules: Policy,
    known: Mutex<Known>,
    ledger: Arc<Ledger>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.ledger.forget(self.id);
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// What earlier calls have left behind.
struct Known {
    cwd: PathBuf,
    seen: BTreeMap<PathBuf, FileMark>,
}

/// How many files a connection remembers to have seen; the oldest by path are forgotten first,
/// and a tool that needs one to have been read says so.
const SEEN: usize = 10_000;

impl Connection {
    /// The id that its calls are traced under.
    #[must_use]
    pub const fn id(&self) -> SessionId {
        self.id
    }

    /// The folder it works in.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    fn view(&self, redaction: Redaction) -> SessionView {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        SessionView {
            session: None,
            cwd: known.cwd.clone(),
            workspace: self.workspace.clone(),
            seen: known.seen.clone(),
            shells: BTreeMap::new(),
            result_limit: RESULT_LIMIT,
            redaction,
        }
    }

    fn learn(&self, effects: &[SessionEffect]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for effect in effects {
            match effect {
                SessionEffect::FileSeen { path, mark } => {
                    known.seen.insert(path.clone(), mark.clone());
                    if known.seen.len() > SEEN {
                        known.seen.pop_first();
                    }
                }
                SessionEffect::WorkingFolder { path } => known.cwd.clone_from(path),
                SessionEffect::ShellStarted { .. } | SessionEffect::ShellEnded { .. } => {}
            }
        }
    }
}

/// A call from outside.
pub struct OutsideCall {
    /// Who makes it.
    pub claim: Claim,
    /// The tool.
    pub name: String,
    /// The arguments, as JSON text.
    pub arguments: String,
    /// Resolves when the call should stop.
    pub cancel: Cancel,
    /// A person on the other side, who is asked where somebody must be, and whom tools may ask.
    pub person: Option<Arc<dyn Elicitation>>,
    /// The program on the other side, for tools that ask it.
    pub peer: Option<Arc<dyn Peer>>,
    /// A model for tools that ask one.
    pub model: Option<Arc<dyn Model>>,
    /// Who sees the call's events as they happen.
    pub watcher: Arc<dyn Watcher>,
}

impl std::fmt::Debug for OutsideCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutsideCall")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The call's id in trace and audit.
    pub call_id: CallId,
    /// What the caller reads.
    pub output: String,
    /// Whether it reports a failure.
    pub is_error: bool,
    /// `done`, `failed`, `denied`, `timed_out` or `cancelled`.
    pub outcome: String,
    /// The code, for all but `done`.
    pub code: Option<ErrorCode>,
    /// What it changed.
    pub effect: EffectStatus,
    /// The file with the whole output, where it was cut.
    pub spill: Option<PathBuf>,
    /// Pictures that belong to the output.
    pub pictures: Vec<PictureRef>,
    /// Sound and resources that belong to it.
    pub blocks: Vec<Block>,
}

impl Engine {
    /// An engine on these parts.
    ///
    /// # Errors
    /// [`Error::Gate`] where the trace can't be opened.
    pub fn new(parts: EngineParts) -> Result<Self, Error> {
        let ledger = Ledger::open(
            &parts.trace,
            parts.store.clone(),
            Arc::clone(&parts.clock),
            Arc::clone(&parts.gate),
        )?;
        let ledger = Arc::new(ledger);
        Ok(Self { parts, ledger })
    }

    /// The path of every call.
    #[must_use]
    pub const fn gate(&self) -> &Arc<Gate> {
        &self.parts.gate
    }

    /// A connection of a client, or a run, that works in `workspace`.
    ///
    /// # Errors
    /// [`Error::Gate`] where the rules of that project can't be read.
    pub fn connect(&self, workspace: &Path) -> Result<Connection, Error> {
        Ok(Connection {
            id: SessionId::mint(&*self.parts.ids),
            workspace: workspace.to_owned(),
            rules: self.parts.rules.read(workspace)?,
            known: Mutex::new(Known {
                cwd: workspace.to_owned(),
                seen: BTreeMap::new(),
            }),
            ledger: Arc::clone(&self.ledger),
        })
    }

    /// Stores what may wait while there are calls: how often was read. To be called at the end.
    ///
    /// # Errors
    /// [`Error::Gate`] where it can't be stored.
    pub async fn settle(&self) -> Result<(), Error> {
        Ok(self.ledger.settle().await?)
    }

    /// Tells the trace of something that is no call.
    ///
    /// # Errors
    /// [`Error::Gate`] where it can't be written.
    pub async fn tell(&self, connection: &Connection, events: Vec<Event>) -> Result<(), Error> {
        self.told(connection, events, None).await
    }

    /// The same, with somebody who sees the events once they are on record.
    ///
    /// # Errors
    /// As [`tell`](Self::tell).
    pub async fn tell_to(
        &self,
        connection: &Connection,
        events: Vec<Event>,
        watcher: Arc<dyn Watcher>,
    ) -> Result<(), Error> {
        self.told(connection, events, Some(watcher)).await
    }

    async fn told(
        &self,
        connection: &Connection,
        events: Vec<Event>,
        watcher: Option<Arc<dyn Watcher>>,
    ) -> Result<(), Error> {
        let page = self.ledger.page(connection.id, watcher);
        for event in events {
            page.note(event);
        }
        Ok(page.commit().await?)
    }

    /// Makes one call. What a person must decide is asked of the one on the other side, if the call
    /// has one, and is otherwise denied.
    ///
    /// # Errors
    /// [`Error::Gate`] where the caller is not accepted, or what happens can't be recorded: then
    /// nothing follows from the call that was not recorded before.
    pub async fn call(&self, connection: &Connection, call: OutsideCall) -> Result<Reply, Error> {
        let gate = &self.parts.gate;
        let began = self.parts.clock.monotonic();
        let call_id = CallId::mint(&*self.parts.ids);
        let surface = call.claim.surface;
        let raw = RawCall::new(call.name, call.arguments);
        let issued = gate.conceal(surface, IssuedCall { call_id, raw });
        let page = Arc::new(self.ledger.page(connection.id, Some(call.watcher)));
        page.note(self.announced(&issued));
        let mut pending = Pending {
            issued,
            prepared: false,
            asked: None,
            answer: None,
            answered_by: None,
        };
        let view = Arc::new(connection.view(gate.redaction().clone()));
        loop {
            let batch = Batch {
                claim: &call.claim,
                view: Arc::clone(&view),
                calls: std::slice::from_ref(&pending),
                permission: &self.parts.permission,
                rules: &connection.rules,
                cancel: call.cancel.clone(),
                model: call.model.clone(),
                elicitation: call.person.clone(),
                peer: call.peer.clone(),
                recorder: Arc::clone(&page) as _,
            };
            let Handled::Waiting(cycle_id) = gate.handle(batch).await? else {
                break;
            };
            let (Some(item), Some(person)) = (page.question(cycle_id, call_id), &call.person)
            else {
                return Err(Error::Unanswerable(call_id));
            };
            self.parts.meter.asked();
            let answer = self.ask(&**person, &item, call.cancel.clone()).await;
            page.note(Event::ApprovalResolved {
                cycle_id,
                by: answer.by.clone(),
                answers: vec![answer.answer.clone()],
            });
            pending.prepared = true;
            pending.asked = Some(Asked { cycle_id, item });
            pending.answer = Some(answer.answer);
            pending.answered_by = Some(answer.by);
        }
        page.commit().await?;
        let (reply, effects) = page.reply(call_id).ok_or(Error::Unanswerable(call_id))?;
        connection.learn(&effects);
        let took = self.parts.clock.monotonic().saturating_sub(began);
        self.parts.meter.ended(reply.code, took);
        Ok(reply)
    }

    /// What the trace says of a call before the gate has looked at it.
    fn announced(&self, issued: &IssuedCall) -> Event {
        let call_id = issued.call_id;
        let tool = issued.raw.name.clone();
        let args = serde_json::from_str(&issued.raw.arguments)
            .unwrap_or_else(|_not_json| issued.raw.arguments.clone().into());
        let known = self.parts.gate.catalog().get(&tool);
        match known {
            Some(known) if known.spec().domain == DISCOVERY => Event::McpDiscovery {
                call_id,
                tool,
                args,
            },
            _ => Event::McpTool {
                call_id,
                tool,
                args,
            },
        }
    }
}
