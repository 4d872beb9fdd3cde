//! A lock that two of us take on a file for the moment between making sure that it is the one that
//! was judged and putting another in its place. Others need not know of it.

use std::fs::{File, TryLockError};
use std::time::Duration;

/// How often a lock that somebody has is asked for again, and how long after. We hold it for
/// microseconds; a program that holds it longer means something else by it.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// Holds a lock; not, where the file system has none or somebody keeps it.
#[derive(Debug)]
pub(super) struct Held(Option<File>);

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            // It goes with the file anyway.
            file.unlock().unwrap_or_default();
        }
    }
}

/// Locks an open file, if that can be had soon.
pub(super) fn take(file: &File) -> Held {
    let Ok(own) = file.try_clone() else {
        return Held(None);
    };
    for _ in 0..TRIES {
        match own.try_lock() {
            Ok(()) => return Held(Some(own)),
            Err(TryLockError::WouldBlock) => std::thread::park_timeout(PAUSE),
            Err(TryLockError::Error(_)) => break,
        }
    }
    Held(None)
}
