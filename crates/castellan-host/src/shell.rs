//! The owner's side of a command: starts the helper, reads its frames, makes sure of the end.
//!
//! A command ends when its process ends, at its timeout, by cancel, when the future is dropped or
//! when this process dies; in each case everything it started ends with it (see [`helper`]).
//!
//! [`helper`]: crate::helper

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use castellan_core::Cancel;
use futures::future::{Fuse, FutureExt as _};
use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::TaskTracker;

use crate::children::{self, Registration, Sweep, bear, end_orphans};
use crate::error::Error;
use crate::helper::HELPER_ARG;
use crate::procfs::Process;
use crate::protocol::{
    CANCEL, Ended, FRAME_LIMIT, Folder, Frame, HEADER, INPUT, INPUT_END, JOB_LIMIT, Job, Refused,
    Report, Survivor,
};
use crate::sandbox::{Sandbox, SandboxPolicy};

/// How long a helper may be silent past the command's deadline before it is taken for lost: a
/// command can stop the helper it runs under.
const OVERDUE: Duration = Duration::from_secs(5);
/// The same after a cancel.
const CANCEL_OVERDUE: Duration = Duration::from_secs(2);
/// How long a helper whose job is done or abandoned may take to exit.
const EXIT_GRACE: Duration = Duration::from_secs(5);
/// A longer timeout is as good as none; the bound keeps sums of times in range.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Bytes asked of the helper's pipe at a time.
const READ: usize = 64 * 1024;

/// How the helper is started: normally our own binary with [`HELPER_ARG`].
#[derive(Debug, Clone)]
pub struct HelperCommand {
    program: PathBuf,
    args: Vec<OsString>,
}

impl HelperCommand {
    /// The program this process runs, by a name that stays right when the file is replaced by a
    /// newer version meanwhile.
    #[must_use]
    pub fn own() -> Self {
        Self {
            program: PathBuf::from("/proc/self/exe"),
            args: vec![HELPER_ARG.into()],
        }
    }

    /// Another program that calls [`helper::run`](crate::helper::run) at once.
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: vec![HELPER_ARG.into()],
        }
    }
}

impl Default for HelperCommand {
    fn default() -> Self {
        Self::own()
    }
}

/// Where a chunk of output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A command to run.
#[derive(Debug, Clone)]
pub struct ShellJob {
    /// The program, searched for on the `PATH` of `env`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The folder it runs in, absolute.
    pub cwd: PathBuf,
    /// Its whole environment; nothing is inherited.
    pub env: Vec<(String, String)>,
    /// What it reads on its standard input, which is closed after that; where it is missing there is
    /// nothing to read. A command that does not read it is not held up.
    pub input: Option<String>,
    /// After this long everything is asked to end.
    pub timeout: Duration,
    /// Time between being asked to end and being killed, after the timeout.
    pub term_grace: Duration,
    /// What encloses it; nothing where this is missing. What can't be put into force is an error,
    /// and the command does not run.
    pub sandbox: Option<SandboxPolicy>,
    /// Whether to learn the folder in which the command ends, see [`ShellReport::folder`].
    pub follow: bool,
}

impl ShellJob {
    /// `bash -c TEXT`, with two seconds between asking and killing.
    pub fn bash(
        text: impl Into<String>,
        cwd: impl Into<PathBuf>,
        env: Vec<(String, String)>,
        timeout: Duration,
    ) -> Self {
        Self {
            program: "bash".to_owned(),
            args: vec!["-c".to_owned(), text.into()],
            cwd: cwd.into(),
            env,
            input: None,
            timeout,
            term_grace: Duration::from_secs(2),
            sandbox: None,
            follow: false,
        }
    }
}

/// How the command itself ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It exited with this code.
    Exited(i32),
    /// It was ended by a signal.
    Signalled {
        /// The number of the signal, 0 where it could not be learned.
        number: i32,
        /// Its name, such as `SIGKILL`.
        name: String,
    },
    /// It did not end within the time that killing is given, see the survivors.
    Unended,
    /// The helper was lost while the command ran, for example killed by it. What the command did is
    /// unknown; its processes have been ended.
    HelperLost {
        /// What became of the helper.
        reason: String,
    },
}

