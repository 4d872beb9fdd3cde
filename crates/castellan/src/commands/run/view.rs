//! What is shown of an episode while it runs: events as JSON for programs, one picture with a line
//! that moves for a terminal, and for everything else a picture now and then.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use castellan_core::text::{one_line, plain, shorten};
use castellan_core::{Clock, EpisodeId, Recorded};
use castellan_runtime::episode::{Ended, How, Onlooker, Standing};
use castellan_runtime::session::Watcher;

use crate::error::CommandError;
use crate::output::{Piece, Printer, counted};

/// The least time between two pictures on a terminal.
const PAUSE: Duration = Duration::from_millis(50);
/// How wide a line may be where the terminal doesn't say.
const WIDTH: usize = 80;
/// How many lines a terminal has that doesn't say.
const ROWS: usize = 24;

/// Shows an episode.
pub(crate) struct View {
    how: Shown,
    max_steps: u64,
    clock: Arc<dyn Clock>,
    printer: Printer,
    drawn: Mutex<Drawn>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Every event as a line on standard output.
    Events,
    /// A moving picture on standard error.
    Moving,
    /// A picture now and then on standard output.
    Stills,
}

#[derive(Default)]
struct Drawn {
    /// When something was drawn last.
    at: Option<Duration>,
    /// How many lines that were.
    lines: usize,
    /// The last frame, where it was not drawn.
    waiting: Option<Vec<String>>,
    /// The next step of which a still is shown.
    next_still: u64,
}

impl View {
    pub(crate) fn new(json: bool, max_steps: u64, clock: Arc<dyn Clock>) -> Self {
        let how = if json {
            Shown::Events
        } else if io::stderr().is_terminal() {
            Shown::Moving
        } else {
            Shown::Stills
        };
        Self {
            how,
            max_steps,
            clock,
            printer: Printer::start(),
            drawn: Mutex::default(),
        }
    }

    /// Says how it ended.
    ///
    /// # Errors
    /// What kept something from being written.
    pub(crate) fn finish(
        &self,
        ended: Option<&Ended>,
        id: EpisodeId,
        trace: &Path,
    ) -> Result<(), CommandError> {
        if self.how == Shown::Moving {
            let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(frame) = drawn.waiting.take() {
                drawn.draw(&frame);
            }
        }
        if let (Some(ended), true) = (ended, self.how != Shown::Events) {
            self.printer.must(Piece::Out(summary(ended, id, trace)));
        }
        self.printer.finish()
    }

    fn moving(&self, frame: Vec<String>) {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.monotonic();
        let is_due = drawn.at.is_none_or(|at| now.saturating_sub(at) >= PAUSE);
        if is_due {
            drawn.at = Some(now);
            drawn.waiting = None;
            drawn.draw(&frame);
        } else {
            drawn.waiting = Some(frame);
        }
    }

    /// Stills become rarer the longer it goes on: most happens at the beginning.
    fn still(&self, standing: &Standing<'_>, frame: &[String]) {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = standing.step >= drawn.next_still || standing.act.done;
        if is_due && standing.act.picture.is_some() {
            drawn.next_still = (standing.step * 2).max(10);
            self.printer.must(Piece::Out(frame.join("\n") + "\n\n"));
        }
    }
}

impl Drawn {
    /// Draws a frame in the place of the one before.
    fn draw(&mut self, frame: &[String]) {
        let size = crossterm::terminal::size().map(|(width, rows)| (width.into(), rows.into()));
        let (width, rows) = size.unwrap_or((WIDTH, ROWS));
        // Of a picture higher than the terminal the lines above would be drawn again and again.
        let frame = match frame.len().checked_sub(rows.saturating_sub(1).max(1)) {
            Some(surplus) => frame.get(surplus..).unwrap_or(frame),
            None => frame,
        };
        let mut text = String::new();
        if self.lines > 0 {
            text.push_str(&format!("\u{1b}[{}A", self.lines));
        }
        for line in frame {
            text.push_str(&format!("\r{}\u{1b}[K\n", shorten(line, width.max(2) - 1)));
        }
        text.push_str("\u{1b}[J");
        self.lines = frame.len();
        let mut stderr = io::stderr().lock();
        // Whoever closed the terminal sees nothing more, and the episode goes on.
        stderr.write_all(text.as_bytes()).unwrap_or_default();
        stderr.flush().unwrap_or_default();
    }
}

impl Onlooker for View {
    fn step(&self, standing: &Standing<'_>) {
        let frame = || frame(standing, self.max_steps);
        match self.how {
            Shown::Events => {}
            Shown::Moving => self.moving(frame()),
            Shown::Stills => self.still(standing, &frame()),
        }
    }
}

impl Watcher for View {
    fn see(&self, recorded: &Recorded) {
        // What only passes by may come later than the result of its call, or not at all.
        if self.how == Shown::Events
            && recorded.seq.is_some()
            && let Ok(line) = serde_json::to_string(recorded)
        {
            self.printer.must(Piece::Out(format!("{line}\n")));
        }
    }
}

/// The picture of the plugin, and the line under it.
fn frame(standing: &Standing<'_>, max_steps: u64) -> Vec<String> {
    let mut frame: Vec<String> = standing
        .act
        .picture
        .iter()
        .flat_map(|picture| picture.lines())
        .map(plain)
        .collect();
    let mut line = format!("step {}/{max_steps}", standing.step);
    let note = one_line(&plain(&standing.act.note));
    if !note.is_empty() {
        line.push_str(" · ");
        line.push_str(&note);
    }
    line.push_str(&format!(" · {}", counted(standing.calls, "call")));
    if standing.failed > 0 {
        line.push_str(&format!(", {} failed", standing.failed));
    }
    frame.push(line);
    frame
}

fn summary(ended: &Ended, id: EpisodeId, trace: &Path) -> String {
    let how = match ended.how {
        How::Reached => "reached",
        How::NotReached => "not reached",
        How::PluginFailed => "plugin failed",
    };
    format!(
        "{how} after {}: {}\n{}, {} failed; trace {}; kept as episode://{id}\n",
        counted(ended.steps, "step"),
        plain(&ended.reason),
        counted(ended.calls, "call"),
        ended.failed,
        trace.display()
    )
}
