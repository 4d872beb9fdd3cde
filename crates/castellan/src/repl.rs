//! `castellan` without a command: a conversation in the terminal.
//!
//! Two states take turns. At the prompt a line editor owns the terminal and nothing else is drawn.
//! Once something is said, the session is watched: what is over scrolls away above, what is under
//! way and what is being typed meanwhile is drawn anew at the bottom, and questions are answered
//! there. `talk.rs` has both; `session.rs` begins, opens and leaves sessions; `sending.rs` says
//! messages and their files; `commands.rs` has what begins with a slash.

mod answer;
mod commands;
mod completion;
mod editor;
mod history;
mod inbox;
mod keyboard;
mod markdown;
mod preview;
mod safe;
mod screen;
mod sending;
mod session;
mod slash;
mod status;
mod story;
mod style;
mod talk;

use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use castellan_host::Environment;
use castellan_runtime::session::Watcher;
use castellan_runtime::{Audience, Compacted, Refusal};
use castellan_store::Store;
use tokio::task::JoinSet;

use crate::arguments::require_sense;
use crate::cli::{ColorChoice, Repl as Arguments};
use crate::commands::exec::tidy_audit;
use crate::commands::trace::resolve;
use crate::error::{CommandError, io};
use crate::repl::editor::Editor;
use crate::repl::history::Kept;
use crate::repl::inbox::Inbox;
use crate::repl::keyboard::{Keyboard, SharedStatus};
use crate::repl::screen::{Reach, Screen};
use crate::repl::sending::Sent;
use crate::repl::session::{Models, Open};
use crate::repl::status::Status;
use crate::repl::story::Story;
use crate::repl::style::{Looks, Row, Tone};
use crate::wiring::World;

/// The conversation.
struct Repl {
    world: Arc<World>,
    arguments: Arguments,
    store: Store,
    /// The folder of a new session.
    cwd: PathBuf,
    models: Models,
    /// The session that is open; `None` until something is said.
    open: Option<Open>,
    audience: Arc<Audience>,
    inbox: Arc<Inbox>,
    keyboard: Keyboard,
    screen: Screen,
    story: Story,
    editor: Editor,
    status: SharedStatus,
    /// What makes the conversation shorter.
    compactions: JoinSet<Result<Compacted, Refusal>>,
    /// Files that go with the next message.
    attached: Vec<PathBuf>,
    /// What was said with files since the session last rested: a stop may give it back.
    sent: Vec<Sent>,
    /// Lines that were sent while nothing could be done with them.
    pending: VecDeque<String>,
    /// How often Ctrl-C was pressed without anything in between.
    interrupts: u8,
}

/// Talks until the person leaves.
///
/// # Errors
/// What keeps it from beginning; what fails later is told in the conversation.
pub(crate) async fn run(world: Arc<World>, arguments: Arguments) -> Result<(), CommandError> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(CommandError::usage(
            "castellan without a command is a conversation and needs a terminal",
        )
        .hint(
            "for scripts and pipes: castellan exec \"what to do\", or pipe it into castellan exec",
        )
        .hint("castellan --help lists the commands"));
    }
    let mut repl = Repl::new(world, arguments).await?;
    let done = repl.talk().await;
    repl.leave().await;
    repl.keyboard.restore();
    tidy_audit(&repl.store, &*repl.world.clock).await;
    done
}

impl Repl {
    async fn new(world: Arc<World>, arguments: Arguments) -> Result<Self, CommandError> {
        require_sense(&world, &arguments.session)?;
        let looks = looks(&world.environment, arguments.color);
        let reach = reach(&world.environment);
        let store = world.store()?;
        let cwd = world.working_folder(arguments.session.cwd.as_deref())?;
        let resumed = match &arguments.session.resume {
            Some(name) => Some(resolve(&store, name).await?),
            None => None,
        };
        let status = SharedStatus::new(Mutex::new(Status {
            folder: cwd.clone(),
            home: world.environment.home().map(Path::to_owned),
            ..Status::default()
        }));
        let file = world.home.data.join("history.txt");
        let mut notes = Vec::new();
        let history = Kept::open(&file, world.redaction(arguments.model.api_key.clone()))
            .unwrap_or_else(|error| {
                notes.push(format!("! lines are not kept: {}: {error}", file.display()));
                Kept::forgetful()
            });
        let screen = Screen::new(looks, reach);
        let inbox = Arc::<Inbox>::default();
        let audience = Arc::<Audience>::default();
        audience.join(Arc::clone(&inbox) as Arc<dyn Watcher>);
        let mut repl = Self {
            models: Models::default(),
            keyboard: Keyboard::start(reach, looks, Arc::clone(&status), history),
            story: Story::new(Arc::clone(&world.clock), looks, screen.width()),
            editor: Editor::default(),
            open: None,
            attached: Vec::new(),
            sent: Vec::new(),
            pending: VecDeque::new(),
            compactions: JoinSet::new(),
            interrupts: 0,
            world,
            arguments,
            store,
            cwd,
            audience,
            inbox,
            screen,
            status,
        };
        repl.head(&notes)?;
        repl.look_for_model();
        if let Some(id) = resumed {
            // What is typed for this session must not begin another one.
            repl.resume(id).await?;
        }
        Ok(repl)
    }

    /// What stands at the beginning.
    fn head(&mut self, notes: &[String]) -> Result<(), CommandError> {
        let mut rows = vec![
            Row(vec![
                style::span(
                    Tone::Title,
                    format!("castellan {}", env!("CARGO_PKG_VERSION")),
                ),
                style::span(
                    Tone::Dim,
                    " · /help tells what can be typed · Ctrl-D leaves",
                ),
            ])
            .cut(self.screen.width()),
        ];
        for note in notes {
            rows.extend(self.story.note(Tone::Warn, note));
        }
        self.print(&rows)
    }

    fn print(&mut self, rows: &[Row]) -> Result<(), CommandError> {
        self.screen.print(rows).map_err(io("write to the terminal"))
    }

    /// Says something of our own.
    fn tell(&mut self, tone: Tone, text: &str) -> Result<(), CommandError> {
        let rows = self.story.note(tone, text);
        self.print(&rows)
    }

    /// Says what went wrong; the conversation goes on.
    fn complain(&mut self, error: &CommandError) -> Result<(), CommandError> {
        self.tell(Tone::Bad, &error.text())
    }
}

/// Whether looks are drawn.
fn looks(environment: &Environment, choice: ColorChoice) -> Looks {
    let set = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
    match choice {
        ColorChoice::Always => Looks::Drawn,
        ColorChoice::Never => Looks::Bare,
        ColorChoice::Auto if set("NO_COLOR") || is_dumb(environment) => Looks::Bare,
        ColorChoice::Auto => Looks::Drawn,
    }
}

fn is_dumb(environment: &Environment) -> bool {
    environment
        .get("TERM")
        .is_none_or(|term| term.is_empty() || term == "dumb")
}

fn reach(environment: &Environment) -> Reach {
    if is_dumb(environment) {
        Reach::Lines
    } else {
        Reach::Full
    }
}
