//! A few threads that read, each with a connection of its own, begun when there is need.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::mpsc;

use super::Settings;
use super::connection::{Connection, Purpose};
use super::migrate::ensure_current;
use super::open::connect;
use crate::error::{Error, ErrorKind, Result};
use crate::tx::Tx;
use crate::work::Work;

/// How many reads wait before callers are made to wait.
const QUEUE: usize = 256;

pub(super) struct Readers {
    /// `None` once the store is ending.
    sender: Option<mpsc::Sender<Box<dyn Work>>>,
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    path: PathBuf,
    settings: Settings,
    /// Held by the one idle thread that takes the next job.
    queue: Mutex<mpsc::Receiver<Box<dyn Work>>>,
    /// Jobs that wait or run.
    pending: AtomicUsize,
    /// For reads on the caller's own thread: it never waits for a lock.
    spare: Mutex<Option<Connection>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf, settings: Settings) -> Self {
        let (sender, queue) = mpsc::channel(QUEUE);
        Self {
            sender: Some(sender),
            shared: Arc::new(Shared {
                path,
                settings,
                queue: Mutex::new(queue),
                pending: AtomicUsize::new(0),
                spare: Mutex::new(None),
            }),
            threads: Mutex::default(),
        }
    }

    pub(super) async fn submit(&self, job: Box<dyn Work>) -> Result<()> {
        let sender = self.sender.as_ref().ok_or(Error::Closed)?;
        let place = sender.reserve().await.map_err(|_closed| Error::Closed)?;
        let pending = self.shared.pending.fetch_add(1, Ordering::Relaxed) + 1;
        if let Err(error) = self.enough(pending) {
            self.shared.pending.fetch_sub(1, Ordering::Relaxed);
            return Err(error);
        }
        place.send(job);
        Ok(())
    }

    /// Runs a short job on this thread, where that needs no waiting; `None` where it would, and then
    /// nothing has been done.
    pub(super) fn glance(&self, job: &mut dyn Work) -> Option<Result<()>> {
        self.sender.as_ref()?;
        // Somebody else glances, or a panic took the connection with it.
        let mut spare = self.shared.spare.try_lock().ok()?;
        let connection = match spare.take() {
            Some(connection) => connection,
            None => self.shared.impatient()?,
        };
        let (outcome, left) = once(connection, job);
        *spare = left;
        match outcome {
            Err(error) if error.kind() == ErrorKind::Busy => None,
            whole => Some(whole),
        }
    }

    /// Begins another thread where all are busy and the settings allow one more.
    fn enough(&self, pending: usize) -> Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.len() >= pending.min(self.shared.settings.readers.max(1)) {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        match thread::Builder::new()
            .name("castellan-store-reader".to_owned())
            .spawn(move || shared.run())
        {
            Ok(thread) => threads.push(thread),
            // Those that are there will come to it.
            Err(_) if !threads.is_empty() => {}
            Err(error) => return Err(Error::file(&self.shared.path, error)),
        }
        Ok(())
    }

    /// Lets the threads finish what waits; they end by themselves then.
    pub(super) fn end(&mut self) -> Vec<JoinHandle<()>> {
        self.sender = None;
        let threads = self
            .threads
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(threads)
    }
}

impl Shared {
    fn run(&self) {
        let mut connection = None;
        while let Some(mut job) = self.next() {
            let whole = self.read(&mut connection, job.as_mut());
            self.pending.fetch_sub(1, Ordering::Relaxed);
            job.answer(whole);
        }
    }

    fn next(&self) -> Option<Box<dyn Work>> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.blocking_recv()
    }

    /// Runs `job` on one snapshot of the database.
    fn read(&self, kept: &mut Option<Connection>, job: &mut dyn Work) -> Result<()> {
        let connection = match kept.take() {
            Some(connection) => connection,
            None => connect(&self.path, &self.settings, Purpose::Read)?,
        };
        let (outcome, left) = once(connection, job);
        *kept = left;
        outcome
    }

    /// A connection that fails at once where it would have to wait.
    fn impatient(&self) -> Option<Connection> {
        let settings = Settings {
            patience: Duration::ZERO,
            ..self.settings.clone()
        };
        connect(&self.path, &settings, Purpose::Read).ok()
    }
}

/// Runs `job` on one snapshot of the database. The connection comes back where it can be used again.
fn once(connection: Connection, job: &mut dyn Work) -> (Result<()>, Option<Connection>) {
    let outcome = connection
        .step("BEGIN")
        .and_then(|()| ensure_current(&connection))
        .and_then(|()| job.run(&Tx::sqlite(&connection)));
    // A connection that can't leave its transaction is dropped, which ends both.
    let whole = connection.raw().is_autocommit() || connection.step("ROLLBACK").is_ok();
    (outcome, whole.then_some(connection))
}
