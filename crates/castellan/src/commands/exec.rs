//! `castellan exec`: one turn, for scripts and pipes.

use std::io::{IsTerminal as _, Read as _};
use std::sync::{Arc, Mutex, PoisonError};

use castellan_core::event::TurnEnd;
use castellan_core::{CancelSource, Clock, Event, ModelError, Recorded};
use castellan_gate::Permission;
use castellan_runtime::session::Watcher;
use castellan_runtime::{Session, TurnOutcome};

use crate::cli::Exec;
use crate::commands::trace::resolve;
use crate::error::{CommandError, Kind, io};
use crate::model;
use crate::output::{line, note, out, out_is_terminal};
use crate::wiring::World;

/// Runs the turn.
pub(crate) async fn run(world: &World, args: Exec) -> Result<(), CommandError> {
    let prompt = prompt(&args)?;
    let permission = Permission {
        grants: args.yes_to.clone(),
        skip: args.skip_permissions,
    };
    let store = world.store()?;
    let resumed = match &args.resume {
        Some(name) => Some(resolve(&store, name).await?),
        None => None,
    };
    if resumed.is_some() && args.cwd.is_some() {
        return Err(
            CommandError::usage("--cwd can't change where a stored session works")
                .hint("leave it out, or begin a new session"),
        );
    }
    let cwd = working_folder(world, &args)?;
    let chosen = model::choose(world, &args.model).await?;
    let view = Arc::new(View::new(args.json, Arc::clone(&world.clock)));
    let parts = world.session(
        store,
        chosen,
        Arc::clone(&view) as _,
        permission,
        args.max_turns,
    );
    let mut session = match resumed {
        Some(id) => Session::open(parts, id).await?,
        None => Session::begin(parts, &cwd, &world.user())?,
    };
    if !args.json {
        note(&format!("session {}", session.id()));
    }
    match prompt {
        Some(text) => session.say(text),
        None => session.take_up()?,
    }
    let stop = CancelSource::new();
    let outcome = {
        let turn = session.run(stop.token());
        tokio::pin!(turn);
        loop {
            tokio::select! {
                outcome = &mut turn => break outcome?,
                signal = interrupted() => {
                    signal.map_err(io("wait for signals"))?;
                    stop.cancel();
                }
            }
        }
    };
    let end = conclude(&session, outcome);
    view.finish(
        &session,
        end.as_ref().err().map_or(0, |error| error.kind.code()),
    );
    end
}

/// Resolves at the next request to stop: Ctrl-C or a polite signal.
async fn interrupted() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result,
        _ = terminate.recv() => Ok(()),
        _ = hangup.recv() => Ok(()),
    }
}

fn prompt(args: &Exec) -> Result<Option<String>, CommandError> {
    let piped = || -> Result<String, CommandError> {
        let mut bytes = Vec::new();
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(io("read standard input"))?;
        String::from_utf8(bytes)
            .map_err(|_error| CommandError::usage("standard input is not valid UTF-8"))
    };
    let text = match args.prompt.as_deref() {
        Some("-") => piped()?,
        Some(text) => text.to_owned(),
        None if args.resume.is_some() => return Ok(None),
        None if !std::io::stdin().is_terminal() => piped()?,
        None => String::new(),
    };
    // NUL can't be stored as text, and means nothing to a model.
    let text = text.replace('\0', "");
    if text.trim().is_empty() {
        return Err(CommandError::usage("there is no prompt")
            .hint("castellan exec \"what to do\", or pipe it in"));
    }
    Ok(Some(text))
}

fn working_folder(world: &World, args: &Exec) -> Result<std::path::PathBuf, CommandError> {
    let folder = args.cwd.as_ref().map_or_else(
        || world.environment.cwd().to_owned(),
        |folder| world.environment.cwd().join(folder),
    );
    match folder.canonicalize() {
        Ok(folder) if folder.is_dir() => Ok(folder),
        Ok(folder) => Err(CommandError::usage(format!(
            "{} is not a folder",
            folder.display()
        ))),
        Err(error) => Err(CommandError::usage(format!(
            "the working folder {} can't be used: {error}",
            folder.display()
        ))),
    }
}

