//! Names of zones, signals and slots.

use castellan_core::Outcome;
use castellan_core::text::{one_line, shorten};

/// The longest name, in characters.
const LIMIT: usize = 64;

/// Whether `name` is made of 1 to 64 of `a-z 0-9 _ . : / -`.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=LIMIT).contains(&name.len())
        && name.bytes().all(
            |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b':' | b'/' | b'-'),
        )
}

/// Refuses what is no name of a `what`.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), Outcome> {
    if is_name(name) {
        return Ok(());
    }
    let shown = one_line(&shorten(name, LIMIT));
    let problem = match name.chars().count() {
        0 => format!("`{what}` is empty"),
        length if length > LIMIT => format!("`{what}` has {length} characters"),
        _ => format!("`{shown}` is no name of a {what}"),
    };
    let rule = format!("a {what} is named with 1 to {LIMIT} of a-z 0-9 _ . : / -");
    let better = name.trim().to_lowercase().replace(' ', "_");
    let next = if is_name(&better) {
        format!("{rule}; `{better}` would be one")
    } else {
        rule
    };
    Err(Outcome::invalid(problem, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_plain() {
        for good in ["grid", "a.b:c/d-e_9", &"x".repeat(64)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "Grid", "a b", "ü", "a\0", "a\n", &"x".repeat(65)] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_bad_name_is_told_which_one_would_do() {
        let text = check_name("zone", " North Field").unwrap_err().into_text();
        assert!(text.contains("`north_field` would be one"), "{text}");
        let text = check_name("zone", &"ü".repeat(70)).unwrap_err().into_text();
        assert!(text.contains("has 70 characters"), "{text}");
    }
}
