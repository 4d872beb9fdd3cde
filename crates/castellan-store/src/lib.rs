//! Everything durable: the event log, the list of sessions, the audit chain, standing
//! permissions, signals, the blackboard, memories, the versions of what may evolve, and what
//! episodes came to.
//!
//! A query is a plain synchronous function over [`Tx`], written once, one module per topic
//! ([`sessions`], [`events`], [`audit`], [`grants`], [`signals`], [`blackboard`], [`memories`],
//! [`genome`], [`episodes`]). [`Store::write`] and [`Store::read`] run such functions where a database may be
//! waited for. What is particular to SQLite stands in `sqlite/`; another database joins as another
//! backend of [`Tx`] and must pass the same conformance suite (`tests/it/conformance.rs`,
//! `tests/it/kept.rs`).
//!
//! This crate knows no clock and mints no id: times and ids come in. It runs no process, opens no
//! connection to another machine, and judges nothing.
//!
//! Start reading at [`Store`], then [`tx`], then [`events`].

pub mod audit;
pub mod blackboard;
mod claim;
pub mod episodes;
mod error;
pub mod events;
pub mod genome;
pub mod grants;
mod late;
pub mod memories;
pub mod sessions;
mod short;
pub mod signals;
mod sqlite;
mod store;
pub mod tx;
mod work;

pub use claim::SessionClaim;
pub use error::{Error, ErrorKind, Result};
pub use late::LateStore;
pub use sqlite::{SCHEMA, Settings, Synchronous};
pub use store::{Checked, Store};
pub use tx::{Row, Tx, Value};

/// The first rows of a list, with how many there are in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// At most as many rows as were asked for.
    pub rows: Vec<T>,
    /// How many rows there are without the limit.
    pub total: u64,
}
