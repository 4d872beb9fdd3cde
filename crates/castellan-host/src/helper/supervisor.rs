//! The helper's event loop: forwards output, watches the clock and the owner, ends what is left.
//!
//! It waits for the process, never for its pipes: a background child may hold those open for hours.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Child;
use std::time::Duration;

use castellan_core::Clock as _;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{getpid, read, write};
use rustix::process::{WaitOptions, WaitStatus, wait};

use super::enclosed::{Inside, complaint};
use super::family::{Family, Fate};
use super::follow::Follower;
use super::link::{Link, Wish, set_nonblocking};
use crate::protocol::{Folder, Frame, INPUT_LIMIT, Job, Refused, Report, Word};
use crate::system::SystemClock;

/// How long processes left behind may go on by themselves: enough for the `tee` of a process
/// substitution to write its last lines.
const SETTLE: Duration = Duration::from_millis(100);
/// How long processes left behind have between the polite and the final signal.
const LEFTOVER_GRACE: Duration = Duration::from_millis(200);
/// The same after a cancel, which is to return within a second.
const CANCEL_GRACE: Duration = Duration::from_millis(500);
/// How long killing goes on before what is left is listed as surviving.
const KILLING: Duration = Duration::from_secs(2);
/// Time between two sweeps while killing; the end of a child wakes the loop earlier.
const SWEEP: Duration = Duration::from_millis(10);
/// Bytes taken from a pipe at a time: what a pipe holds by default.
const CHUNK: usize = 64 * 1024;
/// Bytes taken from a pipe after the end if something that survives goes on writing to it.
const LAST_BYTES: usize = 2 * 1024 * 1024;

/// How long a sandbox may take to start its command. It takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where the command stands. Times are of the supervisor's clock.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The command runs, until this deadline.
    Running { deadline: Duration },
    /// The command has ended and left processes behind, which may end by themselves until then.
    Settling { until: Duration },
    /// Everything has been asked to end.
    Asked { until: Duration },
    /// Everything is being killed.
    Killing { since: Duration },
    /// Nothing runs any more, or nothing that can be ended.
    Over,
}

/// Why a command was stopped. The first reason counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Timeout,
    Cancel,
}

/// A pipe from the command.
#[derive(Debug)]
struct Output {
    pipe: OwnedFd,
    kind: Frame,
    /// Bytes read after everything was over.
    late: usize,
}

/// The sandbox of a command.
#[derive(Debug)]
struct Enclosure {
    inside: Inside,
    /// Time left to the command once it runs.
    timeout: Duration,
    /// Whether the command runs.
    started: bool,
    /// The version of Landlock that is in force.
    landlock: Option<u32>,
    /// Where the command was at its end.
    folder: Folder,
}

/// What the command is still to be given to read.
#[derive(Debug)]
struct Input {
    pipe: OwnedFd,
    text: Vec<u8>,
    /// How much of it has been written.
    given: usize,
    /// Whether more may come.
    open: bool,
}

impl Input {
    /// Writes what the pipe takes; false once there is nothing more to do.
    fn give(&mut self) -> bool {
        loop {
            let Some(rest) = self.text.get(self.given..).filter(|rest| !rest.is_empty()) else {
                self.text.clear();
                self.given = 0;
                return self.open;
            };
            match write(self.pipe.as_fd(), rest) {
                Ok(length) => self.given += length,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return true,
                // Nobody reads it any more.
                Err(_) => return false,
            }
        }
    }

    /// Whether something waits to be written.
    const fn is_waiting(&self) -> bool {
        self.given < self.text.len()
    }

    /// Takes more to write; false where the command has left too much unread.
    fn take(&mut self, more: &[u8]) -> bool {
        self.text.drain(..self.given);
        self.given = 0;
        self.text.extend_from_slice(more);
        self.text.len() <= INPUT_LIMIT
    }
}

