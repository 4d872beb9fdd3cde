//! The threads behind an open store, and their end.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use tokio::sync::mpsc;

use super::Settings;
use super::open::open;
use super::readers::Readers;
use super::writer::Writer;
use crate::error::{Error, Result};
use crate::work::Work;

/// How many writes wait before callers are made to wait.
const QUEUE: usize = 1024;

pub(crate) struct Database {
    path: PathBuf,
    /// `None` once the store is ending.
    writes: Option<mpsc::Sender<Box<dyn Work>>>,
    writer: Option<JoinHandle<()>>,
    readers: Readers,
    commits: Arc<AtomicU64>,
}

impl Database {
    pub(crate) fn open(path: &Path, settings: Settings) -> Result<Self> {
        let connection = open(path, &settings)?;
        let (writes, queue) = mpsc::channel(QUEUE);
        let commits = Arc::new(AtomicU64::new(0));
        let writer = Writer {
            connection,
            queue,
            commits: Arc::clone(&commits),
        };
        let writer = thread::Builder::new()
            .name("castellan-store-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| Error::file(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            writes: Some(writes),
            writer: Some(writer),
            readers: Readers::new(path.to_owned(), settings),
            commits,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub(crate) async fn write(&self, job: Box<dyn Work>) -> Result<()> {
        let writes = self.writes.as_ref().ok_or(Error::Closed)?;
        writes.send(job).await.map_err(|_closed| Error::Closed)
    }

    pub(crate) fn glance(&self, job: &mut dyn Work) -> Option<Result<()>> {
        self.readers.glance(job)
    }

    pub(crate) async fn read(&self, job: Box<dyn Work>) -> Result<()> {
        self.readers.submit(job).await
    }
}

/// Waits until what was queued is done and the file is closed, so that whoever opens or moves it
/// next finds it whole.
impl Drop for Database {
    fn drop(&mut self) {
        self.writes = None;
        let threads = self.writer.take().into_iter().chain(self.readers.end());
        for thread in threads {
            // The last handle may have been dropped by a job, on one of these very threads.
            if thread.thread().id() != thread::current().id() {
                // A panicked thread has nothing left to wait for.
                drop(thread.join());
            }
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.path)
            .field("commits", &self.commits())
            .finish_non_exhaustive()
    }
}
