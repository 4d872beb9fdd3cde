//! Opening the file: found, ours, sound, of our time; or made, by one process at a time.
//!
//! The file itself is never opened but by SQLite: its locks belong to the process, and closing any
//! other handle to the same file would drop them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use rusqlite::OpenFlags;

use super::connection::{Connection, Purpose, failure};
use super::migrate::{SCHEMA, Standing, migrate, standing};
use super::{Settings, Synchronous};
use crate::error::{Error, Result};

/// What the lock file says once there is a database. Its presence tells an emptied database from
/// one that is just being made.
const MADE: &[u8] = b"The database beside this file exists. Held while it is made or upgraded.\n";

/// The database at `path`, made or upgraded where need be, for the writer.
pub(super) fn open(path: &Path, settings: &Settings) -> Result<Connection> {
    // The usual case takes no lock of ours: the file is there and current.
    if size(path)?.is_some_and(|bytes| bytes > 0) {
        let connection = connect(path, settings, Purpose::Write)?;
        if standing(&connection)? == Standing::Current && is_wal(&connection)? {
            keep_private(path)?;
            return Ok(connection);
        }
    }
    make(path, settings)
}

/// Makes or upgrades the database, holding the lock file so that processes that start together
/// don't meet in the one step that SQLite can't make them wait for (the change to WAL).
fn make(path: &Path, settings: &Settings) -> Result<Connection> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        private_folder(folder)?;
    }
    let lock_path = beside(path, ".lock");
    let mut lock = private_file(&lock_path)?;
    lock.lock()
        .and_then(|()| lock.metadata())
        .map_err(|error| Error::file(&lock_path, error))
        .and_then(|mark| present(path, mark.len() > 0))?;
    let connection = connect(path, settings, Purpose::Write)?;
    // Asked again under the lock, and before anything is changed.
    let before = standing(&connection)?;
    if !is_wal(&connection)? {
        connection
            .raw()
            .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))
            .map_err(|error| connection.failure(error))?;
    }
    if before == Standing::Behind {
        migrate(&connection, SCHEMA)?;
    }
    lock.set_len(0)
        .and_then(|()| lock.write_all(MADE))
        .map_err(|error| Error::file(&lock_path, error))?;
    keep_private(path)?;
    Ok(connection)
}

/// Sees to it that there is a file for SQLite to open; refuses to begin anew where something is
/// left of an old database.
fn present(path: &Path, made_before: bool) -> Result<()> {
    let corrupt = |what: &str| {
        Err(Error::Corrupt {
            path: path.to_owned(),
            what: what.to_owned(),
            source: None,
        })
    };
    match size(path)? {
        Some(0) if made_before => corrupt("the file is empty, though it held a database before"),
        Some(_) => Ok(()),
        None if size(&beside(path, "-wal"))?.is_some_and(|bytes| bytes > 0) => {
            corrupt("the file is missing, but its -wal file is there")
        }
        None => OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map(drop)
            .map_err(|error| Error::file(path, error)),
    }
}

/// A connection to the existing file at `path`.
pub(super) fn connect(path: &Path, settings: &Settings, purpose: Purpose) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db =
        rusqlite::Connection::open_with_flags(path, flags).map_err(|error| failure(path, error))?;
    db.busy_timeout(settings.patience)
        .map_err(|error| failure(path, error))?;
    let connection = Connection::new(db, path, purpose);
    let synchronous = match settings.synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
    };
    let query_only = match purpose {
        Purpose::Write => "OFF",
        Purpose::Read => "ON",
    };
    // `cell_size_check`: notice a damaged page when it is read, not when it is written back.
    // `journal_size_limit`: give the space of one huge transaction back to the system.
    connection
        .raw()
        .execute_batch(&format!(
            "PRAGMA synchronous = {synchronous};
             PRAGMA foreign_keys = ON;
             PRAGMA trusted_schema = OFF;
             PRAGMA cell_size_check = ON;
             PRAGMA temp_store = MEMORY;
             PRAGMA journal_size_limit = 67108864;
             PRAGMA query_only = {query_only};"
        ))
        .map_err(|error| connection.failure(error))?;
    // SQLite opens a write-protected file for reading and says nothing.
    let read_only = connection
        .raw()
        .is_readonly("main")
        .map_err(|error| connection.failure(error))?;
    if read_only {
        return Err(Error::file(path, ErrorKind::PermissionDenied.into()));
    }
    Ok(connection)
}

fn is_wal(connection: &Connection) -> Result<bool> {
    connection
        .raw()
        .pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0))
        .map(|mode| mode == "wal")
        .map_err(|error| connection.failure(error))
}

/// The size of the file at `path` in bytes, `None` where there is none.
fn size(path: &Path) -> Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(Some(found.len())),
        Ok(found) if found.is_dir() => Err(Error::file(path, ErrorKind::IsADirectory.into())),
        Ok(found) => Err(Error::NotOurs {
            path: path.to_owned(),
            why: format!("it is no file but {}", name(found.file_type())),
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file(path, error)),
    }
}

/// What something is that is neither a file nor a folder.
fn name(kind: fs::FileType) -> &'static str {
    if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// Takes away what others may do with the database, where a restored backup or a copy gave them
/// more than nothing. SQLite gives the -wal and -shm files it makes the mode of the database.
fn keep_private(path: &Path) -> Result<()> {
    let found = fs::metadata(path).map_err(|error| Error::file(path, error))?;
    if found.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    for file in [path.to_owned(), beside(path, "-wal"), beside(path, "-shm")] {
        match fs::set_permissions(&file, fs::Permissions::from_mode(0o600)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::file(&file, error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// The folder, made with all above it, open to its owner only; left as it is where it exists.
pub(crate) fn private_folder(folder: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| Error::file(folder, error))
}

/// The file for reading and writing, made where need be, open to its owner only.
pub(crate) fn private_file(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| Error::file(path, error))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