/// One command under supervision.
#[derive(Debug)]
pub(super) struct Supervisor {
    clock: SystemClock,
    /// The helper's own child: the command, or the sandbox around it.
    child: i32,
    /// What became of that child.
    child_fate: Option<Fate>,
    enclosure: Option<Enclosure>,
    /// Learns where the command ends; in a sandbox that is done inside.
    follower: Option<Follower>,
    /// Why the command does not run.
    refused: Option<Refused>,
    fate: Option<Fate>,
    elapsed: Option<Duration>,
    /// Whether no child is left to wait for.
    alone: bool,
    family: Family,
    link: Link,
    owner_gone: bool,
    input: Option<Input>,
    outputs: Vec<Output>,
    signals: SignalFd,
    term_grace: Duration,
    phase: Phase,
    /// Why the command was stopped, if it was.
    stopped: Option<Stop>,
    buffer: Box<[u8]>,
}

impl Supervisor {
    pub(super) fn new(
        mut child: Child,
        inside: Option<Inside>,
        job: &Job,
        link: Link,
        signals: &SigSet,
    ) -> io::Result<Self> {
        let clock = SystemClock::new();
        let mut outputs = Vec::with_capacity(2);
        if let Some(pipe) = child.stdout.take() {
            outputs.push(Output {
                pipe: pipe.into(),
                kind: Frame::Stdout,
                late: 0,
            });
        }
        if let Some(pipe) = child.stderr.take() {
            outputs.push(Output {
                pipe: pipe.into(),
                kind: Frame::Stderr,
                late: 0,
            });
        }
        for output in &outputs {
            set_nonblocking(output.pipe.as_fd())?;
        }
        let input = child.stdin.take().map(|pipe| Input {
            pipe: pipe.into(),
            text: job.input.clone().unwrap_or_default().into_bytes(),
            given: 0,
            open: job.fed,
        });
        if let Some(input) = &input {
            set_nonblocking(input.pipe.as_fd())?;
        }
        let main = i32::try_from(child.id()).unwrap_or(i32::MAX);
        let timeout = Duration::from_millis(job.timeout_ms);
        let own = getpid().as_raw();
        let (family, patience) = match inside {
            None => (Family::new(own, main), timeout),
            Some(_) => (Family::enclosed(own, main), timeout.min(PATIENCE)),
        };
        let deadline = clock.monotonic() + patience;
        Ok(Self {
            clock,
            child: main,
            child_fate: None,
            follower: (job.follow && inside.is_none()).then(|| Follower::new(main, job)),
            enclosure: inside.map(|inside| Enclosure {
                inside,
                timeout,
                started: false,
                landlock: None,
                folder: Folder::Unknown,
            }),
            refused: None,
            fate: None,
            elapsed: None,
            alone: false,
            family,
            link,
            owner_gone: false,
            input,
            outputs,
            signals: SignalFd::with_flags(signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?,
            term_grace: Duration::from_millis(job.term_grace_ms),
            phase: Phase::Running { deadline },
            stopped: None,
            buffer: vec![0; CHUNK].into_boxed_slice(),
        })
    }

    /// Runs the command to its end and reports.
    pub(super) fn run(mut self) -> io::Result<()> {
        // The command may have ended before the signal descriptor was made.
        self.reap();
        loop {
            self.advance();
            if matches!(self.phase, Phase::Over) && (self.owner_gone || self.outputs.is_empty()) {
                break;
            }
            // Dropping it closes the pipe, which is the end of what there is to read.
            if self.fate.is_some() || self.input.as_mut().is_some_and(|input| !input.give()) {
                self.input = None;
            }
            self.wait()?;
            self.forward();
            if self.link.flush().is_err() {
                self.lose_owner();
            }
        }
        if self.owner_gone {
            return Ok(());
        }
        let report = self.report();
        self.link.report(&report)?;
        self.link.flush_all()
    }

    /// Moves to the next phase where the time or the state of the command calls for it.
    fn advance(&mut self) {
        let now = self.clock.monotonic();
        let over = self.fate.is_some() && self.alone;
        match self.phase {
            Phase::Over => {}
            _ if over => self.phase = Phase::Over,
            Phase::Running { .. } if self.fate.is_some() => {
                self.phase = Phase::Settling {
                    until: now + SETTLE,
                };
            }
            Phase::Running { deadline } if now >= deadline && !self.runs() => {
                self.refuse("it did not start the command in time".to_owned());
                self.phase = Phase::Killing { since: now };
                self.kill();
            }
            Phase::Running { deadline } if now >= deadline => {
                self.stopped = Some(Stop::Timeout);
                self.ask(self.term_grace);
            }
            Phase::Settling { until } if now >= until => self.ask(LEFTOVER_GRACE),
            Phase::Asked { until } if now >= until => {
                self.phase = Phase::Killing { since: now };
                self.kill();
            }
            Phase::Killing { since } if now >= since + KILLING => self.phase = Phase::Over,
            Phase::Killing { .. } => self.kill(),
            Phase::Running { .. } | Phase::Settling { .. } | Phase::Asked { .. } => {}
        }
    }

    /// Whether the command runs, or has run.
    fn runs(&self) -> bool {
        self.enclosure.as_ref().is_none_or(|one| one.started)
    }

    /// The command will not run.
    fn refuse(&mut self, reason: String) {
        self.refused.get_or_insert(Refused::Sandbox { reason });
    }

    /// Takes in what the first process inside a sandbox says.
    fn listen(&mut self) {
        let Some(enclosure) = &mut self.enclosure else {
            return;
        };
        for word in enclosure.inside.words() {
            match word {
                Word::Started { pid, landlock } if !enclosure.started => {
                    enclosure.started = true;
                    enclosure.landlock = landlock;
                    Frame::Started.append(&[], self.link.out());
                    self.family.find_main(pid);
                    if let Phase::Running { deadline } = &mut self.phase {
                        *deadline = self.clock.monotonic() + enclosure.timeout;
                    }
                }
                Word::Refused(refused) if !enclosure.started => {
                    self.refused.get_or_insert(refused);
                }
                Word::Folder(folder) => enclosure.folder = folder,
                Word::Exited(code) if enclosure.started => {
                    self.fate.get_or_insert(Fate::Exited(code));
                }
                Word::Signalled(signal) if enclosure.started => {
                    self.fate.get_or_insert(Fate::Signalled(signal));
                }
                // Out of turn: whoever says so is not what we started.
                Word::Started { .. } | Word::Refused(_) | Word::Exited(_) | Word::Signalled(_) => {}
            }
        }
    }

    /// The child has ended, and whatever it had to say has been heard.
    fn conclude(&mut self, fate: Fate) {
        if self.runs() {
            // The command's own word counts. Where there is none, its sandbox was killed over it,
            // which bubblewrap passes on the way a shell does.
            let fate = match (fate, &self.enclosure) {
                (Fate::Exited(code), Some(_)) if code > 128 => Fate::Signalled(code - 128),
                _ => fate,
            };
            self.fate.get_or_insert(fate);
            return;
        }
        self.fate.get_or_insert(fate);
        let outputs = std::mem::take(&mut self.outputs);
        if self.stopped.is_none() && self.refused.is_none() {
            let said: Vec<String> = outputs
                .into_iter()
                .map(|output| complaint(output.pipe))
                .filter(|text| !text.is_empty())
                .collect();
            let end = match fate {
                Fate::Exited(code) => format!("it ended with code {code}"),
                Fate::Signalled(signal) => format!("it was ended by signal {signal}"),
            };
            self.refuse([vec![end], said].concat().join(": "));
        }
    }

    /// Asks everything to end, and gives it `grace` to do so.
    fn ask(&mut self, grace: Duration) {
        self.family.terminate();
        self.phase = Phase::Asked {
            until: self.clock.monotonic() + grace,
        };
    }

    /// One sweep, and what came of it.
    fn kill(&mut self) {
        self.family.kill();
        self.reap();
        if self.fate.is_some() && self.alone {
            self.phase = Phase::Over;
        }
    }

    /// Ends everything because someone asked for it.
    fn cancel(&mut self) {
        let latest = self.clock.monotonic() + CANCEL_GRACE;
        match self.phase {
            Phase::Running { .. } if !self.runs() => {
                self.stopped = Some(Stop::Cancel);
                self.phase = Phase::Killing {
                    since: self.clock.monotonic(),
                };
            }
            Phase::Running { .. } => {
                self.stopped = Some(Stop::Cancel);
                self.ask(CANCEL_GRACE);
            }
            Phase::Settling { .. } => self.ask(LEFTOVER_GRACE),
            Phase::Asked { until } => {
                self.phase = Phase::Asked {
                    until: until.min(latest),
                }
            }
            Phase::Killing { .. } | Phase::Over => {}
        }
    }

    /// Ends everything at once: there is nobody left to be polite for.
    fn lose_owner(&mut self) {
        self.owner_gone = true;
        self.outputs.clear();
        if !matches!(self.phase, Phase::Killing { .. } | Phase::Over) {
            self.phase = Phase::Killing {
                since: self.clock.monotonic(),
            };
        }
    }

    /// Waits until something happens, then deals with signals and the owner.
    fn wait(&mut self) -> io::Result<()> {
        let timeout = self.timeout();
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(6);
        fds.push(PollFd::new(self.signals.as_fd(), PollFlags::POLLIN));
        if !self.owner_gone {
            fds.push(PollFd::new(self.link.input(), PollFlags::POLLIN));
            let flags = if self.link.backlog() > 0 {
                PollFlags::POLLOUT
            } else {
                PollFlags::empty()
            };
            fds.push(PollFd::new(self.link.output(), flags));
        }
        if let Some(enclosure) = &self.enclosure
            && self.child_fate.is_none()
        {
            fds.push(PollFd::new(
                enclosure.inside.pipe().as_fd(),
                PollFlags::POLLIN,
            ));
        }
        if self.link.has_room() && self.runs() {
            fds.extend(
                self.outputs
                    .iter()
                    .map(|one| PollFd::new(one.pipe.as_fd(), PollFlags::POLLIN)),
            );
        }
        if let Some(input) = self.input.as_ref().filter(|input| input.is_waiting()) {
            fds.push(PollFd::new(input.pipe.as_fd(), PollFlags::POLLOUT));
        }
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let happened = |index: usize| fds.get(index).and_then(PollFd::any).unwrap_or(false);
        let (signalled, spoken, closed) = (
            happened(0),
            !self.owner_gone && happened(1),
            !self.owner_gone && happened(2),
        );
        if signalled {
            self.take_signals();
        }
        self.hear();
        if spoken {
            self.obey();
        }
        // With nothing to send, the only event of the output is that nobody reads it any more.
        if closed && self.link.backlog() == 0 {
            self.lose_owner();
        }
        Ok(())
    }

    /// Does what the owner asks for.
    fn obey(&mut self) {
        for wish in self.link.wishes() {
            match wish {
                Wish::Cancel => self.cancel(),
                Wish::Gone => self.lose_owner(),
                Wish::Input(more) => {
                    if self.input.as_mut().is_some_and(|input| !input.take(&more)) {
                        self.input = None;
                    }
                }
                Wish::InputEnd => {
                    if let Some(input) = &mut self.input {
                        input.open = false;
                    }
                }
            }
        }
    }

    /// How long the loop may sleep.
    fn timeout(&self) -> PollTimeout {
        let now = self.clock.monotonic();
        let left = match self.phase {
            Phase::Running { deadline: until }
            | Phase::Settling { until }
            | Phase::Asked { until } => until.saturating_sub(now),
            Phase::Killing { .. } => SWEEP,
            // Only output is left to be forwarded: if none is there, the pipes are done with.
            Phase::Over if self.link.has_room() => return PollTimeout::ZERO,
            Phase::Over => return PollTimeout::NONE,
        };
        // One more millisecond, because the rounding down would make the loop spin at the end.
        let left = left.saturating_add(Duration::from_millis(1));
        PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
    }

    fn take_signals(&mut self) {
        let mut stop = false;
        while let Ok(Some(signal)) = self.signals.read_signal() {
            stop |= i32::try_from(signal.ssi_signo) != Ok(Signal::SIGCHLD as i32);
        }
        self.reap();
        if stop {
            self.cancel();
        }
    }

    /// Takes note of children that have ended, and lets the command go on where it was stopped for
    /// us.
    fn reap(&mut self) {
        self.alone = loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid.as_raw_nonzero().get() == self.child {
                        self.heard_of_child(status);
                    }
                }
                Ok(None) => break false,
                Err(error) if error == rustix::io::Errno::INTR => {}
                Err(_) => break true,
            }
        };
        if self.child_fate.is_none() && self.alone {
            // It can't be: only this function waits. Without an end there would be none.
            self.child_fate = Some(Fate::Signalled(0));
        }
        self.hear();
    }

    /// Learns from the sandbox, and from the end of the child, what became of the command.
    fn hear(&mut self) {
        self.listen();
        if let Some(fate) = self.child_fate
            && self.fate.is_none()
        {
            self.conclude(fate);
        }
        if self.fate.is_some() && self.elapsed.is_none() {
            self.elapsed = Some(self.clock.monotonic());
        }
    }

    fn heard_of_child(&mut self, status: WaitStatus) {
        if status.stopped() {
            if let Some(follower) = &mut self.follower {
                follower.stopped(status.as_raw());
            }
            return;
        }
        let exited = status.exit_status().map(Fate::Exited);
        let fate = exited.or_else(|| status.terminating_signal().map(Fate::Signalled));
        self.child_fate = self.child_fate.or(fate);
    }

    /// Passes on at most one chunk of each pipe, so that endless output starves neither the clock
    /// nor the owner's wishes.
    fn forward(&mut self) {
        if !self.runs() {
            return;
        }
        let over = matches!(self.phase, Phase::Over);
        let (link, buffer) = (&mut self.link, &mut self.buffer);
        self.outputs.retain_mut(|output| {
            if !link.has_room() {
                return true;
            }
            match read(output.pipe.as_fd(), buffer) {
                Ok(0) => false,
                Ok(length) => {
                    output
                        .kind
                        .append(buffer.get(..length).unwrap_or_default(), link.out());
                    output.late += if over { length } else { 0 };
                    output.late < LAST_BYTES
                }
                Err(Errno::EINTR) => true,
                // Nothing there. After the end that means that nothing more will come.
                Err(Errno::EAGAIN) => !over,
                Err(_) => false,
            }
        });
    }

    /// Where the command was at its end.
    fn folder(&self) -> Folder {
        match (&self.enclosure, &self.follower) {
            (Some(enclosure), _) => enclosure.folder.clone(),
            (None, Some(follower)) => follower.folder(),
            (None, None) => Folder::Unknown,
        }
    }

    fn report(&self) -> Report {
        let survivors = if self.alone {
            Vec::new()
        } else {
            self.family.survivors()
        };
        let (ended, ended_total) = self.family.ended(&survivors);
        let elapsed = self.elapsed.unwrap_or_else(|| self.clock.monotonic());
        let (exit_code, signal) = match self.fate {
            Some(Fate::Exited(code)) => (Some(code), None),
            Some(Fate::Signalled(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        Report {
            exit_code,
            signal,
            timed_out: self.stopped == Some(Stop::Timeout),
            cancelled: self.stopped == Some(Stop::Cancel),
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            ended,
            ended_total,
            survivors,
            folder: self.folder(),
            refused: self.refused.clone(),
            landlock: self.enclosure.as_ref().and_then(|one| one.landlock),
        }
    }
}
