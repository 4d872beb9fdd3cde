//! Signals in zones, and the history of their changes.
//!
//! A signal is one row: its strength right after its last change. Changing it reads, computes and
//! writes in one transaction, so that changes by any number of processes add up. Each change is also
//! a row of its own in the history, with the strength after it, so that what a signal was at any
//! time can be told even where older rows are gone.

use std::time::Duration;

use castellan_core::Timestamp;
use castellan_core::field::{self, Mark};

use crate::Page;
use crate::error::{Error, Result};
use crate::tx::{Row, Tx, Value};

/// How many signals one zone holds.
pub const ZONE_LIMIT: u64 = 1000;

/// How many signals all zones hold together.
pub const SIGNAL_LIMIT: u64 = 100_000;

/// How long changes are kept.
pub const RETENTION: Duration = Duration::from_hours(7 * 24);

/// How many of the newest changes of one signal are kept.
pub const KEPT_PER_SIGNAL: u64 = 10_000;

/// How many of the newest changes of all signals are kept.
pub const KEPT: u64 = 100_000;

/// Old changes are removed with every so many new ones of a signal, or of all.
const PRUNE_EVERY: u64 = 64;

/// How many are removed then at most, so that no change has to wait for long.
const PRUNED_AT_ONCE: u32 = 512;

/// A change to a signal.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Where.
    pub zone: String,
    /// What.
    pub signal: String,
    /// What is added; negative to take away.
    pub amount: f64,
    /// The half-life in seconds from now on, 0 for none. Where it is left out, the signal keeps its
    /// own, and a new one gets `fresh_half_life`.
    pub half_life: Option<f64>,
    /// The half-life of a signal that is new and is given none.
    pub fresh_half_life: f64,
    /// Who makes it.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// A signal right after its last change.
#[derive(Debug, Clone, PartialEq)]
pub struct Signal {
    /// Where.
    pub zone: String,
    /// What.
    pub signal: String,
    /// How strong it was then. [`Self::strength_at`] says what it is later.
    pub mark: Mark,
    /// All that was ever added to it.
    pub total: f64,
    /// How often it was changed.
    pub changes: u64,
    /// Who changed it last.
    pub by: String,
}

impl Signal {
    /// How strong it is at `now`.
    #[must_use]
    pub fn strength_at(&self, now: Timestamp) -> f64 {
        field::decayed(
            self.mark.strength,
            self.mark.half_life,
            now.since(self.mark.at),
        )
    }
}

/// What a change came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// The strength right before.
    pub before: f64,
    /// The signal right after.
    pub signal: Signal,
}

const COLUMNS: &str = "zone, signal, strength, at, half_life, total, changes, author";

/// Changes a signal, which begins at 0 where there is none, and keeps the change in the history.
/// What was changed a moment ago by a process whose clock is a little ahead is changed at that
/// later time.
///
/// # Errors
/// [`Error::Limit`] where the signal is new and its zone, or the store, holds no more.
pub fn change(tx: &Tx<'_>, change: &Change) -> Result<Changed> {
    let known = get(tx, &change.zone, &change.signal)?;
    if known.is_none() {
        make_room(tx, &change.zone, change.at)?;
    }
    let at = known
        .as_ref()
        .map_or(change.at, |signal| field::moment(change.at, signal.mark.at));
    let before = known.as_ref().map_or(0.0, |signal| signal.strength_at(at));
    let kept_half_life = known
        .as_ref()
        .map_or(change.fresh_half_life, |signal| signal.mark.half_life);
    let half_life = change.half_life.unwrap_or(kept_half_life);
    let strength = field::changed(before, change.amount);
    let signal = Signal {
        zone: change.zone.clone(),
        signal: change.signal.clone(),
        mark: Mark {
            at,
            strength,
            half_life,
        },
        total: known.as_ref().map_or(0.0, |signal| signal.total) + change.amount.max(0.0),
        changes: known.as_ref().map_or(0, |signal| signal.changes) + 1,
        by: change.by.clone(),
    };
    put(tx, &signal)?;
    remember(tx, &signal, change.amount)?;
    Ok(Changed { before, signal })
}

fn put(tx: &Tx<'_>, signal: &Signal) -> Result<()> {
    let mark = &signal.mark;
    let fades = field::fades(mark.at, mark.strength, mark.half_life);
    tx.execute(
        "INSERT INTO signals (zone, signal, strength, at, half_life, total, changes, author, fades)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT (zone, signal) DO UPDATE
         SET strength = $3, at = $4, half_life = $5, total = $6, changes = $7, author = $8,
             fades = $9",
        &[
            (&signal.zone).into(),
            (&signal.signal).into(),
            mark.strength.into(),
            mark.at.into(),
            mark.half_life.into(),
            signal.total.into(),
            Value::unsigned(signal.changes)?,
            (&signal.by).into(),
            fades.into(),
        ],
    )
    .map(drop)
}

