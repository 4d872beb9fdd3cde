//! The helper's side of the two pipes to its owner.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{read, write};

use crate::protocol::{CANCEL, Frame, INPUT, INPUT_END, INPUT_LIMIT, JOB_LIMIT, Job, Report};

/// Unsent bytes past which no more of the command's output is read.
const BACKLOG: usize = 256 * 1024;

/// Bytes taken from the owner at a time.
const HEARD: usize = 16 * 1024;

/// What the owner asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    /// End the command.
    Cancel,
    /// Give the command this to read.
    Input(Vec<u8>),
    /// There is nothing more for it to read.
    InputEnd,
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
    /// The beginning of a wish that has not come whole.
    heard: Vec<u8>,
}

impl Link {
    pub(super) fn new() -> io::Result<Self> {
        let link = Self {
            input: io::stdin(),
            output: io::stdout(),
            out: Vec::new(),
            sent: 0,
            heard: Vec::new(),
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
    pub(super) fn wishes(&mut self) -> Vec<Wish> {
        let mut bytes = [0; HEARD];
        match read(self.input.as_fd(), &mut bytes) {
            Ok(0) => return vec![Wish::Gone],
            Ok(length) => self
                .heard
                .extend_from_slice(bytes.get(..length).unwrap_or_default()),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(_) => return vec![Wish::Gone],
        }
        take_wishes(&mut self.heard)
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
            if spoke && self.wishes().contains(&Wish::Gone) {
                return Ok(());
            }
        }
    }
}

/// Takes the whole wishes off the bytes that were heard.
fn take_wishes(heard: &mut Vec<u8>) -> Vec<Wish> {
    let mut wishes = Vec::new();
    let mut rest = heard.as_slice();
    while let Some((&kind, after)) = rest.split_first() {
        rest = match kind {
            CANCEL => {
                wishes.push(Wish::Cancel);
                after
            }
            INPUT_END => {
                wishes.push(Wish::InputEnd);
                after
            }
            INPUT => {
                let Some((length, content)) = after.split_first_chunk::<4>() else {
                    break;
                };
                let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
                if length > INPUT_LIMIT {
                    // Not what our owner sends: whatever it is, the command ends.
                    wishes.push(Wish::Gone);
                    break;
                }
                let Some((text, after)) = content.split_at_checked(length) else {
                    break;
                };
                wishes.push(Wish::Input(text.to_vec()));
                after
            }
            _ => after,
        };
    }
    let used = heard.len() - rest.len();
    heard.drain(..used);
    wishes
}

/// Makes reads or writes of a pipe end return at once.
pub(super) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_understood_wherever_they_are_cut() {
        let mut sent = vec![
            INPUT, 3, 0, 0, 0, b'c', b'e', b'i', CANCEL, INPUT, 0, 0, 0, 0,
        ];
        sent.push(INPUT_END);
        let whole = [
            Wish::Input(b"cei".to_vec()),
            Wish::Cancel,
            Wish::Input(Vec::new()),
            Wish::InputEnd,
        ];
        for cut in 0..=sent.len() {
            let (first, second) = sent.split_at(cut);
            let mut heard = first.to_vec();
            let mut wishes = take_wishes(&mut heard);
            heard.extend_from_slice(second);
            wishes.extend(take_wishes(&mut heard));
            assert_eq!(wishes, whole, "cut at {cut}");
            assert!(heard.is_empty());
        }
    }

    #[test]
    fn an_input_past_every_bound_is_no_wish_of_ours() {
        let mut heard = vec![INPUT, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(take_wishes(&mut heard), [Wish::Gone]);
    }
}
