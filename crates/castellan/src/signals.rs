//! Requests to stop that come from outside.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{CommandError, io};

/// Requests to stop: Ctrl-C or a polite signal. From the first on none is missed.
pub(crate) struct Signals([Signal; 3]);

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    /// Where the system lets nobody listen.
    pub(crate) fn listen() -> Result<Self, CommandError> {
        let all = || {
            Ok([
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
                signal(SignalKind::hangup())?,
            ])
        };
        all().map(Self).map_err(io("wait for signals"))
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