fn remember(tx: &Tx<'_>, signal: &Signal, amount: f64) -> Result<()> {
    let mark = &signal.mark;
    let id: Option<u64> = tx.one(
        "INSERT INTO deposits (zone, signal, seq, at, amount, strength, half_life, author)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id",
        &[
            (&signal.zone).into(),
            (&signal.signal).into(),
            Value::unsigned(signal.changes)?,
            mark.at.into(),
            amount.into(),
            mark.strength.into(),
            mark.half_life.into(),
            (&signal.by).into(),
        ],
        |row| row.get(0),
    )?;
    if signal.changes.is_multiple_of(PRUNE_EVERY) {
        tx.execute(
            "DELETE FROM deposits WHERE zone = $1 AND signal = $2 AND seq <= $3",
            &[
                (&signal.zone).into(),
                (&signal.signal).into(),
                Value::unsigned(signal.changes.saturating_sub(KEPT_PER_SIGNAL))?,
            ],
        )?;
    }
    let id = id.unwrap_or(0);
    if id.is_multiple_of(PRUNE_EVERY) {
        prune(tx, id.saturating_sub(KEPT), mark.at)?;
    }
    Ok(())
}

/// Removes some of the oldest changes that are past retention.
fn prune(tx: &Tx<'_>, up_to: u64, now: Timestamp) -> Result<()> {
    tx.execute(
        "DELETE FROM deposits
         WHERE id IN (SELECT id FROM deposits ORDER BY id LIMIT $1) AND (id <= $2 OR at < $3)",
        &[
            PRUNED_AT_ONCE.into(),
            Value::unsigned(up_to)?,
            oldest_kept(now).into(),
        ],
    )
    .map(drop)
}

/// Where the history begins at `now`.
#[must_use]
pub fn oldest_kept(now: Timestamp) -> Timestamp {
    let length = i64::try_from(RETENTION.as_millis()).unwrap_or(i64::MAX);
    Timestamp(now.0.saturating_sub(length))
}

/// Sees to it that one more signal fits into `zone`: what has faded longer ago than its history
/// would be kept gives way.
fn make_room(tx: &Tx<'_>, zone: &str, now: Timestamp) -> Result<()> {
    for attempt in [0, 1] {
        let in_zone = count(
            tx,
            "SELECT count(*) FROM signals WHERE zone = $1",
            &[zone.into()],
        )?;
        let in_all = count(tx, "SELECT count(*) FROM signals", &[])?;
        if in_zone < ZONE_LIMIT && in_all < SIGNAL_LIMIT {
            return Ok(());
        }
        if attempt == 0 {
            let faded = [oldest_kept(now).into()];
            tx.execute(
                "DELETE FROM deposits WHERE (zone, signal) IN
                    (SELECT zone, signal FROM signals WHERE fades < $1)",
                &faded,
            )?;
            tx.execute("DELETE FROM signals WHERE fades < $1", &faded)?;
        }
    }
    Err(Error::Limit {
        what: format!(
            "a zone holds at most {ZONE_LIMIT} signals and all zones together {SIGNAL_LIMIT}"
        ),
    })
}

fn count(tx: &Tx<'_>, sql: &str, params: &[Value<'_>]) -> Result<u64> {
    Ok(tx.one(sql, params, |row| row.get(0))?.unwrap_or(0))
}

/// One signal, if it was ever changed.
///
/// # Errors
/// [`Error::DamagedRow`] for a row that is no signal.
pub fn get(tx: &Tx<'_>, zone: &str, name: &str) -> Result<Option<Signal>> {
    tx.one(
        &format!("SELECT {COLUMNS} FROM signals WHERE zone = $1 AND signal = $2"),
        &[zone.into(), name.into()],
        signal,
    )
}

/// All signals of a zone, at most [`ZONE_LIMIT`], by name.
///
/// # Errors
/// [`Error::DamagedRow`] for a row that is no signal.
pub fn in_zone(tx: &Tx<'_>, zone: &str) -> Result<Vec<Signal>> {
    tx.query(
        &format!("SELECT {COLUMNS} FROM signals WHERE zone = $1 ORDER BY signal"),
        &[zone.into()],
        signal,
    )
}

/// A zone and how much is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Its name.
    pub zone: String,
    /// How many signals it has.
    pub signals: u64,
    /// When one of them was last changed.
    pub changed: Timestamp,
}

/// The zones, most recently changed first, with how many there are in all.
///
/// # Errors
/// What [`Tx::query`] fails with.
pub fn zones(tx: &Tx<'_>, limit: u32) -> Result<Page<Zone>> {
    let rows = tx.query(
        "SELECT zone, count(*), max(at) FROM signals GROUP BY zone
         ORDER BY max(at) DESC, zone LIMIT $1",
        &[limit.into()],
        |row| {
            Ok(Zone {
                zone: row.get(0)?,
                signals: row.get(1)?,
                changed: row.get(2)?,
            })
        },
    )?;
    let total = count(tx, "SELECT count(DISTINCT zone) FROM signals", &[])?;
    Ok(Page { rows, total })
}

