//! A session that several surfaces share while it lives: one driver owns it, everyone else holds a
//! [`Live`] handle.
//!
//! Whoever holds a handle may say something at any time: while a turn is under way it is queued.
//! Any of them may answer an open question; the first answer wins and a later one is told so. Any
//! of them may stop the turn. What the session does is seen through [`Audience`], and where it
//! stands through [`Live::standing`].

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use castellan_core::event::{Answer, ApprovalItem, State as Activity, TurnEnd};
use castellan_core::{CancelSource, CycleId, ModelError, PictureRef, Recorded, SessionId};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::error::Error;
use crate::session::compaction::Compacted;
use crate::session::driver::{Session, TurnOutcome};
use crate::session::{Journal, Watcher};
use crate::usage::{Price, Spent};

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
    /// The number of each of `items` among all the calls the round asked about, from 1. A call keeps
    /// its number whatever becomes of the others.
    pub numbers: Vec<usize>,
    /// How many calls the round asked about, those that are decided by now with them.
    pub asked: usize,
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
    #[error("{QUEUE_LIMIT} messages wait already; say this one again once some are answered")]
    Full,
    /// The session does something that leaves no room for it.
    #[error("the session is busy; stop the turn, or answer its question, and ask again")]
    Busy,
    /// The session has been left.
    #[error("the session has been left; what is stored can be resumed")]
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
    Compact(Option<String>, Reply<Compacted>),
    Leave,
}

type Reply<T = ()> = oneshot::Sender<Result<T, Refusal>>;

struct Shared {
    id: SessionId,
    queue: Mutex<VecDeque<Said>>,
    /// Something was queued, or a stop was asked for.
    stirred: Notify,
    stop: Mutex<CancelSource>,
    standing: watch::Sender<Standing>,
    /// What the session has used is read here, whatever its driver does.
    journal: Arc<Journal>,
    prices: BTreeMap<String, Price>,
}

impl Shared {
    /// Changes the queue and says how long it is now. Nobody sees one without the other.
    fn queue<T>(&self, change: impl FnOnce(&mut VecDeque<Said>) -> T) -> T {
        let mut queue = lock(&self.queue);
        let changed = change(&mut queue);
        let queued = queue.len();
        self.standing
            .send_if_modified(|standing| std::mem::replace(&mut standing.queued, queued) != queued);
        changed
    }

    /// Says that nothing will be done any more.
    fn left(&self) {
        let mut queue = lock(&self.queue);
        queue.clear();
        self.standing.send_modify(|standing| {
            standing.left = true;
            standing.activity = Activity::Idle;
            standing.queued = 0;
        });
    }
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
    pub fn start(session: Session) -> (Self, impl Future<Output = Result<Session, Error>> + Send) {
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
            journal: Arc::clone(&session.journal),
            prices: session.parts.prices.clone(),
        });
        let driver = Driver {
            session,
            shared: Arc::clone(&shared),
            inbox,
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
        self.shared.queue(|queue| {
            // Whoever leaves says so under the same lock, so nothing is queued that nobody takes.
            if self.shared.standing.borrow().left {
                Err(Refusal::Left)
            } else if queue.len() >= QUEUE_LIMIT {
                Err(Refusal::Full)
            } else {
                queue.push_back(said.into());
                Ok(())
            }
        })?;
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
        let back = self.shared.queue(|queue| {
            lock(&self.shared.stop).cancel();
            queue.drain(..).collect()
        });
        self.shared.stirred.notify_one();
        back
    }

    /// Stops the present turn and ends the driver. What was queued is not said any more; an open
    /// question stays open in the log.
    pub async fn leave(&self) {
        // A driver that is gone has left.
        drop(self.wishes.send(Wish::Leave).await);
    }

    /// Replaces the older part of the conversation by a summary that dwells on `focus`. A stop ends
    /// it and leaves the conversation as it was.
    ///
    /// # Errors
    /// [`Refusal::Busy`] while a turn is under way or a question is open; what
    /// [`Session::compact`] says.
    pub async fn compact(&self, focus: Option<String>) -> Result<Compacted, Refusal> {
        self.wish(|reply| Wish::Compact(focus, reply)).await
    }

    /// What the session has used until now, by model, and what that costs.
    #[must_use]
    pub fn usage(&self) -> Vec<Spent> {
        self.shared.journal.usage(&self.shared.prices)
    }

    async fn wish<T>(&self, wish: impl FnOnce(Reply<T>) -> Wish) -> Result<T, Refusal> {
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
    leaving: bool,
}

/// However the driver ends, dropped in mid-turn included, everybody learns that it is gone.
struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.left();
    }
}

/// What makes a driver that stands still move.
enum Stir {
    Wish(Option<Wish>),
    Queue,
    Impatience,
}

