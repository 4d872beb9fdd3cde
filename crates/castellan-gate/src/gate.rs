//! The gate itself: walks a batch of calls through every step.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use castellan_core::caller::Claim;
use castellan_core::event::{Answer, ApprovalItem, CallItem, Decision};
use castellan_core::id::AuditId;
use castellan_core::message::IssuedCall;
use castellan_core::port::Elicitation;
use castellan_core::secret::Redaction;
use castellan_core::tool::{CallContext, Report, SessionView};
use castellan_core::{
    CallId, Caller, Cancel, Clock, CycleId, Event, Ids, Model, Outcome, Principals, SessionId,
};
use castellan_store::audit::{AuditEntry, ReadCount, minute_of};
use futures::future::FutureExt as _;
use futures::stream::{FuturesUnordered, StreamExt as _};

use crate::catalog::Catalog;
use crate::error::Error;
use crate::execute::{Ended, LiveOutput, Ready, start};
use crate::govern::{Permission, Verdict, decide};
use crate::prepare::{Prepared, Refused, prepare, summary};
use crate::recorder::Recorder;
use crate::seal::seal;

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
    catalog: Arc<Catalog>,
    principals: Arc<dyn Principals>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    redaction: Redaction,
    settings: Settings,
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
    /// What a person decided about it.
    pub answer: Option<Answer>,
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
    /// Resolves when the calls should stop.
    pub cancel: Cancel,
    /// A model for tools that ask one.
    pub model: Option<Arc<dyn Model>>,
    /// A person for tools that ask one.
    pub elicitation: Option<Arc<dyn Elicitation>>,
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
        } = parts;
        Self {
            catalog,
            principals,
            clock,
            ids,
            redaction,
            settings,
            reads: Mutex::default(),
        }
    }

    /// The tools.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Walks the calls through every step. Each call that is over has its result recorded.
    ///
    /// Where a person must decide about any of them, none is run, and the batch is handed in again
    /// with the answers. Handing in a batch again is safe as long as none of its calls was
    /// recorded as started.
    ///
    /// # Errors
    /// [`Error::Unidentified`], or [`Error::Record`] where what happens could not be recorded;
    /// calls whose start was not recorded have not run.
    pub async fn handle(&self, batch: Batch<'_>) -> Result<Handled, Error> {
        let caller = self.principals.resolve(batch.claim)?;
        let desk = Desk {
            gate: self,
            caller,
            batch: &batch,
        };
        let mut judged = Vec::with_capacity(batch.calls.len());
        for pending in batch.calls {
            let surface = desk.caller.surface;
            match prepare(&self.catalog, surface, &pending.issued, &batch.view).await {
                Ok(prepared) => judged.push((pending, desk.judge(pending, prepared))),
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
                    desk.deny(&prepared, "the person", denial_reason(&answer.feedback));
                }
                _ if verdict.decision == Decision::Deny => {
                    desk.deny(&prepared, verdict.by, verdict.reason);
                }
                _ => allowed.push((pending, prepared)),
            }
        }
        desk.run(allowed).await?;
        Ok(Handled::Finished)
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
        let word = outcome.word().to_owned();
        recorder.audit(AuditEntry {
            id: AuditId::mint(&*self.ids),
            ts: self.clock.now(),
            caller: claim.principal.to_string(),
            claimed: None,
            tool: name.clone(),
            source: claim.surface.to_string(),
            session,
            call_id,
            outcome: word.clone(),
            code: code.map(|code| code.to_string()),
            duration_ms: 0,
            params: String::new(),
        });
        recorder.note(Event::ToolResult {
            call_id,
            name,
            output: outcome.into_text(),
            is_error,
            effect,
            outcome: word,
            code,
            duration_ms: 0,
            spill: None,
            session_effects: Vec::new(),
        });
    }

    /// Counts a read-only call; [`take_reads`](Self::take_reads) hands the counts over.
    fn count_read(&self, caller: &str) {
        let minute = minute_of(self.clock.now());
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        *reads.entry((caller.to_owned(), minute)).or_default() += 1;
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

fn denial_reason(feedback: &str) -> String {
    if feedback.is_empty() {
        "they gave no reason".to_owned()
    } else {
        feedback.to_owned()
    }
}

/// One batch on its way through the gate.
struct Desk<'a> {
    gate: &'a Gate,
    caller: Caller,
    batch: &'a Batch<'a>,
}

/// What a result needs to know of the call it ends.
struct Subject {
    name: String,
    params: String,
    read_only: bool,
}

