//! Writing to the terminal or to whatever reads us. A reader that goes away is no error of ours.

use std::io::{self, IsTerminal as _, Write as _};

/// Writes to standard output.
pub(crate) fn out(text: &str) {
    let mut stdout = io::stdout().lock();
    // A closed pipe means that nobody wants the rest.
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .unwrap_or_default();
}

/// Writes a line to standard output.
pub(crate) fn line(text: &str) {
    out(&format!("{text}\n"));
}

/// Writes a line to standard error.
pub(crate) fn note(text: &str) {
    let mut stderr = io::stderr().lock();
    stderr
        .write_all(format!("{text}\n").as_bytes())
        .unwrap_or_default();
}

/// Whether standard output is a terminal.
pub(crate) fn out_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Rows in aligned columns; the last column is not padded.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            let missing = width.saturating_sub(cell.chars().count());
            line.extend(std::iter::repeat_n(' ', missing + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
