//! The screen while something happens: what is over scrolls away above, what is under way is drawn
//! anew below it. On a terminal that can't move its cursor only the former is drawn.

use std::io::{self, Write as _};

use super::style::{Looks, Row};

/// What the terminal can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Its cursor can be moved.
    Full,
    /// It only takes lines.
    Lines,
}

/// What is drawn anew at the bottom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) rows: Vec<Row>,
    /// Where the cursor stands: row and column.
    pub(crate) cursor: (usize, usize),
}

pub(crate) struct Screen {
    looks: Looks,
    reach: Reach,
    width: usize,
    height: usize,
    drawn: Region,
}

/// What a terminal is taken for that does not tell its size.
const USUAL: (u16, u16) = (80, 24);

impl Screen {
    pub(crate) fn new(looks: Looks, reach: Reach) -> Self {
        let mut screen = Self {
            looks,
            reach,
            width: 0,
            height: 0,
            drawn: Region::default(),
        };
        screen.measure();
        screen
    }

    /// Asks the terminal for its size.
    pub(crate) fn measure(&mut self) {
        let (width, height) = match crossterm::terminal::size() {
            Ok((width, height)) if width > 0 && height > 0 => (width, height),
            _ => USUAL,
        };
        (self.width, self.height) = (width.into(), height.into());
    }

    pub(crate) const fn width(&self) -> usize {
        self.width
    }

    /// How many rows may be drawn anew.
    pub(crate) const fn room(&self) -> usize {
        let room = self.height.saturating_sub(1);
        if room < 3 { 3 } else { room }
    }

    pub(crate) const fn looks(&self) -> Looks {
        self.looks
    }

    /// Draws `done` for good and `region` below it.
    ///
    /// # Errors
    /// What keeps the terminal from being written to.
    pub(crate) fn show(&mut self, done: &[Row], region: Region) -> io::Result<()> {
        if self.reach == Reach::Lines {
            return self.write(&self.lines(done));
        }
        let region = self.fitted(region);
        if done.is_empty() && region == self.drawn {
            return Ok(());
        }
        let mut text = self.erase();
        text.push_str(&self.lines(done));
        let rows: Vec<String> = region
            .rows
            .iter()
            .map(|row| row.paint(self.looks))
            .collect();
        text.push_str(&rows.join("\r\n"));
        let below = region.rows.len().saturating_sub(region.cursor.0 + 1);
        if below > 0 {
            text.push_str(&format!("\u{1b}[{below}A"));
        }
        text.push('\r');
        if region.cursor.1 > 0 {
            text.push_str(&format!("\u{1b}[{}C", region.cursor.1));
        }
        self.drawn = region;
        self.write(&text)
    }

    /// Draws `done` and leaves the cursor at the beginning of a free line.
    ///
    /// # Errors
    /// As [`show`](Self::show).
    pub(crate) fn print(&mut self, done: &[Row]) -> io::Result<()> {
        self.show(done, Region::default())
    }

    fn lines(&self, rows: &[Row]) -> String {
        let end = match self.reach {
            Reach::Full => "\r\n",
            Reach::Lines => "\n",
        };
        rows.iter().map(|row| row.paint(self.looks) + end).collect()
    }

    /// The region as it fits: no row is so wide that the terminal would break it, and where there
    /// are too many the first ones are left out.
    fn fitted(&self, mut region: Region) -> Region {
        let surplus = region.rows.len().saturating_sub(self.room());
        region.rows.drain(..surplus);
        region.cursor.0 = region.cursor.0.saturating_sub(surplus);
        let room = self.width.saturating_sub(1);
        region.rows = region.rows.into_iter().map(|row| row.cut(room)).collect();
        region.cursor.1 = region.cursor.1.min(room);
        region
    }

    /// Takes what was drawn anew off the screen. A terminal that has become narrower since has
    /// broken rows in two.
    fn erase(&self) -> String {
        if self.drawn.rows.is_empty() {
            return "\r".to_owned();
        }
        let taken = |width: usize| width.div_ceil(self.width).max(1);
        let above: usize = self
            .drawn
            .rows
            .iter()
            .take(self.drawn.cursor.0)
            .map(|row| taken(row.width()))
            .sum();
        let above = above + self.drawn.cursor.1 / self.width.max(1);
        let up = match above.min(self.height.saturating_sub(1)) {
            0 => String::new(),
            rows => format!("\u{1b}[{rows}A"),
        };
        format!("{up}\r\u{1b}[J")
    }

    #[expect(clippy::unused_self, reason = "the screen is what is written to")]
    fn write(&self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }
}
