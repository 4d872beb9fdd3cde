//! One batch at the gate: what is noted, asked, run and closed on its way.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use castellan_core::event::{Answer, ApprovalItem, CallItem, Decision};
use castellan_core::text::{one_line, shorten};
use castellan_core::tool::{CallContext, Left, Report};
use castellan_core::{CallId, Caller, CycleId, EffectStatus, ErrorCode, Event, Outcome, ToolSpec};
use futures::future::FutureExt as _;
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::error::Error;
use crate::execute::{self, LiveOutput, Ready, start};
use crate::gate::{Asked, Batch, Ended, Gate, Pending};
use crate::govern::Verdict;
use crate::guards::Standing;
use crate::overflow::Spill;
use crate::prepare::{Prepared, Refused};
use crate::seal::seal;

/// One batch on its way through the gate.
pub(crate) struct Desk<'a> {
    pub(crate) gate: &'a Gate,
    pub(crate) caller: Caller,
    pub(crate) batch: &'a Batch<'a>,
    /// The standing grants, read once some call needs them.
    pub(crate) standing: OnceCell<Standing>,
}

/// What a result needs to know of the call it ends.
struct Subject {
    name: String,
    params: String,
    read_only: bool,
    secret_results: Vec<String>,
    /// What a person added to their yes.
    feedback: String,
    /// What hooks had to say afterwards.
    notes: Vec<String>,
    spill: Option<Arc<Spill>>,
}

impl<'a> Desk<'a> {
    pub(crate) fn new(gate: &'a Gate, caller: Caller, batch: &'a Batch<'a>) -> Self {
        Self {
            gate,
            caller,
            batch,
            standing: OnceCell::new(),
        }
    }