fn conclude(session: &Session, outcome: TurnOutcome) -> Result<(), CommandError> {
    let resume = format!("castellan exec --resume {}", session.id());
    match outcome {
        TurnOutcome::Over(TurnEnd::Done, _) => Ok(()),
        TurnOutcome::Over(TurnEnd::Limit, _) => Err(CommandError::failed(
            "the turn used all model calls it was given",
        )
        .hint(format!("go on with: {resume}"))),
        TurnOutcome::Over(TurnEnd::Cancelled, _) => {
            Err(CommandError::failed("cancelled").hint(format!("go on with: {resume}")))
        }
        TurnOutcome::Over(TurnEnd::Failed, failure) => {
            let ModelError { message, hint, .. } = failure.unwrap_or_else(|| ModelError {
                code: castellan_core::ErrorCode::Internal,
                message: "the turn failed".to_owned(),
                hint: String::new(),
            });
            Err(CommandError::failed(message)
                .hint(hint)
                .hint(format!("go on with: {resume}")))
        }
        TurnOutcome::Waiting(_) => {
            let items = session.waiting();
            let what: Vec<&str> = items.iter().map(|item| item.header.as_str()).collect();
            let mut tools: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
            tools.sort_unstable();
            tools.dedup();
            let yes = tools
                .iter()
                .map(|tool| format!(" --yes-to {tool}"))
                .collect::<String>();
            let text = format!(
                "an approval is needed and nobody can be asked: {}",
                what.join("; ")
            );
            Err(CommandError::new(Kind::Approval, text)
                .hint(format!("allow it and go on: {resume}{yes}"))
                .hint(format!("or ask for something else: {resume} \"…\"")))
        }
    }
}

/// Draws a turn: events as JSON lines, or the answer on standard output and the rest on standard
/// error.
struct View {
    json: bool,
    /// Whether answers are shown as they arrive. Into a pipe only the whole last answer goes, since
    /// what arrived may turn out void and can't be taken back.
    live: bool,
    clock: Arc<dyn Clock>,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    /// Whether the cursor stands inside a line of the answer.
    in_line: bool,
}

impl View {
    fn new(json: bool, clock: Arc<dyn Clock>) -> Self {
        Self {
            json,
            live: !json && out_is_terminal(),
            clock,
            inside: Mutex::default(),
        }
    }

    fn finish(&self, session: &Session, exit_code: u8) {
        if self.json {
            let ts = self.clock.now();
            let event = Event::SessionEnd { exit_code };
            self.see(&Recorded {
                ts,
                seq: None,
                session: session.id(),
                event,
            });
        } else if self.live {
            let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
            end_line(&mut inside);
        } else if exit_code == 0 {
            line(session.last_answer().trim_end_matches('\n'));
        }
    }

    fn draw(&self, inside: &mut Inside, event: &Event) {
        match event {
            Event::Content { text } if self.live => {
                out(text);
                inside.in_line = !text.ends_with('\n');
            }
            Event::StreamEnd { complete: true } => end_line(inside),
            Event::StreamEnd { complete: false } if inside.in_line => {
                end_line(inside);
                note("[the answer broke off; what stands above is void]");
            }
            Event::ToolInfo { items } => {
                for item in items {
                    note(&format!("● {}", item.header));
                }
            }
            Event::ToolResult {
                name,
                outcome,
                duration_ms,
                output,
                ..
            } => {
                let seconds = std::time::Duration::from_millis(*duration_ms).as_secs_f64();
                let first = if outcome == "done" {
                    String::new()
                } else {
                    let line = output.trim().lines().last().unwrap_or_default();
                    format!(": {}", castellan_core::text::shorten(line, 160))
                };
                note(&format!("  {name} {outcome} ({seconds:.1} s){first}"));
            }
            Event::Error { message, .. } => note(&format!("! {message}")),
            _ => {}
        }
    }
}

fn end_line(inside: &mut Inside) {
    if std::mem::take(&mut inside.in_line) {
        line("");
    }
}

impl Watcher for View {
    fn see(&self, recorded: &Recorded) {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        if self.json {
            if let Ok(text) = serde_json::to_string(recorded) {
                line(&text);
            }
        } else {
            self.draw(&mut inside, &recorded.event);
        }
    }
}
