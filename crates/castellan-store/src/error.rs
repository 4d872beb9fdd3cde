//! What can go wrong with the store, in words for the person who has to act on it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use castellan_core::SessionId;

/// The result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The failure underneath. Shared, because one failed commit is the answer to many jobs.
type Source = Arc<dyn std::error::Error + Send + Sync>;

/// Which kind of failure, for code that branches on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Written by a newer version of this program, the whole database or one row.
    Newer,
    /// The file is no database of this program.
    NotOurs,
    /// The file, a row or the audit chain is damaged.
    Corrupt,
    /// The system does not let us read or write there.
    Permission,
    /// No room left on the disk.
    Full,
    /// Someone else holds what is needed. Trying again later helps.
    Busy,
    /// Someone else was faster: what the job was based on is no longer so.
    Conflict,
    /// What was asked for isn't there.
    NotFound,
    /// The short form of an id fits several.
    Ambiguous,
    /// The caller asked for something the store never does.
    Invalid,
    /// As much is kept as ever is.
    Limit,
    /// A constraint of the schema refused the row (a key that exists already, for one).
    Constraint,
    /// The disk or file system failed.
    Io,
    /// A defect: wrong SQL, a panic in a job, a store that has ended.
    Internal,
}

/// A failure of the store.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// See [`ErrorKind::Newer`].
    #[error(
        "the database at {path} was written by a newer castellan (schema {found}, this one knows \
         {known}); upgrade, or point CASTELLAN_HOME elsewhere", path = path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The newest schema version this program knows.
        known: u32,
    },
    /// A row that this version cannot read though it is whole.
    #[error(
        "event {seq} of session {session} (`{kind}`) was written by a newer castellan and cannot \
         be read by this one; upgrade to open this session"
    )]
    NewerEvent {
        /// The session.
        session: SessionId,
        /// The event's place in it.
        seq: u64,
        /// What the row says it is.
        kind: String,
        /// What the reader stumbled over.
        source: Source,
    },
    /// See [`ErrorKind::NotOurs`].
    #[error(
        "{path} is not a castellan database ({why}); nothing was changed in it. Point \
         CASTELLAN_HOME elsewhere, or, if a castellan database should be there, move the file \
         away and restore a backup", path = path.display()
    )]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What was found in it.
        why: String,
    },
    /// See [`ErrorKind::Corrupt`].
    #[error(
        "the database at {path} is damaged ({what}); nothing was replaced. Restore a backup, or \
         move it and its -wal and -shm files away to begin a new one", path = path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
        /// The database's answer, where it was the one that noticed.
        source: Option<Source>,
    },
    /// A row whose content no version of this program writes.
    #[error("{what} is damaged: {why}; restore a backup")]
    DamagedRow {
        /// Which row.
        what: String,
        /// What was found in it.
        why: String,
    },
    /// The audit chain does not hold.
    #[error("the audit chain is broken at row {seq}: {what}; its rows are kept as evidence")]
    BrokenChain {
        /// The first bad row.
        seq: u64,
        /// What is wrong with it.
        what: String,
    },
    /// See [`ErrorKind::Permission`].
    #[error(
        "{path} cannot be used: {source}; check the owner and the permissions of the file and its \
         folder, or point CASTELLAN_HOME elsewhere", path = path.display()
    )]
    Permission {
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: Source,
    },
    /// See [`ErrorKind::Full`].
    #[error(
        "there is no room on the disk for the database at {path}; free some space, what was saved \
         before is intact", path = path.display()
    )]
    Full {
        /// The database.
        path: PathBuf,
        /// The system's answer.
        source: Source,
    },
    /// Other processes kept the database locked for longer than the store waits.
    #[error("other processes kept the database at {path} locked for too long", path = path.display())]
    Locked {
        /// The database.
        path: PathBuf,
        /// The database's answer.
        source: Source,
    },
    /// Another process drives the session.
    #[error("session {session} is in use by {}", holder(*pid))]
    Claimed {
        /// The session.
        session: SessionId,
        /// The process, where it had written its id.
        pid: Option<u32>,
    },
    /// The session's log is not where the writer thought it was.
    #[error(
        "another process is writing session {session}: its log is at event {found}, not \
         {expected}"
    )]
    Conflict {
        /// The session.
        session: SessionId,
        /// The last event the writer knew of.
        expected: u64,
        /// The last event there is; 0 where the session does not exist.
        found: u64,
    },
    /// See [`ErrorKind::NotFound`].
    #[error("there is no {what}")]
    NotFound {
        /// What was asked for.
        what: String,
    },
    /// See [`ErrorKind::Ambiguous`].
    #[error("`{prefix}` is the beginning of {total} session ids: {}", listed(candidates, *total))]
    Ambiguous {
        /// What was asked for.
        prefix: String,
        /// The newest sessions that fit.
        candidates: Vec<SessionId>,
        /// How many fit.
        total: u64,
    },
    /// The beginning of a grant's id that fits several.
    #[error("`{prefix}` is the beginning of {total} grant ids; write more of it")]
    AmbiguousGrant {
        /// What was asked for.
        prefix: String,
        /// How many fit.
        total: u64,
    },
    /// See [`ErrorKind::Limit`].
    #[error("there is no room for more: {what}")]
    Limit {
        /// Which bound was reached.
        what: String,
    },
    /// See [`ErrorKind::Invalid`].
    #[error("{what}")]
    Invalid {
        /// What was wrong with the request.
        what: String,
    },
    /// A file operation failed.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: Source,
    },
    /// A statement failed.
    #[error("the database at {path} refused a statement: {source}", path = path.display())]
    Statement {
        /// The database.
        path: PathBuf,
        /// Which kind of failure.
        kind: ErrorKind,
        /// The database's answer.
        source: Source,
    },
    /// A job panicked. Its changes were undone.
    #[error("a database job panicked: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// The threads behind the store are gone.
    #[error("the store has ended")]
    Closed,
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid}"),
    )
}

