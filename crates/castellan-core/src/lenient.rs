//! A reader for almost-JSON, as language models write it.
//!
//! It accepts strict JSON (RFC 8259) and, losslessly, what models commonly get wrong: trailing
//! commas, single quotes, unquoted keys, raw line breaks and tabs inside strings, `True`, `False`
//! and `None`. Only input that can mean one thing is accepted. Above all, text that ends early is
//! an error and never completed: half an argument must not become a call.

use serde_json::{Map, Number, Value};

/// Deeper nesting is refused, so that hostile input can't exhaust the stack.
pub const MAX_DEPTH: usize = 128;

/// Where and why reading stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at line {line} column {column}")]
pub struct Unreadable {
    /// What was wrong.
    pub what: String,
    /// 1-based.
    pub line: usize,
    /// 1-based, in characters.
    pub column: usize,
}

/// What was read, and what had to be overlooked to read it.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The value.
    pub value: Value,
    /// Each kind of deviation once, in the order met; empty for strict JSON.
    pub repairs: Vec<&'static str>,
}

/// Reads one value and nothing after it.
///
/// # Errors
/// [`Unreadable`] with the position where the text stops making sense.
pub fn read(text: &str) -> Result<Reading, Unreadable> {
    let mut reader = Reader {
        text,
        at: 0,
        repairs: Vec::new(),
    };
    reader.blank();
    let value = reader.value(0)?;
    reader.blank();
    if reader.at < text.len() {
        return Err(reader.unreadable("unexpected text after the value"));
    }
    Ok(Reading {
        value,
        repairs: reader.repairs,
    })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    repairs: Vec<&'static str>,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn blank(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.next();
        }
    }

    fn note(&mut self, repair: &'static str) {
        if !self.repairs.contains(&repair) {
            self.repairs.push(repair);
        }
    }

    fn unreadable(&self, what: &str) -> Unreadable {
        let before = self.text.get(..self.at).unwrap_or(self.text);
        Unreadable {
            what: what.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before
                .rsplit('\n')
                .next()
                .map_or(0, |line| line.chars().count())
                + 1,
        }
    }

    fn cut_off(&self, inside: &str) -> Unreadable {
        self.unreadable(&format!("the text ends inside {inside}"))
    }

    fn value(&mut self, depth: usize) -> Result<Value, Unreadable> {
        if depth >= MAX_DEPTH {
            return Err(self.unreadable("nesting is too deep"));
        }
        match self.peek() {
            None => Err(self.cut_off("a value")),
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some('"' | '\'') => self.string().map(Value::String),
            Some(letter) if letter == '-' || letter.is_ascii_digit() => self.number(),
            Some(_) => self.word(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, Unreadable> {
        self.next();
        let mut map = Map::new();
        loop {
            self.blank();
            if self.take('}') {
                return Ok(Value::Object(map));
            }
            let key = match self.peek() {
                None => return Err(self.cut_off("an object")),
                Some('"' | '\'') => self.string()?,
                Some(_) => self.bare_key()?,
            };
            self.blank();
            if !self.take(':') {
                return Err(self.expected("`:` after the key", "an object"));
            }
            self.blank();
            let value = self.value(depth + 1)?;
            if map.insert(key, value).is_some() {
                return Err(self.unreadable("a key stands twice in one object"));
            }
            self.separator('}', "an object")?;
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, Unreadable> {
        self.next();
        let mut items = Vec::new();
        loop {
            self.blank();
            if self.take(']') {
                return Ok(Value::Array(items));
            }
            items.push(self.value(depth + 1)?);
            self.separator(']', "an array")?;
        }
    }

    /// After an item: a comma, or `end`, which is left standing.
    fn separator(&mut self, end: char, inside: &str) -> Result<(), Unreadable> {
        self.blank();
        if self.take(',') {
            self.blank();
            if self.peek() == Some(end) {
                self.note("trailing comma");
            }
            return Ok(());
        }
        if self.peek() == Some(end) {
            Ok(())
        } else {
            Err(self.expected("`,`", inside))
        }
    }

    fn expected(&self, wanted: &str, inside: &str) -> Unreadable {
        self.peek().map_or_else(
            || self.cut_off(inside),
            |found| self.unreadable(&format!("expected {wanted}, found `{found}`")),
        )
    }

    fn bare_key(&mut self) -> Result<String, Unreadable> {
        let key: String = self
            .rest()
            .chars()
            .take_while(|letter| letter.is_alphanumeric() || "_-$".contains(*letter))
            .collect();
        if key.is_empty() {
            return Err(self.expected("a key", "an object"));
        }
        self.at += key.len();
        self.note("unquoted key");
        Ok(key)
    }

    fn word(&mut self) -> Result<Value, Unreadable> {
        let word: String = self
            .rest()
            .chars()
            .take_while(|l| l.is_ascii_alphanumeric())
            .collect();
        let value = match word.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::Null,
            "True" | "False" | "None" => {
                self.note("Python constant");
                if word == "None" {
                    Value::Null
                } else {
                    Value::Bool(word == "True")
                }
            }
            _ => {
                return Err(self.unreadable("expected a value"));
            }
        };
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, Unreadable> {
        let digits: String = self
            .rest()
            .chars()
            .take_while(|l| l.is_ascii_alphanumeric() || "+-.".contains(*l))
            .collect();
        // serde_json knows which numbers JSON has.
        let number: Number =
            serde_json::from_str(&digits).map_err(|_error| self.unreadable("not a number"))?;
        self.at += digits.len();
        Ok(Value::Number(number))
    }

    fn string(&mut self) -> Result<String, Unreadable> {
        let Some(quote) = self.next() else {
            return Err(self.cut_off("a string"));
        };
        if quote == '\'' {
            self.note("single quotes");
        }
        let mut out = String::new();
        loop {
            // Whole runs at once: arguments may be megabytes of text.
            let run = self
                .rest()
                .find([quote, '\\', '\n', '\r', '\t'])
                .unwrap_or(self.rest().len());
            let (plain, _) = self.rest().split_at(run);
            if plain.contains(|letter: char| letter < ' ') {
                self.note("raw control characters in a string");
            }
            let (plain, _) = self.rest().split_at(run);
            out.push_str(plain);
            self.at += run;
            match self.next() {
                None => return Err(self.cut_off("a string")),
                Some('\\') => self.escape(&mut out)?,
                Some(letter) if letter == quote => return Ok(out),
                Some(letter) => {
                    self.note("raw control characters in a string");
                    out.push(letter);
                }
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), Unreadable> {
        let letter = match self.next() {
            None => return Err(self.cut_off("a string")),
            Some(same @ ('"' | '\\' | '/' | '\'')) => same,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => self.unicode()?,
            Some(_) => return Err(self.unreadable("unknown escape in a string")),
        };
        out.push(letter);
        Ok(())
    }

    fn unicode(&mut self) -> Result<char, Unreadable> {
        let first = self.four_digits()?;
        let code = match first {
            0xd800..=0xdbff => {
                let low = if self.take('\\') && self.take('u') {
                    self.four_digits()?
                } else {
                    0
                };
                if !(0xdc00..=0xdfff).contains(&low) {
                    return Err(self.unreadable("half a surrogate pair in a string"));
                }
                0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00)
            }
            _ => first,
        };
        char::from_u32(code).ok_or_else(|| self.unreadable("half a surrogate pair in a string"))
    }

    fn four_digits(&mut self) -> Result<u32, Unreadable> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.next().ok_or_else(|| self.cut_off("a string"))?;
            let digit = digit
                .to_digit(16)
                .ok_or_else(|| self.unreadable("expected four hexadecimal digits"))?;
            code = code * 16 + digit;
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_models_get_wrong_is_read_and_named() {
        let cases = [
            (r#"{"a": 1,}"#, json!({"a": 1}), "trailing comma"),
            ("{'a': 'it\\'s'}", json!({"a": "it's"}), "single quotes"),
            ("{path: \"x\"}", json!({"path": "x"}), "unquoted key"),
            (
                "{\"a\": \"1\n2\"}",
                json!({"a": "1\n2"}),
                "raw control characters in a string",
            ),
            (
                "{\"a\": [True, None]}",
                json!({"a": [true, null]}),
                "Python constant",
            ),
        ];
        for (text, value, repair) in cases {
            let reading = read(text).unwrap();
            assert_eq!(reading.value, value, "{text}");
            assert_eq!(reading.repairs, [repair], "{text}");
        }
    }

    #[test]
    fn text_that_ends_early_is_never_completed() {
        let whole = r#"{"path": "a", 'b': [1, {"c": "\u00e9"}], d: -1.5e3}"#;
        assert!(read(whole).is_ok());
        for (end, _) in whole.char_indices() {
            let error = read(whole.get(..end).unwrap()).unwrap_err();
            assert!(
                error.what.contains("ends inside") || error.what == "not a number",
                "{end}: {error}"
            );
        }
    }

    #[test]
    fn text_with_more_than_one_meaning_is_refused_with_its_place() {
        for text in [
            r#"{"a": 1} trailing"#,
            r#"{"a": 1 "b": 2}"#,
            r#"{"a": 1, "a": 2}"#,
            r#"{"a": "\d"}"#,
            r#"{"a": 01}"#,
            r#"{"a": "\ud800"}"#,
            r"{a b: 1}",
            "[,]",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let error = read("{\"a\": 1,\n  \"b\" 2}").unwrap_err();
        assert_eq!((error.line, error.column), (2, 7));
    }

    #[test]
    fn deep_nesting_is_refused_and_does_not_crash() {
        assert!(
            read(&"[".repeat(100_000))
                .unwrap_err()
                .what
                .contains("too deep")
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn strict_json_is_read_as_it_is(value in any_json()) {
            let reading = read(&value.to_string()).unwrap();
            prop_assert_eq!(reading.value, value);
        }

        #[test]
        fn no_input_panics(text in "[\\[\\]{}\"'\\\\:,a-z0-9 \n]{0,60}") {
            drop(read(&text));
        }
    }
}
