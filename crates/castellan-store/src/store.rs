//! The handle everyone holds: jobs go in, answers come out after the commit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use castellan_core::SessionId;

use crate::claim::SessionClaim;
use crate::error::{Error, Result};
use crate::sqlite::{self, Database, SCHEMA, Settings};
use crate::tx::Tx;
use crate::work::job;

/// An open store. Clones share it; dropping the last one waits until what was queued is written.
///
/// The futures it returns need no particular runtime.
#[derive(Debug, Clone)]
pub struct Store {
    database: Arc<Database>,
}

/// A store that was found sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Where it is.
    pub path: PathBuf,
    /// The version of its schema.
    pub schema: u32,
}

impl Store {
    /// Opens the SQLite database at `path`, made (with the folders above it, open to their owner
    /// only) or upgraded where need be. Blocks for the few milliseconds that takes.
    ///
    /// # Errors
    /// By [`kind`](Error::kind): `Newer`, `NotOurs`, `Corrupt`, `Permission`, `Full`, `Busy`, `Io`.
    /// Nothing that exists is ever replaced.
    pub fn open(path: impl AsRef<Path>, settings: Settings) -> Result<Self> {
        let database = Database::open(path.as_ref(), settings)?;
        Ok(Self {
            database: Arc::new(database),
        })
    }

    /// Runs `work` in a transaction and returns what it returned, once that is committed. Where
    /// `work` fails or panics, nothing it did remains.
    ///
    /// `work` may be run several times, so it must do nothing but what `tx` can undo. Once this
    /// future has been polled to the point where the job is queued, dropping it gives up the
    /// answer, not the job.
    ///
    /// # Errors
    /// What `work` returned; [`Error::Panicked`]; or why the transaction could not be committed.
    pub async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        let (job, answer) = job(work);
        self.database.write(job).await?;
        answer.await.unwrap_or(Err(Error::Closed))
    }

    /// Runs `work` on one snapshot of the store, which holds everything whose write was answered
    /// before. It can't write.
    ///
    /// # Errors
    /// As [`Self::write`]; [`Error::Invalid`] where `work` tried to write.
    pub async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        let (job, answer) = job(work);
        self.database.read(job).await?;
        answer.await.unwrap_or(Err(Error::Closed))
    }

    /// The same for a read of a few rows, which takes less time than handing it to another thread: it
    /// is done on this one, unless it would have to wait for something.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn glance<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> Result<T> + Send + 'static,
    {
        let (mut job, answer) = job(work);
        match self.database.glance(job.as_mut()) {
            Some(whole) => job.answer(whole),
            None => self.database.read(job).await?,
        }
        answer.await.unwrap_or(Err(Error::Closed))
    }

    /// Makes this process the only one that drives `session`, until the claim is dropped or the
    /// process dies, however it dies. The session need not exist yet.
    ///
    /// # Errors
    /// [`Error::Claimed`] where someone has it, in this process or another.
    pub fn claim(&self, session: SessionId) -> Result<SessionClaim> {
        SessionClaim::take(&self.folder().join("locks"), session)
    }

    /// Reads the whole store and says whether it is sound. Takes as long as reading the file;
    /// others go on reading and writing meanwhile.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the first problems found.
    pub async fn check(&self) -> Result<Checked> {
        let problems = self.read(sqlite::integrity).await?;
        let path = self.path().to_owned();
        if problems.is_empty() {
            return Ok(Checked {
                path,
                schema: SCHEMA,
            });
        }
        Err(Error::Corrupt {
            path,
            what: problems.join("; "),
            source: None,
        })
    }

    /// The database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.database.path()
    }

    /// The folder the database is in, where other files of the same home belong too.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.path().parent().unwrap_or_else(|| Path::new(""))
    }

    /// How many transactions this handle and its clones have committed. Several writes can share
    /// one.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.database.commits()
    }
}
