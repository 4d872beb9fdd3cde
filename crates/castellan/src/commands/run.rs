//! `castellan run`: an episode, in which a plugin works towards a goal unattended.

mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use castellan_core::nearest::likely;
use castellan_core::text::chain;
use castellan_core::{CancelSource, EpisodeId};
use castellan_host::ShellJob;
use castellan_runtime::episode::gridworld::Settings;
use castellan_runtime::episode::program::Deadline;
use castellan_runtime::episode::{self, Ended, Gridworld, How, Kept, Plan, Plugin, Program, Turn};
use nix::unistd::{AccessFlags, access};
use serde_json::{Map, Value};
use tokio::task::JoinSet;

use crate::cli::{Run, Zones};
use crate::commands::exec::heed;
use crate::error::{CommandError, Kind};
use crate::model::{self, Chosen};
use crate::output::{counted, note};
use crate::signals::Signals;
use crate::stage::Ground;
use crate::wiring::World;
use view::View;

/// The plugins that need no program.
const BUILT_IN: [&str; 2] = ["gridworld", "session"];
/// A plugin may run for as long as its episode does.
const FOR_EVER: Duration = Duration::MAX;

/// Runs the episode.
pub(crate) async fn run(world: &World, args: Run) -> Result<(), CommandError> {
    let workspace = world.working_folder(args.cwd.as_deref())?;
    let actor = actor(world, &args, &workspace).await?;
    let id = EpisodeId::mint(&*world.ids);
    let trace = trace(world, &args, id)?;
    let keys = actor.keys();
    let ground = Ground::new(world, (args.seed, args.zones), &trace, &workspace, keys)?;
    let plugin = actor.start(world, &args, &workspace)?;
    let goal = args.goal.replace('\0', "");
    let plan = Plan {
        goal: ground.stage.engine().gate().redact(goal),
        mcp: args.mcp,
        max_steps: args.max_steps,
        seed: args.seed,
        zones: args.zones.as_str().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let kept = Kept::begin(
        (world.store()?, Arc::clone(&world.clock)),
        (id, world.user()),
        (&plan, &*plugin),
        &trace,
    );
    let kept = match kept.await {
        Ok(kept) => kept,
        Err(error) => {
            plugin.close().await;
            return Err(error.into());
        }
    };
    let view = Arc::new(View::new(
        args.json,
        args.max_steps,
        Arc::clone(&world.clock),
    ));
    let watch = episode::Watch {
        events: Arc::clone(&view) as _,
        steps: kept.counting(Arc::clone(&view) as _),
    };
    let stop = Arc::new(CancelSource::new());
    let mut signals = JoinSet::new();
    signals.spawn(heed(Signals::listen()?, Arc::clone(&stop)));
    let ended = episode::run(&ground.stage, &plan, plugin, watch, stop.token()).await;
    if let Err(error) = kept.end(&ended).await {
        let why = chain(&error);
        note(&format!(
            "warning: what it came to is not kept for episode://{id}: {why}"
        ));
    }
    let said = view.finish(ended.as_ref().ok(), id, &trace);
    let ended = ended.map_err(|error| {
        CommandError::from(error).hint("the episode ended there: none runs without its trace")
    })?;
    conclude(&ended, &trace).and(said)
}

/// What the exit code says.
fn conclude(ended: &Ended, trace: &Path) -> Result<(), CommandError> {
    let error = match ended.how {
        How::Reached => return Ok(()),
        How::NotReached => {
            CommandError::failed(format!("the goal was not reached: {}", ended.reason))
        }
        How::PluginFailed => CommandError::new(Kind::Plugin, ended.reason.clone()),
    };
    let steps = counted(ended.steps, "step");
    let shown = format!(
        "what happened in {steps}: castellan trace show {}",
        trace.display()
    );
    Err(error.hint(shown))
}

/// What is to act, before it is started.
enum Actor {
    Gridworld(Gridworld),
    Session(Box<Chosen>),
    Program { path: PathBuf },
}

impl Actor {
    /// Keys that must not get into the record.
    fn keys(&self) -> Vec<String> {
        match self {
            Self::Session(chosen) => chosen.keys.clone(),
            Self::Gridworld(_) | Self::Program { .. } => Vec::new(),
        }
    }

    fn start(
        self,
        world: &World,
        args: &Run,
        workspace: &Path,
    ) -> Result<Box<dyn Plugin>, CommandError> {
        Ok(match self {
            Self::Gridworld(gridworld) => Box::new(gridworld),
            Self::Session(chosen) => Box::new(Turn::new(
                chosen.model,
                world.limits(),
                world.config.session.compact_at,
            )),
            Self::Program { path } => {
                let named = world.environment.named(&world.config.tools.environment);
                let job = ShellJob {
                    program: path.to_string_lossy().into_owned(),
                    args: Vec::new(),
                    cwd: workspace.to_owned(),
                    env: world.environment.child_environment(&named),
                    input: None,
                    timeout: FOR_EVER,
                    term_grace: Duration::from_secs(2),
                    sandbox: world
                        .shell
                        .sandbox()
                        .policy(workspace)
                        .map_err(CommandError::failed)?,
                    follow: false,
                };
                let deadline = Deadline {
                    length: Duration::from_secs(args.step_timeout),
                    clock: Arc::clone(&world.clock),
                };
                let settings = settings(args)?;
                let program = (&world.shell, job);
                Box::new(Program::start(&args.plugin, program, settings, deadline))
            }
        })
    }
}

async fn actor(world: &World, args: &Run, workspace: &Path) -> Result<Actor, CommandError> {
    match args.plugin.as_str() {
        "gridworld" => Settings::read(&settings(args)?)
            .and_then(Gridworld::new)
            .map(Actor::Gridworld)
            .map_err(CommandError::usage),
        "session" => {
            if !args.set.is_empty() {
                return Err(CommandError::usage("--set: a session takes no settings")
                    .hint("--model, --base-url and the configuration say what it runs on"));
            }
            let chosen = model::choose(world, &args.model).await.map_err(|error| {
                error.hint("the plugin `session` is a model; --plugin gridworld needs none")
            })?;
            if let Some(found) = &chosen.found {
                note(found);
            }
            Ok(Actor::Session(Box::new(chosen)))
        }
        name => {
            let path = program(world, name)?;
            note(&world.demand_sandbox(workspace).await?);
            Ok(Actor::Program { path })
        }
    }
}

/// The program that a plugin's name is the path of.
fn program(world: &World, name: &str) -> Result<PathBuf, CommandError> {
    let built_in = BUILT_IN.join(", ");
    let expected = format!("a plugin is one of {built_in}, or the path of a program");
    let path = world.environment.cwd().join(name);
    if !path.is_file() {
        let near = likely(name, BUILT_IN);
        let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        return Err(
            CommandError::usage(format!("there is no plugin `{name}`{near}")).hint(expected),
        );
    }
    if let Err(error) = access(&path, AccessFlags::X_OK) {
        let what = format!("the plugin {name} can't be run: {}", error.desc());
        return Err(CommandError::usage(what)
            .hint(format!("make it a program: chmod +x {name}"))
            .hint("a script begins with a line such as #!/usr/bin/env python3"));
    }
    Ok(path)
}

/// What `--set` says, as an object.
fn settings(args: &Run) -> Result<Map<String, Value>, CommandError> {
    let mut settings = Map::new();
    for pair in &args.set {
        let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(CommandError::usage(format!(
                "--set {pair}: expected is KEY=VALUE"
            )));
        };
        if settings.insert(key.to_owned(), value.into()).is_some() {
            return Err(CommandError::usage(format!("--set {key}=… is there twice")));
        }
    }
    Ok(settings)
}

/// The file the episode is traced in.
fn trace(world: &World, args: &Run, id: EpisodeId) -> Result<PathBuf, CommandError> {
    let Some(file) = &args.trace else {
        return Ok(world.home.traces().join(format!("{id}.jsonl")));
    };
    let path = world.environment.cwd().join(file);
    let holds = std::fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() > 0);
    if holds {
        let what = format!(
            "the trace {} is there already and holds something",
            file.display()
        );
        return Err(CommandError::usage(what).hint("name another file"));
    }
    Ok(path)
}

impl Zones {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Shared => "shared",
        }
    }
}
