//! The store on SQLite: one file, one writer thread per process, a few reading connections.

mod check;
mod connection;
mod database;
mod migrate;
mod open;
mod readers;
mod rewrite;
mod writer;

use std::time::Duration;

pub(crate) use check::integrity;
pub(crate) use connection::{Connection, cell};
pub(crate) use database::Database;
pub use migrate::SCHEMA;
pub(crate) use open::{private_file, private_folder};

/// When a commit counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// Once it is on the disk: nothing acknowledged is lost, even when the power fails.
    #[default]
    Full,
    /// Once the system has it: a failing power supply can take the last commits with it, a killed
    /// process can't. The file stays sound.
    Normal,
}

/// How a store behaves. The default suits a person's machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// When a commit counts as done.
    pub synchronous: Synchronous,
    /// How many reads run at once, at least 1. Each has a thread and a connection of its own,
    /// which begin with the first read that needs them.
    pub readers: usize,
    /// How long one try to get the database waits for other processes.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            synchronous: Synchronous::Full,
            readers: 4,
            patience: Duration::from_secs(10),
        }
    }
}
