//! The gate's audit chain: every row's hash covers the row and the hash of the row before.
//!
//! # How to recompute it
//! `hash = SHA-256("castellan audit 1\n" ‖ prev ‖ field 1 ‖ … ‖ field 13)`. `prev` is the 32 bytes of
//! the hash of the row before, 32 zero bytes for row 1. The fields are, in this order: `seq`, `id`,
//! `ts`, `caller`, `claimed`, `tool`, `source`, `session`, `call_id`, `outcome`, `code`,
//! `duration_ms`, `params`. Each is its text (numbers in decimal) in UTF-8, preceded by its length in
//! bytes as 8 bytes, the most significant first; an absent field is eight bytes `ff` and nothing
//! else. The lengths make sure that no two different rows are the same bytes.
//!
//! # What it proves
//! [`verify`] finds a row that was changed, removed or put in between, and, because the newest row
//! is also written down apart (`audit_head`), rows cut off the end. Rows that retention removed are
//! represented by the hash of the last of them (`audit_anchor`).
//!
//! It can't find what someone did who may write the whole database and knows this description:
//! they can compute the chain anew from wherever they like, head and anchor included. Who needs
//! proof against that notes the [`head`] somewhere such a person can't write, from time to time:
//! the chain then holds exactly if the row with that number still has that hash.

use std::borrow::Cow;

use castellan_core::id::AuditId;
use castellan_core::{CallId, SessionId, Timestamp};
use sha2::{Digest as _, Sha256};

use crate::Page;
use crate::error::{Error, Result};
use crate::tx::{Row, Tx, Value};

/// A SHA-256 hash.
pub type Hash = [u8; 32];

/// What every hashed row begins with, so that a change of the encoding changes every hash.
const DOMAIN: &[u8] = b"castellan audit 1\n";

/// How many rows are verified between two queries.
const CHUNK: u32 = 1000;

/// One call as the audit records it. NUL characters in the texts are stored as U+FFFD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its id, unique in the chain.
    pub id: AuditId,
    /// When the call ended.
    pub ts: Timestamp,
    /// Who made it, as resolved by the gate.
    pub caller: String,
    /// Who the call said made it, where that is someone else.
    pub claimed: Option<String>,
    /// The tool.
    pub tool: String,
    /// The surface the call came from.
    pub source: String,
    /// The session it was made in, if any.
    pub session: Option<SessionId>,
    /// The call.
    pub call_id: CallId,
    /// `done`, `failed`, `denied`, `timed_out` or `cancelled`.
    pub outcome: String,
    /// The error code, for all but `done`.
    pub code: Option<String>,
    /// How long the call ran.
    pub duration_ms: u64,
    /// A short summary of the arguments, without content and secrets.
    pub params: String,
}

/// A row of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Its place in the chain, from 1 without gaps.
    pub seq: u64,
    /// The call.
    pub entry: AuditEntry,
    /// The hash of this row.
    pub hash: Hash,
}

/// An end of the chain: the newest row, or the last one that retention removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The row's place; 0 where there is no such row.
    pub seq: u64,
    /// Its hash; zeroes where there is no such row.
    pub hash: Hash,
}

/// What [`verify`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// How many rows were read and found good.
    pub rows: u64,
    /// The first that isn't, if any; what comes after it was not looked at.
    pub first_bad: Option<Bad>,
}

/// Where the chain is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    /// The place in the chain.
    pub seq: u64,
    /// What is wrong there.
    pub what: String,
}

/// Which rows [`list`] shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Only calls that ended at this time or later.
    pub since: Option<Timestamp>,
    /// Only calls of this caller.
    pub caller: Option<String>,
    /// At most this many rows.
    pub limit: u32,
}

/// How often a caller called tools that only read, within a minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadCount {
    /// The caller.
    pub caller: String,
    /// The minute, as [`minute_of`] counts.
    pub minute: i64,
    /// How many calls.
    pub calls: u64,
}

/// The minute a time is in, counted from the Unix epoch.
#[must_use]
pub const fn minute_of(time: Timestamp) -> i64 {
    time.0.div_euclid(60_000)
}

