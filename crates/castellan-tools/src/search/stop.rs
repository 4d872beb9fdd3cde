//! Why a search ends before its end.

use std::sync::atomic::{AtomicU8, Ordering};

/// A sign that all threads of a search look at.
#[derive(Debug, Default)]
pub(super) struct Stop(AtomicU8);

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its time is over.
    Time,
    /// The call was cancelled.
    Cancelled,
}

impl Stop {
    /// Stops the search; the first cause stays.
    pub(super) fn stop(&self, cause: Cause) {
        let value = match cause {
            Cause::Time => 1,
            Cause::Cancelled => 2,
        };
        // Which of two causes came first doesn't matter.
        self.0
            .compare_exchange(0, value, Ordering::Relaxed, Ordering::Relaxed)
            .unwrap_or_default();
    }

    /// Why it should stop, if it should.
    pub(super) fn cause(&self) -> Option<Cause> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(Cause::Time),
            _ => Some(Cause::Cancelled),
        }
    }

    /// Whether it should stop.
    pub(super) fn is_reached(&self) -> bool {
        self.cause().is_some()
    }
}
