//! A recorded episode is run again from its settings, and the two traces are compared.
//!
//! A gridworld acts again by itself. A model is not asked again: the turn machine is given the
//! recorded answers. A program is not started again, whatever the record says its path is: what it
//! wanted is taken from the record, and only what its calls come to is done anew.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use castellan_core::event::CompactionCause;
use castellan_core::model::{ModelInfo, Overflow};
use castellan_core::{
    Cancel, CancelSource, ErrorCode, Event, Model, ModelError, ModelEvent, ModelReply,
    ModelRequest, Recorded,
};
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{BoxStream, StreamExt as _};
use serde_json::Value;

use super::difference::{Words, difference};
use super::session::CHANGED;
use super::{Line, Verdict};
use crate::episode::gridworld::{Gridworld, Settings};
use crate::episode::plugin::{Access, Act, Plugin, ToolUse, Trouble};
use crate::episode::run::{Onlooker, Plan, STOPPED, Standing, Watch, run};
use crate::episode::stage::Stage;
use crate::episode::turn::{Turn, UNASKED};
use crate::error::Error;
use crate::session::Watcher;
use crate::session::step::Limits;

/// How a line of the record and one of the new trace are told apart.
const AGAIN: Words = Words {
    old: "recorded is",
    new: "now comes",
    ends: "now it ends before that",
};

/// An episode that is on record.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    path: PathBuf,
    plan: Plan,
    plugin: String,
    settings: Value,
    events: Vec<Recorded>,
    /// The line of the last observation: up to there everything is the episode's own doing.
    observed: usize,
    /// How it ended; `None` where the record has no end.
    end: Option<End>,
}

#[derive(Debug, Clone, PartialEq)]
struct End {
    reached: bool,
    steps: u64,
    reason: String,
}

impl Episode {
    pub(super) fn of(path: &Path, lines: Vec<Line>) -> Result<Self, String> {
        let numbered = lines
            .iter()
            .filter_map(|line| Some((line.number, line.event.as_ref()?)));
        let observed = numbered
            .filter(|(_, recorded)| matches!(recorded.event, Event::Observation { .. }))
            .map(|(number, _)| number)
            .next_back()
            .unwrap_or(1);
        let events: Vec<Recorded> = lines.into_iter().filter_map(|line| line.event).collect();
        if events.iter().any(|recorded| is_of_a_hook(&recorded.event)) {
            return Err(format!(
                "{} is of an episode in which hooks had a say; hooks are programs of their own, and \
                 a replay starts none",
                path.display()
            ));
        }
        let (plan, plugin, settings) = events
            .first()
            .and_then(|first| begun(&first.event))
            .ok_or("its episode_start lacks what is needed to run it again")?;
        if plan.zones != "own" {
            return Err(format!(
                "{} is of an episode in zones that others use as well: what it found in them \
                 can't be found again",
                path.display()
            ));
        }
        let end = events
            .iter()
            .rev()
            .find_map(|recorded| match &recorded.event {
                Event::EpisodeEnd {
                    reached,
                    steps,
                    reason,
                } => Some(End {
                    reached: *reached,
                    steps: *steps,
                    reason: reason.clone(),
                }),
                _ => None,
            });
        Ok(Self {
            path: path.to_owned(),
            plan,
            plugin,
            settings,
            events,
            observed,
            end,
        })
    }

    /// What it was to do.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What acts when it is run again.
    fn actor(&self) -> Result<Box<dyn Plugin>, String> {
        match self.plugin.as_str() {
            "gridworld" => {
                let settings = self.settings.as_object().cloned().unwrap_or_default();
                Ok(Box::new(Gridworld::new(Settings::read(&settings)?)?))
            }
            "session" => {
                let number = |key| self.settings.get(key).and_then(Value::as_u64);
                let max_turns = number("max_turns").and_then(|turns| u32::try_from(turns).ok());
                let limits = Limits {
                    max_turns: max_turns.unwrap_or(u32::MAX),
                    turn_tokens: number("max_turn_tokens"),
                    session_tokens: number("max_session_tokens"),
                };
                let compact_at = self.settings.get("compact_at").and_then(Value::as_f64);
                let answers = Arc::new(Answers::of(self));
                Ok(Box::new(Turn::new(
                    answers,
                    limits,
                    compact_at.unwrap_or(1.0),
                )))
            }
            _ => Ok(Box::new(Acts::of(self))),
        }
    }

