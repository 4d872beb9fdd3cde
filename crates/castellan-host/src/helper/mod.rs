//! The helper: a small child process of our own binary under which one shell command runs.
//!
//! Why a process between us and the command: orphans. A command may leave processes behind that
//! started sessions of their own; the kernel hands them to the nearest *subreaper*, and when that
//! is a process which serves a single command, whatever it has for a child belongs to that command.
//! The helper also holds the other end of a pipe to its owner (the lifeline), so that a command
//! never outlives an owner that was killed.
//!
//! It is single-threaded, starts before any async runtime, and knows nothing but its job:
//! `link` speaks to the owner, `family` finds and ends descendants, `follow` learns in which folder
//! the command ends, `supervisor` is the event loop.
//!
//! A command in a sandbox has one process more above it: `inside`, again this program, which is the
//! first to be enclosed and starts the command. `enclosed` starts it, through `bubblewrap` or so
//! that it takes on the restrictions of `fence` and `filter` itself.

mod bubblewrap;
mod enclosed;
mod family;
mod fence;
mod filter;
mod follow;
mod inside;
mod link;
mod privilege;
mod supervisor;

use std::env;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};

use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::setsid;

use crate::protocol::{Frame, Job, Refused, Report};
use link::Link;
use supervisor::Supervisor;

/// The first argument that turns a program of ours into the helper. A main function compares it
/// before anything else and then returns [`run`]'s result.
pub const HELPER_ARG: &str = "__shell";

/// The second argument, which makes of the helper the first process inside a sandbox.
const INSIDE_ARG: &str = "inside";

/// Runs one job from standard input to its end and reports on standard output. To be called first
/// thing in a main function, while the process has a single thread.
#[must_use]
pub fn run() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(2).take(3).collect();
    // Nobody reads this process's standard error; what can be told is told in the report.
    let served = match arguments.as_slice() {
        [inside, job, words] if inside == INSIDE_ARG => inside::serve(job, words),
        _ => serve(),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve() -> io::Result<()> {
    // A session of its own: no controlling terminal, for the command neither. It fails only for a
    // group leader, which a child of ours is not.
    setsid()?;
    prctl::set_child_subreaper(true)?;
    // Closes /proc/PID/fd of this process to the command, which could otherwise forge a report.
    prctl::set_dumpable(false)?;
    prctl::set_name(c"castellan-shell")?;

    let signals = SigSet::from_iter([
        Signal::SIGCHLD,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ]);
    let mut link = Link::new()?;
    let job = link.read_job()?;
    // Sent before the command can do anything, also to this process.
    Frame::Starting.append(&[], link.out());
    link.flush()?;
    // A child inherits the signal mask, so it is born under an empty one. Signals are held back
    // only after that: an end of the child in between is looked for when supervision begins.
    SigSet::empty().thread_set_mask()?;
    let child = match &job.sandbox {
        None => start(&job, Streams::of(&job)).map(|child| (child, None)),
        Some(policy) => enclosed::start(&job, policy).map(|(child, inside)| (child, Some(inside))),
    };
    // What is in a sandbox says itself when it runs.
    if matches!(child, Ok((_, None))) {
        Frame::Started.append(&[], link.out());
    }
    signals.thread_block()?;
    match child {
        Ok((child, inside)) => Supervisor::new(child, inside, &job, link, &signals)?.run(),
        Err(refused) => {
            link.report(&Report {
                refused: Some(refused),
                ..Report::default()
            })?;
            link.flush_all()
        }
    }
}

/// What a command reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Streams {
    /// No input, two pipes.
    Piped,
    /// A pipe to read from, two pipes.
    Fed,
    /// What this process has, which is that already.
    Inherited,
}

impl Streams {
    /// Those of a job.
    const fn of(job: &Job) -> Self {
        match job.input {
            Some(_) => Self::Fed,
            None if job.fed => Self::Fed,
            None => Self::Piped,
        }
    }

    /// Puts them into a command.
    fn set(self, command: &mut Command) {
        match self {
            Self::Piped => command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
            Self::Fed => command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
            Self::Inherited => command
                .stdin(Stdio::inherit())
                .stdout(Stdio::inherit())
                .stderr(Stdio::inherit()),
        };
    }
}

/// Starts the command in a process group of its own.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where a command is born"
)]
fn start(job: &Job, streams: Streams) -> Result<Child, Refused> {
    // Checked first, because the error of a failed start does not say which of the two was missing.
    let folder = fs::metadata(&job.cwd).and_then(|found| {
        if found.is_dir() {
            Ok(())
        } else {
            Err(io::Error::from(nix::errno::Errno::ENOTDIR))
        }
    });
    if let Err(error) = folder {
        return Err(Refused::WorkingFolder {
            errno: errno(&error),
        });
    }
    let mut command = Command::new(&job.program);
    command
        .args(&job.args)
        .current_dir(&job.cwd)
        .env_clear()
        .envs(job.env.iter().map(|(name, value)| (name, value)))
        .process_group(0);
    streams.set(&mut command);
    if job.follow {
        follow::prepare(&mut command);
    }
    command.spawn().map_err(|error| Refused::Program {
        errno: errno(&error),
    })
}

/// The system's number for an error; an error of the library itself (a NUL byte in a string) reads
/// as an invalid argument.
fn errno(error: &io::Error) -> i32 {
    error
        .raw_os_error()
        .unwrap_or(nix::errno::Errno::EINVAL as i32)
}
