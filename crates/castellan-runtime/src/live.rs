//! A session that several surfaces share while it lives: one driver owns it, everyone else holds a
//! [`Live`] handle.
//!
//! Whoever holds a handle may say something at any time: while a turn is under way it is queued.
//! Any of them may answer an open question; the first answer wins and a later one is told so. Any
//! of them may stop the turn. What the session does is seen through [`Audience`], and where it
//! stands through [`Live::standing`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use castellan_core::event::{Answer, ApprovalItem, State as Activity, TurnEnd};
use castellan_core::{CancelSource, Clock, CycleId, ModelError, PictureRef, Recorded, SessionId};
use castellan_gate::gate::TIMEOUT;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::error::Error;
use crate::session::Watcher;
use crate::session::driver::{Session, TurnOutcome};

/// How many messages may wait for their turn.
pub const QUEUE_LIMIT: usize = 32;
/// How many wishes may wait for the driver.
const WISHES: usize = 16;

/// An open round of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The round.
    pub cycle_id: CycleId,
    /// The calls that somebody has to decide about.
    pub items: Vec<ApprovalItem>,
}

/// Where a live session stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// What it is doing: [`Activity::Idle`], [`Activity::Waiting`] for an answer, or
    /// [`Activity::Running`] for everything else; the finer steps pass by the audience.
    pub activity: Activity,
    /// What somebody has to decide about.
    pub question: Option<Question>,
    /// How many messages wait for their turn.
    pub queued: usize,
    /// How the last turn of this process ended; the failure where there was one.
    pub last: Option<(TurnEnd, Option<ModelError>)>,
    /// Whether the stored turn was broken off and [`Live::take_up`] would go on with it.
    pub unfinished: bool,
    /// Whether the session has been left: nothing will be done any more.
    pub left: bool,
}

/// Why a wish was not fulfilled.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// As many messages as may are waiting already.
    #[error("{QUEUE_LIMIT} messages wait already")]
    Full,
    /// The session does something that leaves no room for it.
    #[error("the session is busy")]
    Busy,
    /// The session has been left.
    #[error("the session has been left")]
    Left,
    /// What the session says of it.
    #[error(transparent)]
    Session(Error),
}

/// Something to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The words.
    pub text: String,
    /// Pictures that belong to them, from [`Session::album`].
    pub pictures: Vec<PictureRef>,
}

impl From<String> for Said {
    fn from(text: String) -> Self {
        let pictures = Vec::new();
        Self { text, pictures }
    }
}

impl From<&str> for Said {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

enum Wish {
    Decide(CycleId, String, Vec<Answer>, Reply),
    TakeUp(Reply),
    Leave,
}

type Reply = oneshot::Sender<Result<(), Refusal>>;

struct Shared {
    id: SessionId,
    queue: Mutex<VecDeque<Said>>,
    /// Something was queued, or a stop was asked for.
    stirred: Notify,
    stop: Mutex<CancelSource>,
    standing: watch::Sender<Standing>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle to a live session. Clones are handles to the same one.
#[derive(Clone)]
pub struct Live {
    shared: Arc<Shared>,
    wishes: mpsc::Sender<Wish>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("id", &self.shared.id).finish()
    }
}

impl Live {
    /// A handle to `session`, and the driver that has to be run for anything to happen. The driver
    /// ends once the session is left (by [`leave`](Self::leave), or when the last handle is
    /// dropped) and gives the session back; it fails where what happens can't be recorded, and
    /// opening the session again goes on from what was.
    ///
    /// A question that nobody answers within `patience` is denied; `None` waits for ever.
    pub fn start(
        session: Session,
        clock: Arc<dyn Clock>,
        patience: Option<Duration>,
    ) -> (Self, impl Future<Output = Result<Session, Error>> + Send) {
        let (wishes, inbox) = mpsc::channel(WISHES);
        let question = session.question();
        let standing = Standing {
            activity: match question {
                Some(_) => Activity::Waiting,
                None => Activity::Idle,
            },
            question,
            queued: 0,
            last: None,
            unfinished: session.is_unfinished(),
            left: false,
        };
        let shared = Arc::new(Shared {
            id: session.id(),
            queue: Mutex::default(),
            stirred: Notify::new(),
            stop: Mutex::default(),
            standing: watch::Sender::new(standing),
        });
        let driver = Driver {
            session,
            shared: Arc::clone(&shared),
            inbox,
            clock,
            patience,
            leaving: false,
        };
        (Self { shared, wishes }, driver.drive())
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.shared.id
    }

