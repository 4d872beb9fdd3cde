//! One stored session, from its log to its next step.

pub mod driver;
mod journal;
pub mod request;
mod sight;
pub mod state;
pub mod step;

pub use journal::Watcher;
