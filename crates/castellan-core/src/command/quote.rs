//! Quotes and escapes: from the text of a token to what the shell makes of it.
//!
//! Every function answers `None` where the text holds anything that bash would not read as part of
//! this token; the caller gives up on the whole command then.

use super::word::Piece;

/// An unquoted stretch of a word. `first` says that it begins the word, where `~` has a meaning;
/// `last` that nothing of the word follows.
#[expect(
    clippy::fn_params_excessive_bools,
    reason = "each is a fact about the place of the stretch, named at the one definition"
)]
pub(super) fn unquoted(text: &str, first: bool, last: bool) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut known = String::new();
    let mut letters = text.chars().peekable();
    if first && letters.peek() == Some(&'~') {
        letters.next();
        let mut user = String::new();
        while let Some(letter) = letters.next_if(|letter| *letter != '/') {
            if !(letter.is_ascii_alphanumeric() || "_-.+".contains(letter)) {
                // `~"x"` and the like: not worth knowing.
                return None;
            }
            user.push(letter);
        }
        if letters.peek().is_none() && !last {
            pieces.push(Piece::Unknown { quoted: false });
        } else {
            pieces.push(Piece::Tilde(user));
        }
    }
    let mut before = if first { ' ' } else { '=' };
    while let Some(letter) = letters.next() {
        let last_letter = std::mem::replace(&mut before, letter);
        let special = match letter {
            // The shell also puts a home where a word has the form of an assignment.
            '~' if matches!(last_letter, '=' | ':') => Piece::Unknown { quoted: true },
            '\\' => match letters.next()? {
                '\n' => continue,
                escaped => {
                    known.push(escaped);
                    continue;
                }
            },
            '*' | '?' | '[' => Piece::Pattern(letter),
            '{' | '}' | ',' => Piece::Brace(letter),
            // A dollar sign before nothing is itself.
            '$' if last && letters.peek().is_none() => {
                known.push('$');
                continue;
            }
            '\'' | '"' | '`' | '$' | '(' | ')' | '<' | '>' | '|' | '&' | ';' => return None,
            blank if blank.is_whitespace() => return None,
            plain => {
                known.push(plain);
                continue;
            }
        };
        if !known.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut known)));
        }
        pieces.push(special);
    }
    if !known.is_empty() {
        pieces.push(Piece::Text(known));
    }
    Some(pieces)
}

/// Text between double quotes that holds no expansion.
pub(super) fn double_quoted(text: &str) -> Option<String> {
    let mut known = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next()? {
                '\n' => {}
                escaped @ ('$' | '`' | '"' | '\\') => known.push(escaped),
                other => {
                    known.push('\\');
                    known.push(other);
                }
            },
            '"' | '`' => return None,
            '$' if letters.peek().is_some_and(|next| begins_expansion(*next)) => return None,
            plain => known.push(plain),
        }
    }
    Some(known)
}

/// The body of a here-document that expands, where it holds no expansion.
pub(super) fn heredoc(text: &str) -> Option<String> {
    let mut known = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('\n') => {}
                Some(escaped @ ('$' | '`' | '\\')) => known.push(escaped),
                Some(other) => {
                    known.push('\\');
                    known.push(other);
                }
                None => known.push('\\'),
            },
            '`' => return None,
            '$' if letters.peek().is_some_and(|next| begins_expansion(*next)) => return None,
            plain => known.push(plain),
        }
    }
    Some(known)
}

/// Whether bash reads `$` and this letter as the beginning of an expansion, inside double quotes.
fn begins_expansion(letter: char) -> bool {
    letter.is_alphanumeric() || "_@*#?$!-{([".contains(letter)
}

/// A single-quoted string, quotes included.
pub(super) fn single_quoted(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('\'')?.strip_suffix('\'')?;
    (!inside.contains('\'')).then_some(inside)
}

