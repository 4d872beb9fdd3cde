//! A point in a scripted reply at which the server waits until the test lets it go on.

use std::sync::Arc;

use crate::tally::Tally;

/// A closed gate. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<Sides>);

#[derive(Debug, Default)]
struct Sides {
    arrivals: Tally,
    opened: Tally,
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the server through, now and from now on.
    pub fn open(&self) {
        self.0.opened.add();
    }

    /// Blocks until the server stands at this gate: everything scripted before it has been sent.
    /// In an async test use [`reached`](Self::reached), which leaves the runtime running.
    pub fn wait_reached(&self) {
        self.0.arrivals.expect(1, "arrivals at the gate");
    }

    /// Resolves once the server stands at this gate.
    pub async fn reached(&self) {
        self.0.arrivals.reached(1).await;
    }

    /// The server's side: arrives and waits.
    pub(crate) fn pass(&self) {
        self.0.arrivals.add();
        self.0.opened.wait(1);
    }
}
