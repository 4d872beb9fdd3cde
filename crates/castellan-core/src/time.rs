//! Time as data: UTC milliseconds, read only through a [`Clock`] that is passed in.

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, UTC.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The time from `earlier` to `self`, zero where the clock went back between the two.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The calendar day in UTC, `2026-11-30`.
    #[must_use]
    pub fn date(self) -> String {
        self.to_string().chars().take(10).collect()
    }
}

/// RFC 3339 with milliseconds, `2026-11-30T14:25:24.123Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            // Outside the calendar's range: the number itself is the honest answer.
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

/// The one source of time. Implemented over the system's clocks by `castellan-host` and as a
/// settable clock by the test kit.
pub trait Clock: Send + Sync {
    /// The wall clock, which people set and which may jump.
    fn now(&self) -> Timestamp;

    /// Time passed since an arbitrary start; never goes back. For durations and deadlines.
    fn monotonic(&self) -> Duration;

    /// Resolves once `length` has passed.
    fn sleep(&self, length: Duration) -> BoxFuture<'static, ()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_prints_as_rfc_3339() {
        assert_eq!(
            Timestamp(1_796_048_724_123).to_string(),
            "2026-11-30T14:25:24.123Z"
        );
        assert_eq!(Timestamp(1_796_048_724_123).date(), "2026-11-30");
        assert_eq!(Timestamp(i64::MAX).to_string(), format!("{}ms", i64::MAX));
    }

    #[test]
    fn a_clock_that_went_back_gives_no_negative_duration() {
        assert_eq!(Timestamp(5).since(Timestamp(9)), Duration::ZERO);
        assert_eq!(Timestamp(9).since(Timestamp(5)), Duration::from_millis(4));
    }
}
