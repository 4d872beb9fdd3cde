//! `castellan exec`: one turn, for scripts and pipes.

use std::io::{IsTerminal as _, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use castellan_core::event::{ApprovalItem, Purpose, TurnEnd};
use castellan_core::text::plain;
use castellan_core::{CancelSource, Clock, ErrorCode, Event, ModelError, Recorded, Timestamp};
use castellan_runtime::session::Watcher;
use castellan_runtime::{Session, TurnOutcome};
use castellan_store::{Store, audit, sessions};
use castellan_tools::bash::{Listed, OUTSIDE_SANDBOX};
use tokio::task::JoinSet;

use crate::arguments::{permission, require_sense, to_resume};
use crate::attach::{Attachment, attach};
use crate::cli::Exec;
use crate::commands::trace::resolve;
use crate::error::{CommandError, Kind, io};
use crate::model;
use crate::output::{Piece, Printer, note, out_is_terminal};
use crate::signals::Signals;
use crate::wiring::World;
use crate::words;

/// Runs the turn.
pub(crate) async fn run(world: &World, args: Exec) -> Result<(), CommandError> {
    let prompt = prompt(&args)?;
    require_sense(world, &args.session)?;
    if prompt.is_none() && !args.attach.is_empty() {
        return Err(CommandError::usage("--attach needs a prompt to go with"));
    }
    let store = world.store()?;
    let resumed = match &args.session.resume {
        Some(name) => Some(resolve(&store, name).await?),
        None => None,
    };
    let cwd = world.working_folder(args.session.cwd.as_deref())?;
    let workspace = match resumed {
        Some(id) => store.read(move |tx| sessions::get(tx, id)).await?.cwd,
        None => cwd.clone(),
    };
    let enclosed = world.demand_sandbox(&workspace).await?;
    let chosen = model::choose(world, &args.model).await?;
    if let Some(found) = &chosen.found {
        note(found);
    }
    let view = Arc::new(View::new(args.json, Arc::clone(&world.clock), enclosed));
    let parts = world.session(
        store.clone(),
        chosen,
        Arc::clone(&view) as _,
        permission(&args.session),
        world.limits_of(&args.session),
    )?;
    let mut session = match resumed {
        Some(id) => Session::open(parts, id).await?,
        None => Session::begin(parts, &cwd, &world.user())?,
    };
    match prompt {
        Some(text) => say(world, &mut session, text, &args).await?,
        None => session.take_up()?,
    }
    let stop = Arc::new(CancelSource::new());
    let mut signals = JoinSet::new();
    signals.spawn(heed(Signals::listen()?, Arc::clone(&stop)));
    let turn = session.run(stop.token()).await.map_err(CommandError::from);
    let end =
        turn.and_then(|outcome| conclude(&session, outcome, &to_resume(session.id(), &args.model)));
    let ended = world.background.close(session.id()).await;
    view.left(&ended);
    let printed = view.finish(&session, end.as_ref().err());
    drop(session);
    tidy_audit(&store, &*world.clock).await;
    end.and(printed)
}

/// Says the prompt with what is attached to it.
async fn say(
    world: &World,
    session: &mut Session,
    mut text: String,
    args: &Exec,
) -> Result<(), CommandError> {
    let mut pictures = Vec::new();
    for file in &args.attach {
        let path = world.environment.cwd().join(file);
        match attach(&path, Arc::clone(&world.parser), &session.album()).await? {
            Attachment::Text(block) => text = format!("{text}\n\n{block}"),
            Attachment::Picture(picture) => pictures.push(picture),
        }
    }
    session.say_with(text, pictures);
    Ok(())
}

/// How long the audit is kept.
const AUDIT_DAYS: i64 = 90;

/// Takes what is older than [`AUDIT_DAYS`] off the audit chain. A chain that can't be taken from is
/// evidence and stays whole; `castellan audit --verify` says what is wrong with it.
pub(crate) async fn tidy_audit(store: &Store, clock: &dyn Clock) {
    let before = Timestamp(clock.now().0 - AUDIT_DAYS * 24 * 60 * 60 * 1000);
    let due = store.read(move |tx| audit::is_due(tx, before)).await;
    if due.unwrap_or(false) {
        drop(store.write(move |tx| audit::prune(tx, before)).await);
    }
}

/// The exit code of who leaves at once, as a shell has it for Ctrl-C.
const LEFT_AT_ONCE: i32 = 130;

/// Stops the turn at the first request to stop, and leaves at the second one, whatever keeps us.
/// Commands end with this process: each hangs on a lifeline that it holds.
pub(crate) async fn heed(mut signals: Signals, stop: Arc<CancelSource>) {
    signals.next().await;
    stop.cancel();
    signals.next().await;
    #[expect(
        clippy::exit,
        reason = "whoever asks twice wants no more of what we would still do; what is stored is whole"
    )]
    std::process::exit(LEFT_AT_ONCE);
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
        None if args.session.resume.is_some() => return Ok(None),
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