    /// Where it stands, now and whenever that changes.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.shared.standing.subscribe()
    }

    /// Says something to the model: at once where the session is idle, else after the present turn
    /// and what was queued before.
    ///
    /// # Errors
    /// [`Refusal::Full`] or [`Refusal::Left`].
    pub fn say(&self, said: impl Into<Said>) -> Result<(), Refusal> {
        if self.shared.standing.borrow().left {
            return Err(Refusal::Left);
        }
        let queued = {
            let mut queue = lock(&self.shared.queue);
            if queue.len() >= QUEUE_LIMIT {
                return Err(Refusal::Full);
            }
            queue.push_back(said.into());
            queue.len()
        };
        self.shared
            .standing
            .send_modify(|standing| standing.queued = queued);
        self.shared.stirred.notify_one();
        Ok(())
    }

    /// Answers an open question. `by` says who and where, such as `terminal`. Calls that the answer
    /// leaves out stay open.
    ///
    /// # Errors
    /// [`Error::AlreadyDecided`] in [`Refusal::Session`] where that question is not open any more,
    /// and what else keeps the answer from being recorded.
    pub async fn decide(
        &self,
        cycle_id: CycleId,
        by: &str,
        answers: Vec<Answer>,
    ) -> Result<(), Refusal> {
        self.wish(|reply| Wish::Decide(cycle_id, by.to_owned(), answers, reply))
            .await
    }

    /// Goes on with a turn that was broken off.
    ///
    /// # Errors
    /// [`Refusal::Busy`] while a turn is under way, and [`Error::NothingToDo`] in
    /// [`Refusal::Session`].
    pub async fn take_up(&self) -> Result<(), Refusal> {
        self.wish(Wish::TakeUp).await
    }

    /// Stops the present turn, if there is one, and takes back what was queued.
    #[must_use = "what was queued is not said any more"]
    pub fn stop(&self) -> Vec<Said> {
        let back = {
            let mut queue = lock(&self.shared.queue);
            lock(&self.shared.stop).cancel();
            queue.drain(..).collect()
        };
        self.shared
            .standing
            .send_modify(|standing| standing.queued = 0);
        self.shared.stirred.notify_one();
        back
    }

    /// Stops the present turn and ends the driver. What was queued is not said any more; an open
    /// question stays open in the log.
    pub async fn leave(&self) {
        // A driver that is gone has left.
        drop(self.wishes.send(Wish::Leave).await);
    }

    async fn wish(&self, wish: impl FnOnce(Reply) -> Wish) -> Result<(), Refusal> {
        let (reply, answer) = oneshot::channel();
        if self.wishes.send(wish(reply)).await.is_err() {
            return Err(Refusal::Left);
        }
        answer.await.unwrap_or(Err(Refusal::Left))
    }
}

struct Driver {
    session: Session,
    shared: Arc<Shared>,
    inbox: mpsc::Receiver<Wish>,
    clock: Arc<dyn Clock>,
    patience: Option<Duration>,
    leaving: bool,
}

/// What makes a driver that stands still move.
enum Stir {
    Wish(Option<Wish>),
    Queue,
    Impatience(CycleId),
}

impl Driver {
    async fn drive(mut self) -> Result<Session, Error> {
        let shared = Arc::clone(&self.shared);
        let ended = self.run().await;
        shared.standing.send_modify(|standing| {
            standing.left = true;
            standing.activity = Activity::Idle;
        });
        ended.map(|()| self.session)
    }

    async fn run(&mut self) -> Result<(), Error> {
        while !self.leaving {
            let question = self.session.question();
            let stopped = lock(&self.shared.stop).token().is_cancelled();
            match &question {
                // Stopping a turn that waits closes what it asked.
                Some(_) if stopped => self.turn().await?,
                Some(question) => {
                    self.show(Activity::Waiting, Some(question.clone()));
                    self.stand(Some(question.cycle_id)).await?;
                }
                None => match self.take_queued() {
                    Some(Said { text, pictures }) => {
                        self.session.say_with(text, pictures);
                        self.turn().await?;
                    }
                    None => {
                        self.show(Activity::Idle, None);
                        self.stand(None).await?;
                    }
                },
            }
        }
        Ok(())
    }

    /// What is to be said next; the turn it begins can be stopped from now on.
    fn take_queued(&self) -> Option<Said> {
        let mut queue = lock(&self.shared.queue);
        let said = queue.pop_front();
        if said.is_some() {
            *lock(&self.shared.stop) = CancelSource::new();
        }
        let queued = queue.len();
        drop(queue);
        self.shared
            .standing
            .send_modify(|standing| standing.queued = queued);
        said
    }