    /// Whether it ran to an end of its own, which must come again.
    fn is_whole(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.reason != STOPPED)
    }

    /// Runs it again on a stage with a fresh trace in the file `again`, and compares. The stage must
    /// have the time of the plan's seed.
    ///
    /// # Errors
    /// [`Error`] where what happens can't be recorded.
    pub async fn replay(
        &self,
        stage: &Stage,
        again: &Path,
        cancel: Cancel,
    ) -> Result<Verdict, Error> {
        let plugin = match self.actor() {
            Ok(plugin) => plugin,
            Err(what) => return Ok(Verdict::Diverges { line: 1, what }),
        };
        let stop = CancelSource::new();
        let token = stop.token();
        let last = match &self.end {
            Some(end) if end.reason == STOPPED => end.steps,
            // One step more tells that it goes on now where it had ended.
            Some(end) => end.steps.saturating_add(1),
            None => self.steps(),
        };
        let watch = Watch {
            events: Arc::new(Nobody),
            steps: Arc::new(StopAt { last, stop }),
        };
        let running = run(stage, &self.plan, plugin, watch, token);
        match futures::future::select(Box::pin(running), cancel).await {
            futures::future::Either::Left((ended, _)) => ended.map(drop)?,
            futures::future::Either::Right(_) => return Err(Error::Stopped),
        }
        Ok(self.compare(again))
    }

    fn steps(&self) -> u64 {
        let mut observations = self.events.iter().filter_map(|one| match one.event {
            Event::Observation { step, .. } => Some(step),
            _ => None,
        });
        observations.next_back().unwrap_or(0)
    }

    fn compare(&self, again: &Path) -> Verdict {
        let compared = texts(&self.path).and_then(|old| Ok((old, texts(again)?)));
        let (mut old, mut new) = match compared {
            Ok(both) => both,
            Err(error) => {
                return Verdict::Diverges {
                    line: 1,
                    what: format!("the traces can't be compared: {error}"),
                };
            }
        };
        let mut number = 0;
        loop {
            let (recorded, came) = (old.next(), new.next());
            if recorded.is_none() && came.is_none() {
                return Verdict::Agrees {
                    lines: number,
                    note: String::new(),
                };
            }
            number += 1;
            if recorded == came {
                continue;
            }
            if number > self.observed && !self.is_whole() {
                let how = if self.end.is_some() {
                    "it was stopped there from outside"
                } else {
                    "the record has no end"
                };
                return Verdict::Agrees {
                    lines: number - 1,
                    note: how.to_owned(),
                };
            }
            return Verdict::Diverges {
                line: number,
                what: difference(recorded.as_deref(), came.as_deref(), &AGAIN),
            };
        }
    }
}

/// Whether a hook has decided about a call, changed it, or remarked on it.
fn is_of_a_hook(event: &Event) -> bool {
    match event {
        Event::Policy { by, .. } => by.starts_with("hook "),
        Event::ToolPrepared { repairs, .. } => {
            repairs.iter().any(|repair| repair.starts_with(CHANGED))
        }
        Event::ToolResult { output, .. } => {
            output.ends_with(']') && output.lines().any(|line| line.starts_with("[hook "))
        }
        _ => false,
    }
}

/// The plan of an episode, its plugin and the plugin's settings.
fn begun(event: &Event) -> Option<(Plan, String, Value)> {
    let Event::EpisodeStart {
        goal,
        plugin,
        seed,
        version,
        settings,
    } = event
    else {
        return None;
    };
    let plan = Plan {
        goal: goal.clone(),
        mcp: settings.get("mcp")?.as_bool()?,
        max_steps: settings.get("max_steps")?.as_u64()?,
        seed: *seed,
        zones: settings.get("zones")?.as_str()?.to_owned(),
        version: version.clone(),
    };
    Some((plan, plugin.clone(), settings.get("plugin")?.clone()))
}

fn texts(path: &Path) -> std::io::Result<impl Iterator<Item = Vec<u8>> + use<>> {
    let lines = BufReader::new(File::open(path)?).split(b'\n');
    // A line that can't be read differs from every other.
    Ok(lines.map(|line| line.unwrap_or_default()))
}

/// Sees events that are read later.
struct Nobody;

impl Watcher for Nobody {
    fn see(&self, _event: &Recorded) {}
}

