//! A request under way: the provider's work in a task of its own, what it asks of the client, and
//! what it says meanwhile.
//!
//! The work is polled apart from whoever waits for it, so that it goes on while a modern client
//! fetches an answer, a panic of it is a result like any other, and the questions of one step are
//! gathered: what the work asks before it waits comes out as one round. Where the work has tasks of
//! its own, what one of them asks at once still does.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use castellan_core::CancelSource;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::notes::Notes;
use crate::ask::{MOST_QUESTIONS, Posed};
use crate::provider::{Answer, Contents, Fault, Prompt};

/// How long work that was cancelled has to clean up before it is dropped.
const GRACE: Duration = Duration::from_secs(2);

/// What work results in.
#[derive(Debug)]
pub(crate) enum Done {
    Answer(Answer),
    Prompt(Prompt),
    Contents(Vec<Contents>),
}

/// Where work stops for somebody else.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It asks, all of this at once.
    Asks(Vec<Posed>),
    /// It is over.
    Done(Result<Done, Fault>),
}

/// Work under way. Dropped, it is cancelled.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) notes: Arc<Notes>,
    turns: mpsc::Receiver<Turn>,
    /// Cancels when dropped.
    _cancel: CancelSource,
}

impl Run {
    /// Starts `work`, which has been given the other ends of `notes`, `questions` and `cancel`.
    /// Whoever waits for `works` waits for it.
    pub(crate) fn start(
        tasks: &TaskTracker,
        works: &TaskTracker,
        work: BoxFuture<'static, Result<Done, Fault>>,
        questions: mpsc::Receiver<Vec<Posed>>,
        notes: Arc<Notes>,
        cancel: CancelSource,
    ) -> Self {
        // Large enough that the work never waits for a client to take its turn.
        let (sender, turns) = mpsc::channel(MOST_QUESTIONS + 1);
        let counted = works.token();
        tasks.spawn(async move {
            drive(work, questions, sender).await;
            drop(counted);
        });
        Self {
            notes,
            turns,
            _cancel: cancel,
        }
    }

    /// The next turn.
    pub(crate) async fn turn(&mut self) -> Turn {
        self.turns.recv().await.unwrap_or_else(|| {
            let fault = Fault::new(Fault::INTERNAL, "the call ended without a result");
            Turn::Done(Err(fault))
        })
    }
}

async fn drive(
    work: BoxFuture<'static, Result<Done, Fault>>,
    mut questions: mpsc::Receiver<Vec<Posed>>,
    turns: mpsc::Sender<Turn>,
) {
    let mut work = AssertUnwindSafe(work).catch_unwind();
    loop {
        let step = futures::future::poll_fn(|context| {
            if let Poll::Ready(end) = work.poll_unpin(context) {
                return Poll::Ready(Turn::Done(end.unwrap_or_else(|_panic| Err(broken()))));
            }
            let mut asked = Vec::new();
            while let Poll::Ready(Some(round)) = questions.poll_recv(context) {
                asked.extend(round);
            }
            if asked.is_empty() {
                Poll::Pending
            } else {
                Poll::Ready(Turn::Asks(asked))
            }
        });
        let step = tokio::select! {
            step = step => step,
            () = turns.closed() => break,
        };
        let last = matches!(step, Turn::Done(_));
        if turns.send(step).await.is_err() {
            break;
        }
        if last {
            return;
        }
    }
    // Nobody waits any more, and the work has been told: what it asks now has no answer.
    drop(questions);
    if tokio::time::timeout(GRACE, work).await.is_err() {
        tracing::warn!("a cancelled call did not end by itself and was dropped");
    }
}

/// The panic itself has been reported where it happened.
fn broken() -> Fault {
    Fault::new(
        Fault::INTERNAL,
        "the server failed while it worked on this; its log has the details",
    )
}
