//! The loop of an episode.

use std::sync::Arc;

use castellan_core::caller::Claim;
use castellan_core::text::{head_and_tail, one_line, shorten};
use castellan_core::{Cancel, Event, Principal, Surface};
use futures::future::{Either, select};
use serde_json::{Map, Value, json};

use super::plugin::{Access, Act, CALLS, Plugin, ToolUse, Trouble};
use super::stage::Stage;
use crate::engine::{Connection, OutsideCall, Reply};
use crate::error::Error;
use crate::session::Watcher;

/// The longest result an observation carries, in bytes; of a longer one it has the two ends.
pub const RESULT_SHOWN: usize = 64 * 1024;
/// The longest reason an end has, in characters.
pub(super) const REASON: usize = 2 * 1024;
/// The reason of an end that somebody asked for.
pub const STOPPED: &str = "stopped from outside";

/// What an episode is to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What is to be reached.
    pub goal: String,
    /// Whether calls are made. Without, a plugin that names tools has failed.
    pub mcp: bool,
    /// After so many steps it is over.
    pub max_steps: u64,
    /// What its ids and chances come from.
    pub seed: u64,
    /// `own` or `shared`: whether its zones begin empty or are those of everybody.
    pub zones: String,
    /// The version of this program that is put on record.
    pub version: String,
}

/// How an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The goal was reached.
    Reached,
    /// It was not.
    NotReached,
    /// The plugin failed.
    PluginFailed,
}

/// An episode that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub how: How,
    /// Why, in a sentence.
    pub reason: String,
    /// How many steps it took.
    pub steps: u64,
    /// How many calls were made.
    pub calls: u64,
    /// How many of them failed.
    pub failed: u64,
}

/// Where an episode stands after a step.
#[derive(Debug)]
pub struct Standing<'a> {
    /// The step, from 1.
    pub step: u64,
    /// Calls made until now.
    pub calls: u64,
    /// How many of them failed.
    pub failed: u64,
    /// What the plugin did.
    pub act: &'a Act,
}

/// Who follows an episode from step to step.
pub trait Onlooker: Send + Sync {
    /// A step is done.
    fn step(&self, standing: &Standing<'_>);
}

/// Who watches an episode.
#[derive(Clone)]
pub struct Watch {
    /// Sees every event once it is on record.
    pub events: Arc<dyn Watcher>,
    /// Sees every step.
    pub steps: Arc<dyn Onlooker>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// Runs an episode to its end.
///
/// # Errors
/// [`Error`] where what happens can't be recorded: the episode has ended there, since none runs
/// untraced.
pub async fn run(
    stage: &Stage,
    plan: &Plan,
    mut plugin: Box<dyn Plugin>,
    watch: Watch,
    cancel: Cancel,
) -> Result<Ended, Error> {
    let ended = match Episode::begin(stage, plan, watch, cancel) {
        Ok(mut episode) => episode.play(&mut *plugin).await,
        Err(error) => Err(error),
    };
    plugin.close().await;
    ended
}

struct Episode<'a> {
    stage: &'a Stage,
    plan: &'a Plan,
    watch: Watch,
    cancel: Cancel,
    connection: Connection,
    calls: u64,
    failed: u64,
}

impl<'a> Episode<'a> {
    fn begin(
        stage: &'a Stage,
        plan: &'a Plan,
        watch: Watch,
        cancel: Cancel,
    ) -> Result<Self, Error> {
        Ok(Self {
            connection: stage.engine.connect(&stage.workspace)?,
            stage,
            plan,
            watch,
            cancel,
            calls: 0,
            failed: 0,
        })
    }

    async fn tell(&self, event: Event) -> Result<(), Error> {
        let watcher = Arc::clone(&self.watch.events);
        let engine = &self.stage.engine;
        engine.tell_to(&self.connection, vec![event], watcher).await
    }

