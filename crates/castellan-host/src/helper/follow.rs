//! Learns in which folder a command ends, without a change to its text, environment or descriptors.
//!
//! A process that has ended has no folder any more, so the kernel is asked to stop the command just
//! before its end (`PTRACE_O_TRACEEXIT`); that works however it ends, and whatever traps the text
//! sets. A shell often ends by becoming another program (`exec`, and of its own accord for the last
//! command of a text). That program's folder is not the shell's: git for one goes to the top of the
//! repository. So the shell's folder is read when it makes way, and the program runs unwatched.
//!
//! The kernel takes the privileges off a set-id program that a watched process becomes. Where a text
//! names such a program, the shell is stopped at each of its own system calls instead, and let go
//! before it makes way; what it starts as a child is not watched in any case.
//!
//! Not followed, and reported as unknown: a system without ptrace, a shell that was stopped by a
//! job-control signal, a folder whose name is not Unicode.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use nix::sys::ptrace::{self, Options};
use nix::unistd::{Pid, geteuid};

use crate::protocol::{Folder, Job};

/// The most words of a text that are looked up; a text with more is taken to name what gives
/// privileges.
const WORDS: usize = 2000;
/// The most folders a text names that relative paths are tried under.
const BASES: usize = 16;
/// What is or'ed to `SIGTRAP` for a stop at a system call.
const AT_CALL: i32 = 0x80;

/// Makes the command start stopped and watched. Where the kernel refuses, it starts unwatched.
pub(super) fn prepare(command: &mut Command) {
    let watch = || {
        // Whatever the answer is: the supervisor sees whether a stop comes.
        ptrace::traceme().unwrap_or_default();
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec. It makes one system call and does nothing
    // else: it allocates nothing, takes no lock and touches no memory of this process.
    #[expect(unsafe_code, reason = "the only way to act between fork and exec")]
    unsafe {
        command.pre_exec(watch);
    }
}

/// How a stopped command goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Until something happens.
    Run,
    /// Until its next system call.
    Call,
    /// For good, unwatched.
    Free,
}

/// A command that is watched.
#[derive(Debug)]
pub(super) struct Follower {
    pid: i32,
    /// Whether the stop that comes with its start has been seen.
    begun: bool,
    pace: Pace,
    folder: Folder,
}

impl Follower {
    /// Of a command that was [`prepare`]d.
    pub(super) fn new(pid: i32, job: &Job) -> Self {
        let pace = if gives_privileges(job) {
            Pace::Call
        } else {
            Pace::Run
        };
        Self {
            pid,
            begun: false,
            pace,
            folder: Folder::Unknown,
        }
    }

    /// Where the command was at its end, or where it made way. What it made way for may have
    /// removed that folder since.
    pub(super) fn folder(&self) -> Folder {
        match &self.folder {
            Folder::At(path) if !Path::new(path).is_dir() => Folder::Gone,
            known => known.clone(),
        }
    }

    /// Deals with a stop, told by a status of `wait`, and lets the command go on.
    pub(super) fn stopped(&mut self, status: i32) {
        let (signal, event) = ((status >> 8) & 0xff, status >> 16);
        match event {
            libc::PTRACE_EVENT_EXEC => self.let_go(),
            libc::PTRACE_EVENT_EXIT => {
                self.folder = folder_of(self.pid);
                self.go_on(self.pace, 0);
            }
            0 if !self.begun && signal == libc::SIGTRAP => self.begin(),
            0 if signal == (libc::SIGTRAP | AT_CALL) => {
                if makes_way(self.pid) {
                    self.let_go();
                } else {
                    self.go_on(self.pace, 0);
                }
            }
            0 if is_halt(signal) && self.is_halted() => {
                // Halted for good, not about to get a signal. It stays so until it is continued,
                // which only one that is not watched does properly.
                self.let_go();
            }
            0 => self.go_on(self.pace, signal),
            _ => self.go_on(self.pace, 0),
        }
    }

