//! Replay: what a trace tells is done again, and where that comes to something else is said.
//!
//! The trace of a session is walked with the turn machine, from one event to the next: what came
//! from outside (people, models, tools) is taken from the record, and what the machine would do now
//! is held against what it did then ([`session`]). An episode is run again from its settings, and its
//! new trace compared with the old one line by line ([`episode`]).
//!
//! Nothing outside is touched: no model is asked, no program started, no tool of this machine called.

mod difference;
pub mod episode;
pub mod session;

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use castellan_core::{Event, Recorded};

pub use episode::Episode;

/// What a replay came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It went as it had gone.
    Agrees {
        /// How many lines were held against it.
        lines: usize,
        /// What a careful reader should know; may be empty.
        note: String,
    },
    /// It went another way.
    Diverges {
        /// The first line of the record that is different, from 1.
        line: usize,
        /// What is recorded there, and what came now.
        what: String,
    },
}

/// A line of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its number, from 1.
    pub number: usize,
    /// What it tells; `None` where it can't be read.
    pub event: Option<Recorded>,
}

/// A record that can be replayed.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// Of a session.
    Session(Vec<Line>),
    /// Of an episode.
    Episode(Box<Episode>),
}

/// A file that can't be replayed.
#[derive(Debug, thiserror::Error)]
pub enum Unreplayable {
    /// It can't be read.
    #[error("failed to read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It is something else, or depends on something else; why.
    #[error("{0}")]
    Other(String),
}

/// Reads a record.
///
/// # Errors
/// [`Unreplayable`].
pub fn read(path: &Path) -> Result<Record, Unreplayable> {
    let lines = lines(path).map_err(|source| Unreplayable::Read {
        path: path.to_owned(),
        source,
    })?;
    let first = lines.iter().find_map(|line| line.event.as_ref());
    match first.map(|first| &first.event) {
        Some(Event::SessionStart { .. }) => Ok(Record::Session(lines)),
        Some(Event::EpisodeStart { .. }) => Episode::of(path, lines)
            .map(|episode| Record::Episode(Box::new(episode)))
            .map_err(Unreplayable::Other),
        Some(other) => Err(Unreplayable::Other(format!(
            "{} begins with `{}`; what can be replayed is the trace of a session or of an episode",
            path.display(),
            other.kind()
        ))),
        None => Err(Unreplayable::Other(format!(
            "{} holds no event",
            path.display()
        ))),
    }
}

fn lines(path: &Path) -> std::io::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for (before, text) in BufReader::new(File::open(path)?).split(b'\n').enumerate() {
        let text = text?;
        if !text.is_empty() {
            lines.push(Line {
                number: before + 1,
                event: serde_json::from_slice(&text).ok(),
            });
        }
    }
    Ok(lines)
}
