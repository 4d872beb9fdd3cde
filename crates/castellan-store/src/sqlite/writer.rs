//! The one thread that writes: whatever waits in the queue is committed as one transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tokio::sync::mpsc;

use super::connection::Connection;
use super::migrate::ensure_current;
use crate::error::{Error, Result};
use crate::tx::Tx;
use crate::work::Work;

/// How many jobs share a commit at most, so that the first of them need not wait for ever.
const BATCH: usize = 256;

/// How often the writer lets others go first before it begins a batch that follows a shared one.
const YIELDS: u32 = 200;

/// How often a transaction is begun anew after the database stayed locked for the whole patience.
const ATTEMPTS: u32 = 3;

pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) queue: mpsc::Receiver<Box<dyn Work>>,
    pub(super) commits: Arc<AtomicU64>,
}

impl Writer {
    /// Works until the queue is closed and empty.
    pub(super) fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut shared = false;
        while self.queue.blocking_recv_many(&mut batch, BATCH) > 0 {
            if shared {
                self.gather(&mut batch);
            }
            shared = batch.len() > 1;
            self.serve(&mut batch);
        }
    }

    /// Lets those who were answered a moment ago queue their next write, so that many writers form
    /// one batch and not two that wait for each other. Costs microseconds against the milliseconds
    /// of a commit, and nothing where writers come one at a time.
    fn gather(&mut self, batch: &mut Vec<Box<dyn Work>>) {
        for _ in 0..YIELDS {
            if batch.len() >= BATCH {
                break;
            }
            match self.queue.try_recv() {
                Ok(job) => batch.push(job),
                Err(_) => thread::yield_now(),
            }
        }
    }

    fn serve(&self, batch: &mut Vec<Box<dyn Work>>) {
        match self.transaction(batch) {
            // Something broke the transaction itself: a job that didn't fit on the disk or that
            // ended it. The others must not pay for that, so each gets a transaction of its own.
            Err(error) if batch.len() > 1 && !matches!(error, Error::Locked { .. }) => {
                for mut job in batch.drain(..) {
                    let whole = self.transaction(std::slice::from_mut(&mut job));
                    job.answer(whole);
                }
            }
            whole => {
                for job in batch.drain(..) {
                    job.answer(whole.clone());
                }
            }
        }
    }

    /// Runs the jobs in one transaction, again where other processes were in the way.
    fn transaction(&self, jobs: &mut [Box<dyn Work>]) -> Result<()> {
        let mut attempt = 1;
        loop {
            let done = self.attempt(jobs);
            // After a failure SQLite may or may not have ended the transaction.
            if !self.connection.raw().is_autocommit() {
                self.connection.step("ROLLBACK")?;
            }
            match done {
                Err(Error::Locked { .. }) if attempt < ATTEMPTS => attempt += 1,
                done => return done,
            }
        }
    }

    /// An open transaction is left open where nothing is to be committed.
    fn attempt(&self, jobs: &mut [Box<dyn Work>]) -> Result<()> {
        self.connection.step("BEGIN IMMEDIATE")?;
        ensure_current(&self.connection)?;
        let mut succeeded = false;
        for job in jobs {
            self.connection.step("SAVEPOINT job")?;
            let outcome = job.run(&Tx::sqlite(&self.connection));
            if self.connection.raw().is_autocommit() {
                // All that was done since BEGIN is gone, the work of earlier jobs too.
                return outcome.and(Err(Error::invalid("a job ended the transaction it ran in")));
            }
            if outcome.is_ok() {
                succeeded = true;
            } else {
                self.connection.step("ROLLBACK TO job")?;
            }
            self.connection.step("RELEASE job")?;
        }
        if succeeded {
            self.connection.step("COMMIT")?;
            self.commits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
