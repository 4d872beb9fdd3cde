//! What a running tool may use beyond its arguments: ports that upper rooms implement.

use std::path::PathBuf;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;

use crate::cancel::Cancel;
use crate::event::LogLevel;
use crate::tool::{SessionEffect, SessionView};

/// Where a running call reports to.
pub trait Progress: Send + Sync {
    /// Output as it appears, for whoever watches. What the model reads is the outcome, not this.
    fn output(&self, text: &str);

    /// How far the work has come, in units of the tool's choosing; `total` where it is known.
    fn advance(&self, done: u64, total: Option<u64>, message: &str);

    /// Something for whoever watches over tools.
    fn log(&self, level: LogLevel, message: &str);
}

/// Where the whole of an output goes that is too long for its outcome.
pub trait Overflow: Send + Sync {
    /// Takes the next piece of the whole output, from its beginning on.
    fn push(&self, text: &str);

    /// Where it is, for the outcome to name; `None` where nothing was pushed.
    fn place(&self) -> Option<String>;
}

/// Word of something that happened outside the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// One sentence.
    pub text: String,
    /// What it changes in the session.
    pub session: Vec<SessionEffect>,
}

/// Where tools leave word for the model between its requests.
pub trait Notices: Send + Sync {
    /// Takes what has happened in this session since the last call, oldest first.
    fn take(&self, view: &SessionView) -> Vec<Notice>;
}

impl Notices for Unwatched {
    fn take(&self, _view: &SessionView) -> Vec<Notice> {
        Vec::new()
    }
}

/// A [`Progress`] that nobody watches and an [`Overflow`] that keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Overflow for Unwatched {
    fn push(&self, _text: &str) {}

    fn place(&self) -> Option<String> {
        None
    }
}

impl Progress for Unwatched {
    fn output(&self, _text: &str) {}

    fn advance(&self, _done: u64, _total: Option<u64>, _message: &str) {}

    fn log(&self, _level: LogLevel, _message: &str) {}
}

/// What a person did with a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Elicited {
    /// They answered, with values that fit the schema.
    Accepted(Value),
    /// They declined to answer.
    Declined,
    /// They closed the question, or nobody is there.
    Cancelled,
}

/// A way to ask the person on the other side of a call.
pub trait Elicitation: Send + Sync {
    /// Asks `question`; the answer is an object that fits the JSON Schema `schema`.
    fn ask(&self, question: String, schema: Value) -> BoxFuture<'_, Elicited>;
}

/// A hook to run: a command of the user's that is told about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookJob {
    /// The command, as bash takes it.
    pub command: String,
    /// The folder it runs in, absolute.
    pub cwd: PathBuf,
    /// The folder the session began in, for its environment.
    pub project: PathBuf,
    /// What it reads on its standard input.
    pub input: String,
    /// After this long it is ended.
    pub timeout: Duration,
}

/// What became of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookEnd {
    /// It exited by itself.
    Exited {
        /// The exit code.
        code: i32,
        /// What it wrote to its standard output.
        stdout: Vec<u8>,
        /// What it wrote to its standard error.
        stderr: Vec<u8>,
    },
    /// It was cancelled, and nothing of it is left.
    Cancelled,
    /// Anything else, in words that read after the hook's name: `did not end within 10 s`. Nothing
    /// of it is left.
    Broken(String),
}

/// Runs hooks. The gate decides which, and what their answers mean.
pub trait Hooks: Send + Sync {
    /// Runs one to its end.
    fn run(&self, job: HookJob, cancel: Cancel) -> BoxFuture<'_, HookEnd>;
}
