//! One connection: statements prepared once, failures translated into the store's own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{ErrorCode, ffi};

use super::rewrite::rewrite;
use crate::error::{Error, ErrorKind, Result};
use crate::tx::{Cell, Row, Value};

/// How many prepared statements a connection keeps; more than all topics have together.
const STATEMENTS: usize = 128;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Write,
    Read,
}

/// An open database.
#[derive(Debug)]
pub(crate) struct Connection {
    db: rusqlite::Connection,
    path: PathBuf,
    purpose: Purpose,
    /// From the text of the topics to SQLite's spelling of it.
    spelled: RefCell<HashMap<String, Arc<str>>>,
}

impl Connection {
    pub(super) fn new(db: rusqlite::Connection, path: &Path, purpose: Purpose) -> Self {
        db.set_prepared_statement_cache_capacity(STATEMENTS);
        Self {
            db,
            path: path.to_owned(),
            purpose,
            spelled: RefCell::default(),
        }
    }

    pub(super) const fn raw(&self) -> &rusqlite::Connection {
        &self.db
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// See [`crate::Tx::execute`].
    pub(crate) fn execute(&self, sql: &str, params: &[Value<'_>]) -> Result<u64> {
        let changed = self
            .db
            .prepare_cached(&self.spell(sql))
            .and_then(|mut statement| statement.execute(bound(params)))
            .map_err(|error| self.failure(error))?;
        // A usize fits wherever this program runs; the count is for information.
        Ok(u64::try_from(changed).unwrap_or(u64::MAX))
    }

    /// Shows `see` each row of a query until it answers false.
    pub(crate) fn each(
        &self,
        sql: &str,
        params: &[Value<'_>],
        see: &mut dyn FnMut(&Row<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut statement = self
            .db
            .prepare_cached(&self.spell(sql))
            .map_err(|error| self.failure(error))?;
        let mut rows = statement
            .query(bound(params))
            .map_err(|error| self.failure(error))?;
        while let Some(row) = rows.next().map_err(|error| self.failure(error))? {
            if !see(&Row::sqlite(row))? {
                break;
            }
        }
        Ok(())
    }

    /// Runs a statement of the store's own that has no parameters and returns no rows.
    pub(super) fn step(&self, sql: &'static str) -> Result<()> {
        self.db
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map(|_changed| ())
            .map_err(|error| self.failure(error))
    }

    /// The number a query of the store's own returns.
    pub(super) fn number(&self, sql: &'static str) -> Result<i64> {
        self.db
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(|error| self.failure(error))
    }

    fn spell(&self, sql: &str) -> Arc<str> {
        let mut spelled = self.spelled.borrow_mut();
        if let Some(known) = spelled.get(sql) {
            return Arc::clone(known);
        }
        // Topics have a fixed set of texts; whoever builds texts at run time must not fill memory.
        if spelled.len() >= STATEMENTS {
            spelled.clear();
        }
        let text: Arc<str> = rewrite(sql).into();
        spelled.insert(sql.to_owned(), Arc::clone(&text));
        text
    }

    /// What SQLite's failure means here.
    pub(super) fn failure(&self, error: rusqlite::Error) -> Error {
        if self.purpose == Purpose::Read && error.sqlite_error_code() == Some(ErrorCode::ReadOnly) {
            return Error::invalid("a job that was to read only tried to write");
        }
        failure(&self.path, error)
    }
}

/// What SQLite's failure on the database at `path` means.
pub(super) fn failure(path: &Path, error: rusqlite::Error) -> Error {
    let path = path.to_owned();
    let what = error.to_string();
    let code = error.sqlite_error_code();
    let extended = error.sqlite_extended_error_code();
    let source = Arc::new(error);
    match code {
        // The -shm file could not grow. SQLite does not tell here, as it does for its other files,
        // whether the disk is full, but hardly anything else hinders the first write to a file that
        // could be opened.
        _ if extended == Some(ffi::SQLITE_IOERR_SHMSIZE) => Error::Full { path, source },
        Some(ErrorCode::NotADatabase) => Error::NotOurs {
            path,
            why: "it does not begin like a SQLite database".to_owned(),
        },
        Some(ErrorCode::DatabaseCorrupt) => Error::Corrupt {
            path,
            what,
            source: Some(source),
        },
        Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly | ErrorCode::CannotOpen) => {
            Error::Permission { path, source }
        }
        Some(ErrorCode::DiskFull) => Error::Full { path, source },
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed,
        ) => Error::Locked { path, source },
        Some(ErrorCode::SystemIoFailure) => Error::Io { path, source },
        Some(ErrorCode::ConstraintViolation) => Error::Statement {
            path,
            kind: ErrorKind::Constraint,
            source,
        },
        _ => Error::Statement {
            path,
            kind: ErrorKind::Internal,
            source,
        },
    }
}

/// The value in a column.
pub(crate) fn cell<'a>(row: &'a rusqlite::Row<'_>, index: usize) -> Result<Cell<'a>> {
    let damaged = |why: String| Error::DamagedRow {
        what: format!("column {index} of a row"),
        why,
    };
    let value = row
        .get_ref(index)
        .map_err(|error| damaged(error.to_string()))?;
    Ok(match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Integer(number),
        ValueRef::Real(number) => Cell::Real(number),
        ValueRef::Text(bytes) => {
            Cell::Text(std::str::from_utf8(bytes).map_err(|error| damaged(error.to_string()))?)
        }
        ValueRef::Blob(bytes) => Cell::Blob(bytes),
    })
}

struct Bound<'a>(&'a Value<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Bool(value) => ValueRef::Integer((*value).into()),
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn bound<'a>(params: &'a [Value<'a>]) -> impl rusqlite::Params + 'a {
    rusqlite::params_from_iter(params.iter().map(Bound))
}
