//! Sessions: a turn is a function of the stored log.
//!
//! [`session::state`] folds a session's events into its state. [`session::step`] reads that state
//! and says what to do next. [`session::driver`] does it, through the journal, which makes every
//! event durable before anything follows from it. Resuming after a crash, after a cancel or after
//! a person decided is the same as going on: fold the log, take the next step. [`live`] lets several
//! surfaces share a session while it is driven.
//!
//! This crate must not know the command line, HTTP or any provider's wire.
//!
//! Start reading at [`session::step`].

pub mod catalog;
pub mod engine;
pub mod episode;
pub mod error;
pub mod evolved;
pub mod live;
pub mod mcp;
pub mod meta;
pub mod principals;
pub mod replay;
pub mod resources;
pub mod session;
pub mod snapshot;
pub mod substrate;
pub mod usage;

pub use engine::{Connection, Engine, EngineParts, OutsideCall, Reply, TraceTo};
pub use error::Error;
pub use evolved::Evolved;
pub use live::{Audience, Live, Question, Refusal, Standing};
pub use session::compaction::Compacted;
pub use session::driver::{Parts, Session, TurnOutcome};
pub use session::step::Limits;
pub use usage::{Price, Spent};
