//! Where calls from outside any session are told: their trace, and the audit.
//!
//! Every call has a [`Page`] of the one [`Ledger`]. What a page was told reaches the file in one
//! write at each commit, after the audit rows that belong to it are stored.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use castellan_core::event::ApprovalItem;
use castellan_core::tool::SessionEffect;
use castellan_core::{Block, CallId, Clock, CycleId, Event, Recorded, SessionId};
use castellan_gate::trace::Trace;
use castellan_gate::{Error, Gate, Recorder};
use castellan_store::audit::{self, AuditEntry};
use castellan_store::{Store, grants};
use futures::future::BoxFuture;

use super::Reply;
use crate::session::Watcher;

/// How long counts of reads and of grants' uses may wait for a commit that is due anyway.
const COUNTS_WAIT: Duration = Duration::from_secs(60);

/// Where calls are traced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceTo {
    /// Into `gate-DATE.jsonl` in this folder, which other processes write to as well.
    Daily(PathBuf),
    /// Into this file, which must not exist or be empty.
    File(PathBuf),
}

/// The ledger of one engine.
pub struct Ledger {
    store: Option<Store>,
    clock: Arc<dyn Clock>,
    gate: Arc<Gate>,
    inside: Mutex<Inside>,
}

struct Inside {
    to: TraceTo,
    trace: Trace,
    /// The day the open trace is of, where there is one for each.
    day: String,
    /// The last number of each connection that has written.
    numbers: HashMap<SessionId, u64>,
    /// When counts were last stored.
    counted: Duration,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}

impl Ledger {
    /// Opens the trace.
    ///
    /// # Errors
    /// [`Error::Trace`].
    pub(super) fn open(
        to: &TraceTo,
        store: Option<Store>,
        clock: Arc<dyn Clock>,
        gate: Arc<Gate>,
    ) -> Result<Self, Error> {
        let day = clock.now().date();
        let trace = match to {
            TraceTo::Daily(folder) => Trace::shared(folder, &day)?,
            TraceTo::File(path) => Trace::fresh(path)?,
        };
        let inside = Inside {
            to: to.clone(),
            trace,
            day,
            numbers: HashMap::new(),
            counted: clock.monotonic(),
        };
        Ok(Self {
            store,
            clock,
            gate,
            inside: Mutex::new(inside),
        })
    }

    /// A page for one call, or for what a run has to say itself.
    pub(super) fn page(
        self: &Arc<Self>,
        connection: SessionId,
        watcher: Option<Arc<dyn Watcher>>,
    ) -> Page {
        Page {
            ledger: Arc::clone(self),
            connection,
            watcher,
            told: Mutex::default(),
        }
    }

    /// Forgets the numbering of a connection that is gone.
    pub(super) fn forget(&self, connection: SessionId) {
        self.inside().numbers.remove(&connection);
    }