    /// The first stop comes right after the start, before the command has done anything.
    fn begin(&mut self) {
        self.begun = true;
        let options = Options::PTRACE_O_EXITKILL
            | Options::PTRACE_O_TRACEEXEC
            | Options::PTRACE_O_TRACEEXIT
            | Options::PTRACE_O_TRACESYSGOOD;
        let pace = match ptrace::setoptions(Pid::from_raw(self.pid), options) {
            Ok(()) => self.pace,
            Err(_) => Pace::Free,
        };
        self.go_on(pace, 0);
    }

    fn let_go(&mut self) {
        self.folder = folder_of(self.pid);
        self.go_on(Pace::Free, 0);
    }

    fn is_halted(&self) -> bool {
        ptrace::getsiginfo(Pid::from_raw(self.pid)) == Err(nix::errno::Errno::EINVAL)
    }

    /// Lets the command go on, with a signal where one was on its way to it.
    fn go_on(&self, pace: Pace, signal: i32) {
        let request = match pace {
            Pace::Run => libc::PTRACE_CONT,
            Pace::Call => libc::PTRACE_SYSCALL,
            Pace::Free => libc::PTRACE_DETACH,
        };
        let nowhere = std::ptr::null_mut::<libc::c_void>();
        // Not through a wrapper: those know no real-time signals.
        // SAFETY: these three requests read and write no memory of this process. For a process that
        // is gone or not ours the answer is an error, and there is nothing to be done about it.
        #[expect(unsafe_code, reason = "see above")]
        unsafe {
            libc::ptrace(request, self.pid, nowhere, i64::from(signal));
        }
    }
}

/// Whether a signal halts a process.
const fn is_halt(signal: i32) -> bool {
    matches!(
        signal,
        libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU
    )
}

/// Where a process is.
fn folder_of(pid: i32) -> Folder {
    let link = format!("/proc/{pid}/cwd");
    let read = || -> io::Result<Folder> {
        // The link of a folder that was removed still leads to it, and nothing else does.
        if fs::metadata(&link)?.nlink() == 0 {
            return Ok(Folder::Gone);
        }
        let path = fs::read_link(&link)?.into_os_string().into_string();
        Ok(match path {
            Ok(path) if path.starts_with('/') => Folder::At(path),
            Ok(_) | Err(_) => Folder::Unknown,
        })
    };
    read().unwrap_or_default()
}

/// Whether a process that is stopped at a system call is about to become another program.
fn makes_way(pid: i32) -> bool {
    let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let number = call.split_ascii_whitespace().next();
    number
        .and_then(|number| number.parse().ok())
        .is_some_and(|number: i64| [libc::SYS_execve, libc::SYS_execveat].contains(&number))
}

/// Whether a command names a program that gives privileges to who runs it, by a name on the search
/// path, or by a path from where it starts or from a folder it names. For the superuser none does:
/// it may watch such programs.
fn gives_privileges(job: &Job) -> bool {
    if geteuid().is_root() {
        return false;
    }
    let path = job.env.iter().find(|(name, _)| name == "PATH");
    let folders: Vec<&str> = path.map_or_else(Vec::new, |(_, path)| path.split(':').collect());
    let in_word = |letter: char| letter.is_alphanumeric() || "_-+./@".contains(letter);
    let words: BTreeSet<&str> = job
        .args
        .iter()
        .flat_map(|text| text.split(|letter| !in_word(letter)))
        .filter(|word| !word.is_empty())
        .take(WORDS + 1)
        .collect();
    let named = words.iter().map(|word| job.cwd.join(word));
    let mut bases = vec![job.cwd.clone()];
    bases.extend(named.filter(|path| path.is_dir()).take(BASES));
    words.len() > WORDS
        || words.into_iter().any(|word| {
            if word.contains('/') {
                return bases.iter().any(|base| has_privileges(&base.join(word)));
            }
            folders
                .iter()
                .any(|folder| has_privileges(&Path::new(folder).join(word)))
        })
}

/// Whether a file is a program that gives privileges: set-user-id, set-group-id, or capabilities.
fn has_privileges(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else {
        return false;
    };
    let mode = metadata.permissions().mode();
    metadata.is_file()
        && mode & 0o111 != 0
        && (mode & 0o6000 != 0
            || rustix::fs::getxattr(path, c"security.capability", &mut [0_u8; 64]).is_ok())
}
