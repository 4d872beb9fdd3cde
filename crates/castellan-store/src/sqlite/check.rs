//! Whether the whole file is sound.

use crate::error::Result;
use crate::tx::Tx;

/// How many problems are listed; one is enough to act.
const LISTED: usize = 10;

/// Reads every page and every index entry; the problems found, none where the file is sound.
pub(crate) fn integrity(tx: &Tx<'_>) -> Result<Vec<String>> {
    let mut problems = tx.query("PRAGMA integrity_check(10)", &[], |row| {
        row.get::<String>(0)
    })?;
    problems.retain(|line| line != "ok");
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
