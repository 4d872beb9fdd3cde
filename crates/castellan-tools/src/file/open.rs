//! Opening a file so that nothing but a regular file is ever read, and no open can hang.

use std::ffi::OsString;
use std::fs::{File, FileType, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use castellan_core::Outcome;
use castellan_core::text::{one_line, shorten};
use nix::sys::statfs::{
    BPF_FS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, FsType, PROC_SUPER_MAGIC,
    SECURITYFS_MAGIC, SELINUX_MAGIC, SYSFS_MAGIC, TRACEFS_MAGIC, statfs,
};

/// Bytes of a path; the kernel takes no longer ones.
const LONGEST: usize = 4096;
/// Dangling links followed, as many as the kernel follows of others.
const HOPS: u32 = 40;
/// Characters shown of a path.
const SHOWN: usize = 1000;

/// A regular file, open for reading.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: File,
    /// What the open file is, not what the path was a moment ago.
    pub metadata: Metadata,
    /// Where it really is, links followed.
    pub path: PathBuf,
}

/// Why a path can't be used, in words for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// Nothing is there.
    Missing(String),
    /// Something is there that can't be used.
    Unusable(String),
}

impl From<Problem> for Outcome {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Missing(what) => {
                Self::failed(what, "check the path; `bash` with `ls` lists a folder")
            }
            Problem::Unusable(what) => Self::failed(what, ""),
        }
    }
}

/// Opens the regular file at `path` for reading.
///
/// # Errors
/// [`Problem`], which names the kind of what isn't a regular file.
pub fn open(path: &Path) -> Result<Opened, Problem> {
    let file = File::options()
        .read(true)
        // A FIFO without a writer must not block the open.
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(|error| explain(path, &error))?;
    let metadata = file.metadata().map_err(|error| explain(path, &error))?;
    require_regular(path, metadata.file_type())?;
    let resolved = path.canonicalize().map_err(|error| explain(path, &error))?;
    let resolved = recordable(resolved)?;
    Ok(Opened {
        file,
        metadata,
        path: resolved,
    })
}

