//! What can go wrong when a process is started or its helper spoken to.

use std::io;
use std::path::PathBuf;

/// A failure of this room. The text reads after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The helper program itself could not be started.
    #[error("start the shell helper `{}`", program.display())]
    HelperStart {
        /// The program that was to be started.
        program: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The helper ended before it had started the command, so the command has had no effect.
    #[error("start the command: the shell helper `{}` ended first ({status})", program.display())]
    HelperEnded {
        /// The program that ran as the helper.
        program: PathBuf,
        /// How it ended.
        status: String,
    },
    /// The folder the command was to run in is missing, not a folder, or closed to us.
    #[error("run in the folder `{}`: {source}", path.display())]
    WorkingFolder {
        /// The folder asked for.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// No program of that name is on the search path.
    #[error("run `{program}`: command not found")]
    ProgramNotFound {
        /// The program asked for.
        program: String,
    },
    /// The system refused to start the command.
    #[error("run `{program}`: {source}")]
    Start {
        /// The program asked for.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The sandbox the command was to run in could not be put up. The command has not run.
    #[error("run in the sandbox ({rung}): {reason}")]
    Sandbox {
        /// The name of the sandbox.
        rung: String,
        /// What was in the way.
        reason: String,
    },
    /// A command that cannot be handed to the helper, such as a path that is not Unicode.
    #[error("hand the command to the shell helper")]
    Job {
        /// Why it could not be written down.
        source: serde_json::Error,
    },
    /// A command that is too long to be handed to the helper.
    #[error(
        "hand the command to the shell helper: it is {bytes} bytes with its input, more than 16 MiB"
    )]
    JobTooLong {
        /// How long it is, written down.
        bytes: usize,
    },
    /// A system call on our own process failed.
    #[error("{action}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

/// The kinds of [`Error`] a caller may treat differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The helper could not be started or ended before the command: a fault of the installation.
    Helper,
    /// The working folder is missing or closed.
    WorkingFolder,
    /// The program does not exist.
    ProgramNotFound,
    /// The command was refused by the system or could not be handed over.
    Start,
    /// The sandbox could not be put up.
    Sandbox,
    /// A system call on our own process failed.
    System,
}

impl Error {
    /// Which kind of failure this is. In every kind the command has not run.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::HelperStart { .. } | Self::HelperEnded { .. } => ErrorKind::Helper,
            Self::WorkingFolder { .. } => ErrorKind::WorkingFolder,
            Self::ProgramNotFound { .. } => ErrorKind::ProgramNotFound,
            Self::Start { .. } | Self::Job { .. } | Self::JobTooLong { .. } => ErrorKind::Start,
            Self::Sandbox { .. } => ErrorKind::Sandbox,
            Self::System { .. } => ErrorKind::System,
        }
    }
}
