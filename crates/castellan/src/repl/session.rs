//! Sessions of the conversation: the model they ask, how one begins, is opened and left.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use castellan_core::{Event, Recorded, SessionId};
use castellan_gate::Album;
use castellan_runtime::{Error, Live, Parts, Session, Standing};
use castellan_store::{events, sessions};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::story::Story;
use super::style::{Row, Tone};
use super::{Repl, status};
use crate::arguments::permission;
use crate::cli::ModelArgs;
use crate::error::CommandError;
use crate::model::{self, Chosen};
use crate::words;

/// A session that is open.
pub(super) struct Open {
    pub(super) live: Live,
    pub(super) standing: watch::Receiver<Standing>,
    /// The folder it works in.
    pub(super) folder: PathBuf,
    /// Where its pictures are kept.
    pub(super) album: Album,
    driver: JoinSet<Result<Session, Error>>,
}

/// The model of the sessions here, looked for in the background.
#[derive(Default)]
pub(super) struct Models {
    search: JoinSet<Result<Chosen, CommandError>>,
    found: Option<Chosen>,
}

impl Models {
    /// The model; `None` where nobody looks for one.
    pub(super) async fn get(&mut self) -> Option<Result<Chosen, CommandError>> {
        if let Some(found) = &self.found {
            return Some(Ok(found.clone()));
        }
        let found = match self.search.join_next().await? {
            Ok(found) => found,
            Err(error) => Err(CommandError::failed(error)),
        };
        if let Ok(found) = &found {
            self.found = Some(found.clone());
        }
        Some(found)
    }

    /// Takes what was found by now, without waiting for it.
    pub(super) fn take_in(&mut self) {
        if let Some(Ok(Ok(found))) = self.search.try_join_next() {
            self.found = Some(found);
        }
    }

    /// Whether nobody looks for one and none is found.
    pub(super) fn idle(&self) -> bool {
        self.found.is_none() && self.search.is_empty()
    }

    /// This one from now on.
    pub(super) fn set(&mut self, chosen: Chosen) {
        *self = Self::default();
        self.found = Some(chosen);
    }

    /// The model, if it is found by now.
    pub(super) const fn now(&self) -> Option<&Chosen> {
        self.found.as_ref()
    }
}

impl Repl {
    /// Begins to look for the model, anew.
    pub(super) fn look_for_model(&mut self) {
        let arguments = self.arguments.model.clone();
        let world = Arc::clone(&self.world);
        let status = Arc::clone(&self.status);
        let repaint = self.keyboard.repaint();
        self.models = Models::default();
        self.models.search.spawn(async move {
            world.enclose().await;
            let sandbox = world.shell.sandbox().name();
            status
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .sandbox = sandbox;
            repaint();
            let chosen = model::choose(&world, &arguments).await?;
            let info = chosen.model.info();
            let mut status = status
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            status.model = Some(info.model.clone());
            status.window = info.context_window;
            drop(status);
            repaint();
            Ok(chosen)
        });
    }

    fn parts(&self, chosen: Chosen) -> Result<Parts, CommandError> {
        self.world.session(
            self.store.clone(),
            chosen,
            Arc::clone(&self.audience) as _,
            permission(&self.arguments.session),
            self.world.limits_of(&self.arguments.session),
        )
    }

    /// The model, looked for again where it was not found.
    pub(super) async fn model(&mut self) -> Result<Chosen, CommandError> {
        if let Some(found) = self.models.get().await {
            return found;
        }
        self.look_for_model();
        let found = self.models.get().await;
        found.unwrap_or_else(|| Err(CommandError::failed("nobody looks for a model")))
    }

    /// Begins a session, unless one is open.
    pub(super) async fn begin(&mut self) -> Result<Live, CommandError> {
        if let Some(open) = &self.open {
            return Ok(open.live.clone());
        }
        let chosen = self.model().await?;
        let enclosed = self.world.require_sandbox(&self.cwd)?;
        let session = Session::begin(self.parts(chosen)?, &self.cwd, &self.world.user())?;
        let live = self.drive(session, self.cwd.clone());
        self.tell(Tone::Dim, &enclosed)?;
        Ok(live)
    }

