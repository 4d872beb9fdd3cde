//! A table as rows: columns side by side where they fit, one line per cell where they don't.

use pulldown_cmark::Alignment;

use crate::repl::style::{Break, Indent, Looks, Row, Span, Style, Tone, columns, span, wrap};

/// What stands between two columns.
const GAP: &str = " │ ";
/// The fewest columns of the screen that a column of the table is squeezed into.
const NARROWEST: usize = 6;

/// A table whose cells are known one after the other.
pub(super) struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Vec<Span>>>,
    row: Vec<Vec<Span>>,
}

impl Table {
    pub(super) const fn new(alignments: Vec<Alignment>) -> Self {
        Self {
            alignments,
            rows: Vec::new(),
            row: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, cell: Vec<Span>) {
        self.row.push(cell);
    }

    pub(super) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    pub(super) fn draw(mut self, width: usize, prefix: &Indent) -> Vec<Row> {
        let taken = Row(prefix.rest.clone()).width();
        let rows = match self.widths(width.saturating_sub(taken)) {
            Some(widths) => self.side_by_side(&widths),
            None => self.one_by_one(width.saturating_sub(taken)),
        };
        let with_prefix = |row: Row| Row([prefix.rest.clone(), row.0].concat());
        rows.into_iter().map(with_prefix).collect()
    }

    /// How wide each column is; `None` where they don't fit side by side.
    fn widths(&self, room: usize) -> Option<Vec<usize>> {
        let count = self.rows.first()?.len();
        let cell = |row: &Vec<Vec<Span>>, column: usize| {
            row.get(column)
                .map_or(0, |cell| cell.iter().map(|span| columns(&span.text)).sum())
        };
        let widest = |column| {
            self.rows
                .iter()
                .map(|row| cell(row, column))
                .max()
                .unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..count).map(|column| widest(column).max(1)).collect();
        let room = room.checked_sub(columns(GAP) * count.saturating_sub(1))?;
        while widths.iter().sum::<usize>() > room {
            let widest = widths.iter_mut().max()?;
            if *widest <= NARROWEST {
                return None;
            }
            *widest -= 1;
        }
        Some(widths)
    }

    fn side_by_side(&self, widths: &[usize]) -> Vec<Row> {
        let mut drawn = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            let cells: Vec<Vec<Row>> = widths
                .iter()
                .enumerate()
                .map(|(column, width)| {
                    let cell = row.get(column).cloned().unwrap_or_default();
                    let cell = if number == 0 { bold(cell) } else { cell };
                    wrap(&cell, *width, &Indent::default(), Break::Words)
                })
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for line in 0..height {
                let mut spans = Vec::new();
                for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
                    if column > 0 {
                        spans.push(span(Tone::Dim, GAP));
                    }
                    let part = cell.get(line).cloned().unwrap_or_default();
                    spans.extend(self.aligned(part, column, *width));
                }
                drawn.push(trimmed(spans));
            }
            if number == 0 {
                let lines: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                drawn.push(Row::of(Tone::Dim, lines.join("─┼─")));
            }
        }
        drawn
    }

    fn aligned(&self, part: Row, column: usize, width: usize) -> Vec<Span> {
        let missing = width.saturating_sub(part.width());
        let before = match self.alignments.get(column) {
            Some(Alignment::Right) => missing,
            Some(Alignment::Center) => missing / 2,
            _ => 0,
        };
        let blanks = |count: usize| span(Tone::Plain, " ".repeat(count));
        let mut spans = vec![blanks(before)];
        spans.extend(part.0);
        spans.push(blanks(missing - before));
        spans
    }

    /// Each cell behind the name of its column.
    fn one_by_one(&mut self, width: usize) -> Vec<Row> {
        let mut rows = std::mem::take(&mut self.rows).into_iter();
        let names = rows.next().unwrap_or_default();
        let mut drawn = Vec::new();
        for (number, row) in rows.enumerate() {
            if number > 0 {
                drawn.push(Row::of(Tone::Dim, "─".repeat(width.min(12))));
            }
            for (column, cell) in row.into_iter().enumerate() {
                let mut spans = bold(names.get(column).cloned().unwrap_or_default());
                spans.push(span(Tone::Plain, ": "));
                spans.extend(cell);
                let mut indent = Indent::both("  ");
                indent.first.clear();
                drawn.extend(wrap(&spans, width, &indent, Break::Words));
            }
        }
        if drawn.is_empty() {
            let name = |cell: Vec<Span>| Row(cell).paint(Looks::Bare);
            let names: Vec<String> = names.into_iter().map(name).collect();
            let spans = [span(Tone::Plain, names.join(" | "))];
            drawn = wrap(&spans, width, &Indent::default(), Break::Words);
        }
        drawn
    }
}

fn bold(cell: Vec<Span>) -> Vec<Span> {
    let bold = |span: Span| Span {
        style: Style {
            bold: true,
            ..span.style
        },
        ..span
    };
    cell.into_iter().map(bold).collect()
}

fn trimmed(mut spans: Vec<Span>) -> Row {
    while spans
        .last()
        .is_some_and(|span| span.text.trim().is_empty() && span.text != GAP)
    {
        spans.pop();
    }
    Row(spans)
}
