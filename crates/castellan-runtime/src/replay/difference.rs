//! What is different between two lines of a trace, in a sentence.

use castellan_core::text::{one_line, shorten};
use serde_json::Value;

/// How much of a value that differs is shown, in characters.
const SHOWN: usize = 160;
/// How much of what two long values have in common is shown before they part, in characters.
const BEFORE: usize = 40;

/// What the two sides of a comparison are called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words {
    /// What comes before what the one side has.
    pub(super) old: &'static str,
    /// What comes before what the other has.
    pub(super) new: &'static str,
    /// What is said where the other side has nothing more.
    pub(super) ends: &'static str,
}

/// What is different between two lines, in a sentence.
pub(super) fn difference(old: Option<&[u8]>, new: Option<&[u8]>, words: &Words) -> String {
    let shown = |text: &[u8]| one_line(&shorten(&String::from_utf8_lossy(text), SHOWN));
    let (recorded, came) = match (old, new) {
        (Some(recorded), Some(came)) => (recorded, came),
        (Some(recorded), None) => {
            return format!("{} {}; {}", words.old, shown(recorded), words.ends);
        }
        (None, Some(came)) => {
            return format!("the record ends here; {} {}", words.new, shown(came));
        }
        (None, None) => return String::new(),
    };
    let both = || {
        let Words { old, new, .. } = words;
        format!("{old} {}; {new} {}", shown(recorded), shown(came))
    };
    let read = |text| serde_json::from_slice::<Value>(text).ok();
    let (Some(old), Some(new)) = (read(recorded), read(came)) else {
        return both();
    };
    let kind = |value: &Value| value.get("kind").and_then(Value::as_str).map(str::to_owned);
    if kind(&old) != kind(&new) {
        return both();
    }
    let kind = kind(&old).unwrap_or_default();
    match first_difference(&old, &new, String::new()) {
        Some((place, old, new)) => {
            // Of long texts, the place where they part.
            let (old, new) = parted(&old, &new);
            format!(
                "{kind}: at {place} {} {}; {} {}",
                words.old,
                one_line(&shorten(&old, SHOWN)),
                words.new,
                one_line(&shorten(&new, SHOWN))
            )
        }
        None => format!("{kind}: it is written otherwise, and says the same"),
    }
}

/// The first place where two values differ, and what they have there.
fn first_difference(old: &Value, new: &Value, place: String) -> Option<(String, String, String)> {
    let text = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            old.keys().chain(added).find_map(|key| {
                let place = format!("{place}/{key}");
                match (old.get(key), new.get(key)) {
                    (Some(old), Some(new)) => first_difference(old, new, place),
                    (old, new) => Some((place, text(old), text(new))),
                }
            })
        }
        (Value::Array(old), Value::Array(new)) => (0..old.len().max(new.len())).find_map(|index| {
            let place = format!("{place}/{index}");
            match (old.get(index), new.get(index)) {
                (Some(old), Some(new)) => first_difference(old, new, place),
                (old, new) => Some((place, text(old), text(new))),
            }
        }),
        (old, new) if old == new => None,
        (old, new) => Some((place, text(Some(old)), text(Some(new)))),
    }
}

/// Two texts from a little before the place where they part, with `…` for what was left out.
fn parted(old: &str, new: &str) -> (String, String) {
    let common = old.chars().zip(new.chars()).take_while(|(a, b)| a == b);
    let skipped = common.count().saturating_sub(BEFORE);
    if skipped == 0 {
        return (old.to_owned(), new.to_owned());
    }
    let rest = |text: &str| format!("…{}", text.chars().skip(skipped).collect::<String>());
    (rest(old), rest(new))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WORDS: Words = Words {
        old: "recorded is",
        new: "now comes",
        ends: "now it ends before that",
    };

    #[test]
    fn the_first_difference_is_found_with_its_place() {
        let old = json!({"kind": "x", "a": {"b": [1, 2]}, "c": 3});
        for (new, place) in [
            (json!({"kind": "x", "a": {"b": [1, 5]}, "c": 4}), "/a/b/1"),
            (json!({"kind": "x", "a": {"b": [1]}, "c": 3}), "/a/b/1"),
            (json!({"kind": "x", "a": {"b": [1, 2]}}), "/c"),
            (
                json!({"kind": "x", "a": {"b": [1, 2]}, "c": 3, "d": 1}),
                "/d",
            ),
        ] {
            let found = first_difference(&old, &new, String::new()).unwrap();
            assert_eq!(found.0, place);
            let (one, other) = (old.to_string(), new.to_string());
            let words = difference(Some(one.as_bytes()), Some(other.as_bytes()), &WORDS);
            assert!(words.contains(place), "{words}");
        }
        assert_eq!(first_difference(&old, &old, String::new()), None);
    }

    #[test]
    fn a_line_too_many_or_too_few_is_said() {
        let line = json!({"kind": "x"}).to_string();
        let line = Some(line.as_bytes());
        assert!(difference(line, None, &WORDS).contains("ends before that"));
        assert!(difference(None, line, &WORDS).contains("the record ends here"));
    }

    #[test]
    fn of_long_texts_the_place_is_shown_where_they_part() {
        let text = |end: &str| json!({"kind": "x", "a": "é".repeat(300) + end}).to_string();
        let (one, other) = (text("one"), text("two"));
        let words = difference(Some(one.as_bytes()), Some(other.as_bytes()), &WORDS);
        assert!(words.contains("éone") && words.contains("étwo"), "{words}");
    }
}
