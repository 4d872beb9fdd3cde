//! The port through which the gate tells what happens.

use castellan_core::{Block, CallId, Event};
use castellan_store::audit::AuditEntry;
use futures::future::BoxFuture;

use crate::error::Error;

/// Keeps what the gate tells it. Events come in three ways: noted ones wait for the next commit,
/// a commit makes them durable, and passing ones are shown and forgotten.
pub trait Recorder: Send + Sync {
    /// Takes a durable event, to be kept with the next [`commit`](Self::commit).
    fn note(&self, event: Event);

    /// Takes an audit row, to be kept with the next [`commit`](Self::commit).
    fn audit(&self, entry: AuditEntry);

    /// Makes all that was noted durable. The gate lets nothing take effect before this returns.
    ///
    /// # Errors
    /// [`Error::Record`]; what was noted is then not kept.
    fn commit(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Shows a passing event to whoever watches.
    fn pass(&self, event: Event);

    /// Takes what of a result is neither words nor a picture, just before the result is noted. It is
    /// for surfaces that can carry it and is not kept.
    fn blocks(&self, _call_id: CallId, _blocks: Vec<Block>) {}
}
