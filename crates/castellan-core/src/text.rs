//! Text made fit to be stored and to be read by a model: valid, without control sequences, and cut
//! to a size with the cut said.

/// Text that was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Head, marker, tail.
    pub text: String,
    /// How many bytes are not in `text`.
    pub omitted: usize,
}

/// `text` within `limit` bytes and a marker: its head and its tail with a line between them that says
/// how much is missing and where the whole stands. `None` where it fits.
///
/// Cuts fall on line ends where one is near, never inside a character.
#[must_use]
pub fn head_and_tail(text: &str, limit: usize, whole: Option<&str>) -> Option<Cut> {
    if text.len() <= limit {
        return None;
    }
    let head_end = line_end_before(text, floor_boundary(text, limit * 2 / 3));
    let tail_start = line_start_after(text, ceil_boundary(text, text.len() - limit / 3));
    let (head, rest) = text.split_at(head_end);
    let (middle, tail) = rest.split_at(tail_start.max(head_end) - head_end);
    let place = whole.map_or_else(String::new, |place| {
        format!("; the whole text is in {place}")
    });
    let marker = format!(
        "\n[... {} of {} bytes ({} lines) left out here{place} ...]\n",
        middle.len(),
        text.len(),
        middle.matches('\n').count(),
    );
    Some(Cut {
        omitted: middle.len(),
        text: format!("{head}{marker}{tail}"),
    })
}

/// `text` as one line that can be shown anywhere: line breaks and other control characters become
/// visible escapes, so that nothing in it can pass for something around it.
#[must_use]
pub fn one_line(text: &str) -> String {
    let hidden = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        if hidden(letter) {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    line
}

/// `text` as a block of code in Markdown: between fences longer than any in it, so that nothing in it
/// closes them. Ends with the fence, without a line end.
#[must_use]
pub fn fenced(text: &str) -> String {
    let longest = text.split(|letter| letter != '`').map(str::len).max();
    let fence = "`".repeat(longest.map_or(3, |longest| (longest + 1).max(3)));
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}\n{text}{end}{fence}")
}

/// Bytes in hexadecimal.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// An error and what caused it, in one line. A cause that only repeats what was said is left out.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}

/// What a panic said.
#[must_use]
pub fn panic_words(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

/// A number of things: `1 rule`, `2 rules`. `what` is one of them.
#[must_use]
pub fn counted<N>(number: N, what: &str) -> String
where
    N: Copy + std::fmt::Display + PartialEq + From<u8>,
{
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// `text` cut to at most `limit` characters, the cut shown by an ellipsis.
#[must_use]
pub fn shorten(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(limit.saturating_sub(1)).collect();
    short.push('…');
    short
}

fn floor_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// How far a cut moves to fall on a line end.
const NEAR: usize = 400;

fn line_end_before(text: &str, at: usize) -> usize {
    let (head, _) = text.split_at(at);
    match head.rfind('\n') {
        Some(newline) if at - newline <= NEAR => newline,
        _ => at,
    }
}

fn line_start_after(text: &str, at: usize) -> usize {
    let (_, tail) = text.split_at(at);
    match tail.find('\n') {
        Some(newline) if newline <= NEAR => at + newline + 1,
        _ => at,
    }
}

/// `text` without NUL and without terminal control sequences (ECMA-48 CSI, OSC and the other
/// string sequences, two-character escapes); other control characters except tab, line feed and
/// carriage return are dropped too. `\r\n` becomes `\n`; a lone `\r`, which a terminal would use to
/// overwrite the line, becomes `\n`.
#[must_use]
pub fn plain(text: &str) -> String {
    if !text
        .bytes()
        .any(|byte| (byte < 0x20 && byte != b'\n' && byte != b'\t') || byte == 0x7f || byte == 0xc2)
    {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\n' | '\t' => out.push(letter),
            '\r' => {
                if letters.peek() != Some(&'\n') {
                    out.push('\n');
                }
            }
            '\u{1b}' => match letters.next() {
                Some('[') => skip_csi(&mut letters),
                Some(']' | 'P' | 'X' | '^' | '_') => skip_string(&mut letters),
                // An escape with an intermediate byte, such as the choice of a character set.
                Some(' '..='/') => drop(letters.next()),
                _ => {}
            },
            '\u{9b}' => skip_csi(&mut letters),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut letters),
            _ if letter.is_control() => {}
            _ => out.push(letter),
        }
    }
    out
}