    fn show(&self, activity: Activity, question: Option<Question>) {
        let unfinished = self.session.is_unfinished();
        self.shared.standing.send_modify(|standing| {
            standing.activity = activity;
            standing.question = question;
            standing.unfinished = unfinished;
        });
    }

    /// Waits for something to do, and does it unless it is the queue's.
    async fn stand(&mut self, asked: Option<CycleId>) -> Result<(), Error> {
        let impatience = match (asked, self.patience) {
            (Some(_), Some(patience)) => self.clock.sleep(patience),
            _ => Box::pin(futures::future::pending()),
        };
        let stir = tokio::select! {
            wish = self.inbox.recv() => Stir::Wish(wish),
            () = self.shared.stirred.notified() => Stir::Queue,
            () = impatience => asked.map_or(Stir::Queue, Stir::Impatience),
        };
        match stir {
            Stir::Queue => Ok(()),
            Stir::Wish(None | Some(Wish::Leave)) => {
                self.leaving = true;
                Ok(())
            }
            Stir::Wish(Some(Wish::TakeUp(reply))) => {
                let taken = match asked {
                    // The question comes first.
                    Some(_) => Err(Refusal::Busy),
                    None => self.session.take_up().map_err(Refusal::Session),
                };
                let go = taken.is_ok();
                drop(reply.send(taken));
                if go {
                    *lock(&self.shared.stop) = CancelSource::new();
                    self.turn().await?;
                }
                Ok(())
            }
            Stir::Wish(Some(Wish::Decide(cycle_id, by, answers, reply))) => {
                let decided = self.session.decide(cycle_id, &by, answers).await;
                let go = decided.is_ok() && self.session.question().is_none();
                drop(reply.send(decided.map_err(Refusal::Session)));
                if go {
                    self.turn().await?;
                }
                Ok(())
            }
            Stir::Impatience(cycle_id) => {
                let items = self.session.waiting();
                let deny = |item: &ApprovalItem| Answer {
                    feedback: "nobody answered in time".to_owned(),
                    ..Answer::new(item.call_id, false)
                };
                let answers = items.iter().map(deny).collect();
                self.session.decide(cycle_id, TIMEOUT, answers).await?;
                self.turn().await
            }
        }
    }

    /// Runs the turn until it is over or somebody must decide, and turns away what can't be done
    /// meanwhile.
    async fn turn(&mut self) -> Result<(), Error> {
        self.show(Activity::Running, None);
        let cancel = lock(&self.shared.stop).token();
        let shared = Arc::clone(&self.shared);
        let turn = self.session.run(cancel);
        tokio::pin!(turn);
        let outcome = loop {
            tokio::select! {
                outcome = &mut turn => break outcome?,
                wish = self.inbox.recv(), if !self.leaving => match wish {
                    None | Some(Wish::Leave) => {
                        self.leaving = true;
                        lock(&shared.stop).cancel();
                    }
                    Some(Wish::TakeUp(reply)) => drop(reply.send(Err(Refusal::Busy))),
                    Some(Wish::Decide(asked, _, _, reply)) => {
                        let gone = Error::AlreadyDecided { asked, open: None };
                        drop(reply.send(Err(Refusal::Session(gone))));
                    }
                },
            }
        };
        if let TurnOutcome::Over(end, failure) = outcome {
            self.shared
                .standing
                .send_modify(|standing| standing.last = Some((end, failure)));
        }
        Ok(())
    }
}

/// Everyone who watches a session: each event goes to all of them. Surfaces come and go while the
/// session lives.
#[derive(Default)]
pub struct Audience(Mutex<Vec<Arc<dyn Watcher>>>);

impl fmt::Debug for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Audience({} watchers)", lock(&self.0).len())
    }
}

impl Audience {
    /// Lets `watcher` see everything from now on.
    pub fn join(&self, watcher: Arc<dyn Watcher>) {
        lock(&self.0).push(watcher);
    }

    /// Lets `watcher` go.
    pub fn part(&self, watcher: &Arc<dyn Watcher>) {
        lock(&self.0).retain(|one| !Arc::ptr_eq(one, watcher));
    }
}

impl Watcher for Audience {
    fn see(&self, event: &Recorded) {
        for watcher in lock(&self.0).iter() {
            watcher.see(event);
        }
    }
}
