//! The tools of this room on a real store, called as the gate calls them.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test both are how a failure is told, also in its functions that are no #[test]"
)]

mod blackboard;
mod child;
mod drive;
mod faults;
mod genome;
mod memory;
mod processes;
mod signals;
mod specs;
