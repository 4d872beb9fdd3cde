//! The system's clocks and randomness behind the traits the rest of the house uses.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use castellan_core::{Clock, Ids, Timestamp};
use futures::future::BoxFuture;
use uuid::Uuid;

/// The clocks of this machine.
#[derive(Debug, Clone)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the Clock everybody else takes"
    )]
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the Clock everybody else takes"
    )]
    fn now(&self) -> Timestamp {
        // A wall clock set before 1970 or past the year 292 million reads as the nearest end.
        let milliseconds = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => {
                i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |past| -past)
            }
        };
        Timestamp(milliseconds)
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }

    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()> {
        // Inside an async block, because tokio's timer wants a runtime when it is made, and the
        // caller may make the future before it enters one.
        Box::pin(async move { tokio::time::sleep(length).await })
    }
}

/// UUIDs of version 7 from the system's clock and randomness, in the order of their making.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    fn next(&self) -> Uuid {
        // The library keeps a counter for ids of one millisecond, so they sort as they were made.
        Uuid::now_v7()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_in_the_order_of_their_making() {
        let ids: Vec<Uuid> = std::iter::repeat_with(|| SystemIds.next())
            .take(10_000)
            .collect();
        assert!(ids.is_sorted_by(|earlier, later| earlier < later));
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
    }

    #[test]
    fn the_monotonic_clock_does_not_go_back() {
        let clock = SystemClock::new();
        let first = clock.monotonic();
        assert!(clock.monotonic() >= first);
        assert!(clock.now() > Timestamp(1_700_000_000_000));
    }

    #[tokio::test]
    async fn a_sleep_lasts_at_least_its_length() {
        let clock = SystemClock::new();
        let sleep = clock.sleep(Duration::from_millis(5));
        let before = clock.monotonic();
        sleep.await;
        assert!(clock.monotonic() - before >= Duration::from_millis(5));
    }
}