/// What became of a command.
#[derive(Debug, Clone)]
pub struct ShellReport {
    /// How the command itself ended.
    pub end: End,
    /// Whether it was stopped because its time was over.
    pub timed_out: bool,
    /// Whether it was stopped because of a cancel.
    pub cancelled: bool,
    /// Time from its start to its end.
    pub elapsed: Duration,
    /// Other processes of the command that had to be ended, at most 50 of them.
    pub ended: Vec<Ended>,
    /// How many had to be ended in all.
    pub ended_total: usize,
    /// Processes that could not be ended.
    pub survivors: Vec<Survivor>,
    /// The version of Landlock that was in force, where it was.
    pub landlock: Option<u32>,
    /// Where the command was when it ended, or when it made way for another program (`exec`).
    pub folder: Folder,
}

/// Runs commands, each under a helper of its own. Clones share the list of helpers whose caller
/// went away, and the sandbox.
#[derive(Debug, Clone)]
pub struct Shell {
    helper: HelperCommand,
    /// The ends of helpers whose caller has dropped the future.
    abandoned: TaskTracker,
    sandbox: Arc<Mutex<Arc<Sandbox>>>,
}

impl Shell {
    /// A shell that starts its helpers with `helper`.
    #[must_use]
    pub fn new(helper: HelperCommand) -> Self {
        Self {
            helper,
            abandoned: TaskTracker::new(),
            sandbox: Arc::new(Mutex::new(Arc::new(Sandbox::undecided()))),
        }
    }

    /// Sets what encloses the commands of this shell and its clones, which
    /// [`Sandbox::policy`] then turns into the `sandbox` of a job.
    pub fn enclose(&self, sandbox: Sandbox) {
        *self.sandbox.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(sandbox);
    }

    /// What encloses commands. Before [`enclose`](Self::enclose) it is one that gives no policy: a
    /// command that is to be enclosed does not run.
    #[must_use]
    pub fn sandbox(&self) -> Arc<Sandbox> {
        Arc::clone(&self.sandbox.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes orphans fall to this process, see [`children::adopt_orphans`].
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn adopt_orphans() -> Result<(), Error> {
        children::adopt_orphans()
    }

    /// Waits until the helpers of dropped futures have ended.
    pub async fn close(&self) {
        self.abandoned.close();
        self.abandoned.wait().await;
    }

    /// Runs a command to its end and gives its output to `sink` as it arrives. A sink that blocks
    /// holds up the command's output and nothing else.
    ///
    /// # Errors
    /// When the command could not be started. Once it runs, its end is a report, whatever it is.
    pub async fn run(
        &self,
        job: ShellJob,
        sink: impl FnMut(Stream, &[u8]),
        cancel: Cancel,
    ) -> Result<ShellReport, Error> {
        self.run_told(job, || {}, sink, cancel).await
    }

    /// The same, with `on_start` called once the command runs.
    ///
    /// # Errors
    /// As [`run`](Self::run); then `on_start` was not called.
    pub async fn run_told(
        &self,
        job: ShellJob,
        on_start: impl FnOnce(),
        sink: impl FnMut(Stream, &[u8]),
        cancel: Cancel,
    ) -> Result<ShellReport, Error> {
        self.supervise((job, None), on_start, sink, cancel).await
    }

    /// Runs a command that is given more to read while it runs: its `input` first, then whatever
    /// `feed` brings, until its sender is gone. A command that leaves more than 16 MiB of that unread
    /// is given nothing more.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_fed(
        &self,
        job: ShellJob,
        feed: Receiver<Vec<u8>>,
        sink: impl FnMut(Stream, &[u8]),
        cancel: Cancel,
    ) -> Result<ShellReport, Error> {
        self.supervise((job, Some(feed)), || {}, sink, cancel).await
    }

    async fn supervise(
        &self,
        (job, feed): (ShellJob, Option<Receiver<Vec<u8>>>),
        on_start: impl FnOnce(),
        mut sink: impl FnMut(Stream, &[u8]),
        cancel: Cancel,
    ) -> Result<ShellReport, Error> {
        let begun = Instant::now();
        let message = message(&job, feed.is_some())?;
        let mut watch = Watch {
            cancel: cancel.fuse(),
            cancelled: false,
            feed,
            until: begun + job.timeout.min(LONGEST) + job.term_grace.min(LONGEST) + OVERDUE,
            grace: OVERDUE,
        };
        let mut running = self.start()?;
        // A helper that dies at once breaks the pipe; what it was is learned from its status.
        drop(running.tell(&message).await);
        let mut started = false;
        let mut on_start = Some(on_start);
        let outcome = loop {
            match running.frame(&mut watch).await {
                Next::Frame(Frame::Stdout, content) => sink(Stream::Stdout, &content),
                Next::Frame(Frame::Stderr, content) => sink(Stream::Stderr, &content),
                Next::Frame(Frame::Starting, _) => started = true,
                Next::Frame(Frame::Started, _) => {
                    if let Some(on_start) = on_start.take() {
                        on_start();
                    }
                }
                Next::Frame(Frame::Report, content) => break serde_json::from_slice(&content).ok(),
                Next::Overdue | Next::Nonsense | Next::End => break None,
            }
        };
        let Some(report) = outcome else {
            let lost = running.give_up().await;
            if !started {
                return Err(Error::HelperEnded {
                    program: self.helper.program.clone(),
                    status: lost.reason,
                });
            }
            return Ok(lost.report(begun.elapsed(), watch.cancelled));
        };
        let report: Report = report;
        let sweep = running.finish(!report.survivors.is_empty()).await;
        if let Some(refused) = &report.refused {
            return Err(refusal(refused, &job));
        }
        Ok(from_report(report, sweep))
    }

    /// Starts a helper that waits for its job.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where a helper is born"
    )]
    fn start(&self) -> Result<Running, Error> {
        let mut command = Command::new(&self.helper.program);
        // No environment: what a helper does not have, its command cannot read from it.
        command
            .args(&self.helper.args)
            .env_clear()
            .arg0("castellan-shell");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let (mut child, registration) =
            bear(|| command.spawn(), Child::id).map_err(|source| Error::HelperStart {
                program: self.helper.program.clone(),
                source,
            })?;
        let since = Process::read(registration.pid()).map_or(0, |process| process.start);
        let frames = child.stdout.take();
        Ok(Running {
            held: Some(Held {
                child,
                registration,
                since,
            }),
            frames,
            buffer: BytesMut::with_capacity(READ),
            outgoing: BytesMut::new(),
            abandoned: self.abandoned.clone(),
            runtime: Handle::current(),
        })
    }
}

