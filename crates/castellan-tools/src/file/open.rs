//! Opening a file so that nothing but a regular file is ever read, and no open can hang.

use std::fs::{File, FileType, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use castellan_core::Outcome;

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
        let text = format!("{} is a folder; `bash` with `ls` lists it", path.display());
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
        path.display()
    )))
}

/// Where `path` really is, links followed; for a path that doesn't exist yet, the deepest existing
/// folder is resolved and the rest appended. A link to a missing file resolves to that file.
///
/// # Errors
/// [`Problem`] for a loop of links, or a folder on the way that can't be entered.
pub fn resolve(path: &Path) -> Result<PathBuf, Problem> {
    resolve_within(path, 40).and_then(recordable)
}

/// Records are Unicode: a file whose real name is not could be touched but not recorded.
fn recordable(path: PathBuf) -> Result<PathBuf, Problem> {
    if path.to_str().is_some() {
        return Ok(path);
    }
    let text = format!(
        "the name of {} is not valid UTF-8; rename it first",
        path.display()
    );
    Err(Problem::Unusable(text))
}

/// `hops` bounds how many dangling links are followed, as the kernel bounds links.
fn resolve_within(path: &Path, hops: u32) -> Result<PathBuf, Problem> {
    match path.canonicalize() {
        Ok(resolved) => return Ok(resolved),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(explain(path, &error)),
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Problem::Unusable(format!(
            "{} does not name a file",
            path.display()
        )));
    };
    match path.read_link() {
        Ok(target) if hops > 0 => resolve_within(&parent.join(target), hops - 1),
        Ok(_) => Err(Problem::Unusable(format!(
            "{} is a loop of links",
            path.display()
        ))),
        Err(_) => Ok(resolve_within(parent, hops)?.join(name)),
    }
}

/// What the system said about `path`, in words.
pub(crate) fn explain(path: &Path, error: &io::Error) -> Problem {
    let shown = path.display();
    let text = match error.raw_os_error() {
        Some(libc::ENOENT) => return Problem::Missing(format!("{shown} does not exist")),
        Some(libc::EACCES | libc::EPERM) => {
            format!("{shown} is not accessible: permission denied")
        }
        Some(libc::ELOOP) => format!("{shown} is a loop of links"),
        Some(libc::ENOTDIR) => format!("a part of {shown} is a file, not a folder"),
        // Opening a socket, or a device without a driver.
        Some(libc::ENXIO) => format!("{shown} is a socket or a device, not a regular file"),
        _ => format!("{shown} can't be used: {error}"),
    };
    Problem::Unusable(text)
}
