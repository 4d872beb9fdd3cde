//! One block of Markdown as rows.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::table::Table;
use crate::repl::safe::readable;
use crate::repl::style::{Break, Indent, Looks, Row, Span, Style, Tone, columns, span, wrap};

/// A block, drawn.
pub(super) struct Drawn {
    pub(super) rows: Vec<Row>,
    /// Whether something indented that follows would belong to a list.
    pub(super) ends_in_list: bool,
}

/// Whether `line` is a heading and therefore a block of its own.
pub(super) fn is_heading(line: &str) -> bool {
    let text = line.trim_start();
    let rest = text.trim_start_matches('#');
    let level = text.len() - rest.len();
    (1..=6).contains(&level) && (rest.is_empty() || rest.starts_with(' '))
}

/// Draws `text`, which has no open fence, `indent` columns from the left.
pub(super) fn draw(text: &str, width: usize, indent: usize, looks: Looks) -> Drawn {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut pen = Pen {
        width,
        looks,
        rows: Vec::new(),
        line: Vec::new(),
        prefix: vec![span(Tone::Plain, " ".repeat(indent))],
        bullet: None,
        style: vec![Style::default()],
        lists: Vec::new(),
        link: None,
        table: None,
        code: false,
        ends_in_list: false,
    };
    for event in Parser::new_ext(text, options) {
        pen.take(event);
    }
    pen.flush();
    Drawn {
        rows: pen.rows,
        ends_in_list: pen.ends_in_list,
    }
}

struct Pen {
    width: usize,
    looks: Looks,
    rows: Vec<Row>,
    /// The spans of the paragraph that is open.
    line: Vec<Span>,
    /// What stands before every row: quote bars and the indents of lists.
    prefix: Vec<Span>,
    /// What stands before the next row instead of the last part of the prefix.
    bullet: Option<Span>,
    style: Vec<Style>,
    /// The number of the next item of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    /// The target of the open link, and where its words begin.
    link: Option<(String, usize)>,
    table: Option<Table>,
    code: bool,
    ends_in_list: bool,
}

