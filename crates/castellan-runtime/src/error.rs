//! What can keep a session from going on.

use castellan_core::{CallId, CycleId, SessionId};

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
    /// That question was answered, or another one stands in its place.
    #[error("failed to take the answer to {asked}: it is already decided{}", open.map_or_else(String::new, |open| format!("; {open} is open now")))]
    AlreadyDecided {
        /// The round of asking that was answered.
        asked: CycleId,
        /// The round that is open now.
        open: Option<CycleId>,
    },
    /// There is nothing older that a summary could stand for.
    #[error("{0} has nothing to make shorter: all of it is recent")]
    NothingToCompact(SessionId),
    /// Someone asked to stop before it was done.
    #[error("stopped before it was done; nothing was changed")]
    Stopped,
    /// A permission for good that was not among those offered, or that came with a no.
    #[error("failed to take the answer: `{grant}` was not offered as a permission for this call")]
    NotOffered {
        /// The permission.
        grant: String,
    },
    /// The gate handed a call back with neither a result nor a question: a defect of this program.
    #[error("{0} came back from the gate with neither a result nor a question")]
    Unanswerable(CallId),
    /// There is nothing to go on with.
    #[error("{0} has nothing to go on with: its last turn is done")]
    NothingToDo(SessionId),
}

impl Error {
    /// Whether the session can't go on in this process: what happens can't be recorded.
    pub(crate) const fn is_lasting(&self) -> bool {
        matches!(self, Self::Store(_) | Self::Gate(_))
    }
}
