//! Judging one call of a batch: its hooks are heard, its rules read, and what was permitted in
//! advance is looked at.

use std::sync::Arc;
use std::time::Duration;

use castellan_core::event::{ApprovalItem, Decision};
use castellan_core::grant::Wanted;
use castellan_core::text::shorten;
use castellan_core::{CallId, ErrorCode, Event, Grant, Outcome, Tool};
use castellan_store::grants::{self, Grants};
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::desk::Desk;
use crate::execute::Ended;
use crate::gate::Pending;
use crate::govern::{Verdict, decide, unattended};
use crate::guards::Standing;
use crate::hooks::{Heard, HookEvent, Stopped, Told};
use crate::policy::{self, Case};
use crate::prepare::{Prepared, Refused, fits, take};

/// How long looking at what a call would do may take.
const INSPECTION: Duration = Duration::from_secs(30);
/// How much of a changed argument is shown to who decides.
const CHANGE_SHOWN: usize = 300;

/// What hooks said of a call, and whether they were heard just now.
pub(crate) struct Hearing {
    /// `None` where no hook is about the call.
    heard: Option<Arc<Heard>>,
    now: bool,
}

/// What no hook said.
static NOTHING: Heard = Heard {
    spoken: Vec::new(),
    overtaken: Vec::new(),
    changed: None,
    changed_by: Vec::new(),
};

/// What hooks after a call are told.
pub(crate) struct Listener {
    tool: Arc<dyn Tool>,
    arguments: Map<String, Value>,
}