/// When to stop waiting for the helper.
struct Watch {
    cancel: Fuse<Cancel>,
    cancelled: bool,
    /// What the command is given to read meanwhile.
    feed: Option<Receiver<Vec<u8>>>,
    /// The helper must have spoken by then.
    until: Instant,
    /// What it gets once more with every sign of life.
    grace: Duration,
}

/// What came from the helper.
enum Next {
    Frame(Frame, BytesMut),
    /// It said nothing although its time was over.
    Overdue,
    /// It said something that is no frame.
    Nonsense,
    /// It closed its side.
    End,
}

/// A helper that is alive or not yet waited for.
#[derive(Debug)]
struct Held {
    child: Child,
    registration: Registration,
    /// Its start in clock ticks, to tell what is younger.
    since: u64,
}

/// A helper with a job. Dropping it closes the lifeline, which makes the helper end the command,
/// and leaves a task behind that makes sure of it.
#[derive(Debug)]
struct Running {
    held: Option<Held>,
    frames: Option<ChildStdout>,
    buffer: BytesMut,
    /// What is still to be said to the helper.
    outgoing: BytesMut,
    abandoned: TaskTracker,
    runtime: Handle,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut held) = self.held.take() {
            drop(held.child.stdin.take());
            drop(self.frames.take());
            // On a runtime that is shutting down the task is dropped, and the closed lifeline does
            // the work alone.
            let end = async move {
                held.end(EXIT_GRACE).await;
            };
            drop(self.abandoned.spawn_on(end, &self.runtime));
        }
    }
}

impl Running {
    /// Writes to the helper.
    async fn tell(&mut self, bytes: &[u8]) -> io::Result<()> {
        let input = self
            .held
            .as_mut()
            .and_then(|held| held.child.stdin.as_mut());
        match input {
            Some(input) => input.write_all(bytes).await,
            None => Ok(()),
        }
    }

