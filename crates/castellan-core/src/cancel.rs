//! Cancellation that can be awaited, cloned and asked, without naming an async runtime.

use std::fmt;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

use futures::channel::oneshot;
use futures::future::{FutureExt as _, Shared};

/// The receiving side: a future that resolves once work should stop. Clones wait independently.
#[derive(Clone)]
pub struct Cancel(Shared<oneshot::Receiver<()>>);

/// The sending side. Dropping it without [`cancel`](Self::cancel) also cancels: work never outlives
/// the owner that could have stopped it.
pub struct CancelSource {
    sender: Mutex<Option<oneshot::Sender<()>>>,
    cancel: Cancel,
}

impl CancelSource {
    /// A source that has not been cancelled.
    #[must_use]
    pub fn new() -> Self {
        let (sender, receiver) = oneshot::channel();
        Self {
            sender: Mutex::new(Some(sender)),
            cancel: Cancel(receiver.shared()),
        }
    }

    /// The side to hand to the work.
    #[must_use]
    pub fn token(&self) -> Cancel {
        self.cancel.clone()
    }

    /// Asks the work to stop. Asking again changes nothing.
    pub fn cancel(&self) {
        let mut sender = self
            .sender
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        drop(sender.take());
    }
}

impl Default for CancelSource {
    fn default() -> Self {
        Self::new()
    }
}

impl Cancel {
    /// Whether work should stop already.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.clone().now_or_never().is_some()
    }
}

impl Future for Cancel {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_unpin(context).map(|_closed| ())
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cancel(cancelled: {})", self.is_cancelled())
    }
}

impl fmt::Debug for CancelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.cancel, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clone_sees_the_cancel() {
        let source = CancelSource::new();
        let (first, second) = (source.token(), source.token());
        assert!(!first.is_cancelled());
        source.cancel();
        source.cancel();
        assert!(first.is_cancelled() && second.is_cancelled());
        assert_eq!(second.now_or_never(), Some(()));
    }

    #[test]
    fn a_dropped_source_cancels_its_work() {
        let token = CancelSource::new().token();
        assert!(token.is_cancelled());
    }
}