/// Opens what a folder was seen to hold, for reading, unless it is a link or no longer a regular
/// file: between the look and the open it may have become anything.
///
/// # Errors
/// What the system says; `None` is what is no regular file.
pub(crate) fn open_listed(path: &Path) -> io::Result<Option<File>> {
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path);
    match opened {
        Ok(file) => Ok(file.metadata()?.is_file().then_some(file)),
        // A link that appeared; a file or folder that went away.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENOENT)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses whatever is not a regular file, by its kind.
///
/// # Errors
/// [`Problem::Unusable`].
pub(crate) fn require_regular(path: &Path, kind: FileType) -> Result<(), Problem> {
    let word = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        let text = format!("{} is a folder; `bash` with `ls` lists it", shown(path));
        return Err(Problem::Unusable(text));
    } else if kind.is_fifo() {
        "a named pipe (FIFO)"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_char_device() {
        "a character device"
    } else if kind.is_block_device() {
        "a block device"
    } else {
        "not a regular file"
    };
    Err(Problem::Unusable(format!(
        "{} is {word}, not a regular file",
        shown(path)
    )))
}

/// File systems whose files are the kernel's own: looking like files on a disk, they take some writes
/// and no others.
const OF_THE_KERNEL: [(FsType, &str); 9] = [
    (PROC_SUPER_MAGIC, "proc"),
    (SYSFS_MAGIC, "sysfs"),
    (CGROUP_SUPER_MAGIC, "cgroup"),
    (CGROUP2_SUPER_MAGIC, "cgroup2"),
    (DEBUGFS_MAGIC, "debugfs"),
    (TRACEFS_MAGIC, "tracefs"),
    (SECURITYFS_MAGIC, "securityfs"),
    (SELINUX_MAGIC, "selinux"),
    (BPF_FS_MAGIC, "bpf"),
];

/// Refuses a file that is the kernel's own, by its kind: its content is not kept and replaced.
///
/// # Errors
/// [`Problem::Unusable`].
pub fn require_kept(path: &Path) -> Result<(), Problem> {
    // Who can't ask is told by the write itself.
    let Ok(found) = statfs(path) else {
        return Ok(());
    };
    let kind = found.filesystem_type();
    let Some((_, name)) = OF_THE_KERNEL.iter().find(|(known, _)| *known == kind) else {
        return Ok(());
    };
    Err(Problem::Unusable(format!(
        "{} is a file of the kernel's ({name}), not a regular file; `bash` can write to one",
        shown(path)
    )))
}

/// Opens the regular file at `path`, which [`resolve`] gave, for reading. What was judged is that
/// path: where a link has come in since, nothing behind it is opened.
///
/// # Errors
/// [`Problem`].
pub fn open_resolved(path: &Path) -> Result<Opened, Problem> {
    let opened = open(path)?;
    if opened.path == path {
        return Ok(opened);
    }
    Err(moved(path, &opened.path))
}

/// Refuses `path`, which [`resolve`] gave, where it leads elsewhere now.
///
/// # Errors
/// [`Problem`].
pub fn require_unmoved(path: &Path) -> Result<(), Problem> {
    let now = resolve(path)?;
    if now == path {
        return Ok(());
    }
    Err(moved(path, &now))
}

fn moved(path: &Path, now: &Path) -> Problem {
    Problem::Unusable(format!(
        "{} changed while the call waited: it leads to {} now; nothing was done",
        shown(path),
        shown(now)
    ))
}

/// Where `path` really is, links followed; for a path that doesn't exist yet, the deepest existing
/// folder is resolved and the rest appended. A link to a missing file resolves to that file.
///
/// # Errors
/// [`Problem`] for a loop of links, or a folder on the way that can't be entered.
pub fn resolve(path: &Path) -> Result<PathBuf, Problem> {
    if path.as_os_str().len() > LONGEST {
        return Err(too_long(path));
    }
    let mut hops = HOPS;
    let mut missing: Vec<OsString> = Vec::new();
    let mut at = path.to_owned();
    loop {
        match at.canonicalize() {
            Ok(mut resolved) => {
                resolved.extend(missing.iter().rev());
                return recordable(resolved);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(explain(path, &error)),
        }
        // An open pipe, say, has no name of its own, though a path below `/proc` leads to it.
        if let Ok(metadata) = at.metadata() {
            require_regular(path, metadata.file_type())?;
            let text = format!("{} leads to a file that has no name any more", shown(path));
            return Err(Problem::Unusable(text));
        }
        let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else {
            // Only what ends with `..` has no name.
            let text = format!("a folder on the way to {} does not exist", shown(path));
            return Err(Problem::Missing(text));
        };
        match at.read_link() {
            Ok(_) if hops == 0 => return Err(loop_of_links(path)),
            Ok(target) => {
                hops -= 1;
                at = parent.join(target);
            }
            Err(_) => {
                missing.push(name.to_owned());
                at = parent.to_owned();
            }
        }
    }
}

/// Records are Unicode: a file whose real name is not could be touched but not recorded.
fn recordable(path: PathBuf) -> Result<PathBuf, Problem> {
    if path.to_str().is_some() {
        return Ok(path);
    }
    let text = format!(
        "the name of {} is not valid UTF-8; rename it first",
        shown(&path)
    );
    Err(Problem::Unusable(text))
}

fn loop_of_links(path: &Path) -> Problem {
    Problem::Unusable(format!("{} is a loop of links", shown(path)))
}

fn too_long(path: &Path) -> Problem {
    Problem::Unusable(format!(
        "{} is too long for a path, or a name in it is",
        shown(path)
    ))
}

/// A path in an answer: one line, however it is named, and of bounded length.
pub(crate) fn shown(path: &Path) -> String {
    shorten(&one_line(&path.to_string_lossy()), SHOWN)
}

/// What the system said about `path`, in words.
pub(crate) fn explain(path: &Path, error: &io::Error) -> Problem {
    let shown = shown(path);
    let text = match error.raw_os_error() {
        Some(libc::ENOENT) => return Problem::Missing(format!("{shown} does not exist")),
        Some(libc::EACCES | libc::EPERM) => {
            format!("{shown} is not accessible: permission denied")
        }
        Some(libc::ELOOP) => return loop_of_links(path),
        Some(libc::ENAMETOOLONG) => return too_long(path),
        Some(libc::ENOTDIR) => format!("a part of {shown} is a file, not a folder"),
        // A kernel's stream, such as /proc/kmsg, looks like a file until it is read.
        Some(libc::EAGAIN) => format!("{shown} is a stream, not a regular file"),
        // Opening a socket, or a device without a driver.
        Some(libc::ENXIO) => format!("{shown} is a socket or a device, not a regular file"),
        _ => format!("{shown} can't be used: {error}"),
    };
    Problem::Unusable(text)
}