impl Pen {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.code => self.code_lines(&text),
            Event::Text(text) | Event::InlineHtml(text) | Event::Html(text) => {
                self.add(text.trim_end_matches('\n'), self.style());
                if text.ends_with('\n') {
                    self.flush();
                }
            }
            Event::Code(text) => {
                let style = Style {
                    tone: Tone::Code,
                    ..self.style()
                };
                match self.looks {
                    Looks::Drawn => self.add(&text, style),
                    Looks::Bare => self.add(&format!("`{text}`"), style),
                }
            }
            Event::SoftBreak | Event::HardBreak => match self.table {
                Some(_) => self.add(" ", self.style()),
                None => self.flush(),
            },
            Event::Rule => {
                self.flush();
                let room = self.width.saturating_sub(self.prefix_width()).min(40);
                self.add(&"─".repeat(room), Tone::Dim.into());
                self.flush();
            }
            Event::TaskListMarker(done) => {
                self.add(if done { "[x] " } else { "[ ] " }, self.style());
            }
            Event::FootnoteReference(name) => self.add(&format!("[^{name}]"), self.style()),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.add(&text, self.style()),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.flush();
                let marks = "#".repeat(level as usize);
                let tone = match level {
                    HeadingLevel::H1 | HeadingLevel::H2 | HeadingLevel::H3 => Tone::Title,
                    HeadingLevel::H4 | HeadingLevel::H5 | HeadingLevel::H6 => Tone::Accent,
                };
                self.style.push(Style {
                    tone,
                    bold: true,
                    ..Style::default()
                });
                if self.looks == Looks::Bare {
                    self.add(&format!("{marks} "), self.style());
                }
            }
            Tag::BlockQuote(_) => {
                self.flush();
                self.prefix.push(span(Tone::Dim, "│ "));
            }
            Tag::CodeBlock(_) => {
                self.flush();
                self.code = true;
            }
            Tag::List(first) => {
                self.flush();
                self.lists.push(first);
            }
            Tag::Item => self.item(),
            Tag::Table(alignments) => {
                self.flush();
                self.table = Some(Table::new(alignments));
            }
            Tag::Emphasis => self.mark("*", |style| style.italic = true),
            Tag::Strong => self.mark("**", |style| style.bold = true),
            Tag::Strikethrough => self.mark("~~", |style| style.struck = true),
            Tag::Link { dest_url, .. } => {
                let style = Style {
                    tone: Tone::Link,
                    ..self.style()
                };
                self.style.push(style);
                self.link = Some((readable(&dest_url), self.words().len()));
            }
            Tag::Image { dest_url, .. } => {
                self.add("[image: ", self.style());
                self.link = Some((readable(&dest_url), 0));
            }
            Tag::HtmlBlock => self.flush(),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.style.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.prefix.pop();
                self.ends_in_list = false;
            }
            TagEnd::CodeBlock => self.code = false,
            TagEnd::List(_) => {
                self.lists.pop();
                self.ends_in_list = true;
            }
            TagEnd::Item => {
                self.flush();
                self.bullet = None;
                self.prefix.pop();
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let prefix = Indent {
                        first: self.prefix.clone(),
                        rest: self.prefix.clone(),
                    };
                    self.rows.extend(table.draw(self.width, &prefix));
                }
            }
            TagEnd::TableHead | TagEnd::TableRow => {
                if let Some(table) = &mut self.table {
                    table.end_row();
                }
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.line);
                if let Some(table) = &mut self.table {
                    table.add(cell);
                }
            }
            TagEnd::Emphasis => self.unmark("*"),
            TagEnd::Strong => self.unmark("**"),
            TagEnd::Strikethrough => self.unmark("~~"),
            TagEnd::Link => {
                self.style.pop();
                if let Some((target, begins)) = self.link.take()
                    && self
                        .words()
                        .get(begins..)
                        .is_none_or(|words| words.trim() != target)
                    && !target.is_empty()
                {
                    self.add(&format!(" ({target})"), Tone::Dim.into());
                }
            }
            TagEnd::Image => {
                let target = self
                    .link
                    .take()
                    .map_or_else(String::new, |(target, _)| target);
                self.add(&format!("] ({target})"), self.style());
            }
            _ => {}
        }
    }

    /// The words of the paragraph that is open.
    fn words(&self) -> String {
        self.line.iter().map(|span| span.text.as_str()).collect()
    }

    fn item(&mut self) {
        self.flush();
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number += 1;
                mark
            }
            _ => match self.looks {
                Looks::Drawn => "• ".to_owned(),
                Looks::Bare => "- ".to_owned(),
            },
        };
        self.prefix
            .push(span(Tone::Plain, " ".repeat(columns(&mark))));
        self.bullet = Some(span(Tone::Accent, mark));
    }

    fn mark(&mut self, sign: &str, change: impl FnOnce(&mut Style)) {
        let mut style = self.style();
        change(&mut style);
        self.style.push(style);
        if self.looks == Looks::Bare {
            self.add(sign, style);
        }
    }

    fn unmark(&mut self, sign: &str) {
        if self.looks == Looks::Bare {
            self.add(sign, self.style());
        }
        self.style.pop();
    }

    fn style(&self) -> Style {
        self.style.last().copied().unwrap_or_default()
    }

    fn prefix_width(&self) -> usize {
        self.prefix.iter().map(|span| columns(&span.text)).sum()
    }

    /// Entities of the source may stand for control characters.
    fn add(&mut self, text: &str, style: Style) {
        let text = readable(text);
        if !text.is_empty() {
            self.line.push(Span { text, style });
        }
    }

    fn indent(&mut self) -> Indent {
        let rest = self.prefix.clone();
        let mut first = rest.clone();
        if let (Some(bullet), Some(last)) = (self.bullet.take(), first.last_mut()) {
            *last = bullet;
        }
        Indent { first, rest }
    }

    fn flush(&mut self) {
        if self.line.is_empty() || self.table.is_some() {
            return;
        }
        let line = std::mem::take(&mut self.line);
        let indent = self.indent();
        self.rows
            .extend(wrap(&line, self.width, &indent, Break::Words));
        self.ends_in_list = !self.lists.is_empty();
    }

    fn code_lines(&mut self, text: &str) {
        for line in text.lines() {
            let mut indent = self.indent();
            if self.looks == Looks::Drawn {
                indent.first.push(span(Tone::Plain, "  "));
                indent.rest.push(span(Tone::Plain, "  "));
            }
            let spans = [span(Tone::Code, readable(line))];
            self.rows
                .extend(wrap(&spans, self.width, &indent, Break::Anywhere));
        }
    }
}
