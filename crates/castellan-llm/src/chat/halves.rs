//! Characters cut in half. JSON escapes a character beyond the first 65536 as two halves
//! (`\ud83d\ude00`), and servers that count in these halves cut an answer between the two. One half
//! is no character, so the parser refuses it.

use serde_json::Value;

use crate::sse::SseEvent;

/// How long an escaped half is.
const ESCAPE: usize = 6;

/// What stands in place of a half whose other half is missing; as long as the half.
const REPLACEMENT: &str = "\\ufffd";

/// Which half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    First,
    Second,
}

/// Reads JSON. Only where it is broken otherwise, lone halves of characters are read as U+FFFD.
///
/// # Errors
/// Whatever else is wrong with it.
pub(super) fn read(json: &str) -> serde_json::Result<Value> {
    serde_json::from_str(json).or_else(|error| {
        let lone = lone_halves(json);
        if lone.is_empty() {
            return Err(error);
        }
        let mut mended = json.to_owned();
        for (at, _) in lone {
            mended.replace_range(at..at + ESCAPE, REPLACEMENT);
        }
        serde_json::from_str(&mended)
    })
}

/// Reads JSON values, one behind the other with or without blanks between them; at least one.
///
/// # Errors
/// What is wrong with the first that is broken.
pub(super) fn read_all(json: &str) -> serde_json::Result<Vec<Value>> {
    let error = match read(json) {
        Ok(value) => return Ok(vec![value]),
        Err(error) => error,
    };
    let values: serde_json::Result<Vec<Value>> = serde_json::Deserializer::from_str(json)
        .into_iter()
        .collect();
    values.ok().filter(|values| values.len() > 1).ok_or(error)
}

/// Joins the halves of a character that came in two events.
#[derive(Debug, Default)]
pub(super) struct Joiner {
    /// An event in which a text ends with a first half; the next one may have the second.
    held: Option<SseEvent>,
}

impl Joiner {
    /// Takes the next event and returns those that can be read now.
    pub(super) fn push(&mut self, mut event: SseEvent) -> impl Iterator<Item = SseEvent> + use<> {
        let mut before = self.held.take();
        if let Some(before) = &mut before {
            // Where they don't fit, each is read as it is.
            join(&mut before.data, &mut event.data).unwrap_or_default();
        }
        let now = if ends_in_half(&event.data) {
            self.held = Some(event);
            None
        } else {
            Some(event)
        };
        before.into_iter().chain(now)
    }

    /// Takes the end of the stream and returns the event that waits for a next one, if any.
    pub(super) fn finish(&mut self) -> Option<SseEvent> {
        self.held.take()
    }
}

/// Moves a first half at the end of a text in `before` to the second half at the beginning of the
/// same text in `after`; `None` where there is no such pair.
fn join(before: &mut String, after: &mut String) -> Option<()> {
    let (first, _) = lone_halves(before).pop()?;
    let (second, half) = lone_halves(after).into_iter().next()?;
    // The same text has the same names and numbers before it.
    let place = after.get(after.find("\"choices\"")?..second)?;
    let begin = before.find(place)? + place.len();
    let is_one_text = place.ends_with('"') && !before.get(begin..first)?.contains('"');
    if half != Half::Second || !is_one_text {
        return None;
    }
    let moved: String = before.drain(first..first + ESCAPE).collect();
    after.insert_str(second, &moved);
    Some(())
}

/// Whether the last lone half in `json` is a first one that ends a text.
fn ends_in_half(json: &str) -> bool {
    lone_halves(json).pop().is_some_and(|(at, half)| {
        let after = json.as_bytes().get(at + ESCAPE);
        half == Half::First && after == Some(&b'"')
    })
}

/// Where halves stand that have no other half beside them.
fn lone_halves(json: &str) -> Vec<(usize, Half)> {
    let mut lone = Vec::new();
    let mut at = 0;
    while let Some(found) = json.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        match (half_at(json, at), half_at(json, at + ESCAPE)) {
            (Some(Half::First), Some(Half::Second)) => at += 2 * ESCAPE,
            (Some(half), _) => {
                lone.push((at, half));
                at += ESCAPE;
            }
            // Of every other escape the second character is no backslash that begins one.
            (None, _) => at += 2,
        }
    }
    lone
}

/// The half whose escape begins at `at`.
fn half_at(json: &str, at: usize) -> Option<Half> {
    let digits = json.get(at..at + ESCAPE)?.strip_prefix("\\u")?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Half::First),
        0xdc00..=0xdfff => Some(Half::Second),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_lone_half_is_a_replacement_character_and_a_whole_one_itself() {
        for (text, meant) in [
            (r#""a\ud800b""#, "a\u{fffd}b"),
            (r#""\uDE00\uD83D""#, "\u{fffd}\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\ud83d\n\\\ude00""#, "\u{fffd}\n\\\u{fffd}"),
            (r#""\\ud800 \ud83d\ude00""#, "\\ud800 \u{1f600}"),
        ] {
            assert_eq!(read(text).unwrap(), json!(meant), "{text}");
        }
    }

    #[test]
    fn nothing_else_that_is_broken_is_mended() {
        for text in [
            r#"{"a": "\ud800""#,
            r#""\ud8""#,
            r#""\ud8zz""#,
            r#""\x\ud800""#,
            r#""\é\ud800""#,
            "\\ud800",
            "\"\\ud800\n\"",
            "{",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    fn joined(events: &[&str]) -> Vec<String> {
        let mut joiner = Joiner::default();
        let mut out = Vec::new();
        for data in events {
            out.extend(joiner.push(SseEvent {
                name: String::new(),
                data: (*data).to_owned(),
            }));
        }
        out.extend(joiner.finish());
        out.into_iter().map(|event| event.data).collect()
    }

    #[test]
    fn halves_in_two_events_are_joined_where_they_are_of_one_text() {
        let first = r#"{"n": 1, "choices": [{"delta": {"content": "a\ud83d"}}]}"#;
        let second = r#"{"n": 2, "choices": [{"delta": {"content": "\ude00b"}}]}"#;
        assert_eq!(
            joined(&[first, second]),
            [
                r#"{"n": 1, "choices": [{"delta": {"content": "a"}}]}"#,
                r#"{"n": 2, "choices": [{"delta": {"content": "\ud83d\ude00b"}}]}"#
            ]
        );
        let other = r#"{"n": 2, "choices": [{"delta": {"reasoning": "\ude00b"}}]}"#;
        let two = r#"{"choices": [{"delta": {"content": "", "reasoning": "\ud83d"}}]}"#;
        for apart in [
            [first, other],
            [two, second],
            [first, first],
            [second, first],
            [first, "[DONE]"],
        ] {
            assert_eq!(joined(&apart), apart);
        }
    }

    #[test]
    fn halves_that_follow_each_other_over_many_events_are_all_joined() {
        let event =
            |text: &str| format!(r#"{{"choices": [{{"delta": {{"content": "{text}"}}}}]}}"#);
        let pieces = [r"\ud83d", r"\ude00\ud83d", r"\ude01"].map(event);
        assert_eq!(
            joined(&pieces.each_ref().map(String::as_str)),
            ["", r"\ud83d\ude00", r"\ud83d\ude01"].map(event)
        );
    }
}
