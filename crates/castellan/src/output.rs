//! Writing to the terminal or to whatever reads us. A reader that goes away is nothing to complain
//! of; the exit code says it, as that of other tools does.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

pub(crate) use castellan_core::text::counted;
use castellan_core::text::plain;
use castellan_host::standard::out_was_closed;

use crate::error::{CommandError, Kind};

/// How many pieces may wait for a slow reader.
const WAITING: usize = 4096;

/// Something to print.
pub(crate) enum Piece {
    /// Text for standard output.
    Out(String),
    /// A line for standard error.
    Note(String),
}

/// Prints on a thread of its own, so that a reader who doesn't read holds up no deadline and no
/// cancel. Only what must be printed waits, and only once a good deal is waiting already.
pub(crate) struct Printer {
    sender: Mutex<Option<SyncSender<Piece>>>,
    thread: Mutex<Option<JoinHandle<Result<(), CommandError>>>>,
}

impl Printer {
    pub(crate) fn start() -> Self {
        let (sender, pieces) = sync_channel(WAITING);
        let thread = std::thread::spawn(move || {
            let mut written = Ok(());
            for piece in pieces {
                match piece {
                    Piece::Out(text) if written.is_ok() => written = out(&text),
                    // What is left is taken in and dropped, so that nobody waits for room.
                    Piece::Out(_) => {}
                    Piece::Note(text) => note(&text),
                }
            }
            written
        });
        Self {
            sender: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
        }
    }

    /// Prints, and waits for room where there is none.
    pub(crate) fn must(&self, piece: Piece) {
        let sender = self
            .sender
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(sender) = sender {
            // The thread ends only once this side is closed.
            sender.send(piece).unwrap_or_default();
        }
    }

    /// Prints, or leaves it out where too much is waiting.
    pub(crate) fn may(&self, piece: Piece) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*sender {
            sender.try_send(piece).unwrap_or_default();
        }
    }

    /// Prints what is waiting and ends.
    ///
    /// # Errors
    /// What kept a piece from being written.
    pub(crate) fn finish(&self) -> Result<(), CommandError> {
        drop(
            self.sender
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match thread.map(JoinHandle::join) {
            Some(Ok(written)) => written,
            Some(Err(_)) => Err(CommandError::failed("printing broke down")),
            None => Ok(()),
        }
    }
}

/// The word a value has on the wire.
pub(crate) fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(serde_json::Value::Null) => String::new(),
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}

/// Writes to standard output.
///
/// # Errors
/// What keeps the text from being written, such as a full disk or a standard output that was closed
/// from the beginning; [`Kind::NoReader`] where its reader has gone away.
pub(crate) fn out(text: &str) -> Result<(), CommandError> {
    let failed = |why: &dyn Display| {
        CommandError::failed(format!("failed to write to standard output: {why}"))
    };
    if out_was_closed() {
        return Err(
            failed(&"it was closed when the program began").hint("to have no output: >/dev/null")
        );
    }
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => CommandError::new(Kind::NoReader, error),
            _ => failed(&error),
        })
}

/// Writes a line to standard output.
///
/// # Errors
/// As [`out`].
pub(crate) fn line(text: &str) -> Result<(), CommandError> {
    out(&format!("{text}\n"))
}

/// Writes a line to standard error, without anything in it that would move a terminal's cursor.
pub(crate) fn note(text: &str) {
    let mut stderr = io::stderr().lock();
    // There is no other place to complain about this one.
    stderr
        .write_all(format!("{}\n", plain(text)).as_bytes())
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
