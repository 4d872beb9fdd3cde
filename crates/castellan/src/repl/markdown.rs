//! Markdown drawn while it arrives.
//!
//! The text is cut into blocks at lines that end them (blank lines, headings, fences); a block that
//! can't change any more is drawn for good, the open one as a preview that is drawn anew as it
//! grows. Where the pieces of the stream were cut makes no difference. Lines of fenced code are
//! drawn one by one, so that long code costs no more than its length.

mod block;
mod table;

use super::safe::readable;
use super::style::{Break, Indent, Looks, Row, Tone, span, wrap};

/// A block that grows past this many lines is drawn as it stands.
const BLOCK_LINES: usize = 120;
/// A block that grows past this many bytes is drawn as it stands.
const BLOCK_BYTES: usize = 16 * 1024;

/// A fence that is open.
#[derive(Debug, Clone)]
struct Fence {
    mark: char,
    length: usize,
    indent: usize,
}

/// Markdown that is arriving.
#[derive(Debug, Clone)]
pub(crate) struct Markdown {
    looks: Looks,
    width: usize,
    /// The line that has not ended yet, as it arrived.
    partial: String,
    /// The lines of the open block, safe to draw.
    block: Vec<String>,
    bytes: usize,
    fence: Option<Fence>,
    /// How far a paragraph that belongs to the last list item is indented in the source.
    in_list: bool,
    /// Whether the last row drawn is blank, or nothing was drawn yet.
    spaced: bool,
}

impl Markdown {
    pub(crate) const fn new(width: usize, looks: Looks) -> Self {
        Self {
            looks,
            width,
            partial: String::new(),
            block: Vec::new(),
            bytes: 0,
            fence: None,
            in_list: false,
            spaced: true,
        }
    }

    /// The width from now on; what is drawn for good stays.
    pub(crate) const fn resize(&mut self, width: usize) {
        self.width = width;
    }

    /// Takes in more and returns what is drawn for good.
    pub(crate) fn push(&mut self, text: &str) -> Vec<Row> {
        let mut rows = Vec::new();
        for piece in text.split_inclusive('\n') {
            self.partial.push_str(piece);
            if self.partial.ends_with('\n') {
                let line = std::mem::take(&mut self.partial);
                self.line(&safe(&line), &mut rows);
            }
        }
        rows
    }

    /// What is open, as it would be drawn if nothing followed.
    pub(crate) fn preview(&self) -> Vec<Row> {
        let mut ahead = self.clone();
        // What is not known to be a blank line at the end is drawn once it is.
        let mut rows = Vec::new();
        ahead.end(&mut rows);
        rows
    }

    /// Draws what is open; the text is over.
    pub(crate) fn finish(&mut self) -> Vec<Row> {
        let mut rows = Vec::new();
        self.end(&mut rows);
        *self = Self::new(self.width, self.looks);
        rows
    }

    fn end(&mut self, rows: &mut Vec<Row>) {
        if !self.partial.is_empty() {
            let line = std::mem::take(&mut self.partial);
            self.line(&safe(&line), rows);
        }
        self.draw_block(rows);
        while rows.last().is_some_and(|row| row.0.is_empty()) {
            rows.pop();
        }
    }

    fn line(&mut self, line: &str, rows: &mut Vec<Row>) {
        if let Some(fence) = &self.fence {
            if closes(fence, line) {
                self.fence = None;
                if self.looks == Looks::Bare {
                    rows.push(Row::plain("```"));
                }
            } else {
                let indent = fence.indent;
                self.code(line, indent, rows);
            }
            return;
        }
        if let Some((fence, language)) = opens(line) {
            self.draw_block(rows);
            if self.looks == Looks::Bare {
                rows.push(Row::plain(format!("```{language}")));
            } else if !language.is_empty() {
                rows.push(Row::of(Tone::Dim, format!("  {language}")).cut(self.width));
            }
            self.spaced = false;
            self.fence = Some(fence);
            return;
        }
        if line.trim().is_empty() {
            self.draw_block(rows);
            if !self.spaced {
                self.spaced = true;
                rows.push(Row::default());
            }
            return;
        }
        let is_heading = block::is_heading(line);
        if is_heading {
            self.draw_block(rows);
        }
        self.bytes += line.len();
        self.block.push(line.to_owned());
        if is_heading || self.block.len() >= BLOCK_LINES || self.bytes >= BLOCK_BYTES {
            self.draw_block(rows);
        }
    }

    fn code(&mut self, line: &str, indent: usize, rows: &mut Vec<Row>) {
        let blanks = line.len() - line.trim_start_matches(' ').len();
        let (_, line) = line.split_at(blanks.min(indent));
        let indent = match self.looks {
            Looks::Drawn => Indent::both("  "),
            Looks::Bare => Indent::default(),
        };
        rows.extend(wrap(
            &[span(Tone::Code, line)],
            self.width,
            &indent,
            Break::Anywhere,
        ));
        self.spaced = false;
    }

    fn draw_block(&mut self, rows: &mut Vec<Row>) {
        let lines = std::mem::take(&mut self.block);
        self.bytes = 0;
        if lines.is_empty() {
            return;
        }
        let depth = lines
            .iter()
            .map(|line| line.len() - line.trim_start().len())
            .min()
            .unwrap_or(0);
        // What stands indented after a list goes on with its last item.
        let inside = if self.in_list { depth } else { 0 };
        let text: Vec<&str> = lines.iter().map(|line| line.split_at(inside).1).collect();
        let drawn = block::draw(&text.join("\n"), self.width, inside, self.looks);
        self.in_list = drawn.ends_in_list || inside > 0;
        self.spaced = false;
        rows.extend(drawn.rows);
    }
}

fn safe(line: &str) -> String {
    readable(line.trim_end_matches(['\n', '\r']))
}

/// The fence that `line` opens, and the language it names.
fn opens(line: &str) -> Option<(Fence, &str)> {
    let text = line.trim_start_matches(' ');
    let mark = text
        .chars()
        .next()
        .filter(|mark| matches!(mark, '`' | '~'))?;
    let rest = text.trim_start_matches(mark);
    let length = text.len() - rest.len();
    let indent = line.len() - text.len();
    (length >= 3 && !rest.contains('`')).then(|| {
        let fence = Fence {
            mark,
            length,
            indent,
        };
        (fence, rest.trim())
    })
}

fn closes(fence: &Fence, line: &str) -> bool {
    let text = line.trim();
    text.len() >= fence.length && text.chars().all(|letter| letter == fence.mark)
}

#[cfg(test)]
mod tests;
