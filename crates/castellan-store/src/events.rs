//! The event log: append-only, numbered per session from 1 without gaps.
//!
//! Two processes can't both append: each says after which event its own follow, and whoever is
//! second is told so.

use std::sync::Arc;

use castellan_core::{Event, Recorded, SessionId, Timestamp};
use serde_json::error::Category;

use crate::audit::{self, AuditEntry};
use crate::error::{Error, Result};
use crate::sessions;
use crate::tx::{Row, Tx, Value};

/// Appends `events` to the log of `session`, and `audits` to the audit chain, in one transaction;
/// the sequence number of the session's last event afterwards.
///
/// `expected` is the last event the caller knows of, 0 for a session that doesn't exist yet, whose
/// first event must be [`Event::SessionStart`]. Where an event brings a sequence number, it must be
/// the one it gets. `events` may be empty.
///
/// # Errors
/// [`Error::Conflict`] where the log isn't at `expected`; [`Error::Invalid`] for events that are not
/// durable, of another session, or misnumbered.
pub fn append(
    tx: &Tx<'_>,
    session: SessionId,
    expected: u64,
    events: &[Recorded],
    audits: &[AuditEntry],
) -> Result<u64> {
    let mut last = expected;
    for recorded in events {
        last += 1;
        belongs(recorded, session, last)?;
    }
    let begun = match events.first() {
        Some(first) if expected == 0 => sessions::begin(tx, session, first)?,
        _ => true,
    };
    if !begun || !sessions::advance(tx, session, expected, last, events)? {
        let found = tx.one(
            "SELECT last_seq FROM sessions WHERE id = $1",
            &[session.to_string().into()],
            |row| row.get(0),
        )?;
        return Err(Error::Conflict {
            session,
            expected,
            found: found.unwrap_or(0),
        });
    }
    let id = session.to_string();
    for (seq, recorded) in (expected + 1..).zip(events) {
        let body = serde_json::to_string(&recorded.event).map_err(|error| {
            Error::invalid(format!(
                "the {} event cannot be written as JSON: {error}",
                recorded.event.kind()
            ))
        })?;
        tx.execute(
            "INSERT INTO events (session, seq, ts, kind, body) VALUES ($1, $2, $3, $4, $5)",
            &[
                (&id).into(),
                Value::unsigned(seq)?,
                recorded.ts.into(),
                recorded.event.kind().into(),
                body.into(),
            ],
        )?;
    }
    audit::append(tx, audits)?;
    Ok(last)
}

fn belongs(recorded: &Recorded, session: SessionId, seq: u64) -> Result<()> {
    let kind = recorded.event.kind();
    if recorded.session != session {
        return Err(Error::invalid(format!(
            "the {kind} event belongs to session {}, not to {session}",
            recorded.session
        )));
    }
    if !recorded.event.is_durable() {
        return Err(Error::invalid(format!(
            "the {kind} event only passes by and is never stored"
        )));
    }
    if recorded.seq.is_some_and(|own| own != seq) {
        return Err(Error::invalid(format!(
            "the {kind} event says it is number {}, but it would be number {seq}",
            recorded.seq.unwrap_or(0)
        )));
    }
    Ok(())
}

/// The events of `session` after number `after` (0 for all), in order.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::NewerEvent`] for an event this version doesn't know;
/// [`Error::DamagedRow`] for one that is no JSON, or missing.
pub fn load(tx: &Tx<'_>, session: SessionId, after: u64) -> Result<Vec<Recorded>> {
    let mut wanted = after;
    let rows = tx.query(
        "SELECT seq, ts, kind, body FROM events WHERE session = $1 AND seq > $2 ORDER BY seq",
        &[session.to_string().into(), Value::unsigned(after)?],
        |row| {
            wanted += 1;
            stored(row, session, wanted)
        },
    )?;
    let last = sessions::get(tx, session)?.last_seq;
    if last > wanted {
        return Err(gap(session, wanted + 1));
    }
    understood(session, &rows)
}

/// How many events are worth a thread to make sense of them.
const WORTH_A_THREAD: usize = 1_000;
/// How many threads at most.
const THREADS: usize = 4;

/// The events in these rows. Making sense of them is most of the work of resuming a long session, so
/// it is shared among the processors.
fn understood(session: SessionId, rows: &[Stored]) -> Result<Vec<Recorded>> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = processors.min(THREADS).min(rows.len() / WORTH_A_THREAD);
    if threads < 2 {
        return rows.iter().map(|row| event(row, session)).collect();
    }
    std::thread::scope(|scope| {
        let parts: Vec<_> = rows
            .chunks(rows.len().div_ceil(threads))
            .map(|part| {
                let work = move || part.iter().map(|row| event(row, session)).collect();
                scope.spawn(work)
            })
            .collect();
        let mut all = Vec::with_capacity(rows.len());
        for part in parts {
            let part: Result<Vec<Recorded>> = part
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.extend(part?);
        }
        Ok(all)
    })
}

/// A row as it is stored.
struct Stored {
    seq: u64,
    ts: Timestamp,
    kind: String,
    body: String,
}

fn stored(row: &Row<'_>, session: SessionId, wanted: u64) -> Result<Stored> {
    let seq: u64 = row.get(0)?;
    if seq != wanted {
        return Err(gap(session, wanted));
    }
    Ok(Stored {
        seq,
        ts: row.get(1)?,
        kind: row.text(2).unwrap_or("?").to_owned(),
        body: row.text(3)?.to_owned(),
    })
}

fn event(row: &Stored, session: SessionId) -> Result<Recorded> {
    let Stored {
        seq,
        ts,
        kind,
        body,
    } = row;
    let event: Event = serde_json::from_str(body).map_err(|error| {
        match error.classify() {
            // Well-formed, but not in our language: a kind, a word or a shape we don't know.
            Category::Data => Error::NewerEvent {
                session,
                seq: *seq,
                kind: kind.clone(),
                source: Arc::new(error),
            },
            Category::Syntax | Category::Eof | Category::Io => Error::DamagedRow {
                what: format!("event {seq} of session {session} (`{kind}`)"),
                why: error.to_string(),
            },
        }
    })?;
    Ok(Recorded {
        ts: *ts,
        seq: Some(*seq),
        session,
        event,
    })
}

fn gap(session: SessionId, seq: u64) -> Error {
    Error::DamagedRow {
        what: format!("the log of session {session}"),
        why: format!("event {seq} is missing"),
    }
}