type Letters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Parameter and intermediate bytes up to the final byte; stops at anything else, which is text.
fn skip_csi(letters: &mut Letters<'_>) {
    while letters
        .next_if(|letter| (' '..='?').contains(letter))
        .is_some()
    {}
    letters.next_if(|letter| ('@'..='~').contains(letter));
}

/// Up to BEL or the string terminator; an unterminated one ends at the line's end, so that one
/// stray byte can't swallow the rest of the output.
fn skip_string(letters: &mut Letters<'_>) {
    while let Some(letter) = letters.next_if(|letter| *letter != '\n') {
        match letter {
            '\u{07}' | '\u{9c}' => return,
            '\u{1b}' => {
                letters.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_not_several() {
        let said = [0_u64, 1, 2].map(|number| counted(number, "byte"));
        assert_eq!(said, ["0 bytes", "1 byte", "2 bytes"]);
    }
    use proptest::prelude::*;

    #[test]
    fn a_cut_says_how_much_is_missing_and_where_the_whole_is() {
        let text = (0..1000).map(|n| format!("line {n}\n")).collect::<String>();
        let cut = head_and_tail(&text, 900, Some("spill/1.txt")).unwrap();
        assert!(cut.text.starts_with("line 0\n") && cut.text.ends_with("line 999\n"));
        assert!(
            cut.text
                .contains(&format!("{} of {} bytes", cut.omitted, text.len()))
        );
        assert!(cut.text.contains("spill/1.txt"));
        assert_eq!(head_and_tail("short", 5, None), None);
    }

    #[test]
    fn one_line_shows_what_would_be_hidden() {
        assert_eq!(
            one_line("a\nhint: b\u{1b}[2K\rc\u{202e}d é"),
            "a\\nhint: b\\u{1b}[2K\\rc\\u{202e}d é"
        );
    }

    #[test]
    fn nothing_in_a_text_closes_its_fence() {
        assert_eq!(fenced("x"), "```\nx\n```");
        assert_eq!(fenced("x\n"), "```\nx\n```");
        assert_eq!(fenced(""), "```\n\n```");
        assert_eq!(fenced("```\nx\n````"), "`````\n```\nx\n````\n`````");
    }

    #[test]
    fn control_sequences_leave_the_text_between_them() {
        assert_eq!(plain("\u{1b}[1;31mred\u{1b}[0m"), "red");
        assert_eq!(
            plain("\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{1b}\\ end"),
            "link end"
        );
        assert_eq!(plain("\u{1b}(Bplain\u{0}\u{8}"), "plain");
        assert_eq!(plain("10%\r20%\r\ndone"), "10%\n20%\ndone");
        assert_eq!(plain("\u{1b}]0;never ended\nnext"), "\nnext");
        assert_eq!(plain("a\u{a0}é\u{9b}2Jb"), "a\u{a0}éb");
    }

    proptest! {
        #[test]
        fn a_cut_keeps_both_ends_and_never_splits_a_character(
            text in "[a-zé中\n]{0,400}", limit in 0_usize..200,
        ) {
            match head_and_tail(&text, limit, None) {
                None => prop_assert!(text.len() <= limit),
                Some(cut) => {
                    let (head, rest) = cut.text.split_once("\n[... ").unwrap();
                    let (_, tail) = rest.split_once(" ...]\n").unwrap();
                    prop_assert!(text.starts_with(head) && text.ends_with(tail));
                    prop_assert_eq!(head.len() + tail.len() + cut.omitted, text.len());
                    prop_assert!(head.len() + tail.len() <= limit);
                }
            }
        }

        #[test]
        fn plain_text_has_no_control_characters_and_is_stable(text in "\\PC*|[\\x00-\\x7f\u{80}-\u{9f}]{0,60}") {
            let once = plain(&text);
            prop_assert!(!once.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
            prop_assert_eq!(plain(&once), once);
        }
    }
}