/// Adds `entries` to the end of the chain.
///
/// # Errors
/// Kind `Constraint` where an id is in the chain already; [`Error::BrokenChain`] where someone else
/// has moved the head meanwhile, which no database this runs on lets happen.
pub fn append(tx: &Tx<'_>, entries: &[AuditEntry]) -> Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    let before = head(tx)?;
    let mut end = before;
    for entry in entries {
        let seq = end.seq + 1;
        let fields = Fields::new(entry, seq);
        let hash = fields.hash(&end.hash);
        tx.execute(
            "INSERT INTO audit (seq, id, ts, caller, claimed, tool, source, session, call_id,
                outcome, code, duration_ms, params, prev, hash)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
            &[
                Value::unsigned(seq)?,
                fields.text(1),
                entry.ts.into(),
                fields.text(3),
                fields.text(4),
                fields.text(5),
                fields.text(6),
                fields.text(7),
                fields.text(8),
                fields.text(9),
                fields.text(10),
                Value::unsigned(entry.duration_ms)?,
                fields.text(12),
                (&end.hash).into(),
                (&hash).into(),
            ],
        )?;
        end = End { seq, hash };
    }
    let moved = tx.execute(
        "UPDATE audit_head SET seq = $1, hash = $2 WHERE one = 1 AND seq = $3",
        &[
            Value::unsigned(end.seq)?,
            (&end.hash).into(),
            Value::unsigned(before.seq)?,
        ],
    )?;
    if moved == 1 {
        Ok(())
    } else {
        Err(broken(
            end.seq,
            "the record of the newest row has changed meanwhile",
        ))
    }
}

/// The newest row's number and hash.
///
/// # Errors
/// [`Error::BrokenChain`] where the record of it is gone.
pub fn head(tx: &Tx<'_>) -> Result<End> {
    end(tx, "SELECT seq, hash FROM audit_head WHERE one = 1")
}

fn end(tx: &Tx<'_>, sql: &str) -> Result<End> {
    tx.one(sql, &[], |row| {
        Ok(End {
            seq: row.get(0)?,
            hash: row.get(1)?,
        })
    })?
    .ok_or_else(|| broken(0, "the record of an end of the chain is gone"))
}

fn broken(seq: u64, what: &str) -> Error {
    Error::BrokenChain {
        seq,
        what: what.to_owned(),
    }
}

/// Recomputes the whole chain. What that proves is said at the top of this module.
///
/// # Errors
/// [`Error::BrokenChain`] where the record of an end is gone, and what [`Tx::query`] fails with; a
/// broken row is an answer, not an error.
pub fn verify(tx: &Tx<'_>) -> Result<Verdict> {
    let head = head(tx)?;
    let (last, mut verdict) = walk(tx, i64::MAX)?;
    if verdict.first_bad.is_none() && last != head {
        let (seq, what) = if last.seq < head.seq {
            let what = format!("the rows from here to {} are missing", head.seq);
            (last.seq + 1, what)
        } else if last.seq > head.seq {
            let what = format!("the record of the newest row says it is {}", head.seq);
            (head.seq + 1, what)
        } else {
            let what = "its hash is not the one in the record of the newest row".to_owned();
            (last.seq, what)
        };
        verdict.first_bad = Some(Bad { seq, what });
    }
    Ok(verdict)
}

/// Recomputes the chain from the anchor up to row `upto`; the last good row, and the verdict.
fn walk(tx: &Tx<'_>, upto: i64) -> Result<(End, Verdict)> {
    let mut last = end(tx, "SELECT seq, hash FROM audit_anchor WHERE one = 1")?;
    let mut rows = 0;
    // Rows before the anchor are none of the chain's.
    let mut from = i64::MIN;
    loop {
        let chunk = tx.query(
            "SELECT seq, CAST(seq AS TEXT), id, CAST(ts AS TEXT), caller, claimed, tool, source,
                session, call_id, outcome, code, CAST(duration_ms AS TEXT), params, prev, hash
             FROM audit WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3",
            &[from.into(), upto.into(), CHUNK.into()],
            stored,
        )?;
        let Some(newest) = chunk.last() else {
            return Ok((
                last,
                Verdict {
                    rows,
                    first_bad: None,
                },
            ));
        };
        from = newest.seq;
        for row in &chunk {
            match row.follows(&last) {
                Ok(next) => last = next,
                Err(what) => {
                    let first_bad = Some(Bad {
                        seq: last.seq + 1,
                        what,
                    });
                    return Ok((last, Verdict { rows, first_bad }));
                }
            }
            rows += 1;
        }
    }
}

/// A row as it stands in the table, of which nothing is believed.
struct Stored {
    seq: i64,
    fields: Fields<'static>,
    prev: Vec<u8>,
    hash: Vec<u8>,
}

