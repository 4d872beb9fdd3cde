//! Signals that fade: how strong one is at a time, and what several come to.
//!
//! A signal is kept as its strength at the moment of its last change. What it is now follows from
//! that by one formula, S(t) = S0 · 2^(−Δt / half-life); nothing ticks. A half-life of 0 means that
//! the signal does not fade.

use std::time::Duration;

use crate::time::Timestamp;

/// The half-life of a signal that was given none, in seconds.
pub const HALF_LIFE: f64 = 600.0;

/// The longest half-life, in seconds: a thousand years.
pub const HALF_LIFE_LIMIT: f64 = 3.2e10;

/// The most a signal is changed by at once.
pub const AMOUNT_LIMIT: f64 = 1e6;

/// What no signal grows beyond.
pub const STRENGTH_LIMIT: f64 = 1e9;

/// A signal weaker than this is as good as gone.
pub const FAINT: f64 = 1e-6;

/// How far ahead of the present a signal's last change may lie before the clock counts as set back.
/// Less than that is one process being a little behind another.
pub const LAG: Duration = Duration::from_mins(1);

/// How strong a signal is `age` after it had `strength`, its half-life in seconds.
#[must_use]
pub fn decayed(strength: f64, half_life: f64, age: Duration) -> f64 {
    if half_life > 0.0 {
        strength * (-age.as_secs_f64() / half_life).exp2()
    } else {
        strength
    }
}

/// `strength` changed by `amount`, which is negative to take away. Never below 0, never above
/// [`STRENGTH_LIMIT`].
#[must_use]
pub fn changed(strength: f64, amount: f64) -> f64 {
    (strength + amount).clamp(0.0, STRENGTH_LIMIT)
}

/// When a change counts as made that is made `now` to a signal last changed at `last`: changes of
/// one signal are in the order of their times, unless the clock was set back.
#[must_use]
pub fn moment(now: Timestamp, last: Timestamp) -> Timestamp {
    if last.since(now) > LAG {
        now
    } else {
        now.max(last)
    }
}

/// When a signal with `strength` at `at` becomes weaker than [`FAINT`]; `None` for never.
#[must_use]
pub fn fades(at: Timestamp, strength: f64, half_life: f64) -> Option<Timestamp> {
    if strength <= FAINT {
        return Some(at);
    }
    if half_life <= 0.0 {
        return None;
    }
    let seconds = half_life * (strength / FAINT).log2();
    let length = Duration::try_from_secs_f64(seconds).ok()?;
    let milliseconds = i64::try_from(length.as_millis()).ok()?;
    at.0.checked_add(milliseconds + 1).map(Timestamp)
}

/// What signals come to together: the sum of each strength times its weight.
#[must_use]
pub fn pressure(signals: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    signals
        .into_iter()
        .map(|(weight, strength)| weight * strength)
        // The sum of nothing would be -0.
        .fold(0.0, |sum, one| sum + one)
}

/// A signal right after one of its changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mark {
    /// When.
    pub at: Timestamp,
    /// How strong it was then.
    pub strength: f64,
    /// How it fades from then on, in seconds.
    pub half_life: f64,
}

/// How strong a signal was at `count` times from `from` on, each `step` after the one before.
///
/// `marks` are its changes in the order they were made. Before the first of them the strength is
/// `before`, `None` where that is not known. A change whose time lies behind that of a later one was
/// made while the clock was ahead, and counts until the later one.
#[must_use]
pub fn resample(
    marks: &[Mark],
    before: Option<f64>,
    from: Timestamp,
    step: Duration,
    count: usize,
) -> Vec<Option<f64>> {
    let marks = in_order(marks);
    let mut next = 0;
    let mut samples = Vec::with_capacity(count);
    for number in 0..count {
        let at = sample_time(from, step, number);
        while marks.get(next).is_some_and(|mark| mark.at <= at) {
            next += 1;
        }
        let last = next.checked_sub(1).and_then(|last| marks.get(last));
        samples.push(last.map_or(before, |mark| {
            Some(decayed(mark.strength, mark.half_life, at.since(mark.at)))
        }));
    }
    samples
}

/// The time of the sample `number`, counted from 0.
#[must_use]
pub fn sample_time(from: Timestamp, step: Duration, number: usize) -> Timestamp {
    let steps = u128::try_from(number).unwrap_or(u128::MAX);
    let offset = step.as_millis().saturating_mul(steps);
    Timestamp(
        from.0
            .saturating_add(i64::try_from(offset).unwrap_or(i64::MAX)),
    )
}

