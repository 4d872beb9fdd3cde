//! Hooks: commands of the user's that are told about a call before it runs and after, and may have
//! a say in it.
//!
//! This is what is said to them and what their answers mean; a port runs them. What they are told
//! and how they answer is the shape people know from other agents' hooks, so that their scripts can
//! be used as they are (`wire` has both sides).

mod wire;

use std::sync::Arc;
use std::time::Duration;

use castellan_core::event::Decision;
use castellan_core::grant::glob;
use castellan_core::port::{HookEnd, HookJob, Hooks};
use castellan_core::text::{plain, shorten};
use castellan_core::tool::SessionView;
use castellan_core::{CallId, Cancel, ToolSpec};
use serde_json::{Map, Value};

use crate::govern::Verdict;
use wire::Saying;

/// How much of what a hook says is passed on, in characters.
const SAID: usize = 2000;
/// How much of a hook's command names it.
const NAMED: usize = 80;

/// When a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookEvent {
    /// Before the decision about a call.
    PreTool,
    /// After a call has run.
    PostTool,
}

/// A hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// When it runs.
    pub event: HookEvent,
    /// The tools it is about.
    pub matcher: Matcher,
    /// The command.
    pub command: String,
    /// How long it may take.
    pub timeout: Duration,
}

impl Hook {
    /// Its name in records.
    fn by(&self) -> String {
        let line = self
            .command
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        format!("hook {}", shorten(&line, NAMED))
    }
}

/// Whether this is the name of one of our tools that hooks written for other agents know it by.
#[must_use]
pub fn is_familiar(name: &str) -> bool {
    wire::is_familiar(name)
}

/// Which tools a hook is about: names with `*`, several with `|` between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher(Vec<String>);

impl Matcher {
    /// Reads a matcher; an empty one is every tool. `.*` is understood as `*`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim().replace(".*", "*");
        if text.is_empty() {
            return Ok(Self(vec!["*".to_owned()]));
        }
        let named = |letter: char| letter.is_ascii_alphanumeric() || "_-.*".contains(letter);
        text.split('|')
            .map(|name| {
                let name = name.trim();
                if name.is_empty() || !name.chars().all(named) {
                    return Err(format!("`{name}` is no name of a tool"));
                }
                Ok(name.to_owned())
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether it is about the tool of this name.
    #[must_use]
    pub fn matches(&self, tool: &str) -> bool {
        let familiar = wire::familiar(tool);
        let fits = |pattern: &String| {
            glob(pattern, tool) || familiar.is_some_and(|name| glob(pattern, name))
        };
        self.0.iter().any(fits)
    }

    /// The names in it that are no patterns, to be checked against the tools there are.
    pub fn exact(&self) -> impl Iterator<Item = &str> {
        let exact = self.0.iter().filter(|name| !name.contains('*'));
        exact.map(String::as_str)
    }
}

/// What the hooks before a call came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Heard {
    /// What they said, in order.
    pub(crate) spoken: Vec<Verdict>,
    /// What was allowed and then changed by a later one, so that it counts no more.
    pub(crate) overtaken: Vec<Verdict>,
    /// The arguments as the last one that changed them left them.
    pub(crate) changed: Option<Map<String, Value>>,
    /// Who changed them.
    pub(crate) changed_by: Vec<String>,
}

/// A call as its hooks are told of it.
pub(crate) struct Told<'a> {
    pub(crate) call_id: CallId,
    pub(crate) spec: &'a ToolSpec,
    /// With marked secrets concealed.
    pub(crate) arguments: &'a Map<String, Value>,
    pub(crate) view: &'a SessionView,
}

/// The run was stopped while a hook was heard.
pub(crate) struct Stopped;

/// The hooks there are, and what runs them.
#[derive(Clone, Default)]
pub struct HookList {
    hooks: Vec<Hook>,
    runner: Option<Arc<dyn Hooks>>,
}

impl std::fmt::Debug for HookList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.hooks).finish()
    }
}

