//! The journal of an open session: every event passes it, and nothing follows from a durable one
//! before it is stored.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use castellan_core::{Clock, Event, Recorded, SessionId};
use castellan_gate::trace::Trace;
use castellan_gate::{Error, Gate, Recorder};
use castellan_store::audit::AuditEntry;
use castellan_store::grants::{self, GrantRow};
use castellan_store::{Store, audit, events};
use futures::future::BoxFuture;

use super::state::State;
use crate::usage::{Price, Spent, Totals};

/// Sees every event of a session as it happens: the durable ones once they are stored, the passing
/// ones at once.
pub trait Watcher: Send + Sync {
    /// Takes note. Must not block.
    fn see(&self, event: &Recorded);
}

/// The journal.
pub(crate) struct Journal {
    session: SessionId,
    store: Store,
    clock: Arc<dyn Clock>,
    gate: Arc<Gate>,
    watcher: Arc<dyn Watcher>,
    inside: Mutex<Inside>,
}

struct Inside {
    state: State,
    trace: Trace,
    /// The number of the last stored event.
    stored: u64,
    events: Vec<Recorded>,
    audit: Vec<AuditEntry>,
    grants: Vec<GrantRow>,
    /// A commit has failed or was abandoned: what is stored is not what the state was made of.
    broken: bool,
}

impl Journal {
    pub(crate) fn new(
        session: SessionId,
        (store, clock, gate): (Store, Arc<dyn Clock>, Arc<Gate>),
        watcher: Arc<dyn Watcher>,
        state: State,
        trace: Trace,
    ) -> Self {
        let stored = state.last_seq;
        let inside = Inside {
            state,
            trace,
            stored,
            events: Vec::new(),
            audit: Vec::new(),
            grants: Vec::new(),
            broken: false,
        };
        Self {
            session,
            store,
            clock,
            gate,
            watcher,
            inside: Mutex::new(inside),
        }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the state, noted events included.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.inside().state)
    }

    /// What the session has used, at these prices.
    pub(crate) fn usage(&self, prices: &BTreeMap<String, Price>) -> Vec<Spent> {
        let totals = self.read(|state| state.usage.clone());
        let spent = |(model, totals): (String, Totals)| Spent {
            cost: prices.get(&model).map(|price| price.of(&totals)),
            model,
            totals,
        };
        totals.into_iter().map(spent).collect()
    }

    /// Takes up a turn that ended before it was done. Nothing is recorded: what follows is.
    pub(crate) fn reopen(&self) {
        self.inside().state.turn_end = None;
    }

    /// Takes a permission for good, to be kept with the answer it came with.
    pub(crate) fn give(&self, grant: GrantRow) {
        self.inside().grants.push(grant);
    }

    async fn store(&self) -> Result<(), Error> {
        let (expected, events, rows, given) = {
            let mut inside = self.inside();
            if inside.broken {
                return Err(Error::Record(BROKEN.into()));
            }
            let events = Arc::new(std::mem::take(&mut inside.events));
            let rows = Arc::new(std::mem::take(&mut inside.audit));
            let given = std::mem::take(&mut inside.grants);
            if events.is_empty() && rows.is_empty() && given.is_empty() {
                return Ok(());
            }
            // Until the store has answered, nobody knows what became of them; if this future fails
            // or is dropped, only opening the session again finds out.
            inside.broken = true;
            (inside.stored, events, rows, given)
        };
        let (reads, uses) = (self.gate.take_reads(), self.gate.take_uses());
        let (session, written) = (self.session, Arc::clone(&events));
        let stored = self.store.write(move |tx| {
            audit::count_reads(tx, &reads)?;
            grants::count_uses(tx, &uses)?;
            for grant in &given {
                grants::give(tx, grant)?;
            }
            events::append(tx, session, expected, &written, &rows)
        });
        stored
            .await
            .map_err(|error| Error::Record(Box::new(error)))?;
        let traced = {
            let mut inside = self.inside();
            inside.broken = false;
            inside.stored = events
                .last()
                .and_then(|event| event.seq)
                .unwrap_or(expected);
            inside.trace.append(events.iter())
        };
        for event in events.iter() {
            self.watcher.see(event);
        }
        traced.map_err(|error| Error::Record(Box::new(error)))
    }
}

/// What is said after a commit failed. The state has gone on from what is stored, so nothing may
/// follow from it.
const BROKEN: &str = "an earlier event of this session could not be stored; open the session again";

impl Recorder for Journal {
    fn note(&self, event: Event) {
        let ts = self.clock.now();
        let mut inside = self.inside();
        let seq = Some(inside.state.last_seq + 1);
        let recorded = Recorded {
            ts,
            seq,
            session: self.session,
            event,
        };
        inside.state.apply(&recorded);
        inside.events.push(recorded);
    }

    fn audit(&self, entry: AuditEntry) {
        self.inside().audit.push(entry);
    }

    fn commit(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.store())
    }

    fn pass(&self, event: Event) {
        let ts = self.clock.now();
        self.watcher.see(&Recorded {
            ts,
            seq: None,
            session: self.session,
            event,
        });
    }
}
