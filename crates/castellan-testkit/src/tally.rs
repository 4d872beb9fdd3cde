//! A count that other threads and tasks can wait for.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// How long a blocking wait of this kit lasts before it is taken for a hang. Far longer than
/// anything it waits for needs, even on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A count that only grows.
#[derive(Default)]
pub(crate) struct Tally {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    count: usize,
    wakers: Vec<Waker>,
}

impl Tally {
    /// Adds one and wakes everybody who waits.
    pub(crate) fn add(&self) {
        let mut state = self.lock();
        state.count += 1;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.changed.notify_all();
        for waker in wakers {
            waker.wake();
        }
    }

    /// The count so far.
    pub(crate) fn count(&self) -> usize {
        self.lock().count
    }

    /// Blocks until the count is at least `wanted`.
    pub(crate) fn wait(&self, wanted: usize) {
        drop(
            self.changed
                .wait_while(self.lock(), |state| state.count < wanted)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Blocks until the count is at least `wanted`; panics once [`PATIENCE`] has passed.
    pub(crate) fn expect(&self, wanted: usize, what: &str) {
        let (state, timeout) = self
            .changed
            .wait_timeout_while(self.lock(), PATIENCE, |state| state.count < wanted)
            .unwrap_or_else(PoisonError::into_inner);
        let count = state.count;
        drop(state);
        assert!(
            !timeout.timed_out(),
            "waited {PATIENCE:?} for {wanted} {what}, saw {count}"
        );
    }

    /// Resolves once the count is at least `wanted`.
    pub(crate) async fn reached(&self, wanted: usize) {
        poll_fn(|context| {
            let mut state = self.lock();
            if state.count >= wanted {
                return Poll::Ready(());
            }
            state.wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tally({})", self.count())
    }
}
