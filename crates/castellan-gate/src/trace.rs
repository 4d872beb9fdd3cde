//! Traces: what happened in a session, one JSON event per line.
//!
//! The store is the truth and a trace is its projection for reading, searching and shipping. It is
//! written after the store's commit and before anything takes effect, and not synced. After a
//! crash it may lack the newest events; [`Trace::open`] is given what the store has and adds them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use castellan_core::{Recorded, SessionId};

use crate::error::Error;

/// An open trace.
#[derive(Debug)]
pub struct Trace {
    file: File,
    path: PathBuf,
}

/// The trace of a session in the traces folder.
#[must_use]
pub fn path(folder: &Path, session: SessionId) -> PathBuf {
    folder.join(format!("{session}.jsonl"))
}

impl Trace {
    /// Opens a session's trace for appending, creating it where it is missing, and adds those of
    /// `stored` (the session's events, oldest first) that it lacks.
    ///
    /// # Errors
    /// [`Error::Trace`].
    pub fn open(folder: &Path, session: SessionId, stored: &[Recorded]) -> Result<Self, Error> {
        let path = path(folder, session);
        let mut trace = Self::opened(folder, path, OpenOptions::new().create(true))?;
        let last = last_line(&mut trace.file).map_err(|source| trace.failed(source))?;
        let known = last.seq.unwrap_or(0);
        if last.torn {
            // The torn line stays as it is: readers skip it and say so.
            trace.write(b"\n")?;
        }
        let missing: Vec<&Recorded> = stored
            .iter()
            .filter(|event| event.seq.is_some_and(|seq| seq > known))
            .collect();
        trace.append(missing)?;
        Ok(trace)
    }

    /// Opens the trace of `day` of calls without a session, `gate-DATE.jsonl` in `folder`. Several
    /// processes may write to it: each appends whole lines.
    ///
    /// # Errors
    /// [`Error::Trace`].
    pub fn shared(folder: &Path, day: &str) -> Result<Self, Error> {
        let path = folder.join(format!("gate-{day}.jsonl"));
        let mut trace = Self::opened(folder, path, OpenOptions::new().create(true))?;
        let torn = last_line(&mut trace.file)
            .map_err(|source| trace.failed(source))?
            .torn;
        if torn {
            trace.write(b"\n")?;
        }
        Ok(trace)
    }

    /// Begins a trace in a file of its own, which must not be there or be empty.
    ///
    /// # Errors
    /// [`Error::Trace`].
    pub fn fresh(path: &Path) -> Result<Self, Error> {
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        let trace = Self::opened(folder, path.to_owned(), OpenOptions::new().create(true))?;
        let metadata = trace.file.metadata();
        let metadata = metadata.map_err(|source| trace.failed(source))?;
        if metadata.is_file() && metadata.len() > 0 {
            let full = std::io::Error::new(
                std::io::ErrorKind::AlreadyExists,
                "the file is there already and holds something; name another one",
            );
            return Err(trace.failed(full));
        }
        Ok(trace)
    }

    fn opened(folder: &Path, path: PathBuf, options: &mut OpenOptions) -> Result<Self, Error> {
        let mut opened = || {
            if !folder.as_os_str().is_empty() {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(folder)?;
            }
            options.read(true).append(true).mode(0o600).open(&path)
        };
        match opened() {
            Ok(file) => Ok(Self { file, path }),
            Err(source) => Err(Error::Trace {
                action: "open",
                path,
                source,
            }),
        }
    }

    /// Appends events, each as one line, all in one write.
    ///
    /// # Errors
    /// [`Error::Trace`].
    pub fn append<'a>(
        &mut self,
        events: impl IntoIterator<Item = &'a Recorded>,
    ) -> Result<(), Error> {
        let mut lines = Vec::new();
        for event in events {
            serde_json::to_writer(&mut lines, event).map_err(|error| self.failed(error.into()))?;
            lines.push(b'\n');
        }
        if lines.is_empty() {
            Ok(())
        } else {
            self.write(&lines)
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file
            .write_all(bytes)
            .map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> Error {
        Error::Trace {
            action: "write",
            path: self.path.clone(),
            source,
        }
    }
}

struct LastLine {
    /// The highest sequence number among the last lines.
    seq: Option<u64>,
    /// Whether the file ends inside a line.
    torn: bool,
}

/// How much of a file's end is searched first for its last whole line.
const TAIL: u64 = 64 * 1024;

fn last_line(file: &mut File) -> std::io::Result<LastLine> {
    let size = file.metadata()?.len();
    let mut window = TAIL;
    loop {
        let start = size.saturating_sub(window);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(window).read_to_end(&mut bytes)?;
        let torn = bytes.last().is_some_and(|byte| *byte != b'\n');
        let found = bytes.split(|byte| *byte == b'\n').rev().find_map(|line| {
            serde_json::from_slice::<serde_json::Value>(line)
                .ok()?
                .get("seq")?
                .as_u64()
        });
        if found.is_some() || start == 0 {
            return Ok(LastLine { seq: found, torn });
        }
        window = window.saturating_mul(8);
    }
}

/// A line of a trace.
#[derive(Debug)]
pub enum Line {
    /// An event.
    Event(Box<Recorded>),
    /// Something else, such as a line torn by a crash; with its number from 1 and what is wrong.
    Unreadable {
        /// The line's number, from 1.
        number: usize,
        /// What is wrong with it.
        problem: String,
    },
}

/// Reads a trace line by line.
///
/// # Errors
/// [`Error::Trace`] where the file can't be opened; a line that can't be read is an item.
pub fn read(path: &Path) -> Result<impl Iterator<Item = Line> + use<>, Error> {
    let file = File::open(path).map_err(|source| Error::Trace {
        action: "open",
        path: path.to_owned(),
        source,
    })?;
    let lines = BufReader::new(file).split(b'\n').enumerate();
    Ok(lines.filter_map(|(before, line)| {
        let unreadable = |problem| Line::Unreadable {
            number: before + 1,
            problem,
        };
        match line {
            Ok(line) if line.is_empty() => None,
            Ok(line) => Some(serde_json::from_slice(&line).map_or_else(
                |error| unreadable(error.to_string()),
                |event| Line::Event(Box::new(event)),
            )),
            Err(error) => Some(unreadable(error.to_string())),
        }
    }))
}