impl Desk<'_> {
    /// Governs one prepared call and notes what it is and what was decided.
    fn judge(&self, pending: &Pending, prepared: Prepared) -> (Prepared, Verdict) {
        let spec = prepared.tool.spec();
        let verdict = decide(
            spec,
            &prepared.inspection,
            &self.caller,
            self.batch.permission,
        );
        let recorder = &self.batch.recorder;
        if !pending.prepared {
            recorder.note(Event::ToolPrepared {
                call_id: prepared.call_id,
                name: spec.name.clone(),
                arguments: prepared.arguments.clone(),
                repairs: prepared.repairs.clone(),
                header: prepared.inspection.header.clone(),
                label: prepared.inspection.label.clone(),
                effects: spec.effects.clone(),
            });
        }
        if !pending.prepared || (pending.asked.is_some() && verdict.decision != Decision::Ask) {
            recorder.note(Event::Policy {
                call_id: prepared.call_id,
                decision: verdict.decision,
                by: verdict.by.to_owned(),
                reason: verdict.reason.clone(),
            });
        }
        (prepared, verdict)
    }

    /// The round of asking that is open now, if any call needs one; opens it where it is new.
    fn ask(&self, judged: &[(&Pending, (Prepared, Verdict))]) -> Option<CycleId> {
        let open: Vec<(Option<&Asked>, ApprovalItem)> = judged
            .iter()
            .filter(|(_, (_, verdict))| verdict.decision == Decision::Ask)
            .map(|(pending, judged)| (*pending, item(judged)))
            .filter(|(pending, item)| !is_answered(pending, item))
            .map(|(pending, item)| (pending.asked.as_ref(), item))
            .collect();
        let (first, _) = open.first()?;
        let still_open = first.filter(|first| {
            open.iter().all(|(asked, item)| {
                asked.is_some_and(|asked| asked.cycle_id == first.cycle_id && asked.item == *item)
            })
        });
        if let Some(asked) = still_open {
            return Some(asked.cycle_id);
        }
        let cycle_id = CycleId::mint(&*self.gate.ids);
        let items = open.into_iter().map(|(_, item)| item).collect();
        self.batch
            .recorder
            .note(Event::ApproveRequest { cycle_id, items });
        Some(cycle_id)
    }

    fn refuse(&self, refused: Refused) {
        let Refused {
            call_id,
            name,
            outcome,
            params,
        } = refused;
        let ended = Ended {
            call_id,
            report: outcome.into(),
            duration: Duration::ZERO,
        };
        self.close(
            Subject {
                name,
                params,
                read_only: false,
            },
            ended,
            "",
        );
    }

    fn deny(&self, prepared: &Prepared, by: &str, reason: String) {
        let subject = subject(prepared);
        let report = Outcome::Denied {
            by: by.to_owned(),
            reason,
        }
        .into();
        let ended = Ended {
            call_id: prepared.call_id,
            report,
            duration: Duration::ZERO,
        };
        self.close(subject, ended, "");
    }

    /// Runs what may run; every result is recorded as soon as it is there.
    async fn run(&self, allowed: Vec<(&Pending, Prepared)>) -> Result<(), Error> {
        let recorder = &self.batch.recorder;
        self.resolve_by_policy(&allowed);
        let items: Vec<CallItem> = allowed
            .iter()
            .map(|(_, prepared)| CallItem {
                call_id: prepared.call_id,
                name: prepared.tool.spec().name.clone(),
                header: prepared.inspection.header.clone(),
            })
            .collect();
        if !items.is_empty() {
            recorder.note(Event::ToolInfo { items });
        }
        // From here on a call counts as started: the record must say so before it is true.
        recorder.commit().await?;
        let mut subjects = HashMap::with_capacity(allowed.len());
        let mut calls = Vec::with_capacity(allowed.len());
        for (pending, prepared) in allowed {
            let feedback = pending
                .answer
                .as_ref()
                .map_or("", |answer| answer.feedback.as_str());
            subjects.insert(prepared.call_id, (subject(&prepared), feedback));
            calls.push(self.ready(prepared));
        }
        let mut running: FuturesUnordered<_> = start(calls, self.gate.settings.parallel)
            .into_iter()
            .collect();
        while let Some(ended) = running.next().await {
            let mut next = Some(ended);
            // What else is over by now shares the commit.
            while let Some(ended) = next {
                if let Some((subject, feedback)) = subjects.remove(&ended.call_id) {
                    self.close(subject, ended, feedback);
                }
                next = running.next().now_or_never().flatten();
            }
            recorder.commit().await?;
        }
        Ok(())
    }

    /// A round of asking that policy has answered meanwhile is closed, so that no surface shows it
    /// as open.
    fn resolve_by_policy(&self, allowed: &[(&Pending, Prepared)]) {
        let mut rounds: Vec<(CycleId, Vec<Answer>)> = Vec::new();
        for (pending, prepared) in allowed
            .iter()
            .filter(|(pending, _)| pending.answer.is_none())
        {
            let Some(Asked { cycle_id, .. }) = &pending.asked else {
                continue;
            };
            let call_id = prepared.call_id;
            let answer = Answer {
                call_id,
                approve: true,
                feedback: String::new(),
            };
            match rounds.iter_mut().find(|(round, _)| round == cycle_id) {
                Some((_, answers)) => answers.push(answer),
                None => rounds.push((*cycle_id, vec![answer])),
            }
        }
        for (cycle_id, answers) in rounds {
            let by = "policy".to_owned();
            self.batch.recorder.note(Event::ApprovalResolved {
                cycle_id,
                by,
                answers,
            });
        }
    }

    fn ready(&self, prepared: Prepared) -> Ready {
        let gate = self.gate;
        let output = Arc::new(LiveOutput::new(
            prepared.call_id,
            Arc::clone(&self.batch.recorder),
            gate.redaction.clone(),
            self.batch.view.result_limit,
        ));
        Ready {
            tool: prepared.tool,
            call: prepared.call,
            paths: prepared.inspection.paths,
            deadline: prepared
                .inspection
                .deadline
                .unwrap_or(gate.settings.timeout),
            context: CallContext {
                call_id: prepared.call_id,
                view: Arc::clone(&self.batch.view),
                cancel: self.batch.cancel.clone(),
                progress: Arc::clone(&output) as _,
                clock: Arc::clone(&gate.clock),
                model: self.batch.model.clone(),
                elicitation: self.batch.elicitation.clone(),
            },
            output,
        }
    }

    /// Seals a result and notes it together with its audit row.
    fn close(&self, subject: Subject, ended: Ended, feedback: &str) {
        let gate = self.gate;
        let Report {
            mut outcome,
            session,
            structured: _,
        } = ended.report;
        if !feedback.is_empty()
            && let Outcome::Done { output, .. } = &mut outcome
        {
            output.push_str("\n[The person approved this call and added: ");
            output.push_str(feedback);
            output.push(']');
        }
        let (is_error, effect, code) = (outcome.is_error(), outcome.effect(), outcome.code());
        let word = outcome.word();
        let duration_ms = u64::try_from(ended.duration.as_millis()).unwrap_or(u64::MAX);
        let view = &self.batch.view;
        let folder = view.session.map_or_else(
            || gate.settings.spill.clone(),
            |session| gate.settings.spill.join(session.to_string()),
        );
        let sealed = seal(
            outcome,
            ended.call_id,
            &gate.redaction,
            view.result_limit,
            &folder,
        );
        if subject.read_only && !is_error {
            gate.count_read(&self.caller.principal.to_string());
        } else {
            let claimed = &self.batch.claim.principal;
            self.batch.recorder.audit(AuditEntry {
                id: AuditId::mint(&*gate.ids),
                ts: gate.clock.now(),
                caller: self.caller.principal.to_string(),
                claimed: (*claimed != self.caller.principal).then(|| claimed.to_string()),
                tool: subject.name.clone(),
                source: self.caller.surface.to_string(),
                session: view.session,
                call_id: ended.call_id,
                outcome: word.to_owned(),
                code: code.map(|code| code.to_string()),
                duration_ms,
                params: subject.params,
            });
        }
        self.batch.recorder.note(Event::ToolResult {
            call_id: ended.call_id,
            name: subject.name,
            output: sealed.text,
            is_error,
            effect,
            outcome: word.to_owned(),
            code,
            duration_ms,
            spill: sealed.spill,
            session_effects: session,
        });
    }
}

/// A call as a person is shown it.
fn item((prepared, verdict): &(Prepared, Verdict)) -> ApprovalItem {
    ApprovalItem {
        call_id: prepared.call_id,
        name: prepared.tool.spec().name.clone(),
        header: prepared.inspection.header.clone(),
        label: prepared.inspection.label.clone(),
        preview: prepared.inspection.preview.clone(),
        reason: verdict.reason.clone(),
    }
}

/// Whether a person has decided about the call as it is now. A yes counts only for what they were
/// shown: where the call would do something else by now, they are asked again.
fn is_answered(pending: &Pending, now: &ApprovalItem) -> bool {
    let shown = pending
        .asked
        .as_ref()
        .is_some_and(|asked| asked.item == *now);
    pending
        .answer
        .as_ref()
        .is_some_and(|answer| !answer.approve || shown)
}

fn subject(prepared: &Prepared) -> Subject {
    let spec = prepared.tool.spec();
    let mut params = summary(&prepared.arguments);
    for path in &prepared.inspection.paths {
        params = format!("{}; {params}", path.display());
    }
    Subject {
        name: spec.name.clone(),
        params,
        read_only: spec.is_read_only(),
    }
}
