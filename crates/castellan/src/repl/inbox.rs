//! The events a session has shown and the screen has not drawn yet.
//!
//! A screen that is slow holds nothing up: what only passes by is joined while it waits, and of the
//! output of a running call only the end is kept, since no more of it is drawn.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use castellan_core::{Event, Recorded};
use castellan_runtime::session::Watcher;
use tokio::sync::Notify;

/// How much of what only its end is drawn of is kept, in bytes.
const TAIL: usize = 8 * 1024;

#[derive(Default)]
pub(crate) struct Inbox {
    events: Mutex<VecDeque<Recorded>>,
    arrived: Notify,
}

impl Inbox {
    /// Resolves once something has arrived.
    pub(crate) async fn arrived(&self) {
        while self.is_empty() {
            self.arrived.notified().await;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }

    /// Everything that has arrived since.
    pub(crate) fn take(&self) -> VecDeque<Recorded> {
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Watcher for Inbox {
    fn see(&self, event: &Recorded) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if !join(&mut events, &event.event) {
            events.push_back(event.clone());
        }
        drop(events);
        self.arrived.notify_one();
    }
}

/// Whether `new` could be joined to what waits.
fn join(waiting: &mut VecDeque<Recorded>, new: &Event) -> bool {
    for old in waiting.iter_mut().rev() {
        match (&mut old.event, new) {
            (Event::Content { text }, Event::Content { text: more }) => {
                text.push_str(more);
                return true;
            }
            (Event::Reasoning { text }, Event::Reasoning { text: more }) => {
                text.push_str(more);
                keep_tail(text);
                return true;
            }
            (
                Event::ToolOutputChunk { call_id, text },
                Event::ToolOutputChunk {
                    call_id: of,
                    text: more,
                },
            ) => {
                if call_id == of {
                    text.push_str(more);
                    keep_tail(text);
                    return true;
                }
                // Output of calls that run side by side has no order among them.
            }
            _ => return false,
        }
    }
    false
}

/// Leaves the last lines of `text`.
pub(crate) fn keep_tail(text: &mut String) {
    if text.len() <= 2 * TAIL {
        return;
    }
    let mut from = text.len() - TAIL;
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text.drain(..from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use castellan_core::{CallId, SessionId, Timestamp};
    use castellan_testkit::SequentialIds;

    fn put(inbox: &Inbox, session: SessionId, event: Event) {
        inbox.see(&Recorded {
            ts: Timestamp(0),
            seq: None,
            session,
            event,
        });
    }

    #[test]
    fn what_passes_by_is_joined_and_everything_else_keeps_its_order() {
        let ids = SequentialIds::new();
        let session = SessionId::mint(&ids);
        let (one, two) = (CallId::mint(&ids), CallId::mint(&ids));
        let inbox = Inbox::default();
        let chunk = |call_id, text: &str| Event::ToolOutputChunk {
            call_id,
            text: text.into(),
        };
        for _ in 0..3 {
            put(&inbox, session, Event::Content { text: "a".into() });
        }
        put(&inbox, session, Event::StreamEnd { complete: true });
        for _ in 0..100 {
            put(&inbox, session, chunk(one, &"x".repeat(1000)));
            put(&inbox, session, chunk(two, "y"));
        }
        let events = inbox.take();
        assert_eq!(events.len(), 4);
        assert_eq!(events[0].event, Event::Content { text: "aaa".into() });
        assert!(
            matches!(&events[2].event, Event::ToolOutputChunk { text, .. } if text.len() <= 2 * TAIL)
        );
        assert!(
            matches!(&events[3].event, Event::ToolOutputChunk { text, .. } if text.len() == 100)
        );
        assert!(inbox.take().is_empty());
    }
}
