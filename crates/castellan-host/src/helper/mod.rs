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

mod family;
mod follow;
mod link;
mod supervisor;

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

/// Runs one job from standard input to its end and reports on standard output. To be called first
/// thing in a main function, while the process has a single thread.
#[must_use]
pub fn run() -> ExitCode {
    // Nobody reads this process's standard error; what can be told is told in the report.
    match serve() {
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
    let child = start(&job);
    if child.is_ok() {
        Frame::Started.append(&[], link.out());
    }
    signals.thread_block()?;
    match child {
        Ok(child) => Supervisor::new(child, &job, link, &signals)?.run(),
        Err(refused) => {
            link.report(&Report {
                refused: Some(refused),
                ..Report::default()
            })?;
            link.flush_all()
        }
    }
}

/// Starts the command: no input, two pipes, a process group of its own.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where a command is born"
)]
fn start(job: &Job) -> Result<Child, Refused> {
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
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
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
