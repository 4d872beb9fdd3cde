//! Making the secrets of our own environment unreadable to children.
//!
//! A child with a clean environment can still read its ancestors': `/proc/PID/environ` shows the
//! memory a process was started with. So the values are overwritten there, through
//! `/proc/self/mem`, which takes no unsafe code. Then the process is made non-dumpable, which closes
//! its memory and descriptors to other processes of the same user. That stops neither root nor a
//! process allowed to trace others; the overwriting stops both, as far as the environment goes.
//!
//! Non-dumpable costs core dumps and, for a user other than root, opening files below `/proc/self`
//! that only the owner may read (`environ`, `mem`). What this house reads later, `/proc/self/exe`
//! to start helpers and the `stat` of other processes, stays readable. Children become dumpable
//! again with their exec.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;

use nix::sys::prctl;
use nix::unistd::{geteuid, getppid};

use super::names::{looks_secret, stays_readable};
use crate::procfs::Process;

/// Ancestors looked at; a longer line of descent is no ordinary one.
const ANCESTORS: usize = 32;
/// The field of `/proc/self/stat` with the start of the arguments, see proc(5).
const ARGUMENTS: usize = 48;
/// The same of the environment.
const ENVIRONMENT: usize = 50;
/// The longest environment block taken seriously; Linux's own limit is a few MiB.
const BLOCK_LIMIT: u64 = 64 * 1024 * 1024;

/// Whether the secrets of the environment are out of reach of children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hidden {
    /// Neither the environment nor, for processes of the same user, the memory shows them.
    Yes,
    /// Something is still open, as the text says.
    Partly(String),
    /// They are readable, for the reason given.
    No(String),
}

/// Overwrites what is not to be read, closes the memory, and looks at the ancestors.
pub(super) fn hide(vars: &BTreeMap<String, String>) -> Hidden {
    if let Err(error) = blank() {
        return Hidden::No(format!("the environment could not be overwritten: {error}"));
    }
    let mut open = Vec::new();
    if let Err(error) = prctl::set_dumpable(false) {
        open.push(format!(
            "the memory of this process stays readable: {error}"
        ));
    } else if geteuid().is_root() {
        open.push("this process runs as root, so a command can read its memory".to_owned());
    }
    if let Some((pid, name)) = revealing_ancestor(vars) {
        open.push(format!(
            "process {pid}, which started this one, still shows {name}"
        ));
    }
    if open.is_empty() {
        Hidden::Yes
    } else {
        Hidden::Partly(open.join("; "))
    }
}

/// Overwrites a secret wherever it stands in the arguments this process was started with, which
/// `/proc/PID/cmdline` shows to everyone.
pub(super) fn hide_argument(secret: &str) -> io::Result<()> {
    let Some((memory, start, bytes)) = open_block(ARGUMENTS)? else {
        return Ok(());
    };
    let secret = secret.as_bytes();
    let places =
        (0..bytes.len()).filter(|at| bytes.get(*at..).is_some_and(|b| b.starts_with(secret)));
    for place in places.filter(|_| !secret.is_empty()) {
        let position = start + u64::try_from(place).unwrap_or_default();
        memory.write_all_at(&vec![b'x'; secret.len()], position)?;
    }
    Ok(())
}

/// A block of our own memory: what of it, where it begins, and what is there.
fn open_block(field: usize) -> io::Result<Option<(File, u64, Vec<u8>)>> {
    let Some((start, length)) = block(field)? else {
        return Ok(None);
    };
    let memory = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/proc/self/mem")?;
    let mut bytes = vec![0; length];
    memory.read_exact_at(&mut bytes, start)?;
    Ok(Some((memory, start, bytes)))
}

/// Overwrites the values in the block of memory the process was started with.
fn blank() -> io::Result<()> {
    let Some((memory, start, bytes)) = open_block(ENVIRONMENT)? else {
        return Ok(());
    };
    let mut position = start;
    for entry in bytes.split_inclusive(|byte| *byte == 0) {
        blank_entry(&memory, entry, position)?;
        position += u64::try_from(entry.len()).unwrap_or_default();
    }
    Ok(())
}

/// Overwrites the value of one `NAME=value\0`, keeping its length.
fn blank_entry(memory: &File, entry: &[u8], position: u64) -> io::Result<()> {
    let content = entry.strip_suffix(b"\0").unwrap_or(entry);
    let Some(equals) = content.iter().position(|byte| *byte == b'=') else {
        return Ok(());
    };
    let (name, value) = content.split_at(equals + 1);
    let name = String::from_utf8_lossy(name);
    if value.is_empty() || stays_readable(name.trim_end_matches('=')) {
        return Ok(());
    }
    let offset = u64::try_from(equals + 1).unwrap_or_default();
    memory.write_all_at(&vec![b'x'; value.len()], position + offset)
}

/// Where a block is: this field of `/proc/self/stat` and the next. `None` for an empty block.
fn block(field: usize) -> io::Result<Option<(u64, usize)>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let odd = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "/proc/self/stat has another form",
        )
    };
    // Field 3 is the first after the name in parentheses.
    let (_, fields) = stat.rsplit_once(") ").ok_or_else(odd)?;
    let mut fields = fields.split_ascii_whitespace().skip(field - 3);
    let mut next = || {
        fields
            .next()
            .and_then(|field| field.parse::<u64>().ok())
            .ok_or_else(odd)
    };
    let (start, end) = (next()?, next()?);
    if start == 0 || end < start || end - start > BLOCK_LIMIT {
        return Err(odd());
    }
    let length = usize::try_from(end - start).map_err(io::Error::other)?;
    Ok((length > 0).then_some((start, length)))
}

/// The nearest ancestor whose environment holds one of our secrets, and that variable's name. We
/// can see it, so a command can. It is not ours to overwrite.
fn revealing_ancestor(vars: &BTreeMap<String, String>) -> Option<(i32, String)> {
    let mut pid = getppid().as_raw();
    for _ in 0..ANCESTORS {
        if pid <= 0 {
            return None;
        }
        let block = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        for entry in block.split(|byte| *byte == 0) {
            let entry = String::from_utf8_lossy(entry);
            if let Some((name, value)) = entry.split_once('=')
                && looks_secret(name)
                && !value.is_empty()
                && vars.get(name).is_some_and(|ours| ours == value)
            {
                return Some((pid, name.to_owned()));
            }
        }
        pid = Process::read(pid)?.parent;
    }
    None
}
