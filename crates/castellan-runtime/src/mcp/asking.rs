//! What a call asks of its client, watched for what the client can't be asked.

use std::sync::{Mutex, PoisonError};

use castellan_core::Peer;
use castellan_core::peer::{Declared, Named, Told, Unasked};
use castellan_mcp::Ask;
use futures::future::{BoxFuture, FutureExt as _};

/// A client, and the first thing it was to be asked without having declared it.
pub(super) struct Asking {
    ask: Ask,
    lacks: Mutex<Option<&'static str>>,
}

impl Asking {
    pub(super) const fn new(ask: Ask) -> Self {
        Self {
            ask,
            lacks: Mutex::new(None),
        }
    }

    /// What the client would have had to declare.
    pub(super) fn lacks(&self) -> Option<&'static str> {
        *self.lacks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peer for Asking {
    fn declared(&self) -> Declared {
        self.ask.declared()
    }

    fn put(&self, round: Vec<Named>) -> BoxFuture<'_, Vec<Told>> {
        async move {
            let told = self.ask.put(round).await;
            let lacking = told.iter().find_map(|told| match told {
                Err(Unasked::Undeclared(capability)) => Some(*capability),
                _ => None,
            });
            if let Some(capability) = lacking {
                let mut lacks = self.lacks.lock().unwrap_or_else(PoisonError::into_inner);
                lacks.get_or_insert(capability);
            }
            told
        }
        .boxed()
    }
}