    fn drive(&mut self, session: Session, folder: PathBuf) -> Live {
        let album = session.album();
        let (live, drive) = Live::start(session);
        let mut driver = JoinSet::new();
        driver.spawn(drive);
        self.open = Some(Open {
            standing: live.standing(),
            live: live.clone(),
            folder,
            album,
            driver,
        });
        self.show_folder();
        live
    }

    /// Leaves the session that is open. It is kept.
    pub(super) async fn leave(&mut self) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        self.show_folder();
        open.live.leave().await;
        // What keeps the end from being recorded was told by the session's events, or is told when
        // it is opened again.
        drop(open.driver.join_next().await);
        for shell in self.world.background.close(open.live.id()).await {
            // A terminal that is gone need not be told.
            self.tell(Tone::Dim, &words::ended_with_session(&shell))
                .unwrap_or_default();
        }
        self.inbox.take();
    }

    /// What ended the driver, where it ended by itself.
    pub(super) async fn fallen(&mut self) -> Option<CommandError> {
        let mut open = self.open.take()?;
        self.show_folder();
        match open.driver.join_next().await {
            Some(Ok(Err(error))) => Some(error.into()),
            Some(Err(error)) => Some(CommandError::failed(error)),
            Some(Ok(Ok(_))) | None => None,
        }
    }

    /// Opens the session that is open anew, so that it asks the model found last.
    pub(super) async fn reopen(&mut self) -> Result<(), CommandError> {
        let Some(open) = &self.open else {
            return Ok(());
        };
        let (id, folder) = (open.live.id(), open.folder.clone());
        let chosen = self.model().await?;
        self.leave().await;
        let session = Session::open(self.parts(chosen)?, id).await?;
        self.drive(session, folder);
        Ok(())
    }

    /// Goes on with a stored session and shows where it stands. The present one stays where that
    /// fails.
    pub(super) async fn resume(&mut self, id: SessionId) -> Result<(), CommandError> {
        if self.open.as_ref().is_some_and(|open| open.live.id() == id) {
            return Err(CommandError::usage(format!(
                "{id} is the session that is open"
            )));
        }
        let chosen = self.model().await?;
        let workspace = self.store.read(move |tx| sessions::get(tx, id)).await?.cwd;
        self.world.require_sandbox(&workspace)?;
        let session = Session::open(self.parts(chosen)?, id).await?;
        let unfinished = session.is_unfinished();
        let asks = session.question().is_some();
        let log = self.store.read(move |tx| events::load(tx, id, 0)).await?;
        self.leave().await;
        self.drive(session, workspace);
        self.name_session(Some(id));
        let mut rows = vec![Row::of(Tone::Dim, format!("session {id}")).cut(self.screen.width())];
        rows.extend(self.last_exchange(&log));
        if unfinished && !asks {
            let text = "! the last turn was broken off; /continue goes on with it";
            rows.extend(self.story.note(Tone::Warn, text));
        }
        self.print(&rows)
    }

    /// What was last said, by both.
    fn last_exchange(&self, log: &[Recorded]) -> Vec<Row> {
        let said = |recorded: &Recorded| matches!(recorded.event, Event::UserTurn { .. });
        let from = log.iter().rposition(said).unwrap_or(log.len());
        let clock = Arc::clone(&self.world.clock);
        let mut story = Story::new(clock, self.screen.looks(), self.screen.width());
        let mut rows: Vec<Row> = log
            .iter()
            .skip(from)
            .flat_map(|event| story.take(event))
            .collect();
        rows.extend(story.rest());
        rows
    }

    pub(super) fn name_session(&self, id: Option<SessionId>) {
        self.on_status(|status| status.session = id.map(|id| id.to_string()));
    }

    /// Where paths that are typed begin: the folder of the session that is open, or of the next one.
    pub(super) fn folder(&self) -> &Path {
        self.open.as_ref().map_or(&self.cwd, |open| &open.folder)
    }

    pub(super) fn show_folder(&self) {
        self.on_status(|status| self.folder().clone_into(&mut status.folder));
    }

    pub(super) fn on_status(&self, change: impl FnOnce(&mut status::Status)) {
        change(
            &mut self
                .status
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        );
    }
}

/// What else the model's arguments may be, for another model from now on.
pub(super) fn named(arguments: &ModelArgs, name: &str) -> ModelArgs {
    ModelArgs {
        model: Some(name.to_owned()),
        ..arguments.clone()
    }
}
