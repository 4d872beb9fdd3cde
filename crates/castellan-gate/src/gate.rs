//! The gate itself: walks a batch of calls through every step.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use castellan_core::caller::Claim;
use castellan_core::event::{Answer, ApprovalItem, Decision};
use castellan_core::id::{AuditId, GrantId};
use castellan_core::message::IssuedCall;
use castellan_core::port::Elicitation;
use castellan_core::secret::Redaction;
use castellan_core::tool::SessionView;
use castellan_core::{
    CallId, Cancel, Clock, CycleId, ErrorCode, Event, Ids, Model, Outcome, Peer, Principals,
    SessionId, Surface,
};
use castellan_store::audit::{AuditEntry, ReadCount, minute_of};
use castellan_store::grants::Use;

use crate::album::Album;
use crate::catalog::Catalog;
use crate::desk::Desk;
use crate::error::Error;
use crate::govern::Permission;
use crate::guards::{Guards, Remembered};
use crate::policy::Policy;
use crate::prepare::{conceal, prepare};
use crate::recorder::Recorder;
use crate::vault::Vault;

/// Who decides where nobody answered in time.
pub const TIMEOUT: &str = "timeout";

/// How the gate behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many calls of a batch run at once.
    pub parallel: usize,
    /// How long a call may take that sets no deadline of its own.
    pub timeout: Duration,
    /// The folder for outputs that are too long for a model.
    pub spill: PathBuf,
}

/// The one path of every tool call.
pub struct Gate {
    pub(crate) catalog: Arc<Catalog>,
    principals: Arc<dyn Principals>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) redaction: Redaction,
    pub(crate) settings: Settings,
    pub(crate) guards: Guards,
    pub(crate) vault: Vault,
    /// What hooks said of calls that have no result yet.
    pub(crate) heard: Remembered,
    /// Calls that standing grants let through since the last time they were taken.
    uses: Mutex<HashMap<GrantId, Use>>,
    /// Read-only calls since the last audit write, by caller and minute.
    reads: Mutex<HashMap<(String, i64), u64>>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("catalog", &self.catalog)
            .finish_non_exhaustive()
    }
}

/// What the gate is built from.
#[derive(Clone)]
pub struct Parts {
    /// The tools.
    pub catalog: Arc<Catalog>,
    /// Who callers are.
    pub principals: Arc<dyn Principals>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where ids come from.
    pub ids: Arc<dyn Ids>,
    /// The secrets to cut out of outputs.
    pub redaction: Redaction,
    /// How it behaves.
    pub settings: Settings,
    /// What guards calls beside their tools' defaults.
    pub guards: Guards,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("catalog", &self.catalog)
            .finish_non_exhaustive()
    }
}

/// A call that has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// What the model sent.
    pub issued: IssuedCall,
    /// Whether it is on record what it is and what policy said.
    pub prepared: bool,
    /// The open round of asking that it is part of.
    pub asked: Option<Asked>,
    /// What was decided about it.
    pub answer: Option<Answer>,
    /// Who decided.
    pub answered_by: Option<String>,
}

/// What a person was asked about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The round of asking.
    pub cycle_id: CycleId,
    /// What they were shown.
    pub item: ApprovalItem,
}

/// Calls made together, with all they need.
pub struct Batch<'a> {
    /// Who makes them.
    pub claim: &'a Claim,
    /// The session as the calls see it.
    pub view: Arc<SessionView>,
    /// The calls, in order.
    pub calls: &'a [Pending],
    /// What has been permitted in advance.
    pub permission: &'a Permission,
    /// The rules of the project, on top of the gate's own.
    pub rules: &'a Policy,
    /// Resolves when the calls should stop.
    pub cancel: Cancel,
    /// A model for tools that ask one.
    pub model: Option<Arc<dyn Model>>,
    /// A person for tools that ask one.
    pub elicitation: Option<Arc<dyn Elicitation>>,
    /// The program on the other side, for tools that ask it.
    pub peer: Option<Arc<dyn Peer>>,
    /// Where everything is told.
    pub recorder: Arc<dyn Recorder>,
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

