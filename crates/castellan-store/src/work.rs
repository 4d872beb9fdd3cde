//! A job on its way through the store: run, perhaps run again, answered once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use castellan_core::text::panic_words;
use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::tx::Tx;

/// A job whose result type is forgotten.
pub(crate) trait Work: Send {
    /// Runs the job and keeps its result for [`Self::answer`]. May be called again when the
    /// transaction around it is run again; the last result counts.
    fn run(&mut self, tx: &Tx<'_>) -> Result<()>;

    /// Hands the result to who waits for it, if anyone still does. Where the transaction as a whole
    /// came to nothing, that is the answer, unless the job itself had failed before.
    fn answer(self: Box<Self>, whole: Result<()>);
}

/// A job, its last result, and who waits for it.
struct Job<T, F> {
    work: F,
    result: Option<Result<T>>,
    waiting: oneshot::Sender<Result<T>>,
}

/// A job and the place where its answer will appear.
pub(crate) fn job<T, F>(work: F) -> (Box<dyn Work>, oneshot::Receiver<Result<T>>)
where
    T: Send + 'static,
    F: Fn(&Tx<'_>) -> Result<T> + Send + 'static,
{
    let (waiting, answer) = oneshot::channel();
    let job = Job {
        work,
        result: None,
        waiting,
    };
    (Box::new(job), answer)
}

impl<T, F> Work for Job<T, F>
where
    T: Send,
    F: Fn(&Tx<'_>) -> Result<T> + Send,
{
    fn run(&mut self, tx: &Tx<'_>) -> Result<()> {
        // Nothing of the job's survives a panic but what it did to the database, which is undone.
        let result = catch_unwind(AssertUnwindSafe(|| (self.work)(tx))).unwrap_or_else(|panic| {
            Err(Error::Panicked {
                message: panic_words(&*panic).to_owned(),
            })
        });
        let outcome = result.as_ref().map(|_| ()).map_err(Clone::clone);
        self.result = Some(result);
        outcome
    }

    fn answer(self: Box<Self>, whole: Result<()>) {
        let answer = match (self.result, whole) {
            (Some(Err(own)), _) => Err(own),
            (_, Err(whole)) => Err(whole),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(Error::Closed),
        };
        // Whoever asked may have gone; the work is done all the same.
        drop(self.waiting.send(answer));
    }
}
