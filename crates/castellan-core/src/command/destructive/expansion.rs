//! What stands between `${` and `}`: the variable, and what is done to its value.

use super::path::matches;
use crate::command::{Filling, Piece, quote};

/// An expansion, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expansion<'t> {
    /// A variable, also an array; a digit or `@` for the arguments.
    pub(super) name: &'t str,
    pub(super) change: Change<'t>,
}

/// What is done to a value. Words and patterns are as they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change<'t> {
    /// Nothing.
    Same,
    /// `-`, `:-`, `=`, `:=`: this instead of nothing; with a colon also instead of an empty value.
    Default { word: &'t str, empty: bool },
    /// `+`, `:+`: this instead of something.
    Alternate { word: &'t str },
    /// `?`, `:?`: without it nothing is run.
    Demand,
    /// `#`, `##`, `%`, `%%`: without what the pattern takes.
    Without {
        pattern: &'t str,
        end: End,
        longest: bool,
    },
    /// `:FROM`, `:FROM:LENGTH`.
    Slice { from: usize, length: Option<usize> },
    /// Something else.
    Other,
}

/// Where a pattern takes something away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Front,
    Back,
}

/// The expansion `${inside}`. `None` where it is not the value of a variable: a length, an
/// indirection.
pub(super) fn parse(inside: &str) -> Option<Expansion<'_>> {
    let named = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let end = match inside.chars().next()? {
        '@' | '*' => 1,
        digit if digit.is_ascii_digit() => inside
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(inside.len()),
        _ => inside.find(|letter| !named(letter)).unwrap_or(inside.len()),
    };
    let (name, mut rest) = inside.split_at(end);
    if name.is_empty() {
        return None;
    }
    // Any element counts as all of them.
    if let Some(subscript) = rest.strip_prefix('[') {
        rest = subscript.split_once(']')?.1;
    }
    let name = if name == "*" { "@" } else { name };
    Some(Expansion {
        name,
        change: change(rest),
    })
}

fn change(rest: &str) -> Change<'_> {
    let (colon, behind) = match rest.strip_prefix(':') {
        Some(behind) => (true, behind),
        None => (false, rest),
    };
    let mut letters = behind.chars();
    let operator = letters.next();
    let word = letters.as_str();
    let without = |end, letter| {
        let pattern = word.strip_prefix(letter);
        Change::Without {
            pattern: pattern.unwrap_or(word),
            end,
            longest: pattern.is_some(),
        }
    };
    match operator {
        None if !colon => Change::Same,
        Some('-' | '=') => Change::Default { word, empty: colon },
        Some('+') => Change::Alternate { word },
        Some('?') => Change::Demand,
        Some('#') if !colon => without(End::Front, '#'),
        Some('%') if !colon => without(End::Back, '%'),
        _ if colon => slice(behind),
        _ => Change::Other,
    }
}

fn slice(text: &str) -> Change<'_> {
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let read = match text.split_once(':') {
        Some((from, length)) => number(from).zip(number(length).map(Some)),
        None => number(text).map(|from| (from, None)),
    };
    read.map_or(Change::Other, |(from, length)| Change::Slice {
        from,
        length,
    })
}

/// The stretches of a word inside an expansion. `None` where it holds what is not followed here.
pub(super) fn pieces(text: &str, quoted: bool) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut inside = quoted;
    let mut rest = text;
    if !quoted && let Some(user) = text.strip_prefix('~') {
        let end = user.find('/').unwrap_or(user.len());
        let (user, behind) = user.split_at(end);
        pieces.push(Piece::Tilde(user.to_owned()));
        rest = behind;
    }
    while let Some(letter) = rest.chars().next() {
        rest = rest.get(letter.len_utf8()..).unwrap_or_default();
        match letter {
            '"' => inside = !inside,
            '\'' if !inside => {
                let (known, behind) = rest.split_once('\'')?;
                pieces.push(Piece::Text(known.to_owned()));
                rest = behind;
            }
            '\\' | '`' => return None,
            '*' | '?' | '[' if !inside || !quoted => pieces.push(Piece::Pattern(letter)),
            '$' => {
                let (expansion, behind) = dollar(rest)?;
                pieces.push(Piece::Filled {
                    with: Filling::Expansion(expansion.to_owned()),
                    quoted: inside,
                });
                rest = behind;
            }
            plain => pieces.push(Piece::Text(plain.to_string())),
        }
    }
    Some(pieces)
}

/// What stands behind a dollar sign: the expansion, and the rest of the text.
fn dollar(text: &str) -> Option<(&str, &str)> {
    if let Some(braced) = text.strip_prefix('{') {
        let mut open = 1_usize;
        for (place, letter) in braced.char_indices() {
            match letter {
                '{' => open += 1,
                '}' => open -= 1,
                _ => {}
            }
            if open == 0 {
                return Some((braced.get(..place)?, braced.get(place + 1..)?));
            }
        }
        return None;
    }
    let named = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let end = match text.chars().next()? {
        '@' | '*' | '0'..='9' => 1,
        _ => text.find(|letter| !named(letter)).unwrap_or(text.len()),
    };
    let (name, behind) = text.split_at(end);
    (end == 1 || quote::is_name(name)).then_some((name, behind))
}