    async fn play(&mut self, plugin: &mut dyn Plugin) -> Result<Ended, Error> {
        let stage = self.stage;
        let redact = |text: &str| stage.engine.gate().redact(text.to_owned());
        self.tell(Event::EpisodeStart {
            goal: redact(&self.plan.goal),
            plugin: plugin.name(),
            seed: self.plan.seed,
            version: self.plan.version.clone(),
            settings: settings(self.plan, plugin),
        })
        .await?;
        let mut step = 0;
        let (how, reason) = match self.steps(plugin, &mut step).await {
            Ok(end) => end,
            Err(Trouble::Plugin(what)) => {
                let what = format!("the plugin {what}");
                (How::PluginFailed, what)
            }
            Err(Trouble::Record(error)) => return Err(error),
        };
        let reason = redact(&one_line(&shorten(&reason, REASON)));
        self.tell(Event::EpisodeEnd {
            reached: how == How::Reached,
            steps: step,
            reason: reason.clone(),
        })
        .await?;
        Ok(Ended {
            how,
            reason,
            steps: step,
            calls: self.calls,
            failed: self.failed,
        })
    }

    async fn steps(
        &mut self,
        plugin: &mut dyn Plugin,
        step: &mut u64,
    ) -> Result<(How, String), Trouble> {
        let stopped = || Ok((How::NotReached, STOPPED.to_owned()));
        let (mut results, mut state) = (Vec::new(), Value::Null);
        while *step < self.plan.max_steps {
            if self.cancel.is_cancelled() {
                return stopped();
            }
            *step += 1;
            self.stage.time.step();
            let observation = self.observation(*step, results, state);
            self.tell(Event::Observation {
                step: *step,
                observation: observation.clone(),
            })
            .await?;
            let access = Access {
                engine: &self.stage.engine,
                connection: &self.connection,
                time: &self.stage.time,
                cancel: self.cancel.clone(),
                mcp: self.plan.mcp,
                watcher: Arc::clone(&self.watch.events),
            };
            let acted = match select(plugin.act(&observation, &access), self.cancel.clone()).await {
                Either::Left((acted, _)) => acted,
                Either::Right(((), _)) => return stopped(),
            };
            // A plugin that heeds the wish to stop has not failed by that.
            let act = match acted {
                Err(Trouble::Plugin(_)) if self.cancel.is_cancelled() => return stopped(),
                acted => acted?,
            };
            self.require_sense(&act)?;
            results = self.make(&act.mcp_tools).await?;
            self.watch.steps.step(&Standing {
                step: *step,
                calls: self.calls,
                failed: self.failed,
                act: &act,
            });
            if act.done {
                return Ok(over(act));
            }
            state = act.state;
        }
        Ok((
            How::NotReached,
            format!("the {} steps are used up", self.plan.max_steps),
        ))
    }

    /// What the plugin is shown.
    fn observation(&self, step: u64, results: Vec<Value>, state: Value) -> Value {
        let mut observation = Map::new();
        observation.insert("step".to_owned(), step.into());
        observation.insert("goal".to_owned(), self.plan.goal.as_str().into());
        observation.insert("seed".to_owned(), self.plan.seed.into());
        let now = self.stage.time.clock.now().to_string();
        observation.insert("time".to_owned(), now.into());
        observation.insert("mcp".to_owned(), self.plan.mcp.into());
        observation.insert("results".to_owned(), results.into());
        if !state.is_null() {
            observation.insert("state".to_owned(), state);
        }
        self.redacted(Value::Object(observation))
    }

    /// An observation goes on record, and what a program says of its state may hold anything.
    fn redacted(&self, observation: Value) -> Value {
        let text = observation.to_string();
        let clean = self.stage.engine.gate().redact(text.clone());
        if clean == text {
            return observation;
        }
        serde_json::from_str(&clean).unwrap_or(Value::String(clean))
    }

    fn require_sense(&self, act: &Act) -> Result<(), Trouble> {
        let calls = act.mcp_tools.len();
        if calls > 0 && !self.plan.mcp {
            let names = act.mcp_tools.first().map_or("", |call| call.tool.as_str());
            return Err(Trouble::Plugin(format!(
                "wants to call tools (`{}`), and the episode runs without --mcp",
                one_line(&shorten(names, 64))
            )));
        }
        if calls > CALLS {
            return Err(Trouble::Plugin(format!(
                "wants to make {calls} calls in one step; at most {CALLS} are made"
            )));
        }
        Ok(())
    }

    /// Makes the calls, one after the other, so that their order is the order of the payload.
    async fn make(&mut self, calls: &[ToolUse]) -> Result<Vec<Value>, Error> {
        let mut results = Vec::with_capacity(calls.len());
        for call in calls {
            let reply = self.call(call).await?;
            self.calls += 1;
            self.failed += u64::from(reply.is_error);
            results.push(result(call, &reply));
        }
        Ok(results)
    }

