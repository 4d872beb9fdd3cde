//! The first process of a sandbox: takes on what is left of the restrictions, starts the command,
//! waits for whatever ends, and says how the command ended.
//!
//! Under bubblewrap it is the one to which orphans inside fall, and the kernel ends all others with
//! it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::process::Child;

use nix::sys::prctl;
use nix::unistd::close;
use rustix::process::{WaitOptions, wait};

use super::fence::restrict;
use super::filter::{Sockets, cut_off};
use super::follow::Follower;
use super::{Streams, start};
use crate::protocol::{Job, Refused, Word};
use crate::sandbox::{Network, Rung, SandboxPolicy};

/// Runs the command that the file `job` tells of, and says what happens into the pipe `words`.
pub(super) fn serve(job: &str, words: &str) -> io::Result<()> {
    // The command runs under the same user; it is not to speak in our name.
    prctl::set_dumpable(false)?;
    prctl::set_name(c"castellan-shell")?;
    let job: Job = serde_json::from_slice(&fs::read(job)?)?;
    let mut words = OpenOptions::new().write(true).open(words)?;
    close_others(words.as_raw_fd());

    let enclosed = match &job.sandbox {
        Some(policy) => enclose(policy),
        None => Err("there is nothing to take on".to_owned()),
    };
    let started = enclosed
        .map_err(|reason| Refused::Sandbox { reason })
        .and_then(|landlock| Ok((start(&job, Streams::Inherited)?, landlock)));
    match started {
        Ok((child, landlock)) => {
            let pid = i32::try_from(child.id()).unwrap_or_default();
            say(&mut words, &Word::Started { pid, landlock })?;
            wait_for_all(&child, &job, &mut words)
        }
        Err(refused) => say(&mut words, &Word::Refused(refused)),
    }
}

/// Takes on what the sandbox does not bring by itself. Returns the version of Landlock in force.
fn enclose(policy: &SandboxPolicy) -> Result<Option<u32>, String> {
    match &policy.rung {
        Rung::Bubblewrap { .. } => {
            if policy.network == Network::Deny {
                cut_off(Sockets::Internet).map_err(|error| format!("seccomp refuses: {error}"))?;
            }
            Ok(None)
        }
        Rung::Landlock { .. } => restrict(policy).map(Some),
        Rung::None { why } => Err(why.clone()),
    }
}

/// Closes what was handed to us beyond the standard three and `kept`, above all this program.
fn close_others(kept: i32) {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return;
    };
    let numbers: Vec<i32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2 && *number != kept)
        .collect();
    for number in numbers {
        // One of them was the listing's own and is closed by now.
        close(number).unwrap_or_default();
    }
}

fn say(words: &mut File, word: &Word) -> io::Result<()> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    words.write_all(&line)
}

/// Waits until nothing is left.
fn wait_for_all(child: &Child, job: &Job, words: &mut File) -> io::Result<()> {
    let main = i32::try_from(child.id()).unwrap_or_default();
    let mut follower = job.follow.then(|| Follower::new(main, job));
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == main => {
                if status.stopped() {
                    if let Some(follower) = &mut follower {
                        follower.stopped(status.as_raw());
                    }
                    continue;
                }
                if let Some(follower) = &follower {
                    say(words, &Word::Folder(follower.folder()))?;
                }
                let word = status
                    .exit_status()
                    .map(Word::Exited)
                    .or_else(|| status.terminating_signal().map(Word::Signalled));
                if let Some(word) = word {
                    say(words, &word)?;
                }
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Ok(()),
        }
    }
}
