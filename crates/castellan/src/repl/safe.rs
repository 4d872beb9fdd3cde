//! Text of others made fit for a terminal: nothing a model, a tool or a file says may move the
//! cursor, change a colour, or read other than it is.

use castellan_core::text::plain;

/// Whether a letter changes how its neighbours are read, stands unseen between them, or looks like a
/// blank that separates words and is none.
fn is_hidden(letter: char) -> bool {
    is_reordering(letter)
        || (letter.is_whitespace() && !letter.is_ascii())
        || matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

const fn is_reordering(letter: char) -> bool {
    matches!(letter,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{2028}' | '\u{2029}')
}

/// A line to be read: control sequences and letters that reorder others are left out, tabs are
/// blanks.
pub(crate) fn readable(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for letter in plain(line).chars() {
        match letter {
            '\t' => text.push_str("    "),
            '\n' => text.push(' '),
            _ if is_reordering(letter) => {}
            _ => text.push(letter),
        }
    }
    text
}

/// A line to be judged: whatever would not be seen as it is becomes a visible escape, so that what
/// is shown is what would run.
pub(crate) fn exact(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for letter in line.chars() {
        match letter {
            '\t' => text.push_str("    "),
            _ if letter.is_control() || is_hidden(letter) => text.extend(letter.escape_default()),
            _ => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_sequences_are_left_out_of_what_is_read() {
        assert_eq!(
            readable("\u{1b}]0;title\u{7}a\u{1b}[2Jb\u{9b}31mc\u{8}"),
            "abc"
        );
        assert_eq!(readable("pay \u{202e}001\u{202c}\tnow"), "pay 001    now");
        assert_eq!(readable("👩‍👩‍👧 é"), "👩‍👩‍👧 é");
    }

    #[test]
    fn what_is_judged_shows_what_is_hidden() {
        assert_eq!(
            exact("rm \u{1b}[2K x\u{200b}y\u{202e}\r"),
            "rm \\u{1b}[2K x\\u{200b}y\\u{202e}\\r"
        );
        for letter in [
            '\u{a0}', '\u{200d}', '\u{3000}', '\u{3164}', '\u{fe0f}', '\u{2800}',
        ] {
            assert!(
                exact(&format!("a{letter}b")).starts_with("a\\u{"),
                "{letter:?}"
            );
        }
        assert_eq!(exact("echo grün 日本 é"), "echo grün 日本 é");
    }

    proptest! {
        #[test]
        fn nothing_that_moves_a_cursor_is_left(text in "\\PC*|[\\x00-\\x7f\u{80}-\u{9f}\u{202a}-\u{202e}]{0,40}") {
            for made in [readable(&text), exact(&text)] {
                prop_assert!(!made.chars().any(|letter| letter.is_control() || is_reordering(letter)));
            }
        }
    }
}
