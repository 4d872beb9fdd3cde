//! Text with looks: spans, rows as wide as the terminal, and how they become escape sequences.
//!
//! Rows are data until the last moment. Whether looks are drawn at all is one decision, and without
//! them nothing is lost: what a colour says is said in words or signs too.

use std::fmt::Write as _;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// What a piece of text is, as far as its looks go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Dim,
    Title,
    Code,
    Link,
    Good,
    Bad,
    Warn,
    Accent,
}

impl Tone {
    const fn codes(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "2",
            Self::Title => "1;36",
            Self::Code => "33",
            Self::Link => "4;34",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Warn => "1;33",
            Self::Accent => "36",
        }
    }
}

/// How a piece of text looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) tone: Tone,
    pub(crate) bold: bool,
    pub(crate) italic: bool,
    pub(crate) struck: bool,
}

impl From<Tone> for Style {
    fn from(tone: Tone) -> Self {
        Self {
            tone,
            ..Self::default()
        }
    }
}

/// A piece of text of one look. It has no line break and no control character in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// One row of the screen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Row(pub(crate) Vec<Span>);

/// Whether looks are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looks {
    Drawn,
    Bare,
}

pub(crate) fn span(tone: Tone, text: impl Into<String>) -> Span {
    Span {
        text: text.into(),
        style: tone.into(),
    }
}

/// How many columns `text` takes.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

impl Row {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::of(Tone::Plain, text)
    }

    pub(crate) fn of(tone: Tone, text: impl Into<String>) -> Self {
        Self(vec![span(tone, text)])
    }

    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|span| columns(&span.text)).sum()
    }

    /// The row as it is sent to the terminal.
    pub(crate) fn paint(&self, looks: Looks) -> String {
        let mut painted = String::new();
        for span in &self.0 {
            let codes = codes(span.style);
            if looks == Looks::Bare || codes.is_empty() || span.text.is_empty() {
                painted.push_str(&span.text);
            } else {
                // Writing to a string can't fail.
                write!(painted, "\u{1b}[{codes}m{}\u{1b}[0m", span.text).unwrap_or_default();
            }
        }
        painted
    }

    /// The row cut to `width` columns, the cut shown by an ellipsis.
    pub(crate) fn cut(self, width: usize) -> Self {
        if self.width() <= width {
            return self;
        }
        let mut room = width.saturating_sub(1);
        let mut cut = Self::default();
        for span in self.0 {
            let mut text = String::new();
            let mut is_whole = true;
            for cluster in span.text.graphemes(true) {
                let wide = columns(cluster);
                if wide > room {
                    is_whole = false;
                    break;
                }
                room -= wide;
                text.push_str(cluster);
            }
            let style = span.style;
            if is_whole {
                cut.0.push(Span { text, style });
            } else {
                if width > 0 {
                    text.push('…');
                }
                cut.0.push(Span { text, style });
                break;
            }
        }
        cut
    }
}

fn codes(style: Style) -> String {
    let flags = [
        (style.bold && style.tone != Tone::Title, "1"),
        (style.italic, "3"),
        (style.struck, "9"),
    ];
    let mut codes: Vec<&str> = vec![style.tone.codes()];
    codes.extend(flags.iter().filter(|(on, _)| *on).map(|(_, code)| *code));
    codes.retain(|code| !code.is_empty());
    codes.join(";")
}

/// Where rows of one text begin.
#[derive(Debug, Clone, Default)]
pub(crate) struct Indent {
    /// Before the first row.
    pub(crate) first: Vec<Span>,
    /// Before the others.
    pub(crate) rest: Vec<Span>,
}

impl Indent {
    pub(crate) fn both(text: &str) -> Self {
        let spans = vec![span(Tone::Plain, text)];
        Self {
            first: spans.clone(),
            rest: spans,
        }
    }
}

/// Whether a row may break inside a word that would fit into the next row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// Only words that are wider than a row are broken.
    Words,
    /// Wherever a row is full, as in code, where blanks matter.
    Anywhere,
}

/// The fewest columns that text is given beside its indent.
const LEAST: usize = 8;

/// `spans` in rows of at most `width` columns.
pub(crate) fn wrap(spans: &[Span], width: usize, indent: &Indent, at: Break) -> Vec<Row> {
    let mut rows = Rows::new(width, indent);
    for span in spans {
        let pieces: Vec<&str> = match at {
            Break::Words => span.text.split_word_bounds().collect(),
            Break::Anywhere => span.text.graphemes(true).collect(),
        };
        for piece in pieces {
            rows.add(piece, span.style);
        }
    }
    rows.finish()
}

struct Rows<'a> {
    width: usize,
    indent: &'a Indent,
    done: Vec<Row>,
    row: Row,
    /// Columns taken in the present row, its indent included.
    taken: usize,
    /// Columns of the present row's indent.
    begins: usize,
    /// The word that is not in a row yet: word boundaries fall inside what must stay together, such
    /// as `don't;` or a path.
    word: Vec<Span>,
    word_width: usize,
}