    /// The next frame. Passes a cancel on when it comes, and what the command is to read.
    async fn frame(&mut self, watch: &mut Watch) -> Next {
        loop {
            match take_frame(&mut self.buffer) {
                Ok(Some((kind, content))) => return Next::Frame(kind, content),
                Ok(None) => {}
                Err(NotAFrame) => return Next::Nonsense,
            }
            let Some(frames) = self.frames.as_mut() else {
                return Next::End;
            };
            self.buffer.reserve(READ);
            let held = self.held.as_mut();
            let input = held.and_then(|held| held.child.stdin.as_mut());
            let idle = self.outgoing.is_empty();
            // Reading into a buffer and writing once lose nothing when another branch wins.
            tokio::select! {
                // In this order: endless output must not delay a cancel, and a helper that has
                // spoken is not overdue, however long the sink took.
                biased;
                () = &mut watch.cancel => {
                    watch.cancelled = true;
                    watch.grace = CANCEL_OVERDUE;
                    watch.until = Instant::now() + CANCEL_OVERDUE;
                    self.outgoing.extend_from_slice(&[CANCEL]);
                },
                // A helper that cannot be told has ended, which the next read says.
                sent = send(input, &self.outgoing) => match sent {
                    Ok(length) => self.outgoing.advance(length),
                    Err(_) => self.outgoing.clear(),
                },
                read = frames.read_buf(&mut self.buffer) => match read {
                    Ok(length) if length > 0 => {
                        let latest = Instant::now() + watch.grace;
                        watch.until = watch.until.max(latest);
                    }
                    Ok(_) | Err(_) => return Next::End,
                },
                more = more(&mut watch.feed), if idle => self.feed(more, watch),
                () = sleep_until(watch.until) => return Next::Overdue,
            }
        }
    }

    /// Takes what the command is to read next, or word that there is nothing more.
    fn feed(&mut self, more: Option<Vec<u8>>, watch: &mut Watch) {
        let Some(more) = more else {
            watch.feed = None;
            self.outgoing.extend_from_slice(&[INPUT_END]);
            return;
        };
        // In pieces: each is kept whole by the helper until the command reads it.
        for piece in more.chunks(READ) {
            let length = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            self.outgoing.extend_from_slice(&[INPUT]);
            self.outgoing.extend_from_slice(&length.to_le_bytes());
            self.outgoing.extend_from_slice(piece);
        }
    }

    /// The helper has reported: waits for its exit, and ends what it could not.
    async fn finish(mut self, survivors: bool) -> Option<Sweep> {
        let mut held = self.held.take()?;
        drop(held.child.stdin.take());
        let exited = timeout(EXIT_GRACE, held.child.wait()).await.is_ok();
        if exited && !survivors {
            return None;
        }
        Some(held.end(Duration::ZERO).await.sweep)
    }

    /// The helper is lost: ends it and what it left behind.
    async fn give_up(mut self) -> Lost {
        match self.held.take() {
            Some(mut held) => {
                drop(held.child.stdin.take());
                drop(self.frames.take());
                // One that closed its output is about to end; one that is overdue is killed.
                held.end(Duration::from_millis(500)).await
            }
            None => Lost {
                reason: String::new(),
                sweep: Sweep::default(),
            },
        }
    }
}

impl Held {
    /// Waits for the helper's exit, kills it after `grace`, and ends whatever falls to us by that.
    async fn end(&mut self, grace: Duration) -> Lost {
        let status = match timeout(grace, self.child.wait()).await {
            Ok(status) => status,
            Err(_) => self.child.kill().await.and(self.child.wait().await),
        };
        let clean = status.as_ref().is_ok_and(ExitStatus::success);
        let reason = match status {
            Ok(status) => format!("it ended with {status}"),
            Err(error) => format!("its end could not be learned: {error}"),
        };
        // A helper that ended by itself has left nothing; skip the walk over all processes.
        let sweep = if clean && !grace.is_zero() {
            Sweep::default()
        } else {
            end_orphans(self.registration.pid(), self.since).await
        };
        Lost { reason, sweep }
    }
}

/// Writes some of what is to be said, if there is anything.
async fn send(input: Option<&mut ChildStdin>, outgoing: &[u8]) -> io::Result<usize> {
    match input {
        Some(input) if !outgoing.is_empty() => input.write(outgoing).await,
        _ => std::future::pending().await,
    }
}