/// How the turn ended; `options` go on with the session.
fn conclude(session: &Session, outcome: TurnOutcome, options: &str) -> Result<(), CommandError> {
    let resume = format!("castellan exec {options}");
    match outcome {
        TurnOutcome::Over(TurnEnd::Done, _) => Ok(()),
        TurnOutcome::Over(TurnEnd::Cancelled, _) => {
            Err(CommandError::failed("cancelled").hint(format!("go on with: {resume}")))
        }
        TurnOutcome::Over(TurnEnd::Failed | TurnEnd::Limit, failure) => {
            let ModelError { message, hint, .. } =
                failure.unwrap_or_else(|| ModelError::new(ErrorCode::Internal, "the turn failed"));
            Err(CommandError::failed(message)
                .hint(hint)
                .hint(format!("go on with: {resume}")))
        }
        TurnOutcome::Waiting(_) => Err(unanswered(&session.waiting(), options)),
    }
}

/// What is asked and nobody is there to answer.
fn unanswered(items: &[ApprovalItem], options: &str) -> CommandError {
    let what: Vec<&str> = items.iter().map(|item| item.header.as_str()).collect();
    // What goes beyond its tool's usual reach needs a permission of its own name.
    let permission = |item: &ApprovalItem| {
        if item.label == OUTSIDE_SANDBOX {
            item.label.clone()
        } else {
            item.name.clone()
        }
    };
    let mut tools: Vec<String> = items.iter().map(permission).collect();
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
    // What offers no permission is not let through by one either.
    let needs_a_person = items
        .iter()
        .any(|item| item.grants.is_empty() && item.label != OUTSIDE_SANDBOX);
    let (allow, or) = if needs_a_person {
        let allow = "nothing allows it in advance: a person must answer".to_owned();
        (allow, "")
    } else {
        let allow = format!("allow it and go on: castellan exec {options}{yes}");
        (allow, "or ")
    };
    CommandError::new(Kind::Approval, text)
        .hint(allow)
        .hint(format!(
            "{or}answer it in the terminal: castellan {options}"
        ))
        .hint(format!(
            "or ask for something else: castellan exec {options} \"…\""
        ))
}

/// Draws a turn: events as JSON lines, or the answer on standard output and the rest on standard
/// error.
struct View {
    json: bool,
    /// Whether answers are shown as they arrive. Into a pipe only the whole last answer goes, since
    /// what arrived may turn out void and can't be taken back.
    live: bool,
    clock: Arc<dyn Clock>,
    printer: Printer,
    /// Whether the cursor stands inside a line of the answer.
    in_line: AtomicBool,
    /// Whether the session's id has been said.
    named: AtomicBool,
    /// What encloses commands.
    sandbox: String,
}

impl View {
    fn new(json: bool, clock: Arc<dyn Clock>, sandbox: String) -> Self {
        Self {
            json,
            live: !json && out_is_terminal(),
            clock,
            printer: Printer::start(),
            in_line: AtomicBool::new(false),
            named: AtomicBool::new(false),
            sandbox,
        }
    }