impl HookList {
    /// These hooks, in the order they are heard.
    #[must_use]
    pub fn new(hooks: Vec<Hook>, runner: Arc<dyn Hooks>) -> Self {
        Self {
            hooks,
            runner: Some(runner),
        }
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.hooks.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    fn about(&self, event: HookEvent, tool: &str) -> Vec<(&Hook, &dyn Hooks)> {
        let Some(runner) = &self.runner else {
            return Vec::new();
        };
        self.hooks
            .iter()
            .filter(|hook| hook.event == event && hook.matcher.matches(tool))
            .map(|hook| (hook, &**runner))
            .collect()
    }

    /// Whether any hook is to be heard of a call of this tool.
    pub(crate) fn any(&self, event: HookEvent, tool: &str) -> bool {
        !self.about(event, tool).is_empty()
    }

    /// Hears the hooks before a call, one after the other; each is told what the one before it made
    /// of the arguments. `fits` checks changed arguments and puts them right.
    pub(crate) async fn before(
        &self,
        told: Told<'_>,
        cancel: &Cancel,
        fits: impl Fn(&mut Map<String, Value>) -> Result<(), String>,
    ) -> Result<Heard, Stopped> {
        let mut heard = Heard::default();
        for (hook, runner) in self.about(HookEvent::PreTool, &told.spec.name) {
            let arguments = heard.changed.as_ref().unwrap_or(told.arguments);
            let input = wire::before(&told, arguments);
            let end = runner.run(job(hook, &told, input), cancel.clone()).await;
            let saying = match end {
                HookEnd::Cancelled => return Err(Stopped),
                HookEnd::Broken(how) => Err(how),
                HookEnd::Exited {
                    code,
                    stdout,
                    stderr,
                } => wire::understood(code, &stdout, &stderr),
            };
            heard.take(hook, saying, &told, &fits);
        }
        Ok(heard)
    }

    /// Hears the hooks after a call; what each has to say to the model.
    pub(crate) async fn after(
        &self,
        told: Told<'_>,
        response: Value,
        cancel: &Cancel,
    ) -> Vec<String> {
        let mut notes = Vec::new();
        for (hook, runner) in self.about(HookEvent::PostTool, &told.spec.name) {
            let input = wire::after(&told, &response);
            let end = runner.run(job(hook, &told, input), cancel.clone()).await;
            let note = match end {
                HookEnd::Cancelled => Some("it was not heard to its end: cancelled".to_owned()),
                HookEnd::Broken(how) => Some(format!("it failed: it {how}")),
                HookEnd::Exited {
                    code,
                    stdout,
                    stderr,
                } => wire::remark(code, &stdout, &stderr),
            };
            if let Some(note) = note {
                let note = shorten(plain(&note).trim(), SAID);
                notes.push(format!("[{}: {note}]", hook.by()));
            }
        }
        notes
    }
}

fn job(hook: &Hook, told: &Told<'_>, input: String) -> HookJob {
    HookJob {
        command: hook.command.clone(),
        cwd: told.view.cwd.clone(),
        project: told.view.workspace.clone(),
        input,
        timeout: hook.timeout,
    }
}

impl Heard {
    fn take(
        &mut self,
        hook: &Hook,
        saying: Result<Saying, String>,
        told: &Told<'_>,
        fits: impl Fn(&mut Map<String, Value>) -> Result<(), String>,
    ) {
        let by = hook.by();
        let earlier = self.spoken.len();
        let mut say = |decision, firm, reason: &str| {
            let reason = shorten(plain(reason).trim(), SAID);
            let by = by.clone();
            self.spoken.push(Verdict {
                decision,
                firm,
                by,
                reason,
            });
        };
        let saying = match saying {
            Ok(saying) => saying,
            // What it would have said is unknown, so only a person can let the call through.
            Err(how) => return say(Decision::Ask, true, &format!("the hook failed: it {how}")),
        };
        if let Some(decision) = saying.decision {
            let reason = if saying.reason.is_empty() {
                "it gave no reason"
            } else {
                &saying.reason
            };
            say(decision, false, reason);
        }
        let Some(input) = saying.input else { return };
        let before = self.changed.as_ref().unwrap_or(told.arguments);
        let changed = wire::arguments(input, before, told).and_then(|mut changed| {
            fits(&mut changed)?;
            Ok(changed)
        });
        match changed {
            Ok(changed) if changed == *before => {}
            Ok(changed) => {
                self.overtake(&by, earlier);
                self.changed = Some(changed);
                self.changed_by.push(by);
            }
            Err(problem) => {
                let what = format!(
                    "the hook failed: it changed the arguments to something {} does not take: \
                     {problem}",
                    told.spec.name
                );
                say(Decision::Ask, true, &what);
            }
        }
    }

    /// Drops what was allowed before the hook `by` changed the call: that was another one.
    /// `earlier` is how much had been said until then.
    fn overtake(&mut self, by: &str, earlier: usize) {
        let own = self.spoken.split_off(earlier);
        let said = std::mem::take(&mut self.spoken);
        let (allowed, kept): (Vec<_>, Vec<_>) = said
            .into_iter()
            .partition(|one| one.decision == Decision::Allow);
        self.spoken = kept;
        self.spoken.extend(own);
        self.overtaken
            .extend(allowed.into_iter().map(|one| Verdict {
                reason: format!("{}; then {by} changed the call", one.reason),
                ..one
            }));
    }
}
