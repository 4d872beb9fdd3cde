//! Reading shell commands without running them.
//!
//! [`split`] says which simple commands a text would run, in order, flattened out of lists,
//! pipelines, loops, functions and substitutions; [`Part::unwrapped`] looks through `sudo`, `env`,
//! `xargs`, `bash -c` and their kind to what those run in turn. On this stand the permissions with
//! a command prefix ([`crate::grant`]), policy rules, the refusal of commands that destroy a
//! machine ([`destructive()`]), and the question whether a command names a file ([`mentions`]).
//!
//! The grammar is tree-sitter's. It is made for editors and in corners reads a text differently
//! from bash, so nothing is taken from the tree unchecked (`check.rs`, and the readers of words):
//! where a piece of text is not accounted for, or bash would see more in it than the tree does,
//! the whole text counts as [`Unread`]. Who decides about commands treats that as "ask".
//!
//! Known limits, all on the side of asking: several here-documents that begin on one line, `<>`,
//! and backslashes or odd quoting inside `${…}` are unread.

mod check;
pub mod destructive;
mod inner;
mod mention;
mod prefix;
mod quote;
mod read;
mod simple;
#[cfg(test)]
mod tests;
mod word;
mod words;

use std::sync::Arc;

pub use destructive::{Homes, Refusal, Unseen, destructive};
pub use inner::{Opaque, Unwrapped};
pub use mention::mentions;
pub use prefix::suggest_prefix;
pub use word::{Filling, Piece, Word};

/// The longest text that is read, in bytes: Linux takes no longer argument for `bash -c`.
pub const LONGEST: usize = 128 * 1024;
/// How deep the grammar's nodes may be nested: some forty substitutions in one another.
const DEEPEST: usize = 200;
/// How often a text may hold a text that is read in turn (`bash -c`, `eval`, backquotes).
const LEVELS: usize = 6;
/// The most commands that are taken from one text.
const MOST_PARTS: usize = 4096;

/// One simple command, or what stands where one could: bare assignments, a redirection alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The command's name and arguments; empty where there is only an assignment or redirection.
    pub words: Vec<Word>,
    /// Variables set before the command or instead of one, and by `for`.
    pub assignments: Vec<Assignment>,
    /// Redirections, in order.
    pub redirections: Vec<Redirection>,
    /// Whether it runs inside a command or process substitution.
    pub substituted: bool,
    /// The text it was read from.
    pub text: String,
    /// How it runs beside others.
    pub(crate) flow: Flow,
    /// The subshells it runs in, outermost first.
    pub(crate) scope: Vec<u32>,
    /// The function whose body it stands in.
    pub(crate) function: Option<Arc<str>>,
}

/// How a part runs beside others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    /// One of several in a pipeline.
    pub(crate) piped: bool,
    /// Its input is what the part before it in the pipeline writes.
    pub(crate) fed: bool,
    /// Started with `&`.
    pub(crate) background: bool,
}

/// A variable that a part sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Its name, without an index.
    pub name: String,
    /// Its value. For a loop: all values, as one word that is not known.
    pub value: Word,
    /// Whether the value is put behind the one it has (`+=`).
    pub(crate) appends: bool,
    /// The values of a loop, or the elements of an array, one by one. Behind those it has, where
    /// it `appends`.
    pub(crate) values: Vec<Word>,
    /// What sets it.
    pub by: SetBy,
}

/// What sets a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetBy {
    /// `NAME=value`.
    Assignment,
    /// `for NAME in …` or `select`, all of whose values are plain text or file patterns.
    PlainLoop,
    /// `for NAME in …` over anything else.
    Loop,
}

/// A redirection of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirection {
    /// The operator: `>`, `>>`, `2>` is given as `>`, `<<`, `<<<` …
    pub operator: String,
    /// The file, the descriptor, or the text of a here-document or here-string.
    pub target: Word,
    /// Whether it may create or change a file, or open a connection: anything that writes, but for
    /// descriptors and the harmless `/dev/null`, `/dev/stdout` and `/dev/stderr`.
    pub writes: bool,
}

/// Why a text could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason} (at byte {at})")]
pub struct Unread {
    /// Where, in bytes from the beginning of the text.
    pub at: usize,
    /// What stood in the way.
    pub reason: &'static str,
}

impl Unread {
    const fn new(at: usize, reason: &'static str) -> Self {
        Self { at, reason }
    }
}

/// Every simple command that `text` would run if bash ran it, in order.
///
/// A command inside a substitution comes before the one it is substituted into. All branches are
/// taken: what is listed may run, what is not listed does not.
///
/// # Errors
/// Where the grammar does not read the text, where it may read it differently from bash, and for
/// text over a bound of length or nesting.
pub fn split(text: &str) -> Result<Vec<Part>, Unread> {
    read::read(text, 0)
}

impl Part {
    /// The literal name of the command without its folder, if it is known: `rm` for `/bin/rm`.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        let word = self.words.first()?.literal()?;
        Some(word.rsplit_once('/').map_or(word, |(_, name)| name))
    }

    /// The literal of the word at `index`, if it is known.
    #[must_use]
    pub fn literal(&self, index: usize) -> Option<&str> {
        self.words.get(index)?.literal()
    }

    /// Whether the literal words of `prefix` are how this command begins.
    #[must_use]
    pub fn starts_with(&self, prefix: &[String]) -> bool {
        prefix.len() <= self.words.len()
            && prefix
                .iter()
                .zip(&self.words)
                .all(|(wanted, word)| word.literal() == Some(wanted))
    }

    /// Looks through wrappers: this part first, then what it runs in turn (`sudo x`, `xargs x`,
    /// `find -exec x`, `bash -c 'x; y'`), as far as that can be said before it runs.
    #[must_use]
    pub fn unwrapped(&self) -> Unwrapped {
        inner::unwrap(self)
    }
}