    fn finish(&self, session: &Session, error: Option<&CommandError>) -> Result<(), CommandError> {
        let exit_code = error.map_or(0, |error| error.kind.code());
        if self.json {
            if exit_code == Kind::Approval.code() {
                let (code, message) = (ErrorCode::ApprovalNeeded, "nobody can be asked".to_owned());
                self.pass(session, Event::Error { code, message });
            }
            self.pass(session, Event::SessionEnd { exit_code });
        } else if self.live {
            self.end_line();
        } else if exit_code == 0 {
            let answer = session.last_answer();
            self.printer
                .must(Piece::Out(format!("{}\n", answer.trim_end_matches('\n'))));
        }
        self.printer.finish()
    }

    fn pass(&self, session: &Session, event: Event) {
        let ts = self.clock.now();
        let recorded = Recorded {
            ts,
            seq: None,
            session: session.id(),
            event,
        };
        if let Ok(line) = serde_json::to_string(&recorded) {
            self.printer.must(Piece::Out(format!("{line}\n")));
        }
    }

    fn draw(&self, event: &Event) {
        match event {
            Event::Content { text } if self.live => {
                self.printer.may(Piece::Out(plain(text)));
                self.in_line.store(!text.ends_with('\n'), Ordering::Relaxed);
            }
            Event::StreamEnd { complete: true } => self.end_line(),
            Event::StreamEnd { complete: false } if self.in_line.load(Ordering::Relaxed) => {
                self.end_line();
                self.note(&format!("[{}]", words::BROKE_OFF));
            }
            Event::ToolInfo { items } => {
                for item in items {
                    self.note(&format!("● {}", item.header));
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
                let last = output.trim().lines().last().unwrap_or_default();
                let why = if outcome == "done" {
                    String::new()
                } else {
                    format!(": {}", castellan_core::text::shorten(last, 160))
                };
                self.note(&format!("  {name} {outcome} ({seconds:.1} s){why}"));
            }
            Event::ModelResponse { finish, .. } => {
                if let Some(cut) = words::cut_off(finish) {
                    self.note(&format!("! {cut}"));
                }
            }
            Event::Notice { text, .. } => self.note(&format!("! the model is told: {text}")),
            Event::ModelRequest {
                purpose: Purpose::Summary,
                ..
            } => self.note("… the conversation is long; its older part is being summarised"),
            Event::Compaction {
                tokens_before,
                tokens_after,
                problem,
                ..
            } => {
                let told = words::compacted(*tokens_before, *tokens_after, problem.as_deref());
                self.note(&format!("… {told}"));
            }
            // Stored ones end the turn, and the command itself says them.
            Event::Error { message, .. } => self.note(&format!("! {message}")),
            _ => {}
        }
    }

    /// Says what ended with the session. On standard error, as it is no event: the session learns of
    /// it when it is resumed.
    fn left(&self, ended: &[Listed]) {
        for shell in ended {
            self.note(&words::ended_with_session(shell));
        }
    }

    fn note(&self, text: &str) {
        self.printer.must(Piece::Note(text.to_owned()));
    }

    fn end_line(&self) {
        if self.in_line.swap(false, Ordering::Relaxed) {
            self.printer.must(Piece::Out("\n".to_owned()));
        }
    }
}

impl Watcher for View {
    fn see(&self, recorded: &Recorded) {
        let is_stored = recorded.seq.is_some();
        if !self.json {
            // Said once it is true that the session can be resumed.
            if is_stored && !self.named.swap(true, Ordering::Relaxed) {
                self.note(&format!("session {}", recorded.session));
                self.note(&self.sandbox);
            }
            if !(is_stored && matches!(recorded.event, Event::Error { .. })) {
                self.draw(&recorded.event);
            }
        } else if let Ok(line) = serde_json::to_string(recorded) {
            let piece = Piece::Out(format!("{line}\n"));
            if is_stored {
                self.printer.must(piece);
            } else {
                self.printer.may(piece);
            }
        }
    }
}