/// The changes in the order of their times, without those that a later one overtook.
fn in_order(marks: &[Mark]) -> Vec<Mark> {
    let mut kept: Vec<Mark> = Vec::with_capacity(marks.len());
    for mark in marks {
        while kept.last().is_some_and(|last| last.at > mark.at) {
            kept.pop();
        }
        kept.push(*mark);
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn a_signal_is_half_as_strong_after_its_half_life() {
        assert_eq!(decayed(8.0, 600.0, seconds(600)), 4.0);
        assert_eq!(decayed(8.0, 600.0, seconds(1800)), 1.0);
        assert_eq!(decayed(8.0, 600.0, Duration::ZERO), 8.0);
        assert_eq!(decayed(8.0, 0.0, seconds(u64::MAX)), 8.0);
        // Far beyond what a float can tell from nothing.
        assert_eq!(decayed(1e9, 1e-3, seconds(u64::MAX)), 0.0);
    }

    #[test]
    fn a_change_stays_within_the_limits() {
        assert_eq!(changed(1.0, -2.0), 0.0);
        assert_eq!(changed(STRENGTH_LIMIT - 1.0, 2.0), STRENGTH_LIMIT);
        assert_eq!(changed(1.5, 2.0), 3.5);
    }

    #[test]
    fn a_clock_a_little_behind_does_not_reorder_and_one_set_back_is_believed() {
        let last = Timestamp(1_000_000);
        assert_eq!(moment(Timestamp(1_000_005), last), Timestamp(1_000_005));
        assert_eq!(moment(Timestamp(999_990), last), last);
        assert_eq!(moment(Timestamp(5), last), Timestamp(5));
    }

    #[test]
    fn a_signal_fades_when_its_formula_says_so() {
        assert_eq!(fades(Timestamp(7), 1.0, 0.0), None);
        assert_eq!(fades(Timestamp(7), 0.0, 0.0), Some(Timestamp(7)));
        let end = fades(Timestamp(0), 1.0, 600.0).unwrap();
        let left = decayed(1.0, 600.0, end.since(Timestamp(0)));
        assert!(left <= FAINT && left > FAINT * 0.99, "{left}");
        assert_eq!(fades(Timestamp(i64::MAX - 5), 1.0, 1e10), None);
    }

    #[test]
    fn what_a_clock_ahead_left_behind_counts_until_the_next_change() {
        let mark = |at, strength| Mark {
            at: Timestamp(at),
            strength,
            half_life: 0.0,
        };
        let marks = [mark(10, 1.0), mark(9_000_000, 2.0), mark(20, 3.0)];
        let step = Duration::from_millis(10);
        assert_eq!(
            resample(&marks, Some(0.0), Timestamp(0), step, 4),
            [Some(0.0), Some(1.0), Some(3.0), Some(3.0)]
        );
        assert_eq!(
            resample(&marks, None, Timestamp(0), step, 2),
            [None, Some(1.0)]
        );
    }

    #[test]
    fn pressure_is_the_weighted_sum() {
        assert_eq!(pressure([(2.0, 3.0), (-1.0, 4.0)]), 2.0);
        assert_eq!(pressure([]), 0.0);
    }

    /// One deposit after another, as the store keeps them.
    fn kept(deposits: &[(u64, f64)], half_life: f64) -> Vec<Mark> {
        let mut marks: Vec<Mark> = Vec::new();
        for (time, amount) in deposits {
            let at = Timestamp(i64::try_from(*time).unwrap());
            let before = marks.last().map_or(0.0, |last| {
                decayed(last.strength, last.half_life, at.since(last.at))
            });
            marks.push(Mark {
                at,
                strength: changed(before, *amount),
                half_life,
            });
        }
        marks
    }

    proptest! {
        #[test]
        fn what_is_kept_step_by_step_is_the_sum_of_all_that_was_deposited(
            mut deposits in prop::collection::vec((0_u64..10_000_000, 0.001..1000.0_f64), 1..40),
            half_life in prop_oneof![Just(0.0), 0.5..100_000.0_f64],
            step in 1_u64..500_000,
        ) {
            deposits.sort_by_key(|(time, _)| *time);
            let marks = kept(&deposits, half_life);
            let step = Duration::from_millis(step);
            let samples = resample(&marks, Some(0.0), Timestamp(0), step, 50);
            for (number, sample) in samples.into_iter().enumerate() {
                let at = sample_time(Timestamp(0), step, number);
                let sum: f64 = deposits
                    .iter()
                    .map(|(time, amount)| (Timestamp(i64::try_from(*time).unwrap()), *amount))
                    .filter(|(time, _)| *time <= at)
                    .map(|(time, amount)| decayed(amount, half_life, at.since(time)))
                    .sum();
                let found = sample.unwrap();
                let close = (found - sum).abs() <= 1e-9 * sum.max(1e-3);
                prop_assert!(close, "at {at}: {found} and {sum}");
            }
        }
    }
}
