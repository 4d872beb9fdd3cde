//! What was sent on a stream, for a client that lost it: it comes back with the last event it has
//! seen, and goes on from there.
//!
//! A stream is read to its end whether somebody listens or not, so a client that reads slowly or not
//! at all holds up nobody. What is kept is bounded; the last event, which is the answer, is never
//! dropped.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use tokio::sync::watch;

/// Events of one stream that are kept.
const MOST_EVENTS: usize = 256;

#[derive(Debug, Default)]
struct Events {
    kept: VecDeque<ServerSseMessage>,
    /// How many came before those that are kept.
    before: usize,
    over: bool,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Record {
    events: Mutex<Events>,
    news: watch::Sender<()>,
}

impl Record {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            events: Mutex::default(),
            news: watch::Sender::new(()),
        })
    }

    /// Keeps what `stream` has to say, to its end.
    pub(super) async fn keep(&self, stream: impl Stream<Item = ServerSseMessage>) {
        let mut stream = pin!(stream);
        while let Some(event) = stream.next().await {
            self.push(event);
        }
        self.events().over = true;
        self.news.send_replace(());
    }

    fn push(&self, event: ServerSseMessage) {
        let mut events = self.events();
        if events.kept.len() >= MOST_EVENTS {
            events.kept.pop_front();
            events.before += 1;
        }
        events.kept.push_back(event);
        drop(events);
        self.news.send_replace(());
    }

    /// Whether nothing more will come.
    pub(super) fn is_over(&self) -> bool {
        self.events().over
    }

    /// Everything from the event with this number on.
    pub(super) fn follow(
        self: &Arc<Self>,
        from: usize,
    ) -> impl Stream<Item = ServerSseMessage> + Send + Sync + use<> {
        let start = (Arc::clone(self), self.news.subscribe(), from);
        futures::stream::unfold(start, |(record, mut news, next)| async move {
            loop {
                news.mark_unchanged();
                if let Some((event, number)) = record.at(next) {
                    return Some((event, (record, news, number + 1)));
                }
                if record.is_over() {
                    return None;
                }
                news.changed().await.ok()?;
            }
        })
    }

    /// The event with this number, or the first that is kept after it.
    fn at(&self, number: usize) -> Option<(ServerSseMessage, usize)> {
        let events = self.events();
        let number = number.max(events.before);
        let event = events.kept.get(number - events.before)?;
        Some((event.clone(), number))
    }

    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where an event id points: the number of its stream in its session, and its own number.
pub(super) fn position(event_id: &str) -> Option<(u64, usize)> {
    let (number, stream) = event_id.split_once('/')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use std::time::Duration;

    fn event(number: usize) -> ServerSseMessage {
        ServerSseMessage::priming(format!("{number}/7"), Duration::ZERO)
    }

    fn numbers(record: &Arc<Record>, from: usize) -> Vec<String> {
        let events = record.follow(from).collect::<Vec<_>>();
        let events = events.now_or_never().unwrap();
        events
            .into_iter()
            .filter_map(|event| event.event_id)
            .collect()
    }

    fn kept(count: usize) -> Arc<Record> {
        let record = Record::new();
        let events = futures::stream::iter((0..count).map(event));
        record.keep(events).now_or_never().unwrap();
        record
    }

    #[test]
    fn a_client_that_comes_back_goes_on_where_it_was() {
        let record = kept(4);
        assert_eq!(numbers(&record, 2), ["2/7", "3/7"]);
        assert_eq!(numbers(&record, 4), [""; 0]);
        assert_eq!(position("3/7"), Some((7, 3)));
        assert_eq!(position("3"), None);
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_last_event_is_never_dropped() {
        let record = kept(MOST_EVENTS * 3);
        let found = numbers(&record, 0);
        assert_eq!(found.len(), MOST_EVENTS);
        assert_eq!(found.last().unwrap(), &format!("{}/7", MOST_EVENTS * 3 - 1));
    }

    #[test]
    fn a_follower_hears_what_comes_later() {
        let record = Record::new();
        let mut following = Box::pin(record.follow(0));
        assert!(following.next().now_or_never().is_none());
        record.push(event(0));
        assert!(following.next().now_or_never().unwrap().is_some());
        assert!(following.next().now_or_never().is_none());
    }
}
