//! What a call says while it runs, on its way to a client that may be slow.
//!
//! The queue is bounded. When it is full the oldest step of progress gives way, because a later one
//! says more; without one to give way, what comes last is dropped, and the client is told how much.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use castellan_core::event::LogLevel;
use castellan_core::port::Progress;
use castellan_core::text::{one_line, shorten};
use tokio::sync::Notify;

/// How much of a line of output is shown as progress, in characters.
const LINE: usize = 200;

/// How many notes wait for a slow client.
const MOST_WAITING: usize = 256;

/// Something a call said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Note {
    /// How far it has come.
    Progress {
        done: u64,
        total: Option<u64>,
        message: String,
    },
    /// Something for whoever watches.
    Log { level: LogLevel, message: String },
}

/// What the client of a request wants to hear.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// Whether it gave a token for progress.
    pub(crate) progress: bool,
    /// The lowest level of messages it wants.
    pub(crate) level: Option<LogLevel>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Note>,
    /// Progress must grow with each notification.
    furthest: Option<u64>,
    dropped: u64,
    /// Bytes of output so far.
    written: u64,
    /// Whether the call says itself how far it has come.
    measured: bool,
    wanted: Wanted,
}

/// The queue of one call.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    queue: Mutex<Queue>,
    rang: Notify,
}

impl Notes {
    pub(crate) fn new(wanted: Wanted) -> Self {
        let notes = Self::default();
        notes.want(wanted);
        notes
    }

    /// Another request of the client's has taken over.
    pub(crate) fn want(&self, wanted: Wanted) {
        self.queue().wanted = wanted;
    }

    /// The next note; waits until there is one.
    pub(crate) async fn next(&self) -> Note {
        loop {
            if let Some(note) = self.take() {
                return note;
            }
            self.rang.notified().await;
        }
    }

    /// The next note, where there is one.
    pub(crate) fn take(&self) -> Option<Note> {
        let mut queue = self.queue();
        let next = queue.waiting.pop_front();
        if next.is_none() && queue.dropped > 0 {
            let dropped = std::mem::take(&mut queue.dropped);
            return Some(Note::Log {
                level: LogLevel::Warning,
                message: format!(
                    "{dropped} messages were dropped: they came faster than they left"
                ),
            });
        }
        next
    }

    fn push(&self, note: Note) {
        let mut queue = self.queue();
        if queue.waiting.len() >= MOST_WAITING {
            let older = queue
                .waiting
                .iter()
                .position(|note| matches!(note, Note::Progress { .. }));
            match (older, &note) {
                (Some(position), _) => drop(queue.waiting.remove(position)),
                (None, Note::Progress { .. }) => return,
                (None, Note::Log { .. }) => {
                    queue.dropped += 1;
                    return;
                }
            }
        }
        queue.waiting.push_back(note);
        drop(queue);
        self.rang.notify_one();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Notes {
    fn output(&self, text: &str) {
        // The protocol has no place for output that is not yet the result; how much of it there is,
        // and where it is, says how far a call has come that says nothing else.
        let mut queue = self.queue();
        queue.written += text.len() as u64;
        let written = queue.written;
        let quiet = queue.measured || !queue.wanted.progress;
        drop(queue);
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        if let (false, Some(last)) = (quiet, last) {
            self.step(written, None, &one_line(&shorten(last.trim(), LINE)));
        }
    }

    fn advance(&self, done: u64, total: Option<u64>, message: &str) {
        self.queue().measured = true;
        self.step(done, total, message);
    }

    fn log(&self, level: LogLevel, message: &str) {
        if self.queue().wanted.level.is_none_or(|least| level < least) {
            return;
        }
        self.push(Note::Log {
            level,
            message: message.to_owned(),
        });
    }
}

impl Notes {
    /// A step of progress, where it is one.
    fn step(&self, done: u64, total: Option<u64>, message: &str) {
        let mut queue = self.queue();
        if !queue.wanted.progress || queue.furthest.is_some_and(|furthest| done <= furthest) {
            return;
        }
        queue.furthest = Some(done);
        drop(queue);
        self.push(Note::Progress {
            done,
            total,
            message: message.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Notes {
        Notes::new(Wanted {
            progress: true,
            level: Some(LogLevel::Info),
        })
    }

    fn steps(notes: &Notes) -> Vec<u64> {
        std::iter::from_fn(|| notes.take())
            .filter_map(|note| match note {
                Note::Progress { done, .. } => Some(done),
                Note::Log { .. } => None,
            })
            .collect()
    }

    #[test]
    fn progress_only_grows() {
        let notes = all();
        for done in [0, 50, 50, 20, 100] {
            notes.advance(done, Some(100), "");
        }
        assert_eq!(steps(&notes), [0, 50, 100]);
    }

    #[test]
    fn output_is_progress_of_a_call_that_says_nothing_else() {
        let notes = all();
        notes.output("one\ntwo\n");
        notes.output("\n");
        let Some(Note::Progress { done, message, .. }) = notes.take() else {
            panic!("no progress");
        };
        assert_eq!((done, message.as_str()), (8, "two"));
        assert_eq!(notes.take(), None);
        notes.advance(20, None, "own");
        notes.output("more than enough to be further than that\n");
        assert_eq!(steps(&notes), [20]);
    }

    #[test]
    fn a_flood_keeps_the_latest_progress_and_says_what_was_dropped() {
        let notes = all();
        for done in 0..10_000 {
            notes.advance(done, None, "");
        }
        let steps = steps(&notes);
        assert_eq!(steps.len(), MOST_WAITING);
        assert_eq!(steps.last(), Some(&9_999));
        for _ in 0..1_000 {
            notes.log(LogLevel::Error, "again");
        }
        let said: Vec<Note> = std::iter::from_fn(|| notes.take()).collect();
        assert_eq!(said.len(), MOST_WAITING + 1);
        let Some(Note::Log { message, .. }) = said.last() else {
            panic!("{said:?}");
        };
        assert!(message.starts_with("744 messages"), "{message}");
    }

    #[test]
    fn nobody_hears_what_they_did_not_ask_for() {
        let notes = Notes::new(Wanted::default());
        notes.advance(1, None, "");
        notes.log(LogLevel::Emergency, "fire");
        assert_eq!(notes.take(), None);
        let notes = all();
        notes.log(LogLevel::Debug, "detail");
        assert_eq!(notes.take(), None);
    }
}
