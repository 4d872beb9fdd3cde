//! The helper's side of the two pipes to its owner.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{read, write};

use crate::protocol::{CANCEL, Frame, JOB_LIMIT, Job, Report};

/// Unsent bytes past which no more of the command's output is read.
const BACKLOG: usize = 256 * 1024;

/// What the owner asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// Nothing new.
    Nothing,
    /// End the command.
    Cancel,
    /// The owner is gone.
    Gone,
}

/// Standard input and output as a link to the owner, with a bounded backlog of unsent frames, so
/// that an owner who does not read holds up the command's output and nothing else.
#[derive(Debug)]
pub(super) struct Link {
    input: io::Stdin,
    output: io::Stdout,
    out: Vec<u8>,
    /// How much of `out` has been sent.
    sent: usize,
}

impl Link {
    pub(super) fn new() -> io::Result<Self> {
        let link = Self {
            input: io::stdin(),
            output: io::stdout(),
            out: Vec::new(),
            sent: 0,
        };
        set_nonblocking(link.output.as_fd())?;
        Ok(link)
    }

    /// Waits for the job. Reads the descriptor itself: the standard library's buffer would swallow
    /// control bytes.
    pub(super) fn read_job(&self) -> io::Result<Job> {
        let mut length = [0; 4];
        self.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > JOB_LIMIT {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        let mut text = vec![0; length];
        self.read_exact(&mut text)?;
        serde_json::from_slice(&text).map_err(io::Error::from)
    }

    fn read_exact(&self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match read(self.input.as_fd(), buffer) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Ok(length) => buffer = buffer.get_mut(length..).unwrap_or_default(),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Where control bytes arrive.
    pub(super) fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// Where frames leave.
    pub(super) fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// Reads what the owner asks for; to be called when the input is readable.
    pub(super) fn wish(&self) -> Wish {
        let mut bytes = [0; 16];
        match read(self.input.as_fd(), &mut bytes) {
            Ok(0) => Wish::Gone,
            Ok(length) if bytes.iter().take(length).any(|byte| *byte == CANCEL) => Wish::Cancel,
            Ok(_) | Err(Errno::EINTR | Errno::EAGAIN) => Wish::Nothing,
            Err(_) => Wish::Gone,
        }
    }

    /// The backlog, to append frames to.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Whether more output may be read from the command.
    pub(super) fn has_room(&self) -> bool {
        self.backlog() < BACKLOG
    }

    /// Bytes waiting to be sent.
    pub(super) fn backlog(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Sends as much of the backlog as the pipe takes. An error means that the owner is gone.
    pub(super) fn flush(&mut self) -> Result<(), Errno> {
        while let Some(rest) = self.out.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match write(self.output.as_fd(), rest) {
                Ok(length) => self.sent += length,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(error) => return Err(error),
            }
        }
        if self.backlog() == 0 {
            self.out.clear();
            self.sent = 0;
        } else if self.sent >= BACKLOG {
            // Forget what was sent, or the backlog would grow with everything ever sent.
            self.out.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    /// Appends the final frame.
    pub(super) fn report(&mut self, report: &Report) -> io::Result<()> {
        let text = serde_json::to_vec(report)?;
        Frame::Report.append(&text, &mut self.out);
        Ok(())
    }

    /// Sends the whole backlog, waiting as long as the owner lives. Nothing runs any more that
    /// would need attention meanwhile.
    pub(super) fn flush_all(&mut self) -> io::Result<()> {
        loop {
            self.flush()?;
            if self.backlog() == 0 {
                return Ok(());
            }
            let mut fds = [
                PollFd::new(self.output.as_fd(), PollFlags::POLLOUT),
                PollFd::new(self.input.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let spoke = fds.last().is_some_and(|input| input.any().unwrap_or(true));
            if spoke && self.wish() == Wish::Gone {
                return Ok(());
            }
        }
    }
}

/// Makes reads or writes of a pipe end return at once.
pub(super) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}
