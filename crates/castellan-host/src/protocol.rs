//! What the owner of a command and its helper say to each other.
//!
//! Owner to helper, on the helper's stdin: a length (4 bytes, little endian), a [`Job`] as JSON,
//! then control bytes, of which [`INPUT`] is followed by a length and that many bytes. The end of
//! that stream means that the owner is gone.
//!
//! Helper to owner, on its stdout: frames of a kind (1 byte), a length (4 bytes, little endian) and
//! that many bytes. The last frame is the report.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sandbox::SandboxPolicy;

/// Control byte: end everything now, politely first.
pub(crate) const CANCEL: u8 = b'c';

/// Control byte: more for the command to read, as a length (4 bytes, little endian) and that many
/// bytes.
pub(crate) const INPUT: u8 = b'i';

/// Control byte: there is nothing more for the command to read.
pub(crate) const INPUT_END: u8 = b'e';

/// The most bytes that wait for a command to read them. One that leaves more unread gets no more.
pub(crate) const INPUT_LIMIT: usize = 16 * 1024 * 1024;

/// The longest job accepted. Linux itself takes a few MiB of arguments and environment.
pub(crate) const JOB_LIMIT: usize = 16 * 1024 * 1024;

/// The longest frame accepted. Output frames are one read long, a report is bounded by its lists.
pub(crate) const FRAME_LIMIT: usize = 4 * 1024 * 1024;

/// The most processes a report names one by one.
pub(crate) const LISTED: usize = 50;

/// Bytes before the content of a frame.
pub(crate) const HEADER: usize = 5;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Frame {
    /// Bytes the command wrote to its standard output.
    Stdout = 1,
    /// Bytes the command wrote to its standard error.
    Stderr = 2,
    /// The [`Report`], as JSON.
    Report = 3,
    /// From here on the command may have had effects; empty.
    Starting = 4,
    /// The command runs; empty.
    Started = 5,
}

impl Frame {
    /// The kind with that number.
    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Stdout),
            2 => Some(Self::Stderr),
            3 => Some(Self::Report),
            4 => Some(Self::Starting),
            5 => Some(Self::Started),
            _ => None,
        }
    }

    /// Appends a frame of this kind to `out`. Content past the limit is left out, which no caller
    /// reaches: output is cut into reads, and reports are bounded.
    pub(crate) fn append(self, content: &[u8], out: &mut Vec<u8>) {
        let content = content.get(..FRAME_LIMIT).unwrap_or(content);
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        out.push(self as u8);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(content);
    }
}

/// What the helper is to run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    pub(crate) cwd: PathBuf,
    /// The whole environment: nothing is inherited.
    pub(crate) env: Vec<(String, String)>,
    /// What the command reads; nothing where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<String>,
    /// Whether more to read may follow by [`INPUT`], until [`INPUT_END`].
    #[serde(default)]
    pub(crate) fed: bool,
    pub(crate) timeout_ms: u64,
    /// Time between the polite and the final signal after a timeout.
    pub(crate) term_grace_ms: u64,
    /// What the command is enclosed in, if in anything.
    pub(crate) sandbox: Option<SandboxPolicy>,
    /// Whether the folder in which the command ends is wanted.
    #[serde(default)]
    pub(crate) follow: bool,
}

/// What the first process inside a sandbox says, each on a line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Word {
    /// The command runs.
    Started {
        /// Its process id as seen inside.
        pid: i32,
        /// The version of Landlock that is in force, where it is.
        landlock: Option<u32>,
    },
    /// The command does not run.
    Refused(Refused),
    /// Where the command was at its end; said before that.
    Folder(Folder),
    /// The command exited with this code.
    Exited(i32),
    /// The command was ended by the signal of this number.
    Signalled(i32),
}

/// How it went.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) timed_out: bool,
    pub(crate) cancelled: bool,
    pub(crate) elapsed_ms: u64,
    pub(crate) ended: Vec<Ended>,
    pub(crate) ended_total: usize,
    pub(crate) survivors: Vec<Survivor>,
    #[serde(default)]
    pub(crate) folder: Folder,
    /// Set when the command was never started.
    pub(crate) refused: Option<Refused>,
    /// The version of Landlock that is in force, where it is.
    pub(crate) landlock: Option<u32>,
}

/// Where a command was when it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Folder {
    /// Not known: nobody asked, or it could not be learned.
    #[default]
    Unknown,
    /// In this folder, absolute, links resolved.
    At(String),
    /// In a folder that no longer exists.
    Gone,
}

/// Why a command was never started; `errno` is the system's number.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Refused {
    /// The working folder cannot be entered.
    WorkingFolder { errno: i32 },
    /// The program cannot be executed.
    Program { errno: i32 },
    /// The sandbox could not be put up.
    Sandbox { reason: String },
}

/// A process that was left over when its command ended, or stopped with it, and was ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its process id.
    pub pid: i32,
    /// Its command line, clipped.
    pub command: String,
    /// What it took.
    pub how: Way,
}

/// What it took to end a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// It ended when asked (`SIGTERM`).
    Terminated,
    /// It had to be killed (`SIGKILL`).
    Killed,
}

/// A process that outlived even `SIGKILL`, such as one stuck in the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    /// Its process id.
    pub pid: i32,
    /// Its command line, clipped.
    pub command: String,
}