    /// The round of asking that is open now, if any call needs one; opens it where it is new.
    pub(crate) fn ask(&self, judged: &[(&Pending, (Prepared, Verdict))]) -> Option<CycleId> {
        let open: Vec<(Option<&Asked>, ApprovalItem)> = judged
            .iter()
            .filter(|(_, (_, verdict))| verdict.decision == Decision::Ask)
            .map(|(pending, judged)| (*pending, self.item(judged)))
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

    /// What becomes of a call that could not be looked at in time.
    pub(crate) fn unprepared(&self, pending: &Pending, code: ErrorCode) -> Refused {
        let effect = EffectStatus::None;
        let outcome = match code {
            ErrorCode::Cancelled => Outcome::Cancelled {
                output: "cancelled before it began".to_owned(),
                effect,
            },
            _ => Outcome::TimedOut {
                output: "looking at what the call would do took too long".to_owned(),
                effect,
            },
        };
        let issued = &pending.issued;
        let name = one_line(&shorten(issued.raw.name.trim(), 64));
        Refused {
            call_id: issued.call_id,
            name,
            outcome,
            params: String::new(),
        }
    }

    pub(crate) fn refuse(&self, refused: Refused) {
        let Refused {
            call_id,
            name,
            outcome,
            params,
        } = refused;
        let subject = Subject {
            name,
            params,
            read_only: false,
            secret_results: Vec::new(),
            feedback: String::new(),
            notes: Vec::new(),
            spill: None,
        };
        self.close(subject, unrun(call_id, outcome));
    }

    pub(crate) fn deny(&self, prepared: &Prepared, by: &str, reason: &str) {
        let reason = if reason.is_empty() {
            "they gave no reason"
        } else {
            reason
        };
        let outcome = Outcome::Denied {
            by: by.to_owned(),
            reason: reason.to_owned(),
        };
        self.close(subject(prepared, ""), unrun(prepared.call_id, outcome));
    }

    /// Runs what may run. Each result is recorded as soon as it is there, but for the last ones,
    /// which are noted: what follows from them shares their commit.
    pub(crate) async fn run(&self, allowed: Vec<(&Pending, Prepared)>) -> Result<(), Error> {
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
        if items.is_empty() {
            return Ok(());
        }
        recorder.note(Event::ToolInfo { items });
        // From here on a call counts as started: the record must say so before it is true.
        recorder.commit().await?;
        let mut subjects = HashMap::with_capacity(allowed.len());
        let mut calls = Vec::with_capacity(allowed.len());
        let mut listeners = Vec::with_capacity(allowed.len());
        let left = Left::default();
        for (pending, mut prepared) in allowed {
            // A person's own yes uses no permission up, not even the one that came with it.
            if pending.answer.is_none() {
                self.gate.count_uses(&prepared.grants);
            }
            listeners.push(self.listener(&mut prepared));
            let feedback = pending
                .answer
                .as_ref()
                .map_or("", |answer| answer.feedback.as_str());
            let mut subject = subject(&prepared, feedback);
            let call_id = prepared.call_id;
            let (ready, spill) = self.ready(prepared, left.clone());
            subject.spill = Some(spill);
            subjects.insert(call_id, subject);
            calls.push(ready);
        }
        let mut running: FuturesUnordered<_> = start(calls, self.gate.settings.parallel)
            .into_iter()
            .zip(listeners)
            .map(|(run, listener)| match listener {
                None => run.map(|ended| (ended, Vec::new())).left_future(),
                Some(listener) => self.listen(run, listener).boxed().right_future(),
            })
            .collect();
        while let Some(ended) = running.next().await {
            let mut next = Some(ended);
            // What else is over by now shares the commit.
            while let Some((ended, notes)) = next {
                if let Some(mut subject) = subjects.remove(&ended.call_id) {
                    subject.notes = notes;
                    self.close(subject, ended);
                }
                next = running.next().now_or_never().flatten();
            }
            if !running.is_empty() {
                recorder.commit().await?;
            }
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
            let answer = Answer::new(call_id, true);
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

    fn ready(&self, prepared: Prepared, left: Left) -> (Ready, Arc<Spill>) {
        let gate = self.gate;
        let call_id = prepared.call_id;
        let output = Arc::new(LiveOutput::new(
            call_id,
            Arc::clone(&self.batch.recorder),
            gate.redaction.clone(),
            self.batch.view.result_limit,
        ));
        let spill = Arc::new(Spill::new(self.spill_path(call_id), gate.redaction.clone()));
        let deadline = prepared
            .inspection
            .deadline
            .unwrap_or(gate.settings.timeout);
        let context = CallContext {
            call_id,
            caller: self.caller.clone(),
            view: Arc::clone(&self.batch.view),
            cancel: self.batch.cancel.clone(),
            progress: Arc::clone(&output) as _,
            overflow: Arc::clone(&spill) as _,
            redaction: gate.redaction.clone(),
            left,
            clock: Arc::clone(&gate.clock),
            model: self.batch.model.clone(),
            elicitation: self.batch.elicitation.clone(),
            peer: self.batch.peer.clone(),
        };
        let ready = Ready {
            tool: prepared.tool,
            call: prepared.call,
            paths: prepared.inspection.paths,
            deadline,
            context,
            output,
        };
        (ready, spill)
    }

    /// The file for what of a call's output is too long for a model.
    fn spill_path(&self, call_id: CallId) -> std::path::PathBuf {
        let base = &self.gate.settings.spill;
        let folder = match self.batch.view.session {
            Some(session) => base.join(session.to_string()),
            None => base.clone(),
        };
        folder.join(format!("{call_id}.txt"))
    }

    /// Seals a result and notes it together with its audit row.
    fn close(&self, subject: Subject, ended: execute::Ended) {
        let gate = self.gate;
        let call_id = ended.call_id;
        gate.heard.forget(call_id);
        let Report {
            outcome,
            session,
            pictures,
            blocks,
            events,
        } = ended.report;
        let (is_error, effect, code) = (outcome.is_error(), outcome.effect(), outcome.code());
        let word = outcome.word();
        let duration_ms = u64::try_from(ended.duration.as_millis()).unwrap_or(u64::MAX);
        let mut text = outcome.into_text();
        if !subject.secret_results.is_empty() {
            text = self.conceal_results(call_id, text, &subject.secret_results);
        }
        if !subject.feedback.is_empty() {
            text.push_str("\n[The person approved this call and added: ");
            text.push_str(&subject.feedback);
            text.push(']');
        }
        for note in &subject.notes {
            text.push('\n');
            text.push_str(note);
        }
        // A tool that has kept its whole output itself has named the file in its text.
        let kept = subject.spill.and_then(|spill| spill.finish());
        let view = &self.batch.view;
        let mut path = self.spill_path(call_id);
        if kept.is_some() {
            path.set_extension("result.txt");
        }
        let pictures = gate.album().keep(&pictures, &mut text);
        let sealed = seal(&text, &gate.redaction, view.result_limit, path);
        let principal = self.caller.principal.to_string();
        if subject.read_only && !is_error {
            gate.count_read(&principal);
        } else {
            let row = gate.audit_entry(
                self.batch.claim,
                Some(&principal),
                &Ended {
                    call_id,
                    name: subject.name.clone(),
                    session: view.session,
                    params: subject.params,
                    duration_ms,
                    outcome: word,
                    code,
                },
            );
            self.batch.recorder.audit(row);
        }
        for event in events {
            self.batch.recorder.note(event);
        }
        if !blocks.is_empty() {
            self.batch.recorder.blocks(call_id, blocks);
        }
        self.batch.recorder.note(Event::ToolResult {
            call_id,
            name: subject.name,
            output: sealed.text,
            is_error,
            effect,
            outcome: word.to_owned(),
            code,
            duration_ms,
            spill: sealed.spill.or(kept),
            session_effects: session,
            pictures,
        });
    }

    /// Swaps the marked fields of a result for handles. A result that is no object has no fields.
    pub(crate) fn conceal_results(
        &self,
        call_id: CallId,
        text: String,
        marked: &[String],
    ) -> String {
        match serde_json::from_str(&text) {
            Ok(Value::Object(mut object)) => {
                self.gate.vault.conceal(call_id, &mut object, marked);
                Value::Object(object).to_string()
            }
            _ => text,
        }
    }
}

fn unrun(call_id: CallId, outcome: Outcome) -> execute::Ended {
    execute::Ended {
        call_id,
        report: outcome.into(),
        duration: Duration::ZERO,
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

fn subject(prepared: &Prepared, feedback: &str) -> Subject {
    let spec: &ToolSpec = prepared.tool.spec();
    let paths = prepared.inspection.paths.iter();
    let params = paths.fold(prepared.params.clone(), |params, path| {
        format!("{}; {params}", path.display())
    });
    Subject {
        name: spec.name.clone(),
        params,
        read_only: spec.is_read_only(),
        secret_results: spec.secret_results.clone(),
        feedback: feedback.to_owned(),
        notes: Vec::new(),
        spill: None,
    }
}