/// Stops an episode after the step that is the last on record.
struct StopAt {
    last: u64,
    stop: CancelSource,
}

impl Onlooker for StopAt {
    fn step(&self, standing: &Standing<'_>) {
        if standing.step >= self.last {
            self.stop.cancel();
        }
    }
}

/// A model that answers what is on record.
struct Answers {
    info: ModelInfo,
    left: Mutex<VecDeque<Result<ModelReply, ModelError>>>,
    /// What is said where there is no answer left: the recorded failure, if that is how it ended.
    failure: String,
}

impl Answers {
    fn of(episode: &Episode) -> Self {
        let name = episode.settings.get("model").and_then(Value::as_str);
        let name = name.unwrap_or_default().to_owned();
        let window = episode
            .settings
            .get("context_window")
            .and_then(Value::as_u64);
        let end = episode.end.as_ref();
        let failure = end.and_then(|end| end.reason.split_once(UNASKED));
        let replies = episode.events.iter().filter_map(|one| replied(&one.event));
        Self {
            info: ModelInfo {
                model: name.clone(),
                name,
                context_window: window,
                supports_vision: false,
            },
            left: Mutex::new(replies.collect()),
            failure: failure
                .map_or("the record has no further answer", |(_, why)| why)
                .to_owned(),
        }
    }
}

/// What the model's server had answered: a reply, or that the request was too long, which is known by
/// what followed from it.
fn replied(event: &Event) -> Option<Result<ModelReply, ModelError>> {
    if let Event::Compaction {
        cause: CompactionCause::Overflow,
        window,
        asked,
        ..
    } = event
    {
        let overflow = Overflow {
            limit: *window,
            asked: *asked,
        };
        return Some(Err(ModelError {
            overflow: Some(overflow),
            ..ModelError::new(ErrorCode::ModelContextOverflow, "the request was too long")
        }));
    }
    let Event::ModelResponse {
        text,
        reasoning,
        calls,
        finish,
        usage,
        attempts,
        ..
    } = event
    else {
        return None;
    };
    Some(Ok(ModelReply {
        text: text.clone(),
        reasoning: reasoning.clone(),
        calls: calls.iter().map(|call| call.raw.clone()).collect(),
        finish: finish.clone(),
        usage: *usage,
        attempts: *attempts,
    }))
}

impl Model for Answers {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn ask(
        &self,
        _request: ModelRequest,
        _cancel: Cancel,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = || ModelError::new(ErrorCode::ModelUnreachable, self.failure.clone());
        let answer = left.pop_front().unwrap_or_else(|| Err(failure()));
        futures::stream::iter([answer.map(ModelEvent::Reply)]).boxed()
    }
}

/// What a program wanted, from the record.
struct Acts {
    name: String,
    settings: Value,
    left: VecDeque<Act>,
}

impl Acts {
    fn of(episode: &Episode) -> Self {
        let mut acts: Vec<Act> = Vec::new();
        for recorded in &episode.events {
            match &recorded.event {
                Event::Observation { observation, .. } => {
                    if let Some(before) = acts.last_mut() {
                        before.state = observation.get("state").cloned().unwrap_or_default();
                    }
                    acts.push(Act::default());
                }
                Event::McpTool { tool, args, .. } | Event::McpDiscovery { tool, args, .. } => {
                    if let Some(act) = acts.last_mut() {
                        act.mcp_tools.push(ToolUse::new(tool, args.clone()));
                    }
                }
                _ => {}
            }
        }
        let used_up = episode.plan.max_steps;
        if let (Some(end), Some(last)) = (&episode.end, acts.last_mut())
            && (end.steps < used_up || end.reached || !end.reason.contains("used up"))
        {
            last.done = true;
            last.reached = Some(end.reached);
            last.note.clone_from(&end.reason);
        }
        Self {
            name: episode.plugin.clone(),
            settings: episode.settings.clone(),
            left: acts.into(),
        }
    }
}

impl Plugin for Acts {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn settings(&self) -> Value {
        self.settings.clone()
    }

    fn act<'a>(
        &'a mut self,
        _observation: &'a Value,
        _access: &'a Access<'a>,
    ) -> BoxFuture<'a, Result<Act, Trouble>> {
        let missing = || Trouble::Plugin("has nothing more on record".to_owned());
        futures::future::ready(self.left.pop_front().ok_or_else(missing)).boxed()
    }
}
