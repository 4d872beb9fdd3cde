//! One stored session, from its log to its next step.

pub(crate) mod asking;
pub mod compaction;
pub mod digest;
pub mod driver;
mod journal;
mod reckoning;
pub mod request;
pub mod rounds;
mod sight;
pub mod squeeze;
pub mod state;
pub mod step;

pub(crate) use journal::Journal;
pub use journal::Watcher;
