//! From whatever schema a file has to the newest one, forward only.

use std::path::Path;

use super::connection::{Connection, Purpose, failure};
use crate::error::{Error, Result};

/// Every step, in order. A step that has been released is never edited.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/sqlite/0001_sessions_events_audit.sql"),
    include_str!("../../migrations/sqlite/0002_grants.sql"),
    include_str!("../../migrations/sqlite/0003_substrate.sql"),
    include_str!("../../migrations/sqlite/0004_episodes.sql"),
];

/// The newest schema version this program knows.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a count of files in this repository; try_from is not const"
)]
pub const SCHEMA: u32 = MIGRATIONS.len() as u32;

/// Marks a file as ours, "Cstl". Fixed for ever.
const APPLICATION_ID: i64 = 0x4373_746c;

/// How a file relates to this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Ready for use.
    Current,
    /// Ours with an older schema, or new and empty.
    Behind,
}

/// What the open file is.
///
/// # Errors
/// [`Error::Newer`] and [`Error::NotOurs`].
pub(super) fn standing(connection: &Connection) -> Result<Standing> {
    let application = connection.number("PRAGMA application_id")?;
    let version = version(connection)?;
    if application == APPLICATION_ID {
        return match version {
            0 => Err(not_ours(
                connection,
                "it has our mark and no schema version".to_owned(),
            )),
            SCHEMA => Ok(Standing::Current),
            _ => Ok(Standing::Behind),
        };
    }
    let tables = connection.number("SELECT count(*) FROM sqlite_schema")?;
    if application == 0 && version == 0 && tables == 0 {
        return Ok(Standing::Behind);
    }
    let why = if application == 0 {
        format!("it is a SQLite database of something else, with {tables} tables and indexes")
    } else {
        format!("it is a SQLite database with the application id {application:#x}")
    };
    Err(not_ours(connection, why))
}

fn not_ours(connection: &Connection, why: String) -> Error {
    Error::NotOurs {
        path: connection.path().to_owned(),
        why,
    }
}

/// Fails where the schema is not the one this program's statements are written for.
///
/// Asked in every transaction: a newer program may have migrated the file while this one runs.
pub(super) fn ensure_current(connection: &Connection) -> Result<()> {
    version(connection).map(|_version| ())
}

/// The file's schema version, refused where it is newer than this program.
fn version(connection: &Connection) -> Result<u32> {
    let found = connection.number("PRAGMA user_version")?;
    match u32::try_from(found) {
        Ok(found) if found <= SCHEMA => Ok(found),
        // A negative number is none of ours; as unsigned it is one from a far future.
        other => Err(Error::Newer {
            path: connection.path().to_owned(),
            found: other.unwrap_or(u32::MAX),
            known: SCHEMA,
        }),
    }
}

/// Brings the schema to `target` in one transaction, so that a killed process leaves the old one.
pub(super) fn migrate(connection: &Connection, target: u32) -> Result<()> {
    connection.step("BEGIN IMMEDIATE")?;
    let migrated = steps(connection, target).and_then(|()| connection.step("COMMIT"));
    if migrated.is_err() && !connection.raw().is_autocommit() {
        connection.step("ROLLBACK")?;
    }
    migrated
}

/// An empty database in memory with the newest schema.
pub(super) fn model() -> Result<Connection> {
    let path = Path::new(":memory:");
    let db = rusqlite::Connection::open_in_memory().map_err(|error| failure(path, error))?;
    let connection = Connection::new(db, path, Purpose::Write);
    migrate(&connection, SCHEMA)?;
    Ok(connection)
}

fn steps(connection: &Connection, target: u32) -> Result<()> {
    // Read under the lock: another process may have been faster.
    let from = version(connection)?;
    let wanted = (1..)
        .zip(MIGRATIONS)
        .filter(|(number, _)| (from + 1..=target).contains(number));
    for (number, sql) in wanted {
        let stamp =
            format!("PRAGMA user_version = {number}; PRAGMA application_id = {APPLICATION_ID};");
        for text in [*sql, stamp.as_str()] {
            connection
                .raw()
                .execute_batch(text)
                .map_err(|error| connection.failure(error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Connection {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        Connection::new(db, Path::new("memory"), Purpose::Write)
    }

    fn schema(connection: &Connection) -> Vec<String> {
        let mut found = Vec::new();
        connection
            .each(
                "SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY type, name",
                &[],
                &mut |row| {
                    found.push(row.get::<String>(0)?);
                    Ok(true)
                },
            )
            .unwrap();
        found
    }

    #[test]
    fn every_older_schema_becomes_the_newest() {
        let fresh = empty();
        migrate(&fresh, SCHEMA).unwrap();
        assert_eq!(standing(&fresh).unwrap(), Standing::Current);
        for start in 0..SCHEMA {
            let old = empty();
            migrate(&old, start).unwrap();
            assert_eq!(standing(&old).unwrap(), Standing::Behind, "from {start}");
            migrate(&old, SCHEMA).unwrap();
            assert_eq!(standing(&old).unwrap(), Standing::Current, "from {start}");
            assert_eq!(schema(&old), schema(&fresh), "from {start}");
        }
    }

    #[test]
    fn migrating_twice_changes_nothing() {
        let connection = empty();
        migrate(&connection, SCHEMA).unwrap();
        let once = schema(&connection);
        migrate(&connection, SCHEMA).unwrap();
        assert_eq!(schema(&connection), once);
    }

    #[test]
    fn every_migration_says_what_it_is_for() {
        for sql in MIGRATIONS {
            assert!(sql.starts_with("-- "), "{sql}");
        }
    }
}
