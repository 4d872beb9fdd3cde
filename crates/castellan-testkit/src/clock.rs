//! A clock that moves only when the test says so.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use castellan_core::{Clock, Timestamp};
use futures::FutureExt as _;
use futures::channel::oneshot;
use futures::future::{BoxFuture, ready};

use crate::tally::Tally;

/// 2026-01-01T00:00:00Z, where a new clock stands.
const START: Timestamp = Timestamp(1_767_225_600_000);

/// What a sleep does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// It waits until the clock is moved past its end.
    Held,
    /// It ends at once and moves the clock to its end.
    Skipping,
}

/// A settable [`Clock`]. Clones are the same clock.
#[derive(Clone)]
pub struct ManualClock(Arc<Inside>);

struct Inside {
    mode: Mode,
    state: Mutex<State>,
    asked: Tally,
}

struct State {
    wall: Timestamp,
    monotonic: Duration,
    asked: Vec<Duration>,
    sleeping: Vec<(Duration, oneshot::Sender<()>)>,
}

impl ManualClock {
    /// A clock that stands at 2026-01-01T00:00:00Z until it is moved.
    #[must_use]
    pub fn new() -> Self {
        Self::start(Mode::Held)
    }

    /// A clock on which every sleep ends at once and moves the time on by its length, so that a
    /// test of waits takes no time and [`sleeps`](Self::sleeps) shows what was waited for.
    #[must_use]
    pub fn skipping() -> Self {
        Self::start(Mode::Skipping)
    }

    fn start(mode: Mode) -> Self {
        Self(Arc::new(Inside {
            mode,
            state: Mutex::new(State {
                wall: START,
                monotonic: Duration::ZERO,
                asked: Vec::new(),
                sleeping: Vec::new(),
            }),
            asked: Tally::default(),
        }))
    }

    /// Moves both clocks on and ends the sleeps that are over by then.
    pub fn advance(&self, by: Duration) {
        let mut state = self.lock();
        state.advance(by);
        let now = state.monotonic;
        let (over, sleeping) = std::mem::take(&mut state.sleeping)
            .into_iter()
            .partition::<Vec<_>, _>(|(end, _)| *end <= now);
        state.sleeping = sleeping;
        drop(state);
        for (_, sleeper) in over {
            // A sleeper that is gone no longer needs to be told.
            sleeper.send(()).unwrap_or_default();
        }
    }

    /// Sets the wall clock as a person would: the monotonic clock and the sleeps stay as they are.
    pub fn set_wall(&self, to: Timestamp) {
        self.lock().wall = to;
    }

    /// Every length that was asked for, in order, ended or not.
    #[must_use]
    pub fn sleeps(&self) -> Vec<Duration> {
        self.lock().asked.clone()
    }

    /// Resolves once `count` sleeps have been asked for since the clock was made.
    pub async fn slept(&self, count: usize) {
        self.0.asked.reached(count).await;
    }

    /// Blocks until `count` sleeps have been asked for since the clock was made.
    pub fn wait_slept(&self, count: usize) {
        self.0.asked.expect(count, "sleeps");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn advance(&mut self, by: Duration) {
        self.monotonic += by;
        let milliseconds = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.wall = Timestamp(self.wall.0.saturating_add(milliseconds));
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.lock().wall
    }

    fn monotonic(&self) -> Duration {
        self.lock().monotonic
    }

    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()> {
        let mut state = self.lock();
        state.asked.push(length);
        let sleep = if self.0.mode == Mode::Skipping || length.is_zero() {
            state.advance(length);
            ready(()).boxed()
        } else {
            let (sender, receiver) = oneshot::channel();
            let end = state.monotonic + length;
            state.sleeping.push((end, sender));
            // The sender outlives every sleeper: it stands in this clock until the sleep is over.
            let clock = self.clone();
            async move {
                receiver.await.unwrap_or_default();
                drop(clock);
            }
            .boxed()
        };
        drop(state);
        self.0.asked.add();
        sleep
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("ManualClock")
            .field("now", &state.wall)
            .field("monotonic", &state.monotonic)
            .field("sleeping", &state.sleeping.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_when_the_clock_is_moved_past_its_end() {
        let clock = ManualClock::new();
        let mut sleep = clock.sleep(Duration::from_secs(5));
        assert_eq!((&mut sleep).now_or_never(), None);
        clock.advance(Duration::from_secs(4));
        assert_eq!((&mut sleep).now_or_never(), None);
        clock.advance(Duration::from_secs(1));
        assert_eq!((&mut sleep).now_or_never(), Some(()));
        assert_eq!(clock.now().since(START), Duration::from_secs(5));
        assert_eq!(clock.sleeps(), [Duration::from_secs(5)]);
    }

    #[test]
    fn a_skipping_clock_moves_on_by_each_sleep() {
        let clock = ManualClock::skipping();
        assert_eq!(
            clock.sleep(Duration::from_secs(60)).now_or_never(),
            Some(())
        );
        assert_eq!(clock.monotonic(), Duration::from_secs(60));
        clock.wait_slept(1);
    }

    #[test]
    fn a_wall_clock_that_is_set_leaves_the_monotonic_one_alone() {
        let clock = ManualClock::new();
        clock.set_wall(Timestamp(5));
        assert_eq!(
            (clock.now(), clock.monotonic()),
            (Timestamp(5), Duration::ZERO)
        );
    }
}