fn listed(candidates: &[SessionId], total: u64) -> String {
    let mut ids: Vec<String> = candidates.iter().map(ToString::to_string).collect();
    if u64::try_from(ids.len()).is_ok_and(|shown| shown < total) {
        ids.push("…".to_owned());
    }
    ids.join(", ")
}

impl Error {
    /// Which kind of failure this is.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Newer { .. } | Self::NewerEvent { .. } => ErrorKind::Newer,
            Self::NotOurs { .. } => ErrorKind::NotOurs,
            Self::Corrupt { .. } | Self::DamagedRow { .. } | Self::BrokenChain { .. } => {
                ErrorKind::Corrupt
            }
            Self::Permission { .. } => ErrorKind::Permission,
            Self::Full { .. } => ErrorKind::Full,
            Self::Locked { .. } | Self::Claimed { .. } => ErrorKind::Busy,
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Ambiguous { .. } | Self::AmbiguousGrant { .. } => ErrorKind::Ambiguous,
            Self::Limit { .. } => ErrorKind::Limit,
            Self::Invalid { .. } => ErrorKind::Invalid,
            Self::Io { .. } => ErrorKind::Io,
            Self::Statement { kind, .. } => *kind,
            Self::Panicked { .. } | Self::Closed => ErrorKind::Internal,
        }
    }

    /// A request the store never grants.
    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid { what: what.into() }
    }

    /// A failed operation on the file or folder `path`.
    pub(crate) fn file(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        let kind = error.kind();
        let source: Source = Arc::new(error);
        if matches!(
            kind,
            io::ErrorKind::PermissionDenied
                | io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::IsADirectory
        ) {
            Self::Permission { path, source }
        } else if matches!(
            kind,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        ) {
            Self::Full { path, source }
        } else {
            Self::Io { path, source }
        }
    }
}