/// A string of the form `$'…'`, quotes included. The inner `None` says that it ends here but that
/// its bytes are no text or are cut at a NUL.
#[expect(
    clippy::option_option,
    reason = "not this token, and this token without a text, are different answers"
)]
pub(super) fn ansi_c(text: &str) -> Option<Option<String>> {
    let inside = text.strip_prefix("$'")?.strip_suffix('\'')?;
    let mut bytes: Vec<u8> = Vec::with_capacity(inside.len());
    let mut sure = true;
    let mut letters = inside.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '\'' {
            return None;
        }
        if letter != '\\' {
            push(&mut bytes, letter);
            continue;
        }
        // An escaped closing quote means that bash is not at the end yet.
        let code = match letters.next()? {
            'n' => 0x0a,
            't' => 0x09,
            'r' => 0x0d,
            'a' => 0x07,
            'b' => 0x08,
            'e' | 'E' => 0x1b,
            'f' => 0x0c,
            'v' => 0x0b,
            plain @ ('\\' | '\'' | '"' | '?') => u32::from(plain),
            first @ '0'..='7' => {
                let more = digits(&mut letters, 8, 2);
                let value = first.to_digit(8)? << (3 * more.1) | more.0;
                bytes.push(u8::try_from(value & 0xff).ok()?);
                sure &= value & 0xff != 0;
                continue;
            }
            'x' => {
                let (value, count) = digits(&mut letters, 16, 2);
                sure &= count > 0 && value != 0;
                bytes.push(u8::try_from(value).ok()?);
                continue;
            }
            wide @ ('u' | 'U') => {
                let (value, count) = digits(&mut letters, 16, if wide == 'u' { 4 } else { 8 });
                // Beyond ASCII the result depends on the locale.
                sure &= count > 0 && value != 0 && value < 0x80;
                value
            }
            other => {
                // `\c` and what bash leaves as it is.
                sure = false;
                push(&mut bytes, other);
                continue;
            }
        };
        match char::from_u32(code) {
            Some(letter) => push(&mut bytes, letter),
            None => sure = false,
        }
    }
    Some(String::from_utf8(bytes).ok().filter(|_| sure))
}

fn push(bytes: &mut Vec<u8>, letter: char) {
    let mut buffer = [0; 4];
    bytes.extend(letter.encode_utf8(&mut buffer).as_bytes());
}

/// Up to `most` digits: their value and number.
fn digits(
    letters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    radix: u32,
    most: usize,
) -> (u32, u32) {
    let (mut value, mut count) = (0_u32, 0);
    for _ in 0..most {
        let Some(digit) = letters.peek().and_then(|letter| letter.to_digit(radix)) else {
            break;
        };
        letters.next();
        value = value << radix.trailing_zeros() | digit;
        count += 1;
    }
    (value, count)
}

/// The inside of a backquoted substitution as bash reads it again, and the number of bytes up to
/// and with the closing backquote. `text` begins after the opening one.
pub(super) fn backquoted(text: &str) -> Option<(String, usize)> {
    let mut inside = String::new();
    let mut letters = text.char_indices();
    while let Some((place, letter)) = letters.next() {
        match letter {
            '`' => return Some((inside, place + 1)),
            '\\' => match letters.next()?.1 {
                escaped @ ('$' | '`' | '\\') => inside.push(escaped),
                other => {
                    inside.push('\\');
                    inside.push(other);
                }
            },
            plain => inside.push(plain),
        }
    }
    None
}

/// Whether `text` is the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Whether bash would take this and what follows for an element of an array, blanks included.
pub(super) fn opens_subscript(raw: &str) -> bool {
    raw.split_once('[')
        .is_some_and(|(name, rest)| is_name(name) && !rest.contains(']'))
}

/// Whether bash would take a word that is written so for an assignment.
pub(super) fn looks_like_assignment(raw: &str) -> bool {
    let Some((before, _)) = raw.split_once('=') else {
        // `a[` begins an assignment that may reach over blanks.
        return raw.split_once('[').is_some_and(|(name, _)| is_name(name));
    };
    let name = before.strip_suffix('+').unwrap_or(before);
    is_name(name.split_once('[').map_or(name, |(name, _)| name))
}
