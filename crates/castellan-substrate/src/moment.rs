//! Times as callers write them.

use std::time::Duration;

use castellan_core::Timestamp;
use castellan_core::text::{one_line, shorten};
use schemars::JsonSchema;
use serde::Deserialize;

/// A moment in an argument.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Moment {
    /// Milliseconds since the Unix epoch.
    Milliseconds(i64),
    /// RFC 3339 (`2026-11-30T14:25:24Z`), or how long ago: `90s`, `10m`, `2h`, `7d`.
    Text(String),
}

impl Moment {
    /// The time it means at `now`.
    ///
    /// # Errors
    /// What was wrong with it.
    pub(crate) fn at(&self, now: Timestamp) -> Result<Timestamp, String> {
        match self {
            Self::Milliseconds(milliseconds) => Ok(Timestamp(*milliseconds)),
            Self::Text(text) => read(text.trim(), now).ok_or_else(|| {
                format!(
                    "`{}` is no time; write it as 2026-11-30T14:25:24Z, as Unix milliseconds, or \
                     as how long ago it was: 90s, 10m, 2h, 7d",
                    one_line(&shorten(text, 40))
                )
            }),
        }
    }
}

fn read(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Ok(milliseconds) = text.parse() {
        return Some(Timestamp(milliseconds));
    }
    if let Some(length) = length(text) {
        let milliseconds = i64::try_from(length.as_millis()).ok()?;
        return Some(Timestamp(now.0.saturating_sub(milliseconds)));
    }
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp(time.as_millisecond()))
}

fn length(text: &str) -> Option<Duration> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    let number: u64 = text.get(..text.len() - 1)?.trim().parse().ok()?;
    Some(Duration::from_secs(number.checked_mul(unit)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_in_every_way_it_is_written() {
        let now = Timestamp(1_796_048_724_123);
        let read = |text: &str| Moment::Text(text.to_owned()).at(now);
        assert_eq!(read("2026-11-30T14:25:24.123Z"), Ok(now));
        assert_eq!(read("2026-11-30T15:25:24.123+01:00"), Ok(now));
        assert_eq!(read("1796048724123"), Ok(now));
        assert_eq!(read("90s"), Ok(Timestamp(now.0 - 90_000)));
        assert_eq!(read(" 7d "), Ok(Timestamp(now.0 - 604_800_000)));
        assert_eq!(Moment::Milliseconds(5).at(now), Ok(Timestamp(5)));
    }

    #[test]
    fn what_is_no_time_is_said_with_what_would_be() {
        for text in [
            "",
            "yesterday",
            "10",
            "-5m",
            "1.5h",
            "99999999999999999999d",
            "NaN",
        ] {
            let read = Moment::Text(text.to_owned()).at(Timestamp(0));
            if text == "10" {
                assert_eq!(read, Ok(Timestamp(10)));
            } else {
                assert!(read.is_err_and(|error| error.contains("10m")), "{text}");
            }
        }
    }
}
