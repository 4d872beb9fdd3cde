//! The connections of MCP clients: what earlier calls of one have left behind for its later ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;
use crate::engine::Connection;

/// How many connections are remembered. A request without a session is a connection of its own;
/// the one that was used longest ago is forgotten first, and with it which files its client has
/// read.
const REMEMBERED: usize = 1_024;

/// Connections by the key their transport gave them.
#[derive(Debug, Default)]
pub(super) struct Connections(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by_key: HashMap<Arc<str>, (u64, Arc<Connection>)>,
    /// Counts uses.
    now: u64,
}

impl Connections {
    /// The connection of that key; opened where it is new.
    pub(super) fn get(
        &self,
        key: &Arc<str>,
        open: impl FnOnce() -> Result<Connection, Error>,
    ) -> Result<Arc<Connection>, Error> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.now += 1;
        let now = known.now;
        if let Some((used, connection)) = known.by_key.get_mut(key) {
            *used = now;
            return Ok(Arc::clone(connection));
        }
        if known.by_key.len() >= REMEMBERED {
            // An eighth at once, so that a stream of requests does not search each time.
            let mut uses: Vec<u64> = known.by_key.values().map(|(used, _)| *used).collect();
            uses.sort_unstable();
            let oldest = uses.get(REMEMBERED / 8).copied().unwrap_or_default();
            known.by_key.retain(|_, (used, _)| *used > oldest);
        }
        let connection = Arc::new(open()?);
        known
            .by_key
            .insert(Arc::clone(key), (now, Arc::clone(&connection)));
        Ok(connection)
    }
}