/// `value` without what `pattern` takes at this end, the least or the most of it. The pattern has
/// its marks; sets of letters fit any.
pub(super) fn without<'v>(value: &'v str, pattern: &str, end: End, longest: bool) -> &'v str {
    let mut splits: Vec<(&str, &str)> = value
        .char_indices()
        .map(|(place, _)| place)
        .chain([value.len()])
        .map(|place| value.split_at(place))
        .collect();
    // The least that is taken comes first.
    if (end == End::Back) != longest {
        splits.reverse();
    }
    splits
        .into_iter()
        .find_map(|(front, back)| match end {
            End::Front => matches(pattern, front).then_some(back),
            End::Back => matches(pattern, back).then_some(front),
        })
        .unwrap_or(value)
}

/// What `echo` or `printf` writes for these arguments; `None` where that is not known.
pub(super) fn output(name: &str, arguments: &[String]) -> Option<String> {
    if name == "echo" {
        let options = arguments
            .iter()
            .take_while(|word| matches!(word.as_str(), "-n" | "-e" | "-E" | "-ne" | "-en"));
        let skipped = options.clone().count();
        if options.clone().any(|word| word.contains('e'))
            && arguments.iter().any(|word| word.contains('\\'))
        {
            return None;
        }
        return Some(arguments.get(skipped..)?.join(" "));
    }
    let arguments = match arguments.first()?.as_str() {
        "--" => arguments.get(1..)?,
        _ => arguments,
    };
    printed(arguments)
}

/// What `printf` makes of a format and its arguments.
fn printed(words: &[String]) -> Option<String> {
    let (format, arguments) = words.split_first()?;
    let mut arguments = arguments.iter();
    let mut out = String::new();
    loop {
        let before = arguments.len();
        let mut letters = format.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '%' => match letters.next()? {
                    '%' => out.push('%'),
                    's' => out.push_str(arguments.next().map_or("", String::as_str)),
                    'b' | 'q' => {
                        let text = arguments.next().map_or("", String::as_str);
                        if text.contains('\\') {
                            return None;
                        }
                        out.push_str(text);
                    }
                    _ => return None,
                },
                '\\' => match letters.next()? {
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    '\\' => out.push('\\'),
                    _ => return None,
                },
                plain => out.push(plain),
            }
        }
        // The format is used again for arguments that are left.
        if arguments.len() == 0 {
            return Some(out);
        }
        if arguments.len() == before {
            return Some(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::path::{ANY, ONE};
    use super::*;

    #[test]
    fn an_expansion_is_taken_apart() {
        let word = "/";
        for (inside, name, change) in [
            ("x", "x", Change::Same),
            ("x[@]", "x", Change::Same),
            ("@", "@", Change::Same),
            ("*", "@", Change::Same),
            ("12", "12", Change::Same),
            ("x:-/", "x", Change::Default { word, empty: true }),
            ("x=/", "x", Change::Default { word, empty: false }),
            ("x:+/", "x", Change::Alternate { word }),
            ("x?gone", "x", Change::Demand),
            (
                "x%%/",
                "x",
                Change::Without {
                    pattern: "/",
                    end: End::Back,
                    longest: true,
                },
            ),
            (
                "x:0:1",
                "x",
                Change::Slice {
                    from: 0,
                    length: Some(1),
                },
            ),
            ("x: -1", "x", Change::Other),
            ("x//a/b", "x", Change::Other),
            ("x^^", "x", Change::Other),
        ] {
            assert_eq!(parse(inside), Some(Expansion { name, change }), "{inside}");
        }
        for inside in ["", "#x", "!x", "#", "?"] {
            assert_eq!(parse(inside), None, "{inside}");
        }
    }

    /// As bash has it.
    #[test]
    fn the_least_or_the_most_is_taken_away() {
        let any = format!("/{ANY}");
        for (value, pattern, end, longest, left) in [
            ("/a/b", any.as_str(), End::Back, false, "/a"),
            ("/a/b", &any, End::Back, true, ""),
            ("/a/b", "b", End::Back, false, "/a/"),
            ("/a/b", "c", End::Back, false, "/a/b"),
            ("/a/b", &format!("{ANY}/"), End::Front, false, "a/b"),
            ("/a/b", &format!("{ANY}/"), End::Front, true, "b"),
            ("/", "/", End::Back, false, ""),
            ("é/", &ONE.to_string(), End::Front, false, "/"),
        ] {
            assert_eq!(
                without(value, pattern, end, longest),
                left,
                "{value} {pattern}"
            );
        }
    }

    #[test]
    fn what_is_printed_is_known() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        for (name, arguments, text) in [
            ("echo", "-n / x", Some("/ x")),
            ("echo", "-e a\\x2f", None),
            ("printf", "/", Some("/")),
            ("printf", "%s/%s/ a b c", Some("a/b/c//")),
            ("printf", "%s\\n /", Some("/\n")),
            ("printf", "-- x%%", Some("x%")),
            ("printf", "x / /", Some("x")),
            ("printf", "\\57", None),
            ("printf", "%d 1", None),
        ] {
            assert_eq!(
                output(name, &words(arguments)).as_deref(),
                text,
                "{arguments}"
            );
        }
    }
}