    async fn call(&self, call: &ToolUse) -> Result<Reply, Error> {
        let outside = OutsideCall {
            claim: Claim {
                principal: Principal::Workstream(self.connection.id()),
                surface: Surface::Episode,
                token: None,
            },
            name: call.tool.clone(),
            arguments: call.arguments(),
            cancel: self.cancel.clone(),
            person: None,
            peer: None,
            model: None,
            watcher: Arc::clone(&self.watch.events),
        };
        self.stage.engine.call(&self.connection, outside).await
    }
}

/// What decides how an episode goes, beside its goal and seed.
pub(super) fn settings(plan: &Plan, plugin: &dyn Plugin) -> Value {
    json!({
        "mcp": plan.mcp,
        "max_steps": plan.max_steps,
        "zones": plan.zones,
        "plugin": plugin.settings(),
    })
}

/// How it ended for a plugin that says it is done.
fn over(act: Act) -> (How, String) {
    let reached = act.reached.unwrap_or(true);
    let (how, words) = if reached {
        (How::Reached, "the goal is reached")
    } else {
        (How::NotReached, "the plugin gave up")
    };
    let reason = if act.note.trim().is_empty() {
        words.to_owned()
    } else {
        act.note
    };
    (how, reason)
}

/// What an observation says of a call.
fn result(call: &ToolUse, reply: &Reply) -> Value {
    let mut result = Map::new();
    result.insert("tool".to_owned(), call.tool.as_str().into());
    result.insert("ok".to_owned(), (!reply.is_error).into());
    if let Some(code) = reply.code {
        result.insert("error_code".to_owned(), code.as_str().into());
    }
    let key = if reply.is_error { "error" } else { "result" };
    let output = &reply.output;
    let value = if output.len() > RESULT_SHOWN {
        result.insert("cut_from_bytes".to_owned(), output.len().into());
        let cut = head_and_tail(output, RESULT_SHOWN, None);
        cut.map_or_else(|| output.clone(), |cut| cut.text).into()
    } else {
        serde_json::from_str(output).unwrap_or_else(|_not_json| output.as_str().into())
    };
    result.insert(key.to_owned(), value);
    Value::Object(result)
}

#[cfg(test)]
mod tests {
    use castellan_core::{CallId, EffectStatus, ErrorCode};
    use castellan_testkit::SequentialIds;

    use super::*;

    fn reply(output: &str, code: Option<ErrorCode>) -> Reply {
        Reply {
            call_id: CallId::mint(&SequentialIds::new()),
            output: output.to_owned(),
            is_error: code.is_some(),
            outcome: "done".to_owned(),
            code,
            effect: EffectStatus::None,
            spill: None,
            pictures: Vec::new(),
            blocks: Vec::new(),
        }
    }

    #[test]
    fn a_result_is_shown_as_data_where_it_is_data() {
        let call = ToolUse::new("t", Value::Null);
        assert_eq!(
            result(&call, &reply("{\"a\":1}", None)),
            json!({"tool": "t", "ok": true, "result": {"a": 1}})
        );
        assert_eq!(
            result(&call, &reply("plain words", None)),
            json!({"tool": "t", "ok": true, "result": "plain words"})
        );
        assert_eq!(
            result(&call, &reply("Error: no.", Some(ErrorCode::Validation))),
            json!({"tool": "t", "ok": false, "error_code": "VALIDATION", "error": "Error: no."})
        );
    }

    #[test]
    fn a_long_result_is_cut_and_says_so() {
        let long = format!("\"{}\"", "x".repeat(RESULT_SHOWN));
        let shown = result(&ToolUse::new("t", Value::Null), &reply(&long, None));
        assert_eq!(shown["cut_from_bytes"], long.len());
        let text = shown["result"].as_str().unwrap();
        assert!(text.starts_with("\"x") && text.ends_with("x\""));
        assert!(text.len() <= RESULT_SHOWN + 200);
    }

    #[test]
    fn done_means_reached_unless_it_says_otherwise() {
        let act = |reached, note: &str| Act {
            done: true,
            reached,
            note: note.to_owned(),
            ..Act::default()
        };
        assert_eq!(over(act(None, "")).0, How::Reached);
        let (how, why) = over(act(Some(false), "no way in"));
        assert_eq!((how, why.as_str()), (How::NotReached, "no way in"));
    }
}
