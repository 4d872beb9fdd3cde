//! Starting a command in its sandbox, and what is heard from there.
//!
//! The first process inside is this program again (`inside`), started through a descriptor, so that
//! it is found whatever is hidden and whatever became of the file since. It gets the job as a file
//! in memory, says what happens on a pipe, and hands its standard streams on to the command.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::{Child, Command};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::geteuid;
use rustix::fs::{MemfdFlags, memfd_create};

use super::bubblewrap;
use super::link::set_nonblocking;
use super::{HELPER_ARG, INSIDE_ARG, Streams};
use crate::protocol::{Job, Refused, Word};
use crate::sandbox::{Rung, SandboxPolicy};

/// The longest line taken for a word. Whoever says more is not `inside`.
const WORD_LIMIT: usize = 16 * 1024;
/// How much of what was written before a failed start is told.
const REASON_LIMIT: u64 = 2 * 1024;

/// The helper's end of what is said by the first process inside.
#[derive(Debug)]
pub(super) struct Inside {
    pipe: PipeReader,
    buffer: Vec<u8>,
}

impl Inside {
    /// What there is to wait for.
    pub(super) const fn pipe(&self) -> &PipeReader {
        &self.pipe
    }

    /// The words that have come, without waiting for more.
    pub(super) fn words(&mut self) -> Vec<Word> {
        let mut chunk = [0; 1024];
        // Whatever error there is, nothing more can be learned here.
        while let Ok(length @ 1..) = self.pipe.read(&mut chunk) {
            self.buffer
                .extend_from_slice(chunk.get(..length).unwrap_or_default());
            if self.buffer.len() > WORD_LIMIT {
                break;
            }
        }
        let mut words = Vec::new();
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            words.extend(serde_json::from_slice::<Word>(&line));
        }
        self.buffer.truncate(WORD_LIMIT);
        words
    }
}

/// Starts the sandbox with the command in it. The command itself runs once a word says so.
pub(super) fn start(job: &Job, policy: &SandboxPolicy) -> Result<(Child, Inside), Refused> {
    begin(job, policy).map_err(|reason| Refused::Sandbox { reason })
}

fn begin(job: &Job, policy: &SandboxPolicy) -> Result<(Child, Inside), String> {
    let failed = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let own = File::open("/proc/self/exe").map_err(failed("our own program can't be opened"))?;
    let told = in_memory(job).map_err(failed("the command can't be handed over"))?;
    let (hears, says) = io::pipe().map_err(failed("no pipe"))?;
    set_nonblocking(hears.as_fd()).map_err(failed("no pipe"))?;
    // This process has a single thread, so that nothing else is born with them.
    for inherited in [own.as_fd(), told.as_fd(), says.as_fd()] {
        inherit(inherited).map_err(failed("a descriptor can't be handed on"))?;
    }
    let own = place(&own);
    let inside = [HELPER_ARG, INSIDE_ARG, &place(&told), &place(&says)].map(OsString::from);
    let (program, arguments) = match &policy.rung {
        Rung::Bubblewrap { program, .. } => {
            let mut arguments = bubblewrap::arguments(policy, geteuid().is_root())?;
            arguments.extend(["--".into(), own.into()]);
            (program.as_path(), arguments)
        }
        Rung::Landlock { .. } => (Path::new(&own), Vec::new()),
        Rung::None { why } => return Err(format!("there is none: {why}")),
    };
    let arguments = arguments.into_iter().chain(inside);
    let child = spawn(program, arguments, Streams::of(job))
        .map_err(|error| format!("{} can't be started: {error}", program.display()))?;
    let inside = Inside {
        pipe: hears,
        buffer: Vec::new(),
    };
    Ok((child, inside))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the place where a sandbox is born"
)]
fn spawn(
    program: &Path,
    arguments: impl Iterator<Item = OsString>,
    streams: Streams,
) -> io::Result<Child> {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().process_group(0);
    streams.set(&mut command);
    command.spawn()
}

/// The job as a file that is nowhere.
fn in_memory(job: &Job) -> io::Result<File> {
    let mut file = File::from(memfd_create("castellan-job", MemfdFlags::CLOEXEC)?);
    file.write_all(&serde_json::to_vec(job)?)?;
    Ok(file)
}

fn inherit(fd: impl AsFd) -> io::Result<()> {
    fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

/// Where a process that inherits a descriptor finds it.
fn place(fd: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// What a sandbox wrote that ended without starting its command.
pub(super) fn complaint(pipe: impl Into<File>) -> String {
    let mut text = Vec::new();
    // The pipe does not block: what is there is all there is.
    drop(pipe.into().take(REASON_LIMIT).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    castellan_core::text::plain(text.trim()).replace('\n', "; ")
}