impl<'a> Rows<'a> {
    fn new(width: usize, indent: &'a Indent) -> Self {
        let mut rows = Self {
            width,
            indent,
            done: Vec::new(),
            row: Row::default(),
            taken: 0,
            begins: 0,
            word: Vec::new(),
            word_width: 0,
        };
        rows.open();
        rows
    }

    fn open(&mut self) {
        let spans = if self.done.is_empty() {
            &self.indent.first
        } else {
            &self.indent.rest
        };
        self.row = Row(spans.clone());
        self.begins = self.row.width();
        if self.begins + LEAST > self.width {
            self.row = Row::default();
            self.begins = 0;
        }
        self.taken = self.begins;
    }

    fn close(&mut self) {
        let row = std::mem::take(&mut self.row);
        self.done.push(row);
        self.open();
    }

    fn add(&mut self, piece: &str, style: Style) {
        let is_blank = piece.chars().all(|letter| letter == ' ');
        if is_blank {
            self.settle();
            let wide = columns(piece);
            // A blank at the edge is where the row ends.
            if self.taken + wide > self.width {
                self.close();
            } else if self.taken > self.begins || self.done.is_empty() {
                self.push(piece, style);
            }
            return;
        }
        self.word_width += columns(piece);
        match self.word.last_mut() {
            Some(last) if last.style == style => last.text.push_str(piece),
            _ => self.word.push(Span {
                text: piece.to_owned(),
                style,
            }),
        }
        // A very long word is let go of early, so that it costs no more than its length.
        if self.word_width > self.width {
            self.settle();
        }
    }

    /// Puts the held word into rows.
    fn settle(&mut self) {
        let word = std::mem::take(&mut self.word);
        let wide = std::mem::take(&mut self.word_width);
        if self.taken + wide > self.width
            && self.taken > self.begins
            && wide <= self.width.saturating_sub(self.begins)
        {
            self.close();
        }
        for span in word {
            if self.taken + columns(&span.text) <= self.width {
                self.push(&span.text, span.style);
                continue;
            }
            for cluster in span.text.graphemes(true) {
                if self.taken + columns(cluster) > self.width && self.taken > self.begins {
                    self.close();
                }
                self.push(cluster, span.style);
            }
        }
    }

    fn push(&mut self, text: &str, style: Style) {
        self.taken += columns(text);
        match self.row.0.last_mut() {
            Some(last) if last.style == style => last.text.push_str(text),
            _ => self.row.0.push(Span {
                text: text.to_owned(),
                style,
            }),
        }
    }

    fn finish(mut self) -> Vec<Row> {
        self.settle();
        self.done.push(self.row);
        for row in &mut self.done {
            if let Some(last) = row.0.last_mut() {
                last.text.truncate(last.text.trim_end_matches(' ').len());
            }
        }
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(text: &str, width: usize) -> Vec<String> {
        let spans = [span(Tone::Plain, text)];
        wrap(&spans, width, &Indent::default(), Break::Words)
            .iter()
            .map(|row| row.paint(Looks::Bare))
            .collect()
    }

    #[test]
    fn words_are_kept_together_where_they_fit() {
        assert_eq!(rows("the quick brown fox", 10), ["the quick", "brown fox"]);
        assert_eq!(rows("src/a/b.rs:12 isn't", 14), ["src/a/b.rs:12", "isn't"]);
        assert_eq!(rows("abcdefghijklmno", 10), ["abcdefghij", "klmno"]);
        assert_eq!(rows("日本語テキスト", 9), ["日本語テ", "キスト"]);
    }

    #[test]
    fn a_cut_row_says_so_and_fits() {
        let row = Row(vec![span(Tone::Plain, "ab"), span(Tone::Bad, "日本語")]);
        assert_eq!(row.clone().cut(20), row);
        assert_eq!(row.clone().cut(6).paint(Looks::Bare), "ab日…");
        assert_eq!(row.cut(0).paint(Looks::Bare), "");
    }

    #[test]
    fn looks_are_closed_where_they_were_opened() {
        let row = Row(vec![span(Tone::Bad, "no"), span(Tone::Plain, " x")]);
        assert_eq!(row.paint(Looks::Drawn), "\u{1b}[31mno\u{1b}[0m x");
        assert_eq!(row.paint(Looks::Bare), "no x");
    }

    proptest! {
        #[test]
        fn no_row_is_wider_than_the_screen(text in "[a-z 日é]{0,120}", width in 12_usize..60) {
            let indent = Indent::both("  ");
            let spans = [span(Tone::Plain, text.clone())];
            for at in [Break::Words, Break::Anywhere] {
                let rows = wrap(&spans, width, &indent, at);
                let mut letters = String::new();
                for row in &rows {
                    prop_assert!(row.width() <= width);
                    letters.push_str(&row.paint(Looks::Bare));
                }
                let solid = |text: &str| text.replace(' ', "");
                prop_assert_eq!(solid(&letters), solid(&text));
            }
        }
    }
}
