//! The line that is typed while something else is drawn above it: a message for later, or an answer
//! to a question. At the prompt the line editor proper takes over, and what was typed goes along.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation as _;

use super::safe::readable;
use super::style::{Break, Indent, Row, Tone, columns, span, wrap};

/// What a key came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Typed {
    /// The line may have changed.
    Edited,
    /// This is said.
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D on an empty line.
    End,
}

/// Rows the line may take on the screen.
const ROWS: usize = 5;

#[derive(Debug, Default)]
pub(crate) struct Editor {
    text: String,
    /// Where the cursor stands, in bytes.
    at: usize,
}

impl Editor {
    pub(crate) const fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes the text out.
    pub(crate) fn take(&mut self) -> String {
        self.at = 0;
        std::mem::take(&mut self.text)
    }

    /// Puts text in, and the cursor behind it.
    pub(crate) fn set(&mut self, text: String) {
        self.at = text.len();
        self.text = text;
    }

    pub(crate) fn paste(&mut self, text: &str) {
        self.insert(&text.replace("\r\n", "\n").replace('\r', "\n"));
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> Typed {
        if key.kind == KeyEventKind::Release {
            return Typed::Edited;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            KeyCode::Char(letter) if control && !alt => return self.control(letter),
            KeyCode::Char('b') if alt => self.at = self.word_left(),
            KeyCode::Char('f') if alt => self.at = self.word_right(),
            KeyCode::Char('d') if alt => self.cut(self.at, self.word_right()),
            KeyCode::Char(_) if alt && !control => {}
            KeyCode::Char(letter) => self.insert(letter.encode_utf8(&mut [0; 4])),
            KeyCode::Enter if alt || key.modifiers.contains(KeyModifiers::SHIFT) => {
                self.insert("\n");
            }
            KeyCode::Enter => match self.text.strip_suffix('\\') {
                Some(text) if self.at == self.text.len() => self.set(format!("{text}\n")),
                _ => return Typed::Line(self.take()),
            },
            KeyCode::Backspace if alt => self.cut(self.word_left(), self.at),
            KeyCode::Backspace => self.cut(self.left(), self.at),
            KeyCode::Delete => self.cut(self.at, self.right()),
            KeyCode::Left => self.at = self.left(),
            KeyCode::Right => self.at = self.right(),
            KeyCode::Home => self.at = self.line_start(),
            KeyCode::End => self.at = self.line_end(),
            _ => {}
        }
        Typed::Edited
    }

    fn control(&mut self, letter: char) -> Typed {
        match letter.to_ascii_lowercase() {
            'c' => return Typed::Interrupt,
            'd' if self.text.is_empty() => return Typed::End,
            'd' => self.cut(self.at, self.right()),
            'a' => self.at = self.line_start(),
            'e' => self.at = self.line_end(),
            'b' => self.at = self.left(),
            'f' => self.at = self.right(),
            'h' => self.cut(self.left(), self.at),
            'j' => self.insert("\n"),
            'k' => self.cut(self.at, self.line_end()),
            'u' => self.cut(self.line_start(), self.at),
            'w' => self.cut(self.word_left(), self.at),
            _ => {}
        }
        Typed::Edited
    }

    /// The text before and after the cursor.
    fn halves(&self) -> (&str, &str) {
        self.text.split_at(self.at)
    }

    fn insert(&mut self, text: &str) {
        self.text.insert_str(self.at, text);
        self.at += text.len();
    }

    fn cut(&mut self, from: usize, to: usize) {
        self.text.drain(from..to);
        self.at = from;
    }

    fn left(&self) -> usize {
        let last = self.halves().0.graphemes(true).next_back();
        self.at - last.map_or(0, str::len)
    }

    fn right(&self) -> usize {
        let first = self.halves().1.graphemes(true).next();
        self.at + first.map_or(0, str::len)
    }

    fn word_left(&self) -> usize {
        let head = self.halves().0.trim_end();
        head.rfind(char::is_whitespace).map_or(0, |at| {
            at + head.split_at(at).1.chars().next().map_or(0, char::len_utf8)
        })
    }

    fn word_right(&self) -> usize {
        let tail = self.halves().1;
        let word = tail.trim_start();
        let blanks = tail.len() - word.len();
        self.at + blanks + word.find(char::is_whitespace).unwrap_or(word.len())
    }

    fn line_start(&self) -> usize {
        self.halves().0.rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        let tail = self.halves().1;
        self.at + tail.find('\n').unwrap_or(tail.len())
    }

    /// The line as rows behind `prompt`, and where the cursor stands among them (row and column).
    pub(crate) fn draw(
        &self,
        prompt: &str,
        tone: Tone,
        width: usize,
    ) -> (Vec<Row>, (usize, usize)) {
        let rows = rows_of(&self.text, prompt, tone, width);
        // What stands before the cursor, drawn alone, ends where the cursor is.
        let before = format!("{}\u{2502}", self.halves().0);
        let before = rows_of(&before, prompt, tone, width);
        let row = before.len().saturating_sub(1);
        let column = before.last().map_or(0, Row::width).saturating_sub(1);
        // The rows around the cursor are the ones to see.
        let last = rows.len().max(row + 1);
        let skip = if last <= ROWS {
            0
        } else {
            row.saturating_sub(ROWS - 1).min(last - ROWS)
        };
        let mut seen: Vec<Row> = rows.into_iter().skip(skip).take(ROWS).collect();
        while seen.len() <= row - skip {
            seen.push(Row::default());
        }
        (seen, (row - skip, column))
    }
}

fn rows_of(text: &str, prompt: &str, tone: Tone, width: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, line) in text.split('\n').enumerate() {
        let blanks = span(Tone::Plain, " ".repeat(columns(prompt)));
        let first = if number == 0 {
            span(tone, prompt)
        } else {
            blanks.clone()
        };
        let indent = Indent {
            first: vec![first],
            rest: vec![blanks],
        };
        // A blank at the end of a row must count, or the cursor would stand still.
        let line = readable(line).replace(' ', "\u{a0}");
        rows.extend(wrap(
            &[span(Tone::Plain, line)],
            width,
            &indent,
            Break::Anywhere,
        ));
    }
    for span in rows.iter_mut().flat_map(|row| &mut row.0) {
        span.text = span.text.replace('\u{a0}', " ");
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repl::style::Looks;

    fn press(editor: &mut Editor, code: KeyCode, modifiers: KeyModifiers) -> Typed {
        editor.key(KeyEvent::new(code, modifiers))
    }

    fn keys(editor: &mut Editor, text: &str) {
        for letter in text.chars() {
            press(editor, KeyCode::Char(letter), KeyModifiers::NONE);
        }
    }

    #[test]
    fn a_line_is_edited_as_in_emacs() {
        let mut editor = Editor::default();
        keys(&mut editor, "one twö");
        press(&mut editor, KeyCode::Backspace, KeyModifiers::NONE);
        press(&mut editor, KeyCode::Char('a'), KeyModifiers::CONTROL);
        keys(&mut editor, "x ");
        press(&mut editor, KeyCode::Char('f'), KeyModifiers::ALT);
        press(&mut editor, KeyCode::Char('w'), KeyModifiers::CONTROL);
        press(&mut editor, KeyCode::Char('k'), KeyModifiers::CONTROL);
        keys(&mut editor, "end");
        let said = press(&mut editor, KeyCode::Enter, KeyModifiers::NONE);
        assert_eq!(said, Typed::Line("x end".into()));
        assert!(editor.is_empty());
    }

    #[test]
    fn a_line_break_is_typed_or_pasted_and_sends_nothing() {
        let mut editor = Editor::default();
        editor.paste("a\r\nb\\");
        assert_eq!(
            press(&mut editor, KeyCode::Enter, KeyModifiers::NONE),
            Typed::Edited
        );
        keys(&mut editor, "c");
        assert_eq!(
            press(&mut editor, KeyCode::Enter, KeyModifiers::ALT),
            Typed::Edited
        );
        keys(&mut editor, "d");
        let said = press(&mut editor, KeyCode::Enter, KeyModifiers::NONE);
        assert_eq!(said, Typed::Line("a\nb\nc\nd".into()));
    }

    #[test]
    fn control_c_and_d_are_told_apart() {
        let mut editor = Editor::default();
        assert_eq!(
            press(&mut editor, KeyCode::Char('d'), KeyModifiers::CONTROL),
            Typed::End
        );
        keys(&mut editor, "x");
        assert_eq!(
            press(&mut editor, KeyCode::Char('d'), KeyModifiers::CONTROL),
            Typed::Edited
        );
        assert_eq!(
            press(&mut editor, KeyCode::Char('c'), KeyModifiers::CONTROL),
            Typed::Interrupt
        );
    }

    #[test]
    fn the_cursor_stands_where_typing_goes_on() {
        let mut editor = Editor::default();
        assert_eq!(editor.draw("> ", Tone::Accent, 20).1, (0, 2));
        keys(&mut editor, "ab ");
        assert_eq!(editor.draw("> ", Tone::Accent, 20).1, (0, 5));
        editor.paste("\nx日");
        let (rows, cursor) = editor.draw("> ", Tone::Accent, 20);
        assert_eq!((rows.len(), cursor), (2, (1, 5)));
        editor.set("y".repeat(200));
        let (rows, cursor) = editor.draw("> ", Tone::Accent, 20);
        assert_eq!((rows.len(), cursor.0), (ROWS, ROWS - 1));
        assert!(
            rows.iter()
                .all(|row| row.paint(Looks::Bare).chars().count() <= 20)
        );
    }
}