/// A call that gets a result without being run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrun {
    /// The call.
    pub call_id: CallId,
    /// The tool's name, as far as it is known.
    pub name: String,
    /// The session it belongs to.
    pub session: Option<SessionId>,
}

/// Where a batch stands after it was handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handled {
    /// Every call has a result.
    Finished,
    /// A person must decide first; nothing has run.
    Waiting(CycleId),
}

impl Gate {
    /// A gate of these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts {
            catalog,
            principals,
            clock,
            ids,
            redaction,
            settings,
            guards,
        } = parts;
        Self {
            catalog,
            principals,
            clock,
            ids,
            redaction,
            settings,
            guards,
            vault: Vault::default(),
            heard: Remembered::default(),
            uses: Mutex::default(),
            reads: Mutex::default(),
        }
    }

    /// The tools.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Where pictures are kept.
    #[must_use]
    pub fn album(&self) -> Album {
        Album::new(self.settings.spill.join("pictures"))
    }

    /// The secrets that this process knows.
    #[must_use]
    pub const fn redaction(&self) -> &Redaction {
        &self.redaction
    }

    /// Text as it may be recorded: without the secrets that this process knows.
    #[must_use]
    pub fn redact(&self, text: String) -> String {
        self.redaction.apply(text)
    }

    /// The call as it may be recorded: values that its tool marks as secret are swapped for handles,
    /// which [`handle`](Self::handle) understands. To be done before a call is recorded anywhere.
    pub fn conceal(&self, surface: Surface, mut issued: IssuedCall) -> IssuedCall {
        issued.raw.arguments = self.redaction.apply(issued.raw.arguments);
        conceal(&self.catalog, &self.vault, surface, issued)
    }

    /// Walks the calls through every step. Each call that is over has its result recorded; the last
    /// ones are noted and left for the caller to commit together with what follows from them.
    ///
    /// Where a person must decide about any of them, none is run, and the batch is handed in again
    /// with the answers. Handing in a batch again is safe as long as none of its calls was
    /// recorded as started.
    ///
    /// # Errors
    /// [`Error::Unidentified`], or [`Error::Record`] where what happens could not be recorded;
    /// calls whose start was not recorded have not run.
    pub async fn handle(&self, batch: Batch<'_>) -> Result<Handled, Error> {
        let desk = match self.principals.resolve(batch.claim) {
            Ok(caller) => Desk::new(self, caller, &batch),
            Err(unidentified) => {
                self.turn_away(&batch);
                batch.recorder.commit().await?;
                return Err(unidentified.into());
            }
        };
        let mut judged = Vec::with_capacity(batch.calls.len());
        for pending in batch.calls {
            let look = prepare(
                (&self.catalog, &self.vault),
                batch.claim.surface,
                &pending.issued,
                &batch.view,
            );
            let prepared = match desk.in_time(pending, look).await {
                Ok(prepared) => desk.hear(pending, prepared).await,
                Err(refused) => Err(refused),
            };
            match prepared {
                Ok((prepared, heard)) => {
                    judged.push((pending, desk.judge(pending, prepared, heard).await));
                }
                Err(refused) => desk.refuse(refused),
            }
        }
        if let Some(cycle_id) = desk.ask(&judged) {
            batch.recorder.commit().await?;
            return Ok(Handled::Waiting(cycle_id));
        }
        let mut allowed = Vec::new();
        for (pending, (prepared, verdict)) in judged {
            match &pending.answer {
                Some(answer) if !answer.approve => {
                    desk.deny(&prepared, decider(pending), &answer.feedback);
                }
                _ if verdict.decision == Decision::Deny => {
                    desk.deny(&prepared, &verdict.by, &verdict.reason);
                }
                _ => allowed.push((pending, prepared)),
            }
        }
        desk.run(allowed).await?;
        Ok(Handled::Finished)
    }

    /// Records that calls of an unidentified caller were not even looked at.
    fn turn_away(&self, batch: &Batch<'_>) {
        for pending in batch.calls {
            batch.recorder.audit(self.audit_entry(
                batch.claim,
                None,
                &Ended {
                    call_id: pending.issued.call_id,
                    name: castellan_core::text::shorten(&pending.issued.raw.name, 64),
                    session: batch.view.session,
                    params: String::new(),
                    duration_ms: 0,
                    outcome: "denied",
                    code: Some(ErrorCode::Denied),
                },
            ));
        }
    }

    /// Records the outcome of a call that did not run to its end under this gate: it was stopped
    /// before it began, or whoever ran it is gone.
    pub fn conclude(&self, recorder: &dyn Recorder, claim: &Claim, unrun: Unrun, outcome: Outcome) {
        let Unrun {
            call_id,
            name,
            session,
        } = unrun;
        let (is_error, effect, code) = (outcome.is_error(), outcome.effect(), outcome.code());
        let word = outcome.word();
        recorder.audit(self.audit_entry(
            claim,
            Some(&claim.principal.to_string()),
            &Ended {
                call_id,
                name: name.clone(),
                session,
                params: String::new(),
                duration_ms: 0,
                outcome: word,
                code,
            },
        ));
        recorder.note(Event::ToolResult {
            call_id,
            name,
            output: outcome.into_text(),
            is_error,
            effect,
            outcome: word.to_owned(),
            code,
            duration_ms: 0,
            spill: None,
            session_effects: Vec::new(),
            pictures: Vec::new(),
        });
    }

    /// The audit row of a call that is over. `caller` is who made it, where that was accepted.
    pub(crate) fn audit_entry(
        &self,
        claim: &Claim,
        caller: Option<&str>,
        ended: &Ended,
    ) -> AuditEntry {
        let claimed = claim.principal.to_string();
        let caller = caller.unwrap_or("unidentified").to_owned();
        AuditEntry {
            id: AuditId::mint(&*self.ids),
            ts: self.clock.now(),
            claimed: (claimed != caller).then_some(claimed),
            caller,
            tool: ended.name.clone(),
            source: claim.surface.to_string(),
            session: ended.session,
            call_id: ended.call_id,
            outcome: ended.outcome.to_owned(),
            code: ended.code.map(|code| code.to_string()),
            duration_ms: ended.duration_ms,
            params: ended.params.clone(),
        }
    }

    /// Counts a read-only call; [`take_reads`](Self::take_reads) hands the counts over.
    pub(crate) fn count_read(&self, caller: &str) {
        let minute = minute_of(self.clock.now());
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        *reads.entry((caller.to_owned(), minute)).or_default() += 1;
    }

    /// Counts a call that these grants let through; [`take_uses`](Self::take_uses) hands the counts
    /// over.
    pub(crate) fn count_uses(&self, grants: &[GrantId]) {
        if grants.is_empty() {
            return;
        }
        let last = self.clock.now();
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        for id in grants {
            let of = uses.entry(*id).or_insert(Use {
                id: *id,
                calls: 0,
                last,
            });
            of.calls += 1;
            of.last = last;
        }
    }

    /// How often standing grants were used since the last time.
    pub fn take_uses(&self) -> Vec<Use> {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        uses.drain().map(|(_, of)| of).collect()
    }

    /// Whether there is something to take with [`take_uses`](Self::take_uses) or
    /// [`take_reads`](Self::take_reads).
    #[must_use]
    pub fn has_counts(&self) -> bool {
        let uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        !uses.is_empty() || !reads.is_empty()
    }

    /// The read-only calls since the last time.
    pub fn take_reads(&self) -> Vec<ReadCount> {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads
            .drain()
            .map(|((caller, minute), calls)| ReadCount {
                caller,
                minute,
                calls,
            })
            .collect()
    }
}

/// Who denied a call, in the words of its outcome.
fn decider(pending: &Pending) -> &'static str {
    match pending.answered_by.as_deref() {
        Some(TIMEOUT) => TIMEOUT,
        _ => "the person",
    }
}

/// What the audit keeps of a call that is over.
pub(crate) struct Ended {
    pub(crate) call_id: CallId,
    pub(crate) name: String,
    pub(crate) session: Option<SessionId>,
    pub(crate) params: String,
    pub(crate) duration_ms: u64,
    pub(crate) outcome: &'static str,
    pub(crate) code: Option<ErrorCode>,
}
