//! The bytes of one answer as they arrive, within bounds of size and of patience.

use std::time::Duration;

use castellan_core::{Clock, ErrorCode};
use castellan_host::http::{Body, Timeouts};

use super::failure::{Failure, Retry, Site};

/// The most bytes that are read for one answer, in MiB. The longest real ones have a few.
const ANSWER_LIMIT_MIB: usize = 64;

/// The most bytes that are read for one answer.
const ANSWER_LIMIT: usize = ANSWER_LIMIT_MIB * 1024 * 1024;

/// An answer's body. Dropping it ends the exchange.
pub(super) struct Arrival<'a> {
    body: Body,
    site: &'a Site<'a>,
    clock: &'a dyn Clock,
    timeouts: Timeouts,
    /// How many bytes have been read.
    read: usize,
    /// When something of the answer came last, or the wait for it began.
    since: Duration,
    /// How long nothing of the answer may come.
    patience: Duration,
}

impl<'a> Arrival<'a> {
    /// A body of which nothing has been read.
    pub(super) fn new(
        body: Body,
        site: &'a Site<'a>,
        clock: &'a dyn Clock,
        timeouts: Timeouts,
    ) -> Self {
        Self {
            body,
            site,
            clock,
            timeouts,
            read: 0,
            since: clock.monotonic(),
            patience: timeouts.first_byte,
        }
    }

    /// Something of the answer has come, not merely a sign that the connection is alive.
    pub(super) fn heard(&mut self) {
        self.since = self.clock.monotonic();
        self.patience = self.timeouts.idle;
    }

    /// The next bytes, `None` at the end. Waits for no more where only signs of life have come for
    /// too long: the time limits of the body itself know bytes only.
    ///
    /// # Errors
    /// When patience or the bound on size is used up, or the connection breaks.
    pub(super) async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        if self.clock.monotonic().saturating_sub(self.since) > self.patience {
            return Err(self.site.only_alive(self.patience));
        }
        let chunk = self.body.chunk().await;
        let Some(chunk) = chunk.map_err(|error| self.site.unanswered(&error))? else {
            return Ok(None);
        };
        self.read += chunk.len();
        if self.read > ANSWER_LIMIT {
            return Err(self.site.fail(
                ErrorCode::ModelProtocol,
                Retry::Never,
                format!(
                    "the model server at {} sent an answer of more than {ANSWER_LIMIT_MIB} MiB",
                    self.site.address
                ),
                "",
            ));
        }
        Ok(Some(chunk.into()))
    }
}
