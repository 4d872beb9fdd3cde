//! How long to wait before the next try.

use std::time::{Duration, UNIX_EPOCH};

use castellan_core::{Ids, Timestamp};
use castellan_host::http::HeaderMap;

/// The shortest wait, so that no answer of a server makes a hot loop.
const FLOOR: Duration = Duration::from_millis(250);

/// The widest first wait; it doubles with each try.
const FIRST: Duration = Duration::from_secs(1);

/// Where the doubling ends.
const CEILING: Duration = Duration::from_secs(30);

/// How far the waits of several agents that were told the same time are spread.
const SPREAD: Duration = Duration::from_secs(1);

/// The wait before try number `next` (2 for the first repetition).
///
/// Exponential with full jitter above a floor. At least what the server asked for, plus some
/// jitter, but never more than `longest`.
pub(super) fn wait(next: u32, asked: Option<Duration>, longest: Duration, jitter: f64) -> Duration {
    let doublings = next.saturating_sub(2).min(16);
    let width = FIRST.saturating_mul(1 << doublings).min(CEILING);
    let backoff = FLOOR + (width - FLOOR).mul_f64(jitter);
    let asked = asked.map(|asked| asked.saturating_add(SPREAD.mul_f64(jitter)));
    backoff.max(asked.unwrap_or_default()).min(longest)
}

/// A number from 0 to 1, drawn from the random bits at the end of a new id: the one source of
/// randomness there is, and a known one in tests.
pub(super) fn jitter(ids: &dyn Ids) -> f64 {
    let [.., a, b, c, d] = ids.next().into_bytes();
    f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX)
}

/// What the server asked for: `retry-after-ms`, else `retry-after` in seconds or as a date. `None`
/// where it asked for nothing, for no time, or in a way that makes no sense.
pub(super) fn asked(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let get = |name| headers.get(name).and_then(|value| value.to_str().ok());
    get("retry-after-ms")
        .and_then(|text| seconds(text, 1000.0))
        .or_else(|| {
            get("retry-after").and_then(|text| seconds(text, 1.0).or_else(|| date(text, now)))
        })
}

fn seconds(text: &str, units: f64) -> Option<Duration> {
    let number: f64 = text.trim().parse().ok()?;
    if !number.is_finite() || number <= 0.0 {
        return None;
    }
    // Out of range is simply very long.
    Some(Duration::try_from_secs_f64(number / units).unwrap_or(Duration::MAX))
}

fn date(text: &str, now: Timestamp) -> Option<Duration> {
    let time = httpdate::parse_http_date(text.trim()).ok()?;
    let milliseconds = time.duration_since(UNIX_EPOCH).ok()?.as_millis();
    let wait = Timestamp(i64::try_from(milliseconds).ok()?).since(now);
    (!wait.is_zero()).then_some(wait)
}

#[cfg(test)]
mod tests {
    use super::*;
    use castellan_host::http::header::HeaderValue;
    use proptest::prelude::*;

    /// 2026-01-01T00:00:00Z.
    const NOW: Timestamp = Timestamp(1_767_225_600_000);
    const LONGEST: Duration = Duration::from_secs(60);

    fn asked_in(header: &'static str, value: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(header, HeaderValue::from_str(value).unwrap());
        asked(&headers, NOW)
    }

    #[test]
    fn a_server_asks_in_seconds_milliseconds_or_with_a_date() {
        assert_eq!(asked_in("retry-after", "5"), Some(Duration::from_secs(5)));
        assert_eq!(
            asked_in("retry-after", "1.5"),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(
            asked_in("retry-after", "999999"),
            Some(Duration::from_secs(999_999))
        );
        assert_eq!(
            asked_in("retry-after-ms", "120"),
            Some(Duration::from_millis(120))
        );
        assert_eq!(
            asked_in("retry-after", "Thu, 01 Jan 2026 00:00:07 GMT"),
            Some(Duration::from_secs(7))
        );
        assert!(asked_in("retry-after", "Thu, 01 Jan 2099 00:00:00 GMT").unwrap() > LONGEST);
        assert_eq!(asked_in("retry-after", "1e300"), Some(Duration::MAX));
    }

    #[test]
    fn a_server_that_asks_for_nothing_sensible_asks_for_nothing() {
        for value in [
            "0",
            "-1",
            "abc",
            "",
            "inf",
            "NaN",
            "Thu, 01 Jan 2015 00:00:00 GMT",
        ] {
            assert_eq!(asked_in("retry-after", value), None, "{value}");
        }
        assert_eq!(asked(&HeaderMap::new(), NOW), None);
    }

    #[test]
    fn waits_grow_and_spread() {
        let waits: Vec<u128> = (2..=8)
            .map(|next| wait(next, None, LONGEST, 1.0).as_millis())
            .collect();
        assert_eq!(waits, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        assert_eq!(wait(5, None, LONGEST, 0.0), FLOOR);
    }

    #[test]
    fn several_agents_told_the_same_time_do_not_come_back_at_once() {
        let asked = Some(Duration::from_secs(5));
        let waits = [0.1, 0.5, 0.9].map(|jitter| wait(2, asked, LONGEST, jitter).as_millis());
        assert_eq!(waits, [5100, 5500, 5900]);
    }

    proptest! {
        #[test]
        fn a_wait_is_what_was_asked_within_the_bounds(
            next in 0_u32..100, asked in proptest::option::of(0_u64..10_000_000), jitter in 0.0..=1.0,
        ) {
            let asked = asked.map(Duration::from_millis);
            let wait = wait(next, asked, LONGEST, jitter);
            prop_assert!(wait >= asked.unwrap_or_default().min(LONGEST));
            prop_assert!(wait >= FLOOR && wait <= LONGEST);
        }
    }
}
