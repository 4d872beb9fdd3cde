//! The time and the ids of an episode. Both are functions of the seed and of how far it has come, so
//! that nothing in its trace depends on when or where it ran.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use castellan_core::{Clock, Ids, Timestamp};
use futures::future::BoxFuture;
use uuid::Uuid;

use super::chance::scattered;

/// 2000-01-01T00:00:00Z, when every simulated episode begins.
const BEGINNING: i64 = 946_684_800_000;
/// How far a step moves the simulated time.
pub const STEP: Duration = Duration::from_secs(10);

/// A clock that stands still but for [`advance`](Self::advance). Clones are the same clock.
///
/// Waiting is real all the same: a deadline is there to end what really hangs.
#[derive(Clone)]
pub struct SimulatedClock {
    passed: Arc<AtomicU64>,
    real: Arc<dyn Clock>,
}

impl std::fmt::Debug for SimulatedClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SimulatedClock").field(&self.now()).finish()
    }
}

impl SimulatedClock {
    /// A clock at the beginning; `real` is what waits wait by.
    #[must_use]
    pub fn new(real: Arc<dyn Clock>) -> Self {
        Self {
            passed: Arc::default(),
            real,
        }
    }

    /// Moves the time on.
    pub fn advance(&self, by: Duration) {
        let milliseconds = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.passed.fetch_add(milliseconds, Ordering::Relaxed);
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.passed.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        Timestamp(BEGINNING.saturating_add(passed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.passed.load(Ordering::Relaxed))
    }

    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()> {
        self.real.sleep(length)
    }
}

/// UUIDs of version 7 that follow from a seed: the nth is the same in every run.
#[derive(Debug)]
pub struct SeededIds {
    seed: u64,
    made: AtomicU64,
}

impl SeededIds {
    /// The ids of this seed, from the first on.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            seed,
            made: AtomicU64::new(0),
        }
    }
}

impl Ids for SeededIds {
    fn next(&self) -> Uuid {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        // The time of a version 7 id counts on with each, so that later ones sort behind.
        let time = BEGINNING.unsigned_abs().wrapping_add(number) & 0xffff_ffff_ffff;
        let first = scattered(self.seed ^ scattered(number));
        let second = scattered(first ^ self.seed);
        let high = (time << 16) | 0x7000 | (first & 0xfff);
        let low = (0b10 << 62) | (second >> 2);
        Uuid::from_u64_pair(high, low)
    }
}

/// The time and the ids an episode has.
#[derive(Clone)]
pub struct Time {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where ids come from.
    pub ids: Arc<dyn Ids>,
    simulated: Option<SimulatedClock>,
}

impl std::fmt::Debug for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Time").field(&self.simulated).finish()
    }
}

impl Time {
    /// Those of a seed.
    #[must_use]
    pub fn simulated(seed: u64, real: Arc<dyn Clock>) -> Self {
        let clock = SimulatedClock::new(real);
        Self {
            clock: Arc::new(clock.clone()),
            ids: Arc::new(SeededIds::new(seed)),
            simulated: Some(clock),
        }
    }

    /// The real ones: for episodes whose zones others use as well.
    #[must_use]
    pub const fn live(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self {
            clock,
            ids,
            simulated: None,
        }
    }

    /// Moves on by a step, where time is simulated.
    pub(super) fn step(&self) {
        if let Some(clock) = &self.simulated {
            clock.advance(STEP);
        }
    }
}

#[cfg(test)]
mod tests {
    use castellan_testkit::ManualClock;

    use super::*;

    #[test]
    fn ids_follow_from_the_seed_and_sort_as_they_were_made() {
        let made = |seed| {
            let ids = SeededIds::new(seed);
            std::iter::repeat_with(|| ids.next())
                .take(1000)
                .collect::<Vec<_>>()
        };
        let ids = made(7);
        assert_eq!(ids, made(7));
        assert_ne!(ids, made(8));
        assert!(ids.is_sorted_by(|earlier, later| earlier < later));
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
        let is_rfc = |id: &Uuid| id.get_variant() == uuid::Variant::RFC4122;
        assert!(ids.iter().all(is_rfc));
    }

    #[test]
    fn simulated_time_moves_with_steps_only() {
        let real = ManualClock::new();
        let time = Time::simulated(1, Arc::new(real.clone()));
        real.advance(Duration::from_secs(1000));
        assert_eq!(time.clock.now().to_string(), "2000-01-01T00:00:00.000Z");
        time.step();
        assert_eq!(time.clock.now().to_string(), "2000-01-01T00:00:10.000Z");
        assert_eq!(time.clock.monotonic(), STEP);
    }

    #[test]
    fn waiting_is_real() {
        use futures::FutureExt as _;
        let real = ManualClock::new();
        let time = Time::simulated(1, Arc::new(real.clone()));
        let mut sleep = time.clock.sleep(Duration::from_secs(5));
        time.step();
        assert_eq!((&mut sleep).now_or_never(), None);
        real.advance(Duration::from_secs(5));
        assert_eq!(sleep.now_or_never(), Some(()));
    }
}