impl Desk<'_> {
    /// Looks at a call, which may hang, on a dead network folder for one.
    pub(crate) async fn in_time<T>(
        &self,
        pending: &Pending,
        look: impl Future<Output = Result<T, Refused>>,
    ) -> Result<T, Refused> {
        tokio::select! {
            biased;
            found = look => found,
            () = self.batch.cancel.clone() => {
                Err(self.unprepared(pending, ErrorCode::Cancelled))
            }
            () = self.gate.clock.sleep(INSPECTION) => {
                Err(self.unprepared(pending, ErrorCode::TimedOut))
            }
        }
    }

    /// Hears what hooks say of a call. Where they change its arguments it is prepared again from
    /// those, and what is judged, shown and run is that call.
    pub(crate) async fn hear(
        &self,
        pending: &Pending,
        prepared: Prepared,
    ) -> Result<(Prepared, Hearing), Refused> {
        let gate = self.gate;
        let spec = prepared.tool.spec();
        let refused_by_person = pending
            .answer
            .as_ref()
            .is_some_and(|answer| !answer.approve);
        if refused_by_person || !gate.guards.hooks.any(HookEvent::PreTool, &spec.name) {
            let hearing = Hearing {
                heard: None,
                now: false,
            };
            return Ok((prepared, hearing));
        }
        let known = gate.heard.get(prepared.call_id);
        let now = known.is_none();
        let heard = match known {
            Some(heard) => heard,
            None => {
                let told = Told {
                    call_id: prepared.call_id,
                    spec,
                    arguments: &prepared.arguments,
                    view: &self.batch.view,
                };
                let fits =
                    |arguments: &mut Map<String, Value>| fits(&*prepared.tool, arguments).map(drop);
                let heard = gate
                    .guards
                    .hooks
                    .before(told, &self.batch.cancel, fits)
                    .await;
                let heard = Arc::new(
                    heard.map_err(|Stopped| self.unprepared(pending, ErrorCode::Cancelled))?,
                );
                gate.heard.put(prepared.call_id, Arc::clone(&heard));
                heard
            }
        };
        let prepared = match &heard.changed {
            None => prepared,
            Some(changed) => {
                let mut repairs = prepared.repairs;
                repairs.push(format!(
                    "arguments changed by {}",
                    heard.changed_by.join(", ")
                ));
                let look = take(
                    &gate.vault,
                    &prepared.tool,
                    prepared.call_id,
                    (changed.clone(), repairs),
                    &self.batch.view,
                );
                let taken = self.in_time(pending, look).await;
                taken.map_err(|refused| changed_for_the_worse(refused, &heard))?
            }
        };
        let heard = Some(heard);
        Ok((prepared, Hearing { heard, now }))
    }

    /// Decides about one prepared call and notes what it is and what was decided.
    pub(crate) async fn judge(
        &self,
        pending: &Pending,
        mut prepared: Prepared,
        Hearing { heard, now }: Hearing,
    ) -> (Prepared, Verdict) {
        let heard = heard.as_deref().unwrap_or(&NOTHING);
        let mut verdict = self.weigh(&prepared, heard);
        if verdict.decision == Decision::Ask && !verdict.firm {
            verdict = self.cover(&mut prepared, verdict).await;
        }
        let somebody = self.caller.surface.has_person() || self.batch.elicitation.is_some();
        if verdict.decision == Decision::Ask && !somebody {
            verdict = unattended(verdict);
        }
        if verdict.decision == Decision::Ask
            && let Some(change) = change(&prepared, heard)
        {
            verdict.reason = format!("{}; {change}", verdict.reason);
        }
        self.note(pending, &mut prepared, heard, (now, &verdict));
        (prepared, verdict)
    }

    /// What rules, hooks and the tool's default come to.
    fn weigh(&self, prepared: &Prepared, heard: &Heard) -> Verdict {
        let spec = prepared.tool.spec();
        let case = Case {
            spec,
            inspection: &prepared.inspection,
            caller: &self.caller,
            workspace: &self.batch.view.workspace,
        };
        let evolved = self.gate.guards.evolved.now();
        let policies = [&self.gate.guards.policy, self.batch.rules, &*evolved];
        let ruled = policy::judge(policies, &case);
        // What needs a permission of its own is not let through by a hook, which may know nothing
        // of what sets the call apart.
        let own = prepared.inspection.own_grant;
        let counts = |one: &&Verdict| !(own && one.decision == Decision::Allow);
        let heard = heard.spoken.iter().filter(counts).cloned();
        let own_rules = policy::guarded(spec, &prepared.inspection, &self.batch.view);
        let needs_person = prepared.inspection.needs_person.clone();
        let needs_person = needs_person.map(|reason| Verdict {
            decision: Decision::Ask,
            firm: true,
            by: spec.name.clone(),
            reason,
        });
        let spoken: Vec<Verdict> = ruled
            .into_iter()
            .chain(own_rules)
            .chain(needs_person)
            .chain(heard)
            .collect();
        decide(spec, &prepared.inspection, &self.caller, &spoken)
    }

    /// Looks for what was permitted in advance: for this run, then for good, then everything.
    async fn cover(&self, prepared: &mut Prepared, verdict: Verdict) -> Verdict {
        let allowed = |by: &str, reason| Verdict {
            decision: Decision::Allow,
            firm: false,
            by: by.to_owned(),
            reason,
        };
        let name = &prepared.tool.spec().name;
        let inspection = &prepared.inspection;
        let permission = self.batch.permission;
        // What may run in the sandbox may not therefore run outside it.
        let name = if inspection.own_grant {
            &inspection.label
        } else {
            name
        };
        let fits = |grant: &Grant| !inspection.own_grant || grant.is_exactly(&inspection.label);
        let for_run = permission.grants.iter().filter(|grant| fits(grant));
        let for_run: Vec<&Grant> = for_run.collect();
        let commands = &inspection.commands;
        let wanted = (!for_run.is_empty()).then(|| Wanted::new(name, commands));
        if let Some(used) = wanted.and_then(|wanted| covering(&for_run, &wanted)) {
            return allowed("grant", format!("covered by {}", used.named(&for_run)));
        }
        let mut verdict = verdict;
        match self.standing().await {
            Ok(rows) => {
                let damaged = rows.damaged.len();
                let rows: Vec<_> = rows.rows.iter().filter(|row| fits(&row.grant)).collect();
                let standing: Vec<&Grant> = rows.iter().map(|row| &row.grant).collect();
                let label = &inspection.label;
                let wanted = (!standing.is_empty()).then(|| Wanted::new(label, commands));
                if let Some(used) = wanted.and_then(|wanted| covering(&standing, &wanted)) {
                    let ids = used.0.iter().filter_map(|one| rows.get(*one));
                    prepared.grants = ids.map(|row| row.id).collect();
                    return allowed("grant", format!("covered by {}", used.named(&standing)));
                }
                if damaged > 0 {
                    let reason = &verdict.reason;
                    verdict.reason = format!(
                        "{reason}; {damaged} of the standing permissions could not be read, which \
                         castellan grants list names"
                    );
                }
            }
            Err(problem) => {
                let reason = &verdict.reason;
                verdict.reason =
                    format!("{reason}; standing permissions could not be read: {problem}");
            }
        }
        if permission.skip {
            return allowed("--skip-permissions", "nothing is asked".to_owned());
        }
        verdict
    }

    /// The standing grants that hold here, read anew for each batch: another process may have given
    /// or revoked one.
    async fn standing(&self) -> &Standing {
        let read = async {
            let Some(store) = &self.gate.guards.grants else {
                return Ok(Grants::default());
            };
            let view = &self.batch.view;
            let session = view.session;
            // However the folder is spelled, it is one project.
            let folder = view.workspace.canonicalize().ok();
            store
                .read(move |tx| grants::in_force(tx, session, folder.as_deref()))
                .await
                .map_err(|error| castellan_core::text::chain(&error))
        };
        self.standing.get_or_init(|| read).await
    }

    fn note(
        &self,
        pending: &Pending,
        prepared: &mut Prepared,
        heard: &Heard,
        (now, verdict): (bool, &Verdict),
    ) {
        let recorder = &self.batch.recorder;
        let spec = prepared.tool.spec();
        let fresh = !pending.prepared || now;
        if fresh {
            // Who listens afterwards is told of them too.
            let arguments = if self.gate.guards.hooks.any(HookEvent::PostTool, &spec.name) {
                prepared.arguments.clone()
            } else {
                std::mem::take(&mut prepared.arguments)
            };
            recorder.note(Event::ToolPrepared {
                call_id: prepared.call_id,
                name: spec.name.clone(),
                arguments,
                repairs: std::mem::take(&mut prepared.repairs),
                header: prepared.inspection.header.clone(),
                label: prepared.inspection.label.clone(),
                effects: spec.effects.clone(),
            });
        }
        let said = heard.overtaken.iter().chain(&heard.spoken);
        for spoken in said.filter(|_| now) {
            recorder.note(Event::Policy {
                call_id: prepared.call_id,
                decision: spoken.decision,
                by: spoken.by.clone(),
                reason: spoken.reason.clone(),
            });
        }
        if fresh || (pending.asked.is_some() && verdict.decision != Decision::Ask) {
            recorder.note(Event::Policy {
                call_id: prepared.call_id,
                decision: verdict.decision,
                by: verdict.by.clone(),
                reason: verdict.reason.clone(),
            });
        }
    }

    /// A call as a person is shown it.
    pub(crate) fn item(&self, (prepared, verdict): &(Prepared, Verdict)) -> ApprovalItem {
        ApprovalItem {
            call_id: prepared.call_id,
            name: prepared.tool.spec().name.clone(),
            header: prepared.inspection.header.clone(),
            label: prepared.inspection.label.clone(),
            preview: prepared
                .inspection
                .preview
                .clone()
                .redacted(&self.gate.redaction),
            reason: verdict.reason.clone(),
            grants: self.offers(prepared, verdict),
        }
    }

    /// What may be permitted for good together with a yes, narrowest first.
    fn offers(&self, prepared: &Prepared, verdict: &Verdict) -> Vec<String> {
        let inspection = &prepared.inspection;
        let each_its_own =
            verdict.firm || prepared.tool.spec().is_high_impact() || inspection.own_grant;
        if each_its_own || self.gate.guards.grants.is_none() {
            return Vec::new();
        }
        let mut offers = Vec::new();
        if inspection.label == "bash"
            && let [command] = inspection.commands.as_slice()
        {
            offers.extend(policy::narrow_grant(command));
        }
        if inspection.label.parse::<Grant>().is_ok() {
            offers.push(inspection.label.clone());
        }
        offers
    }

    /// What hooks after the call will be told, if any listen.
    pub(crate) fn listener(&self, prepared: &mut Prepared) -> Option<Listener> {
        let name = &prepared.tool.spec().name;
        let listens = self.gate.guards.hooks.any(HookEvent::PostTool, name);
        listens.then(|| Listener {
            tool: Arc::clone(&prepared.tool),
            arguments: std::mem::take(&mut prepared.arguments),
        })
    }

    /// Runs a call and lets hooks hear of its end. The result is safe: they can add a note.
    pub(crate) async fn listen(
        &self,
        run: BoxFuture<'static, Ended>,
        listener: Listener,
    ) -> (Ended, Vec<String>) {
        let ended = run.await;
        let outcome = &ended.report.outcome;
        if matches!(outcome, Outcome::Cancelled { .. }) {
            return (ended, Vec::new());
        }
        let response = self.response(ended.call_id, &listener, outcome);
        let told = Told {
            call_id: ended.call_id,
            spec: listener.tool.spec(),
            arguments: &listener.arguments,
            view: &self.batch.view,
        };
        let hooks = &self.gate.guards.hooks;
        let notes = hooks.after(told, response, &self.batch.cancel).await;
        (ended, notes)
    }

    /// A result as hooks are told of it: as the model will read it, up to its length.
    fn response(&self, call_id: CallId, listener: &Listener, outcome: &Outcome) -> Value {
        let (is_error, word) = (outcome.is_error(), outcome.word());
        let mut text = outcome.clone().into_text();
        let marked = &listener.tool.spec().secret_results;
        if !marked.is_empty() {
            text = self.conceal_results(call_id, text, marked);
        }
        let text = shorten(
            &self.gate.redaction.apply(text),
            self.batch.view.result_limit,
        );
        json!({"output": text, "is_error": is_error, "outcome": word})
    }
}