fn stored(row: &Row<'_>) -> Result<Stored> {
    let mut fields: [Option<Cow<'static, str>>; FIELDS] = Default::default();
    for (column, field) in (1..).zip(&mut fields) {
        *field = row.get::<Option<String>>(column)?.map(Cow::Owned);
    }
    Ok(Stored {
        seq: row.get(0)?,
        fields: Fields(fields),
        prev: row.get(14)?,
        hash: row.get(15)?,
    })
}

impl Stored {
    /// This row as the end of a chain that ended with `last`, or why it can't follow it.
    fn follows(&self, last: &End) -> std::result::Result<End, String> {
        let seq = last.seq + 1;
        if u64::try_from(self.seq).ok() != Some(seq) {
            return Err(format!("the row is missing; row {} is the next", self.seq));
        }
        if self.prev != last.hash {
            return Err("it does not name the hash of the row before".to_owned());
        }
        let hash = self.fields.hash(&last.hash);
        if self.hash != hash {
            return Err("its content does not have the hash it was stored with".to_owned());
        }
        Ok(End { seq, hash })
    }
}

/// The newest rows that pass `filter`, the newest first, with how many pass it in all.
///
/// # Errors
/// What [`Tx::query`] fails with; [`Error::DamagedRow`] for a row with an id that is none.
pub fn list(tx: &Tx<'_>, filter: &Filter) -> Result<Page<AuditRow>> {
    let since = filter.since.map_or(i64::MIN, |since| since.0);
    let params: [Value<'_>; 3] = [
        since.into(),
        filter.caller.as_deref().into(),
        filter.limit.into(),
    ];
    let rows = tx.query(
        "SELECT seq, id, ts, caller, claimed, tool, source, session, call_id, outcome, code,
            duration_ms, params, hash
         FROM audit
         WHERE ts >= $1 AND (CAST($2 AS TEXT) IS NULL OR caller = $2)
         ORDER BY seq DESC LIMIT $3",
        &params,
        listed,
    )?;
    let (conditions, _limit) = params.split_at(2);
    let total = tx.one(
        "SELECT count(*) FROM audit
         WHERE ts >= $1 AND (CAST($2 AS TEXT) IS NULL OR caller = $2)",
        conditions,
        |row| row.get(0),
    )?;
    Ok(Page {
        rows,
        total: total.unwrap_or(0),
    })
}

fn listed(row: &Row<'_>) -> Result<AuditRow> {
    let seq: u64 = row.get(0)?;
    let damaged = |why: String| Error::DamagedRow {
        what: format!("row {seq} of the audit chain"),
        why,
    };
    let session = row.get::<Option<String>>(7)?;
    Ok(AuditRow {
        seq,
        entry: AuditEntry {
            id: row
                .text(1)?
                .parse()
                .map_err(|error| damaged(format!("{error}")))?,
            ts: row.get(2)?,
            caller: row.get(3)?,
            claimed: row.get(4)?,
            tool: row.get(5)?,
            source: row.get(6)?,
            session: session
                .map(|id| id.parse().map_err(|error| damaged(format!("{error}"))))
                .transpose()?,
            call_id: row
                .text(8)?
                .parse()
                .map_err(|error| damaged(format!("{error}")))?,
            outcome: row.get(9)?,
            code: row.get(10)?,
            duration_ms: row.get(11)?,
            params: row.get(12)?,
        },
        hash: row.get(13)?,
    })
}

/// Whether there are rows that ended before `before`.
///
/// # Errors
/// What the database says.
pub fn is_due(tx: &Tx<'_>, before: Timestamp) -> Result<bool> {
    let first: Option<i64> = tx.one("SELECT ts FROM audit ORDER BY seq LIMIT 1", &[], |row| {
        row.get(0)
    })?;
    Ok(first.is_some_and(|ts| ts < before.0))
}

/// Removes the oldest rows, up to the first whose call ended at `before` or later, and the read
/// counts of the minutes before; how many rows of the chain were removed. The chain goes on to hold.
///
/// # Errors
/// [`Error::BrokenChain`] where the rows to be removed don't verify: they are evidence then.
pub fn prune(tx: &Tx<'_>, before: Timestamp) -> Result<u64> {
    tx.execute(
        "DELETE FROM audit_reads WHERE minute < $1",
        &[minute_of(before).into()],
    )?;
    let first_kept: Option<Option<i64>> = tx.one(
        "SELECT min(seq) FROM audit WHERE ts >= $1",
        &[before.into()],
        |row| row.get(0),
    )?;
    let upto = match first_kept.flatten() {
        Some(kept) => kept - 1,
        // All go: the chain must end where it says it does.
        None => match verify(tx)?.first_bad {
            Some(bad) => return Err(broken(bad.seq, &bad.what)),
            None => i64::MAX,
        },
    };
    let (last, verdict) = walk(tx, upto)?;
    if let Some(bad) = verdict.first_bad {
        return Err(broken(bad.seq, &bad.what));
    }
    if verdict.rows == 0 {
        return Ok(0);
    }
    let params = [Value::unsigned(last.seq)?, (&last.hash).into()];
    tx.execute(
        "UPDATE audit_anchor SET seq = $1, hash = $2 WHERE one = 1",
        &params,
    )?;
    let (seq, _hash) = params.split_at(1);
    tx.execute("DELETE FROM audit WHERE seq <= $1", seq)
}

/// Adds to the counts of calls that only read.
///
/// # Errors
/// What [`Tx::execute`] fails with.
pub fn count_reads(tx: &Tx<'_>, counts: &[ReadCount]) -> Result<()> {
    for count in counts {
        tx.execute(
            "INSERT INTO audit_reads (caller, minute, calls) VALUES ($1, $2, $3)
             ON CONFLICT (caller, minute) DO UPDATE
             SET calls = audit_reads.calls + excluded.calls",
            &[
                without_nul(&count.caller).into_owned().into(),
                count.minute.into(),
                Value::unsigned(count.calls)?,
            ],
        )?;
    }
    Ok(())
}

/// The newest counts of calls that only read, the newest minute first.
///
/// # Errors
/// What [`Tx::query`] fails with.
pub fn reads(tx: &Tx<'_>, since: Option<Timestamp>, limit: u32) -> Result<Page<ReadCount>> {
    let since: Value<'_> = since.map_or(i64::MIN, minute_of).into();
    let rows = tx.query(
        "SELECT caller, minute, calls FROM audit_reads WHERE minute >= $1
         ORDER BY minute DESC, caller LIMIT $2",
        &[since.clone(), limit.into()],
        |row| {
            Ok(ReadCount {
                caller: row.get(0)?,
                minute: row.get(1)?,
                calls: row.get(2)?,
            })
        },
    )?;
    let total = tx.one(
        "SELECT count(*) FROM audit_reads WHERE minute >= $1",
        &[since],
        |row| row.get(0),
    )?;
    Ok(Page {
        rows,
        total: total.unwrap_or(0),
    })
}

/// The hash as people write it, 64 hexadecimal digits.
#[must_use]
pub fn hex(hash: &Hash) -> String {
    castellan_core::text::hexadecimal(hash)
}

const FIELDS: usize = 13;

/// A row's fields in the order in which they are hashed.
struct Fields<'a>([Option<Cow<'a, str>>; FIELDS]);