/// The next piece to read for the command; never resolves where there is no feed.
async fn more(feed: &mut Option<Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    match feed {
        Some(feed) => feed.recv().await,
        None => std::future::pending().await,
    }
}

/// A helper that ended without a report.
struct Lost {
    reason: String,
    sweep: Sweep,
}

impl Lost {
    fn report(self, elapsed: Duration, cancelled: bool) -> ShellReport {
        ShellReport {
            end: End::HelperLost {
                reason: self.reason,
            },
            timed_out: false,
            cancelled,
            elapsed,
            ended: self.sweep.ended,
            ended_total: self.sweep.total,
            survivors: self.sweep.survivors,
            landlock: None,
            folder: Folder::Unknown,
        }
    }
}

/// The job as the helper reads it: its length, then JSON.
fn message(job: &ShellJob, fed: bool) -> Result<Vec<u8>, Error> {
    let milliseconds = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let text = serde_json::to_vec(&Job {
        program: job.program.clone(),
        args: job.args.clone(),
        cwd: job.cwd.clone(),
        env: job.env.clone(),
        input: job.input.clone(),
        fed,
        timeout_ms: milliseconds(job.timeout.min(LONGEST)),
        term_grace_ms: milliseconds(job.term_grace.min(LONGEST)),
        sandbox: job.sandbox.clone(),
        follow: job.follow,
    })
    .map_err(|source| Error::Job { source })?;
    if text.len() > JOB_LIMIT {
        return Err(Error::JobTooLong { bytes: text.len() });
    }
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let mut message = length.to_le_bytes().to_vec();
    message.extend_from_slice(&text);
    Ok(message)
}

/// Bytes that are no frame: something else writes to the pipe.
#[derive(Debug)]
struct NotAFrame;

/// Takes the first whole frame off the buffer.
fn take_frame(buffer: &mut BytesMut) -> Result<Option<(Frame, BytesMut)>, NotAFrame> {
    let Some((&kind, rest)) = buffer.split_first() else {
        return Ok(None);
    };
    let kind = Frame::from_byte(kind).ok_or(NotAFrame)?;
    let Some(length) = rest.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > FRAME_LIMIT {
        return Err(NotAFrame);
    }
    if buffer.len() < HEADER + length {
        return Ok(None);
    }
    buffer.advance(HEADER);
    Ok(Some((kind, buffer.split_to(length))))
}

/// Why the command was not started, as an error.
fn refusal(refused: &Refused, job: &ShellJob) -> Error {
    let program = &job.program;
    match refused {
        Refused::WorkingFolder { errno } => Error::WorkingFolder {
            path: job.cwd.clone(),
            source: io::Error::from_raw_os_error(*errno),
        },
        Refused::Program { errno } => {
            let source = io::Error::from_raw_os_error(*errno);
            if source.kind() == io::ErrorKind::NotFound {
                Error::ProgramNotFound {
                    program: program.clone(),
                }
            } else {
                Error::Start {
                    program: program.clone(),
                    source,
                }
            }
        }
        Refused::Sandbox { reason } => Error::Sandbox {
            rung: job
                .sandbox
                .as_ref()
                .map_or_else(String::new, |policy| policy.rung.name()),
            reason: reason.clone(),
        },
    }
}

fn from_report(report: Report, sweep: Option<Sweep>) -> ShellReport {
    let end = match (report.exit_code, report.signal) {
        (Some(code), _) => End::Exited(code),
        (None, Some(number)) => End::Signalled {
            number,
            name: signal_name(number),
        },
        (None, None) => End::Unended,
    };
    let sweep = sweep.unwrap_or(Sweep {
        survivors: report.survivors,
        ..Sweep::default()
    });
    let mut ended = report.ended;
    ended.extend(sweep.ended);
    ShellReport {
        end,
        timed_out: report.timed_out,
        cancelled: report.cancelled,
        elapsed: Duration::from_millis(report.elapsed_ms),
        ended,
        ended_total: report.ended_total + sweep.total,
        survivors: sweep.survivors,
        landlock: report.landlock,
        folder: report.folder,
    }
}

/// `SIGKILL` for 9, `signal 42` for one without a name.
fn signal_name(number: i32) -> String {
    Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |one| one.to_string())
}
