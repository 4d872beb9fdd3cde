//! Whether the whole file is sound.

use super::migrate::model;
use crate::error::Result;
use crate::tx::Tx;

/// How many problems are listed; one is enough to act.
const LISTED: usize = 10;

/// Reads every page and every index entry; the problems found, none where the file is sound.
pub(crate) fn integrity(tx: &Tx<'_>) -> Result<Vec<String>> {
    let mut problems = missing(tx)?;
    let broken = tx.query("PRAGMA integrity_check(10)", &[], |row| {
        row.get::<String>(0)
    })?;
    problems.extend(broken.into_iter().filter(|line| line != "ok"));
    let strays = tx.query("PRAGMA foreign_key_check", &[], |row| {
        Ok(format!(
            "a row of {} refers to a row of {} that is missing",
            row.text(0)?,
            row.text(2)?
        ))
    })?;
    problems.extend(strays);
    problems.truncate(LISTED);
    Ok(problems)
}

/// The tables and indexes that the schema has and the database hasn't. SQLite itself calls what is
/// left sound.
fn missing(tx: &Tx<'_>) -> Result<Vec<String>> {
    let there = objects(tx)?;
    let mut wanted = objects(&Tx::sqlite(&model()?))?;
    wanted.retain(|object| !there.contains(object));
    Ok(wanted
        .into_iter()
        .map(|object| format!("the {object} is missing"))
        .collect())
}

/// The kind and name of everything in the schema.
fn objects(tx: &Tx<'_>) -> Result<Vec<String>> {
    tx.query(
        "SELECT type || ' ' || name FROM sqlite_schema ORDER BY rowid",
        &[],
        |row| row.get(0),
    )
}