fn signal(row: &Row<'_>) -> Result<Signal> {
    Ok(Signal {
        zone: row.get(0)?,
        signal: row.get(1)?,
        mark: Mark {
            strength: row.get(2)?,
            at: row.get(3)?,
            half_life: row.get(4)?,
        },
        total: row.get(5)?,
        changes: row.get(6)?,
        by: row.get(7)?,
    })
}

/// Which changes [`history`] shows. Both times are included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Only in this zone.
    pub zone: Option<String>,
    /// Only of signals of this name.
    pub signal: Option<String>,
    /// From then on.
    pub since: Timestamp,
    /// Until then.
    pub until: Timestamp,
}

impl Span {
    fn params(&self) -> [Value<'_>; 4] {
        [
            self.zone.as_deref().into(),
            self.signal.as_deref().into(),
            self.since.into(),
            self.until.into(),
        ]
    }
}

const SPAN: &str = "(CAST($1 AS TEXT) IS NULL OR zone = $1)
     AND (CAST($2 AS TEXT) IS NULL OR signal = $2) AND at >= $3 AND at <= $4";

/// A change as it was kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Deposit {
    /// Where.
    pub zone: String,
    /// What.
    pub signal: String,
    /// Its place among the signal's changes, from 1.
    pub seq: u64,
    /// What was added; negative where it was taken away.
    pub amount: f64,
    /// The signal right after it.
    pub mark: Mark,
    /// Who made it.
    pub by: String,
}

/// The newest changes in `span`, newest first, with how many there are in all.
///
/// # Errors
/// [`Error::DamagedRow`] for a row that is no change.
pub fn history(tx: &Tx<'_>, span: &Span, limit: u32) -> Result<Page<Deposit>> {
    let [zone, signal, since, until] = span.params();
    let rows = tx.query(
        &format!(
            "SELECT zone, signal, seq, amount, strength, at, half_life, author FROM deposits
             WHERE {SPAN} ORDER BY at DESC, id DESC LIMIT $5"
        ),
        &[zone, signal, since, until, limit.into()],
        deposit,
    )?;
    let sql = format!("SELECT count(*) FROM deposits WHERE {SPAN}");
    let total = count(tx, &sql, &span.params())?;
    Ok(Page { rows, total })
}

fn deposit(row: &Row<'_>) -> Result<Deposit> {
    Ok(Deposit {
        zone: row.get(0)?,
        signal: row.get(1)?,
        seq: row.get(2)?,
        amount: row.get(3)?,
        mark: Mark {
            strength: row.get(4)?,
            at: row.get(5)?,
            half_life: row.get(6)?,
        },
        by: row.get(7)?,
    })
}

/// The signals that are in a span's zone and of its name, most recently changed first, with how
/// many there are in all. Its times do not matter.
///
/// # Errors
/// [`Error::DamagedRow`] for a row that is no signal.
pub fn named(tx: &Tx<'_>, span: &Span, limit: u32) -> Result<Page<Signal>> {
    const NAMED: &str = "(CAST($1 AS TEXT) IS NULL OR zone = $1)
         AND (CAST($2 AS TEXT) IS NULL OR signal = $2)";
    let [zone, name, _since, _until] = span.params();
    let rows = tx.query(
        &format!(
            "SELECT {COLUMNS} FROM signals WHERE {NAMED} ORDER BY at DESC, zone, signal LIMIT $3"
        ),
        &[zone.clone(), name.clone(), limit.into()],
        signal,
    )?;
    let sql = format!("SELECT count(*) FROM signals WHERE {NAMED}");
    let total = count(tx, &sql, &[zone, name])?;
    Ok(Page { rows, total })
}

/// The changes of one signal that are still kept, up to a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// The changes, in the order they were made.
    pub marks: Vec<Mark>,
    /// How strong it was before the first of them: 0 where that one made the signal, `None` where
    /// earlier ones are no longer kept.
    pub before: Option<f64>,
}

/// How the signal `name` in `zone` got where it was at `until`.
///
/// # Errors
/// [`Error::DamagedRow`] for a row that is no change.
pub fn course(tx: &Tx<'_>, zone: &str, name: &str, until: Timestamp) -> Result<Course> {
    let deposits = tx.query(
        "SELECT zone, signal, seq, amount, strength, at, half_life, author FROM deposits
         WHERE zone = $1 AND signal = $2 ORDER BY seq",
        &[zone.into(), name.into()],
        deposit,
    )?;
    let now = get(tx, zone, name)?;
    let first = deposits.first().map(|first| first.seq);
    let whole = first == Some(1) || now.is_none();
    let mut marks: Vec<Mark> = deposits.into_iter().map(|deposit| deposit.mark).collect();
    // The last change stands with the signal itself, also where its own row is past retention.
    if let Some(signal) = now.filter(|_| first.is_none()) {
        marks.push(signal.mark);
    }
    marks.retain(|mark| mark.at <= until);
    Ok(Course {
        before: whole.then_some(0.0),
        marks,
    })
}
