//! The blackboard: named slots of JSON, each with a version that a writer can insist on.

use castellan_core::Timestamp;

use crate::error::{Error, Result};
use crate::tx::{Row, Tx, Value};

/// How many slots there are at most.
pub const SLOT_LIMIT: u64 = 10_000;

/// What stands in a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its name.
    pub slot: String,
    /// JSON text.
    pub value: String,
    /// From 1, one more with each write.
    pub version: u64,
    /// Who wrote it.
    pub author: String,
    /// When.
    pub at: Timestamp,
    /// The JSON schema its values follow, as JSON text.
    pub schema: Option<String>,
}

/// A value for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writing {
    /// The slot.
    pub slot: String,
    /// JSON text.
    pub value: String,
    /// The version it must have to be written, 0 for a slot that must not exist; `None` where any
    /// will do.
    pub expected: Option<u64>,
    /// The schema the slot must have now, because `value` was held against it.
    pub held_against: Option<String>,
    /// The schema it has afterwards.
    pub schema: Option<String>,
    /// Who writes.
    pub author: String,
    /// When.
    pub at: Timestamp,
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The slot as it is now.
    Done(Slot),
    /// Nothing was written: the slot has another version than expected. `None` where there is no
    /// such slot.
    OtherVersion(Option<Slot>),
    /// Nothing was written: the slot has another schema than the one the value was held against.
    OtherSchema,
}

const COLUMNS: &str = "slot, value, version, author, at, schema";

/// Writes a value, if the slot is as the writer thought.
///
/// # Errors
/// [`Error::Limit`] for one slot too many.
pub fn write(tx: &Tx<'_>, writing: &Writing) -> Result<Written> {
    let known = get(tx, &writing.slot)?;
    let version = known.as_ref().map_or(0, |slot| slot.version);
    if writing.expected.is_some_and(|wanted| wanted != version) {
        return Ok(Written::OtherVersion(known));
    }
    if known.as_ref().and_then(|slot| slot.schema.as_ref()) != writing.held_against.as_ref() {
        return Ok(Written::OtherSchema);
    }
    if known.is_none() && count(tx)? >= SLOT_LIMIT {
        return Err(Error::Limit {
            what: format!("the blackboard has at most {SLOT_LIMIT} slots"),
        });
    }
    let slot = Slot {
        slot: writing.slot.clone(),
        value: writing.value.clone(),
        version: version + 1,
        author: writing.author.clone(),
        at: writing.at,
        schema: writing.schema.clone(),
    };
    tx.execute(
        "INSERT INTO blackboard (slot, value, version, author, at, schema)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (slot) DO UPDATE
         SET value = $2, version = $3, author = $4, at = $5, schema = $6",
        &[
            (&slot.slot).into(),
            (&slot.value).into(),
            Value::unsigned(slot.version)?,
            (&slot.author).into(),
            slot.at.into(),
            slot.schema.as_deref().into(),
        ],
    )?;
    Ok(Written::Done(slot))
}

/// What stands in a slot, if anything was ever written there.
///
/// # Errors
/// [`Error::DamagedRow`] for a row that is no slot.
pub fn get(tx: &Tx<'_>, name: &str) -> Result<Option<Slot>> {
    tx.one(
        &format!("SELECT {COLUMNS} FROM blackboard WHERE slot = $1"),
        &[name.into()],
        slot,
    )
}

/// The names of the slots written last, newest first, with how many slots there are.
///
/// # Errors
/// What [`Tx::query`] fails with.
pub fn names(tx: &Tx<'_>, limit: u32) -> Result<crate::Page<String>> {
    let rows = tx.query(
        "SELECT slot FROM blackboard ORDER BY at DESC, slot LIMIT $1",
        &[limit.into()],
        |row| row.get(0),
    )?;
    let total = count(tx)?;
    Ok(crate::Page { rows, total })
}

fn count(tx: &Tx<'_>) -> Result<u64> {
    let total = tx.one("SELECT count(*) FROM blackboard", &[], |row| row.get(0))?;
    Ok(total.unwrap_or(0))
}

fn slot(row: &Row<'_>) -> Result<Slot> {
    Ok(Slot {
        slot: row.get(0)?,
        value: row.get(1)?,
        version: row.get(2)?,
        author: row.get(3)?,
        at: row.get(4)?,
        schema: row.get(5)?,
    })
}