/// A call that failed with the arguments a hook gave it: the model must know whose they were.
fn changed_for_the_worse(mut refused: Refused, heard: &Heard) -> Refused {
    if let Outcome::Failed { what, .. } = &mut refused.outcome {
        let by = heard.changed_by.join(", ");
        *what = format!("{by} changed the arguments, and with those {what}");
    }
    refused
}

/// What hooks made of a call's arguments, for who decides about it.
fn change(prepared: &Prepared, heard: &Heard) -> Option<String> {
    let changed = heard.changed.as_ref()?;
    let arguments = Value::Object(changed.clone()).to_string();
    Some(format!(
        "{} changed the arguments of {} to {}",
        heard.changed_by.join(", "),
        prepared.tool.spec().name,
        shorten(&arguments, CHANGE_SHOWN)
    ))
}

/// The grants, by position, that cover a call together.
struct Covering(Vec<usize>);

impl Covering {
    fn named(&self, grants: &[&Grant]) -> String {
        let named = self.0.iter().filter_map(|one| grants.get(*one));
        let named: Vec<String> = named.map(|grant| format!("`{grant}`")).collect();
        named.join(" and ")
    }
}

/// The grants that cover a call together. None is among them that isn't needed.
fn covering(grants: &[&Grant], wanted: &Wanted<'_>) -> Option<Covering> {
    let alone = |grant: &&Grant| wanted.is_covered([*grant]);
    if let Some(one) = grants.iter().position(alone) {
        return Some(Covering(vec![one]));
    }
    let mut needed: Vec<usize> = (0..grants.len()).collect();
    let cover = |these: &[usize]| {
        let these = these.iter().filter_map(|one| grants.get(*one).copied());
        wanted.is_covered(these)
    };
    if !cover(&needed) {
        return None;
    }
    for one in (0..grants.len()).rev() {
        let without: Vec<usize> = needed
            .iter()
            .copied()
            .filter(|other| *other != one)
            .collect();
        if cover(&without) {
            needed = without;
        }
    }
    Some(Covering(needed))
}