    /// Stores the counts that waited for a commit.
    ///
    /// # Errors
    /// [`Error::Record`].
    pub(super) async fn settle(&self) -> Result<(), Error> {
        match &self.store {
            Some(store) if self.gate.has_counts() => self.store_rows(store, Vec::new()).await,
            _ => Ok(()),
        }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores what must be durable, then writes the lines.
    async fn keep(
        &self,
        connection: SessionId,
        events: Vec<(castellan_core::Timestamp, Event)>,
        rows: Vec<AuditEntry>,
    ) -> Result<Vec<Recorded>, Error> {
        if let Some(store) = &self.store {
            let now = self.clock.monotonic();
            let due = now.saturating_sub(self.inside().counted) >= COUNTS_WAIT;
            if due || !rows.is_empty() {
                self.inside().counted = now;
                self.store_rows(store, rows).await?;
            }
        }
        let mut inside = self.inside();
        inside.turn_to(&self.clock.now().date())?;
        let number = inside.numbers.entry(connection).or_default();
        let numbered = |(ts, event)| {
            *number += 1;
            Recorded {
                ts,
                seq: Some(*number),
                session: connection,
                event,
            }
        };
        let recorded: Vec<Recorded> = events.into_iter().map(numbered).collect();
        inside.trace.append(&recorded)?;
        Ok(recorded)
    }

    async fn store_rows(&self, store: &Store, rows: Vec<AuditEntry>) -> Result<(), Error> {
        let (reads, uses) = (self.gate.take_reads(), self.gate.take_uses());
        let stored = store.write(move |tx| {
            audit::count_reads(tx, &reads)?;
            grants::count_uses(tx, &uses)?;
            audit::append(tx, &rows)
        });
        stored.await.map_err(|error| Error::Record(Box::new(error)))
    }
}

impl Inside {
    /// Opens the trace of another day, once it has come.
    fn turn_to(&mut self, day: &str) -> Result<(), Error> {
        if let TraceTo::Daily(folder) = &self.to
            && self.day != day
        {
            self.trace = Trace::shared(folder, day)?;
            day.clone_into(&mut self.day);
        }
        Ok(())
    }
}

/// What one call tells.
pub(super) struct Page {
    ledger: Arc<Ledger>,
    connection: SessionId,
    watcher: Option<Arc<dyn Watcher>>,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    events: Vec<(castellan_core::Timestamp, Event)>,
    rows: Vec<AuditEntry>,
    /// The last round of asking.
    asked: Option<(CycleId, Vec<ApprovalItem>)>,
    result: Option<(Reply, Vec<SessionEffect>)>,
    blocks: Vec<Block>,
}

impl Page {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was asked about a call in this round.
    pub(super) fn question(&self, cycle: CycleId, call: CallId) -> Option<ApprovalItem> {
        let told = self.told();
        let (_, items) = told.asked.as_ref().filter(|(asked, _)| *asked == cycle)?;
        items.iter().find(|item| item.call_id == call).cloned()
    }

    /// What became of the call.
    pub(super) fn reply(&self, call: CallId) -> Option<(Reply, Vec<SessionEffect>)> {
        let mut told = self.told();
        let (mut reply, effects) = told.result.take().filter(|(of, _)| of.call_id == call)?;
        reply.blocks = std::mem::take(&mut told.blocks);
        Some((reply, effects))
    }
}

impl Recorder for Page {
    fn note(&self, event: Event) {
        let mut told = self.told();
        match &event {
            Event::ApproveRequest { cycle_id, items } => {
                told.asked = Some((*cycle_id, items.clone()));
            }
            Event::ToolResult {
                call_id,
                output,
                is_error,
                effect,
                outcome,
                code,
                spill,
                session_effects,
                pictures,
                ..
            } => {
                let reply = Reply {
                    call_id: *call_id,
                    output: output.clone(),
                    is_error: *is_error,
                    outcome: outcome.clone(),
                    code: *code,
                    effect: *effect,
                    spill: spill.clone(),
                    pictures: pictures.clone(),
                    blocks: Vec::new(),
                };
                told.result = Some((reply, session_effects.clone()));
            }
            _ => {}
        }
        told.events.push((self.ledger.clock.now(), event));
    }

    fn audit(&self, entry: AuditEntry) {
        self.told().rows.push(entry);
    }

    fn commit(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let (events, rows) = {
                let mut told = self.told();
                (
                    std::mem::take(&mut told.events),
                    std::mem::take(&mut told.rows),
                )
            };
            if events.is_empty() && rows.is_empty() {
                return Ok(());
            }
            let kept = self.ledger.keep(self.connection, events, rows).await?;
            if let Some(watcher) = &self.watcher {
                for event in &kept {
                    watcher.see(event);
                }
            }
            Ok(())
        })
    }

    fn pass(&self, event: Event) {
        if let Some(watcher) = &self.watcher {
            watcher.see(&Recorded {
                ts: self.ledger.clock.now(),
                seq: None,
                session: self.connection,
                event,
            });
        }
    }

    fn blocks(&self, _call_id: CallId, blocks: Vec<Block>) {
        self.told().blocks = blocks;
    }
}
