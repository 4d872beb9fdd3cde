//! The code of a Rust file without what it says: comments and literals become spaces.
//!
//! Rules that look for a macro or an attribute would otherwise trip over prose about it, and over
//! their own tests.

/// Blanks comments, strings and characters; every line keeps its number.
pub(crate) fn code_only(source: &str) -> String {
    let mut blanker = Blanker {
        input: source.chars().collect(),
        at: 0,
        out: String::new(),
    };
    while blanker.at < blanker.input.len() {
        blanker.step();
    }
    blanker.out
}

struct Blanker {
    input: Vec<char>,
    at: usize,
    out: String,
}

impl Blanker {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.input.get(self.at + ahead).copied()
    }

    /// Copies one character as it is.
    fn keep(&mut self) {
        self.out.extend(self.peek(0));
        self.at += 1;
    }

    /// Replaces `count` characters by spaces, line ends excepted.
    fn blank(&mut self, count: usize) {
        for _ in 0..count {
            match self.peek(0) {
                Some('\n') => self.out.push('\n'),
                Some(_) => self.out.push(' '),
                None => return,
            }
            self.at += 1;
        }
    }

    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            (Some('/'), Some('/')) => self.line_comment(),
            (Some('/'), Some('*')) => self.block_comment(),
            (Some('"'), _) => self.string(),
            (Some('r'), Some('"' | '#')) if self.may_prefix() => self.raw_string(),
            (Some('\''), Some('\\')) => self.escaped_char(),
            (Some('\''), Some(_)) if self.peek(2) == Some('\'') => self.blank(3),
            _ => self.keep(),
        }
    }

    /// Whether an `r` here can begin a literal: it is not the end of a name, `b` and `c` aside.
    fn may_prefix(&self) -> bool {
        let before = |back: usize| self.at.checked_sub(back).and_then(|at| self.input.get(at));
        let in_name = |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric() || *c == '_');
        match before(1) {
            Some('b' | 'c') => !in_name(before(2)),
            other => !in_name(other),
        }
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.blank(1);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                (None, _) => return,
                _ => {
                    self.blank(1);
                    continue;
                }
            }
            self.blank(2);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.blank(1);
        loop {
            match self.peek(0) {
                Some('\\') => self.blank(2),
                Some('"') | None => return self.blank(1),
                Some(_) => self.blank(1),
            }
        }
    }

    fn raw_string(&mut self) {
        let hashes = (1..)
            .take_while(|ahead| self.peek(*ahead) == Some('#'))
            .count();
        if self.peek(1 + hashes) != Some('"') {
            return self.keep(); // a raw identifier
        }
        self.blank(hashes + 2);
        loop {
            let closes = self.peek(0) == Some('"')
                && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            if closes || self.peek(0).is_none() {
                return self.blank(hashes + 1);
            }
            self.blank(1);
        }
    }

    fn escaped_char(&mut self) {
        self.blank(3); // the quote, the backslash and what it escapes, which may be a quote
        while self.peek(0).is_some_and(|c| c != '\'') {
            self.blank(1);
        }
        self.blank(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words that are left.
    fn words(source: &str) -> Vec<String> {
        code_only(source)
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn comments_and_strings_are_blanked_and_code_is_kept() {
        assert_eq!(words("a // b\nc /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(words(r#"a "b \" c" d"#), ["a", "d"]);
        assert_eq!(words("a r#\"b \" c\"# d"), ["a", "d"]);
        assert_eq!(words("a br\"b\" d"), ["a", "b", "d"]);
    }

    #[test]
    fn quotes_of_characters_and_lifetimes_do_not_open_a_string() {
        assert_eq!(words("a '\"' b"), ["a", "b"]);
        assert_eq!(words(r"a '\'' b '\u{22}' c"), ["a", "b", "c"]);
        assert_eq!(
            words("fn a<'x>(b: &'x str)"),
            ["fn", "a<'x>(b:", "&'x", "str)"]
        );
    }

    #[test]
    fn raw_identifiers_are_code() {
        assert_eq!(words("r#type \"x\" bar\"y\""), ["r#type", "bar"]);
    }

    #[test]
    fn lines_keep_their_numbers() {
        assert_eq!(code_only("\"a\nb\" /*\n*/\nc").lines().count(), 4);
    }

    #[test]
    fn an_unfinished_literal_ends_with_the_file() {
        assert_eq!(words("a \"b"), ["a"]);
        assert_eq!(words("a r##\"b\"#"), ["a"]);
        assert_eq!(words("a /* b"), ["a"]);
        assert_eq!(words("a '\\"), ["a"]);
    }
}