impl Driver {
    async fn drive(mut self) -> Result<Session, Error> {
        let _ended = Ended(Arc::clone(&self.shared));
        self.run().await?;
        Ok(self.session)
    }

    async fn run(&mut self) -> Result<(), Error> {
        while !self.leaving {
            let question = self.session.question();
            let stopped = lock(&self.shared.stop).token().is_cancelled();
            let overdue = self.session.patience_left() == Some(Duration::ZERO);
            match &question {
                // Stopping a turn that waits closes what it asked, and so does the turn itself with
                // what has stood for too long.
                Some(_) if stopped || overdue => self.turn().await?,
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
        self.shared.queue(|queue| {
            let said = queue.pop_front();
            if said.is_some() {
                *lock(&self.shared.stop) = CancelSource::new();
                // Nobody may see it idle with nothing queued while a turn is about to begin.
                self.shared
                    .standing
                    .send_modify(|standing| standing.activity = Activity::Running);
            }
            said
        })
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
        let impatience = match self.session.patience_left() {
            Some(left) => self.session.parts.clock.sleep(left),
            None => Box::pin(futures::future::pending()),
        };
        let stir = tokio::select! {
            wish = self.inbox.recv() => Stir::Wish(wish),
            () = self.shared.stirred.notified() => Stir::Queue,
            () = impatience => Stir::Impatience,
        };
        match stir {
            Stir::Queue | Stir::Impatience => Ok(()),
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
                if go {
                    *lock(&self.shared.stop) = CancelSource::new();
                    // Whoever asked must not see it idle any more.
                    self.show(Activity::Running, None);
                }
                drop(reply.send(taken));
                if go {
                    self.turn().await?;
                }
                Ok(())
            }
            Stir::Wish(Some(Wish::Compact(focus, reply))) => match asked {
                // The question comes first.
                Some(_) => {
                    drop(reply.send(Err(Refusal::Busy)));
                    Ok(())
                }
                None => {
                    let compacted = self.compact(focus).await;
                    tell(reply, compacted)
                }
            },
            Stir::Wish(Some(Wish::Decide(cycle_id, by, answers, reply))) => {
                let decided = self.session.decide(cycle_id, &by, answers).await;
                let go = decided.is_ok() && self.session.question().is_none();
                tell(reply, decided)?;
                if go {
                    self.turn().await?;
                }
                Ok(())
            }
        }
    }

    /// Runs the turn until it is over or somebody must decide.
    async fn turn(&mut self) -> Result<(), Error> {
        self.show(Activity::Running, None);
        let cancel = lock(&self.shared.stop).token();
        let turn = self.session.run(cancel);
        let outcome = attend(turn, &self.shared, &mut self.inbox, &mut self.leaving).await?;
        if let TurnOutcome::Over(end, failure) = outcome {
            self.shared
                .standing
                .send_modify(|standing| standing.last = Some((end, failure)));
        }
        Ok(())
    }

    async fn compact(&mut self, focus: Option<String>) -> Result<Compacted, Error> {
        *lock(&self.shared.stop) = CancelSource::new();
        self.show(Activity::Running, None);
        let cancel = lock(&self.shared.stop).token();
        let compaction = self.session.compact(focus, cancel);
        attend(compaction, &self.shared, &mut self.inbox, &mut self.leaving).await
    }
}

/// Tells whoever asked how it went. What can't be recorded ends the driver instead, which says so to
/// everybody; anything else is for whoever asked.
fn tell<T>(reply: Reply<T>, done: Result<T, Error>) -> Result<(), Error> {
    match done {
        Err(error) if error.is_lasting() => Err(error),
        done => {
            // Whoever asked may be gone.
            drop(reply.send(done.map_err(Refusal::Session)));
            Ok(())
        }
    }
}

/// Does `work` to its end and turns away what can't be done meanwhile. Leaving stops it.
async fn attend<T>(
    work: impl Future<Output = T>,
    shared: &Shared,
    inbox: &mut mpsc::Receiver<Wish>,
    leaving: &mut bool,
) -> T {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            wish = inbox.recv(), if !*leaving => match wish {
                None | Some(Wish::Leave) => {
                    *leaving = true;
                    lock(&shared.stop).cancel();
                }
                Some(Wish::TakeUp(reply)) => drop(reply.send(Err(Refusal::Busy))),
                Some(Wish::Compact(_, reply)) => drop(reply.send(Err(Refusal::Busy))),
                Some(Wish::Decide(asked, _, _, reply)) => {
                    let gone = Error::AlreadyDecided { asked, open: None };
                    drop(reply.send(Err(Refusal::Session(gone))));
                }
            },
        }
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
