//! Exclusive ownership of a session by one process while it drives it.
//!
//! A claim is a lock on `locks/<session>.lock`. The kernel takes it back when the process ends, also
//! by SIGKILL, so there is never a stale one to clear away. (On a database that several machines
//! share, an advisory lock of the database takes its place.)

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use castellan_core::SessionId;

use crate::error::{Error, Result};
use crate::sqlite::{private_file, private_folder};

/// How often a lock file may vanish between being opened and being locked before that is taken for
/// someone else's claim.
const TRIES: u32 = 64;

/// Proof that this process is the only one to drive a session. Dropping it frees the session.
#[derive(Debug)]
pub struct SessionClaim {
    session: SessionId,
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl SessionClaim {
    pub(crate) fn take(folder: &Path, session: SessionId) -> Result<Self> {
        private_folder(folder)?;
        let path = folder.join(format!("{session}.lock"));
        for _ in 0..TRIES {
            let mut file = private_file(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::Claimed {
                        session,
                        pid: written(&mut file),
                    });
                }
                Err(TryLockError::Error(error)) => return Err(Error::file(&path, error)),
            }
            // The holder before may have removed the file after we opened it; what we have locked
            // then is no longer what others will find.
            if is_at(&file, &path)? {
                file.set_len(0)
                    .and_then(|()| writeln!(file, "{}", std::process::id()))
                    .map_err(|error| Error::file(&path, error))?;
                return Ok(Self {
                    session,
                    path,
                    _file: file,
                });
            }
        }
        Err(Error::Claimed { session, pid: None })
    }

    /// The session this claim is for.
    #[must_use]
    pub const fn session(&self) -> SessionId {
        self.session
    }
}

impl Drop for SessionClaim {
    fn drop(&mut self) {
        // Removed while it is still locked, so that the folder doesn't fill up. One that stays
        // behind locks nobody out.
        drop(fs::remove_file(&self.path));
    }
}

/// The process id in a lock file, where one can be read.
fn written(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Whether `path` names the open `file`.
fn is_at(file: &File, path: &Path) -> Result<bool> {
    let ours = file.metadata().map_err(|error| Error::file(path, error))?;
    match fs::metadata(path) {
        Ok(there) => Ok(there.ino() == ours.ino() && there.dev() == ours.dev()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::file(path, error)),
    }
}
