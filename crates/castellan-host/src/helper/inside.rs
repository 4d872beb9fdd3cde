//! The first process of a sandbox: starts the command, waits for whatever ends, and says how the
//! command ended.
//!
//! It is the one to which orphans inside fall, and the kernel ends all others with it.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::process::{Child, Stdio};

use nix::sys::prctl;
use nix::unistd::{close, write};
use rustix::process::{WaitOptions, waitpid};

use super::filter::{Sockets, cut_off};
use super::{errno, start_with};
use crate::protocol::{Inner, JOB_LIMIT, Refused, Word};

/// Runs the command that standard input tells of.
pub(super) fn serve() -> io::Result<()> {
    // The command runs under the same user; it is not to speak in our name.
    prctl::set_dumpable(false)?;
    close_others();
    let inner = read()?;
    if inner.is_cut_off
        && let Err(error) = cut_off(Sockets::Internet)
    {
        return say(Word::Broken(errno(&error)));
    }
    let child = match start_with(&inner.program, &inner.args, &inner.cwd, &inner.env, Stdio::inherit) {
        Ok(child) => child,
        Err(Refused::WorkingFolder { errno }) => return say(Word::WorkingFolder(errno)),
        Err(Refused::Program { errno }) => return say(Word::Program(errno)),
        Err(Refused::Sandbox { .. }) => return say(Word::Broken(nix::libc::EINVAL)),
    };
    let pid = i32::try_from(child.id()).unwrap_or_default();
    say(Word::Started(pid))?;
    // Our own ends of the command's pipes, so that they end with the command and its children.
    drop(nix::unistd::dup2_stdout(io::stderr().as_fd()));
    wait(&child)
}

/// Closes what bubblewrap was handed for us beyond the standard three, above all this program.
fn close_others() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return;
    };
    let numbers: Vec<i32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        // One of them was the listing's own and is closed by now.
        close(number).unwrap_or_default();
    }
}

fn read() -> io::Result<Inner> {
    let mut input = io::stdin().lock();
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > JOB_LIMIT {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    let mut text = vec![0; length];
    input.read_exact(&mut text)?;
    serde_json::from_slice(&text).map_err(io::Error::from)
}

/// Standard input is a socket, which goes both ways.
fn say(word: Word) -> io::Result<()> {
    write(io::stdin().as_fd(), &word.to_bytes())?;
    Ok(())
}

/// Waits until nothing is left.
fn wait(child: &Child) -> io::Result<()> {
    let main = i32::try_from(child.id()).unwrap_or_default();
    loop {
        match waitpid(None, WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == main => {
                let word = status
                    .exit_status()
                    .map(Word::Exited)
                    .or_else(|| status.terminating_signal().map(Word::Signalled));
                if let Some(word) = word {
                    say(word)?;
                }
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Ok(()),
        }
    }
}