impl<'a> Fields<'a> {
    fn new(entry: &'a AuditEntry, seq: u64) -> Self {
        Self([
            Some(seq.to_string().into()),
            Some(entry.id.to_string().into()),
            Some(entry.ts.0.to_string().into()),
            Some(without_nul(&entry.caller)),
            entry.claimed.as_deref().map(without_nul),
            Some(without_nul(&entry.tool)),
            Some(without_nul(&entry.source)),
            entry.session.map(|id| id.to_string().into()),
            Some(entry.call_id.to_string().into()),
            Some(without_nul(&entry.outcome)),
            entry.code.as_deref().map(without_nul),
            Some(entry.duration_ms.to_string().into()),
            Some(without_nul(&entry.params)),
        ])
    }

    /// The field in place `index`, as a parameter.
    fn text(&self, index: usize) -> Value<'_> {
        self.0.get(index).and_then(|field| field.as_deref()).into()
    }

    fn hash(&self, prev: &Hash) -> Hash {
        let mut hasher = Sha256::new();
        hasher.update(DOMAIN);
        hasher.update(prev);
        for field in &self.0 {
            // A text as long as the mark of an absent one does not exist.
            let length = field.as_ref().map_or(u64::MAX, |text| {
                u64::try_from(text.len()).unwrap_or(u64::MAX - 1)
            });
            hasher.update(length.to_be_bytes());
            hasher.update(field.as_deref().unwrap_or_default());
        }
        hasher.finalize().into()
    }
}

/// Audit is written whatever the call contained, so what can't be stored is replaced, not refused.
fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        text.replace('\0', "\u{fffd}").into()
    } else {
        text.into()
    }
}

/// What the audit has of calls in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditTotals {
    /// How many rows of the chain have each outcome.
    pub by_outcome: Vec<(String, u64)>,
    /// How many calls only read.
    pub reads: u64,
}

/// Counts what the audit has, as far back as retention has left it.
///
/// # Errors
/// What [`Tx::query`] fails with.
pub fn totals(tx: &Tx<'_>) -> Result<AuditTotals> {
    let by_outcome = tx.query(
        "SELECT outcome, count(*) FROM audit GROUP BY outcome ORDER BY outcome",
        &[],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let reads: Option<Option<u64>> =
        tx.one("SELECT sum(calls) FROM audit_reads", &[], |row| row.get(0))?;
    Ok(AuditTotals {
        by_outcome,
        reads: reads.flatten().unwrap_or(0),
    })
}
