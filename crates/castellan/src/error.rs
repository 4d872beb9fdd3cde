//! What a person reads when a command fails, made at this one place: one line, and hints.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::process::ExitCode;

use castellan_store::ErrorKind as StoreErrorKind;

/// Why a command failed, as its exit code tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Something it needs failed. Exit code 1.
    Failed,
    /// It was called wrongly. Exit code 2.
    Usage,
    /// A call needs a person and none can be asked. Exit code 3.
    Approval,
    /// The plugin of an episode failed. Exit code 3.
    Plugin,
    /// Whoever read its output has gone away, which is not worth a word. Exit code 141, as of
    /// programs that end by SIGPIPE.
    NoReader,
    /// A signal ended the conversation: 143 for SIGTERM, 129 for SIGHUP.
    Signal(EndedBy),
}

/// A signal that ends the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndedBy {
    Terminate,
    Hangup,
}

impl EndedBy {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Hangup => "SIGHUP",
        }
    }
}

impl Kind {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Approval | Self::Plugin => 3,
            Self::NoReader => 141,
            Self::Signal(EndedBy::Terminate) => 143,
            Self::Signal(EndedBy::Hangup) => 129,
        }
    }
}

impl From<Kind> for ExitCode {
    fn from(kind: Kind) -> Self {
        Self::from(kind.code())
    }
}

/// A command that failed.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) kind: Kind,
    source: Box<dyn StdError + Send + Sync>,
    hints: Vec<String>,
}

impl CommandError {
    pub(crate) fn new(kind: Kind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            kind,
            source: source.into(),
            hints: Vec::new(),
        }
    }

    pub(crate) fn failed(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(Kind::Failed, source)
    }

    pub(crate) fn usage(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::new(Kind::Usage, source)
    }

    /// Adds what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        if !hint.is_empty() {
            self.hints.push(hint);
        }
        self
    }

    /// The text for a person: the whole chain in one line, a hint per line.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("error: {}", self.source);
        let mut cause = self.source.source();
        while let Some(error) = cause {
            let words = error.to_string();
            // A transparent wrapper repeats its source.
            if !text.ends_with(&words) {
                // Writing to a string can't fail.
                write!(text, ": {words}").unwrap_or_default();
            }
            cause = error.source();
        }
        for hint in &self.hints {
            write!(text, "\nhint: {hint}").unwrap_or_default();
        }
        text
    }
}

impl From<castellan_store::Error> for CommandError {
    fn from(error: castellan_store::Error) -> Self {
        let hint = store_hint(error.kind());
        Self::failed(error).hint(hint)
    }
}

impl From<castellan_gate::Error> for CommandError {
    fn from(error: castellan_gate::Error) -> Self {
        match error {
            castellan_gate::Error::Policy { what, hint } => Self::usage(what).hint(hint),
            error => Self::failed(error),
        }
    }
}

impl From<castellan_runtime::Error> for CommandError {
    fn from(error: castellan_runtime::Error) -> Self {
        match error {
            castellan_runtime::Error::Store(error) => error.into(),
            castellan_runtime::Error::Gate(error) => error.into(),
            castellan_runtime::Error::NothingToDo(id) => {
                Self::usage(castellan_runtime::Error::NothingToDo(id))
                    .hint(format!("say something: castellan exec --resume {id} \"…\""))
            }
            error @ (castellan_runtime::Error::NoBeginning(_)
            | castellan_runtime::Error::NothingToCompact(_)
            | castellan_runtime::Error::Stopped
            | castellan_runtime::Error::Unanswerable(_)
            | castellan_runtime::Error::AlreadyDecided { .. }
            | castellan_runtime::Error::NotOffered { .. }) => Self::failed(error),
        }
    }
}

/// A standard hint for what the store says; its own texts name the file.
fn store_hint(kind: StoreErrorKind) -> &'static str {
    match kind {
        StoreErrorKind::Busy => "wait until the other process is done, or end it",
        _ => "",
    }
}

/// The errors of reading and writing that a command meets on its own.
pub(crate) fn io(what: &str) -> impl FnOnce(std::io::Error) -> CommandError + use<> {
    let what = what.to_owned();
    move |error| CommandError::failed(format!("failed to {what}: {error}"))
}
