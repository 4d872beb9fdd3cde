//! Counts calls and how long they take, for as long as this process lives.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use castellan_core::ErrorCode;
use schemars::JsonSchema;
use serde::Serialize;

/// How many buckets of time there are: four for each doubling, from a microsecond to days.
const BUCKETS: usize = 160;

/// Counts.
#[derive(Debug)]
pub struct Meter {
    calls: AtomicU64,
    denied: AtomicU64,
    failed: AtomicU64,
    asked: AtomicU64,
    times: [AtomicU64; BUCKETS],
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            calls: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            times: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// What was counted.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Counts {
    /// Calls that are over.
    pub calls: u64,
    /// How many of them were denied.
    pub denied: u64,
    /// How many of them failed otherwise.
    pub failed: u64,
    /// How often a person was asked.
    pub approvals: u64,
    /// How long calls took.
    pub latency_ms: Latency,
}

/// Percentiles, each to within a fifth. In milliseconds; 0 where there were no calls.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Latency {
    /// Half of the calls took no longer.
    pub p50: f64,
    /// Nine of ten took no longer.
    pub p90: f64,
    /// Ninety-nine of a hundred took no longer.
    pub p99: f64,
}

impl Meter {
    /// Takes note of a call that is over.
    pub(super) fn ended(&self, code: Option<ErrorCode>, took: Duration) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match code {
            None => {}
            Some(ErrorCode::Denied) => {
                self.denied.fetch_add(1, Ordering::Relaxed);
            }
            Some(_) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Some(bucket) = self.times.get(bucket(took)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes note that a person was asked.
    pub(super) fn asked(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted until now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let times: Vec<u64> = self
            .times
            .iter()
            .map(|bucket| bucket.load(Ordering::Relaxed))
            .collect();
        Counts {
            calls: self.calls.load(Ordering::Relaxed),
            denied: self.denied.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            approvals: self.asked.load(Ordering::Relaxed),
            latency_ms: Latency {
                p50: percentile(&times, 50),
                p90: percentile(&times, 90),
                p99: percentile(&times, 99),
            },
        }
    }
}

/// The bucket of a time: the position of its highest bit, and the two bits below.
fn bucket(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(4);
    let high = micros.ilog2();
    let below = (micros >> (high - 2)) & 3;
    let position = u64::from(high - 2) * 4 + below;
    usize::try_from(position)
        .unwrap_or(BUCKETS)
        .min(BUCKETS - 1)
}

/// The most that a time in this bucket is, in milliseconds.
fn end_of(bucket: usize) -> f64 {
    let (high, below) = (bucket / 4, bucket % 4);
    let scale = f64::powi(2.0, i32::try_from(high).unwrap_or(i32::MAX));
    let below = u32::try_from(below).unwrap_or_default();
    scale * (5.0 + f64::from(below)) / 1000.0
}

fn percentile(times: &[u64], percent: u64) -> f64 {
    let all: u64 = times.iter().sum();
    if all == 0 {
        return 0.0;
    }
    let wanted = (all * percent).div_ceil(100);
    let mut seen = 0;
    let reached = times.iter().position(|count| {
        seen += count;
        seen >= wanted
    });
    reached.map_or(0.0, end_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_within_a_fourth() {
        let meter = Meter::default();
        for millis in 1..=100 {
            meter.ended(None, Duration::from_millis(millis));
        }
        let latency = meter.counts().latency_ms;
        for (found, exact) in [
            (latency.p50, 50.0),
            (latency.p90, 90.0),
            (latency.p99, 99.0),
        ] {
            assert!(
                found >= exact && found <= exact * 1.25,
                "{found} for {exact}"
            );
        }
        assert_eq!(Meter::default().counts().latency_ms.p99, 0.0);
    }

    #[test]
    fn every_time_has_a_bucket_that_ends_after_it() {
        for micros in [0, 1, 3, 4, 5, 7, 8, 1_000, 123_456, u64::from(u32::MAX)] {
            let end = end_of(bucket(Duration::from_micros(micros)));
            #[expect(clippy::cast_precision_loss, reason = "small enough to be exact")]
            let exact = micros as f64 / 1000.0;
            assert!(end >= exact, "{micros}");
        }
    }
}
