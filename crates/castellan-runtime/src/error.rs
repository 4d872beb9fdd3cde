//! What can keep a session from going on.

use castellan_core::SessionId;

/// Why a session can't go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] castellan_store::Error),
    /// The gate failed.
    #[error(transparent)]
    Gate(#[from] castellan_gate::Error),
    /// The log of a session does not begin with its start.
    #[error("failed to rebuild {0}: its log has no beginning")]
    NoBeginning(SessionId),
    /// There is nothing to go on with.
    #[error("{0} has nothing to go on with: its last turn is done")]
    NothingToDo(SessionId),
}
